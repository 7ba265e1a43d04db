"""`tfcluster.map_batches`: a function over all rows, by several processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

from . import _abi, _columns
from ._producer import START_S, Producer, Put
from .errors import InvalidError

if TYPE_CHECKING:
    from .job import Job

_QUEUE = "map"
_AHEAD = 4  # partitions on their way, for each worker


def _serve(ctx: Any, function: Callable[..., Any], setup: Callable[[], Any] | None, batch_size: int) -> None:
    """What each worker runs: results of batches, which do not cross partitions."""
    state = () if setup is None else (setup(),)
    feed = ctx.feed(_QUEUE)
    feed._open(batch_size)
    try:
        while (rows := feed._next_rows()) is not None:
            if rows.is_end:
                feed._handed_out(rows, 0)
                feed._consumed(feed._taken)
                continue
            for begin in range(0, rows.rows, batch_size):
                count = min(batch_size, rows.rows - begin)
                batch = {name: values[begin:begin + count] for name, values in rows.columns.items()}
                results = function(*state, batch)
                feed._put_results(rows.partition, rows.offset + begin, results, count)
            feed._handed_out(rows, rows.rows)
    finally:
        feed.close()


def map_batches(function: Callable[..., Any], data: Any, *, workers: int = 2, batch_size: int = 256,
                setup: Callable[[], Any] | None = None, **options: Any) -> Generator[Any, None, None]:
    """Calls `function` with batches of the rows of `data`, in `workers` processes; yields the results in order.

        for part in tfc.map_batches(predict, table, workers=4, setup=load_model):
            ...

    `function(batch)` gets a dict of arrays with at most `batch_size` rows, and returns an array, a list or a dict of arrays
    with one result for each row. `setup` is called once in each worker, and its value is the first argument of `function`,
    before the batch. `data` is what `Job.feed` takes. Each value that is yielded has the results of one partition: an
    array, or a dict of arrays. Nothing runs before the first value is asked for. `options` are those of `run`.

    A worker that dies is restarted, and its rows are given out again. A wrong number of results fails the job, and the
    error names the partition and both numbers.
    """
    for name, value in ("workers", workers), ("batch_size", batch_size):
        if not isinstance(value, int) or value < 1:
            raise InvalidError(f"{name}: must be a number, at least 1, not {value!r}", int(_abi.Err.EINVAL), "feed")
    return _results(function, data, workers, batch_size, setup, options)


def _results(function: Callable[..., Any], data: Any, workers: int, batch_size: int, setup: Callable[[], Any] | None,
             options: dict[str, Any]) -> Generator[Any, None, None]:
    from ._run import run

    options.setdefault("strategy", "none")
    options.setdefault("output", False)
    with run(_serve, args=[function, setup, batch_size], workers=workers, **options) as job:
        feed = ResultFeed(job, _QUEUE, workers)
        try:
            for columns in feed.results(data):
                yield columns["0"] if list(columns) == ["0"] else columns
        finally:  # a worker that has no rows may still be starting: the feed does not wait for it
            feed.close()


class ResultFeed(Producer):
    """A feed whose tasks return a result for each row."""

    def __init__(self, job: Job, queue: str, workers: int, start_timeout: float | None = START_S) -> None:
        self._parts: dict[int, list[dict[str, Any]]] = {}
        self._ahead = _AHEAD * workers
        super().__init__(job, queue, results=True, on_result=self._receive_result, start_timeout=start_timeout)

    def _receive_result(self, partition: int, offset: int, columns: dict[str, Any]) -> None:
        known = self._parts.setdefault(partition, [])
        while known and sum(_length(part) for part in known) > offset:
            known.pop()  # its worker has died, and another one has begun again
        known.append(columns)

    def results(self, data: Any) -> Iterator[dict[str, Any]]:
        """Feeds the rows of `data`; yields the results of each partition that has rows, in order."""
        put, order = Put(self), deque[int]()
        for pieces in self._pieces(data):
            order.append(self._add(put, pieces))
            while len(order) > self._ahead:
                yield from self._take(order.popleft())
        while order:
            yield from self._take(order.popleft())

    def _take(self, number: int) -> Iterator[dict[str, Any]]:
        self._wait(lambda: number not in self.pending)
        parts = self._parts.pop(number, None)
        if parts:
            yield _columns.join(parts)


def _length(columns: dict[str, Any]) -> int:
    return len(next(iter(columns.values())))
