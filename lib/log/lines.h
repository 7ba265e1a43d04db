/*
 * Lines out of a task's log: records in, whole lines out. One per task of a subscription; it holds
 * a reader while there is something to read, and the beginnings of at most two unfinished lines.
 */
#ifndef TFC_LOG_LINES_H
#define TFC_LOG_LINES_H

#include "base/buf.h"
#include "log/source.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/log.h>

/* Longer lines are split; the parts but the last are marked. */
#define TFC__LINE_MAX 65536

/* How far one stream was told: `skip` bytes of the record at `position`, and all before it. */
struct tfc__told {
	uint64_t position;
	uint64_t skip;
};

/* A place behind a line, per stream: one may wait with half a line while the other goes on. */
struct tfc__lines_cursor {
	struct tfc__told told[2]; /* stdout, stderr */
};

/* One line, or one gap (stream TFC_STREAM_GAP). Borrowed: until the next call. */
struct tfc__line {
	uint32_t stream;
	uint32_t attempt;
	uint64_t time_ns;
	bool is_partial;
	const char *data; /* without its newline */
	uint64_t len;
	struct tfc__lines_cursor cursor; /* a reader that begins with it goes on behind the line */
};

/* The beginning of a line whose end was not read yet. */
struct tfc__line_rest {
	struct tfc__buf text;
	uint32_t attempt;
	uint64_t time_ns;
	struct tfc__told begin;
};

struct tfc__lines {
	struct tfc__log_source *source; /* NULL: not open now */
	uint64_t position;              /* of the next record to read */
	uint32_t attempt;               /* others' records are not told, and the first of a later
					   one is the end of what there is; 0: all are */
	struct tfc__lines_cursor begin; /* what is before it is not told */
	tfc_log_record record;          /* the one being told, while at < record.len */
	uint64_t at;
	bool is_gap_waiting; /* record is a gap that is told behind the unfinished lines */
	struct tfc__line_rest rest[2];
	struct tfc__line_rest *flushed; /* the last line told was its text: cleared at the next call
					 */
};

/* NULL: from the start. */
void tfc__lines_init(struct tfc__lines *lines, const struct tfc__lines_cursor *cursor);
void tfc__lines_fini(struct tfc__lines *lines);

/* Where records come from, when lines->source is NULL: opened at lines->position; owned by lines.
 */
static inline void tfc__lines_attach(struct tfc__lines *lines, struct tfc__log_source *source)
{
	lines->source = source;
}

/*
 * The next line whose record begins before `until`: 1, 0 when there is none now (or no source), or
 * what the source said. After TFC_ENOMEM the same line comes with the next call.
 */
int tfc__lines_next(struct tfc__lines *lines, uint64_t until, struct tfc__line *ret_line,
		    tfc_error *error);

/* The unfinished lines at the end of an attempt, one per call: 1, or 0 when there are none left. */
int tfc__lines_flush(struct tfc__lines *lines, struct tfc__line *ret_line);

/* Of memory, for the source and for lines whose ends were not read yet. */
size_t tfc__lines_bytes(const struct tfc__lines *lines);

/* The place behind all that was told. */
struct tfc__lines_cursor tfc__lines_cursor(const struct tfc__lines *lines);

/* Gives up what lies before `until`, a record's end, and makes one gap of it. */
void tfc__lines_skip(struct tfc__lines *lines, uint64_t until, struct tfc__line *ret_line);

/* Closes the source; another one goes on where it was. */
void tfc__lines_park(struct tfc__lines *lines);

#endif
