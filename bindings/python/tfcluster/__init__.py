"""TensorFlow clusters on your own machines, from Python.

    import tfcluster as tfc

    def train(ctx):
        strategy = ctx.strategy()
        ...
        return {"accuracy": accuracy}

    job = tfc.run(train, workers=2)
    print(job.result())

`run` starts a job, `connect` and `attach` reach a cluster, `allocation` runs a job on the hosts that Slurm has granted,
and `context` is for the program of a task. What a job file can say, `run` takes as keywords. doc/guide/python.md is the
guide.

The package needs nothing outside Python's standard library, apart from cloudpickle for functions. It starts no
thread: a job proceeds while a call such as `Job.result` waits, or while an asyncio loop runs, as in a notebook.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import TFCluster, TFNode, TFParallel
    from ._abi import Err
    from ._allocation import allocation
    from ._producer import Partitions
    from ._run import attach, run
    from ._task_context import TaskContext, context
    from .client import Client, connect, local
    from .errors import (AccessError, ConnectionLostError, DeadlineError, Error, InvalidError, JobError, JobStoppedError,
                         NotFoundError, TaskFailed)
    from .job import Job, Task
    from ._map_batches import map_batches
    from .resolver import ClusterResolver
    from .types import AttemptEnd, Event, JobInfo, Member, RestartPolicy, TaskInfo, Zygote

_HOMES = {
    "_producer": ("Partitions",),
    "_run": ("run", "attach"),
    "_allocation": ("allocation",),
    "_map_batches": ("map_batches",),
    "client": ("Client", "connect", "local"),
    "job": ("Job", "Task"),
    "errors": ("AccessError", "ConnectionLostError", "DeadlineError", "Error", "InvalidError", "JobError",
               "JobStoppedError", "NotFoundError", "TaskFailed"),
    "types": ("AttemptEnd", "Event", "JobInfo", "Member", "RestartPolicy", "TaskInfo", "Zygote"),
    "_task_context": ("TaskContext", "context"),
    "resolver": ("ClusterResolver",),
    "_abi": ("Err",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
_MODULES = ("TFCluster", "TFNode", "TFParallel")

__all__ = [  # noqa: F822 (defined by __getattr__)
    "AccessError", "AttemptEnd", "Client", "ClusterResolver", "ConnectionLostError", "DeadlineError", "Err", "Error",
    "Event", "InvalidError", "Job", "JobError", "JobInfo", "JobStoppedError", "Member", "NotFoundError",
    "Partitions", "RestartPolicy", "TFCluster", "TFNode", "TFParallel", "Task", "TaskContext", "TaskFailed", "TaskInfo",
    "Zygote", "allocation", "attach", "connect", "context", "local", "map_batches", "run",
]


def __getattr__(name: str) -> Any:
    """Imports what is used, when it is used."""
    if name in _HOME_OF:
        value = getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
    elif name in _MODULES:
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
