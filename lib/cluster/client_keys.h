/*
 * Client keys: a submitter's name for one submit, so that it makes one job however often it comes
 * (doc/internals/gateway.md, "One submit is one job"). The key of a job is in the job's record; the
 * keys of jobs that were forgotten are kept here, for 24 hours.
 */
#ifndef TFC_CLUSTER_CLIENT_KEYS_H
#define TFC_CLUSTER_CLIENT_KEYS_H

#include "base/list.h"
#include "store/store.h"
#include <stdbool.h>
#include <stdint.h>

#define TFC__CLIENT_KEY_SIZE 65
#define TFC__SUBMIT_DIGEST_SIZE 32
#define TFC__CLIENT_KEYS_MAX 10000                     /* then the oldest goes before its time */
#define TFC__CLIENT_KEY_NS (24 * 3600 * 1000000000ull) /* after its job was forgotten */
#define TFC__CLIENT_KEYS_PREFIX "keys/"
#define TFC__CLIENT_KEYS_BUCKETS 256

struct tfc__client_key {
	char text[TFC__CLIENT_KEY_SIZE]; /* "": none */
	uint32_t owner;                  /* uid of the user whose key it is */
	/* Of what was submitted; zeros: not known, as in a record of 0.2. */
	uint8_t digest[TFC__SUBMIT_DIGEST_SIZE];
};

/* Whether `wanted` names the submit that `known` does, which made `job`. TFC_EEXIST: it is another
 * user's, who learns no more; or another submit's. */
int tfc__client_key_check(const struct tfc__client_key *known, const char *job,
			  const struct tfc__client_key *wanted, tfc_error *error);

/* The keys of forgotten jobs. */
struct tfc__client_keys {
	tfc_ctx *ctx;
	struct tfc__store *store;                           /* borrowed */
	struct tfc__link all;                               /* by the time at which they expire */
	struct tfc__link buckets[TFC__CLIENT_KEYS_BUCKETS]; /* by the name of their record */
	uint32_t count;
	uint32_t max;
	uint64_t keep_ns;
	struct tfc__timer expiry;
	bool is_full_logged;
};

void tfc__client_keys_init(struct tfc__client_keys *keys, tfc_ctx *ctx, struct tfc__store *store);
void tfc__client_keys_fini(struct tfc__client_keys *keys);

/* Fills them with what the store has below TFC__CLIENT_KEYS_PREFIX; one that is damaged refuses its
 * key. TFC_ENOMEM. */
int tfc__client_keys_restore(struct tfc__client_keys *keys, const tfc_store_value *values,
			     uint32_t count);

/* The job is about to be forgotten. What is asked of the store after this comes after it there.
 * TFC_OK, or TFC_ENOMEM: the key is not kept. */
int tfc__client_keys_keep(struct tfc__client_keys *keys, const struct tfc__client_key *key,
			  const char *job);

/* TFC_OK and the job's id, TFC_ENOENT (without a sentence), those of tfc__client_key_check,
 * TFC_EPARSE (the key's record is damaged). */
int tfc__client_keys_find(const struct tfc__client_keys *keys, const struct tfc__client_key *wanted,
			  char ret_job[17], tfc_error *error);

#endif
