"""tfcluster.allocation: the same program as several ranks, which run one job."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PATIENCE_S = 60

PROGRAM = """
import sys
import tfcluster

def train(ctx, what):
    if what == "wait":
        import time
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

    def await_up(self, count: int) -> None:
        out = self.ranks[0].stdout
        assert out is not None
        deadline = time.monotonic() + PATIENCE_S
        while count:
            self.assertLess(time.monotonic(), deadline)
            line = out.readline()
            self.assertTrue(line, "rank 0 has ended")
            count -= " up " in line

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
        self.assertEqual(ends[1][2], "Error: the job of rank 0 has ended with status 1\n")

    def test_a_lost_rank_is_named(self) -> None:
        self.start(2, "wait", 2, slots=1)
        self.await_up(2)
        self.ranks[1].kill()
        ends = self.ends()
        self.assertEqual([status for status, _, _ in ends], [1, -signal.SIGKILL])
        self.assertIn("ConnectionLostError: rank 1 is lost, and the other ranks have 1 slots for 2 tasks", ends[0][2])

    def test_sigterm_to_all_ranks_ends_the_job(self) -> None:
        self.start(2, "wait", 2, slots=1)
        self.await_up(2)
        for process in self.ranks:
            process.terminate()
        self.assertEqual([status for status, _, _ in self.ends()], [143, 143])


if __name__ == "__main__":
    unittest.main(verbosity=2)
