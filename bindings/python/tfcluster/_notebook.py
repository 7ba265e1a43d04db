"""A job as a table, and what a notebook needs beside it: a table that stays up to date, and cells that can be
run again."""

from __future__ import annotations

import html
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .job import Job, TaskRow

UPDATE_S = 0.5  # between two updates for metrics alone
COLUMNS = ("TASK", "STATE", "NODE", "ATTEMPT", "STEP", "METRICS", "REASON")
COLORS = {"ready": "#2a7", "running": "#2a7", "succeeded": "#2a7", "exited": "#777", "failed": "#c33", "lost": "#c33",
          "stopped": "#777"}

_cells: dict[str, CellRun] = {}  # the last run of each cell that has started jobs


def _row(row: TaskRow) -> tuple[str, ...]:
    metrics = " ".join(f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
                       for name, value in (row.metrics or {}).items())
    return (row.task, row.state, row.node, str(row.attempt or ""), "" if row.step is None else str(row.step), metrics,
            row.reason)


def _rows(job: Job) -> list[tuple[str, ...]]:
    order = {"chief": 0, "worker": 1, "ps": 2, "evaluator": 3, "driver": 4}

    def position(row: TaskRow) -> tuple[int, str, int]:
        role, _, index = row.task.rpartition("/")
        return order.get(role, 5), role, int(index)

    return [_row(row) for row in sorted(job.tasks.values(), key=position)]


def _title(job: Job) -> str:
    name = f" ({job.name})" if job.name else ""
    return f"job {job.id}{name}: {job.state}" + (f": {job.text}" if job.text else "")


def text_table(job: Job) -> str:
    rows = [COLUMNS, *_rows(job)]
    used = [at for at in range(len(COLUMNS)) if any(row[at] for row in rows[1:])]
    widths = {at: max(len(row[at]) for row in rows) for at in used}
    lines = ["  ".join(row[at].ljust(widths[at]) for at in used).rstrip() for row in rows] if used else []
    url = job.tensorboard_url
    return "\n".join([_title(job), *lines, *([f"TensorBoard: {url}"] if url else [])])


def html_table(job: Job) -> str:
    rows = _rows(job)
    used = [at for at in range(len(COLUMNS)) if any(row[at] for row in rows)]

    def cell(at: int, text: str) -> str:
        color = COLORS.get(text) if COLUMNS[at] == "STATE" else None
        style = f' style="text-align:left;color:{color}"' if color else ' style="text-align:left"'
        return f"<td{style}>{html.escape(text)}</td>"

    head = "".join(f'<th style="text-align:left">{COLUMNS[at].capitalize()}</th>' for at in used)
    body = "".join("<tr>" + "".join(cell(at, row[at]) for at in used) + "</tr>" for row in rows)
    url = job.tensorboard_url
    link = f'<div><a href="{html.escape(url)}" target="_blank">TensorBoard</a></div>' if url else ""
    return f"<div>{html.escape(_title(job))}</div><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{link}"


def shell() -> Any:
    """The shell of IPython in this process, or None. IPython is not imported for it."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module is not None and hasattr(module, "get_ipython") else None


class LiveTable:
    """The places where a notebook shows a job."""

    def __init__(self, job: Job) -> None:
        self._job = weakref.ref(job)
        self._handles: list[Any] = []
        self._is_changed = False
        self._is_urgent = False
        self._updated_at = 0.0

    def show(self) -> None:
        from IPython.display import display  # type: ignore[import-not-found, unused-ignore]
        job = self._job()
        if job is not None:
            self._handles.append(display(_Snapshot(job), display_id=True))

    def on_event(self, is_urgent: bool) -> None:
        self._is_changed = True
        self._is_urgent = self._is_urgent or is_urgent

    def update(self) -> None:
        """Runs after each dispatch."""
        now = time.monotonic()
        job = self._job()
        if job is None or not self._handles or not self._is_changed:
            return
        if not self._is_urgent and now < self._updated_at + UPDATE_S:
            return
        self._is_changed = self._is_urgent = False
        self._updated_at = now
        for handle in self._handles:
            handle.update(_Snapshot(job))


class _Snapshot:
    """A job as it is now."""

    def __init__(self, job: Job) -> None:
        self._text = text_table(job)
        self._html = html_table(job)

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._html


class CellRun(NamedTuple):
    """A run of a cell, and the jobs that it has started."""

    run: str
    jobs: list[weakref.ref[Job]]


def _cell() -> tuple[str, str]:
    """The cell that runs now, and which of its runs this is; "": none."""
    kernel_shell = shell()
    get_parent = getattr(kernel_shell, "get_parent", None)
    parent = get_parent() if get_parent is not None else {}
    cell = str(parent.get("metadata", {}).get("cellId") or parent.get("content", {}).get("code") or "")
    return cell, str(parent.get("header", {}).get("msg_id", ""))


def stop_jobs_of_before() -> None:
    """When a cell runs again, the jobs of its run before end first. A cell may start several."""
    cell, run = _cell()
    previous = _cells.get(cell)
    if not cell or previous is None or previous.run == run:
        return
    for reference in previous.jobs:
        job = reference()
        if job is not None and not job.done():
            _stop_job_of_before(job)


def _stop_job_of_before(job: Job) -> None:
    from .errors import Error
    print(f"tfcluster: stopping job {job.id}, which this cell has started before", file=sys.stderr, flush=True)
    try:
        job.stop()
    except Error as error:
        print(f"tfcluster: job {job.id} was not stopped: {error}", file=sys.stderr, flush=True)


def remember_job(job: Job) -> None:
    cell, run = _cell()
    if cell:
        if cell not in _cells or _cells[cell].run != run:
            _cells[cell] = CellRun(run, [])
        _cells[cell].jobs.append(weakref.ref(job))
