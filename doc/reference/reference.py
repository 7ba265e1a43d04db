"""The reference, made of the comments in the public headers.

    reference.py pages HEADER_DIR OUT_DIR      a page of Markdown per header, and README.md
    reference.py man HEADER_DIR OUT_FILE       libtfcluster.3
    reference.py manuals HEADER_DIR OUT_DIR    a NAME.3 per function and type; below the prefix when
                                               meson installs
    reference.py check HEADER_DIR              says which comments leave something out

A comment belongs to the declarations that follow it without an empty line. What is demanded of it:
who may call it on which thread and what it fails with; who owns what it hands out; of a field, what it
is, and in which unit where there is one. "As tfc_x" takes over what the comment on tfc_x says; a thread
that is the same for all of a header is said in the header's first comment.
"""
import os
import pathlib
import re
import sys

ITEM = re.compile(
    r"(?:(?P<comment>/\*(?:(?!\*/).)*\*/)[ \t]*\n)?"
    r"(?P<text>(?:TFC_API\b|typedef\b|enum\b)(?:[^;{]*;|[^;{]*\{.*?^\}[^;]*;)"
    r"(?:\n(?:TFC_API\b)[^;]*;)*|^#define TFC_\w+(?:[^\n]*\\\n)*[^\n]*)", re.S | re.M)
FUNCTION = re.compile(r"TFC_API\b([^;]*?)\b(tfc_\w+)\s*\(([^;]*)\)\s*;", re.S)
FIELD = re.compile(r"(?P<before>(?:[ \t]*/\*(?:(?!\*/).)*\*/[ \t]*\n)?)[ \t]*(?P<text>[^;/*\s][^;]*?)\s*;"
                   r"(?P<behind>[ \t]*(?:/\*(?:(?!\*/).)*\*/)?)", re.S)
MEASURED = re.compile(r"(^|_)(time|timeout|grace|deadline|memory|rss|len|user_us|system|stall|cpus)(_|$)")
UNIT = re.compile(r"_(ms|s|us|ns|kib|bytes)$")
UNIT_SAID = re.compile(r"\b(bytes?|(milli|micro|nano)?seconds?|KiB|CLOCK_REALTIME|thousandths|longest|s)\b")


def prose(comment):
    """The text of a comment, without its stars; paragraphs and lists keep their lines."""
    lines = re.sub(r"^/\*+|\*/$", "", comment or "").split("\n")
    return "\n".join(re.sub(r"^\s*\* ?", "", line).rstrip() for line in lines).strip()


class Item:
    def __init__(self, comment, text):
        self.comment = prose(comment)
        self.text = text.strip()
        self.functions = [(name, " ".join(result.split()), " ".join(parameters.split()))
                          for result, name, parameters in FUNCTION.findall(self.text)]

    def names(self):
        if self.functions:
            return [name for name, _, _ in self.functions]
        found = re.search(r"\(\*(tfc_\w+)\)", self.text) or re.search(r"\b(tfc_\w+|TFC_\w+)", self.text)
        return [found.group(1)]

    def name(self):
        return ", ".join(self.names())

    def is_opaque(self):
        return re.fullmatch(r"typedef struct (\w+) \1;", self.text)

    def fields(self):
        """(name, comment) of each field of a struct."""
        body = re.search(r"^typedef struct \w+ \{\n(.*)^\}", self.text, re.S | re.M)
        for field in FIELD.finditer(body.group(1) if body else ""):
            text = re.sub(r"/\*.*?\*/", "", field["text"], flags=re.S)
            name = re.search(r"\(\*(\w+)\)|(\w+)(?:\[\w+\])?$", text.strip())
            yield name.group(1) or name.group(2), prose(field["before"] + field["behind"])


class Header:
    def __init__(self, path):
        text = path.read_text()
        self.name = path.name
        self.about = prose(re.match(r"/\*.*?\*/", text, re.S).group(0))
        body = text[text.index("*/") + 2:]
        self.items = [Item(found["comment"], found["text"]) for found in ITEM.finditer(body)
                      if not found["text"].startswith("#") or found["comment"]]


def headers(directory):
    return [Header(path) for path in sorted(pathlib.Path(directory).glob("*.h"))]


def functions(directory):
    return [name for header in headers(directory) for item in header.items
            for name, _, _ in item.functions]


# ---- what is left out

def whole(item, comments):
    """A comment with what it takes over from others."""
    text, seen = item.comment, set()
    for name in re.findall(r"\b[Aa]s (tfc_\w+)", text):
        if name in comments and name not in seen:
            seen.add(name)
            text += " " + comments[name]
    return text


def function_faults(item, header, comments):
    said = whole(item, comments)
    for name, result, parameters in item.functions:
        if not item.comment:
            yield f"{name} has no comment"
            continue
        if not re.search(r"\bThread\b", said) and not re.search(r"\bThread:", header.about):
            yield f"{name}: no thread is named (\"Thread: ...\")"
        if result != "void" and not re.search(r"\berrors?\b", said, re.I):
            yield f"{name}: no errors are named (\"Errors: ...\", \"Errors: none.\")"
        if re.search(r"\*\*+ ?ret_(?!op\b)", parameters) and not re.search(r"\b(owns|frees|ends it)\b", said):
            yield f"{name}: who owns what it hands out is not said"
        if result.endswith("*") and not re.search(r"\b([Bb]orrowed|[Ss]tatic)\b", said):
            yield f"{name}: for how long its result is valid is not said (\"Borrowed: ...\", \"Static\")"
        if re.search(r"_(free|close|release)$", name) and "NULL is a no-op" not in said:
            yield f"{name}: what it does to NULL is not said (\"NULL is a no-op\")"


def field_faults(item):
    for name, comment in item.fields():
        if name in ("size", "reserved"):
            continue
        if not comment:
            yield f"{item.name()}.{name} has no comment"
        elif MEASURED.search(name) and not UNIT.search(name) and not UNIT_SAID.search(comment):
            yield f"{item.name()}.{name}: its unit is in neither name nor comment"


def check(directory):
    comments = {name: item.comment for header in headers(directory) for item in header.items
                for name, _, _ in item.functions}
    faults = [f"{header.name}: {fault}" for header in headers(directory) for item in header.items
              for fault in [*function_faults(item, header, comments), *field_faults(item)]]
    print("\n".join(faults) or f"{len(comments)} functions say thread, errors and owner")
    return 1 if faults or not comments else 0


# ---- pages

def page(header):
    yield f"# {header.name}\n\n{header.about}\n"
    for item in header.items:
        yield f"## {item.name()}\n\n```c\n{item.text}\n```\n\n{item.comment}\n"


def pages(directory, out):
    out = pathlib.Path(out)
    index = ["# Reference\n\nMade of the comments in the headers; `tfcluster.h` includes them all.\n"]
    for header in filter(lambda header: header.items, headers(directory)):
        (out / header.name.replace(".h", ".md")).write_text("\n".join(page(header)))
        names = ", ".join(item.name() for item in header.items if not item.is_opaque())
        index.append(f"- [{header.name}]({header.name.replace('.h', '.md')}): {names}")
    index.append("- [messages](messages.md): the texts for a person")
    (out / "README.md").write_text("\n".join(index) + "\n")


# ---- manual page

def roff(text):
    """Plain text as roff: nothing in it is a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    lines = []
    for line in text.split("\n"):
        if not line:
            lines.append(".PP")
        elif re.match(r"\s*\\- ", line):
            lines += [".br", line.strip()]
        else:
            lines.append("\\&" + line.lstrip() if line.lstrip()[:1] in ".'" else line.lstrip())
    return "\n".join(lines)


def code(text):
    return ".nf\n" + "\n".join("\\&" + line.replace("\\", "\\e").replace("-", "\\-").replace("\t", "    ")
                               for line in text.split("\n")) + "\n.fi"


def version(directory):
    text = (pathlib.Path(directory) / "version.h").read_text()
    return ".".join(re.search(rf"TFC_VERSION_{part} (\d+)", text).group(1)
                    for part in ("MAJOR", "MINOR", "PATCH"))


def title(name, directory):
    return f'.TH {name} 3 "" "libtfcluster {version(directory)}"'


def lines_of(parts):
    return "\n".join(part for part in parts if part) + "\n"


def man(directory, out):
    parts = [title("libtfcluster", directory), ".SH NAME",
             "libtfcluster \\- runs TensorFlow clusters from inside a host program", ".SH SYNOPSIS",
             code("#include <tfcluster/tfcluster.h>\n\n"
                  "cc host.c $(pkg-config --cflags --libs libtfcluster)"), ".SH DESCRIPTION",
             "Each header's part of the library has a section of its own. Each function and each type also "
             "has a page of its own."]
    for header in headers(directory):
        if not header.items:
            continue
        parts += [f".SH {header.name.upper()}", roff(header.about)]
        for item in header.items:
            parts += [f".SS {item.name()}", code(item.text), ".PP", roff(item.comment)]
    parts += [".SH SEE ALSO", ".BR tfc_run (1)"]
    pathlib.Path(out).write_text(lines_of(parts))


def summary(item, header):
    """The first sentence of a comment, as the line that apropos shows."""
    text = " ".join(item.comment.split())
    first = re.match(r"(?:\([^()]*\)|\{[^{}]*\}|[^.:;]|[.:;](?!\s|$))*", text)[0] or f"a type of {header.name}"
    return re.sub("^[A-Z](?![A-Z])", lambda letter: letter[0].lower(), first)


def manual(item, header, known, directory):
    """The page of one declaration: all that libtfcluster.3 says about it and its header."""
    declaration = re.sub(r"^TFC_API\s+", "", item.text, flags=re.M)
    mentioned = set(re.findall(r"\btfc_\w+", item.text + item.comment)) & known - set(item.names())
    return lines_of([
        title(item.names()[0], directory), ".SH NAME",
        roff(", ".join(item.names())) + " \\- " + roff(summary(item, header)), ".SH SYNOPSIS",
        code(f"#include <tfcluster/{header.name}>\n\n{declaration}"),
        ".SH DESCRIPTION" if item.comment else "", roff(item.comment),
        f".SH {header.name.upper()}", roff(header.about),
        ".SH SEE ALSO", *(f".BR {name} (3)," for name in sorted(mentioned)), ".BR libtfcluster (3)"])


def manuals(directory, out):
    out = pathlib.Path(os.environ.get("MESON_INSTALL_DESTDIR_PREFIX", ""), out)
    out.mkdir(parents=True, exist_ok=True)
    items = [(item, header) for header in headers(directory) for item in header.items
             if item.name().startswith("tfc_")]
    known = {name for item, _ in items for name in item.names()}
    for item, header in items:
        first, *others = item.names()
        (out / f"{first}.3").write_text(manual(item, header, known, directory))
        for name in others:
            (out / f"{name}.3").write_text(f".so man3/{first}.3\n")


if __name__ == "__main__":
    sys.exit({"pages": pages, "man": man, "manuals": manuals, "check": check}[sys.argv[1]](*sys.argv[2:]))
