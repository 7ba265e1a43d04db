"""The simulator runs what ships: it links the archive of the library, which knows nothing of it, takes
the place of whole members of it, and wraps only what the library calls.

Usage: simulator.py ARCHIVE PROGRAM WRAPPED_NAME... ; run in the build's root
"""
import collections
import pathlib
import shlex
import subprocess
import sys

# Members of the archive that the simulator is there in place of (doc/internals/simulation.md).
REPLACED = {"builtins.c", "ctx_helper.c", "port_owner.c", "port_sock_diag.c", "proc_guard_start.c",
            "store_local.c"}
SIMULATED = ("sim_", "__wrap_", "__real_")


def symbols(path):
    """member -> (defined, undefined), the global names of each."""
    found = collections.defaultdict(lambda: (set(), set()))
    lines = subprocess.run(["nm", "-g", "-A", path], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    for line in lines:
        place, rest = line.rsplit(":", 1)
        member = place.rsplit(":", 1)[-1].rsplit("/", 1)[-1].removesuffix(".o")
        kind, name = rest.split()[-2:]
        found[member][kind in "Uwv"].add(name)
    return found


def link_command(program):
    lines = subprocess.run(["ninja", "-t", "commands", program], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    return shlex.split(next(line for line in reversed(lines) if f" -o {program} " in line))


def archive_failures(archive):
    for member, (defined, undefined) in archive.items():
        for name in sorted(defined | undefined):
            if name.startswith(SIMULATED):
                yield f"{member} of the library knows {name}"


def member_failures(archive, own):
    homes = collections.defaultdict(set)
    for member, (defined, _) in archive.items():
        for name in defined:
            homes[name].add(member)
    replaced = set()
    for name in sorted(name for defined, _ in own.values() for name in defined):
        if len(homes[name]) > 1:
            yield f"{name} is defined by {', '.join(sorted(homes[name]))}"
        replaced |= homes[name]
        if name.startswith("tfc_") and not homes[name]:
            yield f"{name} is defined by the simulator alone"
    for member in sorted(replaced ^ REPLACED):
        yield f"{member}: {'not ' * (member in REPLACED)}replaced by the simulator"


def wrap_failures(archive, own, names):
    called = set().union(*(undefined for _, undefined in archive.values()))
    defined = set().union(*(defined for defined, _ in own.values()))
    for name in names:
        if name not in called:
            yield f"{name} is wrapped, and no member of the library calls it"
        if f"__wrap_{name}" not in defined:
            yield f"{name} is wrapped, and the simulator has no __wrap_{name}"


def link_failures(archive_path, program):
    command = link_command(program)
    if archive_path not in command:
        yield f"{program} is not linked with {archive_path}"
    for word in command:
        if word.endswith((".a", ".so")) and "tfcluster" in word and word != archive_path:
            yield f"{program} is linked with {word}"


def main(archive_path, program, names):
    archive = symbols(archive_path)
    own = collections.defaultdict(lambda: (set(), set()))
    for path in pathlib.Path(program + ".p").glob("*.o"):
        if "_lib_" not in path.name:  # else of the helper programs, as they are
            own.update(symbols(path))
    failures = [*archive_failures(archive), *member_failures(archive, own),
                *wrap_failures(archive, own, names), *link_failures(archive_path, program)]
    if not archive or not own:
        failures.append("no objects found")
    print("\n".join(failures) or f"{len(names)} calls wrapped, {len(REPLACED)} members replaced")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
