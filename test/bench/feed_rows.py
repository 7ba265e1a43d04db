"""What the contenders of the feed share: the rows, and how the bench talks to their processes."""

import json
import os
import sys

import numpy

# wide: an image of MNIST and its label; narrow: a row of a small table.
WIDTHS = {"wide": 784, "narrow": 10}
ROW_BYTES = {"wide": 784 * 4 + 8, "narrow": 10 * 4}
SMALL_BATCH = 256
LARGE_BATCH = {kind: (1 << 20) // row_bytes for kind, row_bytes in ROW_BYTES.items()}
DISTINCT_ROWS = {"wide": 20480, "narrow": 1638400}  # just below 64 MiB


def arrays(kind, rows):
    """Columns as arrays: x, and of wide rows the label y. All values differ, so that nothing is
    sent by reference."""
    random = numpy.random.default_rng(rows)
    columns = {"x": random.random((rows, WIDTHS[kind]), dtype=numpy.float32)}
    if kind == "wide":
        columns["y"] = numpy.arange(rows, dtype=numpy.int64)
    return columns


def lists(kind, rows):
    """Rows as tuples of lists and numbers, as a database driver or a parser returns them."""
    columns = arrays(kind, rows)
    return list(zip(*(column.tolist() for column in columns.values()), strict=True))


def table(kind, rows):
    import pyarrow  # the contender of Spark has none

    columns = arrays(kind, rows)
    values = pyarrow.array(columns["x"].reshape(-1))
    columns["x"] = pyarrow.FixedSizeListArray.from_arrays(values, WIDTHS[kind])
    return pyarrow.table(columns)


def serve(methods):
    """Answers the bench: each line of standard input is [method, arguments...], each line of
    standard output the result. Whatever else prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    print(json.dumps("ready"), file=answers)
    for line in sys.stdin:
        name, *words = json.loads(line)
        print(json.dumps(methods[name](*words)), file=answers)
