/* base: buffers and string lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/strv.h"
#include <tfcluster/memory.h>

static void buf_grows_and_stays_terminated(void **state)
{
	struct tfc__buf buf = {0};
	for (int i = 0; i < 1000; i++)
		tfc__buf_addf(&buf, "%d,", i);
	assert_int_equal(buf.len, 3890);
	assert_int_equal(strlen(buf.data), buf.len);
	assert_string_equal(buf.data + 3885, ",999,");
	tfc__buf_fini(&buf);
}

static void buf_steal_of_nothing_is_an_empty_string(void **state)
{
	struct tfc__buf buf = {0};
	char *text = tfc__buf_steal(&buf);
	assert_string_equal(text, "");
	free(text);
}

static void json_escapes_what_is_special_and_replaces_what_is_not_utf8(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"", "\"\""},
		{"plain", "\"plain\""},
		{"a\"b\\c\n\t\r\x01", "\"a\\\"b\\\\c\\n\\t\\r\\u0001\""},
		{"gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\""},
		{"\xff", "\"\\ufffd\""},
		{"\xc3", "\"\\ufffd\""},                       /* cut short */
		{"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""}, /* a surrogate */
		{"\xc0\xaf", "\"\\ufffd\\ufffd\""},            /* overlong */
		{"\xf0\x9f\x98\x80!", "\"\xf0\x9f\x98\x80!\""},
		{"\x7f\xc2\x9b\xc2\xa0", "\"\\u007f\\u009b\xc2\xa0\""},
		{"\xe2\x80\xae\xe2\x81\xa6\xd8\x9c!", "\"\\u202e\\u2066\\u061c!\""},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__buf buf = {0};
		tfc__buf_add_json(&buf, cases[i].in, strlen(cases[i].in));
		assert_string_equal(buf.data, cases[i].out);
		tfc__buf_fini(&buf);
	}
}

static void json_of_any_bytes_loses_none(void **state)
{
	struct tfc__buf buf = {0};
	tfc__buf_add_json_bytes(&buf, "a\xff\xc3\xa4\0\xc3\\", 7);
	assert_string_equal(buf.data, "\"a\\\\xff\xc3\xa4\\u0000\\\\xc3\\\\\"");
	tfc__buf_fini(&buf);
}

static void environment_keeps_one_value_per_name(void **state)
{
	struct tfc__strv env = {0};
	tfc__strv_set_env(&env, "A", "1");
	tfc__strv_set_env(&env, "AB", "2");
	tfc__strv_set_env(&env, "A", "3");
	assert_int_equal(env.count, 2);
	assert_string_equal(tfc__env_get((const char *const *)env.items, "A"), "3");
	assert_string_equal(tfc__env_get((const char *const *)env.items, "AB"), "2");
	assert_null(tfc__env_get((const char *const *)env.items, "B"));
	tfc__strv_unset_env(&env, "A");
	assert_null(tfc__env_get((const char *const *)env.items, "A"));
	assert_null(env.items[1]);
	tfc__strv_fini(&env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buf_grows_and_stays_terminated),
		cmocka_unit_test(buf_steal_of_nothing_is_an_empty_string),
		cmocka_unit_test(json_escapes_what_is_special_and_replaces_what_is_not_utf8),
		cmocka_unit_test(json_of_any_bytes_loses_none),
		cmocka_unit_test(environment_keeps_one_value_per_name),
	};
	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
