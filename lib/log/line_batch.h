/*
 * Consecutive lines of a task as bytes, for a message: the texts of the lines, each with a newline
 * behind it, and their table. The table has a few bytes for each line, from which its stream, time
 * and cursor follow.
 *
 * A number in the table has seven bits in each byte, the lowest first; every byte but the last has
 * the eighth bit set. For each line:
 *
 *   LENGTH * 16 + FLAGS
 *   flag 4: its time in ns, less that of the line before
 *   flag 8: for stdout and for stderr, the position less that of the line before, and the skip
 *
 * Before the first line, time and positions are 0; differences are modulo 2^64. Flag 1: the line is
 * of stderr; flag 2: it is partial. Without flag 8 the line is in the same record as the line
 * before, directly behind it: the skip of its stream grows by its length and the newline, and so
 * does the skip of each stream that was at the same place.
 *
 * The table of a subscription with reports has positions of three streams behind flag 8, the third
 * of the reports, and one flag more: LENGTH * 32 + FLAGS. Flag 16: the line is a report.
 */
#ifndef TFC_LOG_LINE_BATCH_H
#define TFC_LOG_LINE_BATCH_H

#include "log/lines.h"

/* Zeroed initially, except has_reports. */
struct tfc__line_batch {
	bool has_reports;
	struct tfc__buf text;
	struct tfc__buf table;
	uint32_t count;
	uint64_t time_ns; /* of the last line */
	struct tfc__lines_cursor cursor;
};

/* Adds a line; its attempt is not stored. Out of memory is in the buffers' is_failed. */
void tfc__line_batch_add(struct tfc__line_batch *batch, const struct tfc__line *line);
void tfc__line_batch_clear(struct tfc__line_batch *batch); /* keeps its memory */
void tfc__line_batch_fini(struct tfc__line_batch *batch);

struct tfc__line_batch_reader {
	const char *text, *text_end;
	const uint8_t *table, *table_end;
	bool has_reports;
	uint64_t time_ns;
	struct tfc__lines_cursor cursor; /* of the last line read */
};

void tfc__line_batch_read(struct tfc__line_batch_reader *reader, const void *text, size_t text_len,
			  const void *table, size_t table_len, bool has_reports);
/* The next line: 1; 0: there is none; TFC_EPARSE: the batch is malformed. */
int tfc__line_batch_next(struct tfc__line_batch_reader *reader, struct tfc__line *ret_line);

#endif
