"""Every message that the library and tfc_run have for a person, on one page, made of their sources.

    messages.py page SOURCE_ROOT OUT_FILE [DEPFILE]   a page of Markdown: text, code, where from
    messages.py list SOURCE_ROOT [PATH...]            one line each, to read side by side and to search

A message is a string literal of more than one word, and any literal that is passed to a function that fills
an error, an event or a log entry. What is not for a person is left out by the function that it is passed to
(sscanf, strtok) or by what it looks like (JSON, HTTP). check/messages.py compares the page with the strings
in the object files, so that nothing is missing.
"""
import pathlib
import re
import sys

FOLDERS = ("include/tfcluster", "lib", "examples/tfc_run")
TOKEN = re.compile(
    r'(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<include>^[ \t]*#[ \t]*(?:include|error)[^\n]*)'
    r'|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<char>\'(?:[^\'\\\n]|\\.)*\')'
    r'|(?P<word>[A-Za-z_]\w*)|(?P<number>\d[\w.]*)|(?P<space>\s+|\\\n)|(?P<mark>->|\+\+|--|[<>=!]=|&&|\|\||.)',
    re.S | re.M)
# what the standard macros between two literals stand for
MACROS = {"PRIu64": "lu", "PRId64": "ld", "PRIx64": "lx", "PRIu32": "u", "PRId32": "d", "PRIu16": "u",
          "JSON_INTEGER_FORMAT": "lld"}
DEFINED = re.compile(r'^#define (\w+) ("(?:[^"\\\n]|\\.)*")[ \t]*(?:/\*.*)?$', re.M)
WRAPPER = re.compile(r"^#define (\w+)\([^)]*\)\s*((?:[^\n]*\\\n)*[^\n]*)", re.M)
NOT_CALLS = {"if", "while", "for", "switch", "return", "sizeof", "defined", "__attribute__"}
# the functions that fill an error or a log entry; whatever passes a text on to them is found
SINKS = {"tfc__fail", "tfc__vfail", "tfc__fail_errno", "tfc__fail_prefix", "tfc__ctx_fail", "tfc__log"}
# what reads, compares or packs a text
TECHNICAL = re.compile(r"^(sscanf|str\w+|mem\w+|json_\w+|fopen|TFC_PRINTF|format|open\w*|execl?\w*|"
                       r"_Static_assert|assert|json_unpack_ex|getopt\w*)$")
CODE = re.compile(r"TFC_E[A-Z]+\b")


class Message:
    """A literal: its text, the call that it is in, and where that is."""

    def __init__(self, path, line, function, text, calls):
        self.path, self.line, self.function, self.text, self.calls = path, line, function, text, calls
        self.codes = []

    @property
    def call(self):
        return self.calls[-1][0] if self.calls else ""

    @property
    def module(self):
        return self.path.parent.relative_to(self.path.parents[-2]).parts[0] if self.path.parts[0] == "lib" \
            and len(self.path.parts) > 2 else self.path.parts[1]


class Function:
    def __init__(self, name):
        self.name, self.codes, self.callees = name, [], set()


def tokens(text):
    line = 1
    for found in TOKEN.finditer(text):
        if found.lastgroup not in ("comment", "include", "space"):
            yield found.lastgroup, found.group(), line
        line += found.group().count("\n")


def unescape(literal):
    simple = {"n": "\n", "t": "\t", "r": "\r", "e": "\033", "0": "\0", "a": "\a"}
    return re.sub(r"\\(x[0-9a-f]{1,2}|[0-7]{1,3}|.)", lambda found: chr(int(found[1][1:], 16))
                  if found[1][0] == "x" else simple.get(found[1], found[1]), literal[1:-1], flags=re.S)


def read(path, text, of_headers={}):
    """(messages, functions) of a file. A literal knows the calls that it is an argument of."""
    macros = MACROS | of_headers | {name: unescape(literal) for name, literal in DEFINED.findall(text)}
    stream = list(tokens(text))
    messages, functions, stack, function, i = [], {}, [], None, 0
    for name, body in WRAPPER.findall(text):
        functions[name] = Function(name)
        functions[name].codes = CODE.findall(body)
    while i < len(stream):
        kind, word, line = stream[i]
        before = stream[i - 1][1] if i else ""
        if word == "(":
            is_call = i and stream[i - 1][0] == "word" and before not in NOT_CALLS
            call = [before if is_call else "", i, 0]
            stack.append(("(", call))
            if is_call and function:
                functions[function].callees.add(before)
        elif word == "{":
            if not stack and before == ")":
                function = name_before(stream, i)
                functions.setdefault(function, Function(function))
            stack.append(("{", None))
        elif word in ")}" and stack:
            stack.pop()
            if not stack and word == "}":
                function = None
        elif word == "," and stack and stack[-1][1]:
            stack[-1][1][2] += 1
        elif kind == "word" and CODE.fullmatch(word) and function:
            functions[function].codes.append(word)
        elif kind == "string" or word in macros and stream[min(i + 1, len(stream) - 1)][0] == "string":
            text, end = "", i
            while end < len(stream) and (stream[end][0] == "string" or stream[end][1] in macros):
                text += macros.get(stream[end][1]) or unescape(stream[end][1])
                end += 1
            calls = [tuple(call) for _, call in stack if call and call[0]]
            message = Message(path, line, function or "", text, calls)
            if calls:
                message.codes = [word for _, word, _ in stream[calls[-1][1]:closing(stream, calls[-1][1])]
                                 if CODE.fullmatch(word)]
            messages.append(message)
            i = end
            continue
        i += 1
    return messages, functions


def name_before(stream, brace):
    """The name of the function whose body begins at `brace`."""
    depth, i = 0, brace - 1
    while i > 0:
        depth += {")": 1, "(": -1}.get(stream[i][1], 0)
        i -= 1
        if not depth:
            break
    return stream[i][1]


def closing(stream, start):
    depth = 0
    for i in range(start, len(stream)):
        depth += {"(": 1, ")": -1}.get(stream[i][1], 0)
        if not depth:
            return i
    return len(stream)


def sources(root):
    for folder in FOLDERS:
        for path in sorted((pathlib.Path(root) / folder).rglob("*.[ch]")):
            yield path.relative_to(root), path.read_text()


def is_prose(text):
    if re.match(r'\s*[{[]"|^,?"\w+":|^\w+ /\S* HTTP', text):
        return False
    return re.search(r"[A-Za-z]{2,}[^A-Za-z]* .*[a-z%]|[a-z%].* .*[A-Za-z]{2,}", text, re.S) is not None


def header_macros(root):
    return {name: unescape(literal) for path, text in sources(root) if path.suffix == ".h"
            for name, literal in DEFINED.findall(text)}


def literals(root):
    """Every literal of the sources, messages or not."""
    macros = header_macros(root)
    return [message for path, text in sources(root) for message in read(path, text, macros)[0]]


def collect(root):
    """The messages, in the order of the sources, with their codes."""
    found, functions, macros = [], {}, header_macros(root)
    for path, text in sources(root):
        messages, of_file = read(path, text, macros)
        found += messages
        functions.update({(path, name): function for name, function in of_file.items()})
        for name, function in of_file.items():
            functions.setdefault(name, function)
    messages = [message for message in found if is_message(message)]
    for message in messages:
        if not message.codes:
            callee = functions.get((message.path, message.call)) or functions.get(message.call)
            message.codes = sorted(set(callee.codes)) if callee else []
        if message.call == "tfc__fail_errno":
            message.codes = ["by errno"]
    return messages


def is_message(message):
    if any(TECHNICAL.match(call[0]) for call in message.calls[-1:]):
        return False
    if message.call in SINKS:
        return bool(re.search(r"[A-Za-z]{2}", message.text)) and not re.fullmatch(r"[a-z]+", message.text)
    return is_prose(message.text)


def show(text):
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\033", "\\e")


def page(root, out, depfile=None):
    messages = collect(root)
    lines = ["# Messages", "", f"The {len(messages)} texts that the library and `tfc_run` have for a person, "
             "by module. `%s` and its like stand for what a message is about; a code is what `tfc_error.code` "
             "says beside the text.", ""]
    module = None
    for message in messages:
        if message.module != module:
            module = message.module
            lines += [f"## {module}", "", "| text | code | where |", "|---|---|---|"]
        text = show(message.text).replace("|", "\\|").replace("`", "'")
        lines.append(f"| `{text}` | {' '.join(dict.fromkeys(message.codes))} | "
                     f"{message.path}, {message.function or 'table'} |")
    pathlib.Path(out).write_text("\n".join(lines) + "\n")
    if depfile:
        pathlib.Path(depfile).write_text(f"{out}: {' '.join(f'{root}/{path}' for path, _ in sources(root))}\n")


def listing(root, *paths):
    for message in collect(root):
        if not paths or any(str(message.path).startswith(path) for path in paths):
            print(f"{message.path}:{message.line}: {message.call}: {show(message.text)}")


if __name__ == "__main__":
    {"page": page, "list": listing}[sys.argv[1]](*sys.argv[2:])
