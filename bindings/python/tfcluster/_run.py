"""`tfcluster.run`: a function, a script or a program as a job."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import _abi, _bundle, _function, _job_file, _notebook
from .checkpoints import absolute_path
from .client import Client, connect
from .errors import Error, InvalidError
from .job import Job
from .types import RestartPolicy

Program = Callable[..., Any] | str | os.PathLike[str] | Sequence[str | os.PathLike[str] | float]


def run(program: Program, *, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None,
        workers: int | None = None, chief: bool = False, ps: int = 0, evaluator: bool | Callable[..., Any] = False,
        tensorboard: str | os.PathLike[str] | None = None, roles: Mapping[str, Mapping[str, Any]] | None = None,
        gpus: int = 0, memory: int = 0, cpus: float = 0, checkpoint_dir: str | os.PathLike[str] | None = None,
        gateway: str | Client | None = None, key: str | os.PathLike[str] | None = None, output: bool = True,
        submit_timeout: float | None = None,
        name: str | None = None, framework: str | None = None, strategy: str | None = None,
        env: Mapping[str, str | float] | None = None, secret_env: Mapping[str, str] | Sequence[str] | None = None,
        cwd: str | os.PathLike[str] | None = None, bundle: str | os.PathLike[str] | None = None,
        python: str | os.PathLike[str] | None = None, restart: RestartPolicy | Mapping[str, Any] | int | None = None,
        success: str | None = None, grace_s: float | None = None, abort_grace_s: float | str | None = None,
        preempt_grace_s: float | None = None, finish_s: float | None = None, pending_deadline_s: float | None = None,
        start_deadline_s: float | str | None = None, deadline_s: float | None = None, topology: str | None = None,
        stall_s: float | str | None = None, on_stall: str | None = None, isolation: str | None = None,
        warm: Sequence[str] | None = None,
        placement: Mapping[str, Any] | str | None = None) -> Job:
    """Runs a job, and returns it as soon as it is accepted.

    `program` is a function, which each task calls as program(ctx, *args, **kwargs) with a `TaskContext`; the path
    of a Python script, which gets `args` as arguments; or a list, a program with its arguments.

    Roles: `workers` (1), without the chief; `chief`; `ps`, which adds a chief; `evaluator`, True or a function
    of its own; `tensorboard`, the directory that it shows. With a function and `ps`, the parameter servers and
    workers run TensorFlow's server, and the chief calls the function. `roles` has further keys of roles, and further
    roles, as in a job file. `gpus`, `memory` (bytes) and `cpus` are for each worker, and for the chief of a job
    without ps.

    `gateway` is None (this machine: the job ends with this process), the address of a node of a cluster, with the
    key file `key`, or a `Client`. `output` prints what the tasks print. `checkpoint_dir` is the default directory
    of `ctx.checkpoints`. `submit_timeout` bounds the wait until the job is accepted, in seconds.

    All other keywords are the keys of a job file (doc/guide/job-file.md). `restart` may be a `RestartPolicy` or
    the number of restarts, `placement` a policy, and `secret_env` a list of names, whose values come from this
    process. Relative paths start at the current directory. On this machine, tasks run in the current directory, with
    this Python.

    Raises InvalidError, before anything is started, if the job cannot run; AccessError, ConnectionLostError and
    DeadlineError if it is not accepted.
    """
    keys: dict[str, Any] = {
        "name": name, "framework": framework, "strategy": strategy, "env": env, "secret_env": secret_env, "cwd": cwd,
        "bundle": bundle, "python": python, "restart": restart, "success": success, "grace_s": grace_s,
        "abort_grace_s": abort_grace_s, "preempt_grace_s": preempt_grace_s, "finish_s": finish_s,
        "pending_deadline_s": pending_deadline_s, "start_deadline_s": start_deadline_s, "deadline_s": deadline_s,
        "topology": topology, "stall_s": stall_s, "on_stall": on_stall, "isolation": isolation, "warm": warm,
        "placement": placement}
    _check_keywords(args, kwargs, evaluator, tensorboard, roles)
    values = {name: _job_file.job_key(name, value) for name, value in keys.items() if value is not None}
    if bundle is not None and not os.path.exists(bundle):
        raise InvalidError(f'bundle: there is no "{os.fspath(bundle)}"')
    _notebook.stop_jobs_of_before()
    own_client = not isinstance(gateway, Client)
    is_local = gateway is None or isinstance(gateway, Client) and gateway.is_local
    is_function = callable(program)
    if is_local:
        values.setdefault("python", sys.executable)
        # A relative path would start in the task's copy of the bundle, which a function has without its author.
        values["cwd"] = os.path.abspath(values.get("cwd", "")) if bundle is None else values.get("cwd", os.getcwd())
    values["roles"] = _roles(workers, chief, ps, evaluator, tensorboard, roles,
                             {"gpus": gpus, "memory": memory, "cpus": cpus}, is_function)
    directory: _bundle.Directory | None = None
    try:
        if is_function:
            with _packing():
                directory = _bundle.Directory()
                values.update(_function_keys(program, args, kwargs, evaluator, values, bundle, checkpoint_dir, is_local,
                                             directory.path))
        else:
            values["argv"] = _argv(program, args, kwargs, evaluator, values.get("python", "python3"))
        with _job_file.parsed(values, os.getcwd()) as definition:
            client = gateway if isinstance(gateway, Client) else _client(gateway, key)
            try:
                job = Job._submit(client, definition, bundle=directory, output=output, is_own_client=own_client,
                                  timeout=submit_timeout)
            except BaseException:
                if own_client:
                    client.close()
                raise
    except BaseException:
        if directory is not None:
            directory.cleanup()
        raise
    _notebook.remember_job(job)
    return job


def attach(job: str, *, gateway: str | Client, key: str | os.PathLike[str] | None = None, output: bool = True,
           cursor: str | None = None) -> Job:
    """Follows a job of a cluster, from its beginning or after the event with `cursor`: after a restart of the
    notebook's kernel, or from another machine. `job` is an id, an unambiguous prefix of one, or a name."""
    client = gateway if isinstance(gateway, Client) else connect(gateway, key=key)
    try:
        return Job._attach(client, job, output=output, cursor=cursor, is_own_client=client is not gateway)
    except BaseException:
        if client is not gateway:
            client.close()
        raise


def _check_keywords(args: Any, kwargs: Any, evaluator: Any, tensorboard: Any, roles: Any) -> None:
    """Checks the types of what is no key of a job file: the library checks those."""
    checks = (
        ("args", args, not isinstance(args, (str, bytes)) and isinstance(args, Iterable), "a list of arguments"),
        ("kwargs", kwargs, kwargs is None or isinstance(kwargs, Mapping), "a dict of arguments by name"),
        ("evaluator", evaluator, callable(evaluator) or isinstance(evaluator, bool), "True, False or a function"),
        ("tensorboard", tensorboard, isinstance(tensorboard, (str, os.PathLike, type(None))), "a directory"),
        ("roles", roles, roles is None or isinstance(roles, Mapping), "a dict of keys by role"))
    for name, value, is_right, wanted in checks:
        if not is_right:
            raise InvalidError(f"{name}: must be {wanted}, not {value!r}")


@contextlib.contextmanager
def _packing() -> Iterator[None]:
    try:
        yield
    except Error:
        raise
    except OSError as failure:
        reason = failure.args[0][0][2] if isinstance(failure, shutil.Error) else str(failure)  # the first of several
        raise Error(f"cannot pack the function: {reason}; TMPDIR names the directory that it is packed in",
                    int(_abi.Err.ESYS), "python", failure.errno or 0) from None


def _function_keys(program: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, evaluator: Any,
                   values: Mapping[str, Any], bundle: str | os.PathLike[str] | None,
                   checkpoint_dir: str | os.PathLike[str] | None, is_local: bool, directory: str) -> dict[str, Any]:
    """Packs the function into `directory`; returns the keys of its job."""
    functions = {"train": (program, tuple(args), kwargs or {})}
    if callable(evaluator):
        functions["evaluator"] = (evaluator, tuple(args), kwargs or {})
    roles = {role: keys.get("count", 1) for role, keys in values["roles"].items()}
    facts = {"framework": values.get("framework", "tensorflow"), "strategy": _strategy(values.get("strategy"), roles),
             "checkpoint_dir": _checkpoint_dir(checkpoint_dir, values.get("cwd"), is_local), "roles": roles}
    _function.pack(directory, functions, facts, bundle)
    return {"argv": [values.get("python", "python3"), "-m", "tfcluster.task"], "bundle": directory, "reports": True,
            "name": values.get("name", getattr(program, "__name__", "").strip("<>"))}


def _client(gateway: str | None, key: str | os.PathLike[str] | None) -> Client:
    if gateway is None:
        return Client(node={})
    return connect(gateway, key=key)


def _strategy(strategy: str | None, roles: Mapping[str, int]) -> str:
    if strategy not in (None, "auto"):
        return str(strategy)
    return "parameter_server" if roles.get("ps") else "multi_worker_mirrored"


def _checkpoint_dir(path: str | os.PathLike[str] | None, cwd: str | None, is_local: bool) -> str | None:
    if path is None:
        return None
    if is_local:
        return absolute_path(path)
    if not (os.path.isabs(path) or "://" in os.fspath(path) or os.path.isabs(cwd or "")):
        raise InvalidError(f'checkpoint_dir: "{os.fspath(path)}" is a relative path, and each task on a cluster has a '
                           "current directory of its own; name a directory that all nodes share, like /shared/checkpoints")
    return os.fspath(path)


def _argv(program: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, evaluator: Any,
          python: str) -> list[str]:
    if kwargs:
        raise InvalidError("kwargs: only a function has keyword arguments; put them into args")
    if callable(evaluator):
        raise InvalidError("evaluator: a function, although the program is none; pass True")
    if isinstance(program, (str, os.PathLike)):
        script = os.fspath(program)
        if not script.endswith(".py"):
            raise InvalidError(f'program: "{script}" is no Python script; pass a list: ["{script}", ...]')
        return [python, script, *(str(word) for word in args)]
    if not isinstance(program, (list, tuple)):
        raise InvalidError(f"program: must be a function (train, not train()), the path of a Python script, or a list, "
                           f"not {program!r}")
    if args:
        raise InvalidError("args: the program is a list, which has its arguments already")
    return [str(word) for word in program]


def _roles(workers: int | None, chief: bool, ps: int, evaluator: Any, tensorboard: Any,
           roles: Mapping[str, Mapping[str, Any]] | None, resources: Mapping[str, Any],
           is_function: bool) -> dict[str, dict[str, Any]]:
    """The job key `roles`."""
    result: dict[str, dict[str, Any]] = {name: dict(keys) for name, keys in (roles or {}).items()}
    has_ps = bool(ps) or "ps" in result
    if chief or has_ps and not {"chief", "driver"} & result.keys():
        result.setdefault("chief", {})
    if workers is not None or not {"worker", "chief", "driver"} & result.keys() or has_ps and "worker" not in result:
        result.setdefault("worker", {}).setdefault("count", 1 if workers is None else workers)
    if ps:
        result.setdefault("ps", {}).setdefault("count", ps)
    if evaluator:
        result.setdefault("evaluator", {})
    if tensorboard is not None:
        result.setdefault("tensorboard", {}).setdefault("log_dir", absolute_path(tensorboard))
    for name in ("worker",) if has_ps else ("worker", "chief"):
        for resource, value in resources.items():
            if value and name in result:
                result[name].setdefault(resource, value)
    if is_function and has_ps:
        for name in ("ps", "worker"):
            result[name].setdefault("server", True)
    return result
