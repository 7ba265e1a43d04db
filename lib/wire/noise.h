/*
 * Noise_XXpsk0_25519_ChaChaPoly_SHA256, revision 34 of the Noise specification (noiseprotocol.org),
 * on libsodium's primitives:
 *
 *     -> psk, e
 *     <- e, ee, s, es
 *     -> s, se
 *
 * Knows no socket and no framing: whole messages go in and come out. Rekeying is not offered: a
 * cipher refuses once its 2^64 - 1 nonces are used.
 */
#ifndef TFC_WIRE_NOISE_H
#define TFC_WIRE_NOISE_H

#include "base/buf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tfcluster/error.h>

#define TFC__NOISE_KEY 32
#define TFC__NOISE_TAG 16            /* what sealing adds */
#define TFC__NOISE_MESSAGE_MAX 65535 /* section 3: bytes of one message, tag included */

/* Bytes of the three handshake messages with an empty payload. */
#define TFC__NOISE_FIRST (32 + TFC__NOISE_TAG)
#define TFC__NOISE_SECOND (32 + 32 + TFC__NOISE_TAG + TFC__NOISE_TAG)
#define TFC__NOISE_THIRD (32 + TFC__NOISE_TAG + TFC__NOISE_TAG)

/* ---- the handshake (HandshakeState, section 5.3) */

struct tfc__noise;

struct tfc__noise_options {
	bool is_initiator;
	const uint8_t *static_secret; /* TFC__NOISE_KEY bytes: tfc__identity_secret */
	const uint8_t *psk;           /* TFC__NOISE_KEY bytes */
	const void *prologue;         /* what both ends must agree on; may be empty */
	size_t prologue_len;
	const uint8_t *ephemeral_secret; /* for test vectors alone; NULL: fresh and random */
};

/* Copies all it needs. The caller owns *ret_noise. TFC_ENOMEM; TFC_ESYS when libsodium cannot be
 * used. */
int tfc__noise_new(const struct tfc__noise_options *options, tfc_error *error,
		   struct tfc__noise **ret_noise);
void tfc__noise_free(struct tfc__noise *noise); /* wipes it; NULL is a no-op */

/* Whose turn it is: true, then tfc__noise_write is next. */
bool tfc__noise_is_writing(const struct tfc__noise *noise);
/* All three messages went through: tfc__noise_split is next. */
bool tfc__noise_is_done(const struct tfc__noise *noise);

/*
 * Adds the next message to `out`. TFC_ESTATE: not our turn, or failed before; TFC_ETOOBIG: the
 * message would be over the maximum; TFC_ENOMEM.
 */
int tfc__noise_write(struct tfc__noise *noise, const void *payload, size_t len,
		     struct tfc__buf *out);

/*
 * Takes the other end's message and adds its payload to `payload`. TFC_EPARSE: too short, or over
 * the maximum; TFC_EACCES: another key, prologue or protocol, or changed on the way (nothing tells
 * which); TFC_ESTATE, TFC_ENOMEM. After a failure the handshake is of no more use.
 */
int tfc__noise_read(struct tfc__noise *noise, const void *message, size_t len,
		    struct tfc__buf *payload);

/* The other end's static public key, TFC__NOISE_KEY bytes, borrowed; NULL until its message that
 * carries it was read: for the initiator the second, for the responder the third. */
const uint8_t *tfc__noise_remote(const struct tfc__noise *noise);
/* The handshake hash, 32 bytes, the same at both ends and of this session alone (section 11.2);
 * NULL until done. */
const uint8_t *tfc__noise_hash(const struct tfc__noise *noise);

/* ---- what follows (CipherState, section 5.1) */

struct tfc__noise_cipher {
	uint8_t key[TFC__NOISE_KEY];
	uint64_t nonce;
	bool is_failed; /* something did not open: nothing will any more */
};

/* The ciphers of both directions, seen from this end. TFC_ESTATE until done, and a second time. */
int tfc__noise_split(struct tfc__noise *noise, struct tfc__noise_cipher *ret_send,
		     struct tfc__noise_cipher *ret_receive);

/*
 * Writes len + TFC__NOISE_TAG bytes; `sealed` may be `plain` itself. TFC_ETOOBIG over the message
 * maximum, TFC_ESTATE when the nonces are used up.
 */
int tfc__noise_seal(struct tfc__noise_cipher *cipher, const void *plain, size_t len, void *sealed);

/*
 * Writes len - TFC__NOISE_TAG bytes; `plain` may be `sealed` itself. TFC_EACCES when it was not
 * sealed by the other end as the next message, or is too short or long: everything behind it is
 * refused, too. TFC_ESTATE: refused already, or the nonces are used up.
 */
int tfc__noise_open(struct tfc__noise_cipher *cipher, const void *sealed, size_t len, void *plain);

void tfc__noise_cipher_fini(struct tfc__noise_cipher *cipher); /* wipes it */

#endif
