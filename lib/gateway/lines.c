#include "gateway/lines.h"

#include <string.h>

#include "base/fail.h"

void tfc__lines_init(struct tfc__lines *lines, uint64_t position, uint64_t skip)
{
	*lines = (struct tfc__lines){.position = position, .skip = skip};
}

void tfc__lines_park(struct tfc__lines *lines)
{
	tfc_log_close(lines->log);
	lines->log = NULL;
	lines->record.len = lines->at = 0;
}

void tfc__lines_fini(struct tfc__lines *lines)
{
	tfc__lines_park(lines);
	for (size_t i = 0; i < 3; i++)
		tfc__buf_fini(&lines->rest[i]);
}

uint64_t tfc__lines_position(const struct tfc__lines *lines)
{
	return lines->position;
}

static void drop_told(struct tfc__lines *lines)
{
	if (lines->is_flushed)
		tfc__buf_clear(&lines->rest[lines->flushed]);
	lines->is_flushed = false;
}

/* Puts the next record in place: 1, 0 when there is none, or an error. */
static int read_record(struct tfc__lines *lines, const char *dir, const char *name,
		       tfc_error *error)
{
	int code = TFC_OK;
	if (!lines->log)
		code = tfc_log_open(dir, name, lines->position, error, &lines->log);
	if (code < 0)
		return code;
	lines->record = (tfc_log_record)TFC_LOG_RECORD_INIT;
	lines->at = 0;
	code = tfc_log_next(lines->log, &lines->record, error);
	if (code <= 0) {
		lines->record.len = 0;
		return code;
	}
	lines->position = lines->record.next;
	if (lines->record.stream != TFC_STREAM_GAP)
		lines->at = lines->skip < lines->record.len ? lines->skip : lines->record.len;
	lines->skip = 0;
	return 1;
}

static void fill(const struct tfc__lines *lines, struct tfc__line *line, uint32_t stream,
		 const char *data, uint64_t len)
{
	*line = (struct tfc__line){
		.stream = stream,
		.attempt = lines->record.attempt,
		.time_ns = lines->record.time_ns,
		.data = data,
		.len = len,
		.position = lines->record.position,
		.skip = lines->at,
	};
	if (lines->at == lines->record.len) {
		line->position = lines->record.next;
		line->skip = 0;
	}
}

/* Takes bytes of the record, up to a newline or the longest line, in front of which `rest` belongs.
 */
static int take_line(struct tfc__lines *lines, struct tfc__line *line)
{
	uint32_t stream = lines->record.stream;
	struct tfc__buf *rest = &lines->rest[stream];
	const char *data = lines->record.data + lines->at;
	uint64_t left = lines->record.len - lines->at;
	uint64_t room = TFC__LINE_MAX - rest->len;
	uint64_t look = left < room ? left : room;
	const char *newline = look ? memchr(data, '\n', look) : NULL;
	/* A newline right behind a full line ends it, and is no line of its own. */
	if (!newline && left > room && data[room] == '\n')
		newline = data + room;
	bool is_full = !newline && left > room;
	uint64_t len = newline ? (uint64_t)(newline - data) : look;
	lines->at += len + (newline ? 1 : 0);
	if (!newline && !is_full) { /* all of the record is the beginning of a line */
		tfc__buf_add(rest, data, len);
		lines->rest_attempt[stream] = lines->record.attempt;
		lines->rest_time[stream] = lines->record.time_ns;
		return rest->is_failed ? TFC_ENOMEM : 0;
	}
	if (rest->len) {
		tfc__buf_add(rest, data, len);
		if (rest->is_failed)
			return TFC_ENOMEM;
		data = rest->data;
		len = rest->len;
		lines->is_flushed = true;
		lines->flushed = stream;
	}
	fill(lines, line, stream, data, len);
	line->is_partial = is_full;
	return 1;
}

static int take_gap(struct tfc__lines *lines, struct tfc__line *line)
{
	uint64_t len = lines->record.len;
	lines->at = len;
	fill(lines, line, TFC_STREAM_GAP, NULL, len);
	return 1;
}

int tfc__lines_next(struct tfc__lines *lines, const char *dir, const char *name,
		    struct tfc__line *ret_line, tfc_error *error)
{
	int code = 0;
	drop_told(lines);
	while (code == 0) {
		if (lines->at >= lines->record.len) {
			code = read_record(lines, dir, name, error);
			if (code <= 0)
				return code;
			if (lines->record.stream == TFC_STREAM_GAP)
				return take_gap(lines, ret_line);
			code = 0;
			continue;
		}
		code = take_line(lines, ret_line);
	}
	return code < 0 ? tfc__fail_nomem(error, "gateway") : code;
}

int tfc__lines_flush(struct tfc__lines *lines, struct tfc__line *ret_line)
{
	drop_told(lines);
	for (uint32_t stream = 1; stream < 3; stream++) {
		struct tfc__buf *rest = &lines->rest[stream];
		if (rest->len == 0)
			continue;
		*ret_line = (struct tfc__line){
			.stream = stream,
			.attempt = lines->rest_attempt[stream],
			.time_ns = lines->rest_time[stream],
			.data = rest->data,
			.len = rest->len,
			.position = lines->position,
		};
		lines->is_flushed = true;
		lines->flushed = stream;
		return 1;
	}
	return 0;
}
