#include "bundle/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"

#define CHUNK (256 * 1024)
#define CHUNKS 4               /* in flight at a time */
#define CHUNK_TIMEOUT_MS 60000 /* for the response to a chunk; the last one waits for the check */
#define CREDIT 16              /* items of the offer that may be in flight */

struct chunk {
	struct tfc__bundle_sender *sender;
	struct tfc__rpc_call *call; /* NULL: free */
};

struct tfc__bundle_sender {
	const struct tfc__bundle_sender_ops *ops;
	void *user;
	struct tfc__bundle *bundle; /* holds a use */
	struct tfc__rpc *rpc;
	struct tfc__rpc_call *offer; /* NULL: it has ended */
	int fd;                      /* -1: not sending */
	uint64_t at;                 /* position of the next chunk */
	bool is_reset; /* a chunk was refused: continue at reset_to after all responses */
	uint64_t reset_to;
	uint32_t out;
	struct chunk chunks[CHUNKS];
};

static void sender_stop(struct tfc__bundle_sender *sender)
{
	for (int i = 0; i < CHUNKS; i++) {
		if (sender->chunks[i].call)
			tfc__rpc_drop(sender->chunks[i].call);
		sender->chunks[i].call = NULL;
	}
	if (sender->fd >= 0)
		close(sender->fd);
	sender->fd = -1;
	sender->out = 0;
	sender->is_reset = false;
}

void tfc__bundle_sender_close(struct tfc__bundle_sender *sender)
{
	if (!sender)
		return;
	sender_stop(sender);
	if (sender->offer)
		tfc__rpc_drop(sender->offer);
	tfc__bundle_leave(sender->bundle);
	free(sender);
}

static void sender_fail(struct tfc__bundle_sender *sender, const tfc_error *error)
{
	const struct tfc__bundle_sender_ops *ops = sender->ops;
	void *user = sender->user;
	tfc_error copy = *error;
	tfc__bundle_sender_close(sender);
	ops->failed(user, &copy);
}

/* ---- chunks */

static void sender_on_chunk_end(void *user, int code, const msgpack_object *result,
				const tfc_error *error);

static int sender_send_chunk(struct tfc__bundle_sender *sender, struct chunk *chunk, char *bytes,
			     tfc_error *error)
{
	struct tfc__buf params = {0};
	ssize_t n = pread(sender->fd, bytes, CHUNK, (off_t)sender->at);
	if (n <= 0)
		return tfc__fail_errno(error, "bundle", n < 0 ? errno : EIO,
				       "cannot read \"%.160s\"", sender->bundle->path);
	struct tfc__bundle_chunk message = {.at = sender->at, .data = bytes, .len = (uint64_t)n};
	memcpy(message.hash, sender->bundle->hash, sizeof(message.hash));
	tfc__fields_write(&params, &tfc__bundle_chunk_fields, &message);
	const struct tfc__rpc_options options = {.method = TFC__BUNDLE_CHUNK,
						 .params = &params,
						 .timeout_ms = CHUNK_TIMEOUT_MS,
						 .end = sender_on_chunk_end,
						 .user = chunk};
	int code = tfc__rpc_call(sender->rpc, &options, error, &chunk->call);
	tfc__buf_fini(&params);
	if (code < 0) {
		chunk->call = NULL;
		return code;
	}
	sender->out++;
	sender->at += (uint64_t)n;
	return TFC_OK;
}

/* Sends as many chunks as may be in flight. A failure counts only when no chunk is in flight. */
static int sender_send_chunks(struct tfc__bundle_sender *sender, tfc_error *error)
{
	if (sender->is_reset && sender->out)
		return TFC_OK;
	if (sender->is_reset)
		sender->at = sender->reset_to;
	sender->is_reset = false;
	char *bytes = malloc(CHUNK);
	int code = bytes ? TFC_OK : tfc__fail_nomem(error, "bundle");
	for (int i = 0; i < CHUNKS && code == TFC_OK; i++)
		if (!sender->chunks[i].call && sender->at < sender->bundle->size)
			code = sender_send_chunk(sender, &sender->chunks[i], bytes, error);
	free(bytes);
	return sender->out ? TFC_OK : code;
}

static void sender_on_chunk_end(void *user, int code, const msgpack_object *result,
				const tfc_error *error)
{
	struct chunk *chunk = user;
	struct tfc__bundle_sender *sender = chunk->sender;
	tfc_error why = TFC_ERROR_INIT;
	struct tfc__bundle_chunk_result outcome;
	chunk->call = NULL;
	sender->out--;
	if (code == TFC_OK)
		code = tfc__fields_read(NULL, &tfc__bundle_chunk_result_fields, result, &why,
					&outcome);
	else
		why = *error;
	if (code < 0) {
		sender_stop(sender);
		if (code != TFC_ELOST) /* the offer reports TFC_ELOST as well */
			sender_fail(sender, &why);
		return;
	}
	if (outcome.is_done) {
		sender_stop(sender);
		return;
	}
	if (!outcome.is_accepted) {
		sender->is_reset = true;
		sender->reset_to = outcome.received;
	}
	if (sender_send_chunks(sender, &why) < 0)
		sender_fail(sender, &why);
	else if (!sender->out)
		sender_stop(sender);
	else if (sender->ops->moved)
		sender->ops->moved(sender->user, outcome.received, sender->bundle->size);
}

/* ---- the offer */

static void sender_on_offer_item(void *user, const msgpack_object *item)
{
	struct tfc__bundle_sender *sender = user;
	struct tfc__bundle_offer_item progress;
	tfc_error error = TFC_ERROR_INIT;
	tfc__rpc_more(sender->offer, 1);
	if (tfc__fields_read(NULL, &tfc__bundle_offer_item_fields, item, &error, &progress) < 0) {
		sender_fail(sender, &error);
		return;
	}
	if (progress.is_ready) {
		if (sender->ops->ready)
			sender->ops->ready(sender->user);
		return;
	}
	if (sender->fd >= 0) /* the responses to the chunks decide where sending continues */
		return;
	sender->at = progress.received;
	sender->fd = open(sender->bundle->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int code = sender->fd < 0 ? tfc__fail_errno(&error, "bundle", errno,
						    "cannot read \"%.160s\"", sender->bundle->path)
				  : sender_send_chunks(sender, &error);
	if (code < 0)
		sender_fail(sender, &error);
	else if (!sender->out)
		sender_stop(sender);
}

static void sender_on_offer_end(void *user, int code, const msgpack_object *result,
				const tfc_error *error)
{
	struct tfc__bundle_sender *sender = user;
	tfc_error early = TFC_ERROR_INIT;
	sender->offer = NULL;
	if (code == TFC_OK)
		tfc__fail(&early, TFC_EPARSE, "bundle", 0,
			  "the node ended the transfer of the bundle before it was complete");
	sender_fail(sender, code < 0 ? error : &early);
}

int tfc__bundle_send(struct tfc__bundle *bundle, struct tfc__rpc *rpc,
		     const struct tfc__bundle_sender_ops *ops, void *user, tfc_error *error,
		     struct tfc__bundle_sender **ret_sender)
{
	struct tfc__buf params = {0};
	struct tfc__bundle_sender *sender = calloc(1, sizeof(*sender));
	if (!sender)
		return tfc__fail_nomem(error, "bundle");
	sender->ops = ops;
	sender->user = user;
	sender->bundle = bundle;
	sender->rpc = rpc;
	sender->fd = -1;
	for (int i = 0; i < CHUNKS; i++)
		sender->chunks[i].sender = sender;
	tfc__bundle_use(bundle);
	struct tfc__bundle_offer offer = {.size = bundle->size};
	memcpy(offer.hash, bundle->hash, sizeof(offer.hash));
	tfc__fields_write(&params, &tfc__bundle_offer_fields, &offer);
	const struct tfc__rpc_options options = {.method = TFC__BUNDLE_OFFER,
						 .params = &params,
						 .credit = CREDIT,
						 .item = sender_on_offer_item,
						 .end = sender_on_offer_end,
						 .user = sender};
	int code = tfc__rpc_call(rpc, &options, error, &sender->offer);
	tfc__buf_fini(&params);
	if (code < 0) {
		sender->offer = NULL;
		tfc__bundle_sender_close(sender);
		return code;
	}
	*ret_sender = sender;
	return TFC_OK;
}
