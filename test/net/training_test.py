"""Real TensorFlow on three hosts: both strategies train, lose a host, and go on."""
import sys
import unittest

import fleet
from cluster import job_state, output


class TrainingTest(fleet.FleetTest):
    NODE_OPTIONS = ("--slots", "2")

    def nodes_of(self, job):
        return {event["task"]: event["node"] for event in job.events
                if event["event"] == "task" and event["state"] in ("running", "ready")}

    def lose_host_of(self, job, task):
        """Kills the node that has the task; the others are as they were. Returns since when."""
        name = self.nodes_of(job)[task]
        victim = next(node for node in self.nodes if node.name == name)
        since = job.mark()
        victim.kill()
        return victim, since

    def test_mirrored_workers_survive_the_loss_of_a_host(self):
        self.start_nodes()
        job = self.start_job(self.nodes[0], "--worker", "3", "--restart", "10", "--placement",
                             "spread", "--python", sys.executable, "--",
                             *self.program("mirrored.py", "--batch", "48"))
        job.wait_for(output("worker/0", r"^saved step="), "a checkpoint")
        nodes = self.nodes_of(job)
        self.assertEqual(set(nodes.values()), {"h0", "h1", "h2"})
        task = next(task for task, node in nodes.items() if node != "h0")
        saved = job.last_saved()
        victim, since = self.lose_host_of(job, task)
        job.wait_for(job_state("running", 2), "generation 2", since)
        found = job.wait_for(output("worker/0", r"^resumed step=(\d+)", 2), "resuming", since)
        self.assertGreaterEqual(int(found[1]), saved)
        self.assertNotIn(victim.name, self.nodes_of(job).values())
        job.wait_step("worker/0", int(found[1]), since, 2)
        self.release()
        end, status = job.end()
        self.assertEqual((end["state"], status), ("succeeded", 0), end)

    def test_parameter_servers_survive_the_loss_of_the_host_of_the_ps(self):
        self.start_nodes()
        job = self.start_job(self.nodes[0], "--chief", "--worker", "2", "--ps", "1", "--restart",
                             "10", "--placement", "spread", "--python", sys.executable, "--",
                             *self.program("parameter_server.py"))
        job.wait_for(output("chief/0", r"^saved step="), "a checkpoint")
        saved, nodes = job.last_saved(), self.nodes_of(job)
        self.assertEqual(set(nodes.values()), {"h0", "h1", "h2"})
        task = "ps/0" if nodes["ps/0"] != "h0" else next(
            task for task, node in nodes.items() if node != "h0")
        victim, since = self.lose_host_of(job, task)
        found = job.wait_for(output("chief/0", r"^resumed step=(\d+)"), "resuming", since)
        self.assertGreaterEqual(int(found[1]), saved)
        self.assertNotIn(victim.name, self.nodes_of(job).values())
        self.release()
        end, status = job.end()
        self.assertEqual((end["state"], status), ("succeeded", 0), end)


if __name__ == "__main__":
    if not fleet.world.is_possible():
        print("network namespaces need root")
        sys.exit(77)
    unittest.main(verbosity=2)
