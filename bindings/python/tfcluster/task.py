"""The program of a task that runs a Python function: python -m tfcluster.task

It calls the function of the job's bundle with a TaskContext, reports what the function returns, and exits
with 0. An exception ends it as it ends a script: with a traceback, and status 1. Only the bundle is
unpickled, never anything from the network.
"""

from __future__ import annotations

import faulthandler
import runpy
import sys
import traceback
from types import TracebackType
from typing import Any

from . import _bundle, _reports, _task_context

STACKS_SIGNAL = 58


def check_python(wanted: str) -> None:
    """Raises RuntimeError unless this is Python `wanted`, a minor version such as "3.11"; "" is any."""
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    if wanted and wanted != mine:
        raise RuntimeError(
            f"the function comes from Python {wanted}, and this task's Python is {mine} ({sys.executable}); "
            f"name a Python {wanted} of the node with python=")


def call_function() -> Any:
    """Calls the job's function; returns its result as the report to write."""
    check_python(_bundle.settings().python)
    context = _task_context.context()
    try:
        function, args, kwargs = _bundle.load(context.task_type)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error.msg}, which the function needs; install it for {sys.executable}, name another Python with "
            "python=, or add the module to the bundle with bundle=", name=error.name, path=error.path) from None
    return _reports.result_line(function(context, *args, **kwargs))


_OWN_FILES = {__file__, _bundle.__file__, _reports.__file__, runpy.run_module.__code__.co_filename}


def without_own_frames(frames: TracebackType | None) -> TracebackType | None:
    """A traceback that begins in the function, or None if it never got there."""
    while frames and frames.tb_frame.f_code.co_filename in _OWN_FILES:
        frames = frames.tb_next
    return frames


def report_error(error: BaseException) -> None:
    """Reports the exception that ends the task. An exit with status 0 is a result, which is None."""
    if isinstance(error, SystemExit) and error.code in (None, 0):
        line = _reports.result_line(None)
    else:
        line = _reports.error_line(error)
    _task_context.write_report(line)


def hide_own_frames() -> None:
    """An exception that nobody catches is printed as Python prints it, without the frames before the function."""
    own_hook = sys.excepthook if sys.excepthook is not sys.__excepthook__ else None

    def print_from_function(kind: type[BaseException], error: BaseException,
                            frames: TracebackType | None) -> None:
        frames = without_own_frames(frames)
        if own_hook:
            own_hook(kind, error.with_traceback(frames), frames)
        else:  # Python's own reads lines from files alone, until 3.12
            traceback.print_exception(kind, error, frames)

    sys.excepthook = print_from_function


def prepare_stacks() -> None:
    """`Task.stacks` and `tfc_run stacks` make this process print its stacks (lib/agent/stacks.c)."""
    try:
        faulthandler.register(STACKS_SIGNAL, all_threads=True, chain=False)
    except (OSError, RuntimeError, ValueError):  # there is no stderr
        pass


def main() -> None:
    prepare_stacks()
    try:
        line = call_function()
    except BaseException as error:
        report_error(error.with_traceback(without_own_frames(error.__traceback__)))
        hide_own_frames()
        raise
    _task_context.write_report(line)


if __name__ == "__main__":
    main()
