/* gateway: jobs and their tasks come as structs, the same from a node in this process and from one
 * elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <time.h>

#include "node_run.h"
#include <tfcluster/spec.h>

struct checked {
	bool is_there;
	void (*check)(const tfc_reply *reply, void *user);
	void *user;
};

static void on_reply(void *user, const tfc_reply *reply)
{
	struct checked *checked = user;
	if (reply->code < 0)
		fail_msg("%s", reply->error->text);
	assert_true(reply->size >= sizeof(*reply));
	checked->check(reply, checked->user);
	checked->is_there = true;
}

static bool is_there(void *user)
{
	return ((struct checked *)user)->is_there;
}

static void list(struct node_run *run, void (*check)(const tfc_reply *, void *), void *user)
{
	struct checked checked = {.check = check, .user = user};
	assert_int_equal(tfc_gateway_jobs(run->gateway, NULL, on_reply, &checked, NULL), 0);
	node_await(run, is_there, &checked, "the jobs");
}

static void describe(struct node_run *run, const char *job,
		     void (*check)(const tfc_reply *, void *), void *user)
{
	struct checked checked = {.check = check, .user = user};
	assert_int_equal(tfc_gateway_describe(run->gateway, job, NULL, on_reply, &checked, NULL),
			 0);
	node_await(run, is_there, &checked, "the job");
}

static bool is_recent(uint64_t time_ns)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	return time_ns <= now_ns && now_ns - time_ns < UINT64_C(60000000000);
}

/* ---- a running job */

static void check_running(const tfc_job_info *job, const char *id)
{
	assert_int_equal(job->size, sizeof(*job));
	assert_string_equal(job->job, id);
	assert_string_equal(job->name, "quo\"te");
	assert_int_equal(job->state, TFC_JOB_RUNNING);
	assert_string_equal(job->maintainer, "no.de-1");
	assert_int_equal(job->host_tag_len, 4);
	assert_memory_equal(job->host_tag,
			    "a\0\xff"
			    "b",
			    4);
	assert_int_equal(job->epoch, 1);
	assert_int_equal(job->generation, 1);
	assert_int_equal(job->task_count, 3);
	assert_int_equal(job->ready_count, 2);
	assert_int_equal(job->restarts, 0);
	assert_true(is_recent(job->submitted_ns) && is_recent(job->started_ns));
	assert_true(job->submitted_ns <= job->started_ns);
	assert_int_equal(job->ended_ns, 0);
	assert_true(job->age_ms < 60000);
	assert_int_equal(job->reason, TFC_END_NONE);
	assert_int_equal(job->exit_status, -1);
	assert_string_equal(job->decided_by, "");
	assert_string_equal(job->nodes[0], "no.de-1");
	assert_null(job->nodes[1]);
}

static void check_list_of_running(const tfc_reply *reply, void *id)
{
	assert_null(reply->job);
	assert_int_equal(reply->jobs->size, sizeof(*reply->jobs));
	assert_int_equal(reply->jobs->job_count, 1);
	assert_int_equal(reply->jobs->missing_count, 0);
	assert_null(tfc_jobs_at(reply->jobs, 1));
	assert_null(tfc_jobs_missing_at(reply->jobs, 0));
	check_running(tfc_jobs_at(reply->jobs, 0), id);
	assert_null(tfc_job_info_task(tfc_jobs_at(reply->jobs, 0), 0));
}

static void check_described(const tfc_reply *reply, void *id)
{
	const tfc_job_task *worker = tfc_job_info_task(reply->job, 1);
	const tfc_job_task *side = tfc_job_info_task(reply->job, 2);
	const tfc_attempt_end *end = side->last_end;
	assert_null(reply->jobs);
	check_running(reply->job, id);
	assert_int_equal(reply->job->described_tasks, 3);
	assert_int_equal(worker->size, sizeof(*worker));
	assert_string_equal(worker->task_type, "worker");
	assert_int_equal(worker->task_index, 1);
	assert_int_equal(worker->state, TFC_TASK_READY);
	assert_int_equal(worker->attempt, 1);
	assert_int_equal(worker->generation, 1);
	assert_string_equal(worker->node, "no.de-1");
	assert_true(strchr(worker->address, ':') != NULL);
	assert_true(worker->pid > 0 && kill(worker->pid, 0) == 0);
	assert_true(worker->isolation == TFC_ISOLATION_CGROUP ||
		    worker->isolation == TFC_ISOLATION_PLAIN);
	assert_true(worker->restarts_left != UINT32_MAX);
	assert_true(is_recent(worker->started_ns));
	assert_null(worker->last_end);
	assert_string_equal(side->task_type, "side");
	assert_int_equal(side->state, TFC_TASK_FAILED);
	assert_int_equal(side->pid, 0);
	assert_int_equal(end->size, sizeof(*end));
	assert_int_equal(end->attempt, 1);
	assert_int_equal(end->task_state, TFC_TASK_FAILED);
	assert_int_equal(end->reason, TFC_END_EXIT);
	assert_int_equal(end->exit_reason, TFC_EXIT_CODE);
	assert_int_equal(end->exit_code, 3);
	assert_int_equal(end->signal, 0);
	assert_int_equal(end->error_code, 0);
	assert_true(is_recent(end->ended_ns) && end->ended_ns >= side->started_ns);
	assert_true(end->max_rss_kib > 0);
	assert_string_equal(end->node, "no.de-1");
}

static bool is_running(void *user)
{
	const struct follower *follower = user;
	for (size_t i = 0; i < follower->count; i++)
		if (follower->events[i].event.job_state == TFC_JOB_RUNNING)
			return true;
	return false;
}

static void a_running_job_is_a_struct(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	struct answer answer = {0};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	tfc_submit_options submit = TFC_SUBMIT_OPTIONS_INIT;
	options.name = "no.de-1";
	submit.host_tag = "a\0\xff"
			  "b";
	submit.host_tag_len = 4;
	node_run_begin(&run, &options);
	char *json =
		node_json("{'name':'quo\\'te','framework':'none','roles':{"
			  "'worker':{'count':2,'ready':'listen','argv':['%s','listen','wait']},"
			  "'side':{'restart':{'on':'never'},'argv':['%s','exit','3']}}}",
			  node_task_program(), node_task_program());
	node_submit_for(&run, json, &submit, &answer);
	node_follow(&run, answer.text, NULL, &follower);
	node_await_task(&run, &follower, "worker/0", TFC_TASK_READY, 0);
	node_await_task(&run, &follower, "worker/1", TFC_TASK_READY, 0);
	node_await_task(&run, &follower, "side/0", TFC_TASK_FAILED, 0);
	node_await(&run, is_running, &follower, "a running job");
	list(&run, check_list_of_running, answer.text);
	describe(&run, "quo\"te", check_described, answer.text);
	node_answer_clear(&answer);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

/* ---- ended jobs */

struct ending {
	const char *argv;
	uint32_t state, reason;
	int exit_status, exit_code, signal;
	const char *decided_by;
};

static void check_ended(const tfc_job_info *job, const struct ending *expected)
{
	assert_int_equal(job->state, expected->state);
	assert_int_equal(job->reason, expected->reason);
	assert_int_equal(job->exit_status, expected->exit_status);
	assert_int_equal(job->exit_code, expected->exit_code);
	assert_int_equal(job->signal, expected->signal);
	assert_string_equal(job->decided_by, expected->decided_by);
	assert_true(is_recent(job->ended_ns) && job->ended_ns >= job->submitted_ns);
	assert_null(job->host_tag);
}

static void check_ended_list(const tfc_reply *reply, void *expected)
{
	check_ended(tfc_jobs_at(reply->jobs, reply->jobs->job_count - 1), expected);
}

static void check_ended_description(const tfc_reply *reply, void *expected)
{
	const tfc_job_task *task = tfc_job_info_task(reply->job, 0);
	check_ended(reply->job, expected);
	assert_int_equal(task->pid, 0);
	assert_int_equal(task->restarts_left, UINT32_MAX);
	assert_int_equal(task->last_end->exit_code, reply->job->exit_code);
	assert_int_equal(task->last_end->signal, reply->job->signal);
}

static void the_end_of_a_job_is_in_its_struct(void **state)
{
	static const struct ending endings[] = {
		{"'sh','-c','exit 0'", TFC_JOB_SUCCEEDED, TFC_END_EXIT, 0, 0, 0, "worker/0"},
		{"'sh','-c','exit 7'", TFC_JOB_FAILED, TFC_END_EXIT, 7, 7, 0, "worker/0"},
		{"'sh','-c','kill -9 $$'", TFC_JOB_FAILED, TFC_END_SIGNAL, 137, 0, SIGKILL,
		 "worker/0"},
		{"'/no/such/program'", TFC_JOB_FAILED, TFC_END_NOT_FOUND, 127, 0, 0, "worker/0"},
	};
	struct node_run run;
	node_run_begin(&run, NULL);
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		struct follower follower = {0};
		char *json = node_json("{'framework':'none','argv':[%s],'roles':{'worker':{"
				       "'restart':{'on':'never'}}}}",
				       endings[i].argv);
		node_run_job(&run, json, &follower);
		list(&run, check_ended_list, (void *)&endings[i]);
		describe(&run, follower.job, check_ended_description, (void *)&endings[i]);
		node_follow_end(&follower);
		free(json);
	}
	node_run_end(&run);
}

/* A task's start is that of its latest attempt. */
static void check_second_attempt(const tfc_reply *reply, void *user)
{
	const tfc_job_task *task = tfc_job_info_task(reply->job, 0);
	assert_int_equal(reply->job->restarts, 1);
	assert_int_equal(task->attempt, 2);
	assert_int_equal(task->last_end->attempt, 1);
	assert_int_equal(task->last_end->signal, SIGKILL);
	assert_true(task->started_ns >= task->last_end->ended_ns);
	assert_true(reply->job->started_ns <= task->last_end->ended_ns);
}

static void a_restarted_task_has_started_again(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	char *json = node_json("{'framework':'none','argv':['sh','-c','[ $TFC_ATTEMPT = 2 ] || "
			       "{ sleep 0.2; kill -9 $$; }; exec sleep 100'],'roles':{'worker':{"
			       "'restart':{'on':'failure','backoff_s':[0.1,0.1]},'grace_s':0.1}}}");
	node_start(&run, json, &follower);
	node_await_task(&run, &follower, "worker/0", TFC_TASK_READY, 2);
	describe(&run, follower.job, check_second_attempt, NULL);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

/* ---- members and plans */

static void check_members(const tfc_reply *reply, void *user)
{
	const tfc_member_info *self = tfc_members_at(reply->members, 0);
	assert_int_equal(reply->members->size, sizeof(*reply->members));
	assert_int_equal(reply->members->member_count, 1);
	assert_null(tfc_members_at(reply->members, 1));
	assert_int_equal(self->size, sizeof(*self));
	assert_string_equal(self->name, "no.de-1");
	assert_int_equal(self->state, TFC_MEMBER_ALIVE);
	assert_int_equal(self->is_self, 1);
	assert_int_equal(self->is_draining, 0);
	assert_int_equal(self->slots, 7);
	if (self->labels) /* a gateway of the node's service in this test knows no members */
		assert_string_equal(self->labels[0], "disk=fast");
	assert_true(strstr(reply->text, "\"name\":\"no.de-1\"") != NULL);
}

static void check_plan(const tfc_reply *reply, void *user)
{
	const tfc_explanation *explanation = reply->explanation;
	const tfc_task_plan *plan = tfc_explanation_task(explanation, 1);
	bool has_secret = false, has_plain = false;
	assert_int_equal(explanation->size, sizeof(*explanation));
	assert_int_equal(explanation->task_count, 2);
	assert_int_equal(explanation->strategy, TFC_STRATEGY_NONE);
	assert_string_equal(explanation->name, "planned");
	assert_null(tfc_explanation_task(explanation, 2));
	assert_string_equal(plan->task_type, "worker");
	assert_int_equal(plan->task_index, 1);
	assert_string_equal(plan->node, "no.de-1");
	assert_true(plan->port > 0 && strchr(plan->address, ':') && *plan->cwd == '/');
	assert_string_equal(plan->argv[0], "true");
	assert_string_equal(plan->argv[1], "1");
	assert_null(plan->argv[2]);
	for (const char *const *variable = plan->env; *variable; variable++) {
		has_secret = has_secret || strcmp(*variable, "TOKEN") == 0;
		has_plain = has_plain || strcmp(*variable, "A=b=c") == 0;
		assert_null(strstr(*variable, "hunter2"));
	}
	assert_true(has_secret && has_plain);
	assert_null(strstr(reply->text, "hunter2"));
	assert_non_null(strstr(reply->text, "\"TOKEN\":null"));
	assert_non_null(strstr(reply->text, "\"A\":\"b=c\""));
}

static void members_and_plans_are_structs(void **state)
{
	struct node_run run;
	struct checked members = {.check = check_members}, plan = {.check = check_plan};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *job;
	options.name = "no.de-1";
	options.slots = 7;
	node_run_begin(&run, &options);
	char *json = node_json(
		"{'name':'planned','framework':'none','argv':['true',"
		"'{task_index}'],'env':{'A':'b=c'},'secret_env':{'TOKEN':'hunter2'},"
		"'strategy':'none','roles':{'worker':{'count':2,'ready':'listen'}}}");
	if (tfc_job_parse(json, strlen(json), NULL, &error, &job) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(tfc_gateway_explain(run.gateway, job, NULL, on_reply, &plan, NULL), 0);
	node_await(&run, is_there, &plan, "the plan");
	if (!node_run_is_remote()) {
		assert_int_equal(tfc_gateway_members(run.gateway, NULL, on_reply, &members, NULL),
				 0);
		node_await(&run, is_there, &members, "the members");
	}
	tfc_job_free(job);
	free(json);
	node_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_running_job_is_a_struct),
		cmocka_unit_test(the_end_of_a_job_is_in_its_struct),
		cmocka_unit_test(a_restarted_task_has_started_again),
		cmocka_unit_test(members_and_plans_are_structs),
	};
	return cmocka_run_group_tests_name("gateway_typed", tests, NULL, NULL);
}
