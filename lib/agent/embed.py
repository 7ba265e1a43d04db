"""Write a text file as a C header that holds it as one string: embed.py NAME INPUT OUTPUT."""
import sys


def c_literal(line):
    """One line of text as a C string literal; ASCII only, so that no compiler's charset matters."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "?": "\\?"}
    for char in line:
        if char not in escapes and not 32 <= ord(char) < 127:
            raise SystemExit(f"embed.py: {char!r} cannot be embedded: plain ASCII only")
    return '"' + "".join(escapes.get(char, char) for char in line) + '"'


STRING_MAX = 4095  # ISO C99 promises no more


def c_array(lines):
    """The same as numbers, a line of text on each line."""
    for line in lines:
        c_literal(line)  # refuses what is no ASCII
        yield "\t" + " ".join(f"{ord(char)}," for char in line)
    yield "\t0};\n"


def main(name, source, target):
    with open(source, encoding="utf-8") as file:
        lines = file.readlines()
    with open(target, "w", encoding="ascii") as file:
        file.write(f"/* Made from {source.rsplit('/', 1)[-1]} by embed.py. */\n")
        file.write("#pragma once\n\n")
        if sum(map(len, lines)) > STRING_MAX:
            file.write(f"static const char {name}[] = {{\n")
            file.write("\n".join(c_array(lines)))
            return
        file.write(f"static const char {name}[] =\n")
        file.write("\n".join("\t" + c_literal(line) for line in lines))
        file.write(";\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
