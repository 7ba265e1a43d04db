"""The feed in Python: what the driver puts, and what the tasks of a real job get."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from typing import Any

import numpy as np
import tfcluster as tfc
from tfcluster import _abi, _columns, _producer
from tfcluster._positions import Positions

PATIENCE = 60  # seconds until something awaited counts as never coming
JOB: dict[str, Any] = {"framework": "none", "strategy": "none", "output": False}

try:
    import ml_dtypes
    import pyarrow as pa
except ImportError as missing:
    print(f"{sys.executable} lacks {missing.name} (meson option tf_python)")
    sys.exit(77)


def read_all(ctx, batch_size=None):
    """Returns what a task gets: the values by column, and the sizes of its batches."""
    columns: dict[str, list[Any]] = {}
    sizes = []
    for batch in ctx.feed("train").batches(batch_size):
        sizes.append(len(next(iter(batch.values()))))
        for name, values in batch.items():
            values = [value.tolist() if hasattr(value, "tolist") else value for value in values.tolist()]
            columns.setdefault(name, []).extend(
                [value.decode() if isinstance(value, bytes) else value for value in values])
    return {"columns": columns, "sizes": sizes}


def read_ids(ctx, directory, die_at=None):
    """Writes the ids that were trained, a line each. Worker 0 dies once after `die_at` batches, before the others read."""
    import os
    import signal
    import time
    while die_at and ctx.task_index > 0 and not os.path.exists(f"{directory}/0-2"):
        time.sleep(0.01)
    with open(f"{directory}/{ctx.task_index}-{ctx.attempt}", "w") as file:
        for count, batch in enumerate(ctx.feed("train").batches(32)):
            if ctx.task_index == 0 and ctx.attempt == 1 and count == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            print(*batch["id"].tolist(), sep="\n", file=file, flush=True)


def read_small_batches(ctx, directory):
    """Notes the ids of each batch, and dies once amid rows that arrived together."""
    from tfcluster import feed
    feed._REPORT_S = 0  # as if a batch took longer
    with open(f"{directory}/{ctx.attempt}", "w") as file:
        for count, batch in enumerate(ctx.feed("train").batches(10)):
            print(*batch["0"].tolist(), sep="\n", file=file, flush=True)
            if ctx.attempt == 1 and count == 50:
                os.kill(os.getpid(), signal.SIGKILL)


def square(batch):
    return batch["0"] ** 2


def received(put, workers=1, batch_size=None, **feed):
    """What the only task gets of what `put` feeds."""
    with tfc.run(read_all, args=[batch_size], workers=workers, **JOB) as job:
        with job.feed("train", **feed) as producer:
            put(producer)
        return job.result(PATIENCE)


class FeedCase(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="tfc-feed-")
        self.addCleanup(directory.cleanup)
        self.dir = directory.name

    def ids(self):
        """The ids that each attempt has trained, by its file."""
        return {path.name: [int(line) for line in path.read_text().split()] for path in pathlib.Path(self.dir).iterdir()}


class SourceTest(FeedCase):
    """Each source that is documented gives the rows that it has."""

    def test_arrays_lists_and_rows(self):
        text = ["a", "bc", ""]
        sources = {
            "dict of arrays": ({"x": np.arange(6, dtype=np.float32).reshape(3, 2), "y": np.array([1, 0, 2], np.uint8)},
                               {"x": [[0, 1], [2, 3], [4, 5]], "y": [1, 0, 2]}),
            "dict of lists": ({"x": [1, 2, 3], "s": text}, {"x": [1, 2, 3], "s": text}),
            "array": (np.arange(3), {"0": [0, 1, 2]}),
            "tuple of arrays": ((np.arange(3), np.ones(3, bool)), {"0": [0, 1, 2], "1": [True] * 3}),
            "big-endian": (np.arange(3, dtype=">i4"), {"0": [0, 1, 2]}),
            "strided": (np.arange(6)[::2], {"0": [0, 2, 4]}),
            "range": (range(3), {"0": [0, 1, 2]}),
            "generator": ((value / 2 for value in range(3)), {"0": [0, 0.5, 1]}),
            "tuples": ([(1, "a"), (2, "b")], {"0": [1, 2], "1": ["a", "b"]}),
            "dicts": ([{"x": [1.0, 2.0], "y": b"a"}, {"x": [3.0, 4.0], "y": b"b"}],
                      {"x": [[1, 2], [3, 4]], "y": ["a", "b"]}),
            "lists": ([[1, 2], [3, 4]], {"0": [1, 3], "1": [2, 4]}),
            "bytes": (np.array([b"a", b"bc"]), {"0": ["a", "bc"]}),
            "text of numpy": (np.array(text), {"0": text}),
            "missing": ({"x": np.ma.MaskedArray([1, 2, 3], [False, True, False])}, {"x": [1, None, 3]}),
            "partitions": (tfc.Partitions([range(2), lambda: [2, 3]]), {"0": [0, 1, 2, 3]}),
        }
        for name, (source, expected) in sources.items():
            with self.subTest(source=name):
                self.assertEqual(received(lambda feed, source=source: feed.put(source))["columns"], expected)

    def test_types_of_numpy_arrive_as_they_were(self):
        kinds = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]

        def types(ctx):
            [batch] = ctx.feed("train").batches()
            try:
                batch["i4"][0] = 1
                is_writable = True
            except ValueError:
                is_writable = False
            return {"types": {name: values.dtype.str[1:] for name, values in batch.items()}, "writable": is_writable}
        with tfc.run(types, **JOB) as job:
            with job.feed() as feed:
                feed.put({kind: np.ones(3, kind) for kind in kinds})
            result = job.result(PATIENCE)
        self.assertEqual(result["types"], {kind: np.dtype(kind).str[1:] for kind in kinds})
        self.assertFalse(result["writable"])

    def test_bfloat16(self):
        def describe(ctx):
            [batch] = ctx.feed("train").batches()
            return {name: [values.dtype.name, list(values.shape), values.astype(np.float32).filled(-1).ravel().tolist()
                           if isinstance(values, np.ma.MaskedArray) else values.astype(np.float32).ravel().tolist()]
                    for name, values in batch.items()}
        bfloat16 = ml_dtypes.bfloat16
        values = np.arange(6).astype(bfloat16) / bfloat16(4)
        columns = {"x": values, "m": values.reshape(6, 1, 1), "s": values[::-1], "l": list(values),
                   "n": np.ma.MaskedArray(values, [0, 1, 0, 0, 0, 0])}
        expected = [0, 0.25, 0.5, 0.75, 1, 1.25]
        self.maxDiff = None
        with tfc.run(describe, **JOB) as job:
            with job.feed() as feed:
                feed.put(columns)
            self.assertEqual(job.result(PATIENCE), {
                "x": ["bfloat16", [6], expected], "m": ["bfloat16", [6, 1, 1], expected],
                "s": ["bfloat16", [6], expected[::-1]], "l": ["bfloat16", [6], expected],
                "n": ["bfloat16", [6], [0, -1, *expected[2:]]]})
        [results] = tfc.map_batches(square, values, workers=1)
        self.assertEqual((results.dtype.name, results.tolist()), ("bfloat16", (values ** 2).tolist()))

    def test_bfloat16_from_arrow(self):
        def describe(ctx):
            [batch] = ctx.feed("train").batches()
            return {name: [values.dtype.name, values.astype(np.float32).tolist()] for name, values in batch.items()}
        storage = pa.array([b"\x80\x3f", b"\x00\x40", b"\x40\x40"], pa.binary(2))
        kind = {b"ARROW:extension:name": b"tfcluster.bfloat16", b"ARROW:extension:metadata": b""}
        table = pa.table([storage, pa.FixedSizeListArray.from_arrays(storage[1:].cast(pa.binary(2)), 1).take(
            pa.array([0, 1, 0]))], pa.schema([
                pa.field("x", pa.binary(2), metadata=kind),
                pa.field("f", pa.list_(pa.field("item", pa.binary(2), metadata=kind), 1))]))
        with tfc.run(describe, **JOB) as job:
            with job.feed() as feed:
                feed.put(table)
            self.assertEqual(job.result(PATIENCE),
                             {"x": ["bfloat16", [1, 2, 3]], "f": ["bfloat16", [[2], [3], [2]]]})

    def test_arrow(self):
        table = pa.table({
            "i": pa.array([1, None, 3]), "t": pa.array(["a", "", "ccc"]), "b": pa.array([b"x", b"yy", b""]),
            "w": pa.array([b"ab", b"cd", b"ef"], pa.binary(2)), "l": pa.array([[1], [], [2, 3]]),
            "f": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2)),
            "large": pa.array(["p", "q", "r"], pa.large_string()), "vt": pa.array(["v", None, "w" * 20], pa.string_view()),
            "vb": pa.array([b"v", b"", b"w" * 20], pa.binary_view()),
            "ll": pa.array([[1], [], [2]], pa.large_list(pa.int8())),
            "vl": pa.array([["a" * 13], None, []], pa.list_(pa.string_view())), "o": pa.array([True, False, True])})
        expected = {"i": [1, None, 3], "t": ["a", "", "ccc"], "b": ["x", "yy", ""], "w": ["ab", "cd", "ef"],
                    "l": [[1], [], [2, 3]], "f": [[1, 2], [3, 4], [5, 6]], "large": ["p", "q", "r"],
                    "vt": ["v", None, "w" * 20], "vb": ["v", "", "w" * 20], "ll": [[1], [], [2]],
                    "vl": [["a" * 13], None, []],
                    "o": [True, False, True]}
        batch = table.to_batches()[0]

        class OnlyArray:
            def __arrow_c_array__(self, schema=None):
                return batch.__arrow_c_array__(schema)
        for name, source in ("table", table), ("batch", batch), ("array", OnlyArray()), ("reader", table.to_reader()):
            with self.subTest(source=name):
                self.assertEqual(received(lambda feed, source=source: feed.put(source))["columns"], expected)
        whole = pa.concat_tables([table, table])
        sliced = whole.slice(1, 4)
        with self.subTest("slices"):
            got = received(lambda feed: feed.put(sliced, epochs=2), batch_size=3)
            self.assertEqual(got["columns"]["t"], sliced["t"].to_pylist() * 2)
            self.assertEqual(got["columns"]["l"], sliced["l"].to_pylist() * 2)
            self.assertEqual(got["sizes"], [3, 3, 2])

    def test_a_stream_is_read_as_it_is_fed(self):
        schema = pa.schema([("x", pa.int64())])
        made = []

        def batches():
            for number in range(50):
                made.append(number)
                yield pa.record_batch([pa.array(np.full(1 << 14, number))], schema)
        with tfc.run(read_sum, **JOB) as job:
            with job.feed("train", window=1 << 20) as feed:
                feed.put(pa.RecordBatchReader.from_batches(schema, batches()))
            self.assertEqual(job.result(PATIENCE), [50 << 14, sum(range(50)) << 14])
        self.assertEqual(made, list(range(50)))

    def test_sizes_of_batches(self):
        for size, expected in (4, [4, 4, 2]), (10, [10]), (64, [10]):
            with self.subTest(size=size):
                got = received(lambda feed: feed.put(np.arange(10), epochs=1), batch_size=size, partition_rows=3)
                self.assertEqual((got["sizes"], got["columns"]["0"]), (expected, list(range(10))))

    def test_large_rows_make_partitions_of_their_own(self):
        images = pa.table({"image": pa.array([bytes(_columns.PARTITION_BYTES)] * 4)})
        with tfc.run(count_rows, workers=2, **JOB) as job:
            with job.feed("train") as feed:
                put = feed.put(images)
                self.assertEqual((len(put.numbers), put.rows), (4, 4))
            job.result(PATIENCE)

    def test_a_feed_leaves_no_descriptor(self):
        def feed_once():
            with tfc.run(count_rows, workers=1, **JOB) as job:
                with job.feed("train") as feed:
                    feed.put(np.arange(100_000))
                job.result(PATIENCE)
        feed_once()
        before = len(os.listdir("/proc/self/fd"))
        feed_once()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        self.assertNotIn("tfcluster-feed", pathlib.Path("/proc/self/maps").read_text())


def read_sum(ctx):
    rows = total = 0
    for batch in ctx.feed("train").batches():
        [values] = batch.values()
        rows += len(values)
        total += int(values.sum())
    return [rows, total]


def count_rows(ctx):
    return sum(len(next(iter(batch.values()))) for batch in ctx.feed("train").batches())


class BadInputTest(FeedCase):
    """Each is one exception at the caller. The job goes on, and the feed, too."""

    def test_what_cannot_be_fed_is_refused(self):
        arrow = pa.table({"d": pa.array([{"a": 1}])})
        cases: tuple[tuple[Any, str], ...] = (
            (5, "cannot feed a value of the type int; give an Arrow table, arrays of numpy, or rows"),
            ("text", "cannot feed a value of the type str"),
            ({}, "there is no column to feed"),
            ({"x": np.arange(3), "y": np.arange(2)}, 'column "y" has 2 rows, but the columns before have 3'),
            ({"x": np.float32(3)}, 'column "x" is one value, not a column of rows'),
            ({"x": [[1, 2], [3]]}, r'column "x": row 1 has the shape \[1\], but row 0 has \[2\]; pad the rows'),
            ([(1, 2), (3,)], "row 1 has not 2 values, as row 0 has"),
            ([{"x": 1}, {"y": 2}], "row 1 has the keys y, but row 0 has x"),
            ([[[1, 2]], [[3]]], r'column "0": row 1 has the shape \[1\], but row 0 has \[2\]'),
            ([1, None], 'column "0": row 1 is None; use a masked array or an Arrow table for missing values'),
            (["a", None], 'column "0": row 1 is None'),
            ([1, "a"], 'column "0": row 1 is str, but row 0 is int'),
            (["a", 1], 'column "0": row 1 is int, but row 0 is str'),
            (["a", b"a"], 'column "0": row 1 is bytes, but row 0 is str'),
            ([1, object()], 'column "0": row 1 is object <object .*, which the feed does not support'),
            ([1, 1 << 70], 'column "0": row 1 is int 1180.*, which the feed does not support'),
            ({"x": np.array(["2020-01-01"], "M8[D]")}, r'column "x" has the type datetime64\[D\], which the feed does not'),
            ({"x": np.ones(2, complex)}, 'column "x" has the type complex128'),
            ({"x": np.ones(2, ml_dtypes.float8_e4m3fn)}, 'column "x" has the type float8_e4m3fn, which the feed does not'),
            ({"x": np.array([{}, {}], object)}, 'column "x": row 0 is dict {}, which the feed does not support'),
            ({"x": np.ones((1,) * 10)}, 'column "x" has 9 dimensions in each row; at most 8 are possible'),
            (arrow, '"d"'),
            (pa.chunked_array([[1, 2]]), "struct"),
        )
        with tfc.run(read_sum, **JOB) as job:
            with job.feed("train") as feed:
                feed.put(np.arange(3))
                for source, message in cases:
                    with self.subTest(source=source), self.assertRaisesRegex(tfc.Error, message):
                        feed.put(source)
                for source, message in (({"0": np.ones(2, np.float32)}, 'column "0"'), ({"other": np.arange(2)}, "other"),
                                        ({"0": np.ones((2, 2), int)}, 'column "0"')):
                    with self.subTest(schema=source), self.assertRaisesRegex(tfc.InvalidError, message):
                        feed.put(source)
                feed.put(np.arange(3))
            self.assertEqual(job.result(PATIENCE), [6, 6])

    def test_options(self):
        with tfc.run(read_sum, **JOB) as job:
            for keys, error, message in (
                    ({"queue": "a b"}, tfc.InvalidError, 'queue "a b" is not 1 to 63 of'),
                    ({"queue": 5}, tfc.InvalidError, "queue: must be a string, not 5"),
                    ({"task": "worker/7"}, tfc.NotFoundError, "has no task worker/7"),
                    ({"task": "worker"}, tfc.InvalidError, 'task "worker" is not a task'),
                    ({"window": 5}, tfc.InvalidError, "between 4096"),
                    ({"partition_rows": 0}, tfc.InvalidError, "partition_rows: must be a number, at least 1, not 0"),
                    ({"producers": 0}, tfc.InvalidError, "producers: must be a number, at least 1, not 0")):
                with self.subTest(keys=keys), self.assertRaisesRegex(error, message):
                    job.feed(**keys)
            with job.feed() as feed:
                for epochs in 0, -1, 1.5:
                    with self.assertRaisesRegex(tfc.InvalidError, "epochs: must be a number, at least 1"):
                        feed.put([1], epochs=epochs)  # type: ignore[arg-type]
                for source in iter([1]), pa.table({"0": [1]}).to_reader(), tfc.Partitions(iter([[1]])):
                    with self.assertRaisesRegex(tfc.InvalidError, "can be read only once; feed a table, arrays or a list"):
                        feed.put(source, epochs=2)
                put = feed.put([1, 2])
                with self.assertRaisesRegex(tfc.Error, "the feed has not ended; leave its block or call end"):
                    put.wait()
            put.wait(0)
            with self.assertRaisesRegex(tfc.Error, "the feed has ended"):
                feed.put([1])
            self.assertEqual(job.result(PATIENCE), [2, 3])

    def test_a_row_larger_than_the_window(self):
        with tfc.run(read_sum, **JOB) as job:
            with job.feed("train", window=1 << 16) as feed, self.assertRaisesRegex(tfc.Error, "window"):
                feed.put({"x": np.zeros((1, 1 << 20), np.uint8)})

    def test_a_queue_that_no_task_reads(self):
        with tfc.run(read_sum, **JOB) as job, self.assertRaisesRegex(
                tfc.DeadlineError, r'no task has read queue "tain" within 0.5 s; call ctx.feed\("tain"\) in the function'):
            with job.feed("tain", start_timeout=0.5) as feed:
                feed.put(np.arange(3))

    def test_a_queue_that_no_task_reads_of_a_job_that_is_never_ready(self):
        def wait(ctx):  # it makes no strategy, and so never listens
            import time
            time.sleep(600)
        with tfc.run(wait, workers=2, output=False) as job:
            with self.assertRaisesRegex(tfc.DeadlineError, "no task has read"), job.feed(start_timeout=0.5) as feed:
                feed.put(np.arange(3))

    def test_a_feed_that_is_open_is_named(self):
        with tfc.run(read_sum, **JOB) as job:
            with job.feed("train") as feed:
                feed.put(np.arange(3))
                with self.assertRaisesRegex(tfc.InvalidError, 'queue "train" has an open feed of this job already'):
                    job.feed("train")
                with self.assertRaisesRegex(tfc.DeadlineError, 'not ended within 0.1 s; the feed of queue "train" is open'):
                    job.result(0.1)
            self.assertEqual(job.result(PATIENCE), [3, 3])

    def test_an_ended_job(self):
        job = tfc.run(["/bin/true"], framework="none", output=False)
        job.result(PATIENCE)
        with self.assertRaisesRegex(tfc.Error, rf'job {job.id} has ended .* rows of queue "train"; a task that needs'
                                    ) as caught:
            with job.feed("train") as feed:
                feed.put([1])
        self.assertEqual(caught.exception.code, _abi.Err.ELOST)
        job.close()

    def test_a_task_that_fails_is_the_cause(self):
        def fail(ctx):
            for _ in ctx.feed("train").batches(8):
                raise ValueError("bad batch")
        for sent in 1, 1 << 22:  # the failure meets the end, or a put that waits for room
            with self.subTest(sent=sent), tfc.run(fail, restart=0, **JOB) as job:
                with self.assertRaisesRegex(tfc.TaskFailed, "ValueError: bad batch"):
                    with job.feed("train", window=1 << 20) as feed:
                        feed.put(np.arange(sent))

    def test_an_exception_in_the_block_closes_the_feed_at_once(self):
        with tfc.run(read_sum, **JOB) as job:
            begin = time.monotonic()
            with self.assertRaisesRegex(RuntimeError, "mine"):
                with job.feed("train") as feed:
                    feed.put([1])
                    raise RuntimeError("mine")
            self.assertLess(time.monotonic() - begin, PATIENCE / 2)
            self.assertFalse(job.done())
            with job.feed("train") as feed:  # takes the place of the one that is gone
                feed.put([1])
            self.assertIn(job.result(PATIENCE), ([1, 1], [2, 2]))

    def test_what_a_task_asks_wrongly(self):
        def wrong(ctx):
            import os
            messages = []
            feed = ctx.feed("train")
            for call in (lambda: next(feed.batches(0)), lambda: feed.dataset(4, uneven="x"), lambda: next(
                    ctx.feed("a b").batches())):
                try:
                    call()
                except Exception as error:
                    messages.append(str(error))
            batches = feed.batches()
            next(batches)
            try:
                next(ctx.feed("train").batches())
            except Exception as error:
                messages.append(str(error))
            list(batches)
            for again in (lambda: next(feed.batches()), lambda: feed.dataset(4)):
                try:
                    again()
                except Exception as error:
                    messages.append(str(error))
            del os.environ["TFC_FEED"]
            try:
                next(ctx.feed("train").batches())
            except Exception as error:
                messages.append(str(error))
            return messages
        with tfc.run(wrong, **JOB) as job:
            with job.feed() as feed:
                feed.put([1])
            expected = ["batch_size: must be at least 1", 'uneven: must be "pad" or "drop", not \'x\'', 'queue "a b" is not',
                        "the queue of this task has a consumer already", *['"train": it is read once; give the number'] * 2,
                        "needs a task that a node has started"]
            messages = job.result(PATIENCE)
        self.assertEqual(len(messages), len(expected), messages)
        for message, text in zip(messages, expected, strict=True):
            self.assertIn(text, message)


class DeliveryTest(FeedCase):

    def test_each_row_arrives_once_and_partitions_keep_their_order(self):
        with tfc.run(read_ids, args=[self.dir], workers=3, **JOB) as job:
            with job.feed("train", partition_rows=100) as feed:
                put = feed.put({"id": np.arange(10000)})
            self.assertEqual((put.rows, len(put.numbers), put.done()), (10000, 100, True))
            put.wait(0)
            job.result(PATIENCE)
        ids = self.ids()
        self.assertEqual(sorted(sum(ids.values(), [])), list(range(10000)))
        for rows in ids.values():
            for partition in range(100):
                part = [row for row in rows if row // 100 == partition]
                self.assertIn(part, ([], list(range(partition * 100, partition * 100 + 100))))

    def test_more_reports_at_once_than_the_kernel_has_room_for(self):
        got = received(lambda feed: feed.put(np.arange(3000)), batch_size=3000, partition_rows=1)
        self.assertEqual(got, {"columns": {"0": list(range(3000))}, "sizes": [3000]})

    def test_threads_that_put_at_once(self):
        def put_all(feed):
            self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
            sys.setswitchinterval(1e-6)
            threads = [threading.Thread(target=lambda: [feed.put([1]) for _ in range(100)], daemon=True) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
                self.assertFalse(thread.is_alive())
        self.assertEqual(sum(received(put_all, batch_size=100)["sizes"]), 400)

    def test_only_the_last_batches_of_a_killed_worker_are_fed_again(self):
        with tfc.run(read_small_batches, args=[self.dir], restart=1, **JOB) as job:
            with job.feed("train") as feed:
                feed.put(np.arange(1000))
            job.result(PATIENCE)
        ids = self.ids()
        self.assertEqual(ids["1"], list(range(510)))
        # The batch that it was killed in.
        self.assertEqual(ids["2"], list(range(500, 1000)))

    def test_rows_of_a_killed_worker_are_fed_again(self):
        with tfc.run(read_ids, args=[self.dir, 20], workers=2, restart={"scope": "task"}, **JOB) as job:
            with job.feed("train", partition_rows=64) as feed:
                feed.put({"id": np.arange(20000)})
            job.result(PATIENCE)
        ids = self.ids()
        self.assertEqual(len(ids["0-1"]), 20 * 32)
        everything = [row for rows in ids.values() for row in rows]
        self.assertTrue(set(everything) == set(range(20000)))
        # Of the killed attempt, only the rows that it had not reported yet come again.
        self.assertLessEqual(len(everything) - 20000, 32 + 64)

    def test_rows_are_fed_again_while_another_queue_is_awaited(self):
        def both(ctx, directory):
            import os
            import signal
            train = ctx.feed("train").batches(10)
            seen = len(next(train)["0"])
            if ctx.attempt == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += sum(len(next(train)["0"]) for _ in range(9))
            checked = sum(len(batch["0"]) for batch in ctx.feed("validation").batches())
            return [seen + len(list(train)), checked]
        with tfc.run(both, args=[self.dir], restart={"scope": "task"}, **JOB) as job:
            with job.feed("train") as train, job.feed("validation") as validation:
                train.put(np.arange(100))
                validation.put(np.arange(7))
            self.assertEqual(job.result(PATIENCE), [100, 7])

    def test_validation_beside_training(self):
        def train(ctx):
            trained, losses = 0, []
            for count, batch in enumerate(ctx.feed("train").batches(100)):
                trained += len(batch["0"])
                if count % 2:
                    losses.append(sum(int(part["0"].sum()) for part in ctx.feed("validation").batches()))
            return [trained, losses]
        with tfc.run(train, **JOB) as job:
            with job.feed("train", partition_rows=100) as feed:
                for number in range(30):
                    feed.put(np.arange(200))
                    with job.feed("validation") as validation:
                        validation.put([1, 2, number])
            self.assertEqual(job.result(PATIENCE), [6000, [3 + number for number in range(30)]])

    def test_two_producers_of_a_queue(self):
        with tfc.run(read_sum, **JOB) as job:
            first, second = (job.feed(producer=name, producers=2) for name in "01")
            first.put(np.arange(10))
            second.put(np.arange(10, 20))
            threads = [threading.Thread(target=feed.end) for feed in (first, second)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
            self.assertEqual(job.result(PATIENCE), [20, sum(range(20))])
            first.close()
            second.close()

    def test_two_producers_of_one_name(self):
        """The earlier one has an error as soon as it learns of the other."""
        def read(ctx, path):
            for _batch in ctx.feed("train").batches():
                open(path, "w").close()
        path = pathlib.Path(self.dir, "rows")
        with tfc.run(read, args=[str(path)], **JOB) as job:
            first = job.feed()
            first.put([1])
            while not path.exists():
                job.wait(0.01)
            with tfc.attach(job.id, gateway=job.client, output=False) as again, again.feed() as second:
                second.put([1])
                message = 'another producer "0" feeds queue "train" of worker/0 now; give each producer a name of its own'
                with self.assertRaisesRegex(tfc.Error, message):
                    for _ in range(int(PATIENCE / 0.02)):
                        first.put([1])
                        job.wait(0.02)
                first.close()
            job.result(PATIENCE)

    def test_a_producer_that_begins_again_feeds_no_row_twice(self):
        def hold(ctx, gate):
            rows: list[int] = []
            for batch in ctx.feed("train").batches():
                if not rows:
                    with open(gate) as file:
                        file.read()
                rows += batch["0"].tolist()
            return rows
        gate = os.path.join(self.dir, "gate")
        os.mkfifo(gate)
        with tfc.run(hold, args=[gate], **JOB) as job:
            parts = tfc.Partitions([np.arange(number * 10, number * 10 + 10) for number in range(4)])
            first = job.feed()
            first.put(parts)
            first.close()  # as if its process had died: the task has all partitions, and has consumed none
            with tfc.attach(job.id, gateway=job.client, output=False) as again, again.feed() as feed:
                with open(gate, "w"):  # opens when the task waits
                    pass
                feed.put(parts)
            self.assertEqual(job.result(PATIENCE), list(range(40)))

    def test_a_task_that_is_ahead_waits_for_the_next_feed(self):
        def read_twice(ctx, directory):
            import json
            import os
            import time
            passes = []
            for number in range(2):
                ids = []
                for batch in ctx.feed("train").batches():
                    ids += batch["0"].tolist()
                    open(f"{directory}/rows-{ctx.task_index}", "w").close()
                    while ctx.task_index == 1 and number == 0 and not os.path.exists(f"{directory}/ahead"):
                        time.sleep(0.01)
                if ctx.task_index == 0 and number == 0:
                    # The other task goes on when the producer has had the time to come back to this one.
                    import threading
                    threading.Timer(0.5, lambda: open(f"{directory}/ahead", "w").close()).start()
                passes.append(ids)
            with open(f"{directory}/{ctx.task_index}", "w") as file:
                json.dump([*passes, os.path.exists(f"{directory}/second")], file)
        with tfc.run(read_twice, args=[self.dir], workers=2, **JOB) as job:
            with job.feed("train") as feed:
                first = 0
                while not all(os.path.exists(f"{self.dir}/rows-{index}") for index in range(2)):
                    feed.put(np.arange(first, first := first + 10))
                    job.wait(0.05)
            with job.feed("train", partition_rows=10) as feed:
                pathlib.Path(self.dir, "second").touch()
                feed.put(np.arange(first, first + 100))
            job.result(PATIENCE)
        *passes, has_waited = zip(*(json.loads(pathlib.Path(self.dir, name).read_text()) for name in "01"), strict=True)
        for ids, rows in zip(passes, (range(first), range(first, first + 100)), strict=True):
            self.assertEqual(sorted(ids[0] + ids[1]), list(rows))
        self.assertEqual(has_waited, (True, True))

    def test_terminate_ends_the_feed_at_once(self):
        def few(ctx):
            feed = ctx.feed("train")
            batches = feed.batches(10)
            rows = len(next(batches)["0"])
            feed.terminate()
            return rows + sum(len(batch["0"]) for batch in batches)
        with tfc.run(few, **JOB) as job:
            with job.feed("train", window=1 << 16) as feed:
                feed.put(np.arange(1 << 22))
            self.assertEqual(job.result(PATIENCE), 10)

    def test_a_task_that_terminates_and_goes_on_delays_nothing(self):
        """The rest of the partition that is being put to it is dropped; the other task gets the next one."""
        def read(ctx, directory):
            def wait_for(name):
                while not os.path.exists(f"{directory}/{name}"):
                    time.sleep(0.01)
            if ctx.task_index == 1:
                wait_for("left")
            feed, rows = ctx.feed("train"), 0
            for batch in feed.batches(10):
                rows += len(batch["0"])
                if ctx.task_index == 0:
                    feed.terminate()
            if ctx.task_index == 0:
                pathlib.Path(directory, "left").touch()
                wait_for("ended")
            pathlib.Path(directory, f"rows-{ctx.task_index}").write_text(str(rows))
        size = 1 << 16
        with tfc.run(read, args=[self.dir], workers=2, **JOB) as job:
            with job.feed("train", partition_rows=size, window=1 << 16) as feed:
                feed.put(np.arange(2 * size))
            pathlib.Path(self.dir, "ended").touch()
            job.result(PATIENCE)
        self.assertEqual([pathlib.Path(self.dir, f"rows-{index}").read_text() for index in range(2)], ["10", str(size)])

    def test_a_task_may_keep_all_that_it_gets(self):
        """Views of the first three batches would leave too little of the window for the fourth one."""
        def keep(ctx):
            return sum(len(batch["0"]) for batch in list(ctx.feed("train").batches()))
        with tfc.run(keep, **JOB) as job:
            with job.feed("train", window=1 << 16, partition_rows=10000) as feed:
                for rows in 2000, 2000, 2000, 2250, 2250:
                    feed.put(np.arange(rows))
            self.assertEqual(job.result(PATIENCE), 10500)

    def test_lists_that_are_kept_occupy_no_shared_memory(self):
        def keep(ctx):
            return sum(len(row) for batch in list(ctx.feed("train").batches()) for row in batch["v"])
        table = pa.table({"v": [[row] * 8 for row in range(4000)]})  # four times the window
        with tfc.run(keep, **JOB) as job:
            with job.feed("train", window=1 << 16, partition_rows=200) as feed:
                feed.put(table)
            self.assertEqual(job.result(PATIENCE), 32000)

    def test_a_put_waits_for_room(self):
        def hold(ctx, gate):
            batches = ctx.feed("train").batches()
            first = next(batches)
            with open(gate) as file:
                file.read()
            rows = len(first["0"])
            del first
            return rows + sum(len(batch["0"]) for batch in batches)
        gate = os.path.join(self.dir, "gate")
        os.mkfifo(gate)
        with tfc.run(hold, args=[gate], **JOB) as job:
            with job.feed("train", window=1 << 16) as feed:
                done = threading.Event()

                def put():
                    feed.put(np.arange(1 << 16))
                    done.set()
                thread = threading.Thread(target=put)
                thread.start()
                with open(gate, "w"):  # opens when the task waits, with rows that it holds
                    self.assertFalse(done.is_set())
                thread.join(PATIENCE)
                self.assertTrue(done.is_set())
            self.assertEqual(job.result(PATIENCE), 1 << 16)

    def test_workers_of_parameter_servers_get_rows_as_fast_as_they_read(self):
        def read(ctx, directory):
            rows = []
            for count, batch in enumerate(ctx.feed("end" if ctx.task_type == "chief" else "train").batches()):
                rows += batch["0"].tolist()
                del batch
                if ctx.name == "worker/1" and count == 0:
                    with open(f"{directory}/gate") as file:
                        file.read(1)
            pathlib.Path(directory, f"{ctx.task_type}-{ctx.task_index}").write_text("\n".join(map(str, rows)))
            return len(rows)
        os.mkfifo(os.path.join(self.dir, "gate"))
        roles: dict[str, dict[str, Any]] = {"ps": {"server": False, "finish_s": 0.1}, "worker": {"server": False}}
        gate = os.open(os.path.join(self.dir, "gate"), os.O_RDWR)  # worker/1 opens it only if it gets a row
        self.addCleanup(os.close, gate)
        with tfc.run(read, args=[self.dir], workers=2, ps=1, roles=roles, deadline_s=PATIENCE, **JOB) as job:
            with job.feed("train", window=1 << 16, partition_rows=1024) as feed:
                feed.put(np.arange(40 * 1024))  # worker/1 reads one batch, and worker/0 nearly all
                os.write(gate, b"x")
            with self.assertRaisesRegex(tfc.Error, "has parameter servers, whose workers return no results"):
                _producer.Producer(job, "train", results=True)
            with job.feed("end", task="chief/0") as feed:
                feed.put(np.arange(3))
            self.assertEqual(job.result(PATIENCE), 3)
        os.unlink(os.path.join(self.dir, "gate"))
        rows = self.ids()
        self.assertEqual(sorted(rows["worker-0"] + rows["worker-1"]), list(range(40 * 1024)))
        self.assertGreater(len(rows["worker-0"]), 30 * 1024)

    def test_arrays_outlive_the_feed(self):
        def keep(ctx):
            kept = [batch["0"] for batch in ctx.feed("train").batches()]
            return [len(kept), int(sum(part.sum() for part in kept))]
        with tfc.run(keep, **JOB) as job:
            with job.feed("train", partition_rows=1000) as feed:
                feed.put(np.arange(10000))
            self.assertEqual(job.result(PATIENCE), [10, sum(range(10000))])


def read_and_commit(ctx, directory, restored, die_after=None):
    """Reads batches of 4 rows, with positions in place of a checkpoint that has them, and then commits all. A first attempt
    commits `die_after` batches and is killed; the next one is restored from `restored` without looking at those."""
    import os
    import signal

    from tfcluster._positions import Positions
    from tfcluster.feed import Feed

    class Checkpoints:
        positions = Positions([] if die_after and ctx.attempt == 1 else restored)

        def add_feed(self, queue, feed):
            return self.positions.entries()

    checkpoints: Any = Checkpoints()
    feed = Feed(ctx, checkpoints=checkpoints)
    ids = []
    for number, batch in enumerate(feed.batches(4), 1):
        ids += batch["0"].tolist()
        if ctx.attempt == 1 and number == die_after:
            checkpoints.positions.update(feed.positions_after(number))
            feed.commit(checkpoints.positions.entries())
            os.kill(os.getpid(), signal.SIGKILL)
    if directory:
        checkpoints.positions.update(feed.positions_after(feed._given))
        feed.commit(checkpoints.positions.entries())
    return [ids, checkpoints.positions.entries()]


class CommitTest(FeedCase):
    """Without TensorFlow; feed_commit_test.py has real checkpoints."""

    def feed(self, *args, replayable=False, **options):
        with tfc.run(read_and_commit, args=args, **options, **JOB) as job:
            with job.feed("train", partition_rows=10, replayable=replayable) as feed:
                feed.put(np.arange(30))
            return job.result(PATIENCE)

    def test_rows_that_a_checkpoint_has_are_not_sent(self):
        ids, positions = self.feed(self.dir, [(0, 1, 10, True), (1, 1, 4, False)], replayable=True)
        self.assertEqual(ids, list(range(14, 30)))
        self.assertEqual(positions, [[0, 3, 10, True]])

    def test_a_checkpoint_that_has_all_of_it(self):
        self.assertEqual(self.feed(self.dir, [(0, 3, 10, True)], replayable=True), [[], [[0, 3, 10, True]]])

    def test_a_killed_task_goes_on_after_its_checkpoint(self):
        ids, _ = self.feed(self.dir, [(0, 1, 10, True), (1, 1, 2, False)], 3, restart={"scope": "task"})
        self.assertEqual(ids, list(range(12, 30)))

    def test_a_checkpoint_of_an_earlier_run(self):
        for entries, options, message in (
                ([(0, 1, 10, True)], {}, "the checkpoint of worker/0 has 10 rows of it, but this producer has put 0; a"),
                ([(0, 1, 9, True)], {"replayable": True}, "partition 0 has 10 rows, but a checkpoint has 9 rows of it"),
                ([(2, 1, 11, False)], {"replayable": True}, "partition 2 has 10 rows, but a checkpoint has 11 rows of it")):
            with self.subTest(message), self.assertRaisesRegex(tfc.Error, message):
                self.feed(self.dir, entries, **options)

    def test_a_task_that_falls_back_to_an_earlier_checkpoint(self):
        with self.assertRaisesRegex(tfc.Error, 'worker/0 was restored from a checkpoint that has 10 rows of queue "train", '
                                               "but an earlier one had 12, which are not fed again"):
            self.feed(self.dir, [(0, 1, 10, True)], 3, restart={"scope": "task"})

    def test_rows_that_no_checkpoint_has(self):
        with self.assertRaisesRegex(tfc.Error, 'before a checkpoint had all rows of queue "train"; save a checkpoint'
                                            " after the last batch"):
            self.feed("", [])

    def test_what_a_task_asks_wrongly(self):
        def wrong(ctx):
            texts = []
            for options in {"ack": "always"}, {"ack": "commit"}:
                try:
                    ctx.feed("train", **options)
                except ValueError as error:
                    texts.append(str(error))
            return texts
        with tfc.run(wrong, **JOB) as job:
            self.assertEqual(job.result(PATIENCE), [
                'ack: must be "consume" or "commit", not \'always\'',
                'ack="commit" writes positions with the checkpoints; call ctx.checkpoints(...) before ctx.feed()'])


class PositionsTest(unittest.TestCase):

    def test_any_order_gives_the_same_ranges(self):
        parts = [(number, 10 if number < 6 else 7) for number in range(9) if number != 4]
        for seed in range(20):
            order = np.random.default_rng(seed).permutation(len(parts))
            positions = Positions()
            positions.update({4: (3, False)})
            for at in order:
                positions.update({parts[at][0]: (parts[at][1], True)})
                positions.update({parts[at][0]: (2, False)})  # older news
            self.assertEqual(positions.entries(), [(0, 4, 10, True), (4, 1, 3, False), (5, 1, 10, True), (6, 3, 7, True)])
            self.assertEqual(Positions(positions.entries()).entries(), positions.entries())


class DriverTest(FeedCase):

    def test_an_interrupt_leaves_cleanly(self):
        program = textwrap.dedent("""
            import os, sys
            import numpy as np
            import tfcluster as tfc

            def hold(ctx):
                import time
                batches = ctx.feed("train").batches()
                first = next(batches)
                print("pid", os.getpid(), flush=True)
                time.sleep(3600)

            with tfc.run(hold, framework="none", strategy="none") as job:
                with job.feed("train", window=1 << 16) as feed:
                    feed.put(np.arange(1 << 20))
            """)
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as driver:
            assert driver.stdout
            line = driver.stdout.readline()
            pid = int(line.split()[-1])
            driver.send_signal(signal.SIGINT)
            _, err = driver.communicate(timeout=PATIENCE)
        self.assertIn("KeyboardInterrupt", err)
        self.assertNotIn("Exception ignored", err)
        self.assertNotEqual(driver.returncode, 0)
        with self.assertRaises(ProcessLookupError):
            os.kill(pid, 0)


class MapBatchesTest(FeedCase):

    def test_a_thousand_partitions_equal_one_process(self):
        data = [np.arange(number * 37, number * 37 + number % 50) for number in range(1000)]
        results = list(tfc.map_batches(square, tfc.Partitions(data), workers=2, batch_size=16))
        expected = [part ** 2 for part in data if len(part)]
        self.assertEqual([part.tolist() for part in results], [part.tolist() for part in expected])

    def test_setup_is_called_once_in_each_worker_and_results_may_have_columns(self):
        def load():
            import os
            return {"pid": os.getpid()}

        def predict(model, batch):
            return {"twice": batch["x"] * 2, "pid": [model["pid"]] * len(batch["x"])}
        parts = list(tfc.map_batches(predict, {"x": np.arange(1000.0)}, workers=2, batch_size=8, setup=load))
        self.assertEqual(np.concatenate([part["twice"] for part in parts]).tolist(), (np.arange(1000.0) * 2).tolist())
        self.assertLessEqual(len({pid for part in parts for pid in part["pid"].tolist()}), 2)

    def test_missing_results_stay_missing(self):
        def odd(batch):
            return {"odd": np.ma.masked_array(batch["0"], batch["0"] % 2 == 0), "all": batch["0"]}
        for batch_size in (2, 10):  # of three batches, and of one
            [part] = tfc.map_batches(odd, np.arange(6), workers=1, batch_size=batch_size)
            self.assertEqual(part["odd"].tolist(), [None, 1, None, 3, None, 5])
            self.assertNotIsInstance(part["all"], np.ma.MaskedArray)

    def test_a_table_of_several_chunks_is_a_result(self):
        def table(batch):
            import pyarrow as pa
            return pa.concat_tables([pa.table({"x": batch["0"][:2]}), pa.table({"x": batch["0"][2:]})])
        [part] = tfc.map_batches(table, np.arange(5), workers=1)
        self.assertEqual(part["x"].tolist(), [0, 1, 2, 3, 4])

    def test_what_is_no_result_is_named(self):
        with self.assertRaisesRegex(tfc.TaskFailed, "partition 0: cannot return its results: .* of the type NoneType"):
            list(tfc.map_batches(lambda batch: None, np.arange(5), workers=1, restart=0))

    def test_a_wrong_number_of_results_names_the_partition_and_both(self):
        def short(batch):
            return batch["0"][1:]
        with self.assertRaisesRegex(tfc.TaskFailed, "partition 0: 6 results for 7 rows; return one result for each row"):
            list(tfc.map_batches(short, np.arange(7), workers=1, restart=0))

    def test_it_is_lazy(self):
        made = []

        def partitions():
            for number in range(100):
                made.append(number)
                yield [number]
        results = tfc.map_batches(square, tfc.Partitions(partitions()), workers=1)
        self.assertEqual(made, [])
        self.assertEqual(next(results).tolist(), [0])
        self.assertLess(len(made), 20)
        results.close()

    def test_a_killed_worker_changes_no_result(self):
        def die_once(batch):
            import os
            import signal
            if 500 in batch["0"] and os.environ["TFC_ATTEMPT"] == "1":
                os.kill(os.getpid(), signal.SIGKILL)
            return batch["0"] + 1
        results = list(tfc.map_batches(die_once, tfc.Partitions([np.arange(n * 50, n * 50 + 50) for n in range(40)]),
                                       workers=2, batch_size=20, restart={"scope": "task"}))
        self.assertEqual(np.concatenate(results).tolist(), list(range(1, 2001)))

    def test_bad_arguments(self):
        for keys, message in (({"workers": 0}, "workers: must be a number, at least 1"),
                              ({"batch_size": "x"}, "batch_size: must be a number, at least 1, not 'x'")):
            with self.assertRaisesRegex(tfc.InvalidError, message):
                tfc.map_batches(square, [1], **keys)


if __name__ == "__main__":
    unittest.main(verbosity=2)
