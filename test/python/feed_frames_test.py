"""Data frames as sources of a feed: what the tasks get of pandas, polars and DuckDB."""

import datetime
import decimal
import sys
import unittest
from typing import Any

import tfcluster as tfc

PATIENCE = 60  # seconds until something awaited counts as never coming
JOB: dict[str, Any] = {"framework": "none", "strategy": "none", "output": False}

try:
    import duckdb
    import numpy as np
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    import polars as pl
except ImportError as missing:
    print(f"{sys.executable} lacks {missing.name} (meson option frames_python)")
    sys.exit(77)

LONG = "a text of more than twelve bytes, which is not in its view"


def read_all(ctx):
    """Returns what a task gets: values and types by column."""
    columns: dict[str, list[Any]] = {}
    types = {}
    for batch in ctx.feed("train").batches():
        for name, values in batch.items():
            types[name] = values.dtype.str[1:]
            values = [value.tolist() if hasattr(value, "tolist") else value for value in values.tolist()]
            columns.setdefault(name, []).extend(
                [value.decode() if isinstance(value, bytes) else value for value in values])
    return {"columns": columns, "types": types}


class FrameCase(unittest.TestCase):

    def received(self, *sources, epochs=1, **feed):
        with tfc.run(read_all, **JOB) as job:
            with job.feed("train", **feed) as producer:
                for source in sources:
                    producer.put(source, epochs=epochs)
            return job.result(PATIENCE)

    def assert_refused(self, source, column, why):
        """A put of the source is an error that names the column; the feed goes on."""
        with tfc.run(read_all, **JOB) as job:
            with job.feed("train") as feed:
                with self.assertRaisesRegex(
                        tfc.Error, f'column "{column}" has the Arrow format "{why}", which the feed does not support; cast '
                                   "it to numbers, utf8, binary or lists of these"):
                    feed.put(source)
                feed.put(np.arange(2))
            self.assertEqual(job.result(PATIENCE)["columns"], {"0": [0, 1]})


class PolarsTest(FrameCase):

    frame = pl.DataFrame({
        "i": [1, None, 3], "f": pl.Series([0.5, 1.5, 2.5], dtype=pl.Float32), "b": [True, False, None],
        "t": ["short", None, LONG], "z": [b"", b"xy", LONG.encode()], "u": pl.Series([1, 2, 3], dtype=pl.UInt8),
        "l": [[1], [], [2, 3]], "lt": [["a", LONG], [], None],
        "a": pl.Series([[1, 2], [3, 4], [5, 6]], dtype=pl.Array(pl.Float64, 2)),
        "aa": pl.Series([[[1, 2]], [[3, 4]], [[5, 6]]], dtype=pl.Array(pl.Int16, (1, 2)))})
    expected = {"i": [1, None, 3], "f": [0.5, 1.5, 2.5], "b": [True, False, None], "t": ["short", None, LONG],
                "z": ["", "xy", LONG], "u": [1, 2, 3], "l": [[1], [], [2, 3]], "lt": [["a", LONG], [], None],
                "a": [[1, 2], [3, 4], [5, 6]], "aa": [[[1, 2]], [[3, 4]], [[5, 6]]]}

    def test_each_type_arrives(self):
        got = self.received(self.frame)
        self.assertEqual(got["columns"], self.expected)
        self.assertEqual({name: got["types"][name] for name in "ifubaa"},
                         {"i": "i8", "f": "f4", "u": "u1", "b": "b1", "a": "f8"})

    def test_slices_and_epochs(self):
        frame = pl.concat([self.frame, self.frame[[2, 1, 0]]])[1:5]
        got = self.received(frame, epochs=2)["columns"]
        self.assertEqual(got["t"], [None, LONG, LONG, None] * 2)
        self.assertEqual(got["lt"], [[], None, None, []] * 2)
        self.assertEqual(got["i"], [None, 3, 3, None] * 2)

    def test_texts_are_cut_into_partitions(self):
        texts = [f"{row:x}" * (row % 40) for row in range(30000)]
        frame = pl.DataFrame({"t": texts, "id": range(30000)})
        with tfc.run(read_all, **JOB) as job:
            with job.feed("train", window=1 << 18) as feed:
                feed.put(frame)
            got = job.result(PATIENCE)["columns"]
        self.assertEqual(got, {"t": texts, "id": list(range(30000))})
        large = pl.DataFrame({"t": ["x" * (1 << 20)] * 8})
        with tfc.run(read_all, **JOB) as job:
            with job.feed("train", window=1 << 23) as feed:
                self.assertEqual(len(feed.put(large).numbers), 2)
            self.assertEqual([len(text) for text in job.result(PATIENCE)["columns"]["t"]], [1 << 20] * 8)

    def test_what_must_be_cast_is_refused(self):
        for values, why in ((pl.Series(["a", "b"], dtype=pl.Categorical), "dictionary"),
                            (pl.Series([datetime.date(2026, 1, 1)] * 2), "tdD"),
                            (pl.Series([datetime.datetime(2026, 1, 1)] * 2), "tsu:"),
                            (pl.Series([decimal.Decimal("1.5")] * 2), "d:.*"),
                            (pl.Series([None, None]), "n"),
                            (pl.Series([{"a": 1}, {"a": 2}]), r"\+s")):
            with self.subTest(type=str(values.dtype)):
                self.assert_refused(pl.DataFrame({"x": values}), "x", why)

    def test_a_column_that_was_cast_is_fed(self):
        frame = pl.DataFrame({"c": pl.Series(["a", "b"], dtype=pl.Categorical), "d": [datetime.date(1970, 1, 2)] * 2})
        got = self.received(frame.with_columns(pl.col("c").cast(pl.String), pl.col("d").cast(pl.Int32)))
        self.assertEqual(got["columns"], {"c": ["a", "b"], "d": [1, 1]})


class PandasTest(FrameCase):

    def test_each_type_arrives(self):
        frame = pd.DataFrame({
            "i": np.arange(3, dtype=np.int16), "f": [0.5, np.nan, 2.5], "b": [True, False, True], "t": ["short", None, LONG],
            "n": pd.array([1, None, 3], dtype="Int64"), "o": [b"x", b"", b"yy"]})
        got = self.received(frame)
        self.assertEqual({**got["columns"], "f": None}, {
            "i": [0, 1, 2], "f": None, "b": [True, False, True], "t": ["short", None, LONG], "n": [1, None, 3],
            "o": ["x", "", "yy"]})
        self.assertEqual(got["types"]["i"], "i2")
        self.assertEqual(got["columns"]["f"][::2], [0.5, 2.5])

    def test_the_index_of_selected_rows_is_no_column(self):
        frame = pd.DataFrame({"x": np.arange(10), "t": [str(row) for row in range(10)]})
        shuffled = frame.sample(frac=1, random_state=7)
        got = self.received(frame, frame[frame.x > 6], shuffled)["columns"]
        self.assertEqual(got.keys(), {"x", "t"})
        self.assertEqual(got["x"], [*range(10), 7, 8, 9, *shuffled.x])
        self.assertEqual(got["t"], [str(row) for row in got["x"]])

    def test_an_index_with_a_name_is_a_column(self):
        frame = pd.DataFrame({"x": [1.0, 2.0]}, index=pd.Index(["a", "b"], name="key"))
        self.assertEqual(self.received(frame)["columns"], {"x": [1, 2], "key": ["a", "b"]})

    def test_what_must_be_cast_is_refused(self):
        for values, why in (pd.Categorical(["a", "b"]), "dictionary"), (pd.to_datetime(["2026-01-01"] * 2), "tsu:"):
            with self.subTest(why=why):
                self.assert_refused(pd.DataFrame({"x": values}), "x", why)


class DuckDBTest(FrameCase):

    query = """select i::integer as i, i * 0.5::double as f, i % 2 = 0 as b, 'row ' || i as t,
               case when i = 1 then null else i::tinyint end as n, [i, i + 1] as l, 'x'::blob as z from range(3) r(i)"""

    def test_a_relation_is_read_in_each_epoch(self):
        got = self.received(duckdb.sql(self.query), epochs=2)
        self.assertEqual(got["columns"], {
            "i": [0, 1, 2] * 2, "f": [0, 0.5, 1] * 2, "b": [True, False, True] * 2, "t": ["row 0", "row 1", "row 2"] * 2,
            "n": [0, None, 2] * 2, "l": [[0, 1], [1, 2], [2, 3]] * 2, "z": ["x"] * 6})
        self.assertEqual(got["types"]["n"], "i1")

    def test_a_relation_larger_than_the_window(self):
        relation = duckdb.sql("select i, repeat('x', (i % 50)::bigint) as t from range(200000) r(i)")
        got = self.received(relation, window=1 << 20)["columns"]
        self.assertEqual(got["i"], list(range(200000)))
        self.assertEqual([len(text) for text in got["t"]], [row % 50 for row in range(200000)])

    def test_what_must_be_cast_is_refused(self):
        self.assert_refused(duckdb.sql("select 1.5::decimal(4, 2) as x"), "x", "d:4,2.*")
        self.assert_refused(duckdb.sql("select date '2026-01-01' as x"), "x", "tdD")


if __name__ == "__main__":
    unittest.main(verbosity=2)
