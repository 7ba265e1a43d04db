"""The source text of pickled functions, which travels beside the pickle.

cloudpickle drops the file names of functions that it pickles by value. With them and their text, tracebacks show
the failing lines, and TensorFlow's AutoGraph, which reads a function's source, works on functions of a notebook.
"""

from __future__ import annotations

import collections
import io
import linecache
import types
from collections.abc import Mapping
from typing import Any


def dump(cloudpickle: Any, value: Any, file: io.IOBase) -> dict[str, str]:
    """Pickles a value as cloudpickle does; returns the texts of the files whose functions it has, by file name."""
    reduce_code = cloudpickle.CloudPickler.dispatch_table[types.CodeType]
    files: set[str] = set()

    def reduce_named_code(code: types.CodeType) -> Any:
        constructor, args = reduce_code(code)
        files.add(code.co_filename)
        return constructor, tuple(code.co_filename if isinstance(arg, str) and arg == "<dynamic-code>" else arg
                                  for arg in args)

    class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
        dispatch_table = collections.ChainMap({types.CodeType: reduce_named_code},
                                              cloudpickle.CloudPickler.dispatch_table)

    Pickler(file).dump(value)
    texts = {name: "".join(linecache.getlines(name)) for name in files}
    return {name: text for name, text in texts.items() if text}


def install(sources: Mapping[str, str]) -> None:
    """Makes the texts known to Python, in place of files that this machine may not have."""
    for name, text in sources.items():
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
