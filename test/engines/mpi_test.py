"""tfc_run allocation under a real mpirun (Open MPI), with three ranks on this machine. With --long also ranks on three
hosts, which are network namespaces, and what waits until leases are over.

Usage: mpi_test.py [--long] [TEST...]
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

for folder in ("run", "net"):
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / folder))
import world
from harness import PATIENCE, TFC_RUN, await_no_children, wait_until
from slurm import is_running

IS_LONG = "--long" in sys.argv
long = unittest.skipUnless(IS_LONG, "only with --long")

WAITING = """
trap 'echo stopping; exit 143' TERM
echo $$ >{dir}/pid.$TFC_TASK_INDEX.$TFC_ATTEMPT
echo up $TFC_TASK_INDEX
while :; do sleep 0.1; done
"""


@unittest.skipUnless(shutil.which("mpirun"), "not installed: mpirun")
class MpiTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="mpi-job-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.addCleanup(await_no_children)

    def mpirun(self, *args, options=()):
        env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR=self.dir)
        env.pop("TFC_KEY", None)
        with open(f"{self.dir}/out", "wb") as out, open(f"{self.dir}/err", "wb") as err:
            process = subprocess.Popen(["mpirun", "--oversubscribe", "-n", "3", *options, TFC_RUN, "allocation",
                                        "--rendezvous", self.dir, "--framework", "none", "--worker", "3", *args],
                                       env=env, cwd=self.dir, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def text(self, name="out"):
        return pathlib.Path(self.dir, name).read_text(encoding="utf-8")

    def await_up(self):
        wait_until(lambda: len(re.findall(r" up \d", self.text())) >= 3, "three tasks")

    def pids(self):
        return [int(path.read_text()) for path in pathlib.Path(self.dir).glob("pid.*")]

    def assert_no_orphan(self):
        pids = self.pids()
        self.assertGreaterEqual(len(pids), 3)
        wait_until(lambda: not any(map(is_running, pids)), "the end of all tasks", 20)

    def test_three_ranks_run_one_job(self):
        run = self.mpirun("--", "sh", "-c", "echo $TFC_TASK_INDEX of ${OMPI_COMM_WORLD_SIZE-none}")
        self.assertEqual(run.wait(PATIENCE), 0, self.text("err"))
        self.assertEqual(sorted(self.text().splitlines()), [f"[worker/{i}] {i} of none" for i in range(3)])
        self.assertRegex(self.text("err"), r"tfc_run: rank 0 of 3 in Open MPI \(openmpi-\d+\), with \d+ CPUs?, all memory, "
                                           r"GPUs: none\n")

    def test_the_status_of_the_job_is_that_of_mpirun(self):
        run = self.mpirun("--", "sh", "-c", "exit 9")
        self.assertEqual(run.wait(PATIENCE), 9, self.text("err"))

    def test_a_signal_to_mpirun_gives_the_tasks_their_grace_and_leaves_no_orphan(self):
        run = self.mpirun("--", "sh", "-c", WAITING.format(dir=self.dir),
                          options=("--mca", "odls_base_sigkill_timeout", "10"))
        self.await_up()
        run.terminate()
        self.assertNotEqual(run.wait(PATIENCE), 0)
        self.assertEqual(self.text().count("stopping"), 3, self.text() + self.text("err"))
        self.assert_no_orphan()

    @long
    def test_a_killed_mpirun_leaves_no_orphan(self):
        run = self.mpirun("--", "sh", "-c", WAITING.format(dir=self.dir))
        self.await_up()
        run.send_signal(signal.SIGKILL)
        run.wait()
        self.assert_no_orphan()

    @long
    def test_a_killed_rank_ends_all(self):
        """mpirun ends the other ranks itself."""
        run = self.mpirun("--", "sh", "-c", WAITING.format(dir=self.dir))
        self.await_up()
        ranks = [int(pid) for pid in subprocess.run(["pgrep", "-P", str(run.pid)], capture_output=True, text=True,
                                                    check=True).stdout.split()]
        os.kill(ranks[-1], signal.SIGKILL)
        self.assertNotEqual(run.wait(PATIENCE), 0)
        self.assert_no_orphan()


@long
@unittest.skipUnless(shutil.which("mpirun"), "not installed: mpirun")
@unittest.skipUnless(world.is_possible(), "network namespaces need root")
class HostsTest(unittest.TestCase):
    """mpirun starts its daemons on other hosts by a program that enters their network, in place of ssh."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="mpi-hosts-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.hosts = self.enterContext(world.World(3)).hosts
        self.agent = pathlib.Path(self.dir, "agent")
        cases = "".join(f"{host.address}) netns={host.netns} name={host.name};;\n" for host in self.hosts)
        self.agent.write_text(f"""#!/bin/sh
address=$1
shift
case $address in
{cases}esac
exec ip netns exec $netns unshare --uts sh -c "hostname $name; $*"
""", encoding="ascii")
        self.agent.chmod(0o700)

    def mpirun(self, *args):
        """On the first host: the command of the guide, but for the job."""
        env = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "TFC_KEY"))}
        env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR=self.dir,
                   OMPI_MCA_plm_rsh_agent=str(self.agent))
        return self.hosts[0].call(
            [self.agent, self.hosts[0].address, "exec", "mpirun", "--host", ",".join(host.address for host in self.hosts),
             "--map-by", "node", "--bind-to", "none", TFC_RUN, "allocation", "--rendezvous", self.dir, "--framework", "none",
             "--worker", "3", "--slots", "1", *args], env=env, timeout=PATIENCE)

    def test_each_host_has_a_rank(self):
        program = pathlib.Path(self.dir, "program")
        program.write_text(f"#!/bin/sh\necho $(hostname) at $(hostname -I)\ntouch {self.dir}/up.$TFC_TASK_INDEX\n"
                           f"until [ $(ls {self.dir}/up.* | wc -l) = 3 ]; do sleep 0.05; done\nexit 7\n", encoding="ascii")
        program.chmod(0o700)
        status, out, err = self.mpirun("--restart-on", "never", "--", str(program))
        self.assertEqual(status, 7, err)
        self.assertEqual(sorted(line.partition("] ")[2] for line in out.splitlines()),
                         [f"{host.name} at {host.address}" for host in self.hosts])
        self.assertRegex(err, r"tfc_run: rank 0 of 3 in Open MPI \(openmpi-\d+\), ")
        self.assertNotIn("\x1b", out)



if __name__ == "__main__":
    unittest.main(verbosity=2, argv=[word for word in sys.argv if word != "--long"])
