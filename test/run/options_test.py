"""Options: help, version, and one clear sentence for each way to get them wrong."""
import json
import os
import re
import socket

import harness

BAD = [
    ([], 'command missing; "tfc_run --help" lists all commands'),
    (["lcoal"], 'unknown command "lcoal"; did you mean local?'),
    (["frobnicate"],
     'unknown command "frobnicate"; "tfc_run --help" lists all commands'),
    *(([word], f'unknown command "{word}"; did you mean {meant}?')
      for word, meant in (("kill", "stop (a job) or signal (a task)"), ("list", "ps"), ("submit", "start"),
                          ("run", "local"), ("stpo", "stop"))),
    (["-V"], 'unknown option "-V"; did you mean --version?'),
    (["help", "lcoal"], 'unknown command "lcoal"; did you mean local?'),
    (["stop", "--all"], 'unknown option "--all"; "tfc_run stop $(tfc_run ps -q)" stops all jobs'),
    (["rm", "--all"], 'unknown option "--all"; "tfc_run rm --help" lists all options'),
    (["local", "--detach", "true"],
     'unknown option "--detach"; "tfc_run start --detach" runs a job on a node, in the background'),
    *(([command, "--role", "data=2:cat", "true"],
       'unknown option "--role"; a job file (--job) has roles with programs of their own')
      for command in ("local", "start")),
    *((["local", flag, "2", "true"], f'{flag} takes no value; remove "2"') for flag in ("--chief", "--evaluator")),
    (["local", "--on-failure", "wroker=ignore", "true"],
     '--on-failure wroker=ignore: the job has no role "wroker"; did you mean worker?'),
    (["local", "--env", "A =1", "true"], "env.A : the name of a variable must not contain blanks"),
    (["local", "--env", "TF_CONFIG={}", "true"],
     "env.TF_CONFIG: the library sets this variable for each task; remove it, or give it another name"),
    (["local", "--wroker", "2"], 'unknown option "--wroker"; did you mean --worker?'),
    (["local", "--deadlin=2"], 'unknown option "--deadlin"; did you mean --deadline?'),
    (["local", "-json"], 'unknown option "-json"; did you mean --json?'),
    (["local", "--zzzzzz"], 'unknown option "--zzzzzz"; "tfc_run local --help" lists all options'),
    (["local", "--placement=stack", "true"],
     '--placement stack: placement.policy: must be spread, pack or upstream, not "stack"'),
    (["local", "--label", "a", "true"],
     '--label a: placement.labels[]: must be NAME=value, not "a"'),
    (["local", "--gpus", "-1", "true"],
     "--gpus -1: roles.worker.gpus: must be a whole number from 0 to 1024, not -1"),
    (["local", "--spares", "1", "true"], "--spares is not supported by this version"),
    (["local", "--preload", "os", "true"], "--preload is not supported by this version"),
    (["local"], "program missing; usage: tfc_run local [OPTIONS] [--] PROGRAM [ARG...]"),
    (["local", "--"], "program missing; usage: tfc_run local [OPTIONS] [--] PROGRAM [ARG...]"),
    (["local", "--worker"], "--worker needs a value: N"),
    (["local", "--tensorboard", "--", "true"], "--tensorboard needs a value: DIR"),
    (["local", "--name", "--worker", "2", "true"], "--name needs a value: S"),
    (["local", "job.json"], '"job.json" is not a program; "--job job.json" runs a job file'),
    (["describe"], "job missing; usage: tfc_run describe [--gateway G] JOB [--json]"),
    (["spec", "digits"], "task missing; usage: tfc_run spec [--gateway G] JOB TASK [--format tf_config|env]"),
    (["rm"], "job missing; usage: tfc_run rm [--gateway G] JOB..."),
    (["drain"], "node missing; usage: tfc_run drain [--gateway G] NODE [--off]"),
    (["keygen"], "file missing; usage: tfc_run keygen FILE [--role node|submit|read]"),
    (["local", "--chief=1", "true"], "--chief takes no value"),
    (["local", "--worker", "two", "true"],
     '--worker two: roles.worker.count: must be a whole number from 0 to 100000, not "two"'),
    (["local", "--worker", "-1", "true"],
     "--worker -1: roles.worker.count: must be a whole number from 0 to 100000, not -1"),
    (["local", "--grace", "soon", "true"],
     '--grace soon: grace_s: must be a number of seconds from 0 to 1000000000, not "soon"'),
    (["local", "--restart-on", "x", "true"],
     '--restart-on x: restart.on: must be retryable, failure or never, not "x"'),
    (["local", "--strategy", "both", "true"],
     '--strategy both: strategy: must be auto, multi_worker_mirrored, parameter_server or none, '
     'not "both"'),
    (["local", "--color", "red", "true"], "--color red: must be auto, always or never"),
    (["local", "--ports", "20000", "true"],
     "--ports 20000: must be a range LO-HI, such as 20000-29999"),
    (["local", "--ports", "20010-20000", "true"], "--ports 20010-20000: the range is reversed"),
    (["local", "--ports", "0-9", "true"], "--ports 0-9: the lowest port is 1"),
    (["local", "--ports", "65000-65536", "true"], "--ports 65000-65536: the highest port is 65535"),
    (["local", "--host", "", "true"], "--host: must not be empty"),
    (["local", "--host", "a:1", "true"],
     'host "a:1" is not a host name or address; write it without a scheme, brackets or a port'),

    (["local", "--env", "TFC_NO_SUCH", "true"],
     "--env TFC_NO_SUCH: not set in the environment"),
    (["local", "true", "--port={prot}"],
     "argv[1]: unknown placeholder {prot}; did you mean {port}?"),
    (["local", "--env", "DATA={data_hosts}", "true"],
     'env.DATA: unknown placeholder {data_hosts}; the job has no role "data"'),
    (["local", "--topology", "partial", "true"],
     "topology: partial is for the parameter_server strategy only; with others, each worker "
     "connects to all workers"),
    (["local", "--isolation", "none", "true"],
     '--isolation none: isolation: must be auto, plain, cgroup or pidns, not "none"'),
    (["local", "--abort-grace", "soon", "true"],
     '--abort-grace soon: abort_grace_s: must be "auto" or a number of seconds from 0 to '
     '1000000000, not "soon"'),
    (["local", "--cpus", "-1", "true"], "--cpus -1: roles.worker.cpus: must be a number from 0 to 100000, not -1"),
    (["local", "--cpus", "0.001", "true"], "roles.worker.cpus: must be 0 or at least 0.01"),
    (["local", "--memory", "1000000T", "true"],
     "--memory 1000000T: roles.worker.memory: must be a whole number from 0 to 1000000000000000000, "
     "not 1099511627776000000"),
    *((["local", *role, "--memory", value, "true"],
       f"--memory {value}: must be a number of bytes, which may end in K, M, G or T (powers of 1024), such as 8G")
      for role, value in (([], "8GB"), (["--chief"], "-1"), ([], "8X"), ([], "99999999T"), ([], "8 G"))),
    (["local", "--gpus", "2x", "true"],
     '--gpus 2x: roles.worker.gpus: must be a whole number from 0 to 1024, not "2x"'),
    (["local", "true", "{_hosts}"],
     "argv[1]: unknown placeholder {_hosts}; the name of a role must precede _hosts, as in {worker_hosts}"),
    (["local", "--memory-limit", "none", "true"],
     '--memory-limit none: roles.worker.memory_limit: must be "auto", false or a whole number from 1 to '
     '1000000000000000000, not "none"'),
    (["local", "--secret-env", "A=b", "true"],
     "--secret-env: must be a name; the value comes from the environment"),
    (["local", "--secret-env", "TFC_NO_SUCH", "true"],
     "--secret-env TFC_NO_SUCH: not set in the environment"),
    (["local", "--cwd", "/no/such", "true"],
     'cwd: cannot enter directory "/no/such": No such file or directory'),
    (["local", "--cwd", "/etc/passwd", "true"],
     'cwd: cannot enter directory "/etc/passwd": Not a directory'),
    (["local", "--log-dir", "/etc/passwd", "true"], "cannot open log directory \"/etc/passwd\": Not a directory"),
    (["logs", "--tail", "0", "job"], "--tail 0: must be at least 1"),
    (["logs", "--attempt", "0", "job"], "--attempt 0: must be at least 1"),
    (["--versoin"], 'unknown option "--versoin"; did you mean --version?'),
    (["--worker", "2", "true"],
     '"--worker" is not a command; write a command first, as in "tfc_run local --worker"'),
    (["local", "--worker", "0", "true"],
     "roles.worker.count: 0 workers and no chief; there is nothing to run"),
    (["local", "--ps", "1", "true"], "roles.ps: a ps needs workers; add the role worker"),
    (["local", "--strategy", "multi_worker_mirrored", "--worker", "1", "--ps", "1", "true"],
     "strategy: multi_worker_mirrored has no ps; remove the role ps, or use parameter_server"),
    (["local", "--framework", "pytorch", "--worker", "1", "--ps", "1", "true"],
     "roles.ps: pytorch has no ps; make it a worker, or a sidecar of another name"),
    (["local", "--worker", '{"min": 2, "max": 4}', "true"],
     '--worker {"min": 2, "max": 4}: roles.worker.count: a range is reserved for a later version; '
     'give one number from 2 to 4'),
    (["local", "--job", "/no/such.json"], "/no/such.json: No such file or directory"),
]


class OptionsTest(harness.RunTest):
    def test_each_mistake_gets_its_sentence_and_125(self):
        for args, sentence in BAD:
            with self.subTest(args=args):
                self.assert_refused(self.run_bare(*args), sentence)

    def test_help_lists_the_commands_of_this_version(self):
        run = self.run_bare("--help")
        self.assertEqual(run.status, 0)
        self.assertRegex(run.out, rb"\n  local +run a job")
        self.assertRegex(run.out, rb"\n  node +be a node")

    def test_help_of_a_command(self):
        self.assertEqual(self.run_bare("help").out, self.run_bare("--help").out)
        self.assertEqual(self.run_bare("help", "ps").out, self.run_bare("ps", "--help").out)

    def test_a_command_without_a_node_says_so(self):
        run = self.run_bare("ps", "--gateway", f"unix:{self.dir}/no.sock")
        self.assert_refused(run, f'cannot reach a gateway: cannot connect to "unix:{self.dir}/no.sock": no such '
                            'socket; no node runs here: start one with "tfc_run node", or name a node with '
                            '--gateway; jobs of "tfc_run local" have no node and are not listed')

    def test_a_wrong_address_and_a_dead_node_are_told_apart(self):
        with socket.socket() as other, socket.socket() as free:
            for one in other, free:
                one.bind(("127.0.0.1", 0))
            other.listen()
            here, nobody = (f"tcp://127.0.0.1:{one.getsockname()[1]}" for one in (other, free))
            run = self.run_bare("ps", "--gateway", nobody)
            self.assert_refused(run, f'cannot reach a gateway: cannot connect to "{nobody}": Connection refused (no node '
                                'listens on this port: start the node, or correct the address)')
            client = harness.Run(["ps", "--gateway", here], self.env, self.dir)
            self.runs.append(client)
            connection = other.accept()[0]
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            self.assert_refused(client.end(), f"cannot reach a gateway: {here}: the peer does not speak the libtfcluster "
                                "protocol (another program listens on this port: correct the address)")
            connection.close()

    def test_an_option_behind_the_program_is_passed_on_with_a_hint(self):
        hint = ('tfc_run: "--worker" follows the program and is passed to it; an option of tfc_run precedes the '
                'program ("--" before the program hides this hint)\n').encode()
        options = "--framework", "none", "--no-prefix"
        for args, wanted in (
                (["echo", "--worker", "2"], hint), (["echo", "--worker=2"], hint),
                (["--", "echo", "--worker", "2"], b""), (["echo", "--workers", "--worker_id"], b""),
                (["--quiet", "echo", "--worker", "2"], b"")):
            with self.subTest(args=args):
                run = self.run_local(*options, *args)
                self.assertEqual((run.status, run.out.split()), (0, " ".join(args).split("echo ")[1].encode().split()))
                self.assertEqual(hint if hint in run.err else b"", wanted)

    def test_help_of_local_lists_each_option_once(self):
        run = self.run_bare("local", "--help")
        self.assertEqual((run.status, run.err), (0, b""))
        for name in ("job name chief worker ps evaluator tensorboard driver strategy framework env "
                     "secret-env cwd bundle python restart restart-window losses restart-on scope "
                     "grace abort-grace topology isolation memory memory-limit cpus start-deadline deadline ports host log-dir timestamps no-prefix color quiet "
                     "json").split():
            self.assertEqual(run.out.count(b"\n  --%s " % name.encode()), 1, name)

    def test_help_wins_wherever_it_stands(self):
        run = self.run_bare("local", "--worker", "2", "--help")
        self.assertEqual(run.status, 0)
        self.assertIn(b"usage: tfc_run local", run.out)

    def test_version(self):
        run = self.run_bare("--version")
        self.assertEqual(run.status, 0)
        self.assertRegex(run.out, rb"^tfc_run \d+\.\d+\.\d+\n$")
        version = run.out
        commands = re.findall(r"\n  ([a-z]+)  ", self.run_bare("--help").out.decode())
        self.assertEqual(len(commands), 17)
        for command in commands:
            with self.subTest(command=command):
                run = self.run_bare(command, "--version")
                self.assertEqual((run.status, run.out, run.err), (0, version, b""))
                run = self.run_bare(command, "--help")
                self.assertEqual((run.status, run.err), (0, b""))
                self.assertIn(b"usage: tfc_run " + command.encode(), run.out)
                self.assertEqual(run.out.count(b"\n  --version  "), 1)
                self.assertLessEqual(max(map(len, run.lines())), 100)

    def test_job_file_errors_name_file_line_and_key(self):
        path = self.write("job.json", '{\n"argv": ["true"],\n"roles": {"worker": {"cuont": 2}}\n}')
        self.assert_refused(self.run_local("--job", path),
                            f"{path}:3: roles.worker.cuont: unknown key; did you mean count?")

    def test_a_mistyped_role_is_refused(self):
        path = self.job_file(argv=["true"], roles={"chief": {}, "wroker": {}})
        self.assert_refused(self.run_local("--job", path),
                            f'{path}:1: roles.wroker: unknown role; did you mean worker? '
                            'a sidecar needs "sidecar": true')

    def test_two_chiefs_are_refused(self):
        path = self.job_file(argv=["true"], roles={"chief": {"count": 2}, "worker": {}})
        run = self.run_local("--job", path)
        self.assertRegex(run.err, rb"^tfc_run: .*: a job has at most one chief, not 2\n$")
        self.assertEqual(run.status, 125)

    def test_a_role_without_its_directory_is_refused(self):
        path = self.job_file(argv=["true"], roles={"worker": {"cwd": "/no/such"}})
        self.assert_refused(
            self.run_local("--job", path),
            'roles.worker.cwd: cannot enter directory "/no/such": No such file or directory')


class JobTest(harness.RunTest):
    """What reaches the tasks."""

    def tasks(self, run):
        return sorted({event["task"] for event in run.events() if event["event"] == "task"})

    def roles(self, *args):
        run = self.run_local("--json", *args, "--", "true")
        self.assertEqual(run.status, 0, run.err)
        return self.tasks(run)

    def test_partial_topology_is_an_option(self):
        run = self.run_local("--explain", "--json", "--worker", "2", "--ps", "1", "--topology", "partial",
                             "--isolation", "plain", "--abort-grace", "2.5", "true")
        self.assertEqual(run.status, 0, run.err)
        config, = (json.loads(task["env"]["TF_CONFIG"]) for task in run.events() if task["task"] == "worker/1")
        self.assertEqual(list(config["cluster"]["worker"]), ["1"])

    def test_isolation_and_cpus_reach_the_tasks(self):
        run = self.run_local("--json", "--isolation", "plain", "true")
        self.assertEqual(run.status, 0, run.err)
        self.assertEqual({event["isolation"] for event in run.events() if "isolation" in event}, {"plain"})
        run = self.run_local("--isolation", "plain", "--cpus", "0.5", "true")
        self.assertEqual(run.status, 125)
        self.assertIn("cannot limit CPUs to 0.5: the task has no cgroup v2 of its own", run.errors()[-1])

    def test_one_worker_when_no_role_is_given(self):
        self.assertEqual(self.roles(), ["worker/0"])

    def test_roles(self):
        self.assertEqual(self.roles("--chief", "--worker=2", "--evaluator"),
                         ["chief/0", "evaluator/0", "worker/0", "worker/1"])

    def test_ps_adds_a_chief(self):
        self.assertEqual(self.roles("--worker", "2", "--ps", "1"),
                         ["chief/0", "ps/0", "worker/0", "worker/1"])

    def test_options_end_at_the_first_other_word(self):
        run = self.run_local("--no-prefix", "echo", "--worker", "2", "--")
        self.assertEqual((run.out, run.status), (b"--worker 2 --\n", 0))

    def test_options_end_at_two_dashes(self):
        program = self.write("--odd", "#!/bin/sh\necho odd\n", 0o755)
        run = self.run_local("--no-prefix", "--cwd", self.dir, "--env", f"PATH={self.dir}", "--",
                             os.path.basename(program))
        self.assertEqual((run.out, run.status), (b"odd\n", 0))

    def test_environment_is_ours_and_env_adds_to_it(self):
        run = self.run_local("--no-prefix", "--env", "A=1", "--env", "B", "--env", "D=x=y",
                             "--", "sh", "-c", "echo $A $B ${C-none} $D $E",
                             env={"B": "two", "E": "five"})
        self.assertEqual(run.out, b"1 two none x=y five\n")

    def test_a_secret_reaches_the_task_and_no_event(self):
        run = self.run_local("--json", "--secret-env", "TOKEN", "--", "sh", "-c", "echo ${#TOKEN}",
                             env={"TOKEN": "hush-hush"})
        self.assertIn('"text":"9"', run.out.decode())
        self.assertNotIn(b"hush", run.out + run.err)

    def test_working_directory_is_the_current_one(self):
        run = self.run_local("--no-prefix", "pwd")
        self.assertEqual(run.lines(), [os.path.realpath(self.dir)])

    def test_working_directory_may_be_relative(self):
        os.mkdir(os.path.join(self.dir, "below"))
        for args in (["--cwd", "below", "pwd"],
                     ["--job", self.job_file(argv=["pwd"], cwd="below", roles={"worker": {}})]):
            run = self.run_local("--no-prefix", *args)
            self.assertEqual(run.lines(), [os.path.realpath(self.dir) + "/below"])

    def test_options_override_the_job_file(self):
        path = self.job_file(argv=["sh", "-c", "echo $A $B"], env={"A": "a", "B": "b"},
                             roles={"worker": {"count": 3}})
        run = self.run_local("--no-prefix", "--worker", "2", "--env", "B=c", "--job", path)
        self.assertEqual(run.lines(), ["a c", "a c"])
        run = self.run_local("--no-prefix", "--job", path, "--worker", "1", "--", "echo", "hi")
        self.assertEqual(run.lines(), ["hi"])

    def test_bundle(self):
        bundle = os.path.join(self.dir, "bundle")
        os.mkdir(bundle)
        self.write("bundle/hello.sh", "echo hello from $(basename $0)\n", 0o755)
        run = self.run_local("--no-prefix", "--bundle", "bundle", "sh", "./hello.sh")
        self.assertEqual((run.lines(), run.status), (["hello from hello.sh"], 0), run.err)

    def test_host_and_ports_show_in_tf_config(self):
        run = self.run_local("--no-prefix", "--host", "localhost", "sh", "-c", "echo $TF_CONFIG")
        config = json.loads(run.out)
        host, port = config["cluster"]["worker"][0].split(":")
        self.assertEqual(host, "localhost")
        self.assertIn(int(port), range(self.first_port, self.first_port + harness.PORTS_A_TEST))

    def test_framework_none_has_no_tf_config(self):
        run = self.run_local("--no-prefix", "--framework", "none", "sh", "-c",
                             "echo ${TF_CONFIG-none} $TFC_TASK_TYPE $TFC_TASK_INDEX")
        self.assertEqual(run.lines(), ["none worker 0"])

    def test_name_and_scope_and_windows_reach_the_job(self):
        run = self.run_local("--json", "--name", "digits", "--restart-window", "60", "--scope",
                             "auto", "--strategy", "none", "true")
        self.assertEqual(run.events()[-1]["name"], "digits")

    def fake_python(self):
        """Says what it was asked to run, and serves until it is stopped."""
        return self.write("python", "#!/bin/sh\necho $TFC_TASK_TYPE $1 $2 $3 $4; touch served."
                          "$TFC_TASK_TYPE; exec sleep 60\n", 0o755)

    def test_driver_runs_the_program_and_the_roles_run_servers(self):
        run = self.run_local("--no-prefix", "--driver", "--worker", "1", "--ps", "1", "--python",
                             self.fake_python(), "--", "sh", "-c",
                             "until test -e served.worker -a -e served.ps; do sleep 0.05; done; "
                             "echo $TFC_TASK_TYPE done")
        self.assertEqual(run.status, 0, run.err)
        text = run.out.decode()
        self.assertRegex(text, r"(?m)^worker -c ")
        self.assertRegex(text, r"(?m)^ps -c ")
        self.assertIn("driver done\n", text)
        self.assertNotIn("chief", text)

    def test_tensorboard_runs_on_its_directory(self):
        run = self.run_local("--no-prefix", "--tensorboard", "events", "--python",
                             self.fake_python(), "--", "sh", "-c",
                             "until test -e served.tensorboard; do sleep 0.05; done")
        self.assertEqual(run.status, 0, run.err)
        self.assertEqual(run.lines(), ["tensorboard -m tensorboard.main --logdir events"])

    def test_log_dir_keeps_the_logs(self):
        run = self.run_local("--log-dir", "logs", "--json", "sh", "-c", "echo kept $TFC_LOG_DIR")
        job = run.events()[-1]["job"]
        directory = os.path.join(os.path.realpath(self.dir), "logs", job)
        with open(os.path.join(directory, "worker-0.0000000000000000.log")) as file:
            self.assertIn(f"kept {directory}", file.read())


if __name__ == "__main__":
    harness.main()
