#!/usr/bin/env python3
"""Writes the reference of the Python package, one page of Markdown, from its docstrings.

    python_reference.py PACKAGE OUTPUT

The sources are parsed, not imported: neither the library nor TensorFlow is needed. A public name without a
docstring is an error.
"""

import ast
import pathlib
import sys
import textwrap

HEAD = """# The Python package

`import tfcluster as tfc`. [Python](../guide/python.md) is the guide; this page lists every public name. Everything that
fails raises a class of [errors](#errors); times are in seconds, sizes in bytes.
"""
TITLES = {"_run": "Jobs", "_allocation": "Allocations", "job": "A job that is followed", "client": "Clusters", "_task_context": "In a task",
          "checkpoints": "Checkpoints", "resolver": "Cluster resolver", "errors": "Errors", "types": "Results",
          "_subscription": "Events", "_producer": "Feeding", "feed": "Reading a feed",
          "_map_batches": "Inference", "TFCluster": "TFCluster", "TFNode": "TFNode", "TFParallel": "TFParallel"}
MORE = {"_subscription": ["Events"], "checkpoints": ["Checkpoints"], "feed": ["Feed"],
        "_producer": ["Producer", "Put"], "job": ["TaskRow"],
        "types": ["Jobs", "MissingNode"]}


def homes(package):
    """The modules of the public names, in the order of the package's table."""
    tree = ast.parse((package / "__init__.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "_HOMES":
            return {key: list(names) for key, names in ast.literal_eval(node.value).items()}
    raise SystemExit("__init__.py has no table _HOMES")


def signature(name, node):
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    if "property" in decorators:
        return f"{name}  # property"
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    arguments = node.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        arguments.args = arguments.args[1:]
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return "\n".join(textwrap.wrap(f"{prefix}{name}({ast.unparse(arguments)}){result}", 110, subsequent_indent="    "))


def doc(node, name, missing):
    text = ast.get_docstring(node)
    if text is None:
        missing.append(name)
    return (text or "") + "\n"


def fields(node):
    """The fields of a dataclass, as code."""
    lines = [ast.unparse(item).replace(" = time_field()", " = None") for item in node.body
             if isinstance(item, ast.AnnAssign) and not item.target.id.startswith("_")]
    return "\n".join(lines)


def is_dataclass(node):
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def write_class(node, missing):
    yield f"### {node.name}\n"
    yield doc(node, node.name, missing)
    if is_dataclass(node):
        yield f"```python\n{fields(node)}\n```\n"
    for item in node.body:
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and not item.name.startswith("_"):
            name = f"{node.name}.{item.name}"
            yield f"```python\n{signature(name, item)}\n```\n"
            yield doc(item, name, missing)


def write_page(package):
    missing = []
    parts = [HEAD]
    table = homes(package)
    for module, names in MORE.items():
        table.setdefault(module, []).extend(names)
    for module, names in table.items():
        if module == "_abi":
            continue
        path = package / f"{module}.py"
        tree = ast.parse(path.read_text())
        parts.append(f"## {TITLES[module]}\n")
        found = {node.name: node for node in tree.body
                 if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))}
        for name in names:
            node = found.get(name)
            if node is None:
                missing.append(f"{module}.{name}")
            elif isinstance(node, ast.ClassDef):
                parts.extend(write_class(node, missing))
            else:
                parts.append(f"### {name}\n\n```python\n{signature(name, node)}\n```\n")
                parts.append(doc(node, name, missing))
    if missing:
        raise SystemExit(f"no docstring or definition: {', '.join(missing)}")
    return "\n".join(parts)


def main():
    package, output = map(pathlib.Path, sys.argv[1:])
    output.write_text(write_page(package))


if __name__ == "__main__":
    main()
