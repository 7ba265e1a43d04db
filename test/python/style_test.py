"""mypy and ruff have nothing to say about the package and its tests, for the oldest and the newest Python.

Usage: style_test.py SOURCE_ROOT FOLDER_OF_THE_BUILT_PACKAGE
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT, BUILT = (pathlib.Path(argument) for argument in sys.argv[1:3])
VERSIONS = ("3.10", "3.13")
PLACES = ("bindings/python", "test/python")
# Tests need no annotations, and what they annotate must be right.
UNTYPED = ("--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls", "--allow-subclassing-any",
           "--no-warn-unused-ignores", "--disable-error-code=import-not-found")


class StyleTest(unittest.TestCase):
    def check(self, *command: "str | pathlib.Path") -> None:
        done = subprocess.run([sys.executable, "-m", *command], check=False, capture_output=True, text=True, cwd=ROOT,
                              env={**os.environ, "MYPYPATH": str(BUILT)})
        self.assertEqual(done.returncode, 0, f"\n{done.stdout}{done.stderr}")

    def mypy(self, *arguments: "str | pathlib.Path") -> None:
        with tempfile.TemporaryDirectory() as cache:
            for version in VERSIONS:
                with self.subTest(version=version):
                    self.check("mypy", "--cache-dir", cache, "--python-version", version, *arguments)

    def test_types_of_the_package(self) -> None:
        self.mypy(BUILT / "tfcluster")

    def test_types_of_the_tests_and_tools(self) -> None:
        self.mypy(*UNTYPED, *sorted(path for place in PLACES for path in (ROOT / place).glob("*.py")))

    def test_ruff(self) -> None:
        for target, *options in ("py310",), ("py313", "--ignore", "UP"):  # UP asks for what 3.10 does not have
            with self.subTest(target=target):
                self.check("ruff", "check", "--quiet", "--no-cache", "--target-version", target, *options, *PLACES, BUILT)


if __name__ == "__main__":
    missing = [name for name in ("mypy", "ruff") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"{sys.executable} lacks {' and '.join(missing)} (meson option wheel_python)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
