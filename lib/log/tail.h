/*
 * The newest records of a log, read from its files without a reader.
 */
#ifndef TFC_LOG_TAIL_H
#define TFC_LOG_TAIL_H

#include <stdint.h>

/* Position up to which the log is complete now, from its files; for a reader that begins at the
 * end. */
uint64_t tfc__log_end(const char *dir, const char *name);

/* Where the newest segment of a log ends, and when it was last written (CLOCK_REALTIME); for one
 * that is not written just now. -1: there is no log. */
int tfc__log_newest(const char *dir, const char *name, uint64_t *ret_end, uint64_t *ret_written_ns);

/* The last `lines` lines of a log (all streams; of one attempt, or 0: of all), each without
 * newline; may be fewer. */
int tfc__log_tail(const char *dir, const char *name, uint32_t attempt, uint32_t lines,
		  char ***ret_lines);

#endif
