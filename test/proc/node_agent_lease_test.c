/* node: what a maintainer has on another node ends when nothing of it arrives there, and before it
 * says so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent_order.h"
#include "agent_pair.h"
#include "base/clock.h"
#include "node/internal.h"
#include "proc_run.h"

#define BRIEF_MS 400
#define LONG_MS 3000

/* Nothing comes through any more, and no connection breaks. */
static void tasks_of_a_maintainer_that_is_not_received_end_before_it_calls_them_lost(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	agent_pair_up(&pair, BRIEF_MS);
	paired_open_task(&pair, &job, 1, "'deaf', 'wait'");
	paired_start(&job, 2);
	pid_t pid = paired_await(&job, TFC__AGENT_STARTED, 0, 1)->pid;
	agent_pair_run_for(&pair, 3 * BRIEF_MS); /* it is renewed */
	assert_true(proc_is_alive(pid));
	agent_pair_hold(&pair);
	agent_stop(job.ops, job.handle, 0, 0); /* an order that comes too late */
	const struct received_event *lost = paired_await(&job, TFC__AGENT_LOST, 0, 1);
	assert_false(proc_is_alive(pid));
	assert_non_null(strstr(lost->text, "it has been unreachable"));
	assert_non_null(paired_find(&job, TFC__AGENT_UNREACHABLE, 0, 1));
	assert_null(paired_find(&job, TFC__AGENT_EXITED, 0, 1));
	agent_pair_await_no_jobs(&pair);
	uint32_t count = job.count;
	agent_pair_release(&pair); /* what was on its way comes, and changes nothing */
	agent_pair_run_for(&pair, 2 * BRIEF_MS);
	assert_int_equal(job.count, count);
	paired_close(&job);
	agent_pair_end(&pair);
}

/* Renewals are a tenth of the lease apart, so it does not matter when the pause begins. */
static void a_pause_of_three_quarters_of_the_lease_costs_no_task(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	agent_pair_up(&pair, LONG_MS);
	paired_open_task(&pair, &job, 1, "'wait'");
	paired_start(&job, 2);
	pid_t pid = paired_await(&job, TFC__AGENT_STARTED, 0, 1)->pid;
	for (uint64_t received_ns = pair.remote->received_ns;
	     pair.remote->received_ns == received_ns;)
		agent_pair_run_for(&pair, 10);
	agent_pair_run_for(&pair, LONG_MS * 3 / 10);
	rpc_end_hold(&pair.rpc.ends[1]);
	agent_pair_run_for(&pair, LONG_MS * 3 / 4);
	rpc_end_release(&pair.rpc.ends[1]);
	agent_pair_run_for(&pair, LONG_MS);
	assert_true(proc_is_alive(pid));
	assert_null(paired_find(&job, TFC__AGENT_LOST, 0, 1));
	paired_close(&job);
	agent_pair_await_no_jobs(&pair);
	agent_pair_end(&pair);
}

/* What a job gives to its tasks when they are aborted is theirs here, too, and is waited for. */
static void abort_grace_of_the_job_counts(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	char json[512];
	agent_pair_begin(&pair, BRIEF_MS);
	agent_pair_connect(&pair);
	snprintf(json, sizeof(json),
		 "{'abort_grace_s': 2, 'argv': ['%s', 'deaf', 'wait'],"
		 "'roles': {'worker': {'count': 1, 'ready': 'started'}}}",
		 proc_task_program());
	paired_open(&pair, &job, "0123456789abcdef", 1, json);
	paired_start(&job, 1);
	pid_t pid = paired_await(&job, TFC__AGENT_STARTED, 0, 1)->pid;
	uint64_t begin = tfc__now();
	agent_pair_hold(&pair);
	paired_await(&job, TFC__AGENT_LOST, 0, 1);
	assert_false(proc_is_alive(pid));
	/* Lease, grace and margin, and a quarter more; the last stamp is as old as its third. */
	uint64_t least = (BRIEF_MS + 2000 + TFC__AGENT_MARGIN_MS) * 5 / 4 - BRIEF_MS / 3 - 1;
	assert_true(tfc__now() - begin > least * TFC__MS);
	agent_pair_await_no_jobs(&pair);
	agent_pair_release(&pair);
	paired_close(&job);
	agent_pair_end(&pair);
}

static void a_node_that_let_go_says_so(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	agent_pair_up(&pair, BRIEF_MS);
	paired_open_task(&pair, &job, 1, "'wait'");
	paired_start(&job, 2);
	pid_t pid = paired_await(&job, TFC__AGENT_STARTED, 0, 1)->pid;
	/* only its answers do not come: the maintainer has nothing to send back */
	rpc_end_hold(&pair.rpc.ends[1]);
	agent_pair_await_no_jobs(&pair);
	assert_false(proc_is_alive(pid));
	rpc_end_release(&pair.rpc.ends[1]);
	paired_await(&job, TFC__AGENT_LOST, 0, 1);
	paired_close(&job);
	/* and takes the next one */
	paired_open_task(&pair, &job, 1, "'wait'");
	paired_start(&job, 1);
	paired_await(&job, TFC__AGENT_STARTED, 0, 1);
	paired_close(&job);
	agent_pair_await_no_jobs(&pair);
	agent_pair_end(&pair);
}

static void a_maintainer_that_dies_leaves_nothing(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	agent_pair_up(&pair, BRIEF_MS);
	paired_open_task(&pair, &job, 1, "'wait'");
	paired_start(&job, 2);
	pid_t pid = paired_await(&job, TFC__AGENT_STARTED, 1, 1)->pid;
	agent_pair_forget(&pair, BRIEF_MS);
	tfc_job_free(job.job);
	agent_pair_await_no_jobs(&pair);
	assert_false(proc_is_alive(pid));
	agent_pair_end(&pair);
}

static void a_node_that_restarts_is_waited_for(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	agent_pair_up(&pair, BRIEF_MS);
	paired_open_task(&pair, &job, 1, "'wait'");
	paired_start(&job, 2);
	paired_await(&job, TFC__AGENT_STARTED, 0, 1);
	uint64_t begin = tfc__now();
	agent_pair_reboot(&pair);
	agent_pair_connect(&pair);
	paired_await(&job, TFC__AGENT_LOST, 0, 1);
	assert_true(tfc__now() - begin > BRIEF_MS * TFC__MS / 2);
	paired_close(&job);
	paired_open_task(&pair, &job, 2, "'wait'");
	paired_start(&job, 1);
	paired_await(&job, TFC__AGENT_STARTED, 0, 1);
	paired_close(&job);
	agent_pair_await_no_jobs(&pair);
	agent_pair_end(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			tasks_of_a_maintainer_that_is_not_received_end_before_it_calls_them_lost),
		cmocka_unit_test(a_pause_of_three_quarters_of_the_lease_costs_no_task),
		cmocka_unit_test(abort_grace_of_the_job_counts),
		cmocka_unit_test(a_node_that_let_go_says_so),
		cmocka_unit_test(a_maintainer_that_dies_leaves_nothing),
		cmocka_unit_test(a_node_that_restarts_is_waited_for),
	};
	return cmocka_run_group_tests_name("node_agent_lease", tests, NULL, NULL);
}
