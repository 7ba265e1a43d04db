/* gateway: the typed results of requests, as a host reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <tfcluster/gateway.h>

/* The struct of a later library, which an older host indexes. */
struct later_task {
	tfc_job_task known;
	uint64_t more[3];
};

static void tasks_of_a_later_library_are_found(void **state)
{
	const struct later_task tasks[] = {{.known = {.task_type = "ps"}},
					   {.known = {.task_type = "worker", .task_index = 7}}};
	tfc_job_info job = {.tasks = tasks, .described_tasks = 2, .task_size = sizeof(tasks[0])};
	assert_string_equal(tfc_job_info_task(&job, 0)->task_type, "ps");
	assert_int_equal(tfc_job_info_task(&job, 1)->task_index, 7);
	assert_null(tfc_job_info_task(&job, 2));
	job.tasks = NULL; /* of a list of jobs */
	assert_null(tfc_job_info_task(&job, 0));
	assert_null(tfc_job_info_task(NULL, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tasks_of_a_later_library_are_found),
	};
	return cmocka_run_group_tests_name("gateway_results", tests, NULL, NULL);
}
