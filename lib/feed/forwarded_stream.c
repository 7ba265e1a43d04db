/*
 * A stream that this node passes on to the node of the task. The credit of both ends passes
 * through, and bounds what waits here for a connection that has no room; these bytes count as the
 * client's.
 */
#include <stdlib.h>

#include "feed/served.h"

struct forwarded {
	struct feed_served served;
	struct tfc__buf params;
	struct tfc__member_wait wait;
	struct tfc__rpc *rpc;
	struct tfc__rpc_call *call; /* NULL: not made yet, or it has ended */
	struct tfc__rpc_waiter room;
	uint64_t number;       /* of the stream on the other node; 0: not known yet */
	struct tfc__link up;   /* frames to that node */
	struct tfc__link down; /* frames to the caller */
	size_t held;           /* bytes of both */
	uint32_t items;        /* received, for which no credit was given back */
	tfc_error why;         /* the call has ended */
};

struct forwarded_frame {
	struct tfc__link link;
	struct tfc__buf data;
};

static struct forwarded *forwarded_of(struct feed_served *served)
{
	return tfc__container_of(served, struct forwarded, served);
}

static void frame_free(struct forwarded *forwarded, struct forwarded_frame *frame)
{
	tfc__list_remove(&frame->link);
	forwarded->held -= frame->data.len;
	tfc__buf_fini(&frame->data);
	free(frame);
}

/* Acquires the data. */
static int frame_queue(struct forwarded *forwarded, struct tfc__link *list, struct tfc__buf *data)
{
	struct forwarded_frame *frame = data->is_failed ? NULL : calloc(1, sizeof(*frame));
	if (!frame ||
	    tfc__rpc_reserve(forwarded->served.request, forwarded->held + data->len, NULL) < 0) {
		free(frame);
		tfc__buf_fini(data);
		return TFC_ENOMEM;
	}
	frame->data = *data;
	forwarded->held += data->len;
	tfc__list_append(list, &frame->link);
	return TFC_OK;
}

static void forwarded_end(struct forwarded *forwarded, int code)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, code == TFC_ENOMEM ? TFC_EAGAIN : code, "feed", 0,
		  "the node cannot pass on the feed: %s", tfc_err_text(code));
	tfc__feed_served_end(&forwarded->served, &error);
}

/* ---- to the node of the task */

static int flush_up(struct forwarded *forwarded)
{
	TFC__LIST_EACH (link, &forwarded->up) {
		struct forwarded_frame *frame = tfc__container_of(link, struct forwarded_frame,
								  link);
		if (!tfc__rpc_has_room(forwarded->rpc)) {
			tfc__rpc_await_room(forwarded->rpc, &forwarded->room);
			return TFC_OK;
		}
		int code = tfc__rpc_notify(forwarded->rpc, TFC__FEED_METHOD_SEND, &frame->data);
		if (code < 0 && code != TFC_ELOST) /* the end of the call is reported */
			return code;
		frame_free(forwarded, frame);
	}
	tfc__rpc_reserve(forwarded->served.request, forwarded->held, NULL);
	return TFC_OK;
}

static void forwarded_on_room(struct tfc__rpc_waiter *waiter)
{
	struct forwarded *forwarded = tfc__container_of(waiter, struct forwarded, room);
	int code = forwarded->call ? flush_up(forwarded) : TFC_OK;
	if (code < 0)
		forwarded_end(forwarded, code);
}

static void forwarded_receive(struct feed_served *served, const struct tfc__feed_frame *received)
{
	struct forwarded *forwarded = forwarded_of(served);
	struct tfc__feed_frame frame = *received;
	struct tfc__buf data = {0};
	if (!forwarded->call)
		return;
	frame.stream = forwarded->number;
	frame.credit = 0;
	tfc__feed_frame_write(&data, &frame);
	int code = frame_queue(forwarded, &forwarded->up, &data);
	if (code == TFC_OK)
		code = flush_up(forwarded);
	if (code < 0)
		forwarded_end(forwarded, code);
}

/* ---- to the caller */

static void flush_down(struct forwarded *forwarded)
{
	TFC__LIST_EACH (link, &forwarded->down) {
		struct forwarded_frame *frame = tfc__container_of(link, struct forwarded_frame,
								  link);
		if (!tfc__rpc_credit(forwarded->served.request))
			return;
		int code = tfc__rpc_item(forwarded->served.request, &frame->data);
		if (code < 0) {
			forwarded_end(forwarded, code);
			return;
		}
		frame_free(forwarded, frame);
		forwarded->items++;
	}
	tfc__rpc_reserve(forwarded->served.request, forwarded->held, NULL);
	if (forwarded->call && forwarded->items >= TFC__FEED_ITEMS / 2) {
		tfc__rpc_more(forwarded->call, forwarded->items);
		forwarded->items = 0;
	}
	if (forwarded->why.code < 0)
		tfc__feed_served_end(&forwarded->served, &forwarded->why);
}

static void forwarded_resume(struct feed_served *served)
{
	flush_down(forwarded_of(served));
}

/* The first item names the stream: here it has another number. */
static int forwarded_read(struct forwarded *forwarded, const msgpack_object *item,
			  struct tfc__buf *data)
{
	struct tfc__feed_frame frame = {0};
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__feed_frame_read(item, &error, &frame);
	if (code < 0)
		return code;
	if (!forwarded->number) {
		forwarded->number = frame.stream;
		frame.stream = forwarded->served.number;
	}
	forwarded->served.credit += frame.credit;
	tfc__feed_frame_write(data, &frame);
	return forwarded->number ? TFC_OK : TFC_EPARSE;
}

static void forwarded_on_item(void *user, const msgpack_object *item)
{
	struct forwarded *forwarded = user;
	struct tfc__buf data = {0};
	int code = forwarded_read(forwarded, item, &data);
	if (code < 0)
		tfc__buf_fini(&data);
	else
		code = frame_queue(forwarded, &forwarded->down, &data);
	if (code < 0)
		forwarded_end(forwarded, code);
	else
		flush_down(forwarded);
}

/* ---- the call */

static void forwarded_on_end(void *user, int code, const msgpack_object *result,
			     const tfc_error *error)
{
	struct forwarded *forwarded = user;
	(void)code;
	(void)result;
	forwarded->call = NULL;
	tfc__rpc_stop_waiting(&forwarded->room);
	if (error)
		forwarded->why = *error;
	else
		tfc__fail(&forwarded->why, TFC_ELOST, "feed", 0, "the node has ended the feed");
	flush_down(forwarded);
}

static void forwarded_free(struct feed_served *served)
{
	struct forwarded *forwarded = forwarded_of(served);
	tfc__list_remove(&forwarded->wait.link);
	tfc__rpc_stop_waiting(&forwarded->room);
	if (forwarded->call)
		tfc__rpc_drop(forwarded->call);
	TFC__LIST_EACH (link, &forwarded->up)
		frame_free(forwarded, tfc__container_of(link, struct forwarded_frame, link));
	TFC__LIST_EACH (link, &forwarded->down)
		frame_free(forwarded, tfc__container_of(link, struct forwarded_frame, link));
	tfc__buf_fini(&forwarded->params);
	free(forwarded);
}

static const struct feed_served_ops forwarded_ops = {forwarded_receive, forwarded_resume,
						     forwarded_free};

static void forwarded_on_connected(struct tfc__member_wait *wait, struct tfc__rpc *rpc,
				   const tfc_error *why)
{
	struct forwarded *forwarded = tfc__container_of(wait, struct forwarded, wait);
	const struct tfc__rpc_options options = {
		.method = TFC__FEED_METHOD_CONNECT,
		.params = &forwarded->params,
		.credit = TFC__FEED_ITEMS,
		.item = forwarded_on_item,
		.end = forwarded_on_end,
		.user = forwarded,
	};
	tfc_error error = TFC_ERROR_INIT;
	forwarded->rpc = rpc;
	if (!rpc)
		tfc__fail(&error, why->code == TFC_ENOENT ? TFC_ENOENT : TFC_ELOST, "feed", 0,
			  "node %.60s cannot reach it: %s", forwarded->served.service->options.node,
			  why->text);
	else
		tfc__rpc_call(rpc, &options, &error, &forwarded->call);
	if (error.code < 0)
		tfc__feed_served_end(&forwarded->served, &error);
}

int tfc__feed_serve_forwarded(struct tfc__feed_service *service, struct tfc__rpc_request *request,
			      const struct tfc__feed_connect *connect, tfc_error *error)
{
	const struct tfc__gateway_members *members = &service->options.members;
	struct tfc__feed_connect forwarded_connect = *connect;
	struct forwarded *forwarded = calloc(1, sizeof(*forwarded));
	if (!forwarded)
		return tfc__fail_nomem(error, "feed");
	forwarded->room.fn = forwarded_on_room;
	forwarded->wait.fn = forwarded_on_connected;
	tfc__list_init(&forwarded->wait.link);
	tfc__list_init(&forwarded->up);
	tfc__list_init(&forwarded->down);
	forwarded_connect.is_forwarded = true;
	tfc__fields_write(&forwarded->params, &tfc__feed_connect_fields, &forwarded_connect);
	int code = forwarded->params.is_failed
			   ? tfc__fail_nomem(error, "feed")
			   : tfc__feed_served_add(&forwarded->served, service, request,
						  &forwarded_ops, error);
	if (code < 0) {
		forwarded_free(&forwarded->served);
		return code;
	}
	members->ops->connect(members->user, connect->node, &forwarded->wait);
	return TFC_OK;
}
