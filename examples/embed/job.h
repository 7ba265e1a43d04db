/*
 * Shared by the examples in this folder, because it is the same for every loop: opens a job of two
 * workers, prints its events, and stops it. Each example is a loop around it: it waits for
 * tfc_ctx_fd(job.ctx), calls tfc_ctx_dispatch, and ends when job.is_over is set.
 *
 * Thread: the one that runs the loop; never two at the same time.
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
	char id[17];       /* "" until the submit has completed */
	int signal_number; /* the signal for which the job is stopped, or 0 */
	bool is_kill;      /* a second signal was received */
	bool is_over;      /* check after each dispatch */
	int status;        /* the exit status of the program: the job's, as a shell reports it */
};

/*
 * Opens context, node and gateway and submits two workers, each running argv (NULL-terminated) in
 * the current directory. False: it failed, and the reason was printed on stderr. Call job_close in
 * either case.
 */
bool job_open(struct job *job, char *const *argv);

/*
 * Stops the job as Ctrl-C would: the first call with its grace, the second one immediately. This
 * only sends the request; the end of the job is reported in dispatch. Legal before the submit has
 * completed.
 */
void job_stop(struct job *job, int signal_number);

/* Prints an error on stderr (NULL: the context's error) and sets is_over. */
void job_fail(struct job *job, const char *text);

/* Frees everything, in order. Kills the tasks that are still running. */
void job_close(struct job *job);

#endif
