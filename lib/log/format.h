/*
 * The layout of a log, for its writer (the shim) and its reader (the library);
 * doc/internals/log-format.md describes it.
 *
 * A record is a line of TFC__LOG_HEADER bytes, the payload, and a newline where the payload does
 * not end in one:
 *
 *     #1763712000.123456789 o 0000000001 000000000005\nhello\n
 *
 * '#', seconds '.' nanoseconds, stream, attempt, length, all decimal and zero-padded. A gap ('g')
 * has no payload: its length is the number of bytes that are missing.
 */
#ifndef TFC_LOG_FORMAT_H
#define TFC_LOG_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/names.h"

#define TFC__LOG_HEADER 48
#define TFC__LOG_PAYLOAD_MAX 65536 /* of one record; a gap may be longer */
#define TFC__LOG_RECORD_MAX (TFC__LOG_HEADER + TFC__LOG_PAYLOAD_MAX + 1)
#define TFC__LOG_STREAMS 3 /* stdout, stderr, reports */
#define TFC__LOG_LENGTH_MAX UINT64_C(999999999999)
#define TFC__LOG_PATH_SIZE (TFC__LOG_NAME_MAX + 24) /* NAME.0123456789abcdef.log and NUL */

/* The size at which rotation keeps a log, in bytes, unless the process's options set another. */
#define TFC__LOG_SEGMENTS 8
#define TFC__LOG_SEGMENT_BYTES (UINT64_C(16) << 20)
#define TFC__LOG_KEPT (TFC__LOG_SEGMENTS * TFC__LOG_SEGMENT_BYTES)

struct tfc__log_header {
	uint64_t time_ns;
	char stream; /* 'o', 'e', 'r' (reports), 'g' */
	uint32_t attempt;
	uint64_t len;
};

void tfc__log_header_write(char *text, const struct tfc__log_header *header);
bool tfc__log_header_read(const char *text, struct tfc__log_header *ret_header);

/* The file name of the segment that begins at `position`. */
void tfc__log_segment_name(char path[TFC__LOG_PATH_SIZE], const char *name, uint64_t position);

/* The segments of one log in a directory, from one scan of it. */
struct tfc__log_segments {
	uint64_t count;
	uint64_t oldest; /* positions, valid when count > 0 */
	uint64_t newest;
	uint64_t at_or_before; /* the last that begins at or before `position`; UINT64_MAX: none */
	uint64_t after;        /* the first that begins after it; UINT64_MAX: none */
};

/* Scans the directory. Returns 0 or an errno. */
int tfc__log_scan(int dir_fd, const char *name, uint64_t position,
		  struct tfc__log_segments *ret_segments);

/* The newest segment of a log. */
struct tfc__log_segment {
	int fd;
	uint64_t start; /* the position at which it begins */
	uint64_t whole; /* bytes of complete records in it */
	uint64_t size;  /* bytes of the file */
};

/*
 * Opens the newest segment. Each segment begins where the complete records of the previous one end,
 * so the directory, which may hold the logs of many tasks, is scanned only after rotation has
 * emptied the first segment. Returns 0 or an errno; ENOENT: there is no log.
 */
int tfc__log_open_newest(int dir_fd, const char *name, int flags,
			 struct tfc__log_segment *ret_newest);

#endif
