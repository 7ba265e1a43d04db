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

/* "tfc_run: " and a line on stderr, for the time before there is an output. Returns -1. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The one of `names` (count of them, `stride` bytes apart, each the address of a string or NULL)
 * that is most like `word`, or NULL when none is. */
const char *nearest(const char *word, const char *const *names, size_t count, size_t stride);

/* `tfc_run local`. argv[0] is the command's name. Returns the exit status. */
int local_main(int argc, char **argv);

#endif
