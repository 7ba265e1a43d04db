/*
 * A subscription: the job's journal and its tasks' logs, merged. Nothing is queued for it: it
 * remembers how far it has read, and reads on when dispatch has time for it.
 *
 * The one rule of the merge: the entry that ends an attempt waits until that task's log was read up
 * to where the shim finished it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/options.h"
#include "gateway/cursor.h"
#include "gateway/gateway.h"

#define EVENTS_PER_TURN 64
#define OPEN_LOGS_MAX 32           /* readers kept open, over all tasks */
#define RETRY_PAUSE (50 * TFC__MS) /* when there is no memory to read a log */
#define RETRIES 20                 /* then an attempt's end waits no longer for its output */
#define LINES_PER_TASK 64 /* before another task has its turn: opening a log is what costs */

struct followed {
	struct tfc__lines lines;
	struct tfc__link grown; /* in sub->grown while there may be more to read */
	bool is_damage_told;    /* until a line could be read again */
};

struct tfc_sub {
	struct tfc__link link; /* in gateway->subs */
	tfc_ctx *ctx;
	struct tfc__record *record;
	tfc_event_fn fn;
	void *user;
	struct tfc__journal_reader reader;
	struct tfc__log_watch watch;
	struct tfc__work work;
	uint32_t next;          /* journal entry */
	bool is_gap_told;       /* the one behind the end of the attempt that it ends */
	struct followed *tasks; /* NULL: without output */
	uint32_t task_count;
	uint32_t open_logs;
	struct tfc__link grown;
	uint32_t lines_told; /* of the first task in grown, in its turn */
	char cursor[TFC__CURSOR_SIZE];
	struct tfc__timer retry; /* set while there is no memory to read on */
	uint32_t tries;          /* in vain, one after the other */
	bool is_paused;
	bool is_ended;
	bool is_telling; /* inside take_turn, so inside fn: closing leaves the memory to it */
	bool is_closed;
};

/* ---- events */

static tfc_event base_event(const tfc_sub *sub, uint32_t kind)
{
	const struct tfc__record *record = sub->record;
	const struct tfc__core *core = tfc__maintainer_core(record->maintainer);
	return (tfc_event){
		.size = sizeof(tfc_event),
		.kind = kind,
		.cursor = "",
		.job = record->id,
		.name = record->job->name,
		.host_tag = record->host_tag,
		.host_tag_len = record->host_tag_len,
		.job_state = tfc__core_job_state(core),
		.generation = tfc__core_generation(core),
		.epoch = record->epoch,
		.task_type = "",
		.node = "",
		.address = "",
		.text = "",
		.data = "",
	};
}

static void name_task(const tfc_sub *sub, uint32_t task, tfc_event *event)
{
	const struct tfc__agent_job *agent_job = tfc__maintainer_agent_job(sub->record->maintainer);
	if (task == UINT32_MAX)
		return;
	event->task_type = tfc__agent_task_role(agent_job, task, &event->task_index)->name;
	event->node = tfc__maintainer_node(sub->record->maintainer, task);
}

static void tell_entry(tfc_sub *sub, const struct tfc__journal_entry *entry)
{
	static const char *const no_lines[] = {NULL};
	tfc_event event = base_event(sub, entry->kind);
	event.time_ns = entry->time_ns;
	event.job_state = entry->job_state;
	event.generation = entry->generation;
	event.attempt = entry->attempt;
	event.reason = entry->reason;
	event.status = entry->status;
	event.text = entry->text;
	if (entry->kind != TFC_EVENT_JOB) {
		name_task(sub, entry->task, &event);
		event.node = entry->node;
	}
	if (entry->kind == TFC_EVENT_TASK) {
		event.task_state = entry->task_state;
		event.pid = entry->pid;
		event.isolation = entry->isolation;
		event.address = entry->address;
		event.user_us = entry->user_us;
		event.system_us = entry->system_us;
		event.max_rss_kib = entry->max_rss_kib;
		event.exit_reason = entry->exit_reason;
	}
	if (entry->kind == TFC_EVENT_END) {
		event.log_tail = entry->log_tail ? (const char *const *)entry->log_tail : no_lines;
		sub->is_ended = true;
	}
	sub->fn(sub->user, &event);
}

static void tell_line(tfc_sub *sub, uint32_t task, const struct tfc__line *line)
{
	bool is_gap = line->stream == TFC_STREAM_GAP;
	tfc_event event = base_event(sub, is_gap ? TFC_EVENT_GAP : TFC_EVENT_OUTPUT);
	name_task(sub, task, &event);
	event.time_ns = line->time_ns;
	event.attempt = line->attempt;
	event.stream = line->stream;
	event.is_partial = line->is_partial;
	event.data = line->data ? line->data : "";
	event.data_len = line->len;
	tfc__cursor_write(sub->cursor, event.task_type, event.task_index, &line->cursor);
	event.cursor = sub->cursor;
	sub->fn(sub->user, &event);
}

/* ---- reading */

/* One line of a task's log that begins before `until`: 1 told, 0 nothing there, TFC_ENOMEM: later.
 * A damaged log ends its reading, and is told. */
static int read_line(tfc_sub *sub, uint32_t task, uint64_t until)
{
	struct tfc__agent_job *agent_job = tfc__maintainer_agent_job(sub->record->maintainer);
	struct tfc__lines *lines = &sub->tasks[task].lines;
	char name[TFC__LOG_NAME_SIZE];
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__line line;
	bool was_open = lines->log;
	tfc__agent_log_name(agent_job, task, name);
	int code = tfc__lines_next(lines, tfc__agent_log_dir(agent_job), name, until, &line,
				   &error);
	sub->open_logs += !was_open && lines->log;
	if (code == TFC_ENOMEM) {
		tfc__timer_set(&sub->retry, tfc__now() + RETRY_PAUSE);
		return code;
	}
	sub->tries = 0;
	if (code < 0 && !sub->tasks[task].is_damage_told)
		tfc__log(sub->ctx, TFC_LOG_ERROR, "gateway", sub->record->id, "%s: %s", name,
			 error.text);
	if (code)
		sub->tasks[task].is_damage_told = code < 0;
	if (code > 0)
		tell_line(sub, task, &line);
	return code > 0;
}

static void park(tfc_sub *sub, uint32_t task)
{
	struct tfc__lines *lines = &sub->tasks[task].lines;
	if (lines->log && sub->open_logs > OPEN_LOGS_MAX) {
		tfc__lines_park(lines);
		sub->open_logs--;
	}
}

/* What a full disk did not take to the very end: the log has no room even to say so. */
static void tell_last_gap(tfc_sub *sub, const struct tfc__journal_entry *entry)
{
	struct tfc__line line = {
		.stream = TFC_STREAM_GAP,
		.attempt = entry->attempt,
		.time_ns = entry->time_ns,
		.len = entry->log_gap,
		.cursor = tfc__lines_cursor(&sub->tasks[entry->task].lines),
	};
	sub->is_gap_told = true;
	tell_line(sub, entry->task, &line);
}

/* Before an attempt's end is told: one more of its lines, 1; or 0 when all were. */
static int read_before_end(tfc_sub *sub, const struct tfc__journal_entry *entry)
{
	struct tfc__lines *lines = &sub->tasks[entry->task].lines;
	struct tfc__line line;
	int code = read_line(sub, entry->task, entry->log_end);
	if (code == TFC_ENOMEM && sub->tries++ < RETRIES)
		return code;
	if (code > 0)
		return code;
	if (code == 0 && tfc__lines_flush(lines, &line)) {
		tell_line(sub, entry->task, &line);
		return 1;
	}
	/* No memory, or somebody has cut or overwritten the file: what was there is missed. */
	if (lines->position < entry->log_end) {
		tfc__lines_skip(lines, entry->log_end, &line);
		tell_line(sub, entry->task, &line);
		return 1;
	}
	if (entry->log_gap && !sub->is_gap_told) {
		tell_last_gap(sub, entry);
		return 1;
	}
	park(sub, entry->task);
	return 0;
}

/* Tells one thing: 1, or 0 when there is nothing to tell. */
static int tell_next(tfc_sub *sub)
{
	if (sub->next < sub->record->journal.count) {
		uint32_t number = sub->next;
		const struct tfc__journal_entry *entry = &sub->record->journal.entries[number];
		bool is_end = entry->kind == TFC_EVENT_TASK &&
			      tfc__task_state_is_terminal(entry->task_state);
		int code = sub->tasks && is_end ? read_before_end(sub, entry) : 0;
		if (code)
			return code > 0;
		sub->next++;
		sub->is_gap_told = false;
		tell_entry(sub, entry);
		return 1;
	}
	while (!tfc__list_is_empty(&sub->grown)) {
		struct followed *task = tfc__container_of(sub->grown.next, struct followed, grown);
		uint32_t number = (uint32_t)(task - sub->tasks);
		int is_told = read_line(sub, number, UINT64_MAX);
		if (is_told < 0)
			return 0;
		if (is_told && ++sub->lines_told < LINES_PER_TASK)
			return 1;
		sub->lines_told = 0;
		tfc__list_remove(&task->grown);
		if (is_told)
			tfc__list_append(&sub->grown, &task->grown);
		park(sub, number);
		if (is_told)
			return 1;
	}
	return 0;
}

static void free_sub(tfc_sub *sub)
{
	for (uint32_t i = 0; i < sub->task_count; i++)
		tfc__lines_fini(&sub->tasks[i].lines);
	free(sub->tasks);
	free(sub);
}

static bool is_silent(const tfc_sub *sub)
{
	return sub->is_paused || sub->is_ended || sub->is_closed;
}

static void take_turn(struct tfc__work *work)
{
	tfc_sub *sub = tfc__container_of(work, tfc_sub, work);
	int told = 0;
	sub->is_telling = true;
	while (told < EVENTS_PER_TURN && !is_silent(sub) && tell_next(sub))
		told++;
	sub->is_telling = false;
	if (sub->is_closed)
		free_sub(sub);
	else if (told == EVENTS_PER_TURN && !is_silent(sub))
		tfc__work_schedule(&sub->work);
}

static void wake(tfc_sub *sub)
{
	if (!sub->is_paused && !sub->is_ended)
		tfc__work_schedule(&sub->work);
}

static void try_again(struct tfc__timer *timer)
{
	wake(tfc__container_of(timer, tfc_sub, retry));
}

static void on_journal(struct tfc__journal_reader *reader)
{
	wake(tfc__container_of(reader, tfc_sub, reader));
}

static void mark_grown(tfc_sub *sub, uint32_t task)
{
	if (tfc__list_is_empty(&sub->tasks[task].grown))
		tfc__list_append(&sub->grown, &sub->tasks[task].grown);
}

static void on_log(struct tfc__log_watch *watch, uint32_t task)
{
	tfc_sub *sub = tfc__container_of(watch, tfc_sub, watch);
	if (task == TFC__ALL_TASKS)
		for (uint32_t i = 0; i < sub->task_count; i++)
			mark_grown(sub, i);
	else
		mark_grown(sub, task);
	wake(sub);
}

/* ---- opening and closing */

static int apply_cursor(tfc_sub *sub, const char *cursor, tfc_error *error)
{
	char name[TFC__CURSOR_TASK_SIZE];
	struct tfc__lines_cursor place;
	uint32_t task = UINT32_MAX;
	if (tfc__cursor_read(cursor, name, &place))
		task = tfc__find_task(sub->record, name);
	if (task == UINT32_MAX)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0,
				 "cursor %s: not one that an event of this job carried", cursor);
	tfc__lines_init(&sub->tasks[task].lines, &place);
	return TFC_OK;
}

static int follow_output(tfc_sub *sub, const char *cursor, tfc_error *error)
{
	struct tfc__agent_job *agent_job = tfc__maintainer_agent_job(sub->record->maintainer);
	uint32_t count = tfc__agent_task_count(agent_job);
	sub->tasks = calloc(count, sizeof(*sub->tasks));
	if (!sub->tasks)
		return tfc__fail_nomem(error, "gateway");
	sub->task_count = count;
	for (uint32_t i = 0; i < count; i++) {
		tfc__lines_init(&sub->tasks[i].lines, NULL);
		tfc__list_init(&sub->tasks[i].grown);
	}
	int code = cursor ? apply_cursor(sub, cursor, error) : TFC_OK;
	if (code < 0)
		return code;
	for (uint32_t i = 0; i < count; i++)
		if (tfc__core_attempt(tfc__maintainer_core(sub->record->maintainer), i) > 0)
			mark_grown(sub, i);
	/* What has ended grows no more: the journal says where its output ends. */
	return sub->record->is_ended ? TFC_OK : tfc__agent_watch(agent_job, &sub->watch);
}

static void detach(tfc_sub *sub)
{
	if (!tfc__list_is_empty(&sub->watch.link))
		tfc__agent_unwatch(tfc__maintainer_agent_job(sub->record->maintainer), &sub->watch);
	tfc__list_remove(&sub->reader.link);
	tfc__list_remove(&sub->link);
	tfc__work_cancel(&sub->work);
	tfc__timer_cancel(&sub->retry);
}

int tfc_subscribe_options_init(tfc_subscribe_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

static tfc_sub *new_sub(tfc_gateway *gateway, struct tfc__record *record, tfc_event_fn fn,
			void *user)
{
	tfc_sub *sub = calloc(1, sizeof(*sub));
	if (!sub)
		return NULL;
	sub->ctx = gateway->ctx;
	sub->record = record;
	sub->fn = fn;
	sub->user = user;
	sub->reader.fn = on_journal;
	sub->watch.fn = on_log;
	tfc__list_init(&sub->watch.link);
	tfc__list_init(&sub->grown);
	tfc__list_append(&record->journal.readers, &sub->reader.link);
	tfc__list_append(&gateway->subs, &sub->link);
	tfc__work_init(&sub->work, gateway->ctx, take_turn);
	tfc__timer_init(&sub->retry, gateway->ctx, try_again);
	return sub;
}

int tfc_gateway_subscribe(tfc_gateway *gateway, const char *job,
			  const tfc_subscribe_options *options, tfc_event_fn fn, void *user,
			  tfc_sub **ret_sub)
{
	tfc_subscribe_options known;
	struct tfc__record *record;
	int code = tfc__ctx_enter(gateway ? gateway->ctx : NULL);
	if (code < 0)
		return code;
	tfc_error *error = tfc__ctx_error(gateway->ctx);
	if (!fn || !ret_sub)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0, "%s is NULL",
				 fn ? "ret_sub" : "fn");
	code = tfc__options_copy(&known, sizeof(known), options, "gateway", "tfc_subscribe_options",
				 error);
	if (code < 0 || (code = tfc__gateway_check(gateway)) < 0 ||
	    (code = tfc__directory_find(gateway->directory, job ? job : "", error, &record)) < 0)
		return code;
	tfc_sub *sub = new_sub(gateway, record, fn, user);
	if (!sub)
		return tfc__fail_nomem(error, "gateway");
	if (!known.is_without_output && (code = follow_output(sub, known.cursor, error)) < 0) {
		detach(sub);
		free_sub(sub);
		return code;
	}
	wake(sub);
	*ret_sub = sub;
	return TFC_OK;
}

void tfc_sub_pause(tfc_sub *sub)
{
	if (sub && tfc__ctx_enter(sub->ctx) == TFC_OK)
		sub->is_paused = true;
}

void tfc_sub_resume(tfc_sub *sub)
{
	if (!sub || tfc__ctx_enter(sub->ctx) < 0)
		return;
	sub->is_paused = false;
	wake(sub);
}

/* The gateway or its node goes away: nothing more is told, but the handle is its owner's to close.
 */
void tfc__sub_orphan(struct tfc__link *link)
{
	tfc_sub *sub = tfc__container_of(link, tfc_sub, link);
	detach(sub);
	sub->is_ended = true;
	sub->record = NULL;
}

void tfc_sub_close(tfc_sub *sub)
{
	if (!sub || tfc__ctx_enter(sub->ctx) < 0 || sub->is_closed)
		return;
	if (sub->record)
		detach(sub);
	sub->is_closed = true;
	if (!sub->is_telling)
		free_sub(sub);
}
