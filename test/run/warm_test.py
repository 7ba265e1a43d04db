"""Warm starts: attempts that are forked from a process that has imported modules, and what they see.

What programs do in them is compared by warm_programs_test.py.
"""
import ctypes
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import unittest
import zipfile

import clients_test
import harness

ZYGOTE = pathlib.Path(__file__).parents[2] / "lib/warm/zygote.py"
MODULE = "xml.dom.minidom"  # nothing imports it unasked

PROBE = '''
import multiprocessing, os, pickle, signal, sys, threading

class Point:
    def __init__(self, x): self.x = x
    def __eq__(self, other): return self.x == other.x

def double(x): return 2 * x

def stat(name):
    return dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)[name].strip()

if __name__ == "__main__":
    main = sys.modules["__main__"]
    print("main", __name__, __file__, main.__spec__, type(main.__loader__).__name__, main.__builtins__.__name__)
    print("argv", sys.argv, sys.orig_argv, sys.path[0], os.getcwd())
    print("environment", sorted(f"{k}={v}" for k, v in os.environ.items() if k not in ("TFC_FEED", "TFC_JOB", "TFC_LOG_DIR")))
    print("descriptors", sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:-1])
    print("stdin", os.readlink("/proc/self/fd/0"), sys.stdin.read())
    print("signals", stat("SigBlk"), stat("SigIgn"), signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))
    print("process", os.getpgid(0) == os.getpid(), os.getsid(0) == os.getppid(), stat("Threads"), os.nice(0), os.umask(0o22))
    print("pickle", pickle.loads(pickle.dumps(Point(3))) == Point(3), Point.__module__)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print("spawn", pool.map(double, [1, 2]))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print("fork", pool.map(double, [1, 2]))
    print("threads", threading.main_thread() is threading.current_thread(), threading.active_count())
'''


class WarmTest(harness.RunTest):
    maxDiff = None

    def run_python(self, *words, warm=MODULE, options=(), **more):
        warm_options = ["--warm", warm] if warm else []
        return self.run_local("--framework", "none", *warm_options, *options, "--", sys.executable, *words, **more)

    def run_script(self, text, *words, **more):
        return self.run_python(self.write("script.py", text), *words, **more)

    def assert_same(self, *words, options=()):
        """A forked attempt prints, and ends, as one that was executed."""
        cold = self.run_python(*words, warm=None, options=options)
        warm = self.run_python(*words, options=options)
        self.assertEqual(warm.lines(), cold.lines())
        self.assertEqual(warm.errors(), cold.errors())
        self.assertEqual(warm.status, cold.status)
        return warm

    def test_an_attempt_has_the_modules_and_a_cold_one_has_not(self):
        text = f"import sys; print({MODULE!r} in sys.modules)"
        self.assertEqual(self.run_script(text).lines(), ["[worker/0] True"])
        self.assertEqual(self.run_script(text, warm=None).lines(), ["[worker/0] False"])

    def test_a_program_sees_what_it_would_see(self):
        script = self.write("script.py", PROBE)
        run = self.assert_same(script, "one", "", "t w o")
        self.assertEqual(len(run.lines()), 11)
        self.assert_same("-u", script, options=["--stall", "100", "--reports", "--env", "A=b"])

    def test_ps_shows_the_program(self):
        """With spaces between the arguments, and the first 4095 bytes of them."""
        script = self.write("script.py", "print(open('/proc/self/cmdline', 'rb').read())")
        run = self.run_python(script, "one", "t w o")
        self.assertEqual(run.lines(), [f"[worker/0] {f'{sys.executable} {script} one t w o'.encode() + bytes(1)}"])
        run = self.run_python(script, "x" * 100000)
        self.assertEqual(run.lines(), [f"[worker/0] {f'{sys.executable} {script} '.encode().ljust(4094, b'x') + bytes(1)}"])

    def test_random_numbers_and_keys_differ_between_attempts(self):
        run = self.run_script("import os, random, multiprocessing\n"
                              "print(random.random(), bytes(multiprocessing.current_process().authkey).hex(), flush=True)\n"
                              "if os.environ['TFC_ATTEMPT'] < '3': os.kill(os.getpid(), 9)", warm="random,multiprocessing")
        self.assertEqual([len(set(column)) for column in zip(*(line.split()[1:] for line in run.lines()))], [3, 3])

    def test_attempts_are_forked_again_after_the_zygote_was_killed(self):
        """A script cannot name its zygote: that is the process with the module as argument.

        It kills the zygote and itself. The next attempt starts cold if the node does not know yet of the zygote's
        end, so one that ends later and leaves the zygote alone comes before the last.
        """
        run = self.run_script(
            "import glob, os, signal, sys\n"
            f"print({MODULE!r} in sys.modules, flush=True)\n"
            "def text(path):\n"
            "    try: return open(path, 'rb').read()\n"
            "    except OSError: return b''\n"
            "def parent(pid):\n"
            "    try: return int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])\n"
            "    except OSError: return 0\n"
            "if os.environ['TFC_ATTEMPT'] < '3':\n"
            "    guard = parent(os.getppid())\n"
            "    for path in glob.glob('/proc/[0-9]*/cmdline'):\n"
            f"        if b' tfc-zygote {MODULE}' in text(path):\n"
            "            pid = int(path.split('/')[2])\n"
            "            if pid != os.getpid() and parent(parent(pid)) == guard: os.kill(pid, signal.SIGKILL)\n"
            "if os.environ['TFC_ATTEMPT'] < '4':\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n")
        lines = run.lines()
        self.assertEqual([line.split()[0] for line in lines], ["[worker/0]", *(f"[worker/0#{i}]" for i in (2, 3, 4))])
        self.assertEqual((lines[0].split()[1], lines[3].split()[1]), ("True", "True"))
        self.assertEqual(run.status, 0)

    def test_what_cannot_be_forked_starts_cold_and_says_why_once(self):
        self.write("with_thread.py", "import threading, time\n"
                   "threading.Thread(target=time.sleep, args=(1000,), daemon=True, name='t').start()")
        self.write("with_file.py", "file = open(__file__)")
        self.write("with_device.py", "import os; device = os.open('/dev/zero', os.O_RDONLY)")  # as one that uses a GPU has
        self.write("with_process.py", "import subprocess\n"
                   "subprocess.Popen(['sleep', '1000'], start_new_session=True, stdout=-3, stderr=-3)")
        self.write("limiting.py", "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))")
        self.write("suicidal.py", "import os; os.kill(os.getpid(), 9)")
        self.write("multiline.py", "raise ValueError('two\\nlines')")
        self.write("exiting.py", "import sys; sys.exit()")
        self.write("broken.py", "raise RuntimeError('on purpose')")
        path = ["--env", f"PYTHONPATH={self.dir}"]
        cases = [
            ("absent_module", [], "cannot import absent_module: ModuleNotFoundError: No module named 'absent_module'"),
            ("broken", path, "cannot import broken: RuntimeError: on purpose"),
            ("with_thread", path, "the modules have started 1 thread, which a fork does not copy: t (Python)"),
            ("suicidal", path, "the process was killed by signal 9 while it imported suicidal"),
            ("limiting", path, "the modules have changed the user or a hard limit, which would act on the supervisors of attempts"),
            ("with_device", path, "the modules have opened /dev/zero, which attempts cannot share"),
            ("with_process", path, "the modules have started processes, whose parent an attempt would not be: sleep (pid "),
            ("multiline", path, "cannot import multiline: ValueError: two lines"),
            ("exiting", path, "cannot import exiting: SystemExit"),
            ("with_file", path, f"the modules have opened {self.dir}/with_file.py, which attempts cannot share"),
        ]
        for module, options, reason in cases:
            with self.subTest(module):
                run = self.run_script("print('ran')", warm=module, options=["--worker", "3", *options])
                self.assertEqual(sorted(run.lines()), [f"[worker/{i}] ran" for i in range(3)])
                reports = [line for line in run.errors() if "no effect" in line]
                self.assertEqual(len(reports), 1, run.err)
                self.assertIn(f'starts cold, "warm" has no effect: {reason}', reports[0])
                self.assertEqual(run.status, 0)

    @unittest.skipUnless(os.getuid() == 0, "only root can change the user")
    def test_a_module_that_changes_the_user_starts_cold(self):
        self.write("changing.py", "import os; os.setuid(65534)")
        run = self.run_script("print('ran')", warm="changing", options=["--env", f"PYTHONPATH={self.dir}"])
        self.assertEqual((run.lines(), run.status), (["[worker/0] ran"], 0), run.err)
        self.assertIn(b'"warm" has no effect: the modules have changed the user', run.err)

    def test_the_report_names_a_task_that_starts_cold(self):
        self.write("picky.py", "import os; assert os.environ['OMP_CASE'] == 'good'")
        for bad, good in ("worker", "other"), ("other", "worker"):
            with self.subTest(bad):
                fifo = self.make_fifo(bad)
                code = f"import os; os.read(os.open({os.path.join(self.dir, bad)!r}, os.O_RDONLY), 1)"
                roles = {role: {"env": {"OMP_CASE": case}, "sidecar": role == "other"}
                         for role, case in ((good, "good"), (bad, "bad"))}
                job = self.job_file(framework="none", argv=[sys.executable, "-c", code], warm=["picky"], roles=roles,
                                    env={"PYTHONPATH": self.dir}, success="all_workers")
                run = self.start("--job", job)
                run.await_output("starts cold", "err")
                os.write(fifo, b"01")
                self.assertEqual(run.end().status, 0)
                reports = [line for line in run.errors() if "starts cold" in line]
                self.assertEqual(len(reports), 1, run.err)
                self.assertIn(f'{bad}/0 starts cold, "warm" has no effect: cannot import picky: AssertionError', reports[0])

    def test_modules_that_change_their_process(self):
        """Attempts are forked, and print and end as if they had imported the module themselves."""
        status = "print([line for line in open('/proc/self/status') if line[:6] in ('SigBlk', 'SigIgn')])"
        cases = {
            "children are reaped by the kernel": ("import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)", status),
            "children are reaped by a handler": (
                "import os, signal\n"
                "def reap(*_):\n"
                "    try:\n"
                "        while os.waitpid(-1, os.WNOHANG)[0]: pass\n"
                "    except ChildProcessError: pass\n"
                "signal.signal(signal.SIGCHLD, reap)", status),
            "all signals are ignored": (
                "import signal\n"
                "for number in signal.valid_signals() - {9, 19}: signal.signal(number, signal.SIG_IGN)", status),
            "all signals are blocked": (
                "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())", status),
            "it adopts orphans": (
                "import ctypes; ctypes.CDLL(None).prctl(36, 1)",
                "import ctypes; value = ctypes.c_int(); ctypes.CDLL(None).prctl(37, ctypes.byref(value)); print(value)"),
            "it sets variables": (
                "import os; os.environ.update(A='of the module', OMP_A='of the module'); del os.environ['OMP_B']",
                "import os; print({name: os.environ.get(name) for name in ('A', 'OMP_A', 'OMP_B', 'C')})"),
            "it sets a default": ("import os; os.environ.setdefault('C', 'of the module')", "import os; print(os.environ['C'])"),
            "it has another umask": ("import os; os.umask(0o77)", "import os; print(os.umask(0))"),
            "it does without the collector": ("import gc; gc.disable()", "import gc; print(gc.isenabled(), gc.get_threshold())"),
            "it collects seldom": ("import gc; gc.set_threshold(50000, 20, 5)", "import gc; print(gc.isenabled(), gc.get_threshold())"),
            "it has other limits": (
                "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
                "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"),
            "it may write no file": (  # its shim writes the log
                "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))",
                "import resource; print(resource.getrlimit(resource.RLIMIT_FSIZE))"),
        }
        variables = [f"PYTHONPATH={self.dir}", "OMP_A=of the job", "OMP_B=of the job", "C=of the job"]
        options = [word for variable in variables for word in ("--env", variable)]
        for case, (module, program) in cases.items():
            with self.subTest(case):
                name = f"changing_{list(cases).index(case)}"
                self.write(f"{name}.py", module)
                words = "-c", f"import sys; print({name!r} in sys.modules)\nimport {name}\n{program}\nsys.exit(7)"
                warm = self.run_python(*words, warm=name, options=options)
                cold = self.run_python(*words, warm=None, options=options)
                self.assertEqual(warm.lines()[0], "[worker/0] True", warm.err)
                self.assertEqual(warm.lines()[1:], cold.lines()[1:])
                self.assertEqual((warm.status, cold.status), (7, 7))

    def test_what_a_module_prints_is_in_the_output_of_no_attempt(self):
        """Nor are its buffers copied into attempts that write them."""
        self.write("printing.py", "import ctypes, sys\nprint('of Python', end='')\nsys.stderr.write('of Python')\n"
                   "ctypes.CDLL(None).printf(b'of C')\n")
        run = self.run_script("import sys; print('printing' in sys.modules)", warm="printing",
                              options=["--env", f"PYTHONPATH={self.dir}", "--env", "PYTHONUNBUFFERED=", "--worker", "2"])
        self.assertEqual(sorted(run.lines()), ["[worker/0] True", "[worker/1] True"], run.err)
        self.assertEqual([line for line in run.errors() if "of " in line], [])

    def test_a_fork_that_fails_once_is_no_end_of_warm_starts(self):
        self.write("failing.py", "import errno, os\n"
                   "fork = os.fork\n"
                   "def fail():\n"
                   "    os.fork = fork\n"
                   "    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))\n"
                   "os.fork = fail")
        run = self.run_python("-c", "import os, sys; print('failing' in sys.modules, flush=True)\n"
                              "if os.environ['TFC_ATTEMPT'] < '3': os.kill(os.getpid(), 9)",
                              warm="failing", options=["--env", f"PYTHONPATH={self.dir}"])
        self.assertEqual(run.lines()[1:], ["[worker/0#2] True", "[worker/0#3] True"], run.err)
        self.assertEqual([line for line in run.errors() if "cold" in line], [])

    def test_a_module_that_was_edited_is_imported_again(self):
        """The attempt that is ready to start starts as a cold one; the next is forked from another zygote."""
        self.write("edited.py", "VALUE = 1\n")
        script = self.write("script.py", "import os, sys\n"
                            "was_there = 'edited' in sys.modules\n"
                            "import edited\n"
                            "print(edited.VALUE, was_there, sys.argv[1:], os.environ['OWN'], flush=True)\n"
                            "if os.environ['TFC_ATTEMPT'] == '1':\n"
                            "    with open(edited.__file__, 'w') as file: file.write('VALUE = 22\\n')\n"
                            "if os.environ['TFC_ATTEMPT'] < '3': os.kill(os.getpid(), 9)\n")
        run = self.run_python(script, "a b", warm="edited", options=["--env", f"PYTHONPATH={self.dir}", "--env", "OWN=x"])
        self.assertEqual(run.lines(), ["[worker/0] 1 True ['a b'] x", "[worker/0#2] 22 False ['a b'] x",
                                       "[worker/0#3] 22 True ['a b'] x"], run.err)
        self.assertEqual([line for line in run.errors() if "cold" in line], [])

    def test_a_module_that_was_edited_during_the_import_is_imported_again(self):
        """It edits itself: the state before it was read counts."""
        self.write("edited.py", "VALUE = 1\nwith open(__file__, 'w') as file: file.write('VALUE = 22\\n')\n")
        run = self.run_python("-c", "import edited, os; print(edited.VALUE)", warm="edited", options=["--env", f"PYTHONPATH={self.dir}"])
        self.assertEqual(run.lines(), ["[worker/0] 22"], run.err)

    def test_a_zip_file_that_was_changed_is_imported_from_again(self):
        path = os.path.join(self.dir, "modules.zip")
        code = f"""
import os, sys, zipfile
was_there = 'zipped' in sys.modules
if os.environ['TFC_ATTEMPT'] == '1':
    with zipfile.ZipFile({path!r}, 'w') as file: file.writestr('zipped.py', 'VALUE = "of the second file"')
    os.kill(os.getpid(), 9)
import zipped
print(zipped.VALUE, was_there, flush=True)
if os.environ['TFC_ATTEMPT'] == '2': os.kill(os.getpid(), 9)
"""
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("zipped.py", "VALUE = 1")
        run = self.run_python("-c", code, warm="zipped", options=["--env", f"PYTHONPATH={path}"])
        self.assertEqual(run.lines(), ["[worker/0#2] of the second file False", "[worker/0#3] of the second file True"], run.err)

    def test_a_file_of_the_program_comes_before_a_module_of_the_same_name(self):
        """The process that forks has imported that module, so such an attempt starts as a cold one."""
        program = f"import sys; print({MODULE!r} in sys.modules); import socket; print(socket.__file__)"
        directory = pathlib.Path(self.dir, "program")
        for name in "xml", "package":  # xml, without __init__.py, takes no place of the module
            (directory / name).mkdir(parents=True)
        for name in "main.py", "package/__init__.py", "package/main.py":
            (directory / name).write_text(program if "main" in name else "")
        for words in ["main.py"], ["-m", "package.main"], ["-c", program]:
            for is_there in False, True:
                with self.subTest(words=words, is_there=is_there):
                    own = directory / "socket.py"
                    if is_there:
                        own.write_text("")
                    run = self.run_python(*words, cwd=directory)
                    seen = [line.split()[1] for line in run.lines()]
                    self.assertEqual(seen, ["False", str(own)] if is_there else ["True", socket.__file__], run.err)
                    own.unlink(missing_ok=True)
        (directory / "socket.py").write_text("")
        run = self.run_python("main.py", options=["--bundle", str(directory)])
        self.assertEqual(run.lines()[0], "[worker/0] False", run.err)
        self.assertRegex(run.lines()[1], r"/bundle/.*/socket.py$")

    def test_a_sitecustomize_that_all_attempts_share_prevents_no_fork(self):
        """For "--on-stall stacks", the library has one of its own, which the process that forks does not need."""
        self.write("sitecustomize.py", "")
        for options in [], ["--stall", "100", "--on-stall", "stacks"]:
            run = self.run_python("-c", f"import sys; print({MODULE!r} in sys.modules)",
                                  options=["--env", f"PYTHONPATH={self.dir}", *options])
            self.assertEqual(run.lines(), ["[worker/0] True"], options)

    def test_a_sitecustomize_in_a_bundle_runs(self):
        bundle = pathlib.Path(self.dir, "bundle")
        bundle.mkdir()
        (bundle / "sitecustomize.py").write_text("print('customized')")
        (bundle / "main.py").write_text("print('ran')")
        run = self.run_python("main.py", options=["--bundle", str(bundle)])
        self.assertEqual(run.lines(), ["[worker/0] customized", "[worker/0] ran"], run.err)

    def test_an_attempt_finds_what_has_come_since_the_import(self):
        """Python remembers which directories there are, what is in them, and what is in a zip file."""
        path = [os.path.join(self.dir, name) for name in ("old", "new", "file.zip")]
        os.mkdir(path[0])
        with zipfile.ZipFile(path[2], "w") as file:
            file.writestr("first.py", "")
        self.write("searching.py", "try: import no_such_module\nexcept ImportError: pass\n")  # in all directories
        script = self.write("script.py", "import os, sys, zipfile\n"
                            "if os.environ['TFC_ATTEMPT'] == '1':\n"
                            "    old, new, zip = sys.argv[1:]\n"
                            "    os.mkdir(new)\n"
                            "    for place in old, new: open(f'{place}/in_{os.path.basename(place)}.py', 'w').close()\n"
                            "    with zipfile.ZipFile(zip, 'a') as file: file.writestr('in_zip.py', '')\n"
                            "    os.kill(os.getpid(), 9)\n"
                            "import in_old, in_new, in_zip\n"
                            "print('searching' in sys.modules)\n")
        run = self.run_python(script, *path, warm="searching", options=["--env", "PYTHONPATH=" + ":".join([*path, self.dir])])
        self.assertEqual(run.lines(), ["[worker/0#2] True"], run.err)

    def test_a_relative_interpreter_is_found_in_the_directory_of_the_task(self):
        os.mkdir(os.path.join(self.dir, "bin"))
        os.symlink(sys.executable, os.path.join(self.dir, "bin", "python3"))
        run = self.run_local("--framework", "none", "--warm", MODULE, "--env", f"PYTHONHOME={sys.base_prefix}", "--",
                             "bin/python3", "-c", f"import sys; print(sys.executable, {MODULE!r} in sys.modules)", cwd=self.dir)
        self.assertEqual((run.lines(), run.status), ([f"[worker/0] {self.dir}/bin/python3 True"], 0), run.err)

    def test_an_interpreter_in_path_is_that_of_a_cold_start(self):
        os.mkdir(os.path.join(self.dir, "bin"))
        os.symlink(sys.executable, os.path.join(self.dir, "bin", "python3"))
        os.mkdir(os.path.join(self.dir, "shims"))
        shim = self.write("shims/python3", '#!/bin/sh\nread interpreter < .python-version; exec "$interpreter" "$@"\n')
        os.chmod(shim, 0o755)
        self.write(".python-version", f"{self.dir}/bin/python3\n")
        code = "import os, sys; print(os.readlink('/proc/self/exe'), sys.executable, sys.prefix, sys.orig_argv, os.environ['PATH'])"
        cases = {
            "bin:/usr/bin:/bin": 'the interpreter "bin/python3" is found through a relative directory in PATH',
            f"{self.dir}/shims:/usr/bin:/bin": f'the interpreter "{shim}" is a script, which may choose another one in each '
                                               "directory; name the interpreter by its own path",
            f":absent:{self.dir}/bin": None,
        }
        for path, reason in cases.items():
            with self.subTest(path):
                def run(*options):
                    return self.run_local("--framework", "none", *options, "--env", f"PYTHONHOME={sys.base_prefix}", "--env",
                                          f"PATH={path}", "--", "python3", "-c", code, cwd=self.dir)
                cold, warm = run(), run("--warm", MODULE)
                self.assertEqual((warm.lines(), warm.status), (cold.lines(), 0), warm.err)
                self.assertEqual([line.partition("no effect: ")[2] for line in warm.errors() if "starts cold" in line],
                                 [reason] if reason else [])

    def test_refusals_without_a_try(self):
        def reasons(*words, options=()):
            run = self.run_local("--framework", "none", "--warm", MODULE, *options, "--", *words)
            self.assertEqual(run.status, 0)
            return [line.partition("no effect: ")[2] for line in run.errors() if "starts cold" in line]

        self.assertEqual(reasons("sh", "-c", "true"), ['the task runs "sh", whose name does not begin with "python"'])
        self.assertEqual(reasons(sys.executable, "-E", "-c", "pass"),
                         ["only python SCRIPT.py, python -m MODULE and python -c CODE can be forked, with no other option than -u"])
        rlimits = self.job_file(framework="none", argv=[sys.executable, "-c", "pass"], warm=[MODULE],
                                roles={"worker": {"rlimits": {"stack": 8 << 20}}})
        run = self.run_local("--job", rlimits)
        self.assertIn(b"the limit of the stack acts when Python starts", run.err)
        self.assertEqual(run.status, 0)

    def test_variables_that_act_at_import_have_zygotes_of_their_own(self):
        """Two roles, two values, two zygotes; with a third role there is no room."""
        for variable in "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES":
            with self.subTest(variable):
                self.assert_own_zygotes(variable)

    def assert_own_zygotes(self, variable):
        code = f"import os, sys; print(os.environ['{variable}'], {MODULE!r} in sys.modules)"
        names = ["worker", "one", "two"]
        roles = {name: {"env": {variable: str(i)}, "sidecar": name != "worker"} for i, name in enumerate(names)}
        job = self.job_file(framework="none", argv=[sys.executable, "-c", code], warm=[MODULE], roles=roles,
                            success="all_workers")
        run = self.run_local("--job", job)
        self.assertEqual(run.status, 0, run.err)
        self.assertIn("[worker/0] 0 True", run.lines())
        reports = [line for line in run.errors() if "starts cold" in line]
        self.assertEqual(len(reports), 1, run.err)
        self.assertIn("jobs use all zygotes that the node may have (2)", reports[0])

    def test_a_bundle_is_each_attempts_own(self):
        bundle = pathlib.Path(self.dir, "bundle")
        bundle.mkdir()
        (bundle / "own.py").write_text("print('own')")
        (bundle / "main.py").write_text(f"import own, os, sys; print({MODULE!r} in sys.modules, os.path.exists('own.py'))")
        run = self.run_python("main.py", options=["--bundle", str(bundle), "--worker", "2"], cwd="/")
        self.assertEqual(sorted(run.lines()), sorted(f"[worker/{i}] {text}" for i in (0, 1) for text in ("own", "True True")))
        self.assertEqual([line for line in run.errors() if "cold" in line], [])


class ForksTest(unittest.TestCase):
    """The test takes the place of the guard, and true(1) that of each shim: no task starts."""

    def start_zygote(self):
        libc = ctypes.CDLL(None)
        libc.prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: what is forked becomes a child of the test
        self.addCleanup(libc.prctl, 36, 0)
        connection, of_zygote = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(connection.close)
        with of_zygote:
            start = f"import os, sys; os.dup2({of_zygote.fileno()}, 3); os.execv(sys.executable, sys.argv[1:])"
            words = sys.executable, "-c", ZYGOTE.read_text(), MODULE
            zygote = subprocess.Popen([sys.executable, "-c", start, *words], pass_fds=[of_zygote.fileno()])
        self.addCleanup(zygote.wait)
        self.addCleanup(zygote.kill)
        self.assertEqual(connection.recv(100), b"ready")
        return zygote.pid, connection

    def state_of(self, pid):
        """Its own memory in KiB, and its descriptors."""
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]), sorted(os.listdir(f"/proc/{pid}/fd"))

    def test_a_thousand_forks_leave_nothing_in_the_zygote(self):
        pid, connection = self.start_zygote()
        with open("/bin/true") as program, open(os.devnull) as null:
            for number in range(1100):
                if number == 100:
                    memory, fds = self.state_of(pid)
                socket.send_fds(connection, [b"fork 3"], [program.fileno(), null.fileno()])
                for _ in "shim", "task":
                    self.assertNotEqual(os.wait()[0], pid)
        memory_now, fds_now = self.state_of(pid)
        self.assertEqual(fds_now, fds)
        self.assertLessEqual(memory_now, memory + 100)


class VersionTest(unittest.TestCase):
    def test_an_old_python_is_refused_before_it_fails(self):
        code = "import sys; sys.version_info = 3, 9, 18, 'final', 0; exec(sys.argv[1])"
        run = subprocess.run([sys.executable, "-c", code, ZYGOTE.read_text()], capture_output=True, text=True)
        self.assertEqual((run.stderr, run.returncode), ("warm starts need Python 3.10 or newer, and this is Python 3.9\n", 1))


class WarmJobTest(clients_test.ClientsTest):
    def start_warm(self, module, *options):
        """The id of a job whose tasks run until they are stopped."""
        run = self.ask("start", "--detach", "--framework", "none", "--warm", module, *options, "--", sys.executable, "-c",
                       "import time; time.sleep(600)")
        self.assertEqual(run.status, 0, run.err)
        return run.lines()[0]


class NodeWarmTest(WarmJobTest):
    def node(self, name, *args):
        return super().node(name, "--verbose", "--zygotes", "1", *args)

    def test_their_number_is_an_option_and_one_that_no_job_uses_makes_room(self):
        def reports(module, *roles):
            job = self.job_file(framework="none", argv=[sys.executable, "-c", "pass"], warm=[module], success="all_workers",
                                roles={name: {"env": {"OMP_NUM_THREADS": name}, "sidecar": name != "worker"}
                                       for name in roles})
            run = self.ask("start", "--job", job)
            self.assertEqual(run.status, 0, run.err)
            return [line.partition("no effect: ")[2].partition(";")[0] for line in run.errors() if "starts cold" in line]

        self.assertEqual(reports(MODULE, "worker"), [])
        self.assertEqual(reports(MODULE, "worker", "other"), ["jobs use all zygotes that the node may have (1)"])
        self.assertEqual(reports("colorsys", "worker"), [])  # the job before has ended

    def test_describe_says_that_a_task_waits_for_the_import(self):
        fifo = self.make_fifo("fifo")
        self.write("waiting.py", f"with open({os.path.join(self.dir, 'fifo')!r}) as file: file.readline()")
        job = self.start_warm("waiting", "--env", f"PYTHONPATH={self.dir}")
        text = 'not started: the modules of "warm" are being imported'
        harness.wait_until(lambda: self.describe(job)["tasks"][0].get("doing") == text, "a task that waits")
        os.write(fifo, b"\n")
        self.await_ready(job)
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)

    def test_the_directory_for_temporary_files_is_that_of_each_job(self):
        self.write("asking.py", "import tempfile; tempfile.gettempdir()")  # it is remembered
        for name in "one", "two":
            directory = os.path.join(self.dir, name)
            os.mkdir(directory)
            run = self.ask("start", "--framework", "none", "--warm", "asking", "--env", f"PYTHONPATH={self.dir}", "--env",
                           f"TMPDIR={directory}", "--", sys.executable, "-c",
                           "import sys, tempfile; print('asking' in sys.modules, tempfile.gettempdir())")
            self.assertEqual((run.lines()[1:], run.status), ([f"[worker/0] True {directory}"], 0), run.err)

    def test_jobs_share_a_process_which_is_logged_with_its_memory(self):
        for _ in range(2):
            run = self.ask("start", "--framework", "none", "--warm", MODULE, "--", sys.executable, "-c",
                           f"import sys; print({MODULE!r} in sys.modules)")
            self.assertEqual((run.lines()[1:], run.status), (["[worker/0] True"], 0))
        node = self.nodes["a"]
        node.await_output("tasks are forked from it", "err")
        reports = [line for line in node.errors() if "has imported" in line]
        self.assertEqual(len(reports), 1, reports)
        self.assertRegex(reports[0], rf"process \d+ has imported {MODULE} and uses \d+(\.\d+)? MiB; tasks are forked from it$")

    def await_zygote(self, job, state, attempts):
        def found():
            zygotes = self.describe(job).get("zygotes", [])
            return zygotes if [(zygote["state"], zygote["attempts"]) for zygote in zygotes] == [(state, attempts)] else None
        return harness.wait_until(found, f"a zygote that is {state}")[0]

    def test_describe_shows_the_process_with_its_memory(self):
        job = self.start_warm(MODULE, "--worker", "2")
        self.await_ready(job, 2)
        zygote = self.await_zygote(job, "ready", 2)
        self.assertEqual((zygote["node"], zygote["modules"], zygote["interpreter"]), ("a", [MODULE], sys.executable))
        self.assertNotIn("text", zygote)
        self.assertEqual(pathlib.Path(f"/proc/{zygote['pid']}/cmdline").read_text(), f"{sys.executable} tfc-zygote {MODULE}\0")
        status = pathlib.Path(f"/proc/{zygote['pid']}/status").read_text()
        resident, anonymous = (int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) * 1024 for name in ("VmRSS", "RssAnon"))
        self.assertAlmostEqual(zygote["rss_bytes"], resident, delta=resident / 4)
        self.assertAlmostEqual(zygote["anonymous_bytes"], anonymous, delta=resident / 4)
        self.assertGreater(zygote["anonymous_bytes"], 1 << 20)
        table = self.ask("describe", job).out.decode()
        self.assertRegex(table, rf"(?m)^WARM +NODE +PID +ATTEMPTS +AGE +RSS +ANONYMOUS +STATE\n{re.escape(MODULE)} +a +{zygote['pid']} +2 "
                                r"+\S+ +\d+(\.\d+)?MiB +\d+(\.\d+)?MiB +ready$")
        os.kill(zygote["pid"], signal.SIGKILL)  # made again when it is wanted
        harness.wait_until(lambda: "zygotes" not in self.describe(job), "no zygote")
        self.assertEqual(self.ask("stop", job, "--wait").status, 0)

    def test_one_that_has_failed_takes_no_place(self):
        job = self.start_warm("absent_module")
        self.await_zygote(job, "failed", 1)
        run = self.ask("start", "--framework", "none", "--warm", MODULE, "--", sys.executable, "-c",
                       f"import sys; print({MODULE!r} in sys.modules)")
        self.assertEqual((run.lines()[1:], run.status), (["[worker/0] True"], 0), run.err)
        self.await_zygote(job, "failed", 1)  # and is not forgotten
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)

    def test_describe_says_why_the_import_failed(self):
        job = self.start_warm("absent_module")
        self.await_ready(job)
        zygote = self.await_zygote(job, "failed", 1)
        reason = "cannot import absent_module: ModuleNotFoundError: No module named 'absent_module'"
        self.assertEqual((zygote["text"], zygote["pid"], zygote["rss_bytes"]), (reason, 0, 0))
        self.assertRegex(self.ask("describe", job).out.decode(), rf"(?m)^absent_module +a +- +1 +\S+ +- +- +failed: {re.escape(reason)}$")
        self.assertEqual(self.ask("stop", job, "--wait").status, 0)
        self.assertNotIn("zygotes", self.describe(job))


class ZygotesOfANodeTest(WarmJobTest):
    def node(self, name, *args):
        return super().node(name, "--verbose", *args)

    def run_warm(self, module):
        run = self.ask("start", "--framework", "none", "--warm", module, "--env", f"PYTHONPATH={self.dir}", "--", sys.executable,
                       "-c", f"import sys; print({module!r} in sys.modules)")
        self.assertEqual((run.lines()[1:], run.status), (["[worker/0] True"], 0), run.err)

    def test_the_one_that_was_not_used_for_longest_makes_way(self):
        """A node has two at most. The third replaces "two", and the second "two" replaces "three"."""
        for module in "one", "two", "three":
            self.write(f"{module}.py", "")
        for module in "one", "two", "one", "three", "one", "two", "one", "three":
            self.run_warm(module)
        node = self.nodes["a"]
        node.await_output("(?s)(has imported .*){5}", "err")
        self.assertEqual(re.findall(r"has imported (\w+)", node.err.decode()), ["one", "two", "three", "two", "three"])

    def test_another_job_imports_again_what_has_failed(self):
        self.write("mended.py", "raise RuntimeError('on purpose')")
        run = self.ask("start", "--framework", "none", "--warm", "mended", "--env", f"PYTHONPATH={self.dir}", "--",
                       sys.executable, "-c", "pass")
        self.assertEqual(run.status, 0, run.err)
        self.assertIn(b"cannot import mended: RuntimeError: on purpose", run.err)
        self.write("mended.py", "")
        self.run_warm("mended")


class NodesWarmTest(WarmJobTest):
    names = "ab"

    def test_describe_shows_the_processes_of_all_nodes(self):
        job = self.start_warm(MODULE, "--worker", "2")
        self.await_ready(job, 2)

        def states():
            return {zygote["node"]: (zygote["state"], zygote["attempts"], zygote["rss_bytes"] > 1 << 20)
                    for zygote in self.describe(job).get("zygotes", [])}

        harness.wait_until(lambda: states() == dict.fromkeys("ab", ("ready", 1, True)), "a zygote on each node")
        os.kill(self.describe(job)["zygotes"][0]["pid"], signal.SIGKILL)
        harness.wait_until(lambda: len(states()) == 1, "the end of one")
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)


if __name__ == "__main__":
    harness.main()
