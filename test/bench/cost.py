"""Rows: what a port, an idle node and the library itself cost."""

import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from measure import IDLE_SECONDS, Bench, background, quotient, ratio, rss, spread, switches
from processes import descendants_of, name_of

SCALE_EVENTS = 300


class Port(Bench):
    def run(self):
        output = subprocess.run([os.path.join(self.bin, "port")], check=True, text=True,
                                capture_output=True).stdout
        words = dict(zip(output.split()[::2], output.split()[1::2]))
        self.table.add("acquire and release a port",
                       "{:.1f} us".format(float(words["port_acquire_ns"]) / 1e3),
                       "bind + close {:.1f} us".format(float(words["bare_ns"]) / 1e3),
                       "{:.2f}x".format(float(words["ratio"])), "<= 1.3x",
                       float(words["ratio"]) <= 1.3)


class Tasks(Bench):
    @contextlib.contextmanager
    def sleeping_tasks(self, count):
        """tfc_run with that many sleeping tasks, all of them ready."""
        argv = [self.tfc_run, "local", "--json", "--framework", "none", "--worker", str(count),
                "--", "sleep", "1000"]
        with background(argv, stdout=subprocess.PIPE, env=self.environ, text=True) as process:
            for line in process.stdout:
                event = json.loads(line)
                if event.get("event") == "job" and event["state"] == "running":
                    break
            time.sleep(0.5)  # what follows a start is over
            yield process.pid


class Idle(Tasks):
    def run(self):
        with self.sleeping_tasks(100) as host:
            pids = [host, *(pid for pid in descendants_of(host) if "tfc-" in name_of(pid))]
            before = {pid: switches(pid) for pid in pids}
            time.sleep(IDLE_SECONDS)
            after = {pid: switches(pid) for pid in pids}
        woken = sum(after[pid] - before[pid] for pid in pids)
        self.table.add(f"wake-ups in {IDLE_SECONDS} s, idle node with 100 tasks", str(woken),
                       f"{len(pids)} processes: host, guard, shims", "-", "0", woken == 0)


class Scale(Bench):
    """What a task, and the restart of one, cost on a node with few and with many tasks."""

    def measure(self, *words):
        with tempfile.TemporaryDirectory() as directory:
            argv = [os.path.join(self.bin, "scale"), *(word or directory for word in words), self.task]
            words = subprocess.run(argv, check=True, capture_output=True, text=True,
                                   timeout=300).stdout.split()
        return dict(zip(words[::2], map(float, words[1::2])))

    def run(self):
        # A port and a socket for each task in the guard, and the ports of the pool.
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        many = min(9800, (most - 200) // 2)
        few = many // 10
        ours, bare = {few: [], many: []}, {few: [], many: []}
        for _ in range(3):
            for count in (few, many):
                bare[count].append(self.measure("bare", str(count), None,
                                                os.path.join(self.bin, "bare_shim")))
                ours[count].append(self.measure(str(count), str(SCALE_EVENTS), None, self.helpers))

        def add(what, figures, key, goal=None):
            with_few, with_many = ([figure[key] for figure in figures[count]] for count in (few, many))
            growth = quotient(with_many, with_few)
            self.table.add(f"{what}, of {many} tasks", spread(with_many, "us"),
                           f"of {few} tasks {spread(with_few, 'us')}", f"{growth:.2f}x",
                           f"<= {goal:.2f}x" if goal else "-", growth <= goal if goal else None)
            return growth

        growth = add("bare loop: start, time per task", bare, "start_us")
        add("start, time per task", ours, "start_us", 1.3 * growth)
        growth = add("bare loop: start, CPU time of shims and tasks per task", bare, "tree_cpu_us")
        add("start, CPU time of shims and tasks per task", ours, "tree_cpu_us", 1.3 * growth)
        add("start, CPU time of host and guard per task", ours, "start_cpu_us", 1.3)
        add("kill and restart of one task, CPU time of the host", ours, "host_us", 1.3)
        add("kill and restart of one task, CPU time of the guard", ours, "guard_us", 1.3)


class PythonImport(Bench):
    """What a program pays for `import tfcluster`, and for the first name that it uses of it."""

    def seconds(self, code):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True,
                       env=dict(self.environ, PYTHONPATH=self.python_package))
        return time.perf_counter() - begin

    def run(self):
        codes = ["pass", "import tfcluster", "import tfcluster; tfcluster.run"]
        times = {code: [] for code in codes}
        for _ in range(21):
            for code in codes:
                times[code].append(1e3 * self.seconds(code))
        bare = statistics.median(times["pass"])
        for code, goal in zip(codes[1:], (50, None), strict=True):
            cost = statistics.median(times[code]) - bare
            self.table.add(f"Python: {code}", f"{cost:.1f} ms", f"interpreter {spread(times['pass'], 'ms')}", "-",
                           f"<= {goal} ms" if goal else "-", cost <= goal if goal else None)


class Size(Tasks):
    def run(self):
        with tempfile.TemporaryDirectory() as directory:
            stripped = os.path.join(directory, "libtfcluster.so")
            subprocess.run(["strip", "-o", stripped, self.library], check=True)
            own = os.path.getsize(stripped)
        closure = subprocess.run(["ldd", self.library], check=True, text=True,
                                 capture_output=True).stdout
        names = [line.split()[0] for line in closure.splitlines() if "=>" in line]
        self.table.add("libtfcluster.so stripped", f"{own // 1024} KiB", " ".join(names), "-",
                       "<= 500 KB", own <= 500 << 10)
        with self.sleeping_tasks(10) as host:
            shims = [rss(pid) for pid in descendants_of(host) if name_of(pid) == "tfc-shim"]
            guards = [rss(pid) for pid in descendants_of(host) if name_of(pid) == "tfc-guard"]
            node = rss(host)
        self.table.add("RSS of a shim", f"{statistics.median(shims):.0f} KiB", "-", "-",
                       "<= 100 KB with musl", statistics.median(shims) <= 100)
        self.table.add("RSS of a node with 10 tasks", f"{node} KiB",
                       f"its guard {guards[0]} KiB", "-", "<= 8 MB", node <= 8 << 10)
