"""tfc_run start, attach, ps, describe, logs, spec, stop, rm: the clients of nodes, each node asked
about what the other has."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import harness
import node_test

MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"
COUNT = "i=0; while [ $i -lt %d ]; do echo line $i; i=$((i+1)); done"


class ClientsTest(node_test.NodeTest):
    names = "a"

    def setUp(self):
        super().setUp()
        self.write_members(self.names)
        self.nodes = {name: self.node(name) for name in self.names}
        for name in self.names:
            for other in self.names.replace(name, ""):
                self.await_state(self.nodes[name], other, "alive")

    def gateway(self, name):
        return ["--gateway", f"unix:{self.dir}/state-{name}/node.sock"]

    def begin(self, command, *args, at="a", **options):
        return self.start_bare(command, *self.gateway(at), *args, **options)

    def ask(self, command, *args, at="a"):
        return self.begin(command, *args, at=at).end()

    def start_job(self, script, *args, at="a"):
        """The id of a job that runs on its own."""
        run = self.ask("start", "--detach", "--framework", "none", *args, "--", "/bin/sh", "-c",
                       script, at=at)
        self.assertEqual((run.status, run.err), (0, b""))
        self.assertRegex(run.out.decode(), "^[0-9a-f]{16}\n$")
        return run.lines()[0]

    def await_ready(self, job, count=1):
        def ready():
            all_of_it = self.describe(job)
            ready = sum(task["state"] == "ready" for task in all_of_it["tasks"])
            return all_of_it["state"] == "running" and ready == count
        harness.wait_until(ready, "tasks that are ready")

    def describe(self, job, at="a"):
        run = self.ask("describe", job, "--json", at=at)
        self.assertEqual(run.status, 0, run.err)
        return json.loads(run.out)

    def assert_said(self, run, words, status=125):
        self.assertEqual(run.status, status, run.err)
        self.assertEqual(len(run.errors()), 1, run.err)
        self.assertRegex(run.errors()[0], "^tfc_run: .*" + words)


class CommandsTest(ClientsTest):
    def test_start_prints_the_id_and_ends_as_the_job_does(self):
        run = self.ask("start", "--framework", "none", "--", "/bin/sh", "-c",
                       "echo to out; echo to err >&2; exit 3")
        self.assertRegex(run.lines()[0], "^[0-9a-f]{16}$")
        self.assertEqual(run.lines()[1:], ["[worker/0] to out"])
        self.assertEqual(run.errors()[0], "[worker/0] to err")
        self.assertEqual(run.status, 3)
        # The last line quotes the reason and gives the command that shows the whole log.
        found = re.fullmatch(r'tfc_run: failed \(exit\): worker/0 exited with 3: to err; '
                             r'its log: "tfc_run (logs .*)"', run.errors()[-1])
        command, *task = found.group(1).split()
        self.assertEqual(self.ask(command, *task).errors(), ["[worker/0] to err"])

    def test_attach_replays_and_ends_as_the_job_did(self):
        job = self.start_job("echo one; echo two >&2; exit 7", "--name", "seven")
        for name in (job, job[:12], "seven"):
            run = self.ask("attach", name)
            self.assertEqual(run.status, 7)
            self.assertEqual(run.lines(), ["[worker/0] one"])
            self.assertEqual(run.errors()[0], "[worker/0] two")
            self.assertRegex(run.errors()[-1], r"failed \(exit\)")

    def test_json_has_the_id_all_events_and_the_end(self):
        run = self.ask("start", "--json", "--framework", "none", "--", "/bin/sh", "-c", "echo x")
        events = run.events()
        self.assertEqual((run.status, run.err), (0, b""))
        self.assertEqual(events[0]["event"], "submitted")
        self.assertEqual(events[-1]["event"], "end")
        self.assertEqual(events[-1]["job"], events[0]["job"])
        output = [event for event in events if event["event"] == "output"]
        self.assertEqual([event["text"] for event in output], ["x"])
        self.assertTrue(output[0]["cursor"])
        self.assertTrue(all("time" in event for event in events))

    def test_interrupt_only_detaches_and_says_how_to_stop(self):
        run = self.begin("start", "--framework", "none", "--", "/bin/sh", "-c",
                         "echo here; exec sleep 100")
        run.await_output("here")
        run.process.send_signal(signal.SIGINT)
        run.end()
        job = run.lines()[0]
        self.assertEqual(run.status, 0)
        self.assertIn(f'"tfc_run stop {job}"', run.err.decode())
        self.assertIn(self.describe(job)["state"], ("starting", "running"))
        run = self.begin("attach", job)
        run.await_output("here")
        run.process.send_signal(signal.SIGHUP)
        self.assertEqual(run.end().status, 128 + signal.SIGHUP)
        self.assertIn(self.describe(job)["state"], ("starting", "running"))
        self.assertEqual(self.ask("stop", job, "--wait").status, 0)
        self.assertEqual(self.describe(job)["state"], "stopped")

    def test_interrupt_may_stop_the_job(self):
        run = self.begin("start", "--stop-on-interrupt", "--framework", "none", "--", "/bin/sh",
                         "-c", "echo here; exec sleep 100")
        run.await_output("here")
        run.process.send_signal(signal.SIGINT)
        self.assertEqual(run.end().status, 130)
        self.assertEqual(self.describe(run.lines()[0])["state"], "stopped")
        job = self.start_job("echo here; exec sleep 100")
        follower, run = (self.begin("attach", *options, "--json", job) for options in ([], ["--stop-on-interrupt"]))
        for one in (follower, run):
            one.await_output("here")
        run.process.send_signal(signal.SIGINT)
        ends = [(one.end().status, one.events()[-1]["exit"]) for one in (run, follower)]
        self.assertEqual(ends, [(130, 130), (143, 143)])

    def test_a_closed_pipe_detaches(self):
        job = self.start_job("while :; do echo line; sleep 0.01; done")
        run = self.begin("attach", job)
        run.await_output("line")
        del run.fds[run.process.stdout.fileno()]
        run.process.stdout.close()
        run.end()
        self.assertEqual((run.status, run.err), (128 + signal.SIGPIPE, b""))
        self.assertIn(self.describe(job)["state"], ("starting", "running"))
        self.assertEqual(self.ask("stop", "--kill", "--wait", job).status, 0)

    def test_ps_lists_what_runs_and_all_when_requested(self):
        done = self.start_job("exit 0", "--name", "done")
        self.ask("attach", done)
        job = self.start_job("exec sleep 100", "--name", "long", "--worker", "2")
        self.await_ready(job, 2)
        lines = self.ask("ps").lines()
        self.assertEqual(lines[0].split(), "ID NAME STATE READY RESTARTS EXIT NODES AGE DURATION REASON".split())
        self.assertEqual(len(lines), 2)
        self.assertEqual(lines[1].split()[:7], [job, "long", "running", "2/2", "0", "-", "a"])
        for duration in lines[1].split()[7:9]:
            self.assertRegex(duration, "^[0-9]+s$")
        self.assertEqual([line.split()[0] for line in self.ask("ps", "--all").lines()[1:]],
                         [done, job])
        self.assertEqual([each["job"] for each in json.loads(self.ask("ps", "--json").out)], [job])
        self.ask("stop", "--kill", "--wait", job)

    def test_describe_shows_tasks_and_failures(self):
        job = self.start_job("[ $TFC_ATTEMPT = 2 ] || kill -9 $$; exec sleep 100", "--restart",
                             "5", "--stall", "7")
        harness.wait_until(lambda: self.describe(job)["tasks"][0]["attempt"] == 2,
                           "the second attempt")
        self.await_ready(job)
        text = self.ask("describe", job).out.decode()
        for pattern in (f"job +{job}", "state +running", r"maintainer +a \(epoch 1\)",
                        "worker/0 +a +- +[0-9]+ +2 +4 +7 s +- +ready\n",
                        rf"Last failures:\n  {MOMENT} worker/0#1 on a: worker/0 died of SIGKILL"):
            self.assertRegex(text, pattern)
        self.ask("stop", "--kill", "--wait", job)

    def test_describe_shows_the_memory_limit_and_whether_it_is_in_force(self):
        job = self.start_job("exec sleep 100", "--memory", "100M")
        self.await_ready(job)
        task = self.describe(job)["tasks"][0]
        self.assertEqual(task["memory_limit"], 100 << 20)
        is_limited = task["memory_is_limited"]
        if not is_limited:
            self.nodes[task["node"]].await_output("memory is not limited to 104857600 bytes: ", "err")
        text = self.ask("describe", job).out.decode()
        self.assertRegex(text, "worker/0 .* 100MiB" + ("" if is_limited else ", not enforced") + " +ready\n")
        self.ask("stop", "--kill", "--wait", job)

    def test_describe_shows_how_and_when_a_job_ended(self):
        job = self.start_job("exit 3", "--restart-on", "never")
        self.assertEqual(self.ask("attach", job).status, 3)
        text = self.ask("describe", job).out.decode()
        for pattern in ("state +failed\n", "exit status +3\n", f"submitted +{MOMENT}\n", f"started +{MOMENT}\n",
                        f"ended +{MOMENT}\n"):
            self.assertRegex(text, "(?m)^" + pattern)
        running = self.start_job("exec sleep 100")
        self.await_ready(running)
        text = self.ask("describe", running).out.decode()
        self.assertRegex(text, f"(?m)^started +{MOMENT}\n")
        self.assertNotRegex(text, "(?m)^(exit status|ended) ")
        self.ask("stop", "--kill", "--wait", running)

    def test_describe_shows_a_task_that_is_stopped(self):
        job = self.start_job("exec sleep 100")
        self.await_ready(job)
        os.kill(self.describe(job)["tasks"][0]["pid"], signal.SIGSTOP)
        harness.wait_until(lambda: self.describe(job)["tasks"][0].get("doing") ==
                           "stopped (SIGSTOP)", "a stopped task")
        self.assertIn("ready: stopped (SIGSTOP)", self.ask("describe", job).out.decode())
        os.kill(self.describe(job)["tasks"][0]["pid"], signal.SIGCONT)
        harness.wait_until(lambda: "doing" not in self.describe(job)["tasks"][0],
                           "a task that continues")
        self.ask("stop", "--kill", "--wait", job)

    def test_describe_blames_nobody_who_was_stopped(self):
        job = self.start_job("[ $TFC_ATTEMPT$TFC_TASK_INDEX != 11 ] || kill -9 $$; exec sleep 100",
                             "--worker", "2", "--scope", "group")
        harness.wait_until(lambda: self.describe(job)["generation"] == 2, "the next generation")
        self.await_ready(job, 2)
        states = [task["last_end"]["state"] for task in self.describe(job)["tasks"]]
        self.assertEqual(states, ["stopped", "failed"])
        text = self.ask("describe", job).out.decode()
        self.assertRegex(text, rf"Last failures:\n  {MOMENT} worker/1#1 on a: worker/1 died of SIGKILL")
        self.assertNotIn("worker/0#1", text)
        self.ask("stop", "--kill", "--wait", job)

    def test_paths_are_those_of_the_nodes(self):
        run = self.ask("start", "--detach", "--cwd", "/not/here", "--", "/bin/true")
        self.assertEqual(run.status, 0, run.err)
        run = self.ask("attach", run.lines()[0])
        self.assertEqual(run.status, 125)
        self.assertIn(b"/not/here", run.err)
        os.mkdir(os.path.join(self.dir, "sub"))
        for cwd, wanted in (([], ""), (["--cwd", "sub"], "/sub")):
            run = self.ask("start", "--no-prefix", *cwd, "--", "/bin/pwd")
            self.assertEqual((run.status, run.lines()[1:]), (0, [self.dir + wanted]), run.err)

    def test_spec_in_both_formats(self):
        job = self.start_job("exec sleep 100")
        self.await_ready(job)
        self.assert_said(self.ask("spec", job, "worker/0"), "the job's framework does not use TF_CONFIG")
        self.ask("stop", "--kill", "--wait", job)
        run = self.ask("start", "--detach", "--worker", "2", "--", "/bin/sh", "-c",
                       "exec sleep 100")
        job = run.lines()[0]
        harness.wait_until(lambda: self.ask("spec", job, "worker/1").status == 0, "a spec")
        config = json.loads(self.ask("spec", job, "worker/1").out)
        self.assertEqual(config["task"], {"type": "worker", "index": 1})
        env = self.ask("spec", job, "worker/1", "--format", "env").lines()
        self.assertEqual(json.loads(next(line for line in env if line.startswith("TF_CONFIG="))
                                    .split("=", 1)[1]), config)
        self.assertEqual(env[-2:], ["TFC_EPOCH=1", "TFC_GENERATION=1"])
        self.assert_said(self.ask("spec", job, "worker/9"), 'no task "worker/9"')
        self.assert_said(self.ask("spec", job, "worker/1", "--format", "yaml"),
                         "must be tf_config or env")
        self.ask("stop", "--kill", "--wait", job)

    def test_logs(self):
        job = self.start_job(COUNT % 20 + "; echo err >&2; [ $TFC_ATTEMPT = 2 ] || kill -9 $$; "
                             "exec sleep 100", "--worker", "2", "--scope", "task")
        self.await_ready(job, 2)
        harness.wait_until(lambda: all(task["attempt"] == 2
                                       for task in self.describe(job)["tasks"]), "attempts")
        harness.wait_until(lambda: {"[worker/0#2] err", "[worker/1#2] err"} <= set(self.ask("logs", job).errors()),
                           "all output")
        run = self.ask("logs", job)
        self.assertEqual(run.status, 0)
        self.assertEqual(len(run.lines()), 80)
        one = self.ask("logs", job, "worker/1", "--attempt", "2")
        self.assertEqual(one.lines(), [f"[worker/1#2] line {i}" for i in range(20)])
        tail = self.ask("logs", job, "worker/0", "--tail", "3")
        self.assertEqual(tail.lines(), [f"[worker/0#2] line {i}" for i in (18, 19)])
        self.assertEqual(tail.errors(), ["[worker/0#2] err"])
        events = self.ask("logs", "--json", job).events()
        self.assertEqual(len(events), 84)
        for i in (0, 17, 41, 83):
            rest = self.ask("logs", "--json", "--since", events[i]["cursor"], job).events()
            self.assertEqual(len(rest), 83 - i)
        self.assertEqual(len(self.ask("logs", job, "--since", "1h").lines()), 80)
        self.assertEqual(self.ask("logs", job, "--since", "0s").lines(), [])
        self.assertEqual(len(self.ask("logs", job, "--since", "3600000ms").lines()), 80)
        self.assertEqual(self.ask("logs", job, "--since", "0ms").lines(), [])
        self.assert_said(self.ask("logs", job, "--since", "yesterday"), "must be a duration")
        for more in ([], ["-f"]):
            self.assert_said(self.ask("logs", job, "worker/2", *more), f'{job} has no task "worker/2"')
            self.assert_said(self.ask("logs", job, "worker", *more),
                             f'{job} has no task "worker"; a task is type/index, such as worker/0')
        follow = self.begin("logs", "-f", "--tail", "1", job)
        follow.await_output(r"worker/0#2\] err", "err")
        self.ask("stop", "--kill", "--wait", job)
        self.assertEqual(follow.end().status, 0)

    def test_rm_forgets_what_has_ended(self):
        job = self.start_job("echo here; exec sleep 100")
        self.await_ready(job)
        self.assert_said(self.ask("rm", job), "has not ended|running|ended")
        self.ask("stop", "--kill", "--wait", job)
        self.assertTrue(os.path.isdir(os.path.join(self.dir, "state-a/logs", job)))
        self.assertEqual(self.ask("rm", job).status, 0)
        self.assert_said(self.ask("attach", job), f'job "{job}" not found')
        harness.wait_until(lambda: not os.path.exists(os.path.join(self.dir, "state-a/logs", job)),
                           "the removal of its logs")

    def test_a_name_that_two_running_jobs_have_is_ambiguous(self):
        jobs = [self.start_job("exec sleep 100", "--name", "twin") for _ in range(5)]
        self.assert_said(self.ask("stop", "twin"), 'job name "twin" is ambiguous: 5 jobs of this name have not ended; '
                                                   f"give an id: {', '.join(jobs[:3])} ...$")
        for job in jobs[1:]:
            self.ask("stop", "--kill", "--wait", job)
        self.assertEqual(self.describe("twin")["job"], jobs[0])

    def test_what_is_not_there(self):
        for command in (["attach"], ["describe"], ["logs"], ["stop"], ["rm"], ["spec"]):
            with self.subTest(command=command):
                words = ["nobody"] + (["worker/0"] if command == ["spec"] else [])
                self.assert_said(self.ask(*command, *words),
                                 'job "nobody" not found; "tfc_run ps --all" lists all jobs$')
        run = self.start_bare("ps", "--gateway", f"unix:{self.dir}/none").end()
        self.assert_said(run, 'unix:.*/none": no such socket')
        run = self.start_bare("start", "--gateway", f"tcp://127.0.0.1:{self.first_port + 9}",
                              "true").end()
        self.assert_said(run, f"tcp://127.0.0.1:{self.first_port + 9}.*refused")
        run = self.start_bare("ps", "--gateway", "carrier:pigeon").end()
        self.assert_said(run, "carrier:pigeon")

    def test_the_default_gateway_and_variables(self):
        self.env["TFC_GATEWAY"] = f"unix:{self.dir}/state-a/node.sock"
        self.assertEqual(self.run_bare("ps").status, 0)
        del self.env["TFC_GATEWAY"]
        if os.getuid() != 0:
            self.assert_said(self.run_bare("ps"), ".local/state/tfcluster/node.sock")

    def test_a_read_key_looks_and_does_not_act(self):
        self.run_bare("keygen", "read", "--role", "read")
        self.run_bare("keygen", "submit", "--role", "submit")
        with open(os.path.join(self.dir, "key"), "a") as keys:
            for name in ("read", "submit"):
                with open(os.path.join(self.dir, name)) as file:
                    keys.write(file.read())
        self.nodes["a"].process.terminate()
        self.nodes["a"].end()
        as_user = ["--submit-user", "root"] if os.getuid() == 0 else []
        self.nodes["a"] = self.node("a", *as_user)

        def ask(key, command, *args):
            return self.start_bare(command, "--gateway", self.address[0], "--key", key,
                                   *args).end()
        self.assertEqual(ask("read", "ps").status, 0)
        self.assert_said(ask("read", "start", "true"), "a read key has no permission to submit")
        run = ask("submit", "start", "--framework", "none", "--", "/bin/sh", "-c", "echo in")
        self.assertEqual((run.status, run.lines()[1:]), (0, ["[worker/0] in"]))
        job = run.lines()[0]
        self.assertEqual(ask("read", "attach", job).lines(), ["[worker/0] in"])
        self.assert_said(ask("read", "rm", job), "a read key has no permission to forget")
        self.assert_said(ask("read", "signal", job, "worker/0"), "a read key has no permission to signal")
        self.assert_said(ask("read", "stacks", job, "worker/0"), "a read key has no permission to stacks")
        self.assertEqual(ask("submit", "rm", job).status, 0)
        self.run_bare("keygen", "stranger", "--role", "submit")
        self.assertEqual(ask("stranger", "ps").status, 125)
        self.assert_said(ask("missing", "ps"), "missing")


class FullDiskTest(ClientsTest):
    names = "a"

    def setUp(self):
        self.disk = None
        super().setUp()

    def node(self, name, *args):
        state = os.path.join(self.dir, f"state-{name}")
        os.mkdir(state, 0o700)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", state],
                          stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("no file system can be mounted here")
        self.disk = state
        self.addCleanup(shutil.rmtree, self.dir)
        self.addCleanup(subprocess.run, ["umount", "-l", state], check=True)
        return super().node(name, *args)

    def test_lost_output_is_reported_though_the_same_disk_takes_no_events(self):
        job = self.start_job("while :; do echo line; sleep 0.02; done", "--restart", "0")
        runs = [self.begin("attach", job), self.begin("attach", job, "--json")]
        for run in runs:
            run.await_output("line")
        filler = os.path.join(self.disk, "filler")
        with open(filler, "wb", buffering=0) as file, self.assertRaisesRegex(OSError, "No space"):
            while True:
                file.write(bytes(4096))
        loss = r"worker/0 is losing its output: cannot write to .*/logs/.* on node a: No space left on device"
        wait = "cannot store the job's events: .*: No space left on device; they are reported once stored"
        runs[0].await_output(f"tfc_run: {wait}; {loss}\n", "err")
        runs[1].await_output(f'"event":"job".*{wait}; worker/0 is losing its output')
        self.begin("attach", job).await_output(f"tfc_run: {wait}; {loss}\n", "err")
        described = self.describe(job)
        self.assertRegex(described["text"], wait)
        self.assertRegex(described["tasks"][0]["doing"], loss.replace("worker/0 ", ""))
        os.unlink(filler)
        runs[0].await_output("tfc_run: the job's events are stored again\n(.*\n)*.*no longer loses its output", "err")
        self.assertLessEqual(runs[0].err.count(b"cannot store"), 2)  # again once output is lost, too
        self.ask("stop", "--kill", "--wait", job)
        self.assertEqual([run.end().status for run in runs], [143, 143])


class BoundTest(ClientsTest):
    """A node that lets in one connection with a key at a time."""

    def node(self, name, *args):
        self.run_bare("keygen", "submit", "--role", "submit")
        with open(os.path.join(self.dir, "key"), "a") as keys, \
                open(os.path.join(self.dir, "submit")) as file:
            keys.write(file.read())
        as_user = ["--submit-user", "root"] if os.getuid() == 0 else []
        return super().node(name, "--key-connections", "1", *as_user, *args)

    def follow(self, *args):
        return self.start_bare(*args, "--gateway", self.address[0], "--key", "submit", self.job)

    def test_who_waits_for_a_place_says_so_once(self):
        self.job = self.start_job("echo here; exec sleep 600")
        for args in (["attach"], ["attach", "--json"], ["logs", "-f"]):
            with self.subTest(args=args):
                first = self.follow("attach")
                first.await_output("here")
                second = self.follow(*args)
                second.await_output(
                    f"tfc_run: cannot follow job {self.job}; retrying for 300 s at most: "
                    "too many connections with key [0-9a-f]{16} \\(1, the limit for one key\\); "
                    "try again later, or raise key_connections of the node\n", "err")
                self.assertEqual([event["event"] for event in second.events()],
                                 ["reconnecting"] if "--json" in args else [])
                first.process.terminate()
                first.end()
                second.await_output("here")
                second.process.terminate()
                self.assertEqual(second.end().err.count(b"cannot follow"), 1)


class TwoNodesTest(ClientsTest):
    names = "ab"

    def node(self, name, *args):
        return super().node(name, "--label", f"where={name}", *args)

    def test_a_node_where_attempts_fail_is_avoided_aloud(self):
        for _ in range(3):
            job = self.start_job("exit 1", "--label", "where=b", "--restart-on", "never")
            self.assertEqual(self.ask("attach", job).status, 1)
        self.nodes["a"].await_output(f"tfc_run: {job}: node b cools down for (300|299) s after ",
                                     "err")
        for _ in range(2):
            job = self.start_job("exec sleep 100")
            self.await_ready(job)
            self.assertEqual(self.describe(job)["tasks"][0]["node"], "a")
            self.ask("stop", "--kill", "--wait", job)

    def test_attempts_that_were_interrupted_are_not_their_nodes_fault(self):
        for _ in range(4):
            run = self.begin("start", "--stop-on-interrupt", "--framework", "none", "--label",
                             "where=b", "--", "/bin/sh", "-c", "echo here; exec sleep 100")
            run.await_output("here")
            run.process.send_signal(signal.SIGINT)
            self.assertEqual(run.end().status, 130)
        job = self.start_job("exec sleep 100", "--worker", "2")
        self.await_ready(job, 2)
        self.assertEqual({task["node"] for task in self.describe(job)["tasks"]}, {"a", "b"})

    def test_a_name_as_long_as_an_id_is_looked_for_on_all_nodes(self):
        """The latest job of a name is meant, wherever it is."""
        for at in "ab":
            job = self.start_job(f"echo by {at}", "--name", "sixteen-letters!", at=at)
            self.assertEqual(self.ask("attach", job).status, 0)
        self.assertEqual(self.describe("sixteen-letters!")["job"], job)
        self.assertEqual(self.ask("attach", "sixteen-letters!").out, b"[worker/0] by b\n")

    def test_each_node_knows_what_the_other_has(self):
        job = self.start_job("echo here; exec sleep 100", "--name", "ours")
        self.await_ready(job)
        other = self.start_job("exit 0", at="b")
        self.ask("attach", other, at="b")
        for at in "ab":
            lines = self.ask("ps", "--all", at=at).lines()
            self.assertEqual({line.split()[0] for line in lines[1:]}, {job, other})
            self.assertEqual(self.describe("ours", at=at)["job"], job)
            self.assertEqual(self.ask("logs", job[:10], at=at).lines(), ["[worker/0] here"])
        run = self.begin("attach", "ours", at="b")
        run.await_output("here")
        self.assertEqual(self.ask("stop", job, at="b").status, 0)
        self.assertEqual(run.end().status, 143)
        self.assert_said(self.ask("attach", "nobody", at="b"), 'job "nobody" not found')
        self.assertEqual(self.ask("rm", "ours", at="b").status, 0)
        self.assert_said(self.ask("describe", job), "not found")

    def test_a_prefix_that_fits_on_jobs_of_both_nodes_is_refused_with_their_ids(self):
        jobs = {"a": [], "b": []}

        def find_pair():
            for at in "ab":
                jobs[at].append(self.start_job("exec sleep 100", "--label", f"where={at}", at=at))
            return [(one, other) for one in jobs["a"] for other in jobs["b"] if one[0] == other[0]]
        one, other = harness.wait_until(find_pair, "two ids that begin alike")[0]
        fitting = [job for job in jobs["a"] + jobs["b"] if job[0] == one[0]]
        for command in (["attach"], ["logs"], ["describe"], ["stop"], ["rm"]):
            for at in "ab":
                with self.subTest(command=command, at=at):
                    run = self.ask(*command, one[0], at=at)
                    self.assert_said(run, f'job id "{one[0]}" is ambiguous: {len(fitting)} job ids begin with it; '
                                          "give more of the id: ")
                    for job, node in ((one, "a"), (other, "b")):
                        self.assertRegex(run.errors()[0], f"{job}.* on {node}")
        for at in "ab":
            for job in jobs[at]:
                self.assertEqual(self.ask("stop", "--kill", "--wait", job).status, 0)

    def test_a_name_that_two_running_jobs_have_is_ambiguous_wherever_they_are(self):
        first = self.start_job("echo first; exec sleep 100", "--name", "twin", at="a")
        self.await_ready(first)
        for at in "ab":
            second = self.start_job("exec sleep 100", "--name", "twin", at=at)
            for asked in "ab":
                for command in (["attach"], ["logs"], ["describe"], ["stop"], ["rm"], ["spec"]):
                    with self.subTest(command=command, at=at, asked=asked):
                        run = self.ask(*command, "twin", *(["worker/0"] if command == ["spec"] else []), at=asked)
                        self.assert_said(run, 'job name "twin" is ambiguous: 2 jobs of this name have not ended; '
                                              "give an id: ")
                        for job in (first, second):
                            self.assertIn(job, run.errors()[0])
            self.assertEqual(self.ask("stop", "--kill", "--wait", second).status, 0)

    def test_an_ended_job_does_not_hide_a_running_one_of_its_name(self):
        for where in "ab":
            running = self.start_job("echo it; exec sleep 100", "--name", "twin", at=where)
            self.await_ready(running)
            ended = [self.start_job("exit 0", "--name", "twin", at=at) for at in "ba"]
            for job in ended:
                self.ask("attach", job)
            for asked in "ab":
                with self.subTest(where=where, asked=asked):
                    self.assertEqual(self.describe("twin", at=asked)["job"], running)
                    self.assertEqual(self.ask("logs", "twin", at=asked).lines(), ["[worker/0] it"])
                    self.assert_said(self.ask("rm", "twin", at=asked), f"job {running} has not ended; stop it first$")
                    run = self.begin("attach", "twin", "--json", at=asked)
                    run.await_output(f'"event":"job","job":"{running}"')
                    run.await_output('"text":"it"')
                    run.process.send_signal(signal.SIGINT)
                    run.end()
            run = self.ask("stop", "--kill", "--wait", "twin", at="a" if where == "b" else "b")
            self.assertEqual((run.status, run.lines(), run.errors()), (0, [running], []))
            run = self.ask("stop", "twin", at=where)
            self.assertEqual((run.status, run.errors()), (0, [f"tfc_run: job {ended[1]} has ended"]))

    def start_twins(self):
        """An ended job on b, and one of the same name on a that ends with 3 on request."""
        ended = self.start_job("exit 0", "--name", "twin", "--label", "where=b", at="b")
        self.assertEqual(self.ask("attach", ended, at="b").status, 0)
        running = self.start_job("echo it; while [ ! -e go ]; do sleep 0.1; done; exit 3", "--name", "twin", "--cwd",
                                 self.dir, "--label", "where=a")
        self.await_ready(running)
        return ended, running

    def kill_first_node(self):
        self.nodes["a"].process.kill()
        self.nodes["a"].end()
        self.await_state(self.nodes["b"], "a", "down")

    def end_twin(self, running):
        self.write("go", "")
        self.nodes["a"] = self.node("a")
        self.assertEqual(self.ask("attach", running).status, 3)

    def test_attach_by_name_stays_with_its_job_when_another_node_answers(self):
        ended, running = self.start_twins()
        both = ",".join(self.gateway(at)[1] for at in "ab")
        runs = [self.start_bare(*command, "--gateway", both, "twin") for command in (["attach"], ["logs", "-f"])]
        for run in runs:
            run.await_output("it\n")
        self.kill_first_node()
        for run in runs:
            run.await_output("cannot follow job", "err")
        self.end_twin(running)
        self.assertEqual([run.end().status for run in runs], [3, 0])
        self.assertEqual([run.lines()[-1] for run in runs], ["[worker/0#2] it"] * 2)

    def test_a_name_with_only_ended_jobs_is_ambiguous_while_a_node_is_unreachable(self):
        ended, running = self.start_twins()
        self.kill_first_node()
        for command in (["stop"], ["rm"], ["attach"], ["logs"], ["describe"], ["spec"]):
            with self.subTest(command=command):
                run = self.ask(*command, "twin", *(["worker/0"] if command == ["spec"] else []), at="b")
                self.assert_said(run, r'job name "twin" is ambiguous: unreachable nodes \(a\) may have a job of this '
                                      "name that has not ended; give an id; the latest known job of this name is "
                                      f"{ended} on b, and has ended$")
        self.assertEqual(self.describe(ended, at="b")["state"], "succeeded")
        self.assertEqual(self.ask("stop", ended, at="b").status, 0)
        self.end_twin(running)

    def test_the_end_has_the_last_lines_of_the_task_that_decided_wherever_it_ran(self):
        for where in "ab":
            for status in (0, 4):
                with self.subTest(where=where, status=status):
                    run = self.ask("start", "--json", "--framework", "none", "--label",
                                   f"where={where}", "--restart", "0", "--", "/bin/sh", "-c",
                                   f"echo one; echo two; exit {status}")
                    end = run.events()[-1]
                    self.assertEqual((end["event"], end["exit"], end["log_tail"]),
                                     ("end", status, ["one", "two"]))

    def test_a_job_whose_record_is_damaged_is_named_on_all_nodes(self):
        job, whole = self.start_job("exit 0"), self.start_job("exit 0")
        for each in (job, whole):
            self.ask("attach", each)
        self.nodes["a"].process.terminate()
        self.nodes["a"].end()
        os.truncate(os.path.join(self.dir, f"state-a/store/records/jobs/{job}/record"), 70)
        self.nodes["a"] = self.node("a")
        self.await_state(self.nodes["b"], "a", "alive")
        said = (f"cannot read job {job}, whose files stay unchanged: jobs/{job}/record in the store of "
                "node a: it is damaged")
        self.nodes["a"].await_output(said, "err")
        for at in "ab":
            for command in (["attach"], ["describe"], ["logs"], ["stop"]):
                with self.subTest(command=command, at=at):
                    self.assert_said(self.ask(*command, job, at=at), said)
            self.assert_said(self.ask("describe", job[:12], at=at), said)
            run = self.ask("ps", "--all", at=at)
            self.assertEqual((run.status, run.errors()), (0, []))
            self.assertEqual({tuple(line.split()[:3:2]) for line in run.lines()[1:]},
                             {(job, "damaged"), (whole, "succeeded")})
            self.assertIn(f"  {said}\n", run.out.decode())
        run = self.ask("rm", job, at="b")
        self.assertEqual((run.status, run.errors()), (0, []))
        run = self.ask("ps", "--all", at="b")
        self.assertEqual([line.split()[0] for line in run.lines()[1:]], [whole])
        self.assertFalse(os.path.exists(
            os.path.join(self.dir, f"state-a/store/records/jobs/{job}")))

    def test_output_of_all_nodes_is_replayed(self):
        job = self.start_job(COUNT % 50, "--worker", "4")
        live = self.ask("attach", job, at="b")
        self.assertEqual({task["node"] for task in self.describe(job)["tasks"]}, {"a", "b"})
        for at in "ab":
            late = self.ask("attach", job, at=at)
            self.assertEqual((live.status, late.status), (0, 0))
            self.assertEqual(sorted(live.lines()), sorted(late.lines()))
            self.assertEqual(len(late.lines()), 200)
            self.assertEqual(late.errors(), ["tfc_run: succeeded"])
        events = self.ask("logs", "--json", job, at="b").events()
        for i in (3, 77, 150):
            rest = self.ask("logs", "--json", "--since", events[i]["cursor"], job).events()
            self.assertEqual(len(rest), 199 - i)

    def test_what_a_lost_node_kept_is_read_when_it_is_back(self):
        quick = ["--lease", "1", "--probe", "0.1", "--suspect", "0.3", "--down", "0.6"]
        for name in self.names:
            self.nodes[name].process.terminate()
            self.nodes[name].end()
        self.nodes = {name: self.node(name, *quick) for name in self.names}
        self.await_state(self.nodes["a"], "b", "alive")
        job = self.start_job("echo attempt $TFC_ATTEMPT; exec sleep 100", "--worker", "2",
                             "--scope", "task", "--restart-on", "failure")
        self.await_ready(job, 2)
        tasks = self.describe(job)["tasks"]
        moved = next(task["task"] for task in tasks if task["node"] == "b")
        live = self.begin("attach", job)
        live.await_output(rf"\[{moved}\] attempt 1")
        self.nodes["b"].process.kill()
        self.nodes["b"].end()
        live.await_output(rf"\[{moved}#2\] attempt 2")
        late = self.begin("attach", job)
        late.await_output(rf"\[{moved}#2\] attempt 2")
        self.assertNotIn(f"[{moved}] attempt 1", late.lines())
        late.await_output(f"{moved}: missing output: it is on node b", "err")
        self.nodes["b"] = self.node("b", *quick)
        late.await_output(rf"\[{moved}\] attempt 1")
        self.ask("stop", "--kill", "--wait", job)
        live.end()
        late.end()
        whole = self.ask("attach", job)
        both = [f"[{moved}] attempt 1", f"[{moved}#2] attempt 2"]
        for run, lines in ((live, both), (late, both[::-1]), (whole, both)):
            self.assertEqual([line for line in run.lines() if line.startswith(f"[{moved}")], lines)

    def test_the_replay_of_an_ended_job_does_not_wait_for_an_unreachable_node(self):
        job = self.start_job("echo here", "--label", "where=b")
        self.assertEqual(self.ask("attach", job).status, 0)
        self.nodes["b"].process.kill()
        self.nodes["b"].end()
        self.await_state(self.nodes["a"], "b", "down")
        said = ["tfc_run: worker/0: missing output: it is on node b, which is unreachable"]
        self.assertEqual(self.ask("logs", job).errors(), said)  # it has just ended: the node may return at once
        begun = time.monotonic()
        self.assertEqual(self.ask("logs", job).errors(), said)
        self.assertEqual(self.ask("attach", job).errors(), [*said, "tfc_run: succeeded"])
        self.assertLess(time.monotonic() - begun, 8)

    def test_a_lost_maintainer_ends_the_jobs_that_run_here_and_no_others(self):
        for name in self.names:
            self.nodes[name].process.terminate()
            self.nodes[name].end()
        self.nodes = {name: self.node(name, "--lease", "1") for name in self.names}
        self.await_state(self.nodes["a"], "b", "alive")
        for _ in range(3):
            ended = self.start_job("exit 0", "--label", "where=b")
            self.assertEqual(self.ask("attach", ended).status, 0)
        self.await_ready(self.start_job("exec sleep 100", "--label", "where=b"))
        self.nodes["a"].process.kill()
        self.nodes["a"].end()
        self.nodes["b"].await_output("the maintainer on node a is unreachable; stopping the tasks of 1 of its jobs",
                                     "err")

    def test_a_removed_job_leaves_nothing_on_its_node_that_had_no_room_for_it(self):
        for name in self.names:
            self.nodes[name].process.terminate()
            self.nodes[name].end()
        self.nodes = {name: self.node(name, "--slots", "1") for name in self.names}
        self.await_state(self.nodes["b"], "a", "alive")
        running = self.start_job("exec sleep 100", "--label", "where=a", at="b")
        self.await_ready(running)
        job = self.start_job("exec sleep 100", "--label", "where=a")
        harness.wait_until(lambda: job in os.listdir(f"{self.dir}/state-a/logs"), "the node opens the job")
        self.assertEqual(self.ask("stop", job, "--wait").status, 0)
        self.assertEqual(self.ask("rm", job).status, 0)
        harness.wait_until(lambda: os.listdir(f"{self.dir}/state-a/logs") == [running], "its directory is removed",
                           patience=10)

    def test_attach_goes_on_after_its_gateway_was_killed(self):
        lines = 3000
        job = self.start_job("i=0; while [ $i -lt %d ]; do echo $i; i=$((i+1)); "
                             "[ $((i %% 100)) = 0 ] && sleep 0.05; done" % lines,
                             "--label", "where=a")
        run = self.begin("attach", "--no-prefix", "--quiet", job, at="b")
        for count in (500, 1500):
            run.await_output(f"\n{count}\n")
            self.nodes["b"].process.kill()
            self.nodes["b"].end()
            self.nodes["b"] = self.node("b")
        self.assertEqual(run.end().status, 0, run.err)
        self.assertEqual([line for line in run.lines() if re.match("[0-9]+$", line)],
                         [str(i) for i in range(lines)])


if __name__ == "__main__":
    harness.main()
