#include "gateway/remote_sub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "gateway/received_items.h"
#include "gateway/remote_wait.h"
#include "gateway/request_params.h"
#include "gateway/watch_position.h"

#define ITEM_BYTES (128u << 10)      /* memory of a usual item, with the events read from it */
#define WATCH_ITEM_BYTES (16u << 10) /* of a member's watch, whose items are short */
#define DELAY_FIRST (50 * TFC__MS)
#define DELAY_MAX (2 * TFC__SECOND)
#define UNKNOWN_PATIENCE (20 * TFC__SECOND) /* for a job that existed: its node may return */

struct tfc__remote_sub {
	tfc_sub base;
	struct tfc__route *route; /* NULL: detached */
	void *slot;
	char *job; /* "" of a watch */
	bool is_watch;
	bool skip_output;
	bool wants_live;
	bool wants_progress;
	bool wants_reports;
	bool is_bare;
	bool is_finding;
	struct tfc__rpc_call *call;
	struct tfc__rpc *rpc; /* of the call */
	struct tfc__received_items items;
	char id[17];             /* of the job; "": not known yet */
	struct tfc__place place; /* position: the initial cursor and everything reported since */
	bool has_place;          /* else it is at the beginning */
	struct tfc__watch_position position; /* in place of `place`: of a watch */
	struct tfc__timer retry;
	uint64_t delay;
	uint32_t patience_ms; /* 0: as the route says */
	struct tfc__remote_wait wait;
	bool wants_reconnects;
	bool is_established; /* items arrive again */
	bool was_up;         /* items have come: it has begun */
	bool is_unreadable;  /* the last event could not be read; none was reported since */
	bool is_stream_over; /* the stream ended without an error: END is among the items */
	bool is_lost;        /* LOST with wait.error is reported after the items */
};

static const struct tfc__sub_ops remote_sub_ops;

static struct tfc__remote_sub *remote_sub_of(tfc_sub *sub)
{
	return tfc__container_of(sub, struct tfc__remote_sub, base);
}

/* ---- received items */

/* Unreported events are received again over the next connection. */
static void remote_sub_drop_items(struct tfc__remote_sub *sub)
{
	tfc__received_items_clear(&sub->items);
	sub->is_stream_over = false;
}

static void remote_sub_count_held(struct tfc__remote_sub *sub)
{
	bool is_small = sub->is_watch && sub->route->is_forwarded;
	size_t window = sub->route->window * (is_small ? WATCH_ITEM_BYTES : ITEM_BYTES);
	sub->base.held = (sub->items.bytes > window ? sub->items.bytes : window) +
			 tfc__place_bytes(&sub->place) + tfc__watch_position_bytes(&sub->position);
}

static void remote_sub_wait_text(const struct tfc__remote_sub *sub, char text[TFC__WAIT_TEXT_SIZE])
{
	char what[96];
	if (sub->is_watch)
		snprintf(what, sizeof(what), "cannot watch the jobs");
	else
		snprintf(what, sizeof(what), "cannot follow job %.60s", sub->job);
	tfc__remote_wait_text(&sub->wait, what, text);
}

/* Logs for the host of this gateway. With is_bare the events are forwarded to a client, whose own
 * gateway logs the wait. */
static void remote_sub_log_wait(struct tfc__remote_sub *sub)
{
	char text[TFC__WAIT_TEXT_SIZE];
	remote_sub_wait_text(sub, text);
	sub->wait.is_logged = true;
	tfc__log(sub->base.ctx, TFC_LOG_WARNING, "gateway", "", "%s", text);
}

/* Names the node that cannot be reached, where it is known. */
static void remote_sub_name_node(const struct tfc__remote_sub *sub, tfc_error *error)
{
	if (*sub->wait.node && error->code == TFC_ELOST)
		tfc__fail(error, error->code, "gateway", 0,
			  "node %s, which maintains it, does not respond", sub->wait.node);
}

static uint32_t remote_sub_patience_ms(const struct tfc__remote_sub *sub)
{
	return sub->patience_ms ? sub->patience_ms : sub->route->patience_ms;
}

static void remote_sub_retry_later(struct tfc__remote_sub *sub, const tfc_error *why)
{
	struct tfc__remote_wait *wait = &sub->wait;
	tfc__remote_wait_lose(wait, why, remote_sub_patience_ms(sub) * TFC__MS, UNKNOWN_PATIENCE);
	uint64_t now = tfc__now();
	if (sub->route->lost)
		sub->route->lost(sub->route, why);
	if (now >= wait->until) {
		sub->is_lost = true;
		tfc__sub_wake(&sub->base);
		return;
	}
	bool is_logged = sub->is_bare || sub->wants_reconnects || wait->is_logged;
	if (!is_logged && now >= wait->lost_since + TFC__QUIET_NS)
		remote_sub_log_wait(sub);
	/* Most connections that are lost are back with the first retry. */
	if (sub->wants_reconnects && sub->delay && tfc__remote_wait_make_due(wait))
		tfc__sub_wake(&sub->base);
	tfc__timer_set(&sub->retry, now + sub->delay); /* the first retry is immediate */
	sub->delay = sub->delay ? sub->delay * 2 : DELAY_FIRST;
	if (sub->delay > DELAY_MAX)
		sub->delay = DELAY_MAX;
}

/*
 * Whether a retry can help: the connection was lost, or a node on the way is unreachable.
 * A subscription that has not begun waits for nobody: the node that forwards it passes the error on
 * to its client, which fails if a node's response says that the job is on an unreachable node.
 * EEXIST: the forwarding node has the job itself; a client that retries gets the job from that
 * node.
 */
static bool remote_sub_may_retry(const struct tfc__remote_sub *sub, int code, bool is_response)
{
	bool has_begun = sub->was_up || sub->wait.kind == TFC__WAIT_LOST;
	if (sub->route->is_forwarded && !sub->is_watch && !has_begun)
		return false;
	if (code == TFC_ELOST && is_response && !has_begun)
		return false;
	if (code == TFC_EEXIST)
		return !sub->route->is_forwarded;
	return code == TFC_ELOST || code == TFC_EUNREACH || code == TFC_EAGAIN ||
	       code == TFC_ETIMEDOUT || code == TFC_ENOMEM || code == TFC_EBUSY ||
	       code == TFC_ECANCELED || code == TFC_ESTATE || (code == TFC_ENOENT && sub->was_up);
}

static void remote_sub_fail(struct tfc__remote_sub *sub, const tfc_error *error, bool is_response)
{
	sub->is_finding = false;
	if (remote_sub_may_retry(sub, error->code, is_response)) {
		tfc_error named = *error;
		remote_sub_name_node(sub, &named);
		remote_sub_drop_items(sub);
		remote_sub_retry_later(sub, &named);
		return;
	}
	sub->is_lost = true;
	sub->wait.error = *error;
	tfc__sub_wake(&sub->base);
}

void tfc__remote_sub_failed(struct tfc__remote_sub *sub, const tfc_error *error)
{
	remote_sub_fail(sub, error, false);
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
	remote_sub_fail(sub, error, !tfc__rpc_is_closed(sub->rpc));
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
	sub->delay = 0;
	tfc__remote_wait_connect(&sub->wait);
}

/* Any item shows that the subscription is established, also one without events. */
static void remote_sub_on_item(void *user, const void *data, size_t len)
{
	struct tfc__remote_sub *sub = user;
	sub->was_up = true;
	if (!sub->is_unreadable)
		remote_sub_reset_delay(sub);
	if (tfc__received_items_add(&sub->items, data, len) < 0) {
		remote_sub_fail_reading(sub, TFC_ENOMEM);
		return;
	}
	remote_sub_count_held(sub);
	tfc__sub_wake(&sub->base);
}

/* ---- reporting */

/* Begins with the next received item: 1, 0 when there is none, TFC_ENOMEM or TFC_EPARSE. */
static int remote_sub_read_item(struct tfc__remote_sub *sub)
{
	struct tfc__received_items *items = &sub->items;
	if (tfc__received_items_drop_current(items) && sub->call)
		tfc__rpc_more(sub->call, 1);
	remote_sub_count_held(sub);
	int code = tfc__received_items_next(items);
	if (code <= 0)
		return code;
	if (*items->head.job && !sub->is_watch)
		snprintf(sub->id, sizeof(sub->id), "%s", items->head.job);
	if (items->count == 1)
		sub->is_established = true;
	if (items->count == 1 && sub->is_bare && !sub->is_watch) {
		items->head.kind = TFC__SUB_ESTABLISHED;
		sub->base.fn(sub->base.user, &items->head);
	}
	return 1;
}

/* Reads the next event; a batch that goes to another process stays as it is. 1; 0 when there is
 * none, TFC_ENOMEM or TFC_EPARSE. */
static int remote_sub_read_event(struct tfc__remote_sub *sub)
{
	int code = tfc__received_items_read(&sub->items, sub->is_bare);
	while (code == 0) {
		code = remote_sub_read_item(sub);
		if (code <= 0)
			return code;
		code = tfc__received_items_read(&sub->items, sub->is_bare);
	}
	return code;
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
	sub->is_established = false;
	tfc__remote_wait_note_report(&sub->wait, event);
	if (!*event->job)
		event->job = remote_sub_job(sub);
	sub->base.fn(sub->base.user, event);
}

static void remote_sub_report_own_wait(struct tfc__remote_sub *sub)
{
	struct tfc__sub_event *event = &sub->items.event;
	char text[TFC__WAIT_TEXT_SIZE];
	remote_sub_wait_text(sub, text);
	*event = (struct tfc__sub_event){.mark = tfc__no_mark};
	tfc__remote_wait_event(&sub->wait, text, &event->event);
	remote_sub_report_wait(sub, &event->event);
}

/* The events go on. Returns whether RECONNECTED was reported. */
static bool remote_sub_report_back(struct tfc__remote_sub *sub)
{
	tfc_event event = TFC__EVENT_INIT;
	char text[128];
	bool was_reported = tfc__remote_wait_end(&sub->wait);
	sub->is_established = false;
	if (!was_reported)
		return false;
	event.job = remote_sub_job(sub);
	if (sub->is_bare) { /* its client reports RECONNECTED */
		event.kind = TFC__SUB_ESTABLISHED;
		sub->base.fn(sub->base.user, &event);
		return false;
	}
	snprintf(text, sizeof(text), "following job %.60s again", sub->job);
	event.kind = TFC_EVENT_RECONNECTED;
	event.time_ns = tfc__wall();
	event.text = text;
	sub->base.fn(sub->base.user, &event);
	return true;
}

/* The node at the other end waits for the node that has the job. */
static int remote_sub_relay_wait(struct tfc__remote_sub *sub)
{
	sub->items.has_event = false;
	tfc__remote_wait_relay(&sub->wait);
	if (sub->wants_reconnects)
		remote_sub_report_wait(sub, &sub->items.event.event);
	return 1;
}

static int remote_sub_report_event(struct tfc__remote_sub *sub)
{
	tfc_event *event = &sub->items.event.event;
	const struct tfc__mark *mark = &sub->items.event.mark;
	if (sub->is_watch && event->kind != TFC_EVENT_LIVE &&
	    !tfc__watch_position_is_node(event->node))
		return TFC_EPARSE;
	if (tfc__place_apply(&sub->place, mark) < 0)
		return TFC_ENOMEM;
	if (tfc__watch_position_apply(&sub->position, event->node, mark) < 0)
		return TFC_ENOMEM;
	sub->items.has_event = false;
	sub->has_place = true;
	if (sub->is_unreadable)
		remote_sub_reset_delay(sub);
	sub->is_unreadable = false;
	if (event->kind == TFC_EVENT_LIVE)
		sub->wants_live = false;
	if (!sub->is_bare && sub->is_watch)
		event->cursor = tfc__watch_position_text(&sub->position);
	else if (!sub->is_bare && (!sub->skip_output || sub->wants_reports))
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
	if (sub->wait.is_due) {
		remote_sub_report_own_wait(sub);
		return 1;
	}
	while (code > 0 && !sub->items.has_event)
		code = remote_sub_read_event(sub);
	bool has_event = sub->items.has_event;
	bool is_wait = has_event && sub->items.event.event.kind == TFC_EVENT_RECONNECTING;
	if (((has_event && !is_wait) || sub->is_established) && remote_sub_report_back(sub))
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
	tfc__sub_report_lost(base, sub->job, &sub->wait.error);
	return 1;
}

/* ---- connections */

static void remote_sub_on_retry(struct tfc__timer *timer)
{
	struct tfc__remote_sub *sub = tfc__container_of(timer, struct tfc__remote_sub, retry);
	sub->is_finding = true;
	sub->route->find(sub->route, sub, remote_sub_job(sub));
}

void tfc__remote_sub_begin(struct tfc__remote_sub *sub, struct tfc__rpc *rpc, const char *id)
{
	struct tfc__buf buf = {0};
	char method[TFC__METHOD_SIZE];
	const char *cursor = sub->is_watch    ? tfc__watch_position_text(&sub->position)
			     : sub->has_place ? tfc__place_text(&sub->place)
					      : NULL;
	bool is_for_client = !sub->route->is_forwarded && !sub->is_watch;
	const struct tfc__request_params params = {
		.verb = sub->is_watch ? TFC_VERB_WATCH : TFC_VERB_SUBSCRIBE,
		.job = id,
		.client_key = cursor,
		.skip_output = sub->skip_output,
		.wants_live = sub->wants_live,
		.wants_progress = sub->wants_progress,
		.wants_reports = sub->wants_reports,
		.patience_ms = is_for_client ? remote_sub_patience_ms(sub) : 0,
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
	sub->rpc = rpc;
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

struct tfc__rpc *tfc__remote_sub_rpc(const tfc_sub *base, const struct tfc__route *route)
{
	const struct tfc__remote_sub *sub = tfc__container_of(base, const struct tfc__remote_sub,
							      base);
	bool is_of_route = base->ops == &remote_sub_ops && sub->route == route;
	return is_of_route && sub->call ? sub->rpc : NULL;
}

void tfc__remote_sub_set_silent(tfc_sub *base, const char *node, const tfc_error *error)
{
	struct tfc__remote_sub *sub = remote_sub_of(base);
	bool is_connecting = sub->is_finding && !sub->was_up;
	if ((!sub->call && !is_connecting) || !tfc__remote_wait_silence(&sub->wait, node, error))
		return;
	if (sub->wants_reconnects) {
		sub->wait.is_due = true;
		tfc__sub_wake(base);
	} else {
		remote_sub_log_wait(sub);
	}
}

void tfc__remote_sub_set_responding(tfc_sub *base)
{
	struct tfc__remote_sub *sub = remote_sub_of(base);
	if (!tfc__remote_wait_respond(&sub->wait))
		return;
	sub->is_established = true; /* reports RECONNECTED */
	tfc__sub_wake(base);
}

tfc_sub *tfc__remote_sub_base(struct tfc__remote_sub *sub)
{
	return &sub->base;
}

void tfc__remote_sub_set_slot(struct tfc__remote_sub *sub, void *slot)
{
	sub->slot = slot;
}

void tfc__remote_sub_set_patience(tfc_sub *base, uint32_t patience_ms)
{
	remote_sub_of(base)->patience_ms = patience_ms;
}

void tfc__remote_sub_set_node(struct tfc__remote_sub *sub, const char *node)
{
	snprintf(sub->wait.node, sizeof(sub->wait.node), "%s", node);
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
	tfc__received_items_fini(&sub->items);
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
				 : tfc__place_read(&sub->place, TFC__JOB_TASKS_MAX, cursor);
	sub->has_place = true;
	sub->is_lost = code == TFC_EINVAL;
	if (sub->is_lost)
		tfc__fail(&sub->wait.error, code, "gateway", 0,
			  "cursor \"%.80s\" does not belong to %s", cursor,
			  sub->is_watch ? "a watch" : "this job");
	return sub->is_lost ? TFC_OK : code;
}

static const struct tfc__sub_ops remote_sub_ops = {
	.report = remote_sub_report,
	.detach = remote_sub_detach,
	.free = remote_sub_free,
};

int tfc__remote_subscribe(tfc_ctx *ctx, struct tfc__link *list, struct tfc__route *route,
			  const char *job, const tfc_subscribe_options *options, bool is_bare,
			  tfc_event_fn fn, void *user, tfc_error *error, tfc_sub **ret_sub)
{
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
	sub->wants_reports = options->wants_reports;
	sub->is_bare = is_bare;
	sub->wants_reconnects = is_bare ? !sub->is_watch : options->wants_reconnects != 0;
	remote_sub_count_held(sub);
	tfc__received_items_init(&sub->items);
	tfc__timer_init(&sub->retry, ctx, remote_sub_on_retry);
	tfc__sub_init(&sub->base, &remote_sub_ops, ctx, list, fn, user);
	sub->base.event = &sub->items.event;
	if (sub->is_lost)
		tfc__sub_wake(&sub->base);
	else
		tfc__timer_set(&sub->retry, tfc__now()); /* no callback inside this call */
	*ret_sub = &sub->base;
	return TFC_OK;
}
