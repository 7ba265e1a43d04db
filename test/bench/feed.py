"""Rows: how fast rows come from one process into another, and what memory that takes."""

import contextlib
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import feed_rows
import measure
from measure import Bench, faster, quotient, spread
from processes import command_line, descendants_of

REPETITIONS = 5
SPARK_REPETITIONS = 3
GIGABYTE = 10**9
# Bytes of a measurement, so that each takes about a second.
BYTES = {"stream": 2 * GIGABYTE, "ring": 4 * GIGABYTE, "c": 4 * GIGABYTE, "numpy": 4 * GIGABYTE,
         "arrow": 4 * GIGABYTE, "flight": GIGABYTE}
ROWS = {"wide": {"lists": 60000, "queue": 102400, "generator": 102400, "spark": 32000},
        "narrow": {"lists": 1000000, "queue": 5120000, "generator": 512000, "spark": 80000}}
MEMORY_BYTES = 10 * GIGABYTE
WINDOW_MIB = 16
PING_COUNT = 1000
SPARK_PINGS = 6
CONTENDER_SECONDS = 120  # for one answer

LABELS = {"spark": "TensorFlowOnSpark", "flight": "Arrow Flight", "queue": "multiprocessing.Queue",
          "generator": "from_generator", "stream": "raw unix stream",
          "ring": "memcpy, shared memory"}


class Contender:
    """A process that measures on request; see feed_rows.serve. It fails with what it printed."""

    def __init__(self, argv, directory, env=None):
        self.name = " ".join(os.path.basename(word) for word in argv[:3])
        self.log = open(os.path.join(directory, "log"), "w+b")
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, cwd=directory, env=env,
                                        start_new_session=True)
        self.received = b""

    def fail(self, why):
        self.log.seek(0)
        tail = self.log.read().decode(errors="replace").splitlines()[-30:]
        raise RuntimeError("\n".join([f"{self.name}: {why}; it printed:", *tail]))

    def answer(self):
        deadline = time.monotonic() + CONTENDER_SECONDS
        while b"\n" not in self.received:
            left = max(0, deadline - time.monotonic())
            if not select.select([self.process.stdout], [], [], left)[0]:
                self.fail(f"no answer in {CONTENDER_SECONDS} s")
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                self.fail("it has ended")
            self.received += data
        line, _, self.received = self.received.partition(b"\n")
        return line.decode()

    def send(self, line):
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.fail("it has ended")
        return self.answer()

    def call(self, *words):
        return json.loads(self.send(json.dumps(words)))

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


class Feed(Bench):
    def run(self):
        with contextlib.ExitStack() as stack:
            self.start(stack)
            for kind in feed_rows.WIDTHS:
                self.run_kind(kind)
            self.run_pings()
            self.run_memory()

    def start(self, stack):
        self.stack = stack
        self.address, self.node = self.start_node()
        self.peers = {name: self.script(sys.executable, "feed_peers.py", name)
                      for name in ("flight", "queue", "generator")}
        self.spark = self.start_spark()

    # ---- contenders

    def contender(self, argv, env=None):
        directory = self.stack.enter_context(tempfile.TemporaryDirectory())
        contender = Contender(argv, directory, dict(env or self.environ, TMPDIR=directory))
        self.stack.callback(contender.close)
        return contender

    def script(self, python, name, *words, **env):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
        contender = self.contender([python, path, *words], dict(self.environ, **env))
        if contender.answer() != '"ready"':
            contender.fail("it is not ready")
        return contender

    def start_spark(self):
        python = os.environ.get("TFC_SPARK_PYTHON")
        if not python:
            raise RuntimeError("TFC_SPARK_PYTHON is not set: no TensorFlowOnSpark to compare with; "
                               "start test/bench/run.sh")
        return self.script(python, "feed_spark.py")

    def start_node(self):
        """The address and the process of a node without jobs."""
        state = self.stack.enter_context(tempfile.TemporaryDirectory())
        node = self.stack.enter_context(measure.background(
            [self.tfc_run, "node", "--name", "bench", "--state", state, "--json"],
            env=self.environ, stdout=subprocess.PIPE))
        node.stdout.readline()
        self.stack.callback(node.stdout.close)
        return f"unix:{state}/node.sock", node

    def ours(self, kind, batch_rows, *words):
        return self.script(sys.executable, "feed_ours.py", kind, str(batch_rows), self.address,
                           *words, PYTHONPATH=self.python_package, TFCLUSTER_LIBRARY=self.library,
                           TFCLUSTER_HELPER_DIR=self.helpers)

    def in_c(self, queue):
        program = os.path.join(self.bin, "feed")
        job = subprocess.run([self.tfc_run, "start", "--gateway", self.address, "--detach",
                              "--framework", "none", "--cwd", "/", "--", program, "consume"],
                             check=True, text=True, env=self.environ, capture_output=True,
                             timeout=30).stdout.split()[0]
        return self.contender([program, "produce", self.address, job, queue])

    def limit(self, what, size):
        return float(subprocess.run([os.path.join(self.bin, "feed_limits"), what, str(size)],
                                    check=True, capture_output=True, timeout=120).stdout)

    # ---- rows per second

    def run_kind(self, kind):
        row_bytes = feed_rows.ROW_BYTES[kind]
        counts = {name: size // row_bytes for name, size in BYTES.items()}
        counts.update(ROWS[kind])
        small = self.ours(kind, feed_rows.SMALL_BATCH)
        large = self.ours(kind, 0)
        in_c = self.in_c(kind)
        ways = {
            "stream": lambda rows: self.limit("stream", rows * row_bytes),
            "ring": lambda rows: self.limit("ring", rows * row_bytes),
            "c": lambda rows: float(in_c.send(str(rows))),
            "numpy": lambda rows: large.call("carry", "numpy", rows),
            "arrow": lambda rows: large.call("carry", "arrow", rows),
            "numpy 256": lambda rows: small.call("carry", "numpy", rows),
            "arrow 256": lambda rows: small.call("carry", "arrow", rows),
            "lists": lambda rows: small.call("carry", "lists", rows),
            **{name: lambda rows, peer=peer: peer.call("carry", kind, rows)
               for name, peer in self.peers.items()},
            "spark": lambda rows: self.spark.call("train", kind, rows),
        }
        rates = {name: [] for name in ways}
        for repetition in range(-1, REPETITIONS):  # the first one imports and allocates
            for name, way in ways.items():
                if name == "spark" and repetition >= SPARK_REPETITIONS:
                    continue
                rows = counts[name.split()[0]]
                seconds = way(rows if repetition >= 0 else max(rows // 10, 256))
                if repetition >= 0:
                    rates[name].append(rows / seconds)
        self.add_kind(kind, rates)

    def add_kind(self, kind, rates):
        def figure(values):
            megabytes = statistics.median(values) * feed_rows.ROW_BYTES[kind] / 1e6
            return f"{spread([value / 1e3 for value in values], 'k rows/s')}, {megabytes:.0f} MB/s"

        def add(ours, peer, goal):
            source = {"c": "in C, plain buffers", "numpy": "numpy, batches as they come",
                      "arrow": "Arrow, batches as they come", "numpy 256": "numpy, batches of 256",
                      "arrow 256": "Arrow, batches of 256", "lists": "lists, batches of 256"}[ours]
            factor = quotient(rates[ours], rates[peer])
            self.table.add(f"feed of {kind} rows, {source}", figure(rates[ours]),
                           f"{LABELS[peer]} {figure(rates[peer])}", f"{factor:.2f}x",
                           f">= {goal}x" if goal else "-", factor >= goal if goal else None)

        for ours in ("numpy", "arrow", "c"):
            for peer, goal in (("stream", 1), ("ring", 0.5), ("flight", 3)):
                add(ours, peer, goal)
        for ours in ("numpy 256", "arrow 256"):
            for peer, goal in (("spark", 500), ("queue", None), ("generator", None)):
                add(ours, peer, goal)
        add("lists", "spark", 20)

    # ---- one row and back

    def run_pings(self):
        in_c = self.in_c("ping")
        spark, ours = [], []
        for _ in range(SPARK_REPETITIONS):
            ours += map(float, in_c.send(str(PING_COUNT)).split())
            spark += self.spark.call("ping", SPARK_PINGS)
        milliseconds = statistics.median(ours) * 1e3
        mapped = self.ours("narrow", 0)
        mapped.call("map", PING_COUNT // 10)
        rounds = [mapped.call("map", PING_COUNT) * 1e3 for _ in range(SPARK_REPETITIONS)]
        per_second = [1 / seconds for seconds in spark]
        self.table.add("map_batches, partitions of one row, one worker",
                       spread([1 / milliseconds for milliseconds in rounds], "k/s"),
                       "TensorFlowOnSpark, one executor " + spread(per_second, "/s", 2),
                       faster(rounds, [seconds * 1e3 for seconds in spark]), "-", None)
        self.table.add("partition of one row, and its result, in C, p50 / p99",
                       f"{milliseconds:.3f} / {measure.percentile(ours, .99) * 1e3:.3f} ms",
                       f"TensorFlowOnSpark {statistics.median(spark) * 1e3:.0f} ms",
                       faster(ours, spark), "p50 <= 0.2 ms", milliseconds <= 0.2)

    # ---- memory

    def run_memory(self):
        """Of a feed of numpy arrays. Shared memory counts in each process that has mapped it."""
        ours = self.ours("wide", 0, "--read")
        tasks = [pid for pid in descendants_of(self.node.pid) if is_python_task(pid)]
        pids = {"producer": ours.process.pid, "node": self.node.pid, "consumer": tasks[-1]}
        before = {name: resident(pid) for name, pid in pids.items()}
        peaks = {name: [0, 0] for name in pids}
        is_over = threading.Event()

        def sample():
            while not is_over.wait(0.02):  # a reading of /proc, which notifies nobody
                for name, pid in pids.items():
                    peaks[name] = list(map(max, peaks[name], resident(pid)))

        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            ours.call("carry", "numpy", MEMORY_BYTES // feed_rows.ROW_BYTES["wide"])
        finally:
            is_over.set()
            sampler.join()
        for name, (total, shared) in peaks.items():
            self.table.add(f"{name} while 10 GB flow, most memory",
                           f"{total:.0f} MiB, {shared:.0f} of it shared",
                           "before: {:.0f} MiB, {:.0f} of it shared".format(*before[name]), "-",
                           f"shared <= {WINDOW_MIB} MiB", shared <= WINDOW_MIB)


def is_python_task(pid):
    return b"tfcluster.task" in command_line(pid)


def resident(pid):
    """MiB of a process, and those of them that are shared memory."""
    return [measure.status(pid, key) / 1024 for key in ("VmRSS", "RssShmem")]
