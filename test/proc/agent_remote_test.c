/* node: an agent elsewhere does as the one here, whatever becomes of the connections to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent_pair.h"
#include "base/clock.h"
#include "proc_run.h"

#define LEASE_MS 60000
#define BRIEF_MS 400

static char *job_json(const char *verbs)
{
	char *json;
	assert_true(asprintf(&json,
			     "{'argv': ['%s', %s], 'roles': {'worker': {'count': 2, 'ready': "
			     "'started'}}}",
			     proc_task_program(), verbs) > 0);
	return json;
}

static void open_job(struct agent_pair *pair, struct paired_job *job, uint64_t epoch,
		     const char *verbs)
{
	char *json = job_json(verbs);
	paired_open(pair, job, "0123456789abcdef", epoch, json);
	free(json);
}

static void await_no_jobs(struct agent_pair *pair)
{
	for (uint64_t end = tfc__now() + 20 * TFC__SECOND;
	     tfc__agent_service_jobs(pair->service);) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(pair->ctx, 100) >= 0);
	}
}

static void run_for(struct agent_pair *pair, uint32_t ms)
{
	for (uint64_t end = tfc__now() + ms * TFC__MS; tfc__now() < end;)
		assert_true(tfc_ctx_run(pair->ctx, 5) >= 0);
}

static void tasks_run_on_another_node(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	char **lines;
	agent_pair_begin(&pair, LEASE_MS);
	agent_pair_connect(&pair);
	open_job(&pair, &job, 1, "'print', 'hello', 'wait'");
	paired_start(&job, 2);
	pid_t pid = paired_await(&job, TFC__AGENT_STARTED, 0, 1)->pid;
	paired_await(&job, TFC__AGENT_STARTED, 1, 1);
	assert_true(proc_is_alive(pid));
	kill(pid, SIGSTOP);
	const struct heard_event *answer = NULL; /* a stop takes a moment to show */
	for (uint32_t n = 1; !answer || answer->states[0] != TFC__AGENT_STOPPED; n++) {
		job.ops->query(job.handle, n);
		answer = paired_await(&job, TFC__AGENT_ANSWER, 0, n);
		assert_int_equal(answer->number, n);
		assert_int_equal(answer->states[1], TFC__AGENT_RUNNING);
	}
	job.ops->stop(job.handle, 0, 5000);
	const struct heard_event *end = paired_await(&job, TFC__AGENT_EXITED, 0, 1);
	assert_int_equal(end->reason, TFC_EXIT_SIGNAL);
	assert_int_equal(end->status, SIGTERM);
	assert_in_range(end->time_ns, tfc__wall() - 10 * TFC__SECOND, tfc__wall());
	assert_int_equal(job.ops->log_tail(job.handle, 0, &lines), 0);
	assert_string_equal(lines[0], "hello");
	tfc_env_free(lines);
	assert_int_equal(job.ops->log_tail(job.handle, 1, &lines), 0);
	assert_null(lines[0]);
	tfc_env_free(lines);
	pid = paired_find(&job, TFC__AGENT_STARTED, 1, 1)->pid;
	paired_close(&job);
	await_no_jobs(&pair);
	assert_true(proc_await_gone(pid, 5000));
	agent_pair_end(&pair);
}

static void assert_each_once(const struct paired_job *job)
{
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(paired_count(job, TFC__AGENT_HELD, i), 1);
		assert_int_equal(paired_count(job, TFC__AGENT_STARTED, i), 1);
		assert_int_equal(paired_count(job, TFC__AGENT_EXITED, i), 1);
		assert_int_equal(paired_find(job, TFC__AGENT_EXITED, i, 1)->status, 3);
	}
	assert_null(paired_find(job, TFC__AGENT_LOST, 0, 1));
}

/* Cut once after so many turns of the loop, wherever that is; answers are lost, too. */
static void cut_after(struct agent_pair *pair, uint32_t turns)
{
	static struct paired_job job;
	tfc_spec *spec;
	agent_pair_connect(pair);
	open_job(pair, &job, 1, "'exit', '3'");
	job.ops->hold(job.handle, 0, 1);
	job.ops->hold(job.handle, 1, 2);
	bool is_launched = false;
	for (uint32_t turn = 0; !paired_find(&job, TFC__AGENT_EXITED, 0, 1) ||
				!paired_find(&job, TFC__AGENT_EXITED, 1, 1);
	     turn++) {
		assert_true(turn < 5000);
		if (turn == turns) {
			agent_pair_cut(pair);
			agent_pair_connect(pair);
		}
		assert_true(tfc_ctx_dispatch(pair->ctx, 1) >= 0);
		tfc_ctx_run(pair->ctx, turn < turns ? 0 : 10);
		if (is_launched || !paired_find(&job, TFC__AGENT_HELD, 0, 1) ||
		    !paired_find(&job, TFC__AGENT_HELD, 1, 1))
			continue;
		is_launched = true;
		assert_int_equal(tfc_spec_new(&spec), 0);
		for (uint32_t i = 0; i < 2; i++)
			assert_int_equal(
				tfc_spec_add(spec, "worker", i,
					     paired_find(&job, TFC__AGENT_HELD, i, 1)->address,
					     NULL),
				0);
		for (uint32_t i = 0; i < 2; i++)
			job.ops->launch(job.handle, i, 1, 1, spec);
		tfc_spec_free(spec);
	}
	run_for(pair, 5);
	assert_each_once(&job);
	paired_close(&job);
	await_no_jobs(pair);
	agent_pair_cut(pair);
}

static void a_connection_that_is_cut_anywhere_doubles_and_loses_nothing(void **state)
{
	struct agent_pair pair;
	agent_pair_begin(&pair, LEASE_MS);
	for (uint32_t turns = 0; turns < 60; turns++)
		cut_after(&pair, turns);
	agent_pair_end(&pair);
}

static void silence_is_told_and_so_is_its_end(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	agent_pair_begin(&pair, LEASE_MS);
	open_job(&pair, &job, 1, "'wait'");
	paired_await(&job, TFC__AGENT_SILENT, 0, 1); /* there is no connection yet */
	agent_pair_connect(&pair);
	paired_await(&job, TFC__AGENT_BACK, 0, 1);
	paired_start(&job, 2);
	paired_await(&job, TFC__AGENT_STARTED, 1, 1);
	agent_pair_cut(&pair);
	paired_await(&job, TFC__AGENT_SILENT, 0, 2);
	job.ops->stop(job.handle, 0, 5000);
	run_for(&pair, 50);
	assert_null(paired_find(&job, TFC__AGENT_EXITED, 0, 1));
	agent_pair_connect(&pair);
	paired_await(&job, TFC__AGENT_EXITED, 0, 1);
	assert_int_equal(paired_count(&job, TFC__AGENT_BACK, 0), 2);
	assert_null(paired_find(&job, TFC__AGENT_EXITED, 1, 1));
	paired_close(&job);
	agent_pair_end(&pair);
}

/* Nothing comes through any more, and nobody is told by a connection. */
static void tasks_of_a_maintainer_that_is_not_heard_end_before_it_calls_them_lost(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	agent_pair_begin(&pair, BRIEF_MS);
	agent_pair_connect(&pair);
	open_job(&pair, &job, 1, "'deaf', 'wait'");
	paired_start(&job, 2);
	pid_t pid = paired_await(&job, TFC__AGENT_STARTED, 0, 1)->pid;
	run_for(&pair, 3 * BRIEF_MS); /* it is renewed */
	assert_true(proc_is_alive(pid));
	agent_pair_hold(&pair);
	job.ops->stop(job.handle, 0, 0); /* an order that comes too late */
	const struct heard_event *lost = paired_await(&job, TFC__AGENT_LOST, 0, 1);
	assert_false(proc_is_alive(pid));
	assert_non_null(strstr(lost->text, "node there has not answered"));
	assert_non_null(paired_find(&job, TFC__AGENT_SILENT, 0, 1));
	assert_null(paired_find(&job, TFC__AGENT_EXITED, 0, 1));
	await_no_jobs(&pair);
	uint32_t count = job.count;
	agent_pair_release(&pair); /* what was on its way comes, and changes nothing */
	run_for(&pair, 2 * BRIEF_MS);
	assert_int_equal(job.count, count);
	paired_close(&job);
	agent_pair_end(&pair);
}

static void a_node_that_let_go_says_so(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	agent_pair_begin(&pair, BRIEF_MS);
	agent_pair_connect(&pair);
	open_job(&pair, &job, 1, "'wait'");
	paired_start(&job, 2);
	pid_t pid = paired_await(&job, TFC__AGENT_STARTED, 0, 1)->pid;
	/* only its answers do not come: the maintainer has nothing to send back */
	rpc_end_hold(&pair.rpc.ends[1]);
	await_no_jobs(&pair);
	assert_false(proc_is_alive(pid));
	rpc_end_release(&pair.rpc.ends[1]);
	paired_await(&job, TFC__AGENT_LOST, 0, 1);
	paired_close(&job);
	/* and takes the next one */
	open_job(&pair, &job, 1, "'wait'");
	paired_start(&job, 1);
	paired_await(&job, TFC__AGENT_STARTED, 0, 1);
	paired_close(&job);
	await_no_jobs(&pair);
	agent_pair_end(&pair);
}

static void a_maintainer_that_dies_leaves_nothing(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	agent_pair_begin(&pair, BRIEF_MS);
	agent_pair_connect(&pair);
	open_job(&pair, &job, 1, "'wait'");
	paired_start(&job, 2);
	pid_t pid = paired_await(&job, TFC__AGENT_STARTED, 1, 1)->pid;
	agent_pair_forget(&pair, BRIEF_MS);
	tfc_job_free(job.job);
	await_no_jobs(&pair);
	assert_false(proc_is_alive(pid));
	agent_pair_end(&pair);
}

static void a_higher_epoch_ends_the_lower_one_first(void **state)
{
	struct agent_pair pair;
	static struct paired_job job, next, stale;
	agent_pair_begin(&pair, LEASE_MS);
	agent_pair_connect(&pair);
	open_job(&pair, &job, 2, "'deaf', 'wait'");
	paired_start(&job, 2);
	pid_t pid = paired_await(&job, TFC__AGENT_STARTED, 0, 1)->pid;
	paired_await(&job, TFC__AGENT_STARTED, 1, 1);
	open_job(&pair, &next, 3, "'wait'");
	paired_start(&next, 2);
	paired_await(&next, TFC__AGENT_STARTED, 0, 1);
	assert_false(proc_is_alive(pid));
	paired_await(&job, TFC__AGENT_FENCED, 0, 1);
	open_job(&pair, &stale, 2, "'wait'");
	stale.ops->hold(stale.handle, 0, 1);
	paired_await(&stale, TFC__AGENT_FENCED, 0, 1);
	assert_null(paired_find(&stale, TFC__AGENT_HELD, 0, 1));
	assert_true(proc_is_alive(paired_find(&next, TFC__AGENT_STARTED, 0, 1)->pid));
	paired_close(&job);
	paired_close(&stale);
	paired_close(&next);
	await_no_jobs(&pair);
	agent_pair_end(&pair);
}

static void a_node_that_restarts_is_waited_for(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	agent_pair_begin(&pair, BRIEF_MS);
	agent_pair_connect(&pair);
	open_job(&pair, &job, 1, "'wait'");
	paired_start(&job, 2);
	paired_await(&job, TFC__AGENT_STARTED, 0, 1);
	uint64_t begin = tfc__now();
	agent_pair_reboot(&pair);
	agent_pair_connect(&pair);
	paired_await(&job, TFC__AGENT_LOST, 0, 1);
	assert_true(tfc__now() - begin > BRIEF_MS * TFC__MS / 2);
	paired_close(&job);
	open_job(&pair, &job, 2, "'wait'");
	paired_start(&job, 1);
	paired_await(&job, TFC__AGENT_STARTED, 0, 1);
	paired_close(&job);
	await_no_jobs(&pair);
	agent_pair_end(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tasks_run_on_another_node),
		cmocka_unit_test(a_connection_that_is_cut_anywhere_doubles_and_loses_nothing),
		cmocka_unit_test(silence_is_told_and_so_is_its_end),
		cmocka_unit_test(
			tasks_of_a_maintainer_that_is_not_heard_end_before_it_calls_them_lost),
		cmocka_unit_test(a_node_that_let_go_says_so),
		cmocka_unit_test(a_maintainer_that_dies_leaves_nothing),
		cmocka_unit_test(a_higher_epoch_ends_the_lower_one_first),
		cmocka_unit_test(a_node_that_restarts_is_waited_for),
	};
	return cmocka_run_group_tests_name("agent_remote", tests, NULL, NULL);
}
