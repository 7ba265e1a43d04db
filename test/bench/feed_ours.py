"""Contender: the feed of this library, from a Python process into a task.

    feed_ours.py KIND BATCH_ROWS ADDRESS

feeds rows of a kind into a task of the node at ADDRESS, which takes them in batches of BATCH_ROWS.
carry(source, rows) answers with the seconds from the first row put until the task has consumed the
last one.
"""

import sys
import time

import feed_rows
import tfcluster as tfc

DISTINCT_LISTS = {"wide": 4096, "narrow": 262144}


def consume(ctx, batch_rows):
    for _ in ctx.feed("train").batches(batch_rows):
        pass


class Ours:
    def __init__(self, kind, feed):
        self.feed = feed
        rows = feed_rows.DISTINCT_ROWS[kind]
        lists = DISTINCT_LISTS[kind]
        self.sources = {"numpy": (feed_rows.arrays(kind, rows), rows),
                        "arrow": (feed_rows.table(kind, rows), rows),
                        "lists": (feed_rows.lists(kind, lists), lists)}

    def carry(self, source, rows):
        """Of a multiple of the rows of the source."""
        data, distinct = self.sources[source]
        begin = time.monotonic()
        self.feed.put(data, epochs=rows // distinct).wait()
        return (time.monotonic() - begin) * rows / (rows // distinct * distinct)


def main():
    kind, batch_rows, address = sys.argv[1:]
    with tfc.run(consume, args=(int(batch_rows),), workers=1, framework="none",
                 gateway=address) as job:
        with job.feed("train") as feed:
            ours = Ours(kind, feed)
            feed_rows.serve({"carry": ours.carry})


if __name__ == "__main__":
    main()
