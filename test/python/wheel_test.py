"""The wheel: what is in it, and that it runs jobs on a machine without the libraries that it was built with."""

import email
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = os.environ["TFC_WHEEL_PYTHON"]
PATIENCE = 500  # seconds for a build of everything on a busy machine
BUNDLED = ("libsodium", "libmsgpackc", "libzip", "libjansson")
HELPERS = {"tfc-guard", "tfc-shim", "tfc-bundle", "tfc-store", "tfc-resolve", "tfc-gpus"}

# Says which of its arguments, libraries, can be loaded; then runs a job.
PROGRAM = """
import ctypes, os, subprocess, sys
import tfcluster as tfc

def train(ctx):
    return {"rank": ctx.rank, "tasks": ctx.world_size}

if __name__ == "__main__":
    for name in sys.argv[1:]:
        try:
            ctypes.CDLL(name)
            print("loaded", name)
        except OSError:
            pass
    from tfcluster import _library
    for helper in "tfc-bundle", "tfc-store":
        program = os.path.join(_library.helper_dir(), helper)
        print(helper, subprocess.run([program], stderr=subprocess.DEVNULL).returncode)  # 127: a library is missing
    with tfc.run(train, workers=2, framework="none", output=False) as job:
        print(job.result(timeout=60))
"""
PRINTED = "tfc-bundle 1\ntfc-store 1\n{'rank': 0, 'tasks': 2}\n"


def run(*command: "str | os.PathLike[str]", **variables: str) -> str:
    """The output of a command that succeeds."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TFC"))}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE, cwd="/",
                          env={**environment, **variables})
    if done.returncode:
        raise AssertionError(f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def libraries() -> dict[str, str]:
    """Files of the libraries that the wheel bundles, as the loader of this machine finds them, by their names."""
    found = re.findall(r"^\s+(\S+) .*=> (\S+)$", run("/sbin/ldconfig", "-p"), re.MULTILINE)
    return {name: path for name, path in found if name.startswith(tuple(f"{lib}.so" for lib in BUNDLED))}


def interpreter(version: str) -> "str | None":
    """An interpreter of that version: from PATH, or one of pyenv's."""
    own = shutil.which(f"python{version}")
    others = sorted(pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for path in [own, *map(str, others)] if own else map(str, others):
        if subprocess.run([path, "-c", "import venv"], check=False, capture_output=True).returncode == 0:
            return str(path)
    return None


class WheelTest(unittest.TestCase):
    dir: pathlib.Path
    wheel: pathlib.Path
    program: pathlib.Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="tfc-wheel-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        run(ROOT / "bindings/python/build_wheel.sh", cls.dir, TFC_WHEEL_PYTHON=TOOLS,
            TFC_WHEEL_BUILD=os.environ["TFC_WHEEL_BUILD"], TFC_LOGS=os.environ["TFC_LOGS"])
        [cls.wheel] = cls.dir.glob("*.whl")
        cls.program = cls.dir / "program.py"
        cls.program.write_text(PROGRAM)

    def installed(self, python: str) -> pathlib.Path:
        """An interpreter of a fresh environment that has the wheel, and what pip adds to it."""
        directory = pathlib.Path(tempfile.mkdtemp(prefix="venv-", dir=self.dir))
        run(python, "-m", "venv", directory)
        run(directory / "bin/pip", "install", "--quiet", "--disable-pip-version-check", self.wheel)
        return directory / "bin/python"

    def test_one_wheel_is_for_every_python_and_this_platform(self) -> None:
        version = re.findall(r"version: '(.*)'", (ROOT / "meson.build").read_text())[0]
        self.assertRegex(self.wheel.name,
                         rf"^tfcluster-{re.escape(version)}-py3-none-manylinux_[0-9_]+_{os.uname().machine}\.whl$")

    def test_the_wheel_has_the_package_and_nothing_else(self) -> None:
        with zipfile.ZipFile(self.wheel) as archive:
            names = {name for name in archive.namelist() if not name.endswith("/")}
        sources = {f"tfcluster/{path.name}" for path in (ROOT / "bindings/python/tfcluster").iterdir()
                   if path.suffix in (".py", ".typed")}
        native = {f"tfcluster/_native/{name}" for name in HELPERS | {"libtfcluster.so.0"}}
        rest = names - sources - native - {"tfcluster/_abi.py"}
        self.assertEqual(sources - names, set())
        self.assertEqual(native - names, set())
        self.assertEqual({name for name in rest if not name.startswith(("tfcluster.libs/", "tfcluster-"))}, set())
        bundled = {name.removeprefix("tfcluster.libs/").partition("-")[0] for name in rest if "tfcluster.libs/" in name}
        self.assertGreaterEqual(bundled, set(BUNDLED))

    def test_metadata(self) -> None:
        with zipfile.ZipFile(self.wheel) as archive:
            [path] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            data = email.message_from_bytes(archive.read(path))
        self.assertEqual((data["Name"], data["License-Expression"], data["Requires-Python"]),
                         ("tfcluster", "Apache-2.0", ">=3.10"))
        needs = data.get_all("Requires-Dist") or []
        self.assertEqual([text for text in needs if "extra" not in text], ["cloudpickle>=3"])
        self.assertEqual(set(data.get_all("Provides-Extra") or []), {"numpy", "arrow", "tensorflow", "notebook"})

    @unittest.skipUnless(os.geteuid() == 0, "only root can hide libraries in a mount namespace")
    def test_a_job_runs_without_the_libraries(self) -> None:
        found = libraries()
        self.assertEqual(len({name.partition(".so")[0] for name in found}), len(BUNDLED))
        hide = "".join(f"mount --bind /dev/null {path}\n" for path in {os.path.realpath(path) for path in found.values()})
        printed = run("unshare", "--mount", "--propagation", "private", "sh", "-ec", hide + 'exec "$@"', "sh",
                      self.installed(sys.executable), self.program, *found)
        self.assertEqual(printed, PRINTED)

    def check_version(self, version: str) -> None:
        python = interpreter(version)
        if python is None:
            self.skipTest(f"there is no Python {version}")
        self.assertEqual(run(self.installed(python), self.program), PRINTED)

    def test_python_3_10(self) -> None:
        self.check_version("3.10")

    def test_python_3_12(self) -> None:
        self.check_version("3.12")

    def test_python_3_13(self) -> None:
        self.check_version("3.13")


if __name__ == "__main__":
    if subprocess.run([TOOLS, "-c", "import auditwheel, mesonpy, wheel"], check=False, capture_output=True).returncode:
        print(f"{TOOLS} lacks what builds a wheel (meson option wheel_python)")
        sys.exit(77)
    unittest.main(verbosity=2)
