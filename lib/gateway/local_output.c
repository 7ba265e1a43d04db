/* The output of a task for a subscription: which node has it, reading it from there, and missing
 * output. */
#include "gateway/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define READ_AT_ONCE_MAX 32 /* logs of a gateway that are read at the same time */
#define READ_TURNS 32       /* turns of a subscription before it yields to others that wait */
/* A node outside the membership causes no event when it returns, so its logs are tried again
 * regularly. */
#define RETRY_UNREACHABLE (10 * TFC__SECOND)
#define RETRY_PAUSE (50 * TFC__MS) /* when out of memory for reading a log */

const char *tfc__followed_node(const struct local_sub *sub, const struct followed *task)
{
	if (!task->place_entry)
		return "";
	return tfc__record_node(sub->record, tfc__local_entry(sub, task->place_entry - 1));
}

/* Wakes the next waiting subscription, if the limit allows another log. That subscription may no
 * longer have anything to read; then the end of its turn wakes the next one. */
static void wake_next_reader(struct tfc__local_reading *all)
{
	while (all->count < READ_AT_ONCE_MAX && !tfc__list_is_empty(&all->waiting)) {
		struct local_sub *sub = tfc__container_of(all->waiting.next, struct local_sub,
							  waiting);
		tfc__list_remove(&sub->waiting);
		if (sub->base.is_paused)
			continue;
		tfc__sub_wake(&sub->base);
		return;
	}
}

static void followed_count_reading(struct followed *task, bool is_reading)
{
	if (is_reading == !tfc__list_is_empty(&task->reading))
		return;
	if (is_reading) {
		tfc__list_append(&task->sub->reading, &task->reading);
		task->sub->all_reading->count++;
	} else {
		tfc__list_remove(&task->reading);
		task->sub->all_reading->count--;
		wake_next_reader(task->sub->all_reading);
	}
}

static void followed_count_coming(struct followed *task, bool is_coming)
{
	task->sub->coming += is_coming;
	task->sub->coming -= task->is_coming;
	task->is_coming = is_coming;
}

/* Updates the number of bytes held by the subscription. */
static void followed_count_held(struct followed *task)
{
	size_t held = tfc__lines_bytes(&task->lines);
	task->sub->base.held += held - task->held;
	task->held = held;
}

void tfc__followed_park(struct followed *task)
{
	tfc__lines_park(&task->lines);
	followed_count_held(task);
	followed_count_reading(task, false);
	followed_count_coming(task, false);
}

void tfc__local_suspend(tfc_sub *base, bool is_suspended)
{
	struct local_sub *sub = tfc__container_of(base, struct local_sub, base);
	struct tfc__local_reading *all = sub->all_reading;
	bool is_over = is_suspended;
	if (!tfc__list_is_empty(&sub->reading) && !tfc__list_is_empty(&all->waiting))
		is_over = (sub->turns += 1 + sub->whole_batches) >= READ_TURNS || is_suspended;
	sub->whole_batches = 0;
	if (is_over) {
		sub->turns = 0;
		TFC__LIST_EACH (link, &sub->reading)
			tfc__followed_park(tfc__container_of(link, struct followed, reading));
	}
	wake_next_reader(all);
}

bool tfc__local_may_read(struct local_sub *sub, struct followed *task)
{
	struct tfc__local_reading *all = sub->all_reading;
	if (!tfc__list_is_empty(&task->reading) || all->count < READ_AT_ONCE_MAX)
		return true;
	if (!tfc__list_is_empty(&sub->reading)) {
		tfc__followed_park(tfc__container_of(sub->reading.next, struct followed, reading));
		return true;
	}
	if (tfc__list_is_empty(&sub->waiting))
		tfc__list_append(&all->waiting, &sub->waiting);
	return false;
}

/* There may be more to read. */
static void followed_mark_grown(struct followed *task)
{
	if (tfc__list_is_empty(&task->grown))
		tfc__list_append(&task->sub->grown, &task->grown);
}

static void followed_on_growth(void *user)
{
	struct followed *task = user;
	followed_mark_grown(task);
	tfc__sub_wake(&task->sub->base);
}

static int followed_open_log(struct followed *task, tfc_error *error)
{
	struct local_sub *sub = task->sub;
	if (task->lines.source || !task->place_entry)
		return TFC_OK;
	struct tfc__log_source *source = tfc__record_log_open(sub->record, task->task,
							      tfc__followed_node(sub, task),
							      task->lines.position, error);
	if (!source)
		return error->code;
	source->wake = followed_on_growth;
	source->user = task;
	tfc__lines_attach(&task->lines, source);
	return TFC_OK;
}

void tfc__followed_begin(struct followed *task, const struct tfc__lines_cursor *cursor)
{
	tfc__lines_init(&task->lines, cursor);
	task->lines.skips_output = task->sub->skips_output;
	task->lines.wants_reports = task->sub->wants_reports;
}

void tfc__followed_read_from(struct followed *task, uint64_t position)
{
	const struct tfc__lines_cursor cursor = {{{position, 0}, {position, 0}, {position, 0}}};
	tfc__lines_fini(&task->lines);
	tfc__followed_begin(task, &cursor);
	followed_count_held(task);
}

/* The position at which a task's log continues on a node that it had left before: where its last
 * attempt there ended. */
static uint64_t log_end_on_node(const struct local_sub *sub, uint32_t task, const char *node,
				uint32_t before)
{
	uint64_t end = 0;
	for (uint32_t i = 0; i < before; i++) {
		const struct tfc__journal_entry *entry = tfc__local_entry(sub, i);
		if (tfc__ends_attempt(entry) && entry->task == task &&
		    entry->end.log_end != UINT64_MAX && entry->end.log_end > end &&
		    strcmp(tfc__record_node(sub->record, entry), node) == 0)
			end = entry->end.log_end;
	}
	return end;
}

/* Applies an entry about an attempt that has begun: the task's output is now on that node.
 */
static void followed_move(struct local_sub *sub, uint32_t number)
{
	const struct tfc__journal_entry *entry = tfc__local_entry(sub, number);
	struct followed *task = &sub->tasks[entry->task];
	const char *node = tfc__record_node(sub->record, entry);
	bool is_first = !task->place_entry;
	if (!*node)
		return;
	if (is_first || strcmp(tfc__followed_node(sub, task), node) != 0) {
		tfc__followed_park(task);
		tfc__followed_read_from(task,
					is_first ? 0
						 : log_end_on_node(sub, entry->task, node, number));
	}
	task->place_entry = number + 1;
	task->lines.attempt = entry->attempt;
}

void tfc__local_note_entry(struct local_sub *sub, uint32_t number)
{
	const struct tfc__journal_entry *entry = tfc__local_entry(sub, number);
	if (entry->kind != TFC_EVENT_TASK)
		sub->job_state = entry->job_state;
	if (!sub->tasks || entry->kind != TFC_EVENT_TASK)
		return;
	struct followed *task = &sub->tasks[entry->task];
	if (!tfc__ends_attempt(entry)) {
		followed_move(sub, number);
		if (entry->task_state >= TFC_TASK_STARTING)
			followed_mark_grown(task);
		return;
	}
	/* Output after this belongs to an attempt whose entries are reported first. */
	tfc__followed_park(task);
	tfc__list_remove(&task->grown);
}

int tfc__followed_read_line(struct local_sub *sub, struct followed *task, uint64_t until)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__line line;
	int code = followed_open_log(task, &error);
	if (code == TFC_OK)
		code = tfc__lines_next(&task->lines, until, &error, &line);
	followed_count_held(task);
	followed_count_reading(task, code > 0);
	followed_count_coming(task, code == TFC_EAGAIN);
	if (code == TFC_ENOMEM)
		tfc__timer_set(&sub->retry, tfc__now() + RETRY_PAUSE);
	if (code == TFC_ENOMEM || code == TFC_EAGAIN || code == TFC_ELOST)
		return code;
	sub->tries = 0;
	sub->lost_since = 0;
	if (code < 0 && !task->is_damage_reported)
		tfc__log(sub->base.ctx, TFC_LOG_ERROR, "gateway", sub->record->id,
			 "cannot read the output of task %u: %s", task->task, error.text);
	if (code)
		task->is_damage_reported = code < 0;
	if (code > 0)
		tfc__local_report_line(sub, task, &line, "");
	return code > 0;
}

int tfc__followed_skip_end(struct local_sub *sub, struct followed *task,
			   const struct tfc__journal_entry *end)
{
	struct tfc__line line;
	if (end->end.log_end == UINT64_MAX || task->lines.position >= end->end.log_end)
		return 0;
	tfc__lines_skip(&task->lines, end->end.log_end, &line);
	tfc__local_report_line(sub, task, &line, "");
	return 1;
}

int tfc__followed_read_end(struct local_sub *sub, struct followed *task,
			   const struct tfc__journal_entry *end)
{
	struct tfc__line line;
	int code = tfc__followed_read_line(sub, task, end->end.log_end);
	if (code)
		return code;
	if (tfc__lines_flush(&task->lines, &line)) {
		tfc__local_report_line(sub, task, &line, "");
		return 1;
	}
	/* The file was truncated or overwritten by another program: the lost part is reported as a
	 * gap. */
	return tfc__followed_skip_end(sub, task, end);
}

/* ---- missing output
 *
 * The end of an attempt may be reported while the node that has its output is unreachable. The
 * missing output is reported after that end, when the node is back; the attempt's number shows to
 * which attempt it belongs. In the log it ends where the attempt ended or, if that position is
 * unknown, before the next attempt. */

void tfc__missing_report(struct local_sub *sub, struct followed *task,
			 const struct tfc__journal_entry *end)
{
	char text[128];
	const struct tfc__line line = {
		.stream = TFC_STREAM_GAP,
		.attempt = end->attempt,
		.time_ns = end->time_ns,
		.cursor = tfc__lines_cursor(&task->lines),
	};
	snprintf(text, sizeof(text), "missing output: it is on node %.60s, which is unreachable",
		 tfc__followed_node(sub, task));
	task->is_missed = true;
	tfc__local_report_line(sub, task, &line, text);
}

/* The entry that began the attempt which entry `number` ended; `number` if there is none. */
static uint32_t find_attempt_begin(const struct local_sub *sub, uint32_t number)
{
	const struct tfc__journal_entry *end = tfc__local_entry(sub, number);
	for (uint32_t i = number; i-- > 0;) {
		const struct tfc__journal_entry *entry = tfc__local_entry(sub, i);
		if (entry->kind == TFC_EVENT_TASK && entry->task == end->task &&
		    entry->attempt == end->attempt && entry->node[0])
			return i;
	}
	return number;
}

static struct followed *missing_new(struct local_sub *sub, uint32_t number,
				    const struct tfc__lines_cursor *cursor)
{
	const struct tfc__journal_entry *end = tfc__local_entry(sub, number);
	struct followed *missing = calloc(1, sizeof(*missing));
	if (!missing)
		return NULL;
	missing->sub = sub;
	missing->task = end->task;
	missing->end_entry = number + 1;
	missing->place_entry = find_attempt_begin(sub, number) + 1;
	missing->is_missed = true;
	tfc__followed_begin(missing, cursor);
	missing->lines.attempt = end->attempt;
	sub->base.held += sizeof(*missing);
	tfc__list_init(&missing->grown);
	tfc__list_init(&missing->reading);
	tfc__list_append(&sub->missing, &missing->missing_link);
	followed_mark_grown(missing);
	return missing;
}

int tfc__missing_begin(struct local_sub *sub, uint32_t number,
		       const struct tfc__lines_cursor *cursor)
{
	struct tfc__mark *mark = &sub->now.mark;
	mark->cursor = *cursor;
	if ((!sub->is_bare && tfc__place_set_missing(&sub->place, number, cursor) < 0) ||
	    !missing_new(sub, number, cursor))
		return TFC_ENOMEM;
	mark->missing = number;
	return TFC_OK;
}

void tfc__missing_end(struct followed *missing)
{
	tfc__followed_park(missing);
	tfc__lines_fini(&missing->lines);
	followed_count_held(missing);
	missing->sub->base.held -= sizeof(*missing);
	tfc__list_remove(&missing->grown);
	tfc__list_remove(&missing->missing_link);
	missing->sub->now.mark.missing_over = missing->end_entry - 1;
	free(missing);
}

int tfc__missing_read_line(struct local_sub *sub, struct followed *missing)
{
	int code = tfc__followed_read_end(sub, missing,
					  tfc__local_entry(sub, missing->end_entry - 1));
	if (code > 0)
		missing->is_missed = false;
	if (code == TFC_ELOST && !missing->lines.source && !sub->retry.at)
		tfc__timer_set(&sub->retry, tfc__now() + RETRY_UNREACHABLE);
	if (code == 0)
		tfc__missing_end(missing);
	return code;
}

void tfc__missing_retry(struct local_sub *sub)
{
	TFC__LIST_EACH (link, &sub->missing)
		if (!tfc__missing_of(link)->lines.source)
			followed_mark_grown(tfc__missing_of(link));
}
