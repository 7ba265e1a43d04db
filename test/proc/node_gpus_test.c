/* node: GPUs are given to one task at a time, and every task gets the list of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "agent_order.h"
#include "leaks.h"
#include "node_run.h"
#include "proc_run.h"
#include <tfcluster/log.h>

/* ---- claims, at the agent itself */

struct seen {
	uint32_t held, failed;
	char text[256];
};

struct claims {
	tfc_ctx *ctx;
	struct tfc__agent *agent;
	struct tfc__agent_job *agent_job;
	tfc_job *job;
	struct seen seen;
};

static void on_agent(void *user, const struct tfc__task_event *event)
{
	struct seen *seen = user;
	seen->held += event->kind == TFC__AGENT_HELD;
	if (event->kind != TFC__AGENT_HOLD_FAILED)
		return;
	assert_true(event->is_full);
	seen->failed++;
	snprintf(seen->text, sizeof(seen->text), "%s", event->text);
}

static int open_agent(struct claims *claims, const char *gpus, uint32_t gpu_count)
{
	struct tfc__agent_options agent = {.gpus = gpus, .gpu_count = gpu_count};
	agent.temp_dir = leaks_temp_dir();
	*claims = (struct claims){0};
	assert_int_equal(proc_ctx_new(&claims->ctx), TFC_OK);
	return tfc__agent_open(claims->ctx, &agent, &claims->agent);
}

static void open_job(struct claims *claims, const char *json)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__agent_job_info info = {.id = "0123456789abcdef"};
	assert_int_equal(tfc_job_parse(json, strlen(json), NULL, &error, &claims->job), TFC_OK);
	info.job = claims->job;
	assert_int_equal(tfc__agent_job_open(claims->agent, &info, on_agent, &claims->seen, &error,
					     &claims->agent_job),
			 TFC_OK);
}

static void close_claims(struct claims *claims)
{
	tfc__agent_job_close(claims->agent_job);
	tfc__agent_close(claims->agent);
	tfc_job_free(claims->job);
	tfc_ctx_free(claims->ctx);
}

static void hold(struct claims *claims, uint32_t task)
{
	uint32_t answers = claims->seen.held + claims->seen.failed;
	agent_hold(&tfc__local_agent_ops, claims->agent_job, task, 1);
	while (claims->seen.held + claims->seen.failed == answers)
		assert_true(tfc_ctx_run(claims->ctx, 5000) >= 0);
}

static void a_gpu_is_one_tasks_until_it_is_released(void **state)
{
	struct claims claims;
	assert_int_equal(open_agent(&claims, "0,1,2", 0), TFC_OK);
	assert_int_equal(tfc__agent_gpus(claims.agent), 3);
	open_job(&claims, "{\"argv\":[\"x\"],\"roles\":{\"worker\":{\"count\":2,\"gpus\":2},"
			  "\"other\":{\"count\":2,\"sidecar\":true}}}");
	hold(&claims, 0);
	assert_int_equal(claims.seen.held, 1);
	hold(&claims, 1);
	assert_int_equal(claims.seen.failed, 1);
	assert_string_equal(claims.seen.text,
			    "node local is full: 1 of its 3 GPUs are free, 2 are needed");
	hold(&claims, 2);
	assert_int_equal(claims.seen.held, 2);
	agent_release(&tfc__local_agent_ops, claims.agent_job, 0);
	hold(&claims, 1);
	assert_int_equal(claims.seen.held, 3);
	close_claims(&claims);
}

static void a_count_stands_for_numbers_and_none_for_none(void **state)
{
	struct claims claims;
	assert_int_equal(open_agent(&claims, NULL, 2), TFC_OK);
	assert_int_equal(tfc__agent_gpus(claims.agent), 2);
	close_claims(&claims);
	assert_int_equal(open_agent(&claims, "none", 2), TFC_OK);
	assert_int_equal(tfc__agent_gpus(claims.agent), 0);
	close_claims(&claims);
}

static void a_list_that_is_wrong_is_refused(void **state)
{
	static const struct {
		const char *gpus, *sentence;
	} cases[] = {
		{"", "\"\" is not a GPU"},
		{"0,", "\"\" is not a GPU"},
		{"0 1", "\"0 1\" is not a GPU"},
		{"-1", "\"-1\" is not a GPU"},
		{"0,1,0", "gpus: duplicate GPU \"0\""},
		{"atuo", "gpus: \"atuo\" is not a GPU; did you mean auto?"},
		{"Auto", "gpus: \"Auto\" is not a GPU; did you mean auto?"},
		{"non", "gpus: \"non\" is not a GPU; did you mean none?"},
		{"0,auto", "\"auto\" is not a GPU; write auto, none, or a list"},
		{"all", "\"all\" is not a GPU; write auto, none, or a list"},
		{"gpu0", "\"gpu0\" is not a GPU; write auto, none, or a list"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct claims claims;
		assert_int_equal(open_agent(&claims, cases[i].gpus, 0), TFC_EINVAL);
		if (!strstr(tfc_ctx_error(claims.ctx)->text, cases[i].sentence))
			fail_msg("%s", tfc_ctx_error(claims.ctx)->text);
		close_claims(&claims);
	}
}

/* ---- what tasks get */

#define SHOW                                               \
	"'framework':'none','argv':['/bin/sh','-c','echo " \
	"[${CUDA_VISIBLE_DEVICES-unset}] ${CUDA_DEVICE_ORDER-unset}']"

static char *shown(const struct follower *follower, const char *task)
{
	char *text = node_output(follower, task, TFC_STREAM_STDOUT);
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static void assert_shown(struct node_run *run, int gpus, const char *text)
{
	struct follower follower = {0};
	char *json = node_json("{" SHOW ",'roles':{'worker':{'gpus':%d}}}", gpus);
	const struct seen_event *end = node_run_job(run, json, &follower);
	if (end->event.job_state != TFC_JOB_SUCCEEDED)
		fail_msg("%s", end->text);
	char *output = shown(&follower, "worker/0");
	assert_string_equal(output, text);
	free(output);
	node_follow_end(&follower);
	free(json);
}

static const char *const base_env[] = {"PATH=/usr/bin:/bin", "CUDA_VISIBLE_DEVICES=7", NULL};

static void tasks_see_their_own_gpus_and_no_others(void **state)
{
	struct node_run run;
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	options.gpus = "0,1";
	options.env = base_env;
	node_run_begin(&run, &options);
	assert_shown(&run, 2, "[0,1] PCI_BUS_ID");
	assert_shown(&run, 0, "[] unset");
	assert_shown(&run, 1, "[0] PCI_BUS_ID"); /* the first job has given them back */
	node_run_end(&run);
}

static void two_tasks_have_different_gpus(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	options.gpus = "GPU-a,GPU-b";
	node_run_begin(&run, &options);
	char *json = node_json("{" SHOW ",'roles':{'worker':{'gpus':1,'count':2}}}");
	assert_int_equal(node_run_job(&run, json, &follower)->event.job_state, TFC_JOB_SUCCEEDED);
	char *first = shown(&follower, "worker/0"), *second = shown(&follower, "worker/1");
	assert_int_equal(strcmp(first, "[GPU-a] unset") == 0, strcmp(second, "[GPU-b] unset") == 0);
	assert_int_equal(strcmp(first, "[GPU-b] unset") == 0, strcmp(second, "[GPU-a] unset") == 0);
	assert_string_not_equal(first, second);
	free(first);
	free(second);
	node_follow_end(&follower);
	free(json);
	node_run_end(&run);
}

static void a_node_without_gpus_changes_nothing(void **state)
{
	struct node_run run;
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	options.env = base_env;
	node_run_begin(&run, &options);
	assert_shown(&run, 0, "[7] unset");
	node_run_end(&run);
}

/* ---- finding them */

struct finding {
	uint32_t gpus;
	bool is_over;
	char warning[256];
};

static void take_log(void *user, const tfc_log_entry *entry)
{
	struct finding *finding = user;
	if (entry->level != TFC_LOG_WARNING)
		return;
	snprintf(finding->warning, sizeof(finding->warning), "%s", entry->text);
	finding->is_over = true;
}

static void on_gpus(void *user, uint32_t count)
{
	struct finding *finding = user;
	finding->gpus = count;
	finding->is_over = true;
}

/* An agent that looks for GPUs; the driver is what FAKE_NVML says, or CUDA_VISIBLE_DEVICES. */
static struct finding find(const char *variable)
{
	struct finding finding = {0};
	struct tfc__agent *agent;
	tfc_ctx *ctx;
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	char path[512];
	snprintf(path, sizeof(path), "LD_LIBRARY_PATH=%s", getenv("TFC_TEST_NVML"));
	const char *const env[] = {path, variable, NULL};
	struct tfc__agent_options agent_options = {.gpus = "auto",
						   .temp_dir = leaks_temp_dir(),
						   .env = env,
						   .gpus_fn = on_gpus,
						   .gpus_user = &finding};
	options.helper_dir = getenv("TFC_HELPER_DIR");
	options.log = take_log;
	options.log_user = &finding;
	options.log_level = TFC_LOG_WARNING;
	assert_int_equal(tfc_ctx_new(&options, NULL, &ctx), TFC_OK);
	assert_int_equal(tfc__agent_open(ctx, &agent_options, &agent), TFC_OK);
	finding.gpus = tfc__agent_gpus(agent);
	while (!finding.is_over && strncmp(variable, "CUDA", 4) != 0)
		assert_true(tfc_ctx_run(ctx, 5000) >= 0);
	assert_int_equal(finding.gpus, tfc__agent_gpus(agent));
	tfc__agent_close(agent);
	tfc_ctx_free(ctx);
	return finding;
}

static void the_driver_is_queried_for_them(void **state)
{
	assert_int_equal(find("FAKE_NVML=whole whole").gpus, 2);
	assert_int_equal(find("FAKE_NVML=whole cut").gpus, 3);
	assert_int_equal(find("FAKE_NVML=").gpus, 0);
	assert_string_equal(find("FAKE_NVML=absent").warning, "");
}

static void a_driver_that_does_not_work_is_reported(void **state)
{
	struct finding finding = find("FAKE_NVML=init");
	assert_int_equal(finding.gpus, 0);
	assert_string_equal(
		finding.warning,
		"this node offers no GPUs because they could not be listed: cannot initialize the "
		"driver: Unknown Error");
	assert_string_equal(find("FAKE_NVML=whole broken").warning,
			    "this node offers no GPUs because they could not be listed: cannot get "
			    "the id of a GPU: Not "
			    "Found");
}

static void what_another_scheduler_gave_is_all_there_is(void **state)
{
	assert_int_equal(find("CUDA_VISIBLE_DEVICES=4,5").gpus, 2);
	assert_int_equal(find("CUDA_VISIBLE_DEVICES=").gpus, 0);
	assert_int_equal(find("CUDA_VISIBLE_DEVICES=-1").gpus, 0);
}

struct awaited {
	uint32_t gpus;
};

static void on_member(void *user, uint32_t change, const tfc_member_info *member)
{
	((struct awaited *)user)->gpus = member->gpus;
}

static bool are_known(void *user)
{
	return ((struct awaited *)user)->gpus == 2;
}

static void found_gpus_are_reported_by_the_node_and_assigned(void **state)
{
	struct node_run run;
	struct awaited awaited = {0};
	tfc_member_watch *watch;
	char path[512];
	snprintf(path, sizeof(path), "LD_LIBRARY_PATH=%s", getenv("TFC_TEST_NVML"));
	const char *const env[] = {path, "FAKE_NVML=whole cut broken", "PATH=/usr/bin:/bin", NULL};
	const char *const good_env[] = {path, "FAKE_NVML=cut", "PATH=/usr/bin:/bin", NULL};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	options.gpus = "auto";
	options.env = env;
	node_run_begin(&run, &options); /* a node may be closed while it looks */
	node_run_end(&run);
	options.env = good_env;
	node_run_begin(&run, &options);
	assert_int_equal(tfc_member_watch_open(run.node, on_member, &awaited, &watch), TFC_OK);
	node_await(&run, are_known, &awaited, "the GPUs");
	assert_shown(&run, 2, "[MIG-0000-0-0,MIG-0000-0-2] unset");
	tfc_member_watch_close(watch);
	node_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gpu_is_one_tasks_until_it_is_released),
		cmocka_unit_test(a_count_stands_for_numbers_and_none_for_none),
		cmocka_unit_test(a_list_that_is_wrong_is_refused),
		cmocka_unit_test(tasks_see_their_own_gpus_and_no_others),
		cmocka_unit_test(two_tasks_have_different_gpus),
		cmocka_unit_test(a_node_without_gpus_changes_nothing),
		cmocka_unit_test(the_driver_is_queried_for_them),
		cmocka_unit_test(a_driver_that_does_not_work_is_reported),
		cmocka_unit_test(what_another_scheduler_gave_is_all_there_is),
		cmocka_unit_test(found_gpus_are_reported_by_the_node_and_assigned),
	};
	return cmocka_run_group_tests_name("node_gpus", tests, NULL, NULL);
}
