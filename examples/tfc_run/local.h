/*
 * One job that is submitted to a node of this process, and followed to its end: the core of `local`
 * and, on rank 0, of `allocation`.
 */
#ifndef TFC_RUN_LOCAL_H
#define TFC_RUN_LOCAL_H

#include <tfcluster/tfcluster.h>

#include "local_options.h"

struct local {
	const struct local_options *options;
	struct output output;
	const char *who; /* stands before messages of the library; "": nothing */
	int signals;     /* signalfd */
	tfc_ctx *ctx;
	tfc_gateway *gateway;
	tfc_sub *sub;
	char job[64];
	tfc_stop_options stop; /* the requested stop, sent as soon as the job has an id */
	bool is_stopping;
	bool is_output_dropped;
	bool has_lost_output; /* standard output failed */
	bool is_ended;
	int stop_signal;        /* the signal for which the job was stopped */
	uint64_t still_here_ns; /* when to report the tasks that ignored SIGINT; 0: never */
	uint64_t drop_ns;       /* when to stop waiting for output to be written; 0: never */
	int status;
};

/* Opens the output, the signals and the context; a failure is printed and sets is_ended. `options`
 * is borrowed. Call local_close in every case. */
void local_open(struct local *local, const struct local_options *options);

/* Sends the command's request to the node. */
void local_submit(struct local *local, tfc_node *node);

/* Stops the job, as for a signal. */
void local_stop(struct local *local, int signal, uint32_t interrupt_ms, bool is_kill);

/* tfc_run itself cannot continue: prints `text` or the context's error as its last line. */
void local_fail(struct local *local, const char *text);

/* Runs until the job has ended and its output is written. */
void local_run_loop(struct local *local);

/* Before the node is closed. */
void local_close_gateway(struct local *local);

/* Returns the exit status. */
int local_close(struct local *local);

#endif
