"""Nodes that are killed, stopped or cut off while a job runs on three hosts.

After each: no task of an old generation runs anywhere, no port is held, the job ends as it should,
and whoever followed it saw every line exactly once.
"""
import collections
import datetime
import os
import pathlib
import re
import signal
import sys
import time
import unittest

import fleet
from cluster import job_state, output, state

COUNT = str(pathlib.Path(__file__).parent / "count.py")
WRITER = str(pathlib.Path(__file__).parent / "writer.py")
WORKERS = ("worker/0", "worker/1", "worker/2")


class FaultsTest(fleet.FleetTest):
    NODE_OPTIONS = ("--slots", "4")

    def setUp(self):
        super().setUp()
        self.stop_file = os.path.join(self.dir, "stop")

    def start_count(self, node, **keys):
        """Three workers that count, one a host; they are one group."""
        job = self.start_job(
            node, framework="none", argv=[sys.executable, COUNT, self.stop_file],
            roles={"worker": {"count": 3, "ready": "listen", "port_handover": "open"}},
            **{"restart": {"scope": "group", "on": "failure", "backoff_s": [0, 1], "max": 20},
               "grace_s": 1, "success": "all_workers", "placement": {"policy": "spread"}, **keys})
        self.await_running(job, 1)
        return job

    def await_running(self, job, generation, since=0):
        job.wait_for(job_state("running", generation), f"generation {generation}", since)
        for task in WORKERS:
            job.wait_for(output(task, r"^line 3$"), f"{task} counts", since)

    def nodes_of(self, job):
        """{task: node} as last told."""
        return {event["task"]: event["node"] for event in job.events
                if event["event"] == "task" and event["state"] in ("running", "ready")}

    def node_named(self, name):
        return next(node for node in self.nodes if node.name == name)

    def generations_alive(self, job_id):
        found = set()
        for node in self.nodes:
            for pid in self.pids_of_job(node, job_id):
                try:
                    environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                found |= {int(item[15:]) for item in environ if item.startswith(b"TFC_GENERATION=")}
        return found

    def assert_only_newest_generation(self, job):
        job_id = job.events[-1]["job"] if "job" in job.events[-1] else job.events[0]["job"]
        newest = max(event["generation"] for event in job.events if "generation" in event)
        self.wait_until(lambda: self.generations_alive(job_id) <= {newest},
                        f"only generation {newest} lives", 5)

    def finish(self, job):
        pathlib.Path(self.stop_file).touch()
        end, status = job.end()
        self.assertEqual((end["state"], status), ("succeeded", 0), end)
        for task in WORKERS:
            lines = self.assert_every_line_once(job, task)
            self.assertTrue(lines)
            last = max(lines)
            counted = [event["text"] for event in job.events if event["event"] == "output"
                       and event["task"] == task and event["attempt"] == last
                       and event["text"].startswith("counted ")]
            self.assertEqual(counted, [f"counted {len(lines[last])}"])
        self.assert_replay_is_whole(job)

    def assert_replay_is_whole(self, job):
        """Who followed all the time has seen what one who comes after the end sees: also what was
        written on a host while nobody could ask it."""
        def told(events):
            lines = {}
            for event in events:
                if event["event"] == "output":
                    lines.setdefault((event["task"], event["attempt"]), []).append(event["text"])
            return lines
        later = self.follow(self.nodes[0], "attach", job.events[-1]["job"])
        later.end()
        live, replayed = told(job.events), told(later.events)
        self.assertEqual(set(live), set(replayed))
        for which, lines in live.items():
            self.assertEqual(lines, replayed[which], f"{which} on {self.places(job, which)}")

    @staticmethod
    def places(job, which):
        return {event["node"] for event in job.events if event["event"] == "task"
                and (event["task"], event["attempt"]) == which}

    # -- deaths

    def test_killed_node_with_a_worker_is_left_at_once(self):
        self.start_nodes()
        job = self.start_count(self.nodes[0])
        nodes = self.nodes_of(job)
        self.assertEqual(set(nodes.values()), {"h0", "h1", "h2"}, "one worker a host")
        victim = self.node_named(nodes["worker/2"] if nodes["worker/2"] != "h0"
                                 else nodes["worker/1"])
        since = job.mark()
        victim.kill()
        self.await_members(self.nodes[0], {victim.name: "down"})
        self.await_running(job, 2, since)
        self.assertNotIn(victim.name, self.nodes_of(job).values())
        self.assert_only_newest_generation(job)
        victim.start()
        self.await_members(self.nodes[0], {victim.name: "alive"})
        self.finish(job)

    def test_killed_maintainer_resumes_its_job_when_it_is_back(self):
        self.start_nodes()
        job = self.start_count(self.nodes[0])
        job_id = job.events[0]["job"]
        since = job.mark()
        self.nodes[0].kill()
        # Without their maintainer the tasks elsewhere end by themselves.
        self.wait_until(lambda: not any(self.pids_of_job(node, job_id) for node in self.nodes),
                        "the tasks stop", 60)
        self.nodes[0].start()
        self.await_running(job, 2, since)
        epochs = [event["epoch"] for event in job.events if event["event"] == "job"]
        self.assertEqual(sorted(set(epochs)), [1, 2])
        self.assertEqual({event["job"] for event in job.events if "job" in event}, {job_id})
        self.assert_only_newest_generation(job)
        self.finish(job)

    def test_rolling_restart_of_all_nodes_ends_well(self):
        self.start_nodes()
        job = self.start_count(self.nodes[0])
        for node in self.nodes:
            since, nodes = job.mark(), self.nodes_of(job).values()
            generation = max(event["generation"] for event in job.events if "generation" in event)
            node.kill(signal.SIGTERM)
            node.start()
            for each in self.nodes:
                self.await_members(each, {node.name: "alive"})
            if node is self.nodes[0] or node.name in nodes:
                self.await_later_generation(job, generation, since)
            self.assert_only_newest_generation(job)
        self.finish(job)

    def await_later_generation(self, job, generation, since):
        job.wait_for(lambda event: event["event"] == "job" and event["state"] == "running"
                     and event["generation"] > generation, "a later generation", since)
        for task in WORKERS:
            job.wait_for(output(task, r"^line 3$"), f"{task} counts", since)

    # -- silence

    def test_stopped_node_loses_its_tasks_and_its_say(self):
        self.start_nodes()
        job = self.start_count(self.nodes[0])
        job_id = job.events[0]["job"]
        victim = self.node_named(next(node for node in self.nodes_of(job).values() if node != "h0"))
        since = job.mark()
        victim.kill(signal.SIGSTOP)
        self.addCleanup(victim.process.send_signal, signal.SIGCONT)
        self.wait_until(lambda: not self.pids_of_job(victim, job_id),
                        "its guard ends the tasks although the node is stopped", 60)
        self.await_running(job, 2, since)
        victim.kill(signal.SIGCONT)
        self.await_members(self.nodes[0], {victim.name: "alive"})
        self.assert_only_newest_generation(job)
        self.finish(job)

    def cut_and_heal(self, cut, heal, lasting):
        self.start_nodes()
        job = self.start_count(self.nodes[0])
        job_id = job.events[0]["job"]
        victim = self.node_named(next(node for node in self.nodes_of(job).values() if node != "h0"))
        since, begun = job.mark(), time.monotonic()
        cut(victim.host)
        self.wait_until(lambda: not self.pids_of_job(victim, job_id),
                        "the guard ends the tasks that nobody leads", 60)
        self.await_running(job, 2, since)
        self.wait_until(lambda: time.monotonic() - begun > lasting, "the cut lasts", lasting)
        heal(victim.host)
        self.await_members(self.nodes[0], {victim.name: "alive"}, 60)
        self.assert_only_newest_generation(job)
        self.finish(job)

    def test_cut_of_three_quarters_of_the_lease_restarts_nothing(self):
        self.start_nodes()
        job = self.start_count(self.nodes[0])
        for lasting in (5, 7.5):
            task = next(task for task, node in self.nodes_of(job).items() if node == "h1")
            begun = time.monotonic()
            self.net.cut(self.nodes[1].host)
            self.wait_until(lambda: time.monotonic() - begun > lasting, "the cut lasts", lasting + 5)
            healed = datetime.datetime.utcnow().isoformat()
            self.net.heal(self.nodes[1].host)
            job.wait_for(lambda event: output(task, r"^line ")(event) and event["time"] > healed,
                         f"{task} goes on")
        self.finish(job)
        self.assertEqual(job.find(job_state("restarting")), [])

    def test_cut_host_is_left_and_comes_back(self):
        self.cut_and_heal(self.net.cut, self.net.heal, 60)

    def test_one_way_cut_is_a_cut(self):
        maintainer = self.net.hosts[0]
        self.cut_and_heal(lambda host: self.net.cut_one_way(maintainer, host),
                          lambda host: self.net.heal_one_way(maintainer, host), 20)

    def test_every_fifth_frame_lost_is_only_slow(self):
        """For longer than a lease: nobody takes a slow maintainer, or a slow node, for a lost one."""
        self.start_nodes()
        job = self.start_count(self.nodes[0])
        relay = self.net.loosen(self.net.hosts[1], loss=0.2, delay=0.005)
        task = next(task for task, node in self.nodes_of(job).items() if node == "h1")
        here = job.find(output(task, r"^line (\d+)$"))[-1]
        job.wait_for(lambda event: event["event"] == "output" and event["task"] == task
                     and re.fullmatch(r"line \d+", event["text"])
                     and int(event["text"][5:]) > int(here[1]) + 300, "300 lines more", 0)
        self.assertGreater(relay.dropped, 0)
        self.net.loosen(self.net.hosts[1])
        self.assertEqual(job.find(job_state("restarting")), [])
        self.finish(job)


class RestartTest(fleet.FleetTest):
    """A node is killed and started again at once, and may not have its tasks any more: they go
    elsewhere while its previous incarnation still gives them their grace."""
    GRACE_S = 4
    WRITES = 50  # of an attempt: an older one that lives has written between them
    LABELED = ("--slots", "4", "--label", "run=yes")
    NODE_OPTIONS = LABELED

    def setUp(self):
        super().setUp()
        self.stop_file = os.path.join(self.dir, "stop")
        self.writes = os.path.join(self.dir, "writes")

    def start_writers(self):
        job = self.start_job(
            self.nodes[0], framework="none", argv=[sys.executable, WRITER, self.stop_file, self.writes],
            roles={"worker": {"count": 3, "ready": "started"}}, grace_s=self.GRACE_S,
            restart={"scope": "task", "on": "failure", "backoff_s": [0, 0], "max": 20},
            abort_grace_s=self.GRACE_S, success="all_workers",
            placement={"policy": "spread", "labels": {"run": "yes"}})
        for task in WORKERS:
            job.wait_for(output(task, "^writing$"), f"{task} writes")
            # A start is shown once it is stored: a line of the attempt may come first.
            job.wait_for(lambda event, task=task: event["event"] == "task" and event["task"] == task
                         and event["state"] in ("running", "ready"), f"{task} runs")
        return job

    @staticmethod
    def nodes_of(job):
        return {event["task"]: event["node"] for event in job.events
                if event["event"] == "task" and event["state"] in ("running", "ready")}

    def written(self):
        """(task, attempt) of each write, in their order."""
        for line in pathlib.Path(self.writes).read_text().splitlines():
            task, attempt = line.split()
            yield task, int(attempt)

    def assert_no_attempt_beside_another(self):
        """After the first write of an attempt there is none of an older."""
        last, writes = {}, collections.Counter()
        for task, attempt in self.written():
            writes[task, attempt] += 1
            if attempt < last.get(task, 0):
                self.fail(f"{task}: attempt {attempt} wrote beside attempt {last[task]}: {writes}")
            last[task] = attempt
        return last

    def restart_at_once(self, node):
        """Without its label. Its old tasks are alive when it is started."""
        job = self.jobs[0]
        tasks = [task for task, name in self.nodes_of(job).items() if name == node.name]
        old = self.pids_of_job(node, job.events[0]["job"])
        since = job.mark()
        self.assertTrue(tasks and old)
        begun = time.monotonic()
        node.kill()
        node.options = ("--slots", "4")
        node.start()
        print(f"{node.name} was started again after {(time.monotonic() - begun) * 1000:.0f} ms")
        self.assertEqual(set(old) - set(node.host.pids()), set(), "its guard gives them a grace")
        for task in tasks:
            job.wait_for(output(task, "^writing$", 2), f"{task} writes elsewhere", since)
            self.wait_until(lambda task=task: list(self.written()).count((task, 2)) >= self.WRITES,
                            f"{self.WRITES} writes of {task}")
            # It is shown once it is stored: a line of the attempt may come first.
            job.wait_for(lambda event, task=task: event["event"] == "task" and event["task"] == task
                         and event["state"] in ("running", "ready") and event["attempt"] == 2,
                         f"{task} runs elsewhere", since)
        self.assertNotIn(node.name, self.nodes_of(job).values())
        self.assert_no_attempt_beside_another()

    def finish(self, job):
        pathlib.Path(self.stop_file).touch()
        end, status = job.end()
        self.assertEqual((end["state"], status), ("succeeded", 0), end)
        last = self.assert_no_attempt_beside_another()
        self.assertGreater(max(last.values()), 1)

    def test_restarted_maintainer_waits_for_its_previous_incarnation(self):
        self.start_nodes()
        job = self.start_writers()
        self.restart_at_once(self.nodes[0])
        self.assertIn("previous incarnation", self.nodes[0].said())
        self.finish(job)

    def test_restarted_node_is_not_alone_before_its_tasks_have_ended(self):
        self.start_nodes()
        job = self.start_writers()
        self.restart_at_once(self.nodes[1])
        self.finish(job)


class StartTest(fleet.FleetTest):
    NODE_OPTIONS = ("--slots", "4")

    def test_unreachable_host_at_the_start_is_done_without(self):
        self.net.cut(self.net.hosts[2])
        for node in self.nodes:
            node.start()
        self.await_members(self.nodes[0], {"h0": "alive", "h1": "alive"})
        stop = os.path.join(self.dir, "stop")
        job = self.start_job(self.nodes[0], framework="none", argv=[sys.executable, COUNT, stop],
                             success="all_workers", roles={"worker": {"count": 3}})
        job.wait_for(job_state("running"), "the job runs on two hosts")
        nodes = {event["node"] for event in job.events if event["event"] == "task" and event["node"]}
        self.assertEqual(nodes, {"h0", "h1"})
        pathlib.Path(stop).touch()
        self.assertEqual(job.end()[1], 0)

    def test_two_nodes_of_one_name_are_named(self):
        for node in self.nodes[:2]:
            node.start()
        self.await_members(self.nodes[0], {"h1": "alive"})
        twin = fleet.Node(self, self.net.hosts[2], *self.NODE_OPTIONS, name="h1").start()
        self.assertEqual(twin.process.wait(30), 125)
        self.assertIn("h1", twin.said())
        self.await_members(self.nodes[0], {"h1": "alive"})


if __name__ == "__main__":
    if not fleet.world.is_possible():
        print("network namespaces need root")
        sys.exit(77)
    unittest.main(verbosity=2)
