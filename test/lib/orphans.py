"""Whatever a test's programs leave behind becomes our child, whoever its parent was, and is found."""
import ctypes
import os
import select
import time

PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children():
    """Our children, the dead ones reaped."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return []
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return [int(pid) for pid in file.read().split()]


def await_end(pid, until):
    """Waits for the end of a process, whoever's child it is, up to a time of time.monotonic()."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([pidfd], [], [], max(until - time.monotonic(), 0))
    os.close(pidfd)
