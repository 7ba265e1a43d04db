"""Every public header compiles alone, as C11 and as C++17, with all warnings as errors, and so does
every initializer it defines.

Usage: headers.py SOURCE_ROOT
"""
import pathlib
import re
import shutil
import subprocess
import sys

COMPILERS = [("gcc", "c", "c11"), ("g++", "c++", "c++17"),
             ("clang", "c", "c11"), ("clang++", "c++", "c++17")]
REQUIRED = {"gcc", "g++"}


def translation_unit(header):
    lines = [f"#include <tfcluster/{header.name}>", "int main(void)", "{"]
    for macro in re.findall(r"^#define (TFC_\w+_INIT)\b", header.read_text(), re.M):
        variable = macro.lower()[:-len("_init")]
        lines.append(f"\t{variable} a_{variable} = {macro};")
        lines.append(f"\t(void)a_{variable};")
    return "\n".join(lines + ["\treturn 0;", "}", ""])


def compile_unit(compiler, language, standard, include, unit):
    command = [compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-pedantic",
               "-Werror", f"-I{include}", "-fsyntax-only", "-"]
    done = subprocess.run(command, input=unit, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def main(root):
    failures, count = [], 0
    headers = sorted((root / "include/tfcluster").glob("*.h"))
    for compiler, language, standard in COMPILERS:
        if not shutil.which(compiler):
            if compiler in REQUIRED:
                failures.append(f"{compiler} is missing: install it")
            continue
        for header in headers:
            count += 1
            text = compile_unit(compiler, language, standard, root / "include",
                                translation_unit(header))
            if text:
                failures.append(f"{header.name} with {compiler} -std={standard}:\n{text}")
    if not headers:
        failures.append("no public header found")
    print("\n".join(failures) or f"{count} compilations without a warning")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
