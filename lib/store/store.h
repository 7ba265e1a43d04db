/*
 * The store: small records by key, which survive the process. All calls are asynchronous: a helper
 * process (tfc-store) writes the files, so that a slow disk never blocks the loop.
 *
 * Keys are paths of [A-Za-z0-9._-] parts ("jobs/0123456789abcdef/record"); no part begins with a
 * dot, and no key is the folder of another key. Values are bytes, at most 8 MiB. The version of a
 * key increases with each write and is never reused; a compare-and-set names the expected version
 * (0: the key must not exist).
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

/* The completion of a request, called once, in dispatch: the code and the values, borrowed. A list
 * passes all its values in one call. */
typedef void (*tfc__store_fn)(void *user, int code, const tfc_store_value *values, uint32_t count,
			      const tfc_error *error);

/*
 * Opens a store in a directory, which is created with mode 0700 if necessary. One process can have
 * it open at a time. Waits up to 10 s for the helper to open it. Errors: TFC_EBUSY, naming the
 * process that has it open; TFC_EPARSE for a directory that is not a state directory or of a later
 * version; TFC_EACCES, TFC_ENOENT, TFC_ENOSPC, TFC_ETIMEDOUT.
 */
int tfc__store_open_local(tfc_ctx *ctx, const char *path, tfc_error *error,
			  struct tfc__store **ret_store);

/* Opens a store in memory. */
int tfc__store_open_memory(tfc_ctx *ctx, tfc_error *error, struct tfc__store **ret_store);

/* Opens a store that the host implements; the table is copied. TFC_EINVAL: a function is
 * missing. */
int tfc__store_open_ops(tfc_ctx *ctx, const tfc_store_ops *ops, void *user, tfc_error *error,
			struct tfc__store **ret_store);

/* Closes the store. Requests submitted before are still performed, but no callback is called any
 * more. Waits up to 5 s for the disk. NULL is a no-op. */
void tfc__store_close(struct tfc__store *store);

/*
 * A secret of TFC__STORE_SEAL_SIZE bytes for encrypting data that must not be stored in the clear;
 * kept in a file beside the records of a local store. NULL for a host's own store. Borrowed.
 */
const uint8_t *tfc__store_seal_key(const struct tfc__store *store);

/* Whether the records are lost when the process ends, as in a store in memory. */
bool tfc__store_is_volatile(const struct tfc__store *store);

/*
 * Requests are performed one after the other in the order of submission. Each calls fn, also when
 * it fails at once: TFC_EINVAL (key), TFC_ETOOBIG (value). A return value of NULL means out of
 * memory: nothing is performed and fn is not called.
 */

/* Reads a record. TFC_ENOENT: no such key; TFC_EPARSE: the record is damaged (the text names the
 * file). */
struct tfc__store_op *tfc__store_get(struct tfc__store *store, const char *key, tfc__store_fn fn,
				     void *user);

/*
 * Reads all records below a prefix that ends in '/', in the byte order of their keys. TFC_EPARSE:
 * some records are damaged; these have data NULL, the others are complete. TFC_ENOENT, TFC_EACCES
 * and others: the directory cannot be read (the text names the path), and the values are
 * incomplete.
 */
struct tfc__store_op *tfc__store_list(struct tfc__store *store, const char *prefix,
				      tfc__store_fn fn, void *user);

/*
 * Writes a record, which is durable when fn is called with 0. `version` is the expected current
 * version; UINT64_MAX: any. TFC_ESTATE: the record has another version. `data` is copied. values[0]
 * has the new version.
 */
struct tfc__store_op *tfc__store_put(struct tfc__store *store, const char *key, const void *data,
				     size_t len, uint64_t version, tfc__store_fn fn, void *user);

/* Removes a key (TFC_ENOENT: no such key), or all keys below a prefix that ends in '/', completely
 * or not at all. */
struct tfc__store_op *tfc__store_remove(struct tfc__store *store, const char *key, tfc__store_fn fn,
					void *user);

/*
 * Waits, outside of dispatch, until all submitted requests are completed; their callbacks are
 * called inside. TFC_ETIMEDOUT: some are still pending. TFC_ENOTSUP: a host's own store cannot be
 * waited for. The callbacks of pending requests are then called in dispatch. A callback must not
 * close the store inside this function.
 */
int tfc__store_wait(struct tfc__store *store, uint32_t timeout_ms);

/* Detaches a request from its owner: it is still performed, but fn is not called. NULL is a
 * no-op. */
void tfc__store_drop(struct tfc__store_op *op);

#endif
