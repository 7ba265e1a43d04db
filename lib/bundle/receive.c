#include "bundle/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/names.h"
#include "bundle/transfer.h"

#define BACKLOG_MAX (512 * 1024) /* backlog up to which responses to chunks are sent at once */

static int check_hash_param(const char *hash, tfc_error *error)
{
	if (tfc__is_bundle_hash(hash))
		return TFC_OK;
	return tfc__fail(error, TFC_EINVAL, "bundle", 0, "\"hash\" is not the SHA-256 of a bundle");
}

/* ---- offers */

struct offer {
	struct tfc__link link;
	struct tfc__rpc_request *request;
	struct tfc__bundle *bundle; /* holds a use */
	struct tfc__observer waiter;
	bool is_ready_sent;
	uint64_t idle_ns;
	struct tfc__timer idle;
	uint64_t received; /* bytes of the bundle when the timer was set */
	struct tfc__bundle_offerer offerer;
};

static struct offer *offer_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct offer, link);
}

static void offer_fail(struct offer *offer, const tfc_error *error)
{
	tfc__rpc_fail(offer->request, error);
	tfc__list_remove(&offer->link);
	tfc__timer_cancel(&offer->idle);
	tfc__observer_remove(&offer->waiter);
	tfc__bundle_leave(offer->bundle);
	free(offer);
}

static void offer_on_cancel(void *user)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_ECANCELED, "bundle", 0, "the bundle is no longer offered");
	offer_fail(user, &error);
}

/* ---- progress */

static void offer_send_item(struct offer *offer)
{
	const struct tfc__bundle *bundle = offer->bundle;
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__buf item = {0};
	offer->is_ready_sent = bundle->state == TFC__BUNDLE_READY;
	const struct tfc__bundle_offer_item progress = {
		.is_ready = offer->is_ready_sent,
		.received = offer->is_ready_sent ? 0 : bundle->received,
	};
	tfc__fields_write(&item, &tfc__bundle_offer_item_fields, &progress);
	int code = tfc__rpc_item(offer->request, &item);
	tfc__buf_fini(&item);
	if (code == TFC_OK)
		return;
	tfc__fail(&error, code, "bundle", 0, "cannot request the bundle: %s", tfc_err_text(code));
	offer_fail(offer, &error);
}

/* A READY bundle needs no more bytes, so it has no idle timer. */
static void offer_set_idle_timer(struct offer *offer)
{
	offer->received = offer->bundle->received;
	if (offer->bundle->state == TFC__BUNDLE_READY)
		tfc__timer_cancel(&offer->idle);
	else
		tfc__timer_set(&offer->idle, tfc__now() + offer->idle_ns);
}

/* While the bytes are checked or written to a slow disk, the sender is not to blame. */
static void offer_on_idle(struct tfc__timer *timer)
{
	struct offer *offer = tfc__container_of(timer, struct offer, idle);
	const struct tfc__bundle *bundle = offer->bundle;
	tfc_error error = TFC_ERROR_INIT;
	if (bundle->state != TFC__BUNDLE_RECEIVING || bundle->received == bundle->size ||
	    tfc__bundle_backlog(bundle)) {
		offer_set_idle_timer(offer);
		return;
	}
	tfc__fail(&error, TFC_ETIMEDOUT, "bundle", 0,
		  "bundle: transfer stalled for %llu s; %llu of %llu bytes are missing",
		  (unsigned long long)(offer->idle_ns / TFC__SECOND),
		  (unsigned long long)(bundle->size - bundle->received),
		  (unsigned long long)bundle->size);
	offer_fail(offer, &error);
}

/* Requests the bytes again if those received were lost or the cached archive was damaged. */
static void offer_on_bundle(struct tfc__observer *waiter, const void *event)
{
	struct offer *offer = tfc__container_of(waiter, struct offer, waiter);
	const struct tfc__bundle *bundle = offer->bundle;
	if (bundle->received != offer->received || bundle->state == TFC__BUNDLE_READY)
		offer_set_idle_timer(offer);
	if (bundle->state == TFC__BUNDLE_FAILED)
		offer_fail(offer, &bundle->error);
	else if ((bundle->state == TFC__BUNDLE_READY && !offer->is_ready_sent) ||
		 (bundle->state == TFC__BUNDLE_RECEIVING && !bundle->received))
		offer_send_item(offer);
}

/* ---- limits */

static int offer_check_bytes(const struct tfc__bundles *bundles, const struct offer *offer,
			     uint64_t size, tfc_error *error)
{
	const struct tfc__bundle_offerer *who = &offer->offerer;
	uint64_t bytes = size, key_bytes = size;
	uint32_t key_count = 1;
	TFC__LIST_EACH (link, &bundles->offers) {
		const struct offer *other = offer_of(link);
		if (!other->offerer.is_client || other->bundle->state == TFC__BUNDLE_READY)
			continue;
		bytes += other->bundle->size;
		if (other->offerer.uid != who->uid ||
		    strcmp(other->offerer.key_id, who->key_id) != 0)
			continue;
		key_bytes += other->bundle->size;
		key_count++;
	}
	if (key_count > TFC__OFFERS_KEY_MAX || key_bytes > TFC__OFFERS_KEY_BYTES)
		return tfc__fail(error, TFC_EBUSY, "bundle", 0,
				 "bundle: too many transfers to this node with one key (limit %d, "
				 "or %llu bytes); try again later",
				 TFC__OFFERS_KEY_MAX, (unsigned long long)TFC__OFFERS_KEY_BYTES);
	if (bytes > TFC__OFFERS_BYTES)
		return tfc__fail(error, TFC_EBUSY, "bundle", 0,
				 "bundle: too many transfers to this node from clients (limit %llu "
				 "bytes); try again later",
				 (unsigned long long)TFC__OFFERS_BYTES);
	return TFC_OK;
}

static int offer_check_limits(const struct tfc__bundles *bundles, const struct offer *offer,
			      uint64_t size, tfc_error *error)
{
	uint32_t count = 1;
	if (!size || size > TFC__OFFER_BYTES_MAX)
		return tfc__fail(
			error, TFC_ETOOBIG, "bundle", 0,
			"bundle: size of %llu bytes is not valid; an archive has 1 to %llu",
			(unsigned long long)size, (unsigned long long)TFC__OFFER_BYTES_MAX);
	TFC__LIST_EACH (link, &bundles->offers)
		count += tfc__rpc_of(offer_of(link)->request) == tfc__rpc_of(offer->request);
	if (count > TFC__OFFERS_MAX)
		return tfc__fail(
			error, TFC_EBUSY, "bundle", 0,
			"bundle: too many offers on this connection (limit %d); try again later",
			TFC__OFFERS_MAX);
	return offer->offerer.is_client ? offer_check_bytes(bundles, offer, size, error) : TFC_OK;
}

static int offer_begin(struct tfc__bundles *bundles, struct offer *offer,
		       const msgpack_object *params, tfc_error *error)
{
	bool is_member = offer->offerer.is_member;
	struct tfc__bundle_offer offered;
	int code = tfc__params_read(NULL, &tfc__bundle_offer_fields, params, error, &offered);
	if (code == TFC_OK)
		code = check_hash_param(offered.hash, error);
	if (code == TFC_OK && !is_member)
		code = offer_check_limits(bundles, offer, offered.size, error);
	if (code == TFC_OK)
		code = tfc__bundle_acquire(bundles, offered.hash, offered.size, error,
					   &offer->bundle);
	if (code < 0)
		return code;
	tfc__bundle_await(offer->bundle, &offer->waiter);
	if (offer->bundle->state == TFC__BUNDLE_RECEIVING && !is_member)
		return tfc__bundles_room(bundles, offer->bundle->size - offer->bundle->received,
					 error);
	return TFC_OK;
}

void tfc__bundle_serve_offer(struct tfc__bundles *bundles,
			     const struct tfc__bundle_offerer *offerer,
			     struct tfc__rpc_request *request, const msgpack_object *params)
{
	tfc_error error = TFC_ERROR_INIT;
	struct offer *offer = calloc(1, sizeof(*offer));
	if (!offer) {
		tfc__fail_nomem(&error, "bundle");
		tfc__rpc_fail(request, &error);
		return;
	}
	offer->request = request;
	offer->offerer = *offerer;
	offer->idle_ns = bundles->idle_ns;
	tfc__timer_init(&offer->idle, bundles->ctx, offer_on_idle);
	tfc__observer_init(&offer->waiter, offer_on_bundle);
	tfc__list_init(&offer->link);
	if (offer_begin(bundles, offer, params, &error) < 0) {
		offer_fail(offer, &error);
		return;
	}
	tfc__list_append(&bundles->offers, &offer->link);
	tfc__rpc_watch(request, NULL, offer_on_cancel, offer);
	offer_set_idle_timer(offer);
	if (offer->bundle->state != TFC__BUNDLE_CHECKING)
		offer_send_item(offer);
}

/* ---- chunks */

/* An accepted chunk. The response is sent once the backlog is small enough. */
struct chunk {
	struct tfc__observer waiter;
	struct tfc__rpc_request *request;
	struct tfc__bundle *bundle; /* holds a use */
	uint64_t end;               /* position of its end */
};

static void chunk_respond(struct tfc__rpc_request *request, const struct tfc__bundle *bundle,
			  bool is_accepted)
{
	const struct tfc__bundle_chunk_result result = {
		.is_done = bundle->state != TFC__BUNDLE_RECEIVING,
		.is_accepted = is_accepted,
		.received = bundle->received,
	};
	tfc__rpc_reply_message(request, &tfc__bundle_chunk_result_fields, &result);
}

static void chunk_end(struct chunk *chunk, bool is_accepted)
{
	struct tfc__bundle *bundle = chunk->bundle;
	tfc__observer_remove(&chunk->waiter);
	tfc__rpc_watch(chunk->request, NULL, NULL, NULL);
	chunk_respond(chunk->request, bundle, is_accepted);
	free(chunk);
	tfc__bundle_leave(bundle);
}

/* The response to the last chunk is sent only when the whole bundle has been checked. */
static void chunk_on_bundle(struct tfc__observer *waiter, const void *event)
{
	struct chunk *chunk = tfc__container_of(waiter, struct chunk, waiter);
	const struct tfc__bundle *bundle = chunk->bundle;
	if (bundle->state != TFC__BUNDLE_RECEIVING)
		chunk_end(chunk, true);
	else if (bundle->received < chunk->end) /* the process was lost: start over */
		chunk_end(chunk, false);
	else if (chunk->end < bundle->size && tfc__bundle_backlog(bundle) <= BACKLOG_MAX)
		chunk_end(chunk, true);
}

static void chunk_on_cancel(void *user)
{
	chunk_end(user, false);
}

static struct tfc__bundle *find_offered_bundle(const struct tfc__bundles *bundles,
					       const struct tfc__rpc *rpc, const char *hash)
{
	TFC__LIST_EACH (link, &bundles->offers)
		if (tfc__rpc_of(offer_of(link)->request) == rpc &&
		    strcmp(offer_of(link)->bundle->hash, hash) == 0)
			return offer_of(link)->bundle;
	return NULL;
}

void tfc__bundle_serve_chunk(struct tfc__bundles *bundles, struct tfc__rpc_request *request,
			     const msgpack_object *params)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__bundle_chunk sent;
	struct tfc__bundle *bundle = NULL;
	struct chunk *chunk = NULL;
	int code = tfc__params_read(NULL, &tfc__bundle_chunk_fields, params, &error, &sent);
	if (code == TFC_OK)
		code = check_hash_param(sent.hash, &error);
	if (code == TFC_OK &&
	    !(bundle = find_offered_bundle(bundles, tfc__rpc_of(request), sent.hash)))
		code = tfc__fail(&error, TFC_ENOENT, "bundle", 0, "the bundle was not offered");
	if (code == TFC_OK && !(chunk = calloc(1, sizeof(*chunk))))
		code = tfc__fail_nomem(&error, "bundle");
	if (code == TFC_OK)
		code = sent.data ? tfc__bundle_write(bundle, sent.at, sent.data, sent.len, &error)
				 : TFC_ESTATE;
	if (code < 0) {
		free(chunk);
		if (code == TFC_ESTATE)
			chunk_respond(request, bundle, false);
		else
			tfc__rpc_fail(request, &error);
		return;
	}
	chunk->request = request;
	chunk->bundle = bundle;
	chunk->end = sent.at + sent.len;
	tfc__observer_init(&chunk->waiter, chunk_on_bundle);
	tfc__bundle_use(bundle);
	tfc__bundle_await(bundle, &chunk->waiter);
	tfc__rpc_watch(request, NULL, chunk_on_cancel, chunk);
	chunk_on_bundle(&chunk->waiter, NULL);
}
