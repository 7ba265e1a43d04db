"""TensorFlowOnSpark's names: clusters of a map_fun without Spark."""

import argparse
import getpass
import json
import os
import pathlib
import shutil
import signal
import tempfile
import threading
import unittest
import unittest.mock
from typing import Any

from tfcluster import DeadlineError, InvalidError, JobError, Partitions, TaskFailed, TFCluster, TFNode, TFParallel, local

PATIENCE = 60  # seconds until something awaited counts as never coming
QUIET: dict[str, Any] = {"framework": "none", "output": False}  # no TensorFlow, and nothing printed


def write_facts(args, ctx):
    """Writes what the task knows into a file of the directory args["dir"]."""
    facts = {name: getattr(ctx, name) for name in ("executor_id", "job_name", "task_index", "num_workers", "defaultFS",
                                                   "working_dir", "cluster_spec")}
    facts.update(sum=args["x"] + args["y"], model_dir=ctx.absolute_path("model"), rank=ctx.task.rank)
    with open(f"{args['dir']}/{ctx.task.name.replace('/', '-')}", "w") as file:
        json.dump(facts, file)


def fail(args, ctx):
    if ctx.task_index == 1:
        raise ValueError("bad shape")
    import time
    time.sleep(3600)


def wait(args, ctx):
    print("waits", flush=True)
    import time
    time.sleep(3600)


def wait_for_go(args, ctx):
    """Returns once the test opens the named pipe "go" of the directory args["dir"]."""
    open(f"{args['dir']}/go").close()


class ClusterCase(unittest.TestCase):

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tfos-test-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.args = {"x": 1, "y": 2, "dir": self.dir}

    def facts(self):
        """What the tasks have written, by task."""
        return {path.name: json.loads(path.read_text()) for path in pathlib.Path(self.dir).iterdir()}


class RunTest(ClusterCase):

    def test_each_node_runs_the_function_with_its_args(self):
        cluster = TFCluster.run(None, write_facts, self.args, 2, **QUIET)
        cluster.shutdown(timeout=PATIENCE)
        cluster.shutdown(timeout=PATIENCE)  # changes nothing
        cwd = os.getcwd()
        common = {"job_name": "worker", "num_workers": 2, "defaultFS": "file://", "working_dir": cwd, "sum": 3,
                  "model_dir": f"file://{cwd}/model", "cluster_spec": {}}
        self.assertEqual({name: {key: facts[key] for key in common} for name, facts in self.facts().items()},
                         {"worker-0": common, "worker-1": common})
        self.assertEqual([self.facts()[f"worker-{i}"]["executor_id"] for i in range(2)], [0, 1])

    def test_roles_are_dealt_in_order(self):
        cluster = TFCluster.run(None, write_facts, self.args, 3, master_node="master", eval_node=True, output=False)
        info = cluster.cluster_info
        cluster.shutdown(timeout=PATIENCE)
        self.assertEqual([(node["executor_id"], node["job_name"], node["task_index"], node["host"]) for node in info],
                         [(0, "chief", 0, "127.0.0.1"), (1, "evaluator", 0, "127.0.0.1"), (2, "worker", 0, "127.0.0.1")])
        facts = self.facts()
        self.assertEqual(set(facts), {"chief-0", "evaluator-0", "worker-0"})
        addresses = {node["job_name"]: [f"{node['host']}:{node['port']}"] for node in info}
        self.assertEqual(facts["chief-0"]["cluster_spec"], {name: addresses[name] for name in ("chief", "worker")})
        self.assertEqual(facts["evaluator-0"]["cluster_spec"], addresses)
        self.assertEqual([facts[name]["num_workers"] for name in sorted(facts)], [2, 2, 2])

    def test_arguments_of_a_command_line_become_those_of_the_program(self):
        def parse(args, ctx):
            parser = argparse.ArgumentParser()
            parser.add_argument("--dir")
            with open(parser.parse_args().dir + "/parsed", "w") as file:
                json.dump(args, file)
        argv = ["train.py", "--dir", self.dir]
        TFCluster.run(None, parse, argv, 1, **QUIET).shutdown(timeout=PATIENCE)
        self.assertEqual(self.facts(), {"parsed": argv})

    def test_impossible_sizes_are_refused(self):
        for sizes, message in (({"num_executors": 0}, "0 tasks are too few for at least one worker"),
                               ({"num_executors": 2, "num_ps": 2},
                                "2 tasks are too few for at least one worker besides 2 ps, 1 chief"),
                               ({"num_executors": 1, "eval_node": True},
                                "1 tasks are too few for at least one worker besides 1 evaluator"),
                               ({"num_executors": 2, "master_node": "boss"}, 'no task type "boss"; pass "chief"'),
                               ({"num_executors": 1, "sc": object()}, "there is no Spark here; pass None")):
            with self.subTest(sizes=sizes), self.assertRaisesRegex(InvalidError, message):
                TFCluster.run(sizes.pop("sc", None), write_facts, self.args, **sizes)  # type: ignore[arg-type]

    def test_what_a_function_must_not_use_is_named(self):
        lock = threading.Lock()

        def locked(args, ctx):
            with lock:
                pass
        with self.assertRaisesRegex(InvalidError, "locked uses lock, a lock"):
            TFCluster.run(None, locked, {}, 1, **QUIET)
        secret = {"API_TOKEN": "a-secret-of-this-test"}
        with (unittest.mock.patch.dict(os.environ, secret),
              self.assertRaisesRegex(InvalidError, r"write_facts uses args\[0\].*API_TOKEN")):
            TFParallel.run(None, write_facts, secret, 1, **QUIET)

    def test_a_tensorboard_has_an_address_and_ends_with_the_cluster(self):
        board = ["/bin/sh", "-c", "sleep 3600"]
        os.mkfifo(self.dir + "/go")
        cluster = TFCluster.run(None, wait_for_go, self.args, 1, tensorboard=True, log_dir=self.dir + "/logs",
                                roles={"tensorboard": {"argv": board}}, **QUIET)
        [node] = cluster.cluster_info
        self.assertEqual(cluster.tensorboard_url(), f"http://127.0.0.1:{node['tb_port']}")
        os.kill(node["tb_pid"], 0)
        open(self.dir + "/go", "w").close()
        cluster.shutdown(timeout=PATIENCE)
        with self.assertRaises(ProcessLookupError):
            os.kill(node["tb_pid"], 0)


def sum_squares(args, ctx):
    """Trains on all rows in batches of 10, and writes the sum of their squares."""
    feed = ctx.get_data_feed()
    total = 0
    while not feed.should_stop():
        total += sum(row * row for row in feed.next_batch(10))
    with open(f"{args['dir']}/{ctx.task_index}", "w") as file:
        json.dump(total, file)


def return_squares(args, ctx):
    feed = ctx.get_data_feed(train_mode=False)
    while not feed.should_stop():
        batch = feed.next_batch(args)
        if batch:
            feed.batch_results([row * row for row in batch])


class FeedTest(ClusterCase):
    """InputMode.SPARK."""

    def run_cluster(self, main, args, executors=1, **options):
        return TFCluster.run(None, main, args, executors, input_mode=TFCluster.InputMode.SPARK, **QUIET, **options)

    def test_rows_of_partitions_reach_two_workers_for_training(self):
        rows = Partitions([list(range(number * 100, number * 100 + 100)) for number in range(10)])
        cluster = self.run_cluster(sum_squares, self.args, 2)
        cluster.train(rows, num_epochs=2)
        cluster.train(range(10), 1)
        cluster.shutdown(timeout=PATIENCE)
        self.assertEqual(sum(self.facts().values()), 2 * sum(row * row for row in range(1000)) + 285)

    def test_results_come_in_order_one_for_each_row(self):
        rows = Partitions([list(range(number * 100, number * 100 + number % 3 * 10)) for number in range(100)])
        flat = [row for part in rows for row in part]
        cluster = self.run_cluster(return_squares, 8, 2)
        for _ in range(2):
            self.assertEqual(list(cluster.inference(rows)), [row * row for row in flat])
        cluster.shutdown(timeout=PATIENCE)

    def test_batches_end_as_the_mode_says(self):
        def note(args, ctx):
            feed = ctx.get_data_feed(train_mode=args["train_mode"])
            lengths = []
            while not feed.should_stop():
                batch = feed.next_batch(4)
                lengths.append(len(batch))
                if not args["train_mode"] and batch:
                    feed.batch_results(batch)
            with open(f"{args['dir']}/lengths", "w") as file:
                json.dump(lengths, file)
        rows = Partitions([range(6), range(3)])
        for train_mode, expected in (True, [4, 4, 1]), (False, [4, 2, 3]):
            with self.subTest(train_mode=train_mode):
                cluster = self.run_cluster(note, {**self.args, "train_mode": train_mode})
                if train_mode:
                    cluster.train(rows, 1)
                else:
                    self.assertEqual(list(cluster.inference(rows)), [*range(6), *range(3)])
                cluster.shutdown(timeout=PATIENCE)
                lengths = self.facts()["lengths"]
                self.assertEqual([length for length in lengths if length], expected)

    def test_a_mapping_makes_dicts_of_lists(self):
        def note(args, ctx):
            feed = ctx.get_data_feed(input_mapping={"b": "label", "a": "image"})
            batch = feed.next_batch(2)
            feed.terminate()
            with open(f"{args['dir']}/batch", "w") as file:
                json.dump([batch, feed.should_stop()], file)
        for rows in [[[1.0, 2.0], 0], [[3.0, 4.0], 1]], {"b": [0, 1], "a": [[1.0, 2.0], [3.0, 4.0]], "c": [7, 7]}:
            with self.subTest(rows=rows):
                cluster = self.run_cluster(note, self.args)
                cluster.train(rows, 1000)
                cluster.shutdown(timeout=PATIENCE)
                self.assertEqual(self.facts()["batch"], [{"image": [[1, 2], [3, 4]], "label": [0, 1]}, False])

    def test_wrong_results_are_an_error_and_nothing_waits(self):
        def lose_one(args, ctx):
            feed = ctx.get_data_feed(train_mode=False)
            while not feed.should_stop():
                batch = feed.next_batch(10)
                if batch:
                    feed.batch_results(batch[1:] if args == "few" else [*batch, 0])
        for how, message in (("few", "partition 0: 3 results are missing; return one result for each row"),
                             ("many", "1 results more than rows")):
            with self.subTest(how=how):
                cluster = self.run_cluster(lose_one, how)
                self.addCleanup(cluster.job.close)
                with self.assertRaisesRegex(TaskFailed, message):
                    list(cluster.inference(range(30)))

    def test_an_exception_while_a_task_is_fed_reaches_the_driver(self):
        def fail_late(args, ctx):
            feed = ctx.get_data_feed()
            feed.next_batch(10)
            raise ValueError("bad row")
        cluster = self.run_cluster(fail_late, None)
        with self.assertRaisesRegex(TaskFailed, "ValueError: bad row"):
            cluster.train(range(100), 1)
            cluster.shutdown(timeout=PATIENCE)

    def test_an_exception_after_the_end_of_the_feed_reaches_the_driver(self):
        def fail_later(args, ctx):
            feed = ctx.get_data_feed()
            while not feed.should_stop():
                feed.next_batch(10)
            raise ValueError("cannot export")
        cluster = self.run_cluster(fail_later, None)
        cluster.train(range(100), 1)
        with self.assertRaisesRegex(TaskFailed, "ValueError: cannot export"):
            cluster.shutdown(grace_secs=5, timeout=PATIENCE)

    def test_what_is_wrong_is_refused(self):
        with self.assertRaisesRegex(InvalidError, "input_mode: must be InputMode.TENSORFLOW or InputMode.SPARK, not 7"):
            TFCluster.run(None, sum_squares, {}, 1, input_mode=7)
        cluster = TFCluster.run(None, write_facts, self.args, 1, **QUIET)
        with self.assertRaisesRegex(InvalidError, "feed one with input_mode=InputMode.SPARK"):
            cluster.train([1])
        with self.assertRaisesRegex(InvalidError, "there is no Spark here; pass None"):
            cluster.shutdown(ssc=object())  # type: ignore[arg-type]
        cluster.shutdown(timeout=PATIENCE)


class FailureTest(ClusterCase):

    def test_a_failed_cluster_raises_its_first_cause_and_harms_no_later_one(self):
        with self.assertRaises(TaskFailed) as caught:
            TFCluster.run(None, fail, None, 2, **QUIET).shutdown(timeout=PATIENCE)
        self.assertEqual((caught.exception.task, caught.exception.exit_status), ("worker/1", 1))
        self.assertIn("ValueError: bad shape", str(caught.exception))
        TFCluster.run(None, write_facts, self.args, 1, **QUIET).shutdown(timeout=PATIENCE)
        self.assertEqual(set(self.facts()), {"worker-0"})

    def test_a_killed_process_is_noticed(self):
        cluster = TFCluster.run(None, wait, None, 1, restart=0, **QUIET)
        os.kill(cluster.job.tasks["worker/0"].pid, signal.SIGKILL)
        with self.assertRaises(TaskFailed) as caught:
            cluster.shutdown(timeout=PATIENCE)
        self.assertEqual(caught.exception.exit_status, 128 + signal.SIGKILL)

    def test_a_timeout_of_shutdown_stops_the_cluster_and_not_the_driver(self):
        cluster = TFCluster.run(None, wait, None, 2, **QUIET)
        pids = [cluster.job.tasks[f"worker/{i}"].pid for i in range(2)]
        with self.assertRaises(DeadlineError):
            cluster.shutdown(timeout=0.2)
        for pid in pids:
            with self.assertRaises(ProcessLookupError):
                os.kill(pid, 0)

    def test_a_cluster_that_finds_no_room_says_so_after_the_timeout(self):
        with local(slots=1) as client, self.assertRaisesRegex(JobError, "slots"):
            TFCluster.run(None, write_facts, self.args, 2, reservation_timeout=0.5, gateway=client, **QUIET)

    def test_clusters_run_side_by_side_in_one_process(self):
        clusters = [TFCluster.run(None, wait, None, 1, **QUIET), TFCluster.run(None, write_facts, self.args, 1, **QUIET)]
        clusters[1].shutdown(timeout=PATIENCE)
        self.assertFalse(clusters[0].job.done())
        clusters[0].job.stop()
        clusters[0].job.close()


class ParallelTest(ClusterCase):

    def test_instances_are_independent(self):
        def write_or_die(args, ctx):
            write_facts(args, ctx)
            if ctx.task_index == 0 and ctx.task.attempt == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        TFParallel.run(None, write_or_die, self.args, 2, output=False)
        facts = self.facts()
        self.assertEqual([(facts[f"worker-{i}"]["executor_id"], facts[f"worker-{i}"]["num_workers"]) for i in range(2)],
                         [(0, 2), (1, 2)])

    def test_one_slot_too_many_is_an_error(self):
        with local(slots=1) as client, self.assertRaisesRegex(JobError, "slots"):
            TFParallel.run(None, write_facts, self.args, 2, gateway=client, output=False, pending_deadline_s=0.5)

    def test_a_failed_instance_is_named(self):
        with self.assertRaises(TaskFailed) as caught:
            TFParallel.run(None, fail, None, 2, output=False)
        self.assertEqual(caught.exception.task, "worker/1")


class PathTest(unittest.TestCase):

    def test_paths_get_the_scheme_of_their_file_system(self):
        cwd, user = os.getcwd(), getpass.getuser()
        schemes = "file://", "hdfs://", "viewfs://"
        expected = {
            "hdfs://foo/bar": ("hdfs://foo/bar",) * 3,
            "viewfs://foo/bar": ("viewfs://foo/bar",) * 3,
            "file://foo/bar": ("file://foo/bar",) * 3,
            "/foo/bar": ("file:///foo/bar", "hdfs:///foo/bar", "viewfs:///foo/bar"),
            "foo/bar": (f"file://{cwd}/foo/bar", f"hdfs:///user/{user}/foo/bar", f"viewfs:///user/{user}/foo/bar"),
        }
        for path, results in expected.items():
            for scheme, result in zip(schemes, results, strict=True):
                with self.subTest(path=path, scheme=scheme):
                    ctx = argparse.Namespace(defaultFS=scheme, working_dir=cwd)
                    self.assertEqual(TFNode.hdfs_path(ctx, path), result)


if __name__ == "__main__":
    unittest.main(verbosity=2)
