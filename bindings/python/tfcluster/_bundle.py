"""The bundle of a function: the directory `tfcluster_function`, which tfc.run packs beside this package."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import pickle
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from . import _sources

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Settings:
    """function.json, as far as a task needs it."""

    python: str = ""
    checkpoint_dir: str | None = None
    strategy: str = ""
    framework: str = ""
    roles: Mapping[str, int] = dataclasses.field(default_factory=dict)


class Directory:
    """The temporary directory of a bundle. It ends with its owner, but never with a forked child of the program."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="tfcluster-")
        self._finalizer = weakref.finalize(self, _remove, self.path, os.getpid())

    def cleanup(self) -> None:
        self._finalizer()


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


NO_SETTINGS = Settings()


@functools.cache
def directory() -> pathlib.Path:
    """Where the function is. The bundle is in PYTHONPATH; this package may have been found in front of it."""
    places = [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *sys.path]
    found = [path for path in (pathlib.Path(place, "tfcluster_function") for place in places) if path.is_dir()]
    return found[0] if found else pathlib.Path(places[0], "tfcluster_function")


@functools.cache
def settings() -> Settings:
    """The settings of the function that this process runs; without a function, empty ones."""
    try:
        text = (directory() / "function.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return NO_SETTINGS
    known = {field.name for field in dataclasses.fields(Settings)}
    return Settings(**{key: value for key, value in json.loads(text).items() if key in known})


def load(task_type: str) -> Call:
    """Unpickles the function, args and kwargs of a task type. The pickle comes from the job's bundle alone."""
    with contextlib.suppress(FileNotFoundError):
        _sources.install(json.loads((directory() / "sources.json").read_text(encoding="utf-8")))
    with open(directory() / "function.pickle", "rb") as file:
        calls = pickle.load(file)
    call: Call = calls.get(task_type) or calls["train"]
    return call
