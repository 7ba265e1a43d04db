/* An event as JSON, and the end of a job as the exit status of a program that runs the job. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "gateway/event_wire.h"
#include <tfcluster/gateway.h>
#include <tfcluster/process.h>

#define SHELL_SIGNAL 128 /* plus the signal's number: the exit status in shells */

static uint32_t variant_of(const tfc_event *event)
{
	static const uint32_t variants[] = {
		[TFC_EVENT_JOB] = TFC__SHOWN_JOB,
		[TFC_EVENT_TASK] = TFC__SHOWN_TASK,
		[TFC_EVENT_OUTPUT] = TFC__SHOWN_OUTPUT,
		[TFC_EVENT_GAP] = TFC__SHOWN_GAP,
		[TFC_EVENT_END] = TFC__SHOWN_END,
		[TFC_EVENT_LOST] = TFC__SHOWN_LOST,
		[TFC_EVENT_LIVE] = TFC__SHOWN_LIVE,
		[TFC_EVENT_SUBMITTED] = TFC__SHOWN_WATCHED,
		[TFC_EVENT_CHANGED] = TFC__SHOWN_WATCHED,
		[TFC_EVENT_ENDED] = TFC__SHOWN_ENDED,
		[TFC_EVENT_FORGOTTEN] = TFC__SHOWN_FORGOTTEN,
		[TFC_EVENT_NODE_RESET] = TFC__SHOWN_NODE,
		[TFC_EVENT_NODE_SEEN] = TFC__SHOWN_NODE,
		[TFC_EVENT_NODE_UNSEEN] = TFC__SHOWN_UNSEEN,
		[TFC_EVENT_PROGRESS] = TFC__SHOWN_OUTPUT,
		[TFC_EVENT_RECONNECTING] = TFC__SHOWN_LOST,
		[TFC_EVENT_RECONNECTED] = TFC__SHOWN_LIVE,
		[TFC_EVENT_REPORT] = TFC__SHOWN_REPORT,
	};
	uint32_t variant = variants[event->kind];
	if (event->kind != TFC_EVENT_TASK)
		return variant;
	if (event->task_state < TFC_TASK_EXITED)
		return event->reason ? variant | TFC__SHOWN_TASK_STALLED : variant;
	if (event->exit_reason == TFC_EXIT_CODE)
		variant |= TFC__SHOWN_TASK_EXITED;
	if (event->exit_reason == TFC_EXIT_SIGNAL)
		variant |= TFC__SHOWN_TASK_KILLED;
	return variant | TFC__SHOWN_TASK_ENDED;
}

int tfc_event_json(const tfc_event *event, char **ret_json)
{
	static const char *const names[] = {
		[TFC_EVENT_JOB] = "job",
		[TFC_EVENT_TASK] = "task",
		[TFC_EVENT_OUTPUT] = "output",
		[TFC_EVENT_GAP] = "gap",
		[TFC_EVENT_END] = "end",
		[TFC_EVENT_LOST] = "lost",
		[TFC_EVENT_LIVE] = "live",
		[TFC_EVENT_SUBMITTED] = "submitted",
		[TFC_EVENT_CHANGED] = "changed",
		[TFC_EVENT_ENDED] = "ended",
		[TFC_EVENT_FORGOTTEN] = "forgotten",
		[TFC_EVENT_NODE_RESET] = "node_reset",
		[TFC_EVENT_NODE_SEEN] = "node_seen",
		[TFC_EVENT_NODE_UNSEEN] = "node_unseen",
		[TFC_EVENT_PROGRESS] = "progress",
		[TFC_EVENT_RECONNECTING] = "reconnecting",
		[TFC_EVENT_RECONNECTED] = "reconnected",
		[TFC_EVENT_REPORT] = "report",
	};
	struct tfc__json_writer json = {.depth = 0};
	struct tfc__sub_event whole = {.event.kind = 0};
	tfc_event *known = &whole.event;
	char task[128];
	if (!event || !ret_json || event->size < sizeof(event->size))
		return TFC_EINVAL;
	/* it is shorter if the host was built with an older version */
	memcpy(known, event, event->size < sizeof(*known) ? event->size : sizeof(*known));
	if (known->kind < TFC_EVENT_JOB || known->kind > TFC_EVENT_REPORT)
		return TFC_EINVAL;
	if (known->task_type && known->task_type[0]) {
		snprintf(task, sizeof(task), "%s/%u", known->task_type, known->task_index);
		whole.task = task;
	}
	whole.output = known->data;
	whole.output_len = whole.gap_bytes = known->data_len;
	whole.exit_status = tfc_event_exit_status(known);
	tfc__json_begin(&json, '{');
	tfc__json_name(&json, "time");
	tfc__json_time(&json, known->time_ns);
	tfc__json_name(&json, "event");
	tfc__json_text(&json, names[known->kind]);
	tfc__fields_json(&json, &tfc__sub_event_fields, &whole, variant_of(known));
	tfc__json_end(&json, '}');
	char *text = tfc__buf_steal(&json.buf);
	if (!text)
		return TFC_ENOMEM;
	*ret_json = text;
	return TFC_OK;
}

int tfc_event_exit_status(const tfc_event *event)
{
	if (!event || event->kind != TFC_EVENT_END)
		return TFC_EINVAL;
	if (event->job_state == TFC_JOB_SUCCEEDED)
		return 0;
	switch (event->reason) {
	case TFC_END_EXIT:
		return event->exit_code;
	case TFC_END_SIGNAL:
		return SHELL_SIGNAL + event->signal;
	case TFC_END_STOPPED:
		return SHELL_SIGNAL + (event->signal ? event->signal : SIGTERM);
	case TFC_END_DEADLINE:
	case TFC_END_STALLED:
		return 124;
	case TFC_END_NOT_EXECUTABLE:
		return 126;
	case TFC_END_NOT_FOUND:
		return 127;
	default:
		return 125;
	}
}
