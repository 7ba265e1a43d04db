#include "gateway/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "gateway/internal.h"
#include "gateway/search.h"
#include "member/member.h"

#define SILENT_NS (3 * TFC__SECOND)   /* a node that reports nothing for so long counts as unseen */
#define REFUSED_NS (10 * TFC__SECOND) /* before a node that refuses the watch is asked again */

/* The watch of one node. */
struct source {
	struct tfc__link link;
	struct tfc__link ready; /* in all->ready: it may have something to report */
	struct watch_all *all;
	char node[64];
	struct tfc__route route; /* of a member */
	tfc_sub *sub;            /* NULL: not open */
	bool is_here;            /* this node */
	bool has_reported;       /* something came from it */
	bool is_seen;            /* as was reported last */
	bool is_unseen;
	bool is_gone;       /* not a member any more */
	bool is_unreported; /* `why` has to be reported */
	bool is_refused;    /* the subscription has ended with LOST */
	uint64_t open_at;   /* when to open it again; 0: it is open */
	tfc_error why;      /* why it cannot be seen */
};

struct watch_all {
	tfc_sub base;
	struct tfc__forwarder *forwarder;
	struct tfc__link sources;
	struct tfc__link ready;
	struct tfc__observer members; /* of the members */
	struct tfc__timer timer;      /* silent and refused nodes */
	struct tfc__watch_position position;
	struct tfc__sub_event now; /* the event that is being reported */
	bool wants_live;           /* and LIVE was not reported yet */
	bool is_bare;
};

static struct watch_all *of(const tfc_sub *sub)
{
	return tfc__container_of(sub, struct watch_all, base);
}

static struct source *source_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct source, link);
}

static void make_ready(struct source *source)
{
	if (tfc__list_is_empty(&source->ready))
		tfc__list_append(&source->all->ready, &source->ready);
	tfc__sub_wake(&source->all->base);
}

/* ---- reporting */

static int report(struct watch_all *all, const tfc_event *event, const struct tfc__mark *mark)
{
	if (mark->watch == TFC__WATCH_SET &&
	    tfc__watch_position_set(&all->position, event->node, &mark->at) < 0)
		return TFC_ENOMEM;
	if (mark->watch == TFC__WATCH_REMOVE)
		tfc__watch_position_remove(&all->position, event->node);
	all->now.event = *event;
	all->now.mark = *mark;
	all->now.event.cursor = all->is_bare ? "" : tfc__watch_position_text(&all->position);
	all->base.held = tfc__watch_position_bytes(&all->position);
	TFC__LIST_EACH (link, &all->sources)
		all->base.held += sizeof(struct source) +
				  (source_of(link)->sub ? source_of(link)->sub->held : 0);
	all->base.fn(all->base.user, &all->now.event);
	return TFC_OK;
}

static void on_event(void *user, const tfc_event *event)
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
		source->is_seen = true;
		source->is_unseen = source->is_unreported = false;
	}
	if (report(all, event, &tfc__sub_event(source->sub)->mark) == TFC_OK)
		return;
	tfc__fail_nomem(&source->why, "gateway");
	source->is_refused = true;
}

static int report_unseen(struct source *source)
{
	struct watch_all *all = source->all;
	struct tfc__mark mark = tfc__no_mark;
	tfc_event event = tfc__watch_event(TFC_EVENT_NODE_UNSEEN, source->node);
	mark.watch = source->is_gone ? TFC__WATCH_REMOVE : TFC__WATCH_KEEP;
	event.error_code = source->why.code;
	event.text = source->why.text;
	source->is_unreported = false;
	source->is_unseen = true;
	source->is_seen = false;
	report(all, &event, &mark);
	return 1;
}

static void note_unseen(struct source *source, const tfc_error *why)
{
	if (source->is_unseen)
		return;
	source->why = *why;
	source->is_unreported = true;
	make_ready(source);
}

static void set_timer(struct watch_all *all, uint64_t at)
{
	if (!all->timer.at || at < all->timer.at)
		tfc__timer_set(&all->timer, at);
}

static void free_source(struct source *source)
{
	tfc__list_remove(&source->link);
	tfc__list_remove(&source->ready);
	tfc_sub_close(source->sub);
	free(source);
}

/* Its subscription ended: it is opened again later. */
static void close_refused(struct source *source)
{
	tfc_error why = source->why;
	tfc_sub_close(source->sub);
	source->sub = NULL;
	source->is_refused = false;
	source->open_at = tfc__now() + REFUSED_NS;
	set_timer(source->all, source->open_at);
	note_unseen(source, &why);
}

static int report_live(struct watch_all *all)
{
	struct tfc__mark mark = tfc__no_mark;
	tfc_event event = tfc__watch_event(TFC_EVENT_LIVE, "");
	TFC__LIST_EACH (link, &all->sources)
		if (!source_of(link)->is_seen && !source_of(link)->is_unseen)
			return 0;
	all->wants_live = false;
	mark.watch = TFC__WATCH_KEEP;
	report(all, &event, &mark);
	return 1;
}

static int report_next(tfc_sub *base)
{
	struct watch_all *all = of(base);
	while (!tfc__list_is_empty(&all->ready)) {
		struct source *source = tfc__container_of(all->ready.next, struct source, ready);
		if (source->is_gone) {
			bool was_reported = tfc__watch_position_find(&all->position, source->node);
			bool is_news = source->is_seen || source->is_unseen || was_reported;
			if (is_news)
				report_unseen(source);
			if (base->is_closed)
				return 1;
			free_source(source);
			if (is_news)
				return 1;
			continue;
		}
		if (source->is_unreported)
			return report_unseen(source);
		int reported = source->sub ? tfc__sub_pull(source->sub) : 0;
		if (base->is_closed)
			return 1;
		if (source->is_refused)
			close_refused(source);
		else if (reported)
			return 1;
		else
			tfc__list_remove(&source->ready);
	}
	return all->wants_live ? report_live(all) : 0;
}

/* ---- the sources */

static void on_wake(tfc_sub *sub)
{
	make_ready(sub->user);
}

static void find_route(struct tfc__route *route, struct tfc__remote_sub *sub, const char *job)
{
	struct source *source = tfc__container_of(route, struct source, route);
	struct tfc__rpc *rpc = tfc__member_rpc(&source->all->forwarder->members, source->node);
	tfc_error error = TFC_ERROR_INIT;
	if (rpc) {
		tfc__remote_sub_go(sub, rpc, "");
		return;
	}
	tfc__fail(&error, TFC_ELOST, "gateway", 0, "cannot reach node %.60s", source->node);
	tfc__remote_sub_failed(sub, &error);
}

static void forget_route(struct tfc__route *route, struct tfc__remote_sub *sub)
{
}

static void on_route_lost(struct tfc__route *route, const tfc_error *error)
{
	note_unseen(tfc__container_of(route, struct source, route), error);
}

static void open_source(struct source *source)
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
		code = tfc__node_watch(forwarder->ctx, NULL, forwarder->directory, from, on_event,
				       source, &error, &source->sub);
	else if (code == TFC_OK)
		code = tfc__remote_subscribe(forwarder->ctx, NULL, &source->route, NULL, &options,
					     true, on_event, source, &error, &source->sub);
	tfc__watch_position_fini(&position);
	if (code == TFC_OK) {
		tfc__work_cancel(&source->sub->work); /* it has no turns of its own */
		source->sub->wake = on_wake;
		make_ready(source);
		return;
	}
	tfc__fail_nomem(&error, "gateway");
	source->open_at = tfc__now() + REFUSED_NS;
	set_timer(all, source->open_at);
	note_unseen(source, &error);
}

static int add_source(struct watch_all *all, const char *node, bool is_here)
{
	struct source *source = calloc(1, sizeof(*source));
	if (!source)
		return TFC_ENOMEM;
	source->all = all;
	source->is_here = is_here;
	snprintf(source->node, sizeof(source->node), "%s", node);
	source->route = (struct tfc__route){
		.find = find_route,
		.forget = forget_route,
		.lost = on_route_lost,
		.patience_ms = UINT32_MAX,
		.window = 1,
		.is_forwarded = true,
	};
	tfc__list_init(&source->ready);
	tfc__list_append(&all->sources, &source->link);
	open_source(source);
	set_timer(all, tfc__now() + SILENT_NS);
	return TFC_OK;
}

static struct source *find_source(const struct watch_all *all, const char *node)
{
	TFC__LIST_EACH (link, &all->sources)
		if (strcmp(source_of(link)->node, node) == 0)
			return source_of(link);
	return NULL;
}

static void remove_source(struct source *source)
{
	tfc__fail(&source->why, TFC_ENOENT, "gateway", 0, "node %.60s is no longer a member",
		  source->node);
	source->is_gone = true;
	tfc_sub_close(source->sub);
	source->sub = NULL;
	make_ready(source);
}

static bool is_member(const struct watch_all *all, const char *node)
{
	struct tfc__gateway_member member = {NULL};
	while (tfc__gateway_members_next(&all->forwarder->members, &member))
		if (strcmp(member.name, node) == 0)
			return true;
	return false;
}

static int add_members(struct watch_all *all)
{
	struct tfc__gateway_member member = {NULL};
	int code = TFC_OK;
	while (code == TFC_OK && tfc__gateway_members_next(&all->forwarder->members, &member)) {
		struct source *source = find_source(all, member.name);
		if (source && source->is_gone)
			source = NULL, free_source(find_source(all, member.name));
		if (!source)
			code = add_source(all, member.name, false);
	}
	return code;
}

/* Rare: a node has joined, left, or changed. */
static void on_members(struct tfc__observer *observer, const void *user)
{
	struct watch_all *all = tfc__container_of(observer, struct watch_all, members);
	const struct tfc__member_event *event = user;
	struct source *source = find_source(all, event->member->name);
	if (event->change == TFC__MEMBER_REMOVED && source && !source->is_here)
		remove_source(source);
	else if (event->change != TFC__MEMBER_REMOVED && !source && add_members(all) < 0)
		set_timer(all, tfc__now() + TFC__SECOND);
	else if (source && source->open_at)
		open_source(source);
}

static void on_timer(struct tfc__timer *timer)
{
	struct watch_all *all = tfc__container_of(timer, struct watch_all, timer);
	uint64_t now = tfc__now();
	tfc_error silent = TFC_ERROR_INIT;
	if (add_members(all) < 0)
		set_timer(all, now + TFC__SECOND);
	TFC__LIST_EACH (link, &all->sources) {
		struct source *source = source_of(link);
		if (source->is_gone)
			continue;
		if (source->open_at && now >= source->open_at)
			open_source(source);
		else if (source->open_at)
			set_timer(all, source->open_at);
		else if (!source->has_reported && !source->is_unseen) {
			tfc__fail(&silent, TFC_ETIMEDOUT, "gateway", 0,
				  "node %.60s has not responded yet", source->node);
			note_unseen(source, &silent);
		}
	}
}

/* Nodes in the cursor that are not members: their jobs cannot be seen. */
static int add_former_members(struct watch_all *all)
{
	for (uint32_t i = 0; i < all->position.count; i++) {
		const char *node = all->position.slots[i].node;
		if (find_source(all, node) || is_member(all, node))
			continue;
		int code = add_source(all, node, false);
		if (code < 0)
			return code;
		remove_source(find_source(all, node));
	}
	return TFC_OK;
}

/* ---- opening and closing */

static void detach(tfc_sub *base)
{
	struct watch_all *all = of(base);
	tfc__timer_cancel(&all->timer);
	tfc__observer_remove(&all->members);
	TFC__LIST_EACH (link, &all->sources) {
		tfc_sub_close(source_of(link)->sub);
		source_of(link)->sub = NULL;
	}
}

static void free_watch(tfc_sub *base)
{
	struct watch_all *all = of(base);
	TFC__LIST_EACH (link, &all->sources)
		free_source(source_of(link));
	tfc__watch_position_fini(&all->position);
	free(all);
}

static const struct tfc__sub_event *event_of(const tfc_sub *base)
{
	return &of(base)->now;
}

int tfc__watch_all(struct tfc__forwarder *forwarder, struct tfc__link *list,
		   const tfc_watch_options *options, bool is_bare, tfc_event_fn fn, void *user,
		   tfc_error *error, tfc_sub **ret_sub)
{
	static const struct tfc__sub_ops ops = {
		.report = report_next,
		.detach = detach,
		.free = free_watch,
		.event = event_of,
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
	tfc__list_init(&all->ready);
	tfc__observer_init(&all->members, on_members);
	tfc__timer_init(&all->timer, forwarder->ctx, on_timer);
	tfc__sub_init(&all->base, &ops, forwarder->ctx, list, fn, user);
	int code = options->cursor ? tfc__watch_position_read(&all->position, options->cursor)
				   : TFC_OK;
	if (code == TFC_EINVAL) {
		tfc_sub_close(&all->base);
		return tfc__fail(error, code, "gateway", 0,
				 "cursor \"%.80s\" does not belong to a watch", options->cursor);
	}
	if (code == TFC_OK)
		code = add_source(all, self, true);
	if (code == TFC_OK)
		code = add_members(all);
	if (code == TFC_OK)
		code = add_former_members(all);
	if (code < 0) {
		tfc_sub_close(&all->base);
		return tfc__fail_nomem(error, "gateway");
	}
	if (members->ops)
		members->ops->watch(members->user, &all->members);
	*ret_sub = &all->base;
	return TFC_OK;
}
