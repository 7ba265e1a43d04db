/*
 * Incoming connections. A connection is half-open until it has authenticated. The number of
 * half-open connections and the duration of the handshake are limited. A connection that fails to
 * authenticate receives no reason.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "transport/internal.h"

#define HALF_OPEN_MAX 256
#define HANDSHAKE_MS 5000
#define REPORT_INTERVAL TFC__SECOND

/* ---- refusals: at most one log line per second */

static void log_refusal(struct tfc__peer_listener *listener, const char *who, const char *why)
{
	uint64_t now = tfc__now();
	if (listener->reported_at && now - listener->reported_at < REPORT_INTERVAL) {
		listener->unreported++;
		return;
	}
	if (listener->unreported)
		tfc__log(listener->ctx, TFC_LOG_WARNING, "transport",
			 tfc__listener_address(listener->listener),
			 "refused connection from %s: %s (and %llu more before it)", who, why,
			 (unsigned long long)listener->unreported);
	else
		tfc__log(listener->ctx, TFC_LOG_WARNING, "transport",
			 tfc__listener_address(listener->listener),
			 "refused connection from %s: %s", who, why);
	listener->reported_at = now;
	listener->unreported = 0;
}

/* ---- half-open connections */

void tfc__listener_remove_peer(struct tfc__peer *peer)
{
	tfc__list_remove(&peer->link);
	peer->listener->half_open_count--;
	peer->listener = NULL;
}

void tfc__listener_lost(struct tfc__peer *peer, const tfc_error *why)
{
	if (!peer->has_known_will && why->code == TFC_ELOST)
		tfc__log(peer->listener->ctx, TFC_LOG_DEBUG, "transport",
			 tfc__listener_address(peer->listener->listener),
			 "%s closed the connection before it authenticated", peer->id.address);
	else if (!peer->has_known_will)
		log_refusal(peer->listener, peer->id.address, why->text);
	tfc__peer_close(peer);
}

bool tfc__listener_receive_will(struct tfc__peer *peer, const uint8_t *message)
{
	const struct tfc__peer_listener *listener = peer->listener;
	peer->has_known_will = listener->will && listener->will(listener->will_user, message);
	return peer->has_known_will;
}

static void peer_listener_free(struct tfc__peer_listener *listener)
{
	tfc__identity_free(listener->fresh);
	free(listener->groups);
	free(listener);
}

void tfc__listener_deliver(struct tfc__peer *peer)
{
	struct tfc__peer_listener *listener = peer->listener;
	struct tfc__peer *alive = peer;
	tfc__listener_remove_peer(peer);
	peer->watch = &alive;
	listener->is_busy = true;
	listener->fn(listener->user, peer);
	listener->is_busy = false;
	if (alive)
		alive->watch = NULL;
	if (alive && !alive->ops)
		tfc__peer_close(alive);
	if (listener->is_closed)
		peer_listener_free(listener);
}

void tfc__peer_accept(struct tfc__peer *peer, const struct tfc__peer_ops *ops, void *user)
{
	peer->ops = ops;
	peer->user = user;
}

static int listener_on_pipe(void *user, tfc_pipe *pipe)
{
	struct tfc__peer_listener *listener = user;
	const struct tfc__channel_options options = {
		.is_noise = listener->is_noise,
		.keyring = listener->keyring,
		.identity = listener->identity,
	};
	struct tfc__peer *peer = tfc__peer_new(listener->ctx, listener->handshake_ms);
	if (!peer)
		return TFC_ENOMEM;
	peer->keyring = listener->keyring;
	peer->is_noise = listener->is_noise;
	peer->is_exposed = listener->is_exposed;
	int code = tfc__channel_accept(listener->ctx, pipe, &options, &tfc__peer_channel_ops, peer,
				       &peer->channel);
	if (code < 0) {
		tfc__peer_close(peer);
		return code;
	}
	if (listener->half_open_count == listener->half_open_max) {
		struct tfc__peer *oldest = tfc__container_of(listener->half_open.next,
							     struct tfc__peer, link);
		log_refusal(listener, oldest->id.address, "too many unauthenticated connections");
		tfc__peer_close(oldest);
	}
	peer->listener = listener;
	listener->half_open_count++;
	tfc__list_append(&listener->half_open, &peer->link);
	tfc__work_schedule(&peer->checking); /* later: the transport does not have the pipe yet */
	return TFC_OK;
}

/* ---- opening and closing */

static int listener_init(struct tfc__peer_listener *listener,
			 const struct tfc__listen_options *options, tfc_error *error)
{
	listener->keyring = options->keyring;
	listener->identity = options->identity;
	listener->quota = options->quota;
	listener->will = options->will;
	listener->will_user = options->will_user;
	listener->handshake_ms = options->handshake_ms ? options->handshake_ms : HANDSHAKE_MS;
	listener->half_open_max = options->half_open_max ? options->half_open_max : HALF_OPEN_MAX;
	tfc__list_init(&listener->half_open);
	int code = tfc__peer_is_noise(listener->ctx, options->address, options->keyring, error,
				      &listener->is_noise);
	listener->is_exposed = tfc__peer_is_exposed(options->address, listener->is_noise);
	if (code < 0)
		return code;
	if (options->group_count) {
		size_t size = options->group_count * sizeof(*listener->groups);
		listener->groups = malloc(size);
		if (!listener->groups)
			return tfc__fail_nomem(error, "transport");
		memcpy(listener->groups, options->groups, size);
		listener->group_count = options->group_count;
	}
	if (!listener->is_noise || listener->identity)
		return TFC_OK;
	code = tfc__identity_open(NULL, error, &listener->fresh);
	listener->identity = listener->fresh;
	return code;
}

int tfc__peer_listen(tfc_ctx *ctx, const struct tfc__listen_options *options, tfc__accept_fn fn,
		     void *user, tfc_error *error, struct tfc__peer_listener **ret_listener)
{
	tfc_error why = TFC_ERROR_INIT;
	struct tfc__peer_listener *listener = calloc(1, sizeof(*listener));
	if (!listener)
		return tfc__fail_nomem(error, "transport");
	listener->ctx = ctx;
	listener->fn = fn;
	listener->user = user;
	int code = listener_init(listener, options, &why);
	uint32_t flags = (listener->is_noise ? 0 : TFC_TRANSPORT_FLAG_PLAIN) |
			 (options->group_count ? TFC_TRANSPORT_FLAG_OTHER_USERS : 0);
	if (code == TFC_OK)
		code = tfc__listener_open(ctx, options->address, flags, listener_on_pipe, listener,
					  &why, &listener->listener);
	if (code < 0) {
		if (error)
			*error = why;
		peer_listener_free(listener);
		return code;
	}
	*ret_listener = listener;
	return TFC_OK;
}

const char *tfc__peer_listener_address(const struct tfc__peer_listener *listener)
{
	return tfc__listener_address(listener->listener);
}

void tfc__peer_listener_close(struct tfc__peer_listener *listener)
{
	if (!listener)
		return;
	while (!tfc__list_is_empty(&listener->half_open))
		tfc__peer_close(
			tfc__container_of(listener->half_open.next, struct tfc__peer, link));
	tfc__listener_close(listener->listener);
	listener->is_closed = true;
	if (!listener->is_busy)
		peer_listener_free(listener);
}
