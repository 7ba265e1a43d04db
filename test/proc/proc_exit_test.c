/* proc: the end of a process is reported exactly, and all that it wrote is there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>

#include "proc_run.h"

static void every_exit_code_is_reported(void **state)
{
	static struct proc_task tasks[256];
	struct proc_run run;
	char code[8];
	proc_run_begin(&run);
	for (int i = 0; i < 256; i++) {
		snprintf(code, sizeof(code), "%d", i);
		proc_start(&run, &tasks[i], NULL, "exit", code, NULL);
	}
	for (int i = 0; i < 256; i++) {
		proc_await_end(&run, &tasks[i]);
		assert_int_equal(tasks[i].end.reason, TFC_EXIT_CODE);
		assert_int_equal(tasks[i].end.status, i);
		assert_true(tasks[i].is_started);
		assert_int_equal(tasks[i].end.pid, tasks[i].pid);
		assert_string_equal(tasks[i].text, "");
		proc_close(&tasks[i]);
	}
	proc_run_end(&run);
}

static bool kills(int number)
{
	return number != SIGCHLD && number != SIGURG && number != SIGWINCH && number != SIGCONT &&
	       number != SIGSTOP && number != SIGTSTP && number != SIGTTIN && number != SIGTTOU;
}

static void every_signal_is_reported(void **state)
{
	struct proc_run run;
	proc_run_begin(&run);
	for (int number = 1; number <= SIGRTMAX; number++)
		if (kills(number) && (number <= SIGSYS || number >= SIGRTMIN))
			proc_expect_signal(&run, TFC_ISOLATION_AUTO, number);
	proc_run_end(&run);
}

static void all_output_is_readable_before_the_end_is_reported(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	for (int i = 0; i < 50; i++) {
		char name[16];
		snprintf(name, sizeof(name), "t%d", i);
		proc_start(&run, &task, name, "print", "one\n", "error", "two", "flood", "100000",
			   "print", "end", NULL);
		proc_await_end(&run, &task);
		size_t len;
		char *output = proc_output(&run, name, &len);
		assert_int_equal(len, 4 + 3 + 100000 + 3);
		/* "two" is in the other stream, and may come before or after it */
		assert_non_null(memmem(output + len - 6, 6, "end", 3));
		assert_int_equal(task.end.log_dropped, 0);
		assert_true(task.end.log_end > 100010);
		free(output);
		proc_close(&task);
	}
	proc_run_end(&run);
}

static void usage_of_the_process_is_reported(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	proc_start(&run, &task, NULL, "burn", "60", NULL);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_CODE);
	assert_in_range(task.end.user_us + task.end.system_us, 60000, 5000000);
	assert_in_range(task.end.max_rss_kib, 1, 100000);
	proc_close(&task);
	proc_run_end(&run);
}

static void closing_a_running_process_kills_it_at_once(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	proc_start(&run, &task, NULL, "deaf", "wait", NULL);
	proc_await_start(&run, &task);
	pid_t pid = task.pid;
	assert_int_equal(tfc_process_pid(task.process), pid);
	proc_close(&task);
	assert_true(proc_await_gone(pid, 2000));
	assert_int_equal(task.ends, 0);
	proc_run_end(&run);
}

static void end_of_the_context_ends_what_runs_under_it(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	proc_start(&run, &task, NULL, "deaf", "daemon", proc_path(&run, "pid"), "wait", NULL);
	proc_await_start(&run, &task);
	pid_t daemon = (pid_t)proc_await_number(proc_path(&run, "pid"));
	pid_t pid = task.pid;
	tfc_ctx_free(run.ctx);
	assert_false(proc_is_alive(pid));
	assert_false(proc_is_alive(daemon));
	run.ctx = NULL;
	proc_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_exit_code_is_reported),
		cmocka_unit_test(every_signal_is_reported),
		cmocka_unit_test(all_output_is_readable_before_the_end_is_reported),
		cmocka_unit_test(usage_of_the_process_is_reported),
		cmocka_unit_test(closing_a_running_process_kills_it_at_once),
		cmocka_unit_test(end_of_the_context_ends_what_runs_under_it),
	};
	return cmocka_run_group_tests_name("proc_exit", tests, NULL, NULL);
}
