"""Rows: how fast many tasks start on the nodes of a Slurm allocation."""

import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time

from measure import Bench, quotient, ratio, spread

NUMBER_OF_TASKS = 1000
REPETITIONS = 3


class Allocation(Bench):
    def first_instructions(self, cluster, argv):
        """Milliseconds until the last task has run its first instruction, which it reports to a fifo."""
        with tempfile.TemporaryDirectory() as directory:
            fifo = os.path.join(directory, "fifo")
            os.mkfifo(fifo)
            reader = os.open(fifo, os.O_RDWR)
            begin = time.monotonic()
            with open(os.path.join(directory, "err"), "wb") as err:
                process = subprocess.Popen([*argv(directory), self.task, "beat", fifo], env=cluster.env, cwd=directory,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)
            beats = b""
            while beats.count(b"\n") < NUMBER_OF_TASKS:
                ready, _, _ = select.select([reader], [], [], 1)
                if ready:
                    beats += os.read(reader, 1 << 16)
                elif process.poll() is not None:
                    raise RuntimeError(pathlib.Path(directory, "err").read_text(encoding="utf-8"))
            end = max(int(line.split()[1]) for line in beats.splitlines()) / 1e9
            os.close(reader)
            for job in cluster.jobs():
                cluster.run("scancel", "--signal=KILL", "--full", job)
            process.wait(120)
            return (end - begin) * 1e3

    def run(self):
        os.environ.setdefault("TFC_RUN", self.tfc_run)
        os.environ.setdefault("TFC_HELPER_DIR", self.helpers)
        for folder in ("run", "engines"):
            sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / folder))
        import slurm
        what = f"start {NUMBER_OF_TASKS} tasks on three nodes of Slurm, with `tfc_run allocation`"
        reason = slurm.missing()
        if reason:
            self.table.add(what, reason, "srun", "-", "< 1x", None)
            return
        per_node = -(-NUMBER_OF_TASKS // slurm.NODES)
        cluster = slurm.Slurm(cpus=per_node)

        def ours(directory):
            return ["srun", "-N", str(slurm.NODES), "--ntasks-per-node", "1", self.tfc_run, "allocation", "--rendezvous",
                    directory, "--slots", str(per_node), "--framework", "none", "--quiet", "--worker", str(NUMBER_OF_TASKS),
                    "--ports", "20000-21999"]

        def theirs(directory):
            return ["srun", "-N", str(slurm.NODES), "-n", str(NUMBER_OF_TASKS)]

        figures = {ours: [], theirs: []}
        try:
            cluster.start()
            for _ in range(REPETITIONS):
                for argv, values in figures.items():
                    values.append(self.first_instructions(cluster, argv))
        finally:
            cluster.stop()
        self.table.add(what, spread(figures[ours], "ms"), f"srun -n {NUMBER_OF_TASKS} " + spread(figures[theirs], "ms"),
                       ratio(figures[ours], figures[theirs]), "<= 1x", quotient(figures[ours], figures[theirs]) <= 1)
