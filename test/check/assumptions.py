"""What the simulator takes for granted is what doc/internals/simulation.md says, and the real tests
that it names are there.

Usage: assumptions.py SOURCE_ROOT
"""
import pathlib
import re
import sys

ROW = re.compile(r"^\| (?P<what>[^|]+) \| (?P<where>[^|]+) \| (?P<tests>[^|]+) \|$", re.M)
CODE = re.compile(r"`([\w./]+)`")
NONE = "none: "


def places(cell):
    """(path, name) of each name, behind the path that it is in."""
    path = None
    for word in CODE.findall(cell):
        if word.endswith((".c", ".py")):
            path = word
        else:
            yield path, word


def rows(text):
    section = text.split("## What it takes for granted", 1)[-1].split("\n## ", 1)[0]
    return [row for row in ROW.finditer(section)
            if not set(row["what"]) <= set("-") and row["where"] != "where"]


def failures(root, row):
    where, tests = list(places(row["where"])), list(places(row["tests"]))
    if not where:
        yield "no line of the simulator is named"
    for path, name in where:
        file = root / "test/sim/nodes" / path
        if not file.exists() or not re.search(rf"\b{name}\b", file.read_text()):
            yield f"test/sim/nodes/{path} has no {name}"
    if not tests and not row["tests"].startswith(NONE):
        yield f"no test is named, and no \"{NONE}\" says why"
    for path, name in tests:
        file = root / "test" / path
        defined = rf"\b(void|def) {name}\("
        if not file.exists() or not re.search(defined, file.read_text()):
            yield f"test/{path} has no test {name}"


def main(root):
    found = rows((root / "doc/internals/simulation.md").read_text())
    wrong = [f"{row['what']}: {text}" for row in found for text in failures(root, row)]
    if len(found) < 10:
        wrong.append(f"{len(found)} rows found: the table is missing")
    print("\n".join(wrong) or f"{len(found)} assumptions with their tests")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
