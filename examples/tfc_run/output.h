/*
 * What a user sees of a job: its tasks' lines, tfc_run's own, and on a terminal one line at the
 * bottom that says what the job waits for. With --json, events instead.
 */
#ifndef TFC_RUN_OUTPUT_H
#define TFC_RUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <tfcluster/gateway.h>

#include "options.h"
#include "stream.h"
#include "tfc_run.h"

/* ---- output_options.c: how it is shown; `local`, `start`, `attach` and `logs` share them */

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

/* What the help of a command that ends as its job does says about that. */
#define EXIT_STATUS_HELP                                                                  \
	"The exit status is that of the task that decides the job's end, or 124 after a " \
	"deadline,\n125 when tfc_run itself failed, 126 and 127 when the program is not " \
	"executable or not\nfound, 128+N after signal N."

/* ---- output.c */

struct output {
	const struct output_options *options;
	struct stream *out;
	struct stream *err; /* the same as out when both lead to one place: lines stay in order */
	/* The rest is for output.c. */
	struct stream streams[2];
	bool has_color[2];  /* of stdout, stderr */
	struct task *tasks; /* those that were told of */
	size_t task_count;
	uint32_t job_state;
	struct stream *open_on; /* a line that was begun and goes on in a later event; NULL: none */
	size_t open_task;
	uint32_t open_stream;
	char held[256]; /* a task's failure that the next event may tell better */
	bool is_hushed; /* nothing more of our own is said */
	bool has_status;
	char status[512]; /* the line at the bottom as it is shown; "" : none */
};

void output_open(struct output *output, const struct output_options *options);
void output_close(struct output *output);

void output_event(struct output *output, const tfc_event *event);

/* A line of tfc_run's own; a notice is not shown with --quiet or --json. */
enum weight { NOTICE, ERROR };
void output_say(struct output *output, enum weight weight, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* From now on nothing of tfc_run's own is said. */
void output_hush(struct output *output);

/* Brings the line at the bottom up to date and writes what can be written at once. */
void output_flush(struct output *output);

/* UTC with microseconds: "2026-01-31T12:00:00.000000Z". */
#define TIME_SIZE 48
void time_text(uint64_t time_ns, char ret_text[TIME_SIZE]);

/* Nanoseconds since 1970, as events have them. */
uint64_t wall_ns(void);

/* Names the tasks that have a process, "worker/0, worker/1 and 7 more"; returns their number. */
size_t output_alive(const struct output *output, char *names, size_t size);

#endif
