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
