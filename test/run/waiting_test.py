"""What a job waits for is said at once, by those that follow it and by those that ask."""
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


if __name__ == "__main__":
    harness.main()
