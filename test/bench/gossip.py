"""Rows: membership by gossip, against hashicorp/memberlist. Each member is a process, each fleet has a
network of its own, and the fleets that are compared run at the same time."""

import contextlib
import json
import math
import os
import random
import secrets
import select
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time

from measure import IDLE_SECONDS, background, percentile, quotient, ratio, spread
from nodes import Cluster
from processes import descendants_of, name_of

PORT = 7946
PROBE_MS = 500  # the default of tfc_node_options.probe_ms with gossip
META_BYTES = 64  # about what a node of ours has
VICTIMS = 5
SECONDS_BETWEEN_VICTIMS = 3
SECONDS_AFTER_STALL = 30
SECONDS_OF_START = 5  # what follows a join is over then
SECONDS_UNTIL_IDLE = 25  # connections that nothing uses are closed by then
PATIENCE = 60  # seconds, for all members to know of one, or of each other
OURS, LAN, LOCAL, ENCRYPTED = "ours", "LAN", "Local", f"LAN, encrypted, each {PROBE_MS} ms"


class Fleet:
    """Members of one kind in a network of their own, and what they print."""

    def __init__(self, stack, kind, command, count, loss, network):
        """network: see Cluster.network. command: words before a member's name and port."""
        self.kind, self.count, self.loss = kind, count, loss
        within, self.proc = network
        self.within = within
        self.changed = threading.Condition()
        self.progress = {"started": set(), "ready": set()}
        self.alive, self.complete_at, self.dead_at, self.deaths = {}, {}, {}, []
        self.members = {}
        subprocess.run([*within, "nft", "-f", "-"], text=True, check=True, input=f"""
            table inet bench {{
                chain sent {{
                    type filter hook output priority 0
                    meta l4proto udp counter
                    meta l4proto tcp counter
                }}
                chain received {{
                    type filter hook input priority 0
                    numgen random mod 100 < {loss} drop
                }}
            }}""")
        read, write = os.pipe()
        threading.Thread(target=self.receive, args=[os.fdopen(read)], daemon=True).start()
        stack.callback(self.kill)
        for i in range(count):
            name = f"m{i}"
            self.alive[name] = set()
            self.members[name] = subprocess.Popen(
                [*within, "setpriv", "--pdeathsig", "KILL", *command, name, str(PORT + i)],
                stdin=subprocess.PIPE, stdout=write, text=True, start_new_session=True)
        os.close(write)

    def kill(self):
        for process in self.members.values():
            process.kill()
        for process in self.members.values():
            process.wait()
            process.stdin.close()

    def receive(self, lines):
        """What the members print: thousands of lines a second while they join."""
        with lines:
            for line in lines:
                at, by, event, name = line.split()
                with self.changed:
                    self.note(int(at) / 1e9, by, event, name)
                    self.changed.notify()

    def note(self, at, by, event, name):
        if event in ("started", "ready"):
            self.progress[event].add(by)
        elif event == "alive":
            self.dead_at.pop((by, name), None)
            self.alive[by].add(name)
            if len(self.alive[by]) == self.count - 1:
                self.complete_at[by] = at
        elif event == "dead":
            self.alive[by].discard(name)
            self.dead_at[by, name] = at
            self.deaths.append((at, by, name))

    def wait_for(self, condition, seconds):
        with self.changed:
            return self.changed.wait_for(condition, max(0, seconds))

    def label(self):
        return f"{self.kind}{with_loss(self.loss)}"

    def incomplete(self):
        lacking = [self.count - 1 - len(others) for others in self.alive.values()]
        return (f"{self.label()}: after {PATIENCE} s, {sum(map(bool, lacking))} members do not see "
                f"all others alive, {max(lacking)} at most")

    def wait_for_progress(self, event, count):
        if not self.wait_for(lambda: len(self.progress[event]) >= count, PATIENCE):
            raise RuntimeError(f"{self.kind}: {len(self.progress[event])} of {count} members are "
                               f"{event} after {PATIENCE} s")

    # ---- what is done to it

    def begin(self):
        """All members but the first join through it at once; returns when that began."""
        self.wait_for_progress("started", self.count)
        self.write("m0", 0)
        self.wait_for_progress("ready", 1)
        begun = time.monotonic()
        for name in list(self.members)[1:]:
            self.write(name, PORT)
        return begun

    def write(self, name, port):
        self.members[name].stdin.write(f"{port}\n")
        self.members[name].stdin.flush()

    def is_complete(self):
        return all(len(others) == self.count - 1 for others in self.alive.values())

    def converged_at(self, begun):
        """When all saw all; math.inf: not within PATIENCE."""
        if self.wait_for(self.is_complete, begun + PATIENCE - time.monotonic()):
            return max(self.complete_at.values())
        return math.inf

    def send_signal(self, names, number):
        at = time.monotonic()
        for name in names:
            self.members[name].send_signal(number)
        return at

    def known_after(self, victims, until):
        """For each victim, a name with the time of its end, the seconds until all others knew."""
        others = self.members.keys() - victims.keys()
        self.wait_for(lambda: all((by, name) in self.dead_at for name in victims for by in others),
                      until - time.monotonic())
        with self.changed:
            return [max(self.dead_at.get((by, name), math.inf) for by in others) - at
                    for name, at in victims.items()]

    def died(self, since, others_than):
        """How many members were declared dead, by at least one; others_than: these do not count."""
        with self.changed:
            return len({name for at, _, name in self.deaths
                        if at >= since and name not in others_than})

    def sent(self):
        """IP bytes and packets, of UDP and of TCP."""
        rules = subprocess.run([*self.within, "nft", "list", "chain", "inet", "bench", "sent"],
                               text=True, check=True, capture_output=True).stdout.split()
        return [int(rules[i + 1]) for word in ("bytes", "packets")
                for i, found in enumerate(rules) if found == word]

    def cpu_ms(self):
        """Of all members and what they have started."""
        return sum(cpu_ms(pid) for member in self.members.values()
                   for pid in (member.pid, *descendants_of(member.pid)))


def cpu_ms(pid):
    """proc(5): the first number of schedstat is the time spent on a CPU, in nanoseconds."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e6


def short(seconds):
    return f"{seconds:.2f}" if seconds < math.inf else f"over {PATIENCE}"


def three(seconds):
    """'4.10 / 5.02 / 5.24 s': p50, p99 and the longest."""
    return " / ".join(map(short, (percentile(seconds, .5), percentile(seconds, .99),
                                  max(seconds)))) + " s"


def build_memberlist(program):
    """Returns why it cannot be built, or None."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "memberlist")
    done = subprocess.run(["go", "build", "-o", program, "."], cwd=source, capture_output=True,
                          text=True, timeout=600, check=False)
    return "go build: " + done.stderr.strip().split("\n")[-1] if done.returncode else None


class Gossip(Cluster):
    def run(self):
        with tempfile.TemporaryDirectory() as directory:
            program = os.path.join(directory, "memberlist")
            reason = missing_tool() or build_memberlist(program)
            if reason:
                self.table.add("membership by gossip", "-", reason, "-", "-", None)
                return
            self.directory, self.key = directory, os.path.join(directory, "key")
            subprocess.run([self.tfc_run, "keygen", self.key], check=True, capture_output=True)
            peer = [program, "--meta", str(META_BYTES)]
            self.peers = {
                LAN: peer,
                LOCAL: [*peer, "--local"],
                ENCRYPTED: [*peer, "--key", secrets.token_hex(32), "--interval", str(PROBE_MS)],
            }
            for count in (20, 50, 100) if self.is_full else (50,):
                self.bench_fleets(count, (5, 10, 20) if self.is_full else (20,))
            self.bench_joins(100, 5 if self.is_full else 3)
        self.bench_partner(7)
        self.bench_memory(100, 1000)

    def fleet(self, stack, kind, count, loss=0):
        command = self.peers.get(kind)
        if kind == OURS:
            state = stack.enter_context(tempfile.TemporaryDirectory(dir=self.directory))
            command = [os.path.join(self.bin, "gossip"), self.helpers, self.key, state]
        return Fleet(stack, kind, command, count, loss, stack.enter_context(self.network()))

    def bench_fleets(self, count, stalls):
        chance = random.Random(count)
        with contextlib.ExitStack() as stack:
            fleets = [self.fleet(stack, kind, count, loss)
                      for loss, kinds in ((0, (OURS, LAN, LOCAL, ENCRYPTED)), (10, (OURS, LAN)))
                      for kind in kinds]
            say(f"{len(fleets)} times {count} members join")
            for fleet in fleets:
                if fleet.converged_at(fleet.begin()) == math.inf:
                    say(fleet.incomplete())
            time.sleep(SECONDS_OF_START)
            self.bench_idle(fleets)
            for seconds in stalls:
                self.bench_stall(fleets, seconds, chance)
            self.bench_end(fleets, "silent", signal.SIGSTOP, chance)
            for fleet in fleets:
                fleet.send_signal(fleet.members, signal.SIGCONT)
            wait_until_complete(fleets)
            self.bench_end(fleets, "killed", signal.SIGKILL, chance)

    def bench_idle(self, fleets):
        say(f"{IDLE_SECONDS} s idle")
        fleets = [fleet for fleet in fleets if not fleet.loss]
        before = [(fleet.sent(), fleet.cpu_ms()) for fleet in fleets]
        time.sleep(IDLE_SECONDS)
        sent, cpu = {}, {}
        for fleet, (sent_before, cpu_before) in zip(fleets, before):
            share = fleet.count * IDLE_SECONDS
            cpu[fleet.kind] = (fleet.cpu_ms() - cpu_before) / share
            sent[fleet.kind] = [(now - was) / share for now, was in zip(fleet.sent(), sent_before)]
        what = f"idle member of {fleets[0].count}"
        for kind, limit in ((ENCRYPTED, 1.5), (LAN, None)):
            total = {of: [udp + tcp] for of, (udp, tcp, *_) in sent.items()}
            self.table.add(f"{what}, IP bytes sent", bytes_per_second(*sent[OURS]),
                           f"memberlist {kind} " + bytes_per_second(*sent[kind]),
                           ratio(total[OURS], total[kind]), f"<= {limit}x" if limit else "-",
                           quotient(total[OURS], total[kind]) <= limit if limit else None)
        for kind in (ENCRYPTED, LAN):
            self.table.add(f"{what}, CPU time", f"{cpu[OURS]:.2f} ms/s",
                           f"memberlist {kind} {cpu[kind]:.2f} ms/s",
                           ratio([cpu[OURS]], [cpu[kind]]), "-", None)

    def bench_stall(self, fleets, seconds, chance):
        """A tenth of the members stops for some seconds, and continues."""
        count = fleets[0].count // 10
        say(f"{count} members stall for {seconds} s")
        stalled = victims_of(fleets, count, chance)
        since = [fleet.send_signal(stalled, signal.SIGSTOP) for fleet in fleets]
        time.sleep(seconds)
        for fleet in fleets:
            fleet.send_signal(stalled, signal.SIGCONT)
        time.sleep(SECONDS_AFTER_STALL)
        for loss, rivals in by_loss(fleets, since):
            healthy = {fleet.kind: fleet.died(at, stalled) for fleet, at in rivals}
            words = [f"{fleet.kind} {healthy[fleet.kind]} "
                     f"(stalled: {fleet.died(at, fleet.members.keys() - stalled)})"
                     for fleet, at in rivals]
            least = min(dead for kind, dead in healthy.items() if kind != OURS)
            self.table.add(f"{count} of {fleets[0].count} stalled {seconds} s"
                           f"{with_loss(loss)}: healthy members declared dead",
                           words[0].replace(OURS + " ", ""), "memberlist " + ", ".join(words[1:]),
                           "-", "no more", healthy[OURS] <= least)
        wait_until_complete(fleets)

    def bench_end(self, fleets, what, number, chance):
        """Some members end, one after the other; those that stay know when."""
        say(f"{VICTIMS} members are {what}")
        names = victims_of(fleets, VICTIMS, chance)
        ends = [{} for _ in fleets]
        for name in names:
            for fleet, end in zip(fleets, ends):
                end[name] = fleet.send_signal([name], number)
            time.sleep(SECONDS_BETWEEN_VICTIMS)
        until = time.monotonic() + PATIENCE
        known = [fleet.known_after(end, until) for fleet, end in zip(fleets, ends)]
        for loss, rivals in by_loss(fleets, known):
            (_, ours), *others = rivals
            for fleet, theirs in others:
                quotient_99 = percentile(ours, .99) / percentile(theirs, .99)
                has_goal = what == "silent" and fleet.kind == LAN
                self.table.add(f"1 of {fleet.count} idle members {what}{with_loss(loss)}: known to "
                               "all others, p50 / p99 / longest", three(ours),
                               f"memberlist {fleet.kind} {three(theirs)}", f"{quotient_99:.2f}x",
                               "p99 <= 0.6x" if has_goal else "-",
                               quotient_99 <= 0.6 if has_goal else None)

    def bench_joins(self, count, repetitions):
        took = {OURS: [], LAN: []}
        if self.is_full:
            took |= {LOCAL: [], ENCRYPTED: []}
        for _ in range(repetitions):
            for kind, seconds in took.items():
                with contextlib.ExitStack() as stack:
                    say(f"{count} members join at once: {kind}")
                    fleet = self.fleet(stack, kind, count)
                    begun = fleet.begin()
                    seconds.append(fleet.converged_at(begun) - begun)
        for kind in list(took)[1:]:
            self.table.add(f"{count} join through one at once: all know all", span(took[OURS]),
                           f"memberlist {kind} {span(took[kind])}",
                           ratio(took[OURS], took[kind]), "-", None)


    def bench_partner(self, repetitions):
        """A node is killed that runs a task of another one's job: when the other one knows."""
        say("the node of a task is killed")
        took = []
        for _ in range(repetitions):
            with self.network() as (within, _), \
                    self.nodes(3, within, has_gossip=True) as (reach, (home, victim, other)), \
                    background([*within, self.tfc_run, "start", *reach, "--json", "--framework",
                                "none", "--label", "node=n1", "--", "sleep", "1000"],
                               stdout=subprocess.PIPE, env=self.environ, text=True) as job:
                await_line(job, lambda event: event.get("state") == "running")
                below = [pid for node in (home, victim, other) for pid in descendants_of(node.pid)]
                victim.kill()
                killed = time.monotonic()
                await_line(home, lambda event: event.get("name") == "n1" and
                           event["state"] != "alive")
                took.append((time.monotonic() - killed) * 1e3)
                for process in (job, home, other):  # home would wait for the end of the task
                    process.kill()
                wait_until_ended(below)
        self.table.add("a node is killed: known to the node whose task it ran",
                       spread(took, "ms"), "-", "-", "<= 100 ms", max(took) <= 100)


    def bench_memory(self, few, many):
        """An idle node: what it holds for each other member, and its connections."""
        say(f"a node and {few}, and {many} other members")
        held, connections = {}, []
        for count in (few, many):
            with self.network() as (within, _), self.nodes(1, within, has_gossip=True) as (reach, (node,)), \
                    tempfile.TemporaryDirectory() as state, \
                    background([*within, os.path.join(self.bin, "members"), reach[-1], state, str(count), "20000",
                                "7500"]):
                alive = set()
                await_line(node, lambda event: event.get("state") == "alive" and
                           (alive.add(event["name"]) or len(alive) == count))
                time.sleep(SECONDS_UNTIL_IDLE)
                held[count] = private_bytes(node.pid)
                connections = [count_connections(node.pid) for _ in range(50) if not time.sleep(.2)]
        self.table.add(f"idle node, memory held for each of {many} members",
                       f"{(held[many] - held[few]) / (many - few):.0f} B",
                       f"{held[many] / 1024:.0f} KiB of private memory in all", "-", "-", None)
        self.table.add(f"idle node, connections to {many} members", str(statistics.median(connections)),
                       f"{max(connections)} at most, during an exchange of all members", "-", "0",
                       statistics.median(connections) == 0)


def private_bytes(pid):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return sum(1024 * int(line.split()[1]) for line in file if line.startswith("Private_"))


def count_connections(pid):
    """Established TCP connections of a process."""
    inodes = set()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            inodes.add(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
    with open(f"/proc/{pid}/net/tcp") as table:
        rows = [line.split() for line in list(table)[1:]]
    return sum(row[3] == "01" and f"socket:[{row[9]}]" in inodes for row in rows)


def wait_until_ended(pids):
    """Guards end their tasks and themselves when their node has ended."""
    until = time.monotonic() + PATIENCE
    for pid in pids:
        if name_of(pid).startswith("tfc-"):
            with contextlib.suppress(ProcessLookupError):
                pidfd = os.pidfd_open(pid)
                select.select([pidfd], [], [], max(until - time.monotonic(), 0))
                os.close(pidfd)


def await_line(process, condition):
    """Reads lines of JSON until one meets the condition. One that does not within PATIENCE is an
    error; the process is killed then, which ends its output."""
    timer = threading.Timer(PATIENCE, process.kill)
    timer.start()
    try:
        if not any(condition(json.loads(line)) for line in process.stdout):
            raise RuntimeError("a process ended, or was silent for a minute")
    finally:
        timer.cancel()


def say(text):
    print(f"bench: gossip: {text}", flush=True)


def missing_tool():
    if os.geteuid() != 0:
        return "needs root"
    for name in ("go", "nft", "setpriv"):
        if not shutil.which(name):
            return f"(no {name} here)"
    return None


def victims_of(fleets, count, chance):
    """The same in each fleet; never the first, through which all joined."""
    return set(chance.sample(list(fleets[0].members)[1:], count))


def by_loss(fleets, values):
    """For each loss: [(fleet, its value), ...], ours first."""
    for loss in sorted({fleet.loss for fleet in fleets}):
        yield loss, [(fleet, value) for fleet, value in zip(fleets, values) if fleet.loss == loss]


def wait_until_complete(fleets):
    until = time.monotonic() + PATIENCE
    for fleet in fleets:
        if not fleet.wait_for(fleet.is_complete, until - time.monotonic()):
            say(fleet.incomplete())


def with_loss(loss):
    return f", {loss} % loss" if loss else ""


def bytes_per_second(udp, tcp, udp_packets, tcp_packets):
    return f"{udp:.0f} B/s in {udp_packets:.1f} udp, {tcp:.0f} B/s in {tcp_packets:.1f} tcp packets"


def span(seconds):
    return (f"{short(statistics.median(seconds))} s "
            f"[{short(min(seconds))}..{short(max(seconds))}]")
