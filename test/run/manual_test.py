"""The examples of doc/tfc_run.1: each command has one, and they are run in their order, on a cluster of one node."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

import harness
import node_test

MANUAL = pathlib.Path(__file__).parents[2] / "doc/tfc_run.1"
EXAMPLES = re.findall(r"(?m)^\.Dl (.*)$", MANUAL.read_text().partition(".Sh EXAMPLES")[2])
# While the file "wait" is there, it trains until it is stopped.
TRAIN = """import os, time
print("step", 1, flush=True)
while os.path.exists("{}/wait"):
    time.sleep(0.05)
"""


def command_of(line):
    """Also behind options that precede it, and within <(...)."""
    return re.search(r"\btfc_run (?:--\S+ \S+ )?([a-z]+)", line)[1]


class ManualTest(node_test.NodeTest):
    def setUp(self):
        super().setUp()
        programs = pathlib.Path(self.dir, "programs")
        programs.mkdir()
        (programs / "tfc_run").symlink_to(harness.TFC_RUN)
        self.env["PATH"] = f"{programs}:{self.env['PATH']}"
        self.env.pop("XDG_CONFIG_HOME", None)
        self.env.pop("TFC_GATEWAY", None)
        self.project = pathlib.Path(self.dir, "project")
        self.project.mkdir()
        self.write("project/train.py", TRAIN.format(self.dir))
        self.write("project/job.json", json.dumps({"argv": ["python3", "train.py"], "roles": {"worker": {}}}))
        os.rename(self.write_members("a"), self.project / "members.json")
        config = pathlib.Path(self.dir, ".config/tfcluster/config.json")
        config.parent.mkdir(parents=True)
        config.write_text(json.dumps({"default": "lab", "contexts": {
            "lab": {"gateway": self.address[0], "key": f"{self.project}/key"}}}))

    def in_background(self, line):
        shell = subprocess.Popen(["bash", "-c", f"exec {line}"], cwd=self.project, env=self.env, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(shell.wait)
        self.addCleanup(shell.kill)
        self.addCleanup(shell.stdout.close)
        self.addCleanup(shell.stderr.close)
        return shell

    def test_each_command_has_an_example(self):
        commands = re.findall(r"\n  ([a-z]+)  ", self.run_bare("--help").out.decode())
        self.assertGreater(len(commands), 12)
        self.assertEqual(set(map(command_of, EXAMPLES)), set(commands))

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_the_page_shows_them_as_they_are_typed(self):
        shown = subprocess.run(["groff", "-man", "-Tascii", "-P-c", "-rLL=200n", MANUAL], capture_output=True,
                               text=True, check=True).stdout
        lines = [line.strip() for line in re.sub(".\b", "", shown).splitlines()]
        self.assertEqual([line for line in EXAMPLES if line not in lines], [])

    def test_the_examples_work(self):
        node, followers = None, []
        for line in EXAMPLES:
            command = command_of(line)
            with self.subTest(line=line):
                if command == "local":
                    line = line.replace("tfc_run local", f"tfc_run local --ports {self.ports}")
                if command == "allocation":  # as Slurm would start a single rank
                    line = line.replace("srun -N 2 --ntasks-per-node 1 ", "SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_JOB_ID=1 "
                                        "SLURM_STEP_ID=0 ").replace("--worker 2", f"--worker 1 --rendezvous {self.dir}")
                if command == "start":
                    self.write("wait", "")
                if command == "node":
                    node = self.in_background(f"{line} --ports {self.ports}")
                    self.assertRegex(node.stderr.readline(), "^[-:.0-9TZ]+ tfc_run: node a is ready")
                elif command == "attach" or " -f " in line:
                    followers.append(self.in_background(line))
                    self.assertRegex(followers[-1].stdout.readline(), r"^\[worker/[01]\] step 1\n$")
                else:
                    done = subprocess.run(["bash", "-c", line], cwd=self.project, env=self.env, text=True,
                                          timeout=harness.PATIENCE, capture_output=True)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    if command in ("ps", "describe", "spec", "members", "logs", "keygen", "drain", "rm"):
                        self.assertEqual(done.stderr, "")
        self.assertEqual([follower.wait(harness.PATIENCE) for follower in followers], [143, 0])
        node.send_signal(signal.SIGTERM)
        self.assertEqual(node.wait(harness.PATIENCE), 0)


if __name__ == "__main__":
    harness.main()
