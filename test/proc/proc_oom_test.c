/* proc, node: a task that the kernel kills for memory is reported as such, and is not run again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory_group.h"
#include "node_run.h"
#include "proc_run.h"

#define LIMIT_MIB 64
#define TOO_MUCH "256"

/* In a child whose memory, and that of all it starts, is limited. */
static void with_little_memory(void (*check)(void))
{
	struct memory_group group;
	int status;
	if (!memory_group_make(&group, LIMIT_MIB)) {
		print_message("skipped: no cgroup with a memory limit can be made here\n");
		skip();
	}
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		if (memory_group_enter(&group) < 0)
			_exit(10);
		check();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(memory_group_remove(&group), 0);
	assert_int_equal(status, 0);
}

static void check_process(void)
{
	struct proc_run run;
	struct proc_task hungry, killed;
	proc_run_begin(&run);
	proc_start(&run, &killed, NULL, "wait", NULL);
	proc_await_start(&run, &killed);
	proc_start(&run, &hungry, "t", "print", "hungry", "eat", TOO_MUCH, "print", "full", NULL);
	proc_await_end(&run, &hungry);
	assert_int_equal(hungry.end.reason, TFC_EXIT_SIGNAL);
	assert_int_equal(hungry.end.status, SIGKILL);
	assert_int_equal(hungry.end.is_oom, 1);
	assert_non_null(strstr(hungry.text, "was killed by the kernel: out of memory"));
	char *output = proc_output(&run, "t", NULL);
	assert_string_equal(output, "hungry");
	free(output);
	proc_close(&hungry);

	/* the next one that is killed has nothing to do with it */
	assert_int_equal(kill(killed.pid, SIGKILL), 0);
	proc_await_end(&run, &killed);
	assert_int_equal(killed.end.status, SIGKILL);
	assert_int_equal(killed.end.is_oom, 0);
	proc_close(&killed);
	proc_run_end(&run);
}

static void check_job(void)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	char *json = node_json("{'framework':'none','argv':['%s','eat','" TOO_MUCH "'],'roles':"
			       "{'worker':{}},'restart':{'backoff_s':[0,0]}}",
			       node_task_program());
	const struct seen_event *end = node_run_job(&run, json, &follower);
	assert_int_equal(end->event.job_state, TFC_JOB_FAILED);
	assert_int_equal(end->event.reason, TFC_END_SIGNAL);
	assert_int_equal(end->event.signal, SIGKILL);
	assert_non_null(strstr(end->text, "out of memory"));
	assert_int_equal(tfc_event_exit_status(&end->event), 128 + SIGKILL);
	assert_non_null(node_find(&follower, TFC_EVENT_TASK, "worker/0", 0, 1));
	assert_null(node_find(&follower, TFC_EVENT_TASK, "worker/0", 0, 2));
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

static void a_death_for_memory_is_distinguished_from_other_kills(void **state)
{
	with_little_memory(check_process);
}

static void a_job_that_runs_out_of_memory_fails_for_good(void **state)
{
	with_little_memory(check_job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_death_for_memory_is_distinguished_from_other_kills),
		cmocka_unit_test(a_job_that_runs_out_of_memory_fails_for_good),
	};
	return cmocka_run_group_tests_name("proc_oom", tests, NULL, NULL);
}
