"""What the tests on real TensorFlow share: one `tfc_run local --json` under way, read and judged.

Everything awaited is an event with a deadline.
"""

import importlib.util
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lib"))
from orphans import children

NEEDS = os.environ.get("TFC_TEST_NEEDS", "tensorflow sklearn").split()
if not all(map(importlib.util.find_spec, NEEDS)):
    print(f"{sys.executable} lacks {' or '.join(NEEDS)} (meson options *_python)")
    sys.exit(77)

TFC_RUN = os.environ["TFC_RUN"]
PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/tensorflow")
PATIENCE = 90  # seconds until something awaited counts as never coming: two cores, six TensorFlows
WARM = os.environ.get("TFC_TEST_WARM")  # set: tasks are forked from a process that has imported TensorFlow
ENDED = ("exited", "failed", "lost", "stopped")


def output(task, pattern, attempt=None):
    """Matches a line of a task's output; the match is what wait_for returns."""
    def match(event):
        return (event["event"] == "output" and event["task"] == task
                and attempt in (None, event["attempt"]) and re.search(pattern, event["text"]))
    return match


def state(task, states, attempt=None):
    """Matches a task's coming into one of `states` (a name or several)."""
    states = (states,) if isinstance(states, str) else states

    def match(event):
        return (event["event"] == "task" and event["task"] == task and event["state"] in states
                and attempt in (None, event["attempt"]) and event)
    return match


def job_state(name, generation=None):
    """Matches the job's coming into a state."""
    def match(event):
        return (event["event"] == "job" and event["state"] == name
                and generation in (None, event["generation"]) and event)
    return match


def processes_of(job):
    """Pids of all processes whose environment says that they belong to a job."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"TFC_JOB={job}".encode() in file.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            pass  # it ended meanwhile
    return found


def is_port_free(address):
    """Whether nobody holds a port or listens on it; the TIME_WAIT of old connections is no one."""
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("::", int(address.rsplit(":", 1)[1])))
            probe.listen()
        except OSError:
            return False
    return True


class Job:
    """A tfc_run with --json under way; `events` is all it has said so far."""

    def __init__(self, argv, env, cwd):
        self.events = []
        self._rest = b""
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, env=env, cwd=cwd)
        self._fds = {self._process.stdout.fileno(), self._process.stderr.fileno()}
        self.errors = b""

    @property
    def pid(self):
        """Of tfc_run."""
        return self._process.pid

    def read(self, timeout):
        """Reads what it has said, at most once; waits for that up to `timeout` seconds."""
        for fd in select.select(self._fds, [], [], timeout)[0]:
            data = os.read(fd, 1 << 16)
            if not data:
                self._fds.discard(fd)
            elif fd == self._process.stderr.fileno():
                self.errors += data
            else:
                *lines, self._rest = (self._rest + data).split(b"\n")
                self.events += map(json.loads, lines)

    def mark(self):
        """The place of what comes next, for `since`."""
        return len(self.events)

    def wait_for(self, match, what, since=0, patience=PATIENCE):
        """The first result of match(event) that holds, from event `since` on."""
        end = time.monotonic() + patience
        while True:
            while since < len(self.events):
                found = match(self.events[since])
                if found:
                    return found
                since += 1
            if not self._fds or time.monotonic() > end:
                raise AssertionError(f"never came: {what}")
            self.read(0.2)

    def find(self, match, since=0, until=None):
        """What match gives for the events so far."""
        return [found for found in map(match, self.events[since:until]) if found]

    def wait_step(self, task, beyond, since=0, attempt=None):
        """Waits until a task reports a step > beyond; returns the step."""
        def match(event):
            found = output(task, r"^step=(\d+)", attempt)(event)
            return found and int(found[1]) > beyond and int(found[1])
        return self.wait_for(match, f"a step of {task} beyond {beyond}", since)

    def last_saved(self):
        """The step of the newest checkpoint that any task reported."""
        return max([int(event_match[1]) for event_match in self.find(
            lambda event: event["event"] == "output"
            and re.search(r"^saved step=(\d+)", event["text"]))], default=0)

    def attempts(self):
        """The attempt that each task is in: {"worker/0": 1, ...}."""
        return {event["task"]: event["attempt"] for event in self.events
                if event["event"] == "task" and event["attempt"]}

    def addresses(self):
        """All addresses that each task ever had: {"worker/0": {"127.0.0.1:20000"}, ...}."""
        found = {}
        for event in self.events:
            if event["event"] == "task" and event["address"]:
                found.setdefault(event["task"], set()).add(event["address"])
        return found

    def signal_task(self, task, number):
        """Sends a signal to a task's own process, as a stranger would."""
        pid = [event["pid"] for event in self.events
               if event["event"] == "task" and event["task"] == task][-1]
        os.kill(pid, number)

    def interrupt(self):
        """Ctrl-C, as far as tfc_run sees it."""
        self._process.send_signal(signal.SIGINT)

    def read_all(self, patience=PATIENCE):
        """Reads until it has exited; returns the exit status."""
        end = time.monotonic() + patience
        while self._fds and time.monotonic() < end:
            self.read(0.2)
        return self._process.wait(max(end - time.monotonic(), 1))

    def end(self, patience=PATIENCE):
        """Reads to the end; returns the end event and the exit status."""
        status = self.read_all(patience)
        assert self.events and self.events[-1]["event"] == "end", self.errors.decode()
        return self.events[-1], status

    def close(self):
        """Ends it if a failed test left it."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process.stderr.close()

    def show(self, count=80):
        """The last events, for a failed test's log."""
        for event in self.events[-count:]:
            if event["event"] == "output":
                print(f"    {event['task']}#{event['attempt']} {event['text'][:160]}")
            else:
                print("   ", json.dumps(event))
        print(self.errors.decode(errors="replace"))


def has_failed(test):
    """Whether the body of a test has failed, asked in its tearDown."""
    result = test._outcome.result
    return any(each is test for each, _ in result.failures + result.errors)


class SlowPrograms:
    """Programs of examples/tensorflow that train slowly, in self.dir, while self.brake is there."""

    def release(self):
        """From now on the programs train at full speed."""
        os.unlink(self.brake)

    def program(self, name, *args):
        """argv of a program of examples/tensorflow that trains slowly until release()."""
        return [sys.executable, os.path.join(PROGRAMS, name), "--checkpoint-dir",
                os.path.join(self.dir, "checkpoints"), "--log-dir", os.path.join(self.dir, "logs"),
                "--step-delay", "0.5", "--delay-while", self.brake, "--steps", "400",
                "--report-every", "2", "--save-every", "10", *args]


class ClusterTest(SlowPrograms, unittest.TestCase):
    """Each test has a directory and must leave nothing: no process, port or temporary file."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tf-test-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.tmp = os.path.join(self.dir, "tmp")
        os.mkdir(self.tmp)
        self.brake = os.path.join(self.dir, "brake")
        with open(self.brake, "w", encoding="ascii"):
            pass
        self.job = None

    def tearDown(self):
        if not self.job:
            return
        if has_failed(self):
            self.job.show()
        self.job.close()
        try:
            self.assert_nothing_left()
            self.assertFalse(self.job.find(lambda event: "starts cold" in event.get("text", "")
                                           and 'begin with "python"' not in event["text"]))
        finally:
            for pid in children():
                os.kill(pid, signal.SIGKILL)

    def assert_nothing_left(self):
        """No process of the job, no port of it, no temporary file."""
        jobs = {event["job"] for event in self.job.events if "job" in event}
        end = time.monotonic() + PATIENCE
        while children() or any(map(processes_of, jobs)):
            self.assertLess(time.monotonic(), end, f"still there: {children()}")
            select.select([], [], [], 0.02)
        for task, addresses in self.job.addresses().items():
            for address in addresses:
                self.assertTrue(is_port_free(address), f"{task}'s {address} is still taken")
        # A Python that is killed leaves what TensorFlow's autograph wrote for it, and its byte code.
        left = [name for name in os.listdir(self.tmp)
                if not name.startswith(("__autograph", "__pycache__"))]
        self.assertEqual(left, [])

    def start(self, *args, **job):
        """Starts a job, given as options of tfc_run or as the keys of a job file."""
        if WARM and job:
            job = {"warm": ["tensorflow"], **job}
        elif WARM:
            args = ("--warm", "tensorflow", *args)
        if job:
            path = os.path.join(self.dir, "job.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"python": sys.executable, **job}, file)
            args = ("--job", path)
        env = dict(os.environ, TMPDIR=self.tmp, XDG_STATE_HOME=os.path.join(self.dir, "state"))
        self.job = Job([TFC_RUN, "local", "--json", *args], env, self.dir)
        return self.job

    def assert_succeeded(self, learner, deciders=None, accuracy=0.90):
        """The job ends well, decided by `deciders` (else by `learner`); learner's model is good."""
        end, status = self.job.end()
        self.assertEqual((end["state"], end["exit"], status), ("succeeded", 0, 0), end)
        self.assertIn(end["decided_by"], deciders or (learner,))
        found = self.job.find(output(learner, r"^accuracy=([\d.]+)"))
        self.assertEqual(len(found), 1)
        self.assertGreaterEqual(float(found[0][1]), accuracy)
