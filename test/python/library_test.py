"""tfcluster._library and tfcluster._abi: which library is loaded, and what is refused."""

import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import tfcluster
from tfcluster import _abi, _library

PACKAGE = pathlib.Path(tfcluster.__file__).parent
SOURCES = pathlib.Path(__file__).resolve().parents[2] / "bindings/python/tfcluster"
LIBRARY = os.environ["TFCLUSTER_LIBRARY"]
HELPER_DIR = os.environ["TFCLUSTER_HELPER_DIR"]
VERSION_SOURCE = "unsigned tfc_version(void) { return 0x%06x; }"


def version_of(library: ctypes.CDLL) -> int:
    return int(library.tfc_version())


class Finding(unittest.TestCase):
    """In a fresh interpreter, because `load` keeps what it has found."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="tfc-library-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)

    def run_code(self, code: str, package_dir: str = str(PACKAGE.parent), **variables: str) -> str:
        """What a program prints that has only these variables."""
        done = subprocess.run([sys.executable, "-c", "from tfcluster import _library\n" + code], check=False,
                              capture_output=True, text=True, env={"PYTHONPATH": package_dir, **variables})
        return (done.stdout + done.stderr).strip()

    def error_of(self, **variables: str) -> str:
        return self.run_code("try: _library.load()\nexcept ImportError as error: print(error, error.path, sep='|')",
                             **variables)

    def other_library(self, version: int) -> str:
        path = self.dir / "other.so"
        subprocess.run(["cc", "-shared", "-o", path, "-x", "c", "-"], check=True, text=True,
                       input=VERSION_SOURCE % version)
        return str(path)

    def test_a_wheel_has_its_own_library_and_helpers_first(self) -> None:
        native = shutil.copytree(PACKAGE, self.dir / "tfcluster") / "_native"
        native.mkdir(exist_ok=True)
        shutil.copy(LIBRARY, native / "libtfcluster.so.0")
        printed = self.run_code("print(_library.load()._name, _library.helper_dir())", str(self.dir),
                                TFCLUSTER_LIBRARY="/nowhere", TFCLUSTER_HELPER_DIR="/nowhere")
        self.assertEqual(printed, f"{native}/libtfcluster.so.0 {native}")

    def test_variables_name_the_library_and_the_helpers(self) -> None:
        printed = self.run_code("print(_library.load()._name, _library.helper_dir())", TFCLUSTER_LIBRARY=LIBRARY,
                                TFCLUSTER_HELPER_DIR=HELPER_DIR)
        self.assertEqual(printed, f"{LIBRARY} {HELPER_DIR}")

    def test_an_installed_library_knows_its_helpers(self) -> None:
        shutil.copy(LIBRARY, self.dir / "libtfcluster.so.0")
        printed = self.run_code("print(_library.load()._name, _library.helper_dir())", LD_LIBRARY_PATH=str(self.dir))
        self.assertEqual(printed, "libtfcluster.so.0 None")

    def test_a_missing_library_is_one_sentence(self) -> None:
        self.assertEqual(
            self.error_of(TFCLUSTER_LIBRARY="/nowhere/lib.so"),
            'cannot load the library "/nowhere/lib.so": /nowhere/lib.so: cannot open shared object file: No such file '
            "or directory; install libtfcluster, or set TFCLUSTER_LIBRARY to its file|/nowhere/lib.so")

    def test_another_library_is_refused(self) -> None:
        text = self.error_of(TFCLUSTER_LIBRARY="libc.so.6")
        self.assertTrue(text.startswith('cannot load the library "libc.so.6": '), text)
        self.assertIn("undefined symbol: tfc_version; ", text)

    def test_an_older_version_is_refused(self) -> None:
        path = self.other_library(_abi.TFC_VERSION_NUMBER - 0x100)
        minor = _abi.TFC_VERSION_MINOR
        self.assertEqual(
            self.error_of(TFCLUSTER_LIBRARY=path),
            f'the library "{path}" has version 0.{minor - 1}.0, but this package needs 0.{minor} or a later 0.x; '
            f"install that version of libtfcluster|{path}")

    def test_another_major_version_is_refused(self) -> None:
        path = self.other_library(_abi.TFC_VERSION_NUMBER + 0x10000)
        self.assertIn(f'the library "{path}" has version 1.{_abi.TFC_VERSION_MINOR}.0, but this package needs 0.',
                      self.error_of(TFCLUSTER_LIBRARY=path))

    def test_a_later_minor_version_is_loaded(self) -> None:
        path = self.other_library(_abi.TFC_VERSION_NUMBER + 0x100)
        printed = self.run_code("_library._abi.declare = lambda library: None\nprint(_library.load()._name)",
                                TFCLUSTER_LIBRARY=path)
        self.assertEqual(printed, path)


class Package(unittest.TestCase):
    def test_the_build_has_every_module(self) -> None:
        sources = {path.name for path in SOURCES.iterdir() if path.suffix in (".py", ".typed")}
        built = {path.name for path in PACKAGE.iterdir() if path.suffix in (".py", ".typed")}
        self.assertEqual(built, sources | {"_abi.py"})

    def test_import_loads_no_library_and_nothing_outside_the_standard_library(self) -> None:
        code = ("import sys\nbefore = set(sys.modules)\nimport tfcluster\n"
                "print(*{name.partition('.')[0] for name in set(sys.modules) - before})\n"
                "print('tfcluster._abi' in sys.modules, 'ctypes' in sys.modules)")
        printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        modules, loaded = printed.splitlines()
        self.assertEqual(set(modules.split()) - sys.stdlib_module_names, {"tfcluster"})
        self.assertEqual(loaded, "False False")


class Abi(unittest.TestCase):
    def test_the_library_has_every_function(self) -> None:
        library = _library.load()
        self.assertIs(library, _library.load())
        self.assertEqual(version_of(library), _abi.TFC_VERSION_NUMBER)
        functions = {name for name in vars(library) if name.startswith("tfc_")}
        exported = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True)
        self.assertEqual(functions, {name for line in exported.stdout.splitlines()
                                     if (name := line.split()[-1].partition("@")[0]).startswith("tfc_")})

    def test_enums_lose_the_words_of_their_names(self) -> None:
        self.assertEqual((_abi.Err.OK, _abi.Err.EINVAL, _abi.Err.EUNREACH), (0, -1, -25))
        self.assertEqual((_abi.EventKind.JOB, _abi.EventKind.NODE_RESET), (1, 12))
        self.assertEqual((_abi.JobState.DAMAGED, _abi.TaskState.READY, _abi.ExitReason.NOT_STARTED.name),
                         (9, 5, "NOT_STARTED"))

    def test_names_of_the_library_are_those_of_the_enums(self) -> None:
        library = _library.load()
        for state in _abi.JobState:
            self.assertEqual(library.tfc_job_state_name(state), state.name.lower().encode())
        for code in _abi.Err:
            self.assertEqual(library.tfc_err_name(code), f"TFC_{code.name}".encode())

    def test_constants_are_those_of_the_headers(self) -> None:
        self.assertEqual((_abi.TFC_TF_CONFIG_MAX, _abi.TFC_BUNDLE_HASH_SIZE, _abi.TFC_UNLIMITED),
                         (131061, 65, 2**64 - 1))

    def test_the_library_fills_structs_and_calls_back(self) -> None:
        library = _library.load()
        spec, error = ctypes.c_void_p(), _abi.tfc_error()
        text = b'{"worker":["h:1","h:2"]}'
        self.assertEqual(library.tfc_spec_parse(text, len(text), ctypes.byref(error), ctypes.byref(spec)), 0)
        self.addCleanup(library.tfc_spec_free, spec)
        seen = []

        def see(_: object, *task: object) -> int:
            seen.append(task)
            return 0

        self.assertEqual(library.tfc_spec_each(spec, _abi.tfc_spec_each_fn(see), None), 0)
        self.assertEqual(seen, [(b"worker", 0, b"h:1"), (b"worker", 1, b"h:2")])
        self.assertEqual(library.tfc_spec_add(spec, b"worker", 1, b"h:3", ctypes.byref(error)), _abi.Err.ESPEC)
        self.assertEqual((error.code, error.component), (_abi.Err.ESPEC, b"spec"))
        self.assertIn(b"worker", error.text)

    def test_text_for_the_caller_can_be_freed(self) -> None:
        library = _library.load()
        spec, made = ctypes.c_void_p(), ctypes.c_void_p()
        self.assertEqual(library.tfc_spec_new(ctypes.byref(spec)), 0)
        self.assertEqual(library.tfc_spec_json(spec, ctypes.byref(made)), 0)
        self.assertEqual(ctypes.string_at(made.value or 0), b"{}")
        library.tfc_free(made)
        library.tfc_spec_free(spec)


if __name__ == "__main__":
    unittest.main()
