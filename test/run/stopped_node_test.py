"""A node that was stopped (SIGSTOP) keeps its connections open and says nothing: its clients do."""
import contextlib
import os
import pathlib
import re
import signal
import socket
import time

import clients_test
import harness
import status_line_test

LOOP = "echo up; while :; do sleep 0.05; done"
COUNT = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.05; done"


class StoppedTest(clients_test.ClientsTest):
    @contextlib.contextmanager
    def stopped(self, name):
        self.nodes[name].process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.nodes[name].process.send_signal(signal.SIGCONT)

    def stop_job(self, job):
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)


class FollowTest(StoppedTest, status_line_test.Screen):
    names = "a"

    def test_followers_say_that_it_is_silent_and_that_it_responds(self):
        job = self.start_job(LOOP)
        runs = [self.begin("attach", job), self.begin("logs", "-f", job),
                self.begin("start", "--framework", "none", "--", "sh", "-c", LOOP)]
        for run in runs:
            run.await_output("up")
        printed = [bytes(run.out) for run in runs]
        with self.stopped("a"):
            for run in runs:
                run.await_output("^tfc_run: cannot follow job [0-9a-f]{16}: no response from (node a|unix:.*node.sock) "
                                 "for 3 s; still waiting\n$", "err")
        for run in runs:
            run.await_output("\ntfc_run: following job [0-9a-f]{16} again\n", "err")
        self.assertEqual([bytes(run.out) for run in runs], printed)
        for each in (job, runs[2].lines()[0]):
            self.stop_job(each)
        self.assertEqual([run.end().status for run in runs], [143, 0, 143])

    def test_followers_that_come_to_a_silent_node_follow_when_it_responds(self):
        job = self.start_job(LOOP)
        with self.stopped("a"):
            run = self.begin("attach", job, "--json")
            run.await_output(f'"event":"reconnecting","job":"{job}",.*"reason":"TFC_ETIMEDOUT"')
        run.await_output(f'"event":"reconnected","job":"{job}"')
        run.await_output('"text":"up"')
        self.stop_job(job)
        run.end()

    def test_json_has_the_events(self):
        job = self.start_job(LOOP)
        run = self.begin("attach", job, "--json")
        run.await_output('"text":"up"')
        with self.stopped("a"):
            run.await_output(f'"event":"reconnecting","job":"{job}",.*"reason":"TFC_ETIMEDOUT",'
                             '"text":"cannot follow .*: no response from .* for 3 s; still waiting"')
        run.await_output(f'"event":"reconnected","job":"{job}"')
        self.stop_job(job)
        run.end()

    def test_a_terminal_shows_for_how_long(self):
        job = self.start_job(LOOP)
        run = self.begin("attach", job, on_terminal=True)
        self.await_status(run, r"running: worker 1 of 1 ready  \d+ s")
        with self.stopped("a"):
            self.await_status(run, r"reconnecting to (node a|unix:.*/node.sock)  [1-9] s")
        self.await_status(run, r"running: worker 1 of 1 ready  \d+ s")
        with self.stopped("a"):  # which has responded to a heartbeat, so its name is known
            self.await_status(run, r"reconnecting to node a  [1-9] s")
        self.await_status(run, r"running: worker 1 of 1 ready  \d+ s")
        self.stop_job(job)
        run.end()

    def test_a_node_that_is_killed_while_it_is_silent(self):
        job = self.start_job(LOOP, "--restart-on", "failure")
        run = self.begin("attach", job)
        run.await_output("up")
        with self.stopped("a"):
            run.await_output("still waiting\n", "err")
            self.nodes["a"].process.kill()
            self.nodes["a"].end()
            run.await_output("retrying for 300 s at most: cannot reach a gateway: ", "err")
            self.nodes["a"] = self.node("a")
        run.await_output("following job .* again\n", "err")
        self.assertEqual(run.err.count(b"again"), 1)
        self.stop_job(job)
        run.end()

    def test_a_node_without_followers_gets_no_heartbeats(self):
        job = self.start_job(LOOP.replace("sleep 0.05", "sleep 600"))
        run = self.begin("attach", job, on_terminal=True)
        self.await_status(run, r"running: worker 1 of 1 ready  \d s")
        followed = self.wake_ups_in(6)
        os.write(run.master, b"\x03")
        run.end()
        harness.wait_until(lambda: self.wake_ups_in(0.5) == 0, "the end of the connection")
        idle = self.wake_ups_in(6)
        self.assertGreaterEqual(followed, 2)
        self.assertLess(idle, 2)
        self.stop_job(job)

    def wake_ups_in(self, seconds):
        """Of the node; the time is what is measured."""
        status = pathlib.Path(f"/proc/{self.nodes['a'].process.pid}/status")

        def count():
            return int(re.search(r"\nvoluntary_ctxt_switches:\s+(\d+)", status.read_text()).group(1))
        before = count()
        time.sleep(seconds)
        return count() - before

    def test_start_says_that_it_waits(self):
        with self.stopped("a"):
            run = self.begin("start", "--framework", "none", "--", "true")
            run.await_output("^tfc_run: no response from unix:.*/state-a/node.sock for 3 s; still waiting\n$", "err")
        self.assertEqual(run.end().status, 0)

    def test_followers_of_a_node_that_never_responds_say_so_and_fail(self):
        """A program that accepts connections and says nothing, as a node that was stopped before."""
        path = f"{self.dir}/key-of-nobody"
        self.assertEqual(self.run_bare("keygen", path).status, 0)
        tried = []
        for command in (["attach"], ["logs"], ["logs", "-f"]):
            server = socket.create_server(("127.0.0.1", 0))
            self.addCleanup(server.close)
            address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
            run = self.start_bare(*command, "nobody", "--gateway", address, "--key", path)
            tried.append((server, address, run))
        for server, address, run in tried:
            self.assertEqual(run.end().status, 125)
            waiting, failed = run.errors()
            self.assertEqual(waiting, f"tfc_run: cannot follow job nobody: no response from {address} for 3 s; "
                             "still waiting")
            self.assertIn(f'cannot connect to "{address}": no response within 5.0 s', failed)
            server.accept()[0].close()
            server.settimeout(0)
            self.assertRaises(BlockingIOError, server.accept)  # it was tried once

    def test_logs_of_a_task_says_that_it_waits(self):
        job = self.start_job("echo up")
        self.ask("attach", job)
        with self.stopped("a"):
            run = self.begin("logs", job, "worker/0")
            run.await_output("^tfc_run: no response from unix:.*/state-a/node.sock for 3 s; still waiting\n$", "err")
        self.assertEqual((run.end().status, run.lines()), (0, ["[worker/0] up"]))


class DownTest(StoppedTest):
    names = "ab"

    def test_followers_through_another_node_learn_it_as_early(self):
        job = self.start_job(LOOP)
        run = self.begin("attach", job, at="b")
        run.await_output("up")
        with self.stopped("a"):
            run.await_output(f"^tfc_run: cannot follow job {job}: no response from node a for 3 s; still waiting\n$",
                             "err")
        run.await_output(f"\ntfc_run: following job {job} again\n", "err")
        with self.stopped("a"):  # until the other node closes the connection
            run.await_output("still waiting\n[^\n]*retrying for 300 s at most: node a, which maintains it, does not", "err")
        run.await_output(f"does not respond\n(?:tfc_run: node .*\n)*tfc_run: following job {job} again\n", "err")
        self.stop_job(job)
        self.assertEqual(run.end().status, 143)

    def test_a_node_that_was_stopped_says_so(self):
        self.await_state(self.nodes["b"], "a", "alive")
        with self.stopped("a"):
            self.await_state(self.nodes["b"], "a", "down")
        self.nodes["a"].await_output("this node did not run for [5-9][.][0-9] s: its process was stopped, its machine "
                                     "was suspended or overloaded, or its event loop was blocked; other nodes may have "
                                     "declared it down\n", "err")
        self.assertNotIn(b"did not run", self.nodes["b"].err)

    def test_a_client_with_two_addresses_leaves_the_silent_node(self):
        self.assertEqual(self.ask("drain", "a").status, 0)
        go = os.path.join(self.dir, "go")
        job = self.start_job(f"echo up; until [ -e {go} ]; do sleep 0.05; done; echo more; exit 3", at="b")
        both = f"unix:{self.dir}/state-a/node.sock,unix:{self.dir}/state-b/node.sock"
        run = self.start_bare("attach", "--gateway", both, "--no-prefix", job)
        run.await_output("up")
        with self.stopped("a"):
            self.write("go", "")
            self.assertEqual((run.end().status, run.lines()), (3, ["up", "more"]), run.err)

    def test_a_client_whose_two_nodes_are_both_silent_says_so(self):
        self.assertEqual(self.ask("drain", "a").status, 0)
        job = self.start_job(COUNT, at="b")
        both = f"unix:{self.dir}/state-a/node.sock,unix:{self.dir}/state-b/node.sock"
        run = self.start_bare("attach", "--gateway", both, "--no-prefix", job)
        run.await_output("line 3\n")
        with self.stopped("b"), self.stopped("a"):
            run.await_output(f"^tfc_run: cannot follow job {job}: no response from (node a|unix:.*/state-a/node.sock) "
                             "for 3 s; still waiting\n$", "err")
        run.await_output(f"\ntfc_run: following job {job} again\n", "err")
        followed = len(run.lines())
        run.await_output(f"line {followed + 20}\n")
        self.assertEqual(self.ask("stop", job, "--kill", "--wait", at="b").status, 0)
        run.end()
        self.assertEqual(run.lines(), [f"line {i + 1}" for i in range(len(run.lines()))])

    def test_a_request_with_two_addresses_does_not_blame_the_second(self):
        both = f"unix:{self.dir}/state-a/node.sock,unix:{self.dir}/state-b/node.sock"
        with self.stopped("a"):
            run = self.start_bare("members", "--gateway", both)
            run.await_output(f"^tfc_run: no response for 3 s; still waiting; addresses are tried in turn: {both}\n$", "err")
            self.assertEqual(run.end().status, 0, run.err)

    def test_who_attaches_to_a_job_of_a_node_that_is_down(self):
        job = self.start_job(LOOP, "--restart-on", "failure")
        self.await_ready(job)
        self.nodes["a"].process.kill()
        self.nodes["a"].end()
        self.await_state(self.nodes["b"], "a", "down")
        why = f'job "{job}" not found; it may be a job of a node that is unreachable: a'
        for command in ("describe", "stop", "rm"):
            self.assert_said(self.ask(command, job, at="b"), f"{why}$")
        for command in (["attach"], ["logs", "-f"], ["logs"]):
            begun = time.monotonic()
            self.assert_said(self.ask(*command, job, at="b"), f"{why}$")
            self.assertLess(time.monotonic() - begun, 2)
        self.nodes["a"] = self.node("a")
        self.await_state(self.nodes["b"], "a", "alive")
        run = self.begin("attach", job, at="b")
        run.await_output("up")
        self.stop_job(job)
        self.assertEqual(run.end().status, 143)

    def test_who_followed_goes_on_through_another_node_and_waits(self):
        job = self.start_job(LOOP, "--restart-on", "failure")
        self.await_ready(job)
        both = f"unix:{self.dir}/state-a/node.sock,unix:{self.dir}/state-b/node.sock"
        run = self.start_bare("attach", "--gateway", both, job)
        run.await_output("up")
        self.nodes["a"].process.kill()
        self.nodes["a"].end()
        run.await_output(f"^tfc_run: cannot follow job {job}; retrying for (300|299) s at most: .*unreachable: a\n",
                         "err")
        self.nodes["a"] = self.node("a")
        run.await_output(f"tfc_run: following job {job} again\n", "err")
        self.stop_job(job)
        self.assertEqual(run.end().status, 143)


if __name__ == "__main__":
    harness.main()
