"""`tfcluster.allocation`: the same program on every host of an allocation of Slurm, Open MPI or Kubernetes."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from . import _abi, _context, _run
from .client import Client, _milliseconds, _options
from .errors import Error, TaskFailed
from .types import RestartPolicy

RUN_FAILED = 125  # the status of all ranks if they cannot work together, as in tfc_run
TERMINATED = 128 + signal.SIGTERM
POLL_S = 0.5  # all ranks of a host have noticed the end of their launcher
SHARED_SIGNAL_S = 1.0  # in which rank 0 may announce the end, after a signal that all ranks got
_KIND = _abi.AllocationEventKind


def allocation(program: _run.Program, *, rendezvous: str | os.PathLike[str] | None = None, rank: int | None = None,
               size: int | None = None, min_nodes: int | None = None, wait_s: float | None = None, host: str | None = None,
               key: str | os.PathLike[str] | None = None, slots: int | None = None, **options: Any) -> Any:
    """Runs a job on the hosts that Slurm, Open MPI or Kubernetes has allocated, as `tfc_run allocation` does. The engine
    starts this program on each of them; each is a rank:

        srun -N 3 --ntasks-per-node 1 python3 train.py

        # train.py
        result = tfcluster.allocation(train, workers=3)

    Rank 0 submits the job, prints its output and returns what `Job.result` returns, or raises what it raises. The other
    ranks wait for the end. If the job has succeeded they return None, else they exit with its status (SystemExit): only
    rank 0 shows the failure. `program` and the other keywords are those of `run`.

    `rendezvous` is a directory that all ranks share (~/.local/state/tfcluster/allocations), or "HOST:PORT", at which rank 0
    listens; then all need the same key, in the file `key` or, as text, in the variable TFC_KEY_DATA. `rank` and `size` are
    for ranks that no engine has started, which need `rendezvous`; Kubernetes states only the rank, and needs `size`.
    With `min_nodes`, the job starts if so many ranks have joined within `wait_s` seconds (300), and ends if fewer are
    left. `slots` is the number of tasks of a rank at one time, by default that of the CPUs that it was granted. `host`
    is the address of this machine that the other ranks use.

    Tasks wait `wait_s` seconds at most for a rank with room for them, unless `pending_deadline_s` is another time. Under
    Slurm, they restart after one second at the earliest, unless `restart` has a `backoff_s`.

    On SIGTERM, and if the process of Open MPI or Slurm that started this one has died, the tasks get their grace and
    SystemExit is raised. Raises NotFoundError outside of an allocation,
    DeadlineError if ranks are missing, and ConnectionLostError if too many are lost.
    """
    if rendezvous is None and rank is None:
        rendezvous = _default_rendezvous()
    values = {"rank": rank, "rank_count": size, "min_ranks": min_nodes, "host": host}
    counts = _run._roles(options.get("workers"), options.get("chief", False), options.get("ps", 0),
                         options.get("evaluator", False), options.get("tensorboard"), options.get("roles"),
                         {"gpus": options.get("gpus", 0)}, False)
    node = {
        **{name: os.fsencode(value) if isinstance(value, str) else value for name, value in values.items()
           if value is not None},
        "has_rank": int(rank is not None), "wait_ms": _milliseconds(wait_s),
        "rendezvous": os.fsencode(rendezvous) if rendezvous is not None else None,
        "key_file": os.fsencode(key) if key is not None else None,
        "key_data": os.fsencode(os.environ["TFC_KEY_DATA"]) if key is None and "TFC_KEY_DATA" in os.environ else None,
        "needed_slots": sum(role.get("count", 1) for role in counts.values()),
        "needed_gpus": sum(role.get("count", 1) * role.get("gpus", 0) for role in counts.values()),
        "agreement": _agreement(program, options), "node": json.dumps({"slots": slots} if slots else {}).encode()}
    with _Sigterm() as sigterm:
        client = _Allocation(node, sigterm)
        with client:
            return client.run_to_the_end(program, options)


def _default_rendezvous() -> str:
    """The directory of `tfc_run allocation`."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    path = os.path.join(state, "tfcluster", "allocations")
    os.makedirs(path, 0o700, exist_ok=True)
    return path


def _agreement(program: Any, options: Mapping[str, Any]) -> bytes:
    """What all ranks must have in common, as far as it has the same text everywhere."""
    plain = {name: value for name, value in options.items() if isinstance(value, (str, int, float, RestartPolicy))}
    name = getattr(getattr(program, "func", program), "__qualname__", None)  # of a partial: its function
    if name is None:
        name = program if isinstance(program, (str, list, tuple, os.PathLike)) else type(program).__qualname__
    return f"{name} {sorted(plain.items())}".encode()


class _Sigterm:
    """A block in which SIGTERM is noted, unless the program has a handler of its own. An exception of the handler could
    come at any place, and engines repeat the signal, which must not cut the grace of the tasks short."""

    def __init__(self) -> None:
        self.has_come = False
        self.context: _context.Context | None = None  # whose waits end

    def __enter__(self) -> _Sigterm:
        self._is_set = (threading.current_thread() is threading.main_thread()
                        and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
        if self._is_set:
            signal.signal(signal.SIGTERM, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._is_set:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _note(self, number: int, frame: object) -> None:
        self.has_come = True
        if self.context is not None:
            self.context.end_poll()


class _Allocation(Client):
    """A client of this rank's node."""

    def __init__(self, values: Mapping[str, Any], sigterm: _Sigterm) -> None:
        self._sigterm = sigterm
        self._allocation = ctypes.c_void_p()
        self._is_ready = self._has_left = False
        self._status: int | None = None  # as rank 0 has announced it
        self._failure: Error | None = None
        self._launcher = os.getppid()
        self._number = _context.register(self)
        super().__init__(node=values)

    def _open_node(self, node: Mapping[str, Any]) -> None:
        self._sigterm.context = self._context
        environment = [os.fsencode(name) + b"=" + os.fsencode(value) for name, value in os.environ.items()]
        variables = (ctypes.c_char_p * (len(environment) + 1))(*environment, None)
        options = _options("tfc_allocation_options", **node)
        options.env = variables
        with self._context.locked() as library:
            code = library.tfc_allocation_open(self._context.pointer, ctypes.byref(options), _on_event, self._number,
                                               ctypes.byref(self._allocation))
            try:
                self._context.check(code)
            except Error as error:
                raise Error.of(error.code, _with_keywords(str(error)), error.component, error.errno) from None
            info = library.tfc_allocation_describe(self._allocation).contents
            self.rank, self._engine = int(info.rank), info.engine
        self._say(info.text)
        self._await_ready()
        with self._context.locked() as library:
            self._node = ctypes.c_void_p(library.tfc_allocation_node(self._allocation))

    def _say(self, text: bytes) -> None:
        if self.rank == 0:
            print(f"tfcluster: {_context.text_of(text)}", file=sys.stderr, flush=True)

    def _receive(self, event: Any) -> None:
        if event.kind == _KIND.READY:
            self._is_ready = True
        elif event.kind == _KIND.ENDED:
            self._status = int(event.exit_status)
        elif event.kind == _KIND.FAILED:
            self._failure = Error.of(event.code, _context.text_of(event.text), "allocation")
        elif event.kind == _KIND.WAITING:
            self._say(b"waiting: " + event.text + b" yet")
        else:
            self._say(event.text)

    def _await_ready(self) -> None:
        self._await(lambda: self._is_ready)
        if self._is_ready:
            return
        self._leave(RUN_FAILED if self._failure is not None else TERMINATED)
        if self._failure is not None:
            raise self._failure
        raise SystemExit(TERMINATED)

    def _await(self, is_done: Callable[[], bool]) -> None:
        """Until is_done(), the end of the allocation, SIGTERM, or the end of the launcher, which counts as one. A signal
        just before a poll does not end the poll."""
        while not self._context.wait(lambda: is_done() or self._is_over() or self._sigterm.has_come, POLL_S):
            if self._has_lost_launcher():
                self._sigterm.has_come = True

    def _has_lost_launcher(self) -> bool:
        """If the daemon of the engine (mpirun, orted, slurmstepd) is killed, nothing ends this process. A death signal is
        for its author to set, not for this call."""
        return self._engine in (_abi.Engine.OPEN_MPI, _abi.Engine.SLURM) and os.getppid() != self._launcher

    def _is_over(self) -> bool:
        return self._failure is not None or self._status is not None

    def _leave(self, status: int) -> None:
        with self._context.locked() as library:
            text = str(self._failure).encode() if self._failure is not None else None
            self._context.check(library.tfc_allocation_end(self._allocation, status, text, _on_left, self._number))
        self._context.wait(lambda: self._has_left)

    # ---- after all have joined

    def run_to_the_end(self, program: Any, options: Mapping[str, Any]) -> Any:
        return self._run_job(program, options) if self.rank == 0 else self._serve()

    def _run_job(self, program: Any, options: Mapping[str, Any]) -> Any:
        status = 1
        try:
            job = _run.run(program, gateway=self, **options)
            self._await(job.done)
            if self._failure is not None:
                status = RUN_FAILED
                job.stop()
                raise self._failure
            if not job.done():
                status = TERMINATED
                job.stop()
                raise SystemExit(status)
            result = job.result()
            status = 0
        except TaskFailed as failure:
            status = failure.exit_status if failure.exit_status > 0 else 1
            raise
        finally:
            self._leave(status)
        return result

    def _serve(self) -> None:
        interrupt: KeyboardInterrupt | None = None
        try:
            self._await(lambda: False)
        except KeyboardInterrupt as signaled:
            interrupt = signaled
        is_signaled = not self._is_over()
        if is_signaled:
            self._context.wait(self._is_over, SHARED_SIGNAL_S)
        self._leave(0)
        if interrupt is not None:
            raise interrupt
        if is_signaled:
            raise SystemExit(TERMINATED)
        if self._failure is not None:
            raise self._failure
        if self._status:
            raise SystemExit(self._status)

    def close(self) -> None:
        self._sigterm.context = None
        _context.forget(self._number)
        super().close()


def _with_keywords(text: str) -> str:
    """A message with the names of this module."""
    return text.replace("rank_count", "size").replace("min_ranks", "min_nodes")


def _event(user: int | None, event: Any) -> None:
    allocation = _context.registered(user)
    if allocation is None:
        return
    try:
        allocation._receive(event.contents)
    except BaseException as failure:
        allocation._context.fail(failure)


def _left(user: int | None) -> None:
    allocation = _context.registered(user)
    if allocation is not None:
        allocation._has_left = True


_on_event = _abi.tfc_allocation_fn(_event)
_on_left = _abi.tfc_allocation_ended_fn(_left)
