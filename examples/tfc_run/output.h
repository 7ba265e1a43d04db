/*
 * What a user sees of a job: its tasks' lines, tfc_run's own, and on a terminal one line at the
 * bottom that says what the job waits for. With --json, events instead.
 */
#ifndef TFC_RUN_OUTPUT_H
#define TFC_RUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <tfcluster/gateway.h>
#include <tfcluster/log.h>

#include "options.h"
#include "stream.h"

struct output;

struct output *output_open(const struct options *options); /* NULL: out of memory */
void output_close(struct output *output);

void output_event(struct output *output, const tfc_event *event);

/* A line of tfc_run's own; a notice is not shown with --quiet or --json. */
void output_say(struct output *output, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void output_notice(struct output *output, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* From now on nothing of tfc_run's own is said. */
void output_hush(struct output *output);

/* Brings the line at the bottom up to date and writes what can be written at once. */
void output_flush(struct output *output);

/* The streams. They are one and the same when both lead to one place, so that lines stay in order.
 */
struct stream *output_stdout(struct output *output);
struct stream *output_stderr(struct output *output);

/* Names the tasks that have a process, "worker/0, worker/1 and 7 more"; returns their number. */
size_t output_alive(const struct output *output, char *names, size_t size);

#endif
