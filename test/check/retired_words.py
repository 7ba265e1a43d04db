"""No identifier, comment, message or page uses a word that terms.py retires.

The golden bytes of the wire, of JSON and of logs are in strings of tests, which are not read here; the tests of Python
are read for their identifiers only.

Usage: retired_words.py SOURCE_ROOT
"""
import io
import keyword
import pathlib
import re
import sys
import tokenize
import unittest

ROOT = pathlib.Path(sys.argv[1])
del sys.argv[1:]
sys.path[:0] = [str(ROOT / "doc/reference"), str(ROOT / "test/check")]
import messages  # noqa: E402
import terms  # noqa: E402

CODE = ("lib", "include", "examples", "bindings")
PROSE = ("doc", "README.md")
# the history names things as they were called; a made page has its sources in the code
NOT_READ = ("doc/guide/upgrade.md", "doc/benchmarks.md")


def files(folders, *endings):
    for folder in folders:
        path = ROOT / folder
        for each in [path] if path.is_file() else sorted(path.rglob("*")):
            if each.is_file() and each.name.endswith(endings) and str(each.relative_to(ROOT)) not in NOT_READ:
                yield each


def faults_of_c(path):
    line = 1
    text = path.read_text()
    for found in messages.TOKEN.finditer(text):
        kind, token = found.lastgroup, found.group()
        if kind == "word":
            for word, instead in terms.of_identifier(token):
                yield line, token, word, instead
        elif kind == "comment" or kind == "string" and messages.is_prose(messages.unescape(token)):
            for at, word, instead in terms.of_text(token):
                yield line + token[:at].count("\n"), word, word, instead
        line += token.count("\n")


def faults_of_python(path):
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
            for word, instead in terms.of_identifier(token.string):
                yield token.start[0], token.string, word, instead


def faults_of_page(path):
    # keys of the wire and of JSON are in code spans, and stay
    text = re.sub(r"`[^`\n]*`", lambda found: " " * len(found[0]), path.read_text())
    for at, word, instead in terms.of_text(text):
        yield text.count("\n", 0, at) + 1, word, word, instead


class RetiredWordsTest(unittest.TestCase):
    maxDiff = None

    def assert_none(self, paths, read):
        faults = [f"{path.relative_to(ROOT)}:{line}: {token}: \"{word}\" is retired; say {instead}"
                  for path in paths for line, token, word, instead in read(path)]
        self.assertEqual([], faults)

    def test_code_uses_no_retired_word(self):
        self.assert_none(files(CODE, ".c", ".h", ".cpp", ".hpp"), faults_of_c)
        self.assert_none(files(CODE, ".py"), faults_of_python)

    def test_pages_use_no_retired_word(self):
        self.assert_none(files(PROSE, ".md", ".1", ".7"), faults_of_page)

    def test_file_names_use_no_retired_word(self):
        names = [str(path.relative_to(ROOT)) for path in files(CODE + PROSE, "") if terms.of_identifier(path.stem)]
        self.assertEqual([], names)

    def test_a_retired_word_is_found(self):
        self.assertEqual([("seat", "slot")], terms.of_identifier("count_seat_of"))
        self.assertEqual([], terms.of_identifier("seating"))
        self.assertEqual([(2, "Errand", "request")], terms.of_text("a Errand of it"))


if __name__ == "__main__":
    unittest.main()
