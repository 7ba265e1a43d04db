#include "gateway/upload.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/file.h"
#include "gateway/bundle_send.h"
#include "gateway/offers.h"
#include "proc/proc.h"

#define CREDIT 16 /* words of the node that may be on their way */

struct tfc__upload {
	const struct tfc__upload_ops *ops;
	void *user;
	struct tfc__bundle *bundle; /* used */
	struct tfc__bundle_waiter waiter;
	struct tfc__rpc *rpc;
	struct tfc__rpc_call *call; /* the offer; NULL: none */
	struct tfc__bundle_send *send;
};

/* ---- where it is packed */

static int make_dir(struct tfc__uploads *uploads, tfc_error *error)
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

static void on_bundle(struct tfc__bundle_waiter *waiter)
{
	struct tfc__upload *upload = tfc__container_of(waiter, struct tfc__upload, waiter);
	const struct tfc__bundle *bundle = upload->bundle;
	if (bundle->state == TFC__BUNDLE_PACKING)
		return;
	tfc__bundle_unawait(waiter);
	if (bundle->state == TFC__BUNDLE_READY)
		upload->ops->packed(upload->user);
	else
		upload->ops->failed(upload->user, &bundle->error);
}

static int pack(struct tfc__uploads *uploads, struct tfc__upload *upload, const char *path,
		tfc_error *error)
{
	char key[24]; /* each is packed for itself: its files may have changed since the last */
	int code = uploads->bundles ? TFC_OK : make_dir(uploads, error);
	snprintf(key, sizeof(key), "%p", (void *)upload);
	if (code == TFC_OK)
		code = tfc__bundle_pack(uploads->bundles, key, path, error, &upload->bundle);
	if (code == TFC_OK)
		tfc__bundle_await(upload->bundle, &upload->waiter);
	return code;
}

int tfc__upload_open(struct tfc__uploads *uploads, const char *path,
		     const struct tfc__upload_ops *ops, void *user, tfc_error *error,
		     struct tfc__upload **ret_upload)
{
	struct tfc__upload *upload = calloc(1, sizeof(*upload));
	if (!upload)
		return tfc__fail_nomem(error, "gateway");
	upload->ops = ops;
	upload->user = user;
	upload->waiter.fn = on_bundle;
	tfc__list_init(&upload->waiter.link);
	int code = pack(uploads, upload, path, error);
	if (code < 0)
		tfc__upload_close(upload);
	else
		*ret_upload = upload;
	return code;
}

const char *tfc__upload_hash(const struct tfc__upload *upload)
{
	return upload->bundle->hash;
}

/* ---- sending */

static void fail(struct tfc__upload *upload, const tfc_error *error)
{
	tfc_error copy = *error;
	tfc__upload_leave(upload);
	upload->ops->failed(upload->user, &copy);
}

/* That the connection is lost, its offer hears as well. */
static void on_sent(void *user, const tfc_error *error)
{
	struct tfc__upload *upload = user;
	upload->send = NULL;
	if (error && error->code != TFC_ELOST)
		fail(upload, error);
}

static void on_moved(void *user, uint64_t at)
{
	struct tfc__upload *upload = user;
	upload->ops->moved(upload->user, at, upload->bundle->size);
}

static void send_from(struct tfc__upload *upload, uint64_t at)
{
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__bundle_send_options options = {
		.rpc = upload->rpc,
		.method = TFC__METHOD_BUNDLE,
		.at = at,
		.end = on_sent,
		.moved = on_moved,
		.user = upload,
	};
	if (!upload->send && tfc__bundle_send(upload->bundle, &options, &error, &upload->send) < 0)
		fail(upload, &error);
}

static void on_told(void *user, const msgpack_object *item)
{
	struct tfc__upload *upload = user;
	tfc__rpc_more(upload->call, 1);
	if (tfc__msg_get_bool(item, "ready", false))
		upload->ops->there(upload->user);
	else
		send_from(upload, tfc__msg_get_u64(item, "at", 0));
}

static void on_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct tfc__upload *upload = user;
	tfc_error unasked = TFC_ERROR_INIT;
	upload->call = NULL;
	if (code == TFC_OK)
		tfc__fail(&unasked, TFC_EPARSE, "gateway", 0,
			  "the node has ended what it did not finish: the offer of a bundle");
	fail(upload, code < 0 ? error : &unasked);
}

void tfc__upload_offer(struct tfc__upload *upload, struct tfc__rpc *rpc)
{
	struct tfc__buf params = {0};
	tfc_error error = TFC_ERROR_INIT;
	tfc__upload_leave(upload);
	upload->rpc = rpc;
	tfc__msg_map(&params, 2);
	tfc__msg_put_str(&params, "hash", upload->bundle->hash);
	tfc__msg_put_u64(&params, "size", upload->bundle->size);
	const struct tfc__rpc_options options = {.method = TFC__METHOD_OFFER,
						 .params = &params,
						 .credit = CREDIT,
						 .item = on_told,
						 .end = on_end,
						 .user = upload};
	int code = tfc__rpc_call(rpc, &options, &upload->call, &error);
	tfc__buf_fini(&params);
	if (code == TFC_OK)
		return;
	upload->call = NULL;
	fail(upload, &error);
}

void tfc__upload_leave(struct tfc__upload *upload)
{
	tfc__bundle_send_close(upload->send);
	if (upload->call)
		tfc__rpc_drop(upload->call);
	upload->send = NULL;
	upload->call = NULL;
}

void tfc__upload_close(struct tfc__upload *upload)
{
	if (!upload)
		return;
	tfc__upload_leave(upload);
	tfc__bundle_unawait(&upload->waiter);
	tfc__bundle_leave(upload->bundle);
	free(upload);
}
