"""bindings/python/generate_abi.py: what it makes of headers, and what it refuses.

Usage: abi_test.py SOURCE_ROOT CC [ARGUMENT...]
"""

import ctypes
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

ROOT, CC = pathlib.Path(sys.argv[1]), sys.argv[2:]


class AbiTest(unittest.TestCase):
    """Each test has a copy of the public headers."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="tfc-abi-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        shutil.copytree(ROOT / "include", self.dir / "include")

    def add(self, text: str, header: str = "spec.h") -> None:
        path = self.dir / "include/tfcluster" / header
        path.write_text(path.read_text().replace("\n#ifdef __cplusplus\n}", f"\n{text}\n#ifdef __cplusplus\n}}"))

    def generate(self) -> "subprocess.CompletedProcess[str]":
        outputs = [self.dir / name for name in ("_abi.py", "check.c", "abi.d")]
        return subprocess.run([sys.executable, ROOT / "bindings/python/generate_abi.py", self.dir / "include", *outputs,
                               *CC], check=False, capture_output=True, text=True)

    def compile(self) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([*CC, "-fsyntax-only", "-I", self.dir / "include", self.dir / "check.c"], check=False,
                              capture_output=True, text=True)

    def module(self) -> types.ModuleType:
        done = self.generate()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        module = types.ModuleType("_abi")
        exec((self.dir / "_abi.py").read_text(), module.__dict__)
        return module

    def test_what_is_added_to_the_headers_is_in_the_module(self) -> None:
        self.add("enum tfc_new_kinds { TFC_NEW_KIND_RED = 3, TFC_NEW_KIND_BLUE, TFC_NEW_2ND = 1 << 4 };\n"
                 "#define TFC_NEW_MAX (TFC_NEW_KIND_BLUE | 0x100u)\n"
                 "typedef struct tfc_new tfc_new;\n"
                 "typedef void (*tfc_new_fn)(void *user, const tfc_new *made);\n"
                 "typedef struct tfc_new_info { uint16_t small; uint64_t large; const char *name; const char *data;\n"
                 "\tuint8_t bytes[4]; int (*done)(void *user); } tfc_new_info;\n"
                 "TFC_API char *tfc_new_text(const tfc_new *made, tfc_new_fn fn, tfc_new_info *ret_info);\n")
        abi = self.module()
        self.assertEqual({member.name: int(member) for member in abi.NewKinds}, {"RED": 3, "BLUE": 4, "NEW_2ND": 16})
        self.assertEqual(abi.TFC_NEW_MAX, 0x104)
        info = abi.tfc_new_info
        self.assertEqual([(name, getattr(info, name).offset) for name, *_ in info._fields_],
                         [("small", 0), ("large", 8), ("name", 16), ("data", 24), ("bytes", 32), ("done", 40)])
        self.assertEqual([dict(info._fields_)[name] for name in ("name", "data")], [ctypes.c_char_p, ctypes.c_void_p])
        functions: dict[str, types.SimpleNamespace] = {}

        class Library:
            def __getattr__(self, name: str) -> types.SimpleNamespace:
                return functions.setdefault(name, types.SimpleNamespace())

        abi.declare(Library())
        self.assertEqual(functions["tfc_new_text"].restype, ctypes.c_void_p)
        self.assertEqual(functions["tfc_new_text"].argtypes, [ctypes.c_void_p, abi.tfc_new_fn, ctypes.POINTER(info)])
        self.assertEqual(self.compile().stderr, "")

    def test_a_struct_that_changed_does_not_compile(self) -> None:
        self.add("typedef struct tfc_new { uint32_t size; uint32_t count; } tfc_new;")
        self.module()
        self.assertEqual(self.compile().returncode, 0)
        header = self.dir / "include/tfcluster/spec.h"
        header.write_text(header.read_text().replace("uint32_t size; uint32_t count;", "uint32_t size; uint64_t count;"))
        done = self.compile()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("tfcluster._abi: offsetof(tfc_new, count)", done.stderr)

    def test_a_number_that_changed_does_not_compile(self) -> None:
        self.module()
        header = self.dir / "include/tfcluster/error.h"
        header.write_text(header.read_text().replace("X(TFC_EPARSE, -7,", "X(TFC_EPARSE, -77,"))
        self.assertIn("tfcluster._abi: TFC_EPARSE", self.compile().stderr)

    def test_what_cannot_be_translated_is_named_with_its_line(self) -> None:
        for text, message in (("TFC_API float tfc_new(void);", "cannot translate this type"),
                              ("TFC_API extern int tfc_new;", "cannot translate this declaration"),
                              ("enum { TFC_NEW = sizeof(int) };", "cannot evaluate this expression")):
            with self.subTest(text=text):
                shutil.copytree(ROOT / "include", self.dir / "include", dirs_exist_ok=True)
                self.add(text)
                done = self.generate()
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, rf"^generate_abi\.py: \S*spec\.h:\d+:\d+: {message}\n$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
