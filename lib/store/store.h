/*
 * The store: small records by key, kept over the end of the process. All calls are asynchronous:
 * files are written by a helper process (tfc-store), so that a slow disk never stops the loop.
 *
 * Keys are paths of [A-Za-z0-9._-] parts ("jobs/0123456789abcdef/record"), none of which begins
 * with a dot; no key is the folder of another. Values are bytes, at most 8 MiB. Versions grow with
 * each write of a key and are never used again: compare-and-set asks for one (0: the key must not
 * exist).
 */
#ifndef TFC_STORE_STORE_H
#define TFC_STORE_STORE_H

#include "base/names.h"
#include "ctx/ctx.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/backend.h>

#define TFC__STORE_VALUE_MAX (8u << 20)
#define TFC__STORE_SEAL_SIZE 32

struct tfc__store;
struct tfc__store_op;

/* Once, in dispatch: code, and what was asked for, borrowed. A list comes as many values. */
typedef void (*tfc__store_fn)(void *user, int code, const tfc_store_value *values, uint32_t count,
			      const tfc_error *error);

/*
 * A directory, made with mode 0700; one process has it at a time. Waits until the helper has opened
 * it, 10 s at most. TFC_EBUSY names the process that has it, TFC_EPARSE: not ours, or of a later
 * version; TFC_EACCES, TFC_ENOENT, TFC_ENOSPC, TFC_ETIMEDOUT.
 */
int tfc__store_open_local(tfc_ctx *ctx, const char *path, struct tfc__store **ret_store,
			  tfc_error *error);

/* In memory alone. */
int tfc__store_open_memory(tfc_ctx *ctx, struct tfc__store **ret_store, tfc_error *error);

/* A host's own; the table is copied. TFC_EINVAL: a function is missing. */
int tfc__store_open_ops(tfc_ctx *ctx, const tfc_store_ops *ops, void *user,
			struct tfc__store **ret_store, tfc_error *error);

/* What was asked for before is still done; no callback comes after. Waits for the disk, 5 s at
 * most. NULL is a no-op. */
void tfc__store_close(struct tfc__store *store);

/*
 * A secret of TFC__STORE_SEAL_SIZE bytes, to seal what may not lie there in the clear: kept in a
 * file beside the records of a local store. NULL: a host's own store has none. Borrowed.
 */
const uint8_t *tfc__store_seal_key(const struct tfc__store *store);

/* Whether all is gone with the process, as of a store in memory. */
bool tfc__store_is_volatile(const struct tfc__store *store);

/*
 * Requests are done one after the other, in the order they were asked for, and each is called back,
 * also when it fails at once: TFC_EINVAL (key), TFC_ETOOBIG (value). NULL: out of memory, nothing
 * is done or called.
 */

/* TFC_ENOENT: no such key; TFC_EPARSE: damaged (names the file). */
struct tfc__store_op *tfc__store_get(struct tfc__store *store, const char *key, tfc__store_fn fn,
				     void *user);

/* All keys below a prefix that ends in '/', with their values, in the order of the keys' bytes.
 * TFC_EPARSE: some are damaged; they come with data NULL, and the others with theirs. TFC_ENOENT,
 * TFC_EACCES ...: it cannot be read (names the path), and nothing came for sure. */
struct tfc__store_op *tfc__store_list(struct tfc__store *store, const char *prefix,
				      tfc__store_fn fn, void *user);

/* Writes: durable when fn is called with 0. version: what must be there; UINT64_MAX: whatever is.
 * TFC_ESTATE: another version is there. data is copied. The new version is in values[0]. */
struct tfc__store_op *tfc__store_put(struct tfc__store *store, const char *key, const void *data,
				     size_t len, uint64_t version, tfc__store_fn fn, void *user);

/* Removes a key (TFC_ENOENT: there is none), or all below a prefix that ends in '/', whole or not
 * at all. */
struct tfc__store_op *tfc__store_remove(struct tfc__store *store, const char *key, tfc__store_fn fn,
					void *user);

/*
 * For a caller outside of dispatch: waits until all that was asked for is answered, so the
 * callbacks come inside. TFC_ETIMEDOUT: not all in that time; TFC_ENOTSUP: a host's own store
 * answers when it likes. Then they come in dispatch. The store must not be closed inside.
 */
int tfc__store_wait(struct tfc__store *store, uint32_t timeout_ms);

/* Its owner goes away: done all the same, nothing is called. NULL is a no-op. */
void tfc__store_drop(struct tfc__store_op *op);

#endif
