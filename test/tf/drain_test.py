"""A node is drained under mirrored workers whose save takes longer than grace_s: nothing is lost."""

import os
import pathlib
import re
import sys
import unittest

import cluster

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "run"))
import node_test

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "preempted.py")
SAVE_S = 12  # grace_s is 10


class DrainTest(cluster.SlowPrograms, node_test.NodeTest):

    def setUp(self):
        super().setUp()
        self.brake = self.write("brake", "")
        self.write_members("ab")
        self.a = self.node("a", "--ports", self.ports)
        self.b = self.node("b", "--ports", self.ports)
        self.await_state(self.a, "b", "alive")
        self.await_state(self.b, "a", "alive")
        self.gateway = "--gateway", f"unix:{self.dir}/state-a/node.sock"

    def test_both_members_of_a_drained_group_save_and_resume_there(self):
        python, _, *args = self.program("mirrored.py")
        run = self.start_bare(
            "start", *self.gateway, "--worker", "2", "--env", f"SAVE_S={SAVE_S},{SAVE_S}",
            "--env", "GCE_METADATA_IP=127.0.0.1:9", "--cwd", self.dir, "--", python, PROGRAM, *args)
        run.await_output(r"worker/1\] step=4")
        drain = self.start_bare("drain", "b", *self.gateway).end()
        self.assertEqual(drain.status, 0, drain.err)
        for task in ("worker/0", "worker/1"):
            run.await_output(task + r"#2\] resumed step=")
        self.release()
        run.end()
        self.assertEqual(run.status, 0, run.err)
        text = run.out.decode()
        saved = re.findall(r"(?m)^\[worker/0\] saved step=(\d+)", text)
        self.assertEqual(len(saved), 1, "the chief saves once")
        self.assertEqual(set(re.findall(r"resumed step=(\d+)", text)), set(saved))
        self.assertNotIn("#3]", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
