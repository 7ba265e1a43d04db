/* node: stops in every phase, drains, and deaths of guard, shim and host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "folder.h"
#include "leaks.h"
#include "node_run.h"
#include "proc_run.h"
#include "sockets.h"

static char *job_of(const char *keys, const char *verbs)
{
	return node_json("{'framework':'none','argv':['%s',%s],'grace_s':5,%s}",
			 node_task_program(), verbs, keys);
}

#define PLAIN "'roles':{'worker':{'count':3}}"
#define LISTENING "'roles':{'worker':{'count':3,'ready':'listen'}}"

/* ---- stops */

struct stop_case {
	const char *keys;
	const char *verbs;
	uint32_t state; /* of worker/0, when the stop is sent; 0: at once */
	bool is_kill;
};

static void stop_in(const struct stop_case *c)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	char *json = job_of(c->keys, c->verbs);
	node_start(&run, json, &follower);
	if (c->state)
		node_await_task(&run, &follower, "worker/0", c->state, 0);
	uint64_t begin = tfc__now();
	node_stop(&run, follower.job, c->is_kill);
	const struct seen_event *end = node_await_end(&run, &follower);
	assert_int_equal(end->event.job_state, TFC_JOB_STOPPED);
	assert_int_equal(end->event.reason, TFC_END_STOPPED);
	assert_in_range(tfc__now() - begin, 0, 4 * TFC__SECOND);
	struct answer answer = {0};
	assert_int_equal(tfc_gateway_stop(run.gateway, follower.job, NULL, node_answer, &answer,
					  NULL),
			 0);
	node_await_answer(&run, &answer);
	assert_int_equal(answer.code, 0); /* once more: the first answer may have been lost */
	node_answer_clear(&answer);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

static void a_job_that_ended_by_itself_cannot_be_stopped(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	struct answer answer = {0};
	node_run_begin(&run, NULL);
	char *json = node_script(1, "exit 0");
	node_run_job(&run, json, &follower);
	assert_int_equal(tfc_gateway_stop(run.gateway, follower.job, NULL, node_answer, &answer,
					  NULL),
			 0);
	node_await_answer(&run, &answer);
	assert_int_equal(answer.code, TFC_ESTATE);
	node_answer_clear(&answer);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

static void a_job_can_be_stopped_in_every_phase(void **state)
{
	static const struct stop_case cases[] = {
		{PLAIN, "'wait'", 0, false},
		{LISTENING, "'wait'", TFC_TASK_HOLDING, false},
		{LISTENING, "'wait'", TFC_TASK_STARTING, false},
		{LISTENING, "'wait'", TFC_TASK_RUNNING, false},
		{LISTENING, "'listen','wait'", TFC_TASK_READY, false},
		{PLAIN, "'deaf','wait'", TFC_TASK_READY, true},
		/* backoff */
		{"'restart':{'on':'failure','scope':'task','backoff_s':[20,20]}," PLAIN,
		 "'exit','42'", TFC_TASK_FAILED, false},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		stop_in(&cases[i]);
}

static bool is_up(const struct follower *follower)
{
	return node_find(follower, TFC_EVENT_TASK, "worker/0", TFC_TASK_READY, 0) &&
	       node_find(follower, TFC_EVENT_TASK, "worker/1", TFC_TASK_READY, 0);
}

/* Returns whether the job was up when it was stopped: nothing more happens then. */
static bool stop_after(int turns, const char *json)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	node_start(&run, json, &follower);
	for (int i = 0; i < turns && !is_up(&follower); i++)
		tfc_ctx_run(run.ctx, 20);
	bool was_up = is_up(&follower);
	node_stop(&run, follower.job, false);
	const struct seen_event *end = node_await_end(&run, &follower);
	if (end->event.job_state != TFC_JOB_STOPPED)
		fail_msg("after %d turns: %s", turns, end->text);
	node_follow_end(&follower);
	node_run_end(&run);
	return was_up;
}

/* Called before and between any two dispatches: no interleaving leaves a task behind. */
static void a_stop_after_any_number_of_turns_ends_the_job(void **state)
{
	char dir[LEAKS_PATH], path[80];
	int turns = 0;
	leaks_make_dir(dir);
	snprintf(path, sizeof(path), "%s/file", dir);
	FILE *file = fopen(path, "w");
	for (int i = 0; i < 200000; i++)
		fputs("0123456789", file);
	fclose(file);
	char *json = node_json("{'framework':'none','argv':['%s','wait'],'bundle':'%s',"
			       "'roles':{'worker':{'count':2}}}",
			       node_task_program(), dir);
	while (!stop_after(turns, json))
		assert_true(++turns < 500);
	assert_true(turns >= 5);
	print_message("%d turns\n", turns);
	free(json);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

static void count_drain(void *user)
{
	++*(int *)user;
}

static bool is_drained(void *user)
{
	return *(int *)user > 0;
}

static void a_drain_stops_all_and_says_so_once(void **state)
{
	struct node_run run;
	int drained = 0;
	struct follower follower[3] = {{0}};
	node_run_begin(&run, NULL);
	char *json = job_of(PLAIN, "'wait'");
	for (int i = 0; i < 3; i++) {
		node_start(&run, json, &follower[i]);
		if (i < 2)
			node_await_task(&run, &follower[i], "worker/1", TFC_TASK_READY, 0);
	}
	assert_int_equal(tfc_node_shutdown(run.node, count_drain, &drained), 0);
	assert_int_equal(drained, 0);
	assert_int_equal(tfc_node_shutdown(run.node, count_drain, &drained), TFC_ESTATE);
	struct answer answer = {0};
	node_submit_for(&run, json, NULL, &answer);
	assert_int_equal(answer.code, TFC_ESTATE);
	assert_non_null(strstr(answer.error, "draining"));
	node_answer_clear(&answer);
	node_await(&run, is_drained, &drained, "the drain");
	for (int i = 0; i < 3; i++) {
		const struct seen_event *end = node_await_end(&run, &follower[i]);
		assert_int_equal(end->event.job_state, TFC_JOB_STOPPED);
		node_follow_end(&follower[i]);
	}
	assert_int_equal(drained, 1);
	free(json);
	node_run_end(&run);
}

static void closing_a_node_kills_what_runs(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	char *json = job_of(LISTENING, "'deaf','listen','wait'");
	node_start(&run, json, &follower);
	const struct seen_event *ready = node_await_task(&run, &follower, "worker/2",
							 TFC_TASK_READY, 0);
	pid_t pid = ready->event.pid;
	node_run_close(&run);
	assert_true(proc_await_gone(pid, 2000));
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

/* ---- deaths */

static void await_restart_after(void (*kill_it)(pid_t task), bool is_guard)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	char *json = node_json("{'argv':['%s','print','output\\n','listen','wait'],"
			       "'restart':{'backoff_s':[0,0]},'roles':{'worker':{'count':3}}}",
			       node_task_program());
	node_start(&run, json, &follower);
	for (int i = 0; i < 3; i++) {
		char task[16];
		snprintf(task, sizeof(task), "worker/%d", i);
		node_await_task(&run, &follower, task, TFC_TASK_READY, 1);
	}
	const struct seen_event *ready = node_find(&follower, TFC_EVENT_TASK, "worker/1",
						   TFC_TASK_READY, 1);
	char address[80];
	strcpy(address, ready->address);
	kill_it(ready->event.pid);
	ready = node_await_task(&run, &follower, "worker/1", TFC_TASK_READY, 2);
	assert_string_equal(ready->address, address);
	assert_int_equal(ready->event.generation, 2);
	/* The first that is lost decides; with the guard all are, and the others follow. */
	const struct seen_event *lost = node_find(&follower, TFC_EVENT_TASK,
						  is_guard ? NULL : "worker/1", TFC_TASK_LOST, 1);
	assert_non_null(lost);
	assert_int_equal(lost->event.reason, TFC_END_LOST);
	const struct seen_event *output = node_find(&follower, TFC_EVENT_OUTPUT, lost->task, 0, 1);
	assert_true(output && output < lost);
	assert_int_equal(test_count_intruders((uint16_t)atoi(strrchr(address, ':') + 1)), 0);
	node_stop(&run, follower.job, false);
	node_await_end(&run, &follower);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

static void kill_shim(pid_t task)
{
	kill(proc_parent(task), SIGKILL);
}

static void kill_guard(pid_t task)
{
	kill(proc_parent(proc_parent(task)), SIGKILL);
}

static void a_killed_shim_restarts_the_group_on_its_ports(void **state)
{
	await_restart_after(kill_shim, false);
}

static void a_killed_guard_restarts_the_group_on_its_ports(void **state)
{
	await_restart_after(kill_guard, true);
}

/* What a host does until it is killed; it tells its task's pid, port and directory. */
struct host_facts {
	pid_t pid;
	pid_t guard;
	uint16_t port;
	char dir[64];
};

static void be_host(int fd, bool is_guard_killed)
{
	struct node_run run;
	struct follower follower = {0};
	struct host_facts facts;
	node_run_begin(&run, NULL);
	char *json = node_json("{'argv':['%s','deaf','listen','wait'],'grace_s':0.5,"
			       "'restart':{'backoff_s':[0,0]},'roles':{'worker':{'count':2}}}",
			       node_task_program());
	char *id = node_submit(&run, json);
	node_follow(&run, id, NULL, &follower);
	const struct seen_event *ready = node_await_task(&run, &follower, "worker/1",
							 TFC_TASK_READY, 1);
	if (is_guard_killed) {
		kill_guard(ready->event.pid);
		ready = node_await_task(&run, &follower, "worker/1", TFC_TASK_READY, 2);
	}
	facts.pid = ready->event.pid;
	facts.guard = proc_parent(proc_parent(facts.pid));
	facts.port = (uint16_t)atoi(strrchr(ready->address, ':') + 1);
	snprintf(facts.dir, sizeof(facts.dir), "%s", run.dir);
	if (write(fd, &facts, sizeof(facts)) != sizeof(facts))
		_exit(1);
	for (;;)
		tfc_ctx_run(run.ctx, -1);
}

static void kill_host(bool is_guard_killed)
{
	int ends[2];
	struct host_facts facts;
	fflush(NULL);
	assert_int_equal(pipe(ends), 0);
	pid_t host = fork();
	if (host == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_host(ends[1], is_guard_killed);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &facts, sizeof(facts)), sizeof(facts));
	close(ends[0]);
	kill(host, SIGKILL);
	assert_int_equal(waitpid(host, NULL, 0), host);
	assert_true(proc_await_gone(facts.pid, 2500)); /* grace + 2 s */
	assert_true(proc_await_gone(facts.guard, 2500));
	assert_int_equal(folder_count(facts.dir, ""), 0);
	int fd = test_bind("::", facts.port, TEST_REUSEADDR);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(tfc__remove_tree(facts.dir), 0);
}

static void a_killed_host_leaves_nothing(void **state)
{
	kill_host(false);
}

static void a_killed_host_leaves_nothing_to_its_second_guard(void **state)
{
	kill_host(true);
}

/* ---- threads */

static void *run_jobs(void *user)
{
	struct follower *followers = user;
	struct node_run run = {0};
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	if (proc_ctx_new(&run.ctx) < 0 || tfc_node_open(run.ctx, NULL, &run.node) < 0)
		return NULL;
	gateway.node = run.node;
	if (tfc_gateway_open(run.ctx, &gateway, &run.gateway) < 0)
		return NULL;
	char *json = job_of(LISTENING, "'listen','exit','0'");
	for (int i = 0; i < 10; i++) {
		node_run_job(&run, json, &followers[i]);
		tfc_sub_close(followers[i].sub);
		followers[i].sub = NULL;
	}
	free(json);
	node_run_close(&run);
	tfc_ctx_free(run.ctx);
	return user;
}

static void contexts_on_two_threads_are_independent(void **state)
{
	static struct follower followers[2][10];
	pthread_t threads[2];
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_jobs, followers[i]), 0);
	for (int i = 0; i < 2; i++) {
		void *done;
		assert_int_equal(pthread_join(threads[i], &done), 0);
		assert_non_null(done);
		for (int k = 0; k < 10; k++) {
			const struct seen_event *end = node_find(&followers[i][k], TFC_EVENT_END,
								 NULL, 0, 0);
			assert_int_equal(end->event.job_state, TFC_JOB_SUCCEEDED);
			node_follow_end(&followers[i][k]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_can_be_stopped_in_every_phase),
		cmocka_unit_test(a_job_that_ended_by_itself_cannot_be_stopped),
		cmocka_unit_test(a_stop_after_any_number_of_turns_ends_the_job),
		cmocka_unit_test(a_drain_stops_all_and_says_so_once),
		cmocka_unit_test(closing_a_node_kills_what_runs),
		cmocka_unit_test(a_killed_shim_restarts_the_group_on_its_ports),
		cmocka_unit_test(a_killed_guard_restarts_the_group_on_its_ports),
		cmocka_unit_test(a_killed_host_leaves_nothing),
		cmocka_unit_test(a_killed_host_leaves_nothing_to_its_second_guard),
		cmocka_unit_test(contexts_on_two_threads_are_independent),
	};
	return cmocka_run_group_tests_name("node_stop", tests, NULL, NULL);
}
