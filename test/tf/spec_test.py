"""TensorFlow reads what the library wrote, for each task of each cluster, and agrees.

Usage: spec_test.py PRINT_TF_CONFIG
"""
import json
import os
import subprocess
import sys
import unittest

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
try:
    import tensorflow as tf
    from tensorflow.python.distribute import multi_worker_util as util
except ImportError:
    print("no TensorFlow in this interpreter: skipped (-Dtf_python=...)")
    sys.exit(77)

TRAINERS = ("chief", "worker", "ps")


def read_lines(program):
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    lines = [json.loads(line) for line in output.splitlines()]
    for line in lines:
        line["env"] = dict(item.split("=", 1) for item in line["env"])
    return lines


def as_map(tasks):
    """The tasks of one type as index -> address, from a list or a map."""
    items = enumerate(tasks) if isinstance(tasks, list) else tasks.items()
    return {int(index): address for index, address in items}


class SpecTest(unittest.TestCase):
    lines = []

    def each(self, wanted):
        """The lines that a test is about, with TF_CONFIG set as the task would find it."""
        found = [line for line in self.lines if wanted(line)]
        self.assertTrue(found)
        for line in found:
            os.environ.pop("TF_CONFIG", None)
            if "TF_CONFIG" in line["env"]:
                os.environ["TF_CONFIG"] = line["env"]["TF_CONFIG"]
            with self.subTest(name=line["name"], task=f"{line['type']}/{line['index']}"):
                resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
                yield line, resolver, resolver.cluster_spec()

    def test_the_resolver_finds_the_task_and_its_address(self):
        for line, resolver, cluster in self.each(lambda l: "TF_CONFIG" in l["env"]):
            self.assertEqual(resolver.task_type, line["type"])
            self.assertEqual(resolver.task_id, line["index"])
            self.assertIs(type(json.loads(line["env"]["TF_CONFIG"])["task"]["index"]), int)
            address = cluster.task_address(line["type"], line["index"])
            self.assertEqual(address, line["address"] or "localhost:0")

    def test_the_cluster_is_the_one_given_with_the_evaluator_for_itself_alone(self):
        for line, _, cluster in self.each(lambda l: "TF_CONFIG" in l["env"]):
            want = {job: as_map(line["given"][job]) for job in TRAINERS if job in line["given"]}
            if line["type"] == "evaluator":
                want["evaluator"] = {0: line["address"] or "localhost:0"}
            got = {job: {i: cluster.task_address(job, i) for i in cluster.task_indices(job)}
                   for job in cluster.jobs}
            self.assertEqual(got, want)

    def test_tensorflow_validates_every_task_that_makes_a_strategy(self):
        for line, _, cluster in self.each(
                lambda l: "TF_CONFIG" in l["env"] and "sparse" not in l["name"]):
            util._validate_cluster_spec(cluster, line["type"], line["index"])
            leads = line["type"] in ("chief", "evaluator") or (
                "chief" not in cluster.jobs and (line["type"], line["index"]) == ("worker", 0))
            self.assertEqual(util.is_chief(cluster, line["type"], line["index"]), leads)

    def test_worker_count_and_id_are_those_of_the_job(self):
        for line, _, cluster in self.each(
                lambda l: l["type"] in ("chief", "worker", "evaluator")
                and "sparse" not in l["name"]):
            chiefs = len(line["given"].get("chief", []))
            workers = len(line["given"].get("worker", []))
            alone = line["type"] == "evaluator"
            shift = chiefs if line["type"] == "worker" else 0
            self.assertEqual(util.worker_count(cluster, line["type"]),
                             1 if alone else chiefs + workers)
            self.assertEqual(util.id_in_cluster(cluster, line["type"], line["index"]),
                             line["index"] + shift)

    def test_the_leader_of_mirrored_tasks_is_one_that_serves(self):
        for line, _, cluster in self.each(
                lambda l: l["name"].startswith("mirrored") and l["type"] in ("chief", "worker")):
            leader = "chief" if "chief" in line["given"] else "worker"
            name = f"/job:{leader}/replica:0/task:0"
            self.assertEqual(util.collective_leader(cluster, line["type"], line["index"]), name)
            self.assertEqual(util.coordination_leader(cluster), name)

    def test_fail_fast_is_for_all_processes_of_parameter_server_jobs(self):
        for line, _, _ in self.each(lambda l: True):
            has_servers = line["name"].startswith("parameter servers")
            want = "use_caller" if has_servers else None
            self.assertEqual(line["env"].get("GRPC_FAIL_FAST"), want)

    def test_a_driver_outside_builds_its_cluster_from_tf_cluster(self):
        for line, _, _ in self.each(lambda l: l["type"] == "driver"):
            self.assertNotIn("TF_CONFIG", line["env"])
            cluster = tf.train.ClusterSpec(json.loads(line["env"]["TF_CLUSTER"]))
            self.assertEqual(cluster.as_dict(), line["given"])
            resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
                cluster, rpc_layer="grpc")
            tf.distribute.ParameterServerStrategy._verify_args_and_config(None, resolver)
            self.assertEqual(json.loads(line["env"]["TF_WORKERS"]),
                             ["/job:worker/task:0", "/job:worker/task:1"])

    def test_a_sparse_cluster_makes_a_server(self):
        for line, _, cluster in self.each(lambda l: l["name"] == "any server, sparse"):
            local = {job: as_map(line["given"][job]) for job in line["given"]}
            local[line["type"]][line["index"]] = "127.0.0.1:0"
            server = tf.distribute.Server(local, job_name=line["type"],
                                          task_index=line["index"], start=False)
            self.assertEqual(server.server_def.task_index, line["index"])
            self.assertEqual(cluster.task_indices("worker"), [3, 7])


if __name__ == "__main__":
    SpecTest.lines = read_lines(sys.argv.pop(1))
    unittest.main(verbosity=2)
