/*
 * The bundles of this machine: archives by their SHA-256, packed here or received from another
 * node, and shared by all jobs and tasks that use them. The slow work (packing, hashing, writing)
 * is done by tfc-bundle in a process of its own, so that no event loop waits for a disk.
 *
 * A bundle that nothing uses stays in the cache, up to a total size.
 */
#ifndef TFC_BUNDLE_CACHE_H
#define TFC_BUNDLE_CACHE_H

#include "base/observers.h"
#include "ctx/ctx.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/bundle.h>

struct tfc__bundles;

enum tfc__bundle_state {
	TFC__BUNDLE_PACKING,
	TFC__BUNDLE_CHECKING,  /* it is in the cache, and its bytes are being hashed */
	TFC__BUNDLE_RECEIVING, /* its bytes are passed in with tfc__bundle_write */
	TFC__BUNDLE_READY,     /* hash, size and path are set */
	TFC__BUNDLE_FAILED,    /* see `error` */
};

struct tfc__bundle {
	struct tfc__link link;
	struct tfc__bundles *bundles;
	enum tfc__bundle_state state;
	char hash[TFC_BUNDLE_HASH_SIZE]; /* "": not known yet */
	uint64_t size;
	char *path;
	tfc_error error;
	/* private to cache.c and cache_work.c */
	char *key; /* the key of tfc__bundle_pack; NULL: none */
	char *from;
	char *work; /* working directory of the process */
	struct tfc_process *process;
	uint32_t lost; /* how often the process was lost */
	uint32_t users;
	bool is_kept;     /* a user of it cannot get the archive a second time */
	uint64_t used_at; /* time at which the last user left */
	struct tfc__observers waiters;
	struct tfc__work report;
	/* while RECEIVING: bytes that the process has not read yet */
	struct tfc__io pipe;
	uint64_t received; /* bytes passed in so far */
	char *waiting;
	size_t waiting_at, waiting_len, waiting_capacity;
};

/*
 * Opens the cache in `dir`, which is created if it is missing; archives that are in it are found
 * again.
 */
int tfc__bundles_open(tfc_ctx *ctx, const char *dir, uint64_t max_bytes, tfc_error *error,
		      struct tfc__bundles **ret_bundles);
void tfc__bundles_close(struct tfc__bundles *bundles);

/*
 * Packs `path` into an archive. Further calls with the same `key` return the same bundle while it
 * is in use. If `path` is a bundle name (TFC__BUNDLE_NAME), returns the bundle with that name, or a
 * FAILED one if it is not here. The caller ends its use with tfc__bundle_leave. TFC_ENOMEM, and the
 * errors of tfc_process_spawn.
 */
int tfc__bundle_pack(struct tfc__bundles *bundles, const char *key, const char *path,
		     tfc_error *error, struct tfc__bundle **ret_bundle);

/*
 * Returns the bundle with this hash, with a use: from the cache, in transfer, or RECEIVING from now
 * on. TFC_EBUSY: it is in transfer with another size.
 */
int tfc__bundle_acquire(struct tfc__bundles *bundles, const char *hash, uint64_t size,
			tfc_error *error, struct tfc__bundle **ret_bundle);
/* Returns a FAILED bundle, with a use, for one that could not be packed on its own node. */
int tfc__bundle_failed(struct tfc__bundles *bundles, const char *why, tfc_error *error,
		       struct tfc__bundle **ret_bundle);
/* "sha256:HASH": the name, in a job, of a bundle that was uploaded to the gateway. */
#define TFC__BUNDLE_NAME "sha256:"
/* The hash in a bundle name, or NULL: it is a path. */
const char *tfc__bundle_named(const char *name);
/*
 * The bundle with this name, with a use, or NULL if it is not here. Its archive cannot be obtained
 * a second time.
 */
struct tfc__bundle *tfc__bundle_keep(const struct tfc__bundles *bundles, const char *name);

/* Whether the disk has room for so many more bytes; otherwise TFC_ENOSPC. */
int tfc__bundles_room(const struct tfc__bundles *bundles, uint64_t bytes, tfc_error *error);

void tfc__bundle_use(struct tfc__bundle *bundle);
void tfc__bundle_leave(struct tfc__bundle *bundle); /* NULL is a no-op */

/* The used or cached bundle with this hash, or NULL. Borrowed. */
struct tfc__bundle *tfc__bundle_find(const struct tfc__bundles *bundles, const char *hash);

/*
 * Calls the waiter (event NULL), in dispatch, when the bundle becomes READY or FAILED and when
 * bytes have been read from its backlog. Closing the cache calls it with the bundle FAILED.
 */
void tfc__bundle_await(struct tfc__bundle *bundle, struct tfc__observer *waiter);

/*
 * Passes in more bytes of a RECEIVING bundle, which has `at` bytes so far. Copied. TFC_OK;
 * TFC_ENOMEM; TFC_ESTATE: the bundle is not RECEIVING, or not at `at`, or its backlog is full; or
 * the error of starting the process.
 */
int tfc__bundle_write(struct tfc__bundle *bundle, uint64_t at, const void *data, size_t len,
		      tfc_error *error);
/* Bytes that the process has not read yet. The sender must pause while there are many. */
size_t tfc__bundle_backlog(const struct tfc__bundle *bundle);

#endif
