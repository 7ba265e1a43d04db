/*
 * The options that make a job: what `local` and `start` share. An option that means something to
 * the job is only the path of its key there, so that tfc_run knows nothing about jobs that the
 * library does not.
 */
#ifndef TFC_RUN_JOB_OPTIONS_H
#define TFC_RUN_JOB_OPTIONS_H

#include <tfcluster/job.h>

#include "options.h"

extern const struct option job_options[];
extern const size_t job_option_count;

/* The table for a command line; `ret_job` is where job_options_make puts the job. */
#define JOB_OPTION_TABLE(ret_job)                      \
	{                                              \
		job_options, job_option_count, ret_job \
	}

/* Makes *ret_job of the whole command line: of its --job FILE, or of nothing, then of its options
 * in order (those of the other tables are set, too), then of its program. It is valid, and its
 * relative paths are resolved. 0, or -1 after a sentence; the caller frees *ret_job in every case.
 */
int job_options_make(const struct command_line *line, tfc_job **ret_job);

/* Whether a role asks for GPUs; then somebody has to look for them. */
bool job_wants_gpus(const tfc_job *job);

#endif
