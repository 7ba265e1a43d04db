"""A feed with ack="commit" on real TensorFlow: each row is in the checkpoint exactly once, whoever is killed."""

import contextlib
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from typing import Any
from unittest import mock

import numpy as np
import tfcluster as tfc

from cluster import Cluster

if not importlib.util.find_spec("tensorflow"):
    print(f"{sys.executable} lacks tensorflow (meson option tf_python)")
    sys.exit(77)

PATIENCE_S = 150
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}
ROWS = 1003
BATCH = 8


def train(ctx, directory):
    """Counts how often each id was trained. Each generation of the group meets another death."""
    import os
    import signal
    import time

    import tensorflow as tf

    def die(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    def wait_for(event):
        open(f"{directory}/wants-{event}", "w").close()
        while not os.path.exists(f"{directory}/did-{event}"):
            time.sleep(0.02)

    strategy = ctx.strategy()
    with strategy.scope():
        counts = tf.Variable(tf.zeros([ROWS]), aggregation=tf.VariableAggregation.SUM)
    checkpoints = ctx.checkpoints(f"{directory}/checkpoints", keep=100, counts=counts)
    feed = ctx.feed("train", ack="commit")

    @tf.function(reduce_retracing=True)
    def train_step(batch):
        def replica_step(ids, mask):
            total = tf.distribute.get_replica_context().all_reduce("sum", tf.scatter_nd(ids[:, None], mask, [ROWS]))
            counts.assign_add(total / strategy.num_replicas_in_sync)
        strategy.run(replica_step, args=(batch["id"], batch["mask"]))

    step = checkpoints.step
    for step, batch in enumerate(feed.dataset(BATCH), checkpoints.step + 1):
        train_step(batch)
        if ctx.generation == 1 and step == 8 and ctx.task_index == 1:
            die()
        if ctx.generation == 2 and step == 15 and ctx.is_chief:
            checkpoints._manager.save = die  # it has the positions of all, and has written nothing
        if ctx.generation == 3 and step == 25 and ctx.is_chief:
            feed.commit = die  # the checkpoint is written, and no producer knows it
        if ctx.generation == 5 and step == 61 and ctx.task_index == 1:
            die()  # what is left is too little for both
        if step == 32:
            wait_for("producer-killed")
        if step == 42:
            wait_for("node-killed")
        if step % 5 == 0:
            checkpoints.save(step)
    checkpoints.save(step)


def produce(gateway, key, job):
    """Feeds all ids, however often it is called."""
    job = tfc.attach(job, gateway=gateway, key=key, output=False)
    with job.feed("train", partition_rows=40, replayable=True) as feed:
        feed.put({"id": np.arange(ROWS, dtype=np.int32)})
    print("fed", flush=True)


def read_checkpoint(path):
    """How often the checkpoint has each id, and the rows that its positions have."""
    import tensorflow as tf
    reader = tf.train.load_checkpoint(str(path))
    [counts] = [name for name in reader.get_variable_to_shape_map() if name.startswith("counts/")]
    feeds = json.loads(reader.get_tensor("tfcluster_feeds/.ATTRIBUTES/py_state"))
    return reader.get_tensor(counts), sum(partitions * rows for _, partitions, rows, _ in feeds["train"])


class CommitTest(unittest.TestCase):

    def test_each_row_is_in_the_checkpoint_once_whoever_is_killed(self):
        cluster = Cluster()
        self.addCleanup(cluster.close)
        directory = pathlib.Path(tempfile.mkdtemp(prefix="tfc-commit-"))
        self.addCleanup(shutil.rmtree, directory)
        job = tfc.run(train, args=(str(directory),), workers=2, env=QUIET, gateway=cluster.address("a"), key=cluster.key,
                      placement="spread", restart=8, output=bool(os.environ.get("TFC_TEST_OUTPUT")), python=sys.executable)
        self.addCleanup(job.close)
        producer = self.start_producer(cluster, job)
        self.await_file(directory / "wants-producer-killed", job)
        producer.kill()
        producer.wait()
        producer = self.start_producer(cluster, job)
        (directory / "did-producer-killed").touch()
        self.await_file(directory / "wants-node-killed", job)
        (directory / "did-node-killed").touch()
        # The job ends with node a, which supervises it.
        cluster.kill(next(row.node for row in job.tasks.values() if row.node != "a"))
        job.result(PATIENCE_S)
        self.assertEqual(producer.wait(PATIENCE_S), 0)

        paths = sorted((directory / "checkpoints").glob("*.index"), key=lambda path: int(path.stem.split("-")[1]))
        self.assertGreater(len(paths), 10)
        for path in paths:
            counts, rows = read_checkpoint(path.with_suffix(""))
            self.assertEqual(counts.sum(), rows, path)
            self.assertLessEqual(counts.max(), 1, path)
        self.assertEqual(counts.tolist(), [1] * ROWS)
        self.assertEqual([path.name for path in (directory / "checkpoints").glob("*positions*")], [])
        self.assertEqual(job.tasks["worker/0"].attempt, 6)

    def start_producer(self, cluster, job):
        producer = subprocess.Popen([sys.executable, __file__, "produce", cluster.gateway, cluster.key, job.id])
        self.addCleanup(producer.wait)
        self.addCleanup(producer.kill)
        return producer

    def await_file(self, path, job):
        deadline = time.monotonic() + PATIENCE_S
        while not path.exists():
            self.assertLess(time.monotonic(), deadline, path)
            with contextlib.suppress(tfc.DeadlineError):
                self.fail(f"the job has ended before {path}: {job.result(0.05)}")


class TrainedFeed:
    """Stands for the feed of a task: its positions at each step."""

    def __init__(self, positions):
        self.positions = positions

    def positions_after(self, batches):
        return self.positions.pop(batches)

    def commit(self, entries):
        self.committed = entries


class PositionFilesTest(unittest.TestCase):
    """How the chief gets the positions of the other workers."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="tfc-commit-")
        self.addCleanup(shutil.rmtree, self.directory)

    def checkpoints(self, index, positions, job="b"):
        import tensorflow as tf
        from tfcluster import checkpoints
        context: Any = types.SimpleNamespace(
            cluster_spec={"worker": ["a:1", "b:1", "c:1"]}, world_size=3, rank=index, is_chief=index == 0, job=job,
            name=f"worker/{index}", generation=1, progress=lambda: None)
        saver = checkpoints.Checkpoints(context, self.directory, 5, {"x": tf.Variable(0)})
        feed: Any = TrainedFeed(positions)
        saver.add_feed("train", feed)
        return saver

    def committed(self, saver):
        return saver._feeds["train"][0].committed

    def test_positions_of_an_earlier_job_are_not_taken(self):
        self.checkpoints(1, {5: {1: (9, True)}}, job="a").save(5)  # its chief was killed meanwhile
        chief = self.checkpoints(0, {5: {0: (8, True)}})
        self.checkpoints(2, {5: {}}).save(5)
        saving = threading.Thread(target=chief.save, args=(5,), daemon=True)
        saving.start()
        saving.join(0.5)
        self.assertTrue(saving.is_alive())
        self.checkpoints(1, {5: {2: (7, True)}}).save(5)
        saving.join(PATIENCE_S)
        self.assertEqual(self.committed(chief), [(0, 1, 8, True), (2, 1, 7, True)])
        self.assertEqual([name for name in os.listdir(self.directory) if "positions" in name], [])

    def test_a_save_that_fails_loses_no_position(self):
        chief = self.checkpoints(0, {5: {0: (8, True)}, 6: {}})
        first, second = self.checkpoints(1, {5: {1: (8, True)}, 6: {}}), self.checkpoints(2, {5: {2: (8, True)}, 6: {}})
        first.save(5)
        with mock.patch.object(second._files, "rename", side_effect=OSError("disk full")), self.assertRaises(OSError):
            second.save(5)
        with mock.patch("tfcluster.checkpoints._PATIENCE_S", 0.1), self.assertRaisesRegex(RuntimeError, "worker/2 has not"):
            chief.save(5)
        first.save(6)
        second.save(6)
        with mock.patch.object(chief._manager, "save", side_effect=OSError("disk full")), self.assertRaises(OSError):
            chief.save(6)
        for saver in (first, second, chief):
            saver._feeds["train"][0].positions[7] = {}
            saver.save(7)
        self.assertEqual(self.committed(chief), [(0, 3, 8, True)])
        self.assertEqual([name for name in os.listdir(self.directory) if name.endswith(".json")], [])


if __name__ == "__main__":
    if sys.argv[1:2] == ["produce"]:
        produce(*sys.argv[2:])
    else:
        unittest.main(verbosity=2)
