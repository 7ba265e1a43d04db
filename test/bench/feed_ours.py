"""Contender: the feed of this library, from a Python process into a task.

    feed_ours.py KIND BATCH_ROWS ADDRESS [--read]

feeds rows of a kind into a task of the node at ADDRESS, which takes them in batches of BATCH_ROWS; 0:
as they arrive; with --read it also reads them. carry(source, rows) answers with the seconds from the
first row put until the task has consumed the last one; map(count) with the seconds that map_batches
takes for each of `count` partitions of one row.
"""

import itertools
import sys
import time

import feed_rows
import tfcluster as tfc

DISTINCT_LISTS = {"wide": 4096, "narrow": 262144}


def consume(ctx, batch_rows, reads):
    """Takes one queue after the other, one for each measurement."""
    for number in itertools.count():
        for batch in ctx.feed(str(number)).batches(batch_rows or None):
            if reads:
                batch["x"].sum()


class Ours:
    def __init__(self, kind, address, job):
        self.address = address
        self.job = job
        self.numbers = itertools.count()
        rows, lists = feed_rows.DISTINCT_ROWS[kind], DISTINCT_LISTS[kind]
        self.sources = {"numpy": (feed_rows.arrays(kind, rows), rows),
                        "arrow": (feed_rows.table(kind, rows), rows),
                        "lists": (feed_rows.lists(kind, lists), lists)}

    def carry(self, source, rows):
        data, distinct = self.sources[source]
        epochs = -(-rows // distinct)
        with self.job.feed(str(next(self.numbers))) as feed:
            begin = time.monotonic()
            feed.put(data, epochs=epochs)
        return (time.monotonic() - begin) * rows / (epochs * distinct)

    def map(self, count):
        row = feed_rows.arrays("narrow", 1)
        results = tfc.map_batches(lambda batch: batch["x"][:, 0], tfc.Partitions([row] * count),
                                  workers=1, framework="none", gateway=self.address,
                                  python=sys.executable)
        next(results)  # the worker runs
        begin = time.monotonic()
        assert sum(len(result) for result in results) == count - 1
        return (time.monotonic() - begin) / (count - 1)


def main():
    kind, batch_rows, address, *words = sys.argv[1:]
    with tfc.run(consume, args=(int(batch_rows), words == ["--read"]), workers=1, framework="none",
                 gateway=address, python=sys.executable) as job:
        ours = Ours(kind, address, job)
        feed_rows.serve({"carry": ours.carry, "map": ours.map})
        job.stop()


if __name__ == "__main__":
    main()
