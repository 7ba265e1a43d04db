"""Three nodes on addresses of the loopback, for the tests of clients. They are ended by pid, and leave nothing."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import tfcluster as tfc

READY_S = 20


def free_port(host: str) -> int:
    with socket.socket() as free:
        free.bind((host, 0))
        return int(free.getsockname()[1])


class Cluster:
    """Runs `tfc_run node` (variable TFC_RUN) once for each name. `gateway` has the addresses of all nodes."""

    def __init__(self, names: str = "abc") -> None:
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="tfc-python-"))
        self.addresses = {name: f"127.0.0.{at + 1}" for at, name in enumerate(names)}
        self.ports = {name: free_port(host) for name, host in self.addresses.items()}
        self.key = self.directory / "key"
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        members = [{"name": name, "address": self.address(name)} for name in names]
        (self.directory / "members.json").write_text(json.dumps({"members": members}))
        subprocess.run([os.environ["TFC_RUN"], "keygen", self.key], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        self.gateway = ",".join(self.address(name) for name in names)
        for name in names:
            self.start(name)
        self.await_alive()

    def address(self, name: str) -> str:
        return f"tcp://{self.addresses[name]}:{self.ports[name]}"

    def start(self, name: str) -> None:
        log = self.directory / f"{name}.log"
        environment = {**os.environ, "TFC_HELPER_DIR": os.environ["TFCLUSTER_HELPER_DIR"]}
        with open(log, "ab") as out:
            self.nodes[name] = subprocess.Popen(
                [os.environ["TFC_RUN"], "node", "--name", name, "--members", self.directory / "members.json", "--key",
                 self.key, "--state", self.directory / name, "--submit-user", "root", "--lease", "4"],
                stdout=out, stderr=out, env=environment)
        deadline = time.monotonic() + READY_S
        while f"node {name} is ready".encode() not in log.read_bytes():
            if time.monotonic() > deadline or self.nodes[name].poll() is not None:
                raise AssertionError(log.read_text())
            time.sleep(0.02)

    def await_alive(self) -> None:
        """Waits until each node that runs sees all others."""
        deadline = time.monotonic() + READY_S
        for name in self.nodes:
            with tfc.connect(self.address(name), key=self.key) as client:
                while any(member.state != "alive" for member in client.members()):
                    if time.monotonic() > deadline:
                        raise AssertionError(f"node {name} sees {client.members()}")
                    time.sleep(0.02)

    def restart(self, name: str) -> None:
        self.start(name)
        self.await_alive()

    def kill(self, name: str) -> None:
        self.nodes[name].send_signal(signal.SIGKILL)
        self.nodes[name].wait()

    def close(self) -> None:
        for node in self.nodes.values():
            if node.poll() is None:
                node.terminate()
        for node in self.nodes.values():
            try:
                node.wait(30)
            except subprocess.TimeoutExpired:
                node.kill()
                node.wait()
        shutil.rmtree(self.directory)
