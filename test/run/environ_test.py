"""What of a node's environment, and of a caller's, reaches a task, by which way; and who else sees it."""
import base64
import contextlib
import hashlib
import json
import os
import pwd
import secrets
import shutil

import clients_test
import harness

# Of the node: what engines need to find their libraries and devices, and what is nobody's business.
NODE_ENV = {"LD_LIBRARY_PATH": "/opt/engine/lib", "CUDA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": "compute",
            "CUDAFAKE": "no prefix of it", "AWS_SECRET_ACCESS_KEY": "of-the-operator",
            "HF_HOME": "/data/hf"}
OWN = ("PATH", "HOME", "USER", "LOGNAME", "LANG")


class EnvironTest(clients_test.ClientsTest):
    def setUp(self):
        clients_test.node_test.NodeTest.setUp(self)
        self.write_members(self.names)
        self.caller_env = dict(self.env)
        self.env.update(NODE_ENV)

    def begin_nodes(self, *args):
        self.nodes = {name: self.node(name, *args) for name in self.names}
        for name in self.names:
            for other in self.names.replace(name, ""):
                self.await_state(self.nodes[name], other, "alive")

    def tcp(self, name="a"):
        return ["--gateway", self.address_of(name), "--key", "key"]

    def unix(self, name="a"):
        return self.gateway(name)

    def environ(self, way, *args, count=1):
        """What each task of a job has that was submitted so."""
        run = self.start_bare("start", *way, "--json", "--framework", "none", "--worker", str(count), *args, "--",
                              "/usr/bin/env", "-0").end()
        self.assertEqual(run.status, 0, run.err)
        texts = {}
        for event in run.events():
            if event["event"] == "output":
                texts[event["task"]] = texts.get(event["task"], "") + event["text"]
        self.assertEqual(len(texts), count)
        return [dict(pair.split("=", 1) for pair in text.split("\0") if pair) for text in texts.values()]

    def assert_minimal(self, env, passed):
        foreign = {name for name in env if not name.startswith("TFC_")} - {*OWN, "PYTHONUNBUFFERED", "PWD"}
        self.assertEqual(foreign, set(passed))
        for name in passed:
            self.assertEqual(env[name], NODE_ENV[name])
        user = pwd.getpwuid(os.geteuid())
        self.assertEqual((env["HOME"], env["USER"], env["LOGNAME"]), (user.pw_dir, user.pw_name, user.pw_name))
        self.assertEqual(env["PATH"], self.env["PATH"])
        self.assertTrue(env["LANG"])


class BaseEnvironmentTest(EnvironTest):
    names = "ab"
    ENGINES = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")

    def test_a_job_that_comes_over_tcp_starts_from_a_minimal_environment_on_each_node(self):
        self.begin_nodes()
        envs = self.environ(self.tcp(), count=2)
        self.assertEqual(len({env["TFC_LOG_DIR"] for env in envs}), 2)  # one on each node
        for env in envs:
            self.assert_minimal(env, self.ENGINES)

    def test_a_job_of_the_nodes_own_user_has_the_nodes_environment_on_each_node(self):
        self.begin_nodes()
        envs = self.environ(self.unix(), count=2)
        self.assertEqual(len({env["TFC_LOG_DIR"] for env in envs}), 2)
        for env in envs:
            self.assertEqual({name: env.get(name) for name in NODE_ENV}, NODE_ENV)

    def test_what_jobs_over_tcp_inherit_is_the_operators_choice(self):
        self.begin_nodes("--pass-env", "HF_*", "--pass-env", "CUDAFAKE")
        self.assert_minimal(self.environ(self.tcp())[0], ("HF_HOME", "CUDAFAKE"))

    def test_nothing_is_passed_on_where_the_operator_says_so(self):
        self.write("node.json", '{"pass-env": ["none"]}')
        self.begin_nodes("--config", "node.json")
        self.assert_minimal(self.environ(self.tcp())[0], ())

    def test_all_is_passed_on_where_the_operator_says_so(self):
        self.begin_nodes("--base-env", "node")
        env, = self.environ(self.tcp())
        self.assertEqual({name: env.get(name) for name in NODE_ENV}, NODE_ENV)

    def test_a_secret_of_the_node_cannot_be_requested_by_its_name(self):
        self.begin_nodes()
        job = self.write("steal.json", '{"framework": "none", "roles": {"worker": {"argv": ["env"], '
                         '"secret_env": {"AWS_SECRET_ACCESS_KEY": null}}}}')
        self.env.pop("AWS_SECRET_ACCESS_KEY")
        run = self.start_bare("start", *self.tcp(), "--job", job).end()
        self.assertNotIn(b"of-the-operator", run.out + run.err)
        self.assertIn(b"secret_env.AWS_SECRET_ACCESS_KEY", run.err)
        self.assertEqual(run.status, 125)

    def test_a_resumed_job_has_the_environment_that_it_had(self):
        self.begin_nodes()
        script = "env -u PWD > %s/env-$TFC_TASK_TYPE-$TFC_ATTEMPT; exec sleep 100"
        job = self.start_job(script % self.dir, way=self.tcp())
        first = os.path.join(self.dir, "env-worker-1")
        harness.wait_until(lambda: os.path.exists(first), "the first attempt")
        self.nodes["a"].process.kill()
        self.nodes["a"].end()
        self.nodes["a"] = self.node("a")
        second = os.path.join(self.dir, "env-worker-2")
        harness.wait_until(lambda: os.path.exists(second) and os.path.getsize(second), "the second attempt")
        with open(second) as file:
            env = dict(line.rstrip("\n").split("=", 1) for line in file)
        self.assert_minimal(env, self.ENGINES)
        self.assertEqual(self.ask("stop", job, "--wait").status, 0)

    def start_job(self, script, *args, way):
        run = self.start_bare("start", *way, "--detach", "--framework", "none", *args, "--", "/bin/sh", "-c",
                              script).end()
        self.assertEqual((run.status, run.err), (0, b""))
        return run.lines()[0]


SCRIPT = "printf %s \"$TOKEN\" | sha256sum | cut -d' ' -f1"


class SearchTest(EnvironTest):
    """A secret is unlike anything else: wherever its bytes are found, it is the secret."""
    names = "ab"

    def setUp(self):
        super().setUp()
        self.token = "tok-" + secrets.token_hex(16)
        self.hash = hashlib.sha256(self.token.encode()).hexdigest()
        self.said = []
        self.begin_nodes()

    def begin_nodes(self, *args):
        """The nodes do not have it: only callers that are begun later do."""
        self.env.pop("TOKEN", None)
        super().begin_nodes(*args)
        self.env["TOKEN"] = self.token

    def start_bare(self, *args, **options):
        run = super().start_bare(*args, **options)
        self.said.append(run)
        return run

    def forms(self, token):
        data = token.encode()
        return [data, data.hex().encode(), base64.b64encode(data)[:-4]]

    def found(self, token):
        """Where it can be seen, but for the environment of the tasks and of the callers."""
        places = []
        for folder, _, names in os.walk(self.dir):
            for name in names:
                path = os.path.join(folder, name)
                if not os.path.isfile(path):
                    continue
                # A node may have renamed or removed it meanwhile.
                with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
                    data = file.read()
                    places += [path for form in self.forms(token) if form in data]
        for run in self.said:
            places += [f"output of {run.process.args}" for form in self.forms(token) if form in run.out + run.err]
        nodes = [node.process.pid for node in self.nodes.values()]
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                is_ours = int(pid) in nodes or self.read_proc(pid, "comm").startswith(b"tfc-")
                for what in ("cmdline", "environ") if is_ours else ("cmdline",):
                    places += [f"/proc/{pid}/{what}"] if token.encode() in self.read_proc(pid, what) else []
            except OSError:
                pass  # it has just ended, or is not ours to read
        return places

    def read_proc(self, pid, what):
        with open(f"/proc/{pid}/{what}", "rb") as file:
            return file.read()

    def ask_all(self, job):
        """Every command about a job, at each node."""
        for at in self.names:
            for args in (["ps", "--all"], ["ps", "--all", "--json"], ["describe", job], ["describe", job, "--json"],
                         ["logs", job], ["logs", job, "--json"], ["spec", job, "worker/0", "--format", "env"],
                         ["members", "--json"]):
                self.ask(*args, at=at)

    def assert_secret(self, job=None):
        if job:
            self.ask_all(job)
        self.assertEqual(self.found(self.token), [])

    def run_job(self, way, *args, script=SCRIPT):
        run = self.start_bare("start", *way, "--json", "--framework", "none", "--secret-env", "TOKEN", *args,
                              "--", "/bin/sh", "-c", script).end()
        self.assertEqual(run.status, 0, run.err)
        texts = [event["text"] for event in run.events() if event["event"] == "output"]
        return run.events()[0]["job"], texts


class SecretTest(SearchTest):
    def test_what_is_no_secret_is_found(self):
        """The search is one that finds something."""
        seen = "seen-" + secrets.token_hex(16)
        job, texts = self.run_job(self.unix(), "--env", f"SEEN={seen}", script="echo $SEEN")
        self.assertEqual(texts, [seen])
        for where in ("/state-a/store/records/", "/logs/", "output of "):
            self.assertTrue([place for place in self.found(seen) if where in place], where)
        self.assert_secret(job)

    def test_it_reaches_tasks_on_all_nodes_by_each_way_and_nobody_else(self):
        for way in (self.unix("a"), self.tcp("a"), self.tcp("b")):
            with self.subTest(way):
                job, texts = self.run_job(way, "--worker", "2")
                self.assertEqual(texts, [self.hash] * 2)
                nodes = {task["node"] for task in self.describe(job)["tasks"]}
                self.assertEqual(nodes, {"a", "b"})
                self.assert_secret(job)

    def test_it_reaches_a_task_of_tfc_run_local_and_nobody_else(self):
        logs = os.path.join(self.dir, "logs")
        run = self.run_local("--log-dir", logs, "--json", "--framework", "none", "--secret-env", "TOKEN", "--",
                             "/bin/sh", "-c", SCRIPT)
        self.said.append(run)
        self.assertEqual([e["text"] for e in run.events() if e["event"] == "output"], [self.hash])
        self.assert_secret()

    def test_a_job_file_names_it_and_the_caller_has_it(self):
        for named in ('["TOKEN"]', '{"TOKEN": null}'):
            file = self.write("job.json", '{"framework": "none", "argv": ["/bin/sh", "-c", "%s"], "roles": {"worker": '
                              '{"secret_env": %s}}}' % (SCRIPT.replace('"', '\\"'), named))
            run = self.start_bare("start", *self.tcp(), "--job", file).end()
            self.assertEqual(run.lines()[1:], [f"[worker/0] {self.hash}"], run.err)
            self.assert_secret(run.lines()[0])

    def test_a_job_that_is_resumed_still_has_it(self):
        job = self.resume(lambda: None)
        second = os.path.join(self.dir, "hash-2")
        harness.wait_until(lambda: os.path.exists(second) and os.path.getsize(second) > 64, "the second attempt")
        with open(second) as file:
            self.assertEqual(file.read().strip(), self.hash)
        self.assert_secret(job)
        self.assertEqual(self.ask("stop", job, "--wait").status, 0)
        self.assert_secret(job)

    def test_without_the_nodes_identity_a_resumed_job_fails_and_says_so(self):
        job = self.resume(lambda: os.unlink(os.path.join(self.dir, "state-a", "identity")))
        run = self.start_bare("attach", *self.unix(), job).end()
        self.assertEqual(run.status, 125)
        self.assertRegex(run.errors()[-1], r"failed \(refused\): .*secret_env was encrypted with a lost key of node a")
        self.assertFalse(os.path.exists(os.path.join(self.dir, "hash-2")))
        self.assertEqual(self.describe(job)["state"], "failed")
        self.assert_secret(job)
        self.assertEqual(self.ask("rm", job).status, 0)

    def test_a_copy_of_the_store_does_not_open_it(self):
        """Not even with all that is beside the records: the key of the store is not the node's."""
        job = self.resume(lambda: (
            shutil.copytree(os.path.join(self.dir, "state-a", "store"), os.path.join(self.dir, "copied", "store")),
            os.chmod(os.path.join(self.dir, "copied"), 0o700)))
        self.write_members("c")
        self.start_bare("node", "--name", "c", "--members", "members.json", "--key", "key", "--state", "copied",
                        "--json").await_output('"state":"ready"')
        run = self.start_bare("attach", "--gateway", f"unix:{self.dir}/copied/node.sock", job).end()
        self.assertRegex(run.errors()[-1], "with a lost key of node c ")
        self.write_members(self.names)

    def resume(self, meanwhile):
        """A job whose node is killed and begun again; each attempt writes a hash of what it has."""
        script = f"{SCRIPT} > {self.dir}/hash-$TFC_ATTEMPT; exec sleep 100"
        run = self.start_bare("start", *self.tcp(), "--detach", "--framework", "none", "--secret-env", "TOKEN", "--",
                              "/bin/sh", "-c", script).end()
        self.assertEqual(run.status, 0, run.err)
        first = os.path.join(self.dir, "hash-1")
        harness.wait_until(lambda: os.path.exists(first) and os.path.getsize(first) > 64, "the first attempt")
        self.nodes["a"].process.kill()
        self.nodes["a"].end()
        meanwhile()
        self.env.pop("TOKEN")
        self.nodes["a"] = self.node("a")
        self.env["TOKEN"] = self.token
        return run.lines()[0]

    def test_an_unset_one_and_a_wrong_one_are_refused(self):
        self.assert_refused(self.run_bare("local", "--secret-env", "UNSET", "--", "true"),
                            "--secret-env UNSET: not set in the environment")
        self.assert_refused(self.run_bare("local", "--env", "UNSET", "--", "true"),
                            "--env UNSET: not set in the environment")
        self.env["TOKEN"] = os.fsdecode(b"\xff" + self.token.encode())
        run = self.start_bare("local", "--secret-env", "TOKEN", "--", "true").end()
        self.assert_refused(run, "--secret-env TOKEN: secret_env[]: is not UTF-8")
        self.assert_secret()


class UnencryptedTest(SearchTest):
    """Nodes on the loopback that have no key."""

    def node_args(self, name, *args):
        words = super().node_args(name, *args)
        at = words.index("--key")
        return words[:at] + words[at + 2:]

    def tcp(self, name="a"):
        return ["--gateway", self.address_of(name)]

    def test_it_does_not_go_to_a_gateway(self):
        run = self.start_bare("start", *self.tcp(), "--framework", "none", "--secret-env", "TOKEN", "--", "true").end()
        self.assertEqual(run.status, 125)
        self.assertRegex(run.errors()[-1], "^tfc_run: secret_env: the connection to the node is not encrypted")
        self.assertEqual(json.loads(self.ask("ps", "--all", "--json").out), [])

    def test_it_does_not_go_to_another_node(self):
        run = self.start_bare("start", *self.unix(), "--framework", "none", "--secret-env", "TOKEN", "--worker", "2",
                              "--", "/bin/sh", "-c", SCRIPT).end()
        self.assertEqual(sorted(run.lines()[1:]), [f"[worker/{i}] {self.hash}" for i in range(2)], run.err)
        job = run.lines()[0]
        self.assertEqual({task["node"] for task in self.describe(job)["tasks"]}, {"a"})
        self.assert_secret(job)


if __name__ == "__main__":
    harness.main()
