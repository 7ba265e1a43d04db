/* gateway: the typed results of requests, as a host reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/results.h"
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

struct later_zygote {
	tfc_zygote known;
	uint64_t more[3];
};

static void zygotes_of_a_later_library_are_found(void **state)
{
	const struct later_zygote zygotes[] = {{.known = {.pid = 1}}, {.known = {.pid = 2}}};
	const tfc_job_info job = {.zygotes = zygotes,
				  .zygote_count = 2,
				  .zygote_size = sizeof(zygotes[0])};
	const tfc_job_info other = {.zygote_size = sizeof(zygotes[0])};
	assert_int_equal(tfc_job_info_zygote(&job, 1)->pid, 2);
	assert_null(tfc_job_info_zygote(&job, 2));
	assert_null(tfc_job_info_zygote(&other, 0));
	assert_null(tfc_job_info_zygote(NULL, 0));
}

/* The result of DESCRIBE, as a node writes it and a gateway reads it. */
static void a_zygote_of_a_described_job_is_read_as_it_was_written(void **state)
{
	static const char *const modules[] = {"tensorflow", "sklearn", NULL};
	static const char *const nodes[] = {"a", NULL};
	const tfc_zygote zygote = {.state = TFC_ZYGOTE_READY,
				   .node = "a",
				   .interpreter = "/usr/bin/python3",
				   .modules = modules,
				   .text = "",
				   .pid = 70000,
				   .attempts = 3,
				   .started_ns = 1000000000,
				   .rss_bytes = 5000000001u,
				   .anonymous_bytes = 5000000000u};
	const tfc_job_info job = {.state = TFC_JOB_RUNNING,
				  .job = "0123456789abcdef",
				  .nodes = nodes,
				  .zygotes = &zygote,
				  .zygote_count = 1,
				  .zygote_size = sizeof(zygote)};
	struct tfc__buf buf = {0};
	struct tfc__result result = {.job = {0}};
	tfc_error error = TFC_ERROR_INIT;
	tfc__job_write_head(&buf, &job);
	assert_false(buf.is_failed);
	if (tfc__result_read(&result, TFC_VERB_DESCRIBE, buf.data, buf.len, &error) < 0)
		fail_msg("%s", error.text);
	const tfc_zygote *read = tfc_job_info_zygote(&result.job, 0);
	assert_non_null(read);
	assert_null(tfc_job_info_zygote(&result.job, 1));
	assert_int_equal(read->size, sizeof(*read));
	assert_int_equal(read->state, TFC_ZYGOTE_READY);
	assert_string_equal(read->node, "a");
	assert_string_equal(read->interpreter, "/usr/bin/python3");
	assert_string_equal(read->modules[0], "tensorflow");
	assert_string_equal(read->modules[1], "sklearn");
	assert_null(read->modules[2]);
	assert_int_equal(read->pid, 70000);
	assert_int_equal(read->attempts, 3);
	assert_true(read->started_ns == 1000000000);
	assert_true(read->rss_bytes == 5000000001u);
	assert_true(read->anonymous_bytes == 5000000000u);
	assert_non_null(strstr(
		result.json.buf.data,
		"\"zygotes\":[{\"node\":\"a\",\"interpreter\":\"/usr/bin/python3\",\"modules\":"
		"[\"tensorflow\",\"sklearn\"],\"state\":\"ready\",\"pid\":70000,\"attempts\":3,"
		"\"started\":\"1970-01-01T00:00:01.000000Z\",\"rss_bytes\":5000000001,"
		"\"anonymous_bytes\":5000000000}]"));
	tfc__result_fini(&result);
	tfc__buf_fini(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tasks_of_a_later_library_are_found),
		cmocka_unit_test(zygotes_of_a_later_library_are_found),
		cmocka_unit_test(a_zygote_of_a_described_job_is_read_as_it_was_written),
	};
	return cmocka_run_group_tests_name("gateway_results", tests, NULL, NULL);
}
