"""tfc_run node --gossip: nodes that find each other through any one of them; keys; and bad input."""
import contextlib
import datetime
import json
import math
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
import time
import unittest

import harness
from node_test import NodeTest


class GossipTest(NodeTest):
    def host_port(self, name):
        return self.address_of(name)[len("tcp://"):]

    def node_args(self, name, *args):
        key = [] if "--key" in args else ["--key", "key"]
        return ["node", "--name", name, "--gossip", self.host_port(name), *key, "--state", f"state-{name}", "--json",
                "--verbose", *args]

    def await_alive(self, *runs):
        """Until each of these sees all others."""
        names = [run.name for run in runs]
        for run in runs:
            for name in names:
                if name != run.name:
                    self.await_state(run, name, "alive")

    def node(self, name, *args):
        run = super().node(name, *args)
        run.name = name
        return run

    def ask(self, command, *args, name="a"):
        run = self.start_bare(command, "--gateway", f"unix:{self.dir}/state-{name}/node.sock", *args).end()
        self.assertEqual(run.status, 0, run.err)
        return run.out.decode()

    @staticmethod
    def lost_by(run, offset=0):
        """The members that `run` has reported as down since then."""
        events = [json.loads(line) for line in run.out[offset:].decode().split("\n")[:-1]]
        return {event["name"] for event in events if event["event"] == "member"
                and event["state"] == "down"}


class StartTest(GossipTest):
    def test_nodes_find_each_other_through_one_seed(self):
        a = self.node("a", "--slots", "3", "--label", "rack=1", "--memory", "1G")
        b = self.node("b", "--join", self.host_port("a"))
        c = self.node("c", "--join", self.host_port("a"))
        self.await_alive(a, b, c)
        by_c = {member["name"]: member for member in json.loads(self.ask("members", "--json", name="c"))}
        self.assertEqual([by_c["a"][key] for key in ("state", "address", "slots", "memory", "labels")],
                         ["alive", self.address[0], 3, 1 << 30, {"rack": "1"}])
        self.assertLess(by_c["a"]["silent_s"], 30)
        self.assertNotIn("silent_s", by_c["c"])
        end = time.monotonic() + harness.PATIENCE
        while "rtt_us" not in json.loads(self.ask("members", "--json", name="c"))[0]:
            self.assertLess(time.monotonic(), end)

    def test_the_seed_may_start_last(self):
        c = self.node("c", "--join", self.host_port("a"))
        c.await_output("cannot join the other nodes yet: " + self.host_port("a"), "err")
        b = self.node("b", "--join", self.host_port("a"), "--join", self.host_port("c"))
        a = self.node("a", "--join", self.host_port("a"))  # its own address is no seed
        self.await_alive(a, b, c)
        self.assertEqual(c.err.decode().count("cannot join"), 1, c.err)

    def test_no_job_is_missing_before_the_others_are_found(self):
        b = self.node("b", "--join", self.host_port("a"))
        job = "0123456789abcdef"
        gateway = ["--gateway", f"unix:{self.dir}/state-b/node.sock"]
        command = ["attach", *gateway, job]
        listed = self.start_bare("ps", *gateway, "--json").end()
        self.assertEqual((listed.status, listed.out), (1, b"[]\n"))
        self.assertEqual(listed.errors(), ["tfc_run: cannot list the jobs of other nodes: node b has not found the other "
                                           "nodes yet"])
        run = self.start_bare(*command).end()
        self.assert_refused(run, f'job "{job}" not found; it may be a job of a node that node b has not found yet')
        a = self.node("a")
        self.await_alive(a, b)
        self.assertEqual(self.ask("ps", "--json", name="b"), "[]\n")
        self.assert_refused(self.start_bare(*command).end(), f'job "{job}" not found; "tfc_run ps --all" lists all jobs')

    def test_a_host_name_stands_for_its_addresses(self):
        a = self.node("a")
        b = self.node("b", "--join", self.host_port("a").replace("127.0.0.1", "localhost"))
        self.await_alive(a, b)

    def test_without_a_key_on_the_loopback(self):
        self.env.pop("TFC_KEY", None)
        runs = []
        for name in "ab":
            runs.append(self.start_bare("node", "--name", name, "--gossip", self.host_port(name), "--state",
                                        f"state-{name}", "--json", "--join", self.host_port("a")))
            runs[-1].name = name
            runs[-1].await_output('"state":"ready"')
        self.await_alive(*runs)


class ChangeTest(GossipTest):
    def test_a_killed_node_is_down_and_comes_back_as_the_same_member_at_a_new_address(self):
        a = self.node("a")
        b = self.node("b", "--join", self.host_port("a"))
        self.await_alive(a, b)
        before = json.loads(self.ask("members", "--json"))[1]
        b.process.kill()
        self.await_state(a, "b", "down")
        b.end()
        run = self.start_bare("node", "--name", "b", "--gossip", self.address[3][len("tcp://"):], "--key", "key",
                              "--state", "state-b", "--json", "--join", self.host_port("a"))
        self.await_state(a, "b", "alive")
        self.await_state(run, "a", "alive")
        after = json.loads(self.ask("members", "--json"))[1]
        self.assertEqual((after["name"], after["node_id"], after["address"]),
                         ("b", before["node_id"], self.address[3]))

    def test_a_node_that_leaves_has_left(self):
        a = self.node("a")
        b = self.node("b", "--join", self.host_port("a"))
        c = self.node("c", "--join", self.host_port("b"))
        self.await_alive(a, b, c)
        b.process.terminate()
        b.end()
        self.assertEqual(b.status, 0, b.err)
        for run in (a, c):
            self.await_state(run, "b", "left")

    def test_a_drained_node_says_so_to_all(self):
        a = self.node("a")
        b = self.node("b", "--join", self.host_port("a"))
        self.await_alive(a, b)
        self.ask("drain", "b")
        end = time.monotonic() + harness.PATIENCE
        while not json.loads(self.ask("members", "--json"))[1]["draining"]:
            self.assertLess(time.monotonic(), end)

    def test_a_silent_node_goes_and_comes_back(self):
        fast = ["--probe", "0.1"]
        a = self.node("a", *fast)
        b = self.node("b", "--join", self.host_port("a"), *fast)
        c = self.node("c", "--join", self.host_port("a"), *fast)
        self.await_alive(a, b, c)
        c.process.send_signal(signal.SIGSTOP)
        for run in (a, b):
            self.await_state(run, "c", "down")
        c.process.send_signal(signal.SIGCONT)
        self.await_alive(a, b, c)

    def test_a_job_moves_from_a_node_that_is_killed(self):
        a = self.node("a", "--slots", "1", "--lease", "2")
        b = self.node("b", "--join", self.host_port("a"), "--slots", "1")
        c = self.node("c", "--join", self.host_port("a"), "--slots", "1")
        self.await_alive(a, b, c)
        job = self.start_bare("start", "--gateway", f"unix:{self.dir}/state-a/node.sock", "--framework", "none",
                              "--worker", "2", "--restart", "3", "--json", "--", "sleep", "1000")

        def nodes():
            placed = {}
            for line in job.out.decode().split("\n")[:-1]:
                event = json.loads(line)
                if event["event"] == "task" and event.get("state") == "ready":
                    placed[event["task"]] = event["node"]
            return placed
        self.until(job, lambda: len(nodes()) == 2)
        self.assertEqual(len(set(nodes().values())), 2)
        victim = next(name for name in nodes().values() if name != "a")
        {"b": b, "c": c}[victim].process.kill()
        self.until(job, lambda: len(nodes()) == 2 and victim not in nodes().values(), patience=60)
        job.process.terminate()
        job.end()

    def test_no_attempt_runs_beside_one_that_a_killed_maintainer_left_on_a_stopped_node(self):
        """The maintainer returns before it has found that node again."""
        nodes = {name: self.node(name, "--lease", "3", "--join", self.host_port("a"), *self.role(name)) for name in "abc"}
        self.await_alive(*nodes.values())
        alone = 'kill -0 $(cat pid) 2>/dev/null && echo double; echo $$ > pid; echo up; exec sleep 1000'
        job = self.start_bare("start", "--gateway", f"unix:{self.dir}/state-a/node.sock", "--framework", "none", "--json",
                              "--label", "role=work", "--restart-on", "failure", "--", "sh", "-c", alone)
        # A start is shown once it is stored: a line of the task may come first.
        self.until(job, lambda: '"text":"up"' in job.out.decode() and '"state":"ready"' in job.out.decode())
        first = next(event["node"] for event in job.events() if event.get("state") == "ready")
        nodes[first].process.send_signal(signal.SIGSTOP)
        nodes["a"].process.kill()
        nodes["a"].end()
        second = {"b": "c", "c": "b"}[first]
        self.node("a", "--lease", "3", "--join", self.host_port(second), *self.role("a"))
        self.until(job, lambda: all(job.out.decode().count(what) == 2 for what in ('"text":"up"', '"state":"ready"')))
        nodes[first].process.send_signal(signal.SIGCONT)
        self.assertNotIn("double", job.out.decode())
        self.assertEqual([event["node"] for event in job.events() if event.get("state") == "ready"], [first, second])
        job.process.kill()
        job.end()

    def role(self, name):
        return ["--label", "role=work"] if name != "a" else []

    def until(self, run, condition, patience=harness.PATIENCE):
        end = time.monotonic() + patience
        while not condition():
            self.assertTrue(time.monotonic() < end and run.fds, f"{run.out!r} {run.err!r}")
            run.read(0.05)


class ConnectionTest(GossipTest):
    """Nodes connect when something needs it, and disconnect when nothing does."""
    until = ChangeTest.until

    def connections(self, run):
        """Established TCP connections of the process."""
        inodes = set()
        for fd in os.listdir(f"/proc/{run.process.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                inodes.add(os.readlink(f"/proc/{run.process.pid}/fd/{fd}"))
        established = "01"
        with open(f"/proc/{run.process.pid}/net/tcp") as table:
            rows = [line.split() for line in list(table)[1:]]
        return sum(row[3] == established and f"socket:[{row[9]}]" in inodes for row in rows)

    def await_connections(self, runs, condition):
        end = time.monotonic() + 2 * harness.PATIENCE
        while not condition([self.connections(run) for run in runs]):
            self.assertLess(time.monotonic(), end, [self.connections(run) for run in runs])
            for run in runs:
                run.read(0.05)

    def await_idle(self, runs):
        self.await_connections(runs, lambda counts: not any(counts))

    def cluster(self, *args):
        runs = [self.node("a", "--slots", "1", *args)]
        runs += [self.node(name, "--join", self.host_port("a"), "--slots", "1", *args) for name in "bc"]
        self.await_alive(*runs)
        return runs

    def start_job(self, *args):
        return self.start_bare("start", "--gateway", f"unix:{self.dir}/state-a/node.sock", "--framework", "none",
                               "--worker", "3", "--json", *args)

    def test_an_idle_node_has_no_connections_and_a_job_brings_them(self):
        runs = self.cluster()
        self.await_idle(runs)
        job = self.start_job("--name", "three", "--", "sleep", "1000")
        self.until(job, lambda: job.out.decode().count('"state":"ready"') == 3)
        counts = [self.connections(run) for run in runs]
        self.assertGreaterEqual(counts[0], 2)
        for name in "bc":  # each node finds the job by its name
            self.assertIn('"three"', self.ask("describe", "three", "--json", name=name))
        self.ask("stop", "three")
        job.end()
        self.await_idle(runs)

    def test_all_nodes_are_asked_for_jobs_and_a_node_for_its_drain(self):
        runs = self.cluster()
        self.await_idle(runs)
        job = self.start_bare("start", "--gateway", f"unix:{self.dir}/state-b/node.sock", "--framework", "none",
                              "--worker", "1", "--name", "one", "--", "true")
        job.end()
        self.assertEqual(job.status, 0, job.err)
        self.await_idle(runs)
        self.assertIn("one", self.ask("ps", "--all", name="c"))
        self.await_idle(runs)
        self.ask("drain", "b", name="c")

    def test_a_node_with_tasks_that_is_killed_is_down_at_once(self):
        runs = self.cluster()
        self.await_idle(runs)
        job = self.start_job("--", "sleep", "1000")
        self.until(job, lambda: job.out.decode().count('"state":"ready"') == 3)
        self.await_state(runs[0], "b", "alive")
        runs[1].process.kill()
        killed = time.monotonic()
        self.await_state(runs[0], "b", "down")
        self.assertLess(time.monotonic() - killed, 2)  # a suspicion takes 3 s
        job.process.kill()
        job.end()

    def test_the_task_of_a_killed_node_starts_at_once_on_a_node_without_a_connection(self):
        """The maintainer of its job has no other traffic."""
        nodes = {"a": self.node("a")}
        for name in "bc":
            nodes[name] = self.node(name, "--join", self.host_port("a"), "--label", "role=work")
        self.await_alive(*nodes.values())
        self.await_idle(nodes.values())
        job = self.start_bare("start", "--gateway", f"unix:{self.dir}/state-a/node.sock", "--framework", "none", "--json",
                              "--label", "role=work", "--restart-on", "failure", "--", "sleep", "1000")
        self.until(job, lambda: '"state":"ready"' in job.out.decode())
        first = next(event for event in job.events() if event.get("state") == "ready")
        spare = nodes[{"b": "c", "c": "b"}[first["node"]]]
        self.await_idle([spare])
        self.assertGreater(self.connections(nodes["a"]), 0)
        nodes[first["node"]].process.kill()
        killed = time.time()
        self.until(job, lambda: job.out.decode().count('"state":"ready"') == 2)
        again = [event for event in job.events() if event["event"] == "task" and event["attempt"] == 2]
        self.assertEqual([event["state"] for event in again], ["starting", "ready"])
        self.assertEqual(again[1]["node"], spare.name)
        self.assertLess(datetime.datetime.fromisoformat(again[0]["time"]).timestamp() - killed, 2)
        self.assertIn("its guard has ended the job's tasks there",
                      next(event["text"] for event in job.events() if event.get("state") == "lost"))
        job.process.kill()
        job.end()

    @contextlib.contextmanager
    def moved(self, run, *args):
        """Node b, which was killed and started at another port, and another program that listens at the old one and
        says nothing."""
        run.process.kill()
        run.end()
        host, port = self.host_port("b").split(":")
        with socket.create_server((host, int(port))) as listener:
            listener.setblocking(False)
            self.address[1] = self.address[3]
            yield self.node("b", "--join", self.host_port("a"), *args), listener

    def test_a_node_that_returns_at_another_address_is_reached_at_once(self):
        a, b, c = self.cluster()
        self.await_idle([a, b, c])
        with self.moved(b, "--slots", "1") as (b, old):
            harness.wait_until(lambda: all(self.address[3] in self.ask("members", "--json", name=name) for name in "ac"),
                               "the new address")
            self.await_alive(a, b, c)
            self.await_idle([a, b, c])
            with contextlib.suppress(BlockingIOError):
                while True:  # who dialed it before the new address was known
                    old.accept()[0].close()
            begun = time.monotonic()
            job = self.start_job("--", "sleep", "1000")
            self.until(job, lambda: job.out.decode().count('"state":"ready"') == 3)
            self.assertLess(time.monotonic() - begun, 2)
            self.ask("drain", "b", name="c")
            self.assertRaises(BlockingIOError, old.accept)  # nobody dialed it
            job.process.kill()
            job.end()

    def test_a_job_continues_on_a_node_that_returns_at_another_address(self):
        work = ["--label", "role=work"]
        a = self.node("a")
        b = self.node("b", "--join", self.host_port("a"), *work)
        self.await_alive(a, b)
        job = self.start_bare("start", "--gateway", f"unix:{self.dir}/state-a/node.sock", "--framework", "none", "--json",
                              *work, "--restart-on", "failure", "--", "sleep", "1000")
        self.until(job, lambda: '"state":"ready"' in job.out.decode())
        with self.moved(b, *work) as (b, old):  # node a dials it when its connection ends
            begun = time.monotonic()
            self.until(job, lambda: job.out.decode().count('"state":"ready"') == 2)
            self.assertLess(time.monotonic() - begun, 3)
            with contextlib.suppress(BlockingIOError):  # it was refused before the other program listened
                old.accept()[0].close()
            self.ask("stop", next(event["job"] for event in job.events()))
            job.end()

    def test_a_node_whose_job_runs_elsewhere_that_is_killed_is_down_at_once(self):
        runs = self.cluster()
        self.await_idle(runs)
        job = self.start_job("--", "sleep", "1000")
        self.until(job, lambda: job.out.decode().count('"state":"ready"') == 3)
        runs[0].process.kill()
        killed = time.monotonic()
        self.await_state(runs[1], "a", "down")
        self.assertLess(time.monotonic() - killed, 2)
        job.process.kill()
        job.end()


@unittest.skipUnless("TFC_TEST_CLOCKS" in os.environ, "a sanitizer has to be loaded first")
class ClockTest(GossipTest):
    """Clocks of node b jump, or its machine sleeps. Nobody is down because of that but a node that slept."""

    def setUp(self):
        super().setUp()
        self.write_offsets()
        self.a = self.node("a")
        self.env.update(LD_PRELOAD=os.environ["TFC_TEST_CLOCKS"], TFC_TEST_OFFSETS=self.offsets)
        self.b = self.node("b", "--join", self.host_port("a"))
        del self.env["LD_PRELOAD"]
        self.c = self.node("c", "--join", self.host_port("a"))
        self.await_alive(self.a, self.b, self.c)

    @property
    def offsets(self):
        return os.path.join(self.dir, "offsets")

    def write_offsets(self, realtime=0, monotonic=0):
        """How many seconds node b's clocks are ahead."""
        ahead = int(realtime * 1e9), int(monotonic * 1e9)
        with open(self.offsets, "r+b" if os.path.exists(self.offsets) else "wb") as file:
            file.write(struct.pack("=6q", *ahead, 0, 0, 0, 0))
        return ahead

    def assert_offsets(self, ahead):
        """Node b has read its clocks since they were moved."""
        self.ask("start", "--framework", "none", "--", "true", name="b")  # each event has the time of day
        used = struct.unpack("=6q", pathlib.Path(self.offsets).read_bytes())[3:5]
        self.assertEqual(used, ahead)

    def await_contact(self):
        """Until a has received from b, and b from a, what was sent since now."""
        begun = time.monotonic()
        for name, other in ("ab", "ba"):
            def silent_s():
                members = json.loads(self.ask("members", "--json", name=name))
                return next(member for member in members if member["name"] == other).get("silent_s", math.inf)
            harness.wait_until(lambda: silent_s() < time.monotonic() - begun - 1, f"contact of {name} with {other}")

    def test_a_wall_clock_that_is_set_changes_nothing(self):
        for hours in (1, -1):
            self.assert_offsets(self.write_offsets(realtime=3600 * hours))
            self.await_contact()
        self.c.process.kill()
        for run in (self.a, self.b):
            self.await_state(run, "c", "down")
            self.assertEqual(self.lost_by(run), {"c"})

    def test_a_clock_that_jumps_while_the_node_runs_declares_nobody(self):
        self.assert_offsets(self.write_offsets(monotonic=3600))  # CLOCK_BOOTTIME stays behind
        self.await_contact()
        self.c.process.kill()
        for run in (self.a, self.b):
            self.await_state(run, "c", "down")
            self.assertEqual(self.lost_by(run), {"c"})

    def test_a_machine_that_was_suspended_comes_back_and_declares_nobody(self):
        """CLOCK_BOOTTIME goes on meanwhile, CLOCK_MONOTONIC does not."""
        stopped = time.monotonic()
        self.b.process.send_signal(signal.SIGSTOP)
        for run in (self.a, self.c):
            self.await_state(run, "b", "down")
        ahead = self.write_offsets(monotonic=stopped - time.monotonic())
        self.b.process.send_signal(signal.SIGCONT)
        self.await_alive(self.a, self.b, self.c)
        self.assert_offsets(ahead)
        self.await_contact()
        self.assertEqual([self.lost_by(run) for run in (self.a, self.b, self.c)], [{"b"}, set(), {"b"}])


class WatchTest(GossipTest):
    def setUp(self):
        super().setUp()
        self.a = self.node("a")
        self.b = self.node("b", "--join", self.host_port("a"))
        self.await_alive(self.a, self.b)

    def watch(self, *args, **options):
        return self.start_bare("members", "--watch", "--gateway", f"unix:{self.dir}/state-a/node.sock", *args,
                               **options)

    def stop(self, run):
        run.process.send_signal(signal.SIGINT)
        run.end()

    def test_changes_are_printed_as_objects(self):
        run = self.watch("--json")
        run.await_output('"name":"b"')
        self.b.process.kill()
        run.await_output('"name":"b","state":"down"')
        self.stop(run)
        events = [json.loads(line) for line in run.out.decode().splitlines()]
        self.assertEqual([(event["name"], event["state"]) for event in events if event["name"] == "a"],
                         [("a", "alive")])  # times alone are no change
        states = [event["state"] for event in events if event["name"] == "b"]
        self.assertEqual((states[0], states[-1]), ("alive", "down"))

    def test_changes_are_printed_as_rows(self):
        run = self.watch()
        run.await_output("b +alive ")
        self.b.process.kill()
        run.await_output("b +down ")
        self.stop(run)
        self.assertEqual(len([line for line in run.out.decode().splitlines() if line.startswith("a ")]), 1)

    def test_a_terminal_shows_the_table_anew(self):
        terminal, end = pty.openpty()
        run = subprocess.Popen([harness.TFC_RUN, "members", "--watch", "--gateway",
                                f"unix:{self.dir}/state-a/node.sock"], stdin=end, stdout=end, stderr=end,
                               env=self.env, cwd=self.dir)
        os.close(end)
        self.addCleanup(os.close, terminal)
        shown = b""

        def await_shown(pattern):
            nonlocal shown
            stop = time.monotonic() + harness.PATIENCE
            while not re.search(pattern, shown.split(b"\x1b[H\x1b[J")[-1], re.M):
                self.assertLess(time.monotonic(), stop, shown)
                if select.select([terminal], [], [], 0.1)[0]:
                    shown += os.read(terminal, 65536)
        try:
            await_shown(rb"^NAME +STATE +SEEN +RTT .*\r\na +alive .*\r\nb +alive ")
            self.b.process.kill()
            await_shown(rb"^a +alive .*\r\nb +down ")
            run.send_signal(signal.SIGINT)
            self.assertEqual(run.wait(harness.PATIENCE), -signal.SIGINT)
        finally:
            if run.poll() is None:
                run.kill()
                run.wait()


class KeyTest(GossipTest):
    def test_a_node_with_another_key_is_not_accepted_and_gets_no_answer(self):
        a = self.node("a")
        self.run_bare("keygen", "other")
        self.node("b", "--join", self.host_port("a"), "--key", "other").await_output("cannot join the other nodes",
                                                                                     "err")
        self.assertNotIn('"name":"b"', a.out.decode())

    def test_datagrams_of_strangers_are_logged_rarely_and_not_answered(self):
        a = self.node("a")
        host, port = self.host_port("a").split(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.settimeout(0.5)
            for i in range(200):
                stranger.sendto(b"TFG\1" + bytes([i]) * 200, (host, int(port)))
            a.await_output("refused a datagram from 127.0.0.1:", "err")
            self.assertRaises(socket.timeout, stranger.recv, 2000)
        self.assertEqual(a.err.decode().count("refused a datagram"), 1)

    def test_keys_are_changed_node_by_node(self):
        """Install behind, put first, take out: no node reports a running one as down."""
        old = pathlib.Path(self.dir, "key").read_text()
        self.run_bare("keygen", "new-key")
        new = pathlib.Path(self.dir, "new-key").read_text()
        join = {"a": "b", "b": "c", "c": "a"}
        fast = ["--probe", "0.3"]
        runs = {name: self.node(name, "--join", self.host_port(join[name]), *fast) for name in join}
        self.await_alive(*runs.values())
        for text in (old + new, new + old, new):
            for name in join:
                before = {other: len(run.out) for other, run in runs.items()}
                pathlib.Path(self.dir, f"key-{name}").write_text(text)
                os.chmod(os.path.join(self.dir, f"key-{name}"), 0o600)
                runs[name].process.terminate()
                runs[name].end()
                runs[name] = self.node(name, "--join", self.host_port(join[name]), "--key", f"key-{name}", *fast)
                self.await_alive(*runs.values())
                for other in set(join) - {name}:
                    self.assertEqual(self.lost_by(runs[other], before[other]) - {name}, set(), runs[other].err)

class RefusedTest(GossipTest):
    def test_bad_input(self):
        for args, text in (
                (["--join", "127.0.0.1:1"], "join has no effect without gossip; set gossip, too"),
                (["--gossip", "--members", "members.json"],
                 "tfc_node_options has both gossip and members_file; set one of them"),
                (["--gossip", "nowhere.example:1"], "a numeric address is required, not a name"),
                (["--gossip"], "gossip: the node listens nowhere; set gossip to HOST:PORT"),
                (["--gossip", self.host_port("a"), "--down", "3"], "down has no effect with gossip"),
                (["--gossip", self.host_port("a"), "--join", "127.0.0.1"], "join: "),
                (["--gossip", self.host_port("a"), "--join", "127.0.0.1:0"],
                 'join: "127.0.0.1:0": the port must not be 0'),
                (["--gossip", "--listen", f"tcp://0.0.0.0:{self.first_port}", "--key", "key"],
                 "other nodes cannot reach this one at 0.0.0.0; set advertise"),
                (["--gossip", f"0.0.0.0:{self.first_port}"], "without a key"),
                (["--gossip", self.host_port("a"), "--label", "a=" + "x" * 250, "--label", "b=" + "x" * 250,
                  "--label", "c=" + "x" * 100], "a node's resources and labels have 512 bytes at most"),
        ):
            with self.subTest(args):
                run = self.refused("node", "--name", "a", "--state", "state-a", *args)
                self.assertEqual(run.status, 125, run.err)
                self.assertIn(text, run.err.decode())

    def test_a_name_that_cannot_be_resolved_is_named_and_tried_again(self):
        a = self.node("a", "--join", "nowhere.invalid:7777")
        a.await_output("cannot join the other nodes yet: nowhere.invalid:7777: cannot resolve host name", "err")

    def test_two_nodes_with_one_name(self):
        a = self.node("a")
        b = self.start_bare("node", "--name", "a", "--gossip", self.host_port("b"), "--key", "key", "--state", "second",
                            "--join", self.host_port("a"))
        b.end()
        self.assertEqual(b.status, 125, b.err)
        self.assertIn('two nodes have the name "a"', b.err.decode())
        for address in (self.address_of("a"), self.address_of("b")):
            self.assertIn(address, b.err.decode())
        self.assertIsNone(a.process.poll())

    def test_a_copied_state_directory(self):
        a = self.node("a")
        b = self.node("b", "--join", self.host_port("a"))
        self.await_alive(a, b)
        b.process.terminate()
        b.end()
        shutil.copytree(os.path.join(self.dir, "state-b"), os.path.join(self.dir, "state-c"))
        b = self.node("b", "--join", self.host_port("a"))
        self.await_alive(a, b)
        c = self.start_bare(*self.node_args("c", "--join", self.host_port("a")))
        ended = self.await_one_end(b, c)
        self.assertEqual(ended.status, 125, ended.err)
        self.assertIn("have the same identity: the state directory of one is a copy of the other's",
                      ended.err.decode())
        for name in "bc":
            self.assertIn(f'"{name}" at {self.address_of(name)}', ended.err.decode())
        name, winner = ("b", b) if ended is c else ("c", c)
        self.await_state(a, name, "alive")
        self.assertIsNone(winner.process.poll())

    def await_one_end(self, *runs):
        end = time.monotonic() + harness.PATIENCE
        while True:
            for run in runs:
                if run.process.poll() is not None:
                    run.end()
                    return run
                run.read(0.02)
            self.assertLess(time.monotonic(), end, [run.err for run in runs])

    def test_of_two_copies_the_higher_generation_keeps_running(self):
        """A restored snapshot, started beside the node that it was taken of, which has been started since."""
        a = self.node("a")
        b = self.node("b", "--join", self.host_port("a"))
        self.await_alive(a, b)
        b.process.terminate()
        b.end()
        shutil.copytree(os.path.join(self.dir, "state-b"), os.path.join(self.dir, "state-c"))
        b = self.node("b", "--join", self.host_port("a"))
        self.await_alive(a, b)
        b.process.terminate()
        b.end()
        # the second start since the copy: the copy will have a lower generation
        b = self.node("b", "--join", self.host_port("a"))
        self.await_alive(a, b)
        c = self.start_bare(*self.node_args("c", "--join", self.host_port("a")))
        ended = self.await_one_end(b, c)
        self.assertIs(ended, c, b.err)
        self.assertEqual(c.status, 125, c.err)
        self.assertIn("have the same identity", c.err.decode())
        self.await_state(a, "b", "alive")
        self.assertIsNone(b.process.poll())

    def test_a_restored_snapshot_without_its_original(self):
        a = self.node("a")
        self.join_and_end("b", a)
        state, snapshot = (os.path.join(self.dir, name) for name in ("state-b", "snapshot"))
        shutil.copytree(state, snapshot)
        for _ in range(2):  # the first start of the copy would have the generation of the first of these
            self.join_and_end("b", a)
        seen = self.generation_in(state)
        shutil.rmtree(state)
        os.rename(snapshot, state)
        self.assertLess(self.generation_in(state) + 1, seen)
        b = self.node("b", "--join", self.host_port("a"), "--label", "where=b")
        b.await_output("the state of this node is older than what the other nodes have seen of it; it continues with "
                       f"generation {seen + 1}\n", "err")
        self.await_alive(a, b)
        self.assertEqual(self.generation_in(state), seen + 1)
        run = self.start_bare("start", "--gateway", f"unix:{self.dir}/state-a/node.sock", "--framework", "none",
                              "--label", "where=b", "--", "/bin/sh", "-c", "exit 3").end()
        self.assertEqual(run.status, 3, run.err)
        self.assertIsNone(b.process.poll())

    def join_and_end(self, name, seed):
        node = self.node(name, "--join", self.host_port(seed.name))
        self.await_alive(seed, node)
        node.process.terminate()
        self.assertEqual(node.end().status, 0, node.err)

    def generation_in(self, state):
        text = pathlib.Path(state, "generation").read_text(encoding="ascii")
        return int(text.removeprefix("tfcluster-generation 1 "))


if __name__ == "__main__":
    harness.main()
