"""doc/internals/parity.md names tests that exist, and leaves no weakness out."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "doc/internals/parity.md"
NAMED = re.compile(r"`(\w+)` \(\[([\w/.]+)\]\(\.\./\.\./test/\2\)\)")
WEAKNESSES = 29


class ParityTest(unittest.TestCase):

    def rows(self):
        """The cells of each row of each table, without the heads."""
        for line in PAGE.read_text().splitlines():
            if line.startswith("| ") and not line.startswith(("| TensorFlowOnSpark |", "| no. |")):
                yield [cell.strip() for cell in line.strip("|").split("|")]

    def test_each_test_that_is_named_exists(self):
        named = NAMED.findall(PAGE.read_text())
        self.assertGreater(len(named), 60)
        for name, path in named:
            with self.subTest(name=name, path=path):
                self.assertRegex((ROOT / "test" / path).read_text(), rf"\b{name}\b")

    def test_each_row_has_a_test_or_says_why_it_has_none(self):
        for row in self.rows():
            with self.subTest(row=row[:2]):
                names = NAMED.sub("", row[-1]).replace(",", "").strip()
                self.assertEqual(names, "", "a test that is not written as the others")
                if not row[-1]:
                    self.assertRegex(row[-2], "impossible|not planned")

    def test_each_weakness_has_a_row(self):
        numbers = [int(row[0]) for row in self.rows() if len(row) == 4]
        self.assertEqual(numbers, list(range(1, WEAKNESSES + 1)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
