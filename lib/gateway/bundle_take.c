#include "gateway/bundle_take.h"

#include <stdlib.h>

#include "base/fail.h"
#include "base/names.h"

#define BACKLOG_MAX (512 * 1024) /* bytes that wait for the disk before a sender has to */

/* A piece that was taken, and is answered once the process has most of it. */
struct piece {
	struct tfc__bundle_waiter waiter;
	struct tfc__rpc_request *request;
	struct tfc__bundle *bundle; /* used */
	uint64_t end;               /* of the piece */
};

static void answer(struct tfc__rpc_request *request, const struct tfc__bundle *bundle,
		   bool is_taken)
{
	struct tfc__buf result = {0};
	tfc__msg_map(&result, 3);
	tfc__msg_put_bool(&result, "done", bundle->state != TFC__BUNDLE_RECEIVING);
	tfc__msg_put_bool(&result, "taken", is_taken);
	tfc__msg_put_u64(&result, "at", bundle->received);
	tfc__rpc_reply(request, &result);
	tfc__buf_fini(&result);
}

static void end_piece(struct piece *piece, bool is_taken)
{
	struct tfc__bundle *bundle = piece->bundle;
	tfc__bundle_unawait(&piece->waiter);
	tfc__rpc_watch(piece->request, NULL, NULL, NULL);
	answer(piece->request, bundle, is_taken);
	free(piece);
	tfc__bundle_leave(bundle);
}

/* The last one waits until all is checked. */
static void look(struct tfc__bundle_waiter *waiter)
{
	struct piece *piece = tfc__container_of(waiter, struct piece, waiter);
	const struct tfc__bundle *bundle = piece->bundle;
	if (bundle->state != TFC__BUNDLE_RECEIVING)
		end_piece(piece, true);
	else if (bundle->received < piece->end) /* its process was lost: once more, all of it */
		end_piece(piece, false);
	else if (piece->end < bundle->size && tfc__bundle_backlog(bundle) <= BACKLOG_MAX)
		end_piece(piece, true);
}

static void on_cancel(void *user)
{
	end_piece(user, false);
}

int tfc__bundle_hash_read(const msgpack_object *params, const char *key,
			  char hash[TFC_BUNDLE_HASH_SIZE], tfc_error *error)
{
	if (tfc__msg_get_text(params, key, hash, TFC_BUNDLE_HASH_SIZE) && tfc__is_bundle_hash(hash))
		return TFC_OK;
	hash[0] = '\0';
	return tfc__fail(error, TFC_EINVAL, "gateway", 0, "%s: no SHA-256 of a bundle", key);
}

void tfc__bundle_take(const struct tfc__bundles *bundles, struct tfc__rpc_request *request,
		      const msgpack_object *params)
{
	char hash[TFC_BUNDLE_HASH_SIZE];
	tfc_error error = TFC_ERROR_INIT;
	size_t len = 0;
	const void *data = tfc__msg_get_bin(params, "data", &len);
	uint64_t at = tfc__msg_get_u64(params, "at", 0);
	if (tfc__bundle_hash_read(params, "hash", hash, &error) < 0) {
		tfc__rpc_fail(request, &error);
		return;
	}
	struct tfc__bundle *bundle = tfc__bundle_find(bundles, hash);
	struct piece *piece = bundle ? calloc(1, sizeof(*piece)) : NULL;
	if (!piece) {
		tfc__fail(&error, bundle ? TFC_ENOMEM : TFC_ENOENT, "gateway", 0,
			  bundle ? "out of memory" : "nobody here wants this bundle");
		tfc__rpc_fail(request, &error);
		return;
	}
	int code = data ? tfc__bundle_write(bundle, at, data, len, &error) : TFC_ESTATE;
	if (code < 0) {
		free(piece);
		if (code == TFC_ESTATE)
			answer(request, bundle, false);
		else
			tfc__rpc_fail(request, &error);
		return;
	}
	piece->request = request;
	piece->bundle = bundle;
	piece->end = at + len;
	piece->waiter.fn = look;
	tfc__bundle_use(bundle);
	tfc__bundle_await(bundle, &piece->waiter);
	tfc__rpc_watch(request, NULL, on_cancel, piece);
	look(&piece->waiter);
}
