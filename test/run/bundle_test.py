"""Hostile bundles: the program tfc-bundle, and tfc_run with it under supervision."""
import os
import pathlib
import stat
import subprocess
import sys
import unittest

import harness

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lib"))
import hostile_zips  # noqa: E402

TOOL = os.path.join(os.environ["TFC_HELPER_DIR"], "tfc-bundle")
LARGE = {"many", "large", "fat_directory"}  # archives of 72 MB and more
END_TO_END = {"parent", "link_then_through", "overlap_quoted", "crc", "size_too_small", "no_end",
              "not_a_zip"}


class Bundle(harness.RunTest):
    def zip_of(self, kind):
        path = os.path.join(self.dir, f"{kind.name}.zip")
        kind.write(path)
        return path

    def unpack(self, path):
        """Into an empty directory; the status, what was said, and the directory."""
        out = os.path.join(self.dir, "out")
        os.makedirs(out, exist_ok=True)
        done = subprocess.run([TOOL, "unpack", path, out], env={}, capture_output=True, text=True,
                              timeout=harness.PATIENCE)
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr, out

    def test_the_tool_refuses_every_kind_in_one_line(self):
        for kind in hostile_zips.corpus():
            if kind.name in LARGE:
                continue
            with self.subTest(kind.name):
                path = self.zip_of(kind)
                status, said, out = self.unpack(path)
                self.assertEqual(status, 1)
                self.assertIn(said, (f"{kind.sentence}\n", f"{path[:80]}: {kind.sentence}\n"))
                self.assertEqual(os.listdir(out), [])
                self.assertEqual(set(os.listdir(self.dir)), {f"{kind.name}.zip", "out", "tmp"})
                os.remove(path)

    def test_a_hostile_bundle_ends_tfc_run_with_its_sentence(self):
        kinds = [kind for kind in hostile_zips.corpus() if kind.name in END_TO_END]
        self.assertEqual(len(kinds), len(END_TO_END))
        for kind in kinds:
            with self.subTest(kind.name):
                path = self.zip_of(kind)
                run = self.run_local("--bundle", path, "--framework", "none", "--", "/bin/true")
                self.assertEqual(run.status, 125)
                self.assertEqual(run.out, b"")
                self.assertIn(kind.sentence, run.errors()[-1])
                harness.wait_until(lambda: not os.listdir(self.tmp), "an empty directory", 5)
                os.remove(path)

    def test_bits_that_give_rights_are_dropped(self):
        path = os.path.join(self.dir, "a.zip")
        with open(path, "wb") as file:
            file.write(hostile_zips.by_zipfile(
                ("tool", stat.S_IFREG | 0o6777, b"#!/bin/sh\nstat -c %a tool\n", 0)))
        status, _, out = self.unpack(path)
        self.assertEqual(status, 0)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(out, "tool")).st_mode), 0o755)
        run = self.run_local("--bundle", path, "--framework", "none", "--no-prefix", "--", "./tool")
        self.assertEqual((run.status, run.out), (0, b"755\n"))


if __name__ == "__main__":
    harness.main()
