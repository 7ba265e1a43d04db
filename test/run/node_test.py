"""tfc_run node: members that see each other come, go and die; and one clear sentence for each way
not to become one."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import threading
import time

import harness
import client_keys
from processes import children_of, descendants_of, name_of


class NodeTest(harness.RunTest):
    listens = True

    def setUp(self):
        super().setUp()
        self.address = [f"tcp://127.0.0.1:{self.first_port + i}" for i in range(4)]
        self.env["HOME"] = self.dir  # no state directory of ours
        self.env.pop("TFC_KEY", None)
        self.run_bare("keygen", "key")
        self.write_members("abc")

    def tearDown(self):
        for run in self.runs:
            if run.process.poll() is None:
                run.process.terminate()
            if run.process.stderr and not run.process.stderr.closed:
                run.end()
        self.assertEqual(client_keys.doubled(pathlib.Path(self.dir).glob("state-*")), {})
        super().tearDown()

    def address_of(self, name):
        return self.address["abc".index(name)]

    def write_members(self, names, **keys):
        text = json.dumps({"members": [dict(keys, name=name, address=self.address_of(name))
                                       for name in names]})
        return self.write("members.json", text)

    def node_args(self, name, *args):
        return ["node", "--name", name, "--members", "members.json", "--key", "key", "--state",
                f"state-{name}", "--json", *args]

    def start_bare(self, *args, **options):
        run = harness.Run(list(args), self.env, self.dir, **options)
        self.runs.append(run)
        return run

    def node(self, name, *args):
        run = self.start_bare(*self.node_args(name, *args))
        run.await_output('"state":"ready"')
        return run

    def await_state(self, run, name, state):
        """Until the last that `run` said of a member is its state."""
        def last():
            for line in reversed(run.out.decode().split("\n")[:-1]):
                event = json.loads(line)
                if event["event"] == "member" and event["name"] == name:
                    return event["state"]
        end = time.monotonic() + harness.PATIENCE
        while last() != state:
            self.assertTrue(time.monotonic() < end and run.fds,
                            f"{name} never {state}: {run.out!r} {run.err!r}")
            run.read(0.05)

    def refused(self, *args):
        return self.start_bare(*args).end()


class MembersTest(NodeTest):
    def test_members_see_each_other(self):
        a, b, c = (self.node(name) for name in "abc")
        for run, others in ((a, "bc"), (b, "ac"), (c, "ab")):
            for name in others:
                self.await_state(run, name, "alive")

    def test_a_killed_node_is_down_at_once(self):
        a = self.node("a")
        took = []
        for _ in range(5):
            b = self.node("b")
            self.await_state(a, "b", "alive")
            b.process.kill()
            killed = time.monotonic()
            self.await_state(a, "b", "down")
            took.append(time.monotonic() - killed)
            b.end()
        self.assertLess(min(took), 2)  # without its goodbye it takes 8 s

    def test_log_lines_have_the_time_unless_the_journal_adds_it(self):
        moment = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z "
        for is_journal in (False, True):
            with self.subTest(is_journal=is_journal), open(os.path.join(self.dir, "log"), "w+b") as log:
                status = os.fstat(log.fileno())
                number = status.st_ino if is_journal else status.st_ino + 1
                env = dict(self.env, JOURNAL_STREAM=f"{status.st_dev}:{number}")
                run = subprocess.Popen([harness.TFC_RUN, *self.node_args("a")], env=env, cwd=self.dir,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
                self.assertIn(b'"ready"', run.stdout.readline() + run.stdout.readline())
                run.terminate()
                run.communicate()
                log.seek(0)
                lines = log.read().decode().splitlines()
                self.assertGreaterEqual(len(lines), 2)
                for line in lines:
                    self.assertRegex(line, "^" + ("" if is_journal else moment) + "tfc_run: ")

    def test_a_node_with_another_key_says_so_when_all_are_unreachable(self):
        self.write_members("abc")
        self.run_bare("keygen", "other")
        self.node("a")
        self.node("b")
        c = self.node("c", "--key", "other", "--probe", "0.05", "--suspect", "0.1", "--down", "0.3")
        c.await_output("more than a third of the members are unreachable, and connections to 2 of them do not "
                       r"authenticate: check that this node has the cluster's key \(--key\); it declares no member down",
                       "err")

    def test_a_member_that_was_never_up_is_not_down(self):
        a = self.node("a")
        a.await_output("node b has not been reached yet", "err")
        b = self.node("b")
        self.await_state(a, "b", "alive")
        b.process.kill()
        a.await_output("node b is down", "err")

    def test_a_node_that_leaves_has_left(self):
        a, b = self.node("a"), self.node("b")
        self.await_state(a, "b", "alive")
        b.process.terminate()
        b.end()
        self.assertEqual(b.status, 0)
        self.await_state(a, "b", "left")
        again = self.node("b")
        self.await_state(a, "b", "alive")
        self.await_state(again, "a", "alive")

    def test_a_second_signal_stops_at_once(self):
        a, b = self.node("a"), self.node("b")
        self.await_state(a, "b", "alive")
        b.process.send_signal(signal.SIGSTOP)  # it will not receive the goodbye
        a.process.terminate()
        a.await_output("leaving; the tasks here move to other nodes or end; a second signal stops at once", "err")
        a.process.terminate()
        a.end()
        b.process.send_signal(signal.SIGCONT)
        self.assertIn(a.status, (0, 128 + signal.SIGTERM))

    def test_a_silent_node_is_suspect_then_down_and_comes_back(self):
        times = ["--probe", "0.1", "--suspect", "0.3", "--down", "0.8"]
        a, b = self.node("a", *times), self.node("b", *times)
        self.await_state(a, "b", "alive")
        b.process.send_signal(signal.SIGSTOP)
        a.await_output('"name":"b"[^\\n]*"suspect"')
        self.await_state(a, "b", "down")
        b.process.send_signal(signal.SIGCONT)
        self.await_state(a, "b", "alive")
        self.await_state(b, "a", "alive")

    def test_a_member_that_is_taken_out_is_gone_and_one_put_in_is_there(self):
        self.write_members("ab")
        a = self.node("a")
        b = self.node("b")
        self.await_state(a, "b", "alive")
        self.write_members("ac")
        self.await_state(a, "b", "removed")
        c = self.node("c")
        self.await_state(a, "c", "alive")
        self.await_state(c, "a", "alive")
        self.assertIsNone(b.process.poll())

    def test_what_a_config_file_says(self):
        self.write("node.json", json.dumps({
            "name": "a", "members": "members.json", "key": "key", "state": "state-a",
            "listen": [self.address[3], self.address[0]], "slots": 3, "label": ["x=1"],
            "json": True}))
        run = self.start_bare("node", "--config", "node.json", "--name", "b")
        run.await_output('"state":"ready"')
        ready = run.events()[0]
        self.assertEqual(ready["name"], "b")  # the command line has the last word
        self.assertEqual(ready["listen"][:2], [self.address[3], self.address[0]])

    def test_a_node_alone_needs_nothing(self):
        args = ["--state", ".local/state/tfcluster"] if os.getuid() == 0 else []
        run = self.start_bare("node", "--json", *args)
        run.await_output('"state":"ready"')
        state = os.path.join(self.dir, ".local/state/tfcluster")
        self.assertEqual(stat.S_IMODE(os.stat(state).st_mode), 0o700)


class AskTest(NodeTest):
    """What a node answers, and does, on a request."""

    def ask(self, command, *args, name="a"):
        run = self.start_bare(command, "--gateway", f"unix:{self.dir}/state-{name}/node.sock",
                              *args).end()
        self.assertEqual(run.status, 0, run.err)
        return run.out.decode()

    def members(self, name="a"):
        return {member["name"]: member for member in
                json.loads(self.ask("members", "--json", name=name))}

    def test_members(self):
        a = self.node("a", "--slots", "3", "--label", "rack=1", "--memory", "1G")
        b = self.node("b")
        self.await_state(a, "b", "alive")
        self.await_state(b, "a", "alive")
        by_b = self.members("b")["a"]
        self.assertEqual((by_b["slots"], by_b["memory"], by_b["labels"], by_b["self"]),
                         (3, 1 << 30, {"rack": "1"}, False))
        by_a = self.members()
        self.assertEqual((by_a["a"]["node_id"], by_a["a"]["self"], by_a["c"]["state"]),
                         (by_b["node_id"], True, "down"))
        lines = self.ask("members").splitlines()
        self.assertEqual(lines[0].split(),
                         ["NAME", "STATE", "SEEN", "RTT", "ADDRESS", "SLOTS", "MEMORY", "GPUS", "LABELS"])
        self.assertEqual(lines[1].split(),
                         ["a", "alive", "-", "-", self.address[0], "3", "1GiB", "0", "rack=1"])
        name, state, seen, rtt, *rest = lines[2].split()
        self.assertEqual([name, state, *rest], ["b", "alive", self.address[1], "any", "any", "0", "-"])
        self.assertRegex(seen, "^[0-3]s$")
        self.assertRegex(rtt, "^(-|[0-9.]+ms)$")

    def test_members_over_tcp_with_a_key(self):
        self.node("a")
        self.run_bare("keygen", "read", "--role", "read")
        with open(os.path.join(self.dir, "key"), "ab") as keys, \
                open(os.path.join(self.dir, "read"), "rb") as read:
            keys.write(read.read())
        b = self.node("b")
        run = self.start_bare("members", "--gateway", self.address[1], "--key", "read").end()
        self.assertEqual((run.status, run.err), (0, b""))
        self.assertIn(b"\nb ", run.out)
        run = self.start_bare("drain", "b", "--gateway", self.address[1], "--key", "read").end()
        self.assertEqual(run.status, 125)
        self.run_bare("keygen", "stranger", "--role", "read")
        run = self.start_bare("members", "--gateway", self.address[1], "--key", "stranger").end()
        self.assertEqual(run.status, 125)
        self.assertIn(b"key", run.err)
        self.assertIsNone(b.process.poll())

    def test_drain(self):
        a, b = self.node("a"), self.node("b")
        self.await_state(a, "b", "alive")
        self.await_state(b, "a", "alive")
        harness.wait_until(  # "alive" by its own connection; ours to it may take a moment more
            lambda: self.start_bare("drain", "b", "--gateway", f"unix:{self.dir}/state-a/node.sock"
                                    ).end().status == 0, "a drain of b")
        a.await_output('"name":"b"[^\\n]*"draining":true')
        self.assertTrue(self.members("b")["b"]["draining"])
        job = self.ask("start", "--framework", "none", "--", "true", name="b").split()[0]
        described = json.loads(self.ask("describe", job, "--json"))
        self.assertEqual((described["maintainer"], described["tasks"][0]["last_end"]["node"]), ("b", "a"))
        self.ask("drain", "b", "--off")
        harness.wait_until(lambda: not self.members()["b"]["draining"], "the end of it")
        self.ask("drain", "a")
        b.await_output('"name":"a"[^\\n]*"draining":true')

    def test_drain_of_nobody(self):
        self.node("a")
        for name, words in (("z", 'member "z" not found; "tfc_run members" lists all nodes'),
                            ("b", "cannot reach node b")):
            run = self.start_bare("drain", name, "--gateway",
                                  f"unix:{self.dir}/state-a/node.sock").end()
            self.assertEqual(run.status, 125)
            self.assertIn(words, run.err.decode())

    def test_no_gateway(self):
        run = self.start_bare("members", "--gateway", f"unix:{self.dir}/no.sock").end()
        self.assertEqual((run.status, len(run.errors())), (125, 1), run.err)
        self.assertIn("no.sock", run.err.decode())


class JobTest(NodeTest):
    def reported_address(self, name):
        """The host in TF_CONFIG of a task on a node."""
        run = self.start_bare("start", "--gateway", f"unix:{self.dir}/state-{name}/node.sock",
                              "--no-prefix", "--", "sh", "-c", "echo $TF_CONFIG").end()
        self.assertEqual(run.status, 0, run.err)
        line = next(line for line in run.lines() if line.startswith("{"))
        return json.loads(line)["cluster"]["worker"][0].rsplit(":", 1)[0]

    def test_tasks_are_where_their_node_is(self):
        text = json.dumps({"members": [{"name": "a", "address": self.address[0].replace(
            "127.0.0.1", "127.0.0.9")}]})
        self.write("members.json", text)
        self.node("a", "--ports", self.ports)
        self.assertEqual(self.reported_address("a"), "127.0.0.9")

    def test_unless_it_is_given_another_address(self):
        self.write_members("a")
        self.node("a", "--ports", self.ports, "--advertise", "localhost")
        self.assertEqual(self.reported_address("a"), "localhost")


class MovesTest(NodeTest):
    """What becomes of tasks when their node is drained or leaves."""

    def setUp(self):
        super().setUp()
        self.write_members("ab")
        self.a = self.node("a", "--ports", self.ports)
        self.b = self.node("b", "--ports", self.ports)
        self.await_state(self.a, "b", "alive")
        self.await_state(self.b, "a", "alive")

    def ask(self, command, *args, name="a"):
        run = self.start_bare(command, "--gateway", f"unix:{self.dir}/state-{name}/node.sock",
                              *args).end()
        self.assertEqual(run.status, 0, run.err)
        return run.out.decode()

    def start_job(self):
        """Two workers, one a node, kept by a."""
        self.ask("start", "--detach", "--name", "long", "--framework", "none", "--worker", "2",
                 "--", "sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done")
        self.await_places({"a", "b"})

    def places(self):
        job = json.loads(self.ask("describe", "long", "--json"))
        tasks = job["tasks"]
        return {task["node"] for task in tasks} if job["state"] == "running" and all(
            task["state"] == "ready" for task in tasks) else None

    def await_places(self, wanted):
        harness.wait_until(lambda: self.places() == wanted, f"tasks on {wanted}")

    def test_drained_tasks_move(self):
        self.start_job()
        self.ask("drain", "b", name="a")
        self.await_places({"a"})
        self.assertIsNone(self.b.process.poll())

    def test_a_node_that_leaves_hands_its_tasks_over(self):
        self.start_job()
        follower = self.start_bare("attach", "--gateway", f"unix:{self.dir}/state-a/node.sock", "long")
        self.b.process.terminate()
        follower.await_output("must move: node b is drained or leaves; restarting the group", "err")
        self.b.end()
        self.assertEqual(self.b.status, 0)
        self.await_places({"a"})
        self.await_state(self.a, "b", "left")
        self.assertRegex(self.ask("members"), r"\nb +left +")

    def test_jobs_go_on_when_their_node_is_back(self):
        self.start_job()
        before = json.loads(self.ask("describe", "long", "--json"))
        self.a.process.terminate()
        self.a.end()
        self.assertEqual(self.a.status, 0)
        self.await_state(self.b, "a", "left")
        self.a = self.node("a", "--ports", self.ports)
        harness.wait_until(self.places, "the job runs again")
        after = json.loads(self.ask("describe", "long", "--json"))
        self.assertEqual(after["job"], before["job"])
        self.assertGreater(after["epoch"], before["epoch"])


class LeavingTest(NodeTest):
    def test_what_lasts_is_said_once(self):
        self.write_members("a")
        a = self.node("a", "--ports", self.ports)
        run = self.start_bare(
            "start", "--gateway", f"unix:{self.dir}/state-a/node.sock", "--framework", "none",
            "--worker", "2", "--grace", "4", "--", "/bin/sh", "-c",
            "trap '' TERM; echo up; while :; do sleep 0.1; done")
        run.await_output(r"worker/0\] up")
        run.await_output(r"worker/1\] up")
        job = run.lines()[0]
        a.process.terminate()
        a.await_output(f"leaving; waiting for 2 tasks of {job} to end", "err")
        a.end()
        self.assertEqual(a.status, 0)
        self.assertEqual(a.err.count(b"waiting for"), 1, a.err)
        run.process.kill()
        run.end()

    def test_a_node_whose_disk_does_not_respond_says_what_it_waits_for(self):
        self.write_members("a")
        a = self.node("a")
        store = children_of(a.process.pid, "tfc-store")[0]
        os.kill(store, signal.SIGSTOP)
        run = self.start_bare("start", "--gateway", f"unix:{self.dir}/state-a/node.sock", "--framework", "none",
                              "--", "true")
        run.await_output("no response from .*; still waiting", "err")
        a.process.terminate()
        a.await_output("leaving; waiting for the store to write its jobs: the disk does not respond or is full", "err")
        os.kill(store, signal.SIGCONT)
        self.assertEqual(a.end().status, 0, a.err)
        run.process.terminate()
        run.end()


class SignalTest(NodeTest):
    """A service manager signals a cgroup, a batch system a session: each process of the node."""

    def test_signals_to_every_process_of_a_node(self):
        self.write_members("a")
        gateway = f"unix:{self.dir}/state-a/node.sock"
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number=number):
                a = self.node("a", "--ports", self.ports)
                name = f"job{number}"
                run = self.start_bare(
                    "start", "--gateway", gateway, "--framework", "none", "--name", name,
                    "--worker", "2", "--grace", "0.5", "--", "/bin/sh", "-c",
                    "trap '' TERM INT HUP; echo up; while :; do sleep 0.1; done")
                run.await_output(r"worker/0\] up")
                run.await_output(r"worker/1\] up")
                helpers = [pid for pid in descendants_of(a.process.pid)
                           if name_of(pid).startswith("tfc-")]
                self.assertGreaterEqual({name_of(pid) for pid in helpers},
                                        {"tfc-guard", "tfc-shim", "tfc-store"})
                # the node last: a helper that it outlives is what it must not find
                for pid in [*helpers, a.process.pid]:
                    os.kill(pid, number)
                a.end()
                self.assertEqual(a.status, 0)
                self.assertNotIn(b"has died", a.err)
                self.assertNotIn(b"is unknown", a.err)
                run.process.kill()
                run.end()
                a = self.node("a", "--ports", self.ports)
                job = self.start_bare("describe", name, "--gateway", gateway, "--json").end()
                self.assertEqual(json.loads(job.out)["job"], run.lines()[0])
                stop = self.start_bare("stop", name, "--gateway", gateway, "--kill").end()
                self.assertEqual(stop.status, 0, stop.err)
                a.process.terminate()
                a.end()
                self.assertEqual(a.status, 0, a.err)


class DisagreeTest(NodeTest):
    """Members files that give one node two names."""

    def members_of(self, run):
        """{name: the states that `run` told of it, in order}, itself left out."""
        told = {}
        for line in run.out.decode().split("\n")[:-1]:
            event = json.loads(line)
            if event["event"] == "member":
                told.setdefault(event["name"], []).append(event["state"])
        return told

    def test_a_node_that_has_another_name_for_others_is_named_once_and_never_flaps(self):
        times = ["--probe", "0.05", "--suspect", "0.2", "--down", "0.5"]
        self.write_members("ab")
        a, b = self.node("a", *times), self.node("b", *times)
        self.await_state(a, "b", "alive")
        b.process.kill()
        b.end()
        self.await_state(a, "b", "down")
        at_down = self.members_of(a)["b"]
        self.write("mine.json", json.dumps({"members": [
            {"name": "a", "address": self.address[0]}, {"name": "c", "address": self.address[1]}]}))
        c = self.node("c", *times, "--members", "mine.json")
        self.await_state(c, "a", "down")
        a.await_output('node "c" is listed as "b" in the members file of node "a"; use the same name in '
                       'all members files', "err")
        c.await_output('node "c" is not in the members file of node "a"; use the same name in all',
                       "err")
        self.assertNotIn("alive", self.members_of(c)["a"])
        self.assertEqual(self.members_of(a)["b"], at_down)
        self.write("members.json", json.dumps({"members": [
            {"name": "a", "address": self.address[0]}, {"name": "c", "address": self.address[1]}]}))
        self.await_state(a, "c", "alive")
        self.await_state(c, "a", "alive")
        for run, words in ((a, b"is listed as"), (c, b"is not in the members file")):
            self.assertEqual(run.err.count(words), 1, run.err)


class OtherEnd(threading.Thread):
    """Takes connections at an address and answers the first bytes of each with `answer`."""

    def __init__(self, port, answer):
        super().__init__(daemon=True)
        self.server = socket.create_server(("127.0.0.1", port))
        self.answer = answer

    def run(self):
        with contextlib.suppress(OSError):  # it was shut down
            while True:
                connection, _ = self.server.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(1024)
                    connection.sendall(self.answer)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown(socket.SHUT_RDWR)
        self.join()
        self.server.close()


def preamble(version):
    return b"\x89TFC" + bytes([version, 1]) + bytes(10)


class OtherVersionTest(NodeTest):
    """One of another version, or none at all, as whom a client and a node dial, and who dials them."""

    def test_who_is_dialed(self):
        both = "protocol version mismatch: the peer has version {}, this side 1; install the same release"
        for answer, words in ((preamble(0), both.format(0)), (preamble(9), both.format(9)),
                              (b"", "the peer closed the connection during the handshake(?!;)"),
                              (preamble(1)[:5] + bytes([2]) + bytes(10), "the peer refused this key: "),
                              (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the peer does not speak the libtfcluster protocol")):
            with self.subTest(answer=answer), OtherEnd(self.first_port + 1, answer):
                run = self.start_bare("ps", "--gateway", self.address[1], "--key", "key").end()
                self.assertEqual((run.status, len(run.errors())), (125, 1), run.err)
                self.assertRegex(run.errors()[0], words)
                a = self.node("a")
                a.await_output(f"b: .*{words}", "err")
                a.process.terminate()
                a.end()
                self.assertEqual(a.err.count(b" b: "), 1, a.err)

    def test_who_dials(self):
        a = self.node("a")
        for version in (0, 9):
            for _ in range(5):
                with socket.create_connection(("127.0.0.1", self.first_port)) as dialer:
                    dialer.sendall(preamble(version))
                    answer = b""
                    while len(answer) < 16:
                        answer += dialer.recv(16 - len(answer)) or self.fail("it shows no version")
                    self.assertEqual(answer[:5], preamble(1)[:5])
            a.await_output("protocol version mismatch: the peer has version 0, this side 1",
                           "err")
        a.process.terminate()
        a.end()
        self.assertLess(a.err.count(b"the peer has version"), 10, a.err)


# In the library 0 stands for the default, or for no limit; who writes it means something else.
BOUNDS = ("slots", "memory", "client-connections", "key-connections", "client-requests", "key-requests",
          "connection-requests", "client-bytes", "key-bytes", "connection-bytes")


class RefusedTest(NodeTest):
    def assert_said(self, run, words):
        self.assertEqual(run.status, 125, run.err)
        self.assertEqual(len(run.errors()), 1, run.err)
        self.assertRegex(run.errors()[0], "^tfc_run: .*" + words)

    def test_labels(self):
        for label, words in (("fast", 'labels: must be NAME=VALUE, not "fast"'),
                             ("a b=1", "a label's name is 1 to 63 letters")):
            self.assert_said(self.refused("node", "--name", "a", "--label", label), words)

    def test_two_of_one_name(self):
        self.node("a")
        self.write("mine.json", json.dumps({"members": [
            {"name": "a", "address": self.address[0]}, {"name": "b", "address": self.address[1]}]}))
        b = self.node("b")
        self.await_state(b, "a", "alive")
        run = self.start_bare("node", "--name", "b", "--members", "members.json", "--key", "key",
                              "--state", "state-other", "--listen", self.address[3]).end()
        self.assertEqual(run.status, 125)
        self.assertRegex(run.err.decode(), f'two nodes have the name "b": one at {self.address[1]} and one at')

    def test_two_of_one_identity(self):
        a, b = self.node("a"), self.node("b")
        self.await_state(a, "b", "alive")
        os.mkdir(os.path.join(self.dir, "state-c"), 0o700)
        with open(os.path.join(self.dir, "state-b/identity"), "rb") as file:
            text = file.read()
        with open(os.open(os.path.join(self.dir, "state-c/identity"), os.O_CREAT | os.O_WRONLY,
                          0o600), "wb") as file:
            file.write(text)
        run = self.start_bare(*self.node_args("c")).end()
        self.assertEqual(run.status, 125)
        self.assertRegex(run.err.decode(), 'nodes "c" and "b" have the same identity')

    def test_another_key_is_not_let_in_and_both_say_so(self):
        self.run_bare("keygen", "other")
        a = self.node("a")
        b = self.start_bare("node", "--name", "b", "--members", "members.json", "--key", "other",
                            "--state", "state-b", "--json")
        b.await_output("key", "err")
        self.assertNotIn(b'"alive"', b.out.split(b"\n", 2)[2] if b.out.count(b"\n") > 2 else b"")
        self.assertIsNone(a.process.poll())

    def test_bad_keys(self):
        self.assert_said(self.refused(*self.node_args("a", "--key", "missing")),
                         'key file "missing" does not exist; make one with "tfc_run keygen"')
        self.env["TFC_KEY"] = "nope"
        for args in (["node", "--state", "s"], ["ps", "--gateway", self.address[0]]):
            self.assert_said(self.refused(*args),
                             'TFC_KEY names a file that does not exist; set it to the path of a key file, which '
                             '"tfc_run keygen" makes')
        del self.env["TFC_KEY"]
        self.write("lines", "secret\n", 0o600)
        self.assert_said(self.refused(*self.node_args("a", "--key", "lines")),
                         'lines:1: not a key; a line of a key file, which "tfc_run keygen" makes, has the form '
                         '"tfcluster-key 1 ROLE ID KEY"')
        os.chmod(os.path.join(self.dir, "key"), 0o644)
        self.assert_said(self.refused(*self.node_args("a")), "chmod 600")
        self.run_bare("keygen", "reader", "--role", "read")
        self.assert_said(self.refused(*self.node_args("a", "--key", "reader")),
                         'reader" has no node key')
        self.write("junk", "tfcluster-key 1 node zz\n", 0o600)
        self.assert_said(self.refused(*self.node_args("a", "--key", "junk")), "junk:1: ")

    def test_off_the_loopback_a_key_is_needed(self):
        self.assert_said(
            self.refused("node", "--state", "s", "--listen", f"tcp://0.0.0.0:{self.first_port}"),
            "key")

    def test_a_unix_socket_in_use_names_the_process(self):
        path = f"{self.dir}/socket"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            self.assert_said(self.refused("node", "--listen", f"unix:{path}"),
                             rf'cannot listen on "unix:{path}": process {os.getpid()} \([^)]+\) listens there; if it is a '
                             "node, use that one, or stop it; or use another path")

    def test_a_state_directory_in_use_names_the_process(self):
        node = self.start_bare("node", "--state", "one", "--ports", self.ports)
        node.await_output("is ready", "err")
        self.assert_said(self.refused("node", "--state", "one"),
                         f"one/store\" is in use by process {node.process.pid}; if it is a node, use that one, or stop it; "
                         "or use another directory")

    def test_a_node_without_a_member_list_shows_its_own_address(self):
        address = f"tcp://127.0.0.1:{self.first_port}"
        node = self.start_bare("node", "--state", "one", "--listen", address, "--ports", self.ports)
        node.await_output("is ready", "err")
        run = self.start_bare("members", "--gateway", f"unix:{self.dir}/one/node.sock").end()
        self.assertRegex(run.out.decode(), rf"(?m)^\S+ +alive +- +- +{address} ")

    def test_address_in_use(self):
        with socket.create_server(("127.0.0.1", self.first_port)):
            self.assert_said(self.refused(*self.node_args("a")), f"{self.first_port}.*another process listens there")

    def test_state_directories(self):
        os.mkdir(os.path.join(self.dir, "open"), 0o755)
        self.assert_said(self.refused(*self.node_args("a", "--state", "open")), "chmod 700")
        self.assert_said(self.refused(*self.node_args("a", "--state", "members.json")),
                         "is not a directory")
        self.assert_said(self.refused(*self.node_args("a", "--state", "/proc/state")),
                         "/proc/state")
        if os.getuid() == 0:
            os.mkdir(os.path.join(self.dir, "foreign"), 0o700)
            os.chown(os.path.join(self.dir, "foreign"), 12345, 12345)
            self.assert_said(self.refused(*self.node_args("a", "--state", "foreign")),
                             "belongs to user 12345")

    def test_a_store_that_cannot_be_read(self):
        node = self.node("a")
        node.process.terminate()
        node.end()
        records = os.path.join(self.dir, "state-a/store/records")
        self.write("state-a/store/records/jobs", "")
        self.assert_said(self.refused(*self.node_args("a")),
                         f'cannot read "{records}/jobs/": Not a directory')
        os.unlink(os.path.join(records, "jobs"))
        if os.getuid() != 0:  # whom no mode keeps out
            os.mkdir(os.path.join(records, "jobs"), 0)
            self.assert_said(self.refused(*self.node_args("a")),
                             f'cannot read "{records}/jobs/": Permission denied')

    def test_members_files(self):
        self.assert_said(self.refused(*self.node_args("a", "--members", "missing.json")),
                         "missing.json")
        self.assert_said(self.refused(*self.node_args("z")), "members.json.*z")
        self.write("members.json", '{"members": [\n{"name": "a"}]}')
        self.assert_said(self.refused(*self.node_args("a")), "members.json:2: ")

    def test_options(self):
        for args, words in (
                (["--store", "etcd:http://h"], "etcd is not supported by this version"),
                (["--store", "disk"], '--store: unknown store "disk"; use "local"'),
                (["--slots", "many"], '--slots: "many" is not a whole number of at least 1$'),
                (["--memory", "4X"], '--memory: "4X" is not a number of bytes above 0, which may end in K, M, G or T '
                 r'\(powers of 1024\), such as 8G$'),
                (["--retain", "7d"], '--retain: "7d" is not a whole number of seconds above 0$'),
                (["--gpus", "atuo"], 'gpus: "atuo" is not a GPU; did you mean auto\\?$'),
                (["--lease", "0"], '--lease: "0" is not a number of seconds above 0$'),
                *((["--" + name, "0"], f'--{name}: "0" is not a .* (above 0|at least 1)') for name in BOUNDS),
                (["--pass-env", "TOKEN=x"],
                 '--pass-env: write only the name "TOKEN"; its value is taken from the node\'s environment$'),
                (["--pass-env", "none", "--pass-env", "A"],
                 '--pass-env: "none" must be the only value$'),
                (["--config", "no.json"], "no.json"),
                (["word"], 'unexpected argument "word"')):
            with self.subTest(args=args):
                self.assert_said(self.refused("node", "--state", "state-a", *args), words)
        self.write("zero.json", '{"slots": 3,\n"key-connections": 0}')
        self.assert_said(self.refused("node", "--state", "state-a", "--config", "zero.json"),
                         'zero.json:2: key-connections: "0" is not a whole number of at least 1$')
        self.write("none.json", '{"pass-env": ["A", "none"]}')
        self.assert_said(self.refused("node", "--state", "state-a", "--config", "none.json"),
                         'none.json:1: pass-env: "none" must be the only value$')
        self.write("bad.json", '{"slotss": 3}')
        self.assert_said(self.refused("node", "--config", "bad.json"),
                         "bad.json:1: slotss: unknown key; did you mean slots")


    def test_the_command_line_has_the_names_of_the_guide(self):
        with open(os.path.join(os.path.dirname(__file__), "../../doc/guide/node-options.md")) as file:
            guide = file.read().split("## A gateway")[0]
        help_text = self.run_bare("node", "--help").out.decode()
        options = set(re.findall(r"^  (?:-\w, )?--([\w-]+)", help_text, re.M))
        self.assertEqual(set(re.findall(r"^\| `([\w-]+)` \|", guide, re.M)),
                         options - {"help", "version", "config"})


class KeygenTest(harness.RunTest):
    def test_a_key_is_for_its_owner_alone_and_never_replaced(self):
        path = os.path.join(self.dir, "key")
        for role in ("node", "submit", "read"):
            run = self.run_bare("keygen", path, "--role", role)
            self.assertEqual((run.status, run.err), (0, b""))
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
            with open(path) as file:
                text = file.read()
            self.assertRegex(text, rf"^tfcluster-key 1 {role} [0-9a-f]{{16}} [0-9a-f]{{64}}\n$")
            self.assertEqual(run.out.decode(), f'{role} key {text.split()[3]} written to "{path}"\n')
            self.assert_refused(self.run_bare("keygen", path),
                                f'cannot create "{path}": the file exists')
            with open(path) as file:
                self.assertEqual(file.read(), text)
            os.unlink(path)

    def test_mistakes(self):
        self.assert_refused(self.run_bare("keygen", "k", "--role", "root"),
                            'role "root" is not valid; use node, submit or read')
        self.assert_refused(self.run_bare("keygen"),
                            "file missing; usage: tfc_run keygen FILE [--role node|submit|read]")
        self.assert_refused(self.run_bare("keygen", "/no/such/dir/key"),
                            'cannot create "/no/such/dir/key": No such file or directory')


if __name__ == "__main__":
    harness.main()
