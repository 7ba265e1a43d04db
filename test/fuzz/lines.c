/* gateway: lines out of a log. A cursor of any line, written down and read again, leads to the same
 * lines behind it; and text is a cursor only when it is written so. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "fuzz.h"
#include "gateway/place.h"
#include "log/format.h"
#include "log/local.h"

#define LINES_MAX 64
#define LOG_MAX 300000

struct reported {
	uint32_t stream, attempt;
	bool is_partial;
	char *text;
	size_t len;
	struct tfc__cursor_text cursor;
};

static void write_log(struct fuzz_input *input)
{
	char path[512], name[TFC__LOG_PATH_SIZE], header[TFC__LOG_HEADER];
	struct tfc__buf bytes = {0};
	while (input->len && bytes.len < LOG_MAX) {
		uint8_t kind = (uint8_t)fuzz_number(input, 1);
		size_t len, wanted = (size_t)fuzz_number(input, 1) + 1;
		if (kind & 0x40) /* long lines are split */
			wanted *= 400;
		const uint8_t *data = fuzz_bytes(input, kind & 0x40 ? 8 : wanted, &len);
		struct tfc__log_header head = {.time_ns = bytes.len,
					       .stream = kind & 0x20 ? 'r' : "ooeg"[kind & 3],
					       .attempt = 1 + (kind >> 2 & 3),
					       .len = kind & 0x40 ? wanted % 65536 + 1 : len};
		if (!len)
			break;
		tfc__log_header_write(header, &head);
		tfc__buf_add(&bytes, header, sizeof(header));
		if (head.stream == 'g')
			continue;
		char *at = tfc__buf_reserve(&bytes, head.len);
		CHECK(at);
		for (uint64_t i = 0; i < head.len; i++)
			at[i] = (char)data[i % len];
		tfc__buf_grow(&bytes, head.len);
		if (bytes.data[bytes.len - 1] != '\n')
			tfc__buf_add_char(&bytes, '\n');
	}
	tfc__log_segment_name(name, "task", 0);
	snprintf(path, sizeof(path), "%s/%s", fuzz_dir(), name);
	fuzz_write(path, bytes.data ? bytes.data : "", bytes.len);
	tfc__buf_fini(&bytes);
}

static size_t read_lines(const struct tfc__lines_cursor *from, struct reported *reported)
{
	struct tfc__lines lines;
	struct tfc__line line;
	tfc_error error = TFC_ERROR_INIT;
	size_t count = 0;
	int code = 1;
	tfc__lines_init(&lines, from);
	lines.wants_reports = true;
	while (count < LINES_MAX && code == 1) {
		if (!lines.source)
			tfc__lines_attach(&lines, tfc__log_file_open(fuzz_dir(), "task",
								     lines.position, &error));
		code = tfc__lines_next(&lines, UINT64_MAX, &error, &line);
		CHECK(code >= 0);
		if (code == 0)
			code = tfc__lines_flush(&lines, &line);
		if (code == 0)
			break;
		struct reported *one = &reported[count++];
		*one = (struct reported){line.stream,      line.attempt,
					 line.is_partial,  line.data ? malloc(line.len + 1) : NULL,
					 (size_t)line.len, {""}};
		CHECK(line.len <= TFC__LINE_MAX || line.stream == TFC_STREAM_GAP);
		if (line.data)
			memcpy(one->text, line.data, line.len);
		tfc__cursor_write(&one->cursor, &line.cursor);
	}
	tfc__lines_fini(&lines);
	return count;
}

static void free_lines(struct reported *reported, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(reported[i].text);
}

static void check_same(const struct reported *a, const struct reported *b)
{
	CHECK(a->stream == b->stream && a->attempt == b->attempt);
	CHECK(a->is_partial == b->is_partial && a->len == b->len);
	CHECK(!a->text || memcmp(a->text, b->text, a->len) == 0);
}

static void check_behind(const struct reported *reported, size_t count, size_t number)
{
	struct reported again[LINES_MAX];
	struct tfc__lines_cursor cursor;
	CHECK(tfc__cursor_read(reported[number].cursor.text, &cursor));
	size_t again_count = read_lines(&cursor, again);
	if (count < LINES_MAX)
		CHECK(again_count == count - number - 1);
	for (size_t i = 0; i < again_count && number + 1 + i < count; i++)
		check_same(&again[i], &reported[number + 1 + i]);
	free_lines(again, again_count);
}

static void check_text(const uint8_t *data, size_t size)
{
	struct tfc__place place = {0};
	char *text = strndup((const char *)data, size);
	CHECK(text);
	if (tfc__place_read(&place, 1000, text) == TFC_OK)
		CHECK(strcmp(tfc__place_text(&place), text) == 0);
	tfc__place_fini(&place);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	struct reported reported[LINES_MAX];
	check_text(data, size);
	size_t number = (size_t)fuzz_number(&input, 1);
	write_log(&input);
	size_t count = read_lines(NULL, reported);
	if (count)
		check_behind(reported, count, number % count);
	free_lines(reported, count);
	return 0;
}
