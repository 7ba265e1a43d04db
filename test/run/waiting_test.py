"""What a job waits for is said at once, by those that follow it and by those that ask."""
import datetime
import json
import re
import signal

import clients_test
import harness

CLOCK = r"\d\d:\d\d:\d\d"
UNREACHABLE = (f"node b has been unreachable since {CLOCK} UTC; its tasks are lost unless it "
               r"responds within \d+ s: worker/[01]")
BACK = f"node b responds again; it was unreachable from {CLOCK} to {CLOCK} UTC"


class NodesTest(clients_test.ClientsTest):
    names = "ab"

    def tasks(self, job):
        """The job's task on each node."""
        return {task["node"]: task for task in self.describe(job)["tasks"]}

    def reason(self, job):
        """What ps shows of a job behind its duration."""
        line = next(line for line in self.ask("ps").lines() if line.startswith(job))
        return re.split(r"\s+", line, maxsplit=9)[9]

    def test_an_unreachable_node_is_named_until_it_responds(self):
        job = self.start_job("echo here; exec sleep 600", "--worker", "2")
        self.await_ready(job, 2)
        followers = [self.begin("attach", job), self.begin("logs", "-f", job),
                     self.begin("attach", job, "--json")]
        for run in followers:
            run.await_output("here")
        self.assertEqual(set(self.tasks(job)), {"a", "b"})
        self.assertNotIn("unreachable_since", self.tasks(job)["b"])
        self.nodes["b"].process.send_signal(signal.SIGSTOP)
        try:
            for run in followers[:2]:
                run.await_output(f"^tfc_run: {UNREACHABLE}\n$", "err")
            followers[2].await_output(f'"event":"job",.*"state":"running",.*"text":"{UNREACHABLE}"')
            tasks = self.tasks(job)
            self.assertRegex(tasks["b"]["unreachable_since"], f"T{CLOCK}")
            self.assertNotIn("unreachable_since", tasks["a"])
            text = self.ask("describe", job).lines()
            self.assertRegex(text[2], f"^ +{UNREACHABLE}$")
            self.assertEqual([line.split("  ")[0] for line in text if re.search(
                r"ready, node unreachable for \d+s", line)], [tasks["b"]["task"]])
            self.assertRegex(self.reason(job), f"^{UNREACHABLE}$")
        finally:
            self.nodes["b"].process.send_signal(signal.SIGCONT)
        for run in followers[:2]:
            run.await_output(f"tfc_run: {BACK}\n$", "err")
        followers[2].await_output(f'"text":"{BACK}"')
        self.assertNotIn("unreachable_since", self.tasks(job)["b"])
        described = self.describe(job)
        self.assertRegex(described["text"], f"^{BACK}$")
        self.assertEqual(described["restarts"], 0)
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)

    def test_a_node_is_unreachable_since_its_last_sign_of_life(self):
        job = self.start_job("echo here; exec sleep 600", "--worker", "2")
        self.await_ready(job, 2)
        run = self.begin("attach", job, "--json")
        before = datetime.datetime.now(datetime.timezone.utc)
        self.nodes["b"].process.send_signal(signal.SIGSTOP)
        stopped = datetime.datetime.now(datetime.timezone.utc)
        try:
            run.await_output(f'"text":"{UNREACHABLE}"')
            task = self.tasks(job)["b"]
            since = datetime.datetime.fromisoformat(task["unreachable_since"].replace("Z", "+00:00"))
            # A lease is 10 s and is renewed ten times in it.
            self.assertGreater(since, before - datetime.timedelta(seconds=2))
            self.assertLess(since, stopped + datetime.timedelta(seconds=0.1))
            self.assertIn(f"since {since:%H:%M:%S} UTC", self.describe(job)["text"])
            # What `describe` shows is the age of that moment.
            shown = re.search(r"node unreachable for (\d+)s", self.ask("describe", job).out.decode())
            age = (datetime.datetime.now(datetime.timezone.utc) - since).total_seconds()
            self.assertTrue(age - 2 <= int(shown[1]) <= age, (shown[0], age))
            # Until the tasks of the node are lost; then its state is "lost", and the node may be down.
            run.await_output('"state":"lost".*"node":"b"')
            self.assertNotIn("unreachable_since", json.dumps(self.describe(job)))
        finally:
            self.nodes["b"].process.send_signal(signal.SIGCONT)
        self.ask("stop", job, "--kill", "--wait")

    def test_who_attaches_later_is_told_what_is_so_now(self):
        job = self.start_job("echo here; exec sleep 600", "--worker", "2")
        self.await_ready(job, 2)
        first = self.begin("attach", job)
        first.await_output("here(.|\n)*here")
        self.nodes["b"].process.send_signal(signal.SIGSTOP)
        try:
            first.await_output(UNREACHABLE, "err")
            late = [self.begin("attach", job), self.begin("logs", "-f", job)]
            for run in late:
                run.await_output(f"^tfc_run: {UNREACHABLE}\n$", "err")
        finally:
            self.nodes["b"].process.send_signal(signal.SIGCONT)
        for run in late:
            run.await_output(f"\ntfc_run: {BACK}\n$", "err")
        now = self.begin("attach", job)
        now.await_output(f"^tfc_run: {BACK}\n$", "err")
        now.await_output("here(.|\n)*here")
        events = self.begin("attach", job, "--json")
        events.await_output(f'{UNREACHABLE}(.|\n)*{BACK}')  # the whole history
        self.ask("stop", job, "--kill", "--wait")
        for run in late + [now]:
            self.assertEqual(len(re.findall("unreachable since", run.end().err.decode())), run in late)
        ended = self.ask("attach", job)
        self.assertNotIn("unreachable", ended.err.decode())
        self.assertEqual(len(re.findall("here", ended.out.decode())), 2)
        self.assertEqual(self.ask("logs", job).err, b"")

    def test_a_node_that_connects_is_not_called_unreachable(self):
        """The maintaining node begins again and queries the node of a task, which is not connected yet."""
        job = self.start_job("echo here; exec sleep 600", "--worker", "2", "--restart-on", "failure")
        self.await_ready(job, 2)
        self.nodes["a"].process.kill()
        self.nodes["a"].end()
        self.nodes["a"] = self.node("a")
        run = self.begin("attach", job, "--json")
        run.await_output('"epoch":2')
        self.await_ready(job, 2)
        self.assertNotIn(b"node b responds again", run.out)
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)

    def test_a_node_that_has_just_started_says_for_which_node_it_waits(self):
        for name in "ba":
            self.nodes[name].process.kill()
            self.nodes[name].end()
        self.nodes["a"] = self.node("a")
        run = self.begin("start", "--framework", "none", "--", "true")
        run.await_output("^tfc_run: node a has just started and does not know yet whether node b is alive\n$", "err")
        self.nodes["b"] = self.node("b")
        self.assertEqual(run.end().status, 0)

    def test_a_maintaining_node_that_is_lost_is_named_until_it_is_back(self):
        job = self.start_job("echo here; exec sleep 600", "--worker", "2", "--restart-on", "failure")
        self.await_ready(job, 2)
        direct, forwarded, logs, json = (
            self.begin("attach", job), self.begin("attach", job, at="b"),
            self.begin("logs", "-f", job, at="b"), self.begin("attach", job, "--json", at="b"))
        for run in (direct, forwarded, logs, json):
            run.await_output("here")
        self.nodes["a"].process.kill()
        self.nodes["a"].end()
        lost = f"^tfc_run: cannot follow job {job}; retrying for %d s at most: "
        direct.await_output(lost % 300 + "cannot reach a gateway: .*state-a/node.sock", "err")
        named = "node a, which maintains it, does not respond"
        for run in (forwarded, logs, json):
            run.await_output(lost % 300 + named + "\n$", "err")
        json.await_output(f'"event":"reconnecting","job":"{job}","node":"a","reason":"TFC_ELOST",'
                          f'"text":"cannot follow .*{named}"')
        self.nodes["a"] = self.node("a")
        for run in (direct, forwarded, logs):
            run.await_output(f"\ntfc_run: following job {job} again\n", "err")
        json.await_output(f'"event":"reconnected","job":"{job}"')
        self.await_ready(job, 2)
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)

    def test_a_request_without_a_response_says_so(self):
        self.nodes["a"].process.send_signal(signal.SIGSTOP)
        try:
            run = self.begin("members")
            run.await_output("^tfc_run: no response from unix:.*/state-a/node.sock for 3 s; still waiting\n$",
                             "err")
        finally:
            self.nodes["a"].process.send_signal(signal.SIGCONT)
        self.assertEqual(run.end().status, 0)


class EndTest(clients_test.ClientsTest):
    names = "a"

    def test_an_end_that_waits_for_an_evaluator_says_so(self):
        path = self.job_file(
            framework="tensorflow", roles={"chief": {}, "evaluator": {"finish_s": 60}},
            argv=["/bin/sh", "-c", "case $TFC_TASK_TYPE in evaluator) exec sleep 600;; esac"])
        job = self.ask("start", "--detach", "--job", path).lines()[0]
        run = self.begin("attach", job)
        waiting = r"waiting up to 5\d s for evaluator/0 to finish"
        run.await_output(f"tfc_run: {waiting}\n", "err")
        line = next(line for line in self.ask("ps").lines() if line.startswith(job))
        self.assertRegex(line, f" stopping .* {waiting}$")
        self.assertRegex(self.describe(job)["text"], f"^{waiting}$")
        # The end is decided, whatever was reported later.
        self.nodes["a"].process.kill()
        self.nodes["a"].end()
        self.nodes["a"] = self.node("a")
        self.assertEqual(run.end().status, 0)
        self.assertEqual(self.describe(job)["text"], "chief/0 exited with 0")


if __name__ == "__main__":
    harness.main()
