"""The task's end of a feed: `ctx.feed("train")`."""

from __future__ import annotations

import ctypes
import os
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _abi, _bundle, _columns, _context
from ._columns import invalid
from .errors import Error, InvalidError

if TYPE_CHECKING:
    from . import _feed_workers
    from ._positions import Entry
    from ._task_context import TaskContext
    from .checkpoints import Checkpoints

_AGAIN = int(_abi.Err.EAGAIN)
_SETTLE_S = 30.0  # how long a producer that does not read delays the end of a queue
_PREFETCHED = 8  # batches that tf.data may hold and that were not trained
_REPORT_S = 0.005  # between reports amid rows that arrived together: one for each small batch would cost more than it

Batch = dict[str, Any]


class _Rows:
    """Rows that have arrived: columns, and where in their partition they are."""

    __slots__ = ("begin", "columns", "is_end", "offset", "partition", "rows")

    def __init__(self, columns: Batch, partition: int, offset: int, rows: int, is_end: bool) -> None:
        self.columns = columns
        self.partition = partition
        self.offset = offset
        self.rows = rows
        self.begin = 0  # rows that were taken already
        self.is_end = is_end  # of its partition; it has no rows then


class Feed:
    """A queue of this task. It is read once, by `batches`, `dataset` or a `TFNode.DataFeed`.

    Rows count as consumed when the batch after theirs is asked for, or, with `checkpoints`, when one has them. What was
    not consumed when the task dies is fed again, to its next attempt or to another task.
    """

    def __init__(self, task: TaskContext, queue: str = "train", window: int = 0,
                 checkpoints: Checkpoints | None = None) -> None:
        self._task = task
        self._queue = queue
        self._window = window
        self._checkpoints = checkpoints
        self._batch_ends: deque[int] = deque()  # `_taken` after each batch that was given out since the last checkpoint
        self._given = 0  # batches
        self._is_all_given = False
        self._context: _context.Context | None = None
        self._handle = ctypes.c_void_p()
        self._number = 0
        self._is_ready = True
        self._failure: Error | None = None
        self._is_ended = False
        self._is_terminated = False
        self._reported: tuple[int, bool] | None = None
        self._arrived: deque[_Rows] = deque()
        # partition, rows of it, whether those are all, and after how many rows of the queue
        self._marks: deque[tuple[int, int, bool, int]] = deque()
        self._arrival_ends: deque[int] = deque()  # `_taken` after all rows that arrived together
        self._report_at = 0.0
        self._kept = _columns.Kept()
        self._taken = 0  # rows of the queue that were handed out
        self._no_rows: Batch | None = None  # the columns of a queue that has ended without a row for this task
        self._workers: _feed_workers.Workers | None = None  # who read it for this coordinator

    # ---- the library

    def _open(self, multiple: int = 1, is_in_step: bool = False) -> None:
        if self._number:
            raise invalid(f'queue "{self._queue}": it is read once; give the number of epochs to put(), and call ctx.feed() '
                          "again for what the driver feeds later")
        address = os.environ.get("TFC_FEED")
        if not address:
            raise invalid("ctx.feed() needs a task that a node has started; TFC_FEED is not set")
        self._check_ack()
        context = _context.Context()
        committed = self._checkpoints.add_feed(self._queue, self) if self._checkpoints is not None else None
        options = _abi.tfc_feed_consumer_options()
        self._number = _context.register(self)
        try:
            with context.locked() as library:
                library.tfc_feed_consumer_options_init(ctypes.byref(options), ctypes.sizeof(options))
                options.address, options.task = address.encode(), self._task.name.encode()
                options.queue, options.attempt = self._queue.encode(), self._task.attempt
                options.window_bytes, options.rows_multiple = self._window, multiple
                options.is_in_step = int(is_in_step)
                context.check(library.tfc_feed_consumer_open(context.pointer, ctypes.byref(options), _on_event,
                                                             self._number, ctypes.byref(self._handle)))
                if committed is not None:
                    context.check(_commit(library, self._handle, committed))
        except BaseException:
            _context.forget(self._number)
            self._number = 0
            context.close()
            raise
        self._context = context

    def _check_ack(self) -> None:
        if self._checkpoints is not None and "ps" in self._task.cluster_spec:
            raise invalid('ack="commit" needs workers that train themselves; under parameter servers, use "consume"')

    def _receive(self, event: Any) -> None:
        self._is_ready = True
        if event.kind == _abi.FeedEventKind.END:
            self._failure = _context.error_of(event.error, event.code)

    def _locked(self) -> Any:
        if self._context is None:
            raise invalid(f'queue "{self._queue}" is closed')
        return self._context.locked()

    def _fetch(self) -> bool:
        """Takes a batch that has arrived. False: there is none now, or the queue has ended."""
        assert self._context is not None
        pointer = ctypes.c_void_p()
        with self._context.locked() as library:
            if self._is_ended:
                return False
            self._is_ready = False
            code = library.tfc_feed_consumer_next(self._handle, ctypes.byref(pointer))
            if code == 0:
                self._is_ended = True
                return False
            if code == _AGAIN:
                return False
            self._context.check(code)
            batch = pointer.value or 0
            partition = library.tfc_feed_batch_partition(batch)
            offset = library.tfc_feed_batch_offset(batch)
            rows = library.tfc_feed_batch_rows(batch)
            if library.tfc_feed_batch_is_last(batch):
                library.tfc_feed_batch_release(batch)
                self._arrived.append(_Rows({}, partition, offset, 0, True))
            elif not rows:
                self._no_rows = _columns.columns_of(library, batch, self._kept)
                return self._fetch()
            else:
                self._arrived.append(_Rows(_columns.columns_of(library, batch, self._kept), partition, offset, rows, False))
        return True

    def _wait(self) -> None:
        """Waits until something has arrived."""
        assert self._context is not None
        self._context.wait(lambda: self._is_ready)

    def _next_rows(self) -> _Rows | None:
        """The next rows, or the end of a partition; None at the end of the queue."""
        while not self._arrived:
            if not self._fetch():
                if self._is_ended:
                    return None
                self._wait()
        return self._arrived.popleft()

    def _handed_out(self, rows: _Rows, count: int) -> None:
        """Notes that `count` rows from rows.begin on, or the end of a partition, are being handed out."""
        self._taken += count
        rows.begin += count
        self._marks.append((rows.partition, rows.offset + rows.begin, rows.is_end, self._taken))
        if rows.begin == rows.rows and self._checkpoints is None:
            self._arrival_ends.append(self._taken)

    def _consumed(self, until: int) -> None:
        """Reports what was handed out before row `until` of the queue."""
        if self._context is None or self._checkpoints is not None:
            return
        now = time.monotonic()
        is_due = now >= self._report_at
        while self._arrival_ends and self._arrival_ends[0] <= until:
            self._arrival_ends.popleft()
            is_due = True
        if not is_due:
            return
        self._report_at = now + _REPORT_S
        latest = self._pop_marks(until)
        if latest:
            with self._context.locked() as library:
                for partition, (rows, _) in latest.items():
                    self._context.check(library.tfc_feed_consumer_done(self._handle, partition, rows))
            self._context.dispatch()

    def _pop_marks(self, until: int) -> dict[int, tuple[int, bool]]:
        """The partitions of what was handed out before row `until` of the queue: rows, and whether those are all."""
        latest: dict[int, tuple[int, bool]] = {}
        while self._marks and self._marks[0][3] <= until:
            partition, rows, is_whole, _ = self._marks.popleft()
            latest[partition] = rows, is_whole
        return latest

    # ---- rows that a checkpoint has

    def positions_after(self, batches: int) -> dict[int, tuple[int, bool]]:
        """The partitions of the rows of the first so many batches, as far as no earlier call has returned them."""
        if batches > self._given:
            raise invalid(f'queue "{self._queue}": {batches} steps since the last restore, but {self._given} batches were '
                          'given out; with ack="commit", a step is one batch')
        until = 0
        while self._batch_ends and self._given - len(self._batch_ends) < batches:
            until = self._batch_ends.popleft()
        if self._is_all_given and batches == self._given:
            until = self._taken  # also what was dropped
        return self._pop_marks(until)

    def commit(self, entries: list[Entry]) -> None:
        """Reports to the producers what the checkpoint has that was written."""
        if self._context is not None:
            with self._context.locked() as library:
                self._context.check(_commit(library, self._handle, entries))
            if self._is_all_given:  # the task may end after its last checkpoint
                self._settle()
            else:
                self._context.dispatch()

    def _give(self, end: int) -> None:
        """Notes that a batch is given out, with which `end` rows of the queue were."""
        self._given += 1
        if self._checkpoints is not None:
            self._batch_ends.append(end)

    def _finish(self) -> None:
        """Closes the queue, unless a checkpoint has yet to have what was given out."""
        if self._checkpoints is None or self._is_terminated:
            self.close()

    # ---- batches

    def batches(self, batch_size: int | None = None) -> Iterator[Batch]:
        """The rows in batches, each a dict of arrays by column. Without `batch_size`, as they arrive.

        The arrays are read-only views of shared memory, which they occupy while they live; copy what you keep. A batch
        of rows that arrived apart is a copy. The last batch may be shorter.
        """
        if batch_size is not None and batch_size < 1:
            raise invalid("batch_size: must be at least 1")
        self._open(batch_size or 1)
        try:
            if batch_size is None:
                while (rows := self._next_rows()) is not None:
                    self._handed_out(rows, rows.rows)
                    if not rows.is_end:
                        columns, rows = rows.columns, None
                        self._give(self._taken)
                        yield columns
                        del columns
                        if self._is_terminated:
                            return
                        self._consumed(self._taken)
            else:
                builder = _Builder(batch_size)
                while (rows := self._next_rows()) is not None:
                    while (batch := self._cut(builder, rows)) is not None:
                        self._give(self._taken)
                        yield batch
                        del batch
                        if self._is_terminated:
                            return
                        self._consumed(self._taken - builder.rows)
                if builder.rows:
                    self._give(self._taken)
                    yield builder.take()
            self._is_all_given = True
            self._consumed(self._taken)
            self._settle()
        finally:
            self._finish()

    def _cut(self, builder: _Builder, rows: _Rows) -> Batch | None:
        """A full batch, if there are rows enough; else the rest of `rows` is kept in the builder."""
        count = min(builder.wanted(), rows.rows - rows.begin)
        if rows.is_end:
            self._handed_out(rows, 0)
        elif count:
            builder.add(rows.columns, rows.begin, rows.begin + count)
            self._handed_out(rows, count)
        return None if builder.wanted() else builder.take()

    def _settle(self, patience: float = _SETTLE_S) -> None:
        """Lets what was reported go out before the connection closes."""
        context = self._context
        if context is not None:
            context.dispatch()
            context.wait(self._is_flushed, patience)

    def _is_flushed(self) -> bool:
        with self._locked() as library:
            return bool(library.tfc_feed_consumer_is_flushed(self._handle))

    # ---- steps that all tasks take together

    def _is_in_step(self) -> bool:
        settings = _bundle.settings()
        is_mirrored = (settings.strategy or "multi_worker_mirrored") in ("multi_worker_mirrored", "auto")
        return self._task.world_size > 1 and is_mirrored and "ps" not in self._task.cluster_spec

    def _steps(self, batch_size: int, uneven: str, empty: Batch) -> Iterator[Batch]:
        """Batches of equal size, as many in each task that trains; `empty` takes the place of those that are missing."""
        is_in_step, is_padded = self._is_in_step(), uneven == "pad"
        builder, ready, step = _Builder(batch_size), deque[tuple[Batch, int]](), 0  # batches, and `_taken` after them
        made, is_complete, end = 0, False, 0
        while True:
            while not is_complete and self._is_more(len(ready)):
                rows = self._arrived.popleft()
                while (batch := self._cut(builder, rows)) is not None:
                    ready.append((_with_mask(batch, batch_size) if is_padded else batch, self._taken))
                    made += 1
            if self._is_ended and not self._arrived and not is_complete:
                is_complete = True
                if builder.rows and is_padded:
                    ready.append((_with_mask(builder.take(), batch_size), self._taken))
                    made += 1
            granted, is_final = self._report(made, is_complete, is_padded) if is_in_step else (made, is_complete)
            if step < granted and (ready or is_complete):
                batch, end = ready.popleft() if ready else (empty, end)
                step += 1
                self._give(end)
                yield batch
                del batch
                if self._is_terminated:
                    return
                self._consumed(self._taken - builder.rows - (len(ready) + _PREFETCHED) * batch_size)
            elif is_final:
                return
            else:
                self._wait()

    def _is_more(self, ready: int) -> bool:
        """Whether there are rows to take: those that have arrived, as long as a few batches are made already."""
        return bool(self._arrived) or (ready < 2 * _PREFETCHED and self._fetch())

    def _report(self, steps: int, is_end: bool, is_padded: bool) -> tuple[int, bool]:
        assert self._context is not None
        granted, padded = ctypes.c_uint64(), ctypes.c_uint64()
        with self._context.locked() as library:
            if (steps, is_end) != self._reported:
                self._reported = steps, is_end
                self._context.check(library.tfc_feed_consumer_report(self._handle, steps, int(is_end)))
            self._is_ready = False
            code = library.tfc_feed_consumer_granted(self._handle, ctypes.byref(granted), ctypes.byref(padded))
            self._context.check(code)
        return (padded.value if is_padded else granted.value), code == 1

    def dataset(self, batch_size: int, uneven: str = "pad") -> Any:
        """A tf.data.Dataset of batches of `batch_size` rows, each a dict of tensors by column.

        It is the dataset of one replica: it has AutoShardPolicy.OFF, and `batch_size` is that of each worker. Workers of a
        mirrored job take the same number of steps. With "pad", a worker that has no more rows repeats steps with rows
        whose column "mask" is 0 until all are done; multiply the loss of a row by its mask. With "drop", rows at the end
        that not all workers have are dropped, and there is no mask.

        The coordinator of parameter servers calls it in coordinator.create_per_worker_dataset; it waits for the first
        rows. Each worker reads its own queue, until `has_ended`, and takes steps whose mask is 0 when it has no rows.
        """
        if uneven not in ("pad", "drop"):
            raise invalid(f'uneven: must be "pad" or "drop", not {uneven!r}')
        if batch_size < 1:
            raise invalid("batch_size: must be at least 1")
        import tensorflow as tf

        return tf.autograph.experimental.do_not_convert(self._dataset)(batch_size, uneven)

    def _dataset(self, batch_size: int, uneven: str) -> Any:
        import tensorflow as tf

        from . import _feed_workers
        if _feed_workers.is_coordinator(self._task):
            self._check_ack()
            if uneven != "pad":
                raise invalid('uneven: "drop" is for mirrored workers; those of parameter servers get a mask, because they '
                              "take steps also when they have no rows")
            self._workers = _feed_workers.Workers(self._task, self._queue, self._window, batch_size)
            return self._workers.dataset()

        self._open(batch_size, self._is_in_step())
        first = self._first_columns()
        signature = {name: tf.TensorSpec((batch_size, *values.shape[1:]), _tf_type(tf, name, values))
                     for name, values in first.items()}
        if uneven == "pad":
            if "mask" in signature:
                raise invalid('a column is named "mask", which is the name of the mask; rename it, or use uneven="drop"')
            signature["mask"] = tf.TensorSpec((batch_size,), tf.float32)

        empty = {name: _empty_values(tuple(spec.shape), spec.dtype) for name, spec in signature.items()}
        is_read = False

        def generate() -> Iterator[Batch]:
            nonlocal is_read
            if is_read:
                raise invalid(f'queue "{self._queue}" was read already; give the number of epochs to put(), and read the '
                               "dataset once")
            is_read = True
            try:
                for batch in self._steps(batch_size, uneven, empty):
                    for name, values in batch.items():
                        _check_present(name, values)
                    yield batch
                self._is_all_given = True
                self._consumed(self._taken)
                self._settle()
            finally:
                self._finish()

        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        return tf.data.Dataset.from_generator(generate, output_signature=signature).with_options(options)

    def has_ended(self) -> bool:
        """Whether the workers of this coordinator have trained all rows of the `dataset`.

            while not feed.has_ended():
                for _ in range(100):
                    coordinator.schedule(step, args=(batches,))
                coordinator.join()

        Call it after coordinator.join(): rows of steps that are under way would count as trained.
        """
        if self._workers is None:
            raise invalid("has_ended() belongs to the dataset of a coordinator of parameter servers; other datasets and "
                          "batches() end by themselves")
        return self._workers.has_ended()

    def _first_columns(self) -> Batch:
        """The columns of the first rows, which stay to be read, or of those of other tasks."""
        skipped: list[_Rows] = []
        while (rows := self._next_rows()) is not None:
            skipped.append(rows)
            if not rows.is_end:
                break
        self._arrived.extendleft(reversed(skipped))
        if rows is not None:
            return rows.columns
        if self._no_rows is None:
            raise invalid(f'queue "{self._queue}" has ended without a row')
        return self._no_rows

    # ---- results

    def _put_results(self, partition: int, offset: int, values: Any, rows: int) -> None:
        """Returns results, one for each of `rows` rows of a partition from `offset` on."""
        try:
            chunks = list(_columns.chunks_of(values)) if rows else []
        except InvalidError as error:
            raise invalid(f"partition {partition}: cannot return its results: {error}") from None
        count = sum(chunk.rows for chunk in chunks)
        if count != rows:
            raise invalid(f"partition {partition}: {count} results for {rows} rows; return one result for each row")
        for chunk in chunks:
            self._put_chunk(partition, offset, chunk)
            offset += chunk.rows

    def _put_chunk(self, partition: int, offset: int, chunk: _columns.Chunk) -> None:
        function = "tfc_feed_consumer_put_result" + ("s" if isinstance(chunk, _columns.ArrowChunk) else "")
        at = 0
        while at < chunk.rows:
            with self._locked() as library:
                assert self._context is not None
                self._is_ready = False
                code, done = chunk.put(library, function, self._handle, partition, offset + at, at, chunk.rows)
                if code != _AGAIN:
                    self._context.check(code)
            if code == _AGAIN:
                self._wait()
            at += done

    def terminate(self) -> None:
        """Tells the producers that no more rows are needed. The rest of the queue is dropped."""
        if self._workers is not None:
            self._workers.terminate()
            return
        with self._locked() as library:
            assert self._context is not None
            self._context.check(library.tfc_feed_consumer_terminate(self._handle))
        self._arrived.clear()
        self._marks.clear()
        self._arrival_ends.clear()
        self._is_ended = self._is_terminated = True
        self._settle()

    def close(self) -> None:
        """Closes the queue. Arrays of its batches stay valid. Again: no-op."""
        if self._context is None:
            return
        context, self._context = self._context, None
        _context.forget(self._number)
        self._arrived.clear()
        with context.condition:
            if context.pointer is not None:
                context.library.tfc_feed_consumer_close(self._handle)
        context.close()


class _Builder:
    """Rows for a batch."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._pieces: list[Batch] = []
        self.rows = 0

    def wanted(self) -> int:
        return self._size - self.rows

    def add(self, columns: Batch, begin: int, end: int) -> None:
        piece = {name: values[begin:end] for name, values in columns.items()}
        if end - begin < self._size:  # it will be joined with others: the window is free again
            piece = {name: values.copy() for name, values in piece.items()}
        self._pieces.append(piece)
        self.rows += end - begin

    def take(self) -> Batch:
        pieces, self._pieces, self.rows = self._pieces, [], 0
        return _columns.join(pieces)


def _with_mask(batch: Batch, size: int) -> Batch:
    """The batch with its mask, filled up to `size` rows, whose mask is 0, with its first row."""
    import numpy as np

    rows = len(next(iter(batch.values())))
    mask = np.zeros(size, np.float32)
    mask[:rows] = 1
    if rows < size:
        batch = _columns.join([batch, {name: np.repeat(values[:1], size - rows, axis=0)
                                       for name, values in batch.items()}])
    return {**batch, "mask": mask}


def _empty_values(shape: tuple[int, ...], kind: Any) -> Any:
    """Zeros or empty texts, of a type of TensorFlow."""
    import numpy as np

    return np.full(shape, b"" if kind.name == "string" else 0, kind.as_numpy_dtype)


def _check_present(name: str, values: Any) -> None:
    import numpy as np

    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise invalid(f'column "{name}" has missing values, which a tensor cannot have; fill them before they are fed, '
                       "or use batches()")


def _tf_type(tf: Any, name: str, values: Any) -> Any:
    if values.dtype.kind != "O":
        return tf.as_dtype(values.dtype)
    if not len(values) or isinstance(values[0], (str, bytes)):
        return tf.string
    raise invalid(f'column "{name}" has lists of different lengths, which a dataset of equal batches cannot have; use '
                   "batches()")


def to_rows(columns: Batch, begin: int, end: int) -> list[Any]:
    """Rows as lists of values, or as single values if there is one column."""
    values = [column[begin:end].tolist() for column in columns.values()]
    return values[0] if len(values) == 1 else [list(row) for row in zip(*values, strict=True)]


def _commit(library: Any, handle: ctypes.c_void_p, entries: list[Entry]) -> int:
    positions = (_abi.tfc_feed_position * len(entries))()
    for position, entry in zip(positions, entries, strict=True):
        position.partition, position.partitions, position.rows, position.is_whole = entry
    return int(library.tfc_feed_consumer_commit(handle, positions, len(entries)))


def _event(user: int | None, event: Any) -> None:
    feed = _context.registered(user)
    if feed is not None:
        try:
            feed._receive(event.contents)
        except BaseException as failure:
            if feed._context is not None:
                feed._context.fail(failure)


_on_event = _abi.tfc_feed_fn(_event)
