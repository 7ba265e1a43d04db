"""Runs the benchmarks side by side and prints one table of ratios.

Every row interleaves the contenders, so that a noisy machine is noisy for all of them; figures are
medians over the repetitions with the range behind them. Nothing here is a test: a missed goal is
printed, not failed.
"""

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

NUMBER_OF_TASKS = 1000
RESTARTS = 60
IDLE_SECONDS = 60
FLOOD_BYTES = 1000000000
TORCHRUN_TASKS = 32


class Table:
    """The rows printed at the end: what, figure, compared with, ratio, goal, whether it is met."""

    def __init__(self):
        self.rows = []

    def add(self, what, figure, against, ratio, goal, is_met):
        """is_met: None where there is nothing to compare."""
        met = "-" if is_met is None else "met" if is_met else "missed"
        self.rows.append((what, figure, against, ratio, goal, met))
        print("  " + " | ".join(self.rows[-1]), flush=True)

    def lines(self):
        head = ("what", "figure", "against", "ratio", "goal", "")
        widths = [max(len(row[i]) for row in [head, *self.rows]) for i in range(len(head))]
        line = "| " + " | ".join("{:<%d}" % width for width in widths) + " |"
        yield line.format(*head)
        yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
        for row in self.rows:
            yield line.format(*row)


def spread(values, unit, digits=1):
    """'12.3 ms [11.0..15.2]' of a list of numbers."""
    median, low, high = (f"{value:.{digits}f}"
                         for value in (statistics.median(values), min(values), max(values)))
    return f"{median} {unit} [{low}..{high}]"


def percentile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def quotient(ours, theirs):
    return statistics.median(ours) / statistics.median(theirs)


def ratio(ours, theirs):
    return "{:.2f}x".format(quotient(ours, theirs))


def faster(ours, theirs):
    return "{:.1f}x faster".format(quotient(theirs, ours))


@contextlib.contextmanager
def background(argv, **options):
    """A process that is ended, by pid, when the block is left."""
    process = subprocess.Popen(argv, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Bench:
    def __init__(self, build):
        self.bin = os.path.join(build, "test", "bench")
        self.helpers = os.path.join(build, "lib")
        self.tfc_run = os.path.join(build, "examples", "tfc_run", "tfc_run")
        self.library = os.path.join(build, "lib", "libtfcluster.so.0")
        self.task = os.path.join(self.bin, "task")
        self.environ = dict(os.environ, TFC_HELPER_DIR=self.helpers)
        self.table = Table()

    # ---- launch

    def launch_ours(self, kind, directory):
        last = os.path.join(self.bin, "bare_shim") if kind == "bare" else self.helpers
        output = subprocess.run(
            [os.path.join(self.bin, "launch"), kind, str(NUMBER_OF_TASKS), directory, last,
             self.task], check=True, capture_output=True, text=True, timeout=120)
        return float(output.stdout)

    def launch_mpirun(self):
        """Milliseconds, or None when it hung: its children reaped, itself polling for ever."""
        argv = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(NUMBER_OF_TASKS),
                self.task, "exit"]
        begin = time.monotonic()
        with open(os.devnull, "w") as null:
            process = subprocess.Popen(argv, stdout=null, stderr=null, start_new_session=True)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return None
        if process.returncode != 0:
            return None
        return (time.monotonic() - begin) * 1e3

    def launch_supervisord(self, directory):
        """Until all programs have run and ended, as supervisord's own log tells."""
        log = os.path.join(directory, "supervisord.log")
        config = os.path.join(directory, "supervisord.conf")
        with open(config, "w") as file:
            file.write(f"[supervisord]\nnodaemon=true\nlogfile={log}\n"
                       f"pidfile={directory}/supervisord.pid\nchildlogdir={directory}\n"
                       f"minfds=8192\n"
                       f"[program:task]\ncommand={self.task} exit\nnumprocs={NUMBER_OF_TASKS}\n"
                       f"process_name=%(process_num)d\nstartsecs=0\nautorestart=false\n"
                       f"startretries=0\n")
        begin = time.monotonic()
        with open(os.devnull, "w") as null, \
                background(["supervisord", "-c", config], stdout=null, stderr=null):
            while time.monotonic() < begin + 120:
                with contextlib.suppress(FileNotFoundError), open(log) as file:
                    if file.read().count("INFO exited:") >= NUMBER_OF_TASKS:
                        return (time.monotonic() - begin) * 1e3
                time.sleep(0.05)
        return None

    def bench_launch(self):
        figures = {"bare": [], "process": [], "job": [], "mpirun": [], "supervisord": []}
        for repetition in range(5):
            for kind in ("bare", "process", "job"):
                with tempfile.TemporaryDirectory() as directory:
                    figures[kind].append(self.launch_ours(kind, directory))
            if repetition < 2:
                figures["mpirun"].append(self.launch_mpirun())
                with tempfile.TemporaryDirectory() as directory:
                    figures["supervisord"].append(self.launch_supervisord(directory))
        what = f"launch {NUMBER_OF_TASKS} tasks and reap"
        for kind in ("process", "job"):
            self.table.add(f"{what}, {kind}", spread(figures[kind], "ms"),
                           "bare loop " + spread(figures["bare"], "ms"),
                           ratio(figures[kind], figures["bare"]), "<= 1.3x",
                           quotient(figures[kind], figures["bare"]) <= 1.3)
        for peer in ("mpirun", "supervisord"):
            done = [value for value in figures[peer] if value is not None]
            hung = len(figures[peer]) - len(done)
            name = peer + (f" ({hung} of {len(figures[peer])} hung or failed)" if hung else "")
            self.table.add(f"{what}, job", spread(figures["job"], "ms"),
                           f"{name} {spread(done, 'ms')}" if done else name,
                           faster(figures["job"], done) if done else "-", ">= 20x faster",
                           quotient(done, figures["job"]) >= 20 if done else None)
        self.bench_torchrun(figures["job"])

    def bench_torchrun(self, ours):
        """Per task, for it would take half a minute for as many as ours."""
        what = "launch and reap, per task"
        mine = [value / NUMBER_OF_TASKS for value in ours]
        if not importlib.util.find_spec("torch"):
            self.table.add(what, spread(mine, "ms", 2), "torchrun: not installed", "-",
                           ">= 20x faster", None)
            return
        argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python"]
        took = []
        for _ in range(3):
            durations = []
            for count in (1, 1 + TORCHRUN_TASKS):  # the difference is without its own start
                begin = time.monotonic()
                subprocess.run([*argv, f"--nproc-per-node={count}", self.task, "exit"], check=True,
                               capture_output=True, timeout=120)
                durations.append(time.monotonic() - begin)
            took.append((durations[1] - durations[0]) * 1e3 / TORCHRUN_TASKS)
        self.table.add(what, spread(mine, "ms", 2), "torchrun " + spread(took, "ms", 2),
                       faster(mine, took), ">= 20x faster", quotient(took, mine) >= 20)

    # ---- restart

    @contextlib.contextmanager
    def beating(self, argv, **options):
        """A supervisor whose task beats into a fifo: yields the fifo's reading end."""
        with tempfile.TemporaryDirectory() as directory, open(os.devnull, "w") as null:
            fifo = os.path.join(directory, "fifo")
            os.mkfifo(fifo)
            reader = os.fdopen(os.open(fifo, os.O_RDWR), "r")
            with reader, background(argv(directory, fifo), stdout=null, stderr=null, **options):
                yield reader

    def argv_bare(self, directory, fifo):
        return [os.path.join(self.bin, "bare_restart"), self.task, "beat", fifo]

    def argv_ours(self, directory, fifo):
        job = os.path.join(directory, "job.json")
        with open(job, "w") as file:
            json.dump({"framework": "none", "argv": [self.task, "beat", fifo],
                       "roles": {"worker": {}}, "cwd": directory,
                       "restart": {"max": 100000, "backoff_s": [0, 0]}}, file)
        return [self.tfc_run, "local", "--quiet", "--job", job]

    def argv_runsv(self, directory, fifo):
        service = os.path.join(directory, "service")
        os.mkdir(service)
        with open(os.path.join(service, "run"), "w") as file:
            file.write(f"#!/bin/sh\nexec {self.task} beat {fifo}\n")
        os.chmod(os.path.join(service, "run"), 0o755)
        return ["runsv", service]

    def argv_supervisord(self, directory, fifo):
        config = os.path.join(directory, "supervisord.conf")
        with open(config, "w") as file:
            file.write(f"[supervisord]\nnodaemon=true\nlogfile={directory}/log\n"
                       f"pidfile={directory}/pid\nchildlogdir={directory}\n"
                       f"[program:task]\ncommand={self.task} beat {fifo}\nstartsecs=0\n"
                       f"autorestart=true\n")
        return ["supervisord", "-c", config]

    def bench_restart(self):
        """All run at once and are killed in turns, each after at least the uptime that runsv wants
        before it restarts without a pause."""
        contenders = ("bare", "ours", "runsv", "supervisord")
        took = {name: [] for name in contenders}
        with contextlib.ExitStack() as stack:
            readers = {name: stack.enter_context(
                self.beating(getattr(self, "argv_" + name), env=self.environ))
                for name in contenders}
            pids = {name: int(readers[name].readline().split()[0]) for name in contenders}
            for _ in range(RESTARTS):
                time.sleep(1.3)
                for name in contenders:
                    begin = time.monotonic_ns()
                    os.kill(pids[name], signal.SIGKILL)
                    pid, at = map(int, readers[name].readline().split())
                    took[name].append((at - begin) / 1e6)
                    pids[name] = pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids["bare"], signal.SIGKILL)  # nobody else ends it
        for peer, label in (("bare", "bare pidfd loop"), ("runsv", "runsv"),
                            ("supervisord", "supervisord")):
            self.table.add(
                "SIGKILL to next attempt, p50 / p99",
                "{:.2f} / {:.2f} ms".format(percentile(took["ours"], .5),
                                            percentile(took["ours"], .99)),
                "{} {:.2f} / {:.2f} ms".format(label, percentile(took[peer], .5),
                                               percentile(took[peer], .99)),
                ratio(took["ours"], took[peer]), "p50 <= 1 ms",
                percentile(took["ours"], .5) <= 1)

    # ---- ports

    def bench_port(self):
        output = subprocess.run([os.path.join(self.bin, "port")], check=True, text=True,
                                capture_output=True).stdout
        words = dict(zip(output.split()[::2], output.split()[1::2]))
        self.table.add("acquire and release a port",
                       "{:.1f} us".format(float(words["port_acquire_ns"]) / 1e3),
                       "bind + close {:.1f} us".format(float(words["bare_ns"]) / 1e3),
                       "{:.2f}x".format(float(words["ratio"])), "<= 1.3x",
                       float(words["ratio"]) <= 1.3)

    # ---- logs

    def log_ours(self, directory, size):
        output = subprocess.run(
            [os.path.join(self.bin, "logs"), directory, self.helpers, self.task, str(FLOOD_BYTES),
             str(size)], check=True, capture_output=True, text=True, timeout=300)
        return float(output.stdout) / 1e3

    def log_cat(self, directory, size):
        begin = time.monotonic()
        with open(os.path.join(directory, "log"), "wb") as log:
            cat = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log)
            subprocess.run([self.task, "flood", str(FLOOD_BYTES), str(size)], stdout=cat.stdin,
                           check=True)
            cat.stdin.close()
            cat.wait()
        return time.monotonic() - begin

    def bench_logs(self):
        for size in (4096, 65536):
            rates = {"ours": [], "cat": []}
            for _ in range(7):
                for name, measure in (("ours", self.log_ours), ("cat", self.log_cat)):
                    with tempfile.TemporaryDirectory() as directory:
                        rates[name].append(FLOOD_BYTES / measure(directory, size) / 1e6)
            self.table.add(f"output into a rotated log, {size // 1024} KiB a write",
                           spread(rates["ours"], "MB/s", 0),
                           "cat from a pipe to a file " + spread(rates["cat"], "MB/s", 0),
                           ratio(rates["ours"], rates["cat"]), ">= 0.5x",
                           quotient(rates["ours"], rates["cat"]) >= 0.5)

    # ---- subscriptions

    def subscribe(self, *words):
        return float(subprocess.run([os.path.join(self.bin, "subscribe"), *words], check=True,
                                    text=True, capture_output=True, timeout=120).stdout.split()[0])

    @contextlib.contextmanager
    def node_with_output(self, megabytes):
        """A node, a job on it that has printed lines of 100 bytes, its addresses and its key."""
        program = os.path.join(os.path.dirname(self.helpers), "examples/tfc_run/tfc_run")
        environment = dict(os.environ, TFC_HELPER_DIR=self.helpers)
        with tempfile.TemporaryDirectory() as directory, socket.socket() as probe:
            key, state = (os.path.join(directory, name) for name in ("key", "state"))
            probe.bind(("127.0.0.1", 0))
            tcp = "tcp://127.0.0.1:%d" % probe.getsockname()[1]
            probe.close()
            unix = f"unix:{state}/node.sock"
            subprocess.run([program, "keygen", key], check=True)
            node = subprocess.Popen([program, "node", "--name", "bench", "--state", state, "--listen",
                                     tcp, "--key", key, "--json"], env=environment,
                                    stdout=subprocess.PIPE)
            try:
                node.stdout.readline()
                script = f"head -c {megabytes}000000 /dev/zero | tr '\\000' x | fold -w 99"
                out = subprocess.run([program, "start", "--gateway", unix, "--framework", "none",
                                      "--cwd", "/", "--", "/bin/sh", "-c", script], check=True,
                                     env=environment, capture_output=True).stdout
                yield {"unix": (unix, "-"), "tcp": (tcp, key)}, out[:16].decode(), state
            finally:
                node.terminate()
                node.wait()
                node.stdout.close()

    # ---- bundles

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

    def bench_bundle(self):
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
                       "cp and sha256sum " + spread(cp, "s"), ratio(ours, cp), "-", True)
        self.table.add("longest dispatch meanwhile", f"{max(turns):.1f} ms",
                       f"its CPU time {max(cpu):.1f} ms", "-", "CPU <= 10 ms", max(cpu) <= 10)

    def bench_subscribe(self):
        rates = {"local": [], "unix": [], "tcp": [], "wc": []}
        with self.node_with_output(60) as (addresses, job, state):
            logs = os.path.join(state, "logs", job)
            files = [os.path.join(logs, name) for name in os.listdir(logs)]
            for _ in range(5):
                rates["local"].append(self.subscribe("local", self.helpers, "60"))
                for kind in ("unix", "tcp"):
                    rates[kind].append(self.subscribe(*addresses[kind], job))
                begin = time.monotonic()
                subprocess.run(["wc", "-l", *files], check=True, capture_output=True)
                rates["wc"].append(60 / (time.monotonic() - begin))
        for kind, where in (("local", "in the process of the node"),
                            ("unix", "from a node, plain (unix)"),
                            ("tcp", "from a node, encrypted (tcp)")):
            self.table.add(f"one subscriber, lines of 100 B, {where}", spread(rates[kind], "MB/s", 0),
                           "wc -l of the log " + spread(rates["wc"], "MB/s", 0),
                           ratio(rates[kind], rates["wc"]), "-", None)

    # ---- calls

    def rpc(self, *words):
        return float(subprocess.run([os.path.join(self.bin, "rpc"), *words], check=True, text=True,
                                    capture_output=True, timeout=120).stdout)

    @contextlib.contextmanager
    def grpc_trip(self):
        """A function that measures grpc-go's round trip on a layout, or None without go."""
        if not shutil.which("go"):
            yield None
            return
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "grpc_trip")
        with tempfile.TemporaryDirectory() as directory:
            program = os.path.join(directory, "grpc_trip")
            subprocess.run(["go", "build", "-o", program, "."], cwd=source, check=True,
                           capture_output=True, timeout=600)
            yield lambda layout: float(subprocess.run(
                ["taskset", "-c", "0", program, "trip", "1" if layout == "two" else "0"],
                check=True, text=True, capture_output=True, timeout=120).stdout)

    def bench_rpc(self):
        with self.grpc_trip() as grpc_trip:
            for layout, where in (("same", "on one core"), ("two", "on two cores")):
                took = {"raw": [], "plain": [], "noise": [], "grpc": []}
                for _ in range(5):
                    for kind in ("raw", "plain", "noise"):
                        took[kind].append(self.rpc("trip", kind, layout))
                    if grpc_trip:
                        took["grpc"].append(grpc_trip(layout))
                self.add_trips(took, where)
        self.bench_bulk()

    def add_trips(self, took, where):
        for kind, name, goal in (("plain", "plain", 1.5), ("noise", "encrypted", 2)):
            self.table.add(f"call of 64 B and back, {name}, {where}", spread(took[kind], "us"),
                           "raw TCP with epoll " + spread(took["raw"], "us"),
                           ratio(took[kind], took["raw"]), f"<= {goal}x",
                           quotient(took[kind], took["raw"]) <= goal)
        self.table.add(f"call of 64 B and back, plain, {where}", spread(took["plain"], "us"),
                       "grpc-go " + (spread(took["grpc"], "us") if took["grpc"]
                                     else "(no go here)"),
                       faster(took["plain"], took["grpc"]) if took["grpc"] else "-",
                       ">= 4x faster",
                       quotient(took["grpc"], took["plain"]) >= 4 if took["grpc"] else None)

    def bench_bulk(self):
        """Between two processes the kernel's copies weigh as much as the cipher, so the goal is for
        both ends in one process, whose CPU time is counted."""
        rates = {"memory": [], "seal": [], "plain": [], "noise": []}
        for _ in range(5):
            for kind in ("memory", "seal"):
                rates[kind].append(self.rpc("bulk", kind, "same") / 1e6)
            for kind in ("plain", "noise"):
                rates[kind].append(self.rpc("bulk", kind, "two") / 1e6)
        self.table.add("encrypted bulk, both ends in one process",
                       spread(rates["memory"], "MB/s", 0),
                       "libsodium, seal and open " + spread(rates["seal"], "MB/s", 0),
                       ratio(rates["memory"], rates["seal"]), ">= 0.8x",
                       quotient(rates["memory"], rates["seal"]) >= 0.8)
        self.table.add("encrypted bulk over TCP, on two cores", spread(rates["noise"], "MB/s", 0),
                       "plain " + spread(rates["plain"], "MB/s", 0),
                       ratio(rates["noise"], rates["plain"]), "-", None)

    # ---- several nodes

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
    def nodes(self, count, within=()):
        """So many nodes with 8 slots that see each other: (the options that reach them, pids)."""
        with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
            key, members = (os.path.join(directory, name) for name in ("key", "members.json"))
            subprocess.run([self.tfc_run, "keygen", key], check=True, capture_output=True)
            names = [f"n{i}" for i in range(count)]
            with open(members, "w") as file:
                json.dump({"members": [{"name": name, "address": f"tcp://127.0.0.1:{7500 + i}"}
                                       for i, name in enumerate(names)]}, file)
            started = [stack.enter_context(background(
                [*within, self.tfc_run, "node", "--quiet", "--json", "--name", name,
                 "--members", members, "--key", key,
                 "--state", os.path.join(directory, name), "--slots", "8", "--ports",
                 f"{23000 + 100 * i}-{23099 + 100 * i}"], env=self.environ,
                stdout=subprocess.PIPE, text=True)) for i, name in enumerate(names)]
            for node in started:
                alive = set()
                while len(alive) < count - 1:
                    event = json.loads(node.stdout.readline())
                    if event.get("state") == "alive":
                        alive.add(event["name"])
            yield ["--gateway", "tcp://127.0.0.1:7500", "--key", key], [n.pid for n in started]

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

    def bench_cluster(self):
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
            pids = [[host, *descendants(host)] for host in hosts]
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

    # ---- idle

    @contextlib.contextmanager
    def sleeping_tasks(self, count):
        """tfc_run with that many sleeping tasks, all of them ready."""
        argv = [self.tfc_run, "local", "--json", "--framework", "none", "--worker", str(count),
                "--", "sleep", "1000"]
        with background(argv, stdout=subprocess.PIPE, env=self.environ, text=True) as process:
            for line in process.stdout:
                event = json.loads(line)
                if event.get("event") == "job" and event["state"] == "running":
                    break
            time.sleep(0.5)  # what follows a start is over
            yield process.pid

    def bench_idle(self):
        with self.sleeping_tasks(100) as host:
            pids = [host, *(pid for pid in descendants(host) if "tfc-" in comm(pid))]
            before = {pid: switches(pid) for pid in pids}
            time.sleep(IDLE_SECONDS)
            after = {pid: switches(pid) for pid in pids}
        woken = sum(after[pid] - before[pid] for pid in pids)
        self.table.add(f"wake-ups in {IDLE_SECONDS} s, idle node with 100 tasks", str(woken),
                       f"{len(pids)} processes: host, guard, shims", "-", "0", woken == 0)

    # ---- size

    def bench_size(self):
        with tempfile.TemporaryDirectory() as directory:
            stripped = os.path.join(directory, "libtfcluster.so")
            subprocess.run(["strip", "-o", stripped, self.library], check=True)
            own = os.path.getsize(stripped)
        closure = subprocess.run(["ldd", self.library], check=True, text=True,
                                 capture_output=True).stdout
        names = [line.split()[0] for line in closure.splitlines() if "=>" in line]
        self.table.add("libtfcluster.so stripped", f"{own // 1024} KiB", " ".join(names), "-",
                       "<= 400 KB", own <= 400 << 10)
        with self.sleeping_tasks(10) as host:
            shims = [rss(pid) for pid in descendants(host) if comm(pid) == "tfc-shim"]
            guards = [rss(pid) for pid in descendants(host) if comm(pid) == "tfc-guard"]
            node = rss(host)
        self.table.add("RSS of a shim", f"{statistics.median(shims):.0f} KiB", "-", "-",
                       "<= 100 KB with musl", statistics.median(shims) <= 100)
        self.table.add("RSS of a node with 10 tasks", f"{node} KiB",
                       f"its guard {guards[0]} KiB", "-", "<= 8 MB", node <= 8 << 10)

    # ---- training

    def bench_train(self):
        """kill -9 of one of two mirrored workers until the first new step."""
        script = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "tensorflow",
                              "mirrored.py")
        took = []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as directory:
                took.append(self.training_gap(script, directory))
        self.table.add("kill -9 of a mirrored worker to the first new step", spread(took, "s"),
                       "TensorFlow alone: never", "-", "<= 5 s cold",
                       statistics.median(took) <= 5)

    def training_gap(self, script, directory):
        argv = [self.tfc_run, "local", "--json", "--worker", "2", "--", sys.executable, script,
                "--checkpoint-dir", directory, "--steps", "100000", "--report-every", "1"]
        pids, killed = {}, None
        with background(argv, stdout=subprocess.PIPE, env=self.environ, text=True) as process:
            for line in process.stdout:
                event = json.loads(line)
                if event["event"] == "task" and event.get("pid"):
                    pids[event["task"]] = event["pid"]
                step = re.match(r"step=(\d+)", event.get("text", ""))
                if event["event"] != "output" or not step:
                    continue
                if killed is None and int(step.group(1)) >= 50:
                    killed = time.monotonic()
                    os.kill(pids["worker/1"], signal.SIGKILL)
                elif killed is not None and event["attempt"] == 2:
                    return time.monotonic() - killed
        raise RuntimeError("the training ended before it was killed")


def loopback_bytes(proc):
    """All bytes sent over the loopback, of a network's /proc directory."""
    with open(os.path.join(proc, "dev")) as file:
        return int(re.search(r"^\s*lo:\s*(\d+)", file.read(), re.MULTILINE).group(1))


def comm(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as file:
        return file.read().strip()
    return ""


def descendants(root):
    found = []
    for pid in children(root):
        found += [pid, *descendants(pid)]
    return found


def children(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]
    return []


def status(pid, key):
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(rf"^{key}:\s+(\d+)", file.read(), re.MULTILINE).group(1))


def switches(pid):
    return status(pid, "voluntary_ctxt_switches")


def rss(pid):
    return status(pid, "VmRSS")


# ---- the published page


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
                python_version("torch"), first_line("mpirun", "--version"),
                package_version("supervisor"), package_version("runit"), package_version("musl")]
    yield f"- {os.cpu_count()} cores ({model.group(1) if model else 'unknown'}{virtual}), " \
          f"{memory} GiB, Linux {kernel}; load at the beginning {os.getloadavg()[0]:.1f}"
    yield "- " + "; ".join(version for version in versions if version)
    yield f"- `test/bench/run.sh --markdown{''.join(' ' + name for name in names)}`, " \
          f"{time.strftime('%Y-%m-%d', time.gmtime())}"


PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "doc", "benchmarks.md")
BEGIN, END = "<!-- measured: test/bench/run.sh --markdown -->\n", "<!-- end -->\n"


def publish(lines):
    """Puts the lines into the page, in place of those that were measured before."""
    with open(PAGE) as file:
        page = file.read()
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    with open(PAGE, "w") as file:
        file.write(head + BEGIN + "\n".join(lines) + "\n" + END + tail)


def main():
    names = ["launch", "restart", "port", "logs", "subscribe", "bundle", "rpc", "cluster", "idle", "size",
             "train"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--markdown", action="store_true",
                        help="also put the table into doc/benchmarks.md")
    parser.add_argument("rows", nargs="*", default=[], help="of " + " ".join(names))
    options = parser.parse_args()
    bench = Bench(options.build)
    lines = [*surroundings(options.rows), ""]
    for name in options.rows or names:
        print(f"bench: {name}", flush=True)
        getattr(bench, "bench_" + name)()
    lines += bench.table.lines()
    print("\n" + "\n".join(lines))
    if options.markdown:
        publish(lines)


if __name__ == "__main__":
    main()
