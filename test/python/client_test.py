"""A client of three nodes: jobs, members, failures, and a node that dies."""

import json
import sys
import unittest

import tfcluster as tfc
from cluster import Cluster, free_port


class ClientTest(unittest.TestCase):
    cluster: Cluster

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.cluster.close()

    def setUp(self) -> None:
        self.client = tfc.connect(self.cluster.gateway, key=self.cluster.key)
        self.addCleanup(self.client.close)

    def test_tasks_run_on_all_nodes(self) -> None:
        job = self.client.run(["/bin/sh", "-c", "echo $TFC_TASK_INDEX"], framework="none", workers=3, output=False)
        job.result(timeout=30)
        info = self.client.describe(job.id)
        self.assertEqual(sorted(info.nodes), ["a", "b", "c"])
        self.assertEqual({task.task: task.last_end.exit for task in info.tasks if task.last_end},
                         {"worker/0": 0, "worker/1": 0, "worker/2": 0})
        self.assertEqual(sorted(self.client.logs(job.id)), ["[worker/0] 0", "[worker/1] 1", "[worker/2] 2"])
        self.assertEqual(info.state, "succeeded")
        assert info.submitted and info.ended
        self.assertLess(info.submitted, info.ended)
        self.client.rm(job.id)
        self.assertNotIn(job.id, [known.job for known in self.client.jobs()])

    def test_the_processes_that_tasks_are_forked_from_are_described(self) -> None:
        job = self.client.run([sys.executable, "-c", "import time; time.sleep(600)"], framework="none", warm=["colorsys"],
                              workers=3, output=False)
        self.addCleanup(self.client.stop, job.id, kill=True)
        for _ in job.events():
            zygotes = self.client.describe(job.id).zygotes
            if len([zygote for zygote in zygotes if zygote.state == "ready"]) == 3:
                break
        self.assertEqual(sorted(zygote.node for zygote in zygotes), ["a", "b", "c"])
        for zygote in zygotes:
            self.assertEqual((zygote.modules, zygote.interpreter, zygote.attempts, zygote.text),
                             (("colorsys",), sys.executable, 1, ""))
            self.assertGreater(zygote.rss_bytes, zygote.anonymous_bytes)
            self.assertGreater(zygote.anonymous_bytes, 1 << 20)
            assert zygote.started
        self.assertEqual([known.zygotes for known in self.client.jobs()], [()] * len(self.client.jobs()))

    def test_members_and_drain(self) -> None:
        self.assertEqual([(member.name, member.state) for member in self.client.members()],
                         [("a", "alive"), ("b", "alive"), ("c", "alive")])
        self.client.drain("c")
        self.addCleanup(self.client.undrain, "c")
        self.assertEqual([member.name for member in self.client.members() if member.draining], ["c"])

    def test_what_the_library_logs_is_in_the_log_of_the_program(self) -> None:
        members = self.cluster.directory / "own.json"
        members.write_text(json.dumps({"members": [{"name": "d", "address": f"tcp://127.0.0.4:{free_port('127.0.0.4')}"}]}))
        self.addCleanup(members.unlink)
        with self.assertLogs("tfcluster", "INFO") as logs, tfc.local(
                name="d", members=str(members), key=str(self.cluster.key)) as client:
            members.write_text("[]")
            while not any(record.levelname == "WARNING" for record in logs.records):
                client.members()
        self.assertIn("own.json", logs.output[-1])

    def test_a_job_is_followed_again_by_its_name(self) -> None:
        first = self.client.run(["/bin/sh", "-c", "echo one; sleep 0.3; echo two"], framework="none", name="again",
                                output=False)
        first.close()
        job = tfc.attach("again", gateway=self.cluster.gateway, key=self.cluster.key, output=False)
        self.assertEqual(job.id, first.id)
        self.assertEqual(list(job.logs("worker/0", follow=True)), ["one", "two"])
        job.close()

    def test_the_end_of_a_client_leaves_its_jobs(self) -> None:
        with tfc.connect(self.cluster.gateway, key=self.cluster.key) as client:
            job = client.run(["/bin/sleep", "60"], framework="none", output=False)
        self.assertIn(self.client.describe(job.id).state, ("pending", "starting", "running"))
        self.client.stop(job.id, kill=True)

    def test_what_does_not_exist_is_named(self) -> None:
        with self.assertRaises(tfc.NotFoundError) as caught:
            self.client.describe("nothing")
        self.assertIn("nothing", str(caught.exception))
        with self.assertRaises(tfc.NotFoundError):
            self.client.drain("d")
        with self.assertRaises(tfc.NotFoundError):
            self.client.attach("nothing")

    def test_a_task_goes_on_elsewhere_when_its_node_is_killed(self) -> None:
        script = 'echo "$TFC_ATTEMPT"; [ "$TFC_ATTEMPT" -gt 1 ] || sleep 60'
        maintainer = tfc.connect(self.cluster.address("a"), key=self.cluster.key)
        self.addCleanup(maintainer.close)
        maintainer.drain("a")
        maintainer.drain("b")
        job = maintainer.run(["/bin/sh", "-c", script], framework="none", output=False)
        for event in job.events():
            if event.event == "output":
                self.assertEqual((event.task, event.text), ("worker/0", "1"))
                break
        maintainer.undrain("b")
        maintainer.undrain("a")
        self.cluster.kill("c")
        self.addCleanup(self.cluster.restart, "c")
        job.result(timeout=60)
        self.assertEqual(job.tasks["worker/0"].attempt, 2)
        self.assertIn(job.tasks["worker/0"].node, ("a", "b"))

    def test_a_relative_checkpoint_dir_is_refused(self) -> None:
        with self.assertRaisesRegex(tfc.InvalidError, 'checkpoint_dir: "run" is a relative path, and each task'):
            self.client.run(lambda ctx: None, framework="none", checkpoint_dir="run")

    def test_nobody_answers(self) -> None:
        with tfc.connect("tcp://127.0.0.1:9", connect_s=1) as client:
            with self.assertRaises(tfc.ConnectionLostError) as caught:
                client.jobs()
        self.assertIn("127.0.0.1:9", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
