"""TensorFlowOnSpark's TFNode: the ctx of a map_fun, and its paths."""

from __future__ import annotations

import getpass
import os
from collections import deque
from collections.abc import Mapping
from typing import Any

from . import _feed_workers
from ._columns import invalid
from ._task_context import TaskContext
from .errors import InvalidError
from .feed import Batch, _Rows, to_rows

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


class DataFeed:
    """The rows that `TFCluster.train` or `TFCluster.inference` feed to a task of InputMode.SPARK, in lists.

    `mgr` is the ctx of the map_fun. With `train_mode` False, a batch ends with its partition, and `batch_results` returns
    one result for each row. `input_mapping`, a dict from columns to names of tensors, makes `next_batch` return a dict of
    lists.
    """

    def __init__(self, mgr: TFNodeContext, train_mode: bool = True, qname_in: str = "input", qname_out: str = "output",
                 input_mapping: Mapping[str, str] | None = None) -> None:
        if _feed_workers.is_coordinator(mgr.task):
            raise InvalidError(f'with parameter servers, the workers read queue "{qname_in}"; make their datasets with '
                               f'ctx.task.feed("{qname_in}").dataset(batch_size), in coordinator.create_per_worker_dataset')
        self._feed = mgr.task.feed(qname_in)
        self._train_mode = train_mode
        self._columns = sorted(input_mapping) if input_mapping else []
        self._tensors = [input_mapping[column] for column in self._columns] if input_mapping else None
        self._rows: _Rows | None = None
        self._owed: deque[list[int]] = deque()  # partition, offset and rows without results
        self._results: list[Any] = []
        self._is_partition_over = False
        self.done_feeding = False
        self._feed._open()

    def should_stop(self) -> bool:
        """Whether the feed has ended."""
        return self.done_feeding

    def next_batch(self, batch_size: int) -> Any:
        """Up to `batch_size` rows: a list, or with `input_mapping` a dict of lists."""
        feed = self._feed
        rows: list[Any] = []
        if self._train_mode:
            feed._consumed(feed._taken)
        if self._is_partition_over:
            self._check_results()
        while len(rows) < batch_size and not self.done_feeding:
            if self._rows is None:
                self._rows = feed._next_rows()
                if self._rows is None:
                    self.done_feeding = True
                    feed._settle()
                    break
            part = self._rows
            if part.is_end:
                feed._handed_out(part, 0)
                self._rows = None
                self._report()
                if rows and not self._train_mode:
                    self._is_partition_over = True
                    break
                self._check_results()
                continue
            count = min(batch_size - len(rows), part.rows - part.begin)
            rows += to_rows(self._selected(part.columns), part.begin, part.begin + count)
            if not self._train_mode:
                self._owed.append([part.partition, part.offset + part.begin, count])
            feed._handed_out(part, count)
            if part.begin == part.rows:
                self._rows = None
        if self._tensors is None:
            return rows
        if len(self._tensors) == 1:
            return {self._tensors[0]: rows}
        for row in rows[:1]:
            if not isinstance(row, list) or len(row) != len(self._tensors):
                raise invalid(f"input_mapping has {len(self._tensors)} columns, but a row has "
                               f"{len(row) if isinstance(row, list) else 1}")
        return {tensor: [row[place] for row in rows] for place, tensor in enumerate(self._tensors)}

    def _check_results(self) -> None:
        """Rows of a partition that has ended must have their results before the next one begins."""
        self._is_partition_over = False
        if self._owed:
            missing = sum(rows for _, _, rows in self._owed) - len(self._results)
            raise invalid(f"partition {self._owed[0][0]}: {missing} results are missing; return one result for each row "
                           "with batch_results()")

    def _selected(self, columns: Batch) -> Batch:
        """The columns of the mapping, in the order of their names; all of them if rows have no such names."""
        if not self._columns or not all(name in columns for name in self._columns):
            return columns
        return {name: columns[name] for name in self._columns}

    def batch_results(self, results: Any) -> None:
        """Returns results, one for each row that `next_batch` has returned, in the same order."""
        self._results += list(results)
        while self._owed and len(self._results) >= self._owed[0][2]:
            partition, offset, rows = self._owed.popleft()
            part, self._results = self._results[:rows], self._results[rows:]
            self._feed._put_results(partition, offset, part, rows)
        if self._results and not self._owed:
            raise invalid(f"{len(self._results)} results more than rows; return one result for each row")
        self._report()

    def _report(self) -> None:
        """Reports what is consumed: with results, rows whose results were returned."""
        if self._train_mode or not self._owed:
            self._feed._consumed(self._feed._taken)

    def terminate(self) -> None:
        """Tells the driver that no more rows are needed."""
        self._feed.terminate()
