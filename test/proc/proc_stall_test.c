/* proc: silence is reported, and signs of life are noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>

#include "base/clock.h"
#include "proc_run.h"

#define LONG_MS 60000 /* never comes */

static void start(struct proc_run *run, struct proc_task *task, uint32_t stall_ms,
		  const char *const *argv)
{
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	options.argv = argv;
	options.log_dir = run->dir;
	options.log_name = "log";
	options.grace_ms = 1000;
	options.stall_ms = stall_ms;
	proc_start_with(run, task, &options);
}

static void end(struct proc_run *run, struct proc_task *task)
{
	tfc_process_stop(task->process, 1000);
	proc_await_end(run, task);
	proc_close(task);
}

static void silence_is_reported_and_again_when_it_has_grown(void **state)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {proc_task_program(), "print", "hello\n", "wait", NULL};
	proc_run_begin(&run);
	start(&run, &task, 100, argv);
	proc_await_stall(&run, &task);
	uint32_t first = task.silent_ms;
	assert_in_range(first, 100, 5000);
	proc_await_stall(&run, &task);
	assert_in_range(task.silent_ms, first + 100, 20000);
	end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_SIGNAL);
	proc_run_end(&run);
}

static void stopped_process_is_silent(void **state)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {proc_task_program(), "stop", "wait", NULL};
	proc_run_begin(&run);
	start(&run, &task, 50, argv);
	proc_await_stall(&run, &task);
	end(&run, &task);
	proc_run_end(&run);
}

/* Each program writes for longer than the silence that would be reported. */
static void whoever_speaks_is_not_silent(void **state)
{
	static const char *const descriptors[] = {"1", "2", "3"};
	for (size_t i = 0; i < 3; i++) {
		struct proc_run run;
		struct proc_task task;
		const char *argv[] = {proc_task_program(), "beat", descriptors[i], "1500", NULL};
		proc_run_begin(&run);
		start(&run, &task, 1000, argv);
		proc_await_end(&run, &task);
		assert_int_equal(task.end.status, 0);
		assert_int_equal(task.stalls, 0);
		proc_close(&task);
		proc_run_end(&run);
	}
}

static void progress_is_no_output(void **state)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {proc_task_program(), "beat", "3", "50", NULL};
	proc_run_begin(&run);
	start(&run, &task, LONG_MS, argv);
	proc_await_end(&run, &task);
	proc_close(&task);
	char *output = proc_output(&run, "log", NULL);
	assert_string_equal(output, "");
	free(output);
	proc_run_end(&run);
}

/* Many times what a pipe holds. */
static void progress_is_read_however_much_it_is(void **state)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {"/bin/sh", "-c", "head -c 4000000 /dev/zero >&3", NULL};
	proc_run_begin(&run);
	start(&run, &task, LONG_MS, argv);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.status, 0);
	proc_close(&task);
	proc_run_end(&run);
}

static void progress_pipe_is_there_only_when_it_is_wanted(void **state)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {proc_task_program(), "fds", NULL};
	for (uint32_t wanted = 0; wanted < 2; wanted++) {
		proc_run_begin(&run);
		start(&run, &task, wanted ? LONG_MS : 0, argv);
		proc_await_end(&run, &task);
		proc_close(&task);
		char *output = proc_output(&run, "log", NULL);
		assert_string_equal(output, wanted ? "0 1 2 3\n" : "0 1 2\n");
		free(output);
		proc_run_end(&run);
	}
}

static void children_may_give_the_signs(void **state)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {"/bin/sh", "-c", "\"$0\" beat 3 1500; :", proc_task_program(), NULL};
	proc_run_begin(&run);
	start(&run, &task, 1000, argv);
	proc_await_end(&run, &task);
	assert_int_equal(task.stalls, 0);
	proc_close(&task);
	proc_run_end(&run);
}

/* A task that closes the pipe still shows a sign of life by its output. */
static void closed_progress_pipe_is_no_end_of_the_watch(void **state)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {"/bin/sh", "-c", "exec 3>&-; echo closed; exec \"$0\" wait",
			      proc_task_program(), NULL};
	proc_run_begin(&run);
	start(&run, &task, 100, argv);
	proc_await_stall(&run, &task);
	end(&run, &task);
	proc_run_end(&run);
}

/* It ignores TERM, and its grace is far longer than the silence that would be reported. */
static void one_that_is_being_stopped_does_not_stall(void **state)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {proc_task_program(), "deaf", "print", "deaf\n", "wait", NULL};
	proc_run_begin(&run);
	start(&run, &task, 100, argv);
	proc_await_stall(&run, &task);
	int before = task.stalls;
	tfc_process_stop(task.process, 700);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.status, SIGKILL);
	assert_in_range(task.stalls, before, before + 1); /* one that was on its way */
	proc_close(&task);
	proc_run_end(&run);
}

/* ---- suspended by a signal */

static void start_suspendable(struct proc_run *run, struct proc_task *task, uint32_t suspend_ms,
			      const char *const *argv)
{
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	proc_run_begin(run);
	options.argv = argv;
	options.log_dir = run->dir;
	options.log_name = "log";
	options.suspend_ms = suspend_ms;
	proc_start_with(run, task, &options);
	proc_await_start(run, task);
}

static void suspension_is_reported_once_and_so_is_its_end(void **state)
{
	static const int signals[] = {SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};
	const char *argv[] = {proc_task_program(), "print", "up\n", "wait", NULL};
	struct proc_run run;
	struct proc_task task;
	start_suspendable(&run, &task, 100, argv);
	proc_await_output(&run, "log");
	for (int i = 0; i < 4; i++) {
		assert_int_equal(kill(task.pid, signals[i]), 0);
		proc_await_count(&run, &task, &task.suspensions);
		assert_int_equal(task.suspended_by, signals[i]);
		assert_in_range(task.silent_ms, 100, 20000);
		uint32_t reported_ms = task.silent_ms;
		assert_int_equal(kill(task.pid, SIGCONT), 0);
		proc_await_count(&run, &task, &task.continuations);
		assert_in_range(task.silent_ms, reported_ms, 40000);
		assert_int_equal(task.suspensions, i + 1);
	}
	assert_int_equal(task.continuations, 4);
	assert_int_equal(task.stalls, 0);
	end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_SIGNAL);
	assert_int_equal(task.end.status, SIGTERM);
	proc_run_end(&run);
}

/* It runs on for longer than the suspension that would be reported. */
static void short_suspension_is_not_reported(void **state)
{
	const char *argv[] = {proc_task_program(), "print", "up\n", "beat", "1", "3000", NULL};
	struct proc_run run;
	struct proc_task task;
	start_suspendable(&run, &task, 2000, argv);
	proc_await_output(&run, "log");
	uint64_t begin = tfc__now();
	proc_stop(task.pid);
	assert_int_equal(kill(task.pid, SIGCONT), 0);
	bool was_short = tfc__now() - begin <
			 1500 * TFC__MS; /* not on a machine that is too busy */
	proc_await_end(&run, &task);
	assert_int_equal(task.end.status, 0);
	if (was_short) {
		assert_int_equal(task.suspensions, 0);
		assert_int_equal(task.continuations, 0);
	}
	proc_close(&task);
	proc_run_end(&run);
}

static void suspended_process_that_dies_did_not_continue(void **state)
{
	const char *argv[] = {proc_task_program(), "stop", "wait", NULL};
	struct proc_run run;
	struct proc_task task;
	start_suspendable(&run, &task, 50, argv);
	proc_await_count(&run, &task, &task.suspensions);
	assert_int_equal(kill(task.pid, SIGKILL), 0);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_SIGNAL);
	assert_int_equal(task.end.status, SIGKILL);
	assert_int_equal(task.continuations, 0);
	proc_close(&task);
	proc_run_end(&run);
}

/* The stop continues it, so that it can handle TERM. */
static void suspended_process_is_stopped_without_a_report(void **state)
{
	const char *argv[] = {proc_task_program(), "stop", "wait", NULL};
	struct proc_run run;
	struct proc_task task;
	start_suspendable(&run, &task, 50, argv);
	proc_await_count(&run, &task, &task.suspensions);
	end(&run, &task);
	assert_int_equal(task.end.status, SIGTERM);
	assert_int_equal(task.suspensions, 1);
	assert_int_equal(task.continuations, 0);
	proc_run_end(&run);
}

static void child_that_is_suspended_is_none_of_the_process(void **state)
{
	const char *argv[] = {"/bin/sh", "-c",
			      "\"$0\" stop & sleep 0.5; kill -KILL $!; :", proc_task_program(),
			      NULL};
	struct proc_run run;
	struct proc_task task;
	start_suspendable(&run, &task, 50, argv);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.status, 0);
	assert_int_equal(task.suspensions, 0);
	proc_close(&task);
	proc_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silence_is_reported_and_again_when_it_has_grown),
		cmocka_unit_test(stopped_process_is_silent),
		cmocka_unit_test(whoever_speaks_is_not_silent),
		cmocka_unit_test(progress_is_no_output),
		cmocka_unit_test(progress_is_read_however_much_it_is),
		cmocka_unit_test(progress_pipe_is_there_only_when_it_is_wanted),
		cmocka_unit_test(children_may_give_the_signs),
		cmocka_unit_test(closed_progress_pipe_is_no_end_of_the_watch),
		cmocka_unit_test(one_that_is_being_stopped_does_not_stall),
		cmocka_unit_test(suspension_is_reported_once_and_so_is_its_end),
		cmocka_unit_test(short_suspension_is_not_reported),
		cmocka_unit_test(suspended_process_that_dies_did_not_continue),
		cmocka_unit_test(suspended_process_is_stopped_without_a_report),
		cmocka_unit_test(child_that_is_suspended_is_none_of_the_process),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
