"""The standalone driver: the roles run TensorFlow's own server, the driver decides."""

import sys
import unittest

import cluster
from cluster import output, state


class DriverTest(cluster.ClusterTest):

    def test_a_driver_trains_on_servers_of_the_library(self):
        self.release()
        job = self.start("--driver", "--worker", "2", "--ps", "1", "--python", sys.executable,
                         "--", *self.program("driver.py"))
        self.assert_succeeded("driver/0")
        self.assertEqual(job.attempts(), {"driver/0": 1, "worker/0": 1, "worker/1": 1, "ps/0": 1})
        for task in ("worker/0", "worker/1", "ps/0"):
            self.assertTrue(job.find(state(task, "ready")), f"{task} never listened")
            self.assertTrue(job.find(output(task, f"^tensorflow server: {task} serves ")))
            self.assertEqual(job.find(state(task, "stopped"))[0]["reason"], "stopped")


if __name__ == "__main__":
    unittest.main(verbosity=2)
