/*
 * Shared by the files of this module. Every kind of store, including the host's own, is a
 * tfc_store_ops behind the common front end (store.c).
 */
#ifndef TFC_STORE_INTERNAL_H
#define TFC_STORE_INTERNAL_H

#include "store/store.h"
#include <stdbool.h>

/* Waits, outside of dispatch, for the response to the current request. Returns below 0 when none is
 * received within the timeout. */
typedef int (*tfc__store_wait_fn)(void *backend, int timeout_ms);

/* The properties of a kind of store. */
struct tfc__store_kind {
	const uint8_t *seal_key; /* borrowed for the store's life, or NULL */
	tfc__store_wait_fn wait; /* NULL: the store cannot be waited for */
	bool is_volatile;        /* lost when the process ends */
};

/* Takes ownership of `backend`, also on failure; `kind` is copied. */
int tfc__store_open(tfc_ctx *ctx, const tfc_store_ops *ops, void *backend,
		    const struct tfc__store_kind *kind, tfc_error *error,
		    struct tfc__store **ret_store);

#endif
