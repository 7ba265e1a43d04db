"""tfc_run allocation under a real Slurm: three slurmd of this machine. With --long also real TensorFlow, a time limit, a
requeued job and a node that is set down.

Usage: slurm_test.py [--long] [TEST...]
"""
import contextlib
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

for folder in ("run", "lib"):
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / folder))
import processes
import slurm
from harness import PATIENCE, TFC_RUN, await_no_children, wait_until
from slurm import is_running

IS_LONG = "--long" in sys.argv
GUIDE = pathlib.Path(__file__).parents[2] / "doc/guide/slurm.md"
PROGRAMS = pathlib.Path(__file__).parent.parent.parent / "examples/tensorflow"
long = unittest.skipUnless(IS_LONG, "only with --long")

# Writes its pid for the test. On TERM, which it may get from Slurm and from its rank, it saves a checkpoint, from which it
# would continue.
WAITING = """
trap 'trap "" TERM; echo stopping; echo saved >{dir}/saved.$TFC_TASK_INDEX; exit 143' TERM
echo $$ >{dir}/pid.$TFC_TASK_INDEX.$TFC_ATTEMPT.${{SLURM_RESTART_COUNT:-0}}
echo up $TFC_TASK_INDEX on $SLURM_NODEID
[ ! -e {dir}/saved.$TFC_TASK_INDEX ] || {{ echo resumed; exit 0; }}
while :; do sleep 0.1; done
"""

# The same as a program of Python.
TRAINING = """
import os, signal, sys
saved = "saved." + os.environ["TFC_TASK_INDEX"]
def save(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(saved, "w").close()
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("up", os.environ["TFC_TASK_INDEX"], flush=True)
if os.path.exists(saved):
    print("resumed")
    sys.exit()
while True:
    signal.pause()
"""

cluster = None


def setUpModule():
    global cluster
    reason = slurm.missing()
    if reason:
        raise unittest.SkipTest(reason)
    cluster = slurm.Slurm()
    try:
        cluster.start()
    except BaseException:
        print(cluster.logs(), file=sys.stderr)
        tearDownModule()
        raise


def tearDownModule():
    if cluster:
        cluster.stop()
        await_no_children()


class SlurmTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="slurm-job-")
        self.addCleanup(subprocess.run, ["rm", "-rf", self.dir], check=True)
        self.started = []
        wait_until(lambda: cluster.states() == ["idle"] * slurm.NODES, "idle nodes")

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
        for job in cluster.jobs():
            cluster.run("scancel", "--signal=KILL", job)
        if not self._outcome.success:
            print(cluster.logs(), file=sys.stderr)

    def srun(self, *args, options=(), name="out"):
        """A step on all nodes, one rank on each; its output goes to files."""
        with open(f"{self.dir}/{name}", "wb") as out, open(f"{self.dir}/{name}.err", "wb") as err:
            process = subprocess.Popen(self.command(*args, options=options), env=cluster.env, cwd=self.dir,
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        self.started.append(process)
        return process

    def command(self, *args, options=()):
        return ["srun", "-N", str(slurm.NODES), "--ntasks-per-node", "1", "-c", "2", *options, TFC_RUN, "allocation",
                "--rendezvous", self.dir, *args]

    def waiting(self, *args, **options):
        return self.srun("--framework", "none", "--worker", "3", *args, "--", "sh", "-c", WAITING.format(dir=self.dir),
                         **options)

    def text(self, name="out"):
        return pathlib.Path(self.dir, name).read_text(encoding="utf-8")

    def await_up(self, count, name="out"):
        def is_up():
            self.assertFalse(self.started and self.started[-1].poll(), self.text("out.err") if self.started else "")
            return len(re.findall(r" up \d", self.text(name))) >= count
        wait_until(is_up, f"{count} attempts")

    def pids(self):
        return [int(path.read_text()) for path in pathlib.Path(self.dir).glob("pid.*")]

    def assert_no_orphan(self, count):
        """Of the processes of all tasks none is left."""
        pids = self.pids()
        self.assertEqual(len(pids), count)
        wait_until(lambda: not any(map(is_running, pids)), "the end of all tasks", 10)
        left = list(pathlib.Path(self.dir).glob("tfcluster-*"))
        self.assertEqual(left, [])


class StepTest(SlurmTest):
    def test_three_nodes_run_one_job(self):
        step = self.srun("--framework", "none", "--worker", "3", "--", "sh", "-c",
                         "echo $TFC_TASK_INDEX on $SLURM_NODEID of $SLURM_JOB_ID; touch up.$TFC_TASK_INDEX; "
                         "until [ $(ls up.* | wc -l) = 3 ]; do sleep 0.05; done; exit 7")
        self.assertEqual(step.wait(PATIENCE), 7)
        found = [re.fullmatch(r"\[worker/(\d)\] \1 on (\d) of \d+", line) for line in self.text().splitlines()]
        self.assertEqual(sorted(match[1] for match in found), ["0", "1", "2"])
        self.assertEqual(sorted(match[2] for match in found), ["0", "1", "2"])
        self.assertRegex(self.text("out.err"), r"tfc_run: rank 0 of 3 in Slurm \(slurm-\d+\.0\), with 2 CPUs, ")
        self.assertEqual([line for line in self.text("out.err").splitlines() if "rank 1" in line or "rank 2" in line], [])

    def test_jobs_side_by_side_on_the_same_nodes(self):
        args = ("--framework", "none", "--worker", "3", "--", "sh", "-c", f"""
            echo up >>{self.dir}/$SLURM_JOB_ID.ran; until [ $(cat {self.dir}/*.ran | wc -l) = 6 ]; do sleep 0.1; done""")
        steps = [self.srun(*args, name=name) for name in ("a", "b")]
        self.assertEqual([step.wait(PATIENCE) for step in steps], [0, 0])

    def test_scancel_gives_the_tasks_their_grace_and_leaves_no_orphan(self):
        step = self.waiting()
        self.await_up(3)
        cluster.output("scancel", *cluster.jobs())
        self.assertEqual(step.wait(PATIENCE), 143)
        self.assertEqual(self.text().count("stopping"), 3, self.text())
        self.assert_no_orphan(3)

    def test_scancel_of_the_whole_job_by_kill_leaves_no_orphan(self):
        step = self.waiting()
        self.await_up(3)
        cluster.output("scancel", "--signal=KILL", *cluster.jobs())
        self.assertNotEqual(step.wait(PATIENCE), 0)
        pids = self.pids()
        self.assertEqual(len(pids), 3)
        wait_until(lambda: not any(map(is_running, pids)), "the end of all tasks", 10)

    def test_a_killed_slurmstepd_leaves_no_orphan(self):
        """Rank 0 notices that its own is dead, and stops the job. The output has nowhere to go any more."""
        step = self.waiting()
        self.await_up(3)
        os.kill(int(processes.stat(self.process_of_rank(0))[1]), 9)
        wait_until(lambda: len(list(pathlib.Path(self.dir).glob("saved.*"))) == 3, "the grace of all tasks")
        wait_until(lambda: not list(pathlib.Path(self.dir).glob("tfcluster-*")), "the end of rank 0")
        self.assert_no_orphan(3)
        cluster.output("scancel", *cluster.jobs())
        self.assertNotEqual(step.wait(PATIENCE), 0)

    def test_a_script_that_is_no_step(self):
        script = pathlib.Path(self.dir, "script")
        script.write_text(f"#!/bin/sh\nexec {TFC_RUN} allocation --rendezvous {self.dir} -- true\n", encoding="utf-8")
        cluster.output("sbatch", "-N", "2", "-o", f"{self.dir}/out", str(script))
        wait_until(lambda: not cluster.jobs(), "the end of the script")
        self.assertEqual(self.text(), "tfc_run: this process is in a job of Slurm, but not in a step; start it on each node "
                                      "with \"srun --ntasks-per-node 1\"\n")

    def test_the_tasks_of_a_rank_that_dies_move(self):
        step = self.waiting(options=("--no-kill",))
        self.await_up(3)
        os.kill(self.process_of_rank(2), 9)
        self.await_up(4)
        self.assertIn("tfc_run: rank 2 is lost", self.text("out.err"))
        cluster.output("scancel", *cluster.jobs())
        self.assertEqual(step.wait(PATIENCE), 137)  # Slurm reports the highest of all ranks

    @staticmethod
    def process_of_rank(rank):
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                environ = (path / "environ").read_bytes().split(b"\0")
                if (os.readlink(path / "exe") == os.path.realpath(TFC_RUN) and b"SLURM_PROCID=%d" % rank in environ
                        and b"SLURM_CONF=" + cluster.env["SLURM_CONF"].encode() in environ):
                    return int(path.name)
        raise AssertionError(f"no process of rank {rank}")


@long
class EngineTest(SlurmTest):
    def test_a_time_limit_gives_time_for_a_checkpoint(self):
        step = self.waiting(options=("--time", "1", "--signal", "TERM@45"))
        self.await_up(3)
        self.assertEqual(step.wait(90), 143)
        self.assertEqual(len(list(pathlib.Path(self.dir).glob("saved.*"))), 3)
        self.assert_no_orphan(3)

    def test_a_requeued_job_resumes(self):
        script = pathlib.Path(self.dir, "script")
        words = self.command("--framework", "none", "--worker", "3", "--", "sh", f"{self.dir}/task")
        pathlib.Path(self.dir, "task").write_text(WAITING.format(dir=self.dir), encoding="utf-8")
        script.write_text(f"#!/bin/sh\nexec {' '.join(words)}\n", encoding="utf-8")
        pathlib.Path(self.dir, "out").touch()
        cluster.output("sbatch", "--requeue", "-N", str(slurm.NODES), "-c", "2", "--ntasks-per-node", "1",
                       "-o", f"{self.dir}/out", "--open-mode=append", str(script))
        self.await_up(3)
        cluster.output("scontrol", "requeue", *cluster.jobs())
        wait_until(lambda: not cluster.jobs(), "the end of the requeued job", 120)
        self.assertEqual(self.text().count("resumed"), 3, self.text())
        self.assertRegex(self.text(), r"in Slurm \(slurm-\d+\.0\.restart-1\)")
        self.assertTrue(self.text().rstrip().endswith("tfc_run: succeeded"), self.text())

    def test_the_batch_script_of_the_guide(self):
        """With what these nodes have. After the signal that precedes a time limit, the job is requeued and resumes."""
        script = re.search(r"(?m)^    #!/bin/sh\n(    .*\n)+", GUIDE.read_text(encoding="utf-8"))[0]
        for words, here in (("--nodes 4", f"--nodes {slurm.NODES}"), ("--cpus-per-task 8", "--cpus-per-task 2"),
                            (" --gpus-per-node 2", ""), ("--worker 4 --gpus 2", f"--worker {slurm.NODES}")):
            self.assertIn(words, script)
            script = script.replace(words, here)
        pathlib.Path(self.dir, "script").write_text(textwrap.dedent(script), encoding="utf-8")
        pathlib.Path(self.dir, "train.py").write_text(TRAINING, encoding="utf-8")
        env = dict(cluster.env, PATH=f"{os.path.dirname(TFC_RUN)}:{cluster.env['PATH']}", XDG_STATE_HOME=self.dir)
        job = subprocess.run(["sbatch", "--parsable", "script"], env=env, cwd=self.dir, check=True, stdout=subprocess.PIPE,
                             text=True).stdout.strip()
        out = f"slurm-{job}.out"
        wait_until(lambda: os.path.exists(f"{self.dir}/{out}"), "the begin of the script")
        self.await_up(3, out)
        cluster.output("scancel", "--signal=TERM", job)
        wait_until(lambda: not cluster.jobs(), "the end of the requeued job", 150)
        self.assertEqual(self.text(out).count("resumed"), 3, self.text(out))
        self.assertRegex(self.text(out), rf"in Slurm \(slurm-{job}\.0\.restart-1\)")
        self.assertTrue(self.text(out).rstrip().endswith("tfc_run: succeeded"), self.text(out))
        self.assertEqual(len(list(pathlib.Path(self.dir, "logs").glob("rank-*"))), slurm.NODES)

    def test_the_tasks_of_a_node_that_is_set_down_move(self):
        step = self.waiting(options=("--no-kill",))
        self.await_up(3)
        cluster.output("scontrol", "update", "nodename=n2", "state=down", "reason=test")
        self.await_up(4)
        cluster.output("scancel", *cluster.jobs())
        step.wait(PATIENCE)
        wait_until(lambda: not any(map(is_running, self.pids())), "the end of all tasks", 15)
        cluster.run("scontrol", "update", "nodename=n2", "state=resume")  # unless it has returned by itself


@long
@unittest.skipUnless(importlib.util.find_spec("tensorflow"), "this Python has no TensorFlow")
class TensorFlowTest(SlurmTest):
    """Run with TensorFlow's Python."""

    def train(self, program, command):
        """Runs a command of the guide, in which train.py is this program."""
        pathlib.Path(self.dir, "train.py").write_text(f"""
import runpy, sys
sys.argv = [{str(PROGRAMS / program)!r}, "--steps", "30", "--checkpoint-dir", {self.dir + "/checkpoints"!r}]
sys.path.insert(0, {str(PROGRAMS)!r})
runpy.run_path(sys.argv[0], run_name="__main__")
""", encoding="utf-8")
        path = f"{os.path.dirname(sys.executable)}:{os.path.dirname(TFC_RUN)}:{cluster.env['PATH']}"
        done = subprocess.run(["sh", "-c", command], env=dict(cluster.env, PATH=path, XDG_STATE_HOME=self.dir), cwd=self.dir,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"accuracy")

    def test_the_commands_of_the_guide(self):
        mirrored, servers = re.findall(r"(?m)^```sh slurm\n(.*)\n```$", GUIDE.read_text(encoding="utf-8"))
        with self.subTest("mirrored workers"):
            self.train("mirrored.py", mirrored)
        with self.subTest("parameter servers"):
            self.train("parameter_server.py", servers)


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=[word for word in sys.argv if word != "--long"])
