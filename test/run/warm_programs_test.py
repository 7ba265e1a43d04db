"""Programs that are run cold and warm: a forked one prints, leaves and ends as one that was executed."""
import os
import pathlib
import re
import sys

import clients_test
import harness

# Modules that the programs import, too: what they do to these must not differ either.
WARM = "asyncio,concurrent.futures,ctypes,inspect,logging,multiprocessing.pool,multiprocessing.managers,tempfile,unittest"

# What an interpreter has set up when it starts a program.
STATE = '''
"""the text of the module"""
import ctypes, gc, locale, os, re, resource, signal, sys, tempfile, threading, time, warnings
import multiprocessing, multiprocessing.process
main = sys.modules["__main__"]
before = sorted(set(globals()))
print("names", before, __doc__, __package__, __cached__, sorted(vars(main)) == sorted(globals()), repr(main))
print("path", sys.path, sys.meta_path, sys.path_hooks, sys.prefix, sys.flags)
print("streams", *((s.name, s.encoding, s.errors, s.line_buffering, s.write_through, s.mode, s.fileno(), s.isatty())
                   for s in (sys.stdin, sys.stdout, sys.stderr)))
print("hooks", sys.excepthook, sys.displayhook, sys.breakpointhook, sys.unraisablehook, threading.excepthook, sys.gettrace())
print("limits", sys.getrecursionlimit(), sys.getswitchinterval(), threading.stack_size(), gc.isenabled(), gc.get_threshold(),
      gc.get_debug(), gc.garbage, *(resource.getrlimit(getattr(resource, name)) for name in dir(resource) if "RLIMIT_" in name))
print("signals", *(signal.getsignal(number) for number in signal.valid_signals() - {58, 59}))
print("warnings", [(action, category.__name__, module) for action, _, category, module, _ in warnings.filters], sys.warnoptions)
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
print("status", *(status[name].strip() for name in ("Name", "Umask", "State", "Uid", "Gid", "FDSize", "Groups", "Threads",
      "SigPnd", "ShdPnd", "SigBlk", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp",
      "Cpus_allowed", "Mems_allowed")))
def own(name):
    return open(f"/proc/self/{name}").read().strip()
print("process", own("comm"), own("oom_score_adj"), own("coredump_filter"), own("timerslack_ns"), os.getpriority(0, 0),
      os.sched_getscheduler(0), ctypes.CDLL(None).prctl(3), own("personality"))
print("threads", threading.main_thread().native_id == os.getpid(), threading.main_thread().name, threading.enumerate(),
      threading.main_thread().ident == threading.get_ident(), multiprocessing.current_process(),
      multiprocessing.parent_process(), multiprocessing.get_start_method(), multiprocessing.active_children())
print("places", locale.setlocale(locale.LC_ALL), time.tzname, os.path.realpath(tempfile.gettempdir()), os.path.expanduser("~"))
import logging
age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(own("stat").rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
since = logging.makeLogRecord({}).relativeCreated / 1000
print("age", since < age + 0.02 or (since, age))
print("caught", sys.exc_info(), getattr(sys, "last_value", None), len(sys._current_frames()))
'''

CLASSES = '''
import concurrent.futures, multiprocessing, os, pickle, sys
class Point:
    def __init__(self, x): self.x = x
    def __repr__(self): return f"Point({self.x})"
    def moved(self): return Point(self.x + 1)
def moved(point): return point.moved()
def put(queue, point): queue.put((point.moved(), __name__, multiprocessing.current_process().name))
def getcwd(_): return os.getcwd()
def main():
    print(pickle.loads(pickle.dumps([Point(1), moved])), Point.__module__, Point, flush=True)
    for method in ("spawn", "fork", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=put, args=(queue, Point(2)))
        process.start()
        print(method, queue.get(timeout=30), flush=True)
        process.join()
        with context.Pool(2) as pool:
            print(process.exitcode, pool.map(moved, [Point(3), Point(4)]), flush=True)
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            print(os.getcwd(), list(pool.map(getcwd, [1])), flush=True)
        with context.Manager() as manager:
            print(manager.list([Point(6)]), flush=True)
        process = context.Process(target=sys.exit, args=(3,))
        process.start()
        process.join()
        print(process.exitcode, flush=True)
if __name__ == "__main__":
    main()
'''

SOURCES = '''
import inspect, sys, traceback
class Thing:
    """A thing."""
    def f(self):
        return 1
def outer():
    print(inspect.getframeinfo(inspect.currentframe())[1:], [entry.function for entry in inspect.stack()][:2])
    traceback.print_list(traceback.extract_stack()[-2:])  # a forked program has more
outer()
print(inspect.getsource(outer), inspect.getsource(Thing), inspect.getdoc(Thing))
print(inspect.getmodule(Thing), inspect.getsourcefile(Thing), inspect.getfile(outer), inspect.getsourcelines(Thing.f))
print(__loader__.get_filename("__main__") == __file__, __loader__.get_source("__main__") == open(__file__).read())
'''

# Of each end: what it prints, its traceback, and its status. Where a line of it must be there, it is given.
ENDS = {
    "sys.exit(None)": "import sys; sys.exit(None)",
    "sys.exit(259)": "import sys; sys.exit(259)",
    "sys.exit(-1)": "import sys; sys.exit(-1)",
    "sys.exit(True)": "import sys; sys.exit(True)",
    "sys.exit of a tuple": "import sys; sys.exit((1, 'two'))",
    "sys.exit of an object": "import sys\nclass E:\n    def __str__(self): return 'text of an object'\nsys.exit(E())",
    "SystemExit of another class": "class E(SystemExit): pass\nE.code = 5\nraise E('x')",
    "SystemExit whose code was set": "e = SystemExit(); e.code = 6\nraise e",
    "exit": "exit(4)",
    "an exception from another": "def f():\n    raise KeyError('a')\ntry:\n    f()\nexcept KeyError as error:\n"
                                 "    error.add_note('a note')\n    raise ValueError('b') from error",
    "an exception in its handler": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    print(undefined)",
    "a group": "raise ExceptionGroup('two', [ValueError(1), TypeError('x')])",
    "an exception of a module": "import json\njson.loads('{')",
    "an exception of the program's own class": "class E(Exception): pass\nraise E('x')",
    "an exception with a broken text": "class E(Exception):\n    def __str__(self): return 1 / 0\nraise E",
    "a syntax error": "x = 1\ndef f(:\n    pass",
    "a syntax error of a module": "exec('1 +')",
    "another encoding": b"# -*- coding: latin-1 -*-\nprint(ascii('\xe4'))",
    "a byte order mark": b"\xef\xbb\xbfprint(1)",
    "lines of Windows": b"print(1)\r\nraise ValueError(\r\n  2)\r\n",
    "a missing module": "import no_such_module",
    "an exception hook": "import sys\ndef hook(kind, error, tb): print('hook', kind, error, tb.tb_lineno, tb.tb_next)\n"
                         "sys.excepthook = hook\n1 / 0",
    "an exception hook that fails": "import sys\ndef hook(*_): raise ValueError('in the hook')\nsys.excepthook = hook\n1 / 0",
    "an exception hook that exits": "import sys\ndef hook(*_): sys.exit(9)\nsys.excepthook = hook\n1 / 0",
    "an exit handler sees the last exception": "import atexit, sys\n"
                                               "names = 'last_exc', 'last_type', 'last_value'\n"
                                               "atexit.register(lambda: print([repr(getattr(sys, name, None)) for name in names]))\n"
                                               "raise ValueError('x')",
    "warnings": "import warnings\nwarnings.warn('old', DeprecationWarning)\nwarnings.warn('seen')\nx = 1 is 1\nassert (1, 2)",
    "KeyboardInterrupt": "def f(): raise KeyboardInterrupt\nf()",
    "SIGINT": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(60)",
    "SIGINT that is caught": "import os, signal, time\ntry:\n    os.kill(os.getpid(), signal.SIGINT); time.sleep(60)\n"
                             "except KeyboardInterrupt:\n    print('caught'); raise SystemExit(7)",
    "KeyboardInterrupt and an exit handler": "import atexit\natexit.register(print, 'bye')\nraise KeyboardInterrupt('x')",
    "SIGTERM": "import os, signal, time\nprint('before', flush=True)\nos.kill(os.getpid(), signal.SIGTERM); time.sleep(60)",
    "SIGTERM that is handled": "import os, signal, sys, time\ndef f(*_): print('handled'); sys.exit(8)\n"
                               "signal.signal(signal.SIGTERM, f)\nos.kill(os.getpid(), signal.SIGTERM); time.sleep(60)",
    "SIGTERM that is ignored": "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                               "os.kill(os.getpid(), signal.SIGTERM); print('alive')",
    "SIGKILL": "import os; os.kill(os.getpid(), 9)",
    "a segmentation fault": "import ctypes; ctypes.string_at(0)",
    "os.abort": "import os; os.abort()",
    "os._exit": "import atexit, os, sys\natexit.register(print, 'never'); print('lost'); sys.stderr.write('kept'); os._exit(3)",
    "exit handlers": "import atexit\nfor i in range(3): atexit.register(print, i)\natexit.unregister(len)",
    "an exit handler that fails": "import atexit\natexit.register(print, 'after')\natexit.register(lambda: 1 / 0)",
    "an exit handler that exits": "import atexit, sys\natexit.register(print, 'after')\natexit.register(sys.exit, 5)",
    "an exit handler of a failed program": "import atexit\natexit.register(print, 'bye')\n1 / 0",
    "an exit handler that registers another": "import atexit\natexit.register(lambda: atexit.register(print, 'second'))",
    "weakref.finalize": "import weakref\nclass A: pass\na = A()\nweakref.finalize(a, print, 'finalized')",
    "a thread": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()\n"
                "import atexit; atexit.register(print, 'after the thread')",
    "a thread of a failed program": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.1), print('late')))"
                                    ".start()\n1 / 0",
    "a thread that fails": "import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start(); t.join(); print('on')",
    "a thread that exits": "import sys, threading\nt = threading.Thread(target=sys.exit, args=(3,)); t.start(); t.join()",
    "a daemon thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "a daemon thread that computes": "import threading\ndef f():\n    n = 0\n    while True: n += len(str(n))\n"
                                     "for _ in range(3): threading.Thread(target=f, daemon=True).start()",
    "a file, and a daemon thread that computes": "import threading\ndef f():\n    while True: pass\n"
                                                 "threading.Thread(target=f, daemon=True).start()\n"
                                                 "file = open('/dev/null', 'w'); file.write('text')",
    "a daemon thread that prints": "import threading\nwrote = threading.Event()\n"
                                   "def f():\n    while True: open('/dev/null', 'w').write('x'); wrote.set()\n"
                                   "threading.Thread(target=f, daemon=True).start(); wrote.wait()",
    "an executor": "import concurrent.futures, time\npool = concurrent.futures.ThreadPoolExecutor(2)\n"
                   "pool.submit(lambda: (time.sleep(0.1), print('done')))",
    "a coroutine that was never awaited": "async def f(): pass\nf()",
    "a task that was never awaited": "import asyncio\nasync def f(): asyncio.get_running_loop().create_task(g())\n"
                                     "async def g():\n    try: await asyncio.sleep(60)\n    finally: print('cancelled')\n"
                                     "asyncio.run(f())",
    "a generator that was never closed": "def f():\n    try: yield 1\n    finally: print('closed')\ng = f(); next(g)",
    "a child that outlives": "import subprocess\nsubprocess.Popen(['sh', '-c', 'echo child'], stdin=subprocess.DEVNULL).wait()",
    "a fork": "import os, sys\nif os.fork() == 0: print('child'); sys.exit(3)\nprint('parent', os.wait()[1])",
    "a fork with exit handlers": "import atexit, os, sys\natexit.register(print, 'bye')\n"
                                 "if os.fork() == 0: sys.exit(0)\nprint(os.wait()[1])",
    "exec": "import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'import sys; sys.exit(4)'])",
    "objects of the program": "class A:\n    def __init__(self, name): self.name = name\n"
                              "    def __del__(self): print('del', self.name)\na = A('a'); _b = A('b'); __c = A('c'); d = A('d')",
    "a cycle": "class A:\n    def __del__(self): print('del')\na = A(); a.a = a",
    "a cycle of the program's last name": "class A:\n    def __del__(self): print('del', type(self).__name__)\n"
                                          "def f():\n    a = A(); a.a = a\nf()",
    "an object of a class": "class A:\n    def __del__(self): print('del')\nclass B: a = A()",
    "an object of a default": "class A:\n    def __del__(self): print('del')\ndef f(a=A()): pass",
    "an object that fails at the end": "exec(compile('class A:\\n def __del__(self): 1 / 0', 'no file', 'exec'))\na = A()",
    "an object of a failed program": "class A:\n    def __del__(self): print('del')\ndef f():\n    a = A(); 1 / 0\nf()",
    "an object of a shared module": "import logging\nclass A:\n    def __del__(self): print('del')\nlogging.kept = A()",
    "an object of builtins": "import builtins\nclass A:\n    def __del__(self): print('del')\nbuiltins.kept = A()",
    "an object of a registry": "import logging\nclass A(logging.Handler):\n"
                               "    def close(self): print('close'); super().close()\nlogging.getLogger().addHandler(A())",
    "an object of its own module": "import module\nclass A:\n    def __del__(self): print('del')\nmodule.kept = A()",
    "output without a newline": "import sys\nprint('out', end=''); sys.stderr.write('err')",
    "output of another descriptor": "import os\nf = os.fdopen(os.dup(1), 'w'); f.write('never flushed\\n')",
    "output of C": "import ctypes; ctypes.CDLL(None).printf(b'of C\\n')",
    "output that cannot be written": "import os, sys\nsys.stdout.write('x'); os.close(1)",
    "output to a full device": "import os\nos.dup2(os.open('/dev/full', os.O_WRONLY), 1); print('x')",
    "a closed stream": "import sys\nprint('x'); sys.stdout.close()",
    "streams that are replaced": "import io, sys\nsys.stdout = io.TextIOWrapper(open('left', 'wb')); print('x')",
    "no streams": "import sys\nsys.stdout = sys.stderr = None; print('x')",
    "a stream that fails": "import sys\nclass S:\n    def write(self, text): pass\n    def flush(self): raise OSError('full')\n"
                           "sys.stdout = S()",
    "a file that was never closed": "f = open('left', 'w'); f.write('text')",
    "a file of a function": "def f():\n    file = open('left', 'w'); file.write('text'); f.kept = file\nf()",
    "a file in a cycle": "def f():\n    a = [open('left', 'w')]; a.append(a); a[0].write('text')\nf()",
    "a file of a failed program": "def f():\n    file = open('left', 'w'); file.write('text'); 1 / 0\nf()",
    "a file of a shared module": "import logging\nlogging.kept = open('left', 'w'); logging.kept.write('text')",
    "a file of a class of a shared module": "import logging\nlogging.Handler.kept = open('left', 'w')\n"
                                            "logging.Handler.kept.write('text')",
    "a file of sys": "import sys\nsys.kept = open('left', 'w'); sys.kept.write('text')",
    "a file of builtins": "import builtins\nbuiltins.kept = open('left', 'w'); builtins.kept.write('text')",
    "a file of a thread": "import threading\ndef f(): local.file = open('left', 'w'); local.file.write('text'); wait.set(); on.wait()"
                          "\nlocal, wait, on = threading.local(), threading.Event(), threading.Event()\n"
                          "threading.Thread(target=f, daemon=True).start(); wait.wait()",
    "a log file": "import logging\nlogging.basicConfig(filename='left', level=0, format='%(message)s')\nlogging.info('text')\n"
                  "logging.getLogger('x').warning('more')",
    "temporary files": "import os, tempfile\nd = tempfile.TemporaryDirectory(dir='.'); f = tempfile.NamedTemporaryFile(dir='.')\n"
                       "import atexit; atexit.register(lambda: print(len([n for n in os.listdir() if n.startswith('tmp')])))",
    "a queue that was never closed": "import multiprocessing\nq = multiprocessing.Queue(); q.put('x' * 100000); print(len(q.get()))",
    "a pool that was never closed": "import multiprocessing\npool = multiprocessing.Pool(1); print(pool.map(len, ['abc']))",
    "shared memory that was never unlinked": "from multiprocessing import shared_memory\n"
                                             "m = shared_memory.SharedMemory(create=True, size=10); m.buf[0] = 1",
    "input": "try: input('? ')\nexcept EOFError as error: print(repr(error))",
    "a test": "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(1, 2)\nunittest.main()",
    "a name at the end": "import atexit, sys\nclass A:\n    def __del__(self): print(sys and 'sys', name)\nname = 'name'; a = A()",
}


def normal(text):
    """Without what differs between two runs of one program."""
    text = re.sub(r"0x[0-9a-f]{6,}|started \d+", "0x", text)
    text = re.sub(r"in \d\.\d+s", "in s", text)
    return re.sub(r"psm_[0-9a-f]+|tmp[a-z0-9_]{8}\b", "name", text)


class ProgramsTest(clients_test.ClientsTest):
    maxDiff = None
    at_once = 4

    def setUp(self):
        super().setUp()
        self.work = pathlib.Path(self.dir, "work")
        self.work.mkdir()

    def directory(self, name):
        path = self.work / re.sub(r"[^a-zA-Z0-9]+", "-", name)
        if not path.exists():
            path.mkdir()
        return path

    def script(self, name, text):
        """The command line of a program with a directory of its own."""
        path = self.directory(name) / "program.py"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return [str(path)]

    def begin_program(self, name, words, *options):
        return self.begin("start", "--json", "--framework", "none", "--restart", "0", "--env", "PYTHONPATH=.",
                          "--cwd", str(self.directory(name)), *options, "--", sys.executable, *words)

    def seen_of(self, name, run):
        """Of a program that has ended: its two streams, how it ended, and the files that it left."""
        events = run.end().events()
        self.assertEqual([event for event in events if "starts cold" in event.get("text", "")], [])
        streams = {name: [normal(event["text"]) for event in events if event["event"] == "output" and event["stream"] == name]
                   for name in ("stdout", "stderr")}
        ends = [{key: event.get(key) for key in ("state", "exit", "signal", "reason")}
                for event in events if event["event"] == "task" and event["state"] in ("exited", "failed", "lost", "stopped")]
        self.assertEqual(len(ends), 1, events)
        left = {path.name: path.read_bytes() for path in self.directory(name).glob("left*")}
        for file in left:
            os.unlink(self.directory(name) / file)
        return {**streams, **ends[0], "left": left}

    def run_all(self, programs, *options):
        seen, begun = {}, []
        for name, words in programs.items():
            begun.append((name, self.begin_program(name, words, *options)))
            if len(begun) == self.at_once:
                first, run = begun.pop(0)
                seen[first] = self.seen_of(first, run)
        seen.update({name: self.seen_of(name, run) for name, run in begun})
        return seen

    def assert_same(self, programs, *options):
        """Returns what was seen of each."""
        cold, warm = self.run_all(programs, *options), self.run_all(programs, *options, "--warm", WARM)
        for name in programs:
            with self.subTest(name):
                self.assertEqual(warm[name], cold[name])
        return cold

    def test_an_interpreter_looks_the_same(self):
        seen = self.assert_same({"state": self.script("state", STATE)})["state"]
        self.assertEqual((len(seen["stdout"]), seen["stderr"], seen["exit"]), (13, [], 0))

    def test_a_program_has_the_same_module_path(self):
        """For "--on-stall stacks", the library enters a directory of its own in PYTHONPATH, and removes it from the path."""
        text = "import sys; print(sys.path, __loader__, __spec__)"
        (self.directory("module") / "module.py").write_text(text)
        programs = {"script": self.script("script", text), "code": ["-c", text], "module": ["-m", "module"]}
        for options in (["--stall", "100", "--on-stall", "stacks"], ["--env", "PYTHONSAFEPATH=1"],
                        ["--env", "PYTHONPATH=relative::/absent"]):
            for name, seen in self.assert_same(programs, *options).items():
                self.assertEqual((len(seen["stdout"]), seen["stderr"], seen["exit"]), (1, [], 0), name)

    def test_the_path_of_a_script_is_not_simplified(self):
        """The parent of a symbolic link's target is another directory than that in which the link is."""
        text = "import sys; print(__file__, sys.path[0], sys.argv)"
        for name in "linked", "linked/a", "linked/a/b":
            (self.work / name).mkdir()
        (self.work / "linked" / "a" / "program.py").write_text(text)
        (self.work / "linked" / "program.py").write_text("print('another program')")
        (self.work / "linked" / "link").symlink_to("a/b")
        (self.work / "plain").mkdir()
        (self.work / "plain" / "program.py").write_text(text)
        seen = self.assert_same({"linked": ["link/../program.py"], "plain": ["./program.py"]})
        self.assertEqual([each["stdout"][0].split()[0] for each in seen.values()],
                         [f"{self.work}/linked/link/../program.py", f"{self.work}/plain/./program.py"])

    def test_classes_of_the_program_reach_its_processes(self):
        package = self.directory("module") / "package"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "part.py").write_text(CLASSES)
        programs = {"script": self.script("script", CLASSES), "module": ["-m", "package.part", "x"]}
        for name, seen in self.assert_same(programs).items():
            self.assertEqual((len(seen["stdout"]), seen["stderr"], seen["exit"]), (16, [], 0), name)

    def test_a_program_finds_its_source(self):
        seen = self.assert_same({"script": self.script("script", SOURCES), "code": ["-c", SOURCES]})
        self.assertIn("True True", seen["script"]["stdout"])

    def test_modules_and_code(self):
        modules = self.directory("modules")
        (modules / "no_main").mkdir()
        (modules / "no_main" / "__init__.py").write_text("")
        (modules / "failing.py").write_text("import sys\nprint(sys.argv, __spec__, __file__)\ndef f(): 1 / 0\nf()")
        cases = [["-m", "failing", "a", ""], ["-m", "no_main"], ["-m", "no_such_module"], ["-m", "no_main.part"],
                 ["-m", "timeit", "-n1", "-r1", "-s", "import sys", "sys.exit(3)"], ["-c", "def f(): 1 / 0\nf()"],
                 ["-c", "1 +"], ["-c", "print(sorted(globals()), __name__, __loader__)"], ["-c", "raise KeyboardInterrupt"],
                 ["-u", "-c", "import sys; print(sys.argv, sys.flags.unbuffered, sys.stdout.write_through)"],
                 ["-u", "-u", "-m", "failing"], ["missing.py"], ["-c", "import sys; sys.exit('text')", "-x", "--", "-u"]]
        for at in range(len(cases)):
            (self.work / str(at)).symlink_to(modules)
        self.assert_same({str(at): words for at, words in enumerate(cases)})

    def test_each_end_is_the_same(self):
        (self.directory("an object of its own module") / "module.py").write_text("")
        self.assert_same({name: self.script(name, text) for name, text in ENDS.items()})

    def test_a_stop_is_the_same(self):
        """The signal comes from outside, while the program waits."""
        text = ("import atexit, signal, sys, time\natexit.register(print, 'bye')\n"
                "{}\nprint('waits', flush=True)\nfor _ in range(600): time.sleep(0.1)")
        for handler in "", "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))":
            with self.subTest(handler):
                seen = []
                for warm in [], ["--warm", WARM]:
                    run = self.begin_program("stop", self.script("stop", text.format(handler)), *warm)
                    run.await_output("waits")
                    self.assertEqual(self.ask("stop", run.events()[0]["job"], "--wait").status, 0)
                    seen.append(self.seen_of("stop", run))
                self.assertEqual(*seen)
                self.assertEqual(seen[0]["stdout"], ["waits", "bye"] if handler else ["waits"])


if __name__ == "__main__":
    harness.main()
