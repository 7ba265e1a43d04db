"""The referee of "one submit is one job": which jobs the stores of all nodes have for each client key."""
import collections
import pathlib

VALUE = 64  # where the value of a record begins; doc/internals/store-format.md


def text_of(record, key):
    """The text of a key in a msgpack map, found by its name; None: it has none."""
    name = bytes([0xa0 | len(key)]) + key.encode()
    at = record.find(name, VALUE)
    if at < 0:
        return None
    at += len(name)
    size = record[at] & 0x1f if record[at] & 0xe0 == 0xa0 else record[at + 1]
    at += 1 if record[at] & 0xe0 == 0xa0 else 2
    return record[at:at + size].decode()


def read(path):
    try:
        return path.read_bytes()
    except FileNotFoundError:  # it was removed just now
        return b""


def jobs_by_key(states):
    """{client key: {job}} over the state directories of nodes, forgotten jobs among them."""
    found = collections.defaultdict(set)
    for state in states:
        records = pathlib.Path(state, "store", "records")
        for path in records.glob("jobs/*/record"):
            found[text_of(read(path), "client_key")].add(path.parent.name)
        for path in records.glob("keys/*"):
            record = read(path)
            found[text_of(record, "client_key")].add(text_of(record, "job"))
    return {key: jobs for key, jobs in found.items() if key}


def doubled(states):
    """What must be empty: the keys that made more than one job."""
    return {key: jobs for key, jobs in jobs_by_key(states).items() if len(jobs) > 1}
