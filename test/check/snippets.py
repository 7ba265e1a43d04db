"""Builds and runs the programs in the documents: every ```c block with a main.

usage: snippets.py CC INCLUDE_DIR LIBRARY_DIR HELPER_DIR FILE.md...
"""

import os
import re
import subprocess
import sys
import tempfile


def programs(path):
    """Yields (line, source) of every C block that is a whole program."""
    with open(path) as file:
        text = file.read()
    for match in re.finditer(r"^```c\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if "int main(" in match.group(1):
            yield text.count("\n", 0, match.start()) + 1, match.group(1)


def run(cc, include, library, helpers, source, directory):
    name = os.path.join(directory, "snippet")
    with open(name + ".c", "w") as file:
        file.write(source)
    subprocess.run([cc, "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror",
                    "-Wno-unused-parameter", "-Wno-missing-field-initializers", "-I", include,
                    "-o", name, name + ".c", "-L", library, "-ltfcluster",
                    "-Wl,-rpath," + library], check=True)
    return subprocess.run([name, helpers], check=True, timeout=60, capture_output=True,
                          text=True).stdout


def main():
    cc, include, library, helpers, *documents = sys.argv[1:]
    found = 0
    for path in documents:
        for line, source in programs(path):
            found += 1
            with tempfile.TemporaryDirectory() as directory:
                output = run(cc, include, library, helpers, source, directory)
            assert "hello" in output, f"{path}:{line}: prints {output!r}"
            print(f"{path}:{line}: built and run")
    assert found, "no program found in " + " ".join(documents)


if __name__ == "__main__":
    main()
