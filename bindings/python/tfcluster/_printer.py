"""A job's events as lines for people, as tfc_run prints them: output behind the name of its task, and
the library's own messages behind "tfcluster: " on stderr."""

from __future__ import annotations

import sys
from collections import deque
from typing import TextIO

from .types import Event

ENDED_TASKS = ("exited", "failed", "lost", "stopped")
ENDED_JOBS = ("succeeded", "failed", "stopped")


def prefix(event: Event) -> str:
    """"[worker/0] ", from the second attempt on "[worker/0#2] "."""
    attempt = f"#{event.attempt}" if event.attempt > 1 else ""
    return f"[{event.task}{attempt}] "


class Printer:
    """Collects lines from events, and prints them outside of callbacks."""

    def __init__(self) -> None:
        self.lines: deque[tuple[str, str]] = deque()  # stream, line
        self._held = ""  # a failure that the next event may repeat as the reason of what follows
        self._last = ""

    def say(self, text: str) -> None:
        if text and text != self._last:
            self.lines.append(("stderr", f"tfcluster: {text}"))
        self._last = text

    def on_event(self, event: Event) -> None:
        held, self._held = self._held, ""
        if held and not (event.event in ("job", "end") and event.text.startswith(held)):
            self.say(held)
        if event.event == "output":
            self.lines.append((event.stream, prefix(event) + event.text))
            self._last = ""
        elif event.event == "gap":
            self.say(event.text or f"{event.task}: {event.bytes} bytes lost")
        elif event.event == "task":
            if event.state not in ENDED_TASKS:
                self.say(event.text)
                if event.state == "ready" and event.task.startswith("tensorboard/"):
                    self.say(f"TensorBoard: http://{event.address}/")
            elif event.state in ("failed", "lost") and event.reason not in ("consequence", "stalled"):
                self._held = event.text
        elif event.event == "job" and event.state != "stopping":
            self.say(event.text)
        elif event.event in ("reconnecting", "reconnected"):
            self.say(event.text)
        elif event.event == "end":
            reason = f"failed ({event.reason}): {event.text}"
            self.say({"succeeded": "succeeded", "failed": reason}.get(event.state, event.text))

    def flush(self) -> None:
        """Prints what has been collected."""
        while self.lines:
            stream, line = self.lines.popleft()
            target: TextIO = sys.stderr if stream == "stderr" else sys.stdout
            print(line, file=target, flush=True)
