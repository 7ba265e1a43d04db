"""Runs the programs of examples/python."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

NEEDS = ("tensorflow", "sklearn")
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/python"
PATIENCE = 120  # seconds until a program counts as one that never ends

if not all(map(importlib.util.find_spec, NEEDS)):
    print(f"{sys.executable} lacks {' or '.join(NEEDS)} (meson option tf_python)")
    sys.exit(77)


class ExamplesTest(unittest.TestCase):

    def test_the_training_learns_and_resumes(self):
        with tempfile.TemporaryDirectory(prefix="tfc-examples-") as directory:
            for steps, least in (60, 0.8), (100, 0.9):
                done = subprocess.run([sys.executable, EXAMPLES / "train.py", "--workers", "1", "--steps", str(steps)],
                                      cwd=directory, capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual(done.returncode, 0, done.stderr)
                found = re.fullmatch(r"accuracy=([\d.]+) attempt=1", done.stdout.splitlines()[-1])
                self.assertGreater(float(found[1] if found else 0), least, done.stdout)
            self.assertEqual(sorted(name for name in os.listdir(directory + "/checkpoints") if name.endswith(".index")),
                             ["ckpt-100.index", "ckpt-50.index", "ckpt-60.index"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
