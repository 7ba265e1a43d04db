"""Ranks of a real framework ($FRAMEWORK): two processes train together, each is killed once."""

import importlib.util
import os
import signal
import socket
import sys
import unittest

import cluster
from cluster import ENDED, job_state, output, state

import numpy as np

FRAMEWORK = os.environ["FRAMEWORK"]
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples", FRAMEWORK,
                       "train.py")
RANKS = ("worker/0", "worker/1")

if FRAMEWORK == "jax":
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except OSError as error:
        print(f"jax looks up this machine's own name, {socket.gethostname()}: {error}")
        sys.exit(77)


def data(ranks):
    """The examples of some ranks, as the program makes them."""
    spec = importlib.util.spec_from_file_location("train", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    parts = [module.data(rank) for rank in ranks]
    return [np.concatenate([np.asarray(part[i]) for part in parts]) for i in (0, 1)]


def solution(ranks):
    """The weights that fit the examples of these ranks best."""
    return np.linalg.lstsq(*data(ranks), rcond=None)[0]


class GroupTest(cluster.ClusterTest):

    def kill(self, task, generation):
        """Kills a rank: all of them run again, from the checkpoint; nobody else is blamed."""
        job = self.job
        job.wait_for(output("worker/0", r"^saved step=", generation), "a checkpoint")
        saved, since = job.last_saved(), job.mark()
        job.signal_task(task, signal.SIGKILL)
        death = job.wait_for(state(task, ENDED, generation), f"the death of {task}", since)
        self.assertEqual((death["state"], death["signal"]), ("failed", signal.SIGKILL))
        job.wait_for(job_state("running", generation + 1), f"generation {generation + 1}", since)
        for rank in RANKS:
            found = job.wait_for(output(rank, r"^resumed step=(\d+)", generation + 1),
                                 f"{rank}'s resuming", since)
            self.assertGreaterEqual(int(found[1]), saved)
            self.assertGreater(job.wait_step(rank, 0, since, generation + 1), int(found[1]))
        self.assertEqual(job.attempts(), dict.fromkeys(RANKS, generation + 1))
        text = job.find(job_state("restarting"), since)[0]["text"]
        self.assertIn(task, text)

    def weights(self, rank):
        found = self.job.find(output(rank, r"^weights=(.*)"))
        self.assertEqual(len(found), 1, f"{rank} ends once")
        return np.array([float(weight) for weight in found[0][1].split(",")])

    def test_a_dead_rank_restarts_the_group_and_the_sums_are_right(self):
        job = self.start(
            framework=FRAMEWORK, roles={"worker": {"count": 2}},
            argv=[sys.executable, PROGRAM, "--steps", "200", "--step-delay", "0.2",
                  "--delay-while", self.brake, "--checkpoint", os.path.join(self.dir, "saved")])
        self.kill("worker/1", 1)
        self.kill("worker/0", 2)  # it listens for the others, on the same port again
        self.release()
        end, status = job.end()
        self.assertEqual((end["state"], end["exit"], status), ("succeeded", 0, 0), end)
        together, alone = solution((0, 1)), solution((0,))
        self.assertGreater(np.abs(together - alone).max(), 0.01, "the ranks' data are alike")
        for rank in RANKS:
            np.testing.assert_allclose(self.weights(rank), together, atol=2e-3)
        self.assertEqual({len(kept) for kept in job.addresses().values()}, {1},
                         f"a rank changed its address: {job.addresses()}")


RECORDED = """
import os, signal, torch
from torch.distributed.elastic.multiprocessing.errors import record
@record
def main():
    if os.environ["RANK"] == "0":
        signal.pause()
    raise ValueError(f"{torch.get_num_threads()} thread\\nof rank 1")
main()
"""


@unittest.skipUnless(FRAMEWORK == "pytorch", "PyTorch's own")
class TorchTest(cluster.ClusterTest):

    def test_recorded_exception_is_the_reason_and_a_rank_has_one_thread(self):
        job = self.start(framework=FRAMEWORK, roles={"worker": {"count": 2}},
                         argv=["sh", "-c", f"exec {sys.executable} -c '{RECORDED}' 2>/dev/null"])
        end, _ = job.end()
        self.assertEqual((end["state"], end["decided_by"], end["error_line"]),
                         ("failed", "worker/1", "ValueError: 1 thread"), end)


if __name__ == "__main__":
    unittest.main(verbosity=2)
