"""--explain: what each task would be given, and that nothing is run or left."""
import json
import os
import socket

import clients_test
import harness


class ExplainTest(harness.RunTest):
    def plan(self, *args, **options):
        """{"worker/0": {...}, ...}, checked to be all there is."""
        run = self.run_local("--explain", "--json", *args, **options)
        self.assertEqual((run.status, run.err), (0, b""))
        tasks = run.events()
        self.assertEqual({task["event"] for task in tasks}, {"plan"})
        return {task["task"]: task for task in tasks}

    def test_each_task_has_its_port_argv_and_environment_and_does_not_run(self):
        mark = os.path.join(self.dir, "ran")
        plan = self.plan("--worker", "2", "--ps", "1", "--env", "EPOCHS=3", "--", "touch", mark,
                         "{task_type}-{task_index}", "{ps_hosts}")
        self.assertEqual(set(plan), {"chief/0", "worker/0", "worker/1", "ps/0"})
        ports = [task["port"] for task in plan.values()]
        self.assertEqual(len(set(ports)), 4)
        for port in ports:
            self.assertIn(port - self.first_port, range(harness.PORTS_A_TEST))
        task = plan["worker/1"]
        self.assertEqual(task["argv"], ["touch", mark, "worker-1", plan["ps/0"]["address"]])
        self.assertEqual((task["cwd"], task["node"]), (self.dir, "local"))
        env = task["env"]
        self.assertEqual((env["EPOCHS"], env["TFC_PORT"]), ("3", str(task["port"])))
        cluster = json.loads(env["TF_CONFIG"])["cluster"]
        self.assertEqual(cluster["worker"], [plan[f"worker/{i}"]["address"] for i in (0, 1)])
        self.assertFalse(os.path.exists(mark))

    def test_it_shows_which_tasks_are_watched_for_stalls(self):
        job = ("--worker", "1", "--ps", "1", "--", "true")
        self.assertEqual({name: task["stall_s"] for name, task in self.plan(*job).items()},
                         {"chief/0": 300, "worker/0": 0, "ps/0": 0})
        self.assertEqual({task["stall_s"] for task in self.plan("--stall", "0.5", *job).values()},
                         {0.5})
        text = self.run_local("--explain", *job).out.decode()
        self.assertEqual(text.count("  stall: after 300 s without output\n"), 1)

    def test_it_shows_the_memory_limit(self):
        for args, limit, required, text in (
                (["--memory", "2G"], 2 << 30, None, "2GiB, if the node can enforce it"),
                (["--memory", "2G", "--memory-limit", "1536M"], 3 << 29, True, "1.5GiB"),
                (["--memory", "2G", "--memory-limit", "false"], None, None, None), ([], None, None, None)):
            with self.subTest(args=args):
                task = self.plan(*args, "--", "true")["worker/0"]
                self.assertEqual((task.get("memory_limit"), task.get("memory_limit_required")), (limit, required))
                shown = [line for line in self.run_local("--explain", *args, "--", "true").lines()
                         if line.startswith("  memory limit: ")]
                self.assertEqual(shown, [f"  memory limit: {text}"] if text else [])

    def test_it_is_what_a_task_then_gets(self):
        args = ("--host", "127.0.0.1", "--ports", f"{self.first_port}-{self.first_port}",
                "--env", "A=b", "--")
        plan = self.plan(*args, "env")["worker/0"]["env"]
        run = self.run_local("--no-prefix", *args, "env")
        given = dict(line.split("=", 1) for line in run.lines() if "=" in line)
        for name in set(plan) - {"TFC_JOB", "TFC_LOG_DIR"}:
            self.assertEqual(given[name], plan[name], name)

    def test_every_role_has_a_placeholder_for_its_addresses(self):
        port = self.first_port + harness.PORTS_A_TEST - 2
        path = self.job_file(framework="none", argv=["sleep", "60"], roles={
            "reader": {"count": 2, "port": port, "ready": "started"},
            "other": {},
            "worker": {"argv": ["echo", "${port} <{reader_hosts}> <{other_hosts}>"]}})
        argv = ["echo", f"${{port}} <127.0.0.1:{port},127.0.0.1:{port + 1}> <>"]
        self.assertEqual(self.plan("--job", path)["worker/0"]["argv"], argv)
        run = self.run_local("--no-prefix", "--job", path)
        self.assertEqual((run.status, run.lines()), (0, argv[1:]))

    def test_placeholders_that_make_an_argument_too_long_are_refused(self):
        limit = (r"inserting \{worker_hosts\} makes it longer than 131071 bytes, the limit of an argument or "
                 "variable; use fewer placeholders, or fewer tasks")
        hosts = "{worker_hosts}" * 9000
        for keys, where in (({"argv": ["true", hosts]}, r"argv\[1\]"),
                            ({"argv": ["true"], "env": {"A": hosts}}, "env.A"),
                            ({"roles": {"worker": {"count": 200, "argv": ["true", hosts]}}},
                             r"roles.worker.argv\[1\]"),
                            ({"argv": ["true"], "roles": {"worker": {"count": 200, "wrap": ["env", "-u", hosts]}}},
                             r"roles.worker.wrap\[2\]")):
            path = self.job_file(**{"roles": {"worker": {"count": 200}}, **keys})
            for explain in (["--explain"], []):
                with self.subTest(where=where, explain=explain):
                    run = self.run_local("--ports", "28000-28999", *explain, "--job", path)
                    self.assertEqual(run.status, 125)
                    self.assertRegex(run.errors()[-1], f"worker/0.*: {where}: {limit}$")
        path = self.job_file(argv=["true"] + ["{worker_hosts}"] * 9000, roles={"worker": {"count": 200}})
        run = self.run_local("--ports", "28000-28999", "--explain", "--job", path)
        self.assertEqual(run.status, 125)
        self.assertRegex(run.errors()[-1], r"argv\[\d{4}\]: inserting \{worker_hosts\} makes the values that "
                         "placeholders insert into arguments and environment longer than 6 MiB, the limit of execve; use fewer placeholders, or fewer tasks$")

    def test_secrets_and_what_is_inherited_are_not_shown(self):
        env = {"TOKEN": "hunter2", "OTHER": "hunter3"}
        plan = self.plan("--secret-env", "TOKEN", "--", "true", env=env)["worker/0"]
        self.assertIsNone(plan["env"]["TOKEN"])
        self.assertNotIn("OTHER", plan["env"])
        self.assertGreater(plan["inherited"], 0)
        run = self.run_local("--explain", "--secret-env", "TOKEN", "--", "true", env=env)
        self.assertNotIn(b"hunter", run.out + run.err)
        self.assertIn("    TOKEN=(secret)", run.lines())

    def test_for_people_it_can_be_copied(self):
        run = self.run_local("--explain", "--strategy", "none", "--", "sh", "-c", "echo 'a b'")
        self.assertEqual(run.status, 0)
        self.assertIn("  argv: sh -c 'echo '\\''a b'\\'''", run.lines())
        self.assertRegex(run.out.decode(), r"(?m)^worker/0 on local, 127\.0\.0\.1:\d+$")

    def test_what_could_not_run_is_reported(self):
        port = self.first_port
        run = self.run_local("--explain", "--ports", f"{port}-{port + 1}", "--worker", "5", "true")
        self.assertEqual((run.status, run.out), (125, b""))
        self.assertIn("3 ports are missing", run.errors()[-1])

    def test_a_log_directory_is_named_and_not_made(self):
        plan = self.plan("--log-dir", "logs", "true")["worker/0"]
        logs = os.path.join(self.dir, "logs")
        self.assertEqual(os.path.dirname(plan["env"]["TFC_LOG_DIR"]), logs)
        self.assertFalse(os.path.exists(logs))

    def test_a_plan_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w") as full:
            run = self.start("--explain", "true", stdout=full)
            run.end()
        self.assertEqual(run.status, 125)
        self.assertEqual(run.errors(), ["tfc_run: cannot write to standard output: No space left on device"])

    def test_a_reader_that_has_seen_enough_is_no_failure(self):
        read, write = os.pipe()
        os.close(read)
        for form in ((), ("--json",)):
            run = self.start("--explain", *form, "true", stdout=write)
            run.end()
            self.assertEqual((run.status, run.err), (141, b""))
        os.close(write)

    def test_a_bundle_is_not_packed(self):
        plan = self.plan("--bundle", self.write("train.py", ""), "--", "python3", "train.py")
        self.assertRegex(plan["worker/0"]["cwd"], r"/bundle/worker-0$")
        self.assertTrue(plan["worker/0"]["env"]["PYTHONPATH"].startswith(
            plan["worker/0"]["cwd"]))


class StartTest(clients_test.ClientsTest):
    """start --explain: as local, on the nodes of a cluster."""
    names = "ab"

    def write_members(self, names, **keys):
        self.address[1] = self.address[1].replace("127.0.0.1", "127.0.0.2")
        super().write_members(names, **keys)

    def node(self, name, *args):
        return super().node(name, "--label", f"where={name}", "--slots", "4", "--ports",
                            f"{self.first_port + 4}-{self.first_port + 6}", *args)

    def plan(self, *args, at="a"):
        run = self.ask("start", "--explain", "--json", *args, at=at)
        self.assertEqual((run.status, run.err), (0, b""))
        return {task["task"]: task for task in run.events()}

    def test_the_tasks_are_placed_on_the_nodes_of_the_cluster_and_none_is_started(self):
        mark = os.path.join(self.dir, "ran")
        for at in "ab":
            plan = self.plan("--worker", "6", "--name", "planned", "--", "touch", mark, "{task_index}", at=at)
            self.assertEqual(list(plan), [f"worker/{i}" for i in range(6)])
            nodes = [task["node"] for task in plan.values()]
            self.assertEqual((nodes.count("a"), nodes.count("b")), (3, 3))
            addresses = [task["address"] for task in plan.values()]
            for task, address in zip(plan.values(), addresses):
                host = {"a": "127.0.0.1", "b": "127.0.0.2"}[task["node"]]
                self.assertEqual(address, f"{host}:{task['port']}")
                self.assertEqual(json.loads(task["env"]["TF_CONFIG"])["cluster"]["worker"], addresses)
            self.assertEqual(plan["worker/5"]["argv"], ["touch", mark, "5"])
        self.assertEqual(self.ask("ps", "-aq").lines(), [])
        self.assertFalse(os.path.exists(mark))
        plan = self.plan("--worker", "2", "--label", "where=b", "--", "true")
        self.assertEqual({task["node"] for task in plan.values()}, {"b"})

    def test_a_fixed_port_on_another_node_need_not_be_free_here(self):
        with socket.socket() as busy:
            port = self.first_port + 8
            busy.bind(("0.0.0.0", port))
            busy.listen()
            job = self.write("job.json", json.dumps({"argv": ["true"], "roles": {"worker": {"port": port}}}))
            run = self.ask("start", "--explain", "--label", "where=b", "--job", job)
            self.assertEqual((run.status, run.err), (0, b""))
            self.assertIn(f"worker/0 on b, 127.0.0.2:{port}", run.lines())
            self.assert_said(self.ask("start", "--explain", "--label", "where=a", "--job", job), "1 port is missing: ")

    def test_what_would_wait_is_reported(self):
        self.assert_said(self.ask("start", "--explain", "--worker", "50", "true"),
                         "the job would wait: 50 slots are needed; 8 of 8 are free")
        self.assert_said(self.ask("start", "--explain", "--label", "where=c", "true"),
                         'the job would wait: .*"where=c"')

    def test_a_bundle_is_not_sent(self):
        plan = self.plan("--bundle", self.write("train.py", ""), "--", "python3", "train.py")
        self.assertRegex(plan["worker/0"]["cwd"], r"/bundle/worker-0$")

    def test_a_plan_for_people_and_a_reader_that_has_seen_enough(self):
        run = self.ask("start", "--explain", "--strategy", "none", "--", "sh", "-c", "echo 'a b'")
        self.assertEqual((run.status, run.err), (0, b""))
        self.assertIn("  argv: sh -c 'echo '\\''a b'\\'''", run.lines())
        read, write = os.pipe()
        os.close(read)
        run = self.begin("start", "--explain", "true", stdout=write)
        run.end()
        os.close(write)
        self.assertEqual((run.status, run.err), (141, b""))


class OneMachineTest(clients_test.ClientsTest):
    """start --explain, where several nodes have the same address."""
    names = "ab"

    def node(self, name, *args):
        return super().node(name, "--slots", "4", "--ports", f"{self.first_port + 4}-{self.first_port + 7}", *args)

    def explain(self, roles):
        job = self.write("job.json", json.dumps({"argv": ["true"], "roles": roles}))
        run = self.ask("start", "--explain", "--json", "--job", job)
        self.assertEqual((run.status, run.err), (0, b""))
        return {task["task"]: task for task in run.events()}

    def test_only_the_ports_of_the_gateways_node_are_checked(self):
        plan = self.explain({"worker": {"count": 8}})
        self.assertEqual({node: sum(task["node"] == node for task in plan.values()) for node in "ab"}, {"a": 4, "b": 4})
        self.assertEqual(len({task["address"] for task in plan.values()}), 8)
        own = {task["port"] for task in plan.values() if task["node"] == "a"}
        self.assertEqual(own, set(range(self.first_port + 4, self.first_port + 8)))
        fixed = self.first_port + 8
        plan = self.explain({"worker": {"count": 4, "port": fixed}, "ps": {"count": 3}, "chief": {}})
        self.assertEqual([plan[f"worker/{i}"]["port"] for i in range(4)], list(range(fixed, fixed + 4)))
        self.assertEqual(len({task["address"] for task in plan.values()}), 8)


if __name__ == "__main__":
    harness.main()
