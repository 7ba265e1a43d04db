"""Holds the documents to what they show.

A ```c block with a main is built and run, another one, and each ```cpp block, is compiled; all of C also as C++; a ```json block that has "roles" is
read as a job file; an indented `tfc_run` command line is run, with a python3 that does nothing.

usage: snippets.py CC INCLUDE_DIR LIBRARY_DIR HELPER_DIR TFC_RUN FILE.md...
"""

import ctypes
import os
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^    (tfc_run (?:.*\\\n)*.*)$", re.MULTILINE)
HEAD = "#include <tfcluster/tfcluster.h>\n"


FOREIGN = {"<uv.h>": "libuv", "<glib-unix.h>": "glib-2.0"}


def foreign_flags(source):
    names = [name for header, name in FOREIGN.items() if header in source]
    return subprocess.run(["pkg-config", "--cflags", *names], check=True, capture_output=True,
                          text=True).stdout.split() if names else []


class TfcError(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("sys_errno", ctypes.c_int32),
                ("component", ctypes.c_char_p), ("text", ctypes.c_char * 1024)]


class Documents:
    def __init__(self, cc, include, library, helpers, tfc_run):
        self.cc, self.include, self.library, self.helpers = cc, include, library, helpers
        self.tfc_run = os.path.abspath(tfc_run)
        self.seen = {"program": 0, "fragment": 0, "cpp": 0, "job": 0, "command": 0}

    def compile(self, directory, source, *arguments):
        path = os.path.join(directory, "snippet.c")
        with open(path, "w") as file:
            file.write(source)
        subprocess.run([self.cc, "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra",
                        "-Werror", "-Wno-unused-parameter",
                        "-Wno-missing-field-initializers", "-I", self.include, path, *arguments],
                       check=True)

    def compile_as_cpp(self, source, *arguments):
        subprocess.run(["c++", "-x", "c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                        "-Wno-unused-parameter", "-Wno-missing-field-initializers", "-Wno-unused",
                        "-I", self.include, *arguments, "-"], input=source, text=True, check=True)

    def program(self, directory, source):
        self.compile_as_cpp(source)
        name = os.path.join(directory, "snippet")
        self.compile(directory, source, "-o", name, "-L", self.library, "-ltfcluster",
                     "-Wl,-rpath," + self.library)
        output = subprocess.run([name, self.helpers], check=True, timeout=60,
                                capture_output=True, text=True).stdout
        assert "worker/0: hello\n" in output and "worker/1: hello\n" in output, output

    def fragment(self, directory, source):
        is_function = "\n}\n" in source
        whole = HEAD + (source if is_function else f"void snippet(void)\n{{\n{source}}}\n")
        self.compile_as_cpp(whole, *foreign_flags(source))
        self.compile(directory, whole,
                     *foreign_flags(source), "-Wno-unused", "-c", "-o",
                     os.path.join(directory, "snippet.o"))

    def cpp(self, directory, source):
        subprocess.run(["c++", "-x", "c++", "-std=c++11", "-fsyntax-only", "-Wall", "-Wextra",
                        "-Werror", "-I", self.include, "-"],
                       input=source, text=True, check=True)

    def job(self, directory, source):
        library = ctypes.CDLL(os.path.join(self.library, "libtfcluster.so"))
        text, error, job = source.encode(), TfcError(), ctypes.c_void_p()
        library.tfc_job_parse.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p,
                                          ctypes.POINTER(TfcError),
                                          ctypes.POINTER(ctypes.c_void_p)]
        code = library.tfc_job_parse(text, len(text), b"job.json", error, job)
        assert code == 0, error.text.decode()
        library.tfc_job_free(job)

    def command(self, directory, line):
        programs = os.path.join(directory, "bin")
        os.mkdir(programs)
        os.symlink(self.tfc_run, os.path.join(programs, "tfc_run"))
        with open(os.path.join(directory, "job.json"), "w") as file:
            file.write('{"argv": ["python3", "train.py"], "roles": {"worker": {"count": 2}}}')
        for name in "python3", "tensorboard":
            os.symlink("/bin/true", os.path.join(programs, name))
        done = subprocess.run(["sh", "-c", line], cwd=directory, timeout=60, capture_output=True,
                              text=True, env={"PATH": programs + ":/usr/bin:/bin",
                                              "TFC_HELPER_DIR": self.helpers})
        assert done.returncode == 0, f"{line}: status {done.returncode}\n{done.stderr}"

    def check(self, path):
        with open(path) as file:
            text = file.read()
        for kind, start, source in self.found(text):
            with tempfile.TemporaryDirectory() as directory:
                print(f"{path}:{text.count(chr(10), 0, start) + 1}: {kind}", flush=True)
                getattr(self, kind)(directory, source)
                self.seen[kind] += 1

    @staticmethod
    def found(text):
        """Yields (kind, where, what) of everything in a document that can be held to its word."""
        for match in BLOCK.finditer(text):
            language, source = match.groups()
            if language == "c":
                yield "program" if "int main(" in source else "fragment", match.start(), source
            elif language == "cpp":
                yield "cpp", match.start(), source
            elif language == "json" and '"roles"' in source:
                yield "job", match.start(), source
        for match in COMMAND.finditer(text):
            yield "command", match.start(), match.group(1)


def main():
    documents = Documents(*sys.argv[1:6])
    for path in sys.argv[6:]:
        documents.check(path)
    missing = [kind for kind, count in documents.seen.items() if not count]
    assert not missing, "none found of: " + ", ".join(missing)


if __name__ == "__main__":
    main()
