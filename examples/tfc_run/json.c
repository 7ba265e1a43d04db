/*
 * --json: one object a line for each event.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"

/* Bytes of the UTF-8 character at `at`, or 0 when there is none (RFC 3629, section 4). */
static size_t character_len(const unsigned char *at, size_t left)
{
	size_t len = at[0] < 0x80   ? 1
		     : at[0] < 0xc2 ? 0
		     : at[0] < 0xe0 ? 2
		     : at[0] < 0xf0 ? 3
		     : at[0] < 0xf5 ? 4
				    : 0;
	if (len < 2 || len > left)
		return len > left ? 0 : len;
	for (size_t i = 1; i < len; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
	    (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
		return 0;
	return len;
}

/* A JSON string of any bytes: a byte that is not UTF-8 becomes \xNN, as text. */
static json_t *text_of(const char *data, size_t len)
{
	json_t *json = json_stringn(data, len);
	if (json)
		return json;
	char *escaped = malloc(len * 4 + 1);
	size_t to = 0;
	for (size_t from = 0; escaped && from < len;) {
		size_t n = character_len((const unsigned char *)data + from, len - from);
		if (n)
			memcpy(escaped + to, data + from, n);
		else
			snprintf(escaped + to, 5, "\\x%02x", (unsigned char)data[from]);
		to += n ? n : 4;
		from += n ? n : 1;
	}
	json = escaped ? json_stringn(escaped, to) : NULL;
	free(escaped);
	return json;
}

static void put(json_t *object, const char *key, json_t *value)
{
	json_object_set_new(object, key, value);
}

static void put_text(json_t *object, const char *key, const char *text)
{
	put(object, key, text_of(text, strlen(text)));
}

static json_t *task_name(const tfc_event *event)
{
	if (!event->task_type[0])
		return json_null();
	return json_sprintf("%s/%u", event->task_type, event->task_index);
}

static void put_job(json_t *object, const tfc_event *event)
{
	put_text(object, "job", event->job);
	put_text(object, "name", event->name);
	put_text(object, "state", tfc_job_state_name(event->job_state));
	put(object, "generation", json_integer(event->generation));
	put(object, "epoch", json_integer((json_int_t)event->epoch));
	if (event->text[0])
		put_text(object, "text", event->text);
}

static void put_task(json_t *object, const tfc_event *event)
{
	put(object, "task", task_name(event));
	put(object, "attempt", json_integer(event->attempt));
	put_text(object, "state", tfc_task_state_name(event->task_state));
	put(object, "generation", json_integer(event->generation));
	put_text(object, "node", event->node);
	put(object, "pid", json_integer(event->pid));
	put_text(object, "address", event->address);
	if (event->task_state < TFC_TASK_EXITED)
		return;
	if (event->exit_reason == TFC_EXIT_CODE)
		put(object, "exit", json_integer(event->status));
	if (event->exit_reason == TFC_EXIT_SIGNAL)
		put(object, "signal", json_integer(event->status));
	put_text(object, "reason", tfc_end_reason_name(event->reason));
	if (event->text[0])
		put_text(object, "text", event->text);
	put(object, "user_us", json_integer((json_int_t)event->user_us));
	put(object, "system_us", json_integer((json_int_t)event->system_us));
	put(object, "max_rss_kib", json_integer((json_int_t)event->max_rss_kib));
}

static void put_output(json_t *object, const tfc_event *event)
{
	bool is_err = event->stream == TFC_STREAM_STDERR;
	put(object, "task", task_name(event));
	put(object, "attempt", json_integer(event->attempt));
	if (event->kind == TFC_EVENT_GAP) {
		put(object, "bytes", json_integer((json_int_t)event->data_len));
	} else {
		put_text(object, "stream", is_err ? "stderr" : "stdout");
		put(object, "text", text_of(event->data, event->data_len));
		if (event->is_partial)
			put(object, "partial", json_true());
	}
	put_text(object, "cursor", event->cursor);
}

static void put_end(json_t *object, const tfc_event *event, int status)
{
	json_t *lines = json_array();
	put_text(object, "job", event->job);
	put_text(object, "name", event->name);
	put_text(object, "state", tfc_job_state_name(event->job_state));
	put(object, "exit", json_integer(status));
	put(object, "decided_by", task_name(event));
	put_text(object, "reason", tfc_end_reason_name(event->reason));
	put_text(object, "text", event->text);
	for (const char *const *line = event->log_tail; line && *line; line++)
		json_array_append_new(lines, text_of(*line, strlen(*line)));
	put(object, "log_tail", lines);
}

static int add(const char *data, size_t len, void *to)
{
	stream_add(to, data, len);
	return 0;
}

void json_event(struct stream *to, const tfc_event *event, int status)
{
	static const char *const kinds[] = {[TFC_EVENT_JOB] = "job",
					    [TFC_EVENT_TASK] = "task",
					    [TFC_EVENT_OUTPUT] = "output",
					    [TFC_EVENT_GAP] = "gap",
					    [TFC_EVENT_END] = "end"};
	char time[TIME_TEXT_SIZE];
	json_t *object = json_object();
	if (event->kind < TFC_EVENT_JOB || event->kind > TFC_EVENT_END || !object) {
		json_decref(object);
		return;
	}
	time_text(event->time_ns, time);
	put_text(object, "time", time);
	put_text(object, "event", kinds[event->kind]);
	if (event->kind == TFC_EVENT_JOB)
		put_job(object, event);
	else if (event->kind == TFC_EVENT_TASK)
		put_task(object, event);
	else if (event->kind == TFC_EVENT_END)
		put_end(object, event, status);
	else
		put_output(object, event);
	json_dump_callback(object, add, to, JSON_COMPACT);
	stream_add(to, "\n", 1);
	json_decref(object);
}
