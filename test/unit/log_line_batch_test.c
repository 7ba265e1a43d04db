/* log: lines come out of a batch as they were put into it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"
#include "log/line_batch.h"

#define OUT TFC_STREAM_STDOUT
#define ERR TFC_STREAM_STDERR
#define AT(position, skip, other_position, other_skip)     \
	{                                                  \
		{                                          \
			{position, skip},                  \
			{                                  \
				other_position, other_skip \
			}                                  \
		}                                          \
	}

static void begin(struct tfc__line_batch_reader *reader, const struct tfc__line_batch *batch)
{
	tfc__line_batch_read(reader, batch->text.data, batch->text.len, batch->table.data,
			     batch->table.len, batch->has_reports);
}

static void expect_line(struct tfc__line_batch_reader *reader, const struct tfc__line *expected)
{
	struct tfc__line line;
	assert_int_equal(tfc__line_batch_next(reader, &line), 1);
	assert_int_equal(line.stream, expected->stream);
	assert_true(line.time_ns == expected->time_ns);
	assert_int_equal(line.is_partial, expected->is_partial);
	assert_int_equal(line.len, expected->len);
	assert_memory_equal(line.data, expected->data, line.len);
	assert_memory_equal(&line.cursor, &expected->cursor, sizeof(line.cursor));
}

static void expect_end(struct tfc__line_batch_reader *reader)
{
	struct tfc__line line;
	assert_int_equal(tfc__line_batch_next(reader, &line), 0);
}

/* Lines of one record take a byte or two; the cursor is written where a record begins or ends, and
 * where one stream alone has moved. */
static void lines_are_as_these_bytes(void **state)
{
	struct tfc__line lines[] = {
		{OUT, 1, 1000, false, "ab", 2, AT(0x100, 3, 0x100, 3)},
		{OUT, 1, 1000, false, "", 0, AT(0x100, 4, 0x100, 4)},
		{OUT, 1, 1000, false, "cdefghijk", 9, AT(0x180, 0, 0x180, 0)},
		{ERR, 1, 1300, false, "l", 1, AT(0x180, 0, 0x180, 2)},
		{ERR, 1, 1300, false, "m", 1, AT(0x180, 0, 0x180, 4)},
		{OUT, 1, 900, true, "n", 1, AT(0x181, 1, 0x180, 4)},
	};
	struct tfc__line_batch batch = {.count = 0};
	struct tfc__line_batch_reader reader;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		tfc__lines_cursor_make_plain(&lines[i].cursor);
		tfc__line_batch_add(&batch, &lines[i]);
	}
	assert_int_equal(batch.count, 6);
	begin(&reader, &batch);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		expect_line(&reader, &lines[i]);
	expect_end(&reader);
	golden_expect(&batch.table,
		      "2ce8078002038002030098018001008001001dac0200000002111ef0fcffffffffffffff0101"
		      "010004");
	golden_expect(&batch.text, "61620a0a636465666768696a6b0a6c0a6d0a6e0a");
}

static uint64_t any_number(unsigned *seed)
{
	uint64_t number = (uint64_t)rand_r(seed) << 33 ^ (uint64_t)rand_r(seed) << 10 ^
			  (uint64_t)rand_r(seed);
	return number >> rand_r(seed) % 64;
}

/* With reports the table has the positions of three streams, and lines of one record still take a
 * byte or two. */
static void reports_are_as_these_bytes(void **state)
{
	static const struct tfc__line lines[] = {
		{OUT, 1, 1000, false, "ab", 2, {{{0x100, 3}, {0x100, 3}, {0x100, 3}}}},
		{TFC_STREAM_REPORT, 1, 1000, false, "r", 1, {{{0x140, 0}, {0x140, 0}, {0x140, 2}}}},
		{TFC_STREAM_REPORT, 1, 1000, true, "\r", 1, {{{0x140, 0}, {0x140, 0}, {0x140, 4}}}},
		{ERR, 1, 1000, false, "", 0, {{{0x180, 0}, {0x180, 1}, {0x140, 4}}}},
	};
	struct tfc__line_batch batch = {.has_reports = true};
	struct tfc__line_batch_reader reader;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		tfc__line_batch_add(&batch, &lines[i]);
	begin(&reader, &batch);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		expect_line(&reader, &lines[i]);
	expect_end(&reader);
	golden_expect(&batch.table, "4ce807800203800203800203384000400040023209400040010004");
	golden_expect(&batch.text, "61620a720a0d0a0a");
	tfc__line_batch_fini(&batch);
}

static void any_lines_come_as_they_were_added(void **state)
{
	static const uint32_t kinds[] = {OUT, ERR, TFC_STREAM_REPORT};
	static char text[TFC__LINE_MAX];
	struct tfc__line_batch batch = {.count = 0};
	for (unsigned seed = 1; seed < 300; seed++) {
		unsigned one = seed, other = seed;
		int streams = seed % 2 ? 3 : 2;
		batch.has_reports = streams == 3;
		for (int pass = 0; pass < 2; pass++) {
			struct tfc__line_batch_reader reader;
			struct tfc__line line = {.data = text};
			unsigned *random = pass ? &other : &one;
			if (pass)
				begin(&reader, &batch);
			for (int i = 0; i < 20; i++) {
				line.stream = kinds[rand_r(random) % (unsigned)streams];
				line.is_partial = rand_r(random) % 8 == 0;
				line.time_ns = rand_r(random) % 2 ? line.time_ns
								  : any_number(random);
				line.len = any_number(random) % (TFC__LINE_MAX + 1);
				for (int k = 0; k < streams && rand_r(random) % 2; k++)
					line.cursor.reported[k] =
						(struct tfc__reported){any_number(random),
								       any_number(random)};
				if (streams == 2)
					tfc__lines_cursor_make_plain(&line.cursor);
				if (pass)
					expect_line(&reader, &line);
				else
					tfc__line_batch_add(&batch, &line);
			}
			if (pass)
				expect_end(&reader);
		}
		tfc__line_batch_clear(&batch);
		assert_int_equal(batch.count, 0);
	}
	tfc__line_batch_fini(&batch);
}

static void what_no_batch_has_is_refused(void **state)
{
	static const struct {
		const char *table, *text;
		int lines; /* before the refusal */
	} malformed[] = {
		{"08010001001000", "0a0a", 1}, /* more than the text */
		{"1801000100", "61", 0},       /* no newline */
		{"1801000100", "6162", 0},
		{"080100010000", "0a62", 1},
		{"0801000100", "0a0a", 1}, /* text without a line */
		{"08", "0a", 0},           /* no cursor */
		{"080100", "0a", 0},       /* half a cursor */
		{"0801008100", "0a", 0},   /* ends within a number */
		{"80", "0a", 0},
		{"04", "0a", 0},                   /* no time */
		{"ffffffffffffffffff02", "0a", 0}, /* more than 64 bits */
		{"ffffffffffffffffffff00", "0a", 0},
		{"ffffffffffffffffff01", "0a", 0}, /* longer than any line */
		{"", "0a", 0},
	};
	for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
		struct tfc__buf table = golden_bytes(malformed[i].table);
		struct tfc__buf text = golden_bytes(malformed[i].text);
		struct tfc__line_batch_reader reader;
		struct tfc__line line;
		int lines = 0, code;
		tfc__line_batch_read(&reader, text.data, text.len, table.len ? table.data : "",
				     table.len, false);
		while ((code = tfc__line_batch_next(&reader, &line)) > 0)
			lines++;
		assert_int_equal(code, TFC_EPARSE);
		assert_int_equal(lines, malformed[i].lines);
		tfc__buf_fini(&table);
		tfc__buf_fini(&text);
	}
}

/* A line that is longer than any log has is refused although its text is there. */
static void a_line_is_as_long_as_a_line_may_be(void **state)
{
	static char text[TFC__LINE_MAX + 2];
	static const uint8_t longest[] = {0x80, 0x80, 0x40}, longer[] = {0x90, 0x80, 0x40};
	struct tfc__line_batch_reader reader;
	struct tfc__line line;
	text[TFC__LINE_MAX] = text[TFC__LINE_MAX + 1] = '\n';
	tfc__line_batch_read(&reader, text, TFC__LINE_MAX + 1, longest, sizeof(longest), false);
	assert_int_equal(tfc__line_batch_next(&reader, &line), 1);
	assert_int_equal(line.len, TFC__LINE_MAX);
	tfc__line_batch_read(&reader, text, sizeof(text), longer, sizeof(longer), false);
	assert_int_equal(tfc__line_batch_next(&reader, &line), TFC_EPARSE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_as_these_bytes),
		cmocka_unit_test(reports_are_as_these_bytes),
		cmocka_unit_test(any_lines_come_as_they_were_added),
		cmocka_unit_test(what_no_batch_has_is_refused),
		cmocka_unit_test(a_line_is_as_long_as_a_line_may_be),
	};
	return cmocka_run_group_tests_name("log_line_batch", tests, NULL, NULL);
}
