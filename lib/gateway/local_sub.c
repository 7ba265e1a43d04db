/*
 * A subscription: the job's journal and its tasks' logs, merged. Nothing is queued for it: it
 * remembers how far it has read, and reads on when dispatch has time for it.
 *
 * The one rule of the merge: the entry that ends an attempt waits until that task's log was read up
 * to where the shim finished it. So a task's output is read from one node at a time, in order.
 */
#include "gateway/local_sub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"

#define READ_AT_ONCE_MAX 32        /* logs in the middle of being read, over all tasks */
#define RETRY_PAUSE (50 * TFC__MS) /* when there is no memory to read a log */
#define RETRIES 20                 /* then an attempt's end waits no longer for its output */
#define LINES_PER_TASK 64 /* before another task has its turn: opening a log is what costs */
#define LOST_PATIENCE (10 * TFC__SECOND) /* for a node that cannot be asked */
#define GONE_PATIENCE TFC__SECOND        /* for one that took the attempt with it */

struct followed {
	struct local_sub *sub;
	struct tfc__lines lines;
	struct tfc__link grown; /* in sub->grown while there may be more to read */
	uint32_t place_entry;   /* the journal entry that says on which node it is, + 1; 0: none */
	bool is_reading;        /* there was more when it was read last */
	bool is_coming;         /* more is on its way */
	bool is_damage_told;    /* until a line could be read again */
};

struct local_sub {
	tfc_sub base;
	struct tfc__record *record;
	struct tfc__journal_reader reader;
	struct followed *tasks; /* NULL: without output */
	uint32_t task_count;
	uint32_t reading; /* tasks with is_reading */
	uint32_t coming;  /* tasks with is_coming */
	struct tfc__link grown;
	uint32_t lines_told; /* of the first task in grown, in its turn */
	struct tfc__place place;
	struct tfc__mark mark;
	struct tfc__timer retry; /* set while there is no memory to read on, or a node is lost */
	uint32_t tries;          /* in vain, one after the other */
	uint64_t lost_since;     /* for how long the end of an attempt waits for a node; 0: not */
	bool is_bare;
	bool wants_live; /* and was not told yet */
	bool is_gone;    /* somebody has forgotten the job: record is NULL */
	char job[17];
};

static struct local_sub *of(tfc_sub *sub)
{
	return tfc__container_of(sub, struct local_sub, base);
}

static const struct tfc__journal_entry *entry_at(const struct local_sub *sub, uint32_t number)
{
	return &sub->record->journal.entries[number];
}

static bool ends_attempt(const struct tfc__journal_entry *entry)
{
	return entry->kind == TFC_EVENT_TASK && tfc__task_state_is_terminal(entry->task_state);
}

/* ---- events */

static tfc_event base_event(const struct local_sub *sub, uint32_t kind)
{
	const struct tfc__record *record = sub->record;
	return (tfc_event){
		.size = sizeof(tfc_event),
		.kind = kind,
		.cursor = "",
		.job = record->id,
		.name = record->job->name,
		.host_tag = record->host_tag,
		.host_tag_len = record->host_tag_len,
		.job_state = tfc__record_state(record),
		.generation = tfc__record_generation(record),
		.epoch = record->epoch,
		.task_type = "",
		.node = "",
		.address = "",
		.text = "",
		.data = "",
	};
}

static void name_task(const struct local_sub *sub, uint32_t task, tfc_event *event)
{
	if (task != UINT32_MAX)
		event->task_type =
			tfc__job_task_role(sub->record->job, task, &event->task_index)->name;
}

static void tell(struct local_sub *sub, tfc_event *event, uint32_t task,
		 const struct tfc__lines_cursor *cursor)
{
	sub->mark.task = cursor ? task : UINT32_MAX;
	sub->mark.next = sub->place.next;
	sub->mark.is_gap_told = sub->place.is_gap_told;
	if (cursor)
		tfc__piece_write(&sub->mark.piece, cursor);
	if (!sub->is_bare && sub->tasks) {
		if (cursor)
			sub->place.pieces[task] = sub->mark.piece;
		event->cursor = tfc__place_text(&sub->place);
	}
	sub->base.fn(sub->base.user, event);
	sub->mark.ended_task = UINT32_MAX;
}

static void tell_entry(struct local_sub *sub, const struct tfc__journal_entry *entry)
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
		event.node = tfc__record_node(sub->record, entry);
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
		sub->base.is_ended = true;
	}
	tell(sub, &event, UINT32_MAX, NULL);
}

static const char *node_of(const struct local_sub *sub, const struct followed *task)
{
	if (!task->place_entry)
		return "";
	return tfc__record_node(sub->record, entry_at(sub, task->place_entry - 1));
}

static void tell_line(struct local_sub *sub, uint32_t task, const struct tfc__line *line,
		      const char *text)
{
	bool is_gap = line->stream == TFC_STREAM_GAP;
	tfc_event event = base_event(sub, is_gap ? TFC_EVENT_GAP : TFC_EVENT_OUTPUT);
	name_task(sub, task, &event);
	event.node = node_of(sub, &sub->tasks[task]);
	event.time_ns = line->time_ns;
	event.attempt = line->attempt;
	event.stream = line->stream;
	event.is_partial = line->is_partial;
	event.data = line->data ? line->data : "";
	event.data_len = line->len;
	event.text = text;
	tell(sub, &event, task, &line->cursor);
}

static void tell_live(struct local_sub *sub)
{
	tfc_event event = base_event(sub, TFC_EVENT_LIVE);
	event.time_ns = tfc__wall();
	sub->wants_live = false;
	tell(sub, &event, UINT32_MAX, NULL);
}

/* ---- where a task's output is */

static void count_reading(struct followed *task, bool is_reading)
{
	task->sub->reading += is_reading;
	task->sub->reading -= task->is_reading;
	task->is_reading = is_reading;
}

static void count_coming(struct followed *task, bool is_coming)
{
	task->sub->coming += is_coming;
	task->sub->coming -= task->is_coming;
	task->is_coming = is_coming;
}

static void park(struct followed *task)
{
	tfc__lines_park(&task->lines);
	count_reading(task, false);
	count_coming(task, false);
}

static void mark_grown(struct followed *task)
{
	if (tfc__list_is_empty(&task->grown))
		tfc__list_append(&task->sub->grown, &task->grown);
}

static void on_growth(void *user)
{
	struct followed *task = user;
	mark_grown(task);
	tfc__sub_wake(&task->sub->base);
}

static int open_log(struct followed *task, tfc_error *error)
{
	struct local_sub *sub = task->sub;
	if (task->lines.source || !task->place_entry)
		return TFC_OK;
	struct tfc__log_source *source = tfc__record_log_open(sub->record,
							      (uint32_t)(task - sub->tasks),
							      node_of(sub, task),
							      task->lines.position, error);
	if (!source)
		return error->code;
	source->wake = on_growth;
	source->user = task;
	tfc__lines_attach(&task->lines, source);
	return TFC_OK;
}

static void read_from(struct followed *task, uint64_t position)
{
	const struct tfc__lines_cursor cursor = {{{position, 0}, {position, 0}}};
	tfc__lines_fini(&task->lines);
	tfc__lines_init(&task->lines, &cursor);
}

/* On a node that it had left before, a task's log goes on where it ended there. */
static uint64_t end_on_node(const struct local_sub *sub, uint32_t task, const char *node,
			    uint32_t before)
{
	uint64_t end = 0;
	for (uint32_t i = 0; i < before; i++) {
		const struct tfc__journal_entry *entry = entry_at(sub, i);
		if (ends_attempt(entry) && entry->task == task && entry->log_end != UINT64_MAX &&
		    entry->log_end > end && strcmp(tfc__record_node(sub->record, entry), node) == 0)
			end = entry->log_end;
	}
	return end;
}

/* An entry about a task that has begun something: its output is on that node from now on. */
static void follow_to(struct local_sub *sub, uint32_t number)
{
	const struct tfc__journal_entry *entry = entry_at(sub, number);
	struct followed *task = &sub->tasks[entry->task];
	const char *node = tfc__record_node(sub->record, entry);
	bool is_first = !task->place_entry;
	if (!*node)
		return;
	if (is_first || strcmp(node_of(sub, task), node) != 0) {
		park(task);
		read_from(task, is_first ? 0 : end_on_node(sub, entry->task, node, number));
	}
	task->place_entry = number + 1;
}

/* An entry was told, or lies before the cursor that the subscription begins with. */
static void note_entry(struct local_sub *sub, uint32_t number)
{
	const struct tfc__journal_entry *entry = entry_at(sub, number);
	if (!sub->tasks || entry->kind != TFC_EVENT_TASK)
		return;
	struct followed *task = &sub->tasks[entry->task];
	if (!ends_attempt(entry)) {
		follow_to(sub, number);
		if (entry->task_state >= TFC_TASK_STARTING)
			mark_grown(task);
		return;
	}
	park(task); /* what it says next it says in an attempt whose entries come first */
	tfc__list_remove(&task->grown);
	if (!sub->is_bare)
		sub->place.pieces[entry->task].text[0] = '\0';
}

/* ---- reading */

/* One line of a task's log that begins before `until`: 1 told, 0 nothing there now, TFC_ENOMEM and
 * TFC_ELOST: later, TFC_EAGAIN: it will wake us. A damaged log ends its reading, and is told. */
static int read_line(struct local_sub *sub, struct followed *task, uint64_t until)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__line line;
	uint32_t number = (uint32_t)(task - sub->tasks);
	int code = open_log(task, &error);
	if (code == TFC_OK)
		code = tfc__lines_next(&task->lines, until, &line, &error);
	count_reading(task, code > 0);
	count_coming(task, code == TFC_EAGAIN);
	if (code == TFC_ENOMEM)
		tfc__timer_set(&sub->retry, tfc__now() + RETRY_PAUSE);
	if (code == TFC_ENOMEM || code == TFC_EAGAIN || code == TFC_ELOST)
		return code;
	sub->tries = 0;
	sub->lost_since = 0;
	if (code < 0 && !task->is_damage_told)
		tfc__log(sub->base.ctx, TFC_LOG_ERROR, "gateway", sub->record->id,
			 "output of task %u: %s", number, error.text);
	if (code)
		task->is_damage_told = code < 0;
	if (code > 0)
		tell_line(sub, number, &line, "");
	return code > 0;
}

/* What a full disk did not take to the very end: the log has no room even to say so. */
static void tell_last_gap(struct local_sub *sub, const struct tfc__journal_entry *entry)
{
	struct tfc__line line = {
		.stream = TFC_STREAM_GAP,
		.attempt = entry->attempt,
		.time_ns = entry->time_ns,
		.len = entry->log_gap,
		.cursor = tfc__lines_cursor(&sub->tasks[entry->task].lines),
	};
	sub->place.is_gap_told = true;
	tell_line(sub, entry->task, &line, "");
}

/* Whether the end of an attempt waits longer for the node that has its output. */
static bool waits_for_node(struct local_sub *sub, bool is_end_known)
{
	uint64_t now = tfc__now(), patience = is_end_known ? LOST_PATIENCE : GONE_PATIENCE;
	if (!sub->lost_since)
		sub->lost_since = now;
	if (now >= sub->lost_since + patience)
		return false;
	tfc__timer_set(&sub->retry, sub->lost_since + patience);
	return true;
}

/* The node that has the rest is gone, and nobody knows how much that is. */
static int give_up_node(struct local_sub *sub, const struct tfc__journal_entry *entry)
{
	char text[128];
	struct tfc__line line;
	struct followed *task = &sub->tasks[entry->task];
	uint64_t until = entry->log_end == UINT64_MAX ? task->lines.position : entry->log_end;
	snprintf(text, sizeof(text), "the rest of its output is on node %.60s, which is down",
		 node_of(sub, task));
	tfc__lines_skip(&task->lines, until, &line);
	line.attempt = entry->attempt;
	line.time_ns = entry->time_ns;
	sub->place.is_gap_told = true; /* what else is there is not waited for once more */
	tell_line(sub, entry->task, &line, text);
	return 1;
}

/* Before an attempt's end is told: one more of its lines, 1; 0 when all were; or below 0: later. */
static int read_before_end(struct local_sub *sub, const struct tfc__journal_entry *entry)
{
	struct followed *task = &sub->tasks[entry->task];
	struct tfc__line line;
	bool is_end_known = entry->log_end != UINT64_MAX;
	if (sub->place.is_gap_told)
		return 0;
	int code = read_line(sub, task, entry->log_end);
	if (code == TFC_EAGAIN || (code == TFC_ENOMEM && sub->tries++ < RETRIES))
		return code;
	if (code == TFC_ELOST)
		return waits_for_node(sub, is_end_known) ? code : give_up_node(sub, entry);
	if (code > 0)
		return code;
	if (code == 0 && tfc__lines_flush(&task->lines, &line)) {
		tell_line(sub, entry->task, &line, "");
		return 1;
	}
	/* No memory, or somebody has cut or overwritten the file: what was there is missed. */
	if (is_end_known && task->lines.position < entry->log_end) {
		tfc__lines_skip(&task->lines, entry->log_end, &line);
		tell_line(sub, entry->task, &line, "");
		return 1;
	}
	if (entry->log_gap) {
		tell_last_gap(sub, entry);
		return 1;
	}
	return 0;
}

/* The next entry of the journal, behind the output that comes before it: 1, or 0: not yet. */
static int tell_next_entry(struct local_sub *sub)
{
	uint32_t number = sub->place.next;
	const struct tfc__journal_entry *entry = entry_at(sub, number);
	int code = sub->tasks && ends_attempt(entry) ? read_before_end(sub, entry) : 0;
	if (code)
		return code > 0;
	sub->place.next++;
	sub->place.is_gap_told = false;
	note_entry(sub, number);
	if (ends_attempt(entry))
		sub->mark.ended_task = entry->task;
	tell_entry(sub, entry);
	return 1;
}

/* A line of a task whose log may have grown: 1, or 0 when there is none. */
static int tell_next_line(struct local_sub *sub)
{
	while (!tfc__list_is_empty(&sub->grown)) {
		struct followed *task = tfc__container_of(sub->grown.next, struct followed, grown);
		int is_told = read_line(sub, task, UINT64_MAX);
		if (is_told == TFC_ENOMEM)
			return 0;
		if (is_told > 0 && ++sub->lines_told < LINES_PER_TASK)
			return 1;
		sub->lines_told = 0;
		tfc__list_remove(&task->grown);
		if (is_told <= 0)
			continue;
		tfc__list_append(&sub->grown, &task->grown);
		if (sub->reading > READ_AT_ONCE_MAX)
			park(task);
		return 1;
	}
	return 0;
}

static int tell_gone(struct local_sub *sub)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_ENOENT, "gateway", 0, "job %s was forgotten", sub->job);
	tfc__sub_tell_lost(&sub->base, sub->job, &error);
	return 1;
}

static int tell_next(tfc_sub *base)
{
	struct local_sub *sub = of(base);
	if (sub->is_gone)
		return tell_gone(sub);
	if (sub->place.next < sub->record->journal.count)
		return tell_next_entry(sub);
	if (tell_next_line(sub))
		return 1;
	bool is_live = tfc__list_is_empty(&sub->grown) && !sub->coming;
	if (!sub->wants_live || !is_live)
		return 0;
	tell_live(sub);
	return 1;
}

static void try_again(struct tfc__timer *timer)
{
	tfc__sub_wake(&tfc__container_of(timer, struct local_sub, retry)->base);
}

static void on_journal(struct tfc__journal_reader *reader)
{
	tfc__sub_wake(&tfc__container_of(reader, struct local_sub, reader)->base);
}

static void on_gone(struct tfc__journal_reader *reader)
{
	struct local_sub *sub = tfc__container_of(reader, struct local_sub, reader);
	tfc__list_remove(&reader->link);
	tfc__timer_cancel(&sub->retry);
	sub->is_gone = true;
	sub->record = NULL;
	tfc__sub_wake(&sub->base);
}

/* ---- opening and closing */

static void detach(tfc_sub *base)
{
	struct local_sub *sub = of(base);
	tfc__list_remove(&sub->reader.link);
	tfc__timer_cancel(&sub->retry);
}

static void free_sub(tfc_sub *base)
{
	struct local_sub *sub = of(base);
	for (uint32_t i = 0; i < sub->task_count; i++)
		tfc__lines_fini(&sub->tasks[i].lines);
	tfc__place_fini(&sub->place);
	free(sub->tasks);
	free(sub);
}

/* Begins behind a cursor: what the journal says before it, then the pieces. */
static int apply_cursor(struct local_sub *sub, const char *text, tfc_error *error)
{
	struct tfc__place place = {0};
	struct tfc__lines_cursor cursor;
	uint32_t count = tfc__job_task_count(sub->record->job);
	int code = tfc__place_read(&place, count, text);
	if (code == TFC_OK && place.next > sub->record->journal.count)
		code = TFC_EINVAL;
	for (uint32_t i = 0; code == TFC_OK && i < place.next; i++) {
		const struct tfc__journal_entry *entry = entry_at(sub, i);
		note_entry(sub, i);
		if (sub->tasks && ends_attempt(entry) && entry->log_end != UINT64_MAX &&
		    entry->log_end > sub->tasks[entry->task].lines.position)
			read_from(&sub->tasks[entry->task], entry->log_end);
	}
	for (uint32_t i = 0; code == TFC_OK && sub->tasks && i < count; i++) {
		if (!tfc__piece_read(place.pieces[i].text, &cursor))
			continue;
		tfc__lines_fini(&sub->tasks[i].lines);
		tfc__lines_init(&sub->tasks[i].lines, &cursor);
		if (!sub->is_bare)
			sub->place.pieces[i] = place.pieces[i];
	}
	sub->place.next = place.next;
	sub->place.is_gap_told = place.is_gap_told;
	tfc__place_fini(&place);
	if (code == TFC_EINVAL)
		return tfc__fail(error, code, "gateway", 0,
				 "cursor %.80s: not one that an event of this job carried", text);
	return code < 0 ? tfc__fail_nomem(error, "gateway") : code;
}

static int follow_output(struct local_sub *sub, tfc_error *error)
{
	uint32_t count = tfc__job_task_count(sub->record->job);
	sub->tasks = calloc(count, sizeof(*sub->tasks));
	if (!sub->tasks || (!sub->is_bare && tfc__place_reserve(&sub->place, count) < 0))
		return tfc__fail_nomem(error, "gateway");
	sub->task_count = count;
	for (uint32_t i = 0; i < count; i++) {
		sub->tasks[i].sub = sub;
		tfc__lines_init(&sub->tasks[i].lines, NULL);
		tfc__list_init(&sub->tasks[i].grown);
	}
	return TFC_OK;
}

static const struct tfc__mark *mark_of(const tfc_sub *sub)
{
	return &tfc__container_of(sub, const struct local_sub, base)->mark;
}

int tfc__local_subscribe(tfc_ctx *ctx, struct tfc__link *list, struct tfc__record *record,
			 const tfc_subscribe_options *options, bool is_bare, tfc_event_fn fn,
			 void *user, tfc_error *error, tfc_sub **ret_sub)
{
	static const struct tfc__sub_ops ops = {tell_next, detach, free_sub, mark_of};
	struct local_sub *sub = calloc(1, sizeof(*sub));
	if (!sub)
		return tfc__fail_nomem(error, "gateway");
	sub->record = record;
	sub->is_bare = is_bare;
	sub->wants_live = options->wants_live;
	sub->mark.task = sub->mark.ended_task = UINT32_MAX;
	sub->reader.fn = on_journal;
	sub->reader.gone = on_gone;
	memcpy(sub->job, record->id, sizeof(sub->job));
	tfc__list_init(&sub->grown);
	tfc__timer_init(&sub->retry, ctx, try_again);
	tfc__sub_init(&sub->base, &ops, ctx, list, fn, user);
	tfc__list_append(&record->journal.readers, &sub->reader.link);
	int code = options->is_without_output ? TFC_OK : follow_output(sub, error);
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
