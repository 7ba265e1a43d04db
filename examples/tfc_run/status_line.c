#include "status_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"

#define LEAST_COLUMNS 30 /* a narrower terminal has no status line */
#define SECOND_NS UINT64_C(1000000000)

void status_line_on_event(struct status_line *line, const tfc_event *event)
{
	if (event->kind == TFC_EVENT_RECONNECTING) {
		char *node = printable(event->node, "");
		snprintf(line->node, sizeof(line->node), "%s", node);
		free(node);
		if (!line->reconnecting_ns)
			line->reconnecting_ns = event->time_ns;
		return;
	}
	line->reconnecting_ns = 0;
	if (event->kind != TFC_EVENT_JOB && event->kind != TFC_EVENT_END)
		return;
	bool has_changed = event->job_state != line->job_state;
	/* The text of the event that begins to stop a job is the reason; later ones say what is
	 * waited for. A pending job always waits. */
	bool is_wait = event->job_state == TFC_JOB_PENDING ||
		       (event->job_state == TFC_JOB_STOPPING && !has_changed);
	if (has_changed || (is_wait && event->job_state == TFC_JOB_STOPPING))
		line->since_ns = event->time_ns;
	if (has_changed)
		line->wait[0] = '\0';
	if (is_wait && event->text[0]) {
		char *wait = printable(event->text, "");
		snprintf(line->wait, sizeof(line->wait), "%s", wait);
		free(wait);
	}
	line->job_state = event->job_state;
}

/* ---- the duration */

static uint64_t shown_since_ns(const struct status_line *line)
{
	if (line->reconnecting_ns)
		return line->reconnecting_ns;
	return line->job_state && line->job_state <= TFC_JOB_STOPPING ? line->since_ns : 0;
}

/* The clock of the job's node may be ahead of ours. */
static uint64_t shown_ns(const struct status_line *line)
{
	uint64_t since_ns = shown_since_ns(line), now_ns = wall_ns();
	return now_ns > since_ns ? now_ns - since_ns : 0;
}

/* The longer it lasts, the less often it changes. */
static uint64_t step_s(uint64_t seconds)
{
	return seconds < 60 ? 1 : seconds < 3600 ? 10 : 60;
}

int status_line_wait_ms(const struct status_line *line)
{
	uint64_t duration_ns = shown_ns(line),
		 step_ns = step_s(duration_ns / SECOND_NS) * SECOND_NS;
	if (!shown_since_ns(line))
		return -1;
	return (int)((step_ns - duration_ns % step_ns) / 1000000) + 1;
}

/* "45 s", "2 min 10 s", "3 h 25 min" */
static void duration_in_words(uint64_t seconds, char *text, size_t size)
{
	unsigned long long rounded = seconds - seconds % step_s(seconds);
	if (rounded < 60)
		snprintf(text, size, "%llu s", rounded);
	else if (rounded < 3600)
		snprintf(text, size, "%llu min %llu s", rounded / 60, rounded % 60);
	else
		snprintf(text, size, "%llu h %llu min", rounded / 3600, rounded / 60 % 60);
}

/* ---- the text */

static void describe_wait(const struct status_line *line, const struct tasks *tasks, char *text,
			  size_t size)
{
	char names[256];
	if (line->wait[0])
		snprintf(text, size, ": %s", line->wait);
	else if (line->job_state == TFC_JOB_STOPPING &&
		 tasks_list_alive(tasks, names, sizeof(names)))
		snprintf(text, size, ": waiting for %s to end", names);
}

static void describe_tasks(const struct tasks *tasks, char *text, size_t size)
{
	char names[256];
	size_t len;
	if (!tasks->count)
		return;
	memcpy(text, ": ", 3);
	tasks_count(tasks, text + 2, size / 2);
	len = strlen(text);
	if (tasks_list_unready(tasks, names, sizeof(names)))
		snprintf(text + len, size - len, "; waiting for %s", names);
}

static void describe(const struct status_line *line, const struct tasks *tasks, char *text,
		     size_t size)
{
	const char *gateway = line->gateway ? line->gateway : "the job's node";
	int len;
	if (line->reconnecting_ns) {
		snprintf(text, size, "reconnecting to %s%s", line->node[0] ? "node " : "",
			 line->node[0] ? line->node : gateway);
		return;
	}
	len = snprintf(text, size, "%s", tfc_job_state_name(line->job_state));
	if (line->job_state == TFC_JOB_PENDING || line->job_state == TFC_JOB_STOPPING)
		describe_wait(line, tasks, text + len, size - (size_t)len);
	else
		describe_tasks(tasks, text + len, size - (size_t)len);
}

void status_line_text(const struct status_line *line, const struct tasks *tasks, size_t columns,
		      char ret_text[STATUS_LINE_SIZE])
{
	static const char head[] = "tfc_run: ", cut[] = "...";
	char text[2048], duration[48];
	ret_text[0] = '\0';
	if (!shown_since_ns(line) || columns < LEAST_COLUMNS)
		return;
	duration_in_words(shown_ns(line) / SECOND_NS, duration, sizeof(duration));
	describe(line, tasks, text, sizeof(text));
	size_t room = columns - strlen(head) - strlen(duration) - 2;
	bool is_cut = text[fitting_len(text, room)] != '\0';
	size_t len = fitting_len(text, is_cut ? room - strlen(cut) : room);
	snprintf(ret_text, STATUS_LINE_SIZE, "%s%.*s%s  %s", head, (int)len, text,
		 is_cut ? cut : "", duration);
}
