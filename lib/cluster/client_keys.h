/*
 * Client keys. A submitter names a submit by a key, and repeated submits with the same key make one
 * job (doc/internals/gateway.md, "One submit is one job"). A job's record contains its key. When a
 * job is forgotten, its key is kept here for 24 hours.
 */
#ifndef TFC_CLUSTER_CLIENT_KEYS_H
#define TFC_CLUSTER_CLIENT_KEYS_H

#include "base/list.h"
#include "store/store.h"
#include <stdbool.h>
#include <stdint.h>

#define TFC__CLIENT_KEY_SIZE 65
#define TFC__SUBMIT_DIGEST_SIZE 32
#define TFC__CLIENT_KEYS_MAX 10000 /* above it the oldest key is removed early */
#define TFC__CLIENT_KEY_NS (24 * 3600 * 1000000000ull) /* lifetime after the job was forgotten */
#define TFC__CLIENT_KEYS_PREFIX "keys/"
#define TFC__CLIENT_KEYS_BUCKETS 256

struct tfc__client_key {
	char text[TFC__CLIENT_KEY_SIZE]; /* "": none */
	uint32_t owner;                  /* uid of the submitter */
	/* Digest of the submitted job; zeros: unknown, as in a record of 0.2. */
	uint8_t digest[TFC__SUBMIT_DIGEST_SIZE];
};

/* Checks that `wanted` names the same submit as `known`, which made `job`. Returns TFC_OK, or
 * TFC_EEXIST: the key belongs to another submit, or to another user, in which case the error text
 * names no job. */
int tfc__client_key_check(const struct tfc__client_key *known, const char *job,
			  const struct tfc__client_key *wanted, tfc_error *error);

/* The keys of forgotten jobs. */
struct tfc__client_keys {
	tfc_ctx *ctx;
	struct tfc__store *store;                           /* borrowed */
	struct tfc__link all;                               /* sorted by the time of expiry */
	struct tfc__link buckets[TFC__CLIENT_KEYS_BUCKETS]; /* hashed by the name of their record */
	uint32_t count;
	uint32_t max;
	uint64_t keep_ns;
	struct tfc__timer expiry;
	bool is_full_logged;
};

void tfc__client_keys_init(struct tfc__client_keys *keys, tfc_ctx *ctx, struct tfc__store *store);
void tfc__client_keys_fini(struct tfc__client_keys *keys);

/* Loads the values that the store has below TFC__CLIENT_KEYS_PREFIX. The key of a damaged value is
 * refused. Returns TFC_OK or TFC_ENOMEM. */
int tfc__client_keys_restore(struct tfc__client_keys *keys, const tfc_store_value *values,
			     uint32_t count);

/* Keeps the key of a job that is about to be forgotten. Later operations on the store are done
 * after the key is stored. Returns TFC_OK, or TFC_ENOMEM: the key is not kept. */
int tfc__client_keys_keep(struct tfc__client_keys *keys, const struct tfc__client_key *key,
			  const char *job);

/* Finds the job that `wanted` has made. Returns TFC_OK and the job's id, TFC_ENOENT (without an
 * error text), an error of tfc__client_key_check, or TFC_EPARSE (the key's record is damaged). */
int tfc__client_keys_find(const struct tfc__client_keys *keys, const struct tfc__client_key *wanted,
			  tfc_error *error, char ret_job[17]);

#endif
