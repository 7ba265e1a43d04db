"""What requests and events return, as dataclasses.

They are made from the JSON of the library, whose keys doc/guide/embedding.md lists. A key that this
version does not know is left out. Times are `datetime`s in UTC, durations are seconds, sizes are bytes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, TypeVar

T = TypeVar("T")


def parse_time(text: str | None) -> datetime | None:
    if not text:
        return None
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)


def from_json(cls: type[T], values: dict[str, Any]) -> T:
    """A dataclass from a JSON object: its fields by their names, times parsed."""
    known = {}
    for item in dataclasses.fields(cls):  # type: ignore[arg-type]
        if item.name in values:
            value = values[item.name]
            known[item.name] = parse_time(value) if item.metadata.get("time") else value
    return cls(**known)


def time_field() -> Any:
    return field(default=None, metadata={"time": True})


@dataclass(frozen=True)
class AttemptEnd:
    """How an attempt of a task ended."""

    attempt: int = 0
    state: str = ""
    reason: str = ""
    text: str = ""
    node: str = ""
    ended: datetime | None = time_field()
    exit: int | None = None
    signal: int | None = None
    user_us: int = 0
    system_us: int = 0
    max_rss_kib: int = 0


@dataclass(frozen=True)
class TaskInfo:
    """A task of a job. `doing` says what its processes do, for people."""

    task: str = ""
    node: str = ""
    address: str = ""
    pid: int = 0
    attempt: int = 0
    generation: int = 0
    state: str = ""
    isolation: str = ""
    started: datetime | None = time_field()
    restarts_left: int | None = None
    doing: str = ""
    stall_s: float = 0
    memory_limit: int | None = None
    unreachable_since: datetime | None = time_field()
    last_end: AttemptEnd | None = None


@dataclass(frozen=True)
class Zygote:
    """A process of a node from which attempts of a job with `warm` are forked.

    `attempts` counts those of the job. `rss_bytes` is its resident memory, and `anonymous_bytes` the part of it that does
    not belong to files such as libraries: an attempt shares that part until it writes to it.
    """

    node: str = ""
    interpreter: str = ""
    modules: tuple[str, ...] = ()
    state: str = ""
    text: str = ""
    pid: int = 0
    attempts: int = 0
    started: datetime | None = time_field()
    rss_bytes: int = 0
    anonymous_bytes: int = 0


@dataclass(frozen=True)
class JobInfo:
    """A job. `tasks` and `zygotes` are filled by `describe`, and empty in a list of jobs."""

    job: str = ""
    name: str = ""
    state: str = ""
    text: str = ""
    maintainer: str = ""
    reason: str = ""
    exit: int | None = None
    decided_by: str = ""
    generation: int = 0
    epoch: int = 0
    submitted: datetime | None = time_field()
    started: datetime | None = time_field()
    ended: datetime | None = time_field()
    age_s: float = 0
    task_count: int = 0
    ready: int = 0
    restarts: int = 0
    incidents: int = 0
    nodes: tuple[str, ...] = ()
    tasks: tuple[TaskInfo, ...] = ()
    zygotes: tuple[Zygote, ...] = ()

    @classmethod
    def of(cls, values: dict[str, Any]) -> JobInfo:
        """The job of a JSON object (tfc_gateway_describe)."""
        tasks = []
        for task in values.get("tasks", ()):
            end = task.get("last_end")
            tasks.append(from_json(TaskInfo, {**task, "last_end": from_json(AttemptEnd, end) if end else None}))
        zygotes = tuple(from_json(Zygote, {**zygote, "modules": tuple(zygote.get("modules", ()))})
                        for zygote in values.get("zygotes", ()))
        return from_json(cls, {**values, "nodes": tuple(values.get("nodes", ())), "tasks": tuple(tasks),
                               "zygotes": zygotes})


@dataclass(frozen=True)
class MissingNode:
    """A node whose jobs are missing in a list, and why."""

    node: str = ""
    reason: str = ""


class Jobs(tuple[JobInfo, ...]):
    """The jobs of all nodes. `missing` names the nodes whose jobs are not in it."""

    missing: tuple[MissingNode, ...] = ()


@dataclass(frozen=True)
class Member:
    """A node of the cluster, as the node that was asked sees it."""

    name: str = ""
    state: str = ""
    address: str = ""
    node_id: str = ""
    self: bool = False
    draining: bool = False
    slots: int = 0
    memory: int = 0
    gpus: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    silent_s: float | None = None
    rtt_us: int | None = None


@dataclass(frozen=True)
class Event:
    """An event of a job.

    `event` is its kind: "job", "task", "output", "report", "gap", "end", "lost", "progress",
    "reconnecting", "reconnected" (enum tfc_event_kind). Which other fields have a meaning depends on it;
    `text` is the line of an output, and otherwise a message for people. `values` has all keys of the
    event's JSON.
    """

    event: str = ""
    time: datetime | None = time_field()
    job: str = ""
    task: str = ""
    attempt: int = 0
    node: str = ""
    state: str = ""
    address: str = ""
    pid: int = 0
    generation: int = 0
    stream: str = ""
    text: str = ""
    partial: bool = False
    bytes: int = 0
    exit: int | None = None
    signal: int | None = None
    reason: str = ""
    decided_by: str = ""
    error_line: str = ""
    log_tail: tuple[str, ...] = ()
    cursor: str = ""
    error_code: int = 0
    values: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Event:
        """The event of a JSON object (tfc_event_json)."""
        return from_json(cls, {**values, "log_tail": tuple(values.get("log_tail", ())), "values": values})


@dataclass(frozen=True)
class RestartPolicy:
    """When tasks restart; None keeps the default of the job key (doc/guide/restarts.md).

    `max_restarts` within `window_s` seconds; `on` "retryable", "failure" or "never"; `scope` "auto",
    "task", "group" or "coordinator"; `backoff_s` the first and the longest wait; `max_node_losses` within
    `node_losses_window_s` seconds.
    """

    max_restarts: int | None = None
    window_s: float | None = None
    on: str | None = None
    scope: str | None = None
    backoff_s: tuple[float, float] | None = None
    max_node_losses: int | None = None
    node_losses_window_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The job key `restart`."""
        keys = {"max_restarts": "max", "max_node_losses": "losses", "node_losses_window_s": "losses_window_s"}
        values = {keys.get(name, name): value for name, value in dataclasses.asdict(self).items()}
        return {key: list(value) if isinstance(value, tuple) else value
                for key, value in values.items() if value is not None}
