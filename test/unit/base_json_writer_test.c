/* base: writing JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_writer.h"

static void expect(struct tfc__json_writer *json, const char *expected)
{
	assert_false(json->buf.is_failed);
	assert_string_equal(json->buf.data, expected);
	tfc__buf_fini(&json->buf);
}

static void a_string_escapes_what_is_special_and_loses_no_byte(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"", "\"\""},
		{"plain", "\"plain\""},
		{"a\"b\\c\n\t\r\x01", "\"a\\\"b\\\\c\\n\\t\\r\\u0001\""},
		{"gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\""},
		{"\xff", "\"\\\\xff\""},
		{"\xc3", "\"\\\\xc3\""},                       /* cut short */
		{"\xed\xa0\x80", "\"\\\\xed\\\\xa0\\\\x80\""}, /* a surrogate */
		{"\xc0\xaf", "\"\\\\xc0\\\\xaf\""},            /* overlong */
		{"\xf0\x9f\x98\x80!", "\"\xf0\x9f\x98\x80!\""},
		{"\x7f\xc2\x9b\xc2\xa0", "\"\\u007f\\u009b\xc2\xa0\""},
		{"\xe2\x80\xae\xe2\x81\xa6\xd8\x9c!", "\"\\u202e\\u2066\\u061c!\""},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__json_writer json = {.depth = 0};
		tfc__json_text(&json, cases[i].in);
		expect(&json, cases[i].out);
	}
	struct tfc__json_writer json = {.depth = 0};
	tfc__json_bytes(&json, "a\xff\xc3\xa4\0\xc3\\", 7);
	expect(&json, "\"a\\\\xff\xc3\xa4\\u0000\\\\xc3\\\\\"");
}

/* Every kind of value, in every place that has another separator. */
static void write_all(struct tfc__json_writer *json)
{
	tfc__json_begin(json, '{');
	tfc__json_name(json, "empty");
	tfc__json_begin(json, '{');
	tfc__json_end(json, '}');
	tfc__json_name_bytes(json, "list=", 4);
	tfc__json_begin(json, '[');
	tfc__json_begin(json, '[');
	tfc__json_end(json, ']');
	tfc__json_null(json);
	tfc__json_text(json, NULL);
	tfc__json_bool(json, true);
	tfc__json_bool(json, false);
	tfc__json_raw(json, "", 0);
	tfc__json_raw(json, "{}", 2);
	tfc__json_end(json, ']');
	tfc__json_name(json, "\n");
	tfc__json_textf(json, "%s/%u", "a\"", 1u);
	tfc__json_name(json, "numbers");
	tfc__json_begin(json, '[');
	tfc__json_int(json, INT64_MIN);
	tfc__json_uint(json, UINT64_MAX);
	tfc__json_end(json, ']');
	tfc__json_end(json, '}');
}

static void separators_are_between_values(void **state)
{
	struct tfc__json_writer json = {.depth = 0}, spaced = {.is_spaced = true};
	write_all(&json);
	expect(&json, "{\"empty\":{},\"list\":[[],null,null,true,false,{}],\"\\n\":\"a\\\"/1\","
		      "\"numbers\":[-9223372036854775808,18446744073709551615]}");
	write_all(&spaced);
	expect(&spaced, "{\"empty\": {}, \"list\": [[], null, null, true, false, {}], "
			"\"\\n\": \"a\\\"/1\", "
			"\"numbers\": [-9223372036854775808, 18446744073709551615]}");
}

static void a_block_has_each_member_on_a_line(void **state)
{
	struct tfc__json_writer json = {.is_spaced = true};
	tfc__json_begin_block(&json);
	tfc__json_name(&json, "a");
	tfc__json_begin_block(&json);
	tfc__json_end(&json, '}');
	tfc__json_name(&json, "b");
	tfc__json_begin_block(&json);
	tfc__json_name(&json, "c");
	tfc__json_begin(&json, '[');
	tfc__json_int(&json, 1);
	tfc__json_int(&json, 2);
	tfc__json_end(&json, ']');
	tfc__json_name(&json, "d");
	tfc__json_null(&json);
	tfc__json_end(&json, '}');
	tfc__json_end(&json, '}');
	expect(&json, "{\n  \"a\": {},\n  \"b\": {\n    \"c\": [1, 2],\n    \"d\": null\n  }\n}");
}

static void a_real_is_the_shortest_that_reads_back(void **state)
{
	static const struct {
		double value;
		const char *text;
	} cases[] = {
		{0, "0"},
		{-3, "-3"},
		{0.1, "0.1"},
		{1e9, "1000000000"},
		{1.0 / 3, "0.3333333333333333"},
		{0.1 + 0.2, "0.30000000000000004"},
		{1e300, "1e300"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__json_writer json = {.depth = 0};
		tfc__json_real(&json, cases[i].value);
		expect(&json, cases[i].text);
	}
}

static void a_time_is_in_utc(void **state)
{
	struct tfc__json_writer json = {.depth = 0};
	tfc__json_time(&json, 1769860800000001999u);
	expect(&json, "\"2026-01-31T12:00:00.000001Z\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_string_escapes_what_is_special_and_loses_no_byte),
		cmocka_unit_test(separators_are_between_values),
		cmocka_unit_test(a_block_has_each_member_on_a_line),
		cmocka_unit_test(a_real_is_the_shortest_that_reads_back),
		cmocka_unit_test(a_time_is_in_utc),
	};
	return cmocka_run_group_tests_name("base_json_writer", tests, NULL, NULL);
}
