"""The feed under parameter servers: workers that run TensorFlow's server read the rows, from datasets of the coordinator."""

import importlib.util
import os
import signal
import sys
import types
import unittest

import numpy as np
import tfcluster as tfc
from tfcluster import TFCluster, _feed_workers, _producer

if not importlib.util.find_spec("tensorflow"):
    print(f"{sys.executable} lacks tensorflow (meson option tf_python)")
    sys.exit(77)

JOB_S = 120
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}
ROWS = 4003


def count_rows(args, ctx):
    """Counts how often each id was trained, in a variable of the parameter server. Returns these counts, and the rows of
    each task, for four passes over two queues, of which it terminates one. Returns also what it was refused."""
    import tensorflow as tf

    import tfcluster as tfc
    task = ctx.task
    coordinator = tf.distribute.coordinator.ClusterCoordinator(task.strategy())
    with coordinator.strategy.scope():
        counts = tf.Variable(tf.zeros([ROWS], tf.int32))

    @tf.function
    def step(batches):
        batch = batches.get_next_as_optional()
        rows = tf.constant(0)
        if batch.has_value():
            values = batch.get_value()
            is_row = values["mask"] > 0
            tf.debugging.assert_equal(tf.boolean_mask(values["text"], is_row), "fed")
            ids = tf.boolean_mask(values["id"][:, 0], is_row)
            counts.scatter_add(tf.IndexedSlices(tf.ones_like(ids, tf.int32), ids))
            rows = tf.size(ids)
        return rows, tf.io.read_file("/proc/self/environ")

    def train(feed, is_terminated=False):
        batches = iter(coordinator.create_per_worker_dataset(lambda: feed.dataset(16)))
        trained: dict[str, int] = {}
        while not feed.has_ended():
            results = [coordinator.schedule(step, args=(batches,)) for _ in range(20)]
            coordinator.join()
            for rows, environ in (result.fetch() for result in results):
                variables = dict(line.split(b"=", 1) for line in environ.split(b"\0") if b"=" in line)
                name = f"worker/{variables[b'TFC_TASK_INDEX'].decode()}#{variables[b'TFC_ATTEMPT'].decode()}"
                trained[name] = trained.get(name, 0) + int(rows)
            task.report(trained)
            if is_terminated:
                feed.terminate()
        counted = counts.numpy().tolist()
        counts.assign(tf.zeros([ROWS], tf.int32))
        return {"counts": counted, "trained": trained}

    refusals = []
    task.checkpoints(counts=counts)
    for refused in (lambda: task.feed("train").dataset(16, uneven="drop"), ctx.get_data_feed,
                    lambda: task.feed("train", ack="commit").dataset(16)):
        try:
            refused()
        except tfc.InvalidError as error:
            refusals.append(str(error))
    return {"refusals": refusals, "first": train(task.feed("train")), "second": train(task.feed("train")),
            "terminated": train(task.feed("train"), is_terminated=True), "third": train(task.feed("input"))}


def rows_from(first, last):
    return {"id": np.arange(first, last).reshape(-1, 1), "text": ["fed"] * (last - first)}


def wait_metric(test, job, task, name):
    """Waits until the task has reported a number with this name that is not 0."""
    for _ in job.events(output=False):
        if task in job.tasks and (job.tasks[task].metrics or {}).get(name):
            return
    test.fail(f"the job has ended, and {task} has not reported {name}")


class ParameterServersTest(unittest.TestCase):

    def test_after_the_kill_of_a_worker_every_row_is_trained(self):
        cluster = TFCluster.run(None, count_rows, None, 4, num_ps=1, input_mode=TFCluster.InputMode.SPARK, output=False,
                                env=QUIET)
        job = cluster.job
        with job.feed("train", partition_rows=100) as feed:
            feed.put(rows_from(0, 2000))
            wait_metric(self, job, "chief/0", "worker/1#1")
            os.kill(job.tasks["worker/1"].pid, signal.SIGKILL)
            feed.put(rows_from(2000, ROWS))
        self.assertEqual(job.describe().incidents, 1)
        with job.feed("train", partition_rows=10) as feed:
            feed.put(rows_from(0, 100))
        with job.feed("train", partition_rows=1000) as feed:
            feed.put(rows_from(0, ROWS), epochs=100)
        with self.assertRaisesRegex(tfc.InvalidError, "inference: with parameter servers"):
            next(cluster.inference(range(10)))
        with self.assertRaisesRegex(tfc.Error, "has parameter servers, whose workers return no results"):
            _producer.Producer(job, "train", results=True)
        cluster.train(rows_from(0, 100), num_epochs=2)
        cluster.shutdown(timeout=JOB_S)
        result = job.result()
        self.assertIn('"drop" is for mirrored workers', result["refusals"][0])
        self.assertIn('with parameter servers, the workers read queue "input"', result["refusals"][1])
        self.assertIn('under parameter servers, use "consume"', result["refusals"][2])
        self.assertEqual(min(result["first"]["counts"]), 1)
        # What the worker had got and not consumed was fed again: the last batch, and the rest of its partitions.
        self.assertLess(sum(result["first"]["counts"]), ROWS + 500)
        self.assertEqual(result["second"]["counts"], [1] * 100 + [0] * (ROWS - 100))
        self.assertLess(sum(result["terminated"]["counts"]), 100 * ROWS)
        self.assertEqual(result["third"]["counts"], [2] * 100 + [0] * (ROWS - 100))


def read_queue(ctx):
    """Calls the function that TensorFlow's server calls."""
    import dataclasses
    import json

    from tfcluster import _feed_server

    def ask(index=-1, **changes):
        request = dataclasses.replace(known, **changes).to_json().encode()
        try:
            answer = _feed_server.answer(request, index)
        except ValueError as error:
            return str(error)
        if isinstance(answer, str):
            return json.loads(answer)
        return [values if isinstance(values, int) else values.tolist() for values in answer]

    def next_batch(index, rows=2, **changes):
        while (answer := ask(index, **changes))[0] == _feed_server.NO_ROWS_NOW and rows != _feed_server.NO_ROWS_NOW:
            index += 1
        return answer

    known = _feed_server.Request("next", "train", 0, 2, 2)
    result = {"version": ask(version=9), "open": ask(action="open"), "unknown": ask(action="sing")}
    while not (columns := ask(action="columns")).get("columns"):
        pass
    result["columns"] = columns["columns"]
    known = dataclasses.replace(known, columns=(("x", "float32", (2,)), ("mask", "float32", ())))
    result["other_type"] = ask(1, columns=(("x", "int64", (2,)),))
    result["first"] = next_batch(2)
    result["again"] = next_batch(0)
    result["state"] = ask(action="state")
    result["early"] = ask(action="consume")
    result["nothing"] = ask(3)
    result["filler"] = next_batch(4)
    ctx.report({"is_waiting": 1})
    result["rest"] = next_batch(9)
    result["end"] = next_batch(10)
    result["late"] = ask(action="state")
    result["consumed"] = ask(action="consume")
    result["older"] = ask(11, number=1)
    return result


class QueueTest(unittest.TestCase):

    def test_a_queue_answers_datasets_and_the_coordinator(self):
        with tfc.run(read_queue, strategy="none", output=False, env=QUIET) as job:
            with job.feed("train") as feed:
                feed.put({"x": np.arange(10, dtype=np.float32).reshape(5, 2)})
                wait_metric(self, job, "worker/0", "is_waiting")
            result = job.result(JOB_S)
        self.assertIn("the coordinator has version 9 of the feed, not 1", result["version"])
        self.assertEqual(result["open"], {})
        self.assertIn('asks for "sing"', result["unknown"])
        self.assertEqual(result["columns"], [["x", "float32", [2]]])
        self.assertIn('column "x" of worker/0 has the type float32 and the shape [2], but int64', result["other_type"])
        self.assertEqual(result["first"], [2, [[4, 5], [6, 7]], [1, 1]])
        self.assertEqual(result["again"], result["first"])
        self.assertEqual((result["state"], result["early"]), ({"is_ended": False}, {"is_ended": False}))
        self.assertEqual(result["nothing"], [-1, [], []])
        self.assertEqual(result["filler"], [2, [[4, 5], [6, 7]], [0, 0]])
        self.assertEqual(result["rest"], [2, [[8, 9], [8, 9]], [1, 0]])
        self.assertEqual(result["end"], [0, [], []])
        self.assertEqual((result["late"], result["consumed"]), ({"is_ended": True}, {"is_ended": True}))
        self.assertEqual(result["older"], [0, [], []])

    def test_what_is_wrong_is_one_sentence(self):
        workers = _feed_workers.Workers(tfc.context(), "train", 0, 16)
        for text, expected in ("ValueError: Could not find callback with key=pyfunc_0 in the registry.\n",
                               'worker/0 cannot read queue "train": it does not run TensorFlow\'s server of the library'), \
                              ("{{function_node x}} ValueError: worker/0 cannot read a feed: no\nTraceback",
                               "^worker/0 cannot read a feed: no$"):
            with self.assertRaisesRegex(tfc.InvalidError, expected):
                workers._check(0, types.SimpleNamespace(message=text))
        with self.assertRaisesRegex(tfc.InvalidError, "belongs to the dataset of a coordinator"):
            tfc.context().feed("train").has_ended()


if __name__ == "__main__":
    unittest.main(verbosity=2)
