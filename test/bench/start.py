"""Rows: how fast many tasks are launched, and a dead one is restarted."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time

from measure import Bench, background, faster, percentile, quotient, ratio, spread, torchrun

NUMBER_OF_TASKS = 1000
RESTARTS = 60
TORCHRUN_TASKS = 32


class Launch(Bench):
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
        """Until all programs have run and ended, as supervisord's own log says."""
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
                time.sleep(0.05)  # the log of a program that reports to nobody
        return None

    def run(self):
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
                           ratio(figures[kind], figures["bare"]), "<= 1.2x",
                           quotient(figures[kind], figures["bare"]) <= 1.2)
        for peer in ("mpirun", "supervisord"):
            done = [value for value in figures[peer] if value is not None]
            hung = len(figures[peer]) - len(done)
            name = peer + (f" ({hung} of {len(figures[peer])} hung or failed)" if hung else "")
            self.table.add(f"{what}, job", spread(figures["job"], "ms"),
                           f"{name} {spread(done, 'ms')}" if done else name,
                           faster(figures["job"], done) if done else "-", ">= 10x faster",
                           quotient(done, figures["job"]) >= 10 if done else None)
        self.bench_torchrun(figures["job"])

    def bench_torchrun(self, ours):
        """Per task, for it would take half a minute for as many as ours."""
        what = "launch and reap, per task"
        mine = [value / NUMBER_OF_TASKS for value in ours]
        argv = torchrun()
        if not argv:
            self.table.add(what, spread(mine, "ms", 2), "torchrun: not installed", "-",
                           ">= 10x faster", None)
            return
        self.run_torchrun(argv, 1)  # the first one reads PyTorch from the disk
        took = []
        for _ in range(5):  # the difference is without its own start
            alone = self.run_torchrun(argv, 1)
            took.append((self.run_torchrun(argv, 1 + TORCHRUN_TASKS) - alone) / TORCHRUN_TASKS)
        is_clear = min(took) > 0
        self.table.add(what, spread(mine, "ms", 2), "torchrun " + spread(took, "ms", 2),
                       faster(mine, took) if is_clear else "its start varies by more",
                       ">= 10x faster", quotient(took, mine) >= 10 if is_clear else None)

    def run_torchrun(self, argv, count):
        """In milliseconds."""
        with tempfile.TemporaryDirectory() as directory:
            begin = time.monotonic()
            subprocess.run([*argv, "--no_python", f"--nproc_per_node={count}", self.task, "exit"],
                           check=True, capture_output=True, timeout=120,
                           env=dict(os.environ, TMPDIR=directory))
            return (time.monotonic() - begin) * 1e3


class Restart(Bench):
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

    def run(self):
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
                time.sleep(1.3)  # it has run long enough
                for name in contenders:
                    begin = time.monotonic_ns()
                    os.kill(pids[name], signal.SIGKILL)
                    pid, at = map(int, readers[name].readline().split())
                    took[name].append((at - begin) / 1e6)
                    pids[name] = pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids["bare"], signal.SIGKILL)  # nobody else ends it
        for peer, label, goal in (("bare", "bare pidfd loop", 1.3), ("runsv", "runsv", None),
                                  ("supervisord", "supervisord", None)):
            factor = percentile(took["ours"], .5) / percentile(took[peer], .5)
            self.table.add(
                "SIGKILL to next attempt, p50 / p99",
                "{:.2f} / {:.2f} ms".format(percentile(took["ours"], .5),
                                            percentile(took["ours"], .99)),
                "{} {:.2f} / {:.2f} ms".format(label, percentile(took[peer], .5),
                                               percentile(took[peer], .99)),
                f"{factor:.2f}x", f"p50 <= {goal}x" if goal else "-",
                factor <= goal if goal else None)
