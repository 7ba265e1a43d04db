"""Parameter servers whose tasks are forked: a worker, the ps, the chief and the process that forks them are killed."""

import os
import pathlib
import signal
import sys
import time
import unittest

import cluster
import parameter_server_test
from cluster import ENDED, output, state
from processes import children_of, command_line, descendants_of, start_time, stat

PS_DEATHS = 6


def is_of_zygote(pid):
    """Whether it has the command line of a process that imports TensorFlow, which its forks keep until they run a
    program."""
    return b"".join(command_line(pid)).endswith(b" tfc-zygote tensorflow")


def is_forked(pid):
    """Whether its shim was forked together with it."""
    return command_line(stat(pid)[1]) == [b"tfc-shim", str(pid).encode()]


class WarmTest(parameter_server_test.Deaths):

    def zygote(self):
        """The oldest process with its command line."""
        return min(filter(is_of_zygote, descendants_of(self.job.pid)), key=start_time)

    def assert_forked(self, *tasks):
        pids = {event["task"]: event["pid"] for event in self.job.events if event["event"] == "task" and event["pid"]}
        self.assertEqual([task for task in tasks if not is_forked(pids[task])], [])

    def kill_zygote_while_it_forks(self):
        """Two workers die, it is killed while it forks them, and both start again, forked or not."""
        before, since, zygote = self.job.attempts(), self.job.mark(), self.zygote()
        workers = ("worker/0", "worker/1")
        for task in workers:
            self.job.signal_task(task, signal.SIGKILL)
        end = time.monotonic() + cluster.PATIENCE
        while not children_of(zygote):
            self.assertLess(time.monotonic(), end, "it does not fork")
            self.job.read(0.001)
        os.kill(zygote, signal.SIGKILL)
        for task in workers:
            self.job.wait_for(state(task, ENDED, before[task]), f"the death of {task}", since)
            self.job.wait_for(state(task, "ready", before[task] + 1), f"{task} again", since)
        self.job.wait_step("chief/0", 0, self.job.mark(), before["chief/0"])
        self.assertEqual(self.job.attempts(), {**before, **{task: before[task] + 1 for task in workers}})

    def await_spare(self):
        """Until the next task can be forked: the process that replaces a killed one has imported TensorFlow."""
        end = time.monotonic() + cluster.PATIENCE
        tasks = {event["pid"] for event in self.job.events if event["event"] == "task"}
        while len({*filter(is_of_zygote, descendants_of(self.job.pid))} - tasks) < 2:
            self.assertLess(time.monotonic(), end, "no fork in advance")
            self.job.read(0.02)

    def test_each_death_restarts_a_forked_task(self):
        job = self.start(
            strategy="parameter_server", argv=self.program("parameter_server.py"),
            restart={"max": PS_DEATHS, "backoff_s": [0, 0]},
            roles={"chief": {}, "worker": {"count": 2, "server": True}, "ps": {"server": True}})
        job.wait_for(output("chief/0", r"^saved step="), "a checkpoint")
        self.assert_forked("chief/0", "worker/0", "worker/1", "ps/0")
        self.kill_worker()
        self.assert_forked("worker/1")
        self.kill_zygote_while_it_forks()
        self.kill_chief()  # its start wants another process, and waits for it
        self.assert_forked("chief/0")
        self.await_spare()
        for _ in range(PS_DEATHS):  # a worker may not have connected again when the chief is back
            self.kill_ps()
        self.assert_forked("chief/0", "ps/0")
        self.release()
        self.assert_succeeded("chief/0")
        self.assertEqual(job.attempts(), {"chief/0": 2 + PS_DEATHS, "worker/0": 2, "worker/1": 3, "ps/0": 1 + PS_DEATHS})

    def test_attempts_draw_different_numbers_from_the_generator_of_numpy(self):
        program = ("import os, sys\n"
                   "was_there = 'numpy.random' in sys.modules\n"
                   "import numpy\n"
                   "print('drew', was_there, numpy.random.random(), flush=True)\n"
                   "if os.environ['TFC_ATTEMPT'] < '3': os.kill(os.getpid(), 9)")
        job = self.start("--framework", "none", "--", sys.executable, "-c", program)
        self.assertEqual(job.end()[1], 0)
        drawn = [event["text"].split()[1:] for event in job.events if event["event"] == "output" and "drew" in event["text"]]
        self.assertEqual([was_there for was_there, _ in drawn], ["True"] * 3)
        self.assertEqual(len({number for _, number in drawn}), 3)

    def test_a_summary_that_is_never_flushed_is_in_the_file_at_the_end(self):
        """TensorFlow itself refers to the default writer, and its modules are shared with other tasks."""
        program = ("import sys, tensorflow as tf\n"
                   "tf.summary.create_file_writer(sys.argv[1]).set_as_default()\n"
                   "tf.summary.scalar('the_last_value', 1.0, step=0)")
        logs = pathlib.Path(self.dir, "logs")
        self.start("--framework", "none", "--", sys.executable, "-c", program, str(logs))
        self.assertEqual(self.job.end()[1], 0)
        self.assertEqual([b"the_last_value" in path.read_bytes() for path in logs.iterdir()], [True])


if __name__ == "__main__":
    unittest.main(verbosity=2)
