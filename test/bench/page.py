"""The page doc/benchmarks.md: where it was measured, and how the table gets into it."""

import contextlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import time

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "doc", "benchmarks.md")
BEGIN, END = "<!-- measured: test/bench/run.sh --markdown -->\n", "<!-- end -->\n"


def first_line(*argv):
    """What a program says of its version, or nothing when it is not there."""
    if not shutil.which(argv[0]):
        return ""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    return (done.stdout or done.stderr).strip().split("\n")[0]


def package_version(name):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], capture_output=True,
                          text=True)
    return f"{name} {done.stdout}" if done.returncode == 0 and done.stdout else ""


def python_version(name):
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return f"{name} {importlib.metadata.version(name)}"
    return ""


def surroundings(names):
    """The lines above the table: where it was measured, with what, and how busy that was."""
    with open("/proc/meminfo") as file:
        memory = int(file.readline().split()[1]) >> 20
    with open("/proc/cpuinfo") as file:
        info = file.read()
    model = re.search(r"^model name\s*: (.*)$", info, re.MULTILINE)
    virtual = ", virtual" if re.search(r"^flags.*\bhypervisor\b", info, re.MULTILINE) else ""
    kernel = re.match(r"[0-9.]*[0-9]", platform.release()).group()
    versions = [first_line("cc", "--version"), python_version("tensorflow-cpu"),
                python_version("pyarrow"),
                package_version("python3-torch"), first_line("mpirun", "--version"),
                package_version("supervisor"), package_version("runit"), package_version("musl"),
                first_line("go", "version")]
    yield f"- {os.cpu_count()} cores ({model.group(1) if model else 'unknown'}{virtual}), " \
          f"{memory} GiB, Linux {kernel}; load at the beginning {os.getloadavg()[0]:.1f}"
    yield "- " + "; ".join(version for version in versions if version)
    yield f"- `test/bench/run.sh --markdown{''.join(' ' + name for name in names)}`, " \
          f"{time.strftime('%Y-%m-%d', time.gmtime())}"


def publish(lines):
    """Puts the lines into the page, in place of those that were measured before."""
    with open(PAGE) as file:
        page = file.read()
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    with open(PAGE, "w") as file:
        file.write(head + BEGIN + "\n".join(lines) + "\n" + END + tail)
