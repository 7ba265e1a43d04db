"""Several hosts on this one: network namespaces on a bridge, whose links can be cut, lossy and slow.

    with world.World(3) as net:
        net.hosts[0].start(["tfc_run", "node", ...])   # a process on that host
        net.cut(net.hosts[1])                          # its cable is out
        net.heal(net.hosts[1])
        net.cut_one_way(net.hosts[0], net.hosts[2])    # what 0 sends to 2 is lost, not the answers
        net.loosen(net.hosts[2], loss=0.2, delay=0.01) # a relay in user space loses and delays frames
        net.hosts[1].break_connections(net.hosts[0])   # those between the two are reset

The kernel's netem is not needed. All of it is gone at the end, also after a failure and when the test
itself is killed: a process of its own waits for the end of the test, kills by pid what runs on the
hosts, and deletes the namespaces and with them their interfaces. Needs root.
"""
import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
NET = "10.86.0"
LISTENS = "0A"  # state TCP_LISTEN in /proc/net/tcp


def is_possible():
    return os.geteuid() == 0


def ip(*words, netns=None):
    command = ["ip", *(["-n", netns] if netns else []), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def in_namespace(name, do):
    """Calls do() on a thread that has entered the network namespace; sockets it opens stay there."""
    result = []

    def enter():
        with open(f"/run/netns/{name}") as file:
            if LIBC.setns(file.fileno(), CLONE_NEWNET) < 0:
                result.append(OSError(ctypes.get_errno(), f"cannot enter {name}"))
                return
        try:
            result.append(do())
        except OSError as error:
            result.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if isinstance(result[0], Exception):
        raise result[0]
    return result[0]


def without_offload(interface):
    """Frames as they would be on a wire: whole checksums, one MTU each (linux/ethtool.h)."""
    set_tx_checksum, set_tso, set_gso, set_gro = 0x17, 0x1f, 0x24, 0x2c
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in (set_gso, set_tso, set_gro, set_tx_checksum):
            value = ctypes.create_string_buffer(struct.pack("=II", command, 0))
            request = struct.pack("16sP16x", interface.encode(), ctypes.addressof(value))
            try:
                fcntl.ioctl(control, 0x8946, request)  # SIOCETHTOOL
            except OSError:
                if command == set_tx_checksum:
                    raise


class Host:
    def __init__(self, world, number):
        self.world = world
        self.number = number
        self.name = f"h{number}"
        self.netns = f"{world.prefix}-{self.name}"
        self.address = f"{NET}.{number + 1}"
        self.processes = []

    def start(self, argv, **popen):
        """A process on this host; the caller reads and waits, the world ends what is left."""
        popen.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen(["ip", "netns", "exec", self.netns, *argv], **popen)
        self.processes.append(process)
        return process

    def call(self, argv, timeout=60, **popen):
        """Runs a program to its end: (status, stdout, stderr)."""
        process = self.start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **popen)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"{argv} did not end in {timeout} s: "
                                 f"{err.decode(errors='replace')}") from None
        return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")

    def pids(self):
        """All processes of this host."""
        return [int(pid) for pid in ip("netns", "pids", self.netns).split()]

    def listeners(self):
        """Ports of this host on which somebody listens."""
        def read():
            ports = set()
            for name in ("tcp", "tcp6"):
                with open(f"/proc/thread-self/net/{name}") as file:
                    ports |= {int(line.split()[1].rsplit(":", 1)[1], 16)
                              for line in file.readlines()[1:] if line.split()[3] == LISTENS}
            return ports
        return in_namespace(self.netns, read)

    def break_connections(self, other):
        """Resets the TCP connections between this host and another, at both ends; how many. None:
        this kernel lets nobody do that (CONFIG_INET_DIAG_DESTROY)."""
        show = ["ip", "netns", "exec", self.netns, "ss", "-H", "-t", "state", "established", "dst",
                other.address]
        there = subprocess.run(show, capture_output=True, text=True, timeout=30, check=True)
        broken = subprocess.run([*show[:5], "-K", *show[5:]], capture_output=True, text=True,
                                timeout=30, check=False)
        count = len(broken.stdout.splitlines())
        return None if there.stdout and not count else count

    def is_free(self, port):
        """Whether nobody holds or listens on a port; TIME_WAIT of old connections is no one."""
        def bind():
            with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("::", port))
                    probe.listen()
                except OSError:
                    return False
            return True
        return in_namespace(self.netns, bind)


ARP = bytes.fromhex("0806")


class Relay(threading.Thread):
    """Carries frames between two interfaces of the switch, some of them late or never. ARP gets
    through: the kernel asks three times, and then there is no such host, which is another fault."""

    def __init__(self, netns, names, loss, delay, seed):
        super().__init__(daemon=True)
        self.random = random.Random(seed)
        self.loss = loss
        self.delay = delay
        self.dropped = self.carried = 0
        self.sockets = in_namespace(netns, lambda: [self.open(name) for name in names])
        self.stop_read, self.stop_write = os.pipe()

    @staticmethod
    def open(name):
        every_protocol = 3
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(every_protocol))
        raw.bind((name, every_protocol))
        raw.setblocking(False)
        return raw

    def take(self, source, target, late):
        outgoing = 4
        while True:
            try:
                frame, origin = source.recvfrom(65535)
            except BlockingIOError:
                return
            if origin[2] == outgoing:
                continue
            if frame[12:14] != ARP and self.random.random() < self.loss:
                self.dropped += 1
                continue
            self.carried += 1
            heapq.heappush(late, (time.monotonic() + self.delay, self.carried, target, frame))

    def run(self):
        one, other = self.sockets
        late = []
        while True:
            wait = max(0, late[0][0] - time.monotonic()) if late else None
            ready, _, _ = select.select([one, other, self.stop_read], [], [], wait)
            if self.stop_read in ready:
                return
            for source in ready:
                self.take(source, other if source is one else one, late)
            while late and late[0][0] <= time.monotonic():
                _, _, target, frame = heapq.heappop(late)
                try:
                    target.send(frame)
                except OSError:
                    self.dropped += 1

    def close(self):
        os.write(self.stop_write, b"x")
        self.join()
        for sock in self.sockets:
            sock.close()
        os.close(self.stop_read)
        os.close(self.stop_write)


class World:
    def __init__(self, count, seed=1):
        self.prefix = f"tfc{os.getpid() % 100000:05d}"
        self.switch = f"{self.prefix}-switch"
        self.seed = seed
        self.relays = {}
        self.sweeper = None
        self.hosts = [Host(self, number) for number in range(count)]

    def __enter__(self):
        # Of another session: the signal that ends the test's process group does not end it.
        self.sweeper = subprocess.Popen([sys.executable, __file__, self.prefix], stdin=subprocess.PIPE,
                                        start_new_session=True)
        try:
            self.add_namespace(self.switch)
            ip("link", "add", "bridge", "type", "bridge", netns=self.switch)
            ip("link", "set", "bridge", "up", netns=self.switch)
            for host in self.hosts:
                self.add_host(host)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def add_namespace(self, name):
        ip("netns", "add", name)
        ip("link", "set", "lo", "up", netns=name)

    def add_host(self, host):
        self.add_namespace(host.netns)
        ip("link", "add", host.name, "type", "veth", "peer", "name", "eth0", "netns", host.netns,
           netns=self.switch)
        for netns, interface in ((self.switch, host.name), (host.netns, "eth0")):
            in_namespace(netns, lambda name=interface: without_offload(name))
        ip("link", "set", host.name, "master", "bridge", "up", netns=self.switch)
        ip("address", "add", f"{host.address}/24", "dev", "eth0", netns=host.netns)
        ip("link", "set", "eth0", "up", netns=host.netns)

    def cut(self, host):
        ip("link", "set", host.name, "down", netns=self.switch)

    def heal(self, host):
        ip("link", "set", host.name, "up", netns=self.switch)

    def cut_one_way(self, sender, receiver):
        ip("route", "add", "blackhole", f"{receiver.address}/32", netns=sender.netns)

    def heal_one_way(self, sender, receiver):
        ip("route", "del", "blackhole", f"{receiver.address}/32", netns=sender.netns)

    def loosen(self, host, loss=0.0, delay=0.0):
        """From now on a relay carries the host's frames; again: with other losses."""
        relay = self.relays.get(host.name)
        if relay:
            relay.loss, relay.delay = loss, delay
            return relay
        near, far = f"{host.name}-near", f"{host.name}-far"
        ip("link", "add", near, "type", "veth", "peer", "name", far, netns=self.switch)
        for name in (near, far):
            in_namespace(self.switch, lambda name=name: without_offload(name))
        ip("link", "set", host.name, "nomaster", netns=self.switch)
        ip("link", "set", far, "master", "bridge", "up", netns=self.switch)
        ip("link", "set", near, "up", netns=self.switch)
        relay = Relay(self.switch, (host.name, near), loss, delay, f"{self.seed}/{host.name}")
        self.relays[host.name] = relay
        relay.start()
        return relay

    def close(self):
        for relay in self.relays.values():
            relay.close()
        self.relays = {}
        if self.sweeper:
            self.sweeper.communicate(timeout=60)
            self.sweeper = None
        for process in [process for host in self.hosts for process in host.processes]:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                pass
            for stream in (process.stdout, process.stderr):
                if stream:
                    stream.close()


def sweep(prefix):
    """Ends all hosts of a world. Nothing of a host outlives it: twice, for what is started meanwhile."""
    for netns in [name for name in os.listdir("/run/netns") if name.startswith(f"{prefix}-")]:
        for _ in range(2):
            for pid in map(int, ip("netns", "pids", netns).split()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        ip("netns", "del", netns)


if __name__ == "__main__":
    sys.stdin.read()  # until the test ends, in whatever way
    sweep(sys.argv[1])
