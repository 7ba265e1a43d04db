"""What is printed: lines, prefixes, colors, times, and the events of --json."""
import datetime
import os
import pathlib
import re
import sys

import harness

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lib"))
from played_gateway import Open, PlayedGateway  # noqa: E402

UNREADY = r"(?:pending|holding|starting|not listening)"


class OutputTest(harness.RunTest):
    def shell(self, script, *args, **options):
        return self.run_local(*args, "--", "sh", "-c", script, **options)

    def test_a_line_goes_to_its_stream_behind_its_task(self):
        run = self.shell("echo out; echo err >&2", "--worker", "2", "--quiet")
        self.assertEqual(sorted(run.lines()), ["[worker/0] out", "[worker/1] out"])
        self.assertEqual(sorted(run.errors()), ["[worker/0] err", "[worker/1] err"])

    def test_a_tasks_lines_keep_their_order(self):
        run = self.shell("for i in $(seq 2000); do echo $i; done", "--worker", "3")
        for task in range(3):
            mine = [line.split()[1] for line in run.lines() if line.startswith(f"[worker/{task}]")]
            self.assertEqual(mine, [str(i + 1) for i in range(2000)])

    def test_later_attempts_carry_their_number(self):
        path = os.path.join(self.dir, "once")
        run = self.shell(f"echo hi; test -e {path} || {{ touch {path}; kill -9 $$; }}")
        self.assertEqual((run.lines(), run.status), (["[worker/0] hi", "[worker/0#2] hi"], 0))

    def test_a_restart_is_reported_in_one_sentence(self):
        path = os.path.join(self.dir, "once")
        run = self.shell(f"test -e {path} || {{ touch {path}; kill -9 $$; }}")
        self.assertEqual(run.errors(), [
            "tfc_run: worker/0 died of SIGKILL; restarting the group (1 of 3 restarts in 600 s)",
            "tfc_run: succeeded"])

    def test_a_restart_is_reported_before_the_time_that_it_waits(self):
        for scope in ("task", "group"):
            with self.subTest(scope):
                path = self.job_file(framework="none", argv=["/bin/sh", "-c", "kill -9 $$"], roles={"worker": {}},
                                     restart={"scope": scope, "max": 3, "backoff_s": [3600, 3600]})
                run = self.start("--job", path)
                run.await_output("restarting (it|the group) in 3600.0 s .1 of 3 restarts in 600 s.\n", "err")
                run.process.terminate()
                run.end()
                self.assertEqual(run.err.count(b"died of SIGKILL"), 1)

    def test_no_prefix(self):
        self.assertEqual(self.shell("echo plain", "--no-prefix").out, b"plain\n")

    def test_timestamps_are_utc(self):
        run = self.shell("echo hi", "--timestamps")
        match = re.fullmatch(r"\[worker/0\] (\S+)Z hi", run.lines()[0])
        time = datetime.datetime.fromisoformat(match.group(1))
        age = datetime.datetime.utcnow() - time
        self.assertLess(abs(age.total_seconds()), 60)

    def test_timestamps_are_also_on_the_lines_of_tfc_run(self):
        run = self.shell("exit 3", "--timestamps")
        self.assertRegex(run.errors()[-1], r"^tfc_run: \d{4}-\d\d-\d\dT\S+Z failed \(exit\): worker/0 exited with 3")

    def test_quiet_leaves_the_tasks_lines_and_errors(self):
        run = self.shell("echo hi", "--quiet")
        self.assertEqual((run.out, run.err), (b"[worker/0] hi\n", b""))
        run = self.shell("exit 3", "--quiet")
        self.assertRegex(run.err, rb"^tfc_run: failed \(exit\): worker/0 exited with 3\n$")

    def test_a_last_line_needs_no_newline(self):
        self.assertEqual(self.shell("printf end").lines(), ["[worker/0] end"])

    def test_a_long_line_stays_one_line(self):
        run = self.run_local("python3", "-c", "print('x' * 200000)")
        self.assertEqual(run.out, b"[worker/0] " + b"x" * 200000 + b"\n")

    def test_bytes_pass_unchanged(self):
        self.assertEqual(self.shell(r"printf '\377\000\001\n'", "--no-prefix").out,
                         b"\xff\x00\x01\n")

    def test_much_output_arrives_whole(self):
        run = self.run_local("--no-prefix", "python3", "-c", "print('y' * 79 + chr(10), end='') or "
                             "[print('y' * 79) for _ in range(100000)]")
        self.assertEqual(len(run.out), 100001 * 80)

    def test_no_color_but_on_a_terminal(self):
        self.assertNotIn(b"\033", self.shell("echo hi").out)
        self.assertIn(b"\033[", self.shell("echo hi", "--color", "always").out)

    def test_colors_per_task_on_a_terminal(self):
        run = self.shell("echo hi", "--worker", "2", on_terminal=True)
        colors = set(re.findall(rb"(\033\[\d+m)\[worker/\d\]\033\[0m hi", run.out))
        self.assertEqual(len(colors), 2, run.out)
        for options in (dict(env={"NO_COLOR": "1"}), dict(env={"TERM": "dumb"})):
            run = self.shell("echo hi", on_terminal=True, **options)
            self.assertIn(b"[worker/0] hi\r\n", run.out)
            self.assertNotRegex(run.out, rb"\033\[\d+m")
        run = self.shell("echo hi", "--color=never", on_terminal=True)
        self.assertNotRegex(run.out, rb"\033\[\d+m")

    def test_a_terminal_shows_what_the_gang_waits_for_and_clears_it(self):
        run = self.start("--worker", "2", "--color", "never", "--", "sh", "-c",
                         "trap 'exit 0' INT; echo up; while :; do sleep 0.1; done",
                         on_terminal=True)
        run.await_output(rf"tfc_run: starting: worker 0 of 2 ready; waiting for worker/0 \({UNREADY}\)")
        run.await_output(r"(?s)\] up.*\] up")
        os.write(run.master, b"\x03")
        run.end()
        for line in run.out.split(b"\r\n"):  # what follows the bar has wiped it out first
            shown = line.split(b"\r\033[K")[-1]
            self.assertFalse(b"waiting" in shown and b"] up" in shown, line)

    def test_the_line_at_the_bottom_is_for_terminals_only(self):
        run = self.shell("echo hi; sleep 1")
        self.assertNotIn(b"starting", run.err)
        for args, env in ((["--quiet"], {}), (["--json"], {}), ([], {"TERM": "dumb"})):
            run = self.shell("echo hi; sleep 1", *args, on_terminal=True, env=env)
            self.assertNotIn(b"starting:", run.out)

    def test_stdout_and_stderr_in_one_pipe_keep_whole_lines(self):
        read, write = os.pipe()
        run = self.start("--", "sh", "-c",
                         "for i in $(seq 500); do echo out$i; echo err$i >&2; done",
                         stdout=write)
        os.close(write)
        run.fds[read] = "out"
        run.end()
        os.close(read)
        self.assertTrue(all(re.fullmatch(r"\[worker/0\] out\d+", line) for line in run.lines()))

    def test_tensorboards_url_is_reported_when_it_responds(self):
        server = ("import os, socket\n"
                  "s = socket.socket(); s.setsockopt(1, 2, 1)\n"
                  "s.bind(('127.0.0.1', int(os.environ['TFC_PORT']))); s.listen(); s.accept()")
        path = self.job_file(argv=["sh", "-c", "while ! test -e told; do sleep 0.05; done"],
                             roles={"worker": {}, "tensorboard": {"argv": [
                                 "python3", "-c", server]}})
        run = self.start("--job", path)
        run.await_output(r"TensorBoard: http://127\.0\.0\.1:\d+/\n", "err")
        self.write("told", "")
        run.end()
        self.assertEqual(run.status, 0, run.err)


class PortsTest(harness.RunTest):
    def test_ports_that_connections_get_too_are_warned_of_once(self):
        with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
            first, last = map(int, file.read().split())
        with open("/proc/sys/net/ipv4/ip_local_reserved_ports") as file:
            if file.read().strip():
                self.skipTest("ports are reserved on this machine")
        run = self.run_bare("local", "--ports", f"{first}-{last}", "--worker", "3", "--", "true")
        warnings = [line for line in run.errors() if "ip_local_port_range" in line]
        self.assertEqual(warnings, [
            f"tfc_run: ports {first} to {last} of the pool overlap the ports of outgoing connections "
            f"(net.ipv4.ip_local_port_range is {first} to {last}); choose others, or reserve them "
            f'with "sysctl -w net.ipv4.ip_local_reserved_ports={first}-{last}"'])
        self.assertEqual(run.status, 0)
        run = self.run_local("--worker", "3", "--", "true")
        self.assertNotIn(b"ip_local_port_range", run.err)


class PlayedTest(harness.RunTest):
    """Orders of events that a real cluster produces only at times."""

    def attach(self, *events):
        path = os.path.join(self.dir, "gateway.sock")
        items = [[{"job": "0" * 16, "name": "", "tag": ""}, dict(event, ts=1)] for event in events]
        gateway = PlayedGateway(path, {"gateway.subscribe": Open(items)})
        self.addCleanup(gateway.close)
        return self.run_bare("attach", "--gateway", f"unix:{path}", "j")

    def task(self, index, state, reason, text):
        return {"k": 2, "tt": "worker", "ti": index, "a": 1, "s": state, "r": reason, "xr": 2, "x": text}

    def job(self, state, text, kind=1, **fields):
        return {"k": kind, "js": state, "g": 1, "e": 1, "x": text, **fields}

    def test_a_restart_is_reported_once_though_other_events_come_between(self):
        cause = "worker/1 died of SIGKILL; restarting the group (1 of 3 restarts in 600 s)"
        gap = {"k": 4, "tt": "worker", "ti": 0, "a": 1, "dl": 9}
        run = self.attach(self.job(3, ""), self.task(1, 7, 2, cause), gap,
                          self.task(0, 7, 10, "worker/0 exited with 1"), self.job(4, cause),
                          self.job(6, "", 5))
        self.assertEqual(run.errors(), ["tfc_run: worker/0: 9 bytes lost", f"tfc_run: {cause}", "tfc_run: succeeded"])

    def test_the_end_is_reported_once_though_other_events_come_between(self):
        cause = "worker/1 exited with 3"
        run = self.attach(self.job(3, ""), self.task(1, 7, 1, cause), self.task(0, 7, 10, "worker/0 exited with 1"),
                          self.job(5, cause), self.job(7, cause, 5, r=1, st=3))
        self.assertEqual((run.errors(), run.status), ([f"tfc_run: failed (exit): {cause}"], 3))

    def test_each_cause_is_reported(self):
        first, second = (f"worker/{i} died of SIGKILL; restarting it (1 of 3 restarts in 600 s)" for i in (0, 1))
        run = self.attach(self.job(3, ""), self.task(0, 7, 2, first), self.task(1, 7, 2, second), self.job(6, "", 5))
        self.assertEqual(run.errors(), [f"tfc_run: {first}", f"tfc_run: {second}", "tfc_run: succeeded"])


class JsonTest(harness.RunTest):
    def shell(self, script, *args):
        run = self.run_local("--json", *args, "--", "sh", "-c", script)
        return run, run.events()

    def of(self, events, kind):
        return [event for event in events if event["event"] == kind]

    def test_every_object_has_a_time_and_the_last_is_end(self):
        run, events = self.shell("echo hi; echo oh >&2")
        self.assertEqual(run.err, b"")
        for event in events:
            self.assertRegex(event["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$")
        self.assertEqual(events[-1]["event"], "end")

    def test_output(self):
        _, events = self.shell("echo hi; echo oh >&2")
        lines = self.of(events, "output")
        self.assertEqual(sorted((e["stream"], e["text"], e["task"], e["attempt"]) for e in lines),
                         [("stderr", "oh", "worker/0", 1), ("stdout", "hi", "worker/0", 1)])
        cursors = [e["cursor"] for e in lines]
        self.assertTrue(all(isinstance(c, str) and c for c in cursors))
        self.assertEqual(len(set(cursors)), 2)

    def test_task(self):
        _, events = self.shell("exit 5", "--name", "five")
        tasks = self.of(events, "task")
        states = [e["state"] for e in tasks]
        self.assertEqual(states, sorted(states, key=[
            "pending", "holding", "starting", "running", "ready", "exited", "failed"].index))
        running = next(e for e in tasks if e["state"] == "running")
        self.assertGreater(running["pid"], 1)
        self.assertEqual(running["node"], "local")
        self.assertRegex(running["address"], r"^127\.0\.0\.1:\d+$")
        self.assertEqual((tasks[-1]["exit"], tasks[-1]["reason"], tasks[-1]["task"]),
                         (5, "exit", "worker/0"))
        self.assertNotIn("signal", tasks[-1])

    def test_task_that_died_of_a_signal(self):
        _, events = self.shell("kill -ABRT $$")
        last = self.of(events, "task")[-1]
        self.assertEqual((last["signal"], last["reason"]), (6, "signal"))
        self.assertNotIn("exit", last)

    def test_task_that_a_peer_took_along(self):
        _, events = self.shell("test $TFC_TASK_INDEX = 0 && exit 3; exec sleep 60",
                               "--worker", "2")
        last = {e["task"]: e for e in self.of(events, "task")}
        self.assertEqual((last["worker/0"]["reason"], last["worker/0"]["exit"]), ("exit", 3))
        self.assertEqual((last["worker/1"]["reason"], last["worker/1"]["signal"]),
                         ("consequence", 15))

    def test_a_new_generation(self):
        path = os.path.join(self.dir, "once")
        _, events = self.shell(f"test -e {path} || {{ touch {path}; kill -9 $$; }}")
        jobs = [(e["state"], e["generation"]) for e in self.of(events, "job")]
        self.assertIn(("restarting", 1), jobs)
        attempts = {(e["attempt"], e["generation"], e["state"]) for e in self.of(events, "task")}
        self.assertIn((2, 2, "exited"), attempts)
        self.assertEqual(events[-1]["exit"], 0)

    def test_job(self):
        _, events = self.shell("true", "--name", "digits")
        jobs = self.of(events, "job")
        self.assertEqual({e["name"] for e in jobs}, {"digits"})
        self.assertEqual({(e["generation"], e["epoch"]) for e in jobs}, {(1, 1)})
        self.assertRegex(jobs[0]["job"], r"^[0-9a-f]{16}$")
        self.assertEqual(len({e["job"] for e in jobs + events[-1:]}), 1)
        self.assertEqual(self.of(events, "end")[0]["state"], "succeeded")

    def test_all_output_comes_before_the_end_of_its_attempt(self):
        _, events = self.shell("seq 5000")
        kinds = [(e["event"], e.get("state")) for e in events]
        last_line = max(i for i, k in enumerate(kinds) if k[0] == "output")
        self.assertLess(last_line, kinds.index(("task", "exited")))
        self.assertEqual([e["text"] for e in self.of(events, "output")],
                         [str(i + 1) for i in range(5000)])

    def test_text_that_is_not_utf8_is_escaped(self):
        _, events = self.shell(r"printf 'a\377\303\244\000\303\n'")
        self.assertEqual(self.of(events, "output")[0]["text"], "a\\xff\u00e4\0\\xc3")

    def test_long_lines_are_split_and_marked(self):
        run = self.run_local("--json", "python3", "-c", "print('x' * 150000)")
        lines = self.of(run.events(), "output")
        self.assertEqual([(len(e["text"]), e.get("partial", False)) for e in lines],
                         [(65536, True), (65536, True), (18928, False)])

    def test_rotated_away_output_is_a_gap(self):
        read, write = os.pipe()
        script = f"import os; b = b'z' * 9999 + b'{chr(92)}n'; [os.write(1, b * 100) for _ in range(200)]"
        done = os.path.join(self.dir, "done")
        script += f"; open({done!r}, 'w')"
        run = self.start("--json", "python3", "-c", script, stdout=write)
        os.close(write)
        harness.wait_until(lambda: os.path.exists(done), "the end of the writer")
        run.fds[read] = "out"
        run.end()
        os.close(read)
        events = run.events()
        gaps = self.of(events, "gap")
        self.assertTrue(gaps)
        told = sum(len(e["text"]) + 1 for e in self.of(events, "output"))
        self.assertEqual(gaps[0]["task"], "worker/0")
        self.assertAlmostEqual(told + sum(e["bytes"] for e in gaps), 200000000, delta=200000)


if __name__ == "__main__":
    harness.main()
