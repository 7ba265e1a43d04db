"""A cluster resolver for TensorFlow's strategies. TensorFlow is imported when the resolver is made."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

from ._task_context import read_cluster


def ClusterResolver(cluster_spec: Mapping[str, Any] | None = None, task_type: str | None = None,
                    task_index: int | None = None) -> Any:
    """A tf.distribute.cluster_resolver.ClusterResolver of this task's cluster.

    It reads the cluster from TF_CONFIG. A task outside the cluster, such as a driver, has TF_CLUSTER instead, and its
    task type is None. Without both variables, the cluster is empty, and strategies run in this process alone.

    A variable cannot be longer than 131,072 bytes. A driver whose cluster needs more passes `cluster_spec`, such as
    {"worker": ["host:port", ...], "ps": [...]}, with addresses from `Client.describe`.
    """
    cluster, task = read_cluster(os.environ)
    if cluster_spec is not None:
        cluster = dict(cluster_spec)
    if task_type is None and "type" in task:
        task_type, task_index = str(task["type"]), int(task.get("index", 0))
    return _resolver_class()(cluster, task_type, task_index)


@functools.cache
def _resolver_class() -> Any:
    import tensorflow as tf

    base: Any = tf.distribute.cluster_resolver.ClusterResolver

    class TaskClusterResolver(base):  # type: ignore[misc]
        """The cluster of a task, as the library describes it."""

        def __init__(self, cluster: Mapping[str, Any], task_type: str | None, task_index: int | None) -> None:
            self._cluster_spec = tf.train.ClusterSpec(cluster)
            self.task_type = task_type
            self.task_id = task_index
            self.rpc_layer = "grpc" if cluster else None

        @property
        def environment(self) -> str:
            return ""

        def cluster_spec(self) -> Any:
            return self._cluster_spec

        def master(self, task_type: str | None = None, task_id: int | None = None,
                   rpc_layer: str | None = None) -> str:
            task_type = self.task_type if task_type is None else task_type
            task_id = self.task_id if task_id is None else task_id
            if not task_type:
                return ""
            rpc_layer = rpc_layer or self.rpc_layer
            address: str = self._cluster_spec.task_address(task_type, task_id)
            return f"{rpc_layer}://{address}" if rpc_layer else address

        def num_accelerators(self, task_type: str | None = None, task_id: int | None = None,
                             config_proto: Any = None) -> Any:
            return super().num_accelerators(self.task_type if task_type is None else task_type,
                                            self.task_id if task_id is None else task_id, config_proto)

    return TaskClusterResolver
