"""The keys of a cluster are changed while its nodes and a job run."""
import json
import os
import pathlib
import re
import signal

import harness
from gossip_test import GossipTest

CHANGED = b"read the changed key file"
PRINT = "i=0; while :; do echo line $i; i=$((i + 1)); sleep 0.05; done"


def await_that(run, condition, what):
    """Reads the run's output until the condition holds."""
    harness.wait_until(lambda: run.read(0.01) or condition(), what)


class KeyChangeTest(GossipTest):
    def setUp(self):
        super().setUp()
        self.run_bare("keygen", "new-key")
        self.run_bare("keygen", "submit-key", "--role", "submit")
        self.old, self.new, self.submit = (pathlib.Path(self.dir, name).read_text()
                                           for name in ("key", "new-key", "submit-key"))

    def write_keys(self, name, text):
        """As an editor or a deployment tool does it: a new file takes the place of the old one."""
        path = os.path.join(self.dir, f"key-{name}")
        with open(path + ".new", "w", opener=lambda file, flags: os.open(file, flags, 0o600)) as file:
            file.write(text)
        os.rename(path + ".new", path)

    def start_nodes(self, text):
        """Nodes a, b and c, each with a file of keys of its own."""
        runs = {}
        for name in "abc":
            self.write_keys(name, text)
            join = [] if name == "a" else ["--join", self.host_port("a")]
            runs[name] = self.node(name, "--key", f"key-{name}", "--probe", "0.2", "--slots", "1", *join)
        self.await_alive(*runs.values())
        return runs

    def change_keys(self, runs, text):
        for name, run in runs.items():
            count = run.err.count(CHANGED)
            self.write_keys(name, text)
            await_that(run, lambda: run.err.count(CHANGED) > count, "the new keys")

    def start_printing_job(self, tasks):
        run = self.start_bare("start", "--gateway", f"unix:{self.dir}/state-a/node.sock", "--framework", "none",
                              "--worker", str(tasks), "--detach", "--", "/bin/sh", "-c", PRINT).end()
        self.assertEqual(run.status, 0, run.err)
        return run.lines()[0]

    def follow(self, job, *way):
        return self.start_bare("attach", "--json", *way, job)

    @staticmethod
    def printed(run, task):
        """How many lines of the task have arrived."""
        events = [json.loads(line) for line in run.out.decode().split("\n")[:-1]]
        lines = [event["text"] for event in events if event["event"] == "output" and event.get("task") == task]
        return lines

    def test_no_task_ends_and_no_line_is_lost(self):
        runs = self.start_nodes(self.old)
        job = self.start_printing_job(3)
        follow = self.follow(job, "--gateway", f"unix:{self.dir}/state-a/node.sock")
        tasks = [f"worker/{i}" for i in range(3)]
        for text in (self.old + self.new, self.new + self.old, self.new):
            self.change_keys(runs, text)
            before = {task: len(self.printed(follow, task)) for task in tasks}
            for task in tasks:
                await_that(follow, lambda: len(self.printed(follow, task)) > before[task] + 10, f"output of {task}")
        for task in tasks:
            lines = "".join(self.printed(follow, task)).split("\n")[:-1]
            self.assertEqual(lines, [f"line {i}" for i in range(len(lines))])
        described = json.loads(self.ask("describe", "--json", job))
        self.assertEqual([task["attempt"] for task in described["tasks"]], [1, 1, 1])
        self.assertEqual({task["node"] for task in described["tasks"]}, set("abc"))
        for run in runs.values():
            self.assertNotIn("down", re.findall(r'"event":"member"[^}]*"state":"(\w+)"', run.out.decode()), run.err)
        late = self.start_bare("node", "--name", "d", "--gossip", self.address[3][len("tcp://"):], "--key", "key",
                               "--state", "state-d", "--join", self.host_port("a"))
        late.await_output("cannot join the other nodes yet: .*the peer refused this key", "err")
        self.ask("stop", "--kill", "--wait", job)

    def test_the_connection_of_a_removed_key_is_closed(self):
        runs = self.start_nodes(self.old + self.submit)
        job = self.start_printing_job(1)
        way = ["--gateway", self.address[0], "--key", "submit-key"]
        follow = self.follow(job, *way)
        follow.await_output("line 1")
        self.change_keys(runs, self.old)
        follow.await_output(f"cannot follow job {job}; .*the peer refused this key", "err")
        before = len(self.printed(follow, "worker/0"))
        follow.process.send_signal(signal.SIGINT)
        follow.end()
        self.assertEqual(len(self.printed(follow, "worker/0")), before)
        self.ask("stop", "--kill", "--wait", job)

    def test_a_client_reads_its_changed_key_when_it_connects_again(self):
        runs = self.start_nodes(self.old + self.submit)
        self.write_keys("client", self.submit)
        job = self.start_printing_job(1)
        follow = self.follow(job, "--gateway", self.address[0], "--key", "key-client")
        follow.await_output("line 1")
        self.write_keys("client", self.old)
        self.change_keys(runs, self.old)
        before = len(self.printed(follow, "worker/0"))
        await_that(follow, lambda: len(self.printed(follow, "worker/0")) > before + 10, "output")
        self.ask("stop", "--kill", "--wait", job)

    def test_a_bad_file_changes_nothing(self):
        runs = self.start_nodes(self.old)
        for text, why in (("tfcluster-key 2\n", "key-a:1: unknown key format version"),
                          ("", "holds no key"),
                          (self.submit, "has no node key, which a node requires")):
            self.write_keys("a", text)
            runs["a"].await_output(f"keys not changed: .*{why}", "err")
        job = self.start_printing_job(3)
        self.follow(job, "--gateway", f"unix:{self.dir}/state-a/node.sock").await_output("line 1")
        self.assertNotIn("read the changed key file", runs["a"].err.decode())
        self.ask("stop", "--kill", "--wait", job)


del GossipTest  # its tests run in their own program

if __name__ == "__main__":
    harness.main()
