/* Sections 4.3, 5.1 and 5.2 of the Noise specification, with the functions of section 12. */
#include "wire/noise_symmetric.h"

#include <sodium.h>
#include <string.h>

enum { NONCE = crypto_aead_chacha20poly1305_ietf_NPUBBYTES };

/* ---- CipherState */

/* Section 12.3: four zero bytes and the number in little-endian order. */
static void encode_nonce(uint64_t number, uint8_t nonce[NONCE])
{
	memset(nonce, 0, 4);
	for (int i = 4; i < NONCE; i++, number >>= 8)
		nonce[i] = (uint8_t)(number & 0xFF);
}

/* The last nonce is reserved (section 5.1). */
static bool cipher_is_used_up(const struct tfc__noise_cipher *cipher)
{
	return cipher->nonce == UINT64_MAX;
}

static int cipher_seal(struct tfc__noise_cipher *cipher, const void *with, size_t with_len,
		       const void *plain, size_t len, uint8_t *sealed)
{
	uint8_t nonce[NONCE];
	if (cipher_is_used_up(cipher))
		return TFC_ESTATE;
	encode_nonce(cipher->nonce++, nonce);
	crypto_aead_chacha20poly1305_ietf_encrypt(sealed, NULL, plain, len, with, with_len, NULL,
						  nonce, cipher->key);
	return TFC_OK;
}

static int cipher_open(struct tfc__noise_cipher *cipher, const void *with, size_t with_len,
		       const void *sealed, size_t len, uint8_t *plain)
{
	uint8_t nonce[NONCE];
	if (cipher->is_failed || cipher_is_used_up(cipher))
		return TFC_ESTATE;
	encode_nonce(cipher->nonce, nonce);
	if (len < TFC__NOISE_TAG || len > TFC__NOISE_MESSAGE_MAX ||
	    crypto_aead_chacha20poly1305_ietf_decrypt(plain, NULL, NULL, sealed, len, with,
						      with_len, nonce, cipher->key) != 0) {
		cipher->is_failed = true;
		return TFC_EACCES;
	}
	cipher->nonce++;
	return TFC_OK;
}

int tfc__noise_seal(struct tfc__noise_cipher *cipher, const void *plain, size_t len, void *sealed)
{
	if (len > TFC__NOISE_MESSAGE_MAX - TFC__NOISE_TAG)
		return TFC_ETOOBIG;
	return cipher_seal(cipher, NULL, 0, plain, len, sealed);
}

int tfc__noise_open(struct tfc__noise_cipher *cipher, const void *sealed, size_t len, void *plain)
{
	return cipher_open(cipher, NULL, 0, sealed, len, plain);
}

void tfc__noise_cipher_fini(struct tfc__noise_cipher *cipher)
{
	sodium_memzero(cipher, sizeof(*cipher));
}

/* ---- HKDF, section 4.3 */

static void hmac(const uint8_t key[NOISE_HASH], const uint8_t *data, size_t len, uint8_t number,
		 uint8_t ret_hash[NOISE_HASH])
{
	crypto_auth_hmacsha256_state state;
	crypto_auth_hmacsha256_init(&state, key, NOISE_HASH);
	crypto_auth_hmacsha256_update(&state, data, len);
	if (number)
		crypto_auth_hmacsha256_update(&state, &number, 1);
	crypto_auth_hmacsha256_final(&state, ret_hash);
	sodium_memzero(&state, sizeof(state));
}

/* Fills `count` consecutive outputs. */
static void hkdf(const uint8_t chaining_key[NOISE_HASH], const uint8_t *material, size_t len,
		 uint8_t count, uint8_t *ret_outputs)
{
	uint8_t secret[NOISE_HASH];
	hmac(chaining_key, material, len, 0, secret);
	hmac(secret, NULL, 0, 1, ret_outputs);
	for (uint8_t i = 1; i < count; i++)
		hmac(secret, ret_outputs + (i - 1) * NOISE_HASH, NOISE_HASH, (uint8_t)(i + 1),
		     ret_outputs + i * NOISE_HASH);
	sodium_memzero(secret, sizeof(secret));
}

/* ---- SymmetricState */

static void cipher_set_key(struct tfc__noise_cipher *cipher, const uint8_t key[TFC__NOISE_KEY])
{
	memcpy(cipher->key, key, TFC__NOISE_KEY);
	cipher->nonce = 0;
	cipher->is_failed = false;
}

void tfc__noise_begin(struct noise_symmetric *symmetric, const char *protocol)
{
	crypto_hash_sha256(symmetric->hash, (const uint8_t *)protocol, strlen(protocol));
	memcpy(symmetric->chaining_key, symmetric->hash, NOISE_HASH);
}

void tfc__noise_mix_hash(struct noise_symmetric *symmetric, const void *data, size_t len)
{
	crypto_hash_sha256_state state;
	crypto_hash_sha256_init(&state);
	crypto_hash_sha256_update(&state, symmetric->hash, NOISE_HASH);
	crypto_hash_sha256_update(&state, data, len);
	crypto_hash_sha256_final(&state, symmetric->hash);
}

void tfc__noise_mix_key(struct noise_symmetric *symmetric, const uint8_t *key, size_t len)
{
	uint8_t outputs[2 * NOISE_HASH];
	hkdf(symmetric->chaining_key, key, len, 2, outputs);
	memcpy(symmetric->chaining_key, outputs, NOISE_HASH);
	cipher_set_key(&symmetric->cipher, outputs + NOISE_HASH);
	sodium_memzero(outputs, sizeof(outputs));
}

void tfc__noise_mix_key_and_hash(struct noise_symmetric *symmetric, const uint8_t *key, size_t len)
{
	uint8_t outputs[3 * NOISE_HASH];
	hkdf(symmetric->chaining_key, key, len, 3, outputs);
	memcpy(symmetric->chaining_key, outputs, NOISE_HASH);
	tfc__noise_mix_hash(symmetric, outputs + NOISE_HASH, NOISE_HASH);
	cipher_set_key(&symmetric->cipher, outputs + 2 * NOISE_HASH);
	sodium_memzero(outputs, sizeof(outputs));
}

int tfc__noise_seal_and_hash(struct noise_symmetric *symmetric, const void *plain, size_t len,
			     uint8_t *sealed)
{
	int code = cipher_seal(&symmetric->cipher, symmetric->hash, NOISE_HASH, plain, len, sealed);
	if (code == TFC_OK)
		tfc__noise_mix_hash(symmetric, sealed, len + TFC__NOISE_TAG);
	return code;
}

int tfc__noise_open_and_hash(struct noise_symmetric *symmetric, const uint8_t *sealed, size_t len,
			     uint8_t *plain)
{
	int code = cipher_open(&symmetric->cipher, symmetric->hash, NOISE_HASH, sealed, len, plain);
	if (code == TFC_OK)
		tfc__noise_mix_hash(symmetric, sealed, len);
	return code;
}

void tfc__noise_split_keys(const struct noise_symmetric *symmetric,
			   uint8_t ret_first[TFC__NOISE_KEY], uint8_t ret_second[TFC__NOISE_KEY])
{
	uint8_t outputs[2 * NOISE_HASH];
	hkdf(symmetric->chaining_key, NULL, 0, 2, outputs);
	memcpy(ret_first, outputs, TFC__NOISE_KEY);
	memcpy(ret_second, outputs + NOISE_HASH, TFC__NOISE_KEY);
	sodium_memzero(outputs, sizeof(outputs));
}
