"""Clients that take what they can: what a node holds for them is bounded, and while it holds that,
whoever has a node key or the node's own socket is served as always."""
import json
import os
import pathlib
import select
import subprocess
import time

import clients_test
import harness

FLOOD = os.environ["TFC_TEST_FLOOD"]
MIB = 1 << 20
CLIENT_BYTES, KEY_BYTES, CONNECTION_BYTES = 64 * MIB, 32 * MIB, MIB
CONNECTIONS, KEY_CONNECTIONS = 256, 128
CONNECTION_REQUESTS, KEY_REQUESTS = 256, 512
ROOM = 8 * MIB     # what the node has besides: state of requests, heap that is not given back
READERS = 5 * MIB  # buffers of logs while they are read
SERVED_S = 20   # six commands; what the node does not serve hangs for minutes


class Flood:
    """Connections of one key. It has sent what it sends."""

    def __init__(self, test, role, mode, *args, at="a"):
        self.process = subprocess.Popen(
            [FLOOD, test.address_of(at), os.path.join(test.dir, role),
             role.rstrip("0123456789"), mode, *map(str, args)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        test.floods.append(self)
        words = self.line()
        self.up, self.refused, self.said = int(words[1]), int(words[3].rstrip(":")), " ".join(words[4:])

    def line(self):
        line = self.process.stdout.readline()
        assert line, f"flood has ended: {self.process.wait()}"
        return line.split()

    def begin_reading(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def is_reading(self):
        return not select.select([self.process.stdout], [], [], 0)[0]

    def read(self):
        """Reads at last; how its calls ended."""
        self.begin_reading()
        return self.end_reading()

    def end_reading(self):
        words = self.line()
        self.said = " ".join(words[12:])
        return dict(zip(words[0:12:2], (int(word.rstrip(":")) for word in words[1:12:2])))

    def read_until(self, is_enough, what):
        """Reads until it has got what is_enough(how its calls ended) wants."""
        def enough():
            ended = self.read()
            return ended if is_enough(ended) else None
        return harness.wait_until(enough, what)

    def end(self):
        if self.process.stdin.closed:
            return
        self.process.stdin.close()
        self.process.wait(harness.PATIENCE)
        self.process.stdout.close()


class FloodTest(clients_test.ClientsTest):
    limits = []     # options of the node
    measured = "a"  # the node whose memory counts

    def setUp(self):
        # meson sets it: glibc then writes to all that is allocated, and a buffer counts with what it does not use.
        os.environ.pop("MALLOC_PERTURB_", None)
        super().setUp()
        self.floods = []
        self.before = self.rss()

    def tearDown(self):
        for flood in self.floods:
            flood.end()
        super().tearDown()

    def node_args(self, name, *args):
        for role in ("submit", "submit2", "read", "read2", "read3"):
            if not os.path.exists(os.path.join(self.dir, role)):
                self.run_bare("keygen", role, "--role", role.rstrip("0123456789"))
                with open(os.path.join(self.dir, "key"), "a") as file:
                    file.write(pathlib.Path(self.dir, role).read_text())
        return super().node_args(name, *args, *self.limits,
                                 *(["--submit-user", "root"] if os.getuid() == 0 else []))

    def ask_with(self, key):
        """What `ps` says that comes over tcp with it."""
        return self.start_bare("ps", "--gateway", self.address[0], "--key", key).end()

    def proc(self, name):
        return pathlib.Path(f"/proc/{self.nodes[self.measured].process.pid}/{name}")

    def rss(self, field="VmRSS"):
        for line in self.proc("status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) << 10

    def descriptors(self):
        return len(list(self.proc("fd").iterdir()))

    def assert_holds(self, most):
        """At its worst, and once it does nothing for them any more."""
        held = self.rss("VmHWM") - self.before
        self.assertLess(held, most + ROOM + READERS, f"{held / MIB:.0f} MiB")
        bound = self.before + most + ROOM
        try:
            harness.wait_until(lambda: self.rss() < bound, "buffers given back", 10)
        except AssertionError:
            self.fail(f"it still holds {(self.rss() - self.before) / MIB:.1f} MiB of {(most + ROOM) / MIB:.1f}; at its "
                      f"worst {held / MIB:.1f}")

    def await_memory_back(self):
        """It is given back although nobody asks the node for anything."""
        harness.wait_until(lambda: self.rss() - self.before < ROOM, "its memory back")

    def assert_served(self):
        """Over the node's socket, and over tcp with a node key."""
        begun = time.monotonic()
        for way in (self.gateway("a"), ["--gateway", self.address[0], "--key", "key"]):
            run = self.start_bare("start", *way, "--framework", "none", "--detach", "--",
                                  "/bin/sh", "-c", "exec sleep 600").end()
            self.assertEqual(run.status, 0, run.err)
            job = run.lines()[0]
            run = self.start_bare("ps", *way).end()
            self.assertIn(job, run.out.decode(), run.err)
            run = self.start_bare("stop", *way, "--kill", "--wait", job).end()
            self.assertEqual(run.status, 0, run.err)
        self.assertLess(time.monotonic() - begun, SERVED_S)

    def printing_job(self, mib, tasks=1, line=120):
        job = self.start_job(f"yes $(printf %0{line}d 7) | head -c {mib}m; exec sleep 600",
                             "--worker", str(tasks))
        self.await_ready(job, tasks)
        harness.wait_until(lambda: sum(path.stat().st_size for path in pathlib.Path(
            self.dir, "state-a/logs", job).iterdir()) > mib * MIB * tasks, "its output")
        self.before = self.rss()
        return job

    def waiting_job(self, tasks):
        """No node has what it needs."""
        job = self.start_job("true", "--worker", str(tasks), "--gpus", "1000")
        self.before = self.rss()
        return job

    def stop_job(self, job):
        self.ask("stop", "--kill", "--wait", job)

    def start_flood(self, bound, *args):
        """One beside which the node serves others, with no more than `bound` bytes for it."""
        flood = Flood(self, *args)
        self.assert_served()
        self.assert_holds(bound)
        return flood


class UnreadTest(FloodTest):
    def test_subscriptions_of_one_that_does_not_read(self):
        job = self.printing_job(8)
        flood = self.start_flood(CONNECTION_BYTES, "read", "unread", 1, 100, job)
        # Nothing is missing: the whole output, a hundred times.
        ended = flood.read_until(lambda ended: ended["bytes"] >= 100 * 8 * MIB * 120 // 121,
                                 "all of the output")
        self.assertEqual((ended["again"], ended["lost"]), (0, 0))
        self.stop_job(job)

    def test_subscriptions_to_many_tasks_keep_few_files_open(self):
        job = self.printing_job(1, 8)
        before = self.descriptors()
        self.start_flood(CONNECTION_BYTES, "read", "unread", 1, 100, job)
        self.assertLess(self.descriptors() - before, 80)
        self.stop_job(job)

    def test_responses_that_are_not_read(self):
        job = self.start_job("exec sleep 600", "--worker", "1", "--env",
                             "LONG=" + "x" * 100000)
        self.await_ready(job)
        flood = self.start_flood(CLIENT_BYTES, "submit", "answers", 100, 200, job)
        ended = flood.read_until(lambda ended: ended["ok"] + ended["again"] == 100 * 200,
                                 "an answer to each")
        self.assertEqual((ended["lost"], ended["other"]), (0, 0))
        self.assertGreater(ended["ok"], 0)
        self.stop_job(job)


class LargeJobTest(FloodTest):
    def start_refused_flood(self, job):
        """Some of its subscriptions are refused, none is lost."""
        flood = self.start_flood(KEY_BYTES, "read", "unread", 1, 200, job)
        ended = flood.read()
        self.assertEqual(ended["lost"] + ended["other"], 0)
        self.assertGreater(ended["again"], 0)
        return flood

    def test_subscriptions_to_a_job_of_many_tasks(self):
        job = self.waiting_job(20000)
        flood = self.start_refused_flood(job)
        self.assertIn("try again later", flood.said)
        self.stop_job(job)

    def test_lines_that_do_not_end(self):
        job = self.start_job("printf %060000d 7; exec sleep 600", "--worker", "8")
        self.await_ready(job, 8)
        self.before = self.rss()
        self.start_refused_flood(job)
        self.stop_job(job)

    def test_an_explanation_that_is_too_long(self):
        definition = {"argv": ["true"], "roles": {"worker": {"count": 2000}}}  # each names all
        flood = Flood(self, "submit", "explain", 1, 1, json.dumps(definition))
        ended = flood.read_until(lambda ended: ended["ok"] + ended["other"], "its end")
        self.assertEqual((ended["ok"], ended["other"]), (0, 1))
        self.assert_served()
        self.assert_holds(16 * MIB)


class LongAnswersTest(FloodTest):
    def setUp(self):
        super().setUp()
        self.job = self.waiting_job(100000)

    def test_descriptions_that_are_not_read(self):
        floods = [Flood(self, key, "answers", 80, 1, self.job) for key in ("read", "read2", "read3")]
        self.assert_served()
        self.assert_holds(CLIENT_BYTES)
        for flood in floods:
            flood.end()

    def test_the_own_socket_is_served_while_long_descriptions_are_made(self):
        flood = Flood(self, "read", "answers", KEY_CONNECTIONS - 1, 1, self.job)
        flood.begin_reading()
        while flood.is_reading():
            run = self.ask("ps")
            self.assertEqual(run.status, 0, run.err)
            self.assertEqual(len(run.lines()), 2)
        ended = flood.end_reading()
        self.assertEqual(ended["ok"] + ended["again"], KEY_CONNECTIONS - 1)
        self.assertGreater(ended["ok"], 0)
        self.assert_holds(KEY_BYTES)


class RelayTest(FloodTest):
    """The job is on another node than the one that is asked."""
    names = "ab"
    measured = "b"

    def test_cursors_of_many_tasks(self):
        job = self.waiting_job(1)
        flood = Flood(self, "read", "unread", 1, 200, job, "0_ffff.0", at="b")
        self.assert_served()
        self.assert_holds(KEY_BYTES)
        ended = flood.read()
        self.assertGreater(ended["again"], 0)
        self.stop_job(job)

    def test_subscriptions_of_one_that_does_not_read(self):
        self.assertEqual(self.ask("drain", "b").status, 0)
        job = self.printing_job(16, line=60000)
        flood = Flood(self, "read", "unread", 1, 200, job, at="b")
        self.assert_served()
        self.assert_holds(KEY_BYTES)
        ended = flood.read()
        self.assertEqual(ended["lost"] + ended["other"], 0)
        self.stop_job(job)


class RemoteLogsTest(FloodTest):
    """The node that is asked has the job, and another one its tasks."""
    names = "ab"

    def test_the_tasks_of_a_job_that_many_follow_go_on(self):
        self.assertEqual(self.ask("drain", "a").status, 0)
        job = self.start_job("echo up; exec sleep 600", "--worker", "8")
        self.await_ready(job, 8)
        flood = Flood(self, "read", "unread", 2, CONNECTION_REQUESTS - 6, job)
        flood.read()
        begun = time.monotonic()
        other = self.start_job("exec sleep 600", "--worker", "4")
        self.await_ready(other, 4)
        self.assertLess(time.monotonic() - begun, SERVED_S)
        self.assertEqual({task["attempt"] for task in self.describe(job)["tasks"]}, {1})
        self.stop_job(other)
        self.stop_job(job)


class BoundTest(FloodTest):
    limits = ["--client-bytes", "16M", "--key-bytes", "8M"]

    def test_many_that_do_not_read(self):
        job = self.printing_job(16)
        floods = [Flood(self, key, "unread", 16, 1, job) for key in ("read", "read2", "read3")]

        def refusal():  # at the bound the newest is refused, and told why
            run = self.ask_with("submit")
            return run if run.status else None
        run = harness.wait_until(refusal, "a refusal")
        self.assertEqual(run.status, 125, run.err)
        self.assertRegex(run.err.decode(), "memory limit for all clients reached \\([0-9]+ bytes in use, .*; "
                                           "try again later")
        self.assert_served()
        self.assert_holds(16 * MIB)
        for flood in floods:
            flood.end()
        # The node learns of the closed connections one by one.
        harness.wait_until(lambda: job in self.ask_with("submit").out.decode(), "the list of jobs")
        self.await_memory_back()
        self.stop_job(job)


class PartialTest(FloodTest):
    def test_messages_that_never_end(self):
        floods = [Flood(self, key, "partial", 20, 14 << 10) for key in ("read", "read2", "read3")]
        self.assert_holds(CLIENT_BYTES)
        self.assert_served()
        self.assert_holds(CLIENT_BYTES)
        for flood in floods:  # they are sent to their end now
            ended = flood.read_until(lambda ended: ended["again"] > 10, "the refusals")
            self.assertEqual(ended["lost"], 0)
            self.assertIn("try again later", flood.said)
        self.await_memory_back()

    def test_a_bundle_comes_while_others_hold_what_they_can(self):
        Flood(self, "read", "partial", 20, 14 << 10)
        os.mkdir(os.path.join(self.dir, "program"))
        self.write("program/data", "x" * (8 * MIB))
        run = self.start_bare("start", "--gateway", self.address[0], "--key", "submit",
                              "--framework", "none", "--no-prefix", "--bundle", "program", "--",
                              "/bin/sh", "-c", "wc -c < data").end()
        self.assertEqual((run.status, run.lines()[1:]), (0, [str(8 * MIB)]), run.err)


class OffersTest(FloodTest):
    def start_with_bundle(self, *way):
        run = self.start_bare("start", *way, "--framework", "none", "--no-prefix", "--bundle",
                              "program", "--", "cat", "data").end()
        self.assertEqual((run.status, run.lines()[1:]), (0, ["here"]), run.err)

    def test_bundles_that_are_offered_and_never_sent(self):
        os.mkdir(os.path.join(self.dir, "program"))
        self.write("program/data", "here\n")
        flood = Flood(self, "submit", "offers", 16, 4)
        ended = flood.read()
        self.assertGreater(ended["items"], 8)  # they are wanted
        self.assertGreater(ended["other"], 8)  # there are too many
        self.start_with_bundle(*self.gateway("a"))
        self.start_with_bundle("--gateway", self.address[0], "--key", "key")
        self.start_with_bundle("--gateway", self.address[0], "--key", "submit2")
        run = self.start_bare("start", "--gateway", self.address[0], "--key", "submit",
                              "--framework", "none", "--bundle", "program", "--", "true").end()
        self.assertEqual(run.status, 125)
        self.assertIn("try again later", run.err.decode())


class ConnectionsTest(FloodTest):
    def test_connections_that_do_nothing(self):
        before = self.descriptors()
        floods = [Flood(self, key, "idle", 1004) for key in ("read", "read2", "read3")]
        self.assertEqual([flood.up for flood in floods], [KEY_CONNECTIONS, KEY_CONNECTIONS, 0])
        self.assertIn("connections", floods[0].said)
        self.assertLess(self.descriptors() - before, CONNECTIONS + 10)
        self.assert_served()
        run = self.ask_with("read")
        self.assertEqual(run.status, 125)
        self.assertIn("try again later", run.err.decode())
        run = self.start_bare("start", "--gateway", self.address[0], "--key", "submit",
                              "--framework", "none", "--", "true").end()
        self.assertEqual(run.status, 125)
        self.assertIn("try again later", run.err.decode())
        floods[0].end()
        harness.wait_until(lambda: self.ask_with("read").status == 0, "a place")

    def test_requests_that_stay_open(self):
        job = self.start_job("exec sleep 600")
        flood = Flood(self, "read", "unread", 3, 300, job)
        ended = flood.read_until(lambda ended: ended["again"] >= 3 * 300 - KEY_REQUESTS,
                                 "the refusals")
        self.assertEqual(ended["again"], 3 * 300 - KEY_REQUESTS)
        self.assertEqual((ended["lost"], ended["other"]), (0, 0))
        self.assert_served()
        self.stop_job(job)


if __name__ == "__main__":
    harness.main()
