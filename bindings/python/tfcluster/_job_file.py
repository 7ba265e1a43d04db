"""Keyword arguments of `run` as a job file (doc/guide/job-file.md)."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from . import _abi, _context, _library
from .errors import InvalidError
from .types import RestartPolicy


def job_key(name: str, value: Any) -> Any:
    """The value of a job key for the value of the keyword with the same name. The library refuses what it cannot be."""
    if isinstance(value, RestartPolicy):
        return value.to_json()
    if name == "restart" and isinstance(value, int):
        return {"max": value}
    if name == "placement" and isinstance(value, str):
        return {"policy": value}
    if name == "env" and isinstance(value, Mapping):
        return {key: text if text is None else str(text) for key, text in value.items()}
    if name == "secret_env" and isinstance(value, (list, tuple, set, frozenset)):  # the values come from here
        return {key: os.environ.get(key) for key in value}
    if isinstance(value, Mapping):
        return dict(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def plain(value: Any) -> Any:
    """A path or a number of numpy, which the json module does not know, as JSON."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if callable(getattr(value, "item", None)):
        return value.item()
    raise InvalidError(f"a job file cannot have a {type(value).__name__}: {value!r}")


@contextmanager
def parsed(values: Mapping[str, Any], base_dir: str) -> Iterator[Any]:
    """The job of a job file as a struct tfc_job *, with relative paths below `base_dir`; freed at the end."""
    library = _library.load()
    text = json.dumps(dict(values), default=plain).encode()
    error, job = _abi.tfc_error(), ctypes.c_void_p()
    code = library.tfc_job_parse(text, len(text), None, ctypes.byref(error), ctypes.byref(job))
    try:
        if code >= 0:
            code = library.tfc_job_resolve(job, os.fsencode(base_dir), ctypes.byref(error))
        if code < 0:
            failure = _context.error_of(ctypes.pointer(error), code)
            # One line of JSON that nobody has seen: its number would only confuse.
            failure.args = (str(failure).removeprefix("line 1: "),)
            raise failure
        yield job
    finally:
        library.tfc_job_free(job)


def defaults() -> dict[str, Any]:
    """A job file with all keys and their defaults."""
    library = _library.load()
    job, text = ctypes.c_void_p(), ctypes.c_void_p()
    if library.tfc_job_new(ctypes.byref(job)) < 0 or library.tfc_job_json(job, 0, ctypes.byref(text)) < 0:
        library.tfc_job_free(job)
        raise MemoryError
    try:
        values: dict[str, Any] = json.loads(ctypes.string_at(text.value or 0))
        return values
    finally:
        library.tfc_free(text)
        library.tfc_job_free(job)
