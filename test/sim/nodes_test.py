"""Whole nodes on virtual time: fixed and fresh worlds keep every promise, and a world is the same
each time. nodes_test.py PROGRAM SECONDS"""

import re
import subprocess
import sys
import unittest

PROGRAM, SECONDS = None, None
REPEATED = 12
FIXED = 60


def run(*words):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=900)


class NodesTest(unittest.TestCase):
    def assert_kept(self, done):
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])

    def test_a_world_is_the_same_each_time(self):
        runs = [run("--hashes", 1, REPEATED) for _ in range(2)]
        for done in runs:
            self.assert_kept(done)
        places = [re.search(r"^stack at \w+, shared memory at \w+$", done.stdout, re.MULTILINE).group()
                  for done in runs]
        self.assertNotEqual(*places, "address space randomization is off")
        hashes = [re.findall(r"^seed (\d+): hash (\w+)", done.stdout, re.MULTILINE)
                  for done in runs]
        self.assertEqual(len(set(hashes[0])), REPEATED)
        self.assertEqual(hashes[0], hashes[1])

    def test_fixed_worlds_keep_every_promise(self):
        self.assert_kept(run("--jobs", 2, "--shrink", 1000, FIXED))

    def test_fresh_worlds_keep_every_promise(self):
        done = run("--jobs", 2, "--shrink", "--seconds", SECONDS)
        print(done.stdout.strip(), file=sys.stderr)
        self.assert_kept(done)

    def test_worlds_beside_each_other_are_the_same(self):
        runs = [run("--hashes", "--jobs", jobs, 1, REPEATED) for jobs in (1, 3)]
        lines = [sorted(re.findall(r"^seed .*$", done.stdout, re.MULTILINE)) for done in runs]
        self.assertEqual(len(lines[0]), REPEATED)
        self.assertEqual(lines[0], lines[1])
        for done in runs:
            self.assertIn(f"{REPEATED} worlds, 0 failed", done.stdout)

    def test_bad_arguments_are_refused(self):
        for words in (["x"], ["--mask"], ["--jobs", "0"], ["--without", "rain"], ["1", "2", "3"]):
            self.assertEqual(run(*words).returncode, 2, words)


if __name__ == "__main__":
    PROGRAM, SECONDS = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1], verbosity=2)
