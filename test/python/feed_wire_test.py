"""A producer of the library, whose consumers are written by hand: what they send decides when rows come."""

import tempfile
import threading
import unittest
from typing import Any

import numpy as np
import tfcluster as tfc

PATIENCE = 60  # seconds until something awaited counts as never coming
JOB: dict[str, Any] = {"framework": "none", "strategy": "none", "output": False}
REGISTER, CONNECTED, POSITION, WELCOME, BATCH, FINISH, DONE, END = 1, 3, 5, 6, 10, 12, 13, 17


class Wire:
    """A consumer without the library. Numbers and fields are those of lib/feed/message.c."""

    def __init__(self, ctx):
        import os
        import socket
        self.node = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.node.connect("\0" + os.environ["TFC_FEED"][1:])
        self.write(self.node, k=REGISTER, version=1, task=ctx.name, attempt=ctx.attempt, queue="train")

    def accept(self):
        """The connection with the next producer."""
        import socket
        while True:
            _, fds, _, _ = socket.recv_fds(self.node, 1 << 17, 1)
            if fds:
                self.stream = socket.socket(fileno=fds[0])
                self.stream.setblocking(True)
                return

    def send(self, **fields):
        self.write(self.stream, **fields)

    def receive(self):
        """The next message: its kind and its fields."""
        data = self.stream.recv(1 << 17)
        if not data:
            return {"k": 0}
        fields, _ = self.unpack(data, 0)
        return fields

    def write(self, socket, **fields):
        packed = bytes([0xde, 0, len(fields)])
        for name, value in fields.items():
            packed += self.pack(name) + self.pack(value)
        socket.send(packed)

    def pack(self, value):
        if isinstance(value, bool):
            return b"\xc3" if value else b"\xc2"
        if isinstance(value, int):
            return b"\xcf" + value.to_bytes(8, "big")
        return bytes([0xd9, len(value)]) + value.encode()

    def unpack(self, data, at):
        tag = data[at]
        if tag < 0x80:
            return tag, at + 1
        if tag < 0x90 or tag == 0xde:
            count, at = (tag & 15, at + 1) if tag < 0x90 else (int.from_bytes(data[at + 1:at + 3], "big"), at + 3)
            fields = {}
            for _ in range(count):
                name, at = self.unpack(data, at)
                fields[name], at = self.unpack(data, at)
            return fields, at
        if 0xa0 <= tag < 0xc0:
            return data[at + 1:at + 1 + tag - 0xa0].decode(), at + 1 + tag - 0xa0
        if tag in (0xc2, 0xc3):
            return tag == 0xc3, at + 1
        if 0xcc <= tag <= 0xcf:
            size = 1 << tag - 0xcc
            return int.from_bytes(data[at + 1:at + 1 + size], "big"), at + 1 + size
        size = 1 << tag - (0xc4 if tag < 0xc7 else 0xd9)
        length, at = int.from_bytes(data[at + 1:at + 1 + size], "big"), at + 1 + size
        return data[at:at + length], at + length


def consume_with(positions):
    """A consumer that has the positions when a producer connects, and consumes what comes."""
    def consume(ctx):
        wire = Wire(ctx)
        wire.accept()
        for partition, rows, done, is_whole in positions:
            wire.send(k=POSITION, p=partition, rows=rows, o=done, end=is_whole)
        wire.send(k=WELCOME, version=1, window=1 << 16, multiple=1)
        heard = []
        while (message := wire.receive())["k"] not in (0, END):
            if message["k"] in (BATCH, FINISH):
                heard.append([message["k"], message.get("p", 0), message.get("rows", message.get("o", 0))])
            if message["k"] == FINISH:
                wire.send(k=DONE, p=message.get("p", 0), rows=message.get("rows", 0))
        while message["k"]:  # the producer leaves when all is done
            message = wire.receive()
        return heard
    return consume


class PositionTest(unittest.TestCase):

    def test_an_empty_partition_that_is_not_put_again_does_not_delay_the_end(self):
        with tfc.run(consume_with([(7, 0, 0, True)]), **JOB) as job:
            with job.feed("train") as feed:
                feed.put(np.arange(10))
                feed.end(PATIENCE)
            self.assertEqual(job.result(PATIENCE), [[BATCH, 0, 0], [FINISH, 0, 10]])

    def test_a_producer_that_begins_again_with_other_rows(self):
        for rows, message in ((10, "more rows are put than the 8 that worker/0 has of it; a producer that begins again"),
                              (6, "partition 0 has 6 rows, but worker/0 has 8 of it; a producer that begins again must")):
            with self.subTest(rows), tfc.run(consume_with([(0, 8, 0, True)]), **JOB) as job, \
                    self.assertRaisesRegex(tfc.Error, message), job.feed("train") as feed:
                feed.put(np.arange(rows))
                feed.end(PATIENCE)

    def test_no_row_is_sent_before_all_that_train_in_step_have_said_what_they_have(self):
        def consume(ctx, directory):
            import os
            import time
            wire = Wire(ctx)
            wire.accept()
            if ctx.task_index:
                while not os.path.exists(f"{directory}/go"):
                    time.sleep(0.01)
                wire.send(k=POSITION, p=0, rows=10, o=0, end=True)
            wire.send(k=WELCOME, version=1, window=1 << 16, multiple=1, in_step=True)
            open(f"{directory}/{ctx.task_index}", "w").close()
            if not ctx.task_index:
                wire.stream.settimeout(1)
                try:
                    while (message := wire.receive())["k"] not in (BATCH, FINISH):
                        pass
                except TimeoutError:
                    message = {"k": 0}
                open(f"{directory}/go", "w").close()
                return message["k"]
            return 0
        with tempfile.TemporaryDirectory() as directory, tfc.run(consume, args=[directory], workers=2, **JOB) as job:
            feed = job.feed("train")
            threading.Thread(target=lambda: feed.put(np.arange(10)), daemon=True).start()
            self.assertEqual(job.result(PATIENCE), 0)
            feed.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
