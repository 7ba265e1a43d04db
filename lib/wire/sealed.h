/*
 * Datagrams between nodes, sealed with the node keys of the keyring: XChaCha20-Poly1305-IETF of
 * libsodium (draft-irtf-cfrg-xchacha-03). Offsets in bytes, numbers in network order:
 *
 *      0   4  magic, which ends with the version
 *      4   8  id of the node key
 *     12   8  random
 *     20   4  generation: grows with each start of the sender
 *     24   4  instance: random, for each start of the sender
 *     28   8  number: 1 for the sender's first datagram, to any receiver; then one more
 *     36  16  sender: node id (first 16 bytes of BLAKE2b-256 over the public key)   \ encrypted
 *     52   n  text                                                                  /
 *     52+n 16 tag
 *
 * The nonce is the 24 bytes from 12 on. One start of a sender never repeats it: the number differs.
 * Two starts, two nodes, and two copies of a machine that continue from one snapshot of its memory
 * differ in the random bytes: with one number, generation and instance, 2^-64 for each pair of
 * datagrams.
 *
 * The text does not repeat the sender. The first 36 bytes are the associated data. The key is
 * BLAKE2b-256 over the label "tfcluster sealed datagram 1" and the magic, keyed with the node key:
 * it differs from the psk of Noise and from the keys of other magics.
 *
 * The first node key of the file seals and all of them open. Without a keyring the id is zeros and
 * the key is the unkeyed hash of the label and the magic: anybody can seal, and the caller has to
 * identify the sender by other means.
 *
 * A datagram opens once in a process: each sender has a window of numbers (RFC 4303,
 * section 3.4.3). The window is dropped when the sender's generation grows; lower generations are
 * refused from then on. A process that has just started, or that has dropped the window because
 * others needed the room, opens what was recorded earlier; another node opens it, too, because a
 * datagram does not name its receiver; and the address that it came from is not authenticated. So a
 * datagram may state only what stays true, as the states of gossip do by their incarnations.
 */
#ifndef TFC_WIRE_SEALED_H
#define TFC_WIRE_SEALED_H

#include "wire/keyring.h"
#include <stddef.h>

enum {
	TFC__SEALED_ID_SIZE = 16,
	TFC__SEALED_HEAD = 36,
	TFC__SEALED_OVERHEAD = TFC__SEALED_HEAD + 16 + 16, /* bytes that are not text */
	TFC__SEALED_SENDERS = 16384,                       /* the most windows */
	TFC__SEALED_WINDOW = 256,                          /* datagrams by which one may be late */
};

struct tfc__sealed_sender {
	uint8_t id[TFC__SEALED_ID_SIZE];
	uint32_t generation;
	uint32_t instance;
	uint64_t number;
};

struct tfc__sealing; /* of one node and one magic */

/* `ring` is borrowed; NULL: none. The caller owns *ret_sealing. TFC_ENOMEM; TFC_ESYS when libsodium
 * cannot be initialized. */
int tfc__sealing_new(const struct tfc__keyring *ring, const uint8_t magic[4],
		     const uint8_t id[TFC__SEALED_ID_SIZE], uint32_t generation, tfc_error *error,
		     struct tfc__sealing **ret_sealing);
void tfc__sealing_free(struct tfc__sealing *sealing); /* NULL is a no-op */

/* This node has got a higher generation. */
void tfc__sealing_set_generation(struct tfc__sealing *sealing, uint32_t generation);

/* Writes len + TFC__SEALED_OVERHEAD bytes. */
void tfc__seal(struct tfc__sealing *sealing, const void *text, size_t len, uint8_t *ret_bytes);

/*
 * Opens a datagram into `ret_text`, which has room for len bytes; returns the length of the text.
 * Failures set no text, and *ret_sender only after TFC_EEXIST:
 *
 *     TFC_EPARSE   shorter than the overhead, or of another magic
 *     TFC_ENOENT   sealed with a key that is not in the keyring
 *     TFC_EACCES   changed, or sealed with other bytes under this key id
 *     TFC_EEXIST   opened before, too late, of an earlier start of the sender, or this node's own
 *     TFC_ENOMEM
 */
int tfc__unseal(struct tfc__sealing *sealing, const uint8_t *bytes, size_t len, uint8_t *ret_text,
		struct tfc__sealed_sender *ret_sender);

/* The number of windows, for tests. */
uint32_t tfc__sealing_senders(const struct tfc__sealing *sealing);

#endif
