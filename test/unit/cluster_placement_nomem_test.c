/* cluster: a placement without memory says so and takes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/placement.h"
#include "failing_malloc.h"

static tfc_job *job;

static int place(void)
{
	static const uint32_t tasks[] = {0, 1, 2};
	static char name[] = "a", label[] = "disk=ssd", *labels[] = {label, NULL};
	struct tfc__member member = {.name = name, .state = TFC_MEMBER_ALIVE, .labels = labels};
	struct tfc__place_node node = {.member = &member};
	uint32_t placed[3];
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__place_request request = {
		.job = job, .tasks = tasks, .task_count = 3, .nodes = &node, .node_count = 1};
	int code = failing_said(tfc__place_tasks(&request, &error, placed), &error);
	assert_int_equal(node.tasks, code == TFC_OK ? 3 : 0);
	return code;
}

static void all_or_nothing(void **state)
{
	static const char json[] = "{\"argv\":[\"x\"],\"roles\":{\"worker\":{\"count\":3,"
				   "\"labels\":{\"disk\":\"ssd\"}}}}";
	assert_int_equal(tfc_job_parse(json, strlen(json), NULL, NULL, &job), TFC_OK);
	failing_sweep(place, 3);
	tfc_job_free(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(all_or_nothing)};
	return cmocka_run_group_tests_name("cluster_placement_nomem", tests, NULL, NULL);
}
