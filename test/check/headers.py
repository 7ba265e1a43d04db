"""Every public header compiles alone, as C11 and as C++17, with all warnings as errors, and so does
every initializer it defines; tfcluster.hpp does from C++11 on, also without RTTI.

A binding sees functions and enumerators, not macros: what a macro gives, a function gives, too; no
function is inline, and every enumerator has its number.

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


# Macros that no function has to replace: attributes, and what has another function.
MACROS = {
    "TFC_API": "an attribute",
    "TFC_PRINTF": "an attribute",
    "TFC_ERROR_INIT": "zeros",
    "TFC_ERR_MAP": "tfc_err_name",
    "TFC_ERR_ENUM": "tfc_err_name",
    "TFC_VERSION_MAJOR": "tfc_version",
    "TFC_VERSION_MINOR": "tfc_version",
    "TFC_VERSION_PATCH": "tfc_version",
    "TFC_VERSION_NUMBER": "tfc_version",
    "TFC_UNLIMITED": "UINT64_MAX, which no enumerator can be",
}


def binding_faults(headers):
    texts = {header: re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S) for header in headers}
    functions = set(re.findall(r"\b(tfc_\w+)\s*\(", "".join(texts.values())))
    for header, text in texts.items():
        for macro in re.findall(r"^\s*#\s*define (TFC_\w+)", text, re.M):
            replaced = macro.endswith("_INIT") and macro.lower() in functions
            if not replaced and macro not in MACROS:
                yield f"{header.name}: {macro} is a macro alone: a binding needs a function or an enumerator"
        if re.search(r"\binline\b", text):
            yield f"{header.name}: has an inline function"
        for body in re.findall(r"\benum\b[^;{(]*\{(.*?)\}", text, re.S):
            body = re.sub(r"^#.*$|TFC_ERR_MAP\(TFC_ERR_ENUM\)", "", body, flags=re.M)
            for enumerator in body.split(","):
                if enumerator.strip() and "=" not in enumerator:
                    yield f"{header.name}: {enumerator.strip()} has no number"


def cpp_faults(root):
    unit = "#include <tfcluster/tfcluster.hpp>\nint main() { tfc::Sub sub; tfc::Ctx ctx; return 0; }\n"
    for compiler in ("g++", "clang++"):
        if not shutil.which(compiler):
            continue
        for standard in "c++11", "c++14", "c++17", "c++20":
            for more in [], ["-fno-rtti"]:
                command = [compiler, "-x", "c++", f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic",
                           "-Wshadow", "-Werror", f"-I{root / 'include'}", *more, "-fsyntax-only", "-"]
                done = subprocess.run(command, input=unit, capture_output=True, text=True)
                if done.returncode:
                    yield f"tfcluster.hpp with {' '.join(command)}:\n{done.stderr}"


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
    failures += [*binding_faults(headers), *cpp_faults(root)]
    if not headers:
        failures.append("no public header found")
    print("\n".join(failures) or f"{count} compilations without a warning")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
