"""Finds and loads libtfcluster: from the wheel, from a build tree, or as it is installed."""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib

from . import _abi

_NAME = "libtfcluster.so.0"
_NATIVE = pathlib.Path(__file__).with_name("_native")  # in a wheel, the library and its helper programs


@functools.cache
def load() -> ctypes.CDLL:
    """The library, with the types of all its functions.

    It is the first of: the wheel's own; the file that TFCLUSTER_LIBRARY names; in a task, the one of its node, which
    TFC_LIBRARY names; the one that the system's loader finds.
    Raises ImportError when it cannot be loaded, or is too old for this package.
    """
    path = _path()
    try:
        library = ctypes.CDLL(path)
        _check_version(library, path)
    except (OSError, AttributeError) as error:
        raise ImportError(f'cannot load the library "{path}": {error}; install libtfcluster, or set TFCLUSTER_LIBRARY '
                          "to its file", path=path) from None
    _abi.declare(library)
    return library


def helper_dir() -> str | None:
    """The directory of the library's helper programs; None: where the library was installed with them."""
    if _is_bundled():
        return str(_NATIVE)
    return os.environ.get("TFCLUSTER_HELPER_DIR") or None


def _is_bundled() -> bool:
    return (_NATIVE / _NAME).exists()


def _path() -> str:
    if _is_bundled():
        return str(_NATIVE / _NAME)
    return os.environ.get("TFCLUSTER_LIBRARY") or os.environ.get("TFC_LIBRARY") or _NAME


def _check_version(library: ctypes.CDLL, path: str) -> None:
    """A library is as good as an older one that has the same major number."""
    library.tfc_version.restype = ctypes.c_uint
    found, needed = library.tfc_version(), _abi.TFC_VERSION_NUMBER
    if found >> 16 != needed >> 16 or found >> 8 < needed >> 8:
        raise ImportError(f'the library "{path}" has version {_text(found)}, but this package needs '
                          f"{needed >> 16}.{needed >> 8 & 255} or a later {needed >> 16}.x; install that version of "
                          "libtfcluster", path=path)


def _text(version: int) -> str:
    return f"{version >> 16}.{version >> 8 & 255}.{version & 255}"
