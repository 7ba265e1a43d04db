/* node: what a task is doing is part of a job's description. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <sys/ptrace.h>

#include "base/clock.h"
#include "node_run.h"
#include "proc_run.h"

#define PATIENCE (30 * TFC__SECOND)

/* Describes the job until that holds `part`, or holds it no more. */
static void await_description(struct node_run *run, const char *job, const char *part,
			      bool is_there)
{
	for (uint64_t end = tfc__now() + PATIENCE;; poll(NULL, 0, 5)) {
		char *json = node_describe(run, job);
		bool is_met = (strstr(json, part) != NULL) == is_there;
		if (!is_met && tfc__now() > end)
			fail_msg("%s: %s", part, json);
		free(json);
		if (is_met)
			return;
	}
}

static void stopped_task_is_named_and_only_while_it_is_stopped(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	char *json = node_json("{'strategy': 'parameter_server', 'argv': ['%s', 'listen', 'wait'],"
			       " 'roles': {'chief': {'argv': ['%s', 'listen', 'wait']},"
			       " 'worker': {}, 'ps': {}}}",
			       node_task_program(), node_task_program());
	node_start(&run, json, &follower);
	const struct seen_event *worker = node_await_task(&run, &follower, "worker/0",
							  TFC_TASK_READY, 1);
	await_description(&run, follower.job, "\"doing\"", false);
	proc_stop(worker->event.pid);
	await_description(&run, follower.job, "\"doing\":\"stopped (SIGSTOP)\"", true);
	kill(worker->event.pid, SIGCONT);
	await_description(&run, follower.job, "\"doing\"", false);
	if (ptrace(PTRACE_SEIZE, worker->event.pid, NULL, NULL) == 0) { /* some systems forbid it */
		assert_int_equal(ptrace(PTRACE_INTERRUPT, worker->event.pid, NULL, NULL), 0);
		await_description(&run, follower.job, "\"doing\":\"held by a debugger\"", true);
		assert_int_equal(ptrace(PTRACE_DETACH, worker->event.pid, NULL, NULL), 0);
		await_description(&run, follower.job, "\"doing\"", false);
	}
	node_stop(&run, follower.job, true);
	node_await_end(&run, &follower);
	node_follow_end(&follower);
	free(json);
	node_run_end(&run);
}

static void task_that_is_not_ready_says_why(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	char *json = node_json("{'argv': ['%s', 'wait'], 'roles': {'worker': {}}}",
			       node_task_program());
	node_start(&run, json, &follower);
	node_await_task(&run, &follower, "worker/0", TFC_TASK_RUNNING, 1);
	await_description(&run, follower.job, "\"doing\":\"not listening, 0 % of a CPU", true);
	node_stop(&run, follower.job, true);
	node_await_end(&run, &follower);
	node_follow_end(&follower);
	free(json);
	node_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stopped_task_is_named_and_only_while_it_is_stopped),
		cmocka_unit_test(task_that_is_not_ready_says_why),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
