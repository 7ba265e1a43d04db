"""Preemptions: whoever of a group saves gets no signal, and a crash leaves nobody a grace."""
import os

import harness

# worker/1 ends as `end` says as soon as worker/0 is up, which then "saves" for 1.5 s.
WORKER = """
[ $TFC_ATTEMPT = 2 ] && exit 0
if [ $TFC_TASK_INDEX = 1 ]; then
    until test -e up; do sleep 0.02; done
    %s
fi
trap 'echo got TERM >>told' TERM
touch up
i=0
while [ $i -lt 15 ]; do sleep 0.1; i=$((i + 1)); done
echo saved >>told
exit 42
"""


class PreemptionTest(harness.RunTest):
    def train(self, end, **job):
        """Two mirrored workers, of which one ends so; returns the run and the signals that the other got."""
        run = self.run_local("--json", "--job", self.job_file(
            argv=["sh", "-c", WORKER % end], cwd=self.dir,
            roles={"worker": {"count": 2, "ready": "started"}}, **job))
        self.assertEqual(run.status, 0, run.err)
        path = os.path.join(self.dir, "told")
        if not os.path.exists(path):
            return run, None
        with open(path, encoding="ascii") as file:
            return run, file.read()

    def ends(self, run):
        """{task: the end of its first attempt}"""
        return {e["task"]: e for e in run.events()
                if e["event"] == "task" and e["attempt"] == 1 and e.get("reason")}

    def test_peer_of_a_preempted_task_saves_without_a_second_term(self):
        for status in (42, 143):
            with self.subTest(status=status):
                run, told = self.train(f"exit {status}")
                self.assertEqual(told, "saved\n")
                end = self.ends(run)
                self.assertIn("losses in", end["worker/1"]["text"])
                self.assertEqual((end["worker/0"]["exit"], end["worker/0"]["reason"]),
                                 (42, "consequence"))
                for name in ("up", "told"):
                    os.unlink(os.path.join(self.dir, name))

    def test_peer_that_does_not_end_is_killed_after_preempt_grace_s(self):
        run, told = self.train("exit 42", preempt_grace_s=0.5)
        self.assertIsNone(told)
        self.assertEqual(self.ends(run)["worker/0"]["signal"], 9)

    def test_one_that_is_killed_after_its_notice_costs_nobody_the_save(self):
        for line in ("I0000 preemption_notifier.cc:90] SIGTERM caught at 2026",
                     "INFO:tensorflow:PreemptionCheckpointHandler: Starting saving a checkpoint."):
            with self.subTest(line=line):
                run, told = self.train(f"echo '{line}' >&2; kill -9 $$")
                self.assertEqual(told, "saved\n")
                self.assertEqual(self.ends(run)["worker/1"]["signal"], 9)
                for name in ("up", "told"):
                    os.unlink(os.path.join(self.dir, name))

    def test_who_waits_for_a_killed_peer_is_killed_at_once_unless_a_grace_is_given(self):
        run, told = self.train("kill -9 $$")
        self.assertIsNone(told)
        self.assertEqual(self.ends(run)["worker/0"]["signal"], 9)
        os.unlink(os.path.join(self.dir, "up"))
        _, told = self.train("kill -9 $$", abort_grace_s=30)
        self.assertEqual(told, "got TERM\nsaved\n")


if __name__ == "__main__":
    harness.main()
