"""A client of libtfcluster that shares no code with it: written from doc/internals/wire-format.md,
handshake.md and methods.md, with noiseprotocol and msgpack from PyPI."""

import hashlib
import os
import socket
import typing

import msgpack
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from noise.connection import Keypair, NoiseConnection

REQUEST, RESPONSE, NOTIFICATION, CANCEL, ITEM, CREDIT, HELLO = range(7)
MESSAGE_MAX = 16 << 20
RECORD_MAX = 65535
TAG = 16
PLAIN, NOISE, REFUSED = 0, 1, 2


class Ended(Exception):
    """The other end has closed the connection."""


class Refused(Ended):
    """The acceptor refuses the key, the user, or a connection without a key."""


class Failure(Exception):
    """An error in a response; `code` is a number of enum tfc_err."""

    def __init__(self, error):
        super().__init__(error["text"])
        self.code = error["code"]


def read_key(path, role):
    """(id, key) of the first line of a key file that has the role."""
    with open(path) as file:
        for line in file:
            words = line.split()
            if words[:1] == ["tfcluster-key"] and words[2] == role:
                key = bytes.fromhex(words[4])
                whole = hashlib.blake2b(role.encode() + key, digest_size=32).hexdigest()
                assert words[1] == "1" and words[3] == whole[:16]
                return bytes.fromhex(words[3]), key
    raise KeyError(role)


class Connection:
    """To "tcp", (host, port) with a key, or to "unix", path without one."""

    def __init__(self, kind, address, key=None, hello=True, secret=None):
        self.secret = secret or os.urandom(32)
        self.socket = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
        self.socket.settimeout(60)
        self.socket.connect(address)
        if kind == "tcp":
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.noise = None
        self.last_id = 0
        self.kept = []
        try:
            self.begin_session(key, hello)
        except Ended:
            self.close()
            raise

    def begin_session(self, key, hello):
        preamble = b"\x89TFC" + bytes([1, NOISE if key else PLAIN, 0, 0]) + \
            (key[0] if key else bytes(8))
        self.socket.sendall(preamble)
        if key:
            self.shake_hands(preamble, key[1])
        else:
            answer = self.take(16)
            if answer[5] == REFUSED:
                raise Refused
            assert answer == preamble
        if hello:
            self.send([HELLO, 1, {"oldest": 1, "message_max": MESSAGE_MAX, "library": "python"}])
            kind, version, said = self.receive()
            assert (kind, version, said["oldest"]) == (HELLO, 1, 1)

    def close(self):
        self.socket.close()

    # ---- the handshake

    def shake_hands(self, preamble, psk):
        public = X25519PrivateKey.from_private_bytes(self.secret).public_key()
        self.node_id = hashlib.blake2b(public.public_bytes(Encoding.Raw, PublicFormat.Raw),
                                       digest_size=32).hexdigest()[:32]
        noise = NoiseConnection.from_name(b"Noise_XXpsk0_25519_ChaChaPoly_SHA256")
        noise.set_as_initiator()
        noise.set_psks(psk)
        noise.set_prologue(preamble)
        noise.set_keypair_from_private_bytes(Keypair.STATIC, self.secret)
        noise.start_handshake()
        for length in (48, 64):
            message = bytes(noise.write_message())
            assert len(message) == length
            self.send_record(message)
            if length == 48:
                answer = self.receive_record()
                assert len(answer) == 96 and noise.read_message(answer) == b""
        assert noise.handshake_finished
        welcome = self.receive_record()
        assert len(welcome) == TAG and noise.decrypt(welcome) == b""
        self.noise = noise

    # ---- records and messages as bytes

    def take(self, count):
        data = bytearray()
        while len(data) < count:
            try:
                part = self.socket.recv(count - len(data))
            except ConnectionResetError:
                part = b""
            if not part:
                raise Ended
            data += part
        return bytes(data)

    def send_record(self, record):
        try:
            self.socket.sendall(len(record).to_bytes(4, "big") + record)
        except (BrokenPipeError, ConnectionResetError):
            raise Ended from None

    def receive_record(self):
        head = self.take(4)
        if head == b"\x89TFC" and self.take(12)[1] == REFUSED:  # no record is as long
            raise Refused
        return self.take(int.from_bytes(head, "big"))

    def send_bytes(self, message):
        if not self.noise:
            self.send_record(message)
            return
        piece = RECORD_MAX - TAG
        for at in range(0, len(message) + 1, piece):
            self.send_record(self.noise.encrypt(message[at:at + piece]))

    def receive_bytes(self):
        if not self.noise:
            return self.receive_record()
        message = b""
        while True:
            record = self.receive_record()
            message += self.noise.decrypt(record)
            if len(record) < RECORD_MAX:
                return message

    def send(self, message):
        self.send_bytes(msgpack.packb(message))

    def receive(self):
        """The next message, as it came."""
        return msgpack.unpackb(self.receive_bytes())

    # ---- calls

    def begin(self, method, params=None, timeout_ms=0, credit=0):
        self.last_id += 1
        self.send([REQUEST, self.last_id, method, params, timeout_ms, credit])
        return self.last_id

    def answer(self, number, on_item=None):
        """The result of a request; its items go to on_item, with new credit for each."""
        while True:
            kind, its_number, *rest = self.receive()
            if its_number != number:  # an item of a request that stays open
                assert kind == ITEM
                self.kept.append((kind, its_number, *rest))
                continue
            if kind == RESPONSE:
                if rest[0] is not None:
                    raise Failure(rest[0])
                return rest[1]
            assert kind == ITEM
            on_item(rest[0])
            self.send([CREDIT, number, 1])

    def call(self, method, params=None, **options):
        on_item = options.pop("on_item", None)
        return self.answer(self.begin(method, params, **options), on_item)

    def notify(self, method, params):
        self.send([NOTIFICATION, method, params])

    def await_end(self):
        """Reads until the other end has closed."""
        try:
            while True:
                self.receive()
        except Ended:
            pass


class Line(typing.NamedTuple):
    text: bytes
    is_stderr: bool
    is_partial: bool
    time_ns: int
    piece: str


def lines_of(event):
    """The lines of an event of output."""
    text, table, at = as_bytes(event.get("d", b"")), event["ln"], 0
    time_ns, streams = 0, [(0, 0), (0, 0)]

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            value |= (table[at] & 0x7f) << shift
            shift += 7
            at += 1
            if table[at - 1] < 0x80:
                return value
    while at < len(table):
        head = number()
        length, is_stderr = head >> 4, head & 1
        if head & 4:
            time_ns = (time_ns + number()) % 2 ** 64
        if head & 8:
            streams = [((position + number()) % 2 ** 64, number()) for position, _ in streams]
        else:
            is_shared = streams[0] == streams[1]
            position, skip = streams[is_stderr]
            streams[is_stderr] = position, skip + length + 1
            if is_shared:
                streams = [streams[is_stderr]] * 2
        out, err = (f"{position:x}" + (f"+{skip:x}" if skip else "") for position, skip in streams)
        yield Line(text[:length], bool(is_stderr), bool(head & 2), time_ns, out if out == err else f"{out},{err}")
        assert text[length:length + 1] == b"\n"
        text = text[length + 1:]


def as_bytes(value):
    return value if isinstance(value, bytes) else value.encode()


class Place:
    """How far a subscription is."""

    def __init__(self):
        self.next, self.is_gap_reported = 0, False
        self.pieces, self.rests = {}, {}

    def take(self, event, piece=None):
        """piece: of a line of the event; otherwise the event's own."""
        piece = piece or event.get("mc")
        self.next, self.is_gap_reported = event.get("mn", 0), event.get("mg", 0) == 1
        if "mt" in event:
            self.pieces[event["mt"]] = piece
        self.pieces.pop(event.get("me"), None)
        if "mr" in event:
            self.rests[event["mr"]] = piece
        self.rests.pop(event.get("mo"), None)

    def cursor(self):
        return f"{self.next:x}" + "g" * self.is_gap_reported + "".join(
            f"{mark}{number:x}.{piece}"
            for mark, pieces in (("_", self.pieces), ("~", self.rests))
            for number, piece in sorted(pieces.items()))
