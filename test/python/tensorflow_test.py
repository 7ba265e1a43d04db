"""Real TensorFlow from `tfcluster.run`: mirrored workers and parameter servers, here and on three nodes; a worker that is
killed, and an exception."""

import importlib.util
import os
import signal
import sys
import tempfile
import unittest

import tfcluster as tfc
from cluster import Cluster

if not importlib.util.find_spec("tensorflow"):
    print(f"{sys.executable} lacks tensorflow (meson option tf_python)")
    sys.exit(77)

STEPS = 12
JOB_S = 120
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}


def count_mirrored(ctx, steps, pause):
    """Counts the steps of all replicas in a variable that is saved with each step."""
    import time

    import tensorflow as tf
    strategy = ctx.strategy()
    with strategy.scope():
        count = tf.Variable(0.0)
    checkpoints = ctx.checkpoints(count=count)

    @tf.function
    def train_step():
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: tf.constant(1.0)), axis=None)

    first = checkpoints.step or 0
    for step in range(first + 1, steps + 1):
        count.assign_add(train_step() / strategy.num_replicas_in_sync)
        checkpoints.save(step)
        ctx.report({"count": count}, step=step)
        time.sleep(pause)
    return {"count": count, "first": first, "replicas": strategy.num_replicas_in_sync}


def count_on_servers(ctx, steps):
    import tensorflow as tf
    strategy = ctx.strategy()
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        count = tf.Variable(0.0, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

    @tf.function
    def step():
        strategy.run(lambda: count.assign_add(1.0))

    for _ in range(steps):
        coordinator.schedule(step)
    coordinator.join()
    return {"count": float(count)}


class TensorFlowTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="tfc-python-")
        self.addCleanup(directory.cleanup)
        self.checkpoints = directory.name

    def run_mirrored(self, **options):
        return tfc.run(count_mirrored, args=(STEPS, 0.2), workers=2, env=QUIET, output=False,
                       checkpoint_dir=self.checkpoints, **options)

    def test_a_killed_mirrored_worker_costs_no_step(self) -> None:
        with self.run_mirrored() as job:
            for _ in job.events(output=False):
                if job.tasks.get("worker/1") and (job.tasks["worker/1"].step or 0) >= 3:
                    os.kill(job.tasks["worker/1"].pid, signal.SIGKILL)
                    break
            result = job.result(timeout=JOB_S)
            self.assertEqual((result["count"], result["replicas"]), (STEPS, 2))
            self.assertGreaterEqual(result["first"], 3)
            self.assertEqual(job.describe().incidents, 1)

    def test_parameter_servers_run_the_librarys_server(self) -> None:
        with tfc.run(count_on_servers, args=(STEPS,), workers=2, ps=1, env=QUIET, output=False) as job:
            self.assertEqual(job.result(timeout=JOB_S), {"count": STEPS})
            self.assertEqual(sorted(job.tasks), ["chief/0", "ps/0", "worker/0", "worker/1"])

    def test_the_librarys_server_prints_its_stacks(self) -> None:
        with tfc.run(["sleep", "1000"], ps=1, roles={"ps": {"server": True}}, python=sys.executable, env=QUIET,
                     output=False) as job:
            job.client._context.wait(lambda: "ps/0" in job.tasks and job.tasks["ps/0"].state == "ready", JOB_S)
            self.assertRegex(job.task("ps/0").stacks(), "^ps/0: in .*; its stacks are in its log$")
            self.assertIn("in join", "\n".join(job.logs("ps/0")))
            job.stop(kill=True)

    def test_both_strategies_on_three_nodes(self) -> None:
        cluster = Cluster()
        self.addCleanup(cluster.close)
        with tfc.connect(cluster.gateway, key=cluster.key) as client:
            mirrored = client.run(count_mirrored, args=(3, 0), workers=3, env=QUIET, output=False, python=sys.executable,
                                  checkpoint_dir=self.checkpoints)
            self.assertEqual(mirrored.result(timeout=JOB_S), {"count": 3, "first": 0, "replicas": 3})
            self.assertEqual(sorted(client.describe(mirrored.id).nodes), ["a", "b", "c"])
            servers = client.run(count_on_servers, args=(STEPS,), workers=1, ps=1, env=QUIET, output=False,
                                 python=sys.executable)
            self.assertEqual(servers.result(timeout=JOB_S), {"count": STEPS})


if __name__ == "__main__":
    unittest.main()
