"""Measures the shape of the library: how long files and functions are, and how often a reader has to
go to another place. doc/internals/shape.md shows the figures.

    shape.py SOURCE_ROOT...        a column for each tree, as a table in Markdown

Functions are the spans of lines that universal-ctags gives, in .c files of lib/ alone. A static
function has a single caller when its file names it once, in a call, besides its definition and its
declarations. Its name is shared when a static function of another file has the same.
"""
import collections
import json
import pathlib
import re
import statistics
import subprocess
import sys

COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"', re.S)


def functions(root):
    """(file, name, lines, is_static) of each function."""
    done = subprocess.run(["ctags", "--output-format=json", "--languages=C", "--kinds-C=f",
                           "--fields=+neS", "--fields-C=+{properties}", "-R", "-f", "-", "lib"],
                          cwd=root, check=True, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        tag = json.loads(line)
        if tag["path"].endswith(".c") and "end" in tag:
            is_static = "static" in tag.get("properties", "") or tag.get("file", False)
            yield tag["path"], tag["name"], tag["end"] - tag["line"] + 1, is_static


def is_called_once(code, name):
    """Whether all but one of the places that name it define or declare it."""
    places = [match.start() for match in re.finditer(rf"\b{re.escape(name)}\b", code)]
    heads = [match.start(1) for match in
             re.finditer(rf"^[a-z][^\n;=(]*?\b({re.escape(name)})\(", code, re.M)]
    calls = [at for at in places if at not in heads]
    return len(calls) == 1 and code[calls[0] + len(name)] == "("


def p90(values):
    return sorted(values)[int(len(values) * 0.9)]


def measure(root):
    sources = sorted(pathlib.Path(root, "lib").rglob("*.[ch]"))
    code = {path.relative_to(root).as_posix(): COMMENT.sub("", path.read_text())
            for path in sources}
    lengths = [len(path.read_text().splitlines()) for path in sources if path.suffix == ".c"]
    found = list(functions(root))
    static = [(path, name) for path, name, _, is_static in found if is_static]
    files_of = collections.defaultdict(set)
    for path, name in static:
        files_of[name].add(path)
    spans = [lines for _, _, lines, _ in found]
    return {
        "lines of .c and .h": sum(len(path.read_text().splitlines()) for path in sources),
        ".c files": len(lengths),
        "lines of a .c file, median / p90": f"{statistics.median(lengths):.0f} / {p90(lengths)}",
        "functions": len(found),
        "lines of a function, median / p90": f"{statistics.median(spans):.0f} / {p90(spans)}",
        "static functions": len(static),
        "of these with a single caller": sum(is_called_once(code[path], name)
                                             for path, name in static),
        "of these whose name another file uses, too": sum(len(files_of[name]) > 1
                                                          for _, name in static),
    }


def main(roots):
    columns = [measure(root) for root in roots]
    print("| |" + " |" * len(columns))
    print("|---|" + "---|" * len(columns))
    for name in columns[0]:
        print(f"| {name} | " + " | ".join(str(column[name]) for column in columns) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
