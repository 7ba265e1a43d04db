"""A cluster of nodes, each `tfc_run node` on a host of its own (world.py), and jobs on it.

Everything awaited is an event with a deadline. What a job or a node may leave behind is looked for
at the end of each test: processes of the job on any host, ports, temporary files.
"""
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

for folder in ("tf", "lib"):
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / folder))
import client_keys
import cluster  # ends with 77 where the interpreter lacks what TFC_TEST_NEEDS names
import world

TFC_RUN = os.environ["TFC_RUN"]
PORT = 7400
PORTS = "20000-20099"


class Node:
    """One host's node; it may be killed, stopped and started again over the same state."""

    def __init__(self, fleet, host, *options, name=None):
        self.fleet = fleet
        self.host = host
        self.name = name or host.name
        self.options = options
        self.state = os.path.join(fleet.dir, f"state-{host.name}")
        self.err = os.path.join(fleet.dir, f"{host.name}.err")
        self.tmp = os.path.join(fleet.dir, f"tmp-{host.name}")
        os.makedirs(self.tmp, exist_ok=True)
        self.address = f"tcp://{host.address}:{PORT}"
        self.process = None

    def start(self):
        env = dict(os.environ, TMPDIR=self.tmp, HOME=self.fleet.dir)
        with open(self.err, "ab") as err:
            self.process = self.host.start(
                [TFC_RUN, "node", "--name", self.name, "--listen", self.address,
                 *self.fleet.membership(), "--key", self.fleet.key, "--state", self.state,
                 "--ports", PORTS, *self.options], stdout=subprocess.DEVNULL, stderr=err,
                env=env, cwd=self.fleet.dir)
        return self

    def run(self, *argv, timeout=30):
        """A command of tfc_run on this host, asked of this node: (status, stdout, stderr)."""
        command, *rest = argv
        return self.host.call([TFC_RUN, command, "--gateway", self.address, "--key",
                               self.fleet.key, *rest], timeout=timeout)

    def members(self):
        """{name: state} as this node sees it, or None while it does not answer."""
        status, out, _ = self.run("members", "--json")
        if status:
            return None
        return {member["name"]: member["state"] for member in json.loads(out)}

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        if number != signal.SIGSTOP and number != signal.SIGCONT:
            self.process.wait(30)

    def said(self):
        return pathlib.Path(self.err).read_text(errors="replace")


class FleetTest(cluster.SlowPrograms, unittest.TestCase):
    HOSTS = 3
    NODE_OPTIONS = ()
    IS_GOSSIP = bool(os.environ.get("TFC_TEST_GOSSIP"))  # any test of this folder, with gossip

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="net-test-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.key = os.path.join(self.dir, "key")
        self.members = os.path.join(self.dir, "members.json")
        self.brake = os.path.join(self.dir, "brake")
        pathlib.Path(self.brake).touch()
        self.net = world.World(self.HOSTS)
        self.addCleanup(self.net.close)
        self.net.__enter__()
        subprocess.run([TFC_RUN, "keygen", self.key], check=True, timeout=30,
                       stdout=subprocess.DEVNULL)
        self.nodes = [Node(self, host, *self.NODE_OPTIONS) for host in self.net.hosts]
        self.write_members(self.nodes)
        self.jobs = []

    def write_members(self, nodes):
        text = json.dumps({"members": [{"name": node.name, "address": node.address}
                                       for node in nodes]})
        pathlib.Path(self.members + ".new").write_text(text)
        os.replace(self.members + ".new", self.members)

    def membership(self):
        if not self.IS_GOSSIP:
            return ["--members", self.members]
        seeds = [f"{host.address}:{PORT}" for host in self.net.hosts[:2]]
        return ["--gossip", *(word for seed in seeds for word in ("--join", seed))]

    def start_nodes(self):
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            self.await_members(node, {each.name: "alive" for each in self.nodes})

    def await_members(self, node, wanted, patience=30):
        """Until `node` sees the others as wanted; {name: state}, others may be as they like."""
        self.wait_until(lambda: wanted.items() <= (node.members() or {}).items(),
                        f"{node.name} sees {wanted}, last {node.members()}", patience)

    def wait_until(self, condition, what, patience=30):
        end = time.monotonic() + patience
        while not condition():
            self.assertLess(time.monotonic(), end, f"never came: {what}")
            select.select([], [], [], 0.02)

    # -- jobs

    def follow(self, node, command, *args):
        """`tfc_run start` or `attach` on a host, followed."""
        job = cluster.Job(["ip", "netns", "exec", node.host.netns, TFC_RUN, command, "--json",
                           "--gateway", node.address, "--key", self.key, *args],
                          dict(os.environ), self.dir)
        self.jobs.append(job)
        return job

    def start_job(self, node, *args, **keys):
        path = os.path.join(self.dir, f"job-{len(self.jobs)}.json")
        pathlib.Path(path).write_text(json.dumps({"python": sys.executable, **keys}))
        return self.follow(node, "start", *(["--job", path] if keys else []), *args)

    # -- the end of a test

    def tearDown(self):
        if cluster.has_failed(self):
            for job in self.jobs:
                job.show()
            for node in self.nodes:
                print(f"--- {node.name}:\n{node.said()[-3000:]}")
        for job in self.jobs:
            job.close()
        if not cluster.has_failed(self):
            self.assert_nothing_runs()
            self.assertEqual(client_keys.doubled(node.state for node in self.nodes), {})

    def pids_of_job(self, node, job_id):
        return sorted(set(node.host.pids()) & set(cluster.processes_of(job_id)))

    def assert_nothing_runs(self, patience=15):
        """No task of a job on any host, no port held; nothing but the nodes."""
        ids = {event["job"] for job in self.jobs for event in job.events if "job" in event}
        left = []

        def is_clean():
            left[:] = [(node.name, self.pids_of_job(node, each)) for node in self.nodes
                       for each in ids if self.pids_of_job(node, each)]
            return not left
        self.wait_until(is_clean, f"the end of {left}", patience)
        first, last = map(int, PORTS.split("-"))
        for node in self.nodes:
            self.wait_until(lambda node=node: all(map(node.host.is_free, range(first, last + 1))),
                            f"the release of the ports of {node.name}", patience)

    def assert_every_line_once(self, job, task, pattern=r"^line (\d+)$"):
        """A task that counts: each line of each attempt came exactly once, in order."""
        lines = {}
        for event in job.events:
            if event["event"] == "output" and event["task"] == task:
                found = re.search(pattern, event["text"])
                if found:
                    lines.setdefault(event["attempt"], []).append(int(found[1]))
        for attempt, numbers in lines.items():
            self.assertEqual(numbers, list(range(1, len(numbers) + 1)),
                             f"{task}#{attempt}: lines were lost or doubled")
        return lines
