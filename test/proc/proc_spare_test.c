/* proc: the guard keeps one shim ready, which is nobody's burden and nobody's need. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>

#include "proc/proc.h"
#include "proc_run.h"

static void start_one(struct proc_run *run, struct proc_task *task, uint32_t isolation)
{
	proc_start_isolated(run, task, isolation, NULL, "wait", NULL);
	proc_await_start(run, task);
}

static void end_one(struct proc_run *run, struct proc_task *task)
{
	pid_t shim = tfc__process_shim(task->process);
	assert_int_equal(tfc_process_stop(task->process, 0), 0);
	proc_await_end(run, task);
	assert_int_equal(task->end.reason, TFC_EXIT_SIGNAL);
	assert_int_equal(task->end.status, SIGKILL);
	proc_close(task);
	assert_true(proc_await_gone(shim, 5000)); /* or it could be taken for a spare */
}

static void the_next_start_takes_the_spare_and_another_is_made(void **state)
{
	struct proc_run run;
	struct proc_task tasks[3];
	proc_run_begin(&run);
	start_one(&run, &tasks[0], TFC_ISOLATION_AUTO);
	pid_t guard = proc_parent(tfc__process_shim(tasks[0].process));
	for (int i = 1; i < 3; i++) {
		pid_t spare = proc_await_spare(guard);
		start_one(&run, &tasks[i], TFC_ISOLATION_AUTO);
		assert_int_equal(tfc__process_shim(tasks[i].process), spare);
	}
	for (int i = 0; i < 3; i++)
		end_one(&run, &tasks[i]);
	proc_run_end(&run); /* which finds what is left */
}

static void a_spare_that_was_killed_is_done_without(void **state)
{
	struct proc_run run;
	struct proc_task first, next;
	proc_run_begin(&run);
	start_one(&run, &first, TFC_ISOLATION_PLAIN);
	pid_t guard = proc_parent(tfc__process_shim(first.process));
	for (int i = 0; i < 20; i++) {
		pid_t spare = proc_await_spare(guard);
		assert_int_equal(kill(spare, SIGKILL), 0);
		assert_true(proc_await_gone(spare, 5000));
		start_one(&run, &next, TFC_ISOLATION_PLAIN);
		assert_int_not_equal(tfc__process_shim(next.process), spare);
		end_one(&run, &next);
	}
	end_one(&run, &first);
	proc_run_end(&run);
}

static void a_spare_that_was_stopped_is_continued_for_its_task(void **state)
{
	struct proc_run run;
	struct proc_task first, next;
	proc_run_begin(&run);
	start_one(&run, &first, TFC_ISOLATION_PLAIN);
	pid_t spare = proc_await_spare(proc_parent(tfc__process_shim(first.process)));
	proc_stop(spare);
	start_one(&run, &next, TFC_ISOLATION_PLAIN);
	assert_int_equal(tfc__process_shim(next.process), spare);
	end_one(&run, &next);
	end_one(&run, &first);
	proc_run_end(&run);
}

static void a_spare_serves_whatever_isolation_is_requested(void **state)
{
	static const uint32_t isolations[] = {TFC_ISOLATION_PLAIN, TFC_ISOLATION_CGROUP,
					      TFC_ISOLATION_PLAIN, TFC_ISOLATION_PIDNS,
					      TFC_ISOLATION_CGROUP};
	struct proc_run run;
	struct proc_task first, next;
	bool is_possible[TFC_ISOLATION_PIDNS + 1] = {false};
	for (uint32_t i = TFC_ISOLATION_PLAIN; i <= TFC_ISOLATION_PIDNS; i++)
		is_possible[i] = proc_can_isolate(i);
	proc_run_begin(&run);
	start_one(&run, &first, TFC_ISOLATION_PLAIN);
	pid_t guard = proc_parent(tfc__process_shim(first.process));
	for (size_t i = 0; i < sizeof(isolations) / sizeof(isolations[0]); i++) {
		if (!is_possible[isolations[i]])
			continue;
		proc_await_spare(guard);
		start_one(&run, &next, isolations[i]);
		end_one(&run, &next);
		assert_int_equal(next.end.isolation, isolations[i]);
	}
	end_one(&run, &first);
	proc_run_end(&run);
}

static void a_spare_goes_with_its_guard(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	start_one(&run, &task, TFC_ISOLATION_AUTO);
	pid_t guard = proc_parent(tfc__process_shim(task.process));
	pid_t spare = proc_await_spare(guard);
	assert_int_equal(kill(guard, SIGKILL), 0);
	assert_true(proc_await_gone(spare, 5000));
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_LOST);
	proc_close(&task);
	proc_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_start_takes_the_spare_and_another_is_made),
		cmocka_unit_test(a_spare_that_was_killed_is_done_without),
		cmocka_unit_test(a_spare_that_was_stopped_is_continued_for_its_task),
		cmocka_unit_test(a_spare_serves_whatever_isolation_is_requested),
		cmocka_unit_test(a_spare_goes_with_its_guard),
	};
	return cmocka_run_group_tests_name("proc_spare", tests, NULL, NULL);
}
