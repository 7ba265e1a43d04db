"""doc/internals/methods.md has each method that the library calls or serves, and no other: under a
heading of its own, which says how it is called, by whom and since when; and it has the key of each
value that they carry.

Usage: methods.py SOURCE_ROOT
"""
import pathlib
import re
import sys

METHOD = re.compile(r'"((?:agent|gateway|node)\.[a-z_]+)"')
VERBS = re.compile(r"char \*const names\[\] = \{(.*?)\};", re.S)
HEADING = re.compile(r"^### `([a-z_.]+)`\n\n(.*?)\n(?=#|\Z)", re.M | re.S)
CALL = re.compile(r"\*(Request|Request with items|Notification), from: [^*]+ Since \d+\.\d+\.\d+\.\*")
WRITTEN = re.compile(r'\btfc__msg_(?:put|get)_?\w*\([^",;]*(?:,[^",;]*)?, "(\w+)"|'
                     r'\b(?:X|put_number|put_signed|gather|get_u32)\([^",;]*,? ?"(\w+)"')
NO_METHODS = {"node.sock"}  # a file
FOLDERS = ("lib/node", "lib/gateway", "lib/wire")


def sources(root):
    return {path: path.read_text() for folder in FOLDERS
            for path in sorted((root / folder).glob("*.[ch]"))}


def called(texts):
    """Method names in the code, those that are put together from a verb among them."""
    names = {name for text in texts.values() for name in METHOD.findall(text)}
    for path, text in texts.items():
        if path.name == "question.c":
            names |= {"gateway." + verb for verb in re.findall(r'"(\w+)"', VERBS.search(text)[1])}
    return names - NO_METHODS


def keys(texts):
    return {one or other for text in texts.values() for one, other in WRITTEN.findall(text)}


def main(root):
    texts = sources(root)
    pages = [(root / "doc/internals" / name).read_text() for name in ("methods.md", "wire-format.md")]
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
    print("\n".join(failures) or f"{len(names)} methods, {len(wanted)} keys")
    return 1 if failures or len(names) < 20 or len(wanted) < 100 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
