/* job: paths as seen from a directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "job/job.h"

static int make_job(void **state)
{
	tfc_job *job = NULL;
	if (tfc_job_new(&job) < 0)
		return -1;
	*state = job;
	return tfc_job_set(job, "roles.worker", "{}", NULL);
}

static int free_job(void **state)
{
	tfc_job_free(*state);
	return 0;
}

static void set(tfc_job *job, const char *path, const char *value)
{
	assert_int_equal(tfc_job_set(job, path, value, NULL), TFC_OK);
}

static void a_job_without_a_directory_gets_the_base(void **state)
{
	tfc_job *job = *state;
	assert_int_equal(tfc_job_resolve(job, "/usr", NULL), TFC_OK);
	assert_string_equal(job->cwd, "/usr");
	assert_null(job->roles[0].cwd);
}

static void relative_directories_become_absolute(void **state)
{
	tfc_job *job = *state;
	set(job, "cwd", "bin");
	set(job, "roles.worker.cwd", "lib");
	set(job, "roles.chief.cwd", "/tmp");
	assert_int_equal(tfc_job_resolve(job, "/usr", NULL), TFC_OK);
	assert_string_equal(job->cwd, "/usr/bin");
	assert_string_equal(job->roles[0].cwd, "/usr/lib");
	assert_string_equal(job->roles[1].cwd, "/tmp");
}

static void with_a_bundle_only_the_bundle_is_resolved(void **state)
{
	tfc_job *job = *state;
	set(job, "bundle", "code");
	set(job, "roles.worker.cwd", "no/such");
	assert_int_equal(tfc_job_resolve(job, "/usr", NULL), TFC_OK);
	assert_string_equal(job->bundle, "/usr/code");
	assert_null(job->cwd);
	assert_string_equal(job->roles[0].cwd, "no/such");
}

static void a_directory_that_cannot_be_entered_is_refused_and_nothing_changes(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *job = *state;
	set(job, "cwd", "bin");
	set(job, "roles.worker.cwd", "no/such");
	assert_int_equal(tfc_job_resolve(job, "/usr", &error), TFC_ENOENT);
	assert_string_equal(
		error.text,
		"roles.worker.cwd: cannot enter directory \"no/such\": No such file or directory");
	assert_string_equal(job->cwd, "bin");
	set(job, "cwd", "/etc/passwd");
	assert_int_equal(tfc_job_resolve(job, "/usr", &error), TFC_ENOENT);
	assert_string_equal(error.text,
			    "cwd: cannot enter directory \"/etc/passwd\": Not a directory");
}

static void the_base_must_be_absolute(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc_job_resolve(*state, "usr", &error), TFC_EINVAL);
	assert_int_equal(tfc_job_resolve(*state, NULL, &error), TFC_EINVAL);
	assert_int_equal(tfc_job_resolve(NULL, "/usr", &error), TFC_EINVAL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_job, free_job)
	const struct CMUnitTest tests[] = {
		TEST(a_job_without_a_directory_gets_the_base),
		TEST(relative_directories_become_absolute),
		TEST(with_a_bundle_only_the_bundle_is_resolved),
		TEST(a_directory_that_cannot_be_entered_is_refused_and_nothing_changes),
		TEST(the_base_must_be_absolute),
	};
	return cmocka_run_group_tests_name("job_resolve", tests, NULL, NULL);
}
