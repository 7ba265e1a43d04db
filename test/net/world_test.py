"""The hosts of these tests are hosts: they reach each other, and do not when a link is cut."""
import errno
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import world

FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent / "lib"))
import processes

SERVE = """
import socket
server = socket.create_server(("", 4000))
print("up", flush=True)
while True:
    peer, _ = server.accept()
    try:
        while data := peer.recv(65536):
            peer.sendall(data)
    except ConnectionError:
        pass
"""
ASK = """
import socket, sys
peer = socket.create_connection((sys.argv[1], 4000), timeout=float(sys.argv[2]))
sent = int(sys.argv[3])
peer.sendall(bytes(sent))
while sent:
    sent -= len(peer.recv(65536))
"""

HOLD = """
import socket, sys
peer = socket.create_connection((sys.argv[1], 4000))
peer.sendall(b"x")
peer.recv(1)
print("connected", flush=True)
try:
    peer.recv(1)
except OSError as error:
    print(error.errno, flush=True)
"""

KILLED = """
import time
import world
with world.World(1) as net:
    print(net.hosts[0].start(["sleep", "1000"], start_new_session=True).pid, flush=True)
    time.sleep(100)
"""


def namespaces_of(pid):
    """Those of the world that a process has made."""
    return [name for name in os.listdir("/run/netns") if name.startswith(f"tfc{pid % 100000:05d}-")]


class WorldTest(unittest.TestCase):
    def setUp(self):
        self.net = world.World(3)
        self.addCleanup(self.net.close)
        self.net.__enter__()
        self.one, self.other, self.third = self.net.hosts
        server = self.other.start([sys.executable, "-c", SERVE], stdout=subprocess.PIPE)
        self.assertEqual(server.stdout.readline(), b"up\n")

    def await_true(self, condition, what):
        """No event comes of what another process does."""
        end = time.monotonic() + 20
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.01)

    def reaches(self, host, timeout=0.5, size=10):
        status, _, _ = host.call([sys.executable, "-c", ASK, self.other.address, str(timeout),
                                  str(size)])
        return status == 0

    def test_hosts_reach_each_other_until_the_link_is_cut(self):
        self.assertTrue(self.reaches(self.one, 5))
        self.net.cut(self.other)
        self.assertFalse(self.reaches(self.one))
        self.net.heal(self.other)
        self.assertTrue(self.reaches(self.one, 5))

    def test_one_way_cut_leaves_the_others_alone(self):
        self.net.cut_one_way(self.one, self.other)
        self.assertFalse(self.reaches(self.one))
        self.assertTrue(self.reaches(self.third, 5))
        self.net.heal_one_way(self.one, self.other)
        self.assertTrue(self.reaches(self.one, 5))

    def test_broken_connection_is_reset_and_another_one_made(self):
        for host in (self.one, self.other):
            peer = self.one.start([sys.executable, "-c", HOLD, self.other.address],
                                  stdout=subprocess.PIPE)
            self.assertEqual(peer.stdout.readline(), b"connected\n")
            count = host.break_connections(self.other if host is self.one else self.one)
            if count is None:
                self.skipTest("the kernel destroys no connections")
            self.assertEqual(count, 1)
            self.assertIn(int(peer.stdout.readline()), (errno.ECONNABORTED, errno.ECONNRESET))
            self.assertTrue(self.reaches(self.third, 5))

    def test_relay_loses_what_it_should_and_tcp_gets_through(self):
        relay = self.net.loosen(self.other, loss=0.2, delay=0.002)
        self.assertTrue(self.reaches(self.one, 30, 40000))
        self.assertGreater(relay.dropped, 0)
        self.net.loosen(self.other, loss=1.0)
        self.assertFalse(self.reaches(self.one))

    def test_nothing_is_left_of_a_world(self):
        sleeper = self.one.start(["sleep", "1000"])
        self.assertIn(4000, self.other.listeners())
        self.assertFalse(self.other.is_free(4000))
        self.assertTrue(self.other.is_free(4001))
        self.net.close()
        self.assertIsNotNone(sleeper.returncode)
        self.assertEqual(namespaces_of(os.getpid()), [])

    def test_nothing_is_left_of_a_test_that_is_killed(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number.name), subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE,
                                                             start_new_session=True, cwd=FOLDER) as test:
                sleeper = int(test.stdout.readline())
                self.await_true(lambda pid=sleeper: processes.name_of(pid) == "sleep", "the process on the host")
                self.assertEqual(len(namespaces_of(test.pid)), 2)
                os.killpg(test.pid, number)
                self.await_true(lambda pid=sleeper: processes.name_of(pid) != "sleep", "the end of that process")
                self.await_true(lambda pid=test.pid: not namespaces_of(pid), "the end of the hosts")


if __name__ == "__main__":
    if not world.is_possible():
        print("network namespaces need root")
        sys.exit(77)
    unittest.main()
