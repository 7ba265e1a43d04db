/*
 * The options that describe a job, shared by `local` and `start`. Most options are only the path of
 * a key in the job, so that tfc_run knows nothing about jobs that the library does not know.
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

/* Makes *ret_job from the whole command line: from --job FILE or an empty job, then its options in
 * order (those of the other tables are set, too), then its program. The job is valid, and its
 * relative paths are resolved. 0, or -1 after an error message; the caller frees *ret_job in every
 * case. */
int job_options_make(const struct command_line *line, tfc_job **ret_job);

/* Whether a role requests GPUs, which then have to be detected. */
bool job_wants_gpus(const tfc_job *job);

/* Whether the job has a bundle, which is packed and sent before the job. */
bool job_has_bundle(const tfc_job *job);

#endif
