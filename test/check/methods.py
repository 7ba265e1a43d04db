"""doc/internals/methods.md has each method that the library calls or serves, and no other: under a
heading of its own, which says how it is called, by whom and since when; and it has the key of each
value that they carry. A field that is younger than 0.2 has a line, there or in
doc/internals/store-format.md, that says since when it is there.

Usage: methods.py SOURCE_ROOT
"""
import pathlib
import re
import sys

METHOD = re.compile(r'"((?:agent|bundle|feed|gateway|node)\.[a-z_]+)"')
VERBS = re.compile(r"char \*const names\[\] = \{(.*?)\};", re.S)
HEADING = re.compile(r"^### `([a-z_.]+)`\n\n(.*?)\n(?=#|\Z)", re.M | re.S)
CALL = re.compile(r"\*(Request|Request with items|Notification), from: [^*]+ Since \d+\.\d+\.\d+\.\*")
WRITTEN = re.compile(r'\btfc__msg_(?:put|get)_?\w*\([^",;]*(?:,[^",;]*)?, "(\w+)"|'
                     r'\b(?:X|put_number|put_signed|gather)\([^",;]*,? ?"(\w+)"')
ROW = re.compile(r'\("(\w+)",\s*TFC__[A-Z]+,\s*[\w.]+,\s*TFC__V(\d)_(\d)')  # of a table of fields
NO_METHODS = {"node.sock"}  # a file
FOLDERS = ("lib/bundle", "lib/node", "lib/gateway", "lib/wire", "lib/cluster")


def sources(root):
    paths = [path for folder in FOLDERS for path in sorted((root / folder).glob("*.[ch]"))]
    return {path: path.read_text() for path in [*paths, root / "lib/feed/frame.c", root / "lib/feed/frame.h"]}


def called(texts):
    """Method names in the code, those that are put together from a verb among them."""
    names = {name for text in texts.values() for name in METHOD.findall(text)}
    for path, text in texts.items():
        if path.name == "request_params.c":
            names |= {"gateway." + verb for verb in re.findall(r'"(\w+)"', VERBS.search(text)[1])}
    return names - NO_METHODS


def keys(texts):
    written = {one or other for text in texts.values() for one, other in WRITTEN.findall(text)}
    return written | {name for name, _, _ in rows(texts)}


def rows(texts):
    return {row for text in texts.values() for row in ROW.findall(text)}


def unsaid(texts, pages):
    """Fields of a later version than the first, of which no line of a page says since when."""
    lines = "\n".join(pages).splitlines()
    for name, major, minor in rows(texts):
        since = re.compile(rf"\b[Ss]ince {major}\.{minor}\b")
        if (major, minor) != ("0", "2") and not any(
                f"`{name}`" in line and since.search(line) for line in lines):
            yield name, f"{major}.{minor}"


def main(root):
    texts = sources(root)
    pages = [(root / "doc/internals" / name).read_text() for name in ("methods.md", "wire-format.md", "store-format.md")]
    sections = dict(HEADING.findall(pages[0]))
    names, wanted = called(texts), keys(texts)
    failures = [f"{name}: has no heading in doc/internals/methods.md"
                for name in sorted(names - set(sections))]
    failures += [f"{name}: has a heading in doc/internals/methods.md, but nobody calls it"
                 for name in sorted(set(sections) - names)]
    failures += [f"{name}: does not begin as *Request, from: ROLE. Since VERSION.*"
                 for name, text in sections.items() if not CALL.match(text)]
    documented = set(re.findall(r'[`"](\w+)[`"]', "".join(pages)))
    failures += [f"{key}: a key that is written or read, but stands on no page"
                 for key in sorted(wanted - documented)]
    failures += [f"{name}: no line with it says: since {version}"
                 for name, version in sorted(unsaid(texts, pages))]
    print("\n".join(failures) or f"{len(names)} methods, {len(wanted)} keys")
    return 1 if failures or len(names) < 20 or len(wanted) < 100 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
