#include "log/lines.h"

#include <string.h>

#include "base/fail.h"
#include "log/overwrite.h"

#define SOURCE_BYTES 512 /* estimated memory of a source that waits for more records */

static const struct tfc__reported *cursor_plain_reports(const struct tfc__lines_cursor *cursor)
{
	const struct tfc__reported *out = &cursor->reported[0], *err = &cursor->reported[1];
	if (out->position != err->position)
		return out->position > err->position ? out : err;
	return out->skip > err->skip ? out : err;
}

bool tfc__lines_cursor_is_plain(const struct tfc__lines_cursor *cursor)
{
	return tfc__reported_equal(&cursor->reported[2], cursor_plain_reports(cursor));
}

void tfc__lines_cursor_make_plain(struct tfc__lines_cursor *cursor)
{
	cursor->reported[2] = *cursor_plain_reports(cursor);
}

void tfc__lines_init(struct tfc__lines *lines, const struct tfc__lines_cursor *cursor)
{
	*lines = (struct tfc__lines){0};
	if (!cursor)
		return;
	lines->begin = *cursor;
	lines->has_reports = !tfc__lines_cursor_is_plain(cursor);
	lines->position = UINT64_MAX;
	for (size_t i = 0; i < TFC__LOG_STREAMS; i++)
		if (cursor->reported[i].position < lines->position)
			lines->position = cursor->reported[i].position;
}

static bool lines_is_between_records(const struct tfc__lines *lines)
{
	return lines->at >= lines->record.len && !lines->is_gap_waiting;
}

static bool lines_skips_record(const struct tfc__lines *lines, const tfc_log_record *record)
{
	return record->stream == TFC_STREAM_REPORT ? !lines->wants_reports : lines->skips_output;
}

/* The current record is read again later, from where the reader stopped. */
void tfc__lines_park(struct tfc__lines *lines)
{
	const tfc_log_record *record = &lines->record;
	if (!lines_is_between_records(lines)) {
		lines->position = record->position;
		if (record->stream != TFC_STREAM_GAP)
			lines->begin.reported[tfc__stream_slot(record->stream)] =
				(struct tfc__reported){record->position, lines->at};
	}
	tfc__log_source_close(lines->source);
	lines->source = NULL;
	lines->record.len = lines->at = 0;
	lines->is_gap_waiting = false;
}

void tfc__lines_skip(struct tfc__lines *lines, uint64_t until, struct tfc__line *ret_line)
{
	uint64_t from = lines->position;
	uint32_t attempt = lines->record.attempt;
	tfc__lines_park(lines);
	for (size_t i = 0; i < TFC__LOG_STREAMS; i++) {
		tfc__buf_fini(&lines->rest[i].text);
		lines->rest[i].is_bar = false;
		lines->begin.reported[i] = (struct tfc__reported){until, 0};
	}
	lines->flushed = NULL;
	lines->position = until;
	*ret_line = (struct tfc__line){.stream = TFC_STREAM_GAP,
				       .attempt = attempt,
				       .len = until - from,
				       .cursor = lines->begin};
}

void tfc__lines_fini(struct tfc__lines *lines)
{
	tfc__lines_park(lines);
	for (size_t i = 0; i < TFC__LOG_STREAMS; i++)
		tfc__buf_fini(&lines->rest[i].text);
}

static void lines_drop_flushed(struct tfc__lines *lines)
{
	if (lines->flushed)
		tfc__buf_fini(&lines->flushed->text);
	lines->flushed = NULL;
}

size_t tfc__lines_bytes(const struct tfc__lines *lines)
{
	size_t bytes = lines->source ? SOURCE_BYTES : 0;
	for (size_t i = 0; i < TFC__LOG_STREAMS; i++)
		bytes += lines->rest[i].text.capacity;
	return bytes;
}

/* The bytes of the record that were returned before the cursor was made. */
static uint64_t lines_reported_bytes(const struct tfc__lines *lines, const tfc_log_record *record)
{
	const struct tfc__reported *reported =
		&lines->begin.reported[tfc__stream_slot(record->stream)];
	if (record->position < reported->position)
		return record->len;
	if (record->position > reported->position || reported->skip < record->len)
		return record->position == reported->position ? reported->skip : 0;
	return record->len;
}

/* A gap belongs to all streams: it was returned if one of them has been returned to its end. */
static bool lines_gap_is_reported(const struct tfc__lines *lines, uint64_t end)
{
	for (size_t i = 0; i < TFC__LOG_STREAMS; i++)
		if (end <= lines->begin.reported[i].position)
			return true;
	return false;
}

/* Reads the next record: 1, 0 when there is none, or an error. */
static int lines_read_record(struct tfc__lines *lines, tfc_error *error)
{
	if (!lines->source)
		return 0;
	tfc_log_record *record = &lines->record;
	*record = (tfc_log_record)TFC_LOG_RECORD_INIT;
	lines->at = 0;
	int code = lines->source->ops->next(lines->source, record, error);
	if (code <= 0) {
		record->len = 0;
		return code;
	}
	/* A reader that begins at the oldest record does not report what came before it. Otherwise
	 * the gap replaces the record, which is read again after the gap. */
	if (record->position > lines->position && !lines_gap_is_reported(lines, record->position)) {
		uint64_t from = lines->position;
		*record = (tfc_log_record){.size = sizeof(*record),
					   .stream = TFC_STREAM_GAP,
					   .time_ns = record->time_ns,
					   .position = from,
					   .next = record->position,
					   .len = record->position - from};
		tfc__log_source_close(lines->source);
		lines->source = NULL;
	}
	lines->position = record->next;
	/* The attempt of a gap that rotation made is unknown, and is 0. A record of a later attempt
	 * is left to the reader of that attempt; one of an earlier attempt is skipped. */
	if (lines->attempt && record->attempt && record->attempt != lines->attempt) {
		lines->at = record->len;
		if (record->attempt < lines->attempt)
			return 1;
		lines->position = record->position;
		tfc__lines_park(lines);
		return 0;
	}
	if (record->stream != TFC_STREAM_GAP) {
		bool is_skipped = lines_skips_record(lines, record);
		lines->at = is_skipped ? record->len : lines_reported_bytes(lines, record);
		lines->has_reports |= record->stream == TFC_STREAM_REPORT && !is_skipped;
	} else {
		lines->at = record->len;
		lines->is_gap_waiting = !lines_gap_is_reported(lines, record->next);
	}
	return 1;
}

static bool reported_is_before(const struct tfc__reported *one, const struct tfc__reported *other)
{
	if (one->position != other->position)
		return one->position < other->position;
	return one->skip < other->skip;
}

/* The cursor of a stream with an unfinished line is the beginning of that line. */
struct tfc__lines_cursor tfc__lines_cursor(const struct tfc__lines *lines)
{
	struct tfc__reported here = {lines->position, 0};
	struct tfc__lines_cursor cursor;
	if (!lines_is_between_records(lines))
		here = (struct tfc__reported){lines->record.position,
					      lines->is_gap_waiting ? 0 : lines->at};
	for (size_t i = 0; i < TFC__LOG_STREAMS; i++) {
		const struct tfc__partial_line *rest = &lines->rest[i];
		bool is_waiting = rest->text.len && rest != lines->flushed;
		cursor.reported[i] = is_waiting ? rest->begin : here;
		/* A stream whose old cursor is still ahead has had no output since, or was parked
		 * within a record. */
		if (!is_waiting &&
		    reported_is_before(&cursor.reported[i], &lines->begin.reported[i]))
			cursor.reported[i] = lines->begin.reported[i];
	}
	if (!lines->has_reports || !lines->wants_reports)
		tfc__lines_cursor_make_plain(&cursor);
	return cursor;
}

static struct tfc__line lines_unfinished(const struct tfc__lines *lines,
					 const struct tfc__partial_line *rest)
{
	return (struct tfc__line){
		.stream = tfc__slot_stream((size_t)(rest - lines->rest)),
		.attempt = rest->attempt,
		.time_ns = rest->time_ns,
		.data = rest->text.data,
		.len = rest->text.len,
		.cursor = tfc__lines_cursor(lines),
	};
}

static int lines_return_unfinished(struct tfc__lines *lines, struct tfc__partial_line *rest,
				   struct tfc__line *line)
{
	lines->flushed = rest;
	rest->is_bar = false;
	*line = lines_unfinished(lines, rest);
	return 1;
}

int tfc__lines_bar(struct tfc__lines *lines, struct tfc__line *ret_line)
{
	for (size_t i = 0; i < TFC__LOG_STREAMS; i++) {
		struct tfc__partial_line *rest = &lines->rest[i];
		if (!rest->is_bar || !rest->is_changed || !rest->text.len)
			continue;
		rest->is_changed = false;
		*ret_line = lines_unfinished(lines, rest);
		return 1;
	}
	return 0;
}

/* tqdm overwrites a bar that is not to stay with blanks and leaves the line unfinished. */
static void partial_line_drop_erased(struct tfc__partial_line *rest)
{
	for (size_t i = 0; i < rest->text.len; i++)
		if (!rest->is_bar || rest->text.data[i] != ' ')
			return;
	tfc__buf_clear(&rest->text);
}

int tfc__lines_flush(struct tfc__lines *lines, struct tfc__line *ret_line)
{
	lines_drop_flushed(lines);
	for (size_t i = 0; i < TFC__LOG_STREAMS; i++) {
		partial_line_drop_erased(&lines->rest[i]);
		if (lines->rest[i].text.len)
			return lines_return_unfinished(lines, &lines->rest[i], ret_line);
	}
	return 0;
}

/* On failure nothing is consumed: the next call finds everything unchanged. */
static bool partial_line_add(struct tfc__partial_line *rest, const char *data, uint64_t len)
{
	tfc__buf_add(&rest->text, data, len);
	bool is_done = !rest->text.is_failed;
	rest->text.is_failed = false;
	return is_done;
}

/*
 * Consumes bytes of the record up to a newline, the last carriage return that overwrites text, or
 * the maximum length of a line. The text in `rest` belongs in front of them.
 */
static int lines_return_line(struct tfc__lines *lines, struct tfc__line *line)
{
	const tfc_log_record *record = &lines->record;
	struct tfc__partial_line *rest = &lines->rest[tfc__stream_slot(record->stream)];
	if (rest->attempt != record->attempt) /* a later attempt does not complete the line */
		partial_line_drop_erased(rest);
	if (rest->text.len && rest->attempt != record->attempt)
		return lines_return_unfinished(lines, rest, line);
	bool is_report = record->stream == TFC_STREAM_REPORT; /* the bytes are kept as they are */
	const char *data = record->data + lines->at;
	if (rest->text.len == 0 || (rest->is_returned && *data != '\r' && *data != '\n')) {
		tfc__buf_clear(&rest->text);
		rest->is_returned = false;
	}
	uint64_t left = record->len - lines->at;
	uint64_t room = TFC__LINE_MAX - rest->text.len;
	uint64_t most = left < room ? left : room;
	const char *newline = most ? memchr(data, '\n', most) : NULL;
	/*
	 * The end of a line directly behind a full line ends that line and is not an empty line of
	 * its own.
	 */
	while (!is_report && !newline && most < left && data[most] == '\r')
		most++;
	if (!newline && most < left && data[most] == '\n')
		newline = data + most;
	uint64_t read = newline ? (uint64_t)(newline - data) : most;
	uint64_t len = is_report ? read : tfc__line_trimmed(data, read);
	uint64_t overwritten = is_report ? 0 : tfc__line_overwritten(data, len);
	if (overwritten) {
		tfc__buf_clear(&rest->text);
		rest->is_bar = true;
		lines->at += overwritten;
		return 0;
	}
	bool is_full = !newline && left > most && len == read;
	bool is_whole = newline || is_full, is_first = rest->text.len == 0;
	if ((!is_whole || !is_first) && !partial_line_add(rest, data, len))
		return TFC_ENOMEM;
	if (!is_whole) { /* the beginning of a line */
		if (is_first)
			rest->begin = (struct tfc__reported){record->position, lines->at};
		rest->is_returned = len < read;
		rest->is_bar |= rest->is_returned;
		rest->is_changed = true;
		rest->attempt = record->attempt;
		rest->time_ns = record->time_ns;
		lines->at += read;
		return 0;
	}
	lines->at += read + (newline ? 1 : 0);
	rest->is_bar &= is_full;
	if (!is_first) {
		data = rest->text.data;
		len = rest->text.len;
		lines->flushed = rest;
	}
	*line = (struct tfc__line){
		.stream = record->stream,
		.attempt = record->attempt,
		.time_ns = record->time_ns,
		.is_partial = is_full,
		.data = data,
		.len = len,
		.cursor = tfc__lines_cursor(lines),
	};
	return 1;
}

/* A gap ends the unfinished lines before it: the text behind the gap is another line. */
static int lines_return_gap(struct tfc__lines *lines, struct tfc__line *line)
{
	if (tfc__lines_flush(lines, line))
		return 1;
	lines->is_gap_waiting = false;
	*line = (struct tfc__line){
		.stream = TFC_STREAM_GAP,
		.attempt = lines->record.attempt,
		.time_ns = lines->record.time_ns,
		.len = lines->record.len,
		.cursor = tfc__lines_cursor(lines),
	};
	return 1;
}

int tfc__lines_next(struct tfc__lines *lines, uint64_t until, tfc_error *error,
		    struct tfc__line *ret_line)
{
	int code = 0;
	lines_drop_flushed(lines);
	while (code == 0) {
		if (lines->is_gap_waiting)
			return lines_return_gap(lines, ret_line);
		if (lines->at < lines->record.len) {
			code = lines_return_line(lines, ret_line);
			continue;
		}
		code = lines->position < until ? lines_read_record(lines, error) : 0;
		if (code <= 0)
			return code;
		code = 0;
	}
	return code < 0 ? tfc__fail_nomem(error, "log") : code;
}
