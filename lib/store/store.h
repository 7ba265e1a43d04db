/*
 * The store: small records by key, kept over the end of the process. All calls are asynchronous:
 * files are written by a helper process (tfc-store), so that a slow disk never stops the loop.
 *
 * Keys are paths of [A-Za-z0-9._-] parts ("jobs/0123456789abcdef/record"). Values are bytes, at
 * most 8 MiB. Versions grow with each write of a key and are never reused: compare-and-set asks for
 * one (0: the key must not exist).
 */
#ifndef TFC_STORE_STORE_H
#define TFC_STORE_STORE_H

#include "ctx/ctx.h"
#include <stdint.h>
#include <tfcluster/backend.h>

struct tfc__store;
struct tfc__store_op;

struct tfc__store_value {
	const char *key;
	const void *data;
	size_t len;
	uint64_t version;
};

/* Once, in dispatch: code, and what was asked for, borrowed. A list comes as many values. */
typedef void (*tfc__store_fn)(void *user, int code, const struct tfc__store_value *values,
			      uint32_t count, const tfc_error *error);

/* path: a directory, made with mode 0700; locked, so that one process has it: TFC_EBUSY names the
 * other. path NULL: memory alone. TFC_EACCES, TFC_EPARSE (not ours, or of a later version). */
int tfc__store_open_local(tfc_ctx *ctx, const char *path, struct tfc__store **ret_store,
			  tfc_error *error);
/* A host's own. */
int tfc__store_open_ops(tfc_ctx *ctx, const tfc_store_ops *ops, void *user,
			struct tfc__store **ret_store, tfc_error *error);
/* What was asked for before is still done; no callback comes after. */
void tfc__store_close(struct tfc__store *store);

/* TFC_ENOENT: no such key; TFC_EPARSE: damaged (names the file); also for one of a list, which then
 * has len 0 and data NULL. Each is called back even when it fails at once. */
struct tfc__store_op *tfc__store_get(struct tfc__store *store, const char *key, tfc__store_fn fn,
				     void *user);
/* All keys below a prefix that ends in '/', with their values, in order. */
struct tfc__store_op *tfc__store_list(struct tfc__store *store, const char *prefix,
				      tfc__store_fn fn, void *user);
/* Writes: durable when fn is called with 0. version: what must be there; UINT64_MAX: whatever is.
 * TFC_ESTATE: another version is there. data is copied. The new version is in values[0].
 * Writes of one store are done in the order they were asked for. */
struct tfc__store_op *tfc__store_put(struct tfc__store *store, const char *key, const void *data,
				     size_t len, uint64_t version, tfc__store_fn fn, void *user);
/* Removes a key, or all below a prefix that ends in '/'. */
struct tfc__store_op *tfc__store_remove(struct tfc__store *store, const char *key, tfc__store_fn fn,
					void *user);
/* Its owner goes away: done all the same, nothing is called. */
void tfc__store_drop(struct tfc__store_op *op);

#endif
