"""Subscriptions: the events of one job, received from the library."""

from __future__ import annotations

import ctypes
import json
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

from . import _abi, _context
from .errors import DeadlineError, Error
from .types import Event

if TYPE_CHECKING:
    from .client import Client
    from .job import Job

QUEUED_MAX = 1024  # events that wait for a slow reader, before its subscription pauses


class Subscription:
    """Calls `on_event` in each dispatch with what happens to a job, until "end" or "lost". With `job` None it
    submits `submit` (a struct tfc_job *) first; `on_submitted` gets the id, or the error."""

    def __init__(self, client: Client, job: str | None, on_event: Callable[[Event], None], *,
                 submit: Any = None, on_submitted: Callable[[str, Error | None], None] | None = None,
                 output: bool = True, reports: bool = True, progress: bool = False, live: bool = False,
                 cursor: str | None = None) -> None:
        from .client import _options
        self._context = client._context
        self._on_event = on_event
        self._on_submitted = on_submitted
        self._sub = ctypes.c_void_p()
        self._number = _context.register(self)
        options = _options("tfc_subscribe_options", skip_output=int(not output), wants_reports=int(reports),
                           wants_progress=int(progress), wants_reconnects=1, wants_live=int(live),
                           cursor=cursor.encode() if cursor else None)
        try:
            with self._context.locked() as library:
                if job is None:
                    code = library.tfc_gateway_run(client._gateway, submit, None, ctypes.byref(options),
                                                   _on_reply, _on_event, self._number, ctypes.byref(self._sub))
                else:
                    code = library.tfc_gateway_subscribe(client._gateway, job.encode(), ctypes.byref(options),
                                                         _on_event, self._number, ctypes.byref(self._sub))
                self._context.check(code)
        except BaseException:
            _context.forget(self._number)
            raise

    def _submitted(self, reply: Any) -> None:
        error = _context.error_of(reply.error, reply.code) if reply.code < 0 else None
        if self._on_submitted is not None:
            self._on_submitted(_context.text_of(reply.text), error)

    def _receive(self, event: Any) -> None:
        text = ctypes.c_void_p()
        library = self._context.library
        if library.tfc_event_json(event, ctypes.byref(text)) < 0:
            return  # a kind that this version of the library does not know, or no memory
        try:
            values = json.loads(ctypes.string_at(text.value or 0))
        finally:
            library.tfc_free(text)
        values.update(cursor=_context.text_of(event.contents.cursor), error_code=event.contents.error_code)
        self._on_event(Event.of(values))

    def pause(self) -> None:
        with self._context.locked() as library:
            library.tfc_sub_pause(self._sub)

    def resume(self) -> None:
        with self._context.locked() as library:
            library.tfc_sub_resume(self._sub)

    def close(self) -> None:
        _context.forget(self._number)
        with self._context.condition:
            if self._context.pointer is not None and self._sub:
                self._context.library.tfc_sub_close(self._sub)
            self._sub = ctypes.c_void_p()


def _reply(user: int | None, reply: Any) -> None:
    subscription = _context.registered(user)
    if subscription is not None:
        try:
            subscription._submitted(reply.contents)
        except BaseException as failure:
            subscription._context.fail(failure)


def _event(user: int | None, event: Any) -> None:
    subscription = _context.registered(user)
    if subscription is not None:
        try:
            subscription._receive(event)
        except ReferenceError:  # its owner has just been collected, and closes it
            pass
        except BaseException as failure:
            subscription._context.fail(failure)


_on_reply = _abi.tfc_reply_fn(_reply)
_on_event = _abi.tfc_event_fn(_event)


class Events:
    """The events of a job, one after the other: `for event in events` waits, `async for` does so in the
    running loop. The last one is "end" or "lost". A reader that is slow slows no task: what it has not
    read yet stays in the logs. Close it, or use it in a `with` block, to end before the job does."""

    def __init__(self, client: Client, job: str, *, output: bool = True, progress: bool = False,
                 live: bool = False, cursor: str | None = None, owner: Job | None = None) -> None:
        self._owner = owner  # a job that nobody else may hold: it ends when it is collected
        self._context = client._context
        self._queue: deque[Event] = deque()
        self._is_ended = False
        self._is_paused = False
        me = weakref.proxy(self)  # an iterator that nobody has any more closes its subscription
        self._subscription = Subscription(client, job, lambda event: me._add(event), output=output, progress=progress,
                                          live=live, cursor=cursor)

    def _add(self, event: Event) -> None:
        self._queue.append(event)
        self._is_ended = self._is_ended or event.event in ("end", "lost")
        if len(self._queue) >= QUEUED_MAX and not self._is_paused:
            self._is_paused = True
            self._subscription.pause()

    def _next(self) -> Event | None:
        event = self._queue.popleft() if self._queue else None
        if self._is_paused and not self._queue:
            self._is_paused = False
            self._subscription.resume()
        return event

    def _is_ready(self) -> bool:
        return bool(self._queue) or self._is_ended

    def _wait(self, timeout: float | None) -> bool:
        try:
            return self._context.wait(self._is_ready, timeout)
        except KeyboardInterrupt:
            if self._owner is not None:
                self._owner._on_interrupt()
            raise

    def __iter__(self) -> Iterator[Event]:
        return self

    def get(self, timeout: float | None = None) -> Event:
        """The next event. Raises DeadlineError after `timeout` seconds, and StopIteration behind the last one."""
        if not self._wait(timeout):
            raise DeadlineError(f"no event within {timeout:g} s", int(_abi.Err.ETIMEDOUT), "python")
        return next(self)

    def __next__(self) -> Event:
        self._wait(None)
        event = self._next()
        if event is None:
            self.close()
            raise StopIteration
        return event

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        await self._context.wait_async(self._is_ready)
        event = self._next()
        if event is None:
            self.close()
            raise StopAsyncIteration
        return event

    def close(self) -> None:
        """Ends the events."""
        self._is_ended = True
        self._subscription.close()

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_subscription"):
            self._subscription.close()
