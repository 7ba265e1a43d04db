/* cluster: what a job file means for the maintainer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/maintainer_core.h"
#include "job/job.h"

#define SECOND 1000000000ull

struct resolved {
	tfc_job *job;
	struct tfc__core_role roles[8];
	struct tfc__core_policy policy;
};

static struct resolved *resolve(const char *json)
{
	static struct resolved r;
	memset(&r, 0, sizeof(r));
	tfc_error error = TFC_ERROR_INIT;
	if (tfc_job_parse(json, strlen(json), "job.json", &error, &r.job) < 0)
		fail_msg("%s", error.text);
	tfc__core_policy_from_job(r.job, r.roles, &r.policy);
	return &r;
}

static const struct tfc__core_role *role_of(const struct resolved *r, const char *name)
{
	for (uint32_t i = 0; i < r->policy.role_count; i++)
		if (!strcmp(r->roles[i].name, name))
			return &r->roles[i];
	fail_msg("no role %s", name);
	return NULL;
}

static void scopes_follow_the_strategy(void **state)
{
	static const struct {
		const char *job, *role;
		uint32_t scope;
	} cases[] = {
		{"{\"argv\":[\"x\"],\"roles\":{\"chief\":{},\"worker\":{\"count\":2},"
		 "\"evaluator\":{}}}",
		 "chief", TFC__SCOPE_GROUP},
		{"{\"argv\":[\"x\"],\"roles\":{\"worker\":{\"count\":2}}}", "worker",
		 TFC__SCOPE_GROUP},
		{"{\"argv\":[\"x\"],\"roles\":{\"worker\":{},\"evaluator\":{}}}", "evaluator",
		 TFC__SCOPE_TASK},
		{"{\"argv\":[\"x\"],\"roles\":{\"chief\":{},\"worker\":{},\"ps\":{}}}", "chief",
		 TFC__SCOPE_COORDINATOR},
		{"{\"argv\":[\"x\"],\"roles\":{\"chief\":{},\"worker\":{},\"ps\":{}}}", "ps",
		 TFC__SCOPE_COORDINATOR},
		{"{\"argv\":[\"x\"],\"roles\":{\"chief\":{},\"worker\":{},\"ps\":{}}}", "worker",
		 TFC__SCOPE_TASK},
		{"{\"argv\":[\"x\"],\"roles\":{\"driver\":{},\"worker\":{},\"ps\":{}}}", "driver",
		 TFC__SCOPE_COORDINATOR},
		{"{\"argv\":[\"x\"],\"framework\":\"none\",\"roles\":{\"worker\":{}}}", "worker",
		 TFC__SCOPE_TASK},
		{"{\"argv\":[\"x\"],\"framework\":\"pytorch\",\"roles\":{\"worker\":{}}}", "worker",
		 TFC__SCOPE_GROUP},
		{"{\"argv\":[\"x\"],\"framework\":\"jax\",\"roles\":{\"chief\":{},\"worker\":{}}}",
		 "chief", TFC__SCOPE_GROUP},
		{"{\"argv\":[\"x\"],\"framework\":\"horovod\",\"roles\":{\"worker\":{},"
		 "\"helper\":{\"sidecar\":true}}}",
		 "helper", TFC__SCOPE_TASK},
		/* the job's word is about the cluster */
		{"{\"argv\":[\"x\"],\"restart\":{\"scope\":\"group\"},\"roles\":{\"chief\":{},"
		 "\"worker\":{},\"ps\":{}}}",
		 "worker", TFC__SCOPE_GROUP},
		{"{\"argv\":[\"x\"],\"restart\":{\"scope\":\"group\"},\"roles\":{\"worker\":{},"
		 "\"evaluator\":{}}}",
		 "evaluator", TFC__SCOPE_TASK},
		/* a role's own word counts as it is */
		{"{\"argv\":[\"x\"],\"roles\":{\"chief\":{},\"ps\":{},\"worker\":{\"restart\":{"
		 "\"scope\":\"group\"}}}}",
		 "worker", TFC__SCOPE_GROUP},
		{"{\"argv\":[\"x\"],\"roles\":{\"worker\":{},\"cache\":{\"sidecar\":true,"
		 "\"restart\":{\"scope\":"
		 "\"group\"}}}}",
		 "cache", TFC__SCOPE_GROUP},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct resolved *r = resolve(cases[i].job);
		if (role_of(r, cases[i].role)->scope != cases[i].scope)
			fail_msg("%s: %s has scope %u", cases[i].job, cases[i].role,
				 role_of(r, cases[i].role)->scope);
		tfc_job_free(r->job);
	}
}

static void success_is_the_driver_else_the_chief_else_all_workers(void **state)
{
	static const struct {
		const char *job;
		uint32_t success;
	} cases[] = {
		{"{\"argv\":[\"x\"],\"roles\":{\"worker\":{\"count\":2}}}",
		 TFC__SUCCESS_ALL_WORKERS},
		{"{\"argv\":[\"x\"],\"roles\":{\"worker\":{},\"chief\":{}}}", TFC__SUCCESS_CHIEF},
		{"{\"argv\":[\"x\"],\"roles\":{\"worker\":{},\"ps\":{},\"driver\":{}}}",
		 TFC__SUCCESS_DRIVER},
		{"{\"argv\":[\"x\"],\"success\":\"worker0\",\"roles\":{\"worker\":{}}}",
		 TFC__SUCCESS_WORKER0},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct resolved *r = resolve(cases[i].job);
		assert_int_equal(r->policy.success, cases[i].success);
		tfc_job_free(r->job);
	}
}

static void times_budgets_and_flags_come_from_the_role_or_else_the_job(void **state)
{
	struct resolved *r = resolve(
		"{\"argv\":[\"x\"],\"preempt_grace_s\":20,\"grace_s\":7,\"finish_s\":20,\"abort_"
		"grace_s\":0.5,"
		"\"start_deadline_s\":60,\"deadline_s\":3600,\"restart\":{\"max\":5,"
		"\"backoff_s\":[1,8]},\"roles\":{\"worker\":{},\"evaluator\":{\"finish_s\":60,"
		"\"on_failure\":\"ignore\",\"restart\":{\"on\":\"never\",\"losses\":7}}}}");
	const struct tfc__core_role *worker = role_of(r, "worker");
	const struct tfc__core_role *evaluator = role_of(r, "evaluator");
	assert_int_equal(worker->grace_ns, 7 * SECOND);
	assert_int_equal(worker->finish_ns, 20 * SECOND);
	assert_int_equal(worker->restart_max, 5);
	assert_int_equal(worker->window_ns, 600 * SECOND);
	assert_int_equal(worker->backoff_min_ns, SECOND);
	assert_int_equal(worker->backoff_max_ns, 8 * SECOND);
	assert_int_equal(worker->restart_on, TFC__RESTART_RETRYABLE);
	assert_true(worker->has_port && worker->is_ready_on_listen && worker->is_in_cluster);
	assert_false(worker->is_failure_ignored);
	assert_int_equal(evaluator->finish_ns, 60 * SECOND);
	assert_int_equal(evaluator->restart_on, TFC__RESTART_NEVER);
	assert_int_equal(evaluator->restart_max, 5);
	assert_true(evaluator->is_failure_ignored);
	assert_false(evaluator->is_ready_on_listen);
	assert_int_equal(r->policy.abort_grace_ns, SECOND / 2);
	assert_false(r->policy.is_abort_auto);
	assert_int_equal(r->policy.preempt_grace_ns, 20 * SECOND);
	assert_int_equal(r->policy.start_deadline_ns, 60 * SECOND);
	assert_int_equal(r->policy.no_listener_ns, 0);
	assert_int_equal(r->policy.deadline_ns, 3600 * SECOND);
	assert_int_equal(r->policy.strategy, TFC_STRATEGY_MULTI_WORKER_MIRRORED);
	assert_int_equal(worker->loss_max, 100);
	assert_int_equal(worker->loss_window_ns, 86400 * SECOND);
	assert_int_equal(evaluator->loss_max, 7);
	assert_true(r->policy.is_tensorflow);
	tfc_job_free(r->job);
}

static void listening_is_assumed_where_nobody_says_so(void **state)
{
	struct resolved *r = resolve(
		"{\"argv\":[\"x\"],\"roles\":{\"chief\":{},\"worker\":{\"ready\":\"listen\"},"
		"\"ps\":{\"server\":true}}}");
	assert_int_equal(r->policy.start_deadline_ns, 600 * SECOND);
	assert_int_equal(r->policy.no_listener_ns, 30 * SECOND);
	assert_true(role_of(r, "chief")->is_listening_assumed);
	assert_false(role_of(r, "worker")->is_listening_assumed);
	assert_false(role_of(r, "ps")->is_listening_assumed);
	tfc_job_free(r->job);
}

static void who_may_fail_is_what_the_role_says_or_else_what_it_is_for(void **state)
{
	static const struct {
		const char *role, *job;
		bool is_ignored, is_replaceable;
		uint32_t restart_on;
	} cases[] = {
		{"evaluator", "\"worker\":{},\"evaluator\":{}", true, false, TFC__RESTART_FAILURE},
		{"evaluator", "\"worker\":{},\"evaluator\":{\"on_failure\":\"ignore\"}", true,
		 false, TFC__RESTART_RETRYABLE},
		{"evaluator", "\"worker\":{},\"evaluator\":{\"on_failure\":\"fail\"}", false, false,
		 TFC__RESTART_RETRYABLE},
		/* as 0.2 has stored it */
		{"evaluator", "\"worker\":{},\"evaluator\":{\"on_failure\":\"restart\"}", false,
		 false, TFC__RESTART_RETRYABLE},
		{"evaluator", "\"worker\":{},\"evaluator\":{\"restart\":{\"on\":\"retryable\"}}",
		 true, false, TFC__RESTART_RETRYABLE},
		{"evaluator", "\"worker\":{},\"evaluator\":{\"restart\":{\"on\":\"never\"}}", true,
		 false, TFC__RESTART_NEVER},
		{"worker", "\"worker\":{\"count\":2}", false, false, TFC__RESTART_RETRYABLE},
		{"worker", "\"chief\":{},\"ps\":{},\"worker\":{\"server\":true}", true, true,
		 TFC__RESTART_RETRYABLE},
		{"worker", "\"chief\":{},\"ps\":{},\"worker\":{}", false, true,
		 TFC__RESTART_RETRYABLE},
		{"worker", "\"chief\":{},\"ps\":{},\"worker\":{\"on_failure\":\"ignore\"}", true,
		 true, TFC__RESTART_RETRYABLE},
		{"worker",
		 "\"chief\":{},\"ps\":{},\"worker\":{\"server\":true,\"on_failure\":\"fail\"}",
		 false, true, TFC__RESTART_RETRYABLE},
		{"chief", "\"chief\":{},\"ps\":{},\"worker\":{}", false, false,
		 TFC__RESTART_RETRYABLE},
		{"ps", "\"chief\":{},\"ps\":{\"server\":true},\"worker\":{}", false, false,
		 TFC__RESTART_RETRYABLE},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char json[256];
		snprintf(json, sizeof(json), "{\"argv\":[\"x\"],\"roles\":{%s}}", cases[i].job);
		struct resolved *r = resolve(json);
		const struct tfc__core_role *role = role_of(r, cases[i].role);
		assert_int_equal(role->is_failure_ignored, cases[i].is_ignored);
		assert_int_equal(role->is_failure_fatal,
				 strstr(cases[i].job, "\"on_failure\":\"fail\"") ||
					 strstr(cases[i].job, "\"on_failure\":\"restart\""));
		assert_int_equal(role->is_replaceable, cases[i].is_replaceable);
		assert_int_equal(role->restart_on, cases[i].restart_on);
		tfc_job_free(r->job);
	}
}

static void abort_grace_is_a_second_that_a_crash_may_cut_unless_it_is_given(void **state)
{
	static const struct {
		const char *job;
		uint64_t grace;
		bool is_auto;
	} cases[] = {
		{"{\"argv\":[\"x\"],\"roles\":{\"worker\":{}}}", SECOND, true},
		{"{\"argv\":[\"x\"],\"abort_grace_s\":\"auto\",\"roles\":{\"worker\":{}}}", SECOND,
		 true},
		{"{\"argv\":[\"x\"],\"abort_grace_s\":1,\"roles\":{\"worker\":{}}}", SECOND, false},
		{"{\"argv\":[\"x\"],\"abort_grace_s\":0,\"roles\":{\"worker\":{}}}", 0, false},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct resolved *r = resolve(cases[i].job);
		assert_int_equal(r->policy.abort_grace_ns, cases[i].grace);
		assert_int_equal(r->policy.is_abort_auto, cases[i].is_auto);
		assert_int_equal(tfc__job_abort_grace_ms(r->job), cases[i].grace / (SECOND / 1000));
		tfc_job_free(r->job);
	}
}

static void servers_are_not_waited_for_at_the_end(void **state)
{
	struct resolved *r = resolve(
		"{\"argv\":[\"x\"],\"roles\":{\"driver\":{},\"worker\":{\"server\":true},"
		"\"ps\":{\"server\":true}}}");
	assert_int_equal(role_of(r, "worker")->finish_ns, 0);
	assert_true(role_of(r, "driver")->finish_ns > 0);
	tfc_job_free(r->job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scopes_follow_the_strategy),
		cmocka_unit_test(success_is_the_driver_else_the_chief_else_all_workers),
		cmocka_unit_test(times_budgets_and_flags_come_from_the_role_or_else_the_job),
		cmocka_unit_test(who_may_fail_is_what_the_role_says_or_else_what_it_is_for),
		cmocka_unit_test(listening_is_assumed_where_nobody_says_so),
		cmocka_unit_test(abort_grace_is_a_second_that_a_crash_may_cut_unless_it_is_given),
		cmocka_unit_test(servers_are_not_waited_for_at_the_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
