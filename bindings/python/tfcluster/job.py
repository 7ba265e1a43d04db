"""A job as a future: its result, its events and output, and its tasks."""

from __future__ import annotations

import atexit
import base64
import ctypes
import os
import signal as signals
import sys
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _abi, _bundle
from ._notebook import LiveTable, html_table, shell, text_table
from ._printer import ENDED_TASKS, Printer, prefix
from ._reports import Inbox
from ._subscription import Events, Subscription
from .errors import DeadlineError, Error, JobError, JobStoppedError, TaskFailed
from .types import Event, JobInfo, TaskInfo

if TYPE_CHECKING:
    from ._producer import Producer
    from .client import Client

LINE_MAX = 1 << 20  # characters of one line of `logs`; a longer one becomes several
INTERRUPT_S = 2.0  # from SIGINT to SIGTERM, as in tfc_run
_running: set[Job] = set()  # of nodes in this process: they end with it, in order


@dataclass
class TaskRow:
    """What is known of a task from the events: a row of the table."""

    task: str
    node: str = ""
    address: str = ""
    pid: int = 0
    attempt: int = 0
    state: str = "pending"
    reason: str = ""
    metrics: dict[str, Any] | None = None
    step: int | None = None


class Job:
    """A job that this program follows. `tfcluster.run` and `tfcluster.attach` make one.

    `id` and `name` are its own, `state` and `tasks` are as of the last event that was received: events are received
    while a call here waits, or while an asyncio loop runs. A job of a node in this process ends with the
    process.
    """

    def __init__(self, client: Client, output: bool, is_own_client: bool) -> None:
        self.client = client
        self.id = ""
        self.name = ""
        self.state = "pending"
        self.text = ""
        self.tasks: dict[str, TaskRow] = {}
        self._is_own_client = is_own_client
        self._printer = Printer() if output else None
        self._table = LiveTable(self)
        self._error: Error | None = None  # it could not be submitted, or cannot be followed
        self._end: Event | None = None
        self._inbox = Inbox()
        self._subscription: Subscription | None = None
        self._bundle: _bundle.Directory | None = None  # until a node in this process has its own copy
        self._feeds: weakref.WeakSet[Producer] = weakref.WeakSet()  # those that are not closed
        self._next_partitions: dict[tuple[str, str], int] = {}  # of the next feed, by its queue and producer

    # ---- data

    def feed(self, queue: str = "train", *, task: str | None = None, window: int = 0, partition_rows: int | None = None,
             producer: str = "0", producers: int = 1, replayable: bool = False,
             start_timeout: float | None = 600) -> Producer:
        """Feeds a queue of the tasks that train, or of one `task` such as "evaluator/0":

            with job.feed("train") as feed:
                feed.put(table, epochs=3)

        The tasks read it with `ctx.feed("train")`. Leaving the block ends the feed, and waits until all rows are
        consumed. `window` is how many bytes may be on their way to each task (16 MiB). Several programs may feed a
        queue: each has a `producer` name of its own, and `producers` is their number. A queue that no task reads within
        `start_timeout` seconds after all tasks have started is a DeadlineError in `put`.

        With `ack="commit"` in the tasks, rows are consumed when a checkpoint has them. A program that begins again, while
        its tasks resume from a checkpoint, feeds the same sources in the same order and says so with `replayable`: the rows
        that the checkpoint has are not sent. Without it, such a checkpoint ends the feed with an error.
        """
        from ._producer import Producer
        return Producer(self, queue, task=task, window=window, partition_rows=partition_rows, producer=producer,
                        producers=producers, replayable=replayable, start_timeout=start_timeout)

    # ---- how a job begins

    @classmethod
    def _submit(cls, client: Client, definition: Any, *, bundle: _bundle.Directory | None, output: bool,
                is_own_client: bool, timeout: float | None = None) -> Job:
        job = cls(client, output, is_own_client)
        job._bundle = bundle
        job._begin(None, definition, None)
        try:
            client._context.wait(lambda: bool(job.id) or job._error is not None, timeout)
        except KeyboardInterrupt:
            if job.id:
                job._on_interrupt(has_handle=False)
            raise
        if job._error is not None:
            job._detach()
            raise job._error
        if not job.id:
            job._detach()
            raise DeadlineError(f"the job was not accepted within {timeout:g} s", int(_abi.Err.ETIMEDOUT), "python")
        if client.is_local:
            _running.add(job)
            atexit.unregister(_end_all)
            atexit.register(_end_all)  # the last one registered runs first, before clients are closed
        else:
            job._remove_bundle()  # the cluster has its own copy
        return job

    @classmethod
    def _attach(cls, client: Client, name: str, *, output: bool, cursor: str | None,
                is_own_client: bool = False) -> Job:
        job = cls(client, output, is_own_client)
        job._begin(name, None, cursor)
        client._context.wait(lambda: bool(job.id) or job.done())
        if job._error is not None:
            job._detach()
            raise job._error
        return job

    def _begin(self, name: str | None, definition: Any, cursor: str | None) -> None:
        me = weakref.proxy(self)
        self._subscription = Subscription(
            self.client, name, lambda event: me._on_event(event), submit=definition,
            on_submitted=lambda job, error: me._on_submitted(job, error),
            output=self._printer is not None, cursor=cursor)
        self.client._context.on_dispatch.extend(self._after_dispatch())

    def _after_dispatch(self) -> list[Callable[[], None]]:
        flush = [self._printer.flush] if self._printer is not None else []
        return [*flush, self._table.update, _release_ended]

    def _remove_bundle(self) -> None:
        if self._bundle is not None:
            self._bundle.cleanup()
            self._bundle = None

    def _detach(self) -> None:
        self._remove_bundle()
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None
        for function in self._after_dispatch():
            if function in self.client._context.on_dispatch:
                self.client._context.on_dispatch.remove(function)

    # ---- what is received

    def _on_submitted(self, job: str, error: Error | None) -> None:
        self.id, self._error = job, error

    def _on_event(self, event: Event) -> None:
        if event.job:
            self.id = event.job
            self.name = event.values.get("name") or self.name
        if event.event == "job":
            self.state, self.text = event.state, event.text
        elif event.event == "task":
            self._on_task(event)
        elif event.event == "report":
            self._on_report(event)
        elif event.event == "end":
            self.state, self.text, self._end = event.state, event.text, event
            self._remove_bundle()
        elif event.event == "lost":
            self._error = Error.of(event.error_code, event.text, "gateway")
        elif event.event in ("reconnecting", "reconnected"):
            self.text = event.text
        self._table.on_event(event.event not in ("output", "report", "progress"))
        if self._printer is not None:
            self._printer.on_event(event)

    def _on_task(self, event: Event) -> None:
        row = self.tasks.setdefault(event.task, TaskRow(event.task))
        row.node, row.pid, row.attempt, row.state = event.node, event.pid, event.attempt, event.state
        row.address = event.address or row.address
        if event.state in ("running", "ready"):
            self._remove_bundle()
        if event.text:
            row.reason = event.text
        if event.state == "starting":  # what an earlier attempt has reported is over
            self._inbox.remove(event.task, "result")

    def _on_report(self, event: Event) -> None:
        report = self._inbox.add(event)
        if report is not None and report["kind"] == "metrics":
            row = self.tasks.setdefault(event.task, TaskRow(event.task))
            row.metrics, row.step = report["values"], report["step"]

    # ---- the future

    def done(self) -> bool:
        """True once the job has ended, or can no longer be followed."""
        return self._end is not None or self._error is not None

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the job is done(), for `timeout` seconds at most; returns done()."""
        try:
            return self.client._context.wait(self.done, timeout)
        except KeyboardInterrupt:
            self._on_interrupt()
            raise

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the job's end, and returns what the function returned in the task that decided it (rank 0
        if several did); None for a program that is no function. Raises TaskFailed, JobStoppedError,
        DeadlineError after `timeout` seconds, or the error that ended the connection to the cluster."""
        self._check_ended(self.wait(timeout), timeout)
        return self._outcome()

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Waits as `result` does, and returns what it would raise; None if the job has succeeded."""
        self._check_ended(self.wait(timeout), timeout)
        return self._failure()

    async def result_async(self, timeout: float | None = None) -> Any:
        """`result` for a coroutine; `await job` is the same without a timeout."""
        import asyncio
        try:
            is_done = await self.client._context.wait_async(self.done, timeout)
        except asyncio.CancelledError:
            if _is_interactive():  # an interrupt of a cell cancels what it awaits
                self._on_interrupt()
            raise
        self._check_ended(is_done, timeout)
        return self._outcome()

    def __await__(self) -> Generator[Any, None, Any]:
        return self.result_async().__await__()

    def _check_ended(self, is_ended: bool, timeout: float | None) -> None:
        if not is_ended:
            text = f"job {self.id} has not ended within {timeout:g} s"
            for feed in self._feeds:
                if not feed.is_ending:
                    text += f'; the feed of queue "{feed.queue}" is open: leave its block first, or call end()'
            raise DeadlineError(text, int(_abi.Err.ETIMEDOUT), "python")

    def _outcome(self) -> Any:
        failure = self._failure()
        if failure is not None:
            raise failure
        return self._value()

    def _failure(self) -> Exception | None:
        end = self._end
        if end is None:
            return self._error
        if end.state == "succeeded":
            return None
        text = _with_error_line(end.text, end.error_line)
        if end.state == "stopped":
            return JobStoppedError(text or "the job was stopped", job=self.id, state=end.state, reason=end.reason)
        if not end.decided_by:
            return JobError(text, job=self.id, state=end.state, reason=end.reason)
        row = self.tasks.get(end.decided_by, TaskRow(end.decided_by))
        report = self._inbox.get(end.decided_by, "error") or {}
        if report.get("attempt") != row.attempt:
            report = {}
        status = end.exit if end.exit is not None else -1
        return TaskFailed(text, job=self.id, reason=end.reason, task=end.decided_by, attempt=row.attempt,
                          node=row.node, exit_status=status, exception=report.get("exception", ""),
                          traceback=report.get("traceback", ""), log_tail=end.log_tail)

    def _value(self) -> Any:
        decided = self._end.decided_by if self._end is not None else ""
        for task in ("driver/0", "chief/0", "worker/0", decided):
            report = self._inbox.get(task, "result")
            if report is not None:
                return _decode(report, task)
        return None

    # ---- what can be done with it

    def stop(self, *, wait: bool = True, kill: bool = False, interrupt_s: float = 0,
             timeout: float | None = None) -> None:
        """Stops the job: SIGTERM, the grace period of each task, SIGKILL. Waits for its end, unless `wait` is
        False. A job that has ended stays as it is."""
        if self.done():
            return
        try:
            self.client.stop(self.id, kill=kill, interrupt_s=interrupt_s)
        except Error as error:
            if error.code != _abi.Err.ESTATE:  # it has just ended
                raise
        if wait:
            self._check_ended(self.wait(timeout), timeout)

    def events(self, *, output: bool = True, progress: bool = False, cursor: str | None = None) -> Events:
        """The events of the job from its beginning, or after `cursor`."""
        return Events(self.client, self.id, output=output, progress=progress, cursor=cursor, owner=self)

    def logs(self, task: str | None = None, *, follow: bool = False, attempt: int | None = None,
             tail: int | None = None) -> Iterator[str]:
        """The lines of output so far, see `Client.logs`."""
        try:
            yield from self.client.logs(self.id, task, follow=follow, attempt=attempt, tail=tail)
        except KeyboardInterrupt:
            self._on_interrupt()
            raise

    def describe(self) -> JobInfo:
        """The job with its tasks, as the node that maintains it sees it now."""
        return self.client.describe(self.id)

    def task(self, name: str) -> Task:
        """A task by its name, "worker/1"."""
        return Task(self, name)

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """What each task has reported last (`ctx.report`), by the task's name."""
        return {name: dict(row.metrics) for name, row in self.tasks.items() if row.metrics is not None}

    @property
    def tensorboard_url(self) -> str | None:
        """The address of the job's TensorBoard; None: it has none, or it does not listen yet."""
        row = self.tasks.get("tensorboard/0")
        return f"http://{row.address}/" if row is not None and row.state == "ready" else None

    def close(self) -> None:
        """Ends following the job. If its node is in this process, the job ends, too."""
        _running.discard(self)
        self._detach()
        if self._is_own_client:
            self.client.close()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_subscription"):
            self.close()

    def __repr__(self) -> str:
        return text_table(self)

    def _repr_html_(self) -> str:
        return html_table(self)

    def _ipython_display_(self) -> None:
        self._table.show()

    # ---- interrupts and the end of the program

    def _say(self, text: str) -> None:
        print(f"tfcluster: {text}", file=sys.stderr, flush=True)

    def _on_interrupt(self, has_handle: bool = True) -> None:
        """After Ctrl-C, or an interrupted cell: a job of this process ends, unless a person at a prompt has a
        handle of it; everything else goes on."""
        if self.done():
            return
        if not self.client.is_local:
            self._say(f'detached; job {self.id} goes on; tfcluster.attach("{self.id}", '
                      f'gateway="{self.client.gateway_address}") follows it again')
        elif has_handle and _is_interactive():
            self._say(f"job {self.id} goes on in this process; result() follows it again, stop() stops it")
        else:
            self._end_with_program(INTERRUPT_S)

    def _end_with_program(self, interrupt_s: float = 0) -> None:
        self._say(f"stopping job {self.id}; Ctrl-C kills it")
        try:
            self.stop(wait=False, interrupt_s=interrupt_s)
            self.client._context.wait(self.done)
        except KeyboardInterrupt:
            self.stop(wait=False, kill=True)
            self.client._context.wait(self.done)


os.register_at_fork(after_in_child=_running.clear)


def _is_interactive() -> bool:
    return hasattr(sys, "ps1") or shell() is not None


def _release_ended() -> None:
    """Runs after each dispatch: nobody may hold an ended job any more, and a context cannot be closed within one."""
    _running.difference_update([job for job in _running if job.done()])


def _end_all() -> None:
    is_interrupted = getattr(sys, "last_type", None) is KeyboardInterrupt  # which nobody caught
    for job in tuple(_running):
        if not job.done():
            try:
                job._end_with_program(INTERRUPT_S if is_interrupted else 0)
            except Exception as failure:  # the process ends all the same
                job._say(str(failure))
        job.close()


def _with_error_line(text: str, line: str) -> str:
    """The text of an end with all of the line that names its cause. The text may quote it, or begin to, up to "..."."""
    if line in text:
        return text
    end = text.rfind("...")
    while end >= 0:  # the line may have dots of its own, before those that stand for its rest
        quote = text[:end].partition(": ")[2]
        if quote and line.startswith(quote):
            return text[:end] + line[len(quote):] + text[end + 3:]
        end = text.rfind("...", 0, end)
    return f"{text}: {line}"


def _decode(report: dict[str, Any], task: str) -> Any:
    if report["encoding"] == "json":
        return report["value"]
    import pyarrow  # type: ignore[import-untyped, unused-ignore]
    try:
        with pyarrow.ipc.open_stream(base64.b64decode(report["value"])) as reader:
            return reader.read_all()
    except (ValueError, OSError) as failure:
        raise Error(f"{task} returned something that is no Arrow table: {failure}", int(_abi.Err.EPARSE), "python") from None


class Task:
    """A task of a job, by its name."""

    def __init__(self, job: Job, name: str) -> None:
        self.job = job
        self.name = name

    def info(self) -> TaskInfo:
        """The task as its job's maintainer sees it now."""
        for task in self.job.describe().tasks:
            if task.task == self.name:
                return task
        raise _no_task(self.job.id, self.name)

    def signal(self, number: int = signals.SIGKILL, *, timeout: float | None = None) -> None:
        """Sends a signal to the task's process, wherever it runs. The restart policy decides what
        follows, as for any other death."""
        from .client import _milliseconds, _options
        options = _options("tfc_signal_options", timeout_ms=_milliseconds(timeout), signal=int(number))
        self.job.client._request("tfc_gateway_signal", self.job.id.encode(), self.name.encode(),
                                 ctypes.byref(options))

    def kill(self) -> None:
        """Sends SIGKILL."""
        self.signal(signals.SIGKILL)

    def stacks(self, *, timeout: float | None = 10) -> str:
        """Makes the task's Python processes print the stacks of all their threads into its log. Returns where
        the main thread is, as far as that is known."""
        with Events(self.job.client, self.job.id, output=False, live=True) as events:
            event = events.get(timeout)
            while event.event != "live":
                event = events.get(timeout)
            self.job.client._plain("tfc_gateway_stacks", self.job.id, self.name, timeout=timeout)
            while event.task != self.name or "stacks" not in event.text and event.state not in ENDED_TASKS:
                event = events.get(timeout)
        return event.text

    def logs(self, *, follow: bool = False, attempt: int | None = None, tail: int | None = None) -> Iterator[str]:
        """The lines of the task's output."""
        return self.job.logs(self.name, follow=follow, attempt=attempt, tail=tail)

    def __repr__(self) -> str:
        return f"<tfcluster.Task {self.name} of job {self.job.id}>"


def _no_task(job: str, task: str | None) -> Error:
    return Error.of(int(_abi.Err.ENOENT), f'job {job} has no task "{task}"')


def job_lines(client: Client, job: str, task: str | None, *, follow: bool, attempt: int | None,
              tail: int | None) -> Iterator[str]:
    """See `Client.logs`."""
    kept: deque[str] = deque(maxlen=tail)
    is_replayed = False
    is_known = task is None

    def replayed() -> Iterator[str]:
        if not is_known and task not in [known.task for known in client.describe(job).tasks]:
            raise _no_task(job, task)
        return iter(kept)

    begun: dict[tuple[str, int, str], list[str]] = {}  # pieces of lines that go on
    with Events(client, job, live=True) as events:
        for event in events:
            if event.event == "lost":
                raise Error.of(event.error_code, event.text, "gateway")
            is_known = is_known or event.task == task
            if event.event == "live":
                is_replayed = True
                yield from replayed()
                if not follow:
                    break
            if event.event != "output" or (task and event.task != task) or (attempt and event.attempt != attempt):
                continue
            place = event.task, event.attempt, event.stream
            pieces = begun.setdefault(place, [] if task else [prefix(event)])
            pieces.append(event.text)
            if event.partial and sum(map(len, pieces)) < LINE_MAX:
                continue
            line = "".join(begun.pop(place))
            if tail is None or is_replayed:
                yield line
            else:
                kept.append(line)
    if not is_replayed:  # the job has ended, and is not live any more
        yield from replayed()
    yield from map("".join, begun.values())
