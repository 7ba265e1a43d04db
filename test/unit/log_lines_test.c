/* log: lines out of a task's log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "leaks.h"
#include "log/format.h"
#include "log/lines.h"
#include "log/local.h"

struct log {
	char dir[LEAKS_PATH];
	struct tfc__buf bytes;
	struct tfc__lines lines;
};

static int set_up(void **state)
{
	struct log *log = calloc(1, sizeof(*log));
	*state = log;
	leaks_make_dir(log->dir);
	return 0;
}

static int tear_down(void **state)
{
	struct log *log = *state;
	tfc__lines_fini(&log->lines);
	tfc__buf_fini(&log->bytes);
	int code = tfc__remove_tree(log->dir);
	free(log);
	return code;
}

/* Adds one record, as a shim writes it. */
static void add(struct log *log, char stream, uint32_t attempt, const char *data, size_t len)
{
	struct tfc__log_header header = {.time_ns = 1000 + log->bytes.len,
					 .stream = stream,
					 .attempt = attempt,
					 .len = len};
	char text[TFC__LOG_HEADER];
	tfc__log_header_write(text, &header);
	tfc__buf_add(&log->bytes, text, sizeof(text));
	if (stream == 'g')
		return;
	tfc__buf_add(&log->bytes, data, len);
	if (!len || data[len - 1] != '\n')
		tfc__buf_add_char(&log->bytes, '\n');
}

static void add_text(struct log *log, char stream, const char *text)
{
	add(log, stream, 1, text, strlen(text));
}

static void save_at(struct log *log, uint64_t position)
{
	char name[TFC__LOG_PATH_SIZE];
	tfc__log_segment_name(name, "worker-0", position);
	char *path = tfc__path_join(log->dir, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(log->bytes.data, 1, log->bytes.len, file), log->bytes.len);
	fclose(file);
	free(path);
}

static void save(struct log *log)
{
	save_at(log, 0);
}

/* As rotation leaves it: what was before is gone, and the first segment is empty. */
static void save_rotated(struct log *log, uint64_t position)
{
	static const struct timespec long_ago[2];
	struct log empty = {0};
	char name[TFC__LOG_PATH_SIZE];
	memcpy(empty.dir, log->dir, sizeof(empty.dir));
	save(&empty);
	tfc__log_segment_name(name, "worker-0", 0);
	char *path = tfc__path_join(log->dir, name);
	assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
	free(path);
	save_at(log, position);
}

static int next_until(struct log *log, uint64_t until, struct tfc__line *line, tfc_error *error)
{
	if (!log->lines.source)
		tfc__lines_attach(&log->lines, tfc__log_file_open(log->dir, "worker-0",
								  log->lines.position, error));
	return tfc__lines_next(&log->lines, until, error, line);
}

static int next(struct log *log, struct tfc__line *line)
{
	tfc_error error = TFC_ERROR_INIT;
	return next_until(log, UINT64_MAX, line, &error);
}

static void expect(struct log *log, uint32_t stream, const char *text)
{
	struct tfc__line line;
	assert_int_equal(next(log, &line), 1);
	assert_int_equal(line.stream, stream);
	assert_int_equal(line.len, strlen(text));
	assert_memory_equal(line.data, text, line.len);
	assert_false(line.is_partial);
}

static void lines_are_put_together_per_stream(void **state)
{
	struct log *log = *state;
	struct tfc__line line;
	add_text(log, 'o', "one\ntw");
	add_text(log, 'e', "err");
	add_text(log, 'o', "o\n\nthree");
	add_text(log, 'e', "or\n");
	save(log);
	tfc__lines_init(&log->lines, NULL);
	expect(log, TFC_STREAM_STDOUT, "one");
	expect(log, TFC_STREAM_STDOUT, "two");
	expect(log, TFC_STREAM_STDOUT, "");
	expect(log, TFC_STREAM_STDERR, "error");
	assert_int_equal(next(log, &line), 0);
	assert_int_equal(tfc__lines_flush(&log->lines, &line), 1);
	assert_memory_equal(line.data, "three", 5);
	assert_int_equal(line.stream, TFC_STREAM_STDOUT);
	assert_int_equal(tfc__lines_flush(&log->lines, &line), 0);
	assert_int_equal(log->lines.position, log->bytes.len);
}

/* A reader that begins at the start gets a gap for what is no longer there, and goes on behind it.
 */
static void a_log_that_was_rotated_begins_with_a_gap(void **state)
{
	struct log *log = *state;
	const struct tfc__lines_cursor cursors[] = {{{{0, 0}, {0, 0}}},
						    {{{0, 0}, {300, 0}}},
						    {{{0, 0}, {1000, 0}}}};
	add_text(log, 'o', "one\n");
	add_text(log, 'e', "two\n");
	save_rotated(log, 1000);
	for (size_t i = 0; i < 3; i++) {
		struct tfc__line line;
		tfc__lines_init(&log->lines, &cursors[i]);
		if (i < 2) {
			assert_int_equal(next(log, &line), 1);
			assert_int_equal(line.stream, TFC_STREAM_GAP);
			assert_int_equal(line.len, 1000);
			assert_int_equal(line.time_ns, 1000); /* as what comes behind it */
			assert_int_equal(line.cursor.reported[0].position, 1000);
			assert_int_equal(line.cursor.reported[1].position, 1000);
		}
		expect(log, TFC_STREAM_STDOUT, "one");
		expect(log, TFC_STREAM_STDERR, "two");
		assert_int_equal(next(log, &line), 0);
		tfc__lines_fini(&log->lines);
	}
}

static void a_line_of_the_greatest_length_is_whole_and_a_longer_one_is_split(void **state)
{
	struct log *log = *state;
	struct tfc__line line;
	char *data = malloc(TFC__LINE_MAX + 1);
	memset(data, 'x', TFC__LINE_MAX);
	add(log, 'o', 1, data, TFC__LINE_MAX);
	add_text(log, 'o', "\n");
	add(log, 'o', 1, data, TFC__LINE_MAX);
	add_text(log, 'o', "tail\n");
	save(log);
	tfc__lines_init(&log->lines, NULL);
	assert_int_equal(next(log, &line), 1);
	assert_int_equal(line.len, TFC__LINE_MAX);
	assert_false(line.is_partial);
	assert_int_equal(next(log, &line), 1);
	assert_int_equal(line.len, TFC__LINE_MAX);
	assert_true(line.is_partial);
	expect(log, TFC_STREAM_STDOUT, "tail");
	assert_int_equal(next(log, &line), 0);
	free(data);
}

static void want(struct log *log, bool output, bool reports)
{
	log->lines.skips_output = !output;
	log->lines.wants_reports = reports;
}

static void add_three_streams(struct log *log)
{
	add_text(log, 'o', "a");
	add_text(log, 'r', "one\ntw");
	add_text(log, 'e', "b");
	add_text(log, 'r', "o\n");
	add_text(log, 'o', "c\nd");
	add_text(log, 'r', "\r\n50%\r60%\r\nthr");
	add_text(log, 'e', "\n");
	add_text(log, 'o', "\n");
	add_text(log, 'r', "ee\n");
	add_text(log, 'e', "f\n");
	save(log);
}

static const struct {
	uint32_t stream;
	const char *text;
} three_streams[] = {
	{TFC_STREAM_REPORT, "one"}, {TFC_STREAM_REPORT, "two"},        {TFC_STREAM_STDOUT, "ac"},
	{TFC_STREAM_REPORT, "\r"},  {TFC_STREAM_REPORT, "50%\r60%\r"}, {TFC_STREAM_STDERR, "b"},
	{TFC_STREAM_STDOUT, "d"},   {TFC_STREAM_REPORT, "three"},      {TFC_STREAM_STDERR, "f"},
};
#define THREE_STREAMS (sizeof(three_streams) / sizeof(three_streams[0]))

/* The lines from number `from` on, of the streams that are wanted. */
static void expect_three_streams(struct log *log, size_t from)
{
	struct tfc__line line;
	for (size_t i = from; i < THREE_STREAMS; i++) {
		bool is_report = three_streams[i].stream == TFC_STREAM_REPORT;
		if (is_report ? log->lines.wants_reports : !log->lines.skips_output)
			expect(log, three_streams[i].stream, three_streams[i].text);
	}
	assert_int_equal(next(log, &line), 0);
	assert_int_equal(tfc__lines_flush(&log->lines, &line), 0);
}

static void reports_are_lines_whose_bytes_are_kept(void **state)
{
	struct log *log = *state;
	add_three_streams(log);
	want(log, true, true);
	expect_three_streams(log, 0);
}

static void streams_that_are_not_wanted_are_skipped(void **state)
{
	struct log *log = *state;
	add_three_streams(log);
	expect_three_streams(log, 0);
	tfc__lines_fini(&log->lines);
	tfc__lines_init(&log->lines, NULL);
	want(log, false, true);
	expect_three_streams(log, 0);
}

/* Also when they begin behind the cursor of somebody who wants reports. */
static void cursors_without_reports_have_no_place_of_reports(void **state)
{
	struct log *log = *state;
	struct tfc__line line;
	struct tfc__lines_cursor cursor = {{{0, 0}, {0, 0}, {0, 0}}};
	add_text(log, 'o', "a");
	add_text(log, 'e', "b");
	add_text(log, 'r', "unfinished");
	save(log);
	for (int has_reports = 1; has_reports >= 0; has_reports--) {
		tfc__lines_init(&log->lines, &cursor);
		want(log, true, has_reports);
		assert_int_equal(next(log, &line), 0);
		cursor = tfc__lines_cursor(&log->lines);
		assert_int_equal(tfc__lines_cursor_is_plain(&cursor), !has_reports);
		tfc__lines_fini(&log->lines);
	}
}

static void a_cursor_continues_behind_a_report(void **state)
{
	struct log *log = *state;
	add_three_streams(log);
	for (size_t i = 0; i < THREE_STREAMS; i++) {
		struct tfc__line line;
		want(log, true, true);
		for (size_t k = 0; k <= i; k++)
			assert_int_equal(next(log, &line), 1);
		struct tfc__lines_cursor cursor = line.cursor;
		tfc__lines_fini(&log->lines);
		tfc__lines_init(&log->lines, &cursor);
		want(log, true, true);
		expect_three_streams(log, i + 1);
		tfc__lines_fini(&log->lines);
		tfc__lines_init(&log->lines, NULL);
	}
}

static void a_long_report_is_returned_in_parts(void **state)
{
	struct log *log = *state;
	struct tfc__line line;
	char *data = malloc(TFC__LINE_MAX);
	memset(data, 'x', TFC__LINE_MAX);
	data[TFC__LINE_MAX - 1] = '\r'; /* no part of a line's end */
	add(log, 'r', 1, data, TFC__LINE_MAX);
	add_text(log, 'r', "tail\nunfinished");
	save(log);
	want(log, true, true);
	assert_int_equal(next(log, &line), 1);
	assert_true(line.is_partial);
	assert_int_equal(line.stream, TFC_STREAM_REPORT);
	assert_int_equal(line.len, TFC__LINE_MAX);
	assert_memory_equal(line.data, data, TFC__LINE_MAX);
	expect(log, TFC_STREAM_REPORT, "tail");
	assert_int_equal(next(log, &line), 0);
	assert_int_equal(tfc__lines_flush(&log->lines, &line), 1);
	assert_int_equal(line.stream, TFC_STREAM_REPORT);
	assert_int_equal(line.len, 10);
	free(data);
}

static void a_gap_is_reported_in_its_place(void **state)
{
	struct log *log = *state;
	struct tfc__line line;
	add_text(log, 'o', "before\n");
	add(log, 'g', 1, NULL, 12345);
	add_text(log, 'o', "after\n");
	save(log);
	tfc__lines_init(&log->lines, NULL);
	expect(log, TFC_STREAM_STDOUT, "before");
	assert_int_equal(next(log, &line), 1);
	assert_int_equal(line.stream, TFC_STREAM_GAP);
	assert_int_equal(line.len, 12345);
	expect(log, TFC_STREAM_STDOUT, "after");
}

static void reading_goes_on_behind_any_line(void **state)
{
	static const char *const texts[] = {"a", "b", "cd", "e", "", "f"};
	struct log *log = *state;
	add_text(log, 'o', "a\nb\nc");
	add_text(log, 'o', "d\n");
	add_text(log, 'o', "e\n\nf\n");
	save(log);
	for (size_t stop = 0; stop < 6; stop++) {
		struct tfc__line line;
		tfc__lines_init(&log->lines, NULL);
		for (size_t i = 0; i <= stop; i++)
			assert_int_equal(next(log, &line), 1);
		tfc__lines_fini(&log->lines);
		struct tfc__lines_cursor cursor = line.cursor;
		tfc__lines_init(&log->lines, &cursor);
		for (size_t i = stop + 1; i < 6; i++)
			expect(log, TFC_STREAM_STDOUT, texts[i]);
		assert_int_equal(next(log, &line), 0);
		tfc__lines_fini(&log->lines);
	}
}

static void a_parked_reader_goes_on_where_it_was(void **state)
{
	struct log *log = *state;
	struct tfc__line line;
	add_text(log, 'o', "one\ntw");
	save(log);
	tfc__lines_init(&log->lines, NULL);
	expect(log, TFC_STREAM_STDOUT, "one");
	assert_int_equal(next(log, &line), 0);
	tfc__lines_park(&log->lines);
	add_text(log, 'o', "o\n");
	save(log);
	expect(log, TFC_STREAM_STDOUT, "two");
}

/* Half a line of one stream waits while the other goes on: a cursor knows both, also that of a
 * parked reader. */
static void reading_goes_on_behind_any_line_of_two_streams(void **state)
{
	static const char *const texts[] = {"x", "E", "one", "F", "two", "gh", "end"};
	struct log *log = *state;
	add_text(log, 'o', "x\non");
	add_text(log, 'e', "E\nF");
	add_text(log, 'o', "e\nt");
	add_text(log, 'e', "\ng");
	add_text(log, 'o', "wo\n");
	add_text(log, 'e', "h\n");
	add_text(log, 'o', "end\n");
	save(log);
	for (size_t stop = 0; stop < 2 * 7; stop++) {
		struct tfc__line line;
		for (size_t i = 0; i <= stop % 7; i++)
			assert_int_equal(next(log, &line), 1);
		struct tfc__lines_cursor cursor = line.cursor;
		if (stop >= 7) {
			tfc__lines_park(&log->lines);
			cursor = tfc__lines_cursor(&log->lines);
		}
		tfc__lines_fini(&log->lines);
		tfc__lines_init(&log->lines, &cursor);
		for (size_t i = stop % 7 + 1; i < 7; i++) {
			assert_int_equal(next(log, &line), 1);
			assert_int_equal(line.len, strlen(texts[i]));
			assert_memory_equal(line.data, texts[i], line.len);
		}
		assert_int_equal(next(log, &line), 0);
		tfc__lines_fini(&log->lines);
		tfc__lines_init(&log->lines, NULL);
	}
}

static void a_gap_ends_the_lines_that_were_begun(void **state)
{
	struct log *log = *state;
	struct tfc__line line;
	add_text(log, 'o', "half");
	add(log, 'g', 1, NULL, 7);
	add_text(log, 'o', "other\n");
	save(log);
	expect(log, TFC_STREAM_STDOUT, "half");
	tfc__lines_park(&log->lines);
	assert_int_equal(next(log, &line), 1);
	assert_int_equal(line.stream, TFC_STREAM_GAP);
	struct tfc__lines_cursor cursor = line.cursor;
	tfc__lines_fini(&log->lines);
	tfc__lines_init(&log->lines, &cursor);
	expect(log, TFC_STREAM_STDOUT, "other");
}

static void an_attempt_does_not_end_the_line_of_another(void **state)
{
	struct log *log = *state;
	struct tfc__line line;
	add(log, 'o', 1, "no end", 6);
	uint64_t first_end = log->bytes.len;
	add(log, 'o', 2, "begin\n", 6);
	save(log);
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(next_until(log, first_end, &line, &error), 0);
	assert_int_equal(log->lines.position, first_end);
	expect(log, TFC_STREAM_STDOUT, "no end");
	expect(log, TFC_STREAM_STDOUT, "begin");
}

static void a_reader_of_one_attempt_reports_no_other(void **state)
{
	struct log *log = *state;
	struct tfc__line line;
	add(log, 'o', 1, "first\n", 6);
	add(log, 'o', 2, "second\n", 7);
	uint64_t end = log->bytes.len;
	add(log, 'g', 3, NULL, 7);
	add(log, 'o', 3, "third\n", 6);
	save(log);
	log->lines.attempt = 2;
	expect(log, TFC_STREAM_STDOUT, "second");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(next(log, &line), 0);
		assert_int_equal(log->lines.position, end);
	}
	log->lines.attempt = 3;
	assert_int_equal(next(log, &line), 1);
	assert_int_equal(line.stream, TFC_STREAM_GAP);
	expect(log, TFC_STREAM_STDOUT, "third");
}

/* The lines of a log whose records are `size` bytes of `text` each. */
static void expect_lines(struct log *log, const char *text, size_t size, const char *const *lines)
{
	size_t len = strlen(text);
	tfc__buf_clear(&log->bytes);
	for (size_t at = 0; at < len; at += size)
		add(log, 'e', 1, text + at, len - at < size ? len - at : size);
	save(log);
	tfc__lines_init(&log->lines, NULL);
	for (; *lines; lines++)
		expect(log, TFC_STREAM_STDERR, *lines);
	struct tfc__line line;
	assert_int_equal(next(log, &line), 0);
	assert_int_equal(tfc__lines_flush(&log->lines, &line), 0);
	tfc__lines_fini(&log->lines);
}

static void a_line_is_what_follows_its_last_carriage_return(void **state)
{
	static const struct {
		const char *text;
		const char *lines[4];
	} rows[] = {
		{"one\r\ntwo\r\n", {"one", "two"}},
		{"\r  0%|  | 0/2\r 50%|# | 1/2\r100%|##| 2/2\nnext\n", {"100%|##| 2/2", "next"}},
		{"1/3\r2/3\r3/3\r\nnext\n", {"3/3", "next"}},
		{"\b\b\r1/2 - 0s\b\b\b\b\r2/2 - 1s\nnext\n", {"2/2 - 1s", "next"}},
		{"\r50%\r    \rdone\n", {"done"}},
		{"a\r\r\n\r\n\n", {"a", "", ""}},
		{"a\rb\n\rc\n", {"b", "c"}},
		{"\r50%\r   \r", {NULL}}, /* erased */
		{"\r50%\r   ", {NULL}},
		{"\r50%\r   \n", {"   "}},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t size = 1; size <= strlen(rows[i].text); size++)
			expect_lines(*state, rows[i].text, size, rows[i].lines);
}

static void an_erased_bar_is_no_line_of_its_attempt(void **state)
{
	struct log *log = *state;
	struct tfc__line line;
	add(log, 'e', 1, "\r 50%\r    \r", 11);
	add(log, 'e', 2, "  \n   ", 6);
	save(log);
	tfc__lines_init(&log->lines, NULL);
	expect(log, TFC_STREAM_STDERR, "  ");
	assert_int_equal(next(log, &line), 0);
	assert_int_equal(tfc__lines_flush(&log->lines, &line), 1); /* blanks without a bar */
	assert_int_equal(line.len, 3);
}

static void a_bar_without_an_end_takes_the_memory_of_one_line(void **state)
{
	struct log *log = *state;
	struct tfc__line line;
	char text[64];
	for (int i = 0; i < 20000; i++) {
		snprintf(text, sizeof(text), "\r%5d/20000 [======>          ]", i);
		add_text(log, 'o', text);
	}
	save(log);
	tfc__lines_init(&log->lines, NULL);
	assert_int_equal(next(log, &line), 0);
	assert_in_range(tfc__lines_bytes(&log->lines), 1, 1024);
	struct tfc__lines_cursor cursor = tfc__lines_cursor(&log->lines);
	assert_in_range(cursor.reported[0].position, log->bytes.len - 100, log->bytes.len);
	tfc__lines_fini(&log->lines);
	add_text(log, 'o', "\n");
	save(log);
	tfc__lines_init(&log->lines, &cursor);
	expect(log, TFC_STREAM_STDOUT, "19999/20000 [======>          ]");
}

static void a_line_is_split_where_its_text_is_too_long_without_what_was_overwritten(void **state)
{
	struct log *log = *state;
	struct tfc__line line;
	char *data = malloc(TFC__LINE_MAX);
	memset(data, 'x', TFC__LINE_MAX);
	add_text(log, 'o', "overwritten\r");
	add(log, 'o', 1, data, TFC__LINE_MAX);
	add_text(log, 'o', "\r\n");
	memset(data, '\r', TFC__LINE_MAX);
	for (int i = 0; i < 3; i++)
		add(log, 'o', 1, data, TFC__LINE_MAX);
	add_text(log, 'o', "short\n");
	save(log);
	tfc__lines_init(&log->lines, NULL);
	assert_int_equal(next(log, &line), 1);
	assert_int_equal(line.len, TFC__LINE_MAX);
	assert_int_equal(line.data[0], 'x');
	assert_false(line.is_partial);
	expect(log, TFC_STREAM_STDOUT, "short");
	assert_int_equal(next(log, &line), 0);
	free(data);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_log_that_was_rotated_begins_with_a_gap),
		TEST(lines_are_put_together_per_stream),
		TEST(a_line_of_the_greatest_length_is_whole_and_a_longer_one_is_split),
		TEST(reports_are_lines_whose_bytes_are_kept),
		TEST(streams_that_are_not_wanted_are_skipped),
		TEST(cursors_without_reports_have_no_place_of_reports),
		TEST(a_cursor_continues_behind_a_report),
		TEST(a_long_report_is_returned_in_parts),
		TEST(a_gap_is_reported_in_its_place),
		TEST(reading_goes_on_behind_any_line),
		TEST(a_parked_reader_goes_on_where_it_was),
		TEST(reading_goes_on_behind_any_line_of_two_streams),
		TEST(a_gap_ends_the_lines_that_were_begun),
		TEST(an_attempt_does_not_end_the_line_of_another),
		TEST(a_reader_of_one_attempt_reports_no_other),
		TEST(a_line_is_what_follows_its_last_carriage_return),
		TEST(an_erased_bar_is_no_line_of_its_attempt),
		TEST(a_bar_without_an_end_takes_the_memory_of_one_line),
		TEST(a_line_is_split_where_its_text_is_too_long_without_what_was_overwritten),
	};
	return cmocka_run_group_tests_name("gateway lines", tests, NULL, NULL);
}
