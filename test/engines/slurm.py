"""A Slurm cluster of this machine alone: munged, slurmctld and three slurmd, in a directory of their own, on free
ports. Needs root, and Debian's slurmctld, slurmd, slurm-client and munge."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

for folder in ("run", "lib"):
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / folder))
import processes
from harness import find_ports, wait_until

NODES = 3
CPUS = 4  # of each node, by its own account; the machine may have fewer
PROGRAMS = ("munged", "slurmctld", "slurmd")

CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/munge.socket,cred_expire=5
SlurmctldPort={port}
SlurmctldPidFile={dir}/slurmctld.pid
SlurmctldLogFile={dir}/slurmctld.log
StateSaveLocation={dir}/state
SlurmdPidFile={dir}/%n.pid
SlurmdLogFile={dir}/%n.log
SlurmdSpoolDir={dir}/spool-%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
KillWait=10
OverTimeLimit=0
InactiveLimit=0
NodeName=n[0-{last}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last_port}] CPUs={cpus} RealMemory=2000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing():
    """Why the cluster cannot run here; None: it can."""
    if os.geteuid() != 0:
        return "only root can run slurmctld and slurmd for a test"
    path = os.environ["PATH"] + ":/usr/sbin"
    absent = [name for name in (*PROGRAMS, "srun") if not shutil.which(name, path=path)]
    return f"not installed: {', '.join(absent)}" if absent else None


def is_running(pid):
    """And no zombie, which a killed parent has left to this process."""
    return processes.stat(pid)[:1] not in ([], ["Z"])


class Slurm:
    def __init__(self, cpus=CPUS):
        self.dir = tempfile.mkdtemp(prefix="slurm-test-")
        self.daemons = {}
        port = find_ports()
        conf = pathlib.Path(self.dir, "slurm.conf")
        conf.write_text(CONF.format(host=socket.gethostname(), dir=self.dir, port=port, first=port + 1,
                                    last=NODES - 1, last_port=port + NODES, cpus=cpus), encoding="ascii")
        for name in ("state", *(f"spool-n{i}" for i in range(NODES))):
            os.mkdir(os.path.join(self.dir, name), 0o700)
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        self.env |= {"SLURM_CONF": str(conf), "PATH": os.environ["PATH"] + ":/usr/sbin"}

    def start(self):
        key = pathlib.Path(self.dir, "munge.key")
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self._daemon("munged", "munged", "--foreground", "--force", f"--key-file={key}", "--num-threads=2",
                     f"--socket={self.dir}/munge.socket", f"--pid-file={self.dir}/munge.pid",
                     f"--seed-file={self.dir}/munge.seed", f"--log-file={self.dir}/munge.log")
        wait_until(lambda: os.path.exists(f"{self.dir}/munge.socket"), "the socket of munged")
        self._daemon("slurmctld", "slurmctld", "-D")
        for i in range(NODES):
            self.start_node(i)
        wait_until(lambda: self.states() == ["idle"] * NODES, "the nodes of Slurm")

    def start_node(self, i):
        self._daemon(f"n{i}", "slurmd", "-D", "-N", f"n{i}")

    def _daemon(self, name, *command):
        with open(f"{self.dir}/{name}.out", "ab") as out:
            self.daemons[name] = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=out,
                                                  stderr=out, start_new_session=True)

    def run(self, *command, **options):
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=60, check=False, **options)

    def output(self, *command):
        done = self.run(*command)
        if done.returncode:
            raise AssertionError(f"{command}: {done.stderr}")
        return done.stdout.strip()

    def states(self):
        done = self.run("sinfo", "-h", "-N", "-o", "%T")
        return [line.rstrip("*") for line in done.stdout.split()] if done.returncode == 0 else []

    def jobs(self):
        return self.output("squeue", "-h", "-o", "%i").split()

    def logs(self):
        return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-3000:]}"
                         for path in sorted(pathlib.Path(self.dir).glob("*.log")))

    def stop(self):
        for job in self.jobs() if "slurmctld" in self.daemons else []:
            self.run("scancel", "--signal=KILL", job)
        for daemon in reversed(list(self.daemons.values())):
            daemon.terminate()
            try:
                daemon.wait(30)
            except subprocess.TimeoutExpired:
                daemon.send_signal(signal.SIGKILL)
                daemon.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
