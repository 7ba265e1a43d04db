"""A gateway that says what a test wants it to say, over a unix socket: see doc/internals/wire-format.md."""
import socket
import struct
import threading

REQUEST, RESPONSE, ITEM, HELLO = 0, 1, 4, 6
UNKNOWN = Exception("the node's version does not support this request")


def pack(value):
    """The little of msgpack that is needed here."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return struct.pack(">BQ", 0xcf, value) if value >= 0 else struct.pack(">Bq", 0xd3, value)
    if isinstance(value, str):
        data = value.encode()
        return struct.pack(">BI", 0xdb, len(data)) + data
    if isinstance(value, bytes):
        return struct.pack(">BI", 0xc6, len(value)) + value
    if isinstance(value, (list, tuple)):
        return struct.pack(">BI", 0xdd, len(value)) + b"".join(map(pack, value))
    return struct.pack(">BI", 0xdf, len(value)) + b"".join(pack(k) + pack(v) for k, v in value.items())


def unpack(data, at=0):
    """(value, where the next one begins)."""
    kind = data[at]
    at += 1
    if kind < 0x80 or kind >= 0xe0:
        return kind, at
    if kind in (0xc0, 0xc2, 0xc3):
        return {0xc0: None, 0xc2: False, 0xc3: True}[kind], at
    if 0xcc <= kind <= 0xd3:
        size = 1 << (kind & 3)
        return int.from_bytes(data[at:at + size], "big"), at + size
    if kind & 0xe0 == 0xa0:
        count, kind = kind & 0x1f, 0xdb
    elif kind & 0xf0 in (0x80, 0x90):
        count, kind = kind & 0x0f, 0xdf if kind < 0x90 else 0xdd
    else:
        size = {0xc4: 1, 0xc5: 2, 0xc6: 4, 0xd9: 1, 0xda: 2, 0xdb: 4, 0xdc: 2, 0xdd: 4, 0xde: 2, 0xdf: 4}[kind]
        count, at = int.from_bytes(data[at:at + size], "big"), at + size
    if kind in (0xdc, 0xdd, 0xde, 0xdf):
        values = []
        for _ in range(count * (2 if kind >= 0xde else 1)):
            value, at = unpack(data, at)
            values.append(value)
        return (values if kind < 0xde else dict(zip(values[::2], values[1::2]))), at
    return data[at:at + count], at + count


class Open(list):
    """Items that no response follows: the request stays open."""


class PlayedGateway:
    """`answers` maps a method to a map or text, to an exception (its words are an error), or to a list of items.
    What is not in it is answered as by a node that does not know it."""

    def __init__(self, path, answers):
        self.answers = answers
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.asked = []
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        def take(count):
            data = b""
            while len(data) < count:
                part = connection.recv(count - len(data))
                if not part:
                    raise EOFError
                data += part
            return data

        def send(*message):
            data = pack(message)
            connection.sendall(struct.pack(">I", len(data)) + data)
        try:
            connection.sendall(take(16))  # the preamble
            send(HELLO, 1, {"oldest": 1, "message_max": 16 << 20, "library": "0.3.0"})
            while True:
                message, _ = unpack(take(struct.unpack(">I", take(4))[0]))
                if message[0] == REQUEST:
                    self.asked.append(message[2].decode())
                    self.answer(send, message[1], self.answers.get(message[2].decode(), UNKNOWN))
        except (EOFError, OSError):
            connection.close()

    def answer(self, send, number, answer):
        if isinstance(answer, Exception):
            send(RESPONSE, number, {"code": -3 if answer is UNKNOWN else -10, "errno": 0, "room": "gateway", "text": str(answer)}, None)
            return
        for item in answer if isinstance(answer, list) else []:
            send(ITEM, number, item)
        if not isinstance(answer, Open):
            send(RESPONSE, number, None, None if isinstance(answer, list) else answer)
