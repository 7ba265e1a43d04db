/* gateway: what a client asks is bounded before anything is done with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/request_params.h"
#include "leaks.h"
#include "wire/msg.h"

static int read_with(const char *key, size_t len, tfc_error *error)
{
	struct tfc__buf buf = {0};
	struct tfc__msg msg;
	struct tfc__received received;
	char *text = calloc(1, len + 1);
	assert_non_null(text);
	memset(text, 'x', len);
	tfc__msg_map(&buf, 1);
	tfc__msg_put_str(&buf, key, text);
	assert_int_equal(tfc__msg_parse(&msg, buf.data, buf.len, NULL, error), TFC_OK);
	int code = tfc__request_params_read(&received, TFC_VERB_DESCRIBE, &msg.root, error);
	tfc__received_fini(&received);
	tfc__msg_fini(&msg);
	tfc__buf_fini(&buf);
	free(text);
	return code;
}

/* A name is looked for on other nodes, too. */
static void long_texts_are_refused(void **state)
{
	static const struct {
		const char *key;
		size_t max;
		const char *text;
	} cases[] = {
		{"job", 255, "job: is longer than 255 bytes"},
		{"task", 255, "task: is longer than 255 bytes"},
		{"node", 255, "node: is longer than 255 bytes"},
		{"home", 255, "home: is longer than 255 bytes"},
		{"as", 255, "as: is longer than 255 bytes"},
		{"key", 4 << 20, "key: is longer than 4194304 bytes"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_error error = TFC_ERROR_INIT;
		assert_int_equal(read_with(cases[i].key, cases[i].max, &error), TFC_OK);
		assert_int_equal(read_with(cases[i].key, cases[i].max + 1, &error), TFC_EINVAL);
		assert_string_equal(error.text, cases[i].text);
	}
}

static int read_definition(enum tfc_verb verb, const char *json, tfc_error *error)
{
	struct tfc__buf buf = {0};
	struct tfc__msg msg;
	struct tfc__received received;
	tfc__msg_map(&buf, 1);
	tfc__msg_put_str(&buf, "definition", json);
	assert_int_equal(tfc__msg_parse(&msg, buf.data, buf.len, NULL, error), TFC_OK);
	assert_int_equal(tfc__request_params_read(&received, verb, &msg.root, error), TFC_OK);
	assert_null(received.definition); /* who asks is known first */
	int code = tfc__request_params_read_definition(&received, error);
	tfc__received_fini(&received);
	tfc__msg_fini(&msg);
	tfc__buf_fini(&buf);
	return code;
}

static void a_definition_is_read_of_a_submit_and_an_explain_alone(void **state)
{
	for (enum tfc_verb verb = TFC_VERB_SUBMIT; verb <= TFC_VERB_WATCH; verb++) {
		tfc_error error = TFC_ERROR_INIT;
		bool has_one = verb == TFC_VERB_SUBMIT || verb == TFC_VERB_EXPLAIN;
		assert_int_equal(read_definition(verb, "{", &error), has_one ? TFC_EPARSE : TFC_OK);
	}
}

/* Of the list itself, `count` numbers, and a text whose signs do not count. */
static int read_list(int count, tfc_error *error)
{
	struct tfc__buf json = {0};
	tfc__buf_add_char(&json, '[');
	for (int i = 0; i < count; i++)
		tfc__buf_add_str(&json, "0,");
	tfc__buf_add_str(&json, "\"\\\",[{\"]");
	tfc__buf_add_char(&json, '\0');
	int code = read_definition(TFC_VERB_SUBMIT, json.data, error);
	tfc__buf_fini(&json);
	return code;
}

/* Its tree would take far more memory than the message. */
static void a_definition_of_too_many_values_is_refused(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	assert_int_not_equal(read_list(65536 - 2, &error), TFC_ETOOBIG);
	assert_int_equal(read_list(65536 - 1, &error), TFC_ETOOBIG);
	assert_string_equal(error.text, "job definition has 65537 values, more than a "
					"request may have (65536)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(long_texts_are_refused),
		cmocka_unit_test(a_definition_is_read_of_a_submit_and_an_explain_alone),
		cmocka_unit_test(a_definition_of_too_many_values_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
