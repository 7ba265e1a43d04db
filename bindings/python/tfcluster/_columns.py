"""Rows as columns: from numpy, from rows of Python and from Arrow to what the library takes, and back to numpy."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _abi
from .errors import InvalidError

if TYPE_CHECKING:
    import numpy as np

PARTITION_BYTES = 4 << 20
_FIRST_ROWS = 256  # of an iterable, to learn how long its rows are
_DIMENSIONS_MAX = _abi.TFC_FEED_DIMENSIONS_MAX
_Type = _abi.FeedType

# The library's type by numpy's kind and size of an element.
_TYPES = {
    "b1": _Type.BOOL, "i1": _Type.INT8, "i2": _Type.INT16, "i4": _Type.INT32, "i8": _Type.INT64,
    "u1": _Type.UINT8, "u2": _Type.UINT16, "u4": _Type.UINT32, "u8": _Type.UINT64,
    "f2": _Type.FLOAT16, "f4": _Type.FLOAT32, "f8": _Type.FLOAT64,
}
_NAMES = {number: name for name, number in _TYPES.items()}


def invalid(text: str) -> InvalidError:
    """The exception for what a caller of the feed has given."""
    return InvalidError(text, int(_abi.Err.EINVAL), "feed")


def rows_for(row_bytes: int) -> int:
    """How many rows make a partition of 2 to 4 MiB: a power of two, which most batch sizes divide."""
    return 1 << max(0, (PARTITION_BYTES // max(1, row_bytes)).bit_length() - 1)


# ---- chunks: rows that can be put


class Chunk:
    """Rows in memory. `put` sends those from `begin` to `end`, or as many of them as there is room for."""

    rows: int
    row_bytes: int

    def put(self, library: Any, function: str, handle: Any, partition: int, offset: int, begin: int,
            end: int) -> tuple[int, int]:
        """Returns the library's code and how many rows were sent."""
        raise NotImplementedError


class ColumnChunk(Chunk):
    """Arrays of numpy, one for each column, whose first axis is the rows."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._alive: list[Any] = []
        self._columns = (_abi.tfc_feed_column * max(1, len(columns)))()
        self._count = len(columns)
        self.rows = 0
        self.row_bytes = 0
        if not columns:
            raise invalid("there is no column to feed")
        for index, (name, values) in enumerate(columns.items()):
            self._add(self._columns[index], str(name), values, index == 0)

    def _add(self, column: Any, name: str, values: Any, is_first: bool) -> None:
        import numpy as np

        is_list = isinstance(values, (list, tuple)) and len(values) > 0
        array = _to_array(name, list(values), 0) if is_list else np.asanyarray(values)
        if array.ndim == 0:
            raise invalid(f'column "{name}" is one value, not a column of rows')
        if array.ndim - 1 > _DIMENSIONS_MAX:
            raise invalid(f'column "{name}" has {array.ndim - 1} dimensions in each row; at most {_DIMENSIONS_MAX} are '
                           "possible")
        if is_first:
            self.rows = len(array)
        elif len(array) != self.rows:
            raise invalid(f'column "{name}" has {len(array)} rows, but the columns before have {self.rows}')
        column.size = ctypes.sizeof(column)
        column.name = name.encode()
        if isinstance(array, np.ma.MaskedArray):  # may be of any kind
            array = self._add_validity(column, name, array)
        if array.dtype.kind in "OUST":
            self._add_text(column, name, array)
            return
        kind = "bfloat16" if array.dtype.name == "bfloat16" else array.dtype.str[1:]
        if kind != "bfloat16" and kind not in _TYPES:
            raise invalid(f'column "{name}" has the type {array.dtype}, which the feed does not support; convert it to '
                           "numbers, text or bytes")
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        array = np.ascontiguousarray(array)
        self._alive.append(array)
        column.type = _Type.BFLOAT16 if kind == "bfloat16" else _TYPES[kind]
        column.dimension_count = array.ndim - 1
        for place, size in enumerate(array.shape[1:]):
            column.dimensions[place] = size
        column.values = array.ctypes.data
        self.row_bytes += array.nbytes // max(1, len(array))

    def _add_validity(self, column: Any, name: str, array: Any) -> Any:
        import numpy as np

        if array.ndim != 1:
            raise invalid(f'column "{name}": only columns of single values can have missing values')
        bits = np.packbits(~np.ma.getmaskarray(array), bitorder="little")
        self._alive.append(bits)
        column.validity = ctypes.cast(bits.ctypes.data, type(column.validity))
        return array.filled("") if array.dtype.kind in "OUST" else array.data

    def _add_text(self, column: Any, name: str, array: Any) -> None:
        import numpy as np

        if array.ndim != 1:
            raise invalid(f'column "{name}": text and bytes must be single values of a row')
        values = array.tolist()
        is_text = isinstance(values[0], str) if values else array.dtype.kind != "S"
        if values and not isinstance(values[0], (str, bytes, bytearray, type(None))):
            raise invalid(f'column "{name}": row 0 is {type(values[0]).__name__} {values[0]!r:.40}, which the feed does '
                           "not support; convert it to numbers, text or bytes")
        for row, value in enumerate(values):
            if value is None:
                raise invalid(f'column "{name}": row {row} is None; use a masked array or an Arrow table for missing '
                               "values")
            if not isinstance(value, str if is_text else (bytes, bytearray)):
                raise invalid(f'column "{name}": row {row} is {type(value).__name__}, but row 0 is '
                               f"{type(values[0]).__name__}")
        parts = [value.encode() if is_text else bytes(value) for value in values]
        offsets = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        joined = b"".join(parts)
        self._alive += [offsets, joined]
        column.type = _Type.UTF8 if is_text else _Type.BINARY
        column.offsets = ctypes.cast(offsets.ctypes.data, type(column.offsets))
        column.values = ctypes.cast(ctypes.c_char_p(joined), ctypes.c_void_p)
        self.row_bytes += 8 + len(joined) // max(1, len(parts))

    def put(self, library: Any, function: str, handle: Any, partition: int, offset: int, begin: int,
            end: int) -> tuple[int, int]:
        done = ctypes.c_uint64()
        code = getattr(library, function + "_columns")(handle, partition, offset, self._columns, self._count, end, begin,
                                                       ctypes.byref(done))
        return code, done.value


class ArrowChunk(Chunk):
    """A record batch of the Arrow C Data Interface. It owns `array`."""

    def __init__(self, schema: Any, array: Any) -> None:
        self._schema = schema
        self._array = array
        self.rows = array.length
        self.row_bytes = self._bytes() // max(1, self.rows)

    def _bytes(self) -> int:
        """How many bytes the rows have."""
        columns = zip(_children(self._schema.value, _abi.ArrowSchema), _children(self._array, _abi.ArrowArray), strict=True)
        return sum(_arrow_bytes(schema, array, self._array.offset, self.rows) for schema, array in columns)

    def put(self, library: Any, function: str, handle: Any, partition: int, offset: int, begin: int,
            end: int) -> tuple[int, int]:
        done = ctypes.c_uint64()
        part = _abi.ArrowArray()
        ctypes.pointer(part)[0] = self._array
        part.length = end
        code = getattr(library, function)(handle, partition, offset, ctypes.byref(self._schema.value),
                                          ctypes.byref(part), begin, ctypes.byref(done))
        return code, done.value

    def __del__(self) -> None:
        if self._array.release:
            self._array.release(ctypes.addressof(self._array))


class _ArrowSchema:
    """A schema that chunks share, and that is released with the last of them."""

    def __init__(self) -> None:
        self.value = _abi.ArrowSchema()

    def __del__(self) -> None:
        if self.value.release:
            self.value.release(ctypes.addressof(self.value))


def _children(parent: Any, kind: Any) -> Iterator[Any]:
    for index in range(parent.n_children):
        yield kind.from_address(parent.children[index])


def _arrow_bytes(schema: Any, array: Any, begin: int, rows: int) -> int:
    """The bytes of the rows from `begin` on of a column, without those of offsets and validity."""
    text = (schema.format or b"").decode(errors="replace")
    begin += array.offset
    if text.startswith("w:"):
        return rows * int(text[2:])
    if text.startswith("+w:") and array.n_children == 1:
        count = int(text[3:])
        return _arrow_bytes(*_only_child(schema, array), begin * count, rows * count)
    if text in ("vu", "vz"):
        return _view_bytes(array, begin, rows)
    if text in _OFFSETS and rows and array.n_buffers > 1 and array.buffers[1]:
        offsets = (_OFFSETS[text] * (begin + rows + 1)).from_address(array.buffers[1])
        first, last = offsets[begin], offsets[begin + rows]
        if text[0] != "+":
            return int(last - first)
        return _arrow_bytes(*_only_child(schema, array), first, last - first)
    return rows * {"c": 1, "C": 1, "b": 1, "s": 2, "S": 2, "e": 2, "i": 4, "I": 4, "f": 4}.get(text, 8)


def _view_bytes(array: Any, begin: int, rows: int) -> int:
    """The bytes of texts that are behind views, each of which begins with its length. Those of nulls hardly count."""
    import numpy as np

    if not rows or array.n_buffers < 2 or not array.buffers[1]:
        return 0
    views = (ctypes.c_int32 * (4 * (begin + rows))).from_address(array.buffers[1])
    return int(np.frombuffer(views, np.int32).reshape(-1, 4)[begin:, 0].clip(0).sum(dtype=np.int64))


def _only_child(schema: Any, array: Any) -> tuple[Any, Any]:
    return _abi.ArrowSchema.from_address(schema.children[0]), _abi.ArrowArray.from_address(array.children[0])


# The types of offsets, by the format of the column.
_OFFSETS: dict[str, Any] = {"u": ctypes.c_int32, "z": ctypes.c_int32, "+l": ctypes.c_int32,
                            "U": ctypes.c_int64, "Z": ctypes.c_int64, "+L": ctypes.c_int64}


class _ArrowStream(ctypes.Structure):
    """struct ArrowArrayStream of the Arrow C stream interface."""


_ArrowStream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ("private_data", ctypes.c_void_p),
]


def _capsule_pointer(capsule: Any, name: bytes) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.argtypes, get.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    pointer: int = get(capsule, name)
    return pointer


def _without_index(source: Any) -> Any:
    """A DataFrame of pandas without an index that has no name: the numbers of its rows, which selecting and sorting leave
    in the table and which pandas would export as a column."""
    if type(source).__module__.partition(".")[0] == "pandas" and getattr(source, "columns", None) is not None:
        return source.reset_index(drop=True) if set(source.index.names) == {None} else source
    return source


def _stream_chunks(source: Any) -> Iterator[Chunk]:
    capsule = source.__arrow_c_stream__()
    address = _capsule_pointer(capsule, b"arrow_array_stream")
    stream = _ArrowStream.from_address(address)
    schema = _ArrowSchema()

    def check(code: int) -> None:
        if code:
            text = stream.get_last_error(address) or b"the Arrow stream has failed"
            raise invalid(f"cannot read the Arrow stream: {text.decode(errors='replace')}")

    check(stream.get_schema(address, ctypes.addressof(schema.value)))
    while True:
        array = _abi.ArrowArray()
        check(stream.get_next(address, ctypes.addressof(array)))
        if not array.release:
            del capsule
            return
        yield ArrowChunk(schema, array)


def _array_chunks(source: Any) -> Iterator[Chunk]:
    schema_capsule, array_capsule = source.__arrow_c_array__()
    schema, array = _ArrowSchema(), _abi.ArrowArray()
    _move(_capsule_pointer(schema_capsule, b"arrow_schema"), schema.value)
    _move(_capsule_pointer(array_capsule, b"arrow_array"), array)
    yield ArrowChunk(schema, array)


def _move(address: int, target: Any) -> None:
    """Moves a struct out of a capsule, which then has none to release."""
    kind = type(target)
    ctypes.memmove(ctypes.addressof(target), address, ctypes.sizeof(kind))
    ctypes.memset(address + kind.release.offset, 0, ctypes.sizeof(ctypes.c_void_p))


# ---- sources


def _row_columns(rows: Sequence[Any], first_row: int) -> dict[str, Any]:
    """The columns of rows: of dicts by their keys, of tuples and lists by position, of single values "0"."""
    first = rows[0]
    if isinstance(first, Mapping):
        for index, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise invalid(f"row {first_row + index} is {type(row).__name__}, but row {first_row} is a dict")
            if row.keys() != first.keys():
                raise invalid(f"row {first_row + index} has the keys {_names(row)}, but row {first_row} has {_names(first)}")
        named: dict[str, Any] = {str(name): [row[name] for row in rows] for name in first}
    elif isinstance(first, (tuple, list)):
        for index, row in enumerate(rows):
            if not isinstance(row, (tuple, list)) or len(row) != len(first):
                raise invalid(f"row {first_row + index} has not {len(first)} values, as row {first_row} has")
        named = {str(place): list(values) for place, values in enumerate(zip(*rows, strict=True))}
    else:
        named = {"0": list(rows)}
    return {name: _to_array(name, values, first_row) for name, values in named.items()}


def _names(row: Mapping[Any, Any]) -> str:
    return ", ".join(map(str, row)) or "none"


def _pack(values: list[Any]) -> Any:
    """What numpy.asarray makes of lists of numbers, three times as fast. None: they are something else."""
    import numpy as np

    first = values[0]
    if not isinstance(first, (tuple, list)) or not first or type(first[0]) not in (float, int):
        return None
    kind = "d" if type(first[0]) is float else "q"
    pack = struct.Struct(f"={len(first)}{kind}").pack
    try:
        data = b"".join([pack(*row) for row in values])
    except (struct.error, TypeError, OverflowError):  # of different lengths or types
        return None
    return np.frombuffer(data, kind).reshape(len(values), len(first))


def _to_array(name: str, values: list[Any], first_row: int) -> Any:
    import numpy as np

    def refuse(index: int, what: str) -> InvalidError:
        return invalid(f'column "{name}": row {first_row + index} {what}')

    is_text = isinstance(values[0], (str, bytes))
    for index, value in enumerate(values):
        if value is None:
            raise refuse(index, "is None; use a masked array or an Arrow table for missing values")
        if isinstance(value, (str, bytes)) and not is_text:  # numpy would make all of them text
            raise refuse(index, f"is {type(value).__name__}, but row {first_row} is {type(values[0]).__name__}")
    if is_text:
        array = np.empty(len(values), object)
        array[:] = values
        return array
    packed = _pack(values)
    if packed is not None:
        return packed
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        shapes = [_shape(value) for value in values]
        odd = next((index for index, shape in enumerate(shapes) if shape != shapes[0]), 0)
        raise refuse(odd, f"has the shape {shapes[odd]}, but row {first_row} has {shapes[0]}; pad the rows, or use lists "
                          "in an Arrow table") from None
    if array.dtype.kind == "O":
        odd = next((index for index, value in enumerate(values) if np.asarray(value).dtype.kind == "O"), 0)
        raise refuse(odd, f"is {type(values[odd]).__name__} {values[odd]!r:.40}, which the feed does not support; convert "
                          "it to numbers, text or bytes")
    return array


def _shape(value: Any) -> str:
    import numpy as np

    try:
        return str(list(np.shape(value)))
    except ValueError:
        return "of rows of different lengths"


def _iterable_chunks(rows: Iterable[Any], limit: int | None) -> Iterator[Chunk]:
    iterator = iter(rows)
    wanted, done = min(_FIRST_ROWS, limit or _FIRST_ROWS), 0
    while batch := list(itertools.islice(iterator, wanted)):
        chunk = ColumnChunk(_row_columns(batch, done))
        yield chunk
        done += len(batch)
        wanted = limit or rows_for(chunk.row_bytes)


def chunks_of(source: Any, limit: int | None = None) -> Iterator[Chunk]:
    """The rows of a source, in chunks. Raises InvalidError for a source that cannot be fed."""
    if isinstance(source, Chunk):
        return iter((source,))
    if hasattr(source, "__arrow_c_stream__"):
        return _stream_chunks(_without_index(source))
    if hasattr(source, "__arrow_c_array__"):
        return _array_chunks(source)
    if isinstance(source, Mapping):
        return iter((ColumnChunk(source),))
    if hasattr(source, "__array__") or hasattr(source, "__array_interface__"):
        return iter((ColumnChunk({"0": source}),))
    if isinstance(source, (tuple, list)) and source and all(getattr(part, "ndim", 0) for part in source):
        return iter((ColumnChunk({str(place): part for place, part in enumerate(source)}),))
    if hasattr(source, "as_numpy_iterator"):  # tf.data.Dataset: its elements are rows
        return _iterable_chunks(source.as_numpy_iterator(), limit)
    if isinstance(source, (str, bytes)) or not isinstance(source, Iterable):
        raise invalid(f"cannot feed a value of the type {type(source).__name__}; give an Arrow table, arrays of numpy, "
                      "or rows")
    return _iterable_chunks(source, limit)


def is_one_shot(source: Any) -> bool:
    """Whether the source can be read only once."""
    if hasattr(source, "__arrow_c_stream__"):
        return hasattr(source, "read_next_batch")  # a reader, not a table
    return isinstance(source, Iterator)


# ---- batches that were received


class Kept:
    """How much of the sender's window is occupied by arrays that the program has kept."""

    def __init__(self) -> None:
        self.bytes = 0
        self.largest = 0  # batch that may come, as far as is known


class _Owner:
    """Holds a batch of the library as long as an array refers to its memory."""

    __slots__ = ("_bytes", "_kept", "_library", "pointer")

    def __init__(self, library: Any, pointer: int, kept: Kept) -> None:
        self._library = library
        self.pointer = pointer
        self._kept = kept
        self._bytes = library.tfc_feed_batch_bytes(pointer)
        kept.bytes += self._bytes

    def __del__(self) -> None:
        self._kept.bytes -= self._bytes
        self._library.tfc_feed_batch_release(self.pointer)


class _View:
    """Memory of a batch, as numpy takes it."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, owner: _Owner, address: int, kind: str, shape: tuple[int, ...]) -> None:
        self._owner = owner
        self.__array_interface__ = {"version": 3, "data": (address, True), "typestr": "|" + kind if kind[1:] == "1"
                                    else "<" + kind, "shape": shape}


def _view(owner: _Owner, address: int | None, kind: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    import numpy as np

    if not address or 0 in shape:
        return np.empty(shape, kind)
    return np.asarray(_View(owner, address, kind, shape))


def _text_values(owner: _Owner, column: Any, rows: int) -> Any:
    import numpy as np

    values = np.empty(rows, object)
    address = ctypes.cast(column.offsets, ctypes.c_void_p).value
    if address is None:  # of fixed size
        size = column.dimensions[0]
        values[:] = [ctypes.string_at(column.values + size * row, size) for row in range(rows)]
        return values
    offsets = _view(owner, address, "i8", (rows + 1,)).tolist()
    whole = ctypes.string_at(column.values, offsets[-1]) if offsets[-1] else b""
    parts = [whole[begin:end] for begin, end in itertools.pairwise(offsets)]
    values[:] = [part.decode() for part in parts] if column.type == _Type.UTF8 else parts
    return values


def _list_values(owner: _Owner, column: Any, rows: int) -> Any:
    import numpy as np

    # a copy: copies of the array of lists refer to the same items, and would occupy the window
    items = _values(owner, _abi.tfc_feed_column.from_address(column.items), column.item_count).copy()
    address = ctypes.cast(column.offsets, ctypes.c_void_p).value
    offsets = _view(owner, address, "i8", (rows + 1,)).tolist()
    values = np.empty(rows, object)
    for row, (begin, end) in enumerate(itertools.pairwise(offsets)):
        values[row] = items[begin:end]
    return values


def _values(owner: _Owner, column: Any, rows: int) -> Any:
    import numpy as np

    shape = (rows, *column.dimensions[:column.dimension_count])
    values: Any
    if column.type == _Type.LIST:
        values = _list_values(owner, column, rows)
    elif column.type in (_Type.UTF8, _Type.BINARY):
        values = _text_values(owner, column, rows)
    elif column.type == _Type.BOOL:
        count = int(np.prod(shape))
        bits = _view(owner, column.values, "u1", ((count + 7) // 8,))
        values = np.unpackbits(bits, count=count, bitorder="little").astype(bool).reshape(shape)
    elif column.type == _Type.BFLOAT16:
        import ml_dtypes  # type: ignore[import-not-found, unused-ignore]
        values = _view(owner, column.values, "u2", shape).view(ml_dtypes.bfloat16)
    else:
        values = _view(owner, column.values, _NAMES[column.type], shape)
    address = ctypes.cast(column.validity, ctypes.c_void_p).value
    if address is None:
        return values
    bits = np.unpackbits(_view(owner, address, "u1", ((rows + 7) // 8,)), count=rows, bitorder="little")
    if bits.all():
        return values
    mask = np.broadcast_to((bits == 0).reshape(rows, *([1] * (values.ndim - 1))), values.shape)
    return np.ma.MaskedArray(values, mask)


def join(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The rows of all parts, which have the same columns. One part stays as it is."""
    import numpy as np

    if len(parts) == 1:
        return parts[0]

    def joined(values: list[Any]) -> Any:
        has_nulls = any(isinstance(part, np.ma.MaskedArray) for part in values)
        return (np.ma.concatenate if has_nulls else np.concatenate)(values)  # np.concatenate drops masks

    return {name: joined([part[name] for part in parts]) for name in parts[0]}


def columns_of(library: Any, batch: int, kept: Kept) -> dict[str, Any]:
    """The columns of a batch as arrays, which own the batch from now on. They are views of its memory, or copies if
    the program keeps as many arrays as half the window, or the next batch would not fit: the sender would stop."""
    window, size = library.tfc_feed_batch_window_bytes(batch), library.tfc_feed_batch_bytes(batch)
    kept.largest = max(kept.largest, size, window * 9 // 32)  # a batch has up to 9/8 of a chunk, a quarter of the window
    is_copied = 2 * kept.bytes > window or kept.bytes + size + kept.largest > window
    owner = _Owner(library, batch, kept)
    rows = library.tfc_feed_batch_rows(batch)
    columns = {}
    for index in range(library.tfc_feed_batch_column_count(batch)):
        column = _abi.tfc_feed_column()
        column.size = ctypes.sizeof(column)
        library.tfc_feed_batch_column(batch, index, ctypes.byref(column))
        values = _values(owner, column, rows)
        columns[(column.name or b"").decode("utf-8", "backslashreplace")] = values.copy() if is_copied else values
    return columns


