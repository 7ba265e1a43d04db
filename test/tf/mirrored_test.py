"""Mirrored workers: one job in which a worker is killed and another time stopped."""

import os
import signal
import sys
import unittest

import cluster
from cluster import ENDED, job_state, output, state

WORKERS = ("worker/0", "worker/1")

LEAVING = """
import os, sys
sys.path.insert(0, {programs!r})
sys.argv[0] = "mirrored.py"
import digits, mirrored
def leave_early(args, pace=digits.pace, steps=iter(range(5))):
    if os.environ["TFC_TASK_INDEX"] == "1" and next(steps, None) is None:
        sys.exit(0)
    pace(args)
digits.pace = leave_early
mirrored.main()
"""


KERAS_3 = """
import numpy as np, tensorflow as tf
with tf.distribute.MultiWorkerMirroredStrategy().scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(loss="mse", optimizer="sgd")
model.fit(np.ones((16, 4), "float32"), np.ones((16, 1), "float32"), batch_size=8, verbose=0)
"""


class MirroredTest(cluster.ClusterTest):

    def assert_group_restarted(self, since, generation, saved):
        """All workers, and no one else, run again and go on from the checkpoint."""
        job = self.job
        job.wait_for(job_state("restarting"), "the group's restart", since)
        job.wait_for(job_state("running", generation), f"generation {generation}", since)
        for task in WORKERS:
            found = job.wait_for(output(task, r"^resumed step=(\d+)", generation),
                                 f"{task}'s resuming", since)
            self.assertGreaterEqual(int(found[1]), saved)
            self.assertGreater(job.wait_step(task, 0, since, generation), int(found[1]))
        self.assertEqual(job.attempts(),
                         {"worker/0": generation, "worker/1": generation, "evaluator/0": 1})
        self.assert_generations_apart(since, generation)

    def assert_generations_apart(self, since, generation):
        """No task of a generation starts before all of the one before it have ended."""
        started = [at for at, event in enumerate(self.job.events) if at >= since
                   and event["event"] == "task" and event["task"] in WORKERS
                   and event["attempt"] == generation and event["state"] == "running"]
        ended = [at for at, event in enumerate(self.job.events) if at >= since
                 and event["event"] == "task" and event["task"] in WORKERS
                 and event["attempt"] == generation - 1 and event["state"] in ENDED]
        self.assertEqual((len(started), len(ended)), (2, 2))
        self.assertLess(max(ended), min(started))

    def test_a_death_or_a_hang_restarts_the_group_from_its_checkpoint(self):
        job = self.start("--worker", "2", "--evaluator", "--", *self.program("mirrored.py"))
        job.wait_for(output("evaluator/0", r"^eval step=\d+ accuracy="), "an evaluation")

        saved, since = job.last_saved(), job.mark()
        job.signal_task("worker/1", signal.SIGKILL)
        death = job.wait_for(state("worker/1", ENDED, 1), "worker/1's death", since)
        self.assertEqual((death["state"], death["signal"]), ("failed", signal.SIGKILL))
        self.assert_group_restarted(since, 2, saved)
        peer = job.find(state("worker/0", ENDED, 1))[0]
        self.assertEqual(peer["reason"], "consequence", "worker/0 fails because worker/1 died")

        job.wait_for(output("worker/0", r"^saved step=", 2), "a checkpoint of generation 2")
        saved, since = job.last_saved(), job.mark()
        job.signal_task("worker/1", signal.SIGSTOP)
        self.assert_group_restarted(since, 3, saved)
        blame = job.find(job_state("restarting"), since)[0]["text"]
        self.assertIn("worker/1 is stopped (SIGSTOP)", blame)
        peer = job.find(state("worker/0", ENDED, 2))[0]
        self.assertEqual(peer["reason"], "consequence", "worker/0 failed because worker/1 hung")

        self.release()
        self.assert_succeeded("worker/0", deciders=WORKERS)  # all workers: the last one
        self.assertTrue(job.find(output("evaluator/0", r"^eval step=400 ", 1)))
        self.assertEqual({len(kept) for task, kept in job.addresses().items()}, {1},
                         f"a task changed its address: {job.addresses()}")


    def test_a_worker_that_leaves_with_0_in_mid_training_is_named(self):
        path = os.path.join(self.dir, "leaving.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(LEAVING.format(programs=os.path.abspath(cluster.PROGRAMS)))
        job = self.start("--worker", "2", "--", sys.executable, path,
                         *self.program("mirrored.py")[2:])
        end, status = job.end()
        self.assertEqual((end["state"], end["decided_by"], end["exit"], status),
                         ("failed", "worker/0", 1, 1))
        self.assertRegex(end["text"], r"^worker/0 exited with 1, \d+\.\d s after worker/1 had exited with 0: ")

    def test_the_end_of_keras_3_fit_has_a_hint(self):
        job = self.start("--worker", "2", "--", sys.executable, "-c", KERAS_3)
        end, status = job.end()
        self.assertEqual((end["state"], status), ("failed", 1))
        self.assertRegex(end["error_line"], r"^ValueError: Attempt to convert a value \(PerReplica:")
        self.assertRegex(end["text"], r"^worker/\d exited with 1: ValueError: .*; Model.fit of Keras 3 does not support "
                                      "this strategy; set TF_USE_LEGACY_KERAS=1 and install tf_keras$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
