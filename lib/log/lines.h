/*
 * Splits a task's log into lines: it reads records and returns whole lines, without what a carriage
 * return in them overwrote. A subscription has one per task. It holds a source while there is
 * something to read, and the beginnings of unfinished lines, at most one per stream. The bytes of a
 * report are kept as they are.
 */
#ifndef TFC_LOG_LINES_H
#define TFC_LOG_LINES_H

#include "base/buf.h"
#include "log/format.h"
#include "log/source.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/log.h>

/* Longer lines are split; all parts except the last are marked as partial. */
#define TFC__LINE_MAX 65536

/* The index of a stream wherever there is one thing for each of them, and the other way round. */
static inline uint32_t tfc__stream_slot(uint32_t stream)
{
	return stream == TFC_STREAM_REPORT ? 2 : stream == TFC_STREAM_STDERR;
}
static inline uint32_t tfc__slot_stream(size_t slot)
{
	return slot == 2 ? TFC_STREAM_REPORT : slot == 1 ? TFC_STREAM_STDERR : TFC_STREAM_STDOUT;
}

/*
 * The progress of one stream: all records before `position`, and `skip` bytes of the record there,
 * have been returned.
 */
struct tfc__reported {
	uint64_t position;
	uint64_t skip;
};

/*
 * A position behind a line, per stream: one stream may have an unfinished line while another has
 * gone further. Before there are reports, theirs is the later one of the other two.
 */
struct tfc__lines_cursor {
	struct tfc__reported reported[TFC__LOG_STREAMS]; /* stdout, stderr, reports */
};

/* One line, or one gap (stream TFC_STREAM_GAP). Borrowed until the next call. */
struct tfc__line {
	uint32_t stream;
	uint32_t attempt;
	uint64_t time_ns;
	bool is_partial;
	const char *data; /* without its end, "\n" or "\r\n"; of a report "\n" */
	uint64_t len;
	struct tfc__lines_cursor cursor; /* a reader that starts here continues behind the line */
};

/* The beginning of a line whose end has not been read yet. */
struct tfc__partial_line {
	struct tfc__buf text;
	bool is_returned; /* a carriage return follows the text: more text overwrites it */
	bool is_bar;      /* the line has a carriage return: a progress bar */
	bool is_changed;  /* since tfc__lines_bar returned it */
	uint32_t attempt;
	uint64_t time_ns;
	struct tfc__reported begin; /* of the text */
};

struct tfc__lines {
	struct tfc__log_source *source; /* NULL: not open now */
	uint64_t position;              /* of the next record to read */
	uint32_t attempt;   /* 0: all attempts. Otherwise records of other attempts are skipped, and
			       the first record of a later attempt ends the reading */
	bool skips_output;  /* records of stdout and stderr are skipped */
	bool wants_reports; /* records of reports are not skipped */
	bool has_reports;   /* one was read, or the cursor is behind one */
	struct tfc__lines_cursor begin; /* what lies before it is not returned */
	tfc_log_record record;          /* the current record, while at < record.len */
	uint64_t at;
	bool is_gap_waiting; /* record is a gap; it is returned after the unfinished lines */
	struct tfc__partial_line rest[TFC__LOG_STREAMS];
	struct tfc__partial_line *flushed; /* its text was the last line returned */
};

/* Whether the position of the reports is the later one of the other two. Without reports, it is. */
bool tfc__lines_cursor_is_plain(const struct tfc__lines_cursor *cursor);
void tfc__lines_cursor_make_plain(struct tfc__lines_cursor *cursor);
static inline bool tfc__reported_equal(const struct tfc__reported *one,
				       const struct tfc__reported *other)
{
	return one->position == other->position && one->skip == other->skip;
}

/* cursor NULL: from the start. */
void tfc__lines_init(struct tfc__lines *lines, const struct tfc__lines_cursor *cursor);
void tfc__lines_fini(struct tfc__lines *lines);

/*
 * Sets the source of records when lines->source is NULL. It must have been opened at
 * lines->position; `lines` owns it from now on.
 */
static inline void tfc__lines_attach(struct tfc__lines *lines, struct tfc__log_source *source)
{
	lines->source = source;
}

/*
 * Returns the next line whose record begins before `until`: 1; 0 when there is none now or no
 * source; or the source's error. After TFC_ENOMEM the next call returns the same line.
 */
int tfc__lines_next(struct tfc__lines *lines, uint64_t until, tfc_error *error,
		    struct tfc__line *ret_line);

/*
 * Returns the unfinished lines at the end of an attempt, one per call: 1, or 0 when none is left.
 */
int tfc__lines_flush(struct tfc__lines *lines, struct tfc__line *ret_line);

/*
 * Returns an unfinished line that has a carriage return and more text since the last call: 1, or 0
 * when there is none. Call when tfc__lines_next has returned 0. Nothing is consumed.
 */
int tfc__lines_bar(struct tfc__lines *lines, struct tfc__line *ret_line);

/* Memory used, in bytes, by the source and by unfinished lines. */
size_t tfc__lines_bytes(const struct tfc__lines *lines);

/* The position behind everything that has been returned. */
struct tfc__lines_cursor tfc__lines_cursor(const struct tfc__lines *lines);

/* Skips everything before `until`, which is a record's end, and returns one gap for it. */
void tfc__lines_skip(struct tfc__lines *lines, uint64_t until, struct tfc__line *ret_line);

/* Closes the source. Another source can be attached later and continues at the same position. */
void tfc__lines_park(struct tfc__lines *lines);

#endif
