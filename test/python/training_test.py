"""Real TensorFlow in the tasks of functions: strategies, and checkpoints that survive kills and TERM."""

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import unittest

import tasks

if not importlib.util.find_spec("tensorflow"):
    print(f"{sys.executable} lacks tensorflow (meson option tf_python)")
    sys.exit(77)

SERVER = tasks.PACKAGE.parents[2] / "lib/agent/tensorflow_server.py"


def train(ctx, steps, brake=None):
    """Counts steps in a variable, together with all replicas, and saves each. While the file `brake` exists, the
    chief's save of step 2 goes on."""
    import os
    import time

    import tensorflow as tf

    strategy = ctx.strategy()
    with strategy.scope():
        count = tf.Variable(0.0)

    class Slow(tf.train.experimental.PythonState):
        def serialize(self):
            print(f"saving {now}", flush=True)
            while brake and ctx.is_chief and now == 2 and os.path.exists(brake):
                time.sleep(0.01)
            return ""

        def deserialize(self, text):
            pass

    checkpoints = ctx.checkpoints("checkpoints", count=count, slow=Slow())

    @tf.function
    def train_step():
        total = tf.constant(0.0)
        for _ in tf.range(2):  # AutoGraph makes it a loop of the graph, for which it needs this source
            ones = strategy.run(lambda: tf.constant(0.5))
            total += strategy.reduce(tf.distribute.ReduceOp.MEAN, ones, axis=None)
        return total

    resumed = checkpoints.step
    for now in range(resumed + 1, steps + 1):
        count.assign_add(train_step())
        checkpoints.save(now)
        checkpoints.save(now)  # it is there already
        print(f"saved {now}", flush=True)
        ctx.report({"count": count}, step=now)
    return {"count": count, "resumed": resumed, "replicas": strategy.num_replicas_in_sync}


def train_on_servers(ctx):
    import tensorflow as tf

    import tfcluster

    resolver = tfcluster.ClusterResolver()
    assert isinstance(resolver, tf.distribute.cluster_resolver.ClusterResolver)
    assert resolver.cluster_spec().as_dict() == ctx.cluster_spec
    assert (resolver.task_type, resolver.task_id, resolver.rpc_layer) == (None, None, "grpc")
    assert resolver.master("ps", 0) == "grpc://" + ctx.cluster_spec["ps"][0]
    strategy = ctx.strategy(variable_partitioner=None)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        count = tf.Variable(0.0, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
    checkpoints = ctx.checkpoints(count=count)

    @tf.function
    def step():
        strategy.run(lambda: count.assign_add(1.0))
    for _ in range(4):
        coordinator.schedule(step)
    coordinator.join()
    checkpoints.save(4)
    count.assign(0.0)
    resumed = ctx.checkpoints(count=count).step
    return {"count": count, "resumed": resumed, "workers": strategy._extended._num_workers}


def evaluate(ctx):
    import tensorflow as tf

    count = tf.Variable(0.0)
    checkpoints = ctx.checkpoints("checkpoints", count=count)
    try:
        checkpoints.save(9)
    except RuntimeError as error:
        return {"replicas": ctx.strategy().num_replicas_in_sync, "count": count, "step": checkpoints.step,
                "error": str(error)}


class Cluster:
    """Tasks of one cluster, each a process, without a job."""

    def __init__(self, test, **roles):
        self._test = test
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(sum(roles.values()))]
        ports = iter([listener.getsockname()[1] for listener in listeners])
        for listener in listeners:
            listener.close()
        self.spec = {role: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for role, count in roles.items()}

    def start(self, name, argv=("-m", "tfcluster.task")):
        task_type, index = name.split("/")
        config = {"cluster": self.spec, "task": {"type": task_type, "index": int(index)}}
        return Task(self._test, argv, TFC_JOB="6ad0", TFC_TASK_TYPE=task_type, TFC_TASK_INDEX=index,
                    TF_CONFIG=json.dumps(config), GRPC_FAIL_FAST="use_caller")


class Task:
    """A task under way."""

    def __init__(self, test, argv=("-m", "tfcluster.task"), **variables):
        report, report_end = os.pipe()
        self._reports = open(report, "rb")
        test.addCleanup(self._reports.close)
        self.process = subprocess.Popen(
            [sys.executable, *argv], cwd=test.bundle, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, pass_fds=[report_end],
            env=test.environ(TFC_REPORT_FD=str(report_end), TF_CPP_MIN_LOG_LEVEL="2", TFC_LOG_DIR=str(test.dir / "logs"),
                             **variables))
        os.close(report_end)
        test.addCleanup(self.close)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def wait_line(self, line):
        """Reads until the line; returns the lines before it."""
        before: list[str] = []
        assert self.process.stdout and self.process.stderr
        for printed in self.process.stdout:
            if printed.decode().strip() == line:
                return before
            before.append(printed.decode().strip())
        raise AssertionError(f"never came: {line}\n{self.process.stderr.read().decode()}")

    def result(self):
        """What the function returned."""
        lines = [json.loads(line) for line in self._reports.read().splitlines()]
        _, err = self.process.communicate(timeout=tasks.PATIENCE)
        assert self.process.returncode == 0 and lines, err.decode()
        return lines[-1]["value"]

    def status(self):
        self.process.communicate(timeout=tasks.PATIENCE)
        return self.process.returncode


class TrainingTest(tasks.TaskTest):

    def setUp(self):
        super().setUp()
        self.brake = self.dir / "brake"
        self.checkpoints = self.bundle / "checkpoints"

    def saved(self):
        """The steps of the checkpoints in the directory; it has nothing else but TensorFlow's state file."""
        names = os.listdir(self.checkpoints)
        steps = sorted(int(name[len("ckpt-"):-len(".index")]) for name in names if name.endswith(".index"))
        expected = {"checkpoint"} | {f"ckpt-{step}{end}" for step in steps for end in (".index", ".data-00000-of-00001")}
        self.assertEqual(set(names), expected)
        return steps

    def test_mirrored_workers_resume_from_the_chiefs_checkpoints(self):
        """SIGTERM ends a worker that waits in a collective, and the chief after its save."""
        self.brake.touch()
        self.pack(train, 4, str(self.brake))
        cluster = Cluster(self, worker=2)
        workers = [cluster.start(f"worker/{i}") for i in range(2)]
        workers[0].wait_line("saving 2")
        workers[1].wait_line("saved 2")
        workers[1].process.terminate()
        self.assertEqual(workers[1].status(), -signal.SIGTERM)
        workers[0].process.terminate()
        self.brake.unlink()
        self.assertEqual(workers[0].status(), 128 + signal.SIGTERM)
        self.assertEqual(self.saved(), [1, 2])

        workers = [cluster.start(f"worker/{i}") for i in range(2)]
        for worker in workers:
            self.assertEqual(worker.result(), {"count": 4, "resumed": 2, "replicas": 2})
        self.assertEqual(self.saved(), [2, 3, 4])

    def test_a_process_alone_survives_kill_and_term_while_it_saves(self):
        self.pack(train, 3, str(self.brake))
        self.brake.touch()
        task = Task(self)
        task.wait_line("saving 2")
        task.process.kill()
        self.assertEqual(task.status(), -signal.SIGKILL)

        task = Task(self)
        self.assertEqual(task.wait_line("saving 2"), [])  # it has resumed from 1
        task.process.terminate()
        self.brake.unlink()
        self.assertEqual(task.status(), 128 + signal.SIGTERM)
        self.assertEqual(self.saved(), [1, 2])

        self.pack(train, 0, evaluator=evaluate)
        evaluator = Cluster(self, worker=1, evaluator=1).start("evaluator/0")
        self.assertEqual(evaluator.result(), {
            "replicas": 1, "count": 2, "step": 2,
            "error": "evaluator/0 cannot save a checkpoint; those of the tasks that train do"})

    def test_a_driver_of_parameter_servers_trains_on_their_servers(self):
        self.pack(train_on_servers)
        cluster = Cluster(self, worker=1, ps=1)
        for name in "worker/0", "ps/0":
            cluster.start(name, ["-c", SERVER.read_text()])
        driver = Task(self, TFC_JOB="6ad0", TFC_TASK_TYPE="driver", TFC_TASK_INDEX="0", TF_CLUSTER=json.dumps(cluster.spec),
                      GRPC_FAIL_FAST="use_caller")
        self.assertEqual(driver.result(), {"count": 4, "resumed": 4, "workers": 1})
        self.assertIn("ckpt-4.index", os.listdir(self.dir / "logs/checkpoints"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
