/* base: whichever allocation fails while a JSON text is parsed, the parser says so or returns the
 * whole text, however long its strings are and wherever an escape is in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tfcluster/error.h>

#include "base/json.h"
#include "failing_malloc.h"

#define LEN_MAX 140 /* bytes of a string: past three sizes of the parser's buffer */

static char text[LEN_MAX + 40], expected[LEN_MAX + 1];

static int load(void)
{
	json_t *root = NULL;
	json_error_t reason;
	int code = tfc__json_load(text, strlen(text), JSON_REJECT_DUPLICATES, &reason, &root);
	if (code == TFC_OK) {
		assert_string_equal(json_string_value(json_object_get(root, "s")), expected);
		assert_int_equal(json_integer_value(json_object_get(root, "n")), 12345);
	}
	json_decref(root);
	return code;
}

static void strings_of_each_length(void **state)
{
	for (int len = 0; len < LEN_MAX; len++) {
		memset(expected, 'a', (size_t)len);
		expected[len] = '\0';
		snprintf(text, sizeof(text), "{\"s\": \"%s\", \"n\": 12345}", expected);
		failing_sweep(load, 4);
	}
}

static void an_escape_at_each_place(void **state)
{
	for (int place = 0; place < 70; place++) {
		memset(expected, 'a', 72);
		expected[72] = '\0';
		expected[place] = '"';
		snprintf(text, sizeof(text), "{\"s\": \"%.*s\\\"%s\", \"n\": 12345}", place,
			 expected, expected + place + 1);
		failing_sweep(load, 4);
	}
}

static int dump(void)
{
	json_t *root = NULL;
	char *written = NULL;
	int code = tfc__json_load(text, strlen(text), 0, NULL, &root);
	if (code == TFC_OK && !(written = tfc__json_dump(root, 0)))
		code = TFC_ENOMEM;
	if (written)
		assert_string_equal(written, text);
	free(written);
	json_decref(root);
	return code;
}

static void a_text_is_written_whole(void **state)
{
	for (int len = 0; len < LEN_MAX; len++) {
		memset(expected, 'a', (size_t)len);
		expected[len] = '\0';
		snprintf(text, sizeof(text), "{\"n\": 12345, \"s\": \"%s\"}", expected);
		failing_sweep(dump, 4);
	}
}

static int load_what_is_wrong(void)
{
	json_t *root = NULL;
	json_error_t reason;
	int code = tfc__json_load(text, strlen(text), 0, &reason, &root);
	assert_true(code < 0);
	assert_null(root);
	if (code != TFC_EPARSE)
		return code;
	assert_string_equal(reason.text, expected);
	assert_int_equal(reason.line, 1);
	return TFC_OK;
}

static void the_reason_is_that_of_the_text(void **state)
{
	static const char *const cases[][2] = {
		{"", "'[' or '{' expected near end of file"},
		{"{\"a\": 1", "'}' expected near end of file"},
		{"{} x", "end of file expected near 'x'"},
		{"{}, {}", "end of file expected near ','"},
		{"{}]", "end of file expected near ']'"},
		{"1", "'[' or '{' expected near '1'"},
		{"[1], [2", "end of file expected near ','"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		snprintf(text, sizeof(text), "%s", cases[i][0]);
		snprintf(expected, sizeof(expected), "%s", cases[i][1]);
		failing_sweep(load_what_is_wrong, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_is_written_whole),
		cmocka_unit_test(strings_of_each_length),
		cmocka_unit_test(an_escape_at_each_place),
		cmocka_unit_test(the_reason_is_that_of_the_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
