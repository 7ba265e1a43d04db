"""A feed under parameter servers, at the coordinator: the datasets that its workers read.

They call the function that the library's server has in each worker (`_feed_server`).
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import time
from typing import TYPE_CHECKING, Any

from . import _bundle
from ._columns import invalid
from ._feed_server import END, FUNCTION, PATIENCE_S, Request

if TYPE_CHECKING:
    from ._task_context import TaskContext

_STRANGE_S = 60.0  # how long a worker may answer with errors that do not say that it is down
_numbers = itertools.count(1)


def is_coordinator(task: TaskContext) -> bool:
    """Whether this task makes datasets for workers."""
    is_used = (_bundle.settings().strategy or "parameter_server") in ("parameter_server", "auto")
    return task.is_chief and "ps" in task.cluster_spec and is_used


class Workers:
    """A queue of all workers."""

    def __init__(self, task: TaskContext, queue: str, window: int, batch_size: int) -> None:
        self._request = Request("next", queue, window, task.attempt << 32 | next(_numbers), batch_size)
        self._open = set(range(len(task.cluster_spec.get("worker", []))))  # those that have not got all of their rows
        self._strange_since: dict[int, float] = {}

    def _ask(self, worker: int, action: str) -> dict[str, Any] | None:
        """The answer of a worker; None: it is down. It comes within about PATIENCE_S."""
        import tensorflow as tf

        text = dataclasses.replace(self._request, action=action).to_json()
        try:
            with tf.init_scope(), tf.device(f"/job:worker/replica:0/task:{worker}/device:CPU:0"):
                index = tf.constant(-1, tf.int64)
                answer = tf.raw_ops.PyFunc(input=[tf.constant(text), index], token=FUNCTION, Tout=[tf.string])[0].numpy()
        except (tf.errors.UnavailableError, tf.errors.AbortedError):
            return None
        except tf.errors.OpError as error:
            self._check(worker, error)
            return None
        self._strange_since.pop(worker, None)
        values: dict[str, Any] = json.loads(answer)
        return values

    def _check(self, worker: int, error: Any) -> None:
        """Raises an error of the feed. Others come from a worker that is being started again, but not for long."""
        text = str(error.message)
        if "Could not find callback" in text:
            raise invalid(f'worker/{worker} cannot read queue "{self._request.queue}": it does not run TensorFlow\'s server '
                          'of the library; set "server": true for the role "worker"') from None
        if "ValueError: " in text:
            raise invalid(text.partition("ValueError: ")[2].partition("\n")[0]) from None
        if time.monotonic() - self._strange_since.setdefault(worker, time.monotonic()) > _STRANGE_S:
            raise error

    def _columns(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """The columns of the first rows that a worker has got."""
        for worker in self._open:  # before the producer gives all rows to the first one
            self._ask(worker, "open")
        ended: set[int] = set()
        while len(ended) < len(self._open):
            begin = time.monotonic()
            for worker in self._open - ended:
                answer = self._ask(worker, "columns") or {}
                if "columns" in answer:
                    return [(name, kind, tuple(shape)) for name, kind, shape in answer["columns"]]
                if answer.get("is_ended"):
                    ended.add(worker)
            time.sleep(max(0.0, begin + PATIENCE_S - time.monotonic()))
        raise invalid(f'queue "{self._request.queue}" has ended without a row')

    def dataset(self) -> Any:
        """The dataset of each worker."""
        import tensorflow as tf

        columns, batch_size = self._columns(), self._request.batch_size
        if any(name == "mask" for name, _, _ in columns):
            raise invalid('a column is named "mask", which is the name of the mask; rename it')
        columns.append(("mask", "float32", ()))
        request = dataclasses.replace(self._request, columns=tuple(columns)).to_json()
        types = [tf.as_dtype(kind) for _, kind, _ in columns]

        def fetch(index: Any) -> Any:
            rows, *values = tf.raw_ops.PyFunc(input=[request, index], token=FUNCTION, Tout=[tf.int64, *types])
            return (tf.ensure_shape(rows, []), *values)

        def batch(_: Any, *values: Any) -> dict[str, Any]:
            return {name: tf.ensure_shape(tensor, [batch_size, *shape])
                    for (name, _, shape), tensor in zip(columns, values, strict=True)}

        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        # A batch that is fetched ahead of its step would count as trained.
        options.experimental_optimization.inject_prefetch = False
        options.experimental_optimization.map_parallelization = False
        return (tf.data.Dataset.range(tf.int64.max).map(fetch).take_while(lambda rows, *_: rows != END)
                .filter(lambda rows, *_: rows > 0).map(batch).with_options(options))

    def has_ended(self) -> bool:
        """Whether the workers have trained all rows, if their steps have ended. Those rows count as consumed then."""
        answers = [self._ask(worker, "state") for worker in self._open]  # all of them: a new server opens its queue
        if not all(answer is not None and answer["is_ended"] for answer in answers):
            if None in answers:  # others may have got all their rows: steps without rows would follow without a pause
                time.sleep(PATIENCE_S)
            return False
        for worker in tuple(self._open):
            answer = self._ask(worker, "consume")
            if answer is not None and answer["is_ended"]:
                self._open.discard(worker)
        return not self._open

    def terminate(self) -> None:
        """Tells the producers that no more rows are needed."""
        for worker in tuple(self._open):
            while self._ask(worker, "terminate") is None:
                time.sleep(PATIENCE_S)
            self._open.discard(worker)
