"""tfcluster.allocation: the same program as several ranks, which run one job."""

import contextlib
import functools
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import tfcluster
from tfcluster import _allocation

PATIENCE_S = 60

PROGRAM = """
import sys
import tfcluster

def train(ctx, what):
    if what == "wait":
        import time
        print("up", ctx.rank, flush=True)
        time.sleep(600)
    if what == "save":
        import signal, time
        def save(*_):
            print("saving", ctx.rank, flush=True)
            time.sleep(0.5)
            print("saved", ctx.rank, flush=True)
            sys.exit(143)
        signal.signal(signal.SIGTERM, save)
        print("up", ctx.rank, flush=True)
        time.sleep(600)
    if what == "fail":
        raise ValueError("no data")
    return f"{what} by {ctx.world_size}"

rank, size, shared, what, workers, slots = sys.argv[1:]
try:
    result = tfcluster.allocation(train, args=[what], framework="none", workers=int(workers), rendezvous=shared,
                                  rank=int(rank), size=int(size), slots=int(slots), wait_s=30)
except tfcluster.Error as error:
    sys.exit(f"{type(error).__name__}: {error}")
print("result:", result)
"""


class AllocationTest(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="tfc-allocation-"))
        self.addCleanup(subprocess.run, ["rm", "-rf", str(self.directory)], check=True)
        (self.directory / "program.py").write_text(PROGRAM)
        self.ranks: list[subprocess.Popen[str]] = []

    def start(self, size: int, what: str, workers: int, slots: int = 2) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "TFC_KEY"))}
        for rank in range(size):
            process = subprocess.Popen(
                [sys.executable, str(self.directory / "program.py"), str(rank), str(size), str(self.directory), what,
                 str(workers), str(slots)], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                cwd=self.directory)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            self.ranks.append(process)

    def ends(self) -> list[tuple[int, str, str]]:
        found = []
        for process in self.ranks:
            out, err = process.communicate(timeout=PATIENCE_S)
            found.append((process.returncode, out, err))
        return found

    def test_ranks_that_no_engine_has_started_need_a_rendezvous(self) -> None:
        with self.assertRaisesRegex(tfcluster.InvalidError, "rendezvous is missing"):
            tfcluster.allocation("program.py", workers=1, rank=0, size=2)

    def test_what_ranks_must_have_in_common_is_the_same_in_each_process(self) -> None:
        first, other = (_allocation._agreement(functools.partial(print, sep=object()), {"workers": 1}) for _ in range(2))
        self.assertEqual(first, other)
        self.assertNotEqual(first, _allocation._agreement(functools.partial(len), {"workers": 1}))

    def await_up(self, count: int, word: str = " up ") -> None:
        out = self.ranks[0].stdout
        assert out is not None
        deadline = time.monotonic() + PATIENCE_S
        while count:
            self.assertLess(time.monotonic(), deadline)
            line = out.readline()
            self.assertTrue(line, "rank 0 has ended")
            count -= word in line

    def test_rank_0_has_the_result(self) -> None:
        self.start(2, "trained", 2, slots=1)
        ends = self.ends()
        self.assertEqual([status for status, _, _ in ends], [0, 0], ends)
        self.assertTrue(ends[0][1].endswith("result: trained by 2\n"), ends[0])
        self.assertIn("tfcluster: rank 0 of 2 without an engine", ends[0][2])
        self.assertEqual(ends[1][1:], ("result: None\n", ""))

    def test_a_failure_is_one_of_all_ranks(self) -> None:
        self.start(2, "fail", 1)
        ends = self.ends()
        self.assertEqual([status for status, _, _ in ends], [1, 1])
        self.assertIn("TaskFailed", ends[0][2])
        self.assertIn("no data", ends[0][2])
        self.assertEqual(ends[1][1:], ("", ""))

    def test_a_lost_rank_is_named(self) -> None:
        self.start(2, "wait", 2, slots=1)
        self.await_up(2)
        self.ranks[1].kill()
        ends = self.ends()
        self.assertEqual([status for status, _, _ in ends], [1, -signal.SIGKILL])
        self.assertIn("ConnectionLostError: rank 1 is lost, and the other ranks have 1 slot for 2 tasks", ends[0][2])

    def test_sigterm_to_all_ranks_ends_the_job(self) -> None:
        self.start(2, "wait", 2, slots=1)
        self.await_up(2)
        for process in self.ranks:
            process.terminate()
        self.assertEqual([status for status, _, _ in self.ends()], [143, 143])

    def test_a_repeated_sigterm_does_not_cut_the_grace_short(self) -> None:
        self.start(2, "save", 2, slots=1)
        self.await_up(2)
        for process in self.ranks:
            process.terminate()
        self.await_up(2, " saving ")
        for process in self.ranks:
            process.terminate()
        ends = self.ends()
        self.assertEqual([status for status, _, _ in ends], [143, 143])
        self.assertEqual(ends[0][1].count(" saved "), 2, ends)
        self.assertNotIn("Traceback", ends[0][2] + ends[1][2])

    @staticmethod
    def kill(pidfd: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def test_ranks_do_not_survive_their_launcher(self) -> None:
        """mpirun, which reads what they print, is killed."""
        (self.directory / "save.sh").write_text("trap 'echo saved >saved.$TFC_TASK_INDEX; exit 143' TERM\n"
                                                "touch up.$TFC_TASK_INDEX\nwhile :; do sleep 0.1; done\n")
        rank = ("import tfcluster\ntfcluster.allocation(['sh', 'save.sh'], framework='none', workers=2, slots=1, "
                "rendezvous='.')")
        launcher = subprocess.Popen(
            [sys.executable, "-c", "import os, subprocess, sys\nfor rank in '01':\n"
             "    os.environ['OMPI_COMM_WORLD_RANK'] = rank\n"
             "    print(subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=subprocess.PIPE).pid, flush=True)\n"
             "sys.stdin.read()", rank], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            cwd=self.directory, env={**os.environ, "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "17"})
        self.addCleanup(launcher.communicate)
        self.addCleanup(launcher.kill)
        assert launcher.stdout is not None
        ranks = [os.pidfd_open(int(launcher.stdout.readline())) for _ in range(2)]
        for pidfd in ranks:
            self.addCleanup(os.close, pidfd)
            self.addCleanup(self.kill, pidfd)
        deadline = time.monotonic() + PATIENCE_S
        while len(list(self.directory.glob("up.*"))) < 2:
            self.assertLess(time.monotonic(), deadline)
            self.assertFalse(select.select(ranks, [], [], 0.01)[0], "a rank has ended")
        launcher.kill()
        for pidfd in ranks:
            self.assertTrue(select.select([pidfd], [], [], PATIENCE_S)[0], "a rank has survived")
        self.assertEqual(len(list(self.directory.glob("saved.*"))), 2)

    def call(self, call: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "TFC_KEY"))}
        program = f"import tfcluster\ntry:\n    {call}\nexcept tfcluster.Error as error:\n    print(error)\n"
        return subprocess.run([sys.executable, "-c", program], env={**environment, **variables}, cwd=self.directory,
                              text=True, capture_output=True, timeout=PATIENCE_S, check=False)

    def test_messages_name_the_keywords(self) -> None:
        outside = self.call('tfcluster.allocation("train.py")', XDG_STATE_HOME=str(self.directory))
        self.assertIn("not in an allocation", outside.stdout)
        self.assertIn("set rank, size and rendezvous to run without an engine", outside.stdout)
        self.assertTrue((self.directory / "tfcluster/allocations").is_dir())
        self.assertEqual(self.call('tfcluster.allocation("train.py", rank=0, rendezvous=".")').stdout,
                         "rank is set, but size is missing\n")

    def test_slurm_delays_restarts(self) -> None:
        """A task that Slurm ends must not start again before its rank has the same signal."""
        slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "1"}
        for restart, text in (("tfcluster.RestartPolicy(max_restarts=1, on='failure')", "restarting it in 1.0 s"),
                              ("{'max': 1, 'on': 'failure', 'backoff_s': [0, 1]}", "restarting it (1 of 1 restarts")):
            with self.subTest(restart):
                done = self.call(f"tfcluster.allocation(['false'], framework='none', rendezvous='.', restart={restart})",
                                 **slurm)
                self.assertIn(text, done.stderr)

    def test_a_job_waits_for_room_as_long_as_ranks_for_each_other(self) -> None:
        for keyword, end in (("pending_deadline_s=None", "the pending deadline of 4 s has passed"),
                             ("pending_deadline_s=0, deadline_s=6", "the deadline of 6 s has passed")):
            with self.subTest(keyword):
                self.ranks = []
                (self.directory / "program.py").write_text(
                    "import sys\nimport tfcluster\ntfcluster.allocation(['true'], framework='none', gpus=3, wait_s=4, "
                    f"rank=int(sys.argv[1]), size=2, rendezvous='.', {keyword})\n")
                with unittest.mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES="4,5"):
                    self.start(2, "", 1)
                self.assertIn(end, self.ends()[0][2])

    def test_too_few_gpus(self) -> None:
        done = self.call("tfcluster.allocation(['true'], framework='none', rendezvous='.', rank=0, size=1, gpus=2)",
                         CUDA_VISIBLE_DEVICES="0")
        self.assertIn("the tasks need 2 GPUs, and the ranks have 1; request more GPUs", done.stdout)

    def test_an_interrupt_of_all_ranks_ends_the_job(self) -> None:
        self.start(2, "wait", 2, slots=1)
        self.await_up(2)
        for process in self.ranks:
            process.send_signal(signal.SIGINT)
        ends = self.ends()
        self.assertEqual([status for status, _, _ in ends], [-signal.SIGINT, -signal.SIGINT], ends)
        self.assertNotIn("unreachable", ends[0][2])  # rank 1 has left, and did not die


if __name__ == "__main__":
    unittest.main(verbosity=2)
