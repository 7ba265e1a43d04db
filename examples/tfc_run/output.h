/*
 * What a user sees of a job: its tasks' lines, tfc_run's own lines and, on a terminal, a status
 * line at the bottom. With --json, events instead.
 */
#ifndef TFC_RUN_OUTPUT_H
#define TFC_RUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <tfcluster/gateway.h>

#include "options.h"
#include "status_line.h"
#include "stream.h"
#include "tasks.h"
#include "tfc_run.h"
#include "unfinished.h"

/* ---- output_options.c: options for the output, shared by `local`, `start`, `attach` and `logs` */

enum color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

struct output_options {
	enum color color;
	bool has_timestamps;
	bool has_no_prefix;
	bool is_quiet;
	bool is_json;
};

extern const struct option output_options[];
extern const size_t output_option_count;

/* The table for a command line; `target` is a struct output_options. */
#define OUTPUT_OPTION_TABLE(target)                         \
	{                                                   \
		output_options, output_option_count, target \
	}

/* The help's footer about exit statuses, for a command that exits with the status of its job. */
#define EXIT_STATUS_HELP                                                                  \
	"The exit status is that of the task that decides the job's end, or 124 after a " \
	"deadline,\n125 when tfc_run itself failed, 126 and 127 when the program is not " \
	"executable or not\nfound, 128+N after signal N."

/* ---- output.c */

struct output {
	const struct output_options *options;
	/* Where a task's log is after the end, for the last line. Set after output_open. */
	const char *log_dir; /* in a directory below this one; NULL: in none */
	bool has_kept_logs;  /* in the node: "tfc_run logs" shows it */
	bool has_status;     /* a terminal has a status line */
	struct stream *out;
	/* The same as out if both lead to one terminal or pipe, so that lines stay in order. */
	struct stream *err;
	/* Private to output.c: */
	struct stream streams[2];
	bool has_color[2]; /* of stdout, stderr */
	struct tasks tasks;
	struct status_line line;
	struct stream *open_on; /* an unfinished line that a later event continues; NULL: none */
	size_t open_task;
	uint32_t open_stream;
	/* Messages about a task, as long as the text of an event may be: the last one that was
	 * printed, and a failure that the next event of the job may repeat. */
	char notice[1152], held[1152];
	uint64_t held_time_ns;         /* when the failure occurred */
	uint64_t held_until_ns;        /* then it is printed; 0: none is held back */
	uint64_t time_ns;              /* of the event that is printed; 0: none, it is now */
	bool is_hushed;                /* no more lines of tfc_run's own */
	bool is_paused;                /* the subscription whose events are printed */
	bool is_screen;                /* `err` shows the status line and unfinished lines */
	char status[STATUS_LINE_SIZE]; /* the status line as it is shown; "": none */
	struct unfinished unfinished;
	size_t drawn_rows; /* of unfinished lines, above the status line */
};

void output_open(struct output *output, const struct output_options *options);
void output_close(struct output *output);

void output_event(struct output *output, const tfc_event *event);

/* Prints an event of `sub`, and pauses `sub` while standard output has too much to write: a slow
 * reader delays this process, but no task. output_resume resumes it when all is written. */
void output_sub_event(struct output *output, tfc_sub *sub, const tfc_event *event);
void output_resume(struct output *output, tfc_sub *sub);

/* Prints a line of tfc_run's own; a notice is not shown with --quiet or --json. */
enum weight { NOTICE, ERROR };
void output_message(struct output *output, enum weight weight, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Whether the subscription is to report unfinished lines. */
bool output_wants_progress(const struct output *output);

/* Erases the status line and the unfinished lines and draws none any more. */
void output_end_status(struct output *output);

/* Suppresses all further lines of tfc_run's own. */
void output_hush(struct output *output);

/* Updates the status line and writes what can be written without blocking. */
void output_flush(struct output *output);

/* Whether nothing is left to write. */
bool output_is_written(const struct output *output);

/* Waits for the descriptors of signals and context, until more can be written or until the status
 * line changes. False: poll has failed. */
bool output_poll(const struct output *output, int signals, tfc_ctx *ctx, int timeout_ms);

/* UTC with microseconds: "2026-01-31T12:00:00.000000Z". */
#define TIME_SIZE 48
void time_text(uint64_t time_ns, char ret_text[TIME_SIZE]);

/* The current time in nanoseconds since 1970, as in events. */
uint64_t wall_ns(void);

/* Lists the tasks that have a process, "worker/0, worker/1 and 7 more"; returns their number. */
size_t output_alive(const struct output *output, char *names, size_t size);

#endif
