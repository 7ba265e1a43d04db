"""The table of lib/bundle/fold.c against Unicode's own data, as Python carries it.

Usage: folding.py SOURCE_ROOT            every character that this Python knows must be folded alike
       folding.py SOURCE_ROOT --write    prints the table for the file
"""
import pathlib
import re
import sys
import unicodedata

RUN = re.compile(r"\{0x([0-9a-f]+), 0x([0-9a-f]+), (\d), (-?\d+)\}")


def fold(code):
    """Simple case folding (CaseFolding.txt, C and S): one character to one."""
    character = chr(code)
    folded = character.casefold()
    if len(folded) != 1:
        folded = character.lower()
    return ord(folded) if len(folded) == 1 else code


def characters():
    return (code for code in range(128, 0x110000) if not 0xD800 <= code < 0xE000)


def runs():
    """First, last, step and distance of each run of characters that move by the same distance."""
    found = []
    for code in characters():
        distance = fold(code) - code
        if not distance:
            continue
        if found:
            first, last, step, same = found[-1]
            if same == distance and (code - last == step or (first == last and code - last <= 2)):
                found[-1] = (first, code, code - last, distance)
                continue
        found.append((code, code, 1, distance))
    return found


def check(path):
    table = {}
    last_seen = 127
    for first, last, step, distance in RUN.findall(path.read_text()):
        first, last, step, distance = int(first, 16), int(last, 16), int(step), int(distance)
        assert first > last_seen, f"{first:#x}: the runs must rise"
        last_seen = last
        table.update((code, code + distance) for code in range(first, last + 1, step))
    assert len(table) > 1000, "the table was not found"
    wrong = [code for code in characters()
             if unicodedata.category(chr(code)) != "Cn" and table.get(code, code) != fold(code)]
    for code in wrong:
        print(f"U+{code:04X} {unicodedata.name(chr(code), '')}: folds to U+{fold(code):04X}")
    return 1 if wrong else 0


def main(root, *options):
    if options == ("--write",):
        for first, last, step, distance in runs():
            print(f"\t{{{first:#x}, {last:#x}, {step}, {distance}}},")
        return 0
    return check(pathlib.Path(root) / "lib/bundle/fold.c")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
