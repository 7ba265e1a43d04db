"""Trains from a tf.data service: the input pipeline runs in processes of its own, on other nodes.

Run by each role of data_service.json:

    tfc_run local --job data_service.json

The sidecar `dispatcher` distributes the work of the pipeline, the sidecars `data_worker` execute it,
and the worker trains on what they send.
"""

import argparse
import os

import tensorflow as tf

FEATURES = 8
SHARDS = 8
EXAMPLES = 64  # of each shard


def options():
    parser = argparse.ArgumentParser(description="Linear regression, fed by a tf.data service.")
    parser.add_argument("part", choices=["dispatch", "work", "train"])
    parser.add_argument("--port", type=int, help="of this process")
    parser.add_argument("--address", help="of this process, for the worker that trains")
    parser.add_argument("--dispatcher", help="address of the dispatcher")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--more-while", metavar="FILE", help="train on while FILE exists")
    return parser.parse_args()


def dispatch(args):
    server = tf.data.experimental.service.DispatchServer(
        tf.data.experimental.service.DispatcherConfig(port=args.port))
    server.join()


def work(args):
    """Connects to the dispatcher as soon as it listens: the sidecars start at the same time."""
    server = tf.data.experimental.service.WorkerServer(
        tf.data.experimental.service.WorkerConfig(
            dispatcher_address=args.dispatcher, worker_address=args.address, port=args.port))
    server.join()


def shard(number):
    """The examples of one shard, made where the pipeline runs: the weights 1, 2, ... 8, and noise."""
    with tf.control_dependencies([tf.print("shard", number)]):
        x = tf.random.stateless_normal([EXAMPLES, FEATURES], [number, 0])
    noise = tf.random.stateless_normal([EXAMPLES], [number, 1])
    return x, tf.linalg.matvec(x, tf.range(1.0, FEATURES + 1)) + 0.1 * noise


def pipeline(dispatcher):
    """With dynamic sharding, each epoch reads each shard once, whichever data worker it goes to."""
    return tf.data.Dataset.range(SHARDS).map(shard).unbatch().batch(32).apply(
        tf.data.experimental.service.distribute(
            processing_mode=tf.data.experimental.service.ShardingPolicy.DYNAMIC,
            service="grpc://" + dispatcher))


def train(args):
    dataset = pipeline(args.dispatcher)
    weights = tf.Variable(tf.zeros([FEATURES]))
    optimizer = tf.keras.optimizers.SGD(0.1)
    epoch = 0
    while epoch < args.epochs or (args.more_while and os.path.exists(args.more_while)):
        examples = 0
        for x, y in dataset:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, weights) - y))
            optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
            examples += len(y)
        epoch += 1
        print(f"epoch={epoch} examples={examples} loss={loss:.4f}", flush=True)
    print("weights=" + ",".join(f"{weight:.2f}" for weight in weights.numpy()), flush=True)


def main():
    args = options()
    {"dispatch": dispatch, "work": work, "train": train}[args.part](args)


if __name__ == "__main__":
    main()
