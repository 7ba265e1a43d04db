"""What the real guard and shim did in tests of processes, their cores do again: with the same events
the same actions. trace_test.py REPLAY HELPERS TEST..."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

REPLAY, HELPERS, TESTS = None, None, None

# Kinds as in lib/proc/guard/core.h and lib/proc/shim/core.h: 2 is a spawn that failed.
EXPECTED = {"guard event": {1, 3, 4, 5, 6, 7, 8, 9, 10}, "guard action": {1, 2, 3, 4, 5, 6},
            "shim event": {1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, "shim action": {1, 2, 4, 8}}


def replay(*words):
    return subprocess.run([REPLAY, *map(str, words)], capture_output=True, text=True)


class TraceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        place = pathlib.Path(cls.dir.name)
        (place / "trace").mkdir()
        for name in ("tfc-guard", "tfc-shim"):
            shutil.copy(os.path.join(HELPERS, name), place)
        env = dict(os.environ, TFC_HELPER_DIR=str(place))
        # One after the other: each looks for what it has left behind.
        cls.runs = [subprocess.run([test], env=env, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True) for test in TESTS]
        cls.traces = sorted((place / "trace").iterdir())

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def test_the_runs_succeed(self):
        for run in self.runs:
            self.assertEqual(run.returncode, 0, f"{run.args}: {run.stdout[-4000:]}")

    def test_the_cores_do_the_same_again(self):
        done = replay(*self.traces)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:])

    def test_the_traces_have_all_kinds(self):
        found = {kind: set() for kind in EXPECTED}
        for kind, number in re.findall(r"^(\w+ \w+) (\d+): ", replay(*self.traces).stdout,
                                       re.MULTILINE):
            found[kind].add(int(number))
        for kind, expected in EXPECTED.items():
            self.assertLessEqual(expected, found[kind], kind)

    def test_a_deadline_that_differs_is_found(self):
        for program in ("tfc-guard", "tfc-shim"):
            traces = [path for path in self.traces if path.name.startswith(program)]
            self.assertEqual(replay("--late", *traces).returncode, 1, program)


if __name__ == "__main__":
    REPLAY, HELPERS, TESTS = sys.argv[1], sys.argv[2], sys.argv[3:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
