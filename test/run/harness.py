"""What the tests of tfc_run share: starting it, reading it, and proving that nothing is left."""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lib"))
from orphans import await_end, children

TFC_RUN = os.environ["TFC_RUN"]
PATIENCE = float(os.environ.get("TFC_TEST_PATIENCE", "60"))  # seconds until something awaited counts as never coming
PORTS_A_TEST = 12

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup may have ignored it, and tfc_run keeps that


def wait_until(condition, what, patience=PATIENCE):
    end = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"never came: {what}")
        select.select([], [], [], 0.01)


def await_no_children():
    """Until all that the test's programs have started has ended. A store's helper outlives its node
    until the disk has taken what the node left to it, however slow that is."""
    end = time.monotonic() + PATIENCE
    while pids := children():
        if time.monotonic() > end:
            names = [pathlib.Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids]
            raise AssertionError(f"these processes never ended: {names}")
        await_end(pids[0], end)


def is_bindable(port, reuse=False):
    """With `reuse`, connections of the past that only wait for their time to be over do not count."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


claims = []  # sockets whose names say which ports are ours while we live


def find_ports(reuse=False):
    """The first of PORTS_A_TEST free ports in a row that no other test has chosen."""
    rows = 2700 // PORTS_A_TEST  # below the ports that the kernel gives out
    for i in range(rows):
        row = (os.getpid() * 7 + i) % rows
        first = 30000 + row * PORTS_A_TEST
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0tfc-test-ports-{first}")
        except OSError:
            claim.close()
            continue
        if all(is_bindable(first + i, reuse) for i in range(PORTS_A_TEST)):
            claims.append(claim)
            return first
        claim.close()
    raise AssertionError("no free ports")


def release_ports():
    while claims:
        claims.pop().close()


def own_group(root, field):
    """Our cgroup below `root`; `field` stands between the colons of its line."""
    with open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if field == controllers or field and field in controllers.split(","):
                return root + path
    return None


@contextlib.contextmanager
def memory_group(mib):
    """Gives a function that moves its caller into a cgroup with so little memory, v2 or v1."""
    places = [(own_group("/sys/fs/cgroup", ""), "memory.max"), ("/sys/fs/cgroup", "memory.max"),
              (own_group("/sys/fs/cgroup/memory", "memory"), "memory.limit_in_bytes")]
    for parent, limit in places:
        group = f"{parent}/tfc-run-test-{os.getpid()}"
        try:
            os.mkdir(group)
        except OSError:
            continue
        try:
            with open(f"{group}/{limit}", "r+") as file:  # made by the kernel, or not there
                file.write(str(mib << 20))
        except OSError:
            os.rmdir(group)
            continue
        try:
            yield lambda: pathlib.Path(group, "cgroup.procs").write_text("0")
        finally:
            os.rmdir(group)
        return
    raise unittest.SkipTest("no cgroup with a memory limit can be made here")


class Run:
    """A tfc_run under way. Its output is collected while something is awaited."""

    def __init__(self, args, env, cwd, on_terminal=False, program=TFC_RUN, **popen):
        self.out = bytearray()
        self.err = bytearray()
        self.master = None
        if on_terminal:
            self.master, slave = pty.openpty()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 50, 200, 0, 0))
            self.process = subprocess.Popen(
                [program, *args], stdin=slave, stdout=slave, stderr=slave, env=env, cwd=cwd,
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
            os.close(slave)
            self.fds = {self.master: "out"}
        else:
            popen.setdefault("stdout", subprocess.PIPE)
            self.process = subprocess.Popen(
                [program, *args], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env,
                cwd=cwd, **popen)
            self.fds = {self.process.stderr.fileno(): "err"}
            if self.process.stdout:
                self.fds[self.process.stdout.fileno()] = "out"

    def read(self, timeout):
        ready, _, _ = select.select(list(self.fds), [], [], timeout)
        for fd in ready:
            try:
                data = os.read(fd, 1 << 20)
            except OSError:  # a terminal whose last user is gone
                data = b""
            if not data:
                del self.fds[fd]
                continue
            name = self.fds[fd]
            getattr(self, name).extend(data)

    def await_output(self, pattern, stream="out"):
        end = time.monotonic() + PATIENCE
        while not re.search(pattern.encode(), getattr(self, stream)):
            if time.monotonic() > end or not self.fds:
                raise AssertionError(f"never said {pattern!r}: {self.out!r} {self.err!r}")
            self.read(0.2)

    def events(self):
        return [json.loads(line) for line in self.out.decode().splitlines()]

    def end(self, patience=PATIENCE):
        """Reads to the end; returns self with .status, .out and .err."""
        end = time.monotonic() + patience
        while self.fds and time.monotonic() < end:
            self.read(0.2)
        self.status = self.process.wait(max(end - time.monotonic(), 1))
        if self.master is not None:
            os.close(self.master)
            self.master = None
        for file in (self.process.stdout, self.process.stderr):
            if file:
                file.close()
        return self

    def lines(self):
        return self.out.decode().splitlines()

    def errors(self):
        return self.err.decode().splitlines()


class RunTest(unittest.TestCase):
    """Each test has a directory, a range of ports, and must leave nothing."""

    listens = False  # programs of the test listen at its ports with SO_REUSEADDR

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="run-test-")
        self.tmp = os.path.join(self.dir, "tmp")
        os.mkdir(self.tmp)
        self.first_port = find_ports(self.listens)
        self.ports = f"{self.first_port}-{self.first_port + PORTS_A_TEST - 1}"
        self.env = dict(os.environ, TMPDIR=self.tmp)
        self.env.pop("NO_COLOR", None)
        self.env["TERM"] = "xterm"
        self.runs = []

    def tearDown(self):
        for run in self.runs:
            if run.process.poll() is None:  # the test failed half way
                run.process.kill()
                run.process.wait()
        try:
            self.assert_nothing_left()
        finally:
            for pid in children():
                os.kill(pid, signal.SIGKILL)
            shutil.rmtree(self.dir, ignore_errors=True)
            release_ports()

    def assert_nothing_left(self):
        await_no_children()
        self.assertEqual(os.listdir(self.tmp), [])
        for port in range(self.first_port, self.first_port + PORTS_A_TEST):
            self.assertTrue(is_bindable(port, self.listens), f"port {port} is still taken")

    def start(self, *args, **options):
        env = dict(self.env, **options.pop("env", {}))
        cwd = options.pop("cwd", self.dir)
        run = Run(["local", "--ports", self.ports, *args], env, cwd, **options)
        self.runs.append(run)
        return run

    def run_local(self, *args, **options):
        return self.start(*args, **options).end()

    def run_bare(self, *args):
        """Without the options that start() adds."""
        run = Run(list(args), self.env, self.dir)
        self.runs.append(run)
        return run.end()

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.dir, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def make_fifo(self, name):
        """In the test's directory; returns a descriptor that keeps what is written until it is read."""
        path = os.path.join(self.dir, name)
        os.mkfifo(path)
        fd = os.open(path, os.O_RDWR)
        self.addCleanup(os.close, fd)
        return fd

    def job_file(self, **job):
        return self.write("job.json", json.dumps(job))

    def assert_refused(self, run, sentence, status=125):
        """One clear sentence on stderr, nothing on stdout, the status."""
        self.assertEqual(run.errors(), [f"tfc_run: {sentence}"])
        self.assertEqual(run.out, b"")
        self.assertEqual(run.status, status)


def main():
    unittest.main(verbosity=2, argv=[sys.argv[0], *sys.argv[1:]])
