"""A signal ends test/run.sh and examples/quickstart.sh, with all that they have started, and leaves no folder. A step
that takes long says where its output is.

The scripts run in a scratch tree where stand-ins for meson, ninja and tfc_run start a process in a group of its own,
as the real ones do, make a temporary folder and wait. Python and pip are not replaced.

Usage: script_signals_test.py SOURCE_ROOT
"""
import contextlib
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv[1])
del sys.argv[1:]
sys.path.insert(0, str(ROOT / "test/lib"))
from orphans import children  # noqa: E402

PATIENCE = float(os.environ.get("TFC_TEST_PATIENCE", "60"))

# Waits in the middle of its work when it has the name that BUSY says, and ends what it has started when it is ended.
STAND_IN = """#!/bin/bash
case "$BUSY:${0##*/} $1" in
"ninja:ninja "* | "meson:meson test" | "tfc_run:tfc_run "* | "pip:busy "*) ;;
*:"meson setup")
	[ "$2" = --reconfigure ] || { mkdir -p "$2" && touch "$2/build.ninja"; }
	exit
	;;
*) exit 0 ;;
esac
folder=$(mktemp -d -t tfc-test-XXXXXX) || exit
set -m
sleep 1000 >/dev/null 2>&1 &
set +m
trap 'kill -KILL $!; wait; exit 1' TERM
echo "$folder" >"$STARTED"
wait
"""

# tfc_step with a function that runs more than one command, as the one that makes a Python environment.
STEPS = """#!/bin/bash
. "$(dirname "$0")/examples/setup.sh"
tfc_make_temp_dir TMPDIR "${TMPDIR:-/tmp}"
make() {
	busy "$1" && touch went-on
}
tfc_step "make it" tfc_await make it
"""


def set_signals(at_sigint):
    """A shell cannot trap what is ignored when it starts, as SIGHUP is below nohup."""
    signal.signal(signal.SIGINT, at_sigint)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class ScriptSignalsTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="sig")
        self.addCleanup(place.cleanup)
        self.dir = pathlib.Path(place.name)
        self.temp = self.dir / "temp"
        self.bin = self.dir / "bin"
        for path in (self.temp, self.bin, self.dir / "tree/examples/tensorflow", self.dir / "tree/test"):
            path.mkdir(parents=True)
        for path in ("test/run.sh", "test/results.py", "examples/setup.sh", "examples/quickstart.sh"):
            shutil.copy(ROOT / path, self.dir / "tree" / path)
        self.write("tree/steps.sh", STEPS)
        self.write("bin/dpkg-query", "#!/bin/sh\necho install ok installed\n")
        for path in ("bin/meson", "bin/ninja", "bin/busy",
                     "tree/build/quickstart-build/examples/tfc_run/tfc_run"):
            self.write(path, STAND_IN)
        os.mkfifo(self.dir / "started")
        self.started = os.open(self.dir / "started", os.O_RDWR | os.O_CLOEXEC)
        self.addCleanup(os.close, self.started)
        python = self.dir / "venv/bin/python"
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
        self.env = dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}", TMPDIR=str(self.temp),
                        STARTED=str(self.dir / "started"), TFC_VENV=str(self.dir / "venv"),
                        TFC_JAX_PYTHON=str(python), TFC_TORCH_PYTHON=str(python), TFC_NOISE_PYTHON=str(python))
        self.env.pop("TFC_LOGS", None)

    def write(self, name, text):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    @contextlib.contextmanager
    def run_script(self, script, busy, at_sigint=signal.SIG_DFL):
        """The script, once the stand-in `busy` is in the middle of its work."""
        words = ["gcc", "clang"] if script == "test/run.sh" else []
        process = subprocess.Popen([self.dir / "tree" / script, *words], env=dict(self.env, BUSY=busy),
                                   start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, preexec_fn=lambda: set_signals(at_sigint))
        try:
            ready, _, _ = select.select([self.started], [], [], PATIENCE)
            self.assertTrue(ready, "the script never came to its middle")
            folder = os.read(self.started, 1000).decode().strip()
            self.assertTrue(folder.startswith(str(self.temp)), folder)
            yield process
        finally:
            process.kill()
            process.wait()
            while pids := children():
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
            process.stdout.close()

    def assert_ended(self, process, number):
        output, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, -number, output.decode())  # 130 and 143 in a shell
        names = [pathlib.Path(f"/proc/{pid}/cmdline").read_text() for pid in children()]
        self.assertEqual(names, [], "processes are left")
        self.assertEqual(os.listdir(self.temp), [], "folders are left")

    def assert_ends(self, script, busy):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            for is_group in (False, True):
                with self.subTest(script=script, busy=busy, number=number.name, is_group=is_group):
                    with self.run_script(script, busy) as process:
                        (os.killpg if is_group else os.kill)(process.pid, number)
                        self.assert_ended(process, number)
                    for path in self.temp.iterdir():
                        shutil.rmtree(path)

    def test_a_signal_ends_a_compile(self):
        self.assert_ends("test/run.sh", "ninja")
        self.assert_ends("examples/quickstart.sh", "ninja")

    def test_a_step_says_where_its_output_is_while_it_runs(self):
        with self.run_script("examples/quickstart.sh", "ninja") as process:
            process.stdout.readline()
            said = process.stdout.readline().decode()
            log = self.dir / "tree/build/logs/compile-quickstart-build.log"
            self.assertEqual(said, f"compile quickstart-build; output in {log}\n")
            self.assertTrue(log.exists())

    def test_a_signal_ends_the_tests_that_run(self):
        self.assert_ends("test/run.sh", "meson")

    def test_a_signal_ends_the_job_of_the_quickstart(self):
        self.assert_ends("examples/quickstart.sh", "tfc_run")

    def test_a_signal_ends_a_step_of_several_commands(self):
        self.assert_ends("steps.sh", "pip")
        self.assertFalse((self.dir / "tree/went-on").exists())

    def test_sigint_ends_a_run_that_a_script_has_put_into_the_background(self):
        with self.run_script("test/run.sh", "ninja", at_sigint=signal.SIG_IGN) as process:
            os.kill(process.pid, signal.SIGINT)
            self.assert_ended(process, signal.SIGINT)

    def test_a_run_that_comes_to_its_end_leaves_no_folder(self):
        done = subprocess.run([self.dir / "tree/test/run.sh", "clang"], env=dict(self.env, BUSY="none"),
                              capture_output=True, timeout=PATIENCE)
        self.assertIn(b"clang: no test ran", done.stdout)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(os.listdir(self.temp), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
