"""Runs the examples of doc/guide/python.md and feed.md: those of a page one after the other, in one namespace."""

import contextlib
import io
import os
import pathlib
import re
import unittest

from cluster import Cluster

GUIDES = pathlib.Path(__file__).resolve().parents[2] / "doc/guide"
GUIDE = GUIDES / "python.md"
FEED_GUIDE = GUIDES / "feed.md"
BLOCK = re.compile(r"^```python ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(kind: str, page: pathlib.Path = GUIDE) -> list[str]:
    """The examples of a kind, on the lines that they have in the guide: tracebacks and AutoGraph read it."""
    guide = page.read_text()
    return ["\n" * guide.count("\n", 0, found.start(2)) + found[2] for found in BLOCK.finditer(guide) if found[1] == kind]


def expected(text: str) -> list[str]:
    """What the comments behind the prints say."""
    return re.findall(r"^ *print\(.*\) +# (.*)$", text, re.MULTILINE)


class GuideTest(unittest.TestCase):
    def run_blocks(self, texts: list[str], page: pathlib.Path = GUIDE, **names: object) -> str:
        out = io.StringIO()
        namespace: dict[str, object] = {"__name__": "__main__", **names}
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            for text in texts:
                exec(compile(text, str(page), "exec"), namespace)
        return out.getvalue()

    def test_the_examples_run_and_print_what_they_say(self) -> None:
        texts = blocks("")
        self.assertGreaterEqual(len(texts), 5)
        printed = self.run_blocks(texts)
        for text in texts:
            for line in expected(text):
                if "of it" not in line and "of its output" not in line:
                    self.assertIn(line, printed)

    def test_the_examples_of_the_feed_print_what_they_say(self) -> None:
        for kind in "", "arrow":
            texts = blocks(kind, FEED_GUIDE)
            printed = self.run_blocks(texts, FEED_GUIDE)
            lines = [line for text in texts for line in expected(text)]
            self.assertEqual(printed.splitlines(), lines)
            self.assertGreaterEqual(len(lines), 1 if kind else 5)

    def test_the_client_of_a_cluster(self) -> None:
        import tfcluster as tfc
        cluster = Cluster()
        self.addCleanup(cluster.close)
        printed = self.run_blocks(blocks("cluster"), tfc=tfc, gateway=cluster.gateway, key=os.fspath(cluster.key))
        self.assertIn("['a', 'b', 'c']", printed)
        self.assertIn("['hello']", printed)


if __name__ == "__main__":
    unittest.main()
