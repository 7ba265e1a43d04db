/*
 * The bundles of this machine: archives by their SHA-256, packed here or received from another
 * node, shared by all jobs and tasks that want them. Whatever may take long – packing, hashing,
 * writing – is done by tfc-bundle, a process of its own, so that no loop waits for a disk.
 *
 * What nobody uses any more stays as a cache, up to a size.
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
	TFC__BUNDLE_CHECKING,  /* it lies in the cache, and its bytes are hashed */
	TFC__BUNDLE_RECEIVING, /* its bytes come by tfc__bundle_write */
	TFC__BUNDLE_READY,     /* hash, size and path are set */
	TFC__BUNDLE_FAILED,    /* error */
};

struct tfc__bundle {
	struct tfc__link link;
	struct tfc__bundles *bundles;
	enum tfc__bundle_state state;
	char hash[TFC_BUNDLE_HASH_SIZE]; /* "": not known yet */
	uint64_t size;
	char *path;
	tfc_error error;
	/* the rest is of cache*.c alone */
	char *key; /* whom it is packed for; NULL: nobody */
	char *from;
	char *work; /* directory of the process */
	struct tfc_process *process;
	uint32_t lost; /* times that the process was */
	uint32_t users;
	bool is_kept;     /* somebody counts on it who cannot get it again */
	uint64_t used_at; /* when the last one left */
	struct tfc__observers waiters;
	struct tfc__work tell;
	/* what is received: bytes that the process has not taken yet */
	struct tfc__io pipe;
	uint64_t received; /* all in all */
	char *waiting;
	size_t waiting_at, waiting_len, waiting_capacity;
};

/* dir is made if it is missing; what was cached in it is found again. */
int tfc__bundles_open(tfc_ctx *ctx, const char *dir, uint64_t max_bytes, tfc_error *error,
		      struct tfc__bundles **ret_bundles);
void tfc__bundles_close(struct tfc__bundles *bundles);

/* The archive of `path` for `key`; again for the same key while it is used: the same one. Where
 * `path` is a name, the one that is called so: FAILED if it is not here. Each success takes a use,
 * to be given back. TFC_ENOMEM, and what tfc_process_spawn gives. */
int tfc__bundle_pack(struct tfc__bundles *bundles, const char *key, const char *path,
		     tfc_error *error, struct tfc__bundle **ret_bundle);

/* The one with this hash: cached, on its way, or to be received from now on. TFC_EBUSY: on its way
 * with another size. */
int tfc__bundle_want(struct tfc__bundles *bundles, const char *hash, uint64_t size,
		     tfc_error *error, struct tfc__bundle **ret_bundle);
/* One that could not be packed where it should come from. */
int tfc__bundle_failed(struct tfc__bundles *bundles, const char *why, tfc_error *error,
		       struct tfc__bundle **ret_bundle);
/* "sha256:HASH": what a job calls a bundle that its gateway was brought. */
#define TFC__BUNDLE_NAME "sha256:"
/* The hash in a name, or NULL: it is a path. */
const char *tfc__bundle_named(const char *name);
/* The one with this name, if it is here, with a use; nobody brings it again. NULL: it is not. */
struct tfc__bundle *tfc__bundle_keep(const struct tfc__bundles *bundles, const char *name);

/* Whether so many bytes more find room; TFC_ENOSPC. */
int tfc__bundles_room(const struct tfc__bundles *bundles, uint64_t bytes, tfc_error *error);

void tfc__bundle_use(struct tfc__bundle *bundle);
void tfc__bundle_leave(struct tfc__bundle *bundle); /* NULL is a no-op */

/* The one with this hash that is used or cached, or NULL. Borrowed. */
struct tfc__bundle *tfc__bundle_find(const struct tfc__bundles *bundles, const char *hash);

/* For READY or FAILED, or for bytes to be taken; called, event NULL, in dispatch, or, FAILED, when
 * the cache is closed. */
void tfc__bundle_await(struct tfc__bundle *bundle, struct tfc__observer *waiter);

/* More of one that is RECEIVING, which has `at` bytes of it. Copied; TFC_OK, TFC_ENOMEM, TFC_ESTATE
 * (it is not receiving, not at `at`, or far behind), or what starting the process gives. */
int tfc__bundle_write(struct tfc__bundle *bundle, uint64_t at, const void *data, size_t len,
		      tfc_error *error);
/* Bytes that wait for the process: a sender holds back while they are many. */
size_t tfc__bundle_backlog(const struct tfc__bundle *bundle);

#endif
