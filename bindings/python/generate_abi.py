#!/usr/bin/env python3
"""Makes the module tfcluster._abi from the public headers, and a C file that proves it right.

    generate_abi.py HEADER_DIR ABI.PY CHECK.C DEPFILE CC [ARGUMENT...]

HEADER_DIR contains tfcluster/tfcluster.h; CC with its arguments is the compiler, which only preprocesses. pycparser
parses the result. The C file has a _Static_assert for each constant and for the size and each offset of each struct,
as ctypes lays them out. Names and types of the module:

- `enum tfc_job_state` is the IntEnum `JobState`. Its members lose the words that they share with the name of the
  enum: TFC_JOB_RUNNING is `JobState.RUNNING`.
- `tfc_event` is a ctypes.Structure with annotated fields. A struct without a definition is a handle: c_void_p. So is
  a pointer to a struct that is declared by its tag.
- A typedef of a function is a ctypes.CFUNCTYPE with the name of the typedef.
- Integer macros and the members of unnamed enums are constants with their names.
- `const char *` is c_char_p. `char *` is c_void_p, because the caller frees it, and so is `const char *data`, because
  no NUL ends it.
- `declare` sets the types of all functions of a library.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from pycparser import c_ast, c_parser

# What the headers take from the C library. ctypes gives the sizes, and the C file compares them.
BASE = {
    "char": "c_char", "int": "c_int", "unsigned": "c_uint", "size_t": "c_size_t", "pid_t": "c_int",
    "int32_t": "c_int32", "int64_t": "c_int64",
    "uint8_t": "c_uint8", "uint16_t": "c_uint16", "uint32_t": "c_uint32", "uint64_t": "c_uint64",
}
PREAMBLE = "".join(f"typedef int {name};\n" for name in BASE if name.endswith("_t"))
LIMITS = {"UINT32_MAX": 2**32 - 1, "UINT64_MAX": 2**64 - 1}

# The Python type of a field, by its ctypes type. A pointer is Any: a field of it takes arrays and byref, too.
FIELDS = {"ctypes.c_char_p": "bytes | None", "ctypes.c_void_p": "int | None"}


class Preprocessor:
    """The public headers as the compiler sees them, with empty headers in place of the C library's."""

    def __init__(self, header_dir: str, command: list[str]) -> None:
        self.headers = sorted(pathlib.Path(header_dir, "tfcluster").glob("*.h"))
        self.command = [*command, "-E", "-nostdinc", "-I", header_dir]

    def run(self, text: str, *arguments: str) -> str:
        with tempfile.TemporaryDirectory() as empty:
            for header in self.headers:
                for name in re.findall(r"#include <((?!tfcluster/).*)>", header.read_text()):
                    path = pathlib.Path(empty, name)
                    path.parent.mkdir(exist_ok=True)
                    path.touch()
            done = subprocess.run([*self.command, "-I", empty, *arguments, "-x", "c", "-"], check=False,
                                  input="#include <tfcluster/tfcluster.h>\n" + text, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"generate_abi.py: cannot preprocess the public headers:\n{done.stderr}")
        return done.stdout

    def macros(self) -> list[str]:
        """The macros that stand for one integer."""
        defined = re.findall(r"^#define (TFC_\w+) +(.+)$", self.run("", "-dM"), re.MULTILINE)
        return sorted(name for name, body in defined if not body.startswith(("{", "__attribute__")))

    def declarations(self) -> c_ast.FileAST:
        values = "".join(f"VALUE_OF_{name} = {name}, " for name in self.macros())
        text = self.run(f"enum {{ {values} }};", "-D__attribute__(x)=")
        return c_parser.CParser().parse(PREAMBLE + text, "tfcluster.h")


def indented(items: list[str]) -> str:
    return "".join(f"        {item},\n" for item in items)


class Module:
    """What the declarations become: Python text, and the C names of the constants."""

    def __init__(self, declarations: c_ast.FileAST) -> None:
        self.text: list[str] = []
        self.functions: list[str] = []
        self.structs: set[str] = set()
        self.tags: set[str] = set()  # structs without a typedef
        self.callbacks: set[str] = set()
        self.constants = dict(LIMITS)  # by C name
        for node in declarations.ext:
            self.add(node)
        for name in LIMITS:
            del self.constants[name]

    def add(self, node: c_ast.Node) -> None:
        match node:
            case c_ast.Decl(type=c_ast.Enum() as enum):
                self.add_enum(enum)
            case c_ast.Decl(type=c_ast.FuncDecl() as function):
                self.add_function(node.name, function)
            case c_ast.Typedef(name=name, type=c_ast.TypeDecl(type=c_ast.Struct(decls=fields))) if fields:
                self.add_struct(name, fields)
            case c_ast.Decl(type=c_ast.Struct(name=name, decls=fields)) if fields:
                self.tags.add(name)
                self.add_struct(name, fields)
            case c_ast.Typedef(name=name, type=c_ast.PtrDecl(type=c_ast.FuncDecl() as function)):
                self.text.append(f"{name} = {self.callback(function)}\n")
                self.callbacks.add(name)
            case c_ast.Typedef():
                pass  # a handle, or a type of the preamble
            case _:
                sys.exit(f"generate_abi.py: {node.coord}: cannot translate this declaration")

    # ---- constants

    def value(self, node: c_ast.Node) -> int:
        match node:
            case c_ast.Constant():
                return int(node.value.rstrip("uUlL"), 0)
            case c_ast.ID():
                return self.constants[node.name]
            case c_ast.UnaryOp(op="-"):
                return -self.value(node.expr)
            case c_ast.BinaryOp(op="|"):
                return self.value(node.left) | self.value(node.right)
            case c_ast.BinaryOp(op="<<"):
                return self.value(node.left) << self.value(node.right)
        sys.exit(f"generate_abi.py: {node.coord}: cannot evaluate this expression")

    def members(self, enum: c_ast.Enum) -> Iterator[tuple[str, int]]:
        following = 0
        for member in enum.values.enumerators:
            value = following if member.value is None else self.value(member.value)
            following = value + 1
            name = member.name.removeprefix("VALUE_OF_")
            self.constants[name] = value
            yield name, value

    def add_enum(self, enum: c_ast.Enum) -> None:
        members = list(self.members(enum))
        if enum.name is None:
            self.text += [f"{name} = {value}" for name, value in members]
            return
        words = enum.name.upper().split("_")
        words += [word.removesuffix("S") for word in words]
        lines = [f"\n\nclass {''.join(word.capitalize() for word in enum.name.split('_')[1:])}(enum.IntEnum):"]
        for name, value in members:
            rest = name.split("_")
            while len(rest) > 1 and rest[0] in words and not rest[1][0].isdigit():
                rest.pop(0)
            lines.append(f"    {'_'.join(rest)} = {value}")
        self.text.append("\n".join(lines) + "\n\n")

    # ---- types

    def type(self, node: c_ast.Node, name: str | None = None) -> str:
        """The ctypes type of a declarator, which is that of the parameter or field `name`."""
        match node:
            case c_ast.TypeDecl():
                return self.type(node.type)
            case c_ast.IdentifierType(names=[word]) if word in self.structs | self.callbacks:
                return str(word)
            case c_ast.IdentifierType(names=[word]) if word in BASE:
                return f"ctypes.{BASE[word]}"
            case c_ast.Enum():
                return "ctypes.c_int"
            case c_ast.ArrayDecl():
                return f"{self.type(node.type)} * {self.value(node.dim)}"
            case c_ast.PtrDecl(type=c_ast.FuncDecl() as function):
                return self.callback(function)
            case c_ast.PtrDecl(type=c_ast.TypeDecl(type=c_ast.IdentifierType(names=["char"])) as target):
                is_text = "const" in target.quals and name != "data"
                return "ctypes.c_char_p" if is_text else "ctypes.c_void_p"
            case c_ast.PtrDecl(type=c_ast.TypeDecl(type=c_ast.IdentifierType(names=[word]))):
                is_known = word in self.structs | BASE.keys()
                return f"ctypes.POINTER({self.type(node.type)})" if is_known else "ctypes.c_void_p"
            case c_ast.PtrDecl(type=c_ast.TypeDecl(type=c_ast.Struct())):  # by its tag: perhaps within itself
                return "ctypes.c_void_p"
            case c_ast.PtrDecl():
                return f"ctypes.POINTER({self.type(node.type)})"
        sys.exit(f"generate_abi.py: {node.coord}: cannot translate this type")

    def result(self, function: c_ast.FuncDecl) -> str:
        match function.type:
            case c_ast.TypeDecl(type=c_ast.IdentifierType(names=["void"])):
                return "None"
        return self.type(function.type)

    def parameters(self, function: c_ast.FuncDecl) -> list[str]:
        types = []
        for parameter in function.args.params:
            match parameter.type:
                case c_ast.TypeDecl(type=c_ast.IdentifierType(names=["void"])):
                    continue  # f(void)
                case c_ast.ArrayDecl(type=element):  # a parameter of array type is a pointer
                    types.append("ctypes.c_char_p" if self.type(element) == "ctypes.c_char" else
                                 f"ctypes.POINTER({self.type(element)})")
                case other:
                    types.append(self.type(other, parameter.name))
        return types

    def callback(self, function: c_ast.FuncDecl) -> str:
        return f"ctypes.CFUNCTYPE({', '.join([self.result(function), *self.parameters(function)])})"

    def add_function(self, name: str, function: c_ast.FuncDecl) -> None:
        parameters = ", ".join(self.parameters(function))
        self.functions += [f"    library.{name}.argtypes = [{parameters}]",
                           f"    library.{name}.restype = {self.result(function)}"]

    def add_struct(self, name: str, fields: list[c_ast.Decl]) -> None:
        types = {field.name: self.type(field.type, field.name) for field in fields}
        lines = [f"\n\nclass {name}(ctypes.Structure):", *(
            f"    {field}: {self.annotation(kind)}" for field, kind in types.items()), "    _fields_ = ["]
        self.text.append("\n".join(lines) + "\n" + indented([f'("{field}", {kind})' for field, kind in types.items()])
                         + "    ]\n\n")
        self.structs.add(name)

    def annotation(self, kind: str) -> str:
        if kind.startswith("ctypes.c_char *"):
            return "bytes"
        if kind.startswith("ctypes.c_") and "*" not in kind:
            return FIELDS.get(kind, "int")
        return "Any"

    # ---- the files

    def python(self) -> str:
        head = ('"""What the headers of libtfcluster declare: made by generate_abi.py."""\n\n'
                "from __future__ import annotations\n\nimport ctypes\nimport enum\nfrom typing import Any\n")
        tail = ["\n\ndef declare(library: ctypes.CDLL) -> None:",
                '    """Sets the types of the parameters and results of the library\'s functions."""', *self.functions]
        return re.sub(r"\n{4,}", "\n\n\n", "\n".join([head, *self.text, *tail]) + "\n")

    def check(self, python: str) -> str:
        """The C file: what a compiler of these headers has to say as the module does."""
        module: dict[str, Any] = {"__name__": "_abi"}
        exec(compile(python, "_abi.py", "exec"), module)
        lines = ["/* Made by generate_abi.py: the headers as tfcluster._abi has them. */", "#include <stddef.h>",
                 "#include <tfcluster/tfcluster.h>", ""]
        claims = [(name, value) for name, value in self.constants.items()]
        for name in sorted(self.structs):
            struct = module[name]
            name = f"struct {name}" if name in self.tags else name
            claims.append((f"sizeof({name})", ctypes.sizeof(struct)))
            for field, _ in struct._fields_:
                place = getattr(struct, field)
                claims += [(f"offsetof({name}, {field})", place.offset),
                           (f"sizeof((({name} *)0)->{field})", place.size)]
        for text, value in claims:
            suffix = "u" if value >= 2**63 else ""
            lines.append(f'_Static_assert({text} == {value}{suffix}, "tfcluster._abi: {text}");')
        return "\n".join(lines) + "\n"


def main(header_dir: str, python_path: str, check_path: str, depfile: str, *command: str) -> None:
    preprocessor = Preprocessor(header_dir, list(command))
    module = Module(preprocessor.declarations())
    python = module.python()
    pathlib.Path(python_path).write_text(python)
    pathlib.Path(check_path).write_text(module.check(python))
    headers = " ".join(os.fspath(header) for header in preprocessor.headers)
    pathlib.Path(depfile).write_text(f"{python_path} {check_path}: {headers}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
