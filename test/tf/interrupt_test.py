"""Ctrl-C while a job of real TensorFlow starts, trains and ends: nothing is left."""

import unittest

import cluster
from cluster import ENDED, job_state, output, state


class InterruptTest(cluster.ClusterTest):

    def assert_interrupted(self):
        self.job.interrupt()
        end, status = self.job.end()
        self.assertEqual((end["state"], end["reason"], end["exit"], status),
                         ("stopped", "stopped", 130, 130))

    def test_while_starting(self):
        job = self.start("--worker", "2", "--", *self.program("mirrored.py"))
        job.wait_for(state("worker/0", "running"), "worker/0's start")
        self.assert_interrupted()
        self.assertEqual(job.find(output("worker/0", "^step=")), [])

    def test_while_training(self):
        job = self.start("--worker", "2", "--", *self.program("mirrored.py"))
        job.wait_step("worker/1", 0)
        self.assert_interrupted()
        self.assertEqual(job.find(output("worker/0", "^accuracy=")), [])

    def test_while_ending(self):
        """The job has succeeded and stays so; the evaluator, which had time left, is stopped."""
        self.release()
        job = self.start(
            argv=self.program("parameter_server.py"),
            roles={"chief": {}, "worker": {}, "ps": {},
                   "evaluator": {"argv": self.program("evaluator.py", "--steps", "1000000"),
                                 "finish_s": 600}})
        job.wait_for(state("chief/0", "exited"), "the chief's end")
        job.wait_for(job_state("stopping"), "the job's end begun")
        job.interrupt()
        end, status = job.end()
        self.assertEqual((end["state"], end["decided_by"], status), ("succeeded", "chief/0", 0))
        evaluator = job.find(state("evaluator/0", ENDED))[-1]
        self.assertEqual((evaluator["state"], evaluator["reason"]), ("stopped", "stopped"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
