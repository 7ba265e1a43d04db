"""What /proc says of processes that may end at any moment: of one that has ended, nothing."""
import contextlib
import math


def read(pid, name):
    """A file of a process, b"" if it has ended. While a process executes a program, its command line is empty."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()
    return b""


def name_of(pid):
    return read(pid, "comm").decode().strip()


def command_line(pid):
    return read(pid, "cmdline").split(b"\0")[:-1]


def children_of(pid, name=None):
    """Its children, or those with that name."""
    pids = map(int, read(pid, f"task/{pid}/children").split())
    return [child for child in pids if name is None or name_of(child) == name]


def descendants_of(pid):
    children = children_of(pid)
    return children + [one for child in children for one in descendants_of(child)]


def stat(pid):
    """The fields of proc(5) behind the name: the state, the parent and so on."""
    return read(pid, "stat").decode().rpartition(")")[2].split()


def start_time(pid):
    """In clock ticks since boot; of one that has ended, infinity."""
    fields = stat(pid)
    return int(fields[19]) if fields else math.inf
