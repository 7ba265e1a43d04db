"""Exit statuses: the table of the manual, row by row, with the word that tells them apart."""
import glob
import json
import os
import re
import signal
import sys

import harness


class StatusTest(harness.RunTest):
    def shell(self, script, *args, **options):
        return self.run_local(*args, "--", "sh", "-c", script, **options)

    def end(self, *args, **options):
        """The run with --json, and its end event, which is the last."""
        run = self.run_local("--json", *args, **options)
        events = run.events()
        self.assertEqual([e["event"] for e in events].count("end"), 1)
        end = events[-1]
        self.assertEqual(end["event"], "end")
        self.assertEqual(end["exit"], run.status)
        return run, end

    def test_0_when_it_succeeds(self):
        run, end = self.end("true")
        self.assertEqual((run.status, end["state"], end["decided_by"]),
                         (0, "succeeded", "worker/0"))
        self.assertEqual(self.shell("exit 0").errors(), ["tfc_run: succeeded"])

    def test_the_deciding_tasks_own_whatever_the_number(self):
        for status in (1, 3, 77, 124, 125, 126, 127, 254, 255):
            with self.subTest(status=status):
                run = self.shell(f"exit {status}")
                self.assertEqual(run.status, status)
                self.assertRegex(run.errors()[-1], r"^tfc_run: failed \(exit\): worker/0 ")

    def test_end_names_the_task_and_its_last_lines(self):
        run, end = self.end("sh", "-c", "echo one; echo two >&2; exit 4")
        self.assertEqual((run.status, end["state"], end["decided_by"], end["reason"]),
                         (4, "failed", "worker/0", "exit"))
        self.assertEqual(sorted(end["log_tail"]), ["one", "two"])

    def test_end_quotes_the_line_that_names_the_reason(self):
        raising = "import sys; print('loading', file=sys.stderr); raise ValueError('bad\\tshape\\nof x')"
        run, end = self.end("python3", "-c", raising)
        self.assertEqual((run.status, end["text"], end["error_line"]),
                         (1, "worker/0 exited with 1: ValueError: bad shape", "ValueError: bad shape"))
        self.assertEqual(run.errors()[-1], "tfc_run: failed (exit): " + end["text"])
        crash = "import ctypes, faulthandler; faulthandler.enable(); ctypes.string_at(0)"
        run, end = self.end("python3", "-c", crash)
        self.assertEqual((end["text"], end["error_line"]),
                         ("worker/0 died of SIGSEGV: Fatal Python error: Segmentation fault",
                          "Fatal Python error: Segmentation fault"))
        for script, line in (("echo cannot open x.csv >&2; exit 4", "cannot open x.csv"),
                             ("echo loading; exit 4", ""),
                             ("echo loading >&2; kill -9 $$", ""),
                             ("exec 2>&1; python3 -c 'x[0]'", "NameError: name 'x' is not defined"),
                             ("echo loading >&2", "")):
            with self.subTest(script=script):
                run, end = self.end("--restart", "0", "--", "sh", "-c", script)
                self.assertEqual(end["error_line"], line)

    def test_end_quotes_the_error_file_of_a_pytorch_task(self):
        error = '{"message": {"message": "ValueError: bad shape\\nof x", "extraInfo": {}}}'
        for script, line in ((f"printf %s '{error}' >$TORCHELASTIC_ERROR_FILE; exit 4", "ValueError: bad shape"),
                             ("echo '{\"message\": \"out of data\"}' >$TORCHELASTIC_ERROR_FILE; exit 4",
                              "out of data"),
                             ("echo '[' >$TORCHELASTIC_ERROR_FILE; exit 4", "in the log"),
                             ("mkfifo $TORCHELASTIC_ERROR_FILE; exit 4", "in the log"),
                             (f"[ $TFC_ATTEMPT = 2 ] || {{ printf %s '{error}' >$TORCHELASTIC_ERROR_FILE; kill -9 $$; }};"
                              "exit 4", "in the log")):
            with self.subTest(script=script):
                run, end = self.end("--framework", "pytorch", "--worker", "1", "--", "sh", "-c",
                                    "echo in the log >&2; " + script)
                self.assertEqual((run.status, end["text"], end["error_line"]),
                                 (4, f"worker/0 exited with 4: {line}", line))

    def test_a_nul_byte_cuts_no_line_of_the_end(self):
        script = r"printf '\0begin\0ning\n'; printf '\0ValueError: one\0two\nlast\0\n' >&2; exit 3"
        run, end = self.end("sh", "-c", script)
        self.assertEqual(run.status, 3)
        self.assertEqual(sorted(end["log_tail"]), [" ValueError: one two", " begin ning", "last "])
        self.assertEqual((end["error_line"], end["text"]), ("last", "worker/0 exited with 3: last"))
        texts = [event["text"] for event in run.events() if event["event"] == "output"]
        self.assertEqual(sorted(texts), ["\0ValueError: one\0two", "\0begin\0ning", "last\0"])
        _, end = self.end("python3", "-c", r"raise ValueError('one\0two')")
        self.assertEqual(end["error_line"], "ValueError: one two")

    def test_a_long_reason_is_whole(self):
        program = os.path.join(self.dir, *(3 * ["d" * 100]), "program")
        run, end = self.end(program)
        self.assertEqual((run.status, end["text"]),
                         (127, f"worker/0 could not be started: {program}: No such file or directory; "
                               "the file and the interpreter in its first line must exist"))

    def test_last_line_says_where_a_log_is_that_is_kept(self):
        run = self.shell("echo cannot open x.csv >&2; exit 4", "--log-dir", "logs")
        place = re.fullmatch(r"tfc_run: failed \(exit\): worker/0 exited with 4: cannot open x.csv; its log: "
                             r"(.*)", run.errors()[-1]).group(1)
        files = glob.glob(place)
        self.assertEqual(len(files), 1, place)
        with open(files[0], encoding="utf-8") as file:
            self.assertIn("cannot open x.csv\n", file.read())
        for script, *args in (("exit 4", "--log-dir", "logs"), ("echo x >&2; exit 4",)):
            with self.subTest(script=script):
                self.assertNotIn("its log", self.shell(script, *args).errors()[-1])

    def test_end_names_a_peer_that_left_early(self):
        script = ("[ $TFC_TASK_INDEX = 1 ] && exit 0; until grep -qs worker/1.*exited events; do "
                  "sleep 0.02; done; echo peer is gone >&2; exit 1")
        job = self.job_file(argv=["sh", "-c", script], cwd=self.dir,
                            roles={"worker": {"count": 2, "ready": "started"}})
        with open(os.path.join(self.dir, "events"), "w") as file:
            run = self.start("--json", "--job", job, stdout=file).end()
        with open(os.path.join(self.dir, "events")) as file:
            end = json.loads(file.readlines()[-1])
        self.assertEqual((run.status, end["exit"], end["decided_by"], end["reason"]),
                         (1, 1, "worker/0", "exit"))
        self.assertRegex(end["text"], r"^worker/0 exited with 1, \d+\.\d s after worker/1 had exited with 0: "
                                      "peer is gone$")

    def test_128_and_the_signal_it_died_of(self):
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGUSR1):
            with self.subTest(number=number):
                run = self.shell(f"kill -{int(number)} $$")
                self.assertEqual(run.status, 128 + number)
                self.assertRegex(run.errors()[-1], r"^tfc_run: failed \(signal\): worker/0 ")

    def test_137_and_out_of_memory_when_the_kernel_killed_it_for_that(self):
        with harness.memory_group(96) as enter:
            run = self.run_local("--", sys.executable, "-c", "bytearray(400 << 20)",
                                 preexec_fn=enter)
        self.assertEqual(run.status, 137)
        self.assertEqual(run.errors()[-1], "tfc_run: failed (signal): worker/0 died of SIGKILL: "
                                           "it was out of memory")

    def test_memory_that_is_reserved_is_limited_where_the_kernel_can_and_else_said_once(self):
        eat = ["--", sys.executable, "-c", "bytearray(200 << 20)"]
        needed = self.run_local("--memory-limit", "100M", "--worker", "2", "--framework", "none", *eat)
        is_limited = needed.status == 137
        run = self.run_local("--memory", "100M", "--worker", "2", "--framework", "none", *eat)
        unlimited = [line for line in run.errors() if "memory is not limited to 104857600 bytes: " in line]
        if is_limited:
            for limited in (needed, run):
                self.assertRegex(limited.errors()[-1], r"^tfc_run: failed \(signal\): worker/[01] died of SIGKILL: it was "
                                                       r"out of memory: it used more than its memory_limit of 100 MiB")
            self.assertEqual((run.status, unlimited), (137, []))
        else:
            self.assertEqual(needed.status, 125)
            self.assertIn("cannot limit memory to 104857600 bytes: ", needed.errors()[-1])
            self.assertEqual((run.status, len(unlimited)), (0, 1), run.err)
            self.assertRegex(unlimited[0], r"^tfc_run: worker/[01]: .*; set memory_limit to false if ")
        run = self.run_local("--memory", "100M", "--memory-limit", "false", "--framework", "none", *eat)
        self.assertEqual((run.status, run.errors()), (0, ["tfc_run: succeeded"]))

    def test_137_when_it_was_killed_and_no_restart_is_left(self):
        run = self.shell("kill -9 $$", "--restart", "0")
        self.assertEqual(run.status, 137)
        self.assertIn("(signal)", run.errors()[-1])

    def attempts(self, script, *args, status):
        """How many attempts a script with that end has."""
        path = os.path.join(self.dir, "attempts")
        run = self.shell(f"echo x >>{path}; {script}", *args)
        self.assertEqual(run.status, status)
        with open(path) as file:
            count = len(file.readlines())
        os.unlink(path)
        return count

    def test_without_restarts_no_exit_status_is_restarted(self):
        for status in (42, 143, 137, 1):
            with self.subTest(status=status):
                self.assertEqual(self.attempts(f"exit {status}", "--restart", "0", status=status),
                                 1)

    def test_42_and_143_are_preemptions_only_of_tensorflow_that_was_ready(self):
        for status, attempts in ((42, 1), (143, 2)):  # permanent; SIGTERM
            with self.subTest(status=status, framework="none"):
                self.assertEqual(attempts, self.attempts(
                    f"exit {status}", "--framework", "none", "--restart", "1", status=status))
        for status in (42, 143):
            with self.subTest(status=status, ready=False):
                self.assertEqual(2, self.attempts(
                    f"exit {status}", "--restart", "1", status=status))

    def test_preemptions_are_charged_to_losses(self):
        # Without a strategy nothing has to listen: it is ready as soon as it runs.
        ready = "--strategy", "none", "--restart", "1"
        self.assertEqual(2, self.attempts("exit 42", *ready, "--losses", "1", status=42))
        # The third in a row that got nothing done is an ordinary failure.
        self.assertEqual(4, self.attempts("exit 42", *ready, status=42))

    def test_restarts_are_used_up_first(self):
        path = os.path.join(self.dir, "attempts")
        run = self.shell(f"echo x >>{path}; exit 9", "--restart", "1", "--restart-on", "failure")
        self.assertEqual(run.status, 9)
        with open(path) as file:
            self.assertEqual(file.read(), "x\nx\n")

    def test_124_at_the_deadline(self):
        run, end = self.end("--deadline", "0.3", "--grace", "1", "sleep", "60")
        self.assertEqual((run.status, end["reason"]), (124, "deadline"))

    def test_124_when_the_gang_never_gets_ready_and_says_what_for(self):
        run = self.run_local("--start-deadline", "0.3", "--grace", "1", "--chief", "--worker", "1",
                             "--", "sleep", "60")
        self.assertEqual(run.status, 124)
        self.assertRegex(run.errors()[-1], r"^tfc_run: failed \(deadline\).*(chief|worker)/0")

    def test_a_program_that_never_listens_counts_as_running(self):
        run = self.run_local("--json", "sh", "-c", "sleep 32; exit 7")
        told = [event["text"] for event in run.events()
                if event["event"] == "job" and event["state"] == "running"]
        self.assertEqual(len(told), 1)
        self.assertRegex(told[0], "^no task listens on its port 30 s after the start .*set framework to none$")
        self.assertEqual(run.status, 7)

    def test_127_when_the_program_is_missing(self):
        run, end = self.end("no-such-program-here")
        self.assertEqual((run.status, end["reason"]), (127, "not_found"))
        run = self.run_local("./no-such-program-here")
        self.assertEqual(run.status, 127)
        self.assertRegex(run.errors()[-1], r"\(not_found\).*no-such-program-here")

    def test_126_when_it_is_not_executable(self):
        path = self.write("plain.txt", "text\n")
        run, end = self.end(path)
        self.assertEqual((run.status, end["reason"]), (126, "not_executable"))
        self.assertRegex(self.run_local(path).errors()[-1], r"\(not_executable\).*plain\.txt")

    def test_125_when_the_pool_is_too_small_and_says_by_how_much(self):
        port = self.first_port
        run = self.run_local("--ports", f"{port}-{port + 1}", "--worker", "5", "true")
        self.assertEqual(run.status, 125)
        self.assertIn("3 ports are missing", run.errors()[-1])
        self.assertIn(f"{port} to {port + 1}", run.errors()[-1])

    def test_125_at_once_when_no_node_can_ever_have_what_it_needs(self):
        for args, sentence in (
                (["--gpus", "1000"], r"worker/0 needs 1000 GPUs; this node has (none|\d+)"),
                (["--label", "a=b"], 'worker/0 needs a node with label "a=b"; this node has no labels'),
                (["--upstream", "g"], r'unknown upstream "g": the node has no upstreams \(options upstream_map, upstream\)')):
            with self.subTest(args=args):
                run, end = self.end(*args, "true")
                self.assertEqual((run.status, end["reason"]), (125, "unschedulable"))
                self.assertRegex(end["text"], f"^{sentence}$")
                run = self.run_local(*args, "true")
                self.assertRegex(run.errors()[-1], rf"^tfc_run: failed \(unschedulable\): {sentence}$")
                self.assertEqual([line for line in run.errors()[:-1] if "this node offers no GPUs" not in line], [])

    def test_125_when_tf_config_gets_too_long(self):
        host = ".".join(["a" * 63] * 3)
        run = self.run_local("--ports", "28000-28999", "--host", host, "--worker", "700", "true")
        self.assertEqual(run.status, 125)
        self.assertRegex(run.errors()[-1], r"TF_CONFIG has \d+ bytes, more than the 131061")

    def test_125_when_the_log_directory_cannot_be_written(self):
        run = self.run_local("--log-dir", "/proc/no-such", "true")
        self.assertEqual(run.status, 125)
        self.assertEqual(len(run.errors()), 1)
        self.assertIn("/proc/no-such", run.errors()[0])

    def test_125_when_the_bundle_is_missing(self):
        run = self.run_local("--bundle", "nowhere", "true")
        self.assertEqual(run.status, 125)
        self.assertIn("nowhere", run.errors()[-1])

    def test_125_when_the_helper_programs_are_missing(self):
        run = self.run_local("true", env={"TFC_HELPER_DIR": self.dir})
        self.assertEqual(run.status, 125)
        self.assertIn(self.dir, run.errors()[-1])

    def test_125_when_standard_output_cannot_be_written(self):
        path = os.path.join(self.dir, "ran")
        with open("/dev/full", "w") as full:
            run = self.start("--", "sh", "-c", f"echo hi; sleep 0.1; echo x >{path}", stdout=full)
            run.end()
        self.assertEqual(run.status, 125)
        self.assertIn("tfc_run: cannot write to standard output: No space left on device", run.errors())
        self.assertTrue(os.path.exists(path))  # the job itself goes on

    def test_a_chief_decides_before_workers(self):
        run, end = self.end("--chief", "--worker", "1", "--strategy", "none", "--", "sh", "-c",
                            'test $TFC_TASK_TYPE = worker && exec sleep 60; exit 6')
        self.assertEqual((run.status, end["decided_by"]), (6, "chief/0"))


if __name__ == "__main__":
    harness.main()
