"""Row: how long a PyTorch job of two ranks takes from its launch to its first collective."""

import os
import subprocess
import tempfile
import time

from measure import TORCH_PYTHON, Bench, quotient, ratio, spread, torchrun

STARTS = 20
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "first_collective.py")


class TorchStart(Bench):
    def run(self):
        what = "launch to the first collective, 2 ranks of PyTorch"
        torchrun_argv = torchrun()
        if not torchrun_argv:
            self.table.add(what, "-", f"{TORCH_PYTHON} has no torch", "-", "<= 1.0x", None)
            return
        ours, theirs = [], []
        for _ in range(STARTS):
            ours.append(self.start([self.tfc_run, "local", "--framework", "pytorch", "--worker",
                                    "2", "--", TORCH_PYTHON]))
            theirs.append(self.start([*torchrun_argv, "--nproc_per_node=2"]))
        self.table.add(what, spread(ours, "s", 2), "torchrun " + spread(theirs, "s", 2),
                       ratio(ours, theirs), "<= 1.0x", quotient(ours, theirs) <= 1)

    def start(self, launcher):
        """Seconds until the slower rank has done its first collective."""
        with tempfile.TemporaryDirectory() as directory:
            begin = time.monotonic()
            subprocess.run([*launcher, PROGRAM, directory], check=True, capture_output=True,
                           env=dict(self.environ, TMPDIR=directory), timeout=120)
            times = []
            for rank in ("0", "1"):
                with open(os.path.join(directory, rank)) as file:
                    times.append(float(file.read()))
        return max(times) - begin
