"""Counts the results that meson test left, shows what failed, names what was skipped.

Usage: results.py OTHER_FAILURES TESTLOG.json...
The last line is "N passed, N failed" and, when there are any, ", N skipped".
"""
import json
import pathlib
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
HEAD_LINES = 12  # what has failed, where a sanitizer goes on for long after it
TAIL_LINES = 20  # the traceback of Python


def read(path):
    run = pathlib.Path(path).stem.removeprefix("testlog-")
    for line in pathlib.Path(path).read_text().splitlines():
        if line.strip():
            result = json.loads(line)
            yield f"{run}: {result['name']}", result


def is_noise(line):
    """Whether the line only says that one function of the test succeeded, or is a rule or blank."""
    return (line.endswith("... ok") or line.startswith(("[ RUN      ]", "[       OK ]"))
            or not line.strip("=- "))


def show(name, result):
    text = result.get("stdout", "") + result.get("stderr", "")
    print(f"FAIL {name} ({result['result'].lower()}, {result.get('duration', 0):.1f} s)")
    lines = [line for line in text.splitlines() if not is_noise(line)]
    if len(lines) > HEAD_LINES + TAIL_LINES:
        lines[HEAD_LINES:-TAIL_LINES] = ["[...]"]
    for line in lines:
        print(f"    {line}")


def main(failed, paths):
    passed = skipped = 0
    for path in paths:
        for name, result in read(path):
            if result["result"] in PASSED:
                passed += 1
            elif result["result"] == "SKIP":
                skipped += 1
                print(f"skipped {name}")
            else:
                failed += 1
                show(name, result)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
