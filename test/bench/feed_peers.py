"""Contenders: other ways to bring rows from one process, or one thread, to another.

    feed_peers.py flight|queue|generator

Each answers carry(kind, rows) with the seconds from the first row sent to the last one received.
"""

import itertools
import multiprocessing
import sys
import time

import feed_rows

BATCH_ROWS = feed_rows.SMALL_BATCH


def batches(kind, rows):
    """Batches of arrays, `rows` rows in all."""
    made = feed_rows.arrays(kind, feed_rows.DISTINCT_ROWS[kind])
    slices = [{name: column[i:i + BATCH_ROWS] for name, column in made.items()}
              for i in range(0, len(made["x"]), BATCH_ROWS)]
    return list(itertools.islice(itertools.cycle(slices), rows // BATCH_ROWS))


# ---- Arrow Flight: DoGet over TCP, with batches of 1 MiB


def serve_flight(pipe):
    from pyarrow import RecordBatchReader, flight

    class Server(flight.FlightServerBase):
        tables = {kind: feed_rows.table(kind, 64 * feed_rows.LARGE_BATCH[kind])
                  for kind in feed_rows.WIDTHS}

        def do_get(self, context, ticket):
            kind, rows = ticket.ticket.decode().split()
            size = feed_rows.LARGE_BATCH[kind]
            slices = itertools.cycle(self.tables[kind].to_batches(size))
            reader = RecordBatchReader.from_batches(self.tables[kind].schema,
                                                    itertools.islice(slices, int(rows) // size))
            return flight.RecordBatchStream(reader)

    server = Server("grpc+tcp://127.0.0.1:0")
    pipe.send(server.port)
    pipe.recv()
    server.shutdown()


def flight():
    from pyarrow import flight

    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve_flight, args=(theirs,), daemon=True)
    server.start()
    client = flight.connect(f"grpc+tcp://127.0.0.1:{ours.recv()}")

    def carry(kind, rows):
        size = feed_rows.LARGE_BATCH[kind]
        received = 0
        begin = time.monotonic()
        for chunk in client.do_get(flight.Ticket(f"{kind} {rows}".encode())):
            received += chunk.data.num_rows
        took = time.monotonic() - begin
        assert received == rows // size * size
        return took

    return carry


# ---- multiprocessing.Queue


def drain(queue, done):
    """Answers each None with the number of rows before it, and when the last of them came."""
    received, last = 0, 0
    while True:
        batch = queue.get()
        if batch is None:
            done.send((received, last))
            received = 0
        else:
            received += len(batch["x"])
            last = time.monotonic()


def process_queue():
    queue = multiprocessing.Queue(64)
    ours, theirs = multiprocessing.Pipe()
    consumer = multiprocessing.Process(target=drain, args=(queue, theirs), daemon=True)
    consumer.start()

    def carry(kind, rows):
        made = batches(kind, rows)
        begin = time.monotonic()
        for batch in made:
            queue.put(batch)
        queue.put(None)
        received, last = ours.recv()
        assert received == len(made) * BATCH_ROWS
        return last - begin

    return carry


# ---- tf.data.Dataset.from_generator, in one process


def generator():
    import tensorflow

    def carry(kind, rows):
        made = batches(kind, rows)
        signature = {"x": tensorflow.TensorSpec((None, feed_rows.WIDTHS[kind]), tensorflow.float32)}
        if kind == "wide":
            signature["y"] = tensorflow.TensorSpec((None,), tensorflow.int64)
        dataset = tensorflow.data.Dataset.from_generator(lambda: iter(made),
                                                         output_signature=signature)
        received = 0
        begin = time.monotonic()
        for batch in dataset:
            received += batch["x"].shape[0]
        took = time.monotonic() - begin
        assert received == len(made) * BATCH_ROWS
        return took

    return carry


if __name__ == "__main__":
    carry = {"flight": flight, "queue": process_queue, "generator": generator}[sys.argv[1]]()
    feed_rows.serve({"carry": carry})
