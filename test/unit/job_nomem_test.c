/* job: whichever allocation fails, the call says so, changes nothing and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing_malloc.h"
#include <tfcluster/job.h>
#include <tfcluster/spec.h>

static const char text[] =
	"{\"name\":\"n\",\"argv\":[\"a\",\"b\"],\"env\":{\"A\":\"1\"},\"secret_env\":{\"S\":null},"
	"\"cwd\":\"c\",\"pending_deadline_s\":1,\"deadline_s\":0.1,\"topology\":\"full\","
	"\"roles\":{\"chief\":{\"restart\":{\"max\":2}},\"worker\":{\"count\":2,\"env\":{\"B\":"
	"\"2\"},"
	"\"rlimits\":{\"nofile\":64,\"as\":[1,\"unlimited\"],\"core\":\"unlimited\"},"
	"\"nice\":-3,\"oom_score_adj\":0,\"user\":\"u:g\",\"wrap\":[\"nice\"],\"labels\":{\"disk\":"
	"\"ssd\"}},\"tensorboard\":{"
	"\"log_dir\":\"l\"}}}";

static int parse(tfc_job **ret_job)
{
	tfc_error error = TFC_ERROR_INIT;
	SWEPT(tfc_job_parse);
	int code = tfc_job_parse(text, sizeof(text) - 1, "job.json", &error, ret_job);
	assert_true(code == TFC_OK || !*ret_job);
	return failing_said(code, &error);
}

static int parse_and_free(void)
{
	tfc_job *job = NULL;
	int result = parse(&job);
	tfc_job_free(job);
	return result;
}

static void parsing(void **state)
{
	failing_sweep(parse_and_free, 10);
}

static tfc_job *shared;

static int write_and_free(void)
{
	char *json = NULL;
	SWEPT(tfc_job_json);
	int result = tfc_job_json(shared, TFC_JSON_SECRETS, &json);
	assert_true(result == TFC_OK || !json);
	tfc_free(json);
	return result;
}

static void writing(void **state)
{
	assert_int_equal(parse(&shared), TFC_OK);
	failing_sweep(write_and_free, 10);
	tfc_job_free(shared);
}

static const char *set_path, *set_text;

/* The set job replaces what the shared one holds, so it is made anew each time. */
static int parse_and_set(void)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *job = NULL;
	int result = parse(&job);
	if (result == TFC_OK)
		result = failing_said(tfc_job_set(job, set_path, set_text, &error), &error);
	SWEPT(tfc_job_set);
	tfc_job_free(job);
	return result;
}

static void setting(void **state)
{
	static const char *const cases[][2] = {
		{"name", "other"},          {"argv[]", "c"},
		{"env.NEW", "1"},           {"secret_env[]", "T"},
		{"roles.ps", "{}"},         {"roles.worker.count", "3"},
		{"argv", "[\"x\", \"y\"]"}, {"restart.backoff_s", "[1,2]"},
		{"topology", "full"},       {"roles.ps.rlimits.nofile", "[1,2]"},
		{"roles.ps.user", "me"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_path = cases[i][0];
		set_text = cases[i][1];
		failing_sweep(parse_and_set, 10);
	}
}

static int resolve_and_free(void)
{
	tfc_job *job = NULL;
	tfc_error error = TFC_ERROR_INIT;
	SWEPT(tfc_job_new);
	SWEPT(tfc_job_validate);
	SWEPT(tfc_job_resolve);
	int result = tfc_job_new(&job);
	assert_true(result == TFC_OK || !job);
	if (result == TFC_OK)
		result = tfc_job_set(job, "roles.worker.cwd", "bin", NULL);
	if (result == TFC_OK)
		result = tfc_job_set(job, "roles.worker.argv[]", "true", NULL);
	if (result == TFC_OK)
		result = failing_said(tfc_job_validate(job, &error), &error);
	if (result == TFC_OK)
		result = failing_said(tfc_job_resolve(job, "/usr", &error), &error);
	tfc_job_free(job);
	return result;
}

static void resolving(void **state)
{
	failing_sweep(resolve_and_free, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parsing),
		cmocka_unit_test(writing),
		cmocka_unit_test(setting),
		cmocka_unit_test(resolving),
	};
	return cmocka_run_group_tests_name("job_nomem", tests, NULL, NULL);
}
