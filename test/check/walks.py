"""Each function that doc/internals/walks.md names is defined in the file that it names.

Usage: walks.py SOURCE_ROOT
"""
import pathlib
import re
import sys

ROW = re.compile(r"^\| `(\S+\.c)` \| `(\w+)` \|", re.M)


def main(root):
    rows = ROW.findall(pathlib.Path(root, "doc/internals/walks.md").read_text())
    wrong = []
    for name, function in rows:
        path = pathlib.Path(root, "lib", name)
        text = path.read_text() if path.exists() else ""
        if not re.search(rf"^(?:static )?[a-z][\w \*]*\b{function}\([^;]*?\)\n\{{", text, re.M | re.S):
            wrong.append(f"walks.md: lib/{name} does not define {function}")
    print("\n".join(wrong) or f"{len(rows)} functions in {len({name for name, _ in rows})} files")
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
