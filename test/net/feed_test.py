"""Rows and results between a producer on a host without a node and tasks on two others: one is the
producer's gateway, the other is reached through it."""
import json
import os
import pathlib
import select
import subprocess
import sys
import time
import unittest

import fleet

PRODUCER = pathlib.Path(__file__).parent / "feed_producer.py"


class FeedTest(fleet.FleetTest):
    def setUp(self):
        super().setUp()
        self.producer_host = self.net.hosts[2]
        del self.nodes[2]
        self.write_members(self.nodes)
        self.start_nodes()

    def produce(self, what, *args):
        err = open(os.path.join(self.dir, "producer.err"), "wb")
        self.addCleanup(err.close)
        return self.producer_host.start(
            [sys.executable, PRODUCER, what, self.nodes[0].address, self.key, self.dir, *map(str, args)],
            stdout=subprocess.PIPE, stderr=err, env=dict(os.environ, TMPDIR=self.dir))

    def lines(self, process, until, patience=120):
        """Reads what the producer prints, until the condition is met: the objects."""
        seen, buffer, end = [], b"", time.monotonic() + patience
        while True:
            left = end - time.monotonic()
            self.assertGreater(left, 0, f"the producer said {seen[-1:]} last: {self.producer_said()}")
            if not select.select([process.stdout], [], [], left)[0]:
                continue
            read = os.read(process.stdout.fileno(), 65536)
            self.assertTrue(read, f"the producer ended: {self.producer_said()}")
            buffer += read
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                seen.append(json.loads(line))
                if until(seen[-1]):
                    return seen

    def producer_said(self):
        return pathlib.Path(self.dir, "producer.err").read_text()[-2000:]

    def end_of(self, process):
        last = self.lines(process, lambda said: "result" in said or "error" in said)[-1]
        self.assertEqual(process.wait(30), 0, self.producer_said())
        return last

    def ids(self):
        """The ids that each attempt has got, by task and attempt."""
        return {path.name[4:]: [int(word) for word in path.read_text().split()]
                for path in pathlib.Path(self.dir).glob("ids-*")}

    def test_each_row_arrives_once_on_both_hosts(self):
        rows = 100_000  # 40 MB
        self.assertIn("result", self.end_of(self.produce("feed", rows)))
        ids = self.ids()
        self.assertEqual(set(ids), {"0-1", "1-1"})
        self.assertTrue(all(ids.values()))
        self.assertEqual(sorted(sum(ids.values(), [])), list(range(rows)))

    def test_results_come_back_in_order(self):
        self.assertEqual(self.end_of(self.produce("infer", 50_000)),
                         {"result": {"rows": 50_000, "equal": True}})

    def test_rows_of_a_killed_task_are_fed_again(self):
        rows = 50_000
        self.assertIn("result", self.end_of(self.produce("feed", rows, 60)))
        ids = self.ids()
        self.assertEqual(set(ids), {"0-1", "0-2", "1-1"})
        self.assertEqual(set(sum(ids.values(), [])), set(range(rows)))

    def test_a_task_that_is_killed_after_the_end_of_the_feed_ends(self):
        self.assertEqual(self.end_of(self.produce("end")), {"result": 0})

    def test_rows_of_a_killed_node_are_fed_again_elsewhere(self):
        """The node that is not the gateway: its task moves."""
        rows = 100_000
        producer = self.produce("slowly", rows)
        self.lines(producer, lambda said: said.get("fed", 0) > 10_000)
        self.nodes[1].kill()
        self.assertIn("result", self.end_of(producer))
        self.assertEqual(set(sum(self.ids().values(), [])), set(range(rows)))

    def test_the_end_of_the_gateway_is_an_error(self):
        producer = self.produce("slowly", 10_000_000)
        self.lines(producer, lambda said: said.get("fed", 0) > 10_000)
        self.nodes[0].kill()
        self.assertRegex(self.end_of(producer)["error"], "cannot reach a gateway")

    def test_a_killed_producer_is_known_to_the_tasks(self):
        producer = self.produce("slowly", 10_000_000)
        job = self.lines(producer, lambda said: said.get("fed", 0) > 10_000)[0]["job"]
        producer.kill()
        self.wait_until(lambda: not any(self.pids_of_job(node, job) for node in self.nodes), "the end of the tasks", 60)


if __name__ == "__main__":
    if not fleet.world.is_possible():
        print("network namespaces need root")
        sys.exit(77)
    unittest.main(verbosity=2)
