"""Silent tasks and starts that wait: what is reported, the stacks, the restart."""
import os
import signal
import sys
import unittest

import harness

HANG = """
import ctypes, os, threading, time
def wait_for_ever(lock):
    lock.acquire()
def other_thread():
    wait_for_ever(held)
held = threading.Lock()
held.acquire()
threading.Thread(target=other_thread, daemon=True).start()
print("up", flush=True)
if os.environ["TFC_ATTEMPT"] == os.environ.get("HANG_IN", os.environ["TFC_ATTEMPT"]):
    mutex = ctypes.create_string_buffer(64)  # zeros: PTHREAD_MUTEX_INITIALIZER
    for _ in range(2):  # in C, where a signal ends no wait; no other thread of Python runs again
        ctypes.PyDLL(None).pthread_mutex_lock(mutex)
"""

LISTEN = """
import socket, signal
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
signal.pause()
"""


class HangsTest(harness.RunTest):
    def python(self, text):
        return [sys.executable, self.write("program.py", text)]

    def stall(self, *args, stall="0.5", **options):
        """A job of one worker until its first stall is reported: the run, and that event."""
        run = self.start("--json", "--strategy", "none", "--stall", stall, *args, **options)
        run.await_output(r'"reason":"stalled"')
        return run, self.stalls(run)[0]

    @staticmethod
    def whole_events(run):
        return [harness.json.loads(line) for line in run.out.decode().split("\n")[:-1]]

    def stalls(self, run):
        return [event for event in self.whole_events(run)
                if event["event"] == "task" and event.get("reason") == "stalled"]

    def interrupt(self, run):
        run.process.send_signal(signal.SIGTERM)
        return run.end()

    def test_a_silent_task_is_reported_with_its_activity(self):
        for script, what in (("exec sleep 60", "idle"), ("kill -STOP $$", r"stopped \(SIGSTOP\)"),
                             ("while :; do :; done", r"works, \d+ % of a CPU"),
                             ("sh -c 'kill -STOP $$'; :", r"stopped \(SIGSTOP\) \(sh, pid \d+\)")):
            with self.subTest(script=script):
                run, told = self.stall("--grace", "1", "--", "sh", "-c", script)
                self.interrupt(run)
                self.assertEqual((told["task"], told["state"]), ("worker/0", "ready"))
                self.assertRegex(told["text"], r"^worker/0 has had no output for [\d.]+ s: " + what)

    def test_a_stopped_task_is_reported_and_its_continuation(self):
        """By default: no option asks for it, and nothing else happens to the task."""
        run = self.start("--json", "--", "sh", "-c", "echo $$; kill -STOP $$; while [ ! -e go ]; do sleep 0.1; "
                         "done; exit 3")
        run.await_output(r"has been stopped")
        pid = int(next(event["text"] for event in self.whole_events(run)
                       if event["event"] == "output"))
        os.kill(pid, signal.SIGCONT)
        run.await_output(r"continued after")
        self.write("go", "")
        self.assertEqual(run.end().status, 3)
        told = [event for event in run.events() if event["event"] == "task" and "text" in event]
        self.assertEqual([(event["task"], event["attempt"], event.get("reason"))
                          for event in told],
                         [("worker/0", 1, None), ("worker/0", 1, None), ("worker/0", 1, "exit")])
        self.assertEqual(told[0]["text"],
                         f"worker/0 has been stopped (SIGSTOP) for 5 s; continue it with "
                         f"kill -CONT {pid}, or stop the job")
        self.assertRegex(told[1]["text"], r"^worker/0 continued after \d+ s$")
        self.assertEqual((run.events()[-1]["reason"], run.events()[-1]["exit"]), ("exit", 3))

    def test_a_hang_is_printed_when_it_is_noticed(self):
        """And not only with the next event, for which a job that hangs may wait for ever."""
        run = self.start("--strategy", "none", "--stall", "0.5", "--grace", "1", "--", "sh", "-c",
                         "kill -STOP $$")
        run.await_output(r"tfc_run: worker/0 has had no output for 0\.5", "err")
        run.await_output(r"tfc_run: worker/0 has been stopped \(SIGSTOP\) for 5 s; continue it "
                         r"with kill -CONT \d+, or stop the job\n", "err")
        self.interrupt(run)
        self.assertEqual(run.status, 143)

    def test_all_stacks_are_in_the_log_before_the_stall_is_reported(self):
        run, told = self.stall("--on-stall", "stacks", "--", *self.python(HANG), stall="3")
        self.interrupt(run)
        self.assertIn("its stacks are in its log", told["text"])
        events = run.events()
        before = "\n".join(event["text"] for event in events[:events.index(told)]
                           if event["event"] == "output")
        self.assertIn("in other_thread", before)
        self.assertIn("in wait_for_ever", before)
        self.assertRegex(before, r"program\.py\", line \d+ in <module>")
        self.assertEqual({event["attempt"] for event in events if event["event"] == "output"}, {1})

    @unittest.skipUnless(os.geteuid() == 0, "only root may be in so many groups")
    def test_a_program_in_many_groups_prints_its_stacks(self):
        """They stand in its status in front of its signals, 64 KiB and more of them."""
        run, told = self.stall("--on-stall", "stacks", "--", *self.python(
            "import os\nos.setgroups(range(4000000000, 4000007000))\n" + HANG), stall="3")
        self.interrupt(run)
        self.assertIn("its stacks are in its log", told["text"])

    def test_a_program_that_prints_no_stacks_is_left_alone(self):
        run = self.run_local("--json", "--strategy", "none", "--stall", "0.3", "--on-stall",
                             "stacks", "--", "sh", "-c", "sleep 1.5; exit 7")
        self.assertEqual(run.status, 7)
        self.assertIn("prints no Python stacks", self.stalls(run)[0]["text"])

    def test_a_stalled_task_is_restarted_and_recovers(self):
        run = self.run_local("--json", "--strategy", "none", "--stall", "3", "--on-stall",
                             "restart", "--env", "HANG_IN=1", "--", *self.python(HANG))
        self.assertEqual(run.status, 0)
        ended = [event for event in run.events() if event["event"] == "task"
                 and event["state"] in ("failed", "exited")]
        self.assertEqual([(event["attempt"], event["reason"]) for event in ended],
                         [(1, "stalled"), (2, "exit")])
        self.assertIn("restarting it (1 of 3", self.stalls(run)[0]["text"])
        self.assertIn("in other_thread", "".join(
            event["text"] for event in run.events() if event["event"] == "output"))

    def test_124_and_a_reason_when_nothing_is_left_to_try(self):
        run = self.run_local("--json", "--strategy", "none", "--stall", "0.4", "--on-stall",
                             "restart", "--restart", "1", "--", "sh", "-c", "exec sleep 60")
        end = run.events()[-1]
        self.assertEqual((run.status, end["exit"], end["reason"]), (124, 124, "stalled"))
        self.assertIn("; no restart is left (1 of 1 in 600 s)", end["text"])

    def test_progress_is_a_sign_of_life(self):
        run = self.run_local("--json", "--strategy", "none", "--stall", "1.8", "--", "sh", "-c",
                             "for i in 1 2 3 4 5 6 7 8; do sleep 0.25; echo >&$TFC_PROGRESS_FD; "
                             "done")
        self.assertEqual((run.status, self.stalls(run)), (0, []))
        for args, descriptor in ((["--stall", "0"], "none"), (["--strategy", "none"], "none"),
                                 ([], "3")):
            run = self.run_local(*args, "--", "sh", "-c", "echo ${TFC_PROGRESS_FD-none}")
            self.assertEqual(run.lines(), [f"[worker/0] {descriptor}"])

    def test_servers_are_silent_by_nature_and_stall_only_when_stopped(self):
        """The chief speaks for three stall times, then stops the worker; the ps never speaks."""
        run = self.start(
            "--json", "--worker", "1", "--ps", "1", "--grace", "1", "--stall", "2", "--", "sh",
            "-c", 'case $TFC_TASK_TYPE in worker) echo $$ >pid;; ps) ;; '
            "*) for i in $(seq 31); do sleep 0.2; echo $i; done; "
            'kill -STOP $(cat pid); while sleep 0.2; do echo; done;; esac; exec sleep 60')
        run.await_output(r'"reason":"stalled"')
        self.interrupt(run)
        told = self.stalls(run)
        self.assertEqual({event["task"] for event in told}, {"worker/0"})
        self.assertRegex(told[0]["text"], r"stopped \(SIGSTOP\)$")
        spoken = [event["text"] for event in run.events() if event["event"] == "output"]
        self.assertIn("31", spoken)

    def test_the_sitecustomize_that_was_there_is_there(self):
        show = self.python("import sys, sitecustomize\n"
                           "print(sys.path[1:], sitecustomize.__file__, sitecustomize.mine)")
        own = os.path.join(self.dir, "own")
        os.mkdir(own)
        self.write("own/sitecustomize.py", "mine = 42\n")
        plain = self.run_local("--no-prefix", "--", *show, env={"PYTHONPATH": own})
        watched = self.run_local("--no-prefix", "--stall", "60", "--on-stall", "stacks", "--",
                                 *show, env={"PYTHONPATH": own})
        self.assertEqual((plain.status, watched.status), (0, 0))
        self.assertEqual(plain.lines(), watched.lines())
        self.assertIn("42", plain.lines()[0])

    def test_a_broken_sitecustomize_breaks_no_more_than_it_did(self):
        own = os.path.join(self.dir, "own")
        os.mkdir(own)
        self.write("own/sitecustomize.py", "1 / 0\n")
        runs = [self.run_local("--no-prefix", *args, "--", *self.python("print('ran')"),
                               env={"PYTHONPATH": own})
                for args in ((), ("--stall", "60", "--on-stall", "stacks"))]
        self.assertEqual(runs[0].lines(), runs[1].lines())
        self.assertEqual(runs[0].err, runs[1].err)
        self.assertIn(b"ZeroDivisionError", runs[1].err)

    def test_every_way_to_start_python_still_works(self):
        for flags in ([], ["-I"], ["-E"], ["-S"], ["-s"], ["-B"], ["-O"]):
            with self.subTest(flags=flags):
                run = self.run_local("--no-prefix", "--stall", "60", "--on-stall", "stacks", "--",
                                     sys.executable, *flags, "-c", "print('ran')")
                self.assertEqual((run.status, run.lines(), run.errors()),
                                 (0, ["ran"], ["tfc_run: succeeded"]))

    def deadline(self, *program):
        """The sentence of a start that came to its deadline."""
        run = self.run_local("--json", "--start-deadline", "2", "--grace", "1", "--", *program)
        end = run.events()[-1]
        self.assertEqual((run.status, end["reason"]), (124, "deadline"))
        return end["text"], run

    def test_a_start_that_waits_says_what_the_task_does(self):
        text, _ = self.deadline("sleep", "60")
        self.assertRegex(text, r"waited for worker/0 \(not listening, 0 % of a CPU")
        text, _ = self.deadline("sh", "-c", "kill -STOP $$")
        self.assertIn("waited for worker/0 (stopped (SIGSTOP))", text)
        text, _ = self.deadline(*self.python("import ssl\nwhile True: pass"))
        self.assertRegex(text, r"worker/0 \(loading, \d+ % of a CPU, newest library \S+\.so")
        text, run = self.deadline(*self.python(LISTEN))
        port = [event["text"] for event in run.events() if event["event"] == "output"][0]
        self.assertRegex(text, rf"worker/0 \(listens on {port}, not on \d+\)")

    def test_a_start_that_lasts_is_explained(self):
        run = self.start("--chief", "--worker", "1", "--", "sleep", "60")
        run.await_output(r"tfc_run: waiting for worker/0 \(not listening[^)]*\), "
                         r"chief/0 \(not listening|"
                         r"tfc_run: waiting for chief/0 \(not listening[^)]*\), "
                         r"worker/0 \(not listening", "err")
        self.interrupt(run)
        self.assertEqual(run.status, 143)


if __name__ == "__main__":
    harness.main()
