/* wire: a table of fields writes, reads and shows a struct; what does not fit is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "golden.h"
#include "wire/fields.h"

struct inner {
	uint32_t index; /* UINT32_MAX: none */
	char text[4];
};

struct outer {
	int untouched;
	bool is_on;
	uint32_t is_one;
	uint8_t small;
	uint32_t number;
	uint64_t large;
	int32_t integer;
	int64_t wide;
	uint64_t time_ns;
	char text[4];
	const char *string;
	const char *const *lines;
	const void *bytes;
	uint64_t bytes_len;
	uint8_t digest[4];
	const struct inner *one;
	uint32_t index; /* with label: a map of their own */
	char label[4];
	const struct inner *many;
	uint32_t many_count;
	void *custom;
};

static const struct inner no_inner = {.index = UINT32_MAX};
static const struct outer no_outer = {.string = "nothing", .index = UINT32_MAX};

#define INNER(...) TFC__FIELD(struct inner, __VA_ARGS__)
static const struct tfc__field inner_rows[] = {
	INNER("i", TFC__UINT, index, TFC__V0_2),
	INNER("t", TFC__TEXT, text, TFC__V0_2),
};
static const struct tfc__fields inner_fields = TFC__FIELDS(inner_rows, struct inner, &no_inner);

static void write_word(struct tfc__buf *buf, const void *value)
{
	tfc__msg_str(buf, value);
}

static int read_word(const msgpack_object *object, tfc_error *error, void **ret_value)
{
	size_t len;
	const char *text = tfc__msg_bytes(object, &len);
	free(*ret_value);
	*ret_value = NULL;
	if (!text || !len)
		return tfc__fail(error, TFC_EINVAL, "wire", 0, "it is no word");
	*ret_value = strndup(text, len);
	return *ret_value ? TFC_OK : tfc__fail_nomem(error, "wire");
}

static const struct tfc__field_custom word = {write_word, read_word};

static const char *name_number(uint32_t number)
{
	return number == 7 ? "seven" : "other";
}

enum { PLAIN = 1, FULL = 2 };

#define OUTER(name, type, member, ...) \
	TFC__FIELD(struct outer, name, type, member, TFC__V0_2, __VA_ARGS__)
static const struct tfc__field group_rows[] = {
	OUTER("i", TFC__UINT, index, .json = NULL),
	OUTER("t", TFC__TEXT, label, .json = NULL),
};
static const struct tfc__fields group_fields = TFC__FIELDS(group_rows, struct outer, &no_outer);

static const struct tfc__field outer_rows[] = {
	OUTER("on", TFC__BOOL, is_on, .json = "is_on", .shown = PLAIN | FULL),
	OUTER("one", TFC__BOOL, is_one, .json = "is_one", .shown_if_set = FULL),
	OUTER("s", TFC__UINT, small, .json = "small", .shown = PLAIN),
	OUTER("n", TFC__UINT, number, .json = "number", .shown = FULL, .word = name_number),
	OUTER("l", TFC__UINT, large, .json = "large", .shown_if_set = FULL),
	OUTER("i", TFC__INT, integer, .json = "integer", .shown_if_set = FULL),
	OUTER("w", TFC__INT, wide, .json = NULL),
	OUTER("at", TFC__TIME, time_ns, .json = NULL),
	OUTER("t", TFC__TEXT, text, .json = "text", .shown_if_set = FULL),
	OUTER("st", TFC__STRING, string, .json = "string", .shown = FULL, .max = 6),
	OUTER("li", TFC__LINES, lines, .json = "lines", .shown = FULL, .max = 2),
	OUTER("b", TFC__BYTES, bytes, .json = "bytes", .shown_if_set = FULL,
	      .count = offsetof(struct outer, bytes_len)),
	OUTER("d", TFC__DIGEST, digest, .json = NULL),
	OUTER("o", TFC__MESSAGE, one, .nested = &inner_fields),
	{.name = "g", .type = TFC__GROUP, .since = TFC__V0_2, .nested = &group_fields},
	OUTER("m", TFC__MESSAGES, many, .nested = &inner_fields, .max = 2,
	      .count = offsetof(struct outer, many_count)),
	OUTER("c", TFC__CUSTOM, custom, .custom = &word),
};
static const struct tfc__fields outer_fields = TFC__FIELDS(outer_rows, struct outer, &no_outer);

static int read(struct tfc__reader *reader, struct tfc__buf *buf, tfc_error *error,
		struct outer *ret_outer)
{
	struct tfc__msg msg;
	assert_false(buf->is_failed);
	int code = tfc__msg_parse(&msg, buf->data, buf->len, NULL, error);
	if (code < 0)
		fail_msg("%s", error->text);
	code = tfc__fields_read(reader, &outer_fields, &msg.root, error, ret_outer);
	tfc__msg_fini(&msg);
	return code;
}

static const char *const lines[] = {"", "t\xe9o", NULL};
static const struct inner inners[] = {{0, "abc"}, {UINT32_MAX, ""}};
static const struct outer full = {
	.is_on = true,
	.is_one = 1,
	.small = 200,
	.number = 7,
	.large = UINT64_MAX,
	.integer = INT32_MIN,
	.wide = INT64_MIN,
	.text = "abc",
	.string = "string",
	.lines = lines,
	.bytes = "\0\xff",
	.bytes_len = 2,
	.digest = {1, 2, 3, 4},
	.one = &inners[0],
	.index = 1,
	.label = "abc",
	.many = inners,
	.many_count = 2,
	.custom = (void *)"word",
};

static void what_was_written_is_read(void **state)
{
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__buf buf = {0};
	struct tfc__msg msg;
	tfc_error error = TFC_ERROR_INIT;
	struct outer again = {.untouched = 42};
	tfc__fields_write(&buf, &outer_fields, &full);
	assert_int_equal(tfc__msg_parse(&msg, buf.data, buf.len, NULL, &error), TFC_OK);
	if (tfc__fields_read(&reader, &outer_fields, &msg.root, &error, &again) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(again.untouched, 42);
	assert_true(again.is_on && again.is_one == 1 && again.small == 200 && again.number == 7);
	assert_true(again.large == UINT64_MAX && again.wide == INT64_MIN);
	assert_int_equal(again.integer, INT32_MIN);
	assert_string_equal(again.text, "abc");
	assert_string_equal(again.string, "string");
	assert_string_equal(again.lines[0], "");
	assert_string_equal(again.lines[1], "t\xe9o");
	assert_null(again.lines[2]);
	assert_int_equal(again.bytes_len, 2);
	assert_memory_equal(again.bytes, "\0\xff", 2);
	assert_memory_equal(again.digest, full.digest, 4);
	assert_int_equal(again.one->index, 0);
	assert_string_equal(again.one->text, "abc");
	assert_int_equal(again.index, 1);
	assert_string_equal(again.label, "abc");
	assert_int_equal(again.many_count, 2);
	assert_int_equal(again.many[1].index, UINT32_MAX);
	assert_string_equal(again.custom, "word");
	free(again.custom);
	tfc__msg_fini(&msg);
	tfc__reader_fini(&reader);
	golden_expect(&buf,
		      "de0010a26f6ec3a36f6e65c3a173ccc8a16e07a16ccfffffffffffffffffa169d280000000"
		      "a177d38000000000000000a174a3616263a27374a6737472696e67a26c6992a0c40374"
		      "e96fa162c40200ffa164c40401020304a16f82a16900a174a3616263a16782a16901a174a361"
		      "6263a16d9282a16900"
		      "a174a361626380a163a4776f7264");
}

static void what_has_its_initial_value_is_not_written_and_read_as_that(void **state)
{
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__buf buf = {0};
	tfc_error error = TFC_ERROR_INIT;
	struct outer again = full;
	tfc__fields_write(&buf, &outer_fields, &no_outer);
	assert_int_equal(tfc__fields_pairs(&outer_fields, &no_outer), 1);
	tfc__buf_clear(&buf);
	tfc__msg_map(&buf, 2);
	tfc__msg_put_str(&buf, "string of a later version", "x");
	tfc__msg_put_str(&buf, "n", NULL);
	assert_int_equal(read(&reader, &buf, &error, &again), TFC_OK);
	assert_memory_equal(&again, &no_outer, sizeof(again));
	tfc__buf_fini(&buf);
	tfc__reader_fini(&reader);
}

static void a_value_that_does_not_fit_is_named(void **state)
{
	static const struct {
		const char *hex, *text;
	} cases[] = {
		{"90", "must be a map"},
		{"c0", "must be a map"},
		{"81a26f6ea0", "on: must be true or false"},
		{"81a173cd0100", "s: must be a number from 0 to 255"},
		{"81a16ecf0000000100000000", "n: must be a number from 0 to 4294967295"},
		{"81a16eff", "n: must be a number from 0 to 4294967295"},
		{"81a169ce80000000", "i: must be a whole number of 32 bits"},
		{"81a177cf8000000000000000", "w: must be a whole number of 64 bits"},
		{"81a174a461626364", "t: must be text of at most 3 bytes without a NUL"},
		{"81a174a3610063", "t: must be text of at most 3 bytes without a NUL"},
		{"81a2737401", "st: must be text without a NUL"},
		{"81a27374a761616161616161", "st: is longer than 6 bytes"},
		{"81a26c69a0", "li: must be a list of at most 2 items"},
		{"81a26c6993a0a0a0", "li: must be a list of at most 2 items"},
		{"81a26c699101", "li: must be a list of texts"},
		{"81a16201", "b: must be bytes"},
		{"81a164c403010203", "d: must have 4 bytes"},
		{"81a16f01", "o: must be a map"},
		{"81a16f81a169a0", "o.i: must be a number from 0 to 4294967295"},
		{"81a16701", "g: must be a map"},
		{"81a16781a169a0", "g.i: must be a number from 0 to 4294967295"},
		{"81a16d81a16900", "m: must be a list of at most 2 items"},
		{"81a16d93808080", "m: must be a list of at most 2 items"},
		{"81a16d928081a16901ff", NULL},
		{"81a16d928081a174c3", "m.t: must be text of at most 3 bytes without a NUL"},
		{"81a163a0", "c: it is no word"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__reader reader = {.ahead_ns = 0};
		struct tfc__buf buf = golden_bytes(cases[i].hex);
		struct tfc__msg msg;
		struct outer outer;
		tfc_error error = TFC_ERROR_INIT;
		bool is_message = tfc__msg_parse(&msg, buf.data, buf.len, NULL, NULL) == TFC_OK;
		assert_int_equal(is_message, cases[i].text != NULL);
		if (is_message) {
			assert_true(tfc__fields_read(&reader, &outer_fields, &msg.root, &error,
						     &outer) < 0);
			assert_string_equal(error.text, cases[i].text);
			tfc__msg_fini(&msg);
		}
		tfc__reader_fini(&reader);
		tfc__buf_fini(&buf);
	}
}

static void a_time_is_on_the_reader_s_clock(void **state)
{
	static const int64_t ahead[] = {0, 5 * (int64_t)TFC__SECOND, -5 * (int64_t)TFC__SECOND};
	for (size_t i = 0; i < 3; i++) {
		struct tfc__reader reader = {.ahead_ns = ahead[i]};
		struct tfc__buf buf = {0};
		struct outer outer = {.time_ns = tfc__wall() - 60 * TFC__SECOND};
		struct outer again;
		tfc_error error = TFC_ERROR_INIT;
		tfc__fields_write(&buf, &outer_fields, &outer);
		assert_int_equal(read(&reader, &buf, &error, &again), TFC_OK);
		uint64_t expected = outer.time_ns + (uint64_t)ahead[i];
		assert_in_range(again.time_ns, expected - TFC__MS, expected + TFC__SECOND);
		tfc__buf_fini(&buf);
		tfc__reader_fini(&reader);
	}
}

static void expect_json(const struct outer *outer, uint32_t variant, const char *expected)
{
	struct tfc__json_writer json = {.depth = 0};
	tfc__json_begin(&json, '{');
	tfc__fields_json(&json, &outer_fields, outer, variant);
	tfc__json_end(&json, '}');
	assert_string_equal(json.buf.data, expected);
	tfc__buf_fini(&json.buf);
}

static void each_variant_shows_its_fields(void **state)
{
	static const struct outer empty = {.number = 1};
	expect_json(&full, PLAIN, "{\"is_on\":true,\"small\":200}");
	expect_json(&full, FULL,
		    "{\"is_on\":true,\"is_one\":true,\"number\":\"seven\","
		    "\"large\":18446744073709551615,\"integer\":-2147483648,\"text\":\"abc\","
		    "\"string\":\"string\",\"lines\":[\"\",\"t\\\\xe9o\"],"
		    "\"bytes\":\"\\u0000\\\\xff\"}");
	expect_json(&empty, PLAIN, "{\"is_on\":false,\"small\":0}");
	expect_json(&empty, FULL,
		    "{\"is_on\":false,\"number\":\"other\",\"string\":null,\"lines\":[]}");
	expect_json(&empty, 4, "{}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_written_is_read),
		cmocka_unit_test(what_has_its_initial_value_is_not_written_and_read_as_that),
		cmocka_unit_test(a_value_that_does_not_fit_is_named),
		cmocka_unit_test(a_time_is_on_the_reader_s_clock),
		cmocka_unit_test(each_variant_shows_its_fields),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
