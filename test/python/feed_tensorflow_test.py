"""Real TensorFlow on the feed: mirrored workers take the same number of steps, and every row is trained."""

import importlib.util
import pathlib
import sys
import tempfile
import unittest

import feed_kill_test as kill
import numpy as np
import tfcluster as tfc

if not importlib.util.find_spec("tensorflow"):
    print(f"{sys.executable} lacks tensorflow (meson option tf_python)")
    sys.exit(77)

JOB_S = 120
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}
ROWS = 1003


def count_rows(ctx, uneven, directory):
    """Sums, over all workers, how often each id was trained, and the steps."""
    import json

    import tensorflow as tf
    strategy = ctx.strategy()
    with strategy.scope():
        counts = tf.Variable(tf.zeros([ROWS]), aggregation=tf.VariableAggregation.SUM)

    @tf.function(reduce_retracing=True)
    def train_step(batch):
        def replica_step(ids, mask):
            updates = tf.scatter_nd(ids[:, None], mask, [ROWS])
            total = tf.distribute.get_replica_context().all_reduce("sum", updates)
            counts.assign_add(total / strategy.num_replicas_in_sync)
        mask = batch["mask"] if uneven == "pad" else tf.ones(tf.shape(batch["id"]))
        strategy.run(replica_step, args=(batch["id"], mask))

    steps = 0
    for batch in ctx.feed("train").dataset(16, uneven=uneven):
        train_step(batch)
        steps += 1
    with open(f"{directory}/{ctx.task_index}", "w") as file:
        json.dump([steps, counts.numpy().tolist()], file)


def train_until_killed(ctx, directory):
    """Trains, and notes the ids of each step that is complete. Worker 1 kills itself in the 20th one, once."""
    import os
    import signal

    import tensorflow as tf
    strategy = ctx.strategy()

    @tf.function
    def train_step(batch):
        return strategy.reduce("sum", strategy.run(lambda mask: tf.reduce_sum(mask), args=(batch["mask"],)), axis=None)

    with open(f"{directory}/{ctx.task_index}.{ctx.generation}", "a", buffering=1) as file:
        for step, batch in enumerate(ctx.feed("train").dataset(10), 1):
            train_step(batch)
            ids = batch["id"].numpy()[batch["mask"].numpy() > 0]
            file.write(" ".join(map(str, ids)) + "\n")
            if (ctx.task_index, ctx.generation, step) == (1, 1, 20):
                os.kill(os.getpid(), signal.SIGKILL)
    return ctx.generation


def note_trained(ctx, directory):
    """Notes the ids of each step that is complete."""
    import tensorflow as tf
    strategy = ctx.strategy()

    @tf.function
    def train_step(batch):
        return strategy.reduce("sum", strategy.run(lambda mask: tf.reduce_sum(mask), args=(batch["mask"],)), axis=None)

    with open(f"{directory}/worker-{ctx.task_index}-{ctx.attempt}", "wb", buffering=0) as file:
        for batch in ctx.feed("train").dataset(100):
            train_step(batch)
            file.write(batch["id"].numpy()[batch["mask"].numpy() > 0].tobytes())


class MirroredKillTest(kill.KillCase):

    patience = JOB_S

    def test_every_row_is_trained_though_a_producer_and_a_worker_are_killed(self):
        self.run_job(note_trained, env=QUIET)
        self.await_rows(2000)
        self.kill_producer("a")
        self.await_rows(4000)
        self.kill_worker(1)
        self.attempts = [2, 2]  # both begin again
        self.await_rows(2000)
        self.end_producing()
        self.job.result(JOB_S)
        self.check_rows()


class MirroredTest(unittest.TestCase):

    def train(self, uneven, partition_rows=100):
        import json
        with tempfile.TemporaryDirectory(prefix="tfc-feed-") as directory:
            with tfc.run(count_rows, args=[uneven, directory], workers=2, output=False, env=QUIET) as job:
                with job.feed("train", partition_rows=partition_rows) as feed:
                    feed.put({"id": np.arange(ROWS), "x": np.ones((ROWS, 3), np.float32)})
                job.result(JOB_S)
            results = []
            for index in range(2):
                with open(f"{directory}/{index}") as file:
                    results.append(json.load(file))
        return results

    def test_with_pad_every_row_is_trained_once(self):
        (steps, counts), (other_steps, other_counts) = self.train("pad")
        self.assertEqual(steps, other_steps)
        self.assertEqual(counts, [1.0] * ROWS)
        self.assertEqual(other_counts, counts)

    def test_a_worker_without_rows_takes_part(self):
        (steps, counts), (other_steps, other_counts) = self.train("pad", partition_rows=ROWS)
        self.assertEqual((steps, other_steps), (-(-ROWS // 16),) * 2)
        self.assertEqual(counts, [1.0] * ROWS)
        self.assertEqual(other_counts, counts)

    def test_with_drop_no_row_is_trained_twice(self):
        (steps, counts), (other_steps, other_counts) = self.train("drop")
        self.assertEqual(steps, other_steps)
        self.assertEqual(counts, other_counts)
        self.assertEqual(sum(counts), steps * 16 * 2)
        self.assertEqual(set(counts), {0.0, 1.0})

    def test_after_the_kill_of_a_worker_all_other_rows_are_trained(self):
        with tempfile.TemporaryDirectory(prefix="tfc-feed-") as directory:
            with tfc.run(train_until_killed, args=[directory], workers=2, output=False, env=QUIET) as job:
                with job.feed("train", partition_rows=50) as feed:
                    feed.put({"id": np.arange(ROWS)})
                self.assertEqual(job.result(JOB_S), 2)
            trained = [int(number) for path in pathlib.Path(directory).iterdir() for number in path.read_text().split()]
        self.assertEqual(set(trained), set(range(ROWS)))
        # Of each worker, the partitions that were on their way are trained again: less than half of all.
        self.assertLess(len(trained), 1.5 * ROWS)


class DatasetTest(unittest.TestCase):

    def test_elements_have_the_types_of_their_columns(self):
        import tensorflow as tf

        def describe(ctx):
            dataset = ctx.feed("train").dataset(2)
            batches = [{name: values.numpy().tolist() for name, values in batch.items()} for batch in dataset]
            for batch in batches:
                batch["text"] = [text.decode() for text in batch["text"]]
            try:
                list(dataset)
                second = ""
            except Exception as error:
                second = str(error)
            return {"spec": {name: [spec.dtype.name, spec.shape.as_list()] for name, spec in dataset.element_spec.items()},
                    "batches": batches, "second": second}
        with tfc.run(describe, strategy="none", output=False, env=QUIET) as job:
            with job.feed() as feed:
                feed.put({"x": np.arange(6, dtype=np.float32).reshape(3, 2), "text": ["a", "b", "c"],
                          "half": np.array([0.5, 1.5, 2.5], tf.bfloat16.as_numpy_dtype)})
            result = job.result(JOB_S)
        self.assertEqual(result["spec"], {"x": ["float32", [2, 2]], "text": ["string", [2]], "half": ["bfloat16", [2]],
                                          "mask": ["float32", [2]]})
        self.assertEqual(result["batches"][0],
                         {"x": [[0, 1], [2, 3]], "text": ["a", "b"], "half": [0.5, 1.5], "mask": [1, 1]})
        self.assertEqual(result["batches"][1]["mask"], [1, 0])
        self.assertEqual((result["batches"][1]["x"][0], result["batches"][1]["text"][0]), ([4, 5], "c"))
        self.assertIn("was read already", result["second"])

    def test_missing_values_are_refused_also_in_a_batch_that_is_not_full(self):
        def read(ctx):
            return [batch["x"].numpy().tolist() for batch in ctx.feed("train").dataset(4)]
        with tfc.run(read, strategy="none", output=False, env=QUIET) as job:
            with self.assertRaisesRegex(tfc.TaskFailed, 'column "x" has missing values'), job.feed() as feed:
                feed.put({"x": np.ma.masked_array([1, 2], [False, True])})

    def test_a_dataset_is_a_source(self):
        import tensorflow as tf

        def total(ctx):
            return int(sum(batch["0"].sum() for batch in ctx.feed().batches()))
        with tfc.run(total, strategy="none", output=False, env=QUIET) as job:
            with job.feed() as feed:
                feed.put(tf.data.Dataset.range(100), epochs=2)
            self.assertEqual(job.result(JOB_S), 2 * sum(range(100)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
