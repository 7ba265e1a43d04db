"""A module includes only modules above it; see lib/meson.build for the order. The top level of the tree holds
nothing else than it should.

Usage: layering.py SOURCE_ROOT
"""
import pathlib
import re
import shutil
import subprocess
import sys

TOP = {"CHANGELOG.md", "COPYING", "README.md", "bindings", "doc", "examples", "include", "lib", "meson.build",
       "meson.options", "meson_options.txt", "pyproject.toml", "test"}

MODULES = ["base", "ctx", "spec", "job", "port", "wire", "log", "proc", "bundle", "warm", "agent",
           "transport", "member", "store", "cluster", "gateway", "feed", "node", "allocation"]

# The module whose face a public header is, where the name does not say it.
PUBLIC = {"backend": "ctx", "error": "base", "export": "base", "key": "wire",
          "memory": "base", "version": "base", "process": "proc", "hooks": "agent", "results": "warm",
          "upstream": "cluster"}

# Faces of lower modules that a module may read all the same: the names of job and task states and
# of end reasons are part of the gateway's face, and are decided in cluster.
WORDS = {("cluster", "gateway")}

# The helper programs are small and free of dependencies: of the library they take only this.
PROGRAM_BASE = [f"base/{name}.h"
                for name in ("list", "clock", "dir", "exec_path", "file", "map", "pass", "proc_stat")]
PROGRAMS = {"proc/guard": [*PROGRAM_BASE, "port/bind_window.h", "proc/"],
            "proc/shim": [*PROGRAM_BASE, "log/overwrite.h", "log/writer.h", "proc/"]}

# Files of a module that the helper programs are made of, too: they take only this of the library.
SHARED = {name: {"base/clock.h", "base/dir.h", "base/names.h", "log/format.h", "log/writer.h"}
          for name in ("log/format", "log/writer")}

# Pure state machines: what they include besides their own header declares no call of the system.
PURE = ["proc/guard/core", "proc/shim/core"]
PURE_INCLUDES = {"core.h", "proc/protocol.h", "stdbool.h", "stddef.h", "stdint.h", "string.h"}

# The maintainer's core, too, knows no context, store or agent, but for values that they share.
CORE = re.compile(r"cluster/(core_\w+|maintainer_core)")
IMPURE = ("ctx/", "store/", "agent/", "tfcluster/ctx.h", "tfcluster/backend.h")
VALUES = {"agent/task.h"}

# The files of gossip that are pure take of the library only this.
GOSSIP = re.compile(r"member/gossip_(apply|core|message|probe|spread|state|suspicion|sync|table)")
GOSSIP_INCLUDES = re.compile(r"base/(buf|list|map|random)\.h|member/gossip_(core|message|state)\.h|"
                             r"tfcluster/(error|member)\.h|(assert|stdbool|stddef|stdint|stdlib|string)\.h")

# Names the backends of all modules, and is part of none.
BUILTINS = "builtins.c"

# Made at build time, beside the objects.
GENERATED = {"python_stacks.h", "tensorflow_server.h", "zygote_source.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)


def includes(path):
    return INCLUDE.findall(path.read_text())


def module_of_public(name):
    stem = pathlib.PurePath(name).stem
    return PUBLIC.get(stem, stem)


def may_include(module, other, is_public):
    if other not in MODULES:
        return False
    if is_public and (module, other) in WORDS:
        return True
    return MODULES.index(other) <= MODULES.index(module)


def check_library_file(root, path):
    module = path.relative_to(root / "lib").parts[0]
    folder = path.parent.relative_to(root / "lib").as_posix()
    stem = path.relative_to(root / "lib").with_suffix("").as_posix()
    is_pure = stem in PURE
    for kind, name in includes(path):
        is_public = name.startswith("tfcluster/")
        if is_pure and name not in PURE_INCLUDES:
            yield f"includes {name}: it is pure"
        if CORE.fullmatch(stem) and name.startswith(IMPURE) and name not in VALUES:
            yield f"includes {name}: the core is pure"
        if GOSSIP.fullmatch(stem) and not GOSSIP_INCLUDES.fullmatch(name):
            yield f"includes {name}: gossip is pure"
        if (kind == '"' or is_public) and name not in SHARED.get(stem, {name}):
            yield f"includes {name}: the shim is made of it, too"
        if kind == "<" and not is_public:
            continue
        if folder in PROGRAMS:
            if "/" in name and not any(name.startswith(p) for p in PROGRAMS[folder]):
                yield f"includes {name}: {folder} is a program of its own, it takes only " + \
                    ", ".join(PROGRAMS[folder])
        elif is_public:
            if not may_include(module, module_of_public(name), True):
                yield f"includes <{name}>: {module_of_public(name)} is below {module}"
        elif name not in GENERATED and "/" not in name:
            yield f'includes "{name}": say "{module}/{name}"'
        elif "/" in name and not may_include(module, name.split("/")[0], False):
            yield f'includes "{name}": {name.split("/")[0]} is below {module}'


STANDARD = {"stdarg.h", "stdbool.h", "stddef.h", "stdint.h", "sys/types.h"}


def check_public_header(root, path):
    for _, name in includes(path):
        if name not in STANDARD and not (root / "include" / name).exists():
            yield f"includes {name}: no dependency shows in a public header"


def check_example(root, path):
    for kind, name in includes(path):
        if kind == '"' and (root / "lib" / name).exists():
            yield f'includes "{name}": a host has the public headers only'


def top_level(root):
    """What git knows of there. Nothing, where there is no git or the tree is no repository."""
    if not shutil.which("git"):
        return set()
    tracked = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=False).stdout
    return {path.split("/")[0] for path in tracked.splitlines()}


def main(root):
    failures = [f"{name}: does not belong to the top level" for name in sorted(top_level(root))
                if name not in TOP and not name.startswith(".")]
    for check, folder in ((check_library_file, "lib"), (check_public_header, "include"),
                          (check_example, "examples")):
        files = [p for p in sorted((root / folder).rglob("*.[ch]")) if p != root / "lib" / BUILTINS]
        if folder != "examples" and not files:
            failures.append(f"{folder}: no source file found")
        for path in files:
            failures += [f"{path.relative_to(root)}: {text}" for text in check(root, path)]
    print("\n".join(failures) or "all modules include only modules above them")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
