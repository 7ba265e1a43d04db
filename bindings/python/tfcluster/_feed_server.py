"""A queue of a worker under parameter servers, where TensorFlow's server runs and none of the user's Python.

The library's server registers `answer` under the name FUNCTION. The op PyFunc calls it from the datasets that the
coordinator makes, and from the coordinator itself (`_feed_workers`). No call waits longer than PATIENCE_S: TensorFlow can
then release an iterator, and drops the arrays of earlier batches.

A worker that gets no rows for WAIT_S takes a step without rows, whose mask is 0. Otherwise coordinator.join() could wait for
ever: the window of another worker may be full, which has no step to take, so that the producer cannot go on.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import threading
import time
from typing import Any

from . import _task_context
from ._columns import invalid
from .errors import Error
from .feed import Batch, Feed, _Builder, _check_present, _empty_values, _tf_type, _with_mask

_Column = tuple[str, str, tuple[int, ...]]  # name, TensorFlow's name of the type, shape of a row

FUNCTION = "pyfunc_0"
VERSION = 1
PATIENCE_S = 0.1
WAIT_S = 1.0
NO_ROWS_NOW = -1
END = 0


@dataclasses.dataclass(frozen=True)
class Request:
    """What is asked of a queue. The first request of a dataset opens it, whatever its `action` is.

    `number` counts the datasets, over all attempts of the coordinator: a later one replaces an earlier one of its queue.
    `columns` has the order of the answer to "next".
    """

    action: str
    queue: str
    window: int
    number: int
    batch_size: int
    columns: tuple[_Column, ...] = ()
    version: int = VERSION

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))


@functools.lru_cache(maxsize=64)
def _parse(text: bytes) -> Request:
    values = json.loads(text)
    if values.get("version") != VERSION:
        raise ValueError(f"the coordinator has version {values.get('version')} of the feed, not {VERSION}; give the "
                         "chief and the workers the same version of tfcluster")
    values["columns"] = tuple((name, kind, tuple(shape)) for name, kind, shape in values["columns"])
    return Request(**values)


class Queue:
    """The rows of a queue, for all iterators of one dataset: TensorFlow makes an iterator again after it has lost the
    connection to a worker."""

    def __init__(self, request: Request) -> None:
        self.lock = threading.Lock()
        self.number = request.number
        self._request = request
        self._task = _task_context.context()
        self._feed = Feed(self._task, request.queue, request.window)
        self._feed._open(request.batch_size)
        self._builder = _Builder(request.batch_size)
        self._last: list[Any] | None = None  # the batch that was handed out last, which may not be trained yet
        self._taken = 0  # rows of the queue up to its end
        self._is_ended = False  # all rows were handed out
        self._waits_since: float | None = None  # for rows

    def close(self) -> None:
        self._is_ended, self._last = True, None
        self._feed.close()

    def answer(self, request: Request) -> dict[str, Any]:
        """Answers the coordinator."""
        match request.action:
            case "open":
                return {}
            case "columns":
                return self._columns()
            case "state":
                return {"is_ended": self._find_end()}
            case "consume":
                return {"is_ended": self._consume()}
            case "terminate":
                self._terminate()
                return {}
        raise invalid(f'the coordinator asks for "{request.action}", which {self._task.name} does not know')

    # ---- batches

    def next(self, request: Request, index: int) -> list[Any]:
        """The number of rows, and an array for each column."""
        if index == 0 and self._last is not None:
            return self._last
        batch = self._next_batch()
        if batch is None:
            return self._without_rows(request)
        self._waits_since = None
        # Who asks for a batch has trained those before. The last one stays open until `_consume`: the feed must not be over
        # before the coordinator knows it.
        self._feed._consumed(self._taken)
        self._taken = self._feed._taken - self._builder.rows
        self._last = self._checked(request, batch)
        return self._last

    def _next_batch(self) -> Batch | None:
        while self._arrive():
            feed = self._feed
            rows = feed._arrived[0]
            batch = feed._cut(self._builder, rows)
            if rows.begin == rows.rows:
                feed._arrived.popleft()
            if batch is not None:
                return batch
        if self._note_end() or not self._feed._is_ended:
            return None
        self._is_ended = True
        return self._builder.take()

    def _arrive(self, patience: float = PATIENCE_S) -> bool:
        """Waits for rows. False: there are none now, or the queue has ended."""
        feed = self._feed
        while not self._is_ended:
            while feed._arrived and feed._arrived[0].is_end:
                feed._handed_out(feed._arrived.popleft(), 0)
            if feed._arrived:
                return True
            if feed._fetch():
                continue
            if feed._is_ended or feed._context is None:
                return False
            feed._context.dispatch()
            if not feed._context.wait(lambda: feed._is_ready, patience):
                return False
        return False

    def _note_end(self) -> bool:
        """Notes the end if no rows have arrived, and none are left for a batch; returns whether it has come."""
        if self._feed._is_ended and not self._builder.rows:
            self._is_ended = True
        return self._is_ended

    def _without_rows(self, request: Request) -> list[Any]:
        """The end; or that there are no rows now, and after a while a batch of them."""
        now = time.monotonic()
        self._waits_since = self._waits_since or now
        if self._is_ended or now - self._waits_since < WAIT_S:
            return _no_batch(request.columns, END if self._is_ended else NO_ROWS_NOW)
        self._waits_since = None
        if self._last is None:
            return _empty_batch(request.columns, request.batch_size)
        return [*self._last[:-1], self._last[-1] * 0]

    def _checked(self, request: Request, batch: Batch) -> list[Any]:
        columns: list[Any] = []
        batch = _with_mask(batch, request.batch_size)
        for name, kind, shape in request.columns:
            values = batch.get(name)
            if values is None:
                raise invalid(f'queue "{request.queue}": the rows of {self._task.name} have no column "{name}", which the '
                              "first rows of the feed have")
            _check_present(name, values)
            _, found, found_shape = _column(name, values)
            if (found, found_shape) != (kind, shape):
                raise invalid(f'queue "{request.queue}": column "{name}" of {self._task.name} has the type {found} and the '
                              f"shape {list(found_shape)}, but {kind} and {list(shape)} in the first rows of the feed")
            columns.append(values)
        return [request.batch_size, *columns]

    # ---- the coordinator

    def _columns(self) -> dict[str, Any]:
        """The columns of the first rows, which stay to be read."""
        if not self._arrive():
            return {"is_ended": self._note_end()}
        return {"columns": [_column(name, values) for name, values in self._feed._arrived[0].columns.items()]}

    def _find_end(self) -> bool:
        """Whether all rows were handed out."""
        return not self._arrive(0) and self._note_end()

    def _consume(self) -> bool:
        """Reports all rows as consumed, if all were handed out. The queue stays open until the next dataset: the producer
        would connect to that one as long as other workers have not consumed theirs."""
        if self._find_end():
            self._feed._consumed(self._feed._taken)
            self._feed._settle(PATIENCE_S)
            self._last = None
        return self._is_ended

    def _terminate(self) -> None:
        context = self._feed._context
        if not self._is_ended and context is not None:
            self._feed.terminate()
            context.wait(lambda: False, PATIENCE_S)  # for producers that connect to a new server again
            self._is_ended, self._last = True, None


@functools.lru_cache(maxsize=64)
def _no_batch(columns: tuple[_Column, ...], state: int) -> list[Any]:
    return [state, *_empty_batch(columns, 0)[1:]]


@functools.lru_cache(maxsize=64)
def _empty_batch(columns: tuple[_Column, ...], rows: int) -> list[Any]:
    """Rows that nothing is in; their mask is 0."""
    import tensorflow as tf

    return [rows, *(_empty_values((rows, *shape), tf.as_dtype(kind)) for _, kind, shape in columns)]


def _column(name: str, values: Any) -> _Column:
    import tensorflow as tf

    return name, _tf_type(tf, name, values).name, tuple(values.shape[1:])


# ---- what TensorFlow calls

_lock = threading.Lock()
_queues: dict[str, Queue] = {}


def _queue(request: Request) -> Queue | None:
    """The queue of the request; None: a later dataset has replaced that of the request."""
    with _lock:
        queue = _queues.get(request.queue)
        if queue is None or queue.number < request.number:
            if queue is not None:
                with queue.lock:
                    queue.close()
            queue = _queues[request.queue] = Queue(request)
        return queue if queue.number == request.number else None


def answer(text: bytes, index: int) -> Any:
    """Answers a request: "next", for element `index` of an iterator, with arrays, any other with JSON."""
    try:
        request = _parse(bytes(text))
        queue = _queue(request)
        if queue is None:
            return _no_batch(request.columns, END) if request.action == "next" else json.dumps({"is_ended": True})
        with queue.lock:
            return queue.next(request, int(index)) if request.action == "next" else json.dumps(queue.answer(request))
    except Error as error:
        raise ValueError(str(error)) from None  # as an InvalidArgumentError, which TensorFlow does not retry
