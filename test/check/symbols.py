"""What the headers declare, the version map lists and the shared object exports is one list; the
static library defines no name of another form, so that none clashes with a host's; and every options
struct has its initializer and its row in the test of option structs.

Usage: symbols.py SOURCE_ROOT SHARED_OBJECT STATIC_LIBRARY
"""
import pathlib
import re
import subprocess
import sys

DECLARATION = re.compile(r"^TFC_API\b[^;{]*?\b(tfc_\w+)\s*\(", re.M)


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def declared(root):
    text = "".join(without_comments(p.read_text())
                   for p in sorted((root / "include/tfcluster").glob("*.h")))
    return set(DECLARATION.findall(text)), text


def mapped(root):
    text = without_comments((root / "lib/libtfcluster.map").read_text())
    return set(re.findall(r"^\s*(tfc_\w+);", text, re.M))


def exported(shared_object):
    lines = subprocess.run(["nm", "-D", "--defined-only", shared_object], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    names = {line.split()[-1].split("@")[0] for line in lines}
    return {name for name in names if not name.startswith("LIBTFCLUSTER_")}


def bare(static_library):
    lines = subprocess.run(["nm", "-g", "--defined-only", static_library], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    names = {line.split()[-1] for line in lines if len(line.split()) == 3}
    assert any(name.startswith("tfc__") for name in names)
    return {name for name in names if not name.startswith(("tfc_", "__"))}


def soname(shared_object):
    text = subprocess.run(["readelf", "-d", shared_object], check=True, capture_output=True,
                          text=True).stdout
    return re.search(r"SONAME.*\[(.*)\]", text).group(1)


def option_failures(root, names, headers):
    rows = (root / "test/unit/options_test.c").read_text()
    for name in sorted(n for n in names if n.endswith(("_options_init", "_ops_init"))):
        macro = name.upper()[:-len("_INIT")] + "_INIT"
        if not re.search(rf"#define {macro}\b", headers):
            yield f"{macro} is missing, the initializer beside {name}"
        if name[:-len("_init")] not in rows:
            yield f"{name} has no row in test/unit/options_test.c"


def compare(have, want, text):
    return [f"{name} {text}" for name in sorted(want - have)]


def main(root, shared_object, static_library):
    names, headers = declared(root)
    listed = mapped(root)
    found = exported(shared_object)
    failures = []
    if not names:
        failures.append("no TFC_API function found in the headers")
    failures += compare(listed, names, "is declared in a header and not in libtfcluster.map")
    failures += compare(names, listed, "is in libtfcluster.map and declared in no header")
    failures += compare(found, names, "is declared and not defined by the library")
    failures += compare(names, found, "is exported and declared in no header")
    failures += [f"{name} is defined by the static library and begins with neither tfc_ nor tfc__"
                 for name in sorted(bare(static_library))]
    if soname(shared_object) != "libtfcluster.so.0":
        failures.append(f"SONAME is {soname(shared_object)}, not libtfcluster.so.0")
    failures += option_failures(root, names, headers)
    print("\n".join(failures) or f"{len(names)} functions in headers, map and library")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
