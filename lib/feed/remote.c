#include "feed/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "feed/relay.h"
#include "gateway/members.h"

struct tfc__feed_remote {
	tfc_ctx *ctx;
	const struct tfc__feed_remote_ops *ops;
	void *user;
	struct tfc__buf params;
	struct tfc__member_wait wait;
	struct tfc__rpc *rpc;
	struct tfc__rpc_call *call; /* NULL: none, or it has ended */
	struct tfc__rpc_waiter room;
	struct tfc__work failed;
	tfc_error why;
	struct tfc__feed_relay *relay; /* NULL: not connected, or it has ended */
	uint64_t stream;               /* 0: not connected */
	uint64_t credit, most_credit;
	uint32_t items; /* received, for which no credit was given back */
	bool has_lost;
};

/* ---- ends */

static void remote_drop_call(struct tfc__feed_remote *remote)
{
	tfc__rpc_stop_waiting(&remote->room);
	if (remote->call)
		tfc__rpc_drop(remote->call);
	remote->call = NULL;
}

static void remote_fail_later(struct tfc__feed_remote *remote, const tfc_error *why)
{
	remote->why = *why;
	tfc__work_schedule(&remote->failed);
}

static void remote_failed(struct tfc__work *work)
{
	struct tfc__feed_remote *remote = tfc__container_of(work, struct tfc__feed_remote, failed);
	remote->ops->failed(remote->user, &remote->why);
}

/* The node, or a node on the way, breaks the protocol. */
static void remote_break(struct tfc__feed_remote *remote, const tfc_error *why)
{
	tfc__log(remote->ctx, TFC_LOG_WARNING, "feed", "", "%s", why->text);
	remote_drop_call(remote);
	remote->has_lost = true;
	if (!remote->stream)
		remote_fail_later(remote, why);
	tfc__feed_relay_close(remote->relay); /* the stream ends */
	remote->relay = NULL;
}

/* ---- the stream */

static int remote_send(void *user, struct tfc__feed_frame *frame)
{
	struct tfc__feed_remote *remote = user;
	uint64_t cost = tfc__feed_frame_cost(frame);
	struct tfc__buf params = {0};
	if (!remote->call) { /* the stream is about to end */
		remote->has_lost = true;
		return TFC_OK;
	}
	if (remote->credit < cost)
		return TFC_EAGAIN;
	if (!tfc__rpc_has_room(remote->rpc)) {
		tfc__rpc_await_room(remote->rpc, &remote->room);
		return TFC_EAGAIN;
	}
	frame->stream = remote->stream;
	tfc__feed_frame_write(&params, frame);
	int code = params.is_failed ? TFC_ENOMEM
				    : tfc__rpc_notify(remote->rpc, TFC__FEED_METHOD_SEND, &params);
	tfc__buf_fini(&params);
	if (code == TFC_OK)
		remote->credit -= cost;
	return code == TFC_ELOST ? TFC_OK : code; /* the end of the call is reported */
}

static bool remote_has_all_arrived(const struct tfc__feed_remote *remote)
{
	return remote->credit == remote->most_credit && tfc__feed_relay_is_empty(remote->relay);
}

static void remote_on_room(struct tfc__rpc_waiter *waiter)
{
	struct tfc__feed_remote *remote = tfc__container_of(waiter, struct tfc__feed_remote, room);
	if (remote->relay)
		tfc__feed_relay_resume(remote->relay);
}

/* The memory of this process holds it, as that of a stream on this machine. */
static void remote_handled(void *user, uint64_t cost)
{
	(void)user;
	(void)cost;
}

static void remote_relay_down(void *user, const tfc_error *why)
{
	struct tfc__feed_remote *remote = user;
	if (why->code != TFC_ELOST)
		tfc__log(remote->ctx, TFC_LOG_WARNING, "feed", "", "%s", why->text);
	remote_drop_call(remote);
	tfc__feed_relay_close(remote->relay);
	remote->relay = NULL;
}

static const struct tfc__feed_relay_ops remote_relay_ops = {remote_send, remote_handled,
							    remote_relay_down};

static int remote_connect(struct tfc__feed_remote *remote, const struct tfc__feed_frame *frame,
			  tfc_error *error, int *ret_fd)
{
	int ends[2];
	if (!frame->stream || !frame->credit || frame->message_len || frame->data_len)
		return tfc__fail(error, TFC_EPARSE, "feed", 0,
				 "the node has sent rows before it has connected the feed");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return tfc__fail_errno(error, "feed", errno, "cannot make a socket pair");
	int code = tfc__feed_relay_open(remote->ctx, ends[0], &remote_relay_ops, remote, error,
					&remote->relay);
	if (code < 0) {
		close(ends[1]);
		return code;
	}
	remote->stream = frame->stream;
	remote->credit = remote->most_credit = frame->credit;
	*ret_fd = ends[1];
	return TFC_OK;
}

static void remote_receive(struct tfc__feed_remote *remote, const struct tfc__feed_frame *frame)
{
	tfc_error error = TFC_ERROR_INIT;
	if (frame->credit > remote->most_credit - remote->credit) {
		tfc__fail(&error, TFC_EPARSE, "feed", 0,
			  "the node has given more credit than it got back");
		remote_break(remote, &error);
		return;
	}
	remote->credit += frame->credit;
	if (frame->message_len || frame->data_len)
		tfc__feed_relay_receive(remote->relay, frame);
	if (frame->credit && remote->relay)
		tfc__feed_relay_resume(remote->relay);
	if (frame->credit && tfc__feed_remote_is_flushed(remote))
		remote->ops->flushed(remote->user);
}

static void remote_on_item(void *user, const msgpack_object *item)
{
	struct tfc__feed_remote *remote = user;
	struct tfc__feed_frame frame = {0};
	tfc_error error = TFC_ERROR_INIT;
	int fd = -1, code = tfc__feed_frame_read(item, &error, &frame);
	if (++remote->items >= TFC__FEED_ITEMS / 2) {
		tfc__rpc_more(remote->call, remote->items);
		remote->items = 0;
	}
	if (code == TFC_OK && !remote->stream)
		code = remote_connect(remote, &frame, &error, &fd);
	if (code < 0)
		remote_break(remote, &error);
	else if (fd >= 0)
		remote->ops->connected(remote->user, fd);
	else if (remote->relay)
		remote_receive(remote, &frame);
}

bool tfc__feed_remote_is_flushed(const struct tfc__feed_remote *remote)
{
	return !remote || !remote->call || !remote->relay || remote_has_all_arrived(remote);
}

bool tfc__feed_remote_has_lost(const struct tfc__feed_remote *remote)
{
	return remote && remote->has_lost;
}

/* ---- the call */

static void remote_on_end(void *user, int code, const msgpack_object *result,
			  const tfc_error *error)
{
	struct tfc__feed_remote *remote = user;
	tfc_error ended = TFC_ERROR_INIT;
	(void)result;
	remote->call = NULL;
	tfc__rpc_stop_waiting(&remote->room);
	if (code == TFC_OK)
		tfc__fail(&ended, TFC_ELOST, "feed", 0, "the node has ended the feed");
	remote->has_lost |= remote->relay && !remote_has_all_arrived(remote);
	if (remote->relay)
		tfc__feed_relay_finish(remote->relay);
	else if (!remote->stream)
		remote->ops->failed(remote->user, error ? error : &ended);
}

static void remote_on_connected(struct tfc__member_wait *wait, struct tfc__rpc *rpc,
				const tfc_error *why)
{
	struct tfc__feed_remote *remote = tfc__container_of(wait, struct tfc__feed_remote, wait);
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__rpc_options options = {
		.method = TFC__FEED_METHOD_CONNECT,
		.params = &remote->params,
		.credit = TFC__FEED_ITEMS,
		.item = remote_on_item,
		.end = remote_on_end,
		.user = remote,
	};
	if (!rpc)
		error = *why;
	else if (tfc__rpc_call(rpc, &options, &error, &remote->call) == TFC_OK)
		remote->rpc = rpc;
	if (error.code < 0)
		remote_fail_later(remote, &error);
}

int tfc__feed_remote_open(tfc_gateway *gateway, const struct tfc__feed_connect *connect,
			  const struct tfc__feed_remote_ops *ops, void *user, tfc_error *error,
			  struct tfc__feed_remote **ret_remote)
{
	struct tfc__feed_remote *remote = calloc(1, sizeof(*remote));
	if (!remote)
		return tfc__fail_nomem(error, "feed");
	tfc__fields_write(&remote->params, &tfc__feed_connect_fields, connect);
	if (remote->params.is_failed) {
		tfc__buf_fini(&remote->params);
		free(remote);
		return tfc__fail_nomem(error, "feed");
	}
	remote->ctx = gateway->ctx;
	remote->ops = ops;
	remote->user = user;
	remote->room.fn = remote_on_room;
	remote->wait.fn = remote_on_connected;
	tfc__list_init(&remote->wait.link);
	tfc__work_init(&remote->failed, gateway->ctx, remote_failed);
	*ret_remote = remote;
	gateway->ops->connect(gateway, connect->node, &remote->wait);
	return TFC_OK;
}

void tfc__feed_remote_close(struct tfc__feed_remote *remote)
{
	if (!remote)
		return;
	tfc__list_remove(&remote->wait.link);
	tfc__work_cancel(&remote->failed);
	remote_drop_call(remote);
	tfc__feed_relay_close(remote->relay);
	tfc__buf_fini(&remote->params);
	free(remote);
}
