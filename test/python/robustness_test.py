"""Tasks that report nonsense, interrupts at any moment, closes from elsewhere, and streams that cannot be written."""

import asyncio
import contextlib
import gc
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from typing import Any

import tfcluster as tfc
from tfcluster import _context, _printer, _reports
from tfcluster.job import Job
from tfcluster.types import Event

ECHO: dict[str, Any] = {"framework": "none", "output": False}


def shell(script: str, **options: Any) -> tfc.Job:
    return tfc.run(["/bin/sh", "-c", script], **{**ECHO, **options})


def run_script(script: str, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", script, *arguments], check=False, capture_output=True, text=True,
                          timeout=60, **options)


class ReportsTest(unittest.TestCase):
    """What a task writes to TFC_REPORT_FD is no trusted text."""

    def report(self, *texts: str) -> Job:
        """A job that has ended, and received these reports from its only task."""
        def write(ctx: tfc.TaskContext) -> None:
            for text in texts:
                os.write(int(os.environ["TFC_REPORT_FD"]), text.encode() + b"\n")

        with tfc.run(write, framework="none", output=False) as job:
            self.assertTrue(job.wait(60))
            self.assertEqual(job.state, "succeeded")
            self.assertIn(job.id, repr(job) + job._repr_html_())
            return job

    def test_nonsense_is_passed_over(self) -> None:
        job = self.report("", "{", "7", "null", "[]", '"kind"', '{"kind":[]}', '{"kind":{}}', "[" * 50000,
                          '{"kind":"metrics"}', '{"kind":"metrics","values":[1]}', '{"kind":"metrics","values":7,"step":{}}',
                          '{"kind":"metrics","step":[],"values":{"loss":[1,{}]}}', '{"kind":"no such kind"}')
        self.assertIsNone(job.result())
        self.assertLessEqual(job.metrics.keys(), {"worker/0"})

    def test_a_false_error_or_result_changes_no_type(self) -> None:
        def lie(ctx: tfc.TaskContext) -> None:
            os.write(int(os.environ["TFC_REPORT_FD"]), b'{"kind":"error","exception":[],"traceback":{"a":1}}\n')
            os._exit(3)

        with tfc.run(lie, framework="none", output=False) as job:
            failure = job.exception(60)
        assert isinstance(failure, tfc.TaskFailed)
        self.assertEqual((failure.exit_status, failure.exception, failure.traceback), (3, "", ""))

    def test_half_a_result_is_none(self) -> None:
        def lie(ctx: tfc.TaskContext) -> None:
            os.write(int(os.environ["TFC_REPORT_FD"]), b'{"kind":"result","encoding":"arrow"}\n')
            os._exit(0)

        with tfc.run(lie, framework="none", output=False) as job:
            self.assertIsNone(job.result(60))

    def test_a_report_without_end_has_a_bound(self) -> None:
        with shell("true") as job:
            job.result(30)
            for _ in range(600):
                job._on_event(Event("report", task="worker/0", attempt=1, text="x" * 65536, partial=True))
            self.assertLess(sum(map(len, job._inbox._lines["worker/0"][1])), _reports.RESULT_MAX_BYTES + 65537)
            job._on_event(Event("report", task="worker/0", attempt=1, text='"}'))
            metrics = '{"kind":"metrics","step":null,"values":{"loss":1}}'
            job._on_event(Event("report", task="worker/0", attempt=1, text=metrics))
            self.assertEqual(job.metrics, {"worker/0": {"loss": 1}})


class PrinterTest(unittest.TestCase):
    def printed(self, *events: Event) -> tuple[str, str]:
        printer = _printer.Printer()
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            for event in events:
                printer.on_event(event)
            printer.flush()
        return out.getvalue(), err.getvalue()

    def test_the_pieces_of_a_long_line_stay_one_line(self) -> None:
        def piece(text: str, partial: bool, task: str = "worker/0") -> Event:
            return Event("output", task=task, attempt=1, stream="stdout", text=text, partial=partial)

        self.assertEqual(self.printed(piece("a", True), piece("b", True), piece("c", False), piece("d", False))[0],
                         "[worker/0] abc\n[worker/0] d\n")
        self.assertEqual(self.printed(piece("a", True), piece("x", False, "worker/1"), piece("b", False))[0],
                         "[worker/0] a\n[worker/1] x\n[worker/0] b\n")

    def test_a_message_of_the_library_cannot_move_the_cursor(self) -> None:
        err = self.printed(Event("job", state="failed", text="no \x1b[2J file \x9b \u202e"))[1]
        self.assertEqual(err, "tfcluster: no \\u001b[2J file \\u009b \\u202e\n")

    def test_a_stream_that_has_no_such_letter_shows_it_escaped(self) -> None:
        result = run_script("import tfcluster as tfc\n"
                            "with tfc.run(['/bin/echo', 'caf\u00e9'], framework='none') as job: job.result()\n",
                            env={**os.environ, "PYTHONIOENCODING": "ascii"})
        self.assertEqual((result.returncode, result.stdout), (0, "[worker/0] caf\\xe9\n"), result.stderr)

    def test_output_that_nobody_reads_does_not_end_the_job(self) -> None:
        script = ("import tfcluster as tfc, sys\n"
                  "with tfc.run(['/bin/sh', '-c', 'seq 20000'], framework='none') as job:\n"
                  "    job.result()\n"
                  "    print(job.state, file=sys.stderr)\n")
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        self.assertIn("succeeded\n", process.stderr.read())
        process.stderr.close()
        process.wait(60)

    def test_streams_that_are_not_there(self) -> None:
        result = run_script("import tfcluster as tfc, sys\n"
                            "real, sys.stdout, sys.stderr = sys.stdout, None, None\n"
                            "with tfc.run(['/bin/sh', '-c', 'echo a; echo b >&2; exit 1'], framework='none') as job:\n"
                            "    job.wait()\n"
                            "print(job.state, file=real)\n")
        self.assertEqual((result.returncode, result.stdout), (0, "failed\n"), result.stderr)


class OutputTest(unittest.TestCase):
    def test_a_long_line_is_one_line_of_the_log(self) -> None:
        with shell("head -c 300000 /dev/zero | tr '\\0' x; echo; echo end") as job:
            job.result(30)
            self.assertEqual([len(line) for line in job.logs("worker/0")], [300000, 3])
            self.assertEqual([len(line) for line in job.logs("worker/0", tail=2)], [300000, 3])

    def test_output_that_is_not_utf8_can_be_printed(self) -> None:
        result = run_script("import tfcluster as tfc\n"
                            "with tfc.run(['/usr/bin/printf', r'\\377\\n\\355\\262\\200\\n'], framework='none') as job:\n"
                            "    job.result()\n",
                            env={**os.environ, "PYTHONIOENCODING": "utf-8"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 2)


class ContextTest(unittest.TestCase):
    def test_a_very_long_timeout_is_one(self) -> None:
        for timeout in (1e10, float("inf")):
            with shell("true") as job:
                self.assertTrue(job.wait(timeout))

    def test_a_thread_that_waits_learns_that_the_client_was_closed(self) -> None:
        failures: list[BaseException] = []
        for _ in range(30):
            job = shell("sleep 60")

            def wait(job: Job = job) -> None:
                try:
                    job.wait(30)
                except tfc.Error as failure:
                    failures.append(failure)

            thread = threading.Thread(target=wait)
            thread.start()
            job.close()
            thread.join(30)
            self.assertFalse(thread.is_alive())
        self.assertEqual({str(failure) for failure in failures}, {"the client is closed"})
        self.assertEqual(len(failures), 30)

    def test_a_coroutine_that_waits_learns_that_the_client_was_closed(self) -> None:
        async def main() -> None:
            job = shell("sleep 60")
            waiter = asyncio.ensure_future(job.result_async())
            await asyncio.sleep(0)
            job.close()
            with self.assertRaisesRegex(tfc.Error, "closed"):
                await asyncio.wait_for(waiter, 10)

        asyncio.run(main())

    def close_within_a_callback(self) -> None:
        job = shell("true")
        subscription = job._subscription
        assert subscription is not None
        on_event = subscription._on_event

        def close_first(event: Event) -> None:
            on_event(event)
            job.client.close()

        subscription._on_event = close_first
        with contextlib.suppress(tfc.Error):
            job.wait(30)
        self.assertIsNone(job.client._context.pointer)

    def test_a_client_that_is_closed_within_a_callback_leaves_nothing(self) -> None:
        descriptors = len(os.listdir("/proc/self/fd"))
        self.close_within_a_callback()
        gc.collect()
        self.assertEqual(len(os.listdir("/proc/self/fd")), descriptors)

    def test_an_owner_that_is_gone_gets_no_event_and_disturbs_nobody(self) -> None:
        with tfc.local() as client:
            job = client.run(["/bin/sh", "-c", "seq 100"], **ECHO)
            events = job.events()
            subscription = events._subscription
            subscription.close = lambda: None  # type: ignore[method-assign]
            del events
            self.assertIsNone(job.result(30))
            del subscription.close
            subscription.close()

    def test_nothing_is_remembered_of_what_has_ended(self) -> None:
        gc.collect()
        known = len(_context._objects)
        for _ in range(3):
            with tfc.local() as client:
                request = client._context.request("tfc_gateway_jobs", client._gateway, None)
                request.cancel()
            with tfc.local() as client:
                client._context.request("tfc_gateway_jobs", client._gateway, None)
        del request
        self.assertEqual(len(_context._objects), known)


class InterruptTest(unittest.TestCase):
    def test_no_event_is_lost_to_an_interrupt(self) -> None:
        """Another thread of the process, such as one of TensorFlow's, may take the signal."""
        lines = 20000
        seen: list[str] = []
        interrupts = 0
        is_over = threading.Event()

        def interrupt() -> None:
            while not is_over.wait(0.003):
                os.kill(os.getpid(), signal.SIGALRM)

        class Interrupt(Exception):
            pass

        def on_alarm(number: int, frame: object) -> None:
            if armed:
                raise Interrupt

        armed = False
        previous = signal.signal(signal.SIGALRM, on_alarm)
        thread = threading.Thread(target=interrupt)
        with shell(f"sleep 0.5; seq {lines}") as job:
            events = job.events()
            thread.start()
            try:
                while True:
                    armed = True
                    try:
                        job.client._context.dispatch()
                        if events._queue and events._queue[-1].event == "end":
                            break
                    except Interrupt:
                        interrupts += 1
                    armed = False
                    while events._queue and (event := events._next()):
                        if event.event == "output":
                            seen.append(event.text)
                        elif event.event == "end":
                            events._queue.append(event)
                            break
                    if job.done() and events._is_ended:
                        break
            finally:
                armed = False
                is_over.set()
                thread.join()
                signal.signal(signal.SIGALRM, previous)
            seen += [event.text for event in events._queue if event.event == "output"]
            events.close()
        self.assertGreater(interrupts, 0)
        self.assertEqual(seen, [str(number) for number in range(1, lines + 1)])


    def test_a_wait_that_a_signal_handler_ends_leaves_the_descriptor_to_the_next(self) -> None:
        class Interrupt(Exception):
            pass

        def on_alarm(number: int, frame: object) -> None:
            if armed:
                raise Interrupt

        interrupts, armed = 0, False
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, on_alarm))
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        with tfc.local() as client:
            context = client._context
            for at in range(4000):
                signal.setitimer(signal.ITIMER_REAL, 20e-6 + at % 50 * 20e-6)
                try:
                    armed = True
                    context.wait(lambda: False, 0.0005)
                    armed = False
                except Interrupt:
                    interrupts += 1
                armed = False
                self.assertIsNone(context._poller)
        self.assertGreater(interrupts, 1000)


class ForkTest(unittest.TestCase):
    def test_a_forked_child_that_exits_leaves_bundle_and_job(self) -> None:
        script = ("import os, sys\nimport tfcluster as tfc\n"
                  "def train(ctx):\n"
                  "    import os, time\n"
                  "    if ctx.attempt == 1:\n"
                  "        ctx.report({'up': 1})\n"
                  "        time.sleep(60)\n"
                  "    return ctx.attempt\n"
                  "job = tfc.run(train, framework='none', output=False)\n"
                  "job.client._context.wait(lambda: 'worker/0' in job.metrics, 30)\n"
                  "if os.fork() == 0:\n"
                  "    sys.exit()\n"
                  "os.wait()\n"
                  "if os.fork() == 0:\n"
                  "    job.close()\n"
                  "    del job\n"
                  "    os._exit(0)\n"
                  "os.wait()\n"
                  "job.task('worker/0').kill()\n"
                  "print(job.result(30))\n")
        result = run_script(script)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "2\n", ""))


class PackTest(unittest.TestCase):
    def test_a_full_disk_is_one_sentence(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", directory], check=False,
                              capture_output=True).returncode:
                self.skipTest("cannot mount a tmpfs")
            try:
                result = run_script("import tfcluster as tfc\n"
                                    "try: tfc.run(lambda ctx: 1, framework='none')\n"
                                    "except tfc.Error as error: print(error)\n"
                                    "try: tfc.run(lambda ctx, x: 1, args=[b'x' * 100000], framework='none')\n"
                                    "except tfc.Error as error: print(error)\n", env={**os.environ, "TMPDIR": directory})
                self.assertRegex(result.stdout, r"\A(cannot pack the function: .*No space left on device.*TMPDIR.*\n){2}\Z",
                                 result.stderr)
                self.assertEqual(os.listdir(directory), [])
            finally:
                subprocess.run(["umount", directory], check=True)

    def test_the_name_of_an_attribute_is_no_variable(self) -> None:
        with tfc.run(uses_attribute, framework="none", output=False) as job:
            self.assertEqual(job.result(60), "ok")


shared = threading.Lock()


def uses_attribute(ctx: tfc.TaskContext) -> str:
    import types
    return str(types.SimpleNamespace(shared="ok").shared)


class ImportTest(unittest.TestCase):
    def test_a_first_job_loads_no_asyncio(self) -> None:
        result = run_script("import sys, tfcluster as tfc\n"
                            "with tfc.run(['/bin/true'], framework='none') as job: job.result()\n"
                            "print('asyncio' in sys.modules)\n")
        self.assertEqual(result.stdout, "False\n", result.stderr)


if __name__ == "__main__":
    unittest.main()
