"""The driver's end of a feed: `job.feed`."""

from __future__ import annotations

import ctypes
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from . import _abi, _columns, _context
from .errors import DeadlineError, Error, InvalidError

if TYPE_CHECKING:
    from .job import Job

_AGAIN = int(_abi.Err.EAGAIN)
_Kind = _abi.FeedEventKind


class Partitions:
    """Sources, each of which is one partition: all its rows go to one task, in order. Results come partition by
    partition. A callable is called for its source when its partition is fed."""

    def __init__(self, sources: Iterable[Any]) -> None:
        self.sources = sources

    def __iter__(self) -> Iterator[Any]:
        for source in self.sources:
            yield source() if callable(source) else source


class Partition:
    """A partition that is not consumed yet: its rows, which are put again if their task dies."""

    def __init__(self, number: int, parts: list[tuple[_columns.Chunk, int, int]]) -> None:
        self.number = number
        self.parts = parts  # a chunk, and the rows of it from and to
        self.rows = sum(end - begin for _, begin, end in parts)


class Put:
    """What `put` has fed. Once the feed has ended, `wait` returns when the tasks have consumed all of it."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.numbers: set[int] = set()
        self.rows = 0

    def done(self) -> bool:
        """Whether all rows were consumed."""
        return self._producer.is_terminated or not self.numbers & self._producer.pending.keys()

    def wait(self, timeout: float | None = None) -> None:
        """Waits until all rows were consumed, after the `with` block or `Producer.end`: rows that do not fill a batch are
        consumed only when it is known that no more follow. Raises what ended the feed, or DeadlineError."""
        if not self._producer.is_ending:
            raise InvalidError("wait: the feed has not ended; leave its block or call end() first",
                               int(_abi.Err.ESTATE), "feed")
        self._producer._wait(self.done, timeout)


class Producer:
    """Feeds a queue of a job's tasks. `Job.feed` makes one; use it in a `with` block."""

    def __init__(self, job: Job, queue: str, *, task: str | None = None, results: bool = False, window: int = 0,
                 partition_rows: int | None = None, producer: str = "0", producers: int = 1,
                 on_result: Callable[[int, int, dict[str, Any]], None] | None = None) -> None:
        self._job = job
        self._context = job.client._context
        self._on_result = on_result
        self._partition_rows = partition_rows
        self._handle = ctypes.c_void_p()
        self._number = _context.register(self)
        # All producers of a queue share the numbers of partitions.
        self._next_partition = (int(producer) if producer.isdecimal() else zlib.crc32(producer.encode())) << 32
        self.pending: dict[int, Partition] = {}
        self._replays: deque[tuple[int, int]] = deque()
        self._is_open = False
        self._is_ready = True
        self._is_ended = False
        self._failure: Error | None = None
        self.is_terminated = False
        self.is_ending = False
        options = _abi.tfc_feed_producer_options()
        if partition_rows is not None and partition_rows < 1:
            raise InvalidError("partition_rows: must be at least 1", int(_abi.Err.EINVAL), "feed")
        try:
            with self._context.locked() as library:
                library.tfc_feed_producer_options_init(ctypes.byref(options), ctypes.sizeof(options))
                options.queue, options.producer = queue.encode(), producer.encode()
                options.task = task.encode() if task else None
                options.producers, options.window_bytes, options.wants_results = producers, window, int(results)
                self._context.check(library.tfc_feed_producer_open(
                    job.client._gateway, job.id.encode(), ctypes.byref(options), _on_event, self._number,
                    ctypes.byref(self._handle)))
        except BaseException:
            _context.forget(self._number)
            raise
        try:
            self._wait(lambda: self._is_open)
        except BaseException:
            self.close()
            raise

    # ---- events

    def _receive(self, event: Any) -> None:
        match event.kind:
            case _Kind.OPEN:
                self._is_open = True
            case _Kind.READY:
                self._is_ready = True
            case _Kind.DONE:
                self.pending.pop(event.partition, None)
            case _Kind.REPLAY:
                self._replays.append((event.partition, event.offset))
            case _Kind.RESULT:
                library = self._context.library
                columns = _columns.columns_of(library, library.tfc_feed_batch_keep(event.batch), _columns.Kept())
                if self._on_result is not None:
                    self._on_result(event.partition, event.offset, {
                        name: values.copy() for name, values in columns.items()})
            case _Kind.TERMINATED:
                self.is_terminated = True
            case _Kind.END:
                self._is_ended = True
                if event.code < 0:
                    self._failure = _context.error_of(event.error, event.code)

    def _check(self) -> None:
        if self._failure is None:
            return
        if self._job.done() or self._failure.code == int(_abi.Err.ELOST):
            # The job's own end says more than that it has ended.
            self._context.wait(self._job.done, 10)
            exception = self._job.exception(0) if self._job.done() else None
            if exception is not None:
                raise exception
        raise self._failure

    def _wait(self, is_done: Callable[[], bool], timeout: float | None = None) -> None:
        """Dispatches until is_done(), and puts again what was lost meanwhile."""
        while True:
            if not self._context.wait(lambda: is_done() or self._is_ended or bool(self._replays), timeout):
                raise DeadlineError(f"the tasks did not consume the rows within {timeout:g} s",
                                    int(_abi.Err.ETIMEDOUT), "feed")
            self._check()
            if self._replays:
                self._replay()
            elif is_done() or self._is_ended:
                return

    # ---- putting

    def _call(self, function: Callable[[Any], tuple[int, int]]) -> int:
        """Calls the library until it has room."""
        while True:
            with self._context.locked() as library:
                self._is_ready = False
                code, done = function(library)
                if code >= 0:
                    return done
                error = _context.error_of(library.tfc_ctx_error(self._context.pointer), code)
            if code == int(_abi.Err.ESTATE):  # if the feed has ended, END is on its way
                self._context.wait(lambda: self._is_ended, 1)
            if self._is_ended:
                self._check()
            if code != _AGAIN:
                raise error
            self._context.wait(lambda: self._is_ready or self._is_ended)

    def _put_partition(self, partition: Partition, offset: int) -> None:
        """Puts the rows from `offset` on. Gives up when the task dies: the partition is then replayed."""
        before = 0
        for chunk, begin, end in partition.parts:
            at = begin + max(0, min(offset - before, end - begin))
            while at < end:
                place = before + at - begin
                at += self._call(lambda library, at=at, chunk=chunk, end=end, place=place: chunk.put(
                    library, "tfc_feed_producer_put", self._handle, partition.number, place, at, end))
                if self._is_replayed(partition.number):
                    return
            before += end - begin
        if self._is_replayed(partition.number):
            return
        self._call(lambda library: (library.tfc_feed_producer_finish(
            self._handle, partition.number, partition.rows), 0))

    def _is_replayed(self, number: int) -> bool:
        return any(number == replayed for replayed, _ in self._replays)

    def _replay(self) -> None:
        while self._replays:
            number, offset = self._replays.popleft()
            partition = self.pending.get(number)
            if partition is not None:
                self._put_partition(partition, offset)

    def _add(self, put: Put, parts: list[tuple[_columns.Chunk, int, int]]) -> None:
        partition = Partition(self._next_partition, parts)
        self._next_partition += 1
        self.pending[partition.number] = partition
        put.numbers.add(partition.number)
        put.rows += partition.rows
        try:
            self._put_partition(partition, 0)
        except BaseException:
            self.pending.pop(partition.number, None)
            raise
        if self._replays:
            self._replay()

    def _cut(self, chunk: _columns.Chunk) -> Iterator[tuple[int, int]]:
        size = self._partition_rows or _columns.rows_for(chunk.row_bytes)
        if not self._partition_rows:  # each task that trains gets rows
            trains = sum(name.startswith(("worker/", "chief/")) for name in self._job.tasks)
            size = min(size, max(1, -(-chunk.rows // max(1, trains))))
        for begin in range(0, chunk.rows, size):
            yield begin, min(begin + size, chunk.rows)

    def put(self, source: Any, epochs: int = 1) -> Put:
        """Feeds the rows of a source `epochs` times. Returns when they are on their way; `Put.wait` waits until they are
        consumed.

        A source is an Arrow table or anything else with `__arrow_c_stream__` (pandas, polars, DuckDB), a dict or tuple of
        numpy arrays whose first axis is the rows, one array, a tf.data.Dataset or an iterable of rows, or `Partitions`.
        Rows are tuples, lists, dicts or single values. Columns without names are called "0", "1", ...
        """
        if epochs < 1:
            raise InvalidError("epochs: must be at least 1", int(_abi.Err.EINVAL), "feed")
        inner = source.sources if isinstance(source, Partitions) else source
        if epochs > 1 and _columns.is_one_shot(inner):
            raise InvalidError(f"epochs: a {type(inner).__name__} can be read only once; feed a table, a list or arrays",
                               int(_abi.Err.EINVAL), "feed")
        put = Put(self)
        for _ in range(epochs):
            if isinstance(source, Partitions):
                for part in source:
                    self._add(put, [(chunk, 0, chunk.rows) for chunk in _columns.chunks_of(part)])
                continue
            for chunk in _columns.chunks_of(source, self._partition_rows):
                for begin, end in self._cut(chunk):
                    self._add(put, [(chunk, begin, end)])
        return put

    # ---- the end

    def end(self, timeout: float | None = None) -> None:
        """Ends the feed, and waits until all of it was consumed."""
        with self._context.locked() as library:
            self._context.check(library.tfc_feed_producer_end(self._handle))
            self.is_ending = True
        self._wait(lambda: self._is_ended, timeout)

    def close(self) -> None:
        """Closes the feed at once. Rows that were not consumed are lost. Again: no-op."""
        _context.forget(self._number)
        with self._context.condition:
            if self._context.pointer is not None and self._handle:
                self._context.library.tfc_feed_producer_close(self._handle)
            self._handle = ctypes.c_void_p()

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            if kind is None:
                self.end()
        finally:
            self.close()


def _event(user: int | None, event: Any) -> None:
    producer = _context.registered(user)
    if producer is not None:
        try:
            producer._receive(event.contents)
        except BaseException as failure:
            producer._context.fail(failure)


_on_event = _abi.tfc_feed_fn(_event)
