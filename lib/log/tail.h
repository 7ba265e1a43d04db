/*
 * The newest records of a log, read from its files without a reader.
 */
#ifndef TFC_LOG_TAIL_H
#define TFC_LOG_TAIL_H

#include <stdint.h>

/*
 * The position up to which the log is complete now, read from its files. For a reader that begins
 * at the end.
 */
uint64_t tfc__log_end(const char *dir, const char *name);

/*
 * The end of a log's newest segment, and the time of its last write (CLOCK_REALTIME, ns). For a log
 * that is not being written now. Returns 0, or -1 when there is no log.
 */
int tfc__log_newest(const char *dir, const char *name, uint64_t *ret_end, uint64_t *ret_written_ns);

/*
 * The last `lines` lines of a log; there may be fewer. Each is without its newline, and has a space
 * for each NUL byte. Of one attempt, or with attempt 0 of all attempts; of one stream (enum
 * tfc_stream), or with stream 0 of both. The caller owns *ret_lines.
 */
int tfc__log_tail(const char *dir, const char *name, uint32_t attempt, uint32_t stream,
		  uint32_t lines, char ***ret_lines);

#endif
