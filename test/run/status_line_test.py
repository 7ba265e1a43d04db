"""The status line on a terminal: what runs, for how long, what is waited for."""
import fcntl
import os
import pathlib
import re
import struct
import sys
import termios
import time
import unicodedata

import clients_test
import harness
import progress_test

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lib"))
from played_gateway import Open, PlayedGateway  # noqa: E402

DURATION = r"\d+ s"
LOOP = "while :; do sleep 0.05; done"


def columns(text):
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


class Screen:
    def last_row(self, run):
        """The last row that is not empty."""
        run.read(0.05)
        return next((row for row in reversed(progress_test.screen(run.out)) if row), "")

    def await_status(self, run, pattern):
        """Until the last row is the pattern, and this row."""
        def matches():
            row = self.last_row(run)
            return row if re.fullmatch("tfc_run: " + pattern, row) else None
        try:
            return harness.wait_until(matches, pattern)
        except AssertionError as error:
            raise AssertionError(f"{error}\n" + "\n".join(progress_test.screen(run.out)))

    def resize(self, run, width):
        fcntl.ioctl(run.master, termios.TIOCSWINSZ, struct.pack("4H", 50, width, 0, 0))


class LocalTest(Screen, harness.RunTest):
    def start_loop(self, *args, **options):
        return self.start("--framework", "none", *args, "--", "sh", "-c",
                          f"trap 'exit 0' INT TERM; echo up; {LOOP}", on_terminal=True, **options)

    def interrupt(self, run):
        os.write(run.master, b"\x03")
        run.end()
        self.assertEqual(run.status, 130)

    def test_it_counts_the_ready_tasks_and_the_seconds(self):
        run = self.start_loop("--worker", "3", "--evaluator")
        ready = "running: worker 3 of 3 ready, evaluator 1 of 1 ready  "
        self.await_status(run, ready + "[0-2] s")
        self.await_status(run, ready + "[3-9] s")
        self.interrupt(run)
        for row in progress_test.screen(run.out):
            self.assertFalse(re.search(r"(running|starting|stopping): ", row), row)

    def test_a_running_job_costs_one_wake_up_a_second(self):
        def switches():
            text = pathlib.Path(f"/proc/{run.process.pid}/status").read_text()
            return int(re.search(r"\nvoluntary_ctxt_switches:\s+(\d+)", text).group(1))
        run = self.start_loop()
        self.await_status(run, "running: worker 1 of 1 ready  [1-3] s")
        before, drawn = switches(), len(run.out)
        self.await_status(run, r"running: worker 1 of 1 ready  ([4-9]|\d\d) s")
        self.assertLess(switches() - before, 8 * 4)
        self.assertLessEqual(run.out[drawn:].count(b"running: "), 8)
        self.interrupt(run)

    def test_it_names_the_tasks_that_are_waited_for(self):
        run = self.start("--worker", "2", "--", "sh", "-c", f"trap 'exit 0' INT; {LOOP}", on_terminal=True)
        self.await_status(run, r"starting: worker 0 of 2 ready; waiting for worker/0 \(not listening\), "
                          rf"worker/1 \(not listening\)  {DURATION}")
        self.interrupt(run)

    def test_a_task_that_has_ended_is_counted(self):
        run = self.start("--framework", "none", "--worker", "2", "--", "sh", "-c",
                         f"[ $TFC_TASK_INDEX = 1 ] && exit 0; trap 'exit 0' INT; {LOOP}", on_terminal=True)
        self.await_status(run, rf"running: worker 1 of 2 ready \(1 ended\)  {DURATION}")
        self.interrupt(run)

    def test_it_is_below_the_bars(self):
        step = self.make_fifo("step0")
        run = self.start("--framework", "none", "--", "python3",
                         self.write("bar.py", progress_test.TQDM.replace("{dir}", self.dir)), on_terminal=True)
        for bar in ("  0%|  | 0/2", " 50%|█ | 1/2"):
            def shows():
                run.read(0.05)
                shown = progress_test.screen(run.out)[-2:]
                return shown[0] == "[worker/0] " + bar and re.fullmatch(
                    f"tfc_run: running: worker 1 of 1 ready  {DURATION}", shown[1])
            harness.wait_until(shows, bar)
            os.write(step, b"x")
        os.write(step, b"x")
        self.assertEqual(run.end().status, 0)
        shown = progress_test.screen(run.out)  # the task's two streams are read separately
        self.assertEqual((sorted(shown[:-2]), shown[-2:]), (["[worker/0] 100%|██| 2/2", "[worker/0] done"],
                                                            ["tfc_run: succeeded", ""]))

    def test_output_leaves_nothing_of_it(self):
        run = self.start("--framework", "none", "--color", "never", "--worker", "2", "--", "sh", "-c",
                         "for i in 1 2 3 4 5 6 7 8; do echo line $i; echo error $i >&2; sleep 0.2; done",
                         on_terminal=True)
        run.end()
        shown = progress_test.screen(run.out)
        self.assertIn(b"running: worker 2 of 2 ready", run.out)
        self.assertEqual(sorted(shown[:-2]), sorted(f"[worker/{task}] {what} {i}" for task in (0, 1)
                                                   for what in ("line", "error") for i in range(1, 9)))
        self.assertEqual(shown[-2:], ["tfc_run: succeeded", ""])

    def test_it_obeys_the_width_of_the_terminal(self):
        run = self.start("--worker", "9", "--", "sh", "-c", f"trap 'exit 0' INT; {LOOP}", on_terminal=True)
        for width in (120, 60, 31):
            self.resize(run, width)
            self.await_status(run, r"starting: wo.*\.\.\.  " + DURATION)
            harness.wait_until(lambda: columns(self.last_row(run)) == width - 1, width)
        self.resize(run, 20)
        harness.wait_until(lambda: "starting" not in self.last_row(run), "no line on a narrow terminal")
        self.resize(run, 0)  # not known
        row = self.await_status(run, r"starting: .*\.\.\.  " + DURATION)
        self.assertEqual(columns(row), 79)
        self.interrupt(run)

    def test_a_background_job_leaves_the_terminal_to_the_shell(self):
        script = self.write("background.sh", 'set -m\n"$@" &\nwait $!\n')
        release, release_path = self.make_fifo("release"), f"{self.dir}/release"
        run = harness.Run([script, harness.TFC_RUN, "local", "--ports", self.ports, "--framework", "none", "--",
                           "sh", "-c", f"echo up; sleep 1.5; read line < {release_path}"], self.env, self.dir,
                          on_terminal=True, program="/bin/bash")
        self.runs.append(run)
        run.await_output("up")
        os.write(release, b"\n")
        run.end()
        self.assertEqual(run.status, 0)
        self.assertNotIn(b"running:", run.out)
        self.assertIn("[worker/0] up", re.sub("\x1b\\[\\d*m", "", run.out.decode()))


class PlayedTest(Screen, harness.RunTest):
    def follow(self, state, age_s):
        """`attach` to a job that has been in this state for so long."""
        path = os.path.join(self.dir, "gateway.sock")
        event = {"k": 1, "ts": time.time_ns() - int(age_s * 1e9), "js": state, "g": 1, "e": 1, "x": "no room"}
        gateway = PlayedGateway(path, {
            "gateway.subscribe": Open([[{"job": "0" * 16, "name": "", "tag": ""}, event]])})
        self.addCleanup(gateway.close)
        run = harness.Run(["attach", "--gateway", f"unix:{path}", "j"], self.env, self.dir, on_terminal=True)
        self.runs.append(run)
        return run

    def test_long_durations(self):
        for age_s, text in ((50.2, r"5\d s"), (133, "2 min 10 s"), (3 * 3600 + 25 * 60 + 7, "3 h 25 min")):
            with self.subTest(text):
                run = self.follow(3, age_s)
                self.await_status(run, "running  " + text)
                os.write(run.master, b"\x03")
                run.end()
                os.unlink(os.path.join(self.dir, "gateway.sock"))

    def test_a_clock_that_is_ahead(self):
        run = self.follow(1, -100)
        self.await_status(run, "pending: no room  0 s")
        os.write(run.master, b"\x03")
        run.end()


class NodeTest(Screen, clients_test.ClientsTest):
    names = "a"

    def test_start_and_attach_show_it_and_logs_does_not(self):
        run = self.begin("start", "--framework", "none", "--", "sh", "-c", f"echo up; {LOOP}", on_terminal=True)
        self.await_status(run, f"running: worker 1 of 1 ready  {DURATION}")
        job = progress_test.screen(run.out)[0]
        attach, logs = (self.begin(*args, job, on_terminal=True) for args in (["attach"], ["logs", "-f"]))
        self.await_status(attach, f"running: worker 1 of 1 ready  {DURATION}")
        logs.await_output("up")
        self.ask("stop", job, "--kill", "--wait")
        for each in (run, attach, logs):
            each.end()
        self.assertEqual(progress_test.screen(attach.out)[-2:], ["tfc_run: stopped", ""])
        self.assertNotIn(b"running:", logs.out)

    def test_an_end_that_waits(self):
        path = self.job_file(
            framework="tensorflow", roles={"chief": {}, "evaluator": {"finish_s": 60}},
            argv=["/bin/sh", "-c", "case $TFC_TASK_TYPE in evaluator) exec sleep 600;; esac"])
        run = self.begin("start", "--job", path, on_terminal=True)
        self.await_status(run, rf"stopping: waiting for evaluator/0 to end  {DURATION}")
        self.await_status(run, rf"stopping: waiting up to 5\d s for evaluator/0 to finish  {DURATION}")
        self.ask("stop", progress_test.screen(run.out)[0], "--kill")
        run.end()

    def test_a_lost_node_and_wide_characters(self):
        wide = "ノード" * 5  # a longer path is too long for a socket
        os.symlink(f"{self.dir}/state-a", f"{self.dir}/{wide}")
        job = self.start_job(f"echo up; {LOOP}", "--restart-on", "failure")
        run = self.start_bare("attach", "--gateway", f"unix:{self.dir}/{wide}/node.sock", job,
                              on_terminal=True)
        self.await_status(run, f"running: worker 1 of 1 ready  {DURATION}")
        self.nodes["a"].process.kill()
        self.nodes["a"].end()
        self.await_status(run, f"reconnecting to unix:{self.dir}/{wide}/node.sock  2 s")
        self.resize(run, 80)
        row = self.await_status(run, rf"reconnecting to unix:{self.dir}/ノ.*\.\.\.  {DURATION}")
        self.assertIn(columns(row), (78, 79))
        self.nodes["a"] = self.node("a")
        self.await_status(run, f"running: worker 1 of 1 ready  {DURATION}")
        self.ask("stop", job, "--kill", "--wait")
        self.assertEqual(run.end().status, 143)


if __name__ == "__main__":
    harness.main()
