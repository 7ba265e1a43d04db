/*
 * What the embeddings in this folder share, because it is the same in every loop: a job of two
 * workers is opened, followed, printed and stopped. Each file beside this one is a loop around it:
 * it waits for tfc_ctx_fd(job.ctx), calls tfc_ctx_dispatch, and is done when job.is_over is set.
 *
 * Thread: the one that runs the loop, or one after another.
 */
#ifndef EMBED_JOB_H
#define EMBED_JOB_H

#include <stdbool.h>
#include <tfcluster/tfcluster.h>

struct job {
	tfc_ctx *ctx;
	tfc_node *node;
	tfc_gateway *gateway;
	tfc_sub *sub;
	char id[17];       /* "" until the gateway has answered */
	int signal_number; /* what it was told to stop by, or 0 */
	bool is_kill;      /* told twice */
	bool is_over;      /* to be looked at after each dispatch */
	int status;        /* what the program exits with: the job's, as shells tell it */
};

/*
 * Opens context, node and gateway and submits two workers, each running argv (NULL-terminated) in
 * the current directory. Returns whether that went well; if not, the reason is on standard error.
 * Either way the caller ends it with job_close.
 */
bool job_open(struct job *job, char *const *argv);

/*
 * Stops the job as Ctrl-C would: the first time with its grace, then at once. Only asks: its end
 * comes to dispatch. Legal before the gateway has answered.
 */
void job_stop(struct job *job, int signal_number);

/* Gives up: says why on standard error (NULL: what the context says), and sets is_over. */
void job_fail(struct job *job, const char *text);

/* Frees everything, in order. Whatever still runs is killed. */
void job_close(struct job *job);

#endif
