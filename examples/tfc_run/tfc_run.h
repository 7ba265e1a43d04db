/*
 * tfc_run: what its files share. The program is a host like any other: it includes public headers
 * only, and owns the process around the library: arguments, signals, terminal, exit status.
 */
#ifndef TFC_RUN_H
#define TFC_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit status when tfc_run itself fails; for a job's end there is tfc_event_exit_status. */
#define RUN_FAILED 125

/* "tfc_run: " and one printable line on stderr, for the time before there is an output. Returns -1.
 */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * What came from outside, as it may stand on a terminal: control characters and those that change
 * the order of others become \\n, \\u001b and the like, which JSON reads back, and bytes that are
 * not UTF-8 \\xff. keep: control characters that are left as they are. Free it.
 */
char *printable(const char *text, const char *keep);

/* A message as one printable line. The library names its own options in it (key_file); here they
 * become those of the command line (--key). Free it. */
char *message_line(const char *text);

/* Says so and ends at once, with the status of a failure of tfc_run itself: the guard, which
 * outlives us, stops the tasks. */
void die_without_memory(void) __attribute__((noreturn));

void print_version(void);

/* The one of `names` (count of them, `stride` bytes apart, each the address of a string or NULL)
 * that is most like `word`, or NULL when none is. */
const char *nearest(const char *word, const char *const *names, size_t count, size_t stride);

/* INT, TERM and HUP become a signalfd for the loop, or -1 and errno. A SIGHUP that was ignored when
 * we were started (nohup) stays ignored. */
int signals_open(void);

/* ---- the commands, one a file. argv[0] is the command's name; the exit status is returned. */

int attach_main(int argc, char **argv);
int describe_main(int argc, char **argv);
int drain_main(int argc, char **argv);
int keygen_main(int argc, char **argv);
int local_main(int argc, char **argv);
int logs_main(int argc, char **argv);
int members_main(int argc, char **argv);
int node_main(int argc, char **argv);
int ps_main(int argc, char **argv);
int rm_main(int argc, char **argv);
int spec_main(int argc, char **argv);
int start_main(int argc, char **argv);
int stop_main(int argc, char **argv);

/* explain.c: prints a plan (tfc_gateway_explain) for people, or one JSON object for each task.
 * 0, or an errno. */
int explain_print(const char *plan, bool is_json);

#endif
