"""How short a lease could be when every fifth packet is lost: renewals over tcp, and in datagrams beside it.

The kernel's tcp, with the options of lib/transport/tcp.c, on a loopback that drops packets at random. The exchange is
that of lib/node/remote_agent.c: request, stamp, renewal; the next request a tenth of the lease after the stamp, and at
once when there was no stamp for a third of it. In datagrams the requests do not wait for each other.
A lease of L ends too early when a renewal arrives more than L after the stamp of the renewal before it.
"""
import collections
import contextlib
import heapq
import math
import os
import select
import socket
import struct
import subprocess
import sys
import time

from measure import Bench, background

LOSS = 20  # percent
PAIRS = 100  # of each interval
INTERVALS = (1.0, 0.5, 0.25)  # s
SECONDS = 240
GOAL = 1e-6  # early ends an hour
TCP_THIN_LINEAR_TIMEOUTS, TCP_RTO_MAX_MS = 16, 44
OPTIONS = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1),
           (socket.IPPROTO_TCP, TCP_RTO_MAX_MS, 1000), (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 20000))
MESSAGE = struct.Struct("<cd")  # kind, stamp


class Ages:
    """How long before each renewal the stamp of the one before it was made: the lease that it needed."""

    def __init__(self):
        self.newest = None
        self.needed = []

    def renew(self, stamp, now):
        if self.newest is None:
            self.newest = stamp
        elif stamp > self.newest:
            self.needed.append(now - self.newest)
            self.newest = stamp


class Pair:
    """A maintainer and a node. Sockets are known by what they receive: requests and renewals at the node, stamps at the
    maintainer."""

    def __init__(self, loop, interval):
        self.loop, self.interval = loop, interval
        self.ages = {way: Ages() for way in ("tcp", "datagrams", "both")}
        self.breaks = 0
        self.buffers = collections.defaultdict(bytes)
        self.requests = 0
        self.ends = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
        for end in self.ends:
            end.bind(("127.0.0.1", 0))
            end.setblocking(False)
        self.ends[0].connect(self.ends[1].getsockname())
        self.ends[1].connect(self.ends[0].getsockname())
        for end in self.ends:
            loop.watch(end, self.receive_datagram)
        loop.at(interval, self.request_in_datagram)
        self.streams = []
        self.dial()

    # ---- datagrams

    def request_in_datagram(self):
        self.loop.at(self.interval, self.request_in_datagram)
        self.post(self.ends[0], b"?", 0)

    @staticmethod
    def post(end, kind, stamp):
        with contextlib.suppress(OSError):
            end.send(MESSAGE.pack(kind, stamp))

    def receive_datagram(self, end):
        with contextlib.suppress(BlockingIOError):
            self.handle(end, *MESSAGE.unpack(end.recv(64)), "datagrams")

    # ---- tcp

    def dial(self):
        near = socket.socket()
        near.setblocking(False)
        for option in OPTIONS:
            near.setsockopt(*option)
        near.connect_ex(self.loop.listener.getsockname())
        self.loop.dialing[near.getsockname()] = self
        self.streams = [near]
        self.loop.watch(near, self.receive_stream)

    def accepted(self, far):
        far.setblocking(False)
        for option in OPTIONS:
            far.setsockopt(*option)
        self.streams.append(far)
        self.loop.watch(far, self.receive_stream)
        self.request()

    def broken(self, end):
        if end not in self.streams:
            return
        self.breaks += 1
        self.requests += 1  # what was requested is forgotten
        for stream in self.streams:
            self.loop.forget(stream)
            self.buffers.pop(stream, None)
            stream.close()
        self.streams = []
        self.loop.at(0.1, self.dial)

    def request(self):
        if len(self.streams) < 2:
            return
        self.requests += 1
        number = self.requests
        self.loop.at(self.interval * 10 / 3, lambda: number == self.requests and self.request())
        self.post(self.streams[0], b"?", 0)

    def receive_stream(self, end):
        try:
            data = end.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.broken(end)
            return
        data = self.buffers[end] + data
        whole = len(data) // MESSAGE.size * MESSAGE.size
        self.buffers[end] = data[whole:]
        for message in MESSAGE.iter_unpack(data[:whole]):
            self.handle(end, *message, "tcp")

    # ---- both

    def handle(self, end, kind, stamp, way):
        now = time.monotonic()
        if kind == b"?":
            self.post(end, b"!", now)
        elif kind == b"!":
            self.post(end, b"+", stamp)
            if way == "tcp":
                self.requests += 1
                number = self.requests
                self.loop.at(self.interval, lambda: number == self.requests and self.request())
        else:
            for one in (way, "both"):
                self.ages[one].renew(stamp, now)


class Loop:
    def __init__(self):
        self.poll, self.handlers, self.timers, self.dialing, self.count = select.epoll(), {}, [], {}, 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.watch(self.listener, self.accept)

    def watch(self, one, handle):
        self.handlers[one.fileno()] = one, handle
        self.poll.register(one, select.EPOLLIN)

    def forget(self, one):
        del self.handlers[one.fileno()]
        self.poll.unregister(one)

    def at(self, later, do):
        self.count += 1
        heapq.heappush(self.timers, (time.monotonic() + later, self.count, do))

    def accept(self, listener):
        far, address = listener.accept()
        pair = self.dialing.pop(address, None)
        if pair:
            pair.accepted(far)

    def run(self, seconds):
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            while self.timers and self.timers[0][0] <= now:
                heapq.heappop(self.timers)[2]()
            for fd, _ in self.poll.poll(max(0, self.timers[0][0] - time.monotonic()) if self.timers else 1):
                if fd in self.handlers:
                    one, handle = self.handlers[fd]
                    handle(one)


def lease_for_goal(needed, hours):
    """By the line through the logarithms of the rates of the longest ones: from one in 30 to the last ten."""
    needed = sorted(needed, reverse=True)
    points = [(needed[n - 1], math.log(n / hours)) for n in range(10, len(needed) // 30)]
    if len(points) < 10:
        return None
    mean_x, mean_y = (sum(point[i] for point in points) / len(points) for i in (0, 1))
    slope = (sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points))
    return mean_x + (math.log(GOAL) - mean_y) / slope


def main():
    """In a network of its own, which loses packets."""
    loop = Loop()
    seconds = float(sys.argv[1])
    pairs = {interval: [Pair(loop, interval) for _ in range(PAIRS)] for interval in INTERVALS}
    loop.run(seconds)
    hours = PAIRS * seconds / 3600
    for interval, several in pairs.items():
        for way in ("tcp", "datagrams", "both"):
            needed = sorted(age for pair in several for age in pair.ages[way].needed)
            lease = lease_for_goal(needed, hours)
            print(interval, way, *(f"{needed[int(share * (len(needed) - 1))]:.2f}" for share in (0.5, 0.99, 0.999, 1)),
                  f"{lease:.1f}" if lease else "-", sum(pair.breaks for pair in several), flush=True)


class Renewals(Bench):
    def run(self):
        if os.geteuid() != 0:
            self.table.add("lease at 20 % loss", "-", "needs root", "-", "-", None)
            return
        rules = ("add table inet loss; add chain inet loss in { type filter hook input priority 0; }; "
                 f"add rule inet loss in numgen random mod 100 < {LOSS} drop")
        script = f"ip link set lo up && nft '{rules}' && exec {sys.executable} {__file__} {SECONDS}"
        rows = {}
        with background(["unshare", "--net", "sh", "-c", script], stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                interval, way, *figures = line.split()
                rows[interval, way] = figures
        for (interval, way), (p50, p99, p999, longest, lease, breaks) in rows.items():
            self.table.add(f"{LOSS} % loss, renewals every {interval} s, {way}: lease that one needs",
                           f"p50 {p50} s, p99 {p99} s, p99.9 {p999} s, longest {longest} s",
                           f"{breaks} connections lost", "-", f"1e-6 an hour: {lease} s", None)


if __name__ == "__main__":
    main()
