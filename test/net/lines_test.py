"""Lines are numbered by the tasks, and each connection on the way to who reads them breaks, again and
again: of a client to its gateway, of that gateway to the job's node, of that node to those that run
the tasks. Each line is read once, also of tasks that are silent for long, and behind a cursor.
"""
import os
import pathlib
import re
import sys
import unittest

import fleet
from cluster import job_state, output

COUNT = str(pathlib.Path(__file__).parent / "count.py")
ROUNDS = 12 * int(os.environ.get("TFC_CAMPAIGN", "1"))
QUIET = 500
SILENT = ("worker/0", "worker/2", "worker/4")
TALKING = ("worker/1", "worker/3", "worker/5")


def told(events, task):
    """What a task has said, as it was read."""
    return [event["text"] for event in events
            if event["event"] == "output" and event["task"] == task]


class LinesTest(fleet.FleetTest):
    NODE_OPTIONS = ("--slots", "2")

    def start_count(self):
        """On each host two tasks, one of which falls silent."""
        self.stop_file = os.path.join(self.dir, "stop")
        job = self.start_job(
            self.nodes[0], framework="none", success="all_workers", grace_s=1,
            argv=[sys.executable, COUNT, self.stop_file, "0.02", str(QUIET)],
            roles={"worker": {"count": 6}})
        job.wait_for(job_state("running"), "the job runs")
        for task in SILENT:
            job.wait_for(output(task, rf"^line {QUIET}$"), f"{task} falls silent")
        return job

    def break_all(self):
        """All connections between hosts, and of the clients on a host to its own node."""
        broken = [one.break_connections(other) for one in self.net.hosts for other in self.net.hosts]
        if None in broken:
            self.skipTest("the kernel destroys no connections")
        return sum(broken)

    def assert_lines_go_on(self, before, after, what):
        """Numbered from 1 on, and at the end the task says how many there were."""
        for task in SILENT + TALKING:
            lines = before.get(task, []) + told(after, task)
            count = len(lines) - 1
            self.assertEqual(lines, [*(f"line {i + 1}" for i in range(count)), f"counted {count}"],
                             f"{task}, read by {what}")

    def test_every_line_is_read_once_whichever_connections_break(self):
        self.start_nodes()
        job = self.start_count()
        last = job.wait_for(lambda event: event["event"] == "output" and event["task"] in TALKING
                            and event, "a line", job.mark())
        here = job.events.index(last) + 1
        before = {task: told(job.events[:here], task) for task in SILENT + TALKING}
        job_id = job.events[0]["job"]
        behind = [self.follow(node, "logs", "-f", "--since", last["cursor"], job_id)
                  for node in self.nodes]
        whole = [job] + [self.follow(node, "attach", job_id) for node in self.nodes[1:]]
        for _ in range(ROUNDS):
            marks = [(reader, reader.mark()) for reader in behind + whole]
            self.assertGreater(self.break_all(), 0)
            for reader, since in marks:
                for task in TALKING:
                    reader.wait_for(output(task, r"^line "), f"{task} goes on", since)
        pathlib.Path(self.stop_file).touch()
        for reader in whole:
            end, status = reader.end()
            self.assertEqual((end["state"], status), ("succeeded", 0), end)
            self.assert_lines_go_on({}, reader.events, "who began at the start")
        for reader in behind:
            self.assertEqual(reader.read_all(), 0)
            self.assert_lines_go_on(before, reader.events, f"who began at {last['cursor']}")


if __name__ == "__main__":
    if not fleet.world.is_possible():
        print("network namespaces need root")
        sys.exit(77)
    unittest.main(verbosity=2)
