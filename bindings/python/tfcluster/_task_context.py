"""What a task knows of its place in the cluster, and what it can do there: the `ctx` of a function."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _bundle, _reports
from .errors import InvalidError

if TYPE_CHECKING:
    from .checkpoints import Checkpoints
    from .feed import Feed

# A variable that the library sets for the ranks of a framework, and where it puts rank and world size.
_RANK_VARIABLES = (
    ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE"),
    ("HOROVOD_RANK", "HOROVOD_RANK", "HOROVOD_SIZE"),
    ("JAX_COORDINATOR_ADDRESS", "SLURM_PROCID", "SLURM_NTASKS"),
)


def read_cluster(environ: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The cluster and the task of TF_CONFIG, or the cluster of TF_CLUSTER, which tasks outside it get. The cluster
    has a list of addresses for each task type, or, of a part of them, a dict by index."""
    name = "TF_CONFIG" if "TF_CONFIG" in environ else "TF_CLUSTER"
    try:
        config = json.loads(environ.get(name, "{}"))
        cluster, task = (config.get("cluster", {}), config.get("task", {})) if name == "TF_CONFIG" else (config, {})
        for addresses in cluster.values():
            _addresses(addresses)
        return dict(cluster), dict(task)
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{name} does not describe a cluster: {error}") from None


def _addresses(tasks: list[str] | dict[str, str]) -> list[str]:
    """The addresses of a task type, in the order of their indices."""
    if isinstance(tasks, dict):
        return [tasks[index] for index in sorted(tasks, key=int)]
    return list(tasks)


_report_pipe = _reports.ReportPipe()


@dataclasses.dataclass(frozen=True)
class TaskContext:
    """The place of this process in its cluster.

    `task_type` and `task_index` are TensorFlow's: "chief", "worker", "ps", "evaluator"; besides, "driver",
    "tensorboard" or the name of a sidecar. `rank` numbers the tasks that train, from 0: the chief first, then
    the workers; it is None for all others. `world_size` is the number of ranks. `attempt` counts the runs of
    this task, and `generation` those of the whole group, both from 1. `job` is the job's id. `cluster_spec`
    has the addresses of all tasks by type, without the evaluator's unless this is the evaluator; with the
    topology "partial", a worker sees the chief, the ps and itself. `is_chief` is true in the one task that
    saves and exports: the chief, or worker 0 if there is no chief, or the driver of parameter servers.

    A process that is not part of a cluster is worker 0 of one, with `job` "" and an empty `cluster_spec`.
    """

    task_type: str
    task_index: int
    rank: int | None
    world_size: int
    attempt: int
    generation: int
    job: str
    cluster_spec: Mapping[str, list[str]]
    is_chief: bool
    _checkpoints: list[Checkpoints] = dataclasses.field(default_factory=list, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The task's name, such as "worker/1"."""
        return f"{self.task_type}/{self.task_index}"

    @classmethod
    def from_environment(cls, environ: Mapping[str, str],
                         settings: _bundle.Settings = _bundle.NO_SETTINGS) -> TaskContext:
        """The facts in the variables of a task. Raises ValueError for a TF_CONFIG that cannot be read."""
        cluster, task = read_cluster(environ)
        cluster = {role: _addresses(tasks) for role, tasks in cluster.items()}
        task_type = environ.get("TFC_TASK_TYPE") or str(task.get("type", "worker"))
        task_index = int(environ.get("TFC_TASK_INDEX") or task.get("index", 0))
        sizes = {role: len(addresses) for role, addresses in cluster.items()}
        if "TFC_JOB" in environ and not sizes:
            sizes = dict(settings.roles)
        chiefs, workers = sizes.get("chief", 0), sizes.get("worker", 0)
        rank, world_size = chiefs + task_index, chiefs + workers
        if "TFC_JOB" in environ:
            for marker, rank_variable, size_variable in _RANK_VARIABLES:
                if marker in environ:
                    rank, world_size = int(environ[rank_variable]), int(environ[size_variable])
        if world_size == 0:  # nobody trains together with this process
            rank, world_size = 0, 1
        is_chief = task_type == "chief" or rank == 0 and task_type == "worker" and "ps" not in sizes
        return cls(
            task_type=task_type,
            task_index=task_index,
            rank={"chief": 0, "worker": rank}.get(task_type),
            world_size=world_size,
            attempt=int(environ.get("TFC_ATTEMPT", 1)),
            generation=int(environ.get("TFC_GENERATION", 1)),
            job=environ.get("TFC_JOB", ""),
            cluster_spec=cluster,
            is_chief=is_chief or task_type == "driver" and not chiefs,
        )

    def strategy(self, **options: Any) -> Any:
        """The tf.distribute.Strategy of this task.

        Of a mirrored cluster: a MultiWorkerMirroredStrategy for chief and workers. With parameter servers: a
        ParameterServerStrategy for the chief, or for the driver; workers and parameter servers run TensorFlow's
        server instead. For an evaluator, and outside of a cluster: the default strategy. `options` go to the
        constructor of the first two, such as variable_partitioner=.
        """
        import tensorflow as tf

        from .resolver import ClusterResolver

        settings = _bundle.settings()
        if settings.framework not in ("", "tensorflow"):
            raise RuntimeError(f"ctx.strategy() is TensorFlow's, and the framework of this job is {settings.framework}")
        kind = settings.strategy or ("parameter_server" if "ps" in self.cluster_spec else "multi_worker_mirrored")
        if not self.cluster_spec or kind == "none" or self.rank is None and not self.is_chief and self.task_type != "ps":
            return tf.distribute.get_strategy()
        if kind == "multi_worker_mirrored":
            return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=ClusterResolver(), **options)
        if not self.is_chief:
            raise RuntimeError(f"{self.name} has no strategy of its own: with parameter servers, the chief or the driver "
                               'trains, and its workers run TensorFlow\'s server (in a job file, "server": true)')
        return tf.distribute.ParameterServerStrategy(ClusterResolver(), **options)

    def checkpoints(self, directory: str | os.PathLike[str] | None = None, keep: int = 3,
                    **objects: Any) -> Checkpoints:
        """Checkpoints of the objects, of which the newest one is restored at once.

            checkpoints = ctx.checkpoints(model=model, optimizer=optimizer)
            for step in range(checkpoints.step + 1, 1001):
                ...
                if step % 100 == 0:
                    checkpoints.save(step)

        The objects are what tf.train.Checkpoint takes. The chief, or worker 0 without a chief, saves into the
        directory and keeps the newest `keep` checkpoints. Mirrored workers must take part in a save, and what they
        write is removed. A relative path starts at the task's working directory.

        The default directory is the `checkpoint_dir` of tfcluster.run; without one, `checkpoints` in the job's log
        directory, which lives until the job is forgotten, and on this machine until the program that runs the
        job ends. If tasks run on several nodes, the directory must be on a file system that all of them share.
        Tasks that do not train together (strategy "none") save for themselves, by default each in a directory of
        its own below that one.
        """
        from .checkpoints import Checkpoints

        checkpoints = Checkpoints(self, directory, keep, objects)
        self._checkpoints.append(checkpoints)
        return checkpoints

    def feed(self, queue: str = "train", *, window: int = 0, ack: str = "consume") -> Feed:
        """The rows that the driver feeds to a queue of this task with `Job.feed`.

            for batch in ctx.feed("train").batches(64):
                ...                              # {"x": array, "y": array}

        `window` limits the bytes that are on their way from each producer.

        With `ack` "consume", what a dead task had not consumed is fed again, and may be trained twice. With "commit",
        each checkpoint has the positions of the rows that were trained before it, and training that resumes from it
        goes on with the next row:

            checkpoints = ctx.checkpoints(model=model)
            dataset = ctx.feed("train", ack="commit").dataset(64)
            for step, batch in enumerate(dataset, checkpoints.step + 1):
                ...
                if step % 100 == 0:
                    checkpoints.save(step)
            checkpoints.save(step)                # rows count as consumed when a checkpoint has them

        A step is then one batch of the feed.
        """
        from .feed import Feed

        if ack not in ("consume", "commit"):
            raise InvalidError(f'ack: must be "consume" or "commit", not {ack!r}')
        if ack == "commit" and not self._checkpoints:
            raise InvalidError('ack="commit" writes positions with the checkpoints; call ctx.checkpoints(...) before '
                               "ctx.feed()")
        return Feed(self, queue, window, self._checkpoints[-1] if ack == "commit" else None)

    def report(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Reports metrics to whoever follows the job: {"loss": 0.3}. It is also a sign of progress, which
        `stall_s` waits for.

        Values are numbers, scalars of numpy and TensorFlow, strings, and lists and dicts of these; anything
        else raises TypeError. A report waits at most a second for a node that does not read it, and is then
        dropped. Where nobody listens, it goes nowhere.
        """
        if not isinstance(values, Mapping):
            raise TypeError(f'values: must be a dict, such as {{"loss": 0.3}}, not {values!r}')
        line = _reports.metrics_line(values, None if step is None else int(step))
        _report_pipe.write(line, _reports.METRICS_PATIENCE_S)
        self.progress()

    def progress(self) -> None:
        """Gives a sign of progress, which `stall_s` waits for."""
        _reports.write_progress()


@functools.cache
def context() -> TaskContext:
    """The place of this process in its cluster. It works in any program that the library has started, and in
    one that it has not started, which is alone: rank 0 of one worker."""
    return TaskContext.from_environment(os.environ, _bundle.settings())


def write_report(line: bytes) -> None:
    """Writes a report that must arrive, however long the node takes to read it."""
    _report_pipe.write(line)
