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

#ifdef IS_SANITIZED

int main(void)
{
	return 77;
}

#else

static const char text[] =
	"{\"name\":\"n\",\"argv\":[\"a\",\"b\"],\"env\":{\"A\":\"1\"},\"secret_env\":{\"S\":null},"
	"\"cwd\":\"c\",\"deadline_s\":0.1,\"topology\":\"full\","
	"\"roles\":{\"chief\":{\"restart\":{\"max\":2}},\"worker\":{\"count\":2,\"env\":{\"B\":"
	"\"2\"},"
	"\"wrap\":[\"nice\"]},\"tensorboard\":{\"log_dir\":\"l\"}}}";

static int parse(tfc_job **ret_job)
{
	tfc_error error = TFC_ERROR_INIT;
	return tfc_job_parse(text, sizeof(text) - 1, "job.json", &error, ret_job);
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
	sweep(parse_and_free);
}

static tfc_job *shared;

static int write_and_free(void)
{
	char *json = NULL;
	int result = tfc_job_json(shared, TFC_JOB_JSON_SECRETS, &json);
	tfc_free(json);
	return result;
}

static void writing(void **state)
{
	assert_int_equal(parse(&shared), TFC_OK);
	sweep(write_and_free);
	tfc_job_free(shared);
}

static const char *set_path, *set_text;

/* The set job replaces what the shared one holds, so it is made anew each time. */
static int parse_and_set(void)
{
	tfc_job *job = NULL;
	int result = parse(&job);
	if (result == TFC_OK)
		result = tfc_job_set(job, set_path, set_text, NULL);
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
		{"topology", "full"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_path = cases[i][0];
		set_text = cases[i][1];
		sweep(parse_and_set);
	}
}

static int resolve_and_free(void)
{
	tfc_job *job = NULL;
	int result = tfc_job_new(&job);
	if (result == TFC_OK)
		result = tfc_job_set(job, "roles.worker.cwd", "bin", NULL);
	if (result == TFC_OK)
		result = tfc_job_resolve(job, "/usr", NULL);
	tfc_job_free(job);
	return result;
}

static void resolving(void **state)
{
	sweep(resolve_and_free);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parsing),
		cmocka_unit_test(writing),
		cmocka_unit_test(setting),
		cmocka_unit_test(resolving),
	};
	tfc_job *warm = NULL; /* what libraries allocate once and keep is no leak */
	if (parse(&warm) < 0)
		return 1;
	tfc_job_free(warm);
	return cmocka_run_group_tests_name("job_nomem", tests, NULL, NULL);
}

#endif
