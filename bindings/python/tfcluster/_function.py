"""A function as the program of a job: its bundle, and what a function must not capture.

The bundle has the pickled function, the Python sources of this package and of cloudpickle, so that a
node needs only Python and the framework. Pickles travel only inside the bundle, from the user who
submits to that user's own tasks. What tasks return is JSON or Arrow, and is never unpickled.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import shutil
import socket
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from . import _job_file, _sources
from .errors import InvalidError

SECRET_WORDS = ("SECRET", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY")
SECRET_LEN = 8  # shorter values may be equal by chance
DEPTH_MAX = 6  # of containers that are searched

_LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Event,
          threading.Semaphore, threading.Barrier)


def pack(directory: str, functions: Mapping[str, tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]],
         facts: Mapping[str, Any], bundle: str | os.PathLike[str] | None) -> None:
    """Fills `directory` with the bundle of a job whose tasks call functions: "train" and, if the evaluator has
    its own, "evaluator"; each with its positional and keyword arguments."""
    import cloudpickle  # type: ignore[import-untyped, unused-ignore]

    if bundle is not None:
        _copy(os.fspath(bundle), directory)
    for function, args, kwargs in functions.values():
        _check_call(function, args, kwargs)
        _check(function, args, kwargs)
    inside = os.path.join(directory, "tfcluster_function")
    os.mkdir(inside)
    try:
        with open(os.path.join(inside, "function.pickle"), "wb") as file:
            sources = _dump(cloudpickle, {name: (function, tuple(args), dict(kwargs))
                                          for name, (function, args, kwargs) in functions.items()}, file)
    except OSError:  # of the disk
        raise
    except Exception as failure:
        raise InvalidError(_explain(cloudpickle, functions, failure)) from failure
    with open(os.path.join(inside, "function.json"), "w", encoding="utf-8") as file:
        json.dump({"python": python_version(), **facts}, file, default=_job_file.plain)
    with open(os.path.join(inside, "sources.json"), "w", encoding="utf-8") as file:
        json.dump(sources, file)
    for package in (os.path.dirname(os.path.abspath(__file__)), os.path.dirname(cloudpickle.__file__)):
        shutil.copytree(package, os.path.join(directory, os.path.basename(package)),
                        ignore=lambda _, names: [name for name in names if not _is_source(name)])


def _check_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    label = _label(function)
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidError(f"{label} must return its result, and a call of it returns a coroutine or a generator; "
                           "run that in the function, for example with asyncio.run or list")
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # of a builtin
        return
    try:
        signature.bind(None, *args, **kwargs)
    except TypeError as error:
        raise InvalidError(f"{label} is called as {label}(ctx, *args, **kwargs), and has {label}{signature}: "
                           f"{error}") from None


def _label(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__)).rpartition("<locals>.")[2]


def python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _is_source(name: str) -> bool:
    return name != "_native" and (name.endswith(".py") or "." not in name and name != "__pycache__")


def _copy(bundle: str, directory: str) -> None:
    if os.path.isdir(bundle):
        shutil.copytree(bundle, directory, symlinks=True, dirs_exist_ok=True)
    elif bundle.endswith(".zip"):
        shutil.unpack_archive(bundle, directory)
    else:
        shutil.copy(bundle, directory)
    for name in ("tfcluster", "tfcluster_function", "cloudpickle"):
        if os.path.lexists(os.path.join(directory, name)):
            raise InvalidError(f'bundle: "{name}" is a name that the job of a function needs; rename it')


# ---- modules that only this machine has

def _dump(cloudpickle: Any, value: Any, file: io.IOBase) -> dict[str, str]:
    """Pickles by value what comes from a module that is not installed: the tasks do not have it. Returns the source
    text of what was pickled so, see `_sources.dump`."""
    places = _installed_places()
    modules = [module for module in tuple(sys.modules.values()) if _is_local(module, places)]
    registered = [module for module in modules
                  if module.__name__ not in cloudpickle.list_registry_pickle_by_value()]
    for module in registered:
        cloudpickle.register_pickle_by_value(module)
    try:
        return _sources.dump(cloudpickle, value, file)
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


def _is_local(module: Any, installed_places: Collection[str]) -> bool:
    name, path = getattr(module, "__name__", None), getattr(module, "__file__", None)
    if not isinstance(name, str) or not isinstance(path, str) or sys.modules.get(name) is not module:
        return False
    if name == "__main__" or name.partition(".")[0] in ("tfcluster", "cloudpickle"):
        return False
    path = os.path.realpath(path)
    return not any(path.startswith(place + os.sep) for place in installed_places)


def _installed_places() -> set[str]:
    """The directories of installed modules: those of Python, and those of sys.path that pip has installed into,
    wherever a .pth file, PYTHONPATH or "pip install --target" has put them."""
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places.update(place for place in sys.path if _has_distributions(place))
    return {os.path.realpath(place) for place in places}


def _has_distributions(directory: str) -> bool:
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(directory or os.curdir))
    except OSError:  # an archive, or not there
        return False


# ---- what must not be captured

def _captured(function: Any) -> Iterator[tuple[str, Any]]:
    """The variables that pickling the function takes along, with the names by which its author knows them."""
    if not isinstance(function, types.FunctionType):
        for name, value in getattr(function, "__dict__", {}).items():
            yield f"self.{name}", value
        function = getattr(function, "__func__", getattr(type(function), "__call__", None))  # noqa: B004
        if not isinstance(function, types.FunctionType):
            return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for name, value in (function.__kwdefaults__ or {}).items():
        yield name, value
    defaults = function.__defaults__ or ()
    yield from zip(function.__code__.co_varnames[function.__code__.co_argcount - len(defaults):], defaults, strict=False)
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _global_names(code: types.CodeType) -> Iterator[str]:
    import dis
    for instruction in dis.get_instructions(code):  # co_names has the names of attributes, too
        if instruction.opname == "LOAD_GLOBAL" or instruction.opname == "LOAD_NAME":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _secrets() -> dict[str, str]:
    return {value: name for name, value in os.environ.items()
            if len(value) >= SECRET_LEN and any(word in name.upper() for word in SECRET_WORDS)}


def _fault(value: Any, secrets: Mapping[str, str], depth: int = 0) -> str:
    """Why a value must not travel to the tasks; "" if it may."""
    if isinstance(value, str):
        name = secrets.get(value)
        return name and (f'which has the value of the variable {name}; pass secret_env=["{name}"], and read '
                         f'os.environ["{name}"] in the function') or ""
    if value is os.environ:
        return "which is os.environ of this process; pass env= or secret_env=, and read os.environ in the function"
    if isinstance(value, _LOCKS):
        return f"a {type(value).__name__}, which other processes cannot share; create it in the function"
    if isinstance(value, threading.Thread):
        return "a thread, which other processes cannot share; start it in the function"
    if isinstance(value, io.IOBase) or isinstance(value, socket.socket):
        kind = "a socket" if isinstance(value, socket.socket) else "an open file"
        return f"{kind}, which other processes cannot use; open it in the function"
    if depth < DEPTH_MAX and isinstance(value, Mapping):
        parts: Iterator[Any] = iter([*value.keys(), *value.values()])
    elif depth < DEPTH_MAX and isinstance(value, (list, tuple, set, frozenset)):
        parts = iter(value)
    else:
        return ""
    return next((fault for fault in (_fault(part, secrets, depth + 1) for part in parts) if fault), "")


def _check(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any],
           seen: set[int] | None = None) -> None:
    secrets = _secrets()
    seen = set() if seen is None else seen
    seen.add(id(function))
    label = _label(function)
    for name, value in [*_captured(function), *((f"args[{i}]", value) for i, value in enumerate(args)),
                        *((f"kwargs[{key!r}]", value) for key, value in kwargs.items())]:
        fault = _fault(value, secrets)
        if fault:
            raise InvalidError(f"{label} uses {name}, {fault}")
        is_own = isinstance(value, types.FunctionType) and value.__module__ == getattr(function, "__module__", None)
        if is_own and id(value) not in seen:
            _check(value, (), {}, seen)


def _explain(cloudpickle: Any, functions: Mapping[str, Any], failure: Exception) -> str:
    """Names the variable that cannot be pickled."""
    for function, args, kwargs in functions.values():
        label = _label(function)
        for name, value in [*_captured(function), *((f"args[{i}]", value) for i, value in enumerate(args)),
                            *((f"kwargs[{key!r}]", value) for key, value in kwargs.items())]:
            try:
                _dump(cloudpickle, value, io.BytesIO())
            except Exception as cause:
                remedy = "import" if isinstance(value, types.ModuleType) else "create"
                return (f"{label} uses {name}, a {type(value).__name__} that cannot be pickled: {str(cause).rstrip('.')}; "
                        f"{remedy} it in the function")
    return f"the function cannot be pickled: {failure}"
