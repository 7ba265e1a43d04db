"""What of a node's environment, and of a caller's, reaches a task, by which way."""
import os
import pwd

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

    def test_a_secret_of_the_node_cannot_be_asked_for_by_its_name(self):
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


if __name__ == "__main__":
    harness.main()
