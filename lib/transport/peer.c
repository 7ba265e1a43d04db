#include "transport/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/internal.h"

#define TIMEOUT_MS 5000

/* ---- calls */

static void peer_send(void *user, struct tfc__buf *message)
{
	struct tfc__peer *peer = user;
	tfc__channel_send(peer->channel, message);
}

static void peer_serve(void *user, struct tfc__rpc_request *request, const char *method,
		       const msgpack_object *params)
{
	struct tfc__peer *peer = user;
	tfc_error error = TFC_ERROR_INIT;
	if (peer->ops && peer->ops->serve) {
		peer->ops->serve(peer, peer->user, request, method, params);
	} else if (request) {
		tfc__fail(&error, TFC_ENOTSUP, "transport", 0, "this side serves no requests");
		tfc__rpc_fail(request, &error);
	}
}

/* Called inside tfc__rpc_feed or a send: `down` is reported in a turn of its own. */
static void peer_on_broken(void *user, const tfc_error *error)
{
	struct tfc__peer *peer = user;
	if (!peer->failure.code)
		peer->failure = *error;
	tfc__work_schedule(&peer->checking);
}

/* ---- limits; a peer without a quota has none */

static bool peer_has_room(void *user)
{
	const struct tfc__peer *peer = user;
	return tfc__channel_has_room(peer->channel);
}

static bool peer_is_exposed(void *user)
{
	return ((struct tfc__peer *)user)->is_exposed;
}

static int peer_check_response(void *user, size_t len, tfc_error *error)
{
	const struct tfc__peer *peer = user;
	if (len <= TFC__QUOTA_REQUEST_BYTES)
		return TFC_OK; /* the request was counted with at least that much */
	return tfc__quota_check(&peer->share, len, error);
}

static int peer_begin_request(void *user, size_t len, tfc_error *error)
{
	struct tfc__peer *peer = user;
	return tfc__quota_begin_request(&peer->share, len, error);
}

static void peer_end_request(void *user, size_t len)
{
	struct tfc__peer *peer = user;
	tfc__quota_end_request(&peer->share, len);
}

static int peer_resize_request(void *user, size_t from, size_t to, tfc_error *error)
{
	struct tfc__peer *peer = user;
	return tfc__quota_resize_request(&peer->share, from, to, error);
}

static const struct tfc__rpc_ops rpc_ops = {
	.send = peer_send,
	.serve = peer_serve,
	.broken = peer_on_broken,
	.is_exposed = peer_is_exposed,
	.has_room = peer_has_room,
	.check_response = peer_check_response,
	.begin_request = peer_begin_request,
	.end_request = peer_end_request,
	.resize_request = peer_resize_request,
};

static void peer_on_quota_room(struct tfc__quota_share *share)
{
	struct tfc__peer *peer = tfc__container_of(share, struct tfc__peer, share);
	if (peer->rpc)
		tfc__rpc_room(peer->rpc);
}

/* Only clients are limited. Nodes, the node's own user and root always get a connection. */
static int peer_join_quota(struct tfc__peer *peer, tfc_error *error)
{
	struct tfc__quota *quota = peer->listener ? peer->listener->quota : NULL;
	char key[24];
	if (!quota || peer->id.role == TFC__KEY_NODE)
		return TFC_OK;
	if (*peer->id.key_id)
		snprintf(key, sizeof(key), "key %s", peer->id.key_id);
	else
		snprintf(key, sizeof(key), "uid %u", peer->id.uid);
	int code = tfc__quota_join(quota, key, peer_on_quota_room, &peer->share, error);
	if (code == TFC_OK)
		tfc__channel_limit(peer->channel, &peer->share);
	return code;
}

/* ---- the end */

void tfc__peer_end(struct tfc__peer *peer, const tfc_error *why)
{
	if (peer->is_down)
		return;
	peer->is_down = true;
	tfc__timer_cancel(&peer->patience);
	tfc__work_cancel(&peer->checking);
	tfc__rpc_close(peer->rpc, why);
	peer->rpc = NULL;
	tfc__channel_close(peer->channel);
	peer->channel = NULL;
	tfc__quota_leave(&peer->share);
	tfc__key_use_end(&peer->key_use);
	if (peer->listener)
		tfc__listener_lost(peer, why);
	else if (peer->ops)
		peer->ops->down(peer, peer->user, why);
}

/* The connection broke, or a new one has been accepted. */
static void peer_on_check(struct tfc__work *work)
{
	struct tfc__peer *peer = tfc__container_of(work, struct tfc__peer, checking);
	if (!peer->failure.code && peer->listener &&
	    tfc__peer_identify(peer, &peer->failure) == TFC_EACCES)
		tfc__channel_refuse(peer->channel);
	tfc_error why = peer->failure;
	if (why.code)
		tfc__peer_end(peer, &why);
}

static void peer_on_timeout(struct tfc__timer *timer)
{
	struct tfc__peer *peer = tfc__container_of(timer, struct tfc__peer, patience);
	tfc_error why = TFC_ERROR_INIT;
	if (peer->listener)
		tfc__fail(&why, TFC_ETIMEDOUT, "transport", 0,
			  "the peer did not authenticate in time");
	else
		tfc__fail(&why, TFC_ETIMEDOUT, "transport", 0,
			  "cannot connect to \"%.120s\": no response within %u.%u s", peer->dialed,
			  peer->timeout_ms / 1000, peer->timeout_ms % 1000 / 100);
	tfc__peer_end(peer, &why);
}

void tfc__peer_close(struct tfc__peer *peer)
{
	if (!peer)
		return;
	if (peer->listener)
		tfc__listener_remove_peer(peer);
	if (peer->watch)
		*peer->watch = NULL;
	tfc__key_use_end(&peer->key_use);
	tfc__timer_cancel(&peer->patience);
	tfc__work_cancel(&peer->checking);
	tfc__rpc_close(peer->rpc, NULL);
	tfc__channel_close(peer->channel);
	tfc__quota_leave(&peer->share);
	tfc__identity_free(peer->fresh);
	free(peer);
}

/* ---- identity */

static bool is_in_groups(const tfc_pipe_info *info, const uint32_t *groups, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (info->gid == groups[i])
			return true;
		for (uint32_t j = 0; j < info->group_count; j++)
			if (info->groups[j] == groups[i])
				return true;
	}
	return false;
}

/* Without a key: the own user and root are nodes, members of a listed group are submitters. */
static int peer_identify_user(struct tfc__peer *peer, const tfc_pipe_info *info, tfc_error *error)
{
	const struct tfc__peer_listener *listener = peer->listener;
	peer->id.role = TFC__KEY_NODE;
	if (info->flags & TFC_PIPE_FLAG_IS_NODE)
		return TFC_OK;
	if (!(info->flags & TFC_PIPE_FLAG_HAS_USER))
		return tfc__fail(error, TFC_EACCES, "transport", 0,
				 "the peer cannot be identified over this transport; use a key "
				 "(key_file) or a unix socket");
	peer->id.uid = info->uid;
	peer->id.gid = info->gid;
	peer->id.pid = info->pid;
	if (info->uid == 0 || info->uid == geteuid())
		return TFC_OK;
	peer->id.role = TFC__KEY_SUBMIT;
	if (!listener || is_in_groups(info, listener->groups, listener->group_count))
		return TFC_OK;
	return tfc__fail(error, TFC_EACCES, "transport", 0,
			 "user %u has no permission to connect: neither the node's user, nor root, "
			 "nor in an allowed group",
			 info->uid);
}

int tfc__peer_identify(struct tfc__peer *peer, tfc_error *error)
{
	tfc_pipe_info info;
	const struct tfc__key *key = tfc__channel_key(peer->channel);
	int code = tfc__pipe_describe(tfc__channel_pipe(peer->channel), error, &info);
	if (code < 0)
		return code;
	snprintf(peer->id.address, sizeof(peer->id.address), "%s", info.address);
	peer->id.uid = peer->id.gid = UINT32_MAX;
	if (!peer->is_noise)
		return peer_identify_user(peer, &info, error);
	if (!key)
		return TFC_OK; /* the handshake has not shown the key yet */
	peer->id.role = key->role;
	tfc__node_id(tfc__channel_remote(peer->channel), peer->id.node_id);
	tfc__key_id_text(key, peer->id.key_id);
	return TFC_OK;
}

/* Reported in a turn of its own, like a broken connection. */
static void peer_on_key_removed(struct tfc__key_use *use)
{
	struct tfc__peer *peer = tfc__container_of(use, struct tfc__peer, key_use);
	tfc_error why = TFC_ERROR_INIT;
	tfc__fail(&why, TFC_ELOST, "transport", 0, "key %s was removed from the key file",
		  peer->id.key_id);
	peer_on_broken(peer, &why);
}

static void peer_use_key(struct tfc__peer *peer, const struct tfc__key *key)
{
	memcpy(peer->key_use.id, key->id, TFC__KEY_ID_SIZE);
	peer->key_use.removed = peer_on_key_removed;
	if (!tfc__key_use_begin(&peer->key_use, peer->keyring))
		peer_on_key_removed(&peer->key_use); /* during the handshake */
}

/* ---- callbacks of the channel */

static void peer_on_up(void *user)
{
	struct tfc__peer *peer = user;
	tfc_error error = TFC_ERROR_INIT;
	int code = peer->failure.code ? peer->failure.code : tfc__peer_identify(peer, &error);
	if (code == TFC_OK && peer_join_quota(peer, &error) < 0) {
		/* Sends the reason before the connection is closed. */
		struct tfc__buf message = {0};
		tfc__rpc_write_refusal(&message, &error);
		if (message.is_failed)
			tfc__buf_fini(&message);
		else
			tfc__channel_send(peer->channel, &message);
		peer_on_broken(peer, &error);
		return;
	}
	if (code == TFC_OK && tfc__rpc_open(peer->ctx, &rpc_ops, peer, &peer->rpc) < 0)
		code = tfc__fail_nomem(&error, "transport");
	if (code < 0) {
		peer_on_broken(peer, &error);
		return;
	}
	tfc__timer_cancel(&peer->patience);
	if (peer->is_noise)
		peer_use_key(peer, tfc__channel_key(peer->channel));
	if (peer->listener)
		tfc__listener_deliver(peer);
	else if (peer->ops->up)
		peer->ops->up(peer, peer->user);
}

static void peer_on_message(void *user, const void *data, size_t len)
{
	struct tfc__peer *peer = user;
	if (peer->rpc)
		tfc__rpc_feed(peer->rpc, data, len);
}

static void peer_on_refused(void *user, const void *begin, size_t len, const tfc_error *error)
{
	struct tfc__peer *peer = user;
	if (peer->rpc)
		tfc__rpc_refuse_large(peer->rpc, begin, len, error);
}

static void peer_on_room(void *user)
{
	struct tfc__peer *peer = user;
	if (peer->rpc)
		tfc__rpc_room(peer->rpc);
}

static void peer_on_down(void *user, const tfc_error *why)
{
	struct tfc__peer *peer = user;
	tfc_error failure = peer->failure.code ? peer->failure : *why;
	if (!peer->rpc && peer->dialed[0] && !strstr(failure.text, peer->dialed))
		tfc__fail_prefix(&failure, failure.code, "%.100s: ", peer->dialed);
	tfc__peer_end(peer, &failure);
}

static bool peer_on_will(void *user, const uint8_t *message)
{
	struct tfc__peer *peer = user;
	return peer->listener && tfc__listener_receive_will(peer, message);
}

const struct tfc__channel_ops tfc__peer_channel_ops = {peer_on_up,      peer_on_message,
						       peer_on_refused, peer_on_room,
						       peer_on_down,    peer_on_will};

/* ---- dialing */

struct tfc__peer *tfc__peer_new(tfc_ctx *ctx, uint32_t timeout_ms)
{
	struct tfc__peer *peer = calloc(1, sizeof(*peer));
	if (!peer)
		return NULL;
	peer->ctx = ctx;
	peer->timeout_ms = timeout_ms ? timeout_ms : TIMEOUT_MS;
	peer->id.uid = peer->id.gid = UINT32_MAX;
	tfc__list_init(&peer->link);
	tfc__list_init(&peer->key_use.link);
	tfc__work_init(&peer->checking, ctx, peer_on_check);
	tfc__timer_init(&peer->patience, ctx, peer_on_timeout);
	tfc__timer_set(&peer->patience, tfc__now() + peer->timeout_ms * TFC__MS);
	return peer;
}

int tfc__peer_is_noise(tfc_ctx *ctx, const char *address, const struct tfc__keyring *keyring,
		       tfc_error *error, bool *ret_is_noise)
{
	uint32_t traits;
	int code = tfc__transport_traits(ctx, address, error, &traits);
	if (code == TFC_OK)
		*ret_is_noise = keyring && !(traits & TFC_TRANSPORT_TRAIT_AUTHENTIC);
	return code;
}

bool tfc__peer_is_exposed(const char *address, bool is_noise)
{
	return !is_noise && strncmp(address, "tcp:", 4) == 0;
}

static int peer_dial(struct tfc__peer *peer, const struct tfc__dial_options *options,
		     tfc_error *error)
{
	struct tfc__channel_options channel = {.is_dialer = true};
	int code = tfc__peer_is_noise(peer->ctx, options->address, options->keyring, error,
				      &peer->is_noise);
	if (code < 0)
		return code;
	if (peer->is_noise) {
		if (!tfc__keyring_first(options->keyring, options->role))
			return tfc__fail(error, TFC_EINVAL, "transport", 0,
					 "key file has no %s key",
					 options->role ? tfc__key_role_name(options->role)
						       : "such");
		channel.keyring = peer->keyring = options->keyring;
		channel.role = options->role;
		channel.identity = options->identity;
		if (!channel.identity) {
			code = tfc__identity_open(NULL, error, &peer->fresh);
			channel.identity = peer->fresh;
		}
		if (code < 0)
			return code;
	}
	channel.is_noise = peer->is_noise;
	peer->is_exposed = tfc__peer_is_exposed(options->address, peer->is_noise);
	if (options->pinned_node_id) {
		snprintf(peer->pinned, sizeof(peer->pinned), "%s", options->pinned_node_id);
		channel.pinned_node_id = peer->pinned;
	}
	return tfc__channel_dial(peer->ctx, options->address,
				 peer->is_noise ? 0 : TFC_TRANSPORT_FLAG_PLAIN, &channel,
				 &tfc__peer_channel_ops, peer, error, &peer->channel);
}

int tfc__peer_dial(tfc_ctx *ctx, const struct tfc__dial_options *options,
		   const struct tfc__peer_ops *ops, void *user, tfc_error *error,
		   struct tfc__peer **ret_peer)
{
	struct tfc__peer *peer = tfc__peer_new(ctx, options->timeout_ms);
	if (!peer)
		return tfc__fail_nomem(error, "transport");
	peer->ops = ops;
	peer->user = user;
	snprintf(peer->dialed, sizeof(peer->dialed), "%s", options->address);
	int code = peer_dial(peer, options, error);
	if (code < 0) {
		tfc__peer_close(peer);
		return code;
	}
	*ret_peer = peer;
	return TFC_OK;
}

/* ---- queries */

const struct tfc__peer_id *tfc__peer_id(const struct tfc__peer *peer)
{
	return &peer->id;
}

struct tfc__rpc *tfc__peer_rpc(const struct tfc__peer *peer)
{
	return peer->rpc;
}
