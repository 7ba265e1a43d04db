#include "local_options.h"

#include <stdlib.h>

#include "job_options.h"

static const struct option table[] = {
	{NULL, NULL, "Run options"},
	{"ports", "LO-HI", "ports for tasks (20000-29999)", set_ports,
	 .at = offsetof(struct local_options, ports)},
	{"host", "ADDR", "address that the tasks advertise to each other (127.0.0.1)",
	 TEXT(struct local_options, host)},
	{"log-dir", "DIR", "keep the tasks' logs in DIR", TEXT(struct local_options, log_dir)},
	{"explain", NULL,
	 "print placement, ports, environment and arguments of each task, and run nothing",
	 FLAG(struct local_options, is_explained)},
};

/* The node requires an absolute path. */
static int resolve_log_dir(struct local_options *options)
{
	return options->log_dir ? make_absolute(&options->log_dir, &options->own_log_dir) : 0;
}

enum options_result local_options_read(int argc, char **argv, struct local_options *ret_options)
{
	struct local_options *options = ret_options;
	struct command_line line = {
		.command = "local",
		.usage = "usage: tfc_run local [JOB OPTIONS] [RUN OPTIONS] [--] PROGRAM [ARG...]\n"
			 "       tfc_run local --job FILE [RUN OPTIONS]\n\n"
			 "Runs a job on this machine, in this process.",
		.footer = EXIT_STATUS_HELP,
		.tables = {JOB_OPTION_TABLE(&options->job), OPTION_TABLE(table, options),
			   OUTPUT_OPTION_TABLE(&options->output)},
		.has_program = true,
	};
	*options = (struct local_options){0};
	enum options_result result = options_read(&line, argc, argv);
	if (result == OPTIONS_OK &&
	    (job_options_make(&line, &options->job) < 0 || resolve_log_dir(options) < 0))
		result = OPTIONS_BAD;
	options_end(&line);
	return result;
}

void local_options_end(struct local_options *options)
{
	tfc_job_free(options->job);
	free(options->own_log_dir);
}
