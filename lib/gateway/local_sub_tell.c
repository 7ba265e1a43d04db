/*
 * What a subscription tells, as events: entries of the journal, and lines. Told again, also by
 * another process, they are what they were: nothing in them is of the time in which they are told,
 * but in LIVE.
 */
#include "gateway/internal.h"

#include "base/clock.h"

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
		.job_state = sub->job_state,
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

static void tell(struct local_sub *sub, tfc_event *event)
{
	struct tfc__mark *mark = &sub->mark;
	mark->next = sub->place.next;
	mark->is_gap_told = sub->place.is_gap_told;
	if (!sub->is_bare && sub->tasks) {
		tfc__place_go(&sub->place, mark); /* it has room for all that can be marked */
		event->cursor = tfc__place_text(&sub->place);
	}
	sub->base.fn(sub->base.user, event);
	mark->task = mark->ended_task = mark->rest = mark->rest_over = UINT32_MAX;
}

void tfc__local_tell_entry(struct local_sub *sub, const struct tfc__journal_entry *entry)
{
	static const char *const no_lines[] = {NULL};
	tfc_event event = base_event(sub, entry->kind);
	event.time_ns = entry->time_ns;
	event.job_state = entry->job_state;
	event.generation = entry->generation;
	event.epoch = entry->epoch;
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
		event.ignored_failures = entry->ignored_failures
						 ? (const char *const *)entry->ignored_failures
						 : no_lines;
		sub->base.is_ended = true;
	}
	tell(sub, &event);
}

void tfc__local_tell_line(struct local_sub *sub, const struct followed *task,
			  const struct tfc__line *line, const char *text)
{
	bool is_gap = line->stream == TFC_STREAM_GAP;
	tfc_event event = base_event(sub, is_gap ? TFC_EVENT_GAP : TFC_EVENT_OUTPUT);
	name_task(sub, task->task, &event);
	event.node = tfc__followed_node(sub, task);
	if (task->place_entry) {
		const struct tfc__journal_entry *begun = tfc__local_entry(sub,
									  task->place_entry - 1);
		event.generation = begun->generation;
		event.epoch = begun->epoch;
	}
	event.time_ns = line->time_ns;
	event.attempt = line->attempt;
	event.stream = line->stream;
	event.is_partial = line->is_partial;
	event.data = line->data ? line->data : "";
	event.data_len = line->len;
	event.text = text;
	tfc__piece_write(&sub->mark.piece, &line->cursor);
	if (task->end_entry)
		sub->mark.rest = task->end_entry - 1;
	else
		sub->mark.task = task->task;
	tell(sub, &event);
}

void tfc__local_tell_live(struct local_sub *sub)
{
	tfc_event event = base_event(sub, TFC_EVENT_LIVE);
	event.time_ns = tfc__wall();
	event.generation = tfc__record_generation(sub->record);
	event.epoch = sub->record->epoch;
	sub->wants_live = false;
	tell(sub, &event);
}
