"""Real preemptions of mirrored workers: whoever saves may finish, and the job resumes there."""

import os
import signal
import sys
import unittest

import cluster
from cluster import ENDED, output, state

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "preempted.py")


class PreemptionTest(cluster.ClusterTest):

    def train(self, save_s):
        """Two workers that train; their saves take so many seconds: "CHIEF,OTHERS"."""
        # The handler asks whether it is on a cloud: nobody listens there.
        job = self.start("--worker", "2", "--restart", "1", "--env", f"SAVE_S={save_s}",
                         "--env", "GCE_METADATA_IP=127.0.0.1:9", "--",
                         *self.program("mirrored.py")[:1], PROGRAM,
                         *self.program("mirrored.py")[2:])
        job.wait_step("worker/1", 2)
        return job

    def assert_resumed_where_it_was(self, since):
        job = self.job
        step = int(job.wait_for(output("worker/0", r"^saving step=(\d+)", 1), "a save", since)[1])
        job.wait_for(state("worker/0", ENDED, 1), "the chief's end", since)
        self.assertEqual(job.last_saved(), step, "the chief's save is lost")
        for task in ("worker/0", "worker/1"):
            found = job.wait_for(output(task, r"^resumed step=(\d+)", 2), f"{task}'s resuming")
            self.assertEqual(int(found[1]), step)
        self.release()
        self.assert_succeeded("worker/0", deciders=("worker/0", "worker/1"))
        self.assertEqual(job.attempts(), {"worker/0": 2, "worker/1": 2})

    def test_a_member_that_gets_term_saves_with_all_others(self):
        job = self.train("4,0")
        since = job.mark()
        job.signal_task("worker/1", signal.SIGTERM)
        death = job.wait_for(state("worker/1", ENDED, 1), "worker/1's end", since)
        self.assertEqual((death["state"], death["exit"]), ("failed", 42))
        self.assertIn("losses in", death["text"])
        self.assert_resumed_where_it_was(since)
        peer = job.find(state("worker/0", ENDED, 1))[0]
        self.assertEqual((peer["exit"], peer["reason"]), (42, "consequence"))

    def test_a_member_that_gets_term_and_is_killed_costs_nobody_the_checkpoint(self):
        job = self.train("4,60")
        since = job.mark()
        job.signal_task("worker/1", signal.SIGTERM)
        job.wait_for(output("worker/1", r"^saving step=", 1), "worker/1's save", since)
        job.signal_task("worker/1", signal.SIGKILL)
        death = job.wait_for(state("worker/1", ENDED, 1), "worker/1's death", since)
        self.assertEqual((death["state"], death["signal"]), ("failed", signal.SIGKILL))
        self.assert_resumed_where_it_was(since)


if __name__ == "__main__":
    unittest.main(verbosity=2)
