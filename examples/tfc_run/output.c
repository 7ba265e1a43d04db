#include "output.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <tfcluster/log.h>
#include <time.h>
#include <unistd.h>

#define PENDING_MAX 262144 /* unwritten bytes; beyond that the subscription is paused */
#define CLEAR_LINE "\r\033[K"
/* How long a failure is held back, because the next event of the job may repeat it. */
#define HELD_MS 300

static bool is_one_place(void)
{
	struct stat out, err;
	return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
	       out.st_dev == err.st_dev && out.st_ino == err.st_ino && !S_ISREG(out.st_mode);
}

static bool is_dumb(void)
{
	const char *term = getenv("TERM");
	return term && strcmp(term, "dumb") == 0;
}

static bool wants_color(const struct output_options *options, const struct stream *stream)
{
	const char *no_color = getenv("NO_COLOR");
	if (options->color != COLOR_AUTO)
		return options->color == COLOR_ALWAYS;
	return stream->is_terminal && !(no_color && *no_color) && !is_dumb();
}

void output_open(struct output *output, const struct output_options *options)
{
	*output = (struct output){.options = options};
	output->out = &output->streams[0];
	output->err = &output->streams[is_one_place() ? 0 : 1];
	stream_open(output->out, STDOUT_FILENO);
	if (output->err != output->out)
		stream_open(output->err, STDERR_FILENO);
	output->has_color[0] = wants_color(options, output->out);
	output->has_color[1] = wants_color(options, output->err);
	output->is_screen = output->err->is_terminal && !options->is_json && !is_dumb();
}

void output_close(struct output *output)
{
	free(output->streams[0].data);
	free(output->streams[1].data);
	tasks_free(&output->tasks);
	unfinished_remove_all(&output->unfinished);
}

size_t output_alive(const struct output *output, char *names, size_t size)
{
	return tasks_list_alive(&output->tasks, names, size);
}

/* ---- the status line, below the unfinished lines */

static struct winsize screen_size(void)
{
	struct winsize window;
	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) < 0 || !window.ws_col || !window.ws_row)
		window = (struct winsize){.ws_col = 80, .ws_row = 24};
	return window;
}

/* The shell, or another program, uses the terminal now. */
static bool is_in_background(void)
{
	pid_t foreground = tcgetpgrp(STDERR_FILENO);
	return foreground > 0 && foreground != getpgrp();
}

/* In the background, what was drawn is not erased: other lines may be below it by now. */
static void clear_status(struct output *output)
{
	bool is_drawn = (output->status[0] || output->drawn_rows) && !is_in_background();
	if (is_drawn)
		stream_print(output->err, CLEAR_LINE);
	for (; is_drawn && output->drawn_rows; output->drawn_rows--)
		stream_print(output->err, "\033[A\033[K");
	output->drawn_rows = 0;
	output->status[0] = '\0';
}

static void draw_status(struct output *output)
{
	const struct winsize screen = screen_size();
	char text[sizeof(output->status)] = "";
	if (!output->is_screen || output->open_on || stream_pending(output->err))
		return;
	if (is_in_background()) {
		clear_status(output);
		return;
	}
	if (output->has_status)
		status_line_text(&output->line, &output->tasks, screen.ws_col - 1u, text);
	bool is_cleared = output->unfinished.count && !output->drawn_rows;
	if (strcmp(text, output->status) == 0 && !output->unfinished.is_changed && !is_cleared)
		return;
	clear_status(output);
	output->drawn_rows = unfinished_draw(&output->unfinished, output->err, screen.ws_row - 1,
					     screen.ws_col);
	memcpy(output->status, text, sizeof(text));
	if (text[0])
		stream_print(output->err, WRAP_OFF "%s" WRAP_ON, text);
}

/* Prints the failure that is held back. */
static void print_held(struct output *output)
{
	uint64_t time_ns = output->time_ns;
	if (!output->held_until_ns)
		return;
	output->time_ns = output->held_time_ns;
	output_message(output, NOTICE, "%s", output->held);
	output->time_ns = time_ns;
	memcpy(output->notice, output->held, sizeof(output->notice));
	output->held_until_ns = 0;
}

void output_flush(struct output *output)
{
	if (now_ns() >= output->held_until_ns)
		print_held(output);
	stream_flush(output->out);
	stream_flush(output->err);
	draw_status(output);
	stream_flush(output->err);
}

bool output_is_written(const struct output *output)
{
	return stream_pending(output->out) == 0 && stream_pending(output->err) == 0;
}

bool output_poll(const struct output *output, int signals, tfc_ctx *ctx, int timeout_ms)
{
	const struct stream *out = output->out, *err = output->err;
	struct pollfd fds[] = {
		{.fd = signals, .events = POLLIN},
		{.fd = ctx ? tfc_ctx_fd(ctx) : -1, .events = POLLIN},
		{.fd = stream_pending(out) ? out->fd : -1, .events = POLLOUT},
		{.fd = stream_pending(err) ? err->fd : -1, .events = POLLOUT},
	};
	int redraw_ms = output->is_screen && output->has_status && !output->open_on
				? status_line_wait_ms(&output->line)
				: -1;
	if (timeout_ms < 0 || (redraw_ms >= 0 && redraw_ms < timeout_ms))
		timeout_ms = redraw_ms;
	if (output->held_until_ns && (timeout_ms < 0 || timeout_ms > HELD_MS))
		timeout_ms = HELD_MS;
	return poll(fds, 4, timeout_ms) >= 0 || errno == EINTR;
}

/* ---- lines */

/* Ends an unfinished line, so that another line can follow. */
static void end_open_line(struct output *output)
{
	if (output->open_on)
		stream_add(output->open_on, "\n", 1);
	output->open_on = NULL;
}

uint64_t wall_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void time_text(uint64_t time_ns, char ret_text[TIME_SIZE])
{
	time_t seconds = (time_t)(time_ns / 1000000000u);
	struct tm utc;
	char text[24] = "";
	if (gmtime_r(&seconds, &utc))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(ret_text, TIME_SIZE, "%s.%06uZ", text, (unsigned)(time_ns % 1000000000u / 1000u));
}

static void add_time(struct stream *to, uint64_t time_ns)
{
	char text[TIME_SIZE];
	time_text(time_ns, text);
	stream_print(to, "%s ", text);
}

void output_message(struct output *output, enum weight weight, const char *format, ...)
{
	char text[2048];
	va_list args;
	if (output->is_hushed ||
	    (weight == NOTICE && (output->options->is_quiet || output->options->is_json)))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	clear_status(output);
	end_open_line(output);
	char *line = message_line(text);
	stream_print(output->err, "tfc_run: ");
	if (output->options->has_timestamps)
		add_time(output->err, output->time_ns ? output->time_ns : wall_ns());
	stream_print(output->err, "%s\n", line);
	free(line);
}

void output_end_status(struct output *output)
{
	clear_status(output);
	unfinished_remove_all(&output->unfinished);
	output->is_screen = false;
}

void output_hush(struct output *output)
{
	output->is_hushed = true;
	output_end_status(output);
}

bool output_wants_progress(const struct output *output)
{
	return output->is_screen;
}

static void begin_line(struct output *output, struct stream *to, size_t number,
		       const tfc_event *event)
{
	static const char *const colors[] = {"\033[36m", "\033[33m", "\033[32m",
					     "\033[35m", "\033[34m", "\033[96m"};
	bool has_color = output->has_color[event->stream == TFC_STREAM_STDERR];
	char attempt[16] = "";
	if (event->attempt > 1)
		snprintf(attempt, sizeof(attempt), "#%u", event->attempt);
	if (!output->options->has_no_prefix)
		stream_print(to, "%s[%s/%u%s]%s ", has_color ? colors[number % 6] : "",
			     output->tasks.items[number].type, event->task_index, attempt,
			     has_color ? "\033[0m" : "");
	if (output->options->has_timestamps)
		add_time(to, event->time_ns);
}

static void show_output(struct output *output, const tfc_event *event)
{
	struct stream *to = event->stream == TFC_STREAM_STDERR ? output->err : output->out;
	size_t number = tasks_find(&output->tasks, event);
	bool goes_on = output->open_on && output->open_task == number &&
		       output->open_stream == event->stream;
	unfinished_remove(&output->unfinished, number, event->stream);
	if (to == output->err) /* which has the status line */
		clear_status(output);
	if (!goes_on) {
		end_open_line(output);
		begin_line(output, to, number, event);
	}
	stream_add(to, event->data, event->data_len);
	if (!event->is_partial)
		stream_add(to, "\n", 1);
	output->open_on = event->is_partial ? to : NULL;
	output->open_task = number;
	output->open_stream = event->stream;
}

/* As of a bar that its task has erased. */
static bool is_blank(const char *text, size_t len)
{
	while (len && text[len - 1] == ' ')
		len--;
	return !len;
}

static void show_progress(struct output *output, const tfc_event *event)
{
	const struct stream *to = event->stream == TFC_STREAM_STDERR ? output->err : output->out;
	size_t number = tasks_find(&output->tasks, event);
	struct stream prefix = {.fd = -1}; /* never written: a buffer */
	if (!output->is_screen || to != output->err)
		return;
	if (is_blank(event->data, event->data_len)) {
		unfinished_remove(&output->unfinished, number, event->stream);
		return;
	}
	begin_line(output, &prefix, number, event);
	stream_add(&prefix, "", 1);
	unfinished_set(&output->unfinished, number, prefix.data, event);
	free(prefix.data);
}

static void show_gap(struct output *output, const tfc_event *event)
{
	if (event->text[0])
		output_message(output, ERROR, "%s/%u: %s", event->task_type, event->task_index,
			       event->text);
	else
		output_message(output, ERROR, "%s/%u: %llu bytes lost", event->task_type,
			       event->task_index, (unsigned long long)event->data_len);
}

/* ---- events */

static void show_json(struct output *output, const tfc_event *event)
{
	char *json;
	int code = tfc_event_json(event, &json);
	if (code == TFC_ENOMEM)
		die_without_memory();
	if (code < 0)
		return;
	stream_print(output->out, "%s\n", json);
	tfc_free(json);
}

/* Of an attempt that ended because another task had ended, whose end is reported. */
static bool is_consequence(const tfc_event *event)
{
	return event->task_state >= TFC_TASK_EXITED && event->reason == TFC_END_CONSEQUENCE;
}

static void show_task(struct output *output, const tfc_event *event)
{
	size_t number = tasks_find(&output->tasks, event);
	output->tasks.items[number].state = event->task_state;
	if (event->task_state >= TFC_TASK_EXITED)
		unfinished_remove(&output->unfinished, number, 0);
	bool is_notice = event->task_state < TFC_TASK_EXITED && event->text[0];
	bool is_failed = event->task_state == TFC_TASK_FAILED || event->task_state == TFC_TASK_LOST;
	if (is_notice) /* of a task that hangs: there may be no other event for long */
		output_message(output, NOTICE, "%s", event->text);
	else if (event->task_state == TFC_TASK_READY &&
		 strcmp(event->task_type, "tensorboard") == 0)
		output_message(output, NOTICE, "TensorBoard: http://%s/", event->address);
	if (is_notice)
		snprintf(output->notice, sizeof(output->notice), "%s", event->text);
	if (is_failed && event->text[0] && event->reason != TFC_END_STALLED &&
	    !is_consequence(event)) {
		snprintf(output->held, sizeof(output->held), "%s", event->text);
		output->held_time_ns = event->time_ns;
		output->held_until_ns = now_ns() + HELD_MS * 1000000ull;
	}
}

/* Prints the failure that is held back, unless the next event of the job repeats it as the reason
 * why the job restarts or ends. Before it come the ends of the tasks that end because of it, and
 * their output. */
static void check_held(struct output *output, const tfc_event *next)
{
	bool is_of_job = next->kind == TFC_EVENT_JOB || next->kind == TFC_EVENT_END;
	if (is_of_job && strncmp(next->text, output->held, strlen(output->held)) == 0)
		output->held_until_ns = 0;
	else if (is_of_job || (next->kind == TFC_EVENT_TASK && !is_consequence(next)))
		print_held(output);
}

/* "; ignored failures: evaluator/0, worker/1": each ignored failure begins with the task's name. */
static void list_ignored(const tfc_event *event, char *text, size_t size)
{
	size_t len = 0;
	text[0] = '\0';
	for (const char *const *line = event->ignored_failures; line && *line && len < size;
	     line++) {
		bool is_digit = **line >= '0' && **line <= '9'; /* "5 more" */
		len += (size_t)snprintf(text + len, size - len, "%s%.*s",
					line == event->ignored_failures ? "; ignored failures: "
									: ", ",
					(int)(is_digit ? strlen(*line) : strcspn(*line, " ")),
					*line);
	}
}

/* Where the log of the task that decided the end is: "; its log: ..."; "" if it is not kept or
 * empty. */
static void locate_log(const struct output *output, const tfc_event *event, char *text, size_t size)
{
	char attempt[32] = "";
	text[0] = '\0';
	if (event->job_state != TFC_JOB_FAILED || !event->task_type[0] || !event->log_tail ||
	    !event->log_tail[0])
		return;
	if (event->attempt > 1)
		snprintf(attempt, sizeof(attempt), " --attempt %u", event->attempt);
	if (output->log_dir)
		snprintf(text, size, "; its log: %s/%s/%s-%u.*.log", output->log_dir, event->job,
			 event->task_type, event->task_index);
	else if (output->has_kept_logs)
		snprintf(text, size, "; its log: \"tfc_run logs %s %s/%u%s\"", event->job,
			 event->task_type, event->task_index, attempt);
}

/* The line includes the reason, because a status such as 124 can mean two things. */
static void show_end(struct output *output, const tfc_event *event)
{
	char ignored[512], log[512];
	list_ignored(event, ignored, sizeof(ignored));
	locate_log(output, event, log, sizeof(log));
	if (event->job_state == TFC_JOB_SUCCEEDED)
		output_message(output, ignored[0] ? ERROR : NOTICE, "succeeded%s", ignored);
	else if (event->reason == TFC_END_STOPPED)
		output_message(output, ERROR, "%s%s", event->text, ignored);
	else
		output_message(output, ERROR, "%s (%s): %s%s%s",
			       tfc_job_state_name(event->job_state),
			       tfc_end_reason_name(event->reason), event->text, ignored, log);
}

/* Prints nothing if the message about the task that is the cause had the same text. */
static void show_restart(struct output *output, const tfc_event *event)
{
	if (!event->text[0])
		output_message(output, NOTICE, "restarting");
	else if (strcmp(event->text, output->notice) != 0)
		output_message(output, NOTICE, "%s", event->text);
	output->notice[0] = '\0';
}

void output_event(struct output *output, const tfc_event *event)
{
	bool is_json = output->options->is_json;
	/* The text of the event that begins to stop the job is not printed: the last line repeats
	 * it. */
	bool was_stopping = output->line.job_state == TFC_JOB_STOPPING;
	output->time_ns = event->time_ns;
	if (is_json)
		show_json(output, event);
	check_held(output, event);
	status_line_on_event(&output->line, event);
	if (event->kind == TFC_EVENT_TASK)
		show_task(output, event);
	else if (event->kind == TFC_EVENT_OUTPUT && !is_json)
		show_output(output, event);
	else if (event->kind == TFC_EVENT_PROGRESS)
		show_progress(output, event);
	else if (event->kind == TFC_EVENT_GAP && !is_json)
		show_gap(output, event);
	else if (event->kind == TFC_EVENT_END)
		show_end(output, event);
	else if (event->kind == TFC_EVENT_RECONNECTING)
		output_message(output, ERROR, "%s", event->text);
	else if (event->kind == TFC_EVENT_RECONNECTED)
		output_message(output, NOTICE, "%s", event->text);
	else if (event->kind == TFC_EVENT_JOB && event->job_state == TFC_JOB_RESTARTING)
		show_restart(output, event);
	else if (event->kind == TFC_EVENT_JOB &&
		 (event->job_state <= TFC_JOB_RUNNING || was_stopping) && event->text[0])
		output_message(output, NOTICE, "%s", event->text);
	output->time_ns = 0;
}

void output_sub_event(struct output *output, tfc_sub *sub, const tfc_event *event)
{
	output_event(output, event);
	if (stream_pending(output->out) > PENDING_MAX)
		output_flush(output);
	if (stream_pending(output->out) > PENDING_MAX) {
		tfc_sub_pause(sub);
		output->is_paused = true;
	}
}

void output_resume(struct output *output, tfc_sub *sub)
{
	if (!output->is_paused || stream_pending(output->out))
		return;
	output->is_paused = false;
	tfc_sub_resume(sub);
}
