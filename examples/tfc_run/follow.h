/*
 * Follows a job that runs elsewhere: prints its output and states until its end, or until the user
 * detaches. Used by `start`, `attach` and `logs`.
 */
#ifndef TFC_RUN_FOLLOW_H
#define TFC_RUN_FOLLOW_H

#include "client.h"
#include "output.h"

struct follow_options {
	const char *job;
	const char *cursor;      /* only events after it; NULL: from the start */
	const char *task;        /* only its output; NULL: of all tasks */
	uint64_t since_ns;       /* only output from this time on; 0: all */
	uint32_t attempt;        /* only its output; 0: of all attempts */
	uint32_t tail;           /* at most so many lines of existing output per task; 0: all */
	bool is_only_output;     /* no states: `logs` */
	bool ends_when_live;     /* when all existing output has been shown */
	bool stops_on_interrupt; /* Ctrl-C stops the job */
	int signals;             /* the descriptor from signals_open */
};

/* Returns the exit status: the job's, or 0 for `logs`. */
int follow(struct client *client, struct output *output, const struct follow_options *options);

/* Stops the job of `output`, where an error is printed. Also for `local`. */
void follow_stop_job(tfc_gateway *gateway, const tfc_ctx *ctx, const char *job,
		     const tfc_stop_options *options, struct output *output);

#endif
