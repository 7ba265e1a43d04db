/*
 * tfc_run: what its files share. The program is a host like any other: it includes public headers
 * only, and owns the process around the library: arguments, signals, terminal, exit status.
 */
#ifndef TFC_RUN_H
#define TFC_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tfcluster/job.h>

/* Exit status when tfc_run itself fails; for a job's end there is tfc_event_exit_status. */
#define RUN_FAILED 125

/* "tfc_run: " and a line on stderr, for the time before there is an output. Returns -1. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says so and ends at once, with the status of a failure of tfc_run itself: the guard, which
 * outlives us, stops the tasks. */
void die_without_memory(void) __attribute__((noreturn));

/* The one of `names` (count of them, `stride` bytes apart, each the address of a string or NULL)
 * that is most like `word`, or NULL when none is. */
const char *nearest(const char *word, const char *const *names, size_t count, size_t stride);

/* `tfc_run local`. argv[0] is the command's name. Returns the exit status. */
int local_main(int argc, char **argv);

/* explain.c: prints a plan (tfc_gateway_explain) for people, or one JSON object for each task.
 * 0, or an errno. */
int explain_print(const char *plan, bool is_json);

/* ---- options.c: the options of a command that runs a job. One table drives parsing, --help and
 * the suggestions for mistyped names; an option that means something to the job is only the path
 * of its key there, so that tfc_run knows nothing about jobs that the library does not. */

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
	bool is_explained; /* instead of being run */
};

enum options_result { OPTIONS_OK, OPTIONS_HELP, OPTIONS_BAD };

/* Reads argv[1...]; prints the help or a sentence about what is wrong. Strings point into argv. */
enum options_result options_parse(int argc, char **argv, struct options *ret_options);
void options_fini(struct options *options);

#endif
