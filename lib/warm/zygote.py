"""A zygote: imports modules once, and forks a process for each attempt that wants them.

Started as `PYTHON -c SOURCE MODULE...`. Descriptor 3 is a socket to the guard; doc/internals/warm.md
describes the messages. It ends when the socket does. If it cannot serve, the last line that it prints
says why.
"""
import sys
if sys.version_info < (3, 10):
    sys.exit("warm starts need Python 3.10 or newer, and this is Python %d.%d" % sys.version_info[:2])
import _io
import atexit
import ctypes
import faulthandler
import fcntl
import gc
import importlib
import importlib.machinery
import linecache
import os
import resource
import runpy
import signal
import socket
import time
import traceback
import types
import warnings
import weakref
import zipimport

GUARD = 3
CHILD = 9  # in the shim: the socket to the process that becomes the task
HIGH = 16  # descriptors that are to be moved are first moved up to here
STACKS = "python"  # the name of the directory in which the library puts python_stacks.py
SHOWN = 4094  # bytes of a command line, less than a page
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_GET_CHILD_SUBREAPER = 37
PF_EXITING = 4
OF_PYTHON = " (Python)"  # after the name of a thread
NODE_SIGNALS = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}  # a shim blocks them


def thread_names():
    """The names of the other threads. A thread that has been joined may be listed for a moment, with the flag that it
    exits (proc(5))."""
    of_python = {}
    if "threading" in sys.modules:
        of_python = {thread.native_id: thread.name + OF_PYTHON for thread in sys.modules["threading"].enumerate()}
    names = []
    for thread in map(int, os.listdir("/proc/self/task")):
        try:
            with open(f"/proc/self/task/{thread}/stat") as file:
                name, _, fields = file.read().partition("(")[2].rpartition(")")
        except OSError:  # it has ended
            continue
        if thread != os.getpid() and not int(fields.split()[6]) & PF_EXITING:
            names.append(of_python.get(thread, name))
    return names


def open_fds():
    """The open descriptors and their targets, without the descriptor that reads the directory."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            pass
    return found


def running_children():
    running = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                name, _, fields = file.read().partition("(")[2].rpartition(")")
        except OSError:  # it has ended
            continue
        state, parent = fields.split()[:2]
        if int(parent) == os.getpid() and state != "Z":
            running.append(f"{name} (pid {pid})")
    return running


def state_of(path):
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def is_installed(path):
    """Of Python, or of a package that was installed: such files are not edited."""
    standard = os.path.dirname(os.__file__) + os.sep
    return path.startswith(standard) or not {"site-packages", "dist-packages"}.isdisjoint(path.split(os.sep))


def watched_paths(names):
    """The files of these modules and of all that are not installed."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType):
            values = object.__getattribute__(module, "__dict__")  # imports nothing that is loaded late
            path = getattr(values.get("__loader__"), "archive", values.get("__file__"))  # the zip file, if it is in one
            if path and (name in names or not is_installed(path)):
                yield path


def import_modules(names):
    """Returns the source files that are watched, with their states before they were read: one may be edited meanwhile."""
    states = {}
    loader = importlib.machinery.SourceFileLoader
    path_stats = loader.path_stats

    def path_stats_with_state(self, path):  # what an import calls first
        states[path] = state_of(path)
        return path_stats(self, path)

    loader.path_stats = path_stats_with_state
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:
            traceback.print_exc()
            reason = " ".join(traceback.format_exception_only(type(error), error)[-1].split())
            sys.exit(f"cannot import {name}: {reason}")
    loader.path_stats = path_stats
    return {path: states.get(path) or state_of(path) for path in watched_paths(names)}


def origins_of_modules():
    """The files of the top-level modules that were found in the module path, and are neither built in nor frozen. Each
    interpreter also looks for the first two, so a program may have them although the zygote has not."""
    origins = {"sitecustomize": "", "usercustomize": ""}
    for name, module in list(sys.modules.items()):
        if "." not in name and isinstance(module, types.ModuleType):
            spec = object.__getattribute__(module, "__dict__").get("__spec__")
            if spec and spec.has_location:
                origins[name] = spec.origin
    return origins


def entries_without_finder():
    """Entries of the module path that were no directories when they were searched. The finder of a directory notices
    changes."""
    return [entry for entry, finder in sys.path_importer_cache.items()
            if not isinstance(finder, importlib.machinery.FileFinder)]


def have_sources_changed():
    return any(state_of(path) != state for path, state in sources.items())


def await_end(pid):
    """A module may have set that the kernel or a handler reaps children."""
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass


def end_library_threads():
    """OpenBLAS ends its threads before a fork, and starts them again when they are needed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns about the threads
        pid = os.fork()
    if pid == 0:
        os._exit(0)
    await_end(pid)


def user_and_limits():
    """What a shim would share with the zygote: the user, and hard limits, which only privileges raise again."""
    hard = [resource.getrlimit(limit)[1] for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_CPU)]
    return os.getresuid(), os.getresgid(), hard


def check_is_forkable(before, user):
    if user_and_limits() != user:
        sys.exit("the modules have changed the user or a hard limit, which would act on the supervisors of attempts, too")
    if thread_names():
        end_library_threads()
    threads = thread_names()
    if threads:
        with open("/proc/self/comm") as file:  # which threads have that get no name of their own
            hint = "; OPENBLAS_NUM_THREADS=1 prevents those of OpenBLAS" if file.read().strip() in threads else ""
        sys.exit(f"the modules have started {len(threads)} thread{'s'[:len(threads) > 1]}, which a fork does not copy: "
                 f"{', '.join(sorted(threads)[:8])}{hint}")
    opened = {fd: name for fd, name in open_fds().items() if before.get(fd) != name}
    if opened:
        sys.exit(f"the modules have opened {', '.join(sorted(opened.values())[:8])}, which attempts cannot share")
    started = running_children()
    if started:
        sys.exit(f"the modules have started processes, whose parent an attempt would not be: {', '.join(started[:8])}")


def end_subreaper():
    """A subreaper would adopt the shims in place of the guard. Returns whether a module has made this process one: its
    tasks become one again."""
    was_subreaper = ctypes.c_int()
    libc = ctypes.CDLL(None)
    libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(was_subreaper))
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0)
    return bool(was_subreaper.value)


def close_all_but(kept):
    for fd in open_fds():
        if fd not in kept:
            try:
                os.close(fd)
            except OSError:
                pass


def move_fds(fds, numbers, kept):
    """Gives the descriptors these numbers, and closes all others but `kept`."""
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH) for fd in fds]
    for fd, number in zip(high, numbers):
        os.dup2(fd, number, inheritable=True)
    close_all_but({*numbers, *kept})


def receive(connection):
    text, fds, _flags, _address = socket.recv_fds(connection, 256, 16)
    return text.decode().split(), fds


def become_shim(words, fds, child, pid):
    """The process between zygote and task: it is the task's parent and becomes its shim."""
    program = fcntl.fcntl(fds[0], fcntl.F_DUPFD_CLOEXEC, HIGH)
    null = os.open(os.devnull, os.O_RDWR)
    signal.pthread_sigmask(signal.SIG_SETMASK, NODE_SIGNALS)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:  # exec passes on which are ignored
        signal.signal(number, signal.SIG_DFL)
    move_fds([null, null, null, *fds[1:], child.detach()], [0, 1, 2, *map(int, words[1:]), CHILD], {program})
    os.execve(program, ["tfc-shim", str(pid)], {})


def fork_shim(words, fds, guard):
    """Returns only in the task's process: the socket to its shim."""
    if os.fork():
        os._exit(0)  # the guard adopts the shim
    guard.close()
    os.setsid()
    for_shim, for_task = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    shim = os.getpid()
    pid = os.fork()
    if pid:
        become_shim(words, fds, for_shim, pid)
    for_shim.close()
    for fd in fds:
        os.close(fd)
    if ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) < 0 or os.getppid() != shim:
        os._exit(127)
    return for_task


def fork_task(words, fds, guard):
    """In the task's process: the socket to its shim. In the zygote: None."""
    try:
        intermediate = os.fork()
    except OSError as error:  # for now; the shim's socket ends, and another shim starts the task
        print(f"cannot fork: {error}", file=sys.stderr, flush=True)
        return None
    if intermediate:
        await_end(intermediate)
        return None
    try:
        return fork_shim(words, fds, guard)
    except BaseException:  # the shim's socket ends, and another shim starts the task
        traceback.print_exc()
        os._exit(127)


def serve(guard):
    guard.send(b"ready")
    while True:
        words, fds = receive(guard)
        if not words or have_sources_changed():
            os._exit(0)  # another zygote imports them again
        if words[0] == "fork" and len(fds) == len(words):
            child = fork_task(words, fds, guard)
            if child:
                return child
        for fd in fds:
            os.close(fd)


# ---- in the task's process


def read_program(fd):
    """argv, directory and environment."""
    size = os.fstat(fd).st_size
    data = b""
    while len(data) < size:
        data += os.pread(fd, size - len(data), len(data))
    count, cwd, *rest = data.split(b"\0")[:-1]
    return [os.fsdecode(word) for word in rest[:int(count)]], cwd, rest[int(count):]


def python_path():
    """The directories of PYTHONPATH, as the module site enters them in sys.path."""
    path = os.environ.get("PYTHONPATH", "")
    return [os.path.abspath(directory) for directory in path.split(os.pathsep)] if path else []


def path_of_task(of_zygote):
    """Its PYTHONPATH. Directories that the zygote lacks are relative ones, that of the bundle, and that of
    python_stacks.py, which would not stay in the path."""
    return [directory for directory in python_path()
            if directory in of_zygote or os.path.basename(directory) != STACKS]


def enter_python_path(of_task, of_zygote):
    """Instead of the zygote's."""
    sys.path[:] = dict.fromkeys([*of_task, *(directory for directory in sys.path if directory not in of_zygote)])
    for entry in outdated_entries:
        sys.path_importer_cache.pop(entry, None)
    zipimport._zip_directory_cache.clear()


def is_same_file(one, other):
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def are_modules_replaced(directories):
    """Whether a program with these directories of its own would import a file from them in place of a module that the
    zygote has."""
    for directory in directories:
        try:
            names = {name.partition(".")[0] for name in os.listdir(directory)}
        except OSError:
            continue
        for name in names & origins.keys():
            spec = importlib.machinery.PathFinder.find_spec(name, [directory])
            if spec and spec.origin and not is_same_file(spec.origin, origins[name]):
                return True
    return False


def reseed():
    """Python's own generator is reseeded by os.fork."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random:
        numpy_random.seed()


def renew_modules():
    """What modules have remembered of the process that imported them."""
    if "tempfile" in sys.modules:
        sys.modules["tempfile"].tempdir = None
    process = sys.modules.get("multiprocessing.process")
    if process:
        process.ORIGINAL_DIR = os.getcwd()  # where the processes begin that it spawns
        process.current_process().authkey = os.urandom(32)
    logging = sys.modules.get("logging")
    if logging:  # since when it counts; from Python 3.13 on in ns
        logging._startTime = time.time_ns() if isinstance(logging._startTime, int) else time.time()
    if "threading" in sys.modules:
        sys.modules["threading"].main_thread()._set_native_id()


def changes_of_environment(before):
    """What the modules have set, and what they have removed."""
    after = dict(os.environb)
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    return changed, before.keys() - after.keys()


def set_environment(variables):
    """The task's, with what the modules have changed, as if the task had imported them.

    A variable that the zygote did not have keeps the task's value. PYTHONPATH has directories of the task.
    """
    os.environ.clear()
    for variable in variables:
        name, _, value = variable.partition(b"=")
        os.environb[name] = value
    for name, value in changed_variables.items():
        if name != b"PYTHONPATH" and (name in variables_before or name not in os.environb):
            os.environb[name] = value
    for name in removed_variables - {b"PYTHONPATH"}:
        os.environb.pop(name, None)


def show_command_line(arguments):
    """For ps, instead of the source of the zygote: as setproctitle(3), in the memory of the command line (proc(5)).

    If its last byte is not NUL, the kernel shows a string. The C library prints the interpreter's name from there.
    """
    with open("/proc/self/stat", "rb") as file:
        start, end = map(int, file.read().rpartition(b")")[2].split()[45:47])
    text = b" ".join(map(os.fsencode, [sys.orig_argv[0], *arguments]))[:min(SHOWN, end - start - 2)]
    if start:
        ctypes.memmove(start, text + b"\0", len(text) + 1)
        ctypes.memset(end - 1, 1, 1)


def become_task(shim):
    words, fds = receive(shim)
    if not words or words[0] != "start" or len(fds) != len(words):
        os._exit(127)
    argv, cwd, variables = read_program(fds[0])
    zygote_path, zone = python_path(), os.environ.get("TZ")
    set_environment(variables)
    if is_subreaper:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    os.chdir(cwd)
    answer = fcntl.fcntl(shim.detach(), fcntl.F_DUPFD_CLOEXEC, HIGH)
    numbers = [int(word) for word in words[1:]]
    move_fds(fds[1:], numbers, {0, answer})
    connection = socket.socket(fileno=answer)
    if zone != os.environ.get("TZ"):
        time.tzset()
    task_path = path_of_task(zygote_path)
    enter_python_path(task_path, zygote_path)
    reseed()
    renew_modules()
    show_command_line(argv[1:])
    connection.send(b"started")
    connection.close()
    # The zygote's modules are not those that the program would import: it starts like a cold one.
    own = [directory for directory in task_path if directory not in zygote_path]
    if not has_safe_path():
        own.append(program_directory(words_of(argv)) or os.getcwd())
    if have_sources_changed() or are_modules_replaced(own):
        os.execve(sys.executable, argv, dict(variable.split(b"=", 1) for variable in variables))
    return argv


def words_of(argv):
    """The program and its arguments. Of -u, PYTHONUNBUFFERED has the effect already."""
    words = argv[1:]
    while words[0] == "-u":
        del words[0]
    return words


def has_safe_path():
    return getattr(sys.flags, "safe_path", False)  # PYTHONSAFEPATH


def program_directory(words):
    """What the interpreter enters in the module path for this program."""
    if words[0] in ("-c", "-m"):
        return "" if words[0] == "-c" else os.getcwd()
    return os.path.dirname(os.path.realpath(words[0]))


def new_main():
    main = types.ModuleType("__main__")
    main.__builtins__ = __builtins__
    main.__loader__ = importlib.machinery.BuiltinImporter
    if "__annotations__" in globals():
        main.__annotations__ = {}
    for name in {"__main__", "__mp_main__"} & sys.modules.keys():  # the second is a name of multiprocessing for it
        sys.modules[name] = main
    return main


def prepare_script(path):
    path = os.path.join(os.getcwd(), path)
    main = new_main()
    main.__file__ = path
    main.__cached__ = None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        print(f"{sys.orig_argv[0]}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        sys.exit(2)
    return lambda: exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)


def compile_text(text):
    """The program of -c. From Python 3.13 on, tracebacks show its lines; 3.13.0 looks them up by the file name."""
    code = compile(text, "<string>", "exec", dont_inherit=True)
    if hasattr(linecache, "_register_code"):
        linecache._register_code("<string>" if "<string>" in linecache.cache else code, text, "<string>")
    return code


def prepare(argv):
    """What runs the program that this command line names, as the interpreter itself would."""
    words = words_of(argv)
    sys.orig_argv = argv
    if not has_safe_path():
        sys.path.insert(0, program_directory(words))
    if words[0] == "-m":
        sys.argv = ["-m", *words[2:]]
        new_main()
        return lambda: runpy._run_module_as_main(words[1])
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        main = new_main()
        return lambda: exec(compile_text(words[1]), main.__dict__)
    sys.argv = words
    return prepare_script(words[0])


def cut_own_frames(error):
    """The traceback begins with the program's frames then, as in an interpreter that nothing has called."""
    tb = error.__traceback__
    while tb and tb.tb_frame.f_globals is globals():
        tb = tb.tb_next
    return error.with_traceback(tb)


def end_with(code):
    """Sets the exit status for end_program from the code of a SystemExit."""
    global status
    if isinstance(code, int):
        status = code & 0xff if -2**63 <= code < 2**63 else 255  # as a C long
    else:
        status = 0 if code is None else 1


def release_own_modules():
    """Removes the program's modules in the interpreter's order: finalizers of objects that only a module refers to can
    still use all names of that module."""
    own = {name: module for name, module in sys.modules.items() if id(module) not in shared_modules}
    left = [weakref.ref(module) for module in own.values() if isinstance(module, types.ModuleType)]
    sys.modules.update(dict.fromkeys(own))
    own.clear()
    gc.collect()
    for module in filter(None, (reference() for reference in reversed(left))):
        names = vars(module)
        for name in sorted(names, key=lambda name: not (name[:1] == "_" and name[1:2] != "_")):
            if name != "__builtins__":
                names[name] = None


def finalize(objects):
    """Calls each finalizer once, as the garbage collector does. Files write their buffers first."""
    kinds = {kind for kind in {type(each) for each in objects} if hasattr(kind, "__del__")}
    files = {kind for kind in kinds if _io._IOBase in kind.__mro__}
    for group in files, kinds - files:
        for each in objects:
            if type(each) in group and not gc.is_finalized(each):
                try:
                    each.flush() if group is files else type(each).__del__(each)
                except BaseException:  # a file is closed, a device is full
                    pass


def can_end_early():
    """Not when a signal ends the program, when its output cannot be written, or when it has left threads: the
    interpreter does not let them run while modules disappear."""
    if status is None or len(sys._current_frames()) > 1:
        return False
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:
        return False
    return True


def end_program():
    """The last exit handler: ends the process as the interpreter would, but releases only what the program has made.

    What the zygote has imported shares its memory with the other attempts, and to release it would copy that memory.
    Objects of the program to which the shared modules refer are only finalized.
    """
    if not can_end_early():
        gc.unfreeze()
        return
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
    sys.last_exc = sys.last_type = sys.last_value = sys.last_traceback = None
    gc.collect()  # as the interpreter does; a writer comes before its file in the next collection then
    release_own_modules()
    gc.collect()
    finalize(gc.get_objects())
    ctypes.PyDLL(None).exit(status)


def show(error):
    """What the interpreter does about an exception that nothing has handled."""
    kind, tb = type(error), cut_own_frames(error).__traceback__
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, tb
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        sys.excepthook(kind, error, tb)
    except SystemExit:
        raise
    except BaseException as failure:
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(failure), cut_own_frames(failure), failure.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(kind, error, tb)


def failure_of(program):
    """The exception that the program has raised, or None."""
    try:
        program()
    except SystemExit:
        raise
    except KeyboardInterrupt as error:  # the interpreter ends by the signal then
        hook, tb = sys.excepthook, cut_own_frames(error).__traceback__
        sys.excepthook = lambda kind, error, _tb: hook(kind, error.with_traceback(tb), tb)
        raise
    except BaseException as error:
        return error


def run_to_end(program):
    """Returns whether the program has failed. sys.excepthook runs when the exception is no longer being handled, as in
    the interpreter."""
    failure = failure_of(program)
    if failure is None:
        return False
    try:
        show(failure)
    finally:
        del failure  # its traceback refers to this frame
    return True


def run(program):
    try:
        has_failed = run_to_end(program)
    except SystemExit as error:
        end_with(error.code)
        raise
    end_with(1 if has_failed else 0)
    if has_failed:
        raise SystemExit(1)


show_command_line(["tfc-zygote", *sys.argv[1:]])
status = None
atexit.register(end_program)  # before the handlers of all modules, and so after them
if sys.path and sys.path[0] == "":
    del sys.path[0]  # of -c; attempts have the directories of their own programs
faulthandler.register(58, file=2, all_threads=True, chain=False)  # see python_stacks.py
fds_before, variables_before = open_fds(), dict(os.environb)
user_before = user_and_limits()
gc_threshold = gc.get_threshold()
gc.set_threshold(0)
sources = import_modules(sys.argv[1:])
check_is_forkable(fds_before, user_before)
changed_variables, removed_variables = changes_of_environment(variables_before)
is_subreaper = end_subreaper()
origins = origins_of_modules()
outdated_entries = entries_without_finder()
shared_modules = {id(module): module for module in sys.modules.values()}
gc.freeze()
if gc.get_threshold()[0] == 0:  # no module has set it
    gc.set_threshold(*gc_threshold)
sys.stdout.flush()
sys.stderr.flush()
ctypes.CDLL(None).fflush(None)
run(prepare(become_task(serve(socket.socket(fileno=GUARD)))))
