"""Trains from outside the cluster: the tasks run TensorFlow's own server, this program drives them.

    tfc_run local --driver --worker 2 --ps 1 -- python3 driver.py

The cluster comes as TF_CLUSTER, as Apache Ignite gives it to such a program:
{"worker": ["host:port", ...], "ps": ["host:port", ...]}.
"""

import json
import os

import tensorflow as tf

import digits
import parameter_server


def cluster_from_environment():
    """A resolver for the workers and parameter servers of TF_CLUSTER."""
    try:
        cluster = json.loads(os.environ["TF_CLUSTER"])
    except KeyError:
        raise SystemExit("driver: TF_CLUSTER is not set: run it with tfc_run --driver")
    spec = tf.train.ClusterSpec({role: cluster[role] for role in ("worker", "ps")})
    return tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")


def main():
    args = digits.options(__doc__.splitlines()[0])
    parameter_server.train(args, cluster_from_environment())


if __name__ == "__main__":
    main()
