"""Rows: how fast a bundle and a job get to other nodes, and what those do when idle."""

import contextlib
import datetime
import json
import os
import re
import select
import signal
import socket
import statistics
import subprocess
import tempfile
import time

from measure import IDLE_SECONDS, Bench, background, ratio, spread, switches
from processes import descendants_of, name_of


class Bundle(Bench):
    def bundle_ours(self, directory, program):
        with socket.socket() as first, socket.socket() as second:
            addresses = []
            for probe in (first, second):
                probe.bind(("127.0.0.1", 0))
                addresses.append("tcp://127.0.0.1:%d" % probe.getsockname()[1])
        out = subprocess.run([os.path.join(self.bin, "bundle"), directory, self.helpers, program,
                              *addresses], check=True, text=True, capture_output=True, timeout=300)
        return [float(number) for number in out.stdout.split()]

    def bundle_cp(self, directory, program):
        """What it takes by hand: pack, hash, send, hash, unpack; each of the three is a copy."""
        begin = time.monotonic()
        source = os.path.join(program, "data")
        for name in "abc":
            target = os.path.join(directory, name)
            subprocess.run(["cp", source, target], check=True)
            if name != "c":
                subprocess.run(["sha256sum", target], check=True, stdout=subprocess.DEVNULL)
            source = target
        return time.monotonic() - begin

    def run(self):
        ours, cp, turns, cpu = [], [], [], []
        with tempfile.TemporaryDirectory() as program:
            with open(os.path.join(program, "data"), "wb") as data:
                for _ in range(50):
                    data.write(os.urandom(10_000_000))
            for _ in range(3):
                with tempfile.TemporaryDirectory() as directory:
                    took, turn, used = self.bundle_ours(directory, program)
                    ours.append(took / 1e3)
                    turns.append(turn)
                    cpu.append(used)
                with tempfile.TemporaryDirectory() as directory:
                    cp.append(self.bundle_cp(directory, program))
        self.table.add("bundle of 500 MB to a task on another node", spread(ours, "s"),
                       "cp and sha256sum " + spread(cp, "s"), ratio(ours, cp), "-", None)
        self.table.add("longest dispatch meanwhile", f"{max(turns):.1f} ms",
                       f"its CPU time {max(cpu):.1f} ms", "-", "CPU <= 10 ms", max(cpu) <= 10)


class Cluster(Bench):
    @contextlib.contextmanager
    def network(self):
        """What to put in front of a command so that it runs in a network of its own, and that
        network's /proc directory; needs root."""
        argv = ["unshare", "--net", "sh", "-c", "ip link set lo up && echo && exec sleep 1000"]
        with background(argv, stdout=subprocess.PIPE) as holder:
            if not holder.stdout.readline():
                raise RuntimeError("no network namespace: run it as root")
            yield ["nsenter", f"--net=/proc/{holder.pid}/ns/net"], f"/proc/{holder.pid}/net"

    @contextlib.contextmanager
    def nodes(self, count, within=(), has_gossip=False):
        """So many nodes with 8 slots that see each other, by a members file or by gossip: (the
        options that reach the first, the processes)."""
        with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
            key, members = (os.path.join(directory, name) for name in ("key", "members.json"))
            subprocess.run([self.tfc_run, "keygen", key], check=True, capture_output=True)
            names = [f"n{i}" for i in range(count)]
            with open(members, "w") as file:
                json.dump({"members": [{"name": name, "address": f"tcp://127.0.0.1:{7500 + i}"}
                                       for i, name in enumerate(names)]}, file)
            started = [stack.enter_context(background(
                [*within, self.tfc_run, "node", "--quiet", "--json", "--name", name,
                 *(["--gossip", f"127.0.0.1:{7500 + i}", *["--join", "127.0.0.1:7500"][:2 * i]]
                   if has_gossip else ["--members", members]), "--key", key,
                 "--state", os.path.join(directory, name), "--temp-dir", directory,
                 "--slots", "8", "--label",
                 f"node={name}", "--ports",
                 f"{23000 + 100 * i}-{23099 + 100 * i}"], env=self.environ,
                stdout=subprocess.PIPE, text=True)) for i, name in enumerate(names)]
            for node in started:
                alive = set()
                while len(alive) < count - 1:
                    event = json.loads(node.stdout.readline())
                    if event.get("state") == "alive":
                        alive.add(event["name"])
            yield ["--gateway", "tcp://127.0.0.1:7500", "--key", key], started

    def ready_after(self, argv):
        """Milliseconds until all tasks of a job are ready; then it is stopped."""
        begin = time.monotonic()
        took = None
        with background(argv, stdout=subprocess.PIPE, env=self.environ, text=True) as process:
            for line in process.stdout:
                event = json.loads(line)
                if event.get("event") == "job" and event["state"] == "running":
                    took = (time.monotonic() - begin) * 1e3
                    process.send_signal(signal.SIGINT)
        return took

    def run(self):
        job = ["--json", "--framework", "none", "--worker", "24", "--", "sleep", "1000"]
        took = {"nodes": [], "local": []}
        with self.nodes(3) as (reach, _):
            for _ in range(7):
                took["nodes"].append(self.ready_after(
                    [self.tfc_run, "start", *reach, "--stop-on-interrupt", *job]))
                took["local"].append(self.ready_after([self.tfc_run, "local", *job]))
        self.table.add("start to all ready, 3 nodes x 8 tasks", spread(took["nodes"], "ms"),
                       "24 tasks, tfc_run local " + spread(took["local"], "ms"),
                       ratio(took["nodes"], took["local"]), "-", None)
        self.bench_idle_cluster()

    def bench_idle_cluster(self):
        if os.geteuid() != 0:
            self.table.add("idle node in a cluster of 3", "-", "needs root", "-", "-", None)
            return
        with self.network() as (within, proc), self.nodes(3, within) as (_, hosts):
            time.sleep(2)  # what follows a start is over
            pids = [[host.pid, *descendants_of(host.pid)] for host in hosts]
            before = [[switches(pid) for pid in node] for node in pids]
            sent = loopback_bytes(proc)
            time.sleep(IDLE_SECONDS)
            sent = loopback_bytes(proc) - sent
            woken = [sum(switches(pid) for pid in node) - sum(was)
                     for node, was in zip(pids, before)]
        minutes = IDLE_SECONDS / 60
        self.table.add("idle node in a cluster of 3, sent per minute",
                       f"{sent / len(hosts) / minutes / 1024:.1f} KiB",
                       "probes of 2 others each second, packets and all", "-", "-", None)
        self.table.add("idle node in a cluster of 3, wake-ups per minute",
                       spread([count / minutes for count in woken], "", 0),
                       "its guard included", "-", "-", None)


class KilledNode(Cluster):
    """The node that runs a job's only task is killed, and the task starts on the next one."""

    KILLS = 5

    def run(self):
        obedient, deaf = "exec sleep 1000", "trap '' TERM; while :; do sleep 0.1; done"
        took = {}
        with self.nodes(2 * self.KILLS + 3) as (reach, started):
            pids = [node.pid for node in started]
            # n0 maintains the jobs and runs none of their tasks.
            subprocess.run([self.tfc_run, "drain", *reach, "n0"], check=True, capture_output=True)
            for _ in range(self.KILLS):  # a job each: restarts of the same one are delayed
                for what, script in (("obedient", obedient), ("deaf", deaf)):
                    took.setdefault(what, []).append(self.kill_node(reach, pids, script, False))
            took["lease"] = [self.kill_node(reach, pids, obedient, True)]
        lease = f"guard killed as well: {took['lease'][0][0] / 1e3:.1f} s"
        self.table.add("last task of a killed node ended -> next attempt ordered",
                       spread([reaped for _, reaped in took["obedient"] + took["deaf"]], "ms"),
                       lease, "-", "p50 <= 300 ms",
                       statistics.median(reaped for _, reaped in took["obedient"] + took["deaf"]) <= 300)
        for what, program in (("obedient", "obeys TERM"), ("deaf", "ignores TERM")):
            self.table.add(f"node killed -> next attempt ordered elsewhere, task {program}",
                           spread([killed for killed, _ in took[what]], "ms"), lease, "-", "-", None)
        self.bench_ways_of_the_will()

    def bench_ways_of_the_will(self):
        """Nodes with gossip; the packets that bring the last will in one way or the other are dropped."""
        title = "last task ended -> next attempt ordered, last will only in datagrams"
        if os.geteuid() != 0:
            self.table.add(title, "-", "needs root", "-", "-", None)
            return
        # A will begins with 89544643 0103; a tcp header has 32 bytes.
        ways = {"datagrams": "tcp dport 7500 @th,256,48 0x895446430103 drop",
                "tcp": "udp dport 7500 @th,64,48 0x895446430103 drop"}
        took = {way: [] for way in ways}
        with self.network() as (within, _), \
                self.nodes(2 * self.KILLS + 3, within, has_gossip=True) as (reach, started):
            def run(*command):
                subprocess.run([*within, *command], check=True, capture_output=True)
            run(self.tfc_run, "drain", *reach, "n0")
            run("nft", "add table inet bench; add chain inet bench out { type filter hook output priority 0; }")
            for _ in range(self.KILLS):
                for way, rule in ways.items():
                    run("nft", f"flush chain inet bench out; add rule inet bench out {rule}")
                    took[way].append(self.kill_node(reach, [node.pid for node in started], "exec sleep 1000", False,
                                                    within)[1])
        self.table.add(title, spread(took["datagrams"], "ms"), "only over tcp " + spread(took["tcp"], "ms"),
                       ratio(took["datagrams"], took["tcp"]), "-", None)

    def kill_node(self, reach, pids, script, with_guard, within=()):
        """Milliseconds from the kill, and from the end of the task, until the next attempt is ordered."""
        command = [*within, self.tfc_run, "start", *reach, "--stop-on-interrupt", "--json", "--framework", "none",
                   "--restart-on", "failure", "--", "/bin/sh", "-c", script]
        with background(command, stdout=subprocess.PIPE, env=self.environ, text=True) as job:
            ready = self.await_task(job, "ready")
            node = pids[int(ready["node"][1:])]
            if with_guard:
                for pid in descendants_of(node):
                    if name_of(pid) == "tfc-guard":
                        os.kill(pid, signal.SIGKILL)
            task = os.pidfd_open(ready["pid"])
            os.kill(node, signal.SIGKILL)
            killed = time.time()
            select.select([task], [], [])
            ended = time.time()
            os.close(task)
            event = self.await_task(job, "starting")
            ordered = datetime.datetime.fromisoformat(event["time"]).timestamp()
            job.send_signal(signal.SIGINT)
            job.stdout.read()
        return (ordered - killed) * 1e3, (ordered - ended) * 1e3

    @staticmethod
    def await_task(job, state):
        for line in job.stdout:
            event = json.loads(line)
            if (event.get("event"), event.get("state")) == ("task", state):
                return event
        raise RuntimeError(f"the job's task never was {state}")


class Relay(Cluster):
    def run(self):
        """A subscriber at the node of the job, and at another one, which passes all on."""
        rates = {"own": [], "other": []}
        with self.nodes(2) as (reach, _):
            job = self.print_lines(60, *reach, "--label", "node=n0")
            for _ in range(5):
                for name, port in (("own", 7500), ("other", 7501)):
                    rates[name].append(self.subscribe(f"tcp://127.0.0.1:{port}", reach[-1], job))
        self.table.add("one subscriber, lines of 100 B, through another node (tcp)",
                       spread(rates["other"], "MB/s", 0),
                       "at the job's node " + spread(rates["own"], "MB/s", 0),
                       ratio(rates["other"], rates["own"]), "-", None)


def loopback_bytes(proc):
    """All bytes sent over the loopback, of a network's /proc directory."""
    with open(os.path.join(proc, "dev")) as file:
        return int(re.search(r"^\s*lo:\s*(\d+)", file.read(), re.MULTILINE).group(1))
