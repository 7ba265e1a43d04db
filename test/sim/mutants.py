"""Whether the simulator can fail: each mutant takes one fix back and must be found.

mutants.py BUILD [--seeds N] [--seconds S] [--tests] [NAME...]
A mutant's files are compiled as the build compiles them, and linked in place of the simulator's own
or in front of the library. The line "Breaks: ..." in front of a patch names the referee that must find it.
A patch with a line "Test: NAME" is found by that test of test/sim, or with "Test: FOLDER/NAME" by one of
that folder of test; "Breaks: ..." is the case that fails. With a line "Helper: tfc-guard" the mutant is
that helper program, which the test starts, and not the test itself.
--tests: only these; otherwise only the others.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MUTANTS = SOURCE / "test" / "sim" / "mutants"
BATCH = 40
PR_SET_CHILD_SUBREAPER = 36


def changed_files(patch):
    return [line[len("+++ b/"):] for line in patch.read_text().splitlines()
            if line.startswith("+++ b/")]


def compile_command(build, path):
    """The arguments that compile a file of the static library's, and where they are run."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if (pathlib.Path(entry["directory"]) / entry["file"]).resolve() == SOURCE / path:
            return shlex.split(entry["command"]), entry["directory"]
    sys.exit(f"{path}: {build} does not compile it")


def compile_mutant(build, path, source, target):
    argv, directory = compile_command(build, path)
    out = argv.index("-o")
    argv[out + 1] = str(target)
    for option in ("-MF", "-MQ"):
        argv[argv.index(option) + 1] = str(target) + ".d"
    argv[-1] = str(source)
    argv[argv.index("-o"):argv.index("-o")] = [
        "-w",  # a function whose call is taken out is unused
        "-iquote", str((SOURCE / path).parent)]
    subprocess.run(argv, cwd=directory, check=True)


def link_mutant(build, program, paths, objects, target):
    """The program with these objects in place of those of the same sources."""
    argv = build_command(build, program)
    argv[argv.index("-o") + 1] = str(target)
    own = f"{program}.p/"
    replaced = tuple(own + os.path.relpath(path, os.path.dirname(program)) + ".o" if path.startswith("test/") else
                     path.replace("/", "_") + ".o" for path in paths)
    rest = [word for word in argv[1:] if not word.endswith(replaced)]
    subprocess.run(argv[:1] + [str(name) for name in objects] + rest, cwd=build, check=True)


def mutated_tree(patch, folder):
    """A folder with the files that the patch changes."""
    tree = folder / "tree"
    for path in changed_files(patch):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes((SOURCE / path).read_bytes())
    done = subprocess.run(["patch", "-s", "-p1", "-d", tree, "-i", patch], capture_output=True,
                          text=True)
    if done.returncode:
        sys.exit(f"{patch.name} does not apply: {done.stdout}{done.stderr}")
    return tree


def build_command(build, target):
    lines = subprocess.run(["ninja", "-C", build, "-t", "commands", target],
                           capture_output=True, text=True, check=True).stdout.splitlines()
    return shlex.split(next(line for line in reversed(lines) if f" -o {target} " in line))


def make(build, program, patch, folder):
    """The program with a mutant in it."""
    tree = mutated_tree(patch, folder)
    objects = []
    paths = changed_files(patch)
    for path in paths:
        objects.append(folder / (path.replace("/", "_") + ".o"))
        compile_mutant(build, path, tree / path, objects[-1])
    link_mutant(build, program, paths, objects, folder / "mutant")
    return folder / "mutant"


def make_helpers(build, helper, patch, folder):
    """A folder with all helper programs, one of which is a mutant. One command compiles and links it."""
    tree = mutated_tree(patch, folder)
    helpers = folder / "helpers"
    helpers.mkdir()
    for path in (build / "lib").glob("tfc-*"):
        if path.is_file() and path.name != helper:
            (helpers / path.name).symlink_to(path)
    argv = build_command(build, f"lib/{helper}")
    argv[argv.index("-o") + 1] = str(helpers / helper)
    for path in changed_files(patch):
        source = next(i for i, word in enumerate(argv) if (build / word).resolve() == SOURCE / path)
        argv[source:source + 1] = ["-iquote", str((SOURCE / path).parent), str(tree / path)]
    subprocess.run([*argv, "-w"], cwd=build, check=True)
    return helpers


def head_line(patch, name):
    """What a line "NAME: ..." in front of the patch says, or None."""
    return next((line[len(name) + 2:] for line in patch.read_text().splitlines()
                 if line.startswith(name + ": ")), None)


def hunt(program, promise, seen_in, seeds, seconds):
    """The first world in which that promise is broken, or None. A mutant that few worlds find names
    one of them; that world is the first to be tried."""
    end = time.monotonic() + seconds
    batches = [(int(seen_in), 1)] if seen_in else []
    for first, count in batches + [(first, BATCH) for first in range(1, seeds + 1, BATCH)]:
        done = subprocess.run([program, "--jobs", str(os.cpu_count()), str(first), str(count)],
                              capture_output=True, text=True)
        for line in done.stderr.splitlines():
            if line.endswith(": broken: " + promise):
                return line
        if time.monotonic() > end:
            break
    return None


def test_program(name):
    """The program of a test, relative to the build directory."""
    return f"test/{name}_test" if "/" in name else f"test/sim/{name}_test"


def groups_of(pid):
    """The cgroup directories that a mutant has made for a process, the innermost first."""
    path = next((line[len("0::"):] for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()
                 if line.startswith("0::")), "/")
    roots = [root for root in (pathlib.Path("/sys/fs/cgroup/unified"), pathlib.Path("/sys/fs/cgroup")) if root.is_dir()]
    group = roots[0] / path.strip("/")
    return [part for part in (group, *group.parents) if any(name.startswith("tfc-") for name in part.parts)]


def end_orphans():
    """Ends what a mutant of the guard or the shim has left: this process adopts it."""
    groups = []
    while children := pathlib.Path("/proc/thread-self/children").read_text().split():
        for child in map(int, children):
            groups += groups_of(child)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    for group in sorted(set(groups), reverse=True):
        with contextlib.suppress(OSError):
            group.rmdir()


def run_test(build, program, case, helpers):
    """The line of the test's output that says that this case failed, or None. ERROR: it has also left something
    behind."""
    env = dict(os.environ, TFC_HELPER_DIR=str(helpers), TFC_TEST_TASK=str(build / "test" / "proc" / "test_task"))
    done = subprocess.run([program], capture_output=True, text=True, env=env)
    end_orphans()
    return next((line for line in (done.stdout + done.stderr).splitlines()
                 if line in (f"[  FAILED  ] {case}", f"[  ERROR   ] {case}")), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--tests", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    missed = 0
    for patch in sorted(MUTANTS.glob("*.patch")):
        test = head_line(patch, "Test")
        if options.names and patch.stem not in options.names or options.tests != bool(test):
            continue
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            build, folder, helper = options.build.resolve(), pathlib.Path(folder), head_line(patch, "Helper")
            program = test_program(test) if test else "test/sim/nodes/nodes"
            helpers = make_helpers(build, helper, patch, folder) if helper else build / "lib"
            program = build / program if helper else make(build, program, patch, folder)
            if test:
                found = run_test(build, program, head_line(patch, "Breaks"), helpers)
            else:
                found = hunt(program, head_line(patch, "Breaks"), head_line(patch, "Seen in world"),
                             options.seeds, options.seconds)
            print(f"{patch.stem}: {found or 'NOT FOUND'} ({time.monotonic() - begin:.0f} s)",
                  flush=True)
            missed += found is None
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
