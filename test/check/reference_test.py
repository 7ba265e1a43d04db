"""The comments in the public headers leave nothing out, the check would notice if they did, and the
manual pages that are made of them have all functions and are good roff.

Usage: reference_test.py SOURCE_ROOT LIBTFCLUSTER.3
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT, MANUAL = pathlib.Path(sys.argv.pop(1)), pathlib.Path(sys.argv.pop(1))
TOOL = ROOT / "doc/reference/reference.py"

GOOD = """/*
 * Paint.
 */
/* Opaque. */
typedef struct tfc_pot tfc_pot;

/* Options. */
typedef struct tfc_pot_options {
	uint32_t size;
	uint32_t colour; /* enum tfc_colour */
	uint64_t memory; /* bytes of it */
	/* what it is
	 * for */
	void (*dry)(void *user, tfc_pot *pot);
} tfc_pot_options;

/** Opens a pot. The caller owns *ret_pot. Thread: any. Errors: TFC_ENOMEM. */
TFC_API int tfc_pot_open(const tfc_pot_options *options, tfc_pot **ret_pot);

/** Its name. Borrowed until it is closed. Thread: any. Errors: none. */
TFC_API const char *tfc_pot_name(const tfc_pot *pot);

/** As tfc_pot_name, in Latin. */
TFC_API const char *tfc_pot_title(const tfc_pot *pot);

/** Closes it. NULL is a no-op. Thread: any. */
TFC_API void tfc_pot_close(tfc_pot *pot);
"""

# what is taken out of the good header: what is said about it
SPOILED = {
    "/** Opens a pot. The caller owns *ret_pot. Thread: any. Errors: TFC_ENOMEM. */\n":
        "tfc_pot_open has no comment",
    " Thread: any. Errors: TFC_ENOMEM.": "tfc_pot_open: no thread is named",
    " Errors: TFC_ENOMEM.": "tfc_pot_open: no errors are named",
    " The caller owns *ret_pot.": "tfc_pot_open: who owns what it hands out",
    " Borrowed until it is closed.": "tfc_pot_name: for how long its result is valid",
    " NULL is a no-op.": "tfc_pot_close: what it does to NULL",
    " /* enum tfc_colour */": "tfc_pot_options.colour has no comment",
    " bytes of": "tfc_pot_options.memory: its unit",
    "	/* what it is\n	 * for */\n": "tfc_pot_options.dry has no comment",
    "As tfc_pot_name, in Latin": "tfc_pot_title: no thread is named",
}


def check(directory):
    return subprocess.run([sys.executable, TOOL, "check", directory], capture_output=True, text=True)


class ReferenceTest(unittest.TestCase):
    def check_text(self, text):
        with tempfile.TemporaryDirectory() as directory:
            (pathlib.Path(directory) / "pot.h").write_text(text)
            return check(directory)

    def test_the_comments_of_the_public_headers_leave_nothing_out(self):
        done = check(ROOT / "include/tfcluster")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_is_left_out_is_reported(self):
        self.assertEqual(self.check_text(GOOD).returncode, 0, self.check_text(GOOD).stdout)
        for text, sentence in SPOILED.items():
            with self.subTest(text):
                self.assertIn(text, GOOD)
                done = self.check_text(GOOD.replace(text, "", 1))
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"pot.h: {sentence}", done.stdout)

    def test_the_manual_page_has_every_function(self):
        mapped = re.findall(r"^\t(tfc_\w+);", (ROOT / "lib/libtfcluster.map").read_text(), re.M)
        page = MANUAL.read_text()
        self.assertGreater(len(mapped), 50)
        self.assertEqual([name for name in mapped if not re.search(rf"^\.SS .*\b{name}\b", page, re.M)], [])

    def make_manuals(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        subprocess.run([sys.executable, TOOL, "manuals", ROOT / "include/tfcluster",
                        pathlib.Path(directory.name) / "man3"], check=True)
        return pathlib.Path(directory.name)

    def test_each_function_and_type_has_a_page_of_its_own(self):
        manuals = self.make_manuals() / "man3"
        mapped = re.findall(r"^\t(tfc_\w+);", (ROOT / "lib/libtfcluster.map").read_text(), re.M)
        for name in [*mapped, "tfc_event", "tfc_event_kind", "tfc_node_options", "tfc_gateway"]:
            with self.subTest(name):
                page = (manuals / f"{name}.3").read_text()
                if leads := re.fullmatch(r"\.so man3/(\w+\.3)\n", page):
                    page = (manuals / leads[1]).read_text()
                self.assertRegex(page, rf"\n\.SH NAME\n(tfc_\w+, )*{name}\b")
                self.assertRegex(page, rf"#include <tfcluster/\w+\.h>\n(.*\n)+?.*\b{name}\b")
        page = (manuals / "tfc_gateway_run.3").read_text()
        self.assertIn("tfc_gateway_run \\- submits a job and follows it\n.SH SYNOPSIS", page)
        self.assertNotIn("TFC_API", page)
        for title in "DESCRIPTION", "GATEWAY.H":
            self.assertIn(f"\n.SH {title}\n", page)
        self.assertIn("\n.BR tfc_submit_options (3),\n", page)

    def test_the_manual_pages_are_good_roff(self):
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        manuals = self.make_manuals()
        pages = [MANUAL.resolve(), (ROOT / "doc/tfc_run.1").resolve(), *sorted(manuals.glob("man3/*.3"))]
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", *pages], capture_output=True,
                              text=True, cwd=manuals)
        self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main()
