"""All C and C++ code is laid out as .clang-format says. Skipped (77) where clang-format is missing: other
versions than 14 differ in details.

Usage: format.py SOURCE_ROOT
"""
import pathlib
import shutil
import subprocess
import sys

FOLDERS = ["include", "lib", "examples", "test"]
ENDINGS = ["*.[ch]", "*.cpp", "*.hpp"]


def find_tool():
    for name in ("clang-format-14", "clang-format"):
        path = shutil.which(name)
        if path and " version 14." in subprocess.run([path, "--version"], capture_output=True,
                                                     text=True).stdout:
            return path
    return None


def main(root):
    tool = find_tool()
    if not tool:
        print("clang-format 14 is not installed")
        return 77
    files = [str(p) for folder in FOLDERS for ending in ENDINGS
             for p in sorted((root / folder).rglob(ending))]
    if not files:
        print("no source file found")
        return 1
    done = subprocess.run([tool, "--dry-run", "-Werror", *files], capture_output=True, text=True)
    print(done.stderr or f"{len(files)} files")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
