/*
 * The options of a command that runs a job. One table (options.c) drives parsing, --help and the
 * suggestions for mistyped names; an option that means something to the job is only the path of its
 * key there, so that tfc_run knows nothing about jobs that the library does not.
 */
#ifndef TFC_RUN_OPTIONS_H
#define TFC_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/job.h>

enum color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

struct options {
	tfc_job *job; /* complete and valid; its relative paths are resolved */
	uint16_t port_first;
	uint16_t port_last;
	const char *host;
	const char *log_dir;
	char *own_log_dir; /* what log_dir points to once it is absolute */
	enum color color;
	bool has_timestamps;
	bool has_no_prefix;
	bool is_quiet;
	bool is_json;
};

enum options_result { OPTIONS_OK, OPTIONS_HELP, OPTIONS_BAD };

/* Reads argv[1...]; prints the help or a sentence about what is wrong. Strings point into argv. */
enum options_result options_parse(int argc, char **argv, struct options *ret_options);
void options_fini(struct options *options);

#endif
