"""The embeddings of examples/embed: whichever loop is around it, a job streams its output, restarts,
ends by itself or cleanly on Ctrl-C, and does not outlive its host.

The program under test comes as TFC_RUN; one whole run of this file for each.
"""
import os
import re
import signal
import time

import harness

NAME = os.path.basename(harness.TFC_RUN)
LOOP = "while :; do sleep 0.05; done"


class EmbedTest(harness.RunTest):
    options = []  # of the embedding, before the program

    def host(self, script):
        run = harness.Run([*self.options, "sh", "-c", script], self.env, self.dir)
        self.runs.append(run)
        return run

    def up(self, script):
        """Both workers have said "up" and loop."""
        run = self.host(f"{script}; echo up $$ on $TFC_PORT; {LOOP}")
        run.await_output(r"(?s)(\] up \d+ on \d+.*){2}")
        return run

    def test_output_streams_and_a_killed_worker_restarts_with_its_group(self):
        self.make_fifo("up")
        run = self.host('echo "pid $$ of attempt $TFC_ATTEMPT"; [ "$TFC_ATTEMPT" = 1 ] || exit 0; '
                        '[ "$TFC_TASK_INDEX" = 0 ] || { read _ <up; kill -KILL $$; }; '
                        'echo >up; exec sleep 60').end()
        self.assertEqual(run.status, 0, run.err)
        text = run.out.decode()
        for worker in 0, 1:
            self.assertRegex(text, rf"\[worker/{worker}\] pid \d+ of attempt 2\n")
        self.assertEqual(len(re.findall(r"pid (\d+) of attempt", text)), 4)
        self.assertIn("job succeeded", text)

    def test_output_comes_while_the_task_runs(self):
        fifo = self.make_fifo("go")
        run = self.host("echo first; read _ <go; echo second")
        run.await_output(r"(?s)(\] first.*){2}")
        self.assertNotIn(b"second", run.out)
        os.write(fifo, b"\n" * 2)
        run.end()
        self.assertEqual(run.out.count(b"] second\n"), 2)
        self.assertEqual(run.status, 0, run.err)

    def test_a_million_bytes_come_in_order(self):
        run = self.host("seq 1 80000").end()
        self.assertEqual(run.status, 0, run.err)
        for worker in b"0", b"1":
            lines = re.findall(rb"\[worker/" + worker + rb"\] (\d+)\n", run.out)
            self.assertEqual(lines, [b"%d" % n for n in range(1, 80001)])

    def test_a_failure_is_reported(self):
        run = self.host("exit 7").end()
        if NAME == "embed_cpp":  # it throws
            self.assertEqual(run.status, 125)
            self.assertRegex(run.err, rb"^embed_cpp: the job failed: .*worker/[01].* 7")
        else:
            self.assertEqual(run.status, 7, run.err)
            self.assertIn(b"job failed: exit, status 7\n", run.out)

    def test_ctrl_c_stops_with_the_grace(self):
        for number in signal.SIGINT, signal.SIGTERM:
            run = self.up("trap 'echo saved; exit 0' TERM")
            run.process.send_signal(number)
            run.end()
            self.assertEqual(run.out.count(b"] saved\n"), 2, run.out)
            self.assertIn(b"job stopped", run.out)
            self.assertEqual(run.status, 128 + number, run.err)

    def test_a_second_ctrl_c_kills(self):
        run = self.up("trap 'echo told' TERM")
        run.process.send_signal(signal.SIGINT)
        run.await_output(r"(?s)(\] told.*){2}")
        began = time.monotonic()
        run.process.send_signal(signal.SIGINT)
        run.end()
        self.assertLess(time.monotonic() - began, 5)  # a grace is 10 s
        self.assertEqual(run.status, 130, run.err)

    def test_what_a_killed_host_leaves_ends(self):
        run = self.up("trap '' INT")
        ports = [int(port) for port in re.findall(rb"up \d+ on (\d+)", run.out)]
        self.assertFalse(any(harness.is_bindable(port) for port in ports))
        run.process.kill()
        if NAME != "embed_fork":  # whose workers go on: see below
            self.assertEqual(run.end().status, -signal.SIGKILL)
            self.assert_nothing_left()
            self.assertTrue(all(harness.is_bindable(port) for port in ports))
        else:
            run.process.wait()
            backends = [int(pid) for pid in re.findall(rb"backend \d is process (\d+)", run.out)]
            harness.wait_until(lambda: set(harness.children()) == set(backends),
                               "the end of guard, shims and tasks")
            self.assertTrue(all(harness.is_bindable(port) for port in ports))
            self.assertEqual(len(backends), 2)
            for pid in backends:
                os.kill(pid, signal.SIGTERM)
            self.assertEqual(run.end().status, -signal.SIGKILL)


class EdgeTriggered(EmbedTest):
    options = ["--edge"]


class ForkTest(harness.RunTest):
    def test_workers_open_contexts_of_their_own_and_are_reaped_beside_the_tasks(self):
        fifo = self.make_fifo("go")
        run = harness.Run(["sh", "-c", "read _ <go"], self.env, self.dir)
        self.runs.append(run)
        run.await_output(r"(?s)(backend . is process \d+, its own context is open\n.*){2}")
        os.write(fifo, b"\n" * 2)
        run.end()
        self.assertEqual(run.status, 0, run.err)
        for number in b"0", b"1":
            self.assertIn(b"backend " + number + b" ended with 0\n", run.out)
        self.assertLess(run.out.index(b"job succeeded"), run.out.index(b"backend 0 ended"))


if NAME != "embed_epoll":
    del EdgeTriggered
if NAME != "embed_fork":
    del ForkTest

if __name__ == "__main__":
    harness.main()
