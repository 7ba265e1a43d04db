"""Many tasks at once: what waits to be launched takes no memory, and can be stopped."""
import json
import os
import signal
import subprocess
import tempfile
import unittest

import harness

WORKERS = 1500
LIMIT_KIB = 90 * 1024  # all environments at once are 140 MB; without sanitizers it takes 10


class ManyTest(unittest.TestCase):
    def start(self, directory, argv):
        path = os.path.join(directory, "job.json")
        with open(path, "w") as file:
            json.dump({"strategy": "none", "argv": argv, "success": "all_workers",
                       "roles": {"worker": {"count": WORKERS, "ready": "started"}}}, file)
        return subprocess.Popen([harness.TFC_RUN, "local", "--job", path],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def end(self, process):
        process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, usage.ru_maxrss

    def test_environments_are_not_rendered_before_they_can_go(self):
        with tempfile.TemporaryDirectory() as directory:
            status, max_rss_kib = self.end(self.start(directory, ["true"]))
        self.assertEqual(status, 0)
        self.assertLess(max_rss_kib, LIMIT_KIB)

    def test_a_stop_reaches_those_that_wait(self):
        with tempfile.TemporaryDirectory() as directory:
            process = self.start(directory, ["sh", "-c", "echo up; exec sleep 600"])
            process.stdout.readline()
            os.kill(process.pid, signal.SIGTERM)
            status, _ = self.end(process)
        self.assertEqual(status, 128 + signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
