"""Parameter servers: one job in which a worker, the ps, the chief and the evaluator are killed."""

import os
import signal
import unittest

import cluster
from cluster import ENDED, output, state


class Deaths(cluster.ClusterTest):

    def kill(self, task):
        """Kills a task's process; returns where in the events that was, and its address."""
        since = self.job.mark()
        attempt = self.job.attempts()[task]
        self.job.signal_task(task, signal.SIGKILL)
        death = self.job.wait_for(state(task, ENDED, attempt), f"the death of {task}", since)
        self.assertEqual(death["signal"], signal.SIGKILL)
        return since

    def kill_worker(self):
        """A worker's death: training goes on, only it restarts."""
        before = self.job.attempts()
        since = self.kill("worker/1")
        self.job.wait_step("chief/0", 0, self.job.mark(), before["chief/0"])
        self.job.wait_for(state("worker/1", "ready", before["worker/1"] + 1), "worker/1 again", since)
        self.job.wait_step("chief/0", 0, self.job.mark(), before["chief/0"])
        self.assertEqual(self.job.attempts(), {**before, "worker/1": before["worker/1"] + 1})

    def kill_ps(self):
        """The ps' death: it and the chief restart, which fails anyway; the workers stay."""
        before, saved = self.job.attempts(), self.job.last_saved()
        since = self.kill("ps/0")
        attempt = before["chief/0"] + 1
        ended = self.job.wait_for(state("chief/0", ENDED, attempt - 1), "the chief's end", since)
        if ended["state"] == "failed":
            self.assertEqual(ended["reason"], "consequence")
        self.assert_resumed(since, attempt, saved)
        self.assertEqual(self.job.attempts(),
                         {**before, "ps/0": before["ps/0"] + 1, "chief/0": attempt})

    def kill_chief(self):
        """The chief's death: it alone restarts, and drives the same servers."""
        before, saved = self.job.attempts(), self.job.last_saved()
        since = self.kill("chief/0")
        self.assert_resumed(since, before["chief/0"] + 1, saved)
        self.assertEqual(self.job.attempts(), {**before, "chief/0": before["chief/0"] + 1})

    def assert_resumed(self, since, attempt, saved):
        """The chief's attempt goes on from a checkpoint no older than `saved`."""
        self.assertGreater(saved, 0)
        found = self.job.wait_for(output("chief/0", r"^resumed step=(\d+)", attempt),
                                  "the chief's resuming", since)
        self.assertGreaterEqual(int(found[1]), saved)
        self.assertGreater(self.job.wait_step("chief/0", 0, since, attempt), int(found[1]))

    def kill_evaluator(self):
        """The evaluator's death: it alone restarts."""
        before = self.job.attempts()
        since = self.kill("evaluator/0")
        self.job.wait_for(output("evaluator/0", r"^eval step=\d+ accuracy=", 2),
                          "an evaluation after the restart", since)
        self.assertEqual(self.job.attempts(), {**before, "evaluator/0": 2})


class ParameterServerTest(Deaths):

    def test_each_death_restarts_what_tensorflow_needs_and_no_more(self):
        job = self.start(
            strategy="parameter_server", argv=self.program("parameter_server.py"),
            roles={"chief": {}, "worker": {"count": 2, "server": True},
                   "ps": {"server": True}, "evaluator": {}})
        job.wait_for(output("evaluator/0", r"^eval step=\d+ accuracy="), "an evaluation")
        self.kill_worker()
        self.kill_ps()
        self.kill_chief()
        self.kill_evaluator()
        self.release()
        self.assert_succeeded("chief/0")
        self.assertEqual(job.attempts(), {"chief/0": 3, "worker/0": 1, "worker/1": 2,
                                          "ps/0": 2, "evaluator/0": 2})
        self.assertEqual({len(kept) for kept in job.addresses().values()}, {1},
                         f"a task changed its address: {job.addresses()}")
        self.assertTrue(job.find(output("evaluator/0", r"^eval step=400 ")))
        self.assertTrue(os.listdir(os.path.join(self.dir, "logs/eval")))

    def fail_worker(self, attempt):
        """worker/1 exits with 1; the training goes on with worker/0 alone."""
        before, since = self.job.attempts(), self.job.mark()
        pid = self.job.find(output("worker/1", r"^server (\d+)", attempt))[0][1]
        os.kill(int(pid), signal.SIGKILL)
        death = self.job.wait_for(state("worker/1", ENDED, attempt), "worker/1's end", since)
        self.assertEqual((death["state"], death["exit"]), ("failed", 1))
        self.job.wait_step("chief/0", 0, self.job.mark(), before["chief/0"])
        self.job.wait_step("chief/0", 0, self.job.mark(), before["chief/0"])
        self.assertEqual(self.job.attempts(), before)

    def test_an_evaluator_and_a_worker_that_exit_with_1_do_not_end_the_training(self):
        exits_1 = ["sh", "-c", '"$@" & echo server $!; wait $!; exit 1', "-"]
        job = self.start(
            strategy="parameter_server", argv=self.program("parameter_server.py"),
            restart={"max": 1},
            roles={"chief": {}, "worker": {"count": 2, "server": True, "wrap": exits_1},
                   "ps": {"server": True}, "evaluator": {"argv": ["sh", "-c", "exit 1"]}})
        job.wait_for(state("evaluator/0", "failed", 2), "the evaluator's last failure")
        job.wait_step("chief/0", 0)
        self.fail_worker(1)
        job.wait_for(output("chief/0", r"^saved step="), "a checkpoint")
        saved, since = job.last_saved(), self.kill("chief/0")
        job.wait_for(state("worker/1", "ready", 2), "worker/1, to which the chief connects", since)
        self.assert_resumed(since, 2, saved)
        self.fail_worker(2)
        self.release()
        self.assert_succeeded("chief/0")
        worker, evaluator = job.events[-1]["ignored_failures"]
        self.assertRegex(worker, "^worker/1 exited with 1(: Killed)?$")  # as some shells report it
        self.assertEqual(evaluator, "evaluator/0 exited with 1; no restart is left (1 of 1 in 600 s)")


if __name__ == "__main__":
    unittest.main(verbosity=2)
