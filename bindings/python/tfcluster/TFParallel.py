"""TensorFlowOnSpark's TFParallel: independent instances of a function."""

from __future__ import annotations

from typing import Any

from .errors import InvalidError
from .TFCluster import MapFun, _run_map_fun


def run(sc: None, map_fn: MapFun, tf_args: Any, num_executors: int, use_barrier: bool = True, *,
        default_fs: str = "file://", **options: Any) -> None:
    """Calls map_fn(tf_args, ctx) in `num_executors` tasks that know nothing of each other, and waits for all of them.

    The tasks start together, or the job fails at once if the nodes can never have so many: that is what
    `use_barrier` asks for, and without it the instances start together, too. A killed instance starts again, alone.
    The options, such as gateway, gpus (for each instance) and python, are those of tfcluster.run.

    Raises TaskFailed with the first cause if an instance failed.
    """
    if sc is not None:
        raise InvalidError("sc: there is no Spark here; pass None")
    with _run_map_fun(map_fn, tf_args, {"worker": num_executors}, default_fs, workers=num_executors,
                      **{"framework": "none", "restart": {"scope": "task"}, **options}) as job:
        job.result()
