"""TensorFlowOnSpark's TFNode: the ctx of a map_fun, and its paths."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from typing import Any

from . import _feed_workers, feed
from ._task_context import TaskContext
from .errors import InvalidError

# https://hadoop.apache.org/docs/r3.0.0/hadoop-project-dist/hadoop-common/filesystem/index.html
_HADOOP_SCHEMES = ("adl", "file", "hdfs", "oss", "s3", "s3a", "s3n", "swift", "viewfs", "wasb")


class TFNodeContext:
    """The ctx that a map_fun gets: TensorFlowOnSpark's fields. `task` is the `TaskContext` of the same task, with
    `strategy`, `checkpoints` and `report`."""

    def __init__(self, task: TaskContext, executor_id: int, num_workers: int, default_fs: str) -> None:
        self.task = task
        self.executor_id = executor_id
        self.worker_num = executor_id
        self.job_name = task.task_type
        self.task_index = task.task_index
        self.num_workers = num_workers
        self.cluster_spec = task.cluster_spec
        self.defaultFS = default_fs
        self.working_dir = os.getcwd()
        self.user_name = getpass.getuser()

    def absolute_path(self, path: str) -> str:
        """See `hdfs_path`."""
        return hdfs_path(self, path)

    def release_port(self) -> None:
        """Does nothing. The library keeps the port from other programs until the task has ended, and TensorFlow
        can bind it nevertheless."""

    def get_data_feed(self, train_mode: bool = True, qname_in: str = "input", qname_out: str = "output",
                      input_mapping: Mapping[str, str] | None = None) -> DataFeed:
        """The rows that `TFCluster.train` or `TFCluster.inference` feed to this task. `qname_out` changes nothing."""
        return DataFeed(self, train_mode, qname_in, qname_out, input_mapping)


def hdfs_path(ctx: Any, path: str) -> str:
    """A path with the scheme of its file system, for TensorFlow.

    A path with one of Hadoop's schemes stays as it is. An absolute path is one of ctx.defaultFS. A relative path starts
    at the user's directory of HDFS, or at ctx.working_dir for "file://".
    """
    default_fs: str = ctx.defaultFS
    if path.partition("://")[0] in _HADOOP_SCHEMES and "://" in path:
        return path
    if path.startswith("/"):
        return default_fs + path
    if default_fs.startswith(("hdfs://", "viewfs://")):
        return f"{default_fs}/user/{getpass.getuser()}/{path}"
    if default_fs.startswith("file://"):
        return f"{default_fs}{ctx.working_dir}/{path}"
    return f"{default_fs}/{path}"


class DataFeed(feed.DataFeed):
    """The rows that `TFCluster.train` or `TFCluster.inference` feed to a task of InputMode.SPARK, in lists.

    `mgr` is the ctx of the map_fun. With `train_mode` False, a batch ends with its partition, and `batch_results` returns
    one result for each row.
    """

    def __init__(self, mgr: TFNodeContext, train_mode: bool = True, qname_in: str = "input", qname_out: str = "output",
                 input_mapping: Mapping[str, str] | None = None) -> None:
        if _feed_workers.is_coordinator(mgr.task):
            raise InvalidError(f'with parameter servers, the workers read queue "{qname_in}"; make their datasets with '
                               f'ctx.task.feed("{qname_in}").dataset(batch_size), in coordinator.create_per_worker_dataset')
        super().__init__(mgr.task.feed(qname_in), train_mode, input_mapping)
