"""A program that lies on a laptop alone, which is no node, runs on three hosts."""
import hashlib
import os
import pathlib
import subprocess
import sys
import unittest

import fleet
from cluster import Job

PROGRAM = """
import hashlib, pathlib, helper
print(hashlib.sha256(pathlib.Path("data").read_bytes()).hexdigest(), helper.WORD)
"""


class UploadTest(fleet.FleetTest):
    HOSTS = 4
    NODE_OPTIONS = ("--slots", "1", "--submit-user", "root")

    def setUp(self):
        super().setUp()
        self.laptop = self.nodes.pop().host
        self.write_members(self.nodes)
        self.submit_key = os.path.join(self.dir, "submit.key")
        subprocess.run([fleet.TFC_RUN, "keygen", self.submit_key, "--role", "submit"], check=True,
                       timeout=30, stdout=subprocess.DEVNULL)
        with open(self.key, "ab") as keys:
            keys.write(pathlib.Path(self.submit_key).read_bytes())
        self.program = pathlib.Path(self.dir, "laptop", "program")
        self.program.mkdir(parents=True)
        self.data = os.urandom(3 << 20)
        (self.program / "main.py").write_text(PROGRAM)
        (self.program / "helper.py").write_text("WORD = 'all there'\n")
        (self.program / "data").write_bytes(self.data)

    def start_from_laptop(self):
        job = Job(
            ["ip", "netns", "exec", self.laptop.netns, fleet.TFC_RUN, "start", "--json",
             "--gateway", self.nodes[0].address, "--key", self.submit_key, "--worker", "3",
             "--framework", "none", "--bundle", "program", "--", sys.executable, "main.py"],
            dict(os.environ), str(self.program.parent))
        self.jobs.append(job)
        return job

    def test_it_reaches_each_host_once(self):
        self.start_nodes()
        wanted = f"{hashlib.sha256(self.data).hexdigest()} all there"
        for _ in range(2):
            job = self.start_from_laptop()
            end, status = job.end()
            self.assertEqual((status, end["state"]), (0, "succeeded"))
            said = {event["task"]: event["text"] for event in job.events
                    if event["event"] == "output"}
            self.assertEqual(said, {f"worker/{i}": wanted for i in range(3)})
            ran_on = {event["node"] for event in job.events
                      if event["event"] == "task" and event["state"] == "exited"}
            self.assertEqual(ran_on, {node.name for node in self.nodes})
        names = {tuple(os.listdir(os.path.join(node.state, "bundles"))) for node in self.nodes}
        self.assertEqual(len(names), 1)  # one archive, of one name, on each
        self.assertRegex(names.pop()[0], r"^[0-9a-f]{64}\.zip$")


if __name__ == "__main__":
    if not fleet.world.is_possible():
        print("network namespaces need root")
        sys.exit(77)
    unittest.main(verbosity=2)
