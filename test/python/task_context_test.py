"""What a task knows of its place, and its reports."""

import json
import os
import subprocess
import sys
import time
import unittest
import unittest.mock

import tasks

from tfcluster import checkpoints
from tfcluster._bundle import NO_SETTINGS, Settings
from tfcluster._task_context import TaskContext

HOSTS = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "evaluator": ["d:1"], "ps": ["e:1"]}


def facts(task, roles="", settings=NO_SETTINGS, **variables):
    """The context of a task of a cluster with these roles, as the library describes it."""
    task_type, index = task.split("/")
    environ = {"TFC_JOB": "6ad0", "TFC_TASK_TYPE": task_type, "TFC_TASK_INDEX": index, "TFC_ATTEMPT": "2",
               "TFC_GENERATION": "3", **variables}
    if roles:
        cluster = {role: HOSTS[role] for role in roles.split()}
        environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": task_type, "index": int(index)}})
    return TaskContext.from_environment(environ, settings)


class FactsTest(unittest.TestCase):

    def test_the_chief_is_rank_0_and_the_workers_follow(self):
        for task, roles, rank, world_size, is_chief in (
                ("chief/0", "chief worker", 0, 3, True),
                ("worker/0", "chief worker", 1, 3, False),
                ("worker/1", "chief worker", 2, 3, False),
                ("worker/0", "worker", 0, 2, True),
                ("worker/1", "worker", 1, 2, False),
                ("evaluator/0", "chief worker evaluator", None, 3, False),
                ("chief/0", "chief worker ps", 0, 3, True),
                ("worker/0", "chief worker ps", 1, 3, False),
                ("worker/0", "worker ps", 0, 2, False),  # of a driver
                ("ps/0", "chief worker ps", None, 3, False)):
            with self.subTest(task=task, roles=roles):
                ctx = facts(task, roles)
                self.assertEqual((ctx.rank, ctx.world_size, ctx.is_chief), (rank, world_size, is_chief))
                self.assertEqual(ctx.cluster_spec, {role: HOSTS[role] for role in roles.split()})

    def test_a_task_knows_its_names_and_numbers(self):
        ctx = facts("worker/1", "worker")
        self.assertEqual((ctx.task_type, ctx.task_index, ctx.name, ctx.job, ctx.attempt, ctx.generation),
                         ("worker", 1, "worker/1", "6ad0", 2, 3))

    def test_tasks_outside_the_cluster_know_it(self):
        for task, cluster, is_chief in (("driver/0", "worker ps", True), ("driver/0", "chief worker ps", False),
                                        ("tensorboard/0", "chief worker", False)):
            with self.subTest(task=task, cluster=cluster):
                hosts = {role: HOSTS[role] for role in cluster.split()}
                ctx = facts(task, TF_CLUSTER=json.dumps(hosts))
                self.assertEqual((ctx.rank, ctx.is_chief, ctx.cluster_spec), (None, is_chief, hosts))
                self.assertEqual(ctx.world_size, len(hosts.get("chief", [])) + 2)

    def test_a_worker_of_a_partial_topology_knows_its_part(self):
        ctx = facts("worker/7", TF_CONFIG=json.dumps(
            {"cluster": {"chief": ["a:1"], "worker": {"7": "b:1"}, "ps": ["e:1"]}, "task": {"type": "worker", "index": 7}}))
        self.assertEqual((ctx.rank, ctx.cluster_spec["worker"]), (8, ["b:1"]))

    def test_ranks_of_other_frameworks(self):
        for variables in ({"RANK": "1", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "6ad0"},
                          {"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2"},
                          {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "JAX_COORDINATOR_ADDRESS": "a:1"}):
            with self.subTest(variables=variables):
                ctx = facts("worker/1", **variables)
                self.assertEqual((ctx.rank, ctx.world_size, ctx.is_chief), (1, 2, False))
        self.assertIsNone(facts("tensorboard/0").rank)

    def test_ranks_of_a_function_without_a_framework(self):
        ctx = facts("worker/1", settings=Settings(framework="none", roles={"worker": 3}))
        self.assertEqual((ctx.rank, ctx.world_size, ctx.is_chief), (1, 3, False))

    def test_a_program_of_its_own_is_alone(self):
        for environ in {}, {"TF_CONFIG": "{}"}, {"RANK": "3", "WORLD_SIZE": "4", "SLURM_PROCID": "3"}:
            with self.subTest(environ=environ):
                self.assertEqual(TaskContext.from_environment(environ), TaskContext(
                    task_type="worker", task_index=0, rank=0, world_size=1, attempt=1, generation=1, job="",
                    cluster_spec={}, is_chief=True))

    def test_a_cluster_of_somebody_else_is_understood(self):
        ctx = TaskContext.from_environment({"TF_CONFIG": json.dumps(
            {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": "1"}})})
        self.assertEqual((ctx.name, ctx.rank, ctx.world_size, ctx.job), ("worker/1", 1, 2, ""))

    def test_a_cluster_that_is_none_is_named(self):
        for text in "", "{", "[]", '{"cluster": ["a"]}', '{"cluster": {"worker": 1}}':
            with self.subTest(text=text), self.assertRaisesRegex(ValueError, "^TF_CONFIG does not describe a cluster: "):
                TaskContext.from_environment({"TF_CONFIG": text})


class CheckpointDirectoryTest(unittest.TestCase):

    def directory(self, ctx, settings=NO_SETTINGS, **variables):
        with (unittest.mock.patch.dict(os.environ, variables, clear=True),
              unittest.mock.patch("tfcluster._bundle.settings", return_value=settings)):
            return checkpoints._default_directory(ctx)

    def test_it_is_that_of_the_job_then_in_the_log_directory_then_here(self):
        settings = Settings(checkpoint_dir="/shared/run")
        self.assertEqual(self.directory(None, settings, TFC_LOG_DIR="/logs"), "/shared/run")
        self.assertEqual(self.directory(None, TFC_LOG_DIR="/logs"), "/logs/checkpoints")
        self.assertEqual(self.directory(None), "checkpoints")

    def test_tasks_that_train_alone_have_one_each(self):
        several = facts("worker/1", settings=Settings(roles={"worker": 3}))
        self.assertEqual(self.directory(several, TFC_LOG_DIR="/logs"), "/logs/checkpoints/worker-1")
        self.assertEqual(self.directory(TaskContext.from_environment({})), "checkpoints")

    def test_a_checkpoint_without_a_step_is_named(self):
        self.assertEqual(checkpoints._step_of("/logs/model-old/ckpt-20"), 20)
        with self.assertRaisesRegex(ValueError, 'checkpoint "/logs/model-x/last" has no step'):
            checkpoints._step_of("/logs/model-x/last")


class ReportTest(tasks.TaskTest):

    def test_metrics_are_lines_with_their_step(self):
        def train(ctx):
            import tfcluster
            assert tfcluster.context() is ctx
            ctx.report({"loss": 1.5}, step=60)
            tfcluster.context().report({"loss": [1, 2]})
        self.pack(train)
        end = self.run_task()
        self.assertEqual(end.err, "")
        self.assertEqual(end.of_kind("metrics"), [{"kind": "metrics", "step": 60, "values": {"loss": 1.5}},
                                                  {"kind": "metrics", "step": None, "values": {"loss": [1, 2]}}])

    def test_what_is_no_metric_is_named(self):
        def train(ctx):
            try:
                ctx.report({"loss": object()})
            except TypeError as error:
                return str(error)
        self.pack(train)
        self.assertEqual([report["value"] for report in self.run_task().reports],
                         ['values["loss"]: cannot report a object; report numbers'])

    def test_threads_and_forked_children_report_whole_lines(self):
        def train(ctx):
            import threading
            children = []
            for _ in range(2):
                pid = os.fork()
                if pid == 0:
                    for i in range(200):
                        ctx.report({"text": "x" * 1000}, step=i)
                    os._exit(0)
                children.append(pid)
            threads = [threading.Thread(target=lambda: [ctx.report({"text": "x" * 1000}, step=i) for i in range(200)])
                       for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for pid in children:
                os.waitpid(pid, 0)
        self.pack(train)
        end = self.run_task()
        self.assertEqual(end.err, "")
        self.assertEqual(sorted(report["step"] for report in end.of_kind("metrics")),
                         sorted(list(range(200)) * 4))

    def test_a_child_that_is_forked_during_a_report_can_report(self):
        def train(ctx):
            import threading

            import tfcluster._task_context
            pipe = tfcluster._task_context._report_pipe
            is_locked, is_forked = threading.Event(), threading.Event()

            def report():
                with pipe._lock:
                    is_locked.set()
                    is_forked.wait()
            thread = threading.Thread(target=report)
            thread.start()
            is_locked.wait()
            pid = os.fork()
            if pid == 0:
                ctx.report({"from": "child"})
                os._exit(0)
            is_forked.set()
            thread.join()
            return os.waitpid(pid, 0)[1]
        self.pack(train)
        end = self.run_task()
        self.assertEqual([report["values"] for report in end.of_kind("metrics")], [{"from": "child"}])
        self.assertEqual([report["value"] for report in end.of_kind("result")], [0])

    def test_a_node_that_does_not_read_delays_training_once_and_gets_the_result(self):
        """The pipe is full: metrics wait a second, once, and are dropped; what was begun arrives whole."""
        def train(ctx):
            import time
            begin = time.monotonic()
            for i in range(100):
                ctx.report({"text": "x" * 30000}, step=i)
            waited_s = time.monotonic() - begin
            open("trained", "w").close()
            return [waited_s, "x" * 100000]
        self.pack(train)
        report, report_end = os.pipe()
        with open(report, "rb") as reports:
            task = subprocess.Popen([sys.executable, "-m", "tfcluster.task"], cwd=self.bundle, pass_fds=[report_end],
                                    env=self.environ(TFC_REPORT_FD=str(report_end)))
            os.close(report_end)
            deadline = time.monotonic() + tasks.PATIENCE
            while not (self.bundle / "trained").exists():
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            with self.assertRaises(subprocess.TimeoutExpired):
                task.wait(0.5)  # it waits for a reader of its result
            lines = [json.loads(line) for line in reports.read().splitlines()]
            self.assertEqual(task.wait(tasks.PATIENCE), 0)
        self.assertEqual([line["step"] for line in lines if line["kind"] == "metrics"], [0, 1, 2])
        [waited_s, text] = lines[-1]["value"]
        self.assertEqual(len(text), 100000)
        self.assertGreater(waited_s, 0.9)
        self.assertLess(waited_s, 10)  # to wait for each takes 97 s

    def test_reports_are_signs_of_progress(self):
        progress, progress_end = os.pipe()
        self.addCleanup(os.close, progress)
        script = "import tfcluster; tfcluster.context().report({'loss': 1})"
        done = subprocess.run([sys.executable, "-c", script], pass_fds=[progress_end], cwd=self.bundle,
                              env=self.environ(TFC_PROGRESS_FD=str(progress_end)), timeout=tasks.PATIENCE)
        self.assertTrue(os.get_blocking(progress_end))  # the program's own writes are not disturbed
        os.close(progress_end)
        self.assertEqual((done.returncode, os.read(progress, 10)), (0, b"."))

    def test_signs_of_progress_never_block(self):
        progress, progress_end = os.pipe()
        self.addCleanup(os.close, progress)
        self.addCleanup(os.close, progress_end)
        script = "import tfcluster; [tfcluster.context().progress() for _ in range(100000)]"
        done = subprocess.run([sys.executable, "-c", script], pass_fds=[progress_end], cwd=self.bundle,
                              env=self.environ(TFC_PROGRESS_FD=str(progress_end)), timeout=tasks.PATIENCE)
        self.assertEqual(done.returncode, 0)

    def test_a_number_without_its_descriptor_is_left_alone(self):
        """A child that did not inherit the pipe, and opens one of its own under the same number."""
        script = ("import os, tfcluster\n"
                  "os.environ['TFC_REPORT_FD'] = str(os.pipe()[1])\n"
                  "reader, own = os.pipe()\n"
                  "os.dup2(own, int(os.environ['TFC_REPORT_FD']))\n"
                  "os.set_blocking(reader, False)\n"
                  "os.environ['TFC_REPORT_FD_PIPE'] = '1:1'  # as its parent has left it\n"
                  "tfcluster.context().report({'loss': 1})\n"
                  "try:\n"
                  "    print(os.read(reader, 10))\n"
                  "except BlockingIOError:\n"
                  "    print('nothing')\n")
        done = subprocess.run([sys.executable, "-c", script], cwd=self.bundle, env=self.environ(),
                              capture_output=True, text=True, timeout=tasks.PATIENCE)
        self.assertEqual((done.stdout, done.stderr), ("nothing\n", ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
