"""Rows: warm starts against cold ones, of the same programs in turn."""

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from measure import Bench, background, faster, quotient, spread

ROUNDS = 5
FUNCTION = """
import sys, time, tfcluster
warm = ["tensorflow"] if sys.argv[1] == "warm" else None
with tfcluster.local() as client:
    for _ in range(1 + int(sys.argv[2])):
        begin = time.monotonic()
        tfcluster.run(lambda ctx: 1, gateway=client, output=False, warm=warm).result()
        print(time.monotonic() - begin, flush=True)
"""


def program(directory):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "tensorflow", "mirrored.py")
    return [sys.executable, script, "--checkpoint-dir", os.path.join(directory, "checkpoints"), "--steps", "100000",
            "--report-every", "1"]


def await_step(process, least):
    """When it prints that step or a later one."""
    for line in process.stdout:
        step = re.match(r"step=(\d+)", line)
        if step and int(step.group(1)) >= least:
            return time.monotonic()
    raise RuntimeError("the training ended before it was killed")


class Warm(Bench):
    def run(self):
        """launch -> first step; kill -9 of a worker -> first new step: of one worker, and of two mirrored ones."""
        for workers in (1, 2):
            kinds = ("cold", "warm", "by hand")[:3 if workers == 1 else 2]
            gaps = {kind: [] for kind in kinds}
            starts = {kind: [] for kind in kinds}
            for _ in range(ROUNDS):
                for kind in kinds:
                    with tempfile.TemporaryDirectory() as directory:
                        start, gap = self.by_hand(directory) if kind == "by hand" else self.train(directory, workers, kind)
                    starts[kind].append(start)
                    gaps[kind].append(gap)
                    print(f"  {workers} {kind}: {start:.2f} {gap:.2f}", flush=True)
            what = "a worker" if workers == 1 else "a mirrored worker of two"
            self.add(f"kill -9 of {what} to the first new step, warm", gaps, "<= 1.2 s", 1.2)
            if workers == 1:
                self.table.add("kill -9 of a worker to the first new step, cold", spread(gaps["cold"], "s", 2),
                               "a program that starts it again at once " + spread(gaps["by hand"], "s", 2),
                               f"{quotient(gaps['cold'], gaps['by hand']):.2f}x", "<= 4.5 s",
                               statistics.median(gaps["cold"]) <= 4.5)
                self.add("first launch to the first step, warm: the import included", starts, "-", None)
        took = {kind: self.functions(kind) for kind in ("cold", "warm")}
        self.add("tfcluster.run of a function to its result, warm: the second of a node", took, "<= 0.3 s", 0.3)

    def add(self, what, took, goal, limit):
        self.table.add(what, spread(took["warm"], "s", 2), "cold: " + spread(took["cold"], "s", 2),
                       faster(took["warm"], took["cold"]), goal,
                       limit and statistics.median(took["warm"]) <= limit)

    def train(self, directory, workers, kind):
        """Seconds to the first step, and from the kill of a worker to the next one of that worker."""
        job = os.path.join(directory, "job.json")
        with open(job, "w") as file:
            json.dump({"roles": {"worker": {"count": workers}}, "warm": ["tensorflow"] if kind == "warm" else [],
                       "argv": program(directory)}, file)
        pids, killed, begin, start = {}, None, time.monotonic(), None
        with background([self.tfc_run, "local", "--json", "--job", job], stdout=subprocess.PIPE, env=self.environ,
                        text=True, stderr=subprocess.DEVNULL) as process:
            for line in process.stdout:
                event = json.loads(line)
                if event["event"] == "task" and event.get("pid"):
                    pids[event["task"]] = event["pid"]
                step = re.match(r"step=(\d+)", event.get("text", ""))
                if event["event"] != "output" or not step:
                    continue
                start = start or time.monotonic() - begin
                if killed is None and int(step.group(1)) >= 50:
                    killed = time.monotonic()
                    os.kill(pids[f"worker/{workers - 1}"], signal.SIGKILL)
                elif killed is not None and event["attempt"] == 2:
                    return start, time.monotonic() - killed
        raise RuntimeError("the training ended before it was killed")

    def by_hand(self, directory):
        """The same of one worker without the library."""
        begin = time.monotonic()
        with background(program(directory), stdout=subprocess.PIPE, env=self.environ, text=True,
                        stderr=subprocess.DEVNULL) as process:
            start = await_step(process, 1) - begin
            killed = await_step(process, 50)
            process.kill()
            process.wait()
        with background(program(directory), stdout=subprocess.PIPE, env=self.environ, text=True,
                        stderr=subprocess.DEVNULL) as process:
            return start, await_step(process, 1) - killed

    def functions(self, kind):
        """Of a function that does nothing; the first job of a node pays for the import."""
        environ = dict(self.environ, PYTHONPATH=self.python_package, TFCLUSTER_LIBRARY=self.library,
                       TFCLUSTER_HELPER_DIR=self.helpers)
        done = subprocess.run([sys.executable, "-c", FUNCTION, kind, str(ROUNDS)], check=True, env=environ, text=True,
                              stdout=subprocess.PIPE)
        return [float(took) for took in done.stdout.split()[1:]]
