/*
 * Lines out of a task's log: records in, whole lines out. One per task of a subscription; it holds
 * a reader while there is something to read, and the beginnings of at most two unfinished lines.
 */
#ifndef TFC_GATEWAY_LINES_H
#define TFC_GATEWAY_LINES_H

#include "base/buf.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/log.h>

/* Longer lines are split; the parts but the last are marked. */
#define TFC__LINE_MAX 65536

/* One line, or one gap (stream TFC_STREAM_GAP). Borrowed: until the next call. */
struct tfc__line {
	uint32_t stream;
	uint32_t attempt;
	uint64_t time_ns;
	bool is_partial;
	const char *data; /* without its newline */
	uint64_t len;
	uint64_t
		position; /* a reader that skips `skip` bytes of the record at `position` goes on */
	uint64_t skip;
};

struct tfc__lines {
	tfc_log *log;          /* NULL: not open now */
	uint64_t position;     /* of the next record to read */
	uint64_t skip;         /* bytes of that record already told */
	tfc_log_record record; /* the one being told, while at < record.len */
	uint64_t at;
	struct tfc__buf rest[3]; /* unfinished line per stream */
	uint32_t rest_attempt[3];
	uint64_t rest_time[3];
	bool is_flushed; /* the last line told was rest itself: clear it at the next call */
	uint32_t flushed;
};

void tfc__lines_init(struct tfc__lines *lines, uint64_t position, uint64_t skip);
void tfc__lines_fini(struct tfc__lines *lines);

/* Position up to which all bytes were read, unfinished lines included. */
uint64_t tfc__lines_position(const struct tfc__lines *lines);

/* The next line: 1, 0 when there is none yet, or an enum tfc_err. */
int tfc__lines_next(struct tfc__lines *lines, const char *dir, const char *name,
		    struct tfc__line *ret_line, tfc_error *error);

/* The unfinished lines at the end of an attempt, one per call: 1, or 0 when there are none left. */
int tfc__lines_flush(struct tfc__lines *lines, struct tfc__line *ret_line);

/* Closes the reader; the next call opens it again. */
void tfc__lines_park(struct tfc__lines *lines);

#endif
