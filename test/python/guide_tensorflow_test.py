"""Runs the examples of doc/guide/python.md and feed.md that need TensorFlow."""

import contextlib
import importlib.util
import io
import os
import shutil
import sys
import tempfile
import unittest

from guide_test import FEED_GUIDE, GUIDE, blocks, expected

if not importlib.util.find_spec("tensorflow"):
    print(f"{sys.executable} lacks tensorflow (meson option tf_python)")
    sys.exit(77)


class GuideTest(unittest.TestCase):

    def test_the_examples_train_and_print_what_they_say(self):
        directory = tempfile.mkdtemp(prefix="tfc-guide-")
        self.addCleanup(shutil.rmtree, directory)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(directory)
        texts = blocks("tensorflow")
        self.assertEqual(len(texts), 1)
        for text in texts:
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                exec(compile(text, str(GUIDE), "exec"), {"__name__": "__main__"})
            self.assertEqual(len(expected(text)), 2)
            for line in expected(text):
                self.assertIn(line, out.getvalue(), err.getvalue())
            self.assertNotIn("AutoGraph could not", err.getvalue())
        self.assertEqual(sorted(name for name in os.listdir("checkpoints") if name.endswith(".index")),
                         ["ckpt-10.index", "ckpt-20.index", "ckpt-30.index"])

    def test_the_feed_trains_workers_and_resumes(self):
        directory = tempfile.mkdtemp(prefix="tfc-guide-")
        self.addCleanup(shutil.rmtree, directory)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(directory)
        texts = blocks("tensorflow", FEED_GUIDE)
        self.assertEqual(len(texts), 3)
        namespace = {"__name__": "__main__"}
        for text in texts + texts[2:]:  # the last one again: a new job, which finds all of it in its checkpoint
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                exec(compile(text, str(FEED_GUIDE), "exec"), namespace)
            self.assertEqual(out.getvalue().splitlines(), expected(text), err.getvalue())
            self.assertNotIn("AutoGraph could not", err.getvalue())


if __name__ == "__main__":
    unittest.main(verbosity=2)
