#include "gateway/remote_sub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "gateway/event_wire.h"
#include "gateway/request_params.h"
#include "gateway/watch_position.h"

#define ITEM_BYTES (128u << 10)      /* memory of a usual item, with the events read from it */
#define WATCH_ITEM_BYTES (16u << 10) /* of a member's watch, whose items are short */
#define TASKS_MAX 65536              /* tasks in a cursor */
#define DELAY_FIRST (50 * TFC__MS)
#define DELAY_MAX (2 * TFC__SECOND)
#define UNKNOWN_PATIENCE (20 * TFC__SECOND) /* for a job that existed: its node may return */

struct item {
	struct tfc__link link;
	size_t len;
	char data[];
};

struct tfc__remote_sub {
	tfc_sub base;
	struct tfc__route *route; /* NULL: detached */
	void *slot;
	char *job; /* "" of a watch */
	bool is_watch;
	bool skip_output;
	bool wants_live;
	bool wants_progress;
	bool is_bare;
	bool is_finding;
	struct tfc__rpc_call *call;
	struct tfc__link items; /* received, not reported yet */
	size_t item_bytes;      /* of `items` and `item` */
	struct tfc__msg msg;    /* the item being reported, while at < count */
	struct item *item;
	uint32_t at;
	uint32_t count;
	struct tfc__reader head_reader, reader; /* strings of the head, and of the event */
	tfc_event head;
	char id[17]; /* of the job; "": not known yet */
	struct tfc__sub_event event;
	bool has_event; /* `event` is not reported yet */
	/* `event` is a batch whose lines are reported one after the other: */
	bool has_lines;
	struct tfc__line_batch_reader lines;
	struct tfc__lines_cursor lines_end; /* behind the last one */
	struct tfc__place place; /* position: the initial cursor and everything reported since */
	bool has_place;          /* else it is at the beginning */
	struct tfc__watch_position position; /* in place of `place`: of a watch */
	struct tfc__timer retry;
	uint64_t delay;
	uint64_t lost_since; /* 0: it is connected */
	bool is_wait_logged;
	bool wants_reconnects;
	bool is_silent;         /* the call is open, but its node does not respond */
	bool is_wait_due;       /* RECONNECTING is reported next, about `error` */
	bool is_wait_reported;  /* ... and RECONNECTED was not */
	bool is_established;    /* items arrive again */
	int32_t wait_code;      /* of the error reported last */
	uint64_t waiting_since; /* the node at the other end waits; 0: it does not */
	char node[128];         /* the node that has the job; "": not known */
	char silent_node[64];   /* the node at the other end; "": not known */
	bool was_up;
	bool is_unreadable;  /* the last event could not be read; none was reported since */
	bool is_stream_over; /* the stream ended without an error: END is among the items */
	bool is_lost;        /* LOST with `error` is reported after the items */
	tfc_error error;
};

static struct tfc__remote_sub *remote_sub_of(tfc_sub *sub)
{
	return tfc__container_of(sub, struct tfc__remote_sub, base);
}

/* ---- received items */

static void remote_sub_drop_item(struct tfc__remote_sub *sub)
{
	if (!sub->item)
		return;
	tfc__msg_fini(&sub->msg);
	sub->item_bytes -= sub->item->len;
	free(sub->item);
	sub->item = NULL;
	sub->at = sub->count = 0;
	sub->has_event = sub->has_lines = false;
}

/* Unreported events are received again over the next connection. */
static void remote_sub_drop_items(struct tfc__remote_sub *sub)
{
	remote_sub_drop_item(sub);
	TFC__LIST_EACH (link, &sub->items) {
		tfc__list_remove(link);
		free(tfc__container_of(link, struct item, link));
	}
	sub->item_bytes = 0;
	sub->is_stream_over = false;
}

static void remote_sub_count_held(struct tfc__remote_sub *sub)
{
	bool is_small = sub->is_watch && sub->route->is_forwarded;
	size_t window = sub->route->window * (is_small ? WATCH_ITEM_BYTES : ITEM_BYTES);
	sub->base.held = (sub->item_bytes > window ? sub->item_bytes : window) +
			 tfc__place_bytes(&sub->place) + tfc__watch_position_bytes(&sub->position);
}

/* What the subscription cannot do, for how long it waits at most, and why. */
#define WAIT_TEXT (sizeof(((tfc_error *)NULL)->text) + 256)
static void remote_sub_wait_text(const struct tfc__remote_sub *sub, uint64_t patience, char *text,
				 size_t size)
{
	char what[96];
	if (sub->is_watch)
		snprintf(what, sizeof(what), "cannot watch the jobs");
	else
		snprintf(what, sizeof(what), "cannot follow job %.60s", sub->job);
	if (sub->is_silent)
		snprintf(text, size, "%s: %s; still waiting", what, sub->error.text);
	else
		snprintf(text, size, "%s; retrying for %llu s at most: %s", what,
			 (unsigned long long)((patience + TFC__SECOND - 1) / TFC__SECOND),
			 sub->error.text);
}

/* Logs for the host of this gateway. With is_bare the events are forwarded to a client, whose own
 * gateway logs the wait. */
static void remote_sub_log_wait(struct tfc__remote_sub *sub, uint64_t now, uint64_t patience)
{
	char text[WAIT_TEXT];
	if (sub->is_bare || sub->wants_reconnects || sub->is_wait_logged ||
	    now < sub->lost_since + TFC__QUIET_NS)
		return;
	sub->is_wait_logged = true;
	remote_sub_wait_text(sub, patience, text, sizeof(text));
	tfc__log(sub->base.ctx, TFC_LOG_WARNING, "gateway", "", "%s", text);
}

/* Names the node that cannot be reached, where it is known. */
static void remote_sub_name_node(const struct tfc__remote_sub *sub, tfc_error *error)
{
	if (*sub->node && error->code == TFC_ELOST)
		tfc__fail(error, error->code, "gateway", 0,
			  "node %s, which maintains it, does not respond", sub->node);
}

/* Most connections that are lost are back with the first retry. */
static void remote_sub_note_wait(struct tfc__remote_sub *sub)
{
	bool is_reported = sub->is_wait_reported && sub->wait_code == sub->error.code;
	if (!sub->wants_reconnects || !sub->delay || is_reported)
		return;
	sub->is_wait_due = true;
	tfc__sub_wake(&sub->base);
}

static void remote_sub_retry_later(struct tfc__remote_sub *sub, const tfc_error *why)
{
	uint64_t now = tfc__now();
	uint64_t patience = sub->route->patience_ms * TFC__MS;
	sub->is_silent = false;
	if (!sub->lost_since)
		sub->lost_since = sub->waiting_since ? sub->waiting_since : now;
	if (why->code == TFC_ENOENT && sub->was_up && patience > UNKNOWN_PATIENCE)
		patience = UNKNOWN_PATIENCE;
	sub->error = *why;
	if (sub->route->lost)
		sub->route->lost(sub->route, why);
	if (now >= sub->lost_since + patience) {
		sub->is_lost = true;
		tfc__sub_wake(&sub->base);
		return;
	}
	remote_sub_log_wait(sub, now, patience);
	remote_sub_note_wait(sub);
	tfc__timer_set(&sub->retry, now + sub->delay); /* the first retry is immediate */
	sub->delay = sub->delay ? sub->delay * 2 : DELAY_FIRST;
	if (sub->delay > DELAY_MAX)
		sub->delay = DELAY_MAX;
}

/* Whether a retry can help: the connection was lost, or a node on the way is unreachable.
 * EEXIST: the forwarding node has the job itself; a client that retries gets the job from that
 * node. */
static bool remote_sub_may_retry(const struct tfc__remote_sub *sub, int code)
{
	if (code == TFC_EEXIST)
		return !sub->route->is_forwarded;
	return code == TFC_ELOST || code == TFC_EUNREACH || code == TFC_EAGAIN ||
	       code == TFC_ETIMEDOUT || code == TFC_ENOMEM || code == TFC_EBUSY ||
	       code == TFC_ECANCELED || code == TFC_ESTATE || (code == TFC_ENOENT && sub->was_up);
}

static void remote_sub_on_end(void *user, int code, const msgpack_object *result,
			      const tfc_error *error)
{
	struct tfc__remote_sub *sub = user;
	sub->call = NULL;
	if (sub->base.is_ended)
		return;
	if (code == TFC_OK) {
		sub->is_stream_over = true;
		tfc__sub_wake(&sub->base);
		return;
	}
	tfc__remote_sub_failed(sub, error);
}

static void remote_sub_drop_call(struct tfc__remote_sub *sub)
{
	if (sub->call)
		tfc__rpc_drop(sub->call);
	sub->call = NULL;
}

/* A malformed event is requested again: it may be intact the second time. What arrives until an
 * event was reported does not shorten the delay, because the same event may be malformed again. */
static void remote_sub_fail_reading(struct tfc__remote_sub *sub, int code)
{
	tfc_error error = TFC_ERROR_INIT;
	if (code == TFC_ENOMEM)
		tfc__fail_nomem(&error, "gateway");
	else
		tfc__fail(&error, TFC_ELOST, "gateway", 0, "the gateway sent a malformed event");
	sub->is_unreadable = true;
	remote_sub_drop_call(sub);
	remote_sub_drop_items(sub);
	remote_sub_count_held(sub);
	remote_sub_retry_later(sub, &error);
}

static void remote_sub_reset_delay(struct tfc__remote_sub *sub)
{
	sub->delay = sub->lost_since = 0;
	sub->is_wait_logged = sub->is_wait_due = false;
}

/* Any item shows that the subscription is established, also one without events. */
static void remote_sub_on_item(void *user, const void *data, size_t len)
{
	struct tfc__remote_sub *sub = user;
	struct item *item = malloc(sizeof(*item) + len);
	sub->was_up = true;
	if (!sub->is_unreadable)
		remote_sub_reset_delay(sub);
	if (!item) {
		remote_sub_fail_reading(sub, TFC_ENOMEM);
		return;
	}
	item->len = len;
	memcpy(item->data, data, len);
	tfc__list_append(&sub->items, &item->link);
	sub->item_bytes += len;
	remote_sub_count_held(sub);
	tfc__sub_wake(&sub->base);
}

/* ---- reporting */

/* Parses the next received item: 1, 0 when there is none, TFC_ENOMEM or TFC_EPARSE. */
static int remote_sub_read_item(struct tfc__remote_sub *sub)
{
	if (sub->item && sub->call)
		tfc__rpc_more(sub->call, 1);
	remote_sub_drop_item(sub);
	remote_sub_count_held(sub);
	if (tfc__list_is_empty(&sub->items))
		return 0;
	struct item *item = tfc__container_of(sub->items.next, struct item, link);
	int code = tfc__msg_parse(&sub->msg, item->data, item->len, NULL, NULL);
	if (code < 0)
		return code;
	tfc__list_remove(&item->link);
	sub->item = item;
	sub->at = 1; /* after the head */
	sub->count = sub->msg.root.type == MSGPACK_OBJECT_ARRAY ? sub->msg.root.via.array.size : 0;
	if (!sub->count)
		return TFC_EPARSE;
	tfc__reader_clear(&sub->head_reader);
	code = tfc__sub_event_read_head(&sub->head_reader, &sub->msg.root.via.array.ptr[0], NULL,
					&sub->head);
	if (code < 0)
		return code;
	if (*sub->head.job && !sub->is_watch)
		snprintf(sub->id, sizeof(sub->id), "%s", sub->head.job);
	if (sub->count == 1)
		sub->is_established = true;
	if (sub->count == 1 && sub->is_bare && !sub->is_watch) {
		sub->head.kind = TFC__SUB_ESTABLISHED;
		sub->base.fn(sub->base.user, &sub->head);
	}
	return 1;
}

/* Makes an event of the next line of the batch. 0: all were reported. */
static int remote_sub_read_line(struct tfc__remote_sub *sub)
{
	tfc_event *event = &sub->event.event;
	struct tfc__line line;
	int code = tfc__line_batch_next(&sub->lines, &line);
	sub->has_lines = code > 0;
	if (code <= 0)
		return code;
	bool is_last = sub->lines.table == sub->lines.table_end;
	if (is_last && memcmp(&line.cursor, &sub->lines_end, sizeof(line.cursor)) != 0)
		return TFC_EPARSE;
	event->stream = line.stream;
	event->time_ns = line.time_ns;
	event->is_partial = line.is_partial;
	event->data = line.data;
	event->data_len = line.len;
	sub->event.mark.cursor = line.cursor;
	sub->has_event = true;
	return 1;
}

/* Reads the next event; a batch that goes to another process stays as it is. 1; 0 when there is
 * none, TFC_ENOMEM or TFC_EPARSE. */
static int remote_sub_read_event(struct tfc__remote_sub *sub)
{
	int code = sub->has_lines ? remote_sub_read_line(sub) : 0;
	if (code)
		return code;
	while (sub->at >= sub->count) {
		code = remote_sub_read_item(sub);
		if (code <= 0)
			return code;
	}
	tfc__reader_clear(&sub->reader);
	code = tfc__sub_event_read(&sub->reader, &sub->head, &sub->msg.root.via.array.ptr[sub->at],
				   NULL, &sub->event);
	if (code < 0 && code != TFC_ENOTSUP)
		return code;
	sub->at++;
	if (sub->event.mark.task != UINT32_MAX && sub->event.mark.task >= TASKS_MAX)
		return TFC_EPARSE;
	sub->has_event = code == TFC_OK; /* else it is of a kind that this version does not know */
	if (!sub->has_event || sub->is_bare || sub->event.event.kind != TFC_EVENT_OUTPUT)
		return 1;
	sub->has_event = false;
	sub->has_lines = true;
	sub->lines_end = sub->event.mark.cursor;
	tfc__line_batch_read(&sub->lines, sub->event.output, sub->event.output_len,
			     sub->event.lines, sub->event.lines_len);
	return 1;
}

/* The id, or before the first item the word that the caller passed. A retry uses the id: another
 * node may know an ended job of the same name, and another job may have got the name since. */
static const char *remote_sub_job(const struct tfc__remote_sub *sub)
{
	return *sub->id ? sub->id : sub->job;
}

/* RECONNECTING of this gateway, or of the node at the other end. */
static void remote_sub_report_wait(struct tfc__remote_sub *sub, tfc_event *event)
{
	sub->is_wait_reported = true;
	sub->is_established = false;
	sub->wait_code = event->error_code;
	if (!*event->job)
		event->job = remote_sub_job(sub);
	sub->base.fn(sub->base.user, event);
}

static void remote_sub_report_own_wait(struct tfc__remote_sub *sub)
{
	uint64_t patience = sub->route->patience_ms * TFC__MS;
	uint64_t waited = tfc__now() - sub->lost_since;
	char text[WAIT_TEXT];
	remote_sub_wait_text(sub, waited < patience ? patience - waited : 0, text, sizeof(text));
	sub->is_wait_due = false;
	sub->event = (struct tfc__sub_event){
		.event = TFC__EVENT_INIT,
		.mark = {.task = UINT32_MAX,
			 .ended_task = UINT32_MAX,
			 .missing = UINT32_MAX,
			 .missing_over = UINT32_MAX},
	};
	sub->event.event.kind = TFC_EVENT_RECONNECTING;
	sub->event.event.time_ns = tfc__wall();
	sub->event.event.error_code = sub->error.code;
	sub->event.event.node = sub->is_silent ? sub->silent_node : sub->node;
	sub->event.event.text = text;
	remote_sub_report_wait(sub, &sub->event.event);
}

/* The events go on. Returns whether RECONNECTED was reported. */
static bool remote_sub_report_back(struct tfc__remote_sub *sub)
{
	tfc_event event = TFC__EVENT_INIT;
	char text[128];
	bool was_reported = sub->is_wait_reported;
	sub->is_wait_reported = sub->is_established = sub->is_silent = false;
	sub->waiting_since = 0;
	if (!was_reported || sub->is_bare)
		return false;
	snprintf(text, sizeof(text), "following job %.60s again", sub->job);
	event.kind = TFC_EVENT_RECONNECTED;
	event.time_ns = tfc__wall();
	event.job = remote_sub_job(sub);
	event.text = text;
	sub->base.fn(sub->base.user, &event);
	return true;
}

/* The node at the other end waits for the node that has the job. */
static int remote_sub_relay_wait(struct tfc__remote_sub *sub)
{
	sub->has_event = false;
	if (!sub->waiting_since)
		sub->waiting_since = tfc__now();
	if (sub->wants_reconnects)
		remote_sub_report_wait(sub, &sub->event.event);
	return 1;
}

static int remote_sub_report_event(struct tfc__remote_sub *sub)
{
	tfc_event *event = &sub->event.event;
	const struct tfc__mark *mark = &sub->event.mark;
	if (sub->is_watch && event->kind != TFC_EVENT_LIVE &&
	    !tfc__watch_position_is_node(event->node))
		return TFC_EPARSE;
	if (tfc__place_apply(&sub->place, mark) < 0)
		return TFC_ENOMEM;
	if (tfc__watch_position_apply(&sub->position, event->node, mark) < 0)
		return TFC_ENOMEM;
	sub->has_event = false;
	sub->has_place = true;
	if (sub->is_unreadable)
		remote_sub_reset_delay(sub);
	sub->is_unreadable = false;
	if (event->kind == TFC_EVENT_LIVE)
		sub->wants_live = false;
	if (!sub->is_bare && sub->is_watch)
		event->cursor = tfc__watch_position_text(&sub->position);
	else if (!sub->is_bare && !sub->skip_output)
		event->cursor = tfc__place_text(&sub->place);
	remote_sub_count_held(sub);
	sub->base.is_ended = event->kind == TFC_EVENT_END;
	sub->base.fn(sub->base.user, event);
	return 1;
}

static int remote_sub_report(tfc_sub *base)
{
	static const tfc_error no_end = {
		.code = TFC_ELOST,
		.text = "the gateway ended the subscription before the job ended"};
	struct tfc__remote_sub *sub = remote_sub_of(base);
	int code = 1;
	if (sub->is_wait_due) {
		remote_sub_report_own_wait(sub);
		return 1;
	}
	while (code > 0 && !sub->has_event)
		code = remote_sub_read_event(sub);
	bool is_wait = sub->has_event && sub->event.event.kind == TFC_EVENT_RECONNECTING;
	if (((sub->has_event && !is_wait) || sub->is_established) && remote_sub_report_back(sub))
		return 1;
	if (code > 0)
		code = is_wait ? remote_sub_relay_wait(sub) : remote_sub_report_event(sub);
	if (code < 0)
		remote_sub_fail_reading(sub, code);
	if (code == 0 && sub->is_stream_over) { /* and END was not among the items */
		sub->is_stream_over = false;
		remote_sub_retry_later(sub, &no_end);
	}
	if (code != 0 || !sub->is_lost)
		return code > 0;
	tfc__sub_report_lost(base, sub->job, &sub->error);
	return 1;
}

/* ---- connections */

static void remote_sub_on_retry(struct tfc__timer *timer)
{
	struct tfc__remote_sub *sub = tfc__container_of(timer, struct tfc__remote_sub, retry);
	sub->is_finding = true;
	sub->route->find(sub->route, sub, remote_sub_job(sub));
}

void tfc__remote_sub_failed(struct tfc__remote_sub *sub, const tfc_error *error)
{
	sub->is_finding = false;
	if (remote_sub_may_retry(sub, error->code)) {
		tfc_error named = *error;
		remote_sub_name_node(sub, &named);
		remote_sub_drop_items(sub);
		remote_sub_retry_later(sub, &named);
		return;
	}
	sub->is_lost = true;
	sub->error = *error;
	tfc__sub_wake(&sub->base);
}

void tfc__remote_sub_begin(struct tfc__remote_sub *sub, struct tfc__rpc *rpc, const char *id)
{
	struct tfc__buf buf = {0};
	char method[TFC__METHOD_SIZE];
	const char *cursor = sub->is_watch    ? tfc__watch_position_text(&sub->position)
			     : sub->has_place ? tfc__place_text(&sub->place)
					      : NULL;
	const struct tfc__request_params params = {
		.verb = sub->is_watch ? TFC_VERB_WATCH : TFC_VERB_SUBSCRIBE,
		.job = id,
		.client_key = cursor,
		.skip_output = sub->skip_output,
		.wants_live = sub->wants_live,
		.wants_progress = sub->wants_progress,
		.is_forwarded = sub->route->is_forwarded,
	};
	const struct tfc__rpc_options call = {
		.method = method,
		.params = &buf,
		.credit = sub->route->window,
		.is_low_priority = sub->route->is_low_priority,
		.item_bytes = remote_sub_on_item,
		.end = remote_sub_on_end,
		.user = sub,
	};
	tfc_error error = TFC_ERROR_INIT;
	sub->is_finding = false;
	tfc__request_params_write(&buf, &params);
	tfc__verb_method(params.verb, method);
	int code = buf.is_failed || (!sub->is_watch && cursor && !*cursor)
			   ? tfc__fail_nomem(&error, "gateway")
			   : tfc__rpc_call(rpc, &call, &error, &sub->call);
	tfc__buf_fini(&buf);
	if (code < 0)
		tfc__remote_sub_failed(sub, &error);
}

void tfc__remote_sub_up(tfc_sub *base, struct tfc__rpc *rpc)
{
	struct tfc__remote_sub *sub = remote_sub_of(base);
	if (!sub->is_finding && !sub->retry.at)
		return;
	tfc__timer_cancel(&sub->retry);
	tfc__remote_sub_begin(sub, rpc, remote_sub_job(sub));
}

void tfc__remote_sub_down(tfc_sub *base, const tfc_error *error)
{
	struct tfc__remote_sub *sub = remote_sub_of(base);
	if (sub->is_finding)
		tfc__remote_sub_failed(sub, error);
}

bool tfc__remote_sub_is_open(const tfc_sub *base)
{
	return tfc__container_of(base, struct tfc__remote_sub, base)->call != NULL;
}

void tfc__remote_sub_set_silent(tfc_sub *base, const char *node, const tfc_error *error)
{
	struct tfc__remote_sub *sub = remote_sub_of(base);
	char text[WAIT_TEXT];
	if (!sub->call || sub->is_wait_reported)
		return;
	sub->is_silent = true;
	sub->error = *error;
	snprintf(sub->silent_node, sizeof(sub->silent_node), "%s", node);
	if (sub->wants_reconnects) {
		sub->is_wait_due = true;
		tfc__sub_wake(base);
		return;
	}
	remote_sub_wait_text(sub, 0, text, sizeof(text));
	tfc__log(base->ctx, TFC_LOG_WARNING, "gateway", "", "%s", text);
}

void tfc__remote_sub_set_responding(tfc_sub *base)
{
	struct tfc__remote_sub *sub = remote_sub_of(base);
	if (!sub->is_silent)
		return;
	sub->is_silent = sub->is_wait_due = false;
	sub->is_established = true; /* reports RECONNECTED */
	tfc__sub_wake(base);
}

void tfc__remote_sub_set_slot(struct tfc__remote_sub *sub, void *slot)
{
	sub->slot = slot;
}

void tfc__remote_sub_set_node(struct tfc__remote_sub *sub, const char *node)
{
	snprintf(sub->node, sizeof(sub->node), "%s", node);
}

void *tfc__remote_sub_slot(const struct tfc__remote_sub *sub)
{
	return sub->slot;
}

/* ---- opening and closing */

static void remote_sub_detach(tfc_sub *base)
{
	struct tfc__remote_sub *sub = remote_sub_of(base);
	remote_sub_drop_call(sub);
	if (sub->is_finding && sub->route->cancel)
		sub->route->cancel(sub->route, sub);
	sub->is_finding = false;
	sub->route = NULL;
	tfc__timer_cancel(&sub->retry);
}

static void remote_sub_free(tfc_sub *base)
{
	struct tfc__remote_sub *sub = remote_sub_of(base);
	remote_sub_drop_items(sub);
	tfc__reader_fini(&sub->head_reader);
	tfc__reader_fini(&sub->reader);
	tfc__place_fini(&sub->place);
	tfc__watch_position_fini(&sub->position);
	free(sub->job);
	free(sub);
}

/* The cursor is parsed and kept, because it is the only source for the positions of tasks that
 * write no more output. An invalid cursor is reported by LOST. */
static int remote_sub_set_cursor(struct tfc__remote_sub *sub, const char *cursor)
{
	int code = sub->is_watch ? tfc__watch_position_read(&sub->position, cursor)
				 : tfc__place_read(&sub->place, TASKS_MAX, cursor);
	sub->has_place = true;
	sub->is_lost = code == TFC_EINVAL;
	if (sub->is_lost)
		tfc__fail(&sub->error, code, "gateway", 0, "cursor \"%.80s\" does not belong to %s",
			  cursor, sub->is_watch ? "a watch" : "this job");
	return sub->is_lost ? TFC_OK : code;
}

int tfc__remote_subscribe(tfc_ctx *ctx, struct tfc__link *list, struct tfc__route *route,
			  const char *job, const tfc_subscribe_options *options, bool is_bare,
			  tfc_event_fn fn, void *user, tfc_error *error, tfc_sub **ret_sub)
{
	static const struct tfc__sub_ops ops = {
		.report = remote_sub_report,
		.detach = remote_sub_detach,
		.free = remote_sub_free,
	};
	struct tfc__remote_sub *sub = calloc(1, sizeof(*sub));
	if (!sub)
		return tfc__fail_nomem(error, "gateway");
	sub->job = strdup(job ? job : "");
	sub->is_watch = !job;
	int code = sub->job ? TFC_OK : TFC_ENOMEM;
	if (code == TFC_OK && options->cursor)
		code = remote_sub_set_cursor(sub, options->cursor);
	if (code < 0) {
		tfc__place_fini(&sub->place);
		tfc__watch_position_fini(&sub->position);
		free(sub->job);
		free(sub);
		return tfc__fail_nomem(error, "gateway");
	}
	sub->route = route;
	sub->skip_output = options->skip_output;
	sub->wants_live = options->wants_live;
	sub->wants_progress = options->wants_progress;
	sub->is_bare = is_bare;
	sub->wants_reconnects = is_bare ? !sub->is_watch : options->wants_reconnects != 0;
	remote_sub_count_held(sub);
	tfc__list_init(&sub->items);
	tfc__timer_init(&sub->retry, ctx, remote_sub_on_retry);
	tfc__sub_init(&sub->base, &ops, ctx, list, fn, user);
	sub->base.event = &sub->event;
	if (sub->is_lost)
		tfc__sub_wake(&sub->base);
	else
		tfc__timer_set(&sub->retry, tfc__now()); /* no callback inside this call */
	*ret_sub = &sub->base;
	return TFC_OK;
}
