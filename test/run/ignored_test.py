"""Failures that do not end a job: who may fail, and where that is said."""
import os
import sys

import harness

LISTEN = """import os, signal, socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("", int(os.environ["TFC_PORT"])))
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(1))
s.listen()
while True:
    signal.pause()
"""


class IgnoredTest(harness.RunTest):
    listens = True

    def setUp(self):
        super().setUp()
        self.gate = self.make_fifo("gate")

    def release(self):
        """The chief or worker that decides ends with 0."""
        os.write(self.gate, b"go\n")

    def begin(self, *args, **roles):
        """A job of these roles; its decider reads a line from the gate and succeeds."""
        path = self.job_file(roles=roles, argv=["sh", "-c", "read line <gate"], grace_s=0)
        return self.start("--job", path, *args)

    def await_event(self, run, is_met, what):
        def find():
            run.read(0.05)
            lines = bytes(run.out).rsplit(b"\n", 1)[0].decode().splitlines()
            return [event for event in map(harness.json.loads, lines) if is_met(event)]
        return harness.wait_until(find, what)[0]

    def await_state(self, run, task, state, attempt=1):
        return self.await_event(
            run, lambda event: (event["event"] == "task" and event["task"] == task and
                                event["state"] == state and event["attempt"] == attempt),
            f"{task}#{attempt} {state}")

    def end(self, run):
        run.end()
        end = run.events()[-1]
        self.assertEqual(end["event"], "end")
        return end

    def servers(self, count, **worker):
        listen = [sys.executable, "-c", LISTEN]
        return {"chief": {"ready": "started"}, "ps": {"argv": listen},
                "worker": {"count": count, "argv": listen, **worker}}


class EvaluatorTest(IgnoredTest):
    FAILS = {"argv": ["sh", "-c", "exit 1"]}

    def test_it_is_tried_again_and_then_the_training_goes_on_without_it(self):
        run = self.begin("--json", "--restart", "1", worker={}, evaluator=self.FAILS)
        self.await_state(run, "evaluator/0", "failed", 2)
        self.release()
        end = self.end(run)
        self.assertEqual((run.status, end["state"]), (0, "succeeded"))
        self.assertEqual(end["ignored_failures"], [
            "evaluator/0 exited with 1; no restart is left (1 of 1 in 600 s)"])

    def test_the_last_line_names_it(self):
        run = self.begin("--restart", "0", worker={}, evaluator=self.FAILS)
        run.await_output("evaluator/0 exited with 1", "err")
        self.release()
        run.end()
        self.assertEqual(run.status, 0)
        self.assertEqual(run.errors()[-1], "tfc_run: succeeded; ignored failures: evaluator/0")

    def test_it_fails_the_job_where_that_is_wanted(self):
        run = self.begin("--json", "--on-failure", "evaluator=fail", worker={},
                         evaluator=self.FAILS)
        end = self.end(run)
        self.assertEqual((run.status, end["decided_by"]), (1, "evaluator/0"))
        self.assertEqual(end["ignored_failures"], [])

    def test_a_role_that_is_not_there_is_refused(self):
        run = self.run_local("--on-failure", "evaluater=fail", "--evaluator", "true")
        self.assert_refused(run, '--on-failure evaluater=fail: the job has no role "evaluater"; '
                            'did you mean evaluator?')
        run = self.run_local("--on-failure", "worker", "true")
        self.assert_refused(run, "--on-failure worker: must be ROLE=fail or ROLE=ignore")
        for what in ("maybe", "auto", ""):  # whether or not the role is there
            for role in ("worker", "evaluator"):
                run = self.run_local("--on-failure", f"{role}={what}", "true")
                self.assert_refused(run, f'--on-failure {role}={what}: must be fail or ignore, not "{what}"')


class WorkerTest(IgnoredTest):
    def fail(self, run, task):
        os.kill(self.await_state(run, task, "ready")["pid"], harness.signal.SIGUSR1)

    def test_the_training_goes_on_while_another_is_ready(self):
        run = self.begin("--json", "--on-failure", "worker=ignore", **self.servers(2))
        self.await_state(run, "worker/1", "ready")
        self.fail(run, "worker/0")
        self.await_state(run, "worker/0", "failed")
        self.release()
        end = self.end(run)
        self.assertEqual((run.status, end["decided_by"]), (0, "chief/0"))
        self.assertEqual(end["ignored_failures"], ["worker/0 exited with 1"])

    def test_the_last_one_fails_the_job(self):
        run = self.begin("--json", **self.servers(2, on_failure="ignore"))
        self.await_state(run, "worker/1", "ready")
        self.fail(run, "worker/0")
        self.await_state(run, "worker/0", "failed")
        self.fail(run, "worker/1")
        end = self.end(run)
        self.assertEqual((run.status, end["decided_by"]), (1, "worker/1"))
        self.assertEqual(end["ignored_failures"], ["worker/0 exited with 1"])

    def test_one_with_work_of_its_own_fails_the_job(self):
        run = self.begin("--json", **self.servers(2))
        self.await_state(run, "worker/1", "ready")
        self.fail(run, "worker/0")
        end = self.end(run)
        self.assertEqual((run.status, end["decided_by"]), (1, "worker/0"))


if __name__ == "__main__":
    harness.main()
