"""A tf.data service of sidecars on two nodes feeds a training."""

import collections
import json
import os
import pathlib
import re
import sys
import unittest

import cluster

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "run"))
import node_test

GUIDE = pathlib.Path(__file__).parents[2] / "doc/guide/sidecars.md"


class DataServiceTest(cluster.SlowPrograms, node_test.NodeTest):

    def setUp(self):
        super().setUp()
        self.brake = self.write("brake", "")
        self.write_members("ab")
        self.a = self.node("a", "--ports", self.ports, "--label", "use=training")
        self.b = self.node("b", "--ports", self.ports, "--label", "use=data")
        self.await_state(self.a, "b", "alive")
        self.await_state(self.b, "a", "alive")

    def job(self):
        """The example's, with this Python, an end that the test decides and labels."""
        with open(os.path.join(cluster.PROGRAMS, "data_service.json")) as file:
            job = json.load(file)
        for part in (job, *job["roles"].values()):
            if "argv" in part:
                part["argv"][0] = sys.executable
        job["cwd"] = cluster.PROGRAMS
        job["argv"] += ["--more-while", self.brake]
        job["roles"]["worker"]["labels"] = {"use": "training"}
        job["roles"]["dispatcher"]["labels"] = {"use": "data"}
        return self.job_file(**job)

    def test_the_guide_shows_the_example(self):
        with open(os.path.join(cluster.PROGRAMS, "data_service.json")) as file:
            self.assertIn(f"```json\n{file.read()}```\n", GUIDE.read_text())

    def test_data_workers_on_both_nodes_feed_the_training(self):
        run = self.start_bare("start", "--gateway", f"unix:{self.dir}/state-a/node.sock", "--json",
                              "--job", self.job())
        for task in ("data_worker/0", "data_worker/1"):
            run.await_output(rf'"task":"{task}",[^\n]*"text":"shard \d+"')
        self.release()
        run.end()
        self.assertEqual(run.status, 0, run.err)
        nodes = {event["task"]: event["node"] for event in run.events()
                 if event["event"] == "task" and event["state"] == "ready"}
        self.assertEqual((nodes["worker/0"], nodes["dispatcher/0"]), ("a", "b"))
        self.assertEqual({nodes["data_worker/0"], nodes["data_worker/1"]}, {"a", "b"})
        lines = collections.defaultdict(list)
        for event in run.events():
            if event["event"] == "output":
                lines[event["task"].split("/")[0]].append(event["text"])
        epochs = [line for line in lines["worker"] if line.startswith("epoch=")]
        for number, epoch in enumerate(epochs, 1):
            self.assertRegex(epoch, f"^epoch={number} examples=512 ")
        shards = collections.Counter(re.findall(r"(?m)^shard \d+$", "\n".join(lines["data_worker"])))
        self.assertEqual(shards, {f"shard {i}": len(epochs) for i in range(8)})
        weights = [line for line in lines["worker"] if line.startswith("weights=")]
        self.assertEqual(len(weights), 1)
        for expected, weight in enumerate(weights[0][len("weights="):].split(","), 1):
            self.assertAlmostEqual(float(weight), expected, delta=0.05)


if __name__ == "__main__":
    unittest.main(verbosity=2)
