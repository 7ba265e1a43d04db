"""Whole Noise sessions of $NOISE_PEER, which is our own implementation, with an independent one:
noiseprotocol from PyPI."""

import importlib.util
import os
import subprocess
import sys
import unittest

if not importlib.util.find_spec("noise"):
    print("noiseprotocol is not installed here (-Dnoise_python=...)")
    sys.exit(77)

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from noise.connection import Keypair, NoiseConnection

NAME = b"Noise_XXpsk0_25519_ChaChaPoly_SHA256"
PSK, OTHER_PSK = b"\x07" * 32, b"\x08" * 32
OURS, THEIRS = os.urandom(32), os.urandom(32)
PROLOGUE = b"tfcluster\x00\xff"
SIZES = [0, 1, 15, 16, 17, 63, 64, 65, 1000, 65519]


def public_key(secret):
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes(
        Encoding.Raw, PublicFormat.Raw)


class Peer:
    """Our end as a process."""

    def __init__(self, role, psk=PSK, prologue=PROLOGUE):
        self.process = subprocess.Popen(
            [os.environ["NOISE_PEER"], role, psk.hex(), OURS.hex(), prologue.hex()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def put(self, message):
        self.process.stdin.write(len(message).to_bytes(2, "big") + message)
        self.process.stdin.flush()

    def get(self):
        """The next message, or None when it has ended."""
        head = self.process.stdout.read(2)
        return self.process.stdout.read(int.from_bytes(head, "big")) if len(head) == 2 else None

    def end(self):
        """(status, what it said)"""
        self.process.stdin.close()
        said = self.process.stderr.read().decode().strip()
        status = self.process.wait(60)
        self.process.stdout.close()
        self.process.stderr.close()
        return status, said


def their_end(is_initiator, psk=PSK, prologue=PROLOGUE):
    noise = NoiseConnection.from_name(NAME)
    noise.set_psks(psk)
    noise.set_prologue(prologue)
    noise.set_keypair_from_private_bytes(Keypair.STATIC, THEIRS)
    if is_initiator:
        noise.set_as_initiator()
    else:
        noise.set_as_responder()
    noise.start_handshake()
    return noise


def shake_hands(peer, noise, is_initiator):
    is_writing = is_initiator
    while not noise.handshake_finished:
        if is_writing:
            peer.put(bytes(noise.write_message(b"hello")))
        else:
            message = peer.get()
            if message is None:
                return False
            assert noise.read_message(message) == b"hello"
        is_writing = not is_writing
    return True


class Sessions(unittest.TestCase):
    def session(self, is_initiator):
        peer = Peer("responder" if is_initiator else "initiator")
        noise = their_end(is_initiator)
        self.assertTrue(shake_hands(peer, noise, is_initiator))
        proof = noise.decrypt(peer.get())
        self.assertEqual(proof[:32], noise.get_handshake_hash())
        self.assertEqual(proof[32:], public_key(THEIRS))
        return peer, noise

    def test_messages_of_all_sizes_pass_in_both_roles(self):
        for is_initiator in (True, False):
            peer, noise = self.session(is_initiator)
            for size in SIZES * 20:
                plain = os.urandom(size)
                peer.put(noise.encrypt(plain))
                self.assertEqual(noise.decrypt(peer.get()), plain[::-1])
            self.assertEqual(peer.end(), (0, ""))

    def test_a_flipped_bit_ends_the_session(self):
        for is_initiator in (True, False):
            peer, noise = self.session(is_initiator)
            sealed = bytearray(noise.encrypt(b"hello"))
            sealed[3] ^= 4
            peer.put(bytes(sealed))
            self.assertIsNone(peer.get())
            self.assertEqual(peer.end(), (3, "TFC_EACCES"))

    def test_their_wrong_key_or_prologue_is_refused(self):
        for wrong in ({"psk": OTHER_PSK}, {"prologue": b"another"}):
            peer = Peer("responder")
            self.assertFalse(shake_hands(peer, their_end(True, **wrong), True))
            self.assertEqual(peer.end(), (3, "TFC_EACCES"))

    def test_our_wrong_key_or_prologue_is_refused(self):
        for wrong in ({"psk": OTHER_PSK}, {"prologue": b"another"}):
            peer = Peer("initiator", **wrong)
            with self.assertRaises(InvalidTag):
                shake_hands(peer, their_end(False), False)
            self.assertEqual(peer.end()[0], 0)


if __name__ == "__main__":
    unittest.main()
