#include "log/line_batch.h"

#include <string.h>

enum {
	IS_STDERR = 1,
	IS_PARTIAL = 2,
	HAS_TIME = 4,
	HAS_CURSOR = 8,
	IS_REPORT = 16,
	FLAG_BITS = 4,
	FLAG_BITS_WITH_REPORTS = 5,
};

#define NUMBER_BYTES 10                /* of 64 bits */
#define ENTRY_BYTES (8 * NUMBER_BYTES) /* of a line in the table */

/* The cursor behind a line that directly follows another one in the same record. */
static void lines_cursor_advance(struct tfc__lines_cursor *cursor, uint32_t slot, uint64_t len)
{
	const struct tfc__reported before = cursor->reported[slot];
	for (size_t i = 0; i < TFC__LOG_STREAMS; i++)
		if (tfc__reported_equal(&cursor->reported[i], &before))
			cursor->reported[i].skip += len + 1;
}

static int batch_flag_bits(bool has_reports)
{
	return has_reports ? FLAG_BITS_WITH_REPORTS : FLAG_BITS;
}

/* The number of streams whose positions are in the table. */
static uint32_t batch_streams(bool has_reports)
{
	return has_reports ? TFC__LOG_STREAMS : TFC__LOG_STREAMS - 1;
}

/* ---- writing */

static uint8_t *batch_write_number(uint8_t *at, uint64_t number)
{
	for (; number > 0x7f; number >>= 7)
		*at++ = (uint8_t)(number | 0x80);
	*at++ = (uint8_t)number;
	return at;
}

void tfc__line_batch_add(struct tfc__line_batch *batch, const struct tfc__line *line)
{
	uint8_t *begin = (uint8_t *)tfc__buf_reserve(&batch->table, ENTRY_BYTES), *at = begin;
	uint32_t slot = tfc__stream_slot(line->stream);
	uint32_t streams = batch_streams(batch->has_reports);
	struct tfc__lines_cursor cursor = batch->cursor;
	batch->count++;
	if (!begin)
		return;
	lines_cursor_advance(&cursor, slot, line->len);
	bool is_next = batch->count > 1;
	for (uint32_t i = 0; i < streams; i++)
		is_next &= tfc__reported_equal(&cursor.reported[i], &line->cursor.reported[i]);
	uint64_t flags = (line->stream == TFC_STREAM_STDERR ? IS_STDERR : 0) |
			 (line->stream == TFC_STREAM_REPORT ? IS_REPORT : 0) |
			 (line->is_partial ? IS_PARTIAL : 0) |
			 (line->time_ns != batch->time_ns ? HAS_TIME : 0) |
			 (is_next ? 0 : HAS_CURSOR);
	at = batch_write_number(at, line->len << batch_flag_bits(batch->has_reports) | flags);
	if (flags & HAS_TIME)
		at = batch_write_number(at, line->time_ns - batch->time_ns);
	for (uint32_t i = 0; i < streams && !is_next; i++) {
		const struct tfc__reported *reported = &line->cursor.reported[i];
		at = batch_write_number(at,
					reported->position - batch->cursor.reported[i].position);
		at = batch_write_number(at, reported->skip);
	}
	tfc__buf_grow(&batch->table, (size_t)(at - begin));
	tfc__buf_add(&batch->text, line->data, line->len);
	tfc__buf_add_char(&batch->text, '\n');
	batch->time_ns = line->time_ns;
	batch->cursor = line->cursor;
}

void tfc__line_batch_clear(struct tfc__line_batch *batch)
{
	struct tfc__buf text = batch->text, table = batch->table;
	tfc__buf_clear(&text);
	tfc__buf_clear(&table);
	*batch = (struct tfc__line_batch){.text = text, .table = table};
}

void tfc__line_batch_fini(struct tfc__line_batch *batch)
{
	tfc__buf_fini(&batch->text);
	tfc__buf_fini(&batch->table);
	*batch = (struct tfc__line_batch){.count = 0};
}

/* ---- reading */

void tfc__line_batch_read(struct tfc__line_batch_reader *reader, const void *text, size_t text_len,
			  const void *table, size_t table_len, bool has_reports)
{
	text = text ? text : "";
	table = table ? table : "";
	*reader = (struct tfc__line_batch_reader){
		.text = text,
		.text_end = (const char *)text + text_len,
		.table = table,
		.table_end = (const uint8_t *)table + table_len,
		.has_reports = has_reports,
	};
}

static bool batch_read_number(struct tfc__line_batch_reader *reader, uint64_t *ret_number)
{
	uint64_t number = 0;
	for (unsigned shift = 0; shift < 64 && reader->table < reader->table_end; shift += 7) {
		uint8_t byte = *reader->table++;
		if (shift == 63 && byte > 1)
			return false;
		number |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret_number = number;
			return true;
		}
	}
	return false;
}

static bool batch_read_cursor(struct tfc__line_batch_reader *reader)
{
	for (uint32_t i = 0; i < batch_streams(reader->has_reports); i++) {
		struct tfc__reported *reported = &reader->cursor.reported[i];
		uint64_t moved;
		if (!batch_read_number(reader, &moved) ||
		    !batch_read_number(reader, &reported->skip))
			return false;
		reported->position += moved;
	}
	return true;
}

int tfc__line_batch_next(struct tfc__line_batch_reader *reader, struct tfc__line *ret_line)
{
	uint64_t head, waited = 0;
	if (reader->table == reader->table_end)
		return reader->text == reader->text_end ? 0 : TFC_EPARSE;
	if (!batch_read_number(reader, &head))
		return TFC_EPARSE;
	uint64_t len = head >> batch_flag_bits(reader->has_reports);
	bool is_report = reader->has_reports && head & IS_REPORT;
	uint32_t stream = is_report          ? TFC_STREAM_REPORT
			  : head & IS_STDERR ? TFC_STREAM_STDERR
					     : TFC_STREAM_STDOUT;
	if (len > TFC__LINE_MAX || len >= (size_t)(reader->text_end - reader->text) ||
	    reader->text[len] != '\n' || (head & HAS_TIME && !batch_read_number(reader, &waited)))
		return TFC_EPARSE;
	if (!(head & HAS_CURSOR))
		lines_cursor_advance(&reader->cursor, tfc__stream_slot(stream), len);
	else if (!batch_read_cursor(reader))
		return TFC_EPARSE;
	if (!reader->has_reports)
		tfc__lines_cursor_make_plain(&reader->cursor);
	reader->time_ns += waited;
	*ret_line = (struct tfc__line){
		.stream = stream,
		.time_ns = reader->time_ns,
		.is_partial = head & IS_PARTIAL,
		.data = reader->text,
		.len = len,
		.cursor = reader->cursor,
	};
	reader->text += len + 1;
	return 1;
}
