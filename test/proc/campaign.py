"""A campaign: rounds of kill -9 of host, guard, shim or task, at any moment, among hostile tasks.

Each round runs tfc_run with a job whose tasks are deaf, stopped, or leave daemons behind; kills one
process; and then proves by means of its own that nothing is left, that no attempt began before the
one before it was gone, and that the host received the event for it.

    campaign.py [--rounds N] [--seed S] [--first N] [--user root|nobody|both] [--isolation NAME]...

A round's choices depend on the seed and its number alone: --seed S --first N --rounds 1 repeats one.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "run"))
import harness  # makes us the reaper of whatever is left
from processes import children_of, name_of

TASK = os.environ["TFC_TEST_TASK"]
NOBODY = 65534
GRACE = 0.3
BOUND = 20.0  # seconds until what is left counts as left for good
CHIEF_EXIT = 7
MARK = "TFC_CAMPAIGN_MARK"

HOSTILE = {
    "deaf": ["deaf", "listen", "wait"],
    "stopped": ["deaf", "listen", "stop", "wait"],
    "ghost": ["ghost", "listen", "wait"],
    "ghosts": ["deaf", "ghost", "child", "ghost", "listen", "wait"],
    "daemon": ["daemon", "{dir}/daemon-{{task_type}}-{{task_index}}", "listen", "wait"],
    "family": ["child", "child", "deaf", "listen", "wait"],
    "bomb": ["bomb", "1", "listen", "wait"],
    "mute": ["listen", "close", "wait"],
    "loud": ["listen", "flood", "2000000", "wait"],
}
# Who is never there cannot be killed one by one.
HOSTILE_IN_A_CAGE = {"chain": ["chain", "listen", "wait"],
                     "chains": ["deaf", "chain", "ghost", "chain", "listen", "wait"]}


class Failure(Exception):
    pass


# ---- what the kernel says


def bound_sockets(first, last):
    """(port, state, uid) of each socket that is bound or listens, by sock_diag(7)."""
    listening, bound = 10, 13
    found = []
    for family in (socket.AF_INET, socket.AF_INET6):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 4) as diag:
            body = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, 1 << listening | 1 << bound)
            body += bytes(48)
            diag.send(struct.pack("=IHHII", 16 + len(body), 20, 0x301, 1, 0) + body)
            is_done = False
            while not is_done:
                data = diag.recv(1 << 16)
                while len(data) >= 16:
                    length, kind = struct.unpack_from("=IH", data)
                    if kind != 20:
                        is_done = True
                        break
                    port, = struct.unpack_from("!H", data, 20)
                    if first <= port <= last:
                        uid, = struct.unpack_from("=I", data, 16 + 64)
                        found.append((port, data[17], uid))
                    data = data[(length + 3) & ~3:]
    return found


def is_free(port):
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            probe.bind(("::", port))
        except OSError:
            return False
    return True


def marked(mark):
    """Processes with the mark in their environment, zombies apart, whosever children they are."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                environ = pathlib.Path("/proc", entry, "environ").read_bytes()
            except OSError:
                continue
            if wanted in environ.split(b"\0"):
                found.append(int(entry))
    return found


def describe(pid):
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines())
        return f"{pid} {fields['Name']} {fields['State']} parent {fields['PPid']}"
    except (OSError, KeyError):
        return f"{pid} (gone meanwhile)"


# ---- one round


class Round:
    def __init__(self, seed, number, user, isolation):
        self.random = random.Random(f"{seed}/{number}")
        self.number = number
        self.mark = f"{os.getpid()}-{seed}-{number}"
        self.isolation = isolation
        self.is_caged = isolation in ("cgroup", "pidns")
        self.uid = {"root": 0, "nobody": NOBODY}.get(user) or 0
        if user == "both" and self.random.random() < 0.5 and isolation != "cgroup":
            self.uid = NOBODY  # who has no cgroup to write to
        victims = ["host", "guard", "shim", "task"]
        if self.is_caged:
            victims.append("guard and shim")
        self.victim = self.random.choice(victims)
        self.moment = self.random.choice(["start", "start", "up", "up", "up", "end"])
        self.delay = self.random.uniform(0, 0.12 if self.moment == "start" else 0.06)
        self.is_stopped = self.random.random() < 0.3  # instead of an end by the chief's exit
        tasks = dict(HOSTILE, **(HOSTILE_IN_A_CAGE if self.is_caged else {}))
        self.kinds = {role: self.random.choice(list(tasks)) for role in ("worker", "ps")}
        self.tasks = tasks
        self.killed = []
        self.hit = []  # tasks that die of the kill
        self.events = []
        self.go = None  # open: the chief ends

    def __str__(self):
        kinds = ", ".join(f"{role} {kind}" for role, kind in self.kinds.items())
        who = "nobody" if self.uid else "root" if not os.getuid() else "self"
        return (f"round {self.number}: {self.victim} killed {self.delay * 1000:.0f} ms after "
                f"{self.moment}; {who}; {kinds}; {self.isolation}")

    # -- the job

    def argv(self, verbs):
        return [TASK, "begin", self.dir, *[verb.format(dir=self.dir) for verb in verbs]]

    def job(self):
        ready = self.random.choice(["listen", "started"])
        roles = {role: {"argv": self.argv(self.tasks[kind]), "ready": ready}
                 for role, kind in self.kinds.items()}
        roles["worker"]["count"] = 2
        roles["chief"] = {"argv": self.argv(["listen", "go", self.dir, "exit", str(CHIEF_EXIT)])}
        job = {"framework": "none", "success": "chief", "grace_s": GRACE, "abort_grace_s": GRACE,
               "finish_s": 0.5, "env": {MARK: self.mark}, "roles": roles,
               "isolation": self.isolation,
               "restart": {"scope": "task", "max": 50, "backoff_s": [0, 0.1]}}
        return job

    def prepare(self):
        self.dir = tempfile.mkdtemp(prefix="campaign-")
        self.tmp = os.path.join(self.dir, "tmp")
        os.mkdir(self.tmp)
        for path in (self.dir, self.tmp):
            os.chown(path, self.uid or os.getuid(), -1)
            os.chmod(path, 0o755)
        os.mkfifo(os.path.join(self.dir, "go"))
        self.file = os.path.join(self.dir, "job.json")
        pathlib.Path(self.file).write_text(json.dumps(self.job()))
        self.first = harness.find_ports()
        self.last = self.first + harness.PORTS_A_TEST - 1

    def start(self):
        env = dict(os.environ, TMPDIR=self.tmp)
        env.pop(MARK, None)
        user = {"user": self.uid, "group": self.uid, "extra_groups": []} if self.uid else {}
        self.err = open(os.path.join(self.dir, "err"), "w+b")
        self.host = subprocess.Popen(
            [harness.TFC_RUN, "local", "--json", "--ports", f"{self.first}-{self.last}", "--job",
             self.file], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.err,
            env=env, cwd=self.dir, **user)
        os.set_blocking(self.host.stdout.fileno(), False)
        self.partial = b""

    def read_events(self):
        while True:
            data = self.host.stdout.read(1 << 20)
            if not data:
                return
            *lines, self.partial = (self.partial + data).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["event"] != "output":
                    self.events.append(event)

    def await_condition(self, condition, what):
        end = time.monotonic() + BOUND
        while not condition():
            if time.monotonic() > end:
                raise Failure(f"waited in vain for {what}")
            select.select([self.host.stdout], [], [], 1)
            self.read_events()

    # -- what was reported to the host

    def states(self):
        """The last event of each attempt that has begun, by task: the latest attempt."""
        latest = {}
        for event in self.events:
            if event["event"] == "task":
                latest[event["task"]] = event
        return latest

    def all_are_up(self):
        states = self.states()
        return len(states) == 4 and all(event["state"] in ("running", "ready") and
                                        event["pid"] not in self.hit for event in states.values())

    def has_ended(self):
        return self.events and self.events[-1]["event"] == "end" or self.host.poll() is not None

    # -- the kill

    def victims(self):
        """The pids that are killed now; fewer than wanted when they are not there yet."""
        host = self.host.pid
        self.hit = []
        if self.victim == "host":
            return [host]
        guards = children_of(host, "tfc-guard")
        shims = [shim for guard in guards for shim in children_of(guard, "tfc-shim")]
        self.random.shuffle(shims)
        if self.victim in ("guard", "guard and shim"):
            self.hit = [task for shim in shims for task in self.task_of(shim)]
            return guards[:1] + (shims[:1] if self.victim == "guard and shim" else [])
        if self.victim == "shim":
            self.hit = [task for shim in shims[:1] for task in self.task_of(shim)]
            return shims[:1]
        self.hit = [task for shim in shims for task in self.task_of(shim)][:1]
        return self.hit

    def task_of(self, pid):
        """The task itself, if it is there: the first that a shim, or its namespace's, has started."""
        if name_of(pid) == "test_task":
            return [pid]
        return [task for child in children_of(pid)[:1] for task in self.task_of(child)]

    def strike(self):
        if self.moment != "start":
            self.await_condition(lambda: self.all_are_up() or self.has_ended(), "all tasks to run")
        if self.moment == "end":
            self.ask_to_end()
        time.sleep(self.delay)  # the moment is what is tested
        for pid in self.victims():
            self.killed.append(pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                self.killed.remove(pid)
        self.began = time.monotonic()

    def ask_to_end(self):
        if self.is_stopped:
            self.host.send_signal(signal.SIGTERM)
        else:
            self.go = open(os.path.join(self.dir, "go"), "r+b", buffering=0)

    def finish(self):
        """The host lives: the job goes on, and ends as it is asked to."""
        if self.moment != "end":
            self.await_condition(lambda: self.all_are_up() or self.has_ended(), "a new attempt")
            self.ask_to_end()
        self.await_condition(lambda: self.host.poll() is not None, "the host's end")
        self.read_events()

    # -- the proof

    def leftovers(self):
        return [pid for pid in marked(self.mark) + harness.children() if pid != self.host.pid]

    def prove_nothing_is_left(self):
        end = self.began + BOUND
        while pids := self.leftovers():
            if time.monotonic() > end:
                raise Failure("processes are left: " + "; ".join(describe(pid) for pid in pids))
            harness.await_end(pids[0], end)
        self.took = time.monotonic() - self.began
        sockets = bound_sockets(self.first, self.last)
        if sockets:
            raise Failure(f"ports are held (port, state, uid): {sockets}")
        taken = [port for port in range(self.first, self.last + 1) if not is_free(port)]
        if taken:
            raise Failure(f"ports cannot be bound: {taken}")

    def prove_no_directory_is_left(self):
        """One that the guard did not know of when its host was killed goes with any later run."""
        if not os.listdir(self.tmp):
            return
        later = {"framework": "none", "grace_s": GRACE, "env": {MARK: self.mark}, "roles": {
            "worker": {"argv": [TASK, "wait"], "ready": "started"}}}
        pathlib.Path(self.file).write_text(json.dumps(later))
        self.host.stdout.close()
        self.err.close()
        self.start()
        end = time.monotonic() + BOUND
        while len(os.listdir(self.tmp)) > 1:  # the later run's own
            if time.monotonic() > end or self.host.poll() is not None:
                raise Failure(f"directories are left: {os.listdir(self.tmp)}")
            time.sleep(0.005)
        self.host.terminate()
        self.await_condition(lambda: self.host.poll() is not None, "the end of a later run")
        if os.listdir(self.tmp):
            raise Failure(f"a later run has left {os.listdir(self.tmp)}")

    def prove_single_attempts(self):
        try:
            lines = pathlib.Path(self.dir, "attempts").read_text().splitlines()
        except FileNotFoundError:
            return
        last = collections.defaultdict(int)
        for line in lines:
            what, task, attempt = line.split()
            if what == "double":
                raise Failure(f"{task}: attempt {attempt} began while another was there")
            if what == "begin" and int(attempt) <= last[task]:
                raise Failure(f"{task}: attempt {attempt} began after {last[task]}")
            if what == "begin":
                last[task] = int(attempt)

    def is_reported_right(self, event):
        """Whether the end of an attempt is what it should be."""
        state, is_lost = event["state"], event["reason"] == "lost"
        if event.get("signal") == signal.SIGKILL and event["pid"] in self.killed:
            return state == "failed" and event["reason"] == "signal" or self.moment == "end"
        if is_lost:
            return self.victim not in ("host", "task") and "exit" not in event
        if event["task"] == "chief/0" and event.get("exit") == CHIEF_EXIT:
            return state == "failed"
        return state == "stopped" or self.was_requested(event)

    def was_requested(self, event):
        """Tasks that end because the job does: by TERM, or KILL after the grace."""
        return self.events[-1]["event"] == "end" and event.get("signal") in (
            signal.SIGTERM, signal.SIGKILL) and event["reason"] in ("stopped", "consequence")

    def prove_statuses(self):
        for event in self.events:
            if event["event"] == "task" and event["state"] in ("exited", "failed", "lost",
                                                                "stopped"):
                if not self.is_reported_right(event):
                    raise Failure(f"a wrong end was reported: {event}")
        end = self.events[-1] if self.events else {}
        wanted = ("stopped", 143) if self.is_stopped else ("failed", CHIEF_EXIT)
        if end.get("event") != "end" or (end["state"], end["exit"]) != wanted:
            raise Failure(f"the job's end was to be {wanted}, not {end}")
        if self.host.returncode != wanted[1]:
            raise Failure(f"tfc_run exited with {self.host.returncode}, not {wanted[1]}")

    def run(self):
        self.prepare()
        try:
            self.start()
            self.strike()
            if self.host.pid in self.killed:
                self.host.wait(BOUND)
            else:
                self.finish()
                self.began = time.monotonic()
            self.prove_nothing_is_left()
            self.prove_single_attempts()
            if self.host.pid not in self.killed:
                self.prove_statuses()
            self.prove_no_directory_is_left()
        except Failure as failure:
            raise Failure(f"{self}\n  {failure}\n{self.report()}") from None
        finally:
            self.clean_up()

    def report(self):
        self.err.seek(0)
        lines = [f"  {json.dumps(event)}" for event in self.events]
        return "\n".join([f"  killed: {self.killed}", *lines, self.err.read().decode()])

    def clean_up(self):
        for pid in self.leftovers() + ([self.host.pid] if self.host.poll() is None else []):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.host.wait()
        self.host.stdout.close()
        self.err.close()
        if self.go:
            self.go.close()
        shutil.rmtree(self.dir, ignore_errors=True)


# ---- the campaign


def check_the_referee():
    """Each proof fails when there is something to find."""
    round_ = Round(0, 0, "root", "auto")
    round_.prepare()
    env = {MARK: round_.mark, "TFC_TASK_TYPE": "worker", "TFC_TASK_INDEX": "0", "TFC_ATTEMPT": "1"}
    argv = [TASK, "begin", round_.dir, "print", "x", "wait"]
    tasks = []
    for _ in range(2):
        task = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE)
        task.stdout.read(1)
        tasks.append(task)
    assert set(marked(round_.mark)) == {task.pid for task in tasks}, marked(round_.mark)
    for task in tasks:
        task.kill()
        task.wait()
        task.stdout.close()
    try:
        round_.prove_single_attempts()
        raise AssertionError("a double attempt is not seen")
    except Failure:
        pass
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as held:
        held.bind(("::1", round_.first))
        assert not is_free(round_.first)
        if os.uname().release >= "6.8":
            assert (round_.first, 13, os.getuid()) in bound_sockets(round_.first, round_.last)
        held.listen()
        assert (round_.first, 10, os.getuid()) in bound_sockets(round_.first, round_.last)
    shutil.rmtree(round_.dir)


def can_run_as_nobody():
    if os.getuid():
        return False
    try:
        return all(subprocess.run(argv, user=NOBODY, group=NOBODY, extra_groups=[],
                                  stdout=subprocess.DEVNULL).returncode == 0
                   for argv in ([TASK, "exit", "0"], [harness.TFC_RUN, "--version"]))
    except OSError:
        return False


def has_isolation(name):
    """Whether tasks can have it here, and under which name the option is known."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "job.json")
        pathlib.Path(path).write_text(json.dumps({
            "framework": "none", "argv": [TASK, "exit", "0"], "isolation": name,
            "roles": {"worker": {"ready": "started"}}, "restart": {"on": "never"}}))
        return subprocess.run([harness.TFC_RUN, "local", "--quiet", "--job", path],
                              stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


def usable_isolations(wanted):
    usable = [name for name in wanted if has_isolation(name)]
    for name in set(wanted) - set(usable):
        print(f"campaign: skipped: isolation {name} cannot be had here")
    return usable or ["auto"]


def main():
    parser = argparse.ArgumentParser()
    factor = float(os.environ.get("TFC_CAMPAIGN", "1"))
    parser.add_argument("--rounds", type=int, default=int(40 * factor))
    parser.add_argument("--seed", type=int, default=int(os.environ.get(
        "TFC_CAMPAIGN_SEED", time.time_ns() % 1000000000)))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--user", choices=["root", "nobody", "both"], default="both")
    parser.add_argument("--isolation", action="append")
    parser.add_argument("--keep-going", action="store_true")
    options = parser.parse_args()
    print(f"campaign: --seed {options.seed} --rounds {options.rounds}", flush=True)
    if options.user != "root" and not can_run_as_nobody():
        print("campaign: all rounds as this user: no other can be had, or read the programs")
        options.user = "root"
    check_the_referee()
    kinds = usable_isolations(options.isolation or ["auto", "plain", "pidns", "cgroup"])
    took, failures, counts = [], 0, collections.Counter()
    for number in range(options.first, options.first + options.rounds):
        one = Round(options.seed, number, options.user, kinds[number % len(kinds)])
        try:
            one.run()
            took.append((one.took, str(one)))
            counts[one.victim if one.killed else "nobody yet"] += 1
        except Failure as failure:
            print(f"FAILED {failure}", flush=True)
            failures += 1
            if not options.keep_going:
                break
    print("campaign: killed", ", ".join(f"{name} {n}" for name, n in sorted(counts.items())))
    if took:
        took.sort()
        print(f"campaign: {len(took)} rounds left nothing; from the end to nothing left: median "
              f"{took[len(took) // 2][0] * 1000:.0f} ms, slowest {took[-1][0] * 1000:.0f} ms in "
              f"{took[-1][1]}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
