"""A node that was killed: its guard publishes the node's last will, and nobody waits for the lease."""
import contextlib
import datetime
import json
import os
import pathlib
import select
import signal
import socket
import threading
import time

import clients_test
import harness
from processes import children_of

OBEDIENT = "echo here; exec sleep 600"
DEAF = "trap '' TERM; echo here; while :; do sleep 0.1; done"
WILL = "its process has died, and its guard has ended the job's tasks there"
LEASE = "it has been unreachable for"


def seconds(event):
    return datetime.datetime.fromisoformat(event["time"]).timestamp()


class NodesTest(clients_test.ClientsTest):
    """Node a maintains; nodes b and c run the task."""

    names = "abc"

    def node_args(self, name, *args):
        labels = [] if name == "a" else ["--label", "role=work", "--label", f"name={name}"]
        return super().node_args(name, *labels, *args)

    def start_elsewhere(self, script, *args):
        """(job, node of its task, pid of its task)"""
        job = self.start_job(script, "--restart-on", "failure", "--label", "role=work", *args)
        self.await_ready(job)
        harness.wait_until(lambda: b"here" in self.ask("logs", job).out, "its first line")
        task = self.describe(job)["tasks"][0]
        return job, task["node"], task["pid"]

    def await_attempt(self, job, number):
        """The events of a job up to the launch of that attempt."""
        follower = self.begin("attach", job, "--json")
        follower.await_output(f'"attempt":{number},"state":"starting"')
        follower.process.kill()
        follower.end()
        return follower.events()

    def kill(self, pid, name):
        os.kill(pid, signal.SIGKILL)
        return time.time()

    def guard_of(self, name):
        """The guard of a node is its child. None: the node has none at the moment."""
        return next(iter(children_of(self.nodes[name].process.pid, "tfc-guard")), None)

    def return_of(self, name):
        self.nodes[name].end()
        self.await_state(self.nodes["a"], name, "down")
        self.nodes[name] = self.node(name)
        self.await_state(self.nodes["a"], name, "alive")

    def launched(self, events, number):
        """When the attempt was launched."""
        return next(seconds(event) for event in events if event["event"] == "task" and
                    (event["attempt"], event["state"]) == (number, "starting"))

    def reason(self, events):
        return next(event["text"] for event in events if event.get("state") == "lost")

    def has_other_guard(self, name, guard):
        return self.guard_of(name) not in (None, guard)


class WillTest(NodesTest):
    def test_the_tasks_of_a_killed_node_start_elsewhere_at_once(self):
        for script, grace in ((OBEDIENT, 0), (DEAF, 1)):
            with self.subTest(script=script):
                job, name, _ = self.start_elsewhere(script)
                killed = self.kill(self.nodes[name].process.pid, name)
                events = self.await_attempt(job, 2)
                took = self.launched(events, 2) - killed
                self.assertGreater(took, grace)
                self.assertLess(took, grace + 5)  # the lease takes over 15 s
                self.assertIn(f"node {name}: {WILL}", self.reason(events))
                self.assertNotEqual(self.describe(job)["tasks"][0]["node"], name)
                self.return_of(name)
                self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)

    def test_two_maintainers_are_both_notified(self):
        """Of one node that runs a task of each."""
        jobs = [self.start_job(OBEDIENT, "--restart-on", "failure", "--label", "role=work",
                               "--label", "name=b", at=at) for at in "ac"]
        for job in jobs:
            self.await_ready(job)
        killed = self.kill(self.nodes["b"].process.pid, "b")
        self.nodes["b"].end()
        for job in jobs:
            follower = self.begin("attach", job, "--json")
            follower.await_output(f"node b: {WILL}")
            follower.await_output('no node has it|"name=b"')
            follower.process.kill()
            follower.end()
            self.assertLess(next(seconds(event) for event in follower.events()
                                 if event.get("state") == "lost") - killed, 5)
            self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)

    def test_a_maintainer_that_returns_knows_the_will_by_its_journal(self):
        job, name, pid = self.start_elsewhere(OBEDIENT)
        self.nodes["a"].process.kill()
        self.nodes["a"].end()
        self.kill(self.nodes[name].process.pid, name)  # nobody receives its will now
        self.nodes[name].end()
        harness.wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the task")
        self.nodes["a"] = self.node("a")
        returned = time.time()
        events = self.await_attempt(job, 2)
        # 3 s, until it knows the members; the lease takes over 15 s.
        self.assertLess(self.launched(events, 2) - returned, 8)
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)

    def test_without_its_guard_a_killed_node_takes_the_lease(self):
        job, name, pid = self.start_elsewhere(DEAF)
        guard = self.guard_of(name)
        os.kill(guard, signal.SIGKILL)
        killed = self.kill(self.nodes[name].process.pid, name)
        events = self.await_attempt(job, 2)
        self.assertFalse(os.path.exists(f"/proc/{pid}"))
        self.assertIn(LEASE, self.reason(events))
        self.assertGreater(self.launched(events, 2) - killed, 12)
        self.return_of(name)  # it removes the directory that the guard has left
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)

    def test_a_guard_that_follows_another_one_has_no_will_too_early(self):
        """A task of the first guard is still being stopped when host and second guard end."""
        job, name, pid = self.start_elsewhere(DEAF, "--abort-grace", "6")
        guard = self.guard_of(name)
        os.kill(guard, signal.SIGKILL)
        harness.wait_until(lambda: self.has_other_guard(name, guard), "another guard")
        self.kill(self.nodes[name].process.pid, name)
        self.assertTrue(os.path.exists(f"/proc/{pid}"))
        events = self.await_attempt(job, 2)
        self.assertFalse(os.path.exists(f"/proc/{pid}"))
        self.assertIn(LEASE, self.reason(events))
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)


class Relay:
    """Where a node believes that node a listens. Keeps each will, and passes everything else on: connections, and
    datagrams both ways."""

    def __init__(self, port):
        self.to = ("127.0.0.1", port)
        self.listener, self.datagrams = self.bind()
        self.host_port = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.wills = {"tcp": [], "udp": []}
        self.passed = ()  # how wills pass: "tcp", "udp"
        self.is_broken = False  # connections end at once, unless a will comes over them
        self.senders = {}  # of datagrams: the socket by which each is known to node a
        self.threads = [threading.Thread(target=target) for target in (self.accept, self.pass_datagrams)]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def bind():
        """A listener, and a socket for datagrams with the same port."""
        while True:
            listener = socket.create_server(("127.0.0.1", 0))
            datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            with contextlib.suppress(OSError):
                datagrams.bind(listener.getsockname())
                return listener, datagrams
            listener.close()
            datagrams.close()

    def accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.pass_on, args=(near,), daemon=True).start()

    def pass_on(self, near):
        with contextlib.suppress(OSError), near:
            first = near.recv(16, socket.MSG_WAITALL)
            if first[5:6] == b"\3":
                first += near.recv(104, socket.MSG_WAITALL)
                self.wills["tcp"].append(first)
                if "tcp" not in self.passed:
                    return
            elif self.is_broken:
                return
            with socket.create_connection(self.to) as far:
                far.sendall(first)
                back = threading.Thread(target=self.copy, args=(far, near), daemon=True)
                back.start()
                self.copy(near, far)
                back.join()

    def pass_datagrams(self):
        poll = select.poll()
        poll.register(self.datagrams, select.POLLIN)
        known = {}
        while True:
            for fd, _ in poll.poll():
                if fd in known:
                    far, sender = known[fd]
                    with contextlib.suppress(OSError):  # node a has no socket now
                        self.datagrams.sendto(far.recv(2048), sender)
                    continue
                data, sender = self.datagrams.recvfrom(2048)
                if not data:  # close() has sent it
                    return
                if sender not in self.senders:
                    self.senders[sender] = far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                    far.connect(self.to)
                    known[far.fileno()] = far, sender
                    poll.register(far, select.POLLIN)
                if data.startswith(b"\x89TFC"):
                    self.wills["udp"].append(data)
                    if "udp" not in self.passed:
                        continue
                with contextlib.suppress(OSError):
                    self.senders[sender].send(data)

    @staticmethod
    def copy(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.datagrams.sendto(b"", self.datagrams.getsockname())
        for thread in self.threads:
            thread.join()
        for one in (self.listener, self.datagrams, *self.senders.values()):
            one.close()


class RelayTest(NodesTest):
    """Node b reaches node a through a relay; only node b runs tasks."""

    names = "ab"

    def setUp(self):
        self.relay = None
        super().setUp()

    def tearDown(self):
        super().tearDown()
        self.relay.close()

    def node_args(self, name, *args):
        args = super().node_args(name, *args)
        if not self.relay:
            self.relay = Relay(int(self.address_of("a").rsplit(":", 1)[1]))
        if name == "b":
            members = json.loads(pathlib.Path(self.dir, "members.json").read_text())
            members["members"][0]["address"] = "tcp://" + self.relay.host_port
            args[args.index("members.json")] = self.write("members-b.json", json.dumps(members))
        return args

    def send(self, message):
        """What node a responds."""
        with socket.create_connection(self.relay.to) as to:
            to.sendall(message)
            response = b""
            with contextlib.suppress(ConnectionResetError):
                while data := to.recv(64):
                    response += data
            return response

    def kill_b(self):
        killed = self.kill(self.nodes["b"].process.pid, "b")
        self.nodes["b"].end()
        return killed

    def await_lost(self, job):
        """When the first attempt was lost."""
        follower = self.begin("attach", job, "--json")
        follower.await_output('"state":"lost".*\n')
        follower.process.kill()
        follower.end()
        lost = next(event for event in follower.events() if event.get("state") == "lost")
        self.assertIn(f"node b: {WILL}", lost["text"])
        return seconds(lost)

    def await_second_attempt(self, job):
        """The pid of its task, on the node that was started again."""
        follower = self.begin("attach", job, "--json")
        self.nodes["b"] = self.node("b")
        follower.await_output('"attempt":2,"state":"ready"')
        follower.process.kill()
        follower.end()
        return self.describe(job)["tasks"][0]["pid"]

    def assert_untouched(self, job, attempt, pid):
        task = self.describe(job)["tasks"][0]
        self.assertEqual((task["state"], task["attempt"], task["pid"]), ("ready", attempt, pid))


def forged(will):
    """The same, with another bit in each byte behind the preamble."""
    for i in range(16, 120):
        yield will[:i] + bytes([will[i] ^ 1 << i % 8]) + will[i + 1:]


class ForgerTest(RelayTest):
    def test_late_repeated_and_forged_wills_do_no_harm(self):
        job, _, pid = self.start_elsewhere(OBEDIENT)
        self.kill_b()
        harness.wait_until(lambda: len(self.relay.wills["tcp"]) >= 2, "a will that is repeated")
        will = self.relay.wills["tcp"][0]
        self.assertEqual(set(self.relay.wills["tcp"]), {will})
        self.assertEqual(self.relay.wills["udp"], [])  # node a has no socket for datagrams
        for other in forged(will):
            self.assertEqual(self.send(other), b"")
        self.assert_untouched(job, 1, pid)
        ack = will[:8] + will[112:]
        self.assertEqual(self.send(will), ack)
        self.await_lost(job)
        pid = self.await_second_attempt(job)  # it runs in another incarnation
        for _ in range(3):
            self.assertEqual(self.send(will), ack)
        self.assert_untouched(job, 2, pid)
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)


class OneWayTest(RelayTest):
    """Node b never reaches node a, which reaches it."""

    def node_args(self, name, *args):
        args = super().node_args(name, *args)
        self.relay.is_broken = True
        return args

    def test_a_will_is_sent_where_membership_says_that_the_maintainer_is(self):
        job, _, _ = self.start_elsewhere(OBEDIENT)
        self.relay.passed = ("tcp",)
        killed = self.kill_b()
        self.assertLess(self.await_lost(job) - killed, 5)
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)


class GossipTest(RelayTest):
    """The relay is the address of node a in gossip."""

    def node_args(self, name, *args):
        self.relay = self.relay or Relay(int(self.address_of("a").rsplit(":", 1)[1]))
        labels = [] if name == "a" else ["--label", "role=work"]
        here = self.relay.host_port if name == "a" else self.address_of(name)[len("tcp://"):]
        return ["node", "--name", name, "--gossip", here, "--listen", self.address_of(name), "--join",
                self.relay.host_port, "--key", "key", "--state", f"state-{name}", "--json", *labels, *args]

    def test_a_will_comes_over_tcp_or_in_a_datagram_when_the_other_way_is_cut(self):
        for way in ("tcp", "udp"):
            with self.subTest(way=way):
                job, _, _ = self.start_elsewhere(OBEDIENT)
                self.relay.passed = (way,)
                killed = self.kill_b()
                self.assertLess(self.await_lost(job) - killed, 5)
                self.await_second_attempt(job)
                self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)

    def test_late_repeated_and_forged_datagrams_do_no_harm(self):
        job, _, pid = self.start_elsewhere(OBEDIENT)
        self.kill_b()
        wills = self.relay.wills["udp"]
        harness.wait_until(lambda: len(wills) >= 2, "a will that is repeated")
        will = wills[0]
        self.assertEqual(set(wills), {will})
        ack = will[:8] + will[112:]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.settimeout(harness.PATIENCE)
            sender.connect(self.relay.to)
            for other in (*forged(will), will[:119], will + b"\0", will[:16], will[:5] + b"\2" + will[6:],
                          will[:15] + b"\1" + will[16:]):
                sender.send(other)
            self.assert_untouched(job, 1, pid)
            for _ in range(2):
                sender.send(will)
                self.assertEqual(sender.recv(64), ack)  # and nothing before it
            self.await_lost(job)
            pid = self.await_second_attempt(job)
            for _ in range(3):
                sender.send(will)
                self.assertEqual(sender.recv(64), ack)
        self.assert_untouched(job, 2, pid)
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)


if __name__ == "__main__":
    harness.main()
