"""Workers that see only a part of their cluster, and train all the same."""

import json
import signal
import unittest

import cluster
from cluster import ENDED, state


class TopologyTest(cluster.ClusterTest):

    def tf_config(self, task):
        """What a task's process was given."""
        pid = [event["pid"] for event in self.job.events
               if event["event"] == "task" and event["task"] == task][-1]
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = dict(item.split(b"=", 1) for item in file.read().split(b"\0") if item)
        return json.loads(variables[b"TF_CONFIG"])

    def test_workers_that_know_only_chief_ps_and_themselves_serve_and_come_back(self):
        job = self.start(
            strategy="parameter_server", topology="partial",
            argv=self.program("parameter_server.py"),
            roles={"chief": {}, "worker": {"count": 2, "server": True}, "ps": {"server": True}})
        job.wait_step("chief/0", 0)
        address = {task: min(kept) for task, kept in job.addresses().items()}
        self.assertEqual(self.tf_config("worker/1"), {
            "cluster": {"chief": [address["chief/0"]], "worker": {"1": address["worker/1"]},
                        "ps": [address["ps/0"]]},
            "task": {"type": "worker", "index": 1}})
        self.assertEqual(self.tf_config("chief/0")["cluster"]["worker"],
                         [address["worker/0"], address["worker/1"]])

        since = job.mark()
        job.signal_task("worker/1", signal.SIGKILL)
        job.wait_for(state("worker/1", ENDED, 1), "the death of worker/1", since)
        job.wait_for(state("worker/1", "ready", 2), "worker/1 again", since)
        job.wait_step("chief/0", 0, job.mark())
        self.release()
        self.assert_succeeded("chief/0")
        self.assertEqual(job.attempts(), {"chief/0": 1, "worker/0": 1, "worker/1": 2, "ps/0": 1})


if __name__ == "__main__":
    unittest.main(verbosity=2)
