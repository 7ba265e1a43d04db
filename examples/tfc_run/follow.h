/*
 * Following a job that runs elsewhere: its output and states until its end, or until somebody has
 * seen enough. What `start`, `attach` and `logs` do.
 */
#ifndef TFC_RUN_FOLLOW_H
#define TFC_RUN_FOLLOW_H

#include "client.h"
#include "output.h"

struct follow_options {
	const char *job;
	const char *cursor;      /* only what comes after it; NULL: from the start */
	const char *task;        /* only its output; NULL: of all */
	uint64_t since_ns;       /* only output since then; 0: all */
	uint32_t attempt;        /* only its output; 0: of all */
	uint32_t tail;           /* of each task only so many lines of what there is; 0: all */
	bool is_only_output;     /* no states: `logs` */
	bool ends_when_live;     /* when all that there is was shown */
	bool stops_on_interrupt; /* Ctrl-C stops the job */
	int signals;             /* of signals_open */
};

/* Returns the exit status: the job's, or of `logs` 0. */
int follow(struct client *client, struct output *output, const struct follow_options *options);

#endif
