"""Checkpoints of a task: restored when it starts, saved by one task of the cluster. Needs TensorFlow."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _bundle
from ._positions import Entry, Positions

if TYPE_CHECKING:
    from ._task_context import TaskContext
    from .feed import Feed

_FEEDS = "tfcluster_feeds"  # the name, in a checkpoint, of the positions of the feeds
_PATIENCE_S = 120.0  # until a task that does not save is an error


class Checkpoints:
    """What `TaskContext.checkpoints` returns.

    `directory` has the checkpoints, `step` is that of the newest one, 0 without one, and `resumed` tells whether
    it was restored.
    """

    def __init__(self, context: TaskContext, directory: str | os.PathLike[str] | None, keep: int,
                 objects: Mapping[str, Any]) -> None:
        import tensorflow as tf

        self._trains_alone = not context.cluster_spec or _bundle.settings().strategy == "none"
        self.directory = absolute_path(directory or _default_directory(context if self._trains_alone else None))
        self.step = 0
        self.resumed = False
        self._context = context
        self._files = tf.io.gfile
        self._latest_checkpoint = tf.train.latest_checkpoint
        self._not_found: type[Exception] = tf.errors.NotFoundError
        self._can_save = context.rank is not None or context.is_chief
        self._scratch = None
        if self._can_save and not context.is_chief and not self._trains_alone:
            self._scratch = _join(self.directory, f"scratch-{_file_name(context.name)}")
        self._remove_scratch()  # a killed attempt may have left them
        self._remove_positions()
        self._feeds: dict[str, tuple[Feed, int]] = {}  # by queue, with the step at which each was opened
        self._committed: dict[str, Positions] = {}  # by queue, as the newest checkpoint has them
        self._saves = 0
        self._own_positions: dict[str, dict[int, tuple[int, bool]]] = {}  # by queue; not written yet
        self._last_read: dict[str, int] = {}  # by task, the number of the last save whose file was read
        self._load_checkpoint = tf.train.load_checkpoint
        self._feed_state = _feed_state(tf)
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
            self._committed = self._read_positions(path)
        return bool(path)

    def save(self, step: int) -> None:
        """Saves the objects as the checkpoint of `step`. All tasks that train must call it, at the same step. A
        step that has a checkpoint already, the newest one, is not saved again.

        A SIGTERM during the save takes effect after it. A checkpoint becomes the newest one only when all of it
        is written: after a kill during the save, the next attempt resumes from the one before.

        Of feeds with `ack="commit"`, the checkpoint has the positions of the rows that all tasks have trained until
        `step`. RuntimeError names a task that does not save the same step within two minutes.
        """
        if not self._can_save:
            raise RuntimeError(f"{self._context.name} cannot save a checkpoint; those of the tasks that train do")
        step = int(step)
        is_saved = step == self.step and bool(self.resumed or self._manager.latest_checkpoint)
        if is_saved and not self._feeds:
            return
        self._context.progress()
        with _term_waits():
            self._gather_positions(step)
            if not is_saved:
                self._manager.save(checkpoint_number=step)
                self._remove_scratch()
            if self._scratch is None:
                for queue, (feed, _) in self._feeds.items():
                    feed.commit(self._committed[queue].entries())
        self.step = step
        self._context.progress()

    # ---- the positions of feeds

    def add_feed(self, queue: str, feed: Feed) -> list[Entry]:
        """Writes the positions of a feed with the checkpoints from now on, in place of an earlier feed of the queue. Returns
        those that the newest checkpoint has."""
        if queue in self._feeds:
            self._feeds[queue][0].close()
        self._feeds[queue] = feed, self.step
        self._checkpoint.tfcluster_feeds = self._feed_state
        return self._committed.setdefault(queue, Positions()).entries()

    def _read_positions(self, path: str) -> dict[str, Positions]:
        reader = self._load_checkpoint(path)
        name = f"{_FEEDS}/.ATTRIBUTES/py_state"
        if not reader.has_tensor(name):
            return {}
        return {queue: Positions(entries) for queue, entries in json.loads(reader.get_tensor(name)).items()}

    def _gather_positions(self, step: int) -> None:
        """The one that writes the checkpoint gets the positions of all tasks, which leave them in files."""
        if not self._feeds:
            return
        self._saves += 1
        for queue, (feed, since) in self._feeds.items():  # a save that fails must lose none of them
            self._own_positions.setdefault(queue, {}).update(feed.positions_after(step - since))
        if self._scratch is not None:
            self._write_positions(step, self._own_positions)
            self._own_positions = {}
            return
        self._add_positions(self._own_positions)
        self._own_positions = {}
        for name in self._other_tasks():
            self._await_positions(name, step)
        self._feed_state.value = json.dumps({queue: known.entries() for queue, known in self._committed.items()})

    def _add_positions(self, part: dict[str, dict[int, tuple[int, bool]]]) -> None:
        for queue, positions in part.items():
            self._committed.setdefault(queue, Positions()).update(positions)

    def _other_tasks(self) -> list[str]:
        """The tasks whose rows are in the checkpoints of this one."""
        if self._trains_alone:
            return []
        names = [f"{kind}/{index}" for kind in ("chief", "worker")
                 for index in range(len(self._context.cluster_spec.get(kind, [])))]
        return [name for name in names if name != self._context.name]

    def _positions_path(self, task: str, save: int) -> str:
        """The job and its generation keep apart what an earlier run of the group has left."""
        run = f"{self._context.job or 'none'}-{self._context.generation}"
        return _join(self.directory, f"{_positions_prefix(task)}{run}-{save}.json")

    def _write_positions(self, step: int, own: dict[str, dict[int, tuple[int, bool]]]) -> None:
        path = self._positions_path(self._context.name, self._saves)
        self._files.makedirs(self.directory)
        with self._files.GFile(path + ".new", "w") as file:
            positions = {queue: list(rows.items()) for queue, rows in own.items()}
            json.dump({"step": step, "positions": positions}, file)
        self._files.rename(path + ".new", path, overwrite=True)

    def _await_positions(self, task: str, step: int) -> None:
        path = self._positions_path(task, self._saves)
        deadline, pause = time.monotonic() + _PATIENCE_S, 0.001
        while not self._files.exists(path):
            if time.monotonic() > deadline:
                raise RuntimeError(f"save({step}): {task} has not saved step {step}; all tasks that train must read the "
                                   "feed and save the same steps")
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        left_step = step
        for save in range(self._last_read.get(task, 0) + 1, self._saves + 1):
            path = self._positions_path(task, save)
            if self._files.exists(path):  # of earlier saves, those that failed here
                left_step = self._read_left(path)
        self._last_read[task] = self._saves
        if left_step != step:
            raise RuntimeError(f"save({step}): {task} saves step {left_step}; all tasks must save the same steps")

    def _read_left(self, path: str) -> int:
        """Adds the positions that a task has left; returns their step."""
        with self._files.GFile(path) as file:
            left = json.load(file)
        self._add_positions({queue: {partition: (rows, is_whole) for partition, (rows, is_whole) in positions}
                             for queue, positions in left["positions"].items()})
        self._files.remove(path)
        return int(left["step"])

    def _remove_scratch(self) -> None:
        if self._scratch and self._files.exists(self._scratch):
            self._files.rmtree(self._scratch)

    def _remove_positions(self) -> None:
        """Those that this task has left, and that a killed chief has not read."""
        if self._scratch and self._files.exists(self.directory):
            for name in self._files.listdir(self.directory):
                if name.startswith(_positions_prefix(self._context.name)):
                    self._files.remove(_join(self.directory, name))


def _feed_state(tf: Any) -> Any:
    """A part of a checkpoint that is a string."""
    class FeedState(tf.train.experimental.PythonState):  # type: ignore[misc, unused-ignore]
        value = "{}"

        def serialize(self) -> str:
            return self.value

        def deserialize(self, value: str) -> None:
            """Positions are read when the checkpoint is restored, whether a feed is open or not."""

    return FeedState()


def _default_directory(alone: TaskContext | None) -> str:
    """For a task that trains alone beside others, a directory of its own."""
    directory = _bundle.settings().checkpoint_dir or os.path.join(os.environ.get("TFC_LOG_DIR", ""), "checkpoints")
    return _join(directory, _file_name(alone.name)) if alone and alone.world_size > 1 else directory


def _file_name(task: str) -> str:
    return task.replace("/", "-")


def _positions_prefix(task: str) -> str:
    return f"positions-{_file_name(task)}-"


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
