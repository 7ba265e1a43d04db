"""Signals, terminals and pipes: whatever ends tfc_run, the tasks end with it."""
import os
import signal
import time

import harness

LOOP = "while :; do sleep 0.05; done"


class SignalTest(harness.RunTest):
    def shell(self, script, *args, **options):
        return self.start(*args, "--", "sh", "-c", script, **options)

    def say_up(self, script, *args, workers=1, **options):
        run = self.shell(f"{script}; echo up; {LOOP}", *args, **options)
        run.await_output(rf"(?s)(\].*? up.*?){{{workers}}}")
        return run

    def test_ctrl_c_gives_the_tasks_sigint(self):
        run = self.say_up("trap 'echo got int; exit 0' INT", "--worker", "2", workers=2,
                          on_terminal=True)
        run.await_output(r"worker/0 \(not listening\), worker/1 \(not listening\)")
        os.write(run.master, b"\x03")
        run.end()
        self.assertEqual(run.out.count(b"got int"), 2, run.out)
        self.assertEqual(run.status, 130)
        self.assertIn(b"a second Ctrl-C kills at once", run.out)

    def test_who_ignores_sigint_is_named_and_gets_term(self):
        run = self.say_up("trap '' INT; trap 'echo got term; exit 0' TERM", on_terminal=True)
        run.await_output(r"worker/0 \(not listening\)")
        began = time.monotonic()
        os.write(run.master, b"\x03")
        run.await_output(r"still running.*worker/0.*second Ctrl-C kills at once")
        run.end()
        self.assertGreater(time.monotonic() - began, 1.9)
        self.assertIn(b"got term", run.out)
        self.assertEqual(run.status, 130)
        self.assertTrue(run.out.endswith(b"tfc_run: stopped\r\n"), run.out)

    def test_a_second_ctrl_c_kills_at_once(self):
        run = self.say_up("trap '' INT TERM", "--grace", "50", on_terminal=True)
        os.write(run.master, b"\x03")
        run.await_output("interrupted")
        began = time.monotonic()
        os.write(run.master, b"\x03")
        run.end()
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(run.status, 130)

    def test_ctrl_c_at_the_start(self):
        for delay in (0, 1, 2, 4, 8, 16, 32):
            with self.subTest(delay_ms=delay):
                run = self.shell("exec sleep 60", "--worker", "3", "--grace", "1")
                time.sleep(delay / 1000)  # no event to await: the moment is what is tested
                run.process.send_signal(signal.SIGINT)
                run.end(30)
                # before its own handler is there, the signal's default is right too
                self.assertIn(run.status, (130, -signal.SIGINT))
                self.assertFalse(harness.children() and run.status == 130)

    def test_ctrl_c_during_the_ending(self):
        run = self.say_up("trap 'echo ending; sleep 0.3; exit 0' INT TERM")
        run.process.send_signal(signal.SIGTERM)
        run.await_output("ending")
        run.process.send_signal(signal.SIGINT)
        self.assertEqual(run.end().status, 143)

    def test_term_is_143_and_hup_is_129(self):
        for number, status in ((signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            with self.subTest(number=number):
                run = self.say_up("trap 'echo got term; exit 0' TERM")
                run.process.send_signal(number)
                run.end()
                self.assertEqual(run.status, status)
                self.assertIn(b"got term", run.out)

    def test_json_says_stopped(self):
        run = self.shell(f"echo up; {LOOP}", "--json")
        run.await_output('"text":"up"')
        run.process.send_signal(signal.SIGTERM)
        end = run.end().events()[-1]
        self.assertEqual((end["event"], end["state"], end["reason"], end["exit"]),
                         ("end", "stopped", "stopped", 143))

    def test_term_deaf_tasks_are_killed_after_the_grace(self):
        run = self.say_up("trap '' TERM", "--grace", "0.5")
        began = time.monotonic()
        run.process.send_signal(signal.SIGTERM)
        self.assertEqual(run.end().status, 143)
        self.assertLess(time.monotonic() - began, 10)

    def test_closing_the_terminal_stops_it(self):
        run = self.say_up("true", "--worker", "2", on_terminal=True)
        os.close(run.master)
        run.fds.clear()
        run.master = None
        self.assertEqual(run.process.wait(harness.PATIENCE), 129)

    def test_an_ignored_hangup_stays_ignored(self):
        run = self.say_up("trap 'exit 0' TERM",
                          preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        run.process.send_signal(signal.SIGHUP)
        self.assertIsNone(run.process.poll())
        run.process.send_signal(signal.SIGTERM)
        self.assertEqual(run.end().status, 143)

    def test_a_closed_pipe_stops_it_quietly(self):
        read, write = os.pipe()
        run = self.shell("while :; do echo line; sleep 0.01; done", stdout=write)
        os.close(write)
        self.assertEqual(os.read(read, 16), b"[worker/0] line\n")
        os.close(read)
        run.end()
        self.assertEqual((run.status, run.err), (141, b""))

    def test_a_stuck_pipe_does_not_keep_ctrl_c_out(self):
        read, write = os.pipe()
        run = self.shell("yes; true", stdout=write)
        harness.wait_until(lambda: self.pipe_is_full(write), "a full pipe")
        os.close(write)
        run.process.send_signal(signal.SIGINT)
        run.await_output("interrupted", "err")
        run.process.send_signal(signal.SIGINT)
        run.end(20)
        os.close(read)
        self.assertEqual(run.status, 130)

    def test_a_stuck_pipe_does_not_keep_term_out(self):
        read, write = os.pipe()
        run = self.shell("yes; true", stdout=write)
        harness.wait_until(lambda: self.pipe_is_full(write), "a full pipe")
        os.close(write)
        run.process.send_signal(signal.SIGTERM)
        run.end(20)
        os.close(read)
        self.assertEqual(run.status, 143)

    @staticmethod
    def pipe_is_full(fd):
        import select
        return not select.select([], [fd], [], 0)[1]

    def test_kill_9_leaves_nothing(self):
        run = self.say_up("trap '' TERM INT", "--worker", "2", "--grace", "0.5")
        run.process.kill()
        run.end()  # assert_nothing_left does the rest

    def test_tasks_get_default_signals_and_no_descriptor(self):
        run = self.start("--no-prefix", "--", "grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status",
                         preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        for line in run.end().lines():
            mask = int(line.split()[1], 16) & 0x7fffffff  # 32 and 33 are the C library's
            self.assertEqual(mask, 0, line)
        script = "ls /proc/$$/fd; readlink /proc/$$/fd/0; echo $TFC_PROGRESS_FD"
        run = self.start("--no-prefix", "--stall", "0", "--", "sh", "-c", script)
        self.assertEqual(run.end().lines(), ["0", "1", "2", "/dev/null", ""])
        run = self.start("--no-prefix", "--stall", "300", "--", "sh", "-c", script)
        self.assertEqual(run.end().lines(), ["0", "1", "2", "3", "/dev/null", "3"])

    def test_closed_standard_streams_do_no_harm(self):
        def close_all():
            for fd in (0, 1, 2):
                os.close(fd)
        path = os.path.join(self.dir, "ran")
        run = self.shell(f"echo hi; echo oh >&2; touch {path}", preexec_fn=close_all)
        self.assertEqual(run.end().status, 0)
        self.assertTrue(os.path.exists(path))


if __name__ == "__main__":
    harness.main()
