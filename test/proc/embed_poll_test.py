"""examples/embed_poll: a whole job in a foreign poll loop that reaps every child there is.

Usage: embed_poll_test.py EMBED_POLL      environment: TFC_HELPER_DIR
"""
import os
import re
import subprocess
import sys
import unittest

EMBED_POLL = os.path.abspath(sys.argv.pop(1))


def run(*argv):
    return subprocess.run([EMBED_POLL, *argv], capture_output=True, text=True, timeout=60)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class EmbedPoll(unittest.TestCase):
    def test_a_killed_worker_restarts_under_a_host_that_reaps_everything(self):
        done = run("sh", "-c", 'echo "pid $$ of attempt $TFC_ATTEMPT"; '
                   '[ "$TFC_TASK_INDEX.$TFC_ATTEMPT" != 1.1 ] || kill -KILL $$; '
                   '[ "$TFC_ATTEMPT" = 2 ] || exec sleep 60')
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for worker in 0, 1:
            self.assertRegex(done.stdout, rf"\[worker/{worker}\] pid \d+ of attempt 2\n")
            self.assertIn(f"worker/{worker} attempt 2 is exited\n", done.stdout)
        self.assertIn("worker/1 attempt 1 is failed\n", done.stdout)
        self.assertIn("job succeeded: ", done.stdout)
        self.assertEqual(done.stdout.count("own child exited with 42\n"), 1)
        pids = re.findall(r"pid (\d+) of attempt", done.stdout)
        self.assertEqual(len(pids), 4)
        self.assertEqual([pid for pid in pids if is_alive(pid)], [])

    def test_the_exit_code_of_a_task_reaches_a_host_that_reaps_everything(self):
        done = run("sh", "-c", "exit 7")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("job failed: exit 7\n", done.stdout)

    def test_a_missing_program_is_told(self):
        done = run("no-such-program-here")
        self.assertEqual(done.returncode, 1)
        self.assertIn("job failed: not_found 0\n", done.stdout)


if __name__ == "__main__":
    unittest.main()
