"""TensorFlowOnSpark's TFCluster, without Spark: run(None, map_fun, args, num_executors, ...)."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import DeadlineError, InvalidError, JobError
from .feed import to_rows
from .TFNode import TFNodeContext

if TYPE_CHECKING:
    from ._producer import Producer
    from ._task_context import TaskContext
    from .job import Job, TaskRow

_EPOCHS = 10  # of TensorFlowOnSpark's train
_Feed = TypeVar("_Feed", bound="Producer")
MapFun = Callable[[Any, TFNodeContext], Any]


class InputMode:
    """Where the data of a map_fun come from."""

    TENSORFLOW = 0  # map_fun reads them
    SPARK = 1  # the driver feeds them


def run(sc: None, map_fun: MapFun, tf_args: Any, num_executors: int, num_ps: int = 0, tensorboard: bool = False,
        input_mode: int = InputMode.TENSORFLOW, log_dir: str | os.PathLike[str] | None = None,
        driver_ps_nodes: bool = False, master_node: str | None = None, reservation_timeout: float = 600,
        queues: Sequence[str] = ("input", "output", "error"), eval_node: bool = False, release_port: bool = True, *,
        default_fs: str = "file://", **options: Any) -> TFCluster:
    """Starts a cluster of `num_executors` tasks that call map_fun(tf_args, ctx), and returns when all of them run.

    `sc` is None: there is no Spark. Of the tasks, `num_ps` are parameter servers, one is the chief if `master_node` is
    "chief" or "master", one is the evaluator with `eval_node`, and the others are workers. With parameter servers,
    the library runs TensorFlow's server in them and in the workers, and the chief calls map_fun, with
    ctx.task.strategy(); there is one in any case. What `train` feeds then goes to the workers: map_fun makes their datasets
    with ctx.task.feed("input").dataset(), and `inference` is not possible.

    `tensorboard` adds a TensorBoard that shows `log_dir` (tensorboard_0). `reservation_timeout` bounds, in seconds, how
    long the cluster waits for nodes and ports. `driver_ps_nodes`, `queues` and `release_port` change nothing. The
    options, such as gateway, python and bundle, are those of tfcluster.run.

    Raises InvalidError for a cluster that cannot be, and JobError if it does not start.
    """
    if sc is not None:
        raise InvalidError("sc: there is no Spark here; pass None")
    if input_mode not in (InputMode.TENSORFLOW, InputMode.SPARK):
        raise InvalidError(f"input_mode: must be InputMode.TENSORFLOW or InputMode.SPARK, not {input_mode!r}")
    if master_node not in (None, "chief", "master"):
        raise InvalidError(f'master_node: TensorFlow knows no task type "{master_node}"; pass "chief"')
    counts = {"ps": num_ps, "chief": int(master_node is not None or num_ps > 0), "evaluator": int(bool(eval_node))}
    counts["worker"] = num_executors - sum(counts.values())
    if num_ps < 0 or counts["worker"] < (1 if num_ps or not counts["chief"] else 0):
        others = ", ".join(f"{count} {name}" for name, count in counts.items() if count > 0 and name != "worker")
        raise InvalidError(f"num_executors: {num_executors} tasks are too few for at least one worker"
                           + (f" besides {others}" if others else ""))
    counts = {name: count for name, count in counts.items() if count > 0}
    roles = dict(options.pop("roles", {}))
    for name, count in counts.items():
        roles[name] = {**roles.get(name, {}), "count": count}
    job = _run_map_fun(map_fun, tf_args, counts, default_fs, roles=roles,
                       tensorboard=(log_dir or "tensorboard_0") if tensorboard else None,
                       **{"pending_deadline_s": reservation_timeout, **options})
    cluster = TFCluster(job, counts, input_mode, tensorboard)
    cluster._await_tasks()
    return cluster


class TFCluster:
    """A cluster under way. `run` makes one; `job` is the `Job` behind it."""

    def __init__(self, job: Job, counts: dict[str, int], input_mode: int = InputMode.TENSORFLOW,
                 has_tensorboard: bool = False) -> None:
        self.job = job
        self._counts = counts
        self._input_mode = input_mode
        self._has_tensorboard = has_tensorboard
        self._feeds: dict[str, Producer] = {}  # of train, by queue; they end in shutdown

    @property
    def cluster_info(self) -> list[dict[str, Any]]:
        """A dict for each task: executor_id, host, job_name, task_index, port, tb_pid and tb_port."""
        board = self.job.tasks.get("tensorboard/0")
        shows_board = "worker/0" if "worker" in self._counts else "chief/0"
        info = []
        for executor_id, name in enumerate(_names(self._counts)):
            job_name, _, index = name.partition("/")
            host, port = _host_and_port(self.job.tasks.get(name))
            has_board = board is not None and name == shows_board
            info.append({"executor_id": executor_id, "host": host, "job_name": job_name, "task_index": int(index),
                         "port": port, "tb_pid": board.pid if board and has_board else 0,
                         "tb_port": _host_and_port(board)[1] if has_board else 0})
        return info

    def tensorboard_url(self) -> str | None:
        """The address of TensorBoard, which listens there some seconds later; None without one."""
        board = self.job.tasks.get("tensorboard/0")
        return f"http://{board.address}" if board is not None and board.address else None

    def train(self, dataRDD: Any, num_epochs: int = 0, feed_timeout: float = 600, qname: str = "input") -> None:
        """Feeds rows to the tasks, which read them with a DataFeed, `num_epochs` times (0: 10 times).

        `dataRDD` is what `Job.feed` takes: rows, arrays, an Arrow table or `Partitions`. Returns when all rows are on their
        way; `shutdown` waits until they are consumed. It may be called again. `feed_timeout` bounds, in seconds, how
        long nobody may read the queue `qname` at the beginning. Raises the cause if a task fails meanwhile.
        """
        from ._producer import Producer

        feed = self._feed(qname, Producer, start_timeout=feed_timeout)
        feed.put(dataRDD, epochs=num_epochs or _EPOCHS)

    def inference(self, dataRDD: Any, feed_timeout: float = 600, qname: str = "input") -> Iterator[Any]:
        """Feeds rows to the tasks, and yields the results that they return with `batch_results`: one for each row, in
        the same order. Nothing is fed before the first result is asked for. It may be called again.
        """
        if "ps" in self._counts:
            raise InvalidError("inference: with parameter servers, the workers run TensorFlow's server, and return no "
                               "results; use a cluster without them")
        from ._map_batches import ResultFeed

        trains = self._counts.get("chief", 0) + self._counts.get("worker", 0)
        feed = self._feed(qname, ResultFeed, workers=trains, start_timeout=feed_timeout)
        for columns in feed.results(dataRDD):
            yield from to_rows(columns, 0, len(next(iter(columns.values()))))

    def _feed(self, qname: str, kind: type[_Feed], **options: Any) -> _Feed:
        """The feed of a queue, which the first call opens."""
        if self._input_mode != InputMode.SPARK:
            raise InvalidError("the cluster reads its data itself; feed one with input_mode=InputMode.SPARK")
        if qname not in self._feeds:
            self._feeds[qname] = kind(self.job, qname, **options)
        feed = self._feeds[qname]
        if type(feed) is not kind:
            raise InvalidError(f'qname: queue "{qname}" has both train and inference; give one of them another queue')
        return feed

    def shutdown(self, ssc: None = None, grace_secs: float = 0, timeout: float = 259200) -> None:
        """Waits until map_fun has returned in all tasks that train, and ends the cluster. A second call does nothing.

        Raises TaskFailed if a task failed, with the first cause, and DeadlineError, after it has stopped the job, if
        map_fun has not returned within `timeout` seconds (-1: no limit). `grace_secs` changes nothing: errors
        cannot come too late, because the job ends with its tasks.
        """
        if ssc is not None:
            raise InvalidError("ssc: there is no Spark here; pass None")
        deadline = None if timeout < 0 else time.monotonic() + timeout
        feeds, self._feeds = self._feeds, {}
        try:
            for feed in feeds.values():
                feed.end(None if deadline is None else max(0, deadline - time.monotonic()))
            self.job.result(None if deadline is None else max(0, deadline - time.monotonic()))
        except DeadlineError:
            if not self.job.done():
                self.job.stop()
            raise
        finally:
            for feed in feeds.values():
                feed.close()
            if self.job.done():
                self.job.close()

    def _await_tasks(self) -> None:
        """Until all tasks have been started, or the job has ended; map_fun may have returned by then."""
        names = _names(self._counts) + ["tensorboard/0"] * self._has_tensorboard

        def have_started() -> bool:
            rows = [self.job.tasks.get(name) for name in names]
            return self.job.done() or all(
                row is not None and row.attempt and (row.pid or row.state == "failed") for row in rows)

        self.job.client._context.wait(have_started)
        failure = self.job.exception() if self.job.done() else None
        if isinstance(failure, JobError) and not any(row.pid for row in self.job.tasks.values()):
            self.job.close()
            raise failure


def _names(counts: dict[str, int]) -> list[str]:
    """The tasks in the order of their executor ids."""
    return [f"{role}/{index}" for role in ("ps", "chief", "evaluator", "worker") for index in range(counts.get(role, 0))]


def _host_and_port(row: TaskRow | None) -> tuple[str, int]:
    if row is None or not row.address:
        return "", 0
    host, _, port = row.address.rpartition(":")
    return host.strip("[]"), int(port)


def _run_map_fun(map_fun: MapFun, tf_args: Any, counts: dict[str, int], default_fs: str, **options: Any) -> Job:
    """Starts a job whose tasks call map_fun(tf_args, ctx)."""
    from . import _function, _run

    _function._check(map_fun, (tf_args,), {})
    options.setdefault("name", getattr(map_fun, "__name__", "").strip("<>") or None)
    return _run.run(_call_map_fun, args=(map_fun, tf_args, counts, default_fs), **options)


def _call_map_fun(task: TaskContext, map_fun: MapFun, tf_args: Any, counts: dict[str, int], default_fs: str) -> Any:
    """What a task of the cluster runs."""
    if isinstance(tf_args, list):
        sys.argv = tf_args
    num_workers = counts.get("chief", 0) + counts.get("worker", 0)
    return map_fun(tf_args, TFNodeContext(task, _names(counts).index(task.name), num_workers, default_fs))
