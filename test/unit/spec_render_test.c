/* spec: the bytes of TF_CONFIG and of the other variables. */
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

#define MIRRORED "{\"evaluator\":[\"e:4\"],\"worker\":[\"a:2\",\"b:3\"],\"chief\":[\"c:1\"]}"
#define MIRRORED_CLUSTER "\"chief\":[\"c:1\"],\"worker\":[\"a:2\",\"b:3\"]"
#define SERVERS                                                                       \
	"{\"ps\":[\"p:1\",\"q:2\"],\"worker\":[\"a:2\",\"b:3\"],\"chief\":[\"c:1\"]," \
	"\"evaluator\":[\"e:4\"]}"
#define SERVERS_CLUSTER MIRRORED_CLUSTER ",\"ps\":[\"p:1\",\"q:2\"]"

static void tf_config_is_exact_to_the_byte(void **state)
{
	static const struct {
		const char *spec;
		enum tfc_strategy strategy;
		const char *task_type;
		uint32_t task_index;
		const char *want;
	} cases[] = {
		{MIRRORED, TFC_STRATEGY_AUTO, "chief", 0,
		 "{\"cluster\":{" MIRRORED_CLUSTER "},\"task\":{\"type\":\"chief\",\"index\":0}}"},
		{MIRRORED, TFC_STRATEGY_MULTI_WORKER_MIRRORED, "worker", 1,
		 "{\"cluster\":{" MIRRORED_CLUSTER "},\"task\":{\"type\":\"worker\",\"index\":1}}"},
		{MIRRORED, TFC_STRATEGY_AUTO, "evaluator", 0,
		 "{\"cluster\":{" MIRRORED_CLUSTER ",\"evaluator\":[\"e:4\"]},"
		 "\"task\":{\"type\":\"evaluator\",\"index\":0}}"},
		{SERVERS, TFC_STRATEGY_AUTO, "chief", 0,
		 "{\"cluster\":{" SERVERS_CLUSTER "},\"task\":{\"type\":\"chief\",\"index\":0}}"},
		{SERVERS, TFC_STRATEGY_PARAMETER_SERVER, "worker", 0,
		 "{\"cluster\":{" SERVERS_CLUSTER "},\"task\":{\"type\":\"worker\",\"index\":0}}"},
		{SERVERS, TFC_STRATEGY_AUTO, "ps", 1,
		 "{\"cluster\":{" SERVERS_CLUSTER "},\"task\":{\"type\":\"ps\",\"index\":1}}"},
		{SERVERS, TFC_STRATEGY_AUTO, "evaluator", 0,
		 "{\"cluster\":{" SERVERS_CLUSTER ",\"evaluator\":[\"e:4\"]},"
		 "\"task\":{\"type\":\"evaluator\",\"index\":0}}"},
		/* no chief: the coordinator is a driver outside */
		{"{\"worker\":[\"a:1\"],\"ps\":[\"p:1\"]}", TFC_STRATEGY_AUTO, "ps", 0,
		 "{\"cluster\":{\"worker\":[\"a:1\"],\"ps\":[\"p:1\"]},"
		 "\"task\":{\"type\":\"ps\",\"index\":0}}"},
		/* an evaluator without an address, and one that is alone */
		{"{\"worker\":[\"a:1\"]}", TFC_STRATEGY_AUTO, "evaluator", 0,
		 "{\"cluster\":{\"worker\":[\"a:1\"],\"evaluator\":[\"localhost:0\"]},"
		 "\"task\":{\"type\":\"evaluator\",\"index\":0}}"},
		{"{\"evaluator\":[\"e:1\"]}", TFC_STRATEGY_AUTO, "evaluator", 0,
		 "{\"cluster\":{\"evaluator\":[\"e:1\"]},"
		 "\"task\":{\"type\":\"evaluator\",\"index\":0}}"},
		/* map form where, and only where, there are gaps */
		{"{\"worker\":{\"7\":\"b:1\",\"3\":\"a:1\"},\"ps\":{\"1\":\"q:1\",\"0\":\"p:1\"}}",
		 TFC_STRATEGY_NONE, "worker", 7,
		 "{\"cluster\":{\"worker\":{\"3\":\"a:1\",\"7\":\"b:1\"},\"ps\":[\"p:1\",\"q:1\"]},"
		 "\"task\":{\"type\":\"worker\",\"index\":7}}"},
		{"{\"worker\":[\"[::1]:2222\",\"[2001:db8::2]:2222\"]}", TFC_STRATEGY_AUTO,
		 "worker", 0,
		 "{\"cluster\":{\"worker\":[\"[::1]:2222\",\"[2001:db8::2]:2222\"]},"
		 "\"task\":{\"type\":\"worker\",\"index\":0}}"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_spec *spec = spec_of(cases[i].spec);
		tfc_error error = TFC_ERROR_INIT;
		char *json = NULL;
		assert_int_equal(tfc_spec_tf_config(spec, cases[i].strategy, cases[i].task_type,
						    cases[i].task_index, &error, &json),
				 0);
		assert_string_equal(json, cases[i].want);
		tfc_free(json);
		tfc_spec_free(spec);
	}
}

static void cluster_json_leaves_the_evaluator_out(void **state)
{
	static const char *const cases[][2] = {
		{"{}", "{}"},
		{"{\"evaluator\":[\"e:1\"]}", "{}"},
		{SERVERS, "{" SERVERS_CLUSTER "}"},
		{"{\"worker\":{\"2\":\"a:1\"}}", "{\"worker\":{\"2\":\"a:1\"}}"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_spec *spec = spec_of(cases[i][0]);
		char *json = NULL;
		assert_int_equal(tfc_spec_json(spec, &json), 0);
		assert_string_equal(json, cases[i][1]);
		tfc_free(json);
		tfc_spec_free(spec);
	}
}

static void environments_are_exact_to_the_byte(void **state)
{
	static const struct {
		const char *spec;
		enum tfc_framework framework;
		enum tfc_strategy strategy;
		const char *task_type;
		const char *want; /* separated by newlines */
	} cases[] = {
		{"{\"chief\":[\"c:1\"],\"worker\":[\"a:2\",\"b:3\"]}", TFC_FRAMEWORK_TENSORFLOW,
		 TFC_STRATEGY_AUTO, "worker",
		 "TF_CONFIG={\"cluster\":{" MIRRORED_CLUSTER
		 "},\"task\":{\"type\":\"worker\",\"index\":0}}\n"
		 "TF_CLUSTER={" MIRRORED_CLUSTER "}\n"
		 "TF_WORKERS=[\"/job:worker/task:0\",\"/job:worker/task:1\"]\n"
		 "TF_CHIEF_SERVER=grpc://c:1\n"},
		{"{\"worker\":[\"a:1\"],\"ps\":[\"p:1\"]}", TFC_FRAMEWORK_TENSORFLOW,
		 TFC_STRATEGY_AUTO, "ps",
		 "TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\"],\"ps\":[\"p:1\"]},"
		 "\"task\":{\"type\":\"ps\",\"index\":0}}\n"
		 "GRPC_FAIL_FAST=use_caller\n"
		 "TF_CLUSTER={\"worker\":[\"a:1\"],\"ps\":[\"p:1\"]}\n"
		 "TF_WORKERS=[\"/job:worker/task:0\"]\n"},
		{"{\"worker\":[\"a:1\"],\"ps\":[\"p:1\"]}", TFC_FRAMEWORK_TENSORFLOW,
		 TFC_STRATEGY_AUTO, "driver",
		 "GRPC_FAIL_FAST=use_caller\n"
		 "TF_CLUSTER={\"worker\":[\"a:1\"],\"ps\":[\"p:1\"]}\n"
		 "TF_WORKERS=[\"/job:worker/task:0\"]\n"},
		{"{\"worker\":{\"5\":\"a:1\"},\"ps\":[\"p:1\"]}", TFC_FRAMEWORK_TENSORFLOW,
		 TFC_STRATEGY_NONE, "tensorboard",
		 "TF_CLUSTER={\"worker\":{\"5\":\"a:1\"},\"ps\":[\"p:1\"]}\n"
		 "TF_WORKERS=[\"/job:worker/task:5\"]\n"},
		{"{\"worker\":[\"a:1\"]}", TFC_FRAMEWORK_NONE, TFC_STRATEGY_AUTO, "worker", ""},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_spec *spec = spec_of(cases[i].spec);
		tfc_error error = TFC_ERROR_INIT;
		char **env = NULL;
		char got[1024] = "";
		assert_int_equal(tfc_spec_environ(spec, cases[i].framework, cases[i].strategy,
						  cases[i].task_type, 0, &error, &env),
				 0);
		for (char **item = env; *item; item++) {
			strcat(got, *item);
			strcat(got, "\n");
		}
		assert_string_equal(got, cases[i].want);
		tfc_strv_free(env);
		tfc_spec_free(spec);
	}
}

/* A spec whose worker/0 has a TF_CONFIG of exactly `len` bytes. */
static tfc_spec *spec_of_size(size_t len)
{
	enum { host_len = 200, count = 600 };
	tfc_spec *spec;
	char address[300];
	char *json = NULL;
	assert_int_equal(tfc_spec_new(&spec), 0);
	for (uint32_t i = 0; i < count; i++) {
		snprintf(address, sizeof(address), "%0*u.x:2222", host_len, i);
		assert_int_equal(tfc_spec_add(spec, "worker", i, address, NULL), 0);
	}
	assert_int_equal(tfc_spec_tf_config(spec, TFC_STRATEGY_AUTO, "worker", 0, NULL, &json), 0);
	size_t rest = len - strlen(json); /* is filled by further workers: ,"..." */
	tfc_free(json);
	for (uint32_t i = count; rest; i++) {
		size_t part = rest > 300 ? 200 : rest > 200 ? rest / 2 : rest;
		snprintf(address, sizeof(address), "%0*u.y:1", (int)part - 7, i);
		assert_int_equal(tfc_spec_add(spec, "worker", i, address, NULL), 0);
		rest -= part;
	}
	return spec;
}

static void a_tf_config_of_131061_bytes_is_the_longest(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_spec *spec = spec_of_size(131061);
	char *json = NULL;
	assert_int_equal(tfc_spec_tf_config(spec, TFC_STRATEGY_AUTO, "worker", 0, &error, &json),
			 0);
	assert_int_equal(strlen(json), 131061);
	assert_int_equal(strlen("TF_CONFIG=") + strlen(json) + 1, 131072);
	tfc_free(json);
	tfc_spec_free(spec);

	spec = spec_of_size(131062);
	json = NULL;
	assert_int_equal(tfc_spec_tf_config(spec, TFC_STRATEGY_AUTO, "worker", 0, &error, &json),
			 TFC_ETOOBIG);
	assert_string_equal(error.text, "worker/0: TF_CONFIG has 131062 bytes, more than the "
					"131061 that an environment variable can hold; use shorter "
					"addresses (IPv4 numbers are short) or fewer tasks");
	assert_null(json);
	char **env = NULL;
	assert_int_equal(tfc_spec_environ(spec, TFC_FRAMEWORK_TENSORFLOW, TFC_STRATEGY_AUTO,
					  "worker", 0, &error, &env),
			 TFC_ETOOBIG);
	assert_null(env);
	tfc_spec_free(spec);
}

static void a_list_for_old_scripts_never_keeps_a_large_job_from_starting(void **state)
{
	tfc_spec *spec;
	char **env = NULL;
	assert_int_equal(tfc_spec_new(&spec), 0);
	for (uint32_t i = 0; i < 6000; i++) {
		char address[32];
		snprintf(address, sizeof(address), "n%u:2222", i);
		assert_int_equal(tfc_spec_add(spec, "worker", i, address, NULL), 0);
	}
	assert_int_equal(tfc_spec_environ(spec, TFC_FRAMEWORK_TENSORFLOW, TFC_STRATEGY_AUTO,
					  "worker", 0, NULL, &env),
			 0);
	assert_memory_equal(env[0], "TF_CONFIG=", 10);
	assert_memory_equal(env[1], "TF_CLUSTER=", 11);
	assert_null(env[2]); /* TF_WORKERS would have 137 KB, and execve would refuse it */
	tfc_strv_free(env);
	tfc_spec_free(spec);
}

static void what_was_rendered_is_forgotten_when_the_spec_changes(void **state)
{
	tfc_spec *spec = spec_of("{\"worker\":[\"a:1\"]}");
	char *before = NULL, *after = NULL;
	assert_int_equal(tfc_spec_json(spec, &before), 0);
	assert_int_equal(tfc_spec_add(spec, "worker", 1, "b:1", NULL), 0);
	assert_int_equal(tfc_spec_json(spec, &after), 0);
	assert_string_equal(before, "{\"worker\":[\"a:1\"]}");
	assert_string_equal(after, "{\"worker\":[\"a:1\",\"b:1\"]}");
	tfc_free(before);
	tfc_free(after);
	tfc_spec_free(spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tf_config_is_exact_to_the_byte),
		cmocka_unit_test(cluster_json_leaves_the_evaluator_out),
		cmocka_unit_test(environments_are_exact_to_the_byte),
		cmocka_unit_test(a_tf_config_of_131061_bytes_is_the_longest),
		cmocka_unit_test(a_list_for_old_scripts_never_keeps_a_large_job_from_starting),
		cmocka_unit_test(what_was_rendered_is_forgotten_when_the_spec_changes),
	};
	return cmocka_run_group_tests_name("spec render", tests, NULL, NULL);
}
