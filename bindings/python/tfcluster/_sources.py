"""Pickles as cloudpickle makes them, with what it leaves out: the source text of functions, and functions that
functools.cache decorates.

cloudpickle drops the file names of functions that it pickles by value. With them and their text, tracebacks show
the failing lines, and TensorFlow's AutoGraph, which reads a function's source, works on functions of a notebook.
"""

from __future__ import annotations

import collections
import functools
import io
import linecache
import types
from collections.abc import Callable, Mapping
from typing import Any


_CACHED: type = type(functools.cache(len))


def dump(cloudpickle: Any, value: Any, file: io.IOBase) -> dict[str, str]:
    """Pickles a value as cloudpickle does; returns the texts of the files whose functions it has, by file name."""
    reduce_code = cloudpickle.CloudPickler.dispatch_table[types.CodeType]
    files: set[str] = set()

    def reduce_named_code(code: types.CodeType) -> Any:
        constructor, args = reduce_code(code)
        files.add(code.co_filename)
        return constructor, tuple(code.co_filename if isinstance(arg, str) and arg == "<dynamic-code>" else arg
                                  for arg in args)

    def reduce_cached(function: Any) -> Any:
        if not _is_by_value(cloudpickle, function):
            return function.__reduce__()
        return restore_cached, (function.__wrapped__, function.cache_parameters())

    class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
        dispatch_table = collections.ChainMap({types.CodeType: reduce_named_code, _CACHED: reduce_cached},
                                              cloudpickle.CloudPickler.dispatch_table)

    Pickler(file).dump(value)
    texts = {name: "".join(linecache.getlines(name)) for name in files}
    return {name: text for name, text in texts.items() if text}


def _is_by_value(cloudpickle: Any, function: Any) -> bool:
    """Whether cloudpickle would pickle this function by value, if it were a plain one."""
    module = f"{function.__module__}."
    return (function.__module__ == "__main__" or "<locals>" in function.__qualname__
            or any(module.startswith(f"{name}.") for name in cloudpickle.list_registry_pickle_by_value()))


def restore_cached(function: Callable[..., Any], parameters: Mapping[str, Any]) -> Any:
    """A function that functools.cache or lru_cache decorates, with an empty cache."""
    return functools.lru_cache(**parameters)(function)


def install(sources: Mapping[str, str]) -> None:
    """Makes the texts known to Python, in place of files that this machine may not have."""
    for name, text in sources.items():
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
