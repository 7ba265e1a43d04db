"""Real hangs of TensorFlow programs: who hangs is named, stacks are in the log, jobs recover."""

import os
import signal
import sys
import unittest

import cluster
from cluster import job_state, output, state


def stalled(task, pattern=""):
    """Matches the telling of a task's stall."""
    def match(event):
        return (event["event"] == "task" and event["task"] == task
                and event.get("reason") == "stalled" and pattern in event["text"] and event)
    return match


DEADLOCK = """
import os, sys, threading
sys.path.insert(0, {programs!r})
sys.argv[0] = "mirrored.py"
import digits, mirrored
def take_for_ever(lock):
    lock.acquire()
def hang_once(args, pace=digits.pace):
    if os.environ["TFC_ATTEMPT"] == "1" and os.environ["TFC_TASK_INDEX"] == "1":
        lock = threading.Lock()
        lock.acquire()
        take_for_ever(lock)
    pace(args)
digits.pace = hang_once
mirrored.main()
"""


class HangsTest(cluster.ClusterTest):

    def test_a_deadlock_in_python_is_shown_and_ends(self):
        """worker/1 deadlocks, worker/0 waits for it in a collective: both show where, and resume."""
        path = os.path.join(self.dir, "deadlock.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(DEADLOCK.format(programs=os.path.abspath(cluster.PROGRAMS)))
        job = self.start("--worker", "2", "--stall", "20", "--on-stall", "restart", "--",
                         sys.executable, path, *self.program("mirrored.py")[2:])
        restart = job.wait_for(job_state("restarting"), "the restart")
        self.assertIn("has had no output for", restart["text"])
        for task, place in (("worker/1", "in take_for_ever"), ("worker/0", "in train")):
            self.assertTrue(job.find(output(task, place, 1)), f"{task} shows no {place}")
        self.release()
        self.assert_succeeded("worker/0", deciders=("worker/0", "worker/1"))
        self.assertEqual(job.attempts(), {"worker/0": 2, "worker/1": 2})

    def test_a_ps_worker_that_is_stopped_is_named_and_comes_back(self):
        job = self.start(
            strategy="parameter_server", argv=self.program("parameter_server.py"),
            roles={"chief": {}, "worker": {"count": 2, "server": True}, "ps": {"server": True}},
            stall_s=20, on_stall="restart", start_deadline_s=120,
            **{"restart": {"max": 10}})
        job.wait_step("chief/0", 0)
        since = job.mark()
        job.signal_task("worker/1", signal.SIGSTOP)
        told = job.wait_for(stalled("worker/1", "stopped (SIGSTOP)"), "worker/1's stall", since)
        self.assertIn("worker/1 has had no output for", told["text"])
        job.wait_for(state("worker/1", "ready", 2), "worker/1 again", since)
        self.assertFalse(job.find(stalled("ps/0")) or job.find(stalled("worker/0")))
        self.release()
        self.assert_succeeded("chief/0")


if __name__ == "__main__":
    unittest.main(verbosity=2)
