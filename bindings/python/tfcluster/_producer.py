"""The driver's end of a feed: `job.feed`."""

from __future__ import annotations

import contextlib
import ctypes
import weakref
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from . import _abi, _columns, _context
from ._columns import invalid
from .errors import DeadlineError, Error

if TYPE_CHECKING:
    from .job import Job

START_S = 600.0  # until a queue that no task reads is an error
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
        self.offset = 0  # rows that were put
        self.is_finished = False
        self.is_queued = True  # to be put
        self.is_new = True  # `put` waits for it, and raises `failure`
        self.failure: Error | None = None

    def next_rows(self) -> tuple[_columns.Chunk, int, int] | None:
        """The chunk of the row at `offset`, and the rows of it that are left, from and to."""
        before = 0
        for chunk, begin, end in self.parts:
            if self.offset < before + end - begin:
                return chunk, begin + self.offset - before, end
            before += end - begin
        return None


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
            raise Error("wait: the feed has not ended; leave its block or call end() first", int(_abi.Err.ESTATE), "feed")
        self._producer._wait(self.done, timeout)


class Producer:
    """Feeds a queue of a job's tasks. `Job.feed` makes one; use it in a `with` block."""

    def __init__(self, job: Job, queue: str, *, task: str | None = None, results: bool = False, window: int = 0,
                 partition_rows: int | None = None, producer: str = "0", producers: int = 1, replayable: bool = False,
                 start_timeout: float | None = START_S,
                 on_result: Callable[[int, int, dict[str, Any]], None] | None = None) -> None:
        self._job = job
        self._context = job.client._context
        self._on_result = on_result
        self._partition_rows = partition_rows
        self._start_timeout = start_timeout
        self._place = queue, producer
        self._task = task
        self.queue = queue
        self._handle = ctypes.c_void_p()
        self._number = _context.register(self)
        # All producers of a queue share the numbers of partitions. A later feed of this job goes on where this one ends: a
        # task may still know the partitions of an earlier one.
        first = (int(producer) if producer.isdecimal() else zlib.crc32(producer.encode())) << 32
        self._next_partition = job._next_partitions.get(self._place, first)
        self.pending: dict[int, Partition] = {}
        self._queue: deque[Partition] = deque()  # to be put; those that are put again come first
        self._is_open = False
        self._is_read = False  # a task has the queue open
        self._is_ready = True
        self._is_ended = False
        self._failure: Error | None = None
        self.is_terminated = False
        self.is_ending = False
        options = _abi.tfc_feed_producer_options()
        for name, value, least in ("partition_rows", partition_rows, 1), ("producers", producers, 1), ("window", window, 0):
            if value is not None and (not isinstance(value, int) or value < least):
                raise invalid(f"{name}: must be a number, at least {least}, not {value!r}")
        for name, text in ("queue", queue), ("producer", producer), ("task", task or ""):
            if not isinstance(text, str):
                raise invalid(f"{name}: must be a string, not {text!r}")
        if any((feed._place, feed._task) == (self._place, task) and not feed._is_ended for feed in tuple(job._feeds)):
            raise invalid(f'queue "{queue}" has an open feed of this job already; leave its block first, or give each feed '
                          "a producer name, and their number in producers")
        try:
            with self._context.locked() as library:
                library.tfc_feed_producer_options_init(ctypes.byref(options), ctypes.sizeof(options))
                options.queue, options.producer = queue.encode(), producer.encode()
                options.task = task.encode() if task else None
                options.producers, options.window_bytes, options.wants_results = producers, window, int(results)
                options.is_replayable = int(replayable)
                self._context.check(library.tfc_feed_producer_open(
                    job.client._gateway, job.id.encode(), ctypes.byref(options), _on_event, self._number,
                    ctypes.byref(self._handle)))
        except BaseException:
            _context.forget(self._number)
            raise
        job._feeds.add(self)
        self._on_dispatch = _pump_of(weakref.ref(self))
        self._context.on_dispatch.append(self._on_dispatch)
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
                self._replay(event.partition, event.offset)
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
        """Dispatches until is_done(), or the feed has ended."""
        if not self._context.wait(lambda: is_done() or self._is_ended, timeout):
            raise DeadlineError(f"the tasks did not consume the rows within {timeout:g} s",
                                int(_abi.Err.ETIMEDOUT), "feed")
        self._check()

    # ---- putting

    def _replay(self, number: int, offset: int) -> None:
        partition = self.pending.get(number)
        if partition is not None:
            partition.offset, partition.is_finished = offset, False
            if not partition.is_queued:
                partition.is_queued = True
                self._queue.appendleft(partition)

    def _pump(self) -> None:
        """Puts what there is room for. Runs after each dispatch, whoever waits for what."""
        with self._context.condition:
            if not self._queue or not self._is_ready or not self._handle or self._context.pointer is None:
                return
            with _context.DelayedSignals():
                while self._queue and self._put_rows(self._queue[0]):
                    self._queue.popleft().is_queued = False
            self._context.wake()

    def _put_rows(self, partition: Partition) -> bool:
        """Puts rows of a partition. False: there is no room for all of them."""
        library = self._context.library
        while not partition.is_finished:
            self._is_ready = False  # the library sets it again
            rows = partition.next_rows()
            done = 0
            if rows is None:
                code = library.tfc_feed_producer_finish(self._handle, partition.number, partition.rows)
                partition.is_finished = code >= 0
            else:
                chunk, begin, end = rows
                code, done = chunk.put(library, "tfc_feed_producer_put", self._handle, partition.number,
                                       partition.offset, begin, end)
            if code == _AGAIN:
                return False
            if code == int(_abi.Err.ESTATE):  # the event END is on its way, and says why
                return False
            if code < 0:
                self._fail(partition, _context.error_of(library.tfc_ctx_error(self._context.pointer), code))
                self._is_ready = True
                return True
            self._is_read, self._is_ready = True, True
            partition.offset += done
        return True

    def _fail(self, partition: Partition, error: Error) -> None:
        self.pending.pop(partition.number, None)
        partition.failure = error
        if not partition.is_new:
            self._failure, self._is_ended = self._failure or error, True

    def _add(self, put: Put, parts: list[tuple[_columns.Chunk, int, int]]) -> int:
        """Puts a new partition; returns its number."""
        with self._context.condition:  # threads may put at once
            if self.is_ending:
                raise Error("put: the feed has ended", int(_abi.Err.ESTATE), "feed")
            partition = Partition(self._next_partition, parts)
            self._next_partition += 1
            self._job._next_partitions[self._place] = self._next_partition
            self.pending[partition.number] = partition
            self._queue.append(partition)
        put.numbers.add(partition.number)
        put.rows += partition.rows
        self._pump()
        try:
            self._await_put(partition)
        finally:
            partition.is_new = False
        if partition.failure is not None:
            raise partition.failure
        return partition.number

    def _await_put(self, partition: Partition) -> None:
        def is_put() -> bool:
            return not partition.is_queued

        def is_read() -> bool:
            return self._is_read or self._is_ended or is_put()

        def has_started() -> bool:  # a task that makes no strategy may never listen, and its job never be "running"
            states = {row.state for row in self._job.tasks.values()}
            return self._job.state == "running" or (
                self._job.state == "starting" and {"running"} <= states <= {"running", "ready"})

        if not is_read():
            self._context.wait(lambda: is_read() or has_started())
            if not self._context.wait(is_read, self._start_timeout):
                queue, timeout = self._place[0], self._start_timeout
                where = "in the function of the tasks"
                if "ps/0" in self._job.tasks:
                    where += "; with parameter servers, the workers read what the chief's dataset() asks for"
                raise DeadlineError(
                    f'no task has read queue "{queue}" within {timeout:g} s; call ctx.feed("{queue}") {where}',
                    int(_abi.Err.ETIMEDOUT), "feed")
        self._wait(is_put)

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
        if not isinstance(epochs, int) or epochs < 1:
            raise invalid(f"epochs: must be a number, at least 1, not {epochs!r}")
        inner = source.sources if isinstance(source, Partitions) else source
        if epochs > 1 and _columns.is_one_shot(inner):
            raise invalid(f"epochs: a {type(inner).__name__} can be read only once; feed a table, arrays or a list")
        put = Put(self)
        for _ in range(epochs):
            for pieces in self._pieces(source):
                self._add(put, pieces)
        return put

    def _pieces(self, source: Any) -> Iterator[list[tuple[_columns.Chunk, int, int]]]:
        """The partitions of a source."""
        if isinstance(source, Partitions):
            for part in source:
                yield [(chunk, 0, chunk.rows) for chunk in _columns.chunks_of(part)]
            return
        for chunk in _columns.chunks_of(source, self._partition_rows):
            for begin, end in self._cut(chunk):
                yield [(chunk, begin, end)]

    # ---- the end

    def end(self, timeout: float | None = None) -> None:
        """Ends the feed, and waits until all of it was consumed. Again: waits."""
        while not self.is_ending:
            self._wait(lambda: not self._queue, timeout)
            with self._context.locked() as library:
                if not self._queue:
                    self._context.check(library.tfc_feed_producer_end(self._handle))
                    self.is_ending = True
        self._wait(lambda: self._is_ended, timeout)

    def close(self) -> None:
        """Closes the feed at once. Rows that were not consumed are lost. Again: no-op."""
        _context.forget(self._number)
        self._job._feeds.discard(self)
        with self._context.condition:
            with contextlib.suppress(ValueError):  # closed already, or the context is
                self._context.on_dispatch.remove(self._on_dispatch)
            if self._context.pointer is not None and self._handle:
                self._context.library.tfc_feed_producer_close(self._handle)
            self._handle = ctypes.c_void_p()

    def __del__(self) -> None:
        if hasattr(self, "_on_dispatch"):
            self.close()

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            if kind is None:
                self.end()
        finally:
            self.close()


def _pump_of(producer: weakref.ref[Producer]) -> Callable[[], None]:
    def pump() -> None:
        known = producer()
        if known is not None:
            known._pump()

    return pump


def _event(user: int | None, event: Any) -> None:
    producer = _context.registered(user)
    if producer is not None:
        try:
            producer._receive(event.contents)
        except BaseException as failure:
            producer._context.fail(failure)


_on_event = _abi.tfc_feed_fn(_event)
