/*
 * The bundle of a job that a client submits: packed on the client's machine with the client's
 * rights, offered to a node over a connection, and sent there unless the node has it
 * (bundle/transfer.h).
 */
#ifndef TFC_GATEWAY_UPLOAD_H
#define TFC_GATEWAY_UPLOAD_H

#include "bundle/cache.h"
#include "wire/rpc.h"

/* Where a client packs: a private directory, made with the first one. */
struct tfc__uploads {
	tfc_ctx *ctx;
	char *temp_dir; /* its parent; owned */
	struct tfc__private_dir *dir;
	struct tfc__bundles *bundles;
};
void tfc__uploads_fini(struct tfc__uploads *uploads); /* its uploads are closed */

struct tfc__upload;

/* In dispatch, each the last that happens in it: any may close the upload. */
struct tfc__upload_ops {
	void (*packed)(void *user); /* once: it may be offered */
	void (*there)(
		void *user); /* the node has it, as long as the connection and the upload last */
	void (*failed)(void *user, const tfc_error *error); /* TFC_ELOST: to be offered again */
	void (*moved)(void *user, uint64_t sent, uint64_t total);
};

/* Begins to pack what is at `path`. `ops` must live as long. TFC_ENOMEM, TFC_ESYS and those of
 * tfc_process_spawn. */
int tfc__upload_open(struct tfc__uploads *uploads, const char *path,
		     const struct tfc__upload_ops *ops, void *user, tfc_error *error,
		     struct tfc__upload **ret_upload);
const char *tfc__upload_hash(const struct tfc__upload *upload); /* once it is packed */
void tfc__upload_offer(struct tfc__upload *upload, struct tfc__rpc *rpc);
/* The connection is lost: nothing is told any more before the next offer. */
void tfc__upload_leave(struct tfc__upload *upload);
void tfc__upload_close(struct tfc__upload *upload); /* NULL is a no-op */

#endif
