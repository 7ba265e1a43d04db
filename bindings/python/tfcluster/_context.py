"""A context of the library, driven by whatever loop the program has.

A context is one descriptor. Nothing happens until somebody dispatches, and no thread does that in the
background: a call that waits (`Context.wait`) dispatches itself, and where an asyncio loop runs (a
notebook), the loop dispatches whenever the descriptor is readable (`Context.attach`).

Any thread may call. The lock makes the calls of the library one at a time; it is never held while a
thread waits. Of several threads that wait, one polls the descriptor, and wakes the others after each
dispatch.
"""

from __future__ import annotations

import collections
import ctypes
import itertools
import os
import select
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from . import _abi, _library
from .errors import DeadlineError, Error

if TYPE_CHECKING:
    import asyncio

POLL_MAX_S = 3600.0  # of one poll; longer ones are several
LOOK_AGAIN_S = 1.0  # while another thread polls: an exception in it may have lost its notice
_LOG_LEVELS = {_abi.LogLevel.DEBUG: 10, _abi.LogLevel.INFO: 20, _abi.LogLevel.WARNING: 30, _abi.LogLevel.ERROR: 40}
_RAISING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)  # whose handlers often raise an exception

# What the library's callbacks are for, by their `user`. Who waits for a callback holds the object.
_objects: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_numbers = itertools.count(1)
_contexts: weakref.WeakSet[Context] = weakref.WeakSet()


def register(thing: Any) -> int:
    """Returns a number that a callback gets as its `user`; `forget` ends it."""
    number = next(_numbers)
    _objects[number] = thing
    return number


def forget(number: int) -> None:
    _objects.pop(number, None)


def registered(number: int | None) -> Any:
    return _objects.get(number or 0)


def text_of(value: bytes | None) -> str:
    return value.decode("utf-8", "backslashreplace") if value else ""


def error_of(error: Any, code: int) -> Error:
    """The exception for a struct tfc_error (`ctypes` pointer)."""
    if not error:
        return Error.of(code, text_of(_library.load().tfc_err_text(code)))
    detail = error.contents
    text = text_of(detail.text) or text_of(_library.load().tfc_err_text(code))
    return Error.of(code, text, text_of(detail.component), detail.sys_errno)


def _log_level() -> _abi.LogLevel:
    """The lowest level of the logger "tfcluster" when a context is made. logging is not imported for it."""
    logging = sys.modules.get("logging")
    level = logging.getLogger("tfcluster").getEffectiveLevel() if logging else 30
    return next((known for known, number in _LOG_LEVELS.items() if number >= level), _abi.LogLevel.ERROR)


class DelayedSignals:
    """A block that no signal handler of Python interrupts; they run at its end.

    An exception that a handler raises inside a callback would lose the event that the callback is for. Blocking the
    signals is not enough: another thread of the process may receive them, and Python calls handlers in the main thread.
    """

    def __enter__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._replaced: list[int] = []
        self._arrived: list[int] = []
        if threading.current_thread() is not threading.main_thread():
            return
        try:
            for number in _RAISING_SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    self._replaced.append(number)
                    signal.signal(number, self._note)
        except BaseException:  # a handler has run in between
            self.__exit__()
            raise

    def _note(self, number: int, frame: object) -> None:
        self._arrived.append(number)

    def __exit__(self, *exc: object) -> None:
        try:
            while self._replaced:
                number = self._replaced[-1]
                signal.signal(number, self._handlers[number])
                self._replaced.pop()
            while self._arrived:
                number = self._arrived.pop(0)
                self._handlers[number](number, sys._getframe())
        finally:
            if self._replaced or self._arrived:  # a handler has raised an exception
                self.__exit__()


class Context:
    """One tfc_ctx. `on_dispatch` functions run after each dispatch, without the lock."""

    def __init__(self) -> None:
        self.library = _library.load()
        self.condition = threading.Condition(threading.RLock())
        self.on_dispatch: list[Callable[[], None]] = []
        self._poller: int | None = None  # the thread that polls the descriptor
        self._is_dispatching = False
        self._is_closing = False
        self._loops: list[asyncio.AbstractEventLoop] = []
        self._failure: BaseException | None = None
        self._log: collections.deque[tuple[int, str]] = collections.deque()  # not yet passed on
        error = _abi.tfc_error()
        pointer = ctypes.c_void_p()
        options = _abi.tfc_ctx_options()
        self.library.tfc_ctx_options_init(ctypes.byref(options), ctypes.sizeof(options))
        helper_dir = _library.helper_dir()
        options.helper_dir = os.fsencode(helper_dir) if helper_dir else None
        number = register(self)
        options.log, options.log_user, options.log_level = _on_log, number, _log_level()
        code = self.library.tfc_ctx_new(ctypes.byref(options), ctypes.byref(error), ctypes.byref(pointer))
        if code < 0:
            forget(number)
            raise error_of(ctypes.pointer(error), code)
        self.pointer: int | None = pointer.value
        self._number = number
        self._fd = self.library.tfc_ctx_fd(self.pointer)
        self._notice = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)  # a dispatch by another thread
        _contexts.add(self)

    # ---- calls of the library

    @contextmanager
    def locked(self) -> Iterator[ctypes.CDLL]:
        """The library, for the calls of one block. A closed context is an error."""
        with self.condition:
            if self.pointer is None:
                raise self._closed()
            yield self.library

    def check(self, code: int) -> int:
        """Raises the context's error if `code` is negative. Call it within `locked`."""
        if code < 0:
            raise error_of(self.library.tfc_ctx_error(self.pointer), code)
        return code

    def fail(self, failure: BaseException) -> None:
        """Keeps an exception of a callback, which the dispatch raises. ctypes would swallow it."""
        if self._failure is None:
            self._failure = failure

    # ---- dispatch

    def dispatch(self) -> None:
        """Does what is due, without waiting."""
        with self.condition:
            if self.pointer is None or self._is_dispatching:
                return
            self._is_dispatching = True
            try:
                with DelayedSignals():
                    self.library.tfc_ctx_dispatch(self.pointer, 0)
            finally:
                self._is_dispatching = False
                self.wake()
                if self._is_closing:
                    self.close()
            failure, self._failure = self._failure, None
        self._pass_log_on()
        if failure is not None:
            raise failure
        for function in tuple(self.on_dispatch):
            function()

    def wait(self, is_done: Callable[[], bool], timeout: float | None = None) -> bool:
        """Dispatches until is_done() or for `timeout` seconds; returns is_done()."""
        deadline = None if timeout is None else time.monotonic() + timeout
        me = threading.get_ident()
        while True:
            left = POLL_MAX_S if deadline is None else min(deadline - time.monotonic(), POLL_MAX_S)
            try:  # a signal handler may raise an exception after every call
                with self.condition:  # what is awaited becomes true in a dispatch, which has the lock
                    if is_done():
                        return True
                    if left <= 0:
                        return False
                    if self._is_dispatching:
                        raise RuntimeError("a function that the library calls must not wait")
                    if self.pointer is None:
                        raise self._closed()
                    if self._poller not in (None, me):
                        self.condition.wait(min(left, LOOK_AGAIN_S))
                        continue
                    self._poller = me
                self._poll(left)
            finally:
                if self._poller == me:
                    self._poller = None
                    with self.condition:
                        self.condition.notify_all()
                        if self.pointer is None:
                            self._close_notice()
            self.dispatch()

    def wake(self) -> None:
        """Lets the threads that wait look again whether it is over."""
        if self._poller is not None:
            self.end_poll()
        self.condition.notify_all()

    def end_poll(self) -> None:
        """Also for a signal handler: lets the thread that polls look again whether it is over."""
        if self._notice >= 0:
            os.eventfd_write(self._notice, 1)

    def _close_notice(self) -> None:
        notice, self._notice = self._notice, -1
        if notice >= 0:
            os.close(notice)

    @staticmethod
    def _closed() -> Error:
        return Error("the client is closed", int(_abi.Err.ESTATE), "python")

    def _poll(self, timeout: float) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._notice, select.POLLIN)
        ready = poll.poll(max(1, int(timeout * 1000)))
        if any(fd == self._notice for fd, _ in ready):
            with suppress(BlockingIOError):  # the same thread polled in a signal handler
                os.eventfd_read(self._notice)

    def attach(self) -> None:
        """Lets the asyncio loop that runs in this thread, if there is one, dispatch."""
        loop = _running_loop()
        if loop is None:
            return
        with self.condition:
            self._loops = [known for known in self._loops if not known.is_closed()]
            if loop in self._loops or self.pointer is None:
                return
            self._loops.append(loop)
        loop.add_reader(self._fd, self.dispatch)

    async def wait_async(self, is_done: Callable[[], bool], timeout: float | None = None) -> bool:
        """`wait` for a coroutine: the running loop dispatches."""
        import asyncio
        self.attach()
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        changed = asyncio.Event()

        def on_dispatch() -> None:
            loop.call_soon_threadsafe(changed.set)

        self.on_dispatch.append(on_dispatch)
        try:
            while not is_done():
                if self.pointer is None:
                    raise self._closed()
                changed.clear()
                left = None if deadline is None else deadline - loop.time()
                try:
                    await asyncio.wait_for(changed.wait(), left)
                except asyncio.TimeoutError:
                    return is_done()
            return True
        finally:
            with suppress(ValueError):  # closed
                self.on_dispatch.remove(on_dispatch)

    # ---- requests

    def request(self, name: str, *arguments: Any) -> Request:
        """Begins a request: calls the function `name` with `arguments`, a callback and its user."""
        request = Request(self)
        with self.locked() as library:
            number = register(request)
            try:
                self.check(getattr(library, name)(*arguments, _on_reply, number, ctypes.byref(request.op)))
            except BaseException:
                forget(number)
                raise
        return request

    # ---- the end

    def close(self) -> None:
        """Closes everything that was opened under the context. Again: no-op."""
        with self.condition:
            if self.pointer is None:
                return
            if self._is_dispatching:  # its last owner may be collected in a callback
                self._is_closing = True
                return
            pointer, self.pointer = self.pointer, None
            for loop in self._loops:
                if not loop.is_closed():
                    loop.remove_reader(self._fd)
            self._loops.clear()
            on_dispatch, self.on_dispatch = self.on_dispatch, []
            self.library.tfc_ctx_free(pointer)
            forget(self._number)
            if self._poller is None:
                self._close_notice()  # otherwise by the thread that polls it
            self.wake()
        self._pass_log_on()
        for function in on_dispatch:
            function()

    def _pass_log_on(self) -> None:
        """Without the lock: handlers of logging may do anything."""
        with suppress(IndexError):
            while True:
                level, text = self._log.popleft()
                import logging
                logging.getLogger("tfcluster").log(level, "%s", text)

    def _abandon(self) -> None:
        """In a forked child: drops the copies of the parent's descriptors, and touches nothing else."""
        self.condition = threading.Condition(threading.RLock())
        if self.pointer is not None:
            pointer, self.pointer = self.pointer, None
            self.library.tfc_ctx_abandon(pointer)
            self._close_notice()


def _abandon_all() -> None:
    for context in tuple(_contexts):
        context._abandon()
    _objects.clear()


os.register_at_fork(after_in_child=_abandon_all)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """The asyncio loop that runs in this thread. asyncio is not imported for it."""
    asyncio = sys.modules.get("asyncio")
    return None if asyncio is None else asyncio._get_running_loop()


def _note_log(user: int | None, entry: Any) -> None:
    context, detail = registered(user), entry.contents
    subject, text = text_of(detail.subject), text_of(detail.text)
    if context is not None:
        context._log.append((_LOG_LEVELS[detail.level], f"{subject}: {text}" if subject else text))


_on_log = _abi.tfc_log_fn(_note_log)


class Request:
    """A request and, when it `is_done`, its reply."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.op = ctypes.c_void_p()
        self.is_done = False
        self.text = ""
        self.error: Error | None = None

    def finish(self, code: int, text: str, error: Error | None) -> None:
        self.is_done = True
        self.op.value = None
        self.text = text
        self.error = error if code < 0 else None

    def result(self, timeout: float | None = None) -> str:
        """Waits for the reply, and returns its text."""
        try:
            in_time = self.context.wait(lambda: self.is_done, timeout)
        except BaseException:
            self.cancel()
            raise
        return self._end(in_time, timeout)

    async def result_async(self, timeout: float | None = None) -> str:
        try:
            in_time = await self.context.wait_async(lambda: self.is_done, timeout)
        except BaseException:
            self.cancel()
            raise
        return self._end(in_time, timeout)

    def _end(self, in_time: bool, timeout: float | None) -> str:
        if not in_time:
            self.cancel()
            raise DeadlineError(f"no reply within {timeout:g} s", int(_abi.Err.ETIMEDOUT), "python")
        if self.error is not None:
            raise self.error
        return self.text

    def cancel(self) -> None:
        with self.context.condition:
            if self.context.pointer is not None and not self.is_done and self.op.value:
                self.context.library.tfc_op_cancel(self.op)


def _reply(user: int | None, reply: Any) -> None:
    request = registered(user)
    if request is None:
        return
    try:
        forget(user or 0)
        answer = reply.contents
        error = error_of(answer.error, answer.code) if answer.code < 0 else None
        request.finish(answer.code, text_of(ctypes.string_at(answer.text, answer.len)), error)
    except BaseException as failure:
        request.context.fail(failure)


_on_reply = _abi.tfc_reply_fn(_reply)
