/* proc: how processes are stopped, and that nothing of them stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "proc_run.h"

/* Starts a task and waits until it has printed "up". */
static void start_up(struct proc_run *run, struct proc_task *task, const char *first,
		     const char *second, const char *third)
{
	if (third)
		proc_start(run, task, "t", first, second, third, "print", "up", "wait", NULL);
	else if (first)
		proc_start(run, task, "t", first, "print", "up", "wait", NULL);
	else
		proc_start(run, task, "t", "print", "up", "wait", NULL);
	proc_await_start(run, task);
	for (bool is_up = false; !is_up;) {
		char *output = proc_output(run, "t", NULL);
		is_up = output[0] == 'u';
		free(output);
		tfc_ctx_run(run->ctx, 2);
	}
}

static void stop_is_a_term_first(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	start_up(&run, &task, NULL, NULL, NULL);
	uint64_t begin = tfc__now();
	assert_int_equal(tfc_process_stop(task.process, 10000), 0);
	proc_await_end(&run, &task);
	assert_true(tfc__now() - begin < TFC__SECOND);
	assert_int_equal(task.end.reason, TFC_EXIT_SIGNAL);
	assert_int_equal(task.end.status, SIGTERM);
	assert_int_equal(tfc_process_stop(task.process, 0), 0);
	proc_close(&task);
	proc_run_end(&run);
}

static void a_deaf_process_is_killed_after_its_grace(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	start_up(&run, &task, "deaf", NULL, NULL);
	uint64_t begin = tfc__now();
	assert_int_equal(tfc_process_stop(task.process, 300), 0);
	proc_await_end(&run, &task);
	assert_in_range((tfc__now() - begin) / TFC__MS, 300, 1200);
	assert_int_equal(task.end.status, SIGKILL);
	assert_int_equal(task.end.is_oom, 0);
	proc_close(&task);
	proc_run_end(&run);
}

static void a_second_stop_shortens_the_grace_and_never_extends_it(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	start_up(&run, &task, "deaf", NULL, NULL);
	uint64_t begin = tfc__now();
	assert_int_equal(tfc_process_stop(task.process, 20000), 0);
	assert_int_equal(tfc_process_stop(task.process, 200), 0);
	assert_int_equal(tfc_process_stop(task.process, 30000), 0);
	proc_await_end(&run, &task);
	assert_in_range((tfc__now() - begin) / TFC__MS, 200, 1200);
	proc_close(&task);

	start_up(&run, &task, "deaf", NULL, NULL);
	begin = tfc__now();
	assert_int_equal(tfc_process_stop(task.process, 20000), 0);
	assert_int_equal(tfc_process_stop(task.process, 0), 0);
	proc_await_end(&run, &task);
	assert_true(tfc__now() - begin < TFC__SECOND);
	proc_close(&task);
	proc_run_end(&run);
}

static void a_stopped_process_gets_its_term(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	start_up(&run, &task, NULL, NULL, NULL);
	assert_int_equal(tfc_process_signal(task.process, SIGSTOP), 0);
	assert_int_equal(tfc_process_stop(task.process, 10000), 0);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.status, SIGTERM);
	proc_close(&task);
	proc_run_end(&run);
}

static void nothing_outlives_a_process(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	const char *mark = proc_path(&run, "pid");
	proc_start(&run, &task, NULL, "child", "daemon", mark, "exit", "3", NULL);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_CODE);
	assert_int_equal(task.end.status, 3);
	proc_close(&task);
	/* either it was killed before it could leave its mark, or it is gone now */
	FILE *file = fopen(mark, "r");
	int pid = 0;
	if (file) {
		assert_int_equal(fscanf(file, "%d", &pid), 1);
		fclose(file);
		assert_false(proc_is_alive(pid));
	}
	proc_run_end(&run);
}

static void a_bomb_of_sessions_ends_with_its_process(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	proc_start(&run, &task, NULL, "deaf", "bomb", "4", "wait", NULL);
	proc_await_start(&run, &task);
	pid_t shim = proc_parent(task.pid), guard = proc_parent(shim);
	assert_int_equal(tfc_process_stop(task.process, 50), 0);
	proc_await_end(&run, &task);
	assert_false(proc_is_alive(task.pid));
	assert_false(proc_has_children(shim));
	assert_true(proc_is_alive(guard));
	proc_close(&task);
	proc_run_end(&run);
	assert_false(proc_is_alive(guard));
}

static void a_stop_during_the_start_ends_it_once(void **state)
{
	struct proc_run run;
	struct proc_task tasks[40];
	proc_run_begin(&run);
	for (int i = 0; i < 40; i++) {
		proc_start(&run, &tasks[i], NULL, "deaf", "wait", NULL);
		assert_int_equal(tfc_process_stop(tasks[i].process, i % 2 ? 0 : 30), 0);
		assert_int_equal(tfc_process_stop(tasks[i].process, 0), 0);
	}
	for (int i = 0; i < 40; i++) {
		proc_await_end(&run, &tasks[i]);
		assert_int_equal(tasks[i].end.reason, TFC_EXIT_SIGNAL);
		proc_close(&tasks[i]);
	}
	proc_run_end(&run);
}

static void a_shim_that_does_not_respond_keeps_no_task_alive(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	start_up(&run, &task, "deaf", "daemon", proc_path(&run, "pid"));
	pid_t daemon = (pid_t)proc_await_number(proc_path(&run, "pid"));
	assert_int_equal(kill(proc_parent(task.pid), SIGSTOP), 0);
	uint64_t begin = tfc__now();
	assert_int_equal(tfc_process_stop(task.process, 200), 0);
	proc_await_end(&run, &task);
	assert_in_range((tfc__now() - begin) / TFC__MS, 1000, 10000);
	assert_int_equal(task.end.reason, TFC_EXIT_LOST);
	assert_false(proc_is_alive(task.pid));
	assert_false(proc_is_alive(daemon));
	proc_close(&task);
	proc_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stop_is_a_term_first),
		cmocka_unit_test(a_deaf_process_is_killed_after_its_grace),
		cmocka_unit_test(a_second_stop_shortens_the_grace_and_never_extends_it),
		cmocka_unit_test(a_stopped_process_gets_its_term),
		cmocka_unit_test(nothing_outlives_a_process),
		cmocka_unit_test(a_bomb_of_sessions_ends_with_its_process),
		cmocka_unit_test(a_stop_during_the_start_ends_it_once),
		cmocka_unit_test(a_shim_that_does_not_respond_keeps_no_task_alive),
	};
	return cmocka_run_group_tests_name("proc_stop", tests, NULL, NULL);
}
