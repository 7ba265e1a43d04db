"""tfc_run start, whose node is killed, stopped or cut off at every step of the submit: from the first
byte that is sent to the answer that is read. However it ends: one submit is one job."""
import json
import os
import pathlib
import signal
import socket
import threading
import time

import harness
import node_test
import client_keys
from processes import children_of


class Relay:
    """Carries the connections of clients to a node. Once one direction has had as many bytes as
    `arm` allows, it carries nothing more until it is cut."""

    def __init__(self, target):
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "tcp://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.changed = threading.Condition()
        self.is_open = True
        self.pairs = []
        self.arm()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                node = socket.create_connection(self.target) if self.is_open else None
            except OSError:
                node = None
            if not node:
                client.close()
                continue
            self.pairs.append((client, node))
            for source, target, way in ((client, node, "to"), (node, client, "from")):
                threading.Thread(target=self.carry, args=(source, target, way), daemon=True).start()

    def carry(self, source, target, way):
        try:
            while data := source.recv(65536):
                with self.changed:
                    if self.is_held:
                        return
                    room = self.limit.get(way, 1 << 40) - self.carried[way]
                    self.is_held = len(data) >= room
                    target.sendall(data[:room])
                    self.steps.append((way, self.carried[way]))
                    self.carried[way] += min(len(data), room)
                    self.changed.notify_all()
        except OSError:
            pass
        finally:
            with self.changed:
                is_held = self.is_held
            if not is_held:
                self.end(source, target)
                source.close()

    @staticmethod
    def end(*pair):
        """Whoever waits at one of them is woken, which closing would not do."""
        for sock in pair:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def arm(self, **limit):
        with self.changed:
            self.carried = {"to": 0, "from": 0}
            self.steps = []  # of each message: its way, and how much went that way before
            self.limit = limit
            self.is_held = False

    def await_held(self, is_over):
        """Until it holds, or `is_over`: False."""
        end = time.monotonic() + harness.PATIENCE
        while True:
            with self.changed:
                if self.is_held:
                    return True
                if is_over():
                    return False
                self.changed.wait(0.02)
            assert time.monotonic() < end, "neither held nor over"

    def await_carried(self, way, count):
        end = time.monotonic() + harness.PATIENCE
        with self.changed:
            while self.carried[way] < count:
                self.changed.wait(0.05)
                assert time.monotonic() < end, f"{self.carried} of {count}"

    def cut(self):
        with self.changed:
            self.limit = {}
            self.is_held = False
        pairs, self.pairs = self.pairs, []
        for pair in pairs:
            self.end(*pair)
            for sock in pair:
                sock.close()

    def close(self):
        self.end(self.listener)
        self.listener.close()
        self.cut()


class SubmitTest(node_test.NodeTest):
    names = "a"
    role = "node"
    node_options = ()

    def setUp(self):
        super().setUp()
        self.run_bare("keygen", "submit", "--role", "submit")
        node_key = pathlib.Path(self.dir, "key").read_text()
        submit_key = pathlib.Path(self.dir, "submit").read_text()
        self.write("client", submit_key if self.role == "submit" else node_key, 0o600)
        self.write("key", node_key + submit_key, 0o600)
        self.write_members(self.names)
        self.nodes, self.relays, self.count = {}, {}, 0
        for name in self.names:
            self.nodes[name] = self.node(name, *self.node_options)
            port = int(self.address_of(name).rsplit(":", 1)[1])
            self.relays[name] = Relay(("127.0.0.1", port))
            self.addCleanup(self.relays[name].close)
        self.await_all()

    def await_all(self):
        for name in self.names:
            for other in self.names.replace(name, ""):
                self.await_state(self.nodes[name], other, "alive")

    def ask(self, name, command, *args):
        return self.start_bare(command, "--gateway", f"unix:{self.dir}/state-{name}/node.sock",
                               *args).end()

    def submit(self):
        """`tfc_run start`, under way, by all relays; the name of its job is of this submit alone."""
        self.count += 1
        self.job = f"submit-{self.count}"
        addresses = ",".join(self.relays[name].address for name in self.names)
        return self.start_bare("start", "--detach", "--gateway", addresses, "--key", "client",
                               "--framework", "none", "--name", self.job, "--", "/bin/sh", "-c",
                               "exit 0")

    def jobs(self):
        """The ids of all jobs that this submit has made, on any node."""
        def listed():
            runs = [self.ask(name, "ps", "--all", "--json") for name in self.names]
            return all(run.status == 0 and not run.err for run in runs) and runs
        runs = harness.wait_until(listed, "all nodes list their jobs")
        return {each["job"] for run in runs for each in json.loads(run.out)
                if each["name"] == self.job}

    def assert_one_job(self, run, what):
        """The referee: one submit is one job, the one whose id the client got. True: there is one;
        False: the client was never let in, and said so."""
        run.end()
        jobs = self.jobs()
        if run.status == 125 and b"cannot reach a gateway" in run.err and not jobs:
            return False
        said = [line for line in run.errors() if "waiting for it (" not in line and "; still waiting" not in line]
        self.assertEqual((run.status, said), (0, []), what)
        self.assertEqual(jobs, {run.out.decode().strip()}, what)
        by_key = client_keys.jobs_by_key(f"{self.dir}/state-{name}" for name in self.names)
        self.assertIn(jobs, by_key.values())
        return True

    def measure(self):
        """A submit that nothing disturbs: its messages (Relay.steps), and bytes each way."""
        relay = self.relays["a"]
        relay.arm()
        self.assert_one_job(self.submit(), "undisturbed")
        return list(relay.steps), dict(relay.carried)

    def points(self):
        """Within each message, and when all of it went through; the answer's end first of all."""
        steps, sizes = self.measure()
        ends = {way: [before for each, before in steps[1:] if each == way] + [size]
                for way, size in sizes.items()}
        points = [{"from": sizes["from"] - 1}]
        for way, before in steps:
            points += [{way: before + 1}, {way: next(end for end in ends[way] if end > before)}]
        return points

    def kill(self, name):
        run = self.nodes[name]
        run.process.kill()
        run.end()

    def disturb(self, limit):
        """A submit that comes so far and no further; None: it ended before that."""
        self.relays["a"].arm(**limit)
        run = self.submit()
        self.relays["a"].await_held(lambda: run.process.poll() is not None)
        return run


class KilledHomeTest(SubmitTest):
    """With one gateway, with two, with three."""

    def test_a_node_that_is_killed_at_any_step_makes_one_job(self):
        points, made = self.points(), 0
        for limit in points:
            run = self.disturb(limit)
            self.kill("a")
            self.relays["a"].cut()
            self.nodes["a"] = self.node("a", *self.node_options)
            made += self.assert_one_job(run, limit)
            self.await_all()
        self.assertGreater(made, len(points) // 2)


    def test_start_says_which_node_it_waits_for(self):
        run = self.disturb({"from": self.measure()[1]["from"] - 1})
        self.kill("a")
        self.relays["a"].cut()
        run.await_output("cannot reach node a, which may have created the job; waiting for it",
                         "err")
        self.assertIsNone(run.process.poll())
        self.nodes["a"] = self.node("a", *self.node_options)
        self.assertTrue(self.assert_one_job(run, "waited"))


class InterruptedTest(SubmitTest):
    """Before the job's id was printed."""

    SIGNALS = ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129))

    def interrupt(self, limit, number):
        run = self.disturb(limit)
        run.process.send_signal(number)
        run.end()
        self.relays["a"].cut()
        return run

    def test_a_submit_that_was_sent_may_have_made_the_job(self):
        size = self.measure()[1]["from"]
        for number, status in self.SIGNALS:
            with self.subTest(number):
                run = self.interrupt({"from": size - 1}, number)
                self.assertEqual(run.errors(), [
                    "tfc_run: interrupted before the node responded; the job may have been submitted "
                    '("tfc_run ps --all" lists it then)'])
                self.assertEqual((run.status, run.out, len(self.jobs())), (status, b"", 1))

    def test_a_submit_that_was_not_sent_made_no_job(self):
        for number, status in self.SIGNALS:
            with self.subTest(number):
                run = self.interrupt({"from": 1}, number)
                self.assertEqual(run.errors(), ["tfc_run: interrupted; the job was not submitted"])
                self.assertEqual((run.status, run.out, self.jobs()), (status, b"", set()))


class HandshakeTest(SubmitTest):
    def test_a_node_that_ends_behind_its_key_is_not_said_to_refuse_the_key(self):
        relay = self.relays["a"]
        relay.arm()
        ps = ("ps", "--gateway", relay.address, "--key", "client")
        self.assertEqual(self.start_bare(*ps).end().status, 0)
        relay.arm(**{"from": [before for way, before in relay.steps if way == "from"][1]})
        run = self.start_bare(*ps)
        relay.await_held(lambda: False)
        relay.cut()
        self.assertEqual(run.end().errors(), [f"tfc_run: cannot reach a gateway: {relay.address}: "
                                              "the peer closed the connection during the "
                                              "handshake"])


class TwoGatewaysTest(KilledHomeTest):
    names = "ab"

    def store_of(self, name):
        return children_of(self.nodes[name].process.pid, "tfc-store")[0]

    def test_a_home_that_is_cut_off_is_reached_through_another_node(self):
        """The answer is lost, and the client reaches the home no more; the other node does."""
        points, made = self.points(), 0
        for limit in points:
            run = self.disturb(limit)
            self.relays["a"].is_open = False
            self.relays["a"].cut()
            made += self.assert_one_job(run, limit)
            self.relays["a"].is_open = True
        self.assertGreater(made, len(points) // 2)

    def test_a_home_that_is_stopped_inside_its_fsync_makes_one_job(self):
        size = self.measure()[1]["to"]
        relay, other = self.relays["a"], self.relays["b"]
        node, store = self.nodes["a"].process.pid, self.store_of("a")
        relay.arm()
        other.arm()
        os.kill(store, signal.SIGSTOP)
        try:
            run = self.submit()
            relay.await_carried("to", size - 8)
            self.ask("a", "ps")  # answered behind what came before: its store has the job
            os.kill(node, signal.SIGSTOP)
            relay.is_open = False
            relay.cut()
            other.await_carried("to", size // 2)  # the submit, and no answer
        finally:
            os.kill(node, signal.SIGCONT)
            os.kill(store, signal.SIGCONT)
        self.assert_one_job(run, "stopped")


class SubmitKeyTest(TwoGatewaysTest):
    """The home knows the submitter again, also when another node states who it is."""
    role = "submit"
    node_options = ("--submit-user", "nobody") if os.getuid() == 0 else ()


class ThreeGatewaysTest(TwoGatewaysTest):
    names = "abc"


if __name__ == "__main__":
    harness.main()
