/*
 * Noise_XXpsk0_25519_ChaChaPoly_SHA256, revision 34 of the Noise specification (noiseprotocol.org),
 * on libsodium's primitives:
 *
 *     -> psk, e
 *     <- e, ee, s, es
 *     -> s, se
 *
 * This module has no sockets and no framing; it reads and writes whole messages. Rekeying is not
 * supported: a cipher fails when its 2^64 - 1 nonces are used.
 */
#ifndef TFC_WIRE_NOISE_H
#define TFC_WIRE_NOISE_H

#include "base/buf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tfcluster/error.h>

#define TFC__NOISE_KEY 32
#define TFC__NOISE_TAG 16            /* bytes that encryption adds */
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
	const void *prologue;         /* data on which both ends must agree; may be empty */
	size_t prologue_len;
	const uint8_t *ephemeral_secret; /* for test vectors only; NULL: new and random */
};

/* Copies its arguments. The caller owns *ret_noise. Errors: TFC_ENOMEM; TFC_ESYS when libsodium
 * cannot be initialized. */
int tfc__noise_new(const struct tfc__noise_options *options, tfc_error *error,
		   struct tfc__noise **ret_noise);
void tfc__noise_free(struct tfc__noise *noise); /* wipes it; NULL is a no-op */

/* Whether this end sends the next message with tfc__noise_write. */
bool tfc__noise_is_writing(const struct tfc__noise *noise);
/* Whether all three messages are exchanged; then tfc__noise_split follows. */
bool tfc__noise_is_done(const struct tfc__noise *noise);

/*
 * Appends the next message to `out`. Errors: TFC_ESTATE when it is the other end's turn or the
 * handshake has failed; TFC_ETOOBIG when the message would exceed the maximum; TFC_ENOMEM.
 */
int tfc__noise_write(struct tfc__noise *noise, const void *payload, size_t len,
		     struct tfc__buf *out);

/*
 * Handles the other end's message and appends its payload to `payload`. Errors: TFC_EPARSE when the
 * message is too short or exceeds the maximum; TFC_EACCES for another key, prologue or protocol, or
 * a modified message (these cannot be distinguished); TFC_ESTATE; TFC_ENOMEM. After a failure the
 * handshake cannot be continued.
 */
int tfc__noise_read(struct tfc__noise *noise, const void *message, size_t len,
		    struct tfc__buf *payload);

/* The other end's static public key, TFC__NOISE_KEY bytes, borrowed. NULL until the message that
 * contains it is read: the second for the initiator, the third for the responder. */
const uint8_t *tfc__noise_remote(const struct tfc__noise *noise);
/* The handshake hash, 32 bytes, equal at both ends and unique to this session (section 11.2); NULL
 * until the handshake is done. */
const uint8_t *tfc__noise_hash(const struct tfc__noise *noise);

/* ---- transport messages (CipherState, section 5.1) */

struct tfc__noise_cipher {
	uint8_t key[TFC__NOISE_KEY];
	uint64_t nonce;
	bool is_failed; /* a message failed to decrypt; all further ones fail */
};

/* Returns the ciphers of both directions, from the view of this end. TFC_ESTATE before the
 * handshake is done, and on a second call. */
int tfc__noise_split(struct tfc__noise *noise, struct tfc__noise_cipher *ret_send,
		     struct tfc__noise_cipher *ret_receive);

/*
 * Encrypts and writes len + TFC__NOISE_TAG bytes; `sealed` may be equal to `plain`. Errors:
 * TFC_ETOOBIG over the message maximum; TFC_ESTATE when the nonces are used up.
 */
int tfc__noise_seal(struct tfc__noise_cipher *cipher, const void *plain, size_t len, void *sealed);

/*
 * Decrypts and writes len - TFC__NOISE_TAG bytes; `plain` may be equal to `sealed`. Errors:
 * TFC_EACCES when the data is not the other end's next message, or is too short or too long; all
 * later messages are then refused as well. TFC_ESTATE after an earlier failure or when the nonces
 * are used up.
 */
int tfc__noise_open(struct tfc__noise_cipher *cipher, const void *sealed, size_t len, void *plain);

void tfc__noise_cipher_fini(struct tfc__noise_cipher *cipher); /* wipes it */

#endif
