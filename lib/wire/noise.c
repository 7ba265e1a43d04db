/* The HandshakeState of section 5.3, for the single pattern in use. */
#include "wire/noise_symmetric.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

enum token { END, PSK, E, S, EE, ES, SE };

enum { MESSAGES = 3, TOKENS = 5, DH = crypto_scalarmult_BYTES };

/* Sections 7.5 and 9.4. */
static const enum token pattern[MESSAGES][TOKENS] = {
	{PSK, E},
	{E, EE, S, ES},
	{S, SE},
};

/* Sizes of the messages without payload. */
static const size_t overheads[MESSAGES] = {TFC__NOISE_FIRST, TFC__NOISE_SECOND, TFC__NOISE_THIRD};

struct pair {
	uint8_t secret[DH];
	uint8_t public[DH];
};

struct tfc__noise {
	struct noise_symmetric symmetric;
	bool is_initiator;
	bool is_failed;
	bool is_split;
	bool has_remote;
	bool has_ephemeral; /* set by the caller, for test vectors */
	int next;           /* message */
	struct pair s, e;
	uint8_t rs[DH], re[DH];
	uint8_t psk[TFC__NOISE_KEY];
};

int tfc__noise_new(const struct tfc__noise_options *options, tfc_error *error,
		   struct tfc__noise **ret_noise)
{
	if (sodium_init() < 0)
		return tfc__fail(error, TFC_ESYS, "wire", 0, "cannot initialize libsodium");
	struct tfc__noise *noise = calloc(1, sizeof(*noise));
	if (!noise)
		return tfc__fail_nomem(error, "wire");
	noise->is_initiator = options->is_initiator;
	memcpy(noise->psk, options->psk, TFC__NOISE_KEY);
	memcpy(noise->s.secret, options->static_secret, DH);
	if (crypto_scalarmult_base(noise->s.public, noise->s.secret) != 0) {
		tfc__noise_free(noise);
		return tfc__fail(error, TFC_EINVAL, "wire", 0, "invalid secret key");
	}
	noise->has_ephemeral = options->ephemeral_secret;
	if (options->ephemeral_secret)
		memcpy(noise->e.secret, options->ephemeral_secret, DH);
	tfc__noise_begin(&noise->symmetric, "Noise_XXpsk0_25519_ChaChaPoly_SHA256");
	tfc__noise_mix_hash(&noise->symmetric, options->prologue, options->prologue_len);
	*ret_noise = noise;
	return TFC_OK;
}

void tfc__noise_free(struct tfc__noise *noise)
{
	if (noise)
		sodium_memzero(noise, sizeof(*noise));
	free(noise);
}

bool tfc__noise_is_done(const struct tfc__noise *noise)
{
	return noise->next == MESSAGES && !noise->is_failed;
}

bool tfc__noise_is_writing(const struct tfc__noise *noise)
{
	return noise->next < MESSAGES && !noise->is_failed &&
	       (noise->next % 2 == 0) == noise->is_initiator;
}

const uint8_t *tfc__noise_remote(const struct tfc__noise *noise)
{
	return noise->has_remote ? noise->rs : NULL;
}

const uint8_t *tfc__noise_hash(const struct tfc__noise *noise)
{
	return tfc__noise_is_done(noise) ? noise->symmetric.hash : NULL;
}

/* ---- tokens that both ends process alike */

/* A public key of low order yields zeros, which libsodium refuses; section 12.1 allows that. */
static int mix_dh(struct tfc__noise *noise, const uint8_t secret[DH], const uint8_t public[DH])
{
	uint8_t shared[DH];
	int code = crypto_scalarmult(shared, secret, public) == 0 ? TFC_OK : TFC_EACCES;
	if (code == TFC_OK)
		tfc__noise_mix_key(&noise->symmetric, shared, DH);
	sodium_memzero(shared, sizeof(shared));
	return code;
}

static int mix_token(struct tfc__noise *noise, enum token token)
{
	bool is_own_ephemeral = (token == ES) == noise->is_initiator;
	switch (token) {
	case PSK:
		tfc__noise_mix_key_and_hash(&noise->symmetric, noise->psk, TFC__NOISE_KEY);
		return TFC_OK;
	case EE:
		return mix_dh(noise, noise->e.secret, noise->re);
	case ES:
	case SE:
		return is_own_ephemeral ? mix_dh(noise, noise->e.secret, noise->rs)
					: mix_dh(noise, noise->s.secret, noise->re);
	default:
		return TFC_OK;
	}
}

/* With a psk, an ephemeral key is mixed twice (section 9.2). */
static void mix_ephemeral(struct tfc__noise *noise, const uint8_t public[DH])
{
	tfc__noise_mix_hash(&noise->symmetric, public, DH);
	tfc__noise_mix_key(&noise->symmetric, public, DH);
}

/* ---- WriteMessage */

static int write_ephemeral(struct tfc__noise *noise, uint8_t *to)
{
	if (!noise->has_ephemeral)
		randombytes_buf(noise->e.secret, DH);
	if (crypto_scalarmult_base(noise->e.public, noise->e.secret) != 0)
		return TFC_ESYS;
	memcpy(to, noise->e.public, DH);
	mix_ephemeral(noise, noise->e.public);
	return TFC_OK;
}

static int noise_write_token(struct tfc__noise *noise, enum token token, uint8_t **to)
{
	uint8_t *at = *to;
	switch (token) {
	case E:
		*to += DH;
		return write_ephemeral(noise, at);
	case S:
		*to += DH + TFC__NOISE_TAG;
		return tfc__noise_seal_and_hash(&noise->symmetric, noise->s.public, DH, at);
	default:
		return mix_token(noise, token);
	}
}

static int noise_write_message(struct tfc__noise *noise, const void *payload, size_t len,
			       uint8_t *to)
{
	const enum token *tokens = pattern[noise->next];
	int code = TFC_OK;
	for (int i = 0; i < TOKENS && tokens[i] != END && code == TFC_OK; i++)
		code = noise_write_token(noise, tokens[i], &to);
	if (code == TFC_OK)
		code = tfc__noise_seal_and_hash(&noise->symmetric, payload, len, to);
	return code;
}

int tfc__noise_write(struct tfc__noise *noise, const void *payload, size_t len,
		     struct tfc__buf *out)
{
	if (!tfc__noise_is_writing(noise))
		return TFC_ESTATE;
	if (len > TFC__NOISE_MESSAGE_MAX - overheads[noise->next])
		return TFC_ETOOBIG;
	size_t size = overheads[noise->next] + len;
	char *to = tfc__buf_reserve(out, size);
	int code = to ? noise_write_message(noise, payload, len, (uint8_t *)to) : TFC_ENOMEM;
	noise->is_failed = code < 0;
	if (code < 0)
		return code;
	tfc__buf_grow(out, size);
	noise->next++;
	return TFC_OK;
}

/* ---- ReadMessage */

static int noise_read_token(struct tfc__noise *noise, enum token token, const uint8_t **from)
{
	const uint8_t *at = *from;
	switch (token) {
	case E:
		*from += DH;
		memcpy(noise->re, at, DH);
		mix_ephemeral(noise, noise->re);
		return TFC_OK;
	case S:
		*from += DH + TFC__NOISE_TAG;
		return tfc__noise_open_and_hash(&noise->symmetric, at, DH + TFC__NOISE_TAG,
						noise->rs);
	default:
		return mix_token(noise, token);
	}
}

/* The other end's static key becomes available only after its whole message is verified. */
static int noise_read_message(struct tfc__noise *noise, const uint8_t *from, size_t len,
			      uint8_t *payload)
{
	const enum token *tokens = pattern[noise->next];
	const uint8_t *end = from + len;
	bool has_remote = noise->has_remote;
	int code = TFC_OK;
	for (int i = 0; i < TOKENS && tokens[i] != END && code == TFC_OK; i++) {
		code = noise_read_token(noise, tokens[i], &from);
		has_remote |= tokens[i] == S;
	}
	if (code == TFC_OK)
		code = tfc__noise_open_and_hash(&noise->symmetric, from, (size_t)(end - from),
						payload);
	noise->has_remote = code == TFC_OK && has_remote;
	return code;
}

int tfc__noise_read(struct tfc__noise *noise, const void *message, size_t len,
		    struct tfc__buf *payload)
{
	if (noise->next == MESSAGES || noise->is_failed || tfc__noise_is_writing(noise))
		return TFC_ESTATE;
	noise->is_failed = true;
	if (len < overheads[noise->next] || len > TFC__NOISE_MESSAGE_MAX)
		return TFC_EPARSE;
	size_t size = len - overheads[noise->next];
	char *to = tfc__buf_reserve(payload, size);
	int code = to ? noise_read_message(noise, message, len, (uint8_t *)to) : TFC_ENOMEM;
	if (code < 0)
		return code;
	tfc__buf_grow(payload, size);
	noise->is_failed = false;
	noise->next++;
	return TFC_OK;
}

/* ---- Split */

int tfc__noise_split(struct tfc__noise *noise, struct tfc__noise_cipher *ret_send,
		     struct tfc__noise_cipher *ret_receive)
{
	if (!tfc__noise_is_done(noise) || noise->is_split)
		return TFC_ESTATE;
	noise->is_split = true;
	*ret_send = *ret_receive = (struct tfc__noise_cipher){0};
	tfc__noise_split_keys(&noise->symmetric,
			      noise->is_initiator ? ret_send->key : ret_receive->key,
			      noise->is_initiator ? ret_receive->key : ret_send->key);
	return TFC_OK;
}
