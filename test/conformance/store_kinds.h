/*
 * The stores that pass the suite. A host's own store is added here: a line in test_store_kinds of
 * store_kinds.c. The simulator's is in store_simulated.c: it takes the place of the local one.
 */
#ifndef TEST_CONFORMANCE_STORE_KINDS_H
#define TEST_CONFORMANCE_STORE_KINDS_H

#include "store/store.h"
#include <stdbool.h>

struct store_kind {
	const char *name;
	/* `place`: a path of the test's own that is not there yet, for what is to be kept. */
	int (*open)(tfc_ctx *ctx, const char *place, tfc_error *error,
		    struct tfc__store **ret_store);
	bool is_kept; /* what was written is there when the place is opened again */
};

extern const struct store_kind test_store_kinds[];
extern const size_t test_store_kind_count;

/* ---- one request, awaited */

struct store_answer {
	bool has_come;
	int code;
	uint32_t count;
	uint64_t version; /* of the first value */
	char text[2048];  /* "key=value\n" of each; the sentence of a failure behind them */
};

void test_store_take(void *user, int code, const tfc_store_value *values, uint32_t count,
		     const tfc_error *error); /* into a struct store_answer */
void test_store_await(tfc_ctx *ctx, const struct store_answer *answer);

struct store_answer test_store_get(tfc_ctx *ctx, struct tfc__store *store, const char *key);
struct store_answer test_store_list(tfc_ctx *ctx, struct tfc__store *store, const char *prefix);
struct store_answer test_store_put(tfc_ctx *ctx, struct tfc__store *store, const char *key,
				   const char *value, uint64_t version);
struct store_answer test_store_remove(tfc_ctx *ctx, struct tfc__store *store, const char *key);

#endif
