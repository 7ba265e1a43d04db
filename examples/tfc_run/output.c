#include "output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CLEAR_LINE "\r\033[K"

/* A task as far as it was told of. */
struct task {
	char type[64];
	uint32_t index;
	uint32_t attempt;
	uint32_t state; /* enum tfc_task_state */
	const char *color;
};

struct output {
	const struct options *options;
	struct stream out;
	struct stream err; /* unused when stderr is where stdout is */
	bool is_one_place;
	bool has_color[2]; /* of stdout, stderr */
	struct task *tasks;
	size_t task_count;
	size_t task_capacity;
	size_t latest; /* the task found last; output mostly comes in runs */
	uint32_t job_state;
	/* A line that was begun and goes on in a later event. */
	struct stream *open_on; /* NULL: none */
	size_t open_task;
	uint32_t open_stream;
	char held[256]; /* a task's failure that the next event may tell better */
	bool is_hushed; /* nothing more of our own is said */
	/* The line at the bottom. */
	bool has_status;
	char shown[512]; /* "" : none */
};

static bool is_one_place(void)
{
	struct stat out, err;
	return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
	       out.st_dev == err.st_dev && out.st_ino == err.st_ino && !S_ISREG(out.st_mode);
}

static bool wants_color(const struct options *options, const struct stream *stream)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	if (options->color != COLOR_AUTO)
		return options->color == COLOR_ALWAYS;
	return stream->is_terminal && !(no_color && *no_color) &&
	       !(term && strcmp(term, "dumb") == 0);
}

struct output *output_open(const struct options *options)
{
	struct output *output = calloc(1, sizeof(*output));
	if (!output)
		return NULL;
	output->options = options;
	output->is_one_place = is_one_place();
	stream_open(&output->out, STDOUT_FILENO);
	stream_open(&output->err, STDERR_FILENO);
	output->has_color[0] = wants_color(options, &output->out);
	output->has_color[1] = wants_color(options, &output->err);
	output->has_status = output->err.is_terminal && !options->is_quiet && !options->is_json;
	return output;
}

void output_close(struct output *output)
{
	if (!output)
		return;
	stream_close(&output->out);
	stream_close(&output->err);
	free(output->tasks);
	free(output);
}

struct stream *output_stdout(struct output *output)
{
	return &output->out;
}

struct stream *output_stderr(struct output *output)
{
	return output->is_one_place ? &output->out : &output->err;
}

/* ---- tasks */

static const char *color_of(size_t number)
{
	static const char *const colors[] = {"\033[36m", "\033[33m", "\033[32m",
					     "\033[35m", "\033[34m", "\033[96m"};
	return colors[number % (sizeof(colors) / sizeof(colors[0]))];
}

static bool is_task(const struct task *task, const tfc_event *event)
{
	return task->index == event->task_index && strcmp(task->type, event->task_type) == 0;
}

static struct task *find_task(struct output *output, const tfc_event *event)
{
	if (output->latest < output->task_count && is_task(&output->tasks[output->latest], event))
		return &output->tasks[output->latest];
	for (output->latest = 0; output->latest < output->task_count; output->latest++)
		if (is_task(&output->tasks[output->latest], event))
			return &output->tasks[output->latest];
	if (output->task_count == output->task_capacity) {
		size_t capacity = output->task_capacity * 2 + 16;
		struct task *tasks = realloc(output->tasks, capacity * sizeof(*tasks));
		if (!tasks)
			abort(); /* the guard stops the tasks */
		output->tasks = tasks;
		output->task_capacity = capacity;
	}
	struct task *task = &output->tasks[output->task_count];
	*task = (struct task){.index = event->task_index, .color = color_of(output->task_count)};
	snprintf(task->type, sizeof(task->type), "%s", event->task_type);
	output->task_count++;
	return task;
}

static bool is_alive(const struct task *task)
{
	return task->state >= TFC_TASK_STARTING && task->state <= TFC_TASK_READY;
}

static bool is_waited_for(const struct task *task)
{
	return task->state < TFC_TASK_READY;
}

/* Lists tasks, as many as fit into `size` bytes. Returns how many there are. */
static size_t list_tasks(const struct output *output, bool (*is_listed)(const struct task *),
			 bool has_states, char *text, size_t size)
{
	size_t count = 0, listed = 0, len = 0;
	text[0] = '\0';
	for (size_t i = 0; i < output->task_count; i++) {
		const struct task *task = &output->tasks[i];
		const char *state = task->state == TFC_TASK_RUNNING
					    ? "not listening"
					    : tfc_task_state_name(task->state);
		char name[128];
		if (!is_listed(task))
			continue;
		count++;
		int n = snprintf(name, sizeof(name), "%s%s/%u%s%s%s", listed ? ", " : "",
				 task->type, task->index, has_states ? " (" : "",
				 has_states ? state : "", has_states ? ")" : "");
		if (listed + 1 < count || len + (size_t)n + 20 > size)
			continue; /* room is kept for "and N more" */
		memcpy(text + len, name, (size_t)n + 1);
		len += (size_t)n;
		listed++;
	}
	if (listed < count)
		snprintf(text + len, size - len, "%s%zu more", listed ? " and " : "",
			 count - listed);
	return count;
}

size_t output_alive(const struct output *output, char *names, size_t size)
{
	return list_tasks(output, is_alive, false, names, size);
}

/* ---- the line at the bottom */

static void clear_status(struct output *output)
{
	if (output->shown[0])
		stream_print(output_stderr(output), CLEAR_LINE);
	output->shown[0] = '\0';
}

static size_t terminal_width(const struct output *output)
{
	struct winsize size;
	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return 80;
	return size.ws_col < sizeof(output->shown) ? size.ws_col : sizeof(output->shown);
}

/* What the bottom line should say; "" for nothing. */
static void status_text(const struct output *output, char *text, size_t size)
{
	bool is_stopping = output->job_state == TFC_JOB_STOPPING;
	const char *head = is_stopping ? "tfc_run: stopping " : "tfc_run: waiting for ";
	size_t len = strlen(head);
	text[0] = '\0';
	if (output->job_state == 0 || output->job_state > TFC_JOB_STOPPING || size < len + 32)
		return;
	memcpy(text, head, len);
	if (list_tasks(output, is_stopping ? is_alive : is_waited_for, !is_stopping, text + len,
		       size - len) == 0)
		text[0] = '\0';
}

static void draw_status(struct output *output)
{
	struct stream *err = output_stderr(output);
	char text[sizeof(output->shown)] = "";
	if (!output->has_status || output->open_on || stream_pending(err))
		return;
	status_text(output, text, terminal_width(output));
	if (strcmp(text, output->shown) == 0)
		return;
	clear_status(output);
	memcpy(output->shown, text, sizeof(text));
	stream_print(err, "%s", text);
}

void output_flush(struct output *output)
{
	stream_flush(&output->out);
	stream_flush(&output->err);
	draw_status(output);
	stream_flush(output_stderr(output));
}

/* ---- lines */

/* Ends a line that was begun, so that another can follow. */
static void end_open_line(struct output *output)
{
	if (output->open_on)
		stream_add(output->open_on, "\n", 1);
	output->open_on = NULL;
}

static void say(struct output *output, const char *format, va_list args)
{
	char text[1024];
	vsnprintf(text, sizeof(text), format, args);
	if (output->is_hushed)
		return;
	clear_status(output);
	end_open_line(output);
	stream_print(output_stderr(output), "tfc_run: %s\n", text);
}

void output_say(struct output *output, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	say(output, format, args);
	va_end(args);
}

void output_notice(struct output *output, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	if (!output->options->is_quiet && !output->options->is_json)
		say(output, format, args);
	va_end(args);
}

void output_hush(struct output *output)
{
	output->is_hushed = true;
	output->has_status = false;
}

/* "2026-01-31T12:00:00.000000Z" of a time on the wall clock. */
#define TIME_TEXT_SIZE 40
static void time_text(uint64_t time_ns, char text[TIME_TEXT_SIZE])
{
	time_t seconds = (time_t)(time_ns / 1000000000u);
	struct tm utc;
	size_t len = gmtime_r(&seconds, &utc)
			     ? strftime(text, TIME_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &utc)
			     : 0;
	snprintf(text + len, TIME_TEXT_SIZE - len, ".%06uZ",
		 (unsigned)(time_ns % 1000000000u / 1000u));
}

static void begin_line(struct output *output, struct stream *to, const struct task *task,
		       const tfc_event *event)
{
	bool is_err = event->stream == TFC_STREAM_STDERR;
	bool has_color = output->has_color[is_err];
	char time[TIME_TEXT_SIZE], attempt[16] = "";
	if (event->attempt > 1)
		snprintf(attempt, sizeof(attempt), "#%u", event->attempt);
	if (!output->options->has_no_prefix)
		stream_print(to, "%s[%s/%u%s]%s ", has_color ? task->color : "", task->type,
			     task->index, attempt, has_color ? "\033[0m" : "");
	if (output->options->has_timestamps) {
		time_text(event->time_ns, time);
		stream_print(to, "%s ", time);
	}
}

static void show_output(struct output *output, const tfc_event *event)
{
	bool is_err = event->stream == TFC_STREAM_STDERR;
	struct stream *to = is_err ? output_stderr(output) : &output->out;
	struct task *task = find_task(output, event);
	size_t number = (size_t)(task - output->tasks);
	bool goes_on = output->open_on == to && output->open_task == number &&
		       output->open_stream == event->stream;
	if (to == output_stderr(output)) /* where the line at the bottom is */
		clear_status(output);
	if (!goes_on) {
		end_open_line(output);
		begin_line(output, to, task, event);
	}
	stream_add(to, event->data, event->data_len);
	if (!event->is_partial)
		stream_add(to, "\n", 1);
	output->open_on = event->is_partial ? to : NULL;
	output->open_task = number;
	output->open_stream = event->stream;
}

/* ---- events */

static void show_task(struct output *output, const tfc_event *event)
{
	struct task *task = find_task(output, event);
	task->state = event->task_state;
	task->attempt = event->attempt;
	if (event->task_state == TFC_TASK_READY && strcmp(task->type, "tensorboard") == 0)
		output_notice(output, "TensorBoard: http://%s/", event->address);
	if (event->task_state == TFC_TASK_FAILED || event->task_state == TFC_TASK_LOST)
		snprintf(output->held, sizeof(output->held), "%s", event->text);
}

/* A failure is a line of its own, unless it is why the job restarts or ends: then that is. */
static void tell_held(struct output *output, const tfc_event *next)
{
	bool is_told_again = strncmp(next->text, output->held, strlen(output->held)) == 0 &&
			     (next->kind == TFC_EVENT_JOB || next->kind == TFC_EVENT_END);
	if (output->held[0] && !is_told_again)
		output_notice(output, "%s", output->held);
	output->held[0] = '\0';
}

static void show_job(struct output *output, const tfc_event *event)
{
	output->job_state = event->job_state;
	if (event->job_state == TFC_JOB_RESTARTING)
		output_notice(output, "%s", event->text[0] ? event->text : "restarting");
}

/* The reason stands in the line too: a status such as 124 can mean two things. */
static void show_end(struct output *output, const tfc_event *event)
{
	output->job_state = event->job_state;
	if (event->job_state == TFC_JOB_SUCCEEDED)
		output_notice(output, "succeeded");
	else if (event->reason == TFC_END_STOPPED)
		output_say(output, "%s", event->text);
	else
		output_say(output, "%s (%s): %s", tfc_job_state_name(event->job_state),
			   tfc_end_reason_name(event->reason), event->text);
}

static void show_json(struct output *output, const tfc_event *event)
{
	char *json;
	int code = tfc_event_json(event, &json);
	if (code == TFC_ENOMEM)
		abort(); /* the guard stops the tasks */
	if (code < 0)
		return;
	stream_print(&output->out, "%s\n", json);
	tfc_free(json);
}

void output_event(struct output *output, const tfc_event *event)
{
	if (output->options->is_json)
		show_json(output, event);
	tell_held(output, event);
	switch (event->kind) {
	case TFC_EVENT_JOB:
		show_job(output, event);
		break;
	case TFC_EVENT_TASK:
		show_task(output, event);
		break;
	case TFC_EVENT_OUTPUT:
		if (!output->options->is_json)
			show_output(output, event);
		break;
	case TFC_EVENT_GAP:
		if (!output->options->is_json)
			output_say(output, "%s/%u: %llu bytes lost", event->task_type,
				   event->task_index, (unsigned long long)event->data_len);
		break;
	case TFC_EVENT_END:
		show_end(output, event);
		break;
	}
}
