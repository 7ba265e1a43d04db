"""doc/internals/maintainer.md has every state of the maintainer's core, each in the table of its enum, and no
other; which phase of a task may follow which is the same there and in core_task.c.

Usage: states.py SOURCE_ROOT
"""
import pathlib
import re
import sys

ENUM = re.compile(r"^enum (\w+) \{\n(.*?)^\};", re.M | re.S)
TABLE = re.compile(r"^\| ([A-Z]+_) \|.*\n\|[-|]+\n((?:\|.*\n)+)", re.M)
NEXT = re.compile(r"\[PHASE_(\w+)\] = (.*?),\n", re.S)
NO_STATES = {"death_class", "grace", "restart_end", "stall_scope"}


def main(root):
    header = (root / "lib/cluster/core_state.h").read_text()
    source = (root / "lib/cluster/core_task.c").read_text()
    doc = (root / "doc/internals/maintainer.md").read_text()
    tables = {prefix: [row.split("|")[1:-1] for row in rows.splitlines()] for prefix, rows in TABLE.findall(doc)}
    wrong = []
    for name, body in ENUM.findall(header):
        values = re.findall(r"^\t([A-Z_]+)\b", body, re.M)
        prefix = re.match(r"[A-Z]+_", values[0])[0]
        if name in NO_STATES:
            continue
        if f"`enum {name}`" not in doc:
            wrong.append(f"enum {name} is not named")
        rows = tables.pop(prefix, [])
        documented = [prefix + row[0].strip(" `") for row in rows]
        if documented != values:
            wrong.append(f"enum {name} has {values}, its table {documented}")
        if name == "phase":
            phases = dict(zip(values, rows))
    wrong += [f"{prefix} is the prefix of no enum" for prefix in tables]
    allowed = {"PHASE_" + phase: re.findall(r"P\((\w+)\)", after) for phase, after in NEXT.findall(source)}
    for phase, row in phases.items():
        if re.findall(r"`(\w+)`", row[-1]) != allowed.pop(phase):
            wrong.append(f"{phase}: the document and next_phases differ")
    wrong += [f"{phase} is no phase" for phase in allowed]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong or not phases else 0


sys.exit(main(pathlib.Path(sys.argv[1])))
