"""A client of a cluster: what `tfc_run ps`, `describe`, `attach`, `logs`, `stop`, ... do, as calls."""

from __future__ import annotations

import ctypes
import json
import os
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _abi, _context, _library
from .errors import InvalidError
from .types import JobInfo, Jobs, Member, MissingNode, from_json

if TYPE_CHECKING:
    from .job import Job

STOP_TIMEOUT_S = 60.0


def _options(name: str, **values: Any) -> Any:
    """A struct of options with its defaults and some values."""
    options = getattr(_abi, name)()
    getattr(_library.load(), f"{name}_init")(ctypes.byref(options), ctypes.sizeof(options))
    for key, value in values.items():
        setattr(options, key, value)
    return options


def _milliseconds(seconds: float | None) -> int:
    return 0 if seconds is None else max(1, int(seconds * 1000))


class Client:
    """A connection to a cluster, or to a node in this process. `connect` and `local` make one.

    `timeout` of a call is in seconds; None waits as long as the library does. Any thread may call. A client
    is closed by `close`, or at the end of its `with` block; what it has submitted goes on, unless the node is
    in this process.
    """

    def __init__(self, gateway: str | None = None, *, key: str | os.PathLike[str] | None = None,
                 connect_s: float | None = None, reconnect_s: float | None = None,
                 node: Mapping[str, Any] | None = None) -> None:
        if (gateway is None) == (node is None):
            raise InvalidError("a client needs either the address of a node or a node of its own")
        self.gateway_address = gateway
        self._context = _context.Context()
        self._node = ctypes.c_void_p()
        self._gateway = ctypes.c_void_p()
        self._finalizer = weakref.finalize(self, self._context.close)
        try:
            if node is not None:
                self._open_node(node)
            self._open_gateway(key, connect_s, reconnect_s)
        except BaseException:
            self.close()
            raise
        self._context.attach()

    @property
    def is_local(self) -> bool:
        """The node is in this process: its jobs end with the process."""
        return self.gateway_address is None

    def _open_node(self, node: Mapping[str, Any]) -> None:
        text = json.dumps(dict(node)).encode()
        environment = [os.fsencode(name) + b"=" + os.fsencode(value) for name, value in os.environ.items()]
        variables = (ctypes.c_char_p * (len(environment) + 1))(*environment, None)
        with self._context.locked() as library:
            self._context.check(library.tfc_node_open_json(
                self._context.pointer, text, len(text), None, variables, None, ctypes.byref(self._node)))

    def _open_gateway(self, key: str | os.PathLike[str] | None, connect_s: float | None,
                      reconnect_s: float | None) -> None:
        values = {"gateway": self.gateway_address, "key": os.fspath(key) if key is not None else None,
                  "connect": connect_s, "reconnect": reconnect_s}
        text = json.dumps({name: value for name, value in values.items() if value is not None}).encode()
        with self._context.locked() as library:
            self._context.check(library.tfc_gateway_open_json(
                self._context.pointer, self._node, text, len(text), None, ctypes.byref(self._gateway)))

    def close(self) -> None:
        """Closes the client. A node in this process ends, with its jobs. Again: no-op."""
        self._finalizer()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tfcluster.Client of {self.gateway_address or 'a node in this process'}>"

    # ---- requests

    def _request(self, name: str, *arguments: Any) -> str:
        return self._context.request(name, self._gateway, *arguments).result()

    def _plain(self, name: str, *arguments: str, timeout: float | None = None) -> str:
        """A request whose only option is its deadline."""
        options = _options("tfc_request_options", timeout_ms=_milliseconds(timeout))
        return self._request(name, *(value.encode() for value in arguments), ctypes.byref(options))

    def jobs(self, *, timeout: float | None = None) -> Jobs:
        """The jobs of all nodes, also ended ones that are kept. Nodes that did not answer: `.missing`."""
        reply = json.loads(self._plain("tfc_gateway_jobs", timeout=timeout))
        jobs = Jobs(JobInfo.of(job) for job in reply["jobs"])
        jobs.missing = tuple(from_json(MissingNode, node) for node in reply["not_asked"])
        return jobs

    def describe(self, job: str, *, timeout: float | None = None) -> JobInfo:
        """A job with its tasks. `job` is an id, an unambiguous prefix of one, or a name."""
        return JobInfo.of(json.loads(self._plain("tfc_gateway_describe", job, timeout=timeout)))

    def tf_config(self, job: str, task: str, *, timeout: float | None = None) -> dict[str, Any]:
        """The TF_CONFIG that a task ("worker/0") was given."""
        config: dict[str, Any] = json.loads(self._plain("tfc_gateway_tf_config", job, task, timeout=timeout))
        return config

    def members(self, *, timeout: float | None = None) -> tuple[Member, ...]:
        """The nodes of the cluster, as the node that this client is connected to sees them."""
        reply = json.loads(self._plain("tfc_gateway_members", timeout=timeout))
        return tuple(from_json(Member, member) for member in reply)

    def stop(self, job: str, *, kill: bool = False, interrupt_s: float = 0, timeout: float | None = None) -> str:
        """Begins to stop a job, and returns its id: SIGTERM, the grace period of each task, SIGKILL.
        `interrupt_s` sends SIGINT first and waits so long; `kill` sends SIGKILL at once."""
        options = _options("tfc_stop_options", timeout_ms=_milliseconds(timeout), is_kill=int(kill),
                           interrupt_ms=int(interrupt_s * 1000))
        return self._request("tfc_gateway_stop", job.encode(), ctypes.byref(options))

    def rm(self, job: str, *, timeout: float | None = None) -> None:
        """Removes an ended job and its logs."""
        self._plain("tfc_gateway_forget", job, timeout=timeout)

    def drain(self, node: str, *, timeout: float | None = None) -> None:
        """Moves the tasks of a node away, and lets it accept no new ones, until `undrain`."""
        self._plain("tfc_gateway_drain", node, timeout=timeout)

    def undrain(self, node: str, *, timeout: float | None = None) -> None:
        """Ends a drain: the node accepts tasks again."""
        self._plain("tfc_gateway_undrain", node, timeout=timeout)

    # ---- jobs

    def run(self, program: Any, **options: Any) -> Job:
        """`tfcluster.run` on this cluster."""
        from ._run import run
        return run(program, gateway=self, **options)

    def attach(self, job: str, *, output: bool = True, cursor: str | None = None) -> Job:
        """Follows a job from its beginning, or after the event with `cursor`."""
        from .job import Job
        return Job._attach(self, job, output=output, cursor=cursor)

    def logs(self, job: str, task: str | None = None, *, follow: bool = False, attempt: int | None = None,
             tail: int | None = None) -> Iterator[str]:
        """The lines of a job's output so far, or of one task's; with `follow` until the job has ended.
        `tail` begins with the last lines. Lines of all tasks begin with "[worker/0] "."""
        from .job import job_lines
        return job_lines(self, job, task, follow=follow, attempt=attempt, tail=tail)


def connect(gateway: str, *, key: str | os.PathLike[str] | None = None, connect_s: float | None = None,
            reconnect_s: float | None = None) -> Client:
    """A client of the cluster at `gateway`: "unix:PATH" or "tcp://HOST:PORT" of a node, or several addresses
    separated by commas. `key` is a key file. The connection is made with the first request; `connect_s` and
    `reconnect_s` bound it, in seconds."""
    if not isinstance(gateway, str):
        raise InvalidError(f"gateway: must be the address of a node, such as tcp://HOST:PORT, or several "
                           f"with commas between them, not {gateway!r}")
    return Client(gateway, key=key, connect_s=connect_s, reconnect_s=reconnect_s)


def local(**options: Any) -> Client:
    """A client with a node of its own in this process, for several jobs on this machine. The options are
    those of doc/guide/node-options.md, with "_" for "-": local(slots=4, ports="30000-30999")."""
    return Client(node={name.replace("_", "-"): value for name, value in options.items()})
