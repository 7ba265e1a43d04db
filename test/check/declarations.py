"""In the declarations of headers the outputs come last: no parameter follows one that is named ret_, except the size of
the buffer that it is. And a name means one thing: what a header calls a struct or enum is not defined in another file
too, no header of another module calls a function so, and no two files of lib/ have a static function of one name.

Usage: declarations.py SOURCE_ROOT
"""
import collections
import pathlib
import re
import sys

PROTOTYPE = re.compile(r"\b(tfc_\w+)\(((?:[^(){};]|\([^()]*\))*)\)\s*(?:;|\{|__attribute__)")
TAG = re.compile(r"^(?:typedef )?(?:struct|enum|union) (\w+) ?\{", re.M)
STATIC = re.compile(r"^static [\w \t\n*]*?\b(\w+)\(", re.M)
SIZE_OF_OUTPUT = {"size", "count"}
OPERATIONS = {"tfc__tcp_dial"}  # have the type of a function of tfcluster/backend.h


def is_in_order(parameters):
    outputs = False
    before = ""
    for parameter in parameters:
        name = (re.findall(r"(\w+)\)?(?:\[[^\]]*\]|\([^()]*\))*$", parameter.strip()) or [""])[0]
        if outputs and not name.startswith("ret_") and not (name in SIZE_OF_OUTPUT and before.startswith("ret_")):
            return False
        outputs = outputs or name.startswith("ret_")
        before = name
    return True


def main(root):
    wrong = []
    tags = collections.defaultdict(set)
    functions = {}
    static = collections.defaultdict(set)
    headers = sorted((root / "lib").rglob("*.h")) + sorted((root / "include").rglob("*.h"))
    for path in headers + sorted((root / "lib").rglob("*.c")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        for tag in TAG.findall(text):
            tags[tag].add(path)
        if path.suffix != ".h":
            for name in STATIC.findall(text):
                static[name].add(path)
            continue
        for name, parameters in PROTOTYPE.findall(text):
            functions[name] = path
            if name not in OPERATIONS and not is_in_order(re.split(r",(?![^(]*\))", parameters)):
                wrong.append(f"{path.relative_to(root)}: {name}: a parameter follows an output")
    for name, paths in static.items():
        if len(paths) > 1:
            wrong.append(f"{name}() is static in {', '.join(sorted(str(p.relative_to(root)) for p in paths))}")
    for tag, paths in tags.items():
        if len(paths) > 1 and any(path.suffix == ".h" for path in paths):
            wrong.append(f"{tag} is defined in {', '.join(sorted(str(p.relative_to(root)) for p in paths))}")
        if tag in functions and all(functions[tag].parent != path.parent for path in paths):
            wrong.append(f"{tag} is a type, and in {functions[tag].relative_to(root)} a function")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong or not functions else 0


sys.exit(main(pathlib.Path(sys.argv[1])))
