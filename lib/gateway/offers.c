#include "gateway/offers.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "gateway/bundle_take.h"

struct offer {
	struct tfc__link link;
	struct tfc__rpc_request *request;
	struct tfc__bundle *bundle; /* used */
	struct tfc__bundle_waiter waiter;
	bool is_told_ready;
	uint64_t idle_ns;
	struct tfc__timer idle;
	uint64_t received; /* of the bundle, when the timer was set */
	bool is_client;    /* of this key or user: */
	char key_id[17];
	uint32_t uid;
};

static struct offer *offer_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct offer, link);
}

static void free_offer(struct offer *offer)
{
	tfc__list_remove(&offer->link);
	tfc__timer_cancel(&offer->idle);
	tfc__bundle_unawait(&offer->waiter);
	tfc__bundle_leave(offer->bundle);
	free(offer);
}

static void fail(struct offer *offer, const tfc_error *error)
{
	tfc__rpc_fail(offer->request, error);
	free_offer(offer);
}

static void on_cancel(void *user)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_ECANCELED, "gateway", 0, "the bundle is not offered any more");
	fail(user, &error);
}

/* ---- how it stands */

static void tell(struct offer *offer)
{
	const struct tfc__bundle *bundle = offer->bundle;
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__buf item = {0};
	offer->is_told_ready = bundle->state == TFC__BUNDLE_READY;
	tfc__msg_map(&item, 1);
	if (offer->is_told_ready)
		tfc__msg_put_bool(&item, "ready", true);
	else
		tfc__msg_put_u64(&item, "at", bundle->received);
	int code = tfc__rpc_item(offer->request, &item);
	tfc__buf_fini(&item);
	if (code == TFC_OK)
		return;
	tfc__fail(&error, code, "gateway", 0, "the bundle cannot be asked for: %s",
		  tfc_err_text(code));
	fail(offer, &error);
}

static void begin_idle(struct offer *offer)
{
	offer->received = offer->bundle->received;
	tfc__timer_set(&offer->idle, tfc__now() + offer->idle_ns);
}

/* What has come is checked, or written to a disk that is slow: that is not the client's. */
static void on_idle(struct tfc__timer *timer)
{
	struct offer *offer = tfc__container_of(timer, struct offer, idle);
	const struct tfc__bundle *bundle = offer->bundle;
	tfc_error error = TFC_ERROR_INIT;
	if (bundle->state != TFC__BUNDLE_RECEIVING || bundle->received == bundle->size ||
	    tfc__bundle_backlog(bundle)) {
		begin_idle(offer);
		return;
	}
	tfc__fail(&error, TFC_ETIMEDOUT, "gateway", 0,
		  "bundle: no byte of it came for %llu s; %llu of %llu are missing",
		  (unsigned long long)(offer->idle_ns / TFC__SECOND),
		  (unsigned long long)(bundle->size - bundle->received),
		  (unsigned long long)bundle->size);
	fail(offer, &error);
}

/* Asked for anew when what had come was lost, or was damaged in the cache. */
static void on_bundle(struct tfc__bundle_waiter *waiter)
{
	struct offer *offer = tfc__container_of(waiter, struct offer, waiter);
	const struct tfc__bundle *bundle = offer->bundle;
	if (bundle->received != offer->received)
		begin_idle(offer);
	if (bundle->state == TFC__BUNDLE_FAILED)
		fail(offer, &bundle->error);
	else if ((bundle->state == TFC__BUNDLE_READY && !offer->is_told_ready) ||
		 (bundle->state == TFC__BUNDLE_RECEIVING && !bundle->received))
		tell(offer);
}

/* ---- what may be offered */

static bool is_of_same_key(const struct offer *a, const struct offer *b)
{
	return a->uid == b->uid && strcmp(a->key_id, b->key_id) == 0;
}

static int check_bytes(const struct tfc__offers *offers, const struct offer *offer, uint64_t size,
		       tfc_error *error)
{
	uint64_t bytes = size, key_bytes = size;
	uint32_t key_count = 1;
	TFC__LIST_EACH (link, &offers->all) {
		const struct offer *other = offer_of(link);
		if (!other->is_client || other->bundle->state == TFC__BUNDLE_READY)
			continue;
		bytes += other->bundle->size;
		if (!is_of_same_key(offer, other))
			continue;
		key_bytes += other->bundle->size;
		key_count++;
	}
	if (key_count > TFC__OFFERS_KEY_MAX || key_bytes > TFC__OFFERS_KEY_BYTES)
		return tfc__fail(error, TFC_EBUSY, "gateway", 0,
				 "bundle: too many with one key are on their way to this node: at "
				 "most %d, and %llu bytes: try again later",
				 TFC__OFFERS_KEY_MAX, (unsigned long long)TFC__OFFERS_KEY_BYTES);
	if (bytes > TFC__OFFERS_BYTES)
		return tfc__fail(error, TFC_EBUSY, "gateway", 0,
				 "bundle: too many of clients are on their way to this node: at "
				 "most %llu bytes: try again later",
				 (unsigned long long)TFC__OFFERS_BYTES);
	return TFC_OK;
}

static int check(const struct tfc__offers *offers, const struct offer *offer, uint64_t size,
		 tfc_error *error)
{
	uint32_t count = 1;
	if (!size || size > TFC__OFFER_BYTES_MAX)
		return tfc__fail(error, TFC_ETOOBIG, "gateway", 0,
				 "bundle: %llu bytes: an archive has from 1 to %llu",
				 (unsigned long long)size,
				 (unsigned long long)TFC__OFFER_BYTES_MAX);
	TFC__LIST_EACH (link, &offers->all)
		count += tfc__rpc_of(offer_of(link)->request) == tfc__rpc_of(offer->request);
	if (count > TFC__OFFERS_MAX)
		return tfc__fail(error, TFC_EBUSY, "gateway", 0,
				 "bundle: at most %d may be offered over one connection: try again "
				 "later",
				 TFC__OFFERS_MAX);
	return offer->is_client ? check_bytes(offers, offer, size, error) : TFC_OK;
}

static int begin(struct tfc__offers *offers, struct offer *offer, const msgpack_object *params,
		 tfc_error *error)
{
	char hash[TFC_BUNDLE_HASH_SIZE];
	uint64_t size = tfc__msg_get_u64(params, "size", 0);
	int code = tfc__bundle_hash_read(params, "hash", hash, error);
	if (code == TFC_OK)
		code = check(offers, offer, size, error);
	if (code == TFC_OK)
		code = tfc__bundle_want(offers->bundles, hash, size, error, &offer->bundle);
	if (code < 0)
		return code;
	tfc__bundle_await(offer->bundle, &offer->waiter);
	if (offer->bundle->state == TFC__BUNDLE_RECEIVING)
		return tfc__bundles_room(offers->bundles,
					 offer->bundle->size - offer->bundle->received, error);
	return TFC_OK;
}

/* ---- calls */

void tfc__offers_serve(struct tfc__offers *offers, const struct tfc__peer_id *who,
		       struct tfc__rpc_request *request, const msgpack_object *params)
{
	tfc_error error = TFC_ERROR_INIT;
	struct offer *offer = calloc(1, sizeof(*offer));
	if (!offer) {
		tfc__fail_nomem(&error, "gateway");
		tfc__rpc_fail(request, &error);
		return;
	}
	offer->request = request;
	offer->is_client = who->role != TFC__KEY_NODE;
	memcpy(offer->key_id, who->key_id, sizeof(offer->key_id));
	offer->uid = who->uid;
	offer->idle_ns = offers->idle_ns;
	tfc__timer_init(&offer->idle, offers->ctx, on_idle);
	offer->waiter.fn = on_bundle;
	tfc__list_init(&offer->link);
	tfc__list_init(&offer->waiter.link);
	if (begin(offers, offer, params, &error) < 0) {
		fail(offer, &error);
		return;
	}
	tfc__list_append(&offers->all, &offer->link);
	tfc__rpc_watch(request, NULL, on_cancel, offer);
	begin_idle(offer);
	if (offer->bundle->state != TFC__BUNDLE_CHECKING)
		tell(offer);
}

static bool is_offered(const struct tfc__offers *offers, const struct tfc__rpc *rpc,
		       const char *hash)
{
	TFC__LIST_EACH (link, &offers->all)
		if (tfc__rpc_of(offer_of(link)->request) == rpc &&
		    strcmp(offer_of(link)->bundle->hash, hash) == 0)
			return true;
	return false;
}

void tfc__offers_take(struct tfc__offers *offers, struct tfc__rpc_request *request,
		      const msgpack_object *params)
{
	char hash[TFC_BUNDLE_HASH_SIZE];
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__bundle_hash_read(params, "hash", hash, &error);
	if (code == TFC_OK && is_offered(offers, tfc__rpc_of(request), hash)) {
		tfc__bundle_take(offers->bundles, request, params);
		return;
	}
	if (code == TFC_OK)
		tfc__fail(&error, TFC_ENOENT, "gateway", 0, "this bundle was not offered");
	tfc__rpc_fail(request, &error);
}

void tfc__offers_init(struct tfc__offers *offers, tfc_ctx *ctx, struct tfc__bundles *bundles)
{
	offers->ctx = ctx;
	offers->idle_ns = TFC__OFFER_IDLE_NS;
	offers->bundles = bundles;
	tfc__list_init(&offers->all);
}

void tfc__offers_close(struct tfc__offers *offers, const tfc_error *error)
{
	TFC__LIST_EACH (link, &offers->all)
		fail(offer_of(link), error);
}
