"""Which node a task goes to: jobs on three nodes of one machine."""
import json
import os
import socket

import harness
import node_test

SLEEP = ["sh", "-c", "exec sleep 60"]


class PlacementTest(node_test.NodeTest):
    def nodes(self, names="abc", **options):
        """Nodes that all see each other; options by name: a=["--slots", "1"]."""
        self.write_members(names)
        runs = {name: self.node(name, "--ports", self.ports, *options.get(name, []))
                for name in names}
        for name, run in runs.items():
            for other in names.replace(name, ""):
                self.await_state(run, other, "alive")
        return runs

    def begin(self, *args, program=SLEEP, gateway="a"):
        return self.start_bare("start", "--gateway", f"unix:{self.dir}/state-{gateway}/node.sock",
                               "--framework", "none", "--grace", "0", "--json", *args, "--",
                               *program)

    def events(self, run, kind):
        return [event for event in run.events() if event["event"] == kind]

    def where(self, run, attempt=1):
        """Task -> node, of those that are ready."""
        return {event["task"]: event["node"] for event in self.events(run, "task")
                if event["state"] == "ready" and event["attempt"] == attempt}

    def await_tasks(self, run, count, attempt=1):
        self.read_until(run, lambda: len(self.where(run, attempt)) == count,
                        f"{count} tasks that are ready")
        return self.where(run, attempt)

    def read_until(self, run, condition, what):
        def is_met():
            if run.fds:
                run.read(0.01)
            return condition()
        harness.wait_until(is_met, what)

    def await_pending(self, run, text):
        self.read_until(run, lambda: any(text in event.get("text", "")
                                         for event in self.events(run, "job")), text)

    def output(self, run):
        """Task -> its lines."""
        lines = {}
        for event in self.events(run, "output"):
            lines.setdefault(event["task"], []).append(event["text"])
        return lines

    def stop(self, run):
        job = self.events(run, "submitted")[0]["job"]
        self.ask("stop", job, "--wait")
        run.end()

    def ask(self, *args, name="a"):
        run = self.start_bare(*args, "--gateway", f"unix:{self.dir}/state-{name}/node.sock").end()
        self.assertEqual(run.status, 0, run.err)


class PolicyTest(PlacementTest):
    def test_spread_uses_all_nodes_and_pack_one(self):
        self.nodes()
        spread = self.begin("--worker", "3")
        self.assertEqual(sorted(self.await_tasks(spread, 3).values()), ["a", "b", "c"])
        pack = self.begin("--worker", "3", "--placement", "pack", gateway="b")
        self.assertEqual(len(set(self.await_tasks(pack, 3).values())), 1)
        self.stop(spread)
        self.stop(pack)

    def test_labels(self):
        self.nodes(b=["--label", "disk=ssd"], c=["--label", "disk=ssd", "--label", "zone=1"])
        run = self.begin("--worker", "2", "--label", "disk=ssd", "--label", "zone=1")
        self.assertEqual(set(self.await_tasks(run, 2).values()), {"c"})
        self.stop(run)

    def test_what_does_not_fit_waits_and_says_for_what(self):
        self.nodes(a=["--slots", "1"], b=["--slots", "1"], c=["--slots", "1"])
        first = self.begin("--worker", "2")
        self.await_tasks(first, 2)
        second = self.begin("--worker", "2")
        self.await_pending(second, "2 slots are needed; 1 of 3 is free")
        self.stop(first)
        self.await_tasks(second, 2)
        self.stop(second)

    def test_a_node_that_is_alone_says_at_once_what_it_will_never_have(self):
        node = self.start_bare("node", "--name", "a", "--state", "state-a", "--json", "--ports",
                               self.ports, "--label", "zone=1", "--slots", "2")
        node.await_output('"state":"ready"')
        run = self.begin("--worker", "1", "--label", "rack=7").end()
        end = self.events(run, "end")[0]
        self.assertEqual((run.status, end["reason"], end["text"]),
                         (125, "unschedulable",
                          'worker/0 needs a node with label "rack=7"; this node has only zone=1'))
        run = self.begin("--worker", "3").end()
        self.assertEqual(self.events(run, "end")[0]["text"], "3 slots are needed; this node has 2")
        first = self.begin("--worker", "2")
        self.await_tasks(first, 2)
        second = self.begin("--worker", "1")  # what is only taken is waited for
        self.await_pending(second, "all 2 slots are in use")
        self.stop(first)
        self.await_tasks(second, 1)
        self.stop(second)

    def test_the_pending_deadline_ends_the_wait(self):
        self.nodes("ab")
        run = self.begin("--worker", "1", "--label", "rack=7", "--pending-deadline", "0.5").end()
        end = self.events(run, "end")[0]
        self.assertEqual((run.status, end["reason"], end["text"]),
                         (124, "deadline", "the pending deadline of 0.5 s has passed: worker/0 "
                          'needs a node with label "rack=7"; no node has it'))

    def test_a_node_that_comes_is_used(self):
        self.write_members("ab")
        a = self.node("a", "--ports", self.ports)
        run = self.begin("--worker", "1", "--label", "rack=7")
        self.await_pending(run, 'worker/0 needs a node with label "rack=7"; no node has it')
        self.node("b", "--ports", self.ports, "--label", "rack=7")
        self.assertEqual(self.await_tasks(run, 1), {"worker/0": "b"})
        self.assertIsNone(a.process.poll())
        self.stop(run)

    def test_gpus_are_one_jobs_at_a_time(self):
        self.nodes(a=["--gpus", "0,1"], b=["--gpus", "4,5"])
        show = ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec sleep 60"]
        first = self.begin("--worker", "2", "--gpus", "2", program=show)
        where = self.await_tasks(first, 2)
        self.assertEqual(sorted(where.values()), ["a", "b"])
        self.read_until(first, lambda: len(self.output(first)) == 2, "output")
        for task, lines in self.output(first).items():
            self.assertEqual(lines, [{"a": "0,1", "b": "4,5"}[where[task]]])
        second = self.begin("--worker", "1", "--gpus", "1", program=show)
        self.await_pending(second, "1 GPU is needed; 0 of 4 are free")
        self.stop(first)
        self.await_tasks(second, 1)
        self.stop(second)


class IgnoredTest(PlacementTest):
    def test_a_client_learns_which_failures_were_ignored(self):
        gate = self.make_fifo("gate")
        self.nodes("ab")
        run = self.begin("--worker", "1", "--evaluator", "--restart", "0", program=[
            "sh", "-c", f"test $TFC_TASK_TYPE = evaluator && exit 1; read line <{self.dir}/gate"])
        self.read_until(run, lambda: any(event["state"] == "failed"
                                         for event in self.events(run, "task")), "a failure")
        os.write(gate, b"go\n")
        run.end()
        end = self.events(run, "end")[0]
        self.assertEqual((run.status, end["decided_by"]), (0, "worker/0"))
        self.assertEqual(len(end["ignored_failures"]), 1)
        self.assertRegex(end["ignored_failures"][0], "^evaluator/0 exited with 1")


class PortTest(PlacementTest):
    """Nodes with few ports, and tasks that need one each."""

    def nodes_with_ports(self, names, *counts):
        first = harness.find_ports(reuse=True)
        self.addCleanup(harness.release_ports)
        options, at = {}, first
        for name, count in zip(names, counts):
            options[name] = ["--ports", f"{at}-{at + count - 1}"]
            at += count
        self.nodes(names, **options)
        return first

    def begin_with_ports(self, workers, *args):
        return self.start_bare("start", "--gateway", f"unix:{self.dir}/state-a/node.sock",
                               "--framework", "pytorch", "--grace", "0", "--json", "--worker",
                               str(workers), *args, "--", *SLEEP)

    def test_a_task_whose_port_others_have_goes_to_another_node(self):
        first = self.nodes_with_ports("ab", 1, 2)
        with socket.socket() as stranger:
            stranger.bind(("0.0.0.0", first))
            stranger.listen()
            run = self.begin_with_ports(2)
            self.assertEqual(self.await_tasks(run, 2), {"worker/0": "b", "worker/1": "b"})
            self.stop(run)

    def test_a_fixed_port_is_looked_for_on_all_nodes(self):
        first = self.nodes_with_ports("abc", 1, 1, 1)
        self.write("job.json", json.dumps({
            "framework": "pytorch", "argv": SLEEP, "grace_s": 0,
            "roles": {"worker": {"count": 1, "port": first}}}))
        begin = ("start", "--gateway", f"unix:{self.dir}/state-a/node.sock", "--json", "--job",
                 "job.json")
        run = self.start_bare(*begin)
        self.await_tasks(run, 1)
        # The nodes are on one machine: the port is a job's on one of them, others' on the rest.
        second = self.start_bare(*begin)
        self.await_pending(second, "cannot acquire a port for worker/0 on node ")
        self.stop(run)
        self.await_tasks(second, 1)
        self.stop(second)

    def test_ports_of_another_job_are_waited_for(self):
        self.nodes_with_ports("ab", 1, 1)
        first = self.begin_with_ports(1)
        self.await_tasks(first, 1)
        second = self.begin_with_ports(2)
        self.await_pending(second, "cannot acquire a port for ")
        self.assertNotIn("ended", [event["event"] for event in second.events()])
        self.stop(first)
        self.await_tasks(second, 2)
        self.stop(second)

    def test_ports_that_no_nodes_together_have_fail_the_job(self):
        self.nodes_with_ports("ab", 1, 1)
        run = self.begin_with_ports(3)
        run.end()
        self.assertEqual(run.status, 125, run.err)
        text = self.events(run, "job")[-1]["text"]
        self.assertRegex(text, r"^cannot acquire a port for worker/\d on node [ab]: all 1 ports of the pool ")


class CoolDownTest(PlacementTest):
    def test_a_task_leaves_a_node_where_its_attempts_fail(self):
        self.write_members("ab")
        self.env["BAD"] = "1"  # as a driver that does not work
        a = self.node("a", "--ports", self.ports)
        del self.env["BAD"]
        self.node("b", "--ports", self.ports)
        self.await_state(a, "b", "alive")
        run = self.begin("--worker", "2", "--restart", "5", "--scope", "task",
                         program=["sh", "-c", 'test -z "$BAD" || kill -9 $$; exec sleep 60'])

        def nodes():
            """Where each task is ready last."""
            return {event["task"]: event["node"] for event in self.events(run, "task")
                    if event["state"] == "ready"}
        self.read_until(run, lambda: list(nodes().values()) == ["b", "b"], "both on b")
        ends = [event for event in self.events(run, "task")
                if event["state"] == "failed" and event["node"] == "a"]
        self.assertEqual(len(ends), 3)
        self.stop(run)


class UpstreamTest(PlacementTest):
    def write_map(self, **owners):
        partitions = {name[1:]: node for name, node in owners.items()}
        text = json.dumps({"grid": {"partitions": partitions, "env": {"GRID_PORT": "1"}, "nodes": {
            name: {"GRID_HOST": f"host-{name}"} for name in "abc"}}})
        new = self.write("map.new", text)
        os.rename(new, os.path.join(self.dir, "map.json"))

    SHOW = ["sh", "-c", "echo $TFC_PARTITIONS $GRID_HOST:$GRID_PORT; exec sleep 60"]

    def test_workers_are_where_the_partitions_are_and_follow_them(self):
        self.write_map(p0="b", p1="c", p2="b")
        maps = ["--upstream-map", "map.json"]
        self.nodes(a=maps, b=maps, c=maps)
        self.write("job.json", json.dumps({
            "framework": "none", "argv": self.SHOW, "grace_s": 0, "abort_grace_s": 0,
            "roles": {"worker": {"count": 2}}, "placement": {
                "policy": "upstream", "upstream": "grid", "on_upstream_change": "restart"}}))
        run = self.start_bare("start", "--gateway", f"unix:{self.dir}/state-a/node.sock",
                              "--json", "--job", "job.json")
        self.assertEqual(self.await_tasks(run, 2), {"worker/0": "b", "worker/1": "c"})
        self.write_map(p0="a", p1="c", p2="a")
        self.assertEqual(self.await_tasks(run, 2, attempt=2), {"worker/0": "a", "worker/1": "c"})
        lines = {"worker/0": ["0,2 host-b:1", "0,2 host-a:1"],
                 "worker/1": ["1 host-c:1", "1 host-c:1"]}
        self.read_until(run, lambda: self.output(run) == lines, "their output")
        self.stop(run)

    def test_an_owner_that_is_not_there_is_waited_for(self):
        self.write_map(p0="a", p1="b")
        self.write_members("ab")
        self.node("a", "--ports", self.ports, "--upstream-map", "map.json")
        run = self.begin("--worker", "2", "--upstream", "grid", program=self.SHOW)
        self.await_pending(run, "worker/1 must run on node b, which ")
        self.node("b", "--ports", self.ports)
        self.assertEqual(self.await_tasks(run, 2), {"worker/0": "a", "worker/1": "b"})
        self.stop(run)


if __name__ == "__main__":
    harness.main()
