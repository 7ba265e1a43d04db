"""What a task reports to the driver: lines of JSON, written to the descriptor in TFC_REPORT_FD.

    {"kind": "metrics", "step": 60, "values": {"loss": 1.2}}
    {"kind": "result", "encoding": "json", "value": ...}
    {"kind": "result", "encoding": "arrow", "value": "<base64 of an Arrow IPC stream>"}
    {"kind": "error", "exception": "ValueError", "module": "builtins", "message": "...", "traceback": "..."}

Numbers that are not finite are written as Python's json module reads them: NaN, Infinity.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import stat
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .types import Event

RESULT_MAX_BYTES = 16 << 20
METRICS_PATIENCE_S = 1.0  # how long metrics wait for a reader before they are dropped
_CHUNK = 1 << 16
_TEXT_MAX = 1 << 20  # characters of an exception's message, and of its traceback
_NO_RESULT = "cannot return a {}; return numbers, strings, lists and dicts of it, or save it and return the path"
_NO_METRIC = "cannot report a {}; report numbers"


def to_json(value: Any, path: str, refusal: str) -> Any:
    """The value as numbers, strings, lists and dicts. Scalars and arrays of numpy, and what resembles them
    (tensors, variables), become numbers and lists. Raises TypeError with the path of anything else, and with
    `refusal`, in which {} stands for its type."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if callable(getattr(value, "numpy", None)):
        value = value.numpy()
    if callable(getattr(value, "tolist", None)):
        value = value.tolist()
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [to_json(item, f"{path}[{i}]", refusal) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{path}: the keys of a dict must be strings, and {key!r} is not one; use str()")
        return {key: to_json(item, f"{path}[{json.dumps(key)}]", refusal) for key, item in value.items()}
    raise TypeError(f"{path}: " + refusal.format(type(value).__name__))


def _arrow_stream(value: Any) -> bytes | None:
    """A table or record batch of pyarrow as an IPC stream; None for anything else."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None or not isinstance(value, (pyarrow.Table, pyarrow.RecordBatch)):
        return None
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, value.schema) as writer:
        writer.write(value)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


def result_line(value: Any) -> bytes:
    """The report of a function's result. Raises TypeError or ValueError if it cannot be returned."""
    stream = _arrow_stream(value)
    if stream is None:
        report = {"kind": "result", "encoding": "json", "value": to_json(value, "result", _NO_RESULT)}
    else:
        report = {"kind": "result", "encoding": "arrow", "value": base64.b64encode(stream).decode()}
    line = _line(report)
    if len(line) > RESULT_MAX_BYTES:
        raise ValueError(f"result: cannot return {len(line)} bytes, at most {RESULT_MAX_BYTES} are "
                         "possible; save it, and return the path")
    return line


def metrics_line(values: Mapping[str, Any], step: int | None) -> bytes:
    return _line({"kind": "metrics", "step": step, "values": to_json(values, "values", _NO_METRIC)})


def error_line(error: BaseException) -> bytes:
    kind = type(error)
    described = traceback.TracebackException.from_exception(error)
    return _line({"kind": "error", "exception": kind.__qualname__, "module": kind.__module__,
                  "message": str(described)[:_TEXT_MAX], "traceback": "".join(described.format())[-_TEXT_MAX:]})


def _line(report: dict[str, Any]) -> bytes:
    return json.dumps(report, separators=(",", ":")).encode() + b"\n"


def _inherited_pipe(variable: str) -> int | None:
    """The pipe whose descriptor an environment variable names, if it is there.

    A program that a task starts has the variable, but perhaps not the descriptor, and then the number may
    belong to a file of its own. The first process to ask therefore notes which pipe it is.
    """
    try:
        fd = int(os.environ[variable])
        status = os.fstat(fd)
    except (KeyError, ValueError, OSError):
        return None
    pipe = f"{status.st_dev}:{status.st_ino}"
    if not stat.S_ISFIFO(status.st_mode) or os.environ.setdefault(variable + "_PIPE", pipe) != pipe:
        return None
    return fd


def _is_writable(fd: int, wait_s: float | None) -> bool:
    """Whether a pipe takes a byte, or has lost its reader, within that time. None: without limit."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(None if wait_s is None else max(wait_s, 0) * 1000))


def write_progress() -> None:
    """Gives a sign of progress. The program may write to that pipe, too: it stays as it is, a blocking one."""
    fd = _inherited_pipe("TFC_PROGRESS_FD")
    if fd is not None and _is_writable(fd, 0):
        with contextlib.suppress(OSError):
            os.write(fd, b".")


class ReportPipe:
    """The pipe for reports. Writing to it never raises; if it is missing or closed, reports go nowhere.

    All threads of a process may write, and so may its forked children: a line of up to 4096 bytes (PIPE_BUF)
    is always whole.
    """

    def __init__(self) -> None:
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()  # a thread that a forked child does not have may have locked the parent's
        self._rest = b""  # of a line that was begun when its time was over
        self._is_full = False

    def write(self, line: bytes, patience_s: float | None = None) -> None:
        """Writes a line. `patience_s` is how long it may wait for a reader before it is dropped. It waits once: as
        long as the reader stays away, further lines are dropped at once. None: no limit."""
        with self._lock:
            fd = _inherited_pipe("TFC_REPORT_FD")
            if fd is None:
                return
            deadline = None
            if patience_s is not None:
                deadline = time.monotonic() + (0 if self._is_full else patience_s)
            data = self._rest + line
            sent = _send(fd, data, deadline)
            self._is_full = sent < len(data)
            self._rest = data[sent:] if sent > len(self._rest) else self._rest[sent:]


def _send(fd: int, data: bytes, deadline: float | None) -> int:
    """How many bytes the pipe took by the deadline; all of them if nobody reads it any more."""
    os.set_blocking(fd, False)
    sent = 0
    while sent < len(data):
        try:
            sent += os.write(fd, data[sent:sent + _CHUNK])
        except BlockingIOError:
            if not _is_writable(fd, None if deadline is None else deadline - time.monotonic()):
                break
        except OSError:
            return len(data)
    return sent


# ---- the driver's side

def _is_valid(report: Any) -> bool:
    match report:
        case {"kind": "metrics", "values": dict(), "step": int() | None}:
            return True
        case {"kind": "result", "encoding": "json", "value": _} | {"kind": "result", "encoding": "arrow", "value": str()}:
            return True
        case {"kind": "error", "exception": str(), "traceback": str()}:
            return True
    return False


class Inbox:
    """The last report of each kind of each task. A task may write what it likes: what is no report of this package is
    passed over, and no line takes more than RESULT_MAX_BYTES."""

    def __init__(self) -> None:
        self._reports: dict[str, dict[str, dict[str, Any]]] = {}
        self._lines: dict[str, tuple[int, list[str]]] = {}  # the attempt and the pieces of a line that goes on

    def add(self, event: Event) -> dict[str, Any] | None:
        """Takes a report, or a piece of one. Returns the report if it is whole and valid."""
        attempt, pieces = self._lines.pop(event.task, (event.attempt, []))
        if attempt != event.attempt:  # that one died within a line
            pieces = []
        if sum(map(len, pieces)) <= RESULT_MAX_BYTES:  # the line is refused as soon as one piece is too much
            pieces.append(event.text)
        if event.partial:
            self._lines[event.task] = event.attempt, pieces
            return None
        line = "".join(pieces)
        try:
            report: Any = json.loads(line) if len(line) <= RESULT_MAX_BYTES else None
        except (ValueError, RecursionError):
            return None
        if not _is_valid(report):
            return None
        report["attempt"] = event.attempt
        self._reports.setdefault(event.task, {})[report["kind"]] = report
        whole: dict[str, Any] = report
        return whole

    def get(self, task: str, kind: str) -> dict[str, Any] | None:
        return self._reports.get(task, {}).get(kind)

    def remove(self, task: str, kind: str) -> None:
        self._reports.get(task, {}).pop(kind, None)
