/* job: setting keys one by one, as a command line does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/resource.h>

#include "job/job.h"
#include <tfcluster/job.h>

static int make_job(void **state)
{
	return tfc_job_new((tfc_job **)state);
}

static int free_job(void **state)
{
	tfc_job_free(*state);
	return 0;
}

static void set(tfc_job *job, const char *path, const char *value)
{
	tfc_error error = TFC_ERROR_INIT;
	if (tfc_job_set(job, path, value, &error) < 0)
		fail_msg("%s", error.text);
}

static void single_keys_are_set_from_text(void **state)
{
	tfc_job *job = *state;
	set(job, "name", "7");
	assert_string_equal(job->name, "7");
	set(job, "cwd", "null");
	assert_string_equal(job->cwd, "null");
	set(job, "cwd", "");
	assert_null(job->cwd);
	set(job, "strategy", "none");
	assert_int_equal(job->strategy, TFC_STRATEGY_NONE);
	set(job, "grace_s", "2.5");
	assert_true(job->grace_s == 2.5);
	set(job, "start_deadline_s", "5");
	assert_true(job->start_deadline_s == 5);
	set(job, "start_deadline_s", "auto");
	assert_true(job->start_deadline_s == -1);
	set(job, "restart.max", "8");
	assert_int_equal(job->restart.max, 8);
	set(job, "restart", "{\"on\": \"never\"}");
	assert_int_equal(job->restart.on, TFC__RESTART_NEVER);
	assert_int_equal(job->restart.max, 8);
	set(job, "restart.backoff_s", "[1, 2]");
	assert_true(job->restart.backoff_s[0] == 1 && job->restart.backoff_s[1] == 2);
	set(job, "roles.worker.user", "nobody");
	assert_string_equal(tfc__job_role(job, "worker")->user, "nobody");
	set(job, "roles.worker.user", "");
	assert_null(tfc__job_role(job, "worker")->user);
	set(job, "roles.worker.gpus", "0");
	set(job, "topology", "full");
}

static void lists_take_json_or_one_more_element(void **state)
{
	tfc_job *job = *state;
	set(job, "argv", "[\"python3\"]");
	set(job, "argv[]", "train.py");
	set(job, "argv[]", "");
	set(job, "argv[]", "[1]");
	assert_int_equal(job->argv.count, 4);
	assert_string_equal(job->argv.items[0], "python3");
	assert_string_equal(job->argv.items[1], "train.py");
	assert_string_equal(job->argv.items[2], "");
	assert_string_equal(job->argv.items[3], "[1]");
	set(job, "roles.ps.wrap[]", "nice");
	assert_string_equal(tfc__job_role(job, "ps")->wrap.items[0], "nice");
}

static void limits_are_set_one_by_one_or_together(void **state)
{
	tfc_job *job = *state;
	set(job, "roles.worker.rlimits.nofile", "64");
	set(job, "roles.worker.rlimits.as", "unlimited");
	set(job, "roles.worker.rlimits.nofile", "[16, 32]");
	const struct tfc__rlimits *rlimits = &tfc__job_role(job, "worker")->rlimits;
	assert_int_equal(rlimits->count, 2);
	assert_int_equal(rlimits->items[0].resource, RLIMIT_NOFILE);
	assert_int_equal(rlimits->items[0].soft, 16);
	assert_int_equal(rlimits->items[0].hard, 32);
	assert_true(rlimits->items[1].soft == UINT64_MAX && rlimits->items[1].hard == UINT64_MAX);
	set(job, "roles.worker.rlimits", "{\"core\": 0}");
	rlimits = &tfc__job_role(job, "worker")->rlimits;
	assert_int_equal(rlimits->count, 1);
	assert_int_equal(rlimits->items[0].resource, RLIMIT_CORE);
	set(job, "roles.worker.nice", "-7");
	set(job, "roles.worker.oom_score_adj", "300");
	assert_int_equal(tfc__job_role(job, "worker")->nice, -7);
	assert_int_equal(tfc__job_role(job, "worker")->oom_score_adj, 300);
	set(job, "roles.worker.oom_score_adj", "null");
	assert_int_equal(tfc__job_role(job, "worker")->oom_score_adj, INT32_MIN);
	set(job, "roles.worker.user", "me:ours");
	assert_string_equal(tfc__job_role(job, "worker")->user, "me:ours");
}

static void variables_are_set_by_name_or_as_elements(void **state)
{
	tfc_job *job = *state;
	set(job, "env.EPOCHS", "5");
	set(job, "env.a.b", "dots");
	set(job, "env[]", "EPOCHS=6=7");
	assert_int_equal(job->env.count, 2);
	assert_string_equal(job->env.items[0], "EPOCHS=6=7");
	assert_string_equal(job->env.items[1], "a.b=dots");
	set(job, "env", "{\"ONLY\": \"1\"}");
	assert_int_equal(job->env.count, 1);
	set(job, "secret_env[]", "TOKEN");
	assert_string_equal(job->secret_env.items[0], "TOKEN");
	set(job, "secret_env.TOKEN", "x");
	assert_int_equal(job->secret_env.count, 1);
	assert_string_equal(job->secret_env.items[0], "TOKEN=x");
	set(job, "secret_env[]", "TOKEN");
	assert_int_equal(job->secret_env.count, 1);
	assert_string_equal(job->secret_env.items[0], "TOKEN");
}

static void naming_a_role_creates_it(void **state)
{
	tfc_job *job = *state;
	set(job, "roles.chief", "{}");
	set(job, "roles.worker.count", "3");
	set(job, "roles.worker.env.A", "1");
	set(job, "roles.worker", "{\"port\": 2222}");
	assert_int_equal(job->role_count, 2);
	assert_int_equal(tfc__job_role(job, "chief")->count, 1);
	assert_int_equal(tfc__job_role(job, "worker")->count, 3);
	assert_int_equal(tfc__job_role(job, "worker")->port, 2222);
	assert_string_equal(tfc__job_role(job, "worker")->env.items[0], "A=1");
}

static void a_role_follows_the_jobs_restart_until_it_has_its_own(void **state)
{
	tfc_job *job = *state;
	set(job, "roles.worker", "{}");
	set(job, "restart.max", "9");
	assert_int_equal(job->roles[0].restart.max, 9);
	set(job, "roles.worker.restart.max", "1");
	set(job, "restart.max", "5");
	set(job, "restart.on", "failure");
	assert_int_equal(job->roles[0].restart.max, 1);
	assert_int_equal(job->roles[0].restart.on, TFC__RESTART_FAILURE);
	set(job, "roles.worker.restart", "null");
	assert_int_equal(job->roles[0].restart.max, 5);
}

static void a_refused_change_changes_nothing(void **state)
{
	static const struct {
		const char *path, *value;
		int code;
		const char *sentence;
	} cases[] = {
		{"roles.worker.count", "abc", TFC_EINVAL,
		 "roles.worker.count: must be a whole number from 0 to 100000, not \"abc\""},
		{"roles.worker.count", "-1", TFC_EINVAL,
		 "roles.worker.count: must be a whole number from 0 to 100000, not -1"},
		{"roles.worker.count", "1e999", TFC_EINVAL,
		 "roles.worker.count: must be a whole number from 0 to 100000, not \"1e999\""},
		{"roles.worker.count", "", TFC_EINVAL,
		 "roles.worker.count: must be a whole number from 0 to 100000, not \"\""},
		{"roles.worker.cuont", "1", TFC_EINVAL,
		 "roles.worker.cuont: unknown key; did you mean count?"},
		{"roles.worker", "3", TFC_EINVAL, "roles.worker: must be an object, not 3"},
		{"roles.worker", "{\"port\": 1, \"count\": -1}", TFC_EINVAL,
		 "roles.worker.count: must be a whole number from 0 to 100000, not -1"},
		{"roles.", "{}", TFC_EINVAL,
		 "roles.: a role's name must be 1 to 63 of a-z, 0-9 and _ and begin with a letter"},
		{"roles.a-b.count", "1", TFC_EINVAL,
		 "roles.a-b.count: a role's name must be 1 to 63 of a-z, 0-9 and _ and begin with "
		 "a letter"},
		{"nice", "1", TFC_EINVAL,
		 "nice: unknown key here; use the roles' key roles.ROLE.nice"},
		{"restrat.max", "1", TFC_EINVAL, "restrat.max: unknown key; did you mean restart?"},
		{"restart.mxa", "1", TFC_EINVAL, "restart.mxa: unknown key; did you mean max?"},
		{"", "1", TFC_EINVAL, "the key's path is empty"},
		{"[]", "1", TFC_EINVAL, "[]: unknown key"},
		{"name[]", "1", TFC_EINVAL, "name[]: is not a list; remove the []"},
		{"envv[]", "A=1", TFC_EINVAL, "envv[]: unknown key; did you mean env?"},
		{"env[]", "A", TFC_EINVAL, "env[]: must be NAME=value, not \"A\""},
		{"env[]", "=1", TFC_EINVAL, "env[]: a name must not be empty or contain '='"},
		{"env.A=B", "1", TFC_EINVAL, "env.A=B: a name must not be empty or contain '='"},
		{"argv[]", "\xff", TFC_EINVAL, "argv[]: is not UTF-8"},
		{"name", "\xff", TFC_EINVAL, "name: is not UTF-8"},
		{"env.A", "\xff", TFC_EINVAL, "env.A: is not UTF-8"},
		{"argv", "[\"a\", 1]", TFC_EINVAL, "argv[1]: must be a string, not 1"},
		{"strategy", "ps", TFC_EINVAL,
		 "strategy: must be auto, multi_worker_mirrored, parameter_server or none, not "
		 "\"ps\""},
		{"roles.worker.spares", "1", TFC_ENOTSUP,
		 "roles.worker.spares: not supported by this version; omit it or set it to 0"},
		{"placement.policy", "random", TFC_EINVAL,
		 "placement.policy: must be spread, pack or upstream, not \"random\""},
		{"placement.labels[]", "rack", TFC_EINVAL,
		 "placement.labels[]: must be NAME=value, not \"rack\""},
	};
	tfc_job *job = *state;
	char *before, *after;
	set(job, "env.A", "1");
	assert_int_equal(tfc_job_json(job, TFC_JSON_SECRETS, &before), TFC_OK);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_error error = TFC_ERROR_INIT;
		int result = tfc_job_set(job, cases[i].path, cases[i].value, &error);
		assert_int_equal(result, cases[i].code);
		assert_string_equal(error.text, cases[i].sentence);
		assert_int_equal(tfc_job_json(job, TFC_JSON_SECRETS, &after), TFC_OK);
		assert_string_equal(before, after);
		free(after);
	}
	free(before);
}

/* Also if the value is the key's own default, and in a copy. */
static void defaults_of_a_node_are_for_keys_that_were_not_set(void **state)
{
	static const struct tfc__job_defaults defaults = {.first_backoff_s = 1,
							  .pending_deadline_s = 300};
	tfc_job *job = *state;
	set(job, "roles.worker.count", "1");
	set(job, "roles.ps.restart.backoff_s", "[0, 5]");
	tfc_job *other = tfc__job_copy(job);
	tfc__job_set_defaults(other, &defaults);
	assert_true(other->pending_deadline_s == 300);
	assert_true(other->restart.backoff_s[0] == 1 && other->restart.backoff_s[1] == 30);
	assert_true(tfc__job_role(other, "worker")->restart.backoff_s[0] == 1);
	assert_true(tfc__job_role(other, "ps")->restart.backoff_s[0] == 0);
	tfc_job_free(other);
	set(job, "pending_deadline_s", "0");
	set(job, "restart", "{\"backoff_s\": [0, 30]}");
	other = tfc__job_copy(job);
	tfc__job_set_defaults(other, &defaults);
	assert_true(other->pending_deadline_s == 0);
	assert_true(tfc__job_role(other, "worker")->restart.backoff_s[0] == 0);
	tfc_job_free(other);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_job, free_job)
	const struct CMUnitTest tests[] = {
		TEST(single_keys_are_set_from_text),
		TEST(lists_take_json_or_one_more_element),
		TEST(limits_are_set_one_by_one_or_together),
		TEST(variables_are_set_by_name_or_as_elements),
		TEST(naming_a_role_creates_it),
		TEST(a_role_follows_the_jobs_restart_until_it_has_its_own),
		TEST(a_refused_change_changes_nothing),
		TEST(defaults_of_a_node_are_for_keys_that_were_not_set),
	};
	return cmocka_run_group_tests_name("job_set", tests, NULL, NULL);
}
