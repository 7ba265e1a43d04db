/* spec: whichever allocation fails, the call says so, changes nothing and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing_malloc.h"
#include "spec/expand.h"
#include "spec_text.h"

#define CLUSTER                                                          \
	"{\"chief\":[\"c:1\"],\"worker\":{\"7\":\"a:1\",\"0\":\"b:1\"}," \
	"\"ps\":[\"p:1\",\"p:2\",\"p:3\",\"p:4\",\"p:5\",\"p:6\",\"p:7\"]}"

static tfc_spec *shared;

static int parse_and_free(void)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_spec *spec = NULL;
	int code = tfc_spec_parse(CLUSTER, strlen(CLUSTER), &error, &spec);
	SWEPT(tfc_spec_parse);
	failing_said(code, &error);
	assert_true(code == 0 ? spec != NULL : spec == NULL && error.code == code);
	tfc_spec_free(spec);
	return code;
}

static void parsing(void **state)
{
	failing_sweep(parse_and_free, 10);
}

/* Adds n tasks; what failed left no trace, whatever was there before. */
static int add_and_free(void)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_spec *spec = NULL;
	int code = tfc_spec_new(&spec);
	for (uint32_t i = 0; i < 40 && code == 0; i++) {
		char address[] = {(char)('a' + i / 26), (char)('a' + i % 26), ':', '1', '\0'};
		SWEPT(tfc_spec_new);
		SWEPT(tfc_spec_add);
		code = failing_said(tfc_spec_add(spec, "worker", i, address, &error), &error);
		assert_int_equal(tfc_spec_count(spec, NULL), code ? i : i + 1);
		if (code)
			assert_null(tfc_spec_address(spec, "worker", i));
	}
	tfc_spec_free(spec);
	return code;
}

static void adding(void **state)
{
	failing_sweep(add_and_free, 10);
}

/* The spec is made anew, so that the common part has to be rendered in each turn. */
static int render_and_free(void)
{
	char *json = NULL, *config = NULL, **env = NULL;
	tfc_error error = TFC_ERROR_INIT;
	tfc_spec *spec = NULL;
	SWEPT(tfc_spec_json);
	SWEPT(tfc_spec_environ);
	SWEPT(tfc_spec_tf_config);
	int code = tfc_spec_new(&spec);
	if (code == 0)
		code = tfc_spec_add(spec, "chief", 0, "c:1", NULL);
	if (code == 0)
		code = tfc_spec_add(spec, "worker", 0, "w:1", NULL);
	if (code == 0)
		code = tfc_spec_json(spec, &json);
	assert_true(code == 0 || !json);
	if (code == 0)
		code = tfc_spec_environ(spec, TFC_FRAMEWORK_TENSORFLOW, TFC_STRATEGY_AUTO,
					"evaluator", 0, &error, &env);
	assert_true(code == 0 || !env);
	if (code == 0)
		code = tfc_spec_tf_config(spec, TFC_STRATEGY_AUTO, "worker", 0, &error, &config);
	assert_true(code == 0 || !config);
	failing_said(code, error.code ? &error : NULL);
	tfc_free(config);
	tfc_free(json);
	tfc_strv_free(env);
	tfc_spec_free(spec);
	return code;
}

static void rendering(void **state)
{
	failing_sweep(render_and_free, 10);
}

/* Ranks of three hosts, and a worker's part of a cluster. */
static int ranks_and_free(void)
{
	tfc_error error = TFC_ERROR_INIT;
	char **env = NULL;
	tfc_spec *spec = NULL, *part = NULL;
	int code = tfc_spec_new(&spec);
	for (uint32_t i = 0; i < 6 && code == 0; i++) {
		char address[] = {(char)('a' + i % 3), ':', (char)('1' + i), '\0'};
		code = tfc_spec_add(spec, "worker", i, address, NULL);
	}
	for (int framework = TFC_FRAMEWORK_PYTORCH; framework <= TFC_FRAMEWORK_HOROVOD && code == 0;
	     framework++) {
		code = tfc_spec_environ(spec, (enum tfc_framework)framework, TFC_STRATEGY_NONE,
					"worker", 5, NULL, &env);
		assert_true(code == 0 || !env);
		tfc_strv_free(env);
		env = NULL;
	}
	if (code == 0)
		code = failing_said(tfc_spec_part(spec, 3, &error, &part), &error);
	SWEPT(tfc_spec_part);
	assert_true(code == 0 || !part);
	tfc_spec_free(part);
	tfc_spec_free(spec);
	return code;
}

static void ranking(void **state)
{
	failing_sweep(ranks_and_free, 10);
}

static int expand_and_free(void)
{
	struct tfc__expand values = {.spec = shared,
				     .job = "j",
				     .task_type = "ps",
				     .attempt = 1,
				     .address = "p:1",
				     .left = TFC__EXPAND_MAX};
	static const char text[] =
		"--job={job} --ps={ps_hosts} --worker={worker_hosts} --chief={chief_hosts} "
		"--again={ps_hosts}{ps_hosts}{ps_hosts}{ps_hosts}{ps_hosts}{ps_hosts}{ps_hosts}";
	tfc_error error = TFC_ERROR_INIT;
	int code = TFC_OK;
	for (int i = 0; i < 3 && code == TFC_OK; i++) {
		char *expanded = NULL;
		code = failing_said(tfc__expand(&values, text, &error, &expanded), &error);
		assert_true(code == TFC_OK ? expanded != NULL : expanded == NULL);
		free(expanded);
	}
	return code;
}

static void expanding(void **state)
{
	shared = spec_of(CLUSTER);
	failing_sweep(expand_and_free, 10);
	tfc_spec_free(shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parsing), cmocka_unit_test(adding),    cmocka_unit_test(rendering),
		cmocka_unit_test(ranking), cmocka_unit_test(expanding),
	};
	return cmocka_run_group_tests_name("spec nomem", tests, NULL, NULL);
}
