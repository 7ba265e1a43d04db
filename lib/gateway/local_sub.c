/*
 * A subscription merges the journal of a job with the logs of its tasks. Nothing is queued for it:
 * it keeps its position, and continues to read in its next turn of dispatch.
 *
 * The merge has one rule: the entry that ends an attempt is reported after that task's log was read
 * up to the position at which the shim finished it. So a task's output is read from one node at a
 * time, in order. The wait for an unreachable node is short: its output becomes missing output,
 * which is reported when the node is back, if the job has not ended by then.
 */
#include "gateway/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"

#define LATER (50 * TFC__MS)
#define RETRIES 20        /* then the end of an attempt is reported without the remaining output */
#define LINES_PER_TASK 64 /* before the next task's turn: opening a log is expensive */
#define LINES_AT_ONCE 64  /* lines for another process that count as one event of a turn */
/*
 * How long the end of an attempt waits for an unreachable node, which has its output: of an attempt
 * that has just ended by itself, and of one that was lost with the node or ended earlier.
 */
#define LOST_PATIENCE (10 * TFC__SECOND)
#define GONE_PATIENCE TFC__SECOND

static struct local_sub *local_sub_of(tfc_sub *sub)
{
	return tfc__container_of(sub, struct local_sub, base);
}

/* ---- events: entries of the journal, and lines
 *
 * When an event is reported again, also by another process, it is the same as before: except for
 * LIVE and for the report that events are not stored, it contains nothing that depends on when it
 * is reported. */

static tfc_event *begin_event(struct local_sub *sub, uint32_t kind)
{
	const struct tfc__record *record = sub->record;
	tfc_event *event = &sub->now.event;
	*event = (tfc_event)TFC__EVENT_INIT;
	event->kind = kind;
	event->job = record->id;
	event->name = record->job->name;
	event->host_tag = record->host_tag;
	event->host_tag_len = record->host_tag_len;
	event->job_state = sub->job_state;
	return event;
}

static void event_set_task(const struct local_sub *sub, uint32_t task, tfc_event *event)
{
	if (task != UINT32_MAX)
		event->task_type =
			tfc__job_task_role(sub->record->job, task, &event->task_index)->name;
}

static void local_sub_notify(struct local_sub *sub)
{
	struct tfc__mark *mark = &sub->now.mark;
	mark->next = sub->place.next;
	mark->is_gap_reported = sub->place.is_gap_reported;
	if (!sub->is_bare && sub->has_cursors) {
		/* This cannot fail: there is memory for every mark. */
		tfc__place_apply(&sub->place, mark);
		sub->now.event.cursor = tfc__place_text(&sub->place);
	}
	sub->base.fn(sub->base.user, &sub->now.event);
	mark->task = mark->ended_task = mark->missing = mark->missing_over = UINT32_MAX;
}

static void report_entry(struct local_sub *sub, const struct tfc__journal_entry *entry)
{
	static const char *const no_lines[] = {NULL};
	const struct tfc__journal_exit end = tfc__journal_exit(entry);
	tfc_event *event = begin_event(sub, entry->kind);
	event->time_ns = entry->time_ns;
	event->job_state = entry->job_state;
	event->generation = entry->generation;
	event->epoch = entry->epoch;
	event->attempt = entry->attempt;
	event->reason = entry->reason;
	event->exit_code = end.code;
	event->signal = end.signal;
	event->error_code = end.error;
	event->text = entry->text;
	if (entry->kind != TFC_EVENT_JOB) {
		event_set_task(sub, entry->task, event);
		event->node = tfc__record_node(sub->record, entry);
	}
	if (entry->kind == TFC_EVENT_TASK) {
		event->task_state = entry->task_state;
		event->pid = entry->pid;
		event->isolation = entry->isolation;
		event->address = entry->address;
		event->user_us = entry->end.user_us;
		event->system_us = entry->end.system_us;
		event->max_rss_kib = entry->end.max_rss_kib;
		event->exit_reason = entry->end.reason;
	}
	if (entry->kind == TFC_EVENT_END) {
		event->log_tail = entry->log_tail ? (const char *const *)entry->log_tail : no_lines;
		event->ignored_failures = entry->ignored_failures
						  ? (const char *const *)entry->ignored_failures
						  : no_lines;
		event->error_line = entry->error_line;
		sub->base.is_ended = true;
	}
	local_sub_notify(sub);
}

static void event_set_line(struct local_sub *sub, const struct followed *task,
			   const struct tfc__line *line)
{
	tfc_event *event = &sub->now.event;
	event_set_task(sub, task->task, event);
	event->node = tfc__followed_node(sub, task);
	if (task->place_entry) {
		const struct tfc__journal_entry *begun = tfc__local_entry(sub,
									  task->place_entry - 1);
		event->generation = begun->generation;
		event->epoch = begun->epoch;
	}
	event->time_ns = line->time_ns;
	event->attempt = line->attempt;
	event->stream = line->stream;
	event->is_partial = line->is_partial;
	event->data = line->data ? line->data : "";
	event->data_len = line->len;
}

void tfc__local_report_line(struct local_sub *sub, const struct followed *task,
			    const struct tfc__line *line, const char *text)
{
	tfc_event *event = begin_event(sub, tfc__line_event_kind(line->stream));
	event_set_line(sub, task, line);
	event->text = text;
	sub->now.mark.cursor = line->cursor;
	if (task->end_entry)
		sub->now.mark.missing = task->end_entry - 1;
	else
		sub->now.mark.task = task->task;
	local_sub_notify(sub);
}

/* Reports the current text of an unfinished line: 1, or 0 if none has changed. It does not move the
 * cursor: the whole line is reported once it is finished. */
static int report_progress(struct local_sub *sub, struct followed *task)
{
	struct tfc__line line;
	if (!sub->wants_progress || task->end_entry || !tfc__lines_bar(&task->lines, &line))
		return 0;
	begin_event(sub, TFC_EVENT_PROGRESS);
	event_set_line(sub, task, &line);
	local_sub_notify(sub);
	return 1;
}

/* ---- reading */

/* Whether the end of an attempt still waits for the node that has its output. */
static bool waits_for_node(struct local_sub *sub, bool is_expected)
{
	uint64_t now = tfc__now(), patience = is_expected ? LOST_PATIENCE : GONE_PATIENCE;
	if (!sub->lost_since)
		sub->lost_since = now;
	if (now >= sub->lost_since + patience)
		return false;
	tfc__timer_set(&sub->retry, sub->lost_since + patience);
	return true;
}

/* Turns the unread output of an unreachable node into missing output: TFC_OK, or TFC_ENOMEM: later.
 */
static int begin_missing_output(struct local_sub *sub, const struct tfc__journal_entry *entry)
{
	struct followed *task = &sub->tasks[entry->task];
	const struct tfc__lines_cursor cursor = tfc__lines_cursor(&task->lines);
	uint64_t position = task->lines.position;
	if (position >= entry->end.log_end)
		return TFC_OK; /* everything was reported */
	if (tfc__missing_begin(sub, sub->place.next, &cursor) < 0 && sub->tries++ < RETRIES) {
		tfc__timer_set(&sub->retry, tfc__now() + LATER);
		return TFC_ENOMEM;
	}
	tfc__followed_park(task);
	tfc__followed_read_from(task, position);
	return TFC_OK;
}

/* Call before the end of an attempt is reported. Returns 1: a line of it was reported; 0: all were;
 * below 0: try again later. */
static int read_attempt_end(struct local_sub *sub, const struct tfc__journal_entry *entry)
{
	struct followed *task = &sub->tasks[entry->task];
	if (sub->place.is_gap_reported)
		return begin_missing_output(sub, entry);
	int code = tfc__followed_read_end(sub, task, entry);
	if (code == TFC_EAGAIN || (code == TFC_ENOMEM && sub->tries++ < RETRIES))
		return code;
	/* Of an attempt that ended long ago, the node is not expected back at once. */
	bool is_recent = tfc__wall() < entry->time_ns + LOST_PATIENCE;
	if (code == TFC_ELOST && waits_for_node(sub, is_recent && entry->end.log_end != UINT64_MAX))
		return code;
	if (code == TFC_ELOST) {
		sub->place.is_gap_reported = true; /* do not wait again */
		tfc__missing_report(sub, task, entry);
		return 1;
	}
	if (code == TFC_ENOMEM)
		code = tfc__followed_skip_end(sub, task, entry);
	if (code || !entry->end.log_gap)
		return code;
	/* The disk stayed full until the end of the attempt, so the log has no record of this gap.
	 */
	const struct tfc__line line = {
		.stream = TFC_STREAM_GAP,
		.attempt = entry->attempt,
		.time_ns = entry->time_ns,
		.len = entry->end.log_gap,
		.cursor = tfc__lines_cursor(&task->lines),
	};
	sub->place.is_gap_reported = true;
	tfc__local_report_line(sub, task, &line, "");
	return 1;
}

/* Call before the end of the job is reported: reports the missing output that is available now.
 * Returns as read_attempt_end. */
static int read_missing_output(struct local_sub *sub)
{
	int later = 0;
	TFC__LIST_EACH (link, &sub->missing) {
		struct followed *missing = tfc__missing_of(link);
		int code = tfc__missing_read_line(sub, missing);
		bool waits = code == TFC_EAGAIN || (code == TFC_ENOMEM && sub->tries++ < RETRIES) ||
			     (code == TFC_ELOST && waits_for_node(sub, false));
		if (code > 0)
			return code;
		if (waits)
			later = code;
		if (code == 0 || waits)
			continue;
		if (!missing->is_missed) {
			tfc__missing_report(sub, missing,
					    tfc__local_entry(sub, missing->end_entry - 1));
			return 1;
		}
		tfc__missing_end(missing);
	}
	return later;
}

/* Reports the next journal entry, after the output that precedes it: 1, or 0: not yet. */
static int report_next_entry(struct local_sub *sub)
{
	uint32_t number = sub->place.next;
	const struct tfc__journal_entry *entry = tfc__local_entry(sub, number);
	bool ends_attempt = tfc__ends_attempt(entry);
	int code = 0;
	if (sub->tasks && entry->kind == TFC_EVENT_END)
		code = read_missing_output(sub);
	if (sub->tasks && ends_attempt)
		code = read_attempt_end(sub, entry);
	if (code)
		return code > 0;
	sub->place.next++;
	sub->place.is_gap_reported = false;
	tfc__local_note_entry(sub, number);
	if (ends_attempt)
		sub->now.mark.ended_task = entry->task;
	report_entry(sub, entry);
	return 1;
}

/* Reads a task whose log may have grown, and reports at most one line. 0: nothing to read now. */
static int report_next_line(struct local_sub *sub)
{
	if (tfc__list_is_empty(&sub->grown))
		return 0;
	struct followed *task = tfc__container_of(sub->grown.next, struct followed, grown);
	bool is_missing = task->end_entry;
	if (!tfc__local_may_read(sub, task))
		return 0;
	int is_reported = is_missing ? tfc__missing_read_line(sub, task)
				     : tfc__followed_read_line(sub, task, UINT64_MAX);
	if (is_reported == TFC_ENOMEM)
		return 0;
	if (is_reported > 0 && ++sub->lines_reported < LINES_PER_TASK)
		return 1;
	sub->lines_reported = 0;
	if (is_missing && is_reported == 0)
		return 1; /* tfc__missing_read_line has freed it */
	if (is_reported == 0 && report_progress(sub, task))
		return 1;
	tfc__list_remove(&task->grown);
	if (is_reported <= 0)
		return 1; /* counts as an event, because opening a log is expensive */
	tfc__list_append(&sub->grown, &task->grown);
	return 1;
}

/* Reports why events are not stored, and so not reported, or that they are again: 1, or 0: nothing
 * has changed. */
static int report_store(struct local_sub *sub)
{
	char text[1152];
	sub->is_store_checked = true;
	tfc__describe_blocked(sub->record, text, sizeof(text));
	if (strcmp(text, sub->blocked ? sub->blocked : "") == 0)
		return 0;
	free(sub->blocked);
	sub->blocked = *text ? strdup(text) : NULL;
	tfc_event *event = begin_event(sub, TFC_EVENT_JOB);
	event->time_ns = tfc__wall();
	event->generation = tfc__record_generation(sub->record);
	event->epoch = sub->record->epoch;
	event->text = *text ? text : "the job's events are stored again";
	local_sub_notify(sub);
	return 1;
}

/* Reports one event, or does something else that is as expensive. 0: there is nothing to do now. */
static int local_sub_report_one(struct local_sub *sub)
{
	sub->now.event.kind = 0;
	if (sub->was_removed) {
		tfc_error error = TFC_ERROR_INIT;
		tfc__fail(&error, TFC_ENOENT, "gateway", 0, "job %s was removed", sub->job);
		tfc__sub_report_lost(&sub->base, sub->job, &error);
		return 1;
	}
	if (sub->is_bare && !sub->is_established) {
		sub->is_established = true;
		sub->base.fn(sub->base.user, begin_event(sub, TFC__SUB_ESTABLISHED));
		return 1;
	}
	bool has_entry = sub->place.next < sub->record->journal.count;
	if (!sub->is_store_checked && (!has_entry || sub->blocked) && report_store(sub))
		return 1;
	if (has_entry)
		return report_next_entry(sub);
	if (report_next_line(sub))
		return 1;
	if (!sub->wants_live || !tfc__list_is_empty(&sub->grown) || sub->coming)
		return 0;
	tfc_event *event = begin_event(sub, TFC_EVENT_LIVE);
	event->time_ns = tfc__wall();
	event->generation = tfc__record_generation(sub->record);
	event->epoch = sub->record->epoch;
	sub->wants_live = false;
	local_sub_notify(sub);
	return 1;
}

/* Lines that go to another process are cheap: they only become part of a batch. */
static int local_sub_report(tfc_sub *base)
{
	struct local_sub *sub = local_sub_of(base);
	uint32_t lines = 0;
	int is_reported = local_sub_report_one(sub);
	while (sub->is_bare && is_reported && tfc__event_is_line(&sub->now.event) &&
	       !base->is_paused && !base->is_closed && ++lines < LINES_AT_ONCE)
		is_reported = local_sub_report_one(sub);
	sub->whole_batches += lines == LINES_AT_ONCE;
	return is_reported || lines;
}

static void local_sub_on_retry(struct tfc__timer *timer)
{
	struct local_sub *sub = tfc__container_of(timer, struct local_sub, retry);
	tfc__missing_retry(sub);
	tfc__sub_wake(&sub->base);
}

static void local_sub_on_journal(struct tfc__observer *reader, const void *event)
{
	struct local_sub *sub = tfc__container_of(reader, struct local_sub, reader);
	const enum tfc__journal_event *what = event;
	if (*what == TFC__JOURNAL_BLOCKED || sub->blocked)
		sub->is_store_checked = false;
	if (*what == TFC__JOURNAL_FORGOTTEN) {
		tfc__observer_remove(reader);
		tfc__timer_cancel(&sub->retry);
		sub->was_removed = true;
		sub->record = NULL;
	}
	tfc__sub_wake(&sub->base);
}

/* ---- opening and closing */

static void local_sub_detach(tfc_sub *base)
{
	struct local_sub *sub = local_sub_of(base);
	tfc__observer_remove(&sub->reader);
	tfc__timer_cancel(&sub->retry);
	tfc__list_remove(&sub->waiting);
	tfc__local_suspend(base, true);
}

static void local_sub_free(tfc_sub *base)
{
	struct local_sub *sub = local_sub_of(base);
	TFC__LIST_EACH (link, &sub->missing)
		tfc__missing_end(tfc__missing_of(link));
	for (uint32_t i = 0; i < sub->task_count; i++)
		tfc__lines_fini(&sub->tasks[i].lines);
	tfc__place_fini(&sub->place);
	free(sub->tasks);
	free(sub->blocked);
	free(sub);
}

/* Begins after a cursor: applies the journal entries before it, then the line cursors. */
static int apply_cursor(struct local_sub *sub, const char *text, tfc_error *error)
{
	struct tfc__place place = {0};
	const struct tfc__lines_cursor *cursor;
	uint32_t count = tfc__job_task_count(sub->record->job);
	int code = tfc__place_read(&place, count, text);
	if (code == TFC_OK && place.next > sub->record->journal.count)
		code = TFC_EINVAL;
	for (uint32_t i = 0; code == TFC_OK && i < place.next; i++) {
		const struct tfc__journal_entry *entry = tfc__local_entry(sub, i);
		tfc__local_note_entry(sub, i);
		if (sub->tasks && tfc__ends_attempt(entry) && entry->end.log_end != UINT64_MAX &&
		    entry->end.log_end > sub->tasks[entry->task].lines.position)
			tfc__followed_read_from(&sub->tasks[entry->task], entry->end.log_end);
	}
	for (uint32_t i = 0; code == TFC_OK && sub->tasks && i < place.task_count; i++) {
		if (!(cursor = tfc__place_cursor(&place, i)))
			continue;
		uint32_t attempt = sub->tasks[i].lines.attempt;
		tfc__lines_fini(&sub->tasks[i].lines);
		tfc__followed_begin(&sub->tasks[i], cursor);
		sub->tasks[i].lines.attempt = attempt;
		if (!sub->is_bare)
			tfc__place_set(&sub->place, i, cursor);
	}
	for (uint32_t i = 0; code == TFC_OK && sub->tasks && i < place.missing_count; i++) {
		code = tfc__ends_attempt(tfc__local_entry(sub, place.missing[i].entry))
			       ? tfc__missing_begin(sub, place.missing[i].entry,
						    &place.missing[i].cursor)
			       : TFC_EINVAL;
	}
	sub->now.mark.missing = UINT32_MAX;
	sub->place.next = place.next;
	sub->place.is_gap_reported = place.is_gap_reported;
	tfc__place_fini(&place);
	if (code == TFC_EINVAL)
		return tfc__fail(error, code, "gateway", 0,
				 "cursor \"%.80s\" does not belong to this job", text);
	return code < 0 ? tfc__fail_nomem(error, "gateway") : code;
}

static int follow_output(struct local_sub *sub, tfc_error *error)
{
	uint32_t count = tfc__job_task_count(sub->record->job);
	sub->tasks = calloc(count, sizeof(*sub->tasks));
	if (!sub->tasks || (!sub->is_bare && tfc__place_reserve(&sub->place, count) < 0))
		return tfc__fail_nomem(error, "gateway");
	sub->task_count = count;
	sub->base.held = count * sizeof(*sub->tasks);
	for (uint32_t i = 0; i < count; i++) {
		sub->tasks[i].sub = sub;
		sub->tasks[i].task = i;
		tfc__list_init(&sub->tasks[i].missing_link);
		tfc__list_init(&sub->tasks[i].reading);
		tfc__followed_begin(&sub->tasks[i], NULL);
		tfc__list_init(&sub->tasks[i].grown);
	}
	return TFC_OK;
}

int tfc__local_subscribe(tfc_ctx *ctx, struct tfc__link *list, struct tfc__local_reading *reading,
			 struct tfc__record *record, const tfc_subscribe_options *options,
			 bool is_bare, tfc_event_fn fn, void *user, tfc_error *error,
			 tfc_sub **ret_sub)
{
	static const struct tfc__sub_ops ops = {
		.report = local_sub_report,
		.detach = local_sub_detach,
		.free = local_sub_free,
		.suspend = tfc__local_suspend,
	};
	struct local_sub *sub = calloc(1, sizeof(*sub));
	if (!sub)
		return tfc__fail_nomem(error, "gateway");
	sub->all_reading = reading;
	sub->record = record;
	sub->is_bare = is_bare;
	sub->wants_live = options->wants_live;
	sub->wants_progress = options->wants_progress;
	sub->skips_output = options->skip_output;
	sub->wants_reports = options->wants_reports && record->job->reports;
	sub->has_cursors = !options->skip_output || options->wants_reports;
	sub->now.has_reports = sub->wants_reports;
	sub->now.mark.task = sub->now.mark.ended_task = UINT32_MAX;
	sub->now.mark.missing = sub->now.mark.missing_over = UINT32_MAX;
	sub->job_state = TFC_JOB_PENDING;
	tfc__observer_init(&sub->reader, local_sub_on_journal);
	memcpy(sub->job, record->id, sizeof(sub->job));
	tfc__list_init(&sub->waiting);
	tfc__list_init(&sub->reading);
	if (!reading->waiting.next)
		tfc__list_init(&reading->waiting);
	tfc__list_init(&sub->grown);
	tfc__list_init(&sub->missing);
	tfc__timer_init(&sub->retry, ctx, local_sub_on_retry);
	tfc__sub_init(&sub->base, &ops, ctx, list, fn, user);
	sub->base.event = &sub->now;
	tfc__observers_add(&record->journal.readers, &sub->reader);
	int code = sub->skips_output && !sub->wants_reports ? TFC_OK : follow_output(sub, error);
	if (code == TFC_OK && options->cursor)
		code = apply_cursor(sub, options->cursor, error);
	if (code < 0) {
		tfc_sub_close(&sub->base);
		return code;
	}
	tfc__sub_wake(&sub->base);
	*ret_sub = &sub->base;
	return TFC_OK;
}
