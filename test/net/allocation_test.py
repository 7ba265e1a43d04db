"""tfc_run allocation on two hosts that have IPv6 addresses only."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import world

TFC_RUN = os.environ["TFC_RUN"]
PATIENCE = 60
# The task's host, and then until both tasks run.
HERE = """
ip -o -6 address show dev eth0 scope global | grep -o 'fd86::[0-9]'
touch up.$TFC_TASK_INDEX
until [ -e up.0 ] && [ -e up.1 ]; do sleep 0.05; done
"""


class IPv6Test(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="net-allocation-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.hosts = self.enterContext(world.World(2)).hosts
        for host in self.hosts:
            world.ip("address", "flush", "dev", "eth0", netns=host.netns)
            world.ip("address", "add", f"fd86::{host.number + 1}/64", "dev", "eth0", "nodad", netns=host.netns)

    def run_job(self, rendezvous, key=None):
        """With a task on each host."""
        env = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "OMPI_", "TFC_KEY"))}
        env |= {"TMPDIR": self.dir, **({"TFC_KEY_DATA": key} if key else {})}
        runs = [host.start([TFC_RUN, "allocation", "--rank", str(host.number), "--size", "2", "--rendezvous", rendezvous,
                            "--wait", "20", "--slots", "1", "--framework", "none", "--worker", "2", "--", "sh", "-c", HERE],
                           env=env, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                for host in self.hosts]
        ends = [run.communicate(timeout=PATIENCE) for run in runs]
        self.assertEqual([run.returncode for run in runs], [0, 0], ends)
        self.assertEqual(sorted(line.partition("] ")[2] for line in ends[0][0].splitlines()), ["fd86::1", "fd86::2"])

    def test_ranks_that_share_a_directory(self):
        self.run_job(self.dir)

    def test_ranks_that_know_the_address_of_rank_0(self):
        subprocess.run([TFC_RUN, "keygen", "key"], cwd=self.dir, check=True)
        self.run_job("[fd86::1]:7400", pathlib.Path(self.dir, "key").read_text(encoding="ascii"))


if __name__ == "__main__":
    if not world.is_possible():
        print("network namespaces need root")
        sys.exit(77)
    unittest.main(verbosity=2)
