/* spec: placeholders in argv and environments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "spec/expand.h"
#include "spec_text.h"

static char *expanded(struct tfc__expand *values, const char *text)
{
	tfc_error error = TFC_ERROR_INIT;
	char *result = NULL;
	assert_int_equal(tfc__expand(values, text, &error, &result), TFC_OK);
	return result;
}

static void placeholders_are_replaced_and_other_braces_are_not(void **state)
{
	static const char *const cases[][2] = {
		{"", ""},
		{"plain", "plain"},
		{"{task_type}/{task_index}", "worker/1"},
		{"--port={port} --bind={address}", "--port=3 --bind=[::1]:3"},
		{"--worker_hosts={worker_hosts}", "--worker_hosts=a:2,[::1]:3"},
		{"--ps_hosts={ps_hosts}", "--ps_hosts=p:1,q:2"},
		{"{chief_hosts}", "c:1"},
		{"{job}#{attempt}", "j-1#4"},
		{"{port}{port}", "33"},
		{"{{port}}", "{port}"},
		{"{{{port}}}", "{{port}}"},
		{"{{port}", "{3"},
		{"{port}}", "3}"},
		{"{{port}}{port}", "{port}3"},
		{"{port", "{port"},
		{"{", "{"},
		{"{{", "{{"},
		{"}}", "}}"},
		{"{}", "{}"},
		{"{ port }", "{ port }"},
		{"{Port}", "{Port}"},
		{"{ports}", "{ports}"},
		{"{{ user.name }}", "{{ user.name }}"},
		{"{\"lr\": 0.1, \"port\": {port}}", "{\"lr\": 0.1, \"port\": 3}"},
		{"${HOME} {x} %{port}", "${HOME} {x} %3"},
		{"${port}:${{port}}:${PORT:-{port}}", "${port}:${port}:${PORT:-3}"},
		{"{evaluator_hosts}", "e:1"},
		{"{reader_hosts} {{reader_hosts}}", "r:1,r:2 {reader_hosts}"},
		{"[{board_hosts}] {other_hosts} {_hosts}", "[] {other_hosts} {_hosts}"},
	};
	tfc_spec *spec = spec_of("{\"chief\":[\"c:1\"],\"worker\":[\"a:2\",\"[::1]:3\"],"
				 "\"ps\":[\"p:1\",\"q:2\"],\"evaluator\":[\"e:1\"]}");
	static const char *const hosts[] = {"reader=r:1,r:2", "board=", NULL};
	struct tfc__expand values = {
		.spec = spec,
		.hosts = hosts,
		.job = "j-1",
		.task_type = "worker",
		.task_index = 1,
		.attempt = 4,
		.address = "[::1]:3",
		.left = TFC__EXPAND_MAX,
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = expanded(&values, cases[i][0]);
		assert_string_equal(text, cases[i][1]);
		tfc_free(text);
	}
	tfc_spec_free(spec);
}

static void what_was_put_in_is_not_expanded_again(void **state)
{
	struct tfc__expand values = {.job = "{port}",
				     .task_type = "{job}",
				     .attempt = 1,
				     .address = "h:22",
				     .left = TFC__EXPAND_MAX};
	char *text = expanded(&values, "{job} {task_type} {port}");
	assert_string_equal(text, "{port} {job} 22");
	tfc_free(text);
}

static void a_task_without_port_or_cluster_gets_empty_texts(void **state)
{
	struct tfc__expand values = {.job = "j", .task_type = "driver", .address = "", .left = 2};
	char *text =
		expanded(&values,
			 "[{port}|{address}|{chief_hosts}|{worker_hosts}|{ps_hosts}|{task_index}]");
	assert_string_equal(text, "[|||||0]");
	tfc_free(text);
}

/* A cluster whose {worker_hosts} has `len` bytes. */
static tfc_spec *spec_of_hosts(size_t len)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_spec *spec;
	assert_int_equal(tfc_spec_new(&spec), 0);
	for (uint32_t i = 0; i < (len + 1) / 20; i++) {
		char address[20];
		snprintf(address, sizeof(address), "host-%08u:20000", i);
		assert_int_equal(tfc_spec_add(spec, "worker", i, address, &error), 0);
	}
	return spec;
}

static struct tfc__expand values_of(const tfc_spec *spec)
{
	return (struct tfc__expand){.spec = spec,
				    .job = "j",
				    .task_type = "worker",
				    .address = "h:1",
				    .left = TFC__EXPAND_MAX};
}

/* "{worker_hosts}" so many times; the caller frees it. */
static char *many_hosts(size_t count)
{
	static const char placeholder[] = "{worker_hosts}";
	size_t len = strlen(placeholder);
	char *text = malloc(count * len + 1);
	assert_non_null(text);
	for (size_t i = 0; i < count; i++)
		memcpy(text + i * len, placeholder, len);
	text[count * len] = '\0';
	return text;
}

static void a_text_that_gets_too_long_is_refused(void **state)
{
	tfc_spec *spec = spec_of_hosts(3999);
	struct tfc__expand values = values_of(spec);
	tfc_error error = TFC_ERROR_INIT;
	char *most = many_hosts(32), *many = many_hosts(9000), *text = NULL;
	text = expanded(&values, most);
	assert_int_equal(strlen(text), 32 * 3999);
	assert_int_equal(values.left, TFC__EXPAND_MAX - 32 * 3999);
	free(text);
	text = NULL;
	values.left = TFC__EXPAND_MAX;
	assert_int_equal(tfc__expand(&values, many, &error, &text), TFC_ETOOBIG);
	assert_null(text);
	assert_string_equal(error.text,
			    "inserting {worker_hosts} makes it longer than 131071 bytes, the limit "
			    "of an argument or variable; use fewer placeholders, or fewer tasks");
	/* no more was inserted than could be used */
	assert_true(TFC__EXPAND_MAX - values.left <= 131071);
	free(many);
	free(most);
	tfc_spec_free(spec);
}

static void texts_that_get_too_long_together_are_refused(void **state)
{
	tfc_spec *spec = spec_of_hosts(3999);
	struct tfc__expand values = values_of(spec);
	tfc_error error = TFC_ERROR_INIT;
	size_t count = 0;
	int code;
	for (;; count++) {
		char *text = NULL;
		code = tfc__expand(&values, "--hosts={worker_hosts}", &error, &text);
		if (code < 0)
			break;
		free(text);
	}
	assert_int_equal(code, TFC_ETOOBIG);
	assert_int_equal(count, TFC__EXPAND_MAX / 3999);
	assert_string_equal(error.text,
			    "inserting {worker_hosts} makes the values that placeholders insert "
			    "into arguments and environment longer than 6 MiB, the limit of "
			    "execve; use fewer placeholders, or fewer tasks");
	tfc_spec_free(spec);
}

/* The list of a very large cluster is not joined only to be thrown away. */
static void the_addresses_of_a_large_cluster_are_refused(void **state)
{
	tfc_spec *spec = spec_of_hosts(199999);
	struct tfc__expand values = values_of(spec);
	tfc_error error = TFC_ERROR_INIT;
	char *text = NULL;
	assert_int_equal(tfc__expand(&values, "{worker_hosts}", &error, &text), TFC_ETOOBIG);
	assert_non_null(strstr(error.text, "inserting {worker_hosts} makes it longer than 131071"));
	tfc_spec_free(spec);
}

static void mistyped_placeholders_are_found(void **state)
{
	static const char *const roles[] = {"worker", "ps", "reader", NULL};
	static const char *const cases[][3] = {
		{"--port={prot}", "prot", "port"},
		{"{ports}", "ports", "port"},
		{"{Port}", "Port", "port"},
		{"{host}:{port}", "host", "port"},
		{"{task_idx}", "task_idx", "task_index"},
		{"{task-index}", "task-index", "task_index"},
		{"{tasktype}", "tasktype", "task_type"},
		{"{adress}", "adress", "address"},
		{"{jbo}", "jbo", "job"},
		{"{jobid}", "jobid", "job"},
		{"{atempts}", "atempts", "attempt"},
		{"{worker_host}", "worker_host", "worker_hosts"},
		{"{wroker_hosts}", "wroker_hosts", "worker_hosts"},
		{"{readers_hosts}", "readers_hosts", "reader_hosts"},
		{"{data_hosts}", "data_hosts", ""},
		{"{_hosts}", "_hosts", ""},
		{"{\"port\": {prot}}", "prot", "port"},
		{"{{prot}", "prot", "port"},
		{"{port} {prot}} {jbo}", "prot", "port"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__placeholder_typo typo;
		if (!tfc__expand_find_typo(cases[i][0], roles, &typo))
			fail_msg("not found in %s", cases[i][0]);
		assert_string_equal(typo.name, cases[i][1]);
		assert_string_equal(typo.near, cases[i][2]);
	}
}

static void other_braces_are_no_typos(void **state)
{
	static const char *const roles[] = {"worker", "reader", NULL};
	static const char long_name[] =
		"{aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggghhhhhhhhhh"
		"_hosts}";
	static const char *const texts[] = {
		"",
		"{task_type}{task_index}{port}{address}{attempt}{job}",
		"{chief_hosts} {worker_hosts} {ps_hosts} {evaluator_hosts} {reader_hosts}",
		"{{port}} {{prot}} {{ prot }} {{data_hosts}}",
		"${HOME} ${prot} ${data_hosts} ${port}",
		"{\"a\":{\"b\":1}}",
		"{} { prot } {prot {a,b} {0} {x} {b} {log} {name} {epoch} {val_loss:.2f} "
		"{\"port\"}",
		"awk '{print $1}' {print} find {} \\;",
		"{i}{j}{k} {rank} {size} {path} {PORT}",
		long_name,
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct tfc__placeholder_typo typo;
		if (tfc__expand_find_typo(texts[i], roles, &typo))
			fail_msg("{%s} in %s", typo.name, texts[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(placeholders_are_replaced_and_other_braces_are_not),
		cmocka_unit_test(what_was_put_in_is_not_expanded_again),
		cmocka_unit_test(a_task_without_port_or_cluster_gets_empty_texts),
		cmocka_unit_test(a_text_that_gets_too_long_is_refused),
		cmocka_unit_test(texts_that_get_too_long_together_are_refused),
		cmocka_unit_test(the_addresses_of_a_large_cluster_are_refused),
		cmocka_unit_test(mistyped_placeholders_are_found),
		cmocka_unit_test(other_braces_are_no_typos),
	};
	return cmocka_run_group_tests_name("spec expand", tests, NULL, NULL);
}
