"""A job's events as lines for people, as tfc_run prints them: output behind the name of its task, and
the library's own messages behind "tfcluster: " on stderr."""

from __future__ import annotations

import re
import sys
import threading
from collections import deque

from .types import Event

ENDED_TASKS = ("exited", "failed", "lost", "stopped")


def prefix(event: Event) -> str:
    """"[worker/0] ", from the second attempt on "[worker/0#2] "."""
    attempt = f"#{event.attempt}" if event.attempt > 1 else ""
    return f"[{event.task}{attempt}] "


def printable(text: str) -> str:
    """A message with control characters, and marks that turn the direction of text, as \\uXXXX, as tfc_run has it."""
    return re.sub("[\0-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]",
                  lambda found: f"\\u{ord(found[0]):04x}", text)


class Printer:
    """Collects text from events, and prints it outside of callbacks. Output of tasks is printed as it is, with its
    colors. What a stream does not take is dropped: a job does not fail because nobody reads it."""

    def __init__(self) -> None:
        self._texts: deque[tuple[str, str]] = deque()  # stream, text
        self._printing = threading.RLock()
        self._open: tuple[str, int, str] | None = None  # task, attempt and stream of a line that goes on
        self._held = ""  # a failure that the next event may repeat as the reason of what follows
        self._last = ""

    def say(self, text: str) -> None:
        if text and text != self._last:
            self._end_line()
            self._texts.append(("stderr", f"tfcluster: {printable(text)}\n"))
        self._last = text

    def _end_line(self) -> None:
        if self._open is not None:
            self._texts.append((self._open[2], "\n"))
            self._open = None

    def _add_output(self, event: Event) -> None:
        place = event.task, event.attempt, event.stream
        begin = ""
        if place != self._open:
            self._end_line()
            begin = prefix(event)
        self._texts.append((event.stream, begin + event.text + ("" if event.partial else "\n")))
        self._open = place if event.partial else None
        self._last = ""

    def on_event(self, event: Event) -> None:
        held, self._held = self._held, ""
        if held and not (event.event in ("job", "end") and event.text.startswith(held)):
            self.say(held)
        if event.event == "output":
            self._add_output(event)
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
        """Prints what has been collected, in its order, whichever thread prints it."""
        with self._printing:
            while self._texts:
                _write(*self._texts.popleft())


def _write(stream: str, text: str) -> None:
    target = sys.stderr if stream == "stderr" else sys.stdout
    if target is None:
        return
    try:
        try:
            target.write(text)
        except UnicodeEncodeError:
            encoding = target.encoding
            target.write(text.encode(encoding, "backslashreplace").decode(encoding))
        target.flush()
    except (OSError, ValueError):  # nobody reads it, the disk is full, or it is closed
        pass
