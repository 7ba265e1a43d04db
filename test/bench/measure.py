"""What the rows share: the table, figures in words, and what /proc says of memory and switches."""

import contextlib
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lib"))  # processes.py

IDLE_SECONDS = 60
TORCH_PYTHON = os.environ.get("TFC_TORCH_PYTHON", "/usr/bin/python3")


def torchrun():
    """torchrun's argv before its options; None: TORCH_PYTHON has no torch. The two options are
    those without which torchrun 1.13.1 fails on Python 3.11 (an enum of zero)."""
    check = [TORCH_PYTHON, "-c", "import torch"]
    if subprocess.run(check, check=False, capture_output=True).returncode != 0:
        return None
    return [TORCH_PYTHON, "-m", "torch.distributed.run", "--standalone", "--redirects=1", "--tee=1"]


class Table:
    """The rows printed at the end: what, figure, compared with, ratio, goal, whether it is met."""

    def __init__(self):
        self.rows = []

    def add(self, what, figure, against, ratio, goal, is_met):
        """is_met: None where there is nothing to compare."""
        met = "-" if is_met is None else "met" if is_met else "missed"
        self.rows.append((what, figure, against, ratio, goal, met))
        print("  " + " | ".join(self.rows[-1]), flush=True)

    def lines(self):
        head = ("what", "figure", "against", "ratio", "goal", "")
        widths = [max(len(row[i]) for row in [head, *self.rows]) for i in range(len(head))]
        line = "| " + " | ".join("{:<%d}" % width for width in widths) + " |"
        yield line.format(*head)
        yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
        for row in self.rows:
            yield line.format(*row)


def spread(values, unit, digits=1):
    """'12.3 ms [11.0..15.2]' of a list of numbers."""
    median, low, high = (f"{value:.{digits}f}"
                         for value in (statistics.median(values), min(values), max(values)))
    return f"{median} {unit} [{low}..{high}]"


def percentile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def quotient(ours, theirs):
    return statistics.median(ours) / statistics.median(theirs)


def ratio(ours, theirs):
    return "{:.2f}x".format(quotient(ours, theirs))


def faster(ours, theirs):
    return "{:.1f}x faster".format(quotient(theirs, ours))


@contextlib.contextmanager
def background(argv, **options):
    """A process that is ended, by pid, when the block is left."""
    process = subprocess.Popen(argv, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Bench:
    """What the rows of a module need: the programs as they were built, and the table to add to."""

    def __init__(self, build, table, is_full=False):
        self.bin = os.path.join(build, "test", "bench")
        self.helpers = os.path.join(build, "lib")
        self.tfc_run = os.path.join(build, "examples", "tfc_run", "tfc_run")
        self.library = os.path.join(build, "lib", "libtfcluster.so.0")
        self.python_package = os.path.join(build, "bindings", "python")
        self.task = os.path.join(self.bin, "task")
        self.environ = dict(os.environ, TFC_HELPER_DIR=self.helpers)
        self.table = table
        self.is_full = is_full

    def print_lines(self, megabytes, *options):
        """The id of a job that has printed lines of 100 bytes, and has ended."""
        script = f"head -c {megabytes}000000 /dev/zero | tr '\\000' x | fold -w 99"
        return subprocess.run([self.tfc_run, "start", *options, "--framework", "none", "--cwd", "/",
                               "--", "/bin/sh", "-c", script], check=True, env=self.environ,
                              capture_output=True).stdout[:16].decode()

    def subscribe(self, *words):
        """MB/s of one subscriber; see subscribe.c."""
        return float(subprocess.run([os.path.join(self.bin, "subscribe"), *words], check=True,
                                    text=True, capture_output=True, timeout=120).stdout.split()[0])


def undisturbed():
    """Words before a command, so that no other work of the machine takes its core from it; none where
    that is not allowed."""
    words = ["chrt", "--fifo", "20"]
    is_allowed = shutil.which("chrt") and subprocess.run([*words, "true"], check=False,
                                                         capture_output=True).returncode == 0
    return words if is_allowed else []


# ---- what /proc says of memory and switches


def status(pid, key):
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(rf"^{key}:\s+(\d+)", file.read(), re.MULTILINE).group(1))


def switches(pid):
    return status(pid, "voluntary_ctxt_switches")


def rss(pid):
    return status(pid, "VmRSS")
