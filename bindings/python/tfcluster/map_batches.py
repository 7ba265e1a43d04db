"""`tfcluster.map_batches`: a function over all rows, by several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from . import _abi, _columns
from .errors import InvalidError

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


def _merge(parts: list[dict[str, Any]]) -> Any:
    """The results of a partition: an array, or a dict of arrays if the function has returned a dict."""
    import numpy as np

    merged = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return merged["0"] if list(merged) == ["0"] else merged


def map_batches(function: Callable[..., Any], data: Any, *, workers: int = 2, batch_size: int = 256,
                setup: Callable[[], Any] | None = None, **options: Any) -> Iterator[Any]:
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
    if workers < 1 or batch_size < 1:
        raise InvalidError("workers and batch_size: must be at least 1", int(_abi.Err.EINVAL), "feed")
    return _results(function, data, workers, batch_size, setup, options)


def _results(function: Callable[..., Any], data: Any, workers: int, batch_size: int, setup: Callable[[], Any] | None,
             options: dict[str, Any]) -> Iterator[Any]:
    from ._producer import Partitions, Producer, Put
    from ._run import run

    parts: dict[int, list[dict[str, Any]]] = {}

    def receive(partition: int, offset: int, columns: dict[str, Any]) -> None:
        known = parts.setdefault(partition, [])
        while known and sum(len(next(iter(part.values()))) for part in known) > offset:
            known.pop()  # its worker has died, and another one has begun again
        known.append(columns)

    options.setdefault("strategy", "none")
    options.setdefault("output", False)
    with run(_serve, args=[function, setup, batch_size], workers=workers, **options) as job, \
            Producer(job, _QUEUE, results=True, on_result=receive) as feed:
        order: list[int] = []
        put = Put(feed)

        def take() -> Iterator[Any]:
            number = order.pop(0)
            feed._wait(lambda: number not in feed.pending)
            results = parts.pop(number, None)
            if results:
                yield _merge(results)

        sources = list(data) if isinstance(data, Partitions) else None
        slices = ([(chunk, 0, chunk.rows) for chunk in _columns.chunks_of(source)] for source in sources) \
            if sources is not None else ([(chunk, begin, end)] for chunk in _columns.chunks_of(data)
                                         for begin, end in feed._cut(chunk))
        for pieces in slices:
            order.append(feed._next_partition)
            feed._add(put, pieces)
            while len(order) > _AHEAD * workers:
                yield from take()
        while order:
            yield from take()
