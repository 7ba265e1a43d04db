/* An event as JSON, and its job's end as the exit status of a program that runs the job. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "proc/proc.h"
#include <tfcluster/gateway.h>
#include <tfcluster/log.h>

#define SHELL_SIGNAL 128 /* plus a signal's number: how shells tell it */

static void add_key(struct tfc__buf *json, const char *key)
{
	tfc__buf_addf(json, ",\"%s\":", key);
}

static void add_bytes(struct tfc__buf *json, const char *key, const char *data, size_t len)
{
	add_key(json, key);
	tfc__buf_add_json_bytes(json, data, len);
}

static void add_text(struct tfc__buf *json, const char *key, const char *text)
{
	add_bytes(json, key, text, strlen(text));
}

static void add_number(struct tfc__buf *json, const char *key, int64_t number)
{
	add_key(json, key);
	tfc__buf_addf(json, "%lld", (long long)number);
}

static void add_task_name(struct tfc__buf *json, const char *key, const tfc_event *event)
{
	char name[128];
	snprintf(name, sizeof(name), "%s/%u", event->task_type, event->task_index);
	if (event->task_type[0]) {
		add_text(json, key, name);
	} else {
		add_key(json, key);
		tfc__buf_add_str(json, "null");
	}
}

/* RFC 3339, in UTC. */
static void add_time(struct tfc__buf *json, uint64_t time_ns)
{
	time_t seconds = (time_t)(time_ns / 1000000000u);
	struct tm utc = {0};
	char text[32] = "";
	if (gmtime_r(&seconds, &utc))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
	tfc__buf_addf(json, "\"time\":\"%s.%06uZ\"", text,
		      (unsigned)(time_ns % 1000000000u / 1000u));
}

static void add_job(struct tfc__buf *json, const tfc_event *event)
{
	add_text(json, "job", event->job);
	add_text(json, "name", event->name);
	add_text(json, "state", tfc_job_state_name(event->job_state));
	add_number(json, "generation", event->generation);
	add_number(json, "epoch", (int64_t)event->epoch);
	if (event->text[0])
		add_text(json, "text", event->text);
}

static void add_task_end(struct tfc__buf *json, const tfc_event *event)
{
	if (event->exit_reason == TFC_EXIT_CODE)
		add_number(json, "exit", event->status);
	if (event->exit_reason == TFC_EXIT_SIGNAL)
		add_number(json, "signal", event->status);
	add_text(json, "reason", tfc_end_reason_name(event->reason));
	if (event->text[0])
		add_text(json, "text", event->text);
	add_number(json, "user_us", (int64_t)event->user_us);
	add_number(json, "system_us", (int64_t)event->system_us);
	add_number(json, "max_rss_kib", (int64_t)event->max_rss_kib);
}

static void add_stall(struct tfc__buf *json, const tfc_event *event)
{
	add_text(json, "reason", tfc_end_reason_name(event->reason));
	add_text(json, "text", event->text);
}

static void add_task(struct tfc__buf *json, const tfc_event *event)
{
	add_task_name(json, "task", event);
	add_number(json, "attempt", event->attempt);
	add_text(json, "state", tfc_task_state_name(event->task_state));
	add_number(json, "generation", event->generation);
	add_text(json, "node", event->node);
	add_number(json, "pid", event->pid);
	add_text(json, "address", event->address);
	if (event->isolation)
		add_text(json, "isolation", tfc__isolation_name(event->isolation));
	if (event->task_state >= TFC_TASK_EXITED)
		add_task_end(json, event);
	else if (event->reason)
		add_stall(json, event);
}

static void add_output(struct tfc__buf *json, const tfc_event *event)
{
	add_task_name(json, "task", event);
	add_number(json, "attempt", event->attempt);
	add_text(json, "stream", event->stream == TFC_STREAM_STDERR ? "stderr" : "stdout");
	add_bytes(json, "text", event->data, event->data_len);
	if (event->is_partial)
		tfc__buf_add_str(json, ",\"partial\":true");
	add_text(json, "cursor", event->cursor);
}

static void add_gap(struct tfc__buf *json, const tfc_event *event)
{
	add_task_name(json, "task", event);
	add_number(json, "attempt", event->attempt);
	add_number(json, "bytes", (int64_t)event->data_len);
	if (event->text[0])
		add_text(json, "text", event->text);
	add_text(json, "cursor", event->cursor);
}

static void add_lines(struct tfc__buf *json, const char *key, const char *const *lines)
{
	add_key(json, key);
	tfc__buf_add_char(json, '[');
	for (const char *const *line = lines; line && *line; line++) {
		if (line != lines)
			tfc__buf_add_char(json, ',');
		tfc__buf_add_json_bytes(json, *line, strlen(*line));
	}
	tfc__buf_add_char(json, ']');
}

static void add_end(struct tfc__buf *json, const tfc_event *event)
{
	add_text(json, "job", event->job);
	add_text(json, "name", event->name);
	add_text(json, "state", tfc_job_state_name(event->job_state));
	add_number(json, "exit", tfc_event_exit_status(event));
	add_task_name(json, "decided_by", event);
	add_text(json, "reason", tfc_end_reason_name(event->reason));
	add_text(json, "text", event->text);
	add_lines(json, "log_tail", event->log_tail);
	add_lines(json, "ignored_failures", event->ignored_failures);
}

static void add_lost(struct tfc__buf *json, const tfc_event *event)
{
	add_text(json, "job", event->job);
	add_text(json, "reason", tfc_err_name(event->status));
	add_text(json, "text", event->text);
}

static void add_live(struct tfc__buf *json, const tfc_event *event)
{
	add_text(json, "job", event->job);
}

int tfc_event_json(const tfc_event *event, char **ret_json)
{
	static const struct {
		const char *name;
		void (*add)(struct tfc__buf *json, const tfc_event *event);
	} kinds[] = {
		[TFC_EVENT_JOB] = {"job", add_job},          [TFC_EVENT_TASK] = {"task", add_task},
		[TFC_EVENT_OUTPUT] = {"output", add_output}, [TFC_EVENT_GAP] = {"gap", add_gap},
		[TFC_EVENT_END] = {"end", add_end},          [TFC_EVENT_LOST] = {"lost", add_lost},
		[TFC_EVENT_LIVE] = {"live", add_live},
	};
	struct tfc__buf json = {0};
	tfc_event known = {0};
	if (!event || !ret_json || event->size < sizeof(event->size))
		return TFC_EINVAL;
	/* an older host's copy is shorter */
	memcpy(&known, event, event->size < sizeof(known) ? event->size : sizeof(known));
	if (known.kind < TFC_EVENT_JOB || known.kind > TFC_EVENT_LIVE)
		return TFC_EINVAL;
	tfc__buf_add_char(&json, '{');
	add_time(&json, known.time_ns);
	add_text(&json, "event", kinds[known.kind].name);
	kinds[known.kind].add(&json, &known);
	tfc__buf_add_char(&json, '}');
	char *text = tfc__buf_steal(&json);
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
		return event->status;
	case TFC_END_SIGNAL:
		return SHELL_SIGNAL + event->status;
	case TFC_END_STOPPED:
		return SHELL_SIGNAL + (event->status ? event->status : SIGTERM);
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
