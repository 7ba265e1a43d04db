"""Kills at random moments: two producer processes feed the workers of a job that a node runs, and any of them dies.

Each row has a number. What the workers note is complete at the end, whoever was killed, and few rows are fed twice.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import unittest
from typing import Any

import numpy as np
import tfcluster as tfc
from cluster import Cluster

PATIENCE = 60  # seconds until something awaited counts as never coming
WINDOW = 1 << 16
WINDOW_ROWS = WINDOW // 8
# Of the partitions, in turn: smaller than what a consumer holds back, larger, and larger than the window.
SIZES = (100, 700, 3000, 9000)
NAMES = ("a", "b")
PR_SET_CHILD_SUBREAPER = 36
BATCH = 50
PROGRAM = os.path.abspath(__file__)


def note_ids(ctx, directory):
    """Notes the numbers of the rows of each batch, before it asks for the next one."""
    with open(f"{directory}/worker-{ctx.task_index}-{ctx.attempt}", "wb", buffering=0) as file:
        for batch in ctx.feed("train").batches(BATCH):
            file.write(batch["id"].tobytes())


RESTARTED: dict[str, Any] = {
    "framework": "none", "strategy": "none",
    "restart": tfc.RestartPolicy(max_restarts=100, scope="task", backoff_s=(0.01, 0.05))}


# ---- a producer process


def partitions(name):
    """All partitions of a producer, without end: their first row and their size."""
    first = NAMES.index(name) << 40
    while True:
        for size in SIZES:
            yield first, size
            first += size


def feed_until_enough(job, name, directory):
    """Feeds partition after partition, until the file "enough" names a number of them. Returns how many there were."""
    enough = directory / "enough"
    with (job.feed("train", producer=name, producers=len(NAMES), window=WINDOW) as feed,
          open(directory / f"progress-{name}-{os.getpid()}", "wb", buffering=0) as progress):
        for number, (first, size) in enumerate(partitions(name)):
            if enough.exists() and number >= int(enough.read_text()):
                return number
            progress.write(b".")  # its size is the number
            feed.put({"id": np.arange(first, first + size)})


def produce(address, key, job_id, name, directory):
    """The main function of a producer process. It prints what has ended the feed, and what was left of it then."""
    before = set(os.listdir("/proc/self/fd"))
    report: dict[str, Any] = {}
    try:
        with tfc.attach(job_id, gateway=address, key=key, output=False) as job:
            report["partitions"] = feed_until_enough(job, name, pathlib.Path(directory))
    except tfc.Error as error:
        report["error"] = str(error)
        traceback.clear_frames(error.__traceback__)
    report["fds"] = [os.readlink(f"/proc/self/fd/{fd}") for fd in set(os.listdir("/proc/self/fd")) - before
                     if os.path.exists(f"/proc/self/fd/{fd}")]
    report["is_mapped"] = "tfcluster-feed" in pathlib.Path("/proc/self/maps").read_text()
    print(json.dumps(report), flush=True)


# ---- the campaign


class KillCase(unittest.TestCase):
    """A job of two workers on a node, and its two producers."""

    patience = PATIENCE

    def setUp(self):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        directory = tempfile.TemporaryDirectory(prefix="tfc-feed-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.cluster = Cluster("a")
        self.addCleanup(self.cluster.close)
        self.producers: dict[str, subprocess.Popen[str]] = {}
        self.addCleanup(self.end_producers)
        self.client = tfc.connect(self.cluster.gateway, key=self.cluster.key)
        self.addCleanup(self.client.close)

    def run_job(self, function, **options):
        self.attempts = [1, 1]
        self.job = self.client.run(function, args=[str(self.directory)], workers=2, output=False, python=sys.executable,
                                   **options)
        self.addCleanup(self.job.close)
        for name in NAMES:
            self.start_producer(name)

    def start_producer(self, name):
        self.producers[name] = subprocess.Popen(
            [sys.executable, PROGRAM, "produce", self.cluster.gateway, self.cluster.key, self.job.id, name, self.directory],
            stdout=subprocess.PIPE, text=True)

    def end_producers(self):
        for producer in self.producers.values():
            producer.kill()
            producer.communicate()

    def await_true(self, condition, what):
        """Follows the job until the condition is true."""
        deadline = time.monotonic() + self.patience
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f"{what} within {self.patience} s; job: {self.job.state} {self.job.tasks}")
            self.client._context.wait(condition, 0.005)

    # ---- what is known

    def noted(self):
        """The rows that each attempt has noted, by its task and number."""
        rows = {}
        for path in self.directory.glob("worker-*"):
            _, task, attempt = path.name.split("-")
            data = path.read_bytes()
            rows[int(task), int(attempt)] = np.frombuffer(data[:len(data) // 8 * 8], np.int64)
        return rows

    def noted_count(self):
        return sum(path.stat().st_size for path in self.directory.glob("worker-*")) // 8

    def await_rows(self, count):
        """Waits until so many more rows are noted."""
        until = self.noted_count() + count
        self.await_true(lambda: self.noted_count() >= until, f"{count} more rows are noted")

    # ---- kills

    def kill_producer(self, name):
        self.producers[name].kill()
        self.producers[name].communicate()
        self.start_producer(name)

    def kill_worker(self, index):
        def is_running():
            task = self.job.tasks.get(f"worker/{index}")
            return task and task.state in ("running", "ready") and task.attempt == self.attempts[index]
        self.await_true(is_running, f"attempt {self.attempts[index]} of worker {index} runs")
        self.attempts[index] += 1
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.job.tasks[f"worker/{index}"].pid, signal.SIGKILL)

    def end_producing(self):
        """Lets the producers end some partitions later."""
        progress = [path.stat().st_size for path in self.directory.glob("progress-*")]
        part = self.directory / "enough.part"
        part.write_text(str(max(progress) + 8))
        part.rename(self.directory / "enough")

    def kill_at_random(self, seed):
        """Kills each of the four at least once, in any order, some of them at the same time."""
        generator = random.Random(seed)
        kills: list[Any] = [*NAMES, 0, 1, generator.choice([*NAMES, 0, 1])]
        generator.shuffle(kills)
        for victim in kills:
            if generator.random() < 0.7:
                self.await_rows(generator.randrange(1, 4 * WINDOW_ROWS))
            if victim in NAMES:
                self.kill_producer(victim)
            else:
                self.kill_worker(victim)
        self.await_rows(WINDOW_ROWS)
        self.end_producing()

    def check_rows(self):
        """The rows of both producers are complete. Only rows that a killed worker had, and those that were on their way
        when a producer was killed, were fed again."""
        expected = []
        for name in NAMES:
            out, _ = self.producers[name].communicate(timeout=self.patience)
            report = json.loads(out)
            self.assertNotIn("error", report)
            self.assertFalse(report["is_mapped"], report)
            self.assertFalse([fd for fd in report["fds"] if "memfd" in fd or "socket" in fd], report)
            expected += [np.arange(first, first + size) for number, (first, size) in zip(
                range(report["partitions"]), partitions(name), strict=False)]
        noted = self.noted()
        rows, counts = np.unique(np.concatenate(list(noted.values())), return_counts=True)
        self.assertTrue(np.array_equal(rows, np.concatenate(expected)),
                        f"{len(np.concatenate(expected))} rows were fed, {len(rows)} came")
        of_the_killed = sum(len(rows) for (task, attempt), rows in noted.items() if attempt < self.attempts[task])
        self.assertLessEqual(int((counts - 1).sum()), of_the_killed + 4 * WINDOW_ROWS)


class KillTest(KillCase):

    def test_every_row_is_consumed_whoever_is_killed(self):
        for seed in range(3):
            with self.subTest(seed=seed):
                for path in self.directory.iterdir():
                    path.unlink()
                self.run_job(note_ids, **RESTARTED)
                self.kill_at_random(seed)
                self.job.result(PATIENCE)
                self.check_rows()

    # ---- the node

    def children(self):
        """The names of the processes whose parent has died, by their number."""
        known = {producer.pid for producer in self.producers.values()}
        known |= {node.pid for node in self.cluster.nodes.values()}
        names = {}
        for pid in map(int, pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()):
            if pid not in known and os.waitpid(pid, os.WNOHANG)[0] != pid:
                names[pid] = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
        return names

    def end_guard(self):
        """The guard of a killed node waits for the node, to report how its tasks have ended."""
        for pid, name in self.children().items():
            if name == "tfc-guard":
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def test_with_the_node_all_ends_and_nothing_is_left(self):
        self.run_job(note_ids, **RESTARTED)
        self.await_true(lambda: len([path for path in self.directory.glob("progress-*") if path.stat().st_size]) == 2,
                        "both producers feed")
        self.await_rows(WINDOW_ROWS)
        tasks = [task.pid for task in self.job.tasks.values()]
        self.addCleanup(self.end_guard)
        self.cluster.kill("a")
        for name in NAMES:
            out, _ = self.producers[name].communicate(timeout=PATIENCE)
            report = json.loads(out)
            self.assertRegex(report["error"],
                             f'of job {self.job.id}: its node "a" has ended|cannot follow job {self.job.id}')
            self.assertFalse(report["is_mapped"], report)
            self.assertFalse([fd for fd in report["fds"] if "memfd" in fd or "socket" in fd], report)
        self.await_true(lambda: set(self.children().values()) <= {"tfc-guard"}, "all processes but the guard end")
        self.await_true(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in tasks), "the tasks end")
        for pid in self.children():
            self.assertNotIn("tfcluster-feed", pathlib.Path(f"/proc/{pid}/maps").read_text())
        self.assertNotIn(f"tfcluster/feed/{self.job.id}", pathlib.Path("/proc/net/unix").read_text())


if __name__ == "__main__":
    if sys.argv[1:2] == ["produce"]:
        produce(*sys.argv[2:])
    else:
        unittest.main(verbosity=2)
