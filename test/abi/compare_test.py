"""compare.sh: what an older program survives passes, what it does not is refused and named.

Each row changes a small library in one way; the header lies where the real ones do, for what it does
not define counts as opaque.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

COMPARE = pathlib.Path(__file__).resolve().parent / "compare.sh"

HEADER = """
#include <stdint.h>
enum tfc_colour { TFC_RED = 1, TFC_BLUE = 2 };
typedef struct tfc_handle tfc_handle;
typedef struct tfc_error { int32_t code; char text[256]; } tfc_error;
typedef struct tfc_paint_options { uint32_t size; uint32_t colour; const char *name; } tfc_paint_options;
typedef void (*tfc_paint_fn)(void *user, enum tfc_colour colour);
int tfc_paint(tfc_handle *handle, const tfc_paint_options *options, tfc_paint_fn fn, tfc_error *error);
int tfc_dry(tfc_handle *handle, uint32_t seconds);
"""
SOURCE = """
#include <tfcluster/sample.h>
struct tfc_handle { int inside; };
int tfc_paint(tfc_handle *handle, const tfc_paint_options *options, tfc_paint_fn fn, tfc_error *error)
{
	fn(handle, options->colour);
	return error->code;
}
int tfc_dry(tfc_handle *handle, uint32_t seconds)
{
	return handle->inside + (int)seconds;
}
"""

# name: ((file, old, new)...)
HARMLESS = {
    "a struct grows at its end": [("h", "*name; }", "*name; uint64_t weight; uint32_t coats; }")],
    "a new function": [("h", "int tfc_dry", "int tfc_wet(int much);\nint tfc_dry"),
                       ("c", "int tfc_dry", "int tfc_wet(int much) { return much; }\nint tfc_dry")],
    "a new enumerator": [("h", "TFC_BLUE = 2", "TFC_BLUE = 2, TFC_GREEN = 3")],
    "another inside of a handle": [("c", "{ int inside; }", "{ long more; int inside; }")],
}
BREAKING = {
    "a field in the middle": [("h", "uint32_t colour;", "uint32_t coats; uint32_t colour;")],
    "a field of another type": [("h", "uint32_t colour;", "uint16_t colour; uint16_t gloss;")],
    "a field that is gone": [("h", " const char *name; }", " }")],
    "a grown struct with a field of another type": [
        ("h", "uint32_t colour; const char *name; }", "uint64_t colour; const char *name; int more; }")],
    "a grown struct with a renumbered field": [
        ("h", "uint32_t colour; const char *name; }", "const char *name; uint32_t colour; int more; }")],
    "another value of an enumerator": [("h", "TFC_BLUE = 2", "TFC_BLUE = 3")],
    "the frozen struct grows": [("h", "text[256]; }", "text[256]; int32_t more; }")],
    "a function that is gone": [("c", "int tfc_dry", "static int tfc_dry"),
                                ("h", "int tfc_dry(tfc_handle *handle, uint32_t seconds);", "")],
    "another parameter": [("h", "uint32_t seconds", "uint64_t seconds"),
                          ("c", "uint32_t seconds", "uint64_t seconds")],
    "another result": [("h", "int tfc_dry", "long tfc_dry"), ("c", "int tfc_dry", "long tfc_dry")],
    "another callback": [("h", "void (*tfc_paint_fn)(void *user, enum tfc_colour colour)",
                          "void (*tfc_paint_fn)(void *user, enum tfc_colour colour, int much)"),
                         ("c", "options->colour);", "options->colour, 1);")],
}


class CompareTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="abi-test-")
        cls.addClassCleanup(place.cleanup)
        cls.dir = pathlib.Path(place.name)
        cls.old = cls.describe(HEADER, SOURCE)

    @classmethod
    def describe(cls, header, source):
        place = pathlib.Path(tempfile.mkdtemp(dir=cls.dir))
        (place / "include/tfcluster").mkdir(parents=True)
        (place / "include/tfcluster/sample.h").write_text(header)
        (place / "sample.c").write_text(source)
        subprocess.run(["cc", "-g", "-w", "-shared", "-fPIC", f"-I{place / 'include'}",
                        place / "sample.c", "-o", place / "sample.so"], check=True)
        subprocess.run([COMPARE, "describe", place / "sample.so", place / "sample.abi"], check=True)
        return place / "sample.abi"

    def compare(self, changes):
        text = {"h": HEADER, "c": SOURCE}
        for file, old, new in changes:
            self.assertIn(old, text[file])
            text[file] = text[file].replace(old, new)
        new = self.describe(text["h"], text["c"])
        return subprocess.run([COMPARE, "diff", self.old, new], capture_output=True, text=True)


def add_test(name, changes, is_harmless):
    def test(self):
        done = self.compare(changes)
        if is_harmless:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        else:
            self.assertIn(done.returncode, (1, 4, 8, 12), done.stdout + done.stderr)
            self.assertRegex(done.stdout, "tfc_(paint|dry)")
    test.__name__ = "test_" + name.replace(" ", "_")
    setattr(CompareTest, test.__name__, test)


for title, rows in HARMLESS.items():
    add_test(title + " is compatible", rows, True)
for title, rows in BREAKING.items():
    add_test(title + " is refused", rows, False)

if __name__ == "__main__":
    if subprocess.run(["sh", "-c", "command -v abidw abidiff"], capture_output=True).returncode:
        print("abidw and abidiff are not installed: package abigail-tools")
        sys.exit(77)
    unittest.main(verbosity=2)
