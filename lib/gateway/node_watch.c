#include "gateway/watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "gateway/internal.h"

struct node_watch {
	tfc_sub base;
	const struct tfc__directory *directory;
	struct tfc__changes *changes;
	const char *node; /* its name; borrowed from the agent */
	struct tfc__changes_reader reader;
	struct tfc__changes_position from; /* where to begin */
	struct tfc__observer observer;     /* of the changes */
	struct tfc__sub_event now;         /* the event that is being reported */
	enum {
		WAITING,    /* until the store is read */
		UNREAD,     /* it could not be read: NODE_UNSEEN was reported */
		REPLAYING,  /* from the beginning */
		CONTINUING, /* after `from` */
		SEEN,       /* NODE_SEEN was reported */
	} phase;
};

static struct node_watch *node_watch_of(const tfc_sub *sub)
{
	return tfc__container_of(sub, struct node_watch, base);
}

tfc_event tfc__watch_event(uint32_t kind, const char *node)
{
	tfc_event event = TFC__EVENT_INIT;
	event.kind = kind;
	event.time_ns = tfc__wall();
	event.node = node;
	return event;
}

tfc_event tfc__watch_unseen(const char *node, const tfc_error *why)
{
	tfc_event event = tfc__watch_event(TFC_EVENT_NODE_UNSEEN, node);
	event.error_code = why->code;
	event.text = why->text;
	return event;
}

/* Until the replay is over, the position is the beginning: a watch that is continued from the
 * middle of a replay replays everything, so that what was forgotten meanwhile is known. */
static int node_watch_notify(struct node_watch *watch, const tfc_event *event)
{
	struct tfc__changes_position *at = &watch->now.mark.at;
	watch->now.event = *event;
	*at = watch->phase < REPLAYING ? watch->from : watch->reader.at;
	if (watch->phase == REPLAYING)
		*at = (struct tfc__changes_position){.incarnation = 0};
	watch->base.fn(watch->base.user, &watch->now.event);
	return 1;
}

static int report_job(struct node_watch *watch, const struct tfc__record *record, uint32_t kind)
{
	const struct tfc__journal *journal = &record->journal;
	const struct tfc__journal_entry *about_job = tfc__journal_last_of_job(journal);
	if (kind == TFC_EVENT_CHANGED && tfc__journal_has_ended(journal))
		kind = TFC_EVENT_ENDED;
	tfc_event event = tfc__watch_event(kind, watch->node);
	event.job = record->id;
	event.name = record->job->name;
	event.host_tag = record->host_tag;
	event.host_tag_len = record->host_tag_len;
	event.epoch = record->epoch;
	event.job_state = journal->job_state;
	event.generation = journal->generation;
	event.restarts = journal->restarts;
	event.version = (uint64_t)journal->count + 1;
	if (kind == TFC_EVENT_SUBMITTED)
		event.time_ns = record->submitted_ns;
	if (about_job)
		event.text = about_job->text;
	if (kind == TFC_EVENT_ENDED && journal->count) {
		const struct tfc__journal_entry *last = &journal->entries[journal->count - 1];
		const struct tfc__journal_exit end = tfc__journal_exit(last);
		event.time_ns = last->time_ns;
		event.reason = last->reason;
		event.exit_code = end.code;
		event.signal = end.signal;
		event.error_code = end.error;
	}
	return node_watch_notify(watch, &event);
}

/* The store could not be read: that does not change. */
static int report_unread(struct node_watch *watch)
{
	tfc_error why = TFC_ERROR_INIT;
	int code = tfc__directory_check_loaded(watch->directory, &why);
	if (code == TFC_OK || code == TFC_EAGAIN || watch->phase == UNREAD)
		return 0;
	watch->phase = UNREAD;
	const tfc_event event = tfc__watch_unseen(watch->node, &why);
	return node_watch_notify(watch, &event);
}

static int node_watch_report(tfc_sub *base)
{
	struct node_watch *watch = node_watch_of(base);
	struct tfc__changes_reader *reader = &watch->reader;
	bool has_appeared;
	tfc_event event;
	if (!watch->changes->is_complete)
		return report_unread(watch);
	bool has_begun = watch->phase >= REPLAYING;
	if (!has_begun || !tfc__changes_is_valid(watch->changes, reader)) {
		bool continues = tfc__changes_begin(watch->changes, reader,
						    has_begun ? &reader->at : &watch->from);
		watch->phase = continues ? CONTINUING : REPLAYING;
		if (!continues) {
			event = tfc__watch_event(TFC_EVENT_NODE_RESET, watch->node);
			return node_watch_notify(watch, &event);
		}
	}
	const struct tfc__change *change = tfc__changes_next(watch->changes, reader, &has_appeared);
	if (change && change->record)
		return report_job(watch, change->record,
				  has_appeared ? TFC_EVENT_SUBMITTED : TFC_EVENT_CHANGED);
	if (change) {
		event = tfc__watch_event(TFC_EVENT_FORGOTTEN, watch->node);
		event.job = change->id;
		return node_watch_notify(watch, &event);
	}
	if (watch->phase == SEEN)
		return 0;
	watch->phase = SEEN;
	event = tfc__watch_event(TFC_EVENT_NODE_SEEN, watch->node);
	return node_watch_notify(watch, &event);
}

static void node_watch_detach(tfc_sub *base)
{
	struct node_watch *watch = node_watch_of(base);
	tfc__changes_end(&watch->reader);
	tfc__observer_remove(&watch->observer);
}

static void node_watch_free(tfc_sub *base)
{
	free(node_watch_of(base));
}

static void node_watch_on_change(struct tfc__observer *observer, const void *event)
{
	tfc__sub_wake(&tfc__container_of(observer, struct node_watch, observer)->base);
}

int tfc__node_watch(tfc_ctx *ctx, struct tfc__link *list, struct tfc__directory *directory,
		    const struct tfc__changes_position *from, tfc_event_fn fn, void *user,
		    tfc_error *error, tfc_sub **ret_sub)
{
	static const struct tfc__sub_ops ops = {
		.report = node_watch_report,
		.detach = node_watch_detach,
		.free = node_watch_free,
	};
	struct node_watch *watch = calloc(1, sizeof(*watch));
	if (!watch)
		return tfc__fail_nomem(error, "gateway");
	watch->directory = directory;
	watch->changes = tfc__directory_changes(directory);
	watch->node = tfc__agent_name(tfc__directory_agent(directory));
	if (from)
		watch->from = *from;
	watch->now.mark = tfc__no_mark;
	watch->now.mark.watch = TFC__WATCH_SET;
	tfc__changes_reader_init(&watch->reader);
	tfc__observer_init(&watch->observer, node_watch_on_change);
	tfc__sub_init(&watch->base, &ops, ctx, list, fn, user);
	watch->base.event = &watch->now;
	tfc__observers_add(&watch->changes->watchers, &watch->observer);
	tfc__sub_wake(&watch->base);
	*ret_sub = &watch->base;
	return TFC_OK;
}
