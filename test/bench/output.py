"""Rows: how fast output comes into a log, and out of it to a subscriber."""

import contextlib
import os
import socket
import statistics
import subprocess
import tempfile
import time

from measure import Bench, quotient, ratio, spread

FLOOD_BYTES = 1000000000
GOAL = 80  # MB/s of one subscriber


class Logs(Bench):
    def log_ours(self, directory, size):
        output = subprocess.run(
            [os.path.join(self.bin, "logs"), directory, self.helpers, self.task, str(FLOOD_BYTES),
             str(size)], check=True, capture_output=True, text=True, timeout=300)
        return float(output.stdout) / 1e3

    def log_cat(self, directory, size):
        begin = time.monotonic()
        with open(os.path.join(directory, "log"), "wb") as log:
            cat = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log)
            subprocess.run([self.task, "flood", str(FLOOD_BYTES), str(size)], stdout=cat.stdin,
                           check=True)
            cat.stdin.close()
            cat.wait()
        return time.monotonic() - begin

    def run(self):
        for size in (4096, 65536):
            rates = {"ours": [], "cat": []}
            for _ in range(7):
                for name, measure in (("ours", self.log_ours), ("cat", self.log_cat)):
                    with tempfile.TemporaryDirectory() as directory:
                        rates[name].append(FLOOD_BYTES / measure(directory, size) / 1e6)
            self.table.add(f"output into a rotated log, {size // 1024} KiB a write",
                           spread(rates["ours"], "MB/s", 0),
                           "cat from a pipe to a file " + spread(rates["cat"], "MB/s", 0),
                           ratio(rates["ours"], rates["cat"]), ">= 0.5x",
                           quotient(rates["ours"], rates["cat"]) >= 0.5)


class Subscribe(Bench):
    @contextlib.contextmanager
    def node_with_output(self, megabytes):
        """A node, a job on it that has printed lines of 100 bytes, its addresses and its key."""
        with tempfile.TemporaryDirectory() as directory, socket.socket() as probe:
            key, state = (os.path.join(directory, name) for name in ("key", "state"))
            probe.bind(("127.0.0.1", 0))
            tcp = "tcp://127.0.0.1:%d" % probe.getsockname()[1]
            probe.close()
            unix = f"unix:{state}/node.sock"
            subprocess.run([self.tfc_run, "keygen", key], check=True)
            node = subprocess.Popen([self.tfc_run, "node", "--name", "bench", "--state", state,
                                     "--listen", tcp, "--key", key, "--json"], env=self.environ,
                                    stdout=subprocess.PIPE)
            try:
                node.stdout.readline()
                job = self.print_lines(megabytes, "--gateway", unix)
                yield {"unix": (unix, "-"), "tcp": (tcp, key)}, job, state
            finally:
                node.terminate()
                node.wait()
                node.stdout.close()

    def run(self):
        rates = {"local": [], "unix": [], "tcp": [], "wc": []}
        with self.node_with_output(60) as (addresses, job, state):
            logs = os.path.join(state, "logs", job)
            files = [os.path.join(logs, name) for name in os.listdir(logs)]
            for _ in range(5):
                rates["local"].append(self.subscribe("local", self.helpers, "60"))
                for kind in ("unix", "tcp"):
                    rates[kind].append(self.subscribe(*addresses[kind], job))
                begin = time.monotonic()
                subprocess.run(["wc", "-l", *files], check=True, capture_output=True)
                rates["wc"].append(60 / (time.monotonic() - begin))
        for kind, where in (("local", "in the process of the node"),
                            ("unix", "from a node, plain (unix)"),
                            ("tcp", "from a node, encrypted (tcp)")):
            self.table.add(f"one subscriber, lines of 100 B, {where}", spread(rates[kind], "MB/s", 0),
                           "wc -l of the log " + spread(rates["wc"], "MB/s", 0),
                           ratio(rates[kind], rates["wc"]), f">= {GOAL} MB/s",
                           statistics.median(rates[kind]) >= GOAL)
