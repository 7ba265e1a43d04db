/* The file format of a record: doc/internals/store-format.md. */
#include <sodium.h>
#include <string.h>

#include "store/disk.h"

#define MAGIC "tfcstore"
#define HASH_AT 32

static void record_write_number(uint8_t *at, uint64_t number, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(number >> (8 * i));
}

static uint64_t record_read_number(const uint8_t *at, size_t bytes)
{
	uint64_t number = 0;
	for (size_t i = 0; i < bytes; i++)
		number |= (uint64_t)at[i] << (8 * i);
	return number;
}

/* The hash includes the key: a record under another record's name is invalid, like a damaged
 * one. */
static void record_hash(const uint8_t *head, const char *key, const void *data, size_t len,
			uint8_t ret_hash[crypto_generichash_BYTES])
{
	crypto_generichash_state state;
	crypto_generichash_init(&state, NULL, 0, crypto_generichash_BYTES);
	crypto_generichash_update(&state, head, HASH_AT);
	crypto_generichash_update(&state, (const uint8_t *)key, strlen(key) + 1);
	crypto_generichash_update(&state, data, len);
	crypto_generichash_final(&state, ret_hash, crypto_generichash_BYTES);
}

void tfc__record_head(const char *key, const void *data, size_t len, uint64_t version,
		      uint8_t head[TFC__RECORD_HEAD])
{
	memcpy(head, MAGIC, 8);
	record_write_number(head + 8, TFC__DISK_FORMAT, 4);
	record_write_number(head + 12, 0, 4);
	record_write_number(head + 16, version, 8);
	record_write_number(head + 24, len, 8);
	record_hash(head, key, data, len, head + HASH_AT);
}

int tfc__record_check(const char *key, const void *file, size_t len, uint64_t *ret_version,
		      const char **ret_why)
{
	const uint8_t *head = file;
	uint8_t expected[crypto_generichash_BYTES];
	*ret_why = "truncated";
	if (len < TFC__RECORD_HEAD)
		return TFC_EPARSE;
	*ret_why = "not a record";
	if (memcmp(head, MAGIC, 8) != 0)
		return TFC_EPARSE;
	*ret_why = "unknown record format version";
	if (record_read_number(head + 8, 4) != TFC__DISK_FORMAT)
		return TFC_EPARSE;
	*ret_why = "length mismatch";
	if (record_read_number(head + 24, 8) != len - TFC__RECORD_HEAD)
		return TFC_EPARSE;
	*ret_why = "checksum mismatch";
	record_hash(head, key, head + TFC__RECORD_HEAD, len - TFC__RECORD_HEAD, expected);
	if (memcmp(head + HASH_AT, expected, sizeof(expected)) != 0)
		return TFC_EPARSE;
	*ret_version = record_read_number(head + 16, 8);
	return TFC_OK;
}
