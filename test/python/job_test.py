"""Jobs on this machine: results, failures, output, events, interrupts, and what is left behind."""

import asyncio
import contextlib
import gc
import io
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import unittest
from typing import Any
from unittest import mock

import tfcluster as tfc
import tfcluster.job

ECHO: dict[str, Any] = {"framework": "none", "output": False}


def shell(script: str, **options: Any) -> tfc.Job:
    return tfc.run(["/bin/sh", "-c", script], **{**ECHO, **options})


class ResultTest(unittest.TestCase):
    def test_a_program_that_succeeds_has_no_value(self) -> None:
        with shell("echo hello") as job:
            self.assertIsNone(job.result(timeout=30))
            self.assertEqual(job.state, "succeeded")
            self.assertIsNone(job.exception())
            self.assertEqual(list(job.logs("worker/0")), ["hello"])

    def test_a_failure_names_task_status_and_last_lines(self) -> None:
        with shell("echo one; echo two >&2; exit 3") as job, self.assertRaises(tfc.TaskFailed) as caught:
            job.result(timeout=30)
        failure = caught.exception
        self.assertEqual((failure.task, failure.exit_status, failure.reason), ("worker/0", 3, "exit"))
        self.assertEqual(sorted(failure.log_tail), ["one", "two"])
        self.assertIn("worker/0 exited with 3", str(failure))

    def test_the_text_of_a_failure_has_the_line_of_its_cause_once(self) -> None:
        for text, line, whole in (
                ("worker/0 exited with 1", "", "worker/0 exited with 1"),
                ("worker/0 exited with 1", "E: x", "worker/0 exited with 1: E: x"),
                ("worker/0 exited with 1: E: f(...) fails", "E: f(...) fails", "worker/0 exited with 1: E: f(...) fails"),
                ("worker/0 exited with 1: E: lo...; bye", "E: long", "worker/0 exited with 1: E: long; bye"),
                ("worker/0 exited with 1: E: f(...) i...", "E: f(...) is it", "worker/0 exited with 1: E: f(...) is it")):
            with self.subTest(text=text):
                self.assertEqual(tfcluster.job._with_error_line(text, line), whole)

    def test_the_first_cause_is_reported_not_its_consequence(self) -> None:
        script = 'if [ "$TFC_TASK_INDEX" = 1 ]; then echo cause; exit 4; fi; sleep 60'
        with shell(script, workers=3) as job:
            failure = job.exception(timeout=30)
        assert isinstance(failure, tfc.TaskFailed)
        self.assertEqual((failure.task, failure.exit_status, failure.log_tail), ("worker/1", 4, ("cause",)))

    def test_a_stopped_job_has_no_result(self) -> None:
        with shell("sleep 60") as job:
            job.stop()
            self.assertEqual(job.state, "stopped")
            with self.assertRaises(tfc.JobStoppedError):
                job.result()

    def test_a_deadline_leaves_the_job_as_it_is(self) -> None:
        with shell("sleep 60") as job:
            with self.assertRaises(TimeoutError):
                job.result(timeout=0.1)
            self.assertFalse(job.done())
            job.stop(kill=True)


class InvalidTest(unittest.TestCase):
    def refuse(self, program: object, text: str, **options: Any) -> None:
        with self.assertRaises(tfc.InvalidError) as caught:
            tfc.run(program, **options)  # type: ignore[arg-type]
        self.assertIn(text, str(caught.exception))

    def test_a_mistyped_role_is_named(self) -> None:
        self.refuse(["/bin/true"], "roles.wroker", roles={"wroker": {}})

    def test_a_wrong_value_is_named(self) -> None:
        self.refuse(["/bin/true"], "stall_s", stall_s=-1)

    def test_a_shell_word_is_no_program(self) -> None:
        self.refuse("/bin/true", 'pass a list: ["/bin/true", ...]')

    def test_a_bundle_that_is_not_there(self) -> None:
        self.refuse(["/bin/true"], "bundle", bundle="/nonexistent/bundle")


class OutputTest(unittest.TestCase):
    def test_lines_are_printed_behind_the_name_of_their_task(self) -> None:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            with tfc.run(["/bin/sh", "-c", "echo out; echo err >&2"], framework="none") as job:
                job.result(timeout=30)
        self.assertEqual(out.getvalue(), "[worker/0] out\n")
        self.assertEqual(err.getvalue(), "[worker/0] err\ntfcluster: succeeded\n")

    def test_a_start_that_waits_says_for_what(self) -> None:
        err = io.StringIO()
        with tfc.local(slots=1) as client, contextlib.redirect_stderr(err):
            first = client.run(["/bin/sleep", "60"], framework="none", output=False)
            second = client.run(["/bin/true"], framework="none")
            client._context.wait(lambda: second.text != "", 30)
            self.assertIn("the 1 slot is in use", repr(second))
            first.stop(kill=True)
            second.result(timeout=30)
        self.assertEqual(err.getvalue().splitlines(), ["tfcluster: the 1 slot is in use", "tfcluster: succeeded"])

    def test_logs_end_with_the_last_lines(self) -> None:
        with shell("seq 10") as job:
            job.wait(30)
            self.assertEqual(list(job.logs("worker/0", tail=2)), ["9", "10"])
            self.assertEqual(list(job.logs(tail=1)), ["[worker/0] 10"])

    def test_logs_of_a_task_that_does_not_exist_are_an_error(self) -> None:
        with shell("echo a", workers=2) as job:
            job.result(timeout=30)
            self.assertEqual(list(job.logs("worker/1")), ["a"])
            with self.assertRaisesRegex(tfc.NotFoundError, f'job {job.id} has no task "worker/7"'):
                list(job.logs("worker/7"))

    def test_logs_follow_until_the_end(self) -> None:
        with shell("echo first; sleep 0.3; echo last") as job:
            self.assertEqual(list(job.logs("worker/0", follow=True)), ["first", "last"])


class TaskTest(unittest.TestCase):
    def test_a_killed_task_starts_again(self) -> None:
        with shell('[ "$TFC_ATTEMPT" = 2 ] || sleep 60', workers=2) as job:
            job.client._context.wait(lambda: all(row.state == "ready" for row in job.tasks.values()) and bool(job.tasks), 30)
            job.task("worker/1").kill()
            job.client._context.wait(lambda: job.tasks["worker/1"].attempt == 2, 30)
            self.assertIn("died of SIGKILL", job.task("worker/1").info().last_end.text)  # type: ignore[union-attr]
            job.task("worker/0").signal(signal.SIGKILL)
            self.assertIsNone(job.result(timeout=30))

    def test_the_stacks_of_a_function_say_where_it_is(self) -> None:
        def waits_for_ever(ctx: tfc.TaskContext) -> None:
            import time
            print("began", flush=True)
            while True:
                time.sleep(0.05)

        with tfc.run(waits_for_ever, framework="none", output=False) as job:
            self.assertEqual(next(job.logs("worker/0", follow=True)), "began")
            self.assertRegex(job.task("worker/0").stacks(),
                             r"^worker/0: in waits_for_ever \(job_test.py:\d+\); its stacks are in its log$")
            self.assertIn("in waits_for_ever", "\n".join(job.logs("worker/0")))
            with self.assertRaises(tfc.NotFoundError):
                job.task("worker/9").stacks()
            job.stop(kill=True)
            with self.assertRaises(tfc.Error) as caught:
                job.task("worker/0").kill()
            self.assertIn("worker/0", str(caught.exception))


class EventsTest(unittest.TestCase):
    def test_events_come_in_order_and_end(self) -> None:
        with shell("echo hello") as job:
            kinds = [(event.event, event.state) for event in job.events()]
        self.assertEqual(kinds[-1], ("end", "succeeded"))
        self.assertIn(("task", "exited"), kinds)

    def test_iterators_keep_the_job_that_nobody_else_holds(self) -> None:
        self.assertEqual([event.text for event in shell("echo a; sleep 0.2; echo b").events() if event.event == "output"],
                         ["a", "b"])
        self.assertEqual(list(shell("echo a; sleep 0.2; echo b").logs(follow=True)), ["[worker/0] a", "[worker/0] b"])
        self.assertEqual(list(shell("echo a; sleep 0.2; echo b").task("worker/0").logs(follow=True)), ["a", "b"])

    def test_an_asyncio_loop_drives_the_job(self) -> None:
        async def main() -> list[str]:
            job = shell("echo one; echo two")
            lines = [event.text async for event in job.events() if event.event == "output"]
            self.assertIsNone(await job)
            job.close()
            return lines

        self.assertEqual(asyncio.run(main()), ["one", "two"])

    def test_a_slow_reader_gets_every_line(self) -> None:
        with shell("seq 5000") as job:
            job.wait(60)
            lines = [event.text for event in job.events() if event.event == "output"]
        self.assertEqual(lines, [str(number) for number in range(1, 5001)])


class TableTest(unittest.TestCase):
    def test_the_table_has_a_row_for_each_task_and_its_last_reason(self) -> None:
        with shell('[ "$TFC_TASK_INDEX" = 0 ] || exit 7; sleep 60', workers=2) as job:
            job.wait(30)
            text, page = repr(job), job._repr_html_()
        self.assertIn("failed", text.splitlines()[0])
        self.assertRegex(text, r"worker/1 +failed +local +1 +worker/1 exited with 7")
        self.assertIn("worker/1 exited with 7", page)
        self.assertEqual(page.count("<tr>"), 3)


class ProcessTest(unittest.TestCase):
    """What is left of jobs, in this process and around it."""

    def test_many_jobs_leave_no_descriptor_thread_or_process(self) -> None:
        with shell("true") as job:
            job.result(timeout=30)
        gc.collect()
        descriptors = len(os.listdir("/proc/self/fd"))
        for _ in range(50):
            with shell("true") as job:
                job.result(timeout=30)
        gc.collect()
        self.assertEqual(len(os.listdir("/proc/self/fd")), descriptors)
        self.assertEqual(threading.active_count(), 1)
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            self.assertEqual(file.read().split(), [])

    def test_a_job_that_nobody_holds_is_closed_when_it_has_ended(self) -> None:
        descriptors = len(os.listdir("/proc/self/fd"))
        shell("true").result(timeout=30)
        gc.collect()
        self.assertEqual(len(os.listdir("/proc/self/fd")), descriptors)

    def test_a_job_whose_events_are_read_is_closed_when_nobody_reads_them(self) -> None:
        program = """
            import sys, tfcluster as tfc
            from tfcluster import _context
            sys.unraisablehook = lambda unraisable: print(unraisable.exc_value)
            for event in tfc.run(["/bin/echo", "a"], framework="none", output=False).events(): pass
            print(len(_context._contexts))
            """
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.stdout, done.stderr), ("0\n", ""))

    def test_a_forked_child_harms_nothing(self) -> None:
        with shell("sleep 0.5; echo done") as job:
            child = os.fork()
            if child == 0:
                try:
                    job.close()
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            self.assertEqual(list(job.logs("worker/0", follow=True)), ["done"])
            self.assertIsNone(job.result(timeout=30))

    def test_forked_workers_of_multiprocessing_harm_nothing(self) -> None:
        with shell("sleep 0.5; echo done") as job:
            with multiprocessing.get_context("fork").Pool(2) as pool:
                self.assertEqual(pool.map(abs, [-1, -2]), [1, 2])
            self.assertEqual(list(job.logs("worker/0", follow=True)), ["done"])
            self.assertIsNone(job.result(timeout=30))

    def test_several_threads_wait_for_one_job(self) -> None:
        with shell("sleep 0.3") as job:
            ended: list[bool] = []
            threads = [threading.Thread(target=lambda: ended.append(job.wait(30))) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
        self.assertEqual(ended, [True] * 4)

    def run_script(self, script: str) -> "subprocess.Popen[str]":
        return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_ctrl_c_in_a_script_stops_its_job(self) -> None:
        for waits in ("job.result()", "time.sleep(60)"):
            with self.subTest(waits=waits):
                script = ("import tfcluster as tfc, time\n"
                          "job = tfc.run(['/bin/sh', '-c', 'trap \"echo saved; exit 0\" INT; echo $$; "
                          "while :; do sleep 0.1; done'], framework='none')\n"
                          "task = next(job.logs('worker/0', follow=True))\n"
                          "job.client._context.wait(lambda: job.state == 'running', 30)\n"
                          f"print('pid', task, flush=True); {waits}\n")
                process = self.run_script(script)
                assert process.stdout is not None
                line = "\n"
                while line and not line.startswith("pid "):
                    line = process.stdout.readline()
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=60)
                self.assertIn("[worker/0] saved", out)
                self.assertIn("tfcluster: stopping job", err)
                self.assertIn("KeyboardInterrupt", err)
                self.assertFalse(os.path.exists(f"/proc/{int(line.split()[1])}"))

    def test_ctrl_c_while_a_prompt_reads_lines_says_that_the_job_goes_on(self) -> None:
        with shell("sleep 60") as job, mock.patch.object(sys, "ps1", ">>> ", create=True):
            for reader in (iter(job.logs(follow=True)), iter(job.events())):
                said = io.StringIO()
                with mock.patch.object(job.client._context, "wait", side_effect=KeyboardInterrupt), \
                        contextlib.redirect_stderr(said), self.assertRaises(KeyboardInterrupt):
                    next(reader)
                self.assertEqual(said.getvalue(), f"tfcluster: job {job.id} goes on in this process; result() follows it "
                                                  "again, stop() stops it\n")

    def test_the_end_of_a_script_ends_its_job(self) -> None:
        script = ("import tfcluster as tfc\n"
                  "job = tfc.run(['/bin/sh', '-c', 'echo $$; exec sleep 60'], framework='none')\n"
                  "print(next(job.logs('worker/0', follow=True)))\n")
        process = self.run_script(script)
        out, err = process.communicate(timeout=60)
        self.assertIn("tfcluster: stopping job", err)
        self.assertFalse(os.path.exists(f"/proc/{int(out.split()[-1])}"))


if __name__ == "__main__":
    unittest.main()
