/*
 * What the files of this module share. Every kind of store is a tfc_store_ops behind the same front
 * (store.c), the host's own among them.
 */
#ifndef TFC_STORE_INTERNAL_H
#define TFC_STORE_INTERNAL_H

#include "store/store.h"
#include <stdbool.h>

/* Lets the answer to the request under way come, outside of dispatch: below 0 when it did not come
 * in that time. */
typedef int (*tfc__store_wait_fn)(void *backend, int timeout_ms);

/* What the front knows of one kind of store. */
struct tfc__store_kind {
	const uint8_t *seal_key; /* borrowed for the store's life, or NULL */
	tfc__store_wait_fn wait; /* NULL: it answers when it likes */
	bool is_volatile;        /* gone with the process */
};

/* Takes over `backend`, also when it fails; `kind` is copied. */
int tfc__store_open(tfc_ctx *ctx, const tfc_store_ops *ops, void *backend,
		    const struct tfc__store_kind *kind, struct tfc__store **ret_store,
		    tfc_error *error);

#endif
