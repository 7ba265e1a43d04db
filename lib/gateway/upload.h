/*
 * The bundle of a job that a client submits: packed on the client's machine with the client's
 * permissions, offered to a node over a connection, and sent there unless the node has it
 * (bundle/transfer.h).
 */
#ifndef TFC_GATEWAY_UPLOAD_H
#define TFC_GATEWAY_UPLOAD_H

#include "bundle/cache.h"
#include "wire/rpc.h"

/* Where a client packs: a private directory, created with the first bundle. */
struct tfc__uploads {
	tfc_ctx *ctx;
	char *temp_dir; /* the directory's parent; owned */
	struct tfc__private_dir *dir;
	struct tfc__bundles *bundles;
};
void tfc__uploads_fini(struct tfc__uploads *uploads); /* after its uploads were closed */

struct tfc__upload;

/* Called in dispatch, each as the last action of its caller: any of them may close the upload. */
struct tfc__upload_ops {
	void (*packed)(void *user); /* once: the bundle may be offered */
	/* The node has the bundle, as long as the connection and the upload last. */
	void (*ready)(void *user);
	void (*failed)(void *user, const tfc_error *error); /* TFC_ELOST: offer it again */
	void (*progress)(void *user, uint64_t sent, uint64_t total);
};

/* Starts to pack the directory or file at `path`. `ops` must outlive the upload. TFC_ENOMEM,
 * TFC_ESYS and the errors of tfc_process_spawn. */
int tfc__upload_open(struct tfc__uploads *uploads, const char *path,
		     const struct tfc__upload_ops *ops, void *user, tfc_error *error,
		     struct tfc__upload **ret_upload);
const char *tfc__upload_hash(const struct tfc__upload *upload); /* once it is packed */
void tfc__upload_offer(struct tfc__upload *upload, struct tfc__rpc *rpc);
/* The connection is lost: no callback is made before the next offer. */
void tfc__upload_leave(struct tfc__upload *upload);
void tfc__upload_close(struct tfc__upload *upload); /* NULL is a no-op */

#endif
