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


def without_comments(text):
    """The code, line for line."""
    return COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)


def tags(root):
    """What universal-ctags says of each function and each declaration of one."""
    command = ["ctags", "--output-format=json", "--languages=C", "--kinds-C=fp", "--fields=+neKS",
               "--fields-C=+{properties}", "-R", "-f", "-", "lib"]
    try:
        done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    except (FileNotFoundError, subprocess.CalledProcessError):  # the ctags of Emacs has no JSON
        sys.exit("shape.py needs universal-ctags")
    return [tag for tag in map(json.loads, done.stdout.splitlines()) if tag["path"].endswith(".c")]


def functions(found):
    """(file, name, lines, is_static) of each function."""
    for tag in found:
        if tag["kind"] == "function" and "end" in tag:
            is_static = "static" in tag.get("properties", "") or tag.get("file", False)
            yield tag["path"], tag["name"], tag["end"] - tag["line"] + 1, is_static


def is_called_once(code, name, heads):
    """Whether all but one of the places that name it define or declare it: these are on the lines `heads`."""
    calls = [match.end() for match in re.finditer(rf"\b{re.escape(name)}\b", code)
             if code.count("\n", 0, match.start()) + 1 not in heads]
    return len(calls) == 1 and code[calls[0]] == "("


def p90(values):
    return sorted(values)[int(len(values) * 0.9)]


def measure(root):
    sources = sorted(pathlib.Path(root, "lib").rglob("*.[ch]"))
    code = {path.relative_to(root).as_posix(): without_comments(path.read_text())
            for path in sources}
    lengths = [len(path.read_text().splitlines()) for path in sources if path.suffix == ".c"]
    heads = collections.defaultdict(set)
    found = tags(root)
    for tag in found:
        heads[tag["path"], tag["name"]].add(tag["line"])
    found = list(functions(found))
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
        "of these with a single caller": sum(is_called_once(code[path], name, heads[path, name])
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
