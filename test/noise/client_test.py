"""Whole sessions of nodes with a client that was written from the pages about the wire alone."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import unittest

if not all(importlib.util.find_spec(name) for name in ("noise", "msgpack")):
    print("noiseprotocol or msgpack is not installed here (-Dnoise_python=...)")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "run"))
import harness
import node_test
import wire_client
from wire_client import Connection, Ended, Failure, Place, Refused, lines_of

EINVAL, ENOTSUP, EPARSE, ENOENT, EACCES = -1, -3, -7, -10, -13
OUTPUT, END, LIVE = 3, 5, 7  # enum tfc_event_kind
SUCCEEDED, FAILED = 6, 7     # enum tfc_job_state
LINES = 200000               # of output: many items


def result(connection, method, **params):
    """A result that is a map, in binary data."""
    return wire_client.msgpack.unpackb(connection.call(method, params))


def definition(script):
    return json.dumps({"name": "spoken", "framework": "none", "argv": ["/bin/sh", "-c", script],
                       "roles": {"worker": {"count": 1, "ready": "started"}}})


class WireTest(node_test.NodeTest):
    """Node "a" with keys of all roles."""

    names = "a"

    def setUp(self):
        super().setUp()
        self.write_members(self.names)
        text = ""
        for role in ("node", "submit", "read"):
            self.run_bare("keygen", role, "--role", role)
            text += pathlib.Path(self.dir, role).read_text()
        self.write("key", text, 0o600)
        self.node("a", *(["--submit-user", "root"] if os.getuid() == 0 else []))

    def tcp(self, role, **options):
        key = wire_client.read_key(os.path.join(self.dir, "key"), role)
        connection = Connection("tcp", ("127.0.0.1", self.first_port), key, **options)
        self.addCleanup(connection.close)
        return connection

    def unix(self, **options):
        connection = Connection("unix", os.path.join(self.dir, "state-a", "node.sock"), **options)
        self.addCleanup(connection.close)
        return connection

    def assert_fails(self, code, connection, method, params=None):
        with self.assertRaises(Failure) as failed:
            connection.call(method, params)
        self.assertEqual(failed.exception.code, code, failed.exception)
        self.assertTrue(str(failed.exception))

    def assert_ends(self, connection):
        connection.await_end()
        self.unix().call("gateway.jobs", {})  # and nothing else has


class GatewayTest(WireTest):
    def walk_a_job(self, connection):
        self.assertEqual(result(connection, "gateway.jobs"), {"jobs": [], "not_asked": []})
        job = connection.call("gateway.submit", {
            "definition": definition(r"echo out; printf 'err \377' >&2; exit 3"),
            "key": "once", "tag": b"\0mine"})
        self.assertRegex(job, "^[0-9a-f]{16}$")
        events = []

        def take(item):
            self.assertEqual((item[0]["job"], item[0]["name"], item[0]["tag"]),
                             (job, "spoken", b"\0mine"))
            events.extend(item[1:])
        self.assertIsNone(connection.call("gateway.subscribe", {"job": job}, credit=1, on_item=take))
        output = {(line.is_stderr, line.text) for event in events if event["k"] == OUTPUT for line in lines_of(event)}
        self.assertEqual(output, {(False, b"out"), (True, b"err \xff")})
        end = events[-1]
        self.assertEqual((end["k"], end["js"], end["r"], end["st"], end["tt"]),
                         (END, FAILED, 1, 3, "worker"))
        self.assertEqual(sorted(end["lt"], key=str), [b"err \xff", "out"])  # text, where it is
        listed = result(connection, "gateway.jobs")
        self.assertEqual([one["job"] for one in listed["jobs"]], [job])
        described = result(connection, "gateway.describe", job=job[:9])
        self.assertEqual((described["job"], described["tag"], described["exit_code"]),
                         (job, b"\0mine", 3))
        self.assertEqual([task["tt"] for task in described["tasks"]], ["worker"])
        again = connection.call("gateway.submit", {
            "definition": definition(r"echo out; printf 'err \377' >&2; exit 3"), "key": "once"})
        self.assertEqual(again, job)
        return job

    def test_a_job_is_submitted_and_read_to_its_end_over_tcp(self):
        self.walk_a_job(self.tcp("submit"))

    def test_the_same_over_unix(self):
        connection = self.unix()
        job = self.walk_a_job(connection)
        self.assertEqual(connection.call("gateway.find", {"job": job[:3]})["prefix"], job)
        self.assertEqual(connection.call("gateway.forget", {"job": job}), job)
        self.assert_fails(ENOENT, connection, "gateway.describe", {"job": job})
        members = result(connection, "gateway.members")["members"]
        self.assertEqual([one["name"] for one in members], ["a"])
        plan = result(connection, "gateway.explain", definition=definition("true"))
        self.assertEqual(plan["tasks"][0]["argv"], ["/bin/sh", "-c", "true"])

    def test_a_cursor_that_the_client_makes_goes_on_behind_what_it_has(self):
        submitter = self.tcp("submit")
        job = submitter.call("gateway.submit", {"definition": definition(f"seq 1 {LINES}")})
        place, lines, items = Place(), [], []

        def take(item, stop_at):
            """Up to a line, which may be in the middle of a batch."""
            items.append(item)
            for event in item[1:]:
                if event["k"] != OUTPUT:
                    place.take(event)
                    continue
                for line in lines_of(event):
                    place.take(event, line.piece)
                    lines.append(int(line.text))
                    if len(lines) == stop_at:
                        return
                self.assertEqual(line.piece, event["mc"])
        connections = 0
        while not items or items[-1][-1].get("k") != END or len(lines) < LINES:
            connection = self.tcp("read")
            connections += 1
            number = connection.begin("gateway.subscribe", {"job": job, "key": place.cursor()},
                                      credit=3)
            for i in range(3):
                kind, its_number, item = connection.receive()[:3]
                self.assertEqual((kind, its_number), (wire_client.ITEM, number))
                take(item, len(lines) + 77 if i == 2 else None)
                if item[-1].get("k") == END:
                    break
            connection.close()
        self.assertGreater(connections, 2)
        self.assertEqual(lines, list(range(1, LINES + 1)))
        self.assertEqual(items[-1][-1]["js"], SUCCEEDED)

    def test_a_running_job_is_live_then_stopped(self):
        connection = self.tcp("submit")
        job = connection.call("gateway.submit", {"definition": definition("exec sleep 600")})
        kinds = []

        def take(item):
            kinds.extend(event["k"] for event in item[1:])
            if LIVE in [event["k"] for event in item[1:]]:
                stop = {"job": job, "kill": True}
                self.assertEqual(self.tcp("submit").call("gateway.stop", stop), job)
        connection.call("gateway.subscribe", {"job": job, "live": True, "without_output": True}, credit=8, on_item=take)
        self.assertEqual(kinds[-1], END)
        self.assertEqual(kinds.count(LIVE), 1)


class AgentTest(WireTest):
    names = "ab"  # the test plays "b"

    def hello(self, connection, **changed):
        return connection.call("node.hello", {
            "protocol": 2, "version": 0x000300, "name": "b", "node_id": connection.node_id,
            "boot_id": "0123456789abcdef", "labels": ["rack=1"], **changed})

    def test_a_member_runs_a_task_on_a_node(self):
        connection = self.tcp("node")
        self.assert_fails(EACCES, connection, "agent.stamp", {"instance": 5})
        said = self.hello(connection)
        self.assertEqual((said["protocol"], said["name"]), (2, "a"))
        self.assertIsNone(connection.call("node.ping"))
        stamp = connection.call("agent.stamp", {"instance": 5})["stamp"]
        connection.notify("agent.renew", {"instance": 5, "name": "b", "stamp": stamp,
                                          "lease_ms": 60000})
        stay = connection.begin("agent.stay", {"instance": 5}, credit=1000)
        job = {"instance": 5, "handle": 1, "id": "0123456789abcdef"}
        opened = connection.call("agent.open", {
            **job, "epoch": 1, "received": 0, "job": definition("echo here; exit 7"), "tag": b""})
        self.assertEqual((opened["state"], opened.get("received", 0)), ("open", 0))
        sent = []

        def order(kind, **fields):
            sent.append(kind)
            connection.notify("agent.msg", {
                "instance": 5, "handle": 1, "ack": 0, "n": len(sent),
                "body": {"order": kind, "task": 0, **fields}})

        def event(kind):
            """The next event, which is of this kind; acknowledgements may come between."""
            while True:
                what, number, item = connection.kept.pop(0) if connection.kept else \
                    connection.receive()
                self.assertEqual((what, number, item["handle"]), (wire_client.ITEM, stay, 1))
                if "body" in item:
                    self.assertEqual(item["body"]["event"], kind, item)
                    return item["body"]
        order(2, number=9)
        held = event(1)
        self.assertEqual(held["number"], 9)
        order(4, generation=1, spec=[["worker", 0, held.get("address") or "127.0.0.1:1"]])
        order(5, attempt=1, generation=1)
        self.assertGreater(event(3)["process"]["pid"], 0)
        end = event(5)
        self.assertEqual((end["process"]["reason"], end["process"]["status"]), (1, 7))
        self.assertEqual(end["log_tail"], ["here"])
        self.read_log(connection, end["log_end"])
        order(1)
        while connection.call("agent.drop", job)["state"] != "unknown":
            pass

    def read_log(self, member, log_end):
        reader = self.tcp("node", secret=member.secret)
        self.hello(reader)
        number = reader.begin("agent.log", {"id": "0123456789abcdef", "task": 0,
                                            "name": "worker-0", "position": 0}, credit=4)
        records, more = [], True
        while more:
            kind, its_number, more = reader.receive()
            self.assertEqual((kind, its_number), (wire_client.ITEM, number))
            records += more
        self.assertEqual([(one[0], one[1], one[6]) for one in records], [(1, 1, b"here\n")])
        self.assertEqual(records[-1][4], log_end)

    def test_who_is_no_member_gets_an_error(self):
        connection = self.tcp("node")
        for code, changed in ((ENOENT, {"name": "c"}), (ENOTSUP, {"protocol": 1}),
                              (EPARSE, {"name": None}), (EPARSE, {"boot_id": 5}),
                              (EACCES, {"node_id": "0" * 32})):
            with self.assertRaises(Failure) as failed:
                self.hello(connection, **changed)
            self.assertEqual(failed.exception.code, code, failed.exception)
        connection.notify("agent.forget", {"ids": ["0123456789abcdef"]})  # ignored
        self.assertIsNone(connection.call("node.ping"))


class WrongTest(WireTest):
    def test_roles(self):
        job = {"definition": definition("true")}
        read, submit, node = self.tcp("read"), self.tcp("submit"), self.tcp("node")
        for method in ("submit", "explain"):
            self.assert_fails(EACCES, read, "gateway." + method, job)
        for method in ("stop", "forget", "drain"):
            self.assert_fails(EACCES, read, "gateway." + method, {"job": "x", "node": "a"})
        for connection in (read, submit):
            self.assert_fails(EACCES, connection, "gateway.jobs", {"forwarded": True})
            self.assert_fails(EACCES, connection, "node.ping")
            self.assert_fails(EACCES, connection, "node.drain", {})
            self.assert_fails(EACCES, connection, "agent.stamp", {"instance": 1})
        self.assertEqual(result(node, "gateway.jobs", forwarded=True)["jobs"], [])

    def test_methods_and_params_that_are_not_there(self):
        connection = self.unix()
        for method in ("gateway.fly", "node.fly", "fly", "node.state"):
            self.assert_fails(ENOTSUP, connection, method)
            connection.notify(method, {})
        self.assert_fails(EACCES, connection, "agent.fly")  # not a member
        for params in (None, 7, [], {"job": "nobody"}, {7: "x", "new": [1, {}]}):
            self.assert_fails(ENOENT, connection, "gateway.describe", params)
        self.assert_fails(EINVAL, connection, "gateway.describe", {"job": 7})
        for params in ({}, {"definition": 7}, {"definition": definition("true"), "key": "k" * 65},
                       {"definition": definition("true"), "tag": bytes(4097)},
                       {"definition": definition("true"), "key": "a\0b"}):
            self.assert_fails(EINVAL, connection, "gateway.submit", params)
        self.assert_fails(EPARSE, connection, "gateway.submit", {"definition": "{"})
        self.assert_fails(ENOENT, connection, "gateway.subscribe", {"job": "nobody"})
        job = connection.call("gateway.submit", {"definition": definition("exec sleep 600")})
        self.assert_fails(EINVAL, connection, "gateway.subscribe", {"job": job, "key": "0x"})
        connection.call("gateway.stop", {"job": job, "kill": True})
        connection.call("gateway.subscribe", {"job": job}, credit=1, on_item=lambda item: None)

    def test_what_ends_a_connection(self):
        def nested(depth):
            return b"\x91" * (depth - 1) + b"\x90"

        def request(params):
            return b"\x96\x00\x01\xa9node.ping" + params + b"\x00\x00"
        for make in (self.unix, lambda **options: self.tcp("node", **options)):
            connection = make()
            connection.send_bytes(request(nested(31)))  # with the message itself 32
            self.assertEqual(connection.receive()[:3], [wire_client.RESPONSE, 1, None])
            hello = [wire_client.HELLO, 1, {}]
            for wrong in (request(nested(32)), request(b"\xc0\xc0"), request(b"\xd4\x00\x00"),
                          request(b"\xa1\xff"), request(b"\xdd\xff\xff\xff\xff"), b"",
                          [], {}, hello, [0, 1, b"node.ping", None, 0, 0], [0, 1, "", None, 0, 0],
                          [0, 1, "m" * 64, None, 0, 0], [0, 1, "node.ping", None, 0],
                          [3, 1], [5, 1, 1], [1, 1, None, None], [4, 1, None]):
                connection = make()
                (connection.send_bytes if isinstance(wrong, bytes) else connection.send)(wrong)
                self.assert_ends(connection)
            connection = make()
            for _ in range(2):
                connection.send([0, 1, "node.ping", None, 0, 0])
            self.assert_ends(connection)
            connection = make(hello=False)
            connection.send([0, 1, "node.ping", None, 0, 0])
            self.assert_ends(connection)

    def test_frames_over_the_cap(self):
        connection = self.unix()
        connection.socket.sendall((wire_client.MESSAGE_MAX + 1).to_bytes(4, "big"))
        self.assert_ends(connection)
        connection = self.tcp("submit")
        connection.socket.sendall((wire_client.RECORD_MAX + 1).to_bytes(4, "big"))
        self.assert_ends(connection)
        connection = self.tcp("submit")
        with self.assertRaises(Ended):
            for _ in range(1000):  # full records, which others are to follow
                connection.send_record(connection.noise.encrypt(bytes(65535 - 16)))
        for connection in (self.unix(), self.tcp("submit")):  # the largest is taken
            head = b"\x96\x00\x01\xacgateway.jobs\xc6"
            pad = wire_client.MESSAGE_MAX - len(head) - 4 - 2
            connection.send_bytes(head + pad.to_bytes(4, "big") + bytes(pad) + b"\x00\x00")
            self.assertEqual(connection.receive()[:3], [wire_client.RESPONSE, 1, None])

    def test_a_wrong_key_is_refused(self):
        key_id, key = wire_client.read_key(os.path.join(self.dir, "key"), "submit")
        for wrong in ((key_id, bytes(32)), (bytes(8), key)):
            with self.assertRaises(Refused):
                Connection("tcp", ("127.0.0.1", self.first_port), wrong)
        with self.assertRaises(Refused):  # no key at all
            Connection("tcp", ("127.0.0.1", self.first_port))


if __name__ == "__main__":
    unittest.main()
