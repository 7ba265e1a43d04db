"""The exceptions of tfcluster.

Every failure of the library is an `Error` with a code, the numbers of include/tfcluster/error.h. Where
Python has an exception for the same thing (`TimeoutError`, `LookupError`, ...), the class here is one
of those, too.
"""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """A failure that the library reported.

    `code` is an `Err` (a negative number), `component` the part of the library that failed, and `errno`
    the operating system's number behind it, or 0. The text says what failed, why, and the remedy.
    """

    code: int = 0
    component: str = ""
    errno: Any = 0  # int; the subclasses that are an OSError inherit a wider type

    def __init__(self, text: str, code: int = 0, component: str = "", errno: int = 0) -> None:
        super().__init__(text)
        self.code = code
        self.component = component
        self.errno = errno

    @classmethod
    def of(cls, code: int, text: str, component: str = "", errno: int = 0) -> Error:
        """The exception for a code."""
        return _CLASSES.get(code, Error)(text, code, component, errno)


class InvalidError(Error, ValueError):
    """An argument, an option or a job is not valid."""


class NotFoundError(Error, LookupError):
    """There is no such job, task, node or file."""


class AccessError(Error, PermissionError):
    """The key, the user or the operating system does not permit it."""


class ConnectionLostError(Error, ConnectionError):
    """A node cannot be reached, or the connection to it was lost."""


class DeadlineError(Error, TimeoutError):
    """The time of a call is over. What the call waited for may still happen."""


class JobError(Error):
    """A job that did not succeed.

    `job` is its id, `state` "failed" or "stopped", and `reason` why it ended ("exit", "signal",
    "deadline", ...; enum tfc_end_reason).
    """

    def __init__(self, text: str, *, job: str = "", state: str = "", reason: str = "") -> None:
        super().__init__(text)
        self.job = job
        self.state = state
        self.reason = reason


class JobStoppedError(JobError):
    """Somebody stopped the job before it had a result."""


class TaskFailed(JobError):
    """The task that decided that the job failed. It is the first cause, never a consequence.

    `task` is its name ("worker/1"), `attempt` and `node` say which run of it and where. `exit_status` is
    that of a shell: 128 + N after signal N. If a Python function raised, `exception` is the name of the
    exception's type and `traceback` its whole text; otherwise both are "". `log_tail` has the last lines of
    the task's output, without their newlines.
    """

    def __init__(self, text: str, *, job: str = "", state: str = "failed", reason: str = "", task: str = "",
                 attempt: int = 0, node: str = "", exit_status: int = -1, exception: str = "", traceback: str = "",
                 log_tail: tuple[str, ...] = ()) -> None:
        super().__init__(text, job=job, state=state, reason=reason)
        self.task = task
        self.attempt = attempt
        self.node = node
        self.exit_status = exit_status
        self.exception = exception
        self.traceback = traceback
        self.log_tail = log_tail


# The numbers of include/tfcluster/error.h, which never change.
_CLASSES: dict[int, type[Error]] = {
    -1: InvalidError, -3: InvalidError, -7: InvalidError, -8: InvalidError, -9: InvalidError,
    -6: DeadlineError, -10: NotFoundError, -13: AccessError, -20: ConnectionLostError, -25: ConnectionLostError,
}
