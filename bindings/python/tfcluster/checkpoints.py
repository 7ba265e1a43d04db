"""Checkpoints of a task: restored when it starts, saved by one task of the cluster. Needs TensorFlow."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _bundle

if TYPE_CHECKING:
    from ._task_context import TaskContext


class Checkpoints:
    """What `TaskContext.checkpoints` returns.

    `directory` has the checkpoints, `step` is that of the newest one, 0 without one, and `resumed` tells whether
    it was restored.
    """

    def __init__(self, context: TaskContext, directory: str | os.PathLike[str] | None, keep: int,
                 objects: Mapping[str, Any]) -> None:
        import tensorflow as tf

        trains_alone = not context.cluster_spec or _bundle.settings().strategy == "none"
        self.directory = absolute_path(directory or _default_directory(context if trains_alone else None))
        self.step = 0
        self.resumed = False
        self._context = context
        self._files = tf.io.gfile
        self._latest_checkpoint = tf.train.latest_checkpoint
        self._not_found: type[Exception] = tf.errors.NotFoundError
        self._can_save = context.rank is not None or context.is_chief
        self._scratch = None
        if self._can_save and not context.is_chief and not trains_alone:
            self._scratch = _join(self.directory, f"scratch-{_file_name(context)}")
        self._remove_scratch()  # a killed attempt may have left it
        self._checkpoint = tf.train.Checkpoint(**objects)
        self._manager = tf.train.CheckpointManager(self._checkpoint, self._scratch or self.directory, max_to_keep=keep)
        _let_term_end_the_process()
        self.restore()

    def restore(self) -> bool:
        """Restores the objects from the newest checkpoint; returns whether there is one. The constructor has done
        so already; an evaluator does it again for each new checkpoint.

        Raises ValueError if the checkpoint lacks a variable that the objects have.
        """
        path = self._latest_checkpoint(self.directory)
        while path:
            try:
                self._checkpoint.restore(path).expect_partial().assert_existing_objects_matched()
                break
            except AssertionError as error:
                raise ValueError(f'checkpoint "{path}" is not one of these objects: {error}; use another directory '
                                 "for another model") from error
            except self._not_found:
                newer = self._latest_checkpoint(self.directory)
                if newer == path:
                    raise
                path = newer  # the chief has deleted the older one meanwhile
        if path:
            self.step = _step_of(path)
            self.resumed = True
        return bool(path)

    def save(self, step: int) -> None:
        """Saves the objects as the checkpoint of `step`. All tasks that train must call it, at the same step. A
        step that has a checkpoint already, the newest one, is not saved again.

        A SIGTERM during the save takes effect after it. A checkpoint becomes the newest one only when all of it
        is written: after a kill during the save, the next attempt resumes from the one before.
        """
        if not self._can_save:
            raise RuntimeError(f"{self._context.name} cannot save a checkpoint; those of the tasks that train do")
        step = int(step)
        if step == self.step and (self.resumed or self._manager.latest_checkpoint):
            return
        self._context.progress()
        with _term_waits():
            self._manager.save(checkpoint_number=step)
            self._remove_scratch()
        self.step = step
        self._context.progress()

    def _remove_scratch(self) -> None:
        if self._scratch and self._files.exists(self._scratch):
            self._files.rmtree(self._scratch)


def _default_directory(alone: TaskContext | None) -> str:
    """For a task that trains alone beside others, a directory of its own."""
    directory = _bundle.settings().checkpoint_dir or os.path.join(os.environ.get("TFC_LOG_DIR", ""), "checkpoints")
    return _join(directory, _file_name(alone)) if alone and alone.world_size > 1 else directory


def _file_name(context: TaskContext) -> str:
    return context.name.replace("/", "-")


def _step_of(path: str) -> int:
    _, _, step = path.rpartition("-")
    if not step.isdecimal():
        raise ValueError(f'checkpoint "{path}" has no step at the end of its name; use another directory')
    return int(step)


def absolute_path(directory: str | os.PathLike[str]) -> str:
    """TensorFlow's paths may also be addresses, such as gs://bucket/run, which stay as they are."""
    path = os.fspath(directory)
    return path if "://" in path else os.path.abspath(path)


def _join(directory: str, name: str) -> str:
    return directory.rstrip("/") + "/" + name


def _let_term_end_the_process() -> None:
    """TensorFlow's mirrored workers ignore SIGTERM: its preemption notifier has a handler in C++, which Python does
    not know. It is of use only for tf.distribute.experimental.PreemptionCheckpointHandler, whose handler is one
    of Python and stays."""
    if _is_main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def _term_waits() -> Iterator[None]:
    """Until the end of the block, SIGTERM waits. Then it ends the process with status 143, or calls the
    program's own handler.

    Not by the signal itself: status 143 means a preemption, after which the library lets the other members of a
    group finish their part of the save.
    """
    if not _is_main_thread():
        yield
        return
    received: list[int] = []
    handler = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if handler is None else handler)
        if received and handler in (signal.SIG_DFL, None):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(128 + signal.SIGTERM)
        elif received:
            os.kill(os.getpid(), signal.SIGTERM)
