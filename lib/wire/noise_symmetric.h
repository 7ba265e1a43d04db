/*
 * Shared by the files of noise: the SymmetricState of section 5.2 and its encryption.
 */
#ifndef TFC_WIRE_NOISE_SYMMETRIC_H
#define TFC_WIRE_NOISE_SYMMETRIC_H

#include "wire/noise.h"

#define NOISE_HASH 32

struct noise_symmetric {
	uint8_t chaining_key[NOISE_HASH];
	uint8_t hash[NOISE_HASH];
	struct tfc__noise_cipher cipher;
};

void tfc__noise_begin(struct noise_symmetric *symmetric, const char *protocol);
void tfc__noise_mix_hash(struct noise_symmetric *symmetric, const void *data, size_t len);
void tfc__noise_mix_key(struct noise_symmetric *symmetric, const uint8_t *key, size_t len);
void tfc__noise_mix_key_and_hash(struct noise_symmetric *symmetric, const uint8_t *key, size_t len);

/* EncryptAndHash and DecryptAndHash. A key exists from the first token on (psk0). */
int tfc__noise_seal_and_hash(struct noise_symmetric *symmetric, const void *plain, size_t len,
			     uint8_t *sealed);
int tfc__noise_open_and_hash(struct noise_symmetric *symmetric, const uint8_t *sealed, size_t len,
			     uint8_t *plain);

void tfc__noise_split_keys(const struct noise_symmetric *symmetric,
			   uint8_t ret_first[TFC__NOISE_KEY], uint8_t ret_second[TFC__NOISE_KEY]);

#endif
