"""Rows: calls from one process to another, and what they carry in bulk."""

import contextlib
import os
import shutil
import subprocess
import tempfile

from measure import Bench, faster, quotient, ratio, spread, undisturbed


class Rpc(Bench):
    def rpc(self, *words):
        argv = [*undisturbed(), os.path.join(self.bin, "rpc"), *words]
        return float(subprocess.run(argv, check=True, text=True, capture_output=True,
                                    timeout=120).stdout)

    @contextlib.contextmanager
    def grpc_trip(self):
        """A function that measures grpc-go's round trip on a layout, or None without go."""
        if not shutil.which("go"):
            yield None
            return
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "grpc_trip")
        with tempfile.TemporaryDirectory() as directory:
            program = os.path.join(directory, "grpc_trip")
            subprocess.run(["go", "build", "-o", program, "."], cwd=source, check=True,
                           capture_output=True, timeout=600)
            yield lambda layout: float(subprocess.run(
                [*undisturbed(), "taskset", "-c", "0", program, "trip",
                 "1" if layout == "two" else "0"],
                check=True, text=True, capture_output=True, timeout=120).stdout)

    def run(self):
        with self.grpc_trip() as grpc_trip:
            for layout, where in (("same", "on one core"), ("two", "on two cores")):
                took = {"raw": [], "plain": [], "noise": [], "grpc": []}
                for _ in range(5):
                    for kind in ("raw", "plain", "noise"):
                        took[kind].append(self.rpc("trip", kind, layout))
                    if grpc_trip:
                        took["grpc"].append(grpc_trip(layout))
                self.add_trips(took, where, 4 if layout == "same" else 1)
        self.bench_bulk()

    def add_trips(self, took, where, grpc_goal):
        for kind, name, goal in (("plain", "plain", 1.3), ("noise", "encrypted", 1.5)):
            self.table.add(f"call of 64 B and back, {name}, {where}", spread(took[kind], "us"),
                           "raw TCP with epoll " + spread(took["raw"], "us"),
                           ratio(took[kind], took["raw"]), f"<= {goal}x",
                           quotient(took[kind], took["raw"]) <= goal)
        self.table.add(f"call of 64 B and back, plain, {where}", spread(took["plain"], "us"),
                       "grpc-go " + (f"{spread(took['grpc'], 'us')} (raw TCP: "
                                     f"{faster(took['raw'], took['grpc'])})" if took["grpc"]
                                     else "(no go here)"),
                       faster(took["plain"], took["grpc"]) if took["grpc"] else "-",
                       f">= {grpc_goal}x faster" if grpc_goal > 1 else "faster",
                       quotient(took["grpc"], took["plain"]) >= grpc_goal if took["grpc"]
                       else None)

    def bench_bulk(self):
        """Between two processes the kernel's copies weigh as much as the cipher, so the goal is for
        both ends in one process, whose CPU time is counted."""
        rates = {"memory": [], "seal": [], "plain": [], "noise": []}
        for _ in range(5):
            for kind in ("memory", "seal"):
                rates[kind].append(self.rpc("bulk", kind, "same") / 1e6)
            for kind in ("plain", "noise"):
                rates[kind].append(self.rpc("bulk", kind, "two") / 1e6)
        self.table.add("encrypted bulk, both ends in one process",
                       spread(rates["memory"], "MB/s", 0),
                       "libsodium, seal and open " + spread(rates["seal"], "MB/s", 0),
                       ratio(rates["memory"], rates["seal"]), ">= 0.8x",
                       quotient(rates["memory"], rates["seal"]) >= 0.8)
        self.table.add("encrypted bulk over TCP, on two cores", spread(rates["noise"], "MB/s", 0),
                       "plain " + spread(rates["plain"], "MB/s", 0),
                       ratio(rates["noise"], rates["plain"]), "-", None)
