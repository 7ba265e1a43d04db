"""Serve one task of a TensorFlow cluster: what a role with "server": true runs.

Started as `PYTHON -c SOURCE`; TF_CONFIG says which task of which cluster this is. It serves until
it is killed: tf.distribute.Server has no stop. A failed import or a port that cannot be bound ends
it with a non-zero status and the reason as the last line.
"""
import faulthandler
import os
import sys

faulthandler.register(58, all_threads=True, chain=False)  # the stacks on request, see python_stacks.py

if not os.environ.get("TF_CONFIG"):
    sys.exit("tensorflow server: TF_CONFIG is not set")
try:
    import tensorflow as tf
except ImportError as error:
    sys.exit(f"tensorflow server: {sys.executable} cannot import tensorflow: {error}")

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
task = f"{resolver.task_type}/{resolver.task_id}"


def answer_feed(request, index):
    """Called by the datasets of a feed that the coordinator makes, and by the coordinator."""
    try:
        from tfcluster import _feed_server
    except ImportError as error:
        raise ValueError(f"{task} cannot read a feed: {sys.executable} cannot import tfcluster: {error}; install the "
                         "package there, or add it to PYTHONPATH") from None
    return _feed_server.answer(request, index)


# PyFunc finds a function by its name in the process where the op runs. The first one that numpy_function registers is
# "pyfunc_0", and stays registered as long as its graph exists.
feed_graph = tf.Graph()
if resolver.task_type == "worker":
    with feed_graph.as_default():
        tf.numpy_function(answer_feed, ["", 0], tf.string)

try:
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
    )
except (tf.errors.OpError, ValueError) as error:
    sys.exit(f"tensorflow server: {task} did not start: {error}")
print(f"tensorflow server: {task} serves {server.target}", flush=True)
server.join()
