/* spec: JSON in, good and hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "spec_text.h"
#include <tfcluster/spec.h>

static void both_forms_and_a_whole_tf_config_are_read(void **state)
{
	static const char *const cases[] = {
		"{\"worker\":[\"a:1\",\"b:1\"],\"ps\":[\"p:1\"]}",
		"{\"ps\":{\"0\":\"p:1\"},\"worker\":{\"1\":\"b:1\",\"0\":\"a:1\"}}",
		" { \"cluster\" : { \"worker\" : [ \"a:1\" , \"\\u0062:1\" ], \"ps\":[\"p:1\"],"
		" \"chief\": [] }, \"task\": {\"type\":\"worker\",\"index\":\"0\"},"
		" \"environment\":\"cloud\", \"rpc_layer\":\"grpc\" }\n",
	};
	tfc_spec *want = spec_of(cases[0]);
	assert_int_equal(tfc_spec_count(want, NULL), 3);
	assert_string_equal(tfc_spec_address(want, "worker", 1), "b:1");
	for (size_t i = 1; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_spec *spec = spec_of(cases[i]);
		assert_int_equal(tfc_spec_equal(spec, want), 1);
		tfc_spec_free(spec);
	}
	tfc_spec_free(want);
}

static void a_tf_config_without_a_cluster_is_an_empty_spec(void **state)
{
	static const char *const cases[] = {
		"{}",
		"{\"cluster\":{}}",
		"{\"task\":{\"type\":\"worker\",\"index\":0}}",
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_spec *spec = spec_of(cases[i]);
		assert_int_equal(tfc_spec_count(spec, NULL), 0);
		tfc_spec_free(spec);
	}
}

static void what_is_written_is_read_back_as_the_same(void **state)
{
	static const char *const cases[] = {
		"{\"chief\":[\"c:1\"],\"worker\":[\"a:1\",\"b:1\"],\"ps\":[\"p:1\"]}",
		"{\"worker\":{\"3\":\"[::1]:1\",\"2147483647\":\"b:1\"}}",
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_spec *spec = spec_of(cases[i]);
		char *json = NULL;
		assert_int_equal(tfc_spec_json(spec, &json), 0);
		assert_string_equal(json, cases[i]);
		tfc_spec *again = spec_of(json);
		assert_int_equal(tfc_spec_equal(spec, again), 1);
		tfc_free(json);
		tfc_spec_free(again);
		tfc_spec_free(spec);
	}
}

static void refuse(const char *json, size_t len, int code, const char *want)
{
	tfc_spec *const untouched = (tfc_spec *)(void *)&code;
	tfc_spec *spec = untouched;
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc_spec_parse(json, len, &error, &spec), code);
	assert_int_equal(error.code, code);
	assert_ptr_equal(spec, untouched);
	if (!strstr(error.text, want))
		fail_msg("%.60s: \"%s\" lacks \"%s\"", json, error.text, want);
	assert_int_equal(tfc_spec_parse(json, len, NULL, &spec), code);
}

static void text_that_is_not_json_is_refused(void **state)
{
	static const struct {
		const char *json, *want;
	} cases[] = {
		{"", "line 1, column 0"},
		{"{", "string or '}' expected near end of file"},
		{"null!", "line 1, column "},
		{"{\"worker\":[\"a:1\"]} x", "end of file expected near 'x'"},
		{"{\"worker\":[\"a:1\"]}{}", "end of file expected near '{'"},
		{"{\"worker\":[\"a:1\"],\"worker\":[\"b:1\"]}", "duplicate object key"},
		{"{\"worker\":{\"0\":\"a:1\",\"0\":\"b:1\"}}", "duplicate object key"},
		{"{\"worker\":[\"a\\u0000:1\"]}", "\\u0000 is not allowed"},
		{"{\"wor\\u0000ker\":[\"a:1\"]}", "NUL byte in object key"},
		{"{\"worker\":[\"\xff:1\"]}", "unable to decode byte 0xff"},
		{"{\"worker\":[\"\\ud800:1\"]}", "invalid Unicode"},
		{"{\"worker\":[1e999999]}", "real number overflow"},
		{"{\"worker\":[99999999999999999999]}", "too big integer"},
		{"{'worker':[]}", "expected near"},
		{"{\"worker\":[\"a:1\",]}", "unexpected token near ']'"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		refuse(cases[i].json, strlen(cases[i].json), TFC_EPARSE, cases[i].want);
	refuse("{}\0", 3, TFC_EPARSE, "end of file expected");
	refuse("{\"worker\":[\"a:1\"]}", 5, TFC_EPARSE, "premature end of input");
}

static void nesting_without_end_is_refused(void **state)
{
	enum { depth = 1000000 };
	char *json = malloc(depth);
	assert_non_null(json);
	memset(json, '[', depth);
	refuse(json, depth, TFC_EPARSE, "maximum parsing depth reached");
	for (size_t i = 0; i + 5 <= depth; i += 5)
		memcpy(json + i, "{\"a\":", 5);
	refuse(json, depth, TFC_EPARSE, "maximum parsing depth reached");
	free(json);
}

static void json_that_is_no_cluster_is_refused(void **state)
{
	static const struct {
		const char *json, *want;
	} cases[] = {
		{"[]", "the cluster must be an object: {\"worker\":[\"host:port\"]}"},
		{"{\"cluster\":[]}", "the cluster must be an object"},
		{"{\"cluster\":null}", "the cluster must be an object"},
		{"{\"worker\":\"a:1\"}", "worker: tasks are a list of addresses or an object from "
					 "index to address"},
		{"{\"worker\":2}", "worker: tasks are a list"},
		{"{\"worker\":[null]}", "worker/0: an address is a string; write \"host:port\""},
		{"{\"worker\":[\"a:1\",22]}", "worker/1: an address is a string"},
		{"{\"worker\":[[\"a:1\"]]}", "worker/0: an address is a string"},
		{"{\"worker\":{\"5\":{}}}", "worker/5: an address is a string"},
		{"{\"worker\":{\"01\":\"a:1\"}}", "worker: \"01\" is not a task index; use a whole "
						  "number from 0 without sign or leading "
						  "zeros"},
		{"{\"worker\":{\"-1\":\"a:1\"}}", "worker: \"-1\" is not a task index"},
		{"{\"worker\":{\"+1\":\"a:1\"}}", "worker: \"+1\" is not a task index"},
		{"{\"worker\":{\" 1\":\"a:1\"}}", "worker: \" 1\" is not a task index"},
		{"{\"worker\":{\"1.0\":\"a:1\"}}", "worker: \"1.0\" is not a task index"},
		{"{\"worker\":{\"\":\"a:1\"}}", "worker: \"\" is not a task index"},
		{"{\"worker\":{\"2147483648\":\"a:1\"}}", "\"2147483648\" is not a task index"},
		{"{\"worker\":{\"99999999999999999999\":\"a:1\"}}", "is not a task index"},
		{"{\"worker\":[\"a:1\",\"a:1\"]}",
		 "worker/1: address \"a:1\" is already the address of worker/0"},
		{"{\"worker\":[\"a:1\"],\"ps\":[\"A:1\"]}",
		 "ps/0: address \"A:1\" is already the address of worker/0"},
		{"{\"worker\":[\"grpc://a:1\"]}", "worker/0: address \"grpc://a:1\": TensorFlow "
						  "does not accept a scheme"},
		{"{\"chief\":[\"a:1\",\"b:1\"]}", "chief/1: TensorFlow takes at most one chief"},
		{"{\"evaluator\":[\"a:1\",\"b:1\"]}", "evaluator/1: TensorFlow takes at most one"},
		{"{\"master\":[\"a:1\"]}", "master/0: TensorFlow knows no such task type; did you "
					   "mean chief?"},
		{"{\"master\":[]}", "did you mean chief?"},
		{"{\"tensorboard\":[\"a:1\"]}", "run it outside the cluster spec"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		refuse(cases[i].json, strlen(cases[i].json), TFC_ESPEC, cases[i].want);
}

static void an_error_stays_one_line_whatever_came_in(void **state)
{
	static const char json[] = "{\"a\\nb\\tc\":[\"x\"]}";
	tfc_spec *spec = NULL;
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc_spec_parse(json, strlen(json), &error, &spec), TFC_ESPEC);
	assert_null(strpbrk(error.text, "\n\t"));
	refuse("{", 1, TFC_EPARSE, "line 1");
}

static void misuse_is_an_error(void **state)
{
	tfc_spec *spec = NULL;
	assert_int_equal(tfc_spec_parse(NULL, 0, NULL, &spec), TFC_EINVAL);
	assert_int_equal(tfc_spec_parse("{}", 2, NULL, NULL), TFC_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_forms_and_a_whole_tf_config_are_read),
		cmocka_unit_test(a_tf_config_without_a_cluster_is_an_empty_spec),
		cmocka_unit_test(what_is_written_is_read_back_as_the_same),
		cmocka_unit_test(text_that_is_not_json_is_refused),
		cmocka_unit_test(nesting_without_end_is_refused),
		cmocka_unit_test(json_that_is_no_cluster_is_refused),
		cmocka_unit_test(an_error_stays_one_line_whatever_came_in),
		cmocka_unit_test(misuse_is_an_error),
	};
	return cmocka_run_group_tests_name("spec parse", tests, NULL, NULL);
}
