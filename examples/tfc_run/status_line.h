/*
 * The text of the line at the bottom of a terminal: what runs, for how long, what is waited for.
 * output.c draws and erases it.
 */
#ifndef TFC_RUN_STATUS_LINE_H
#define TFC_RUN_STATUS_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <tfcluster/gateway.h>

#include "tasks.h"

struct status_line {
	const char *gateway; /* the address that is shown while reconnecting; NULL: none */
	uint32_t job_state;  /* as of the last event */
	/* Private to status_line.c: */
	uint64_t since_ns;        /* wall time from which the shown duration counts */
	char wait[1152];          /* what a pending or stopping job waits for; "": not reported */
	uint64_t reconnecting_ns; /* wall time since which nothing was received; 0: connected */
	char node[256];           /* the node that does not respond; "": not known */
};

void status_line_on_event(struct status_line *line, const tfc_event *event);

/* Writes the line of at most `columns` columns; "" for none. */
#define STATUS_LINE_SIZE 2304
void status_line_text(const struct status_line *line, const struct tasks *tasks, size_t columns,
		      char ret_text[STATUS_LINE_SIZE]);

/* Milliseconds until the shown duration changes; -1: no duration is shown. */
int status_line_wait_ms(const struct status_line *line);

#endif
