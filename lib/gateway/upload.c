#include "gateway/upload.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/file.h"
#include "bundle/transfer.h"
#include "proc/proc.h"

struct tfc__upload {
	const struct tfc__upload_ops *ops;
	void *user;
	struct tfc__bundle *bundle; /* a reference */
	struct tfc__observer waiter;
	struct tfc__bundle_sender *sender; /* NULL: not being offered */
};

/* ---- the directory */

static int uploads_open(struct tfc__uploads *uploads, tfc_error *error)
{
	tfc_ctx *ctx = uploads->ctx;
	int code = tfc__guard_start(ctx);
	if (code < 0)
		*error = *tfc__ctx_error(ctx);
	if (code == TFC_OK && !uploads->dir)
		code = tfc__private_dir_open(ctx, uploads->temp_dir, -1, "gateway", error,
					     &uploads->dir);
	if (code == TFC_OK)
		code = tfc__bundles_open(ctx, tfc__private_dir_path(uploads->dir), 0, error,
					 &uploads->bundles);
	return code;
}

void tfc__uploads_fini(struct tfc__uploads *uploads)
{
	tfc__bundles_close(uploads->bundles);
	tfc__private_dir_close(uploads->dir);
	free(uploads->temp_dir);
	uploads->bundles = NULL;
	uploads->dir = NULL;
	uploads->temp_dir = NULL;
}

/* ---- packing */

static void upload_on_bundle(struct tfc__observer *waiter, const void *event)
{
	struct tfc__upload *upload = tfc__container_of(waiter, struct tfc__upload, waiter);
	const struct tfc__bundle *bundle = upload->bundle;
	if (bundle->state == TFC__BUNDLE_PACKING)
		return;
	tfc__observer_remove(waiter);
	if (bundle->state == TFC__BUNDLE_READY)
		upload->ops->packed(upload->user);
	else
		upload->ops->failed(upload->user, &bundle->error);
}

int tfc__upload_open(struct tfc__uploads *uploads, const char *path,
		     const struct tfc__upload_ops *ops, void *user, tfc_error *error,
		     struct tfc__upload **ret_upload)
{
	char key[24];
	struct tfc__upload *upload = calloc(1, sizeof(*upload));
	if (!upload)
		return tfc__fail_nomem(error, "gateway");
	upload->ops = ops;
	upload->user = user;
	tfc__observer_init(&upload->waiter, upload_on_bundle);
	/* Each upload is packed separately: the files may have changed since the last. */
	snprintf(key, sizeof(key), "%p", (void *)upload);
	int code = uploads->bundles ? TFC_OK : uploads_open(uploads, error);
	if (code == TFC_OK)
		code = tfc__bundle_pack(uploads->bundles, key, path, error, &upload->bundle);
	if (code < 0) {
		tfc__upload_close(upload);
		return code;
	}
	tfc__bundle_await(upload->bundle, &upload->waiter);
	*ret_upload = upload;
	return TFC_OK;
}

const char *tfc__upload_hash(const struct tfc__upload *upload)
{
	return upload->bundle->hash;
}

/* ---- sending */

static void upload_on_ready(void *user)
{
	struct tfc__upload *upload = user;
	upload->ops->ready(upload->user);
}

static void upload_on_failed(void *user, const tfc_error *error)
{
	struct tfc__upload *upload = user;
	upload->sender = NULL;
	upload->ops->failed(upload->user, error);
}

static void upload_on_progress(void *user, uint64_t sent, uint64_t total)
{
	struct tfc__upload *upload = user;
	upload->ops->progress(upload->user, sent, total);
}

void tfc__upload_offer(struct tfc__upload *upload, struct tfc__rpc *rpc)
{
	static const struct tfc__bundle_sender_ops ops = {upload_on_ready, upload_on_failed,
							  upload_on_progress};
	tfc_error error = TFC_ERROR_INIT;
	tfc__upload_leave(upload);
	if (tfc__bundle_send(upload->bundle, rpc, &ops, upload, &error, &upload->sender) < 0)
		upload->ops->failed(upload->user, &error);
}

void tfc__upload_leave(struct tfc__upload *upload)
{
	tfc__bundle_sender_close(upload->sender);
	upload->sender = NULL;
}

void tfc__upload_close(struct tfc__upload *upload)
{
	if (!upload)
		return;
	tfc__upload_leave(upload);
	tfc__observer_remove(&upload->waiter);
	tfc__bundle_leave(upload->bundle);
	free(upload);
}
