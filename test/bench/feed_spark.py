"""Contender: the feed of TensorFlowOnSpark, on two executors of a Spark of this machine.

Its rows are made in the process that feeds them, without a way through the JVM.
"""

import itertools
import os
import sys
import time

import feed_rows

EXECUTORS = 2
PARTITIONS = 4
DISTINCT_ROWS = 1024


def start_spark():
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable,
                      SPARK_LOCAL_IP="127.0.0.1", SPARK_LOCAL_DIRS=os.getcwd(),
                      SPARK_WORKER_DIR=os.getcwd())
    import pyspark

    conf = pyspark.SparkConf().setAppName("feed").setMaster(f"local-cluster[{EXECUTORS},1,1024]")
    conf.set("spark.ui.enabled", "false").set("spark.task.maxFailures", "1")
    conf.set("spark.executorEnv.PYTHONPATH", os.path.dirname(os.path.abspath(__file__)))
    return pyspark.SparkContext(conf=conf)


def consume(args, ctx):
    """The program of the nodes. The batch of a ping may begin with rows that were fed before."""
    feed = ctx.get_data_feed(train_mode=False)
    while not feed.should_stop():
        rows = feed.next_batch(feed_rows.SMALL_BATCH)
        if rows and rows[-1] == "ping":
            feed.batch_results(["ping"])


class Spark:
    def __init__(self):
        from tensorflowonspark import TFCluster

        self.context = start_spark()
        self.cluster = TFCluster.run(self.context, consume, [], EXECUTORS, num_ps=0,
                                     input_mode=TFCluster.InputMode.SPARK)

    def train(self, kind, rows):
        """Seconds of train() until all rows are consumed."""
        def make_rows(numbers):
            made = feed_rows.lists(kind, DISTINCT_ROWS)
            for _ in numbers:
                yield from itertools.islice(itertools.cycle(made), rows // PARTITIONS)

        numbers = self.context.parallelize(range(PARTITIONS), PARTITIONS)
        partitions = numbers.mapPartitions(make_rows)
        begin = time.monotonic()
        self.cluster.train(partitions, num_epochs=1)
        return time.monotonic() - begin

    def ping(self, count):
        """Seconds of each of `count` partitions of one row and one result, within the process that
        feeds."""
        from tensorflowonspark import TFSparkNode

        infer = TFSparkNode.inference(self.cluster.cluster_info)

        def measure(rows):
            begin = time.monotonic()
            assert list(infer(rows)) == ["ping"]
            return [time.monotonic() - begin]

        partitions = self.context.parallelize(["ping"] * count, count)
        return partitions.mapPartitions(measure).collect()

    def stop(self):
        self.cluster.shutdown()
        self.context.stop()


if __name__ == "__main__":
    spark = Spark()
    feed_rows.serve({"train": spark.train, "ping": spark.ping})
    spark.stop()
