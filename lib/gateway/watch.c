#include "gateway/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/name_table.h"
#include "gateway/internal.h"
#include "gateway/search.h"
#include "member/member.h"

#define SILENT_NS (3 * TFC__SECOND)   /* a node that reports nothing for so long counts as unseen */
#define REFUSED_NS (10 * TFC__SECOND) /* before the watch of a node that refuses it is retried */

/* The watch of one node. */
struct source {
	struct tfc__link link;
	struct tfc__link ready;  /* in all->ready: it may have something to report */
	struct tfc__named named; /* in all->names */
	struct watch_all *all;
	char node[64];
	struct tfc__route route;                   /* of a member */
	struct tfc__member_wait wait;              /* for the connection to it */
	struct tfc__remote_sub *waiting;           /* the subscription that needs it */
	tfc_sub *sub;                              /* NULL: not open */
	bool is_here;                              /* this node */
	bool has_reported;                         /* something came from it */
	enum { NOT_REPORTED, SEEN, UNSEEN } sight; /* as was reported last */
	bool was_removed;                          /* not a member any more */
	bool is_unreported;                        /* `why` has to be reported */
	bool is_refused;                           /* the subscription has ended with LOST */
	uint64_t open_at;                          /* when to open it again; 0: it is open */
	size_t held;                               /* counted of it */
	tfc_error why;                             /* why it cannot be seen */
};

struct watch_all {
	tfc_sub base;
	struct tfc__forwarder *forwarder;
	struct tfc__link sources;
	struct tfc__name_table names; /* of the sources */
	struct tfc__link ready;
	struct tfc__observer members; /* of the members */
	struct tfc__timer timer;      /* of nodes that do not respond or refuse */
	struct tfc__watch_position position;
	/* The slots of the position before this one are of the cursor. Those without a source are
	 * of nodes that are not members. */
	uint32_t unchecked;
	size_t held;               /* of all sources */
	struct tfc__sub_event now; /* the event that is being reported */
	bool wants_live;           /* and LIVE was not reported yet */
	bool is_bare;
};

static struct watch_all *watch_of(const tfc_sub *sub)
{
	return tfc__container_of(sub, struct watch_all, base);
}

static struct source *source_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct source, link);
}

static void source_mark_ready(struct source *source)
{
	if (tfc__list_is_empty(&source->ready))
		tfc__list_append(&source->all->ready, &source->ready);
	tfc__sub_wake(&source->all->base);
}

/* What its client has to account for. */
static void watch_count_held(struct watch_all *all)
{
	all->base.held = sizeof(*all) + all->held + tfc__watch_position_bytes(&all->position);
}

static void source_set_held(struct source *source, size_t held)
{
	source->all->held += held - source->held;
	source->held = held;
	watch_count_held(source->all);
}

/* ---- reporting */

static int watch_notify(struct watch_all *all, const char *node, const tfc_event *event,
			const struct tfc__mark *mark)
{
	if (tfc__watch_position_apply(&all->position, node, mark) < 0)
		return TFC_ENOMEM;
	all->now.event = *event;
	all->now.event.node = node;
	all->now.mark = *mark;
	all->now.event.cursor = all->is_bare ? "" : tfc__watch_position_text(&all->position);
	watch_count_held(all);
	all->base.fn(all->base.user, &all->now.event);
	return TFC_OK;
}

static void source_on_event(void *user, const tfc_event *event)
{
	struct source *source = user;
	struct watch_all *all = source->all;
	source->has_reported = true;
	if (event->kind == TFC_EVENT_LOST) {
		tfc__fail(&source->why, event->error_code, "gateway", 0, "%s", event->text);
		source->is_refused = true;
		return;
	}
	if (event->kind == TFC_EVENT_NODE_SEEN) {
		source->sight = SEEN;
		source->is_unreported = false;
	}
	if (event->kind == TFC_EVENT_NODE_UNSEEN)
		source->sight = UNSEEN;
	if (watch_notify(all, source->node, event, &source->sub->event->mark) == TFC_OK)
		return;
	tfc__fail_nomem(&source->why, "gateway");
	source->is_refused = true;
}

static int source_report_unseen(struct source *source)
{
	struct tfc__mark mark = tfc__no_mark;
	tfc_event event = tfc__watch_unseen(source->node, &source->why);
	mark.watch = source->was_removed ? TFC__WATCH_REMOVE : TFC__WATCH_KEEP;
	source->is_unreported = false;
	source->sight = UNSEEN;
	watch_notify(source->all, source->node, &event, &mark);
	return 1;
}

static void fail_not_member(tfc_error *why, const char *node)
{
	tfc__fail(why, TFC_ENOENT, "gateway", 0, "node %.60s is no longer a member", node);
}

static void source_note_unseen(struct source *source, const tfc_error *why)
{
	if (source->sight == UNSEEN)
		return;
	source->why = *why;
	source->is_unreported = true;
	source_mark_ready(source);
}

static void watch_set_timer(struct watch_all *all, uint64_t at)
{
	if (!all->timer.at || at < all->timer.at)
		tfc__timer_set(&all->timer, at);
}

static void source_free(struct source *source)
{
	tfc__list_remove(&source->link);
	tfc__list_remove(&source->ready);
	tfc__name_remove(&source->named);
	tfc_sub_close(source->sub);
	source_set_held(source, 0);
	free(source);
}

/* Its subscription ended: it is opened again later. */
static void source_close_refused(struct source *source)
{
	tfc_error why = source->why;
	tfc_sub_close(source->sub);
	source->sub = NULL;
	source_set_held(source, sizeof(*source));
	source->is_refused = false;
	source->open_at = tfc__now() + REFUSED_NS;
	watch_set_timer(source->all, source->open_at);
	source_note_unseen(source, &why);
}

static struct source *watch_find_source(struct watch_all *all, const char *node)
{
	struct tfc__named *named = tfc__name_find(&all->names, node);
	return named ? tfc__container_of(named, struct source, named) : NULL;
}

/* The jobs of nodes in the cursor that are not members cannot be seen. A node that a client has
 * invented costs nothing but its place in the cursor. */
static int report_former_member(struct watch_all *all)
{
	struct tfc__mark mark = tfc__no_mark;
	tfc_error why = TFC_ERROR_INIT;
	char node[64];
	if (all->unchecked > all->position.count)
		all->unchecked = all->position.count;
	while (all->unchecked > 0) {
		memcpy(node, all->position.slots[--all->unchecked].node, sizeof(node));
		if (watch_find_source(all, node))
			continue;
		fail_not_member(&why, node);
		tfc_event event = tfc__watch_unseen(node, &why);
		mark.watch = TFC__WATCH_REMOVE;
		watch_notify(all, node, &event, &mark);
		return 1;
	}
	return 0;
}

static int report_live(struct watch_all *all)
{
	struct tfc__mark mark = tfc__no_mark;
	tfc_event event = tfc__watch_event(TFC_EVENT_LIVE, "");
	TFC__LIST_EACH (link, &all->sources)
		if (source_of(link)->sight == NOT_REPORTED)
			return 0;
	all->wants_live = false;
	mark.watch = TFC__WATCH_KEEP;
	watch_notify(all, "", &event, &mark);
	return 1;
}

static int watch_report(tfc_sub *base)
{
	struct watch_all *all = watch_of(base);
	while (!tfc__list_is_empty(&all->ready)) {
		struct source *source = tfc__container_of(all->ready.next, struct source, ready);
		if (source->was_removed) {
			bool was_reported = tfc__watch_position_find(&all->position, source->node);
			bool is_news = source->sight != NOT_REPORTED || was_reported;
			if (is_news)
				source_report_unseen(source);
			if (base->is_closed)
				return 1;
			source_free(source);
			if (is_news)
				return 1;
			continue;
		}
		if (source->is_unreported)
			return source_report_unseen(source);
		int reported = source->sub ? tfc__sub_pull(source->sub) : 0;
		if (base->is_closed)
			return 1;
		if (source->sub)
			source_set_held(source, sizeof(*source) + source->sub->held);
		if (source->is_refused)
			source_close_refused(source);
		else if (reported)
			return 1;
		else
			tfc__list_remove(&source->ready);
	}
	if (report_former_member(all))
		return 1;
	return all->wants_live ? report_live(all) : 0;
}

/* ---- the sources */

static void source_on_wake(tfc_sub *sub)
{
	source_mark_ready(sub->user);
}

static void source_on_connected(struct tfc__member_wait *wait, struct tfc__rpc *rpc,
				const tfc_error *why)
{
	struct source *source = tfc__container_of(wait, struct source, wait);
	tfc_error error = TFC_ERROR_INIT;
	if (rpc) {
		tfc__remote_sub_begin(source->waiting, rpc, "");
		return;
	}
	tfc__fail(&error, TFC_ELOST, "gateway", 0, "cannot reach node %.60s: %s", source->node,
		  why->text);
	tfc__remote_sub_failed(source->waiting, &error);
}

static void source_find_route(struct tfc__route *route, struct tfc__remote_sub *sub,
			      const char *job)
{
	struct source *source = tfc__container_of(route, struct source, route);
	const struct tfc__gateway_members *members = &source->all->forwarder->members;
	source->waiting = sub;
	members->ops->connect(members->user, source->node, &source->wait);
}

static void source_cancel_route(struct tfc__route *route, struct tfc__remote_sub *sub)
{
	tfc__list_remove(&tfc__container_of(route, struct source, route)->wait.link);
}

static void source_on_lost(struct tfc__route *route, const tfc_error *error)
{
	source_note_unseen(tfc__container_of(route, struct source, route), error);
}

static void source_open(struct source *source)
{
	struct watch_all *all = source->all;
	const struct tfc__forwarder *forwarder = all->forwarder;
	const struct tfc__changes_position *from = tfc__watch_position_find(&all->position,
									    source->node);
	struct tfc__watch_position position = {.slots = NULL};
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	tfc_error error = TFC_ERROR_INIT;
	int code = from ? tfc__watch_position_set(&position, source->node, from) : TFC_OK;
	options.cursor = tfc__watch_position_text(&position);
	source->open_at = 0;
	if (code == TFC_OK && source->is_here)
		code = tfc__node_watch(forwarder->ctx, NULL, forwarder->directory, from,
				       source_on_event, source, &error, &source->sub);
	else if (code == TFC_OK)
		code = tfc__remote_subscribe(forwarder->ctx, NULL, &source->route, NULL, &options,
					     true, source_on_event, source, &error, &source->sub);
	tfc__watch_position_fini(&position);
	if (code == TFC_OK) {
		tfc__work_cancel(&source->sub->work); /* it has no turns of its own */
		source->sub->wake = source_on_wake;
		source_set_held(source, sizeof(*source) + source->sub->held);
		source_mark_ready(source);
		return;
	}
	tfc__fail_nomem(&error, "gateway");
	source->open_at = tfc__now() + REFUSED_NS;
	watch_set_timer(all, source->open_at);
	source_note_unseen(source, &error);
}

static int watch_add_source(struct watch_all *all, const char *node, bool is_here)
{
	struct source *source = calloc(1, sizeof(*source));
	if (!source)
		return TFC_ENOMEM;
	source->all = all;
	source->is_here = is_here;
	snprintf(source->node, sizeof(source->node), "%s", node);
	source->route = (struct tfc__route){
		.find = source_find_route,
		.cancel = source_cancel_route,
		.lost = source_on_lost,
		.patience_ms = UINT32_MAX,
		.window = 1,
		.is_forwarded = true,
		.is_low_priority = all->is_bare,
	};
	source->wait.fn = source_on_connected;
	tfc__list_init(&source->wait.link);
	tfc__list_init(&source->ready);
	tfc__list_append(&all->sources, &source->link);
	tfc__name_add(&all->names, &source->named, source->node);
	source_set_held(source, sizeof(*source));
	source_open(source);
	watch_set_timer(all, tfc__now() + SILENT_NS);
	return TFC_OK;
}

static int watch_add_members(struct watch_all *all)
{
	struct tfc__gateway_member member = {NULL};
	int code = TFC_OK;
	while (code == TFC_OK && tfc__gateway_members_next(&all->forwarder->members, &member)) {
		struct source *source = watch_find_source(all, member.name);
		if (source && source->was_removed) {
			source_free(source);
			source = NULL;
		}
		if (!source)
			code = watch_add_source(all, member.name, false);
	}
	return code;
}

/* Rare: a node has joined, left, or changed. */
static void watch_on_member(struct tfc__observer *observer, const void *user)
{
	struct watch_all *all = tfc__container_of(observer, struct watch_all, members);
	const struct tfc__member_event *event = user;
	struct source *source = watch_find_source(all, event->member->name);
	if (event->change == TFC__MEMBER_REMOVED && source && !source->is_here) {
		fail_not_member(&source->why, source->node);
		source->was_removed = true;
		source->open_at = 0;
		tfc_sub_close(source->sub);
		source->sub = NULL;
		source_set_held(source, sizeof(*source));
		source_mark_ready(source);
	} else if (event->change != TFC__MEMBER_REMOVED && (!source || source->was_removed)) {
		if (watch_add_members(all) < 0)
			watch_set_timer(all, tfc__now() + TFC__SECOND);
	} else if (source && source->open_at)
		source_open(source);
}

static void watch_on_timer(struct tfc__timer *timer)
{
	struct watch_all *all = tfc__container_of(timer, struct watch_all, timer);
	uint64_t now = tfc__now();
	tfc_error no_response = TFC_ERROR_INIT;
	if (watch_add_members(all) < 0)
		watch_set_timer(all, now + TFC__SECOND);
	TFC__LIST_EACH (link, &all->sources) {
		struct source *source = source_of(link);
		if (source->was_removed)
			continue;
		if (source->open_at && now >= source->open_at)
			source_open(source);
		else if (source->open_at)
			watch_set_timer(all, source->open_at);
		else if (!source->has_reported && source->sight != UNSEEN) {
			tfc__fail(&no_response, TFC_ETIMEDOUT, "gateway", 0,
				  "node %.60s has not responded yet", source->node);
			source_note_unseen(source, &no_response);
		}
	}
}

/* ---- opening and closing */

static void watch_detach(tfc_sub *base)
{
	struct watch_all *all = watch_of(base);
	tfc__timer_cancel(&all->timer);
	tfc__observer_remove(&all->members);
	TFC__LIST_EACH (link, &all->sources) {
		tfc_sub_close(source_of(link)->sub);
		source_of(link)->sub = NULL;
	}
}

static void watch_free(tfc_sub *base)
{
	struct watch_all *all = watch_of(base);
	TFC__LIST_EACH (link, &all->sources)
		source_free(source_of(link));
	tfc__watch_position_fini(&all->position);
	free(all);
}

int tfc__watch_all(struct tfc__forwarder *forwarder, struct tfc__link *list,
		   const tfc_watch_options *options, bool is_bare, tfc_event_fn fn, void *user,
		   tfc_error *error, tfc_sub **ret_sub)
{
	static const struct tfc__sub_ops ops = {
		.report = watch_report,
		.detach = watch_detach,
		.free = watch_free,
	};
	const struct tfc__gateway_members *members = &forwarder->members;
	const char *self = tfc__agent_name(tfc__directory_agent(forwarder->directory));
	struct watch_all *all = calloc(1, sizeof(*all));
	if (!all)
		return tfc__fail_nomem(error, "gateway");
	all->forwarder = forwarder;
	all->wants_live = options->wants_live;
	all->is_bare = is_bare;
	tfc__list_init(&all->sources);
	tfc__names_init(&all->names);
	tfc__list_init(&all->ready);
	tfc__observer_init(&all->members, watch_on_member);
	tfc__timer_init(&all->timer, forwarder->ctx, watch_on_timer);
	tfc__sub_init(&all->base, &ops, forwarder->ctx, list, fn, user);
	all->base.event = &all->now;
	int code = options->cursor ? tfc__watch_position_read(&all->position, options->cursor)
				   : TFC_OK;
	if (code == TFC_EINVAL) {
		tfc_sub_close(&all->base);
		return tfc__fail(error, code, "gateway", 0,
				 "cursor \"%.80s\" does not belong to a watch", options->cursor);
	}
	all->unchecked = all->position.count;
	if (code == TFC_OK)
		code = watch_add_source(all, self, true);
	if (code == TFC_OK)
		code = watch_add_members(all);
	if (code < 0) {
		tfc_sub_close(&all->base);
		return tfc__fail_nomem(error, "gateway");
	}
	if (members->ops)
		members->ops->watch(members->user, &all->members);
	*ret_sub = &all->base;
	return TFC_OK;
}
