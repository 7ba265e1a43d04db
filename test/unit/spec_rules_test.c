/* spec: TensorFlow's rules, each with the sentence that names the task and the remedy. */
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

static void task_types_that_tensorflow_does_not_know_are_refused(void **state)
{
	static const struct {
		const char *task_type, *meant;
	} cases[] = {
		{"master", "chief"},
		{"Master", "chief"},
		{"Worker", "worker"},
		{"workers", "worker"},
		{"wroker", "worker"},
		{"cheif", "chief"},
		{"PS", "ps"},
		{"pss", "ps"},
		{"sp", "ps"},
		{"wroekr", "worker"},
		{"parameter_server", "ps"},
		{"eval", "evaluator"},
		{"evaluater", "evaluator"},
		{"coordinator", "chief"},
	};
	static const char *const others[] = {
		"tensorboard",
		"driver",
		"",
		"a-very-long-name-of-a-role-that-nobody-meant",
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_spec *spec = spec_of("{}");
		tfc_error error = TFC_ERROR_INIT;
		char want[256];
		assert_int_equal(tfc_spec_add(spec, cases[i].task_type, 1, "h:1", &error),
				 TFC_ESPEC);
		snprintf(want, sizeof(want),
			 "%s/1: TensorFlow knows no such task type; did you mean %s?",
			 cases[i].task_type, cases[i].meant);
		assert_string_equal(error.text, want);
		tfc_spec_free(spec);
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		tfc_spec *spec = spec_of("{}");
		tfc_error error = TFC_ERROR_INIT;
		char want[256];
		assert_int_equal(tfc_spec_add(spec, others[i], 0, "h:1", &error), TFC_ESPEC);
		snprintf(
			want, sizeof(want),
			"%s/0: TensorFlow takes only chief, worker, ps and evaluator in a cluster; "
			"run it outside the cluster spec",
			others[i]);
		assert_string_equal(error.text, want);
		tfc_spec_free(spec);
	}
}

static void tasks_that_cannot_be_added_are_refused(void **state)
{
	static const struct {
		const char *task_type;
		uint32_t task_index;
		const char *want;
	} cases[] = {
		{"chief", 1,
		 "chief/1: TensorFlow takes at most one chief, with index 0; leave this one out or "
		 "make it a worker"},
		{"evaluator", 1,
		 "evaluator/1: TensorFlow takes at most one evaluator, with index 0; leave this "
		 "one "
		 "out"},
		{"worker", 0, "worker/0: is in the cluster already; give it another index"},
		{"worker", 2147483648U,
		 "worker/2147483648: an index is at most 2147483647; number the tasks from 0"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_spec *spec = spec_of("{\"worker\":[\"a:1\"]}");
		tfc_error error = TFC_ERROR_INIT;
		assert_int_equal(tfc_spec_add(spec, cases[i].task_type, cases[i].task_index, "h:1",
					      &error),
				 TFC_ESPEC);
		assert_string_equal(error.text, cases[i].want);
		assert_int_equal(tfc_spec_count(spec, NULL), 1);
		tfc_spec_free(spec);
	}
}

static void each_rule_of_the_strategies_has_its_sentence(void **state)
{
	static const struct {
		const char *spec;
		enum tfc_strategy strategy;
		const char *task_type;
		uint32_t task_index;
		int code;
		const char *want;
	} cases[] = {
		{"{\"worker\":[\"a:1\"],\"ps\":[\"p:1\"]}", TFC_STRATEGY_MULTI_WORKER_MIRRORED,
		 "worker", 0, TFC_ESPEC,
		 "worker/0: multi_worker_mirrored takes no ps (its tasks would wait for ps/0 for "
		 "ever); leave the ps out or use parameter_server"},
		{"{\"worker\":[\"a:1\"]}", TFC_STRATEGY_PARAMETER_SERVER, "worker", 0, TFC_ESPEC,
		 "worker/0: parameter_server needs at least one ps; add ps/0 or use "
		 "multi_worker_mirrored"},
		{"{\"chief\":[\"c:1\"],\"ps\":[\"p:1\"]}", TFC_STRATEGY_AUTO, "chief", 0, TFC_ESPEC,
		 "chief/0: parameter_server needs at least one worker; add worker/0"},
		{"{\"worker\":[\"a:1\",\"b:1\"]}", TFC_STRATEGY_AUTO, "worker", 2, TFC_ESPEC,
		 "worker/2: not among the 2 worker tasks of the cluster (the last is worker/1); "
		 "add "
		 "it with its address or correct the index"},
		{"{\"worker\":[\"a:1\"]}", TFC_STRATEGY_AUTO, "chief", 0, TFC_ESPEC,
		 "chief/0: the cluster has no chief; add this task with its address"},
		{"{\"worker\":[\"a:1\"]}", TFC_STRATEGY_NONE, "worker", 1, TFC_ESPEC,
		 "worker/1: not among the 1 worker tasks of the cluster (the last is worker/0); "
		 "add "
		 "it with its address or correct the index"},
		{"{\"worker\":[\"a:1\"]}", TFC_STRATEGY_AUTO, "evaluator", 1, TFC_ESPEC,
		 "evaluator/1: TensorFlow takes at most one evaluator, with index 0; leave this "
		 "one "
		 "out"},
		{"{\"worker\":{\"1\":\"a:1\"}}", TFC_STRATEGY_AUTO, "worker", 1, TFC_ESPEC,
		 "worker/1: the strategy requires an index below 1, the number of worker tasks "
		 "listed; list them without gaps, or use strategy none"},
		{"{\"worker\":[\"a:1\"],\"ps\":{\"4\":\"p:1\"}}", TFC_STRATEGY_AUTO, "ps", 4,
		 TFC_ESPEC,
		 "ps/4: the strategy requires an index below 1, the number of ps tasks listed; "
		 "list them without gaps, or use strategy none"},
		{"{\"worker\":[\"a:1\"]}", TFC_STRATEGY_AUTO, "master", 0, TFC_ESPEC,
		 "master/0: TensorFlow knows no such task type; did you mean chief?"},
		{"{\"worker\":[\"a:1\"]}", (enum tfc_strategy)9, "worker", 0, TFC_EINVAL,
		 "strategy is 9, which is not in enum tfc_strategy; use TFC_STRATEGY_AUTO"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_spec *spec = spec_of(cases[i].spec);
		tfc_error error = TFC_ERROR_INIT;
		char sentinel[] = "untouched", *json = sentinel;
		assert_int_equal(tfc_spec_tf_config(spec, cases[i].strategy, cases[i].task_type,
						    cases[i].task_index, &error, &json),
				 cases[i].code);
		assert_string_equal(error.text, cases[i].want);
		assert_ptr_equal(json, sentinel);
		tfc_spec_free(spec);
	}
}

static void sparse_tasks_are_fine_where_their_index_is_in_range_or_no_strategy_looks(void **state)
{
	tfc_spec *spec = spec_of("{\"worker\":{\"0\":\"a:1\",\"7\":\"b:1\"}}");
	char *json = NULL;
	assert_int_equal(tfc_spec_tf_config(spec, TFC_STRATEGY_AUTO, "worker", 0, NULL, &json), 0);
	tfc_free(json);
	assert_int_equal(tfc_spec_tf_config(spec, TFC_STRATEGY_AUTO, "worker", 7, NULL, &json),
			 TFC_ESPEC);
	assert_int_equal(tfc_spec_tf_config(spec, TFC_STRATEGY_NONE, "worker", 7, NULL, &json), 0);
	tfc_free(json);
	tfc_spec_free(spec);
}

static void a_task_outside_the_cluster_meets_the_rules_of_the_cluster(void **state)
{
	tfc_spec *spec = spec_of("{\"ps\":[\"p:1\"]}");
	tfc_error error = TFC_ERROR_INIT;
	char *sentinel[] = {NULL}, **env = sentinel;
	assert_int_equal(tfc_spec_environ(spec, TFC_FRAMEWORK_TENSORFLOW, TFC_STRATEGY_AUTO,
					  "driver", 0, &error, &env),
			 TFC_ESPEC);
	assert_string_equal(error.text,
			    "driver/0: parameter_server needs at least one worker; add worker/0");
	assert_int_equal(tfc_spec_environ(spec, (enum tfc_framework)9, TFC_STRATEGY_AUTO, "driver",
					  0, &error, &env),
			 TFC_EINVAL);
	assert_string_equal(
		error.text,
		"framework is 9, which is not in enum tfc_framework; use TFC_FRAMEWORK_TENSORFLOW");
	assert_ptr_equal(env, sentinel);
	tfc_spec_free(spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(task_types_that_tensorflow_does_not_know_are_refused),
		cmocka_unit_test(tasks_that_cannot_be_added_are_refused),
		cmocka_unit_test(each_rule_of_the_strategies_has_its_sentence),
		cmocka_unit_test(
			sparse_tasks_are_fine_where_their_index_is_in_range_or_no_strategy_looks),
		cmocka_unit_test(a_task_outside_the_cluster_meets_the_rules_of_the_cluster),
	};
	return cmocka_run_group_tests_name("spec rules", tests, NULL, NULL);
}
