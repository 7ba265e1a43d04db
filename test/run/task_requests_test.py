"""tfc_run signal and stacks: one task of a job, wherever it and the client are."""
import itertools
import re
import sys

import clients_test
import harness

PYTHON = """
import faulthandler, os, signal, sys, time
if sys.argv[1:] == ["registered"]:
    faulthandler.register(58, file=2, all_threads=True, chain=False)
if sys.argv[1:] == ["exits"]:
    signal.signal(58, lambda *_: os._exit(3))
print("began", flush=True)
def waits_for_ever():
    while True:
        time.sleep(0.05)
waits_for_ever()
"""
RESTARTS = 'echo "attempt $TFC_ATTEMPT on $TFC_TASK_INDEX"; exec sleep 60'


class TaskRequestsTest(clients_test.ClientsTest):
    names = "ab"

    def assert_fails(self, sentence, *words, at="a"):
        run = self.ask(*words, at=at)
        self.assertEqual((run.status, run.err.decode()), (125, f"tfc_run: {sentence}\n"))

    def start_python(self, *arguments):
        """A job whose task 0 is on the node of another client than the one that starts it."""
        script = self.write("task.py", PYTHON)
        run = self.ask("start", "--detach", "--framework", "none", "--", sys.executable, script, *arguments, at="b")
        job = run.out.decode().strip()
        self.await_line(job, "began")
        self.wait_ready(job)
        return job

    def await_line(self, job, line, task="worker/0"):
        run = self.begin("logs", "-f", job, task)
        run.await_output(f"] {re.escape(line)}\n")
        run.process.kill()
        run.process.wait()

    def test_a_killed_task_restarts_on_each_node_and_from_each_node(self):
        job = self.start_job(RESTARTS, "--worker", "2")
        for task in "worker/0", "worker/1":
            index = task[-1]
            for at, attempt in ("a", 1), ("b", 2):
                self.await_line(job, f"attempt {attempt} on {index}", task)
                self.wait_ready(job)
                run = self.ask("signal", job, task, at=at)
                self.assertEqual((run.status, run.err), (0, b""))
            self.await_line(job, f"attempt 3 on {index}", task)
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)

    def wait_ready(self, job):
        """Also a program that has printed something may not be known to run yet."""
        harness.wait_until(lambda: re.search(rb" ([12])/\1 ", self.ask("ps", "--all").out), "all tasks are ready")

    def test_a_signal_has_a_name_or_a_number(self):
        script = 'trap "echo caught USR1" USR1; trap "echo caught HUP" HUP; echo up; while :; do sleep 0.05; done'
        job = self.start_job(script)
        self.await_line(job, "up")
        self.wait_ready(job)
        for name, line in ("USR1", "caught USR1"), ("sighup", "caught HUP"), ("10", "caught USR1"):
            self.assertEqual(self.ask("signal", job, "worker/0", "--signal", name).status, 0)
            self.await_line(job, line)
        self.assert_fails("--signal NOPE: must be a signal, such as TERM or 15", "signal", job, "worker/0", "--signal",
                          "NOPE")
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)

    def test_a_task_that_does_not_run_or_exist_is_named(self):
        job = self.start_job("exit 0")
        harness.wait_until(lambda: b"succeeded" in self.ask("ps", "--all").out, "the job has ended")
        for command, at in itertools.product(("signal", "stacks"), "ab"):
            self.assert_fails(f"worker/0 of job {job} does not run now: it is exited", command, job, "worker/0", at=at)
            self.assert_fails(f'job {job} has no task "worker/1"', command, job, "worker/1", at=at)
            self.assert_fails(f'job {job} has no task "worker"; a task is type/index, such as worker/0', command, job,
                              "worker", at=at)

    def test_stacks_are_in_the_log_and_the_place_is_printed(self):
        job = self.start_python("registered")
        for at in "ab":
            run = self.ask("stacks", job, "worker/0", at=at)
            self.assertEqual(run.status, 0, run.err)
            self.assertRegex(run.out.decode(), r"^worker/0: in waits_for_ever \(task.py:10\); its stacks are in its log\n$")
        log = self.ask("logs", job, "worker/0").out + self.ask("logs", job, "worker/0").err
        self.assertEqual(log.count(b"in waits_for_ever\n"), 2)
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)

    def test_a_program_that_prints_no_stacks_goes_on(self):
        job = self.start_python()
        run = self.ask("stacks", job, "worker/0")
        self.assertEqual((run.status, run.out), (0, b"worker/0: it prints no Python stacks\n"))
        self.assertIn(b"running", self.ask("ps").out)
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)

    def test_a_program_that_exits_instead_is_reported_once(self):
        job = self.start_python("exits")
        self.assert_fails("worker/0 exited with 3", "stacks", job, "worker/0")


if __name__ == "__main__":
    harness.main()
