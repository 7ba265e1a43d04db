"""The shell commands of guides, run as they are written. The hosts of several-hosts.md are three
loopback addresses of one machine."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import unittest

import harness

GUIDES = pathlib.Path(__file__).parents[2] / "doc/guide"
BLOCK = re.compile(r"^```sh ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(guide):
    """(kind, commands) of each shell block."""
    return BLOCK.findall((GUIDES / guide).read_text())


def free_port():
    """A port that is free on all three addresses."""
    with socket.socket() as probe:
        probe.bind(("0.0.0.0", 0))
        return probe.getsockname()[1]


class SeveralHostsTest(harness.RunTest):
    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.env.update(HOME=self.dir, TFC_GATEWAY=",".join(
            f"tcp://127.0.0.{i}:{self.port}" for i in (1, 2)), TFC_KEY="key")
        self.env["PATH"] = os.path.dirname(harness.TFC_RUN) + ":" + self.env["PATH"]
        self.nodes = {}

    def tearDown(self):
        for run in self.nodes.values():
            run.process.terminate()
        for run in self.nodes.values():
            run.end()
        super().tearDown()

    def here(self, text):
        return re.sub(r"10\.0\.0\.(\d):7400", rf"127.0.0.\1:{self.port}", text)

    def shell(self, text, check=True):
        done = subprocess.run(["bash", "-euc", self.here(text)], env=self.env, cwd=self.dir,
                              capture_output=True, text=True, timeout=harness.PATIENCE)
        if check:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def start_node(self, text, name):
        words = self.here(text).split()
        self.assertEqual(words[:4], ["tfc_run", "node", "--name", "a"])
        words[3] = name
        home = os.path.join(self.dir, f"home-{name}")
        words = [word.replace("~", home) for word in words]
        env = dict(self.env, HOME=home)
        run = harness.Run(words[1:] + ["--ports", self.ports, "--lease", "2"], env, self.dir)
        self.nodes[name] = run
        self.runs.append(run)
        run.await_output(f"node {name} is ready", "err")

    def states(self):
        lines = self.shell("tfc_run members").splitlines()[1:]
        return {line.split()[0]: line.split()[1] for line in lines}

    def test_the_guide(self):
        blocks = blocks_of("several-hosts.md")
        self.assertEqual([kind for kind, _ in blocks], ["", "node", "", "", "attach", ""])
        texts = [text for _, text in blocks]
        self.shell(texts[0])
        for name in "abc":
            self.start_node(texts[1], name)
        harness.wait_until(lambda: set(self.states().values()) == {"alive"}, "three nodes")
        out = self.shell(texts[2])
        self.assertEqual(out.count('{"cluster":{"worker":["127.0.0.'), 3, out)
        for i in (1, 2, 3):
            self.assertIn(f'"127.0.0.{i}:', out)
        self.assertRegex(out, r"hello +succeeded")
        self.shell(texts[3])
        harness.wait_until(lambda: re.search(r"long +running +3/3", self.shell("tfc_run ps")),
                           "the job runs")
        self.nodes["c"].process.send_signal(signal.SIGKILL)
        harness.wait_until(lambda: self.states()["c"] == "down", "c is down")
        harness.wait_until(self.runs_without_c, "the job on two hosts")
        follower = subprocess.Popen(["bash", "-ec", self.here("exec " + texts[4])], env=self.env,
                                    cwd=self.dir, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT)
        seen = b""
        end = time.monotonic() + harness.PATIENCE
        while not re.search(rb"\[worker/\d#\d+\] working", seen):
            self.assertLess(time.monotonic(), end, seen[-2000:])
            seen += os.read(follower.stdout.fileno(), 1 << 16)
        follower.send_signal(signal.SIGINT)
        follower.communicate(timeout=harness.PATIENCE)
        self.assertEqual(follower.returncode, 0)
        self.shell(texts[5])
        self.assertNotIn("long", self.shell("tfc_run ps --all || [ $? = 1 ]"))

    def runs_without_c(self):
        line = self.shell("tfc_run ps || [ $? = 1 ]").splitlines()[1:2]
        return line and re.search(r"running +3/3", line[0]) and "c" not in line[0].split()[6]


class FirstJobTest(harness.RunTest):
    def test_a_job_that_outlives_the_terminal(self):
        (kind, commands), = blocks_of("first-job.md")
        self.assertEqual(kind, "")
        self.env.update(HOME=self.dir)
        self.env["PATH"] = os.path.dirname(harness.TFC_RUN) + ":" + self.env["PATH"]
        with open(os.path.join(self.dir, "train.py"), "w") as file:
            file.write("print('trained')\n")
        # Root's node has its state below /var/lib.
        script = f"""mount -t tmpfs none /var/lib 2>/dev/null
            exec 3< <(exec tfc_run node --ports {self.ports} 2>&1)
            node=$!
            trap 'kill $node; while read -r line <&3; do :; done' EXIT
            while read -r line <&3 && [[ $line != *'is ready'* ]]; do :; done
            set -e
            {commands}"""
        unshare = ["unshare", "--mount"] if os.getuid() == 0 else []
        done = subprocess.run([*unshare, "bash", "-c", script], env=self.env, cwd=self.dir,
                              capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"digits +\w+ +\d/2")  # ps
        self.assertIn("[worker/0] trained", done.stdout)
        self.assertIn("[worker/1] trained", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
