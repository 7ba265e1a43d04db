"""The page of messages (doc/reference/messages.py) has every text that is in the object files.

Usage: messages.py SOURCE_ROOT [OBJECT...]
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv[1])
OBJECTS = sys.argv[2:]
del sys.argv[1:]
sys.path.insert(0, str(ROOT / "doc/reference"))
import messages  # noqa: E402

# a condition of assert(), a Python program or a script for a shell
NOT_A_MESSAGE = re.compile(r" (&&|[<>=!]=|[<>]) |^\s*import |^_*tfc_run\w*\(\)$|^function \w+$", re.M)


def strings_of(path):
    """The strings among an object's constants, without the end of line that puts() adds by itself."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["objcopy", "-O", "binary", "--only-section=.rodata", path, out.name], check=True)
        data = pathlib.Path(out.name).read_bytes()
    for found in re.finditer(rb"[\t\n\x1b\x20-\x7e]{4,}(?=\0)", data):
        text = found.group().decode("utf-8", "replace")
        if messages.is_prose(text) and not NOT_A_MESSAGE.search(text):
            yield text.rstrip("\n")


class MessagesTest(unittest.TestCase):
    maxDiff = None

    def test_every_text_of_the_objects_is_read_in_the_sources(self):
        known = "\0".join(message.text for message in messages.literals(ROOT))
        for path in OBJECTS:
            texts = list(strings_of(path))
            self.assertGreater(len(texts), 0, path)
            # a number whose bytes look like letters may stand in front of a string
            self.assertEqual([text for text in texts if not any(text[i:] in known for i in range(4))],
                             [], path)

    def test_every_call_that_fails_or_logs_is_on_the_page(self):
        with tempfile.TemporaryDirectory() as directory:
            messages.page(ROOT, directory + "/messages.md")
            page = pathlib.Path(directory, "messages.md").read_text()
        call = re.compile(r'\b(?:tfc__fail\w*|tfc__ctx_fail|tfc__log|complain|output_say|\w*refuse\w*)'
                          r'\((?:[^"();]|\([^"();]*\))*"((?:[^"\\]|\\.)+)"', re.S)
        for path, text in messages.sources(ROOT):
            for found in call.finditer(re.sub(r"/\*.*?\*/", "", text, flags=re.S)):
                text = messages.show(messages.unescape(f'"{found[1]}"')).replace("|", "\\|").replace("`", "'")
                if messages.is_prose(text):
                    self.assertIn(text, page, path)


if __name__ == "__main__":
    unittest.main()
