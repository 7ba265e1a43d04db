"""What worlds have reached of the parts that the simulator is there for.

coverage.py BUILD UNREACHED
BUILD has run the simulator under gcov. UNREACHED has a line "FILE FUNCTION: why" for each function
that no world reaches; the rest is an error: a function without a line, and a line without a function.
A reason that begins with "rarely:" is of a function that other worlds may reach.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PARTS = {
    "lib/cluster": re.compile(r"lib/cluster/\w+\.c"),
    "lib/gateway": re.compile(r"lib/gateway/\w+\.c"),
    "lib/log": re.compile(r"lib/log/lines\.c"),
    "lib/node": re.compile(r"lib/node/\w+\.c"),
    "cores of guard and shim": re.compile(r"lib/proc/(guard|shim)/core\w*\.c"),
}
LINE = re.compile(r"(?P<path>\S+) (?P<name>\w+): (?P<rarely>rarely: )?\S.*")


def part_of(path):
    return next((part for part, pattern in PARTS.items() if pattern.fullmatch(path)), None)


def reports(build):
    """gcov's report of each object that belongs to a part."""
    for notes in sorted(build.rglob("*.gcno")):
        name = re.sub(r".*_lib_", "lib_", notes.name)
        if not re.search(r"^(lib_)?(cluster|gateway|node|proc_guard_core|proc_shim_core)", name):
            continue
        done = subprocess.run(["gcov", "--json-format", "--stdout", notes], cwd=build, check=True,
                              capture_output=True, text=True)
        yield from (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))


def read(build):
    """(file, line) -> count and (file, function) -> count."""
    lines, functions = collections.Counter(), collections.Counter()
    for report in reports(build):
        for file in report["files"]:
            path = (build / report["current_working_directory"] / file["file"]).resolve()
            if not path.is_relative_to(SOURCE) or not part_of(str(path.relative_to(SOURCE))):
                continue
            name = str(path.relative_to(SOURCE))
            for line in file["lines"]:
                lines[name, line["line_number"]] += line["count"]
            for function in file["functions"]:
                functions[name, function["name"]] += function["execution_count"]
    return lines, functions


def percent(counts):
    reached = sum(count > 0 for count in counts)
    return f"{reached} of {len(counts)} ({100 * reached / max(len(counts), 1):.1f} %)"


def report(lines, functions):
    for part in PARTS:
        of_lines = [count for (path, _), count in lines.items() if part_of(path) == part]
        of_functions = [count for (path, _), count in functions.items() if part_of(path) == part]
        if of_lines:
            print(f"{part}: lines {percent(of_lines)}, functions {percent(of_functions)}")


def failures(functions, listed):
    for path, name in sorted(functions):
        if not functions[path, name] and (path, name) not in listed:
            yield f"{path} {name}: no world reaches it"
    for path, name in sorted(listed):
        if (path, name) not in functions:
            yield f"{path} {name}: listed, and there is no such function"
        elif functions[path, name] and not listed[path, name]:
            yield f"{path} {name}: listed, and worlds reach it"


def read_list(path):
    """(file, function) -> whether other worlds may reach it."""
    listed = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = LINE.fullmatch(line)
        if found:
            listed[found["path"], found["name"]] = bool(found["rarely"])
        elif line and not line.startswith("#"):
            sys.exit(f"{path}:{number}: not \"FILE FUNCTION: why\": {line}")
    return listed


def main(build, listed):
    lines, functions = read(build.resolve())
    if not any(functions.values()):
        sys.exit(f"{build}: nothing was run under gcov")
    report(lines, functions)
    found = list(failures(functions, read_list(listed)))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*map(pathlib.Path, sys.argv[1:3])))
