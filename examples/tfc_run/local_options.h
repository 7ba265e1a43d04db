/*
 * The options of `tfc_run local`.
 */
#ifndef TFC_RUN_LOCAL_OPTIONS_H
#define TFC_RUN_LOCAL_OPTIONS_H

#include <tfcluster/job.h>

#include "output.h"

struct local_options {
	tfc_job *job; /* complete and valid; its relative paths are resolved */
	struct output_options output;
	uint16_t ports[2]; /* first and last */
	const char *host;
	const char *log_dir;
	char *own_log_dir; /* what log_dir points to once it is absolute */
	bool is_explained; /* the job is explained instead of being run */
};

/* Reads argv[1...]; prints the help or an error message. Strings point into argv. Call
 * local_options_end in every case. */
enum options_result local_options_read(int argc, char **argv, struct local_options *ret_options);
void local_options_end(struct local_options *options);

#endif
