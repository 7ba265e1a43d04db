"""Row: how long a training takes to go on when a worker was killed."""

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from measure import Bench, background, ratio, spread


class Train(Bench):
    def run(self):
        """kill -9 of one of two mirrored workers until the first new step."""
        took = {"auto": [], 1: []}
        for _ in range(3):
            for grace, values in took.items():
                with tempfile.TemporaryDirectory() as directory:
                    values.append(self.training_gap(directory, grace))
        self.table.add("kill -9 of a mirrored worker to the first new step", spread(took["auto"], "s"),
                       "abort_grace_s 1: " + spread(took[1], "s") + "; TensorFlow alone: never",
                       ratio(took["auto"], took[1]), "<= 4.5 s cold",
                       statistics.median(took["auto"]) <= 4.5)

    def training_gap(self, directory, abort_grace):
        script = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "tensorflow",
                              "mirrored.py")
        job = os.path.join(directory, "job.json")
        with open(job, "w") as file:
            json.dump({"abort_grace_s": abort_grace, "roles": {"worker": {"count": 2}}, "argv": [
                sys.executable, script, "--checkpoint-dir", os.path.join(directory, "checkpoints"),
                "--steps", "100000", "--report-every", "1"]}, file)
        argv = [self.tfc_run, "local", "--json", "--job", job]
        pids, killed = {}, None
        with background(argv, stdout=subprocess.PIPE, env=self.environ, text=True) as process:
            for line in process.stdout:
                event = json.loads(line)
                if event["event"] == "task" and event.get("pid"):
                    pids[event["task"]] = event["pid"]
                step = re.match(r"step=(\d+)", event.get("text", ""))
                if event["event"] != "output" or not step:
                    continue
                if killed is None and int(step.group(1)) >= 50:
                    killed = time.monotonic()
                    os.kill(pids["worker/1"], signal.SIGKILL)
                elif killed is not None and event["attempt"] == 2:
                    return time.monotonic() - killed
        raise RuntimeError("the training ended before it was killed")
