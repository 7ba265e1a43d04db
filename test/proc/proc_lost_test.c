/* proc: a supervisor that dies takes its tasks along before they are reported as lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/dir.h"
#include "base/file.h"
#include "port/port.h"
#include "proc/proc.h"
#include "proc_run.h"

static void start_with_descendants(struct proc_run *run, struct proc_task *task, const char *name,
				   pid_t *ret_daemon)
{
	const char *mark = proc_path(run, name);
	proc_start(run, task, NULL, "deaf", "child", "daemon", mark, "wait", NULL);
	proc_await_start(run, task);
	*ret_daemon = (pid_t)proc_await_number(mark);
}

static void all_of_a_task_is_gone_before_it_is_reported_lost(void **state)
{
	struct proc_run run;
	struct proc_task task, other;
	pid_t daemon;
	proc_run_begin(&run);
	proc_start(&run, &other, NULL, "wait", NULL);
	proc_await_start(&run, &other);
	for (int i = 0; i < 10; i++) {
		char name[16] = {'d', (char)('0' + i), 0};
		start_with_descendants(&run, &task, name, &daemon);
		pid_t shim = tfc__process_shim(task.process);
		assert_int_equal(proc_parent(task.pid), shim);
		assert_int_equal(kill(shim, SIGKILL), 0);
		proc_await_end(&run, &task);
		assert_int_equal(task.end.reason, TFC_EXIT_LOST);
		assert_non_null(strstr(task.text, "was killed: its supervisor died"));
		assert_false(proc_is_alive(task.pid));
		assert_false(proc_is_alive(daemon));
		assert_true(proc_is_alive(other.pid));
		proc_close(&task);
	}
	tfc_process_stop(other.process, 1000);
	proc_await_end(&run, &other);
	assert_int_equal(other.end.status, SIGTERM);
	proc_close(&other);
	proc_run_end(&run);
}

/* Number of read(2) calls that a process has made. */
static long reads_of(pid_t pid)
{
	char path[64], text[256];
	snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
	if (tfc__read_text(path, text, sizeof(text)) < 0 || !strstr(text, "syscr: "))
		skip(); /* a kernel without CONFIG_TASK_IO_ACCOUNTING */
	return strtol(strstr(text, "syscr: ") + strlen("syscr: "), NULL, 10);
}

/* The guard reads the list of its children, and nothing about each of them, which would be two
 * reads for each living shim and loss. */
static void a_lost_task_costs_the_same_among_many(void **state)
{
	enum { COUNT = 64, LOST = 4 };
	struct proc_run run;
	struct proc_task tasks[COUNT];
	proc_run_begin(&run);
	for (int i = 0; i < COUNT; i++)
		proc_start(&run, &tasks[i], NULL, "wait", NULL);
	for (int i = 0; i < COUNT; i++)
		proc_await_start(&run, &tasks[i]);
	pid_t guard = proc_parent(tfc__process_shim(tasks[0].process));
	long before = reads_of(guard);
	for (int i = 0; i < LOST; i++) {
		assert_int_equal(kill(tfc__process_shim(tasks[i].process), SIGKILL), 0);
		proc_await_end(&run, &tasks[i]);
		assert_int_equal(tasks[i].end.reason, TFC_EXIT_LOST);
	}
	assert_in_range(reads_of(guard) - before, LOST, LOST * COUNT);
	for (int i = 0; i < COUNT; i++)
		proc_close(&tasks[i]);
	proc_run_end(&run);
}

static void a_dead_guard_loses_all_and_the_next_spawn_has_another(void **state)
{
	struct proc_run run;
	struct proc_task tasks[8], next;
	pid_t daemons[8];
	tfc_port_pool *pool;
	tfc_port_hold *hold;
	proc_run_begin(&run);
	assert_int_equal(tfc_port_pool_open(run.ctx, NULL, &pool), 0);
	assert_int_equal(tfc_port_acquire(pool, 0, &hold), 0);
	assert_int_equal(tfc__guard_keep(run.ctx, hold), 0);
	assert_int_equal(tfc_port_hold_set_open(hold, 1), 0);
	assert_int_equal(tfc_port_hold_set_open(hold, 0), 0);
	for (int i = 0; i < 8; i++) {
		char name[16] = {'d', (char)('0' + i), 0};
		start_with_descendants(&run, &tasks[i], name, &daemons[i]);
	}
	pid_t guard = proc_parent(tfc__process_shim(tasks[0].process));
	assert_int_equal(kill(guard, SIGKILL), 0);
	for (int i = 0; i < 8; i++) {
		proc_await_end(&run, &tasks[i]);
		for (int j = 0; j < 8; j++) {
			assert_false(proc_is_alive(tasks[j].pid));
			assert_false(proc_is_alive(daemons[j]));
		}
		assert_int_equal(tasks[i].end.reason, TFC_EXIT_LOST);
	}
	for (int i = 0; i < 8; i++)
		proc_close(&tasks[i]);
	assert_true(tfc__port_is_lost(hold));
	assert_int_equal(tfc_port_hold_set_open(hold, 1), TFC_ELOST);
	proc_start(&run, &next, NULL, "exit", "5", NULL);
	proc_await_end(&run, &next);
	assert_int_equal(next.end.reason, TFC_EXIT_CODE);
	assert_int_equal(next.end.status, 5);
	proc_close(&next);
	assert_int_equal(tfc__port_reacquire(hold), 0);
	assert_int_equal(tfc__guard_keep(run.ctx, hold), 0);
	tfc_port_hold_release(hold);
	tfc_port_pool_close(pool);
	proc_run_end(&run);
}

static void a_spawn_into_a_dead_guard_gets_a_fresh_one(void **state)
{
	struct proc_run run;
	struct proc_task task, next;
	proc_run_begin(&run);
	proc_start(&run, &task, NULL, "wait", NULL);
	proc_await_start(&run, &task);
	pid_t guard = proc_parent(tfc__process_shim(task.process));
	proc_await_spare(guard); /* whoever it forks has its socket, until the exec */
	assert_int_equal(kill(guard, SIGKILL), 0);
	assert_true(proc_await_gone(guard, 2000));
	proc_start(&run, &next, NULL, "exit", "6", NULL);
	proc_await_end(&run, &next);
	assert_int_equal(next.end.reason, TFC_EXIT_CODE);
	assert_int_equal(next.end.status, 6);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_LOST);
	proc_close(&task);
	proc_close(&next);
	proc_run_end(&run);
}

static void a_stopped_guard_does_not_outlive_its_context(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	proc_start(&run, &task, NULL, "wait", NULL);
	proc_await_start(&run, &task);
	pid_t guard = proc_parent(tfc__process_shim(task.process)), pid = task.pid;
	proc_stop(guard);
	proc_close(&task);
	proc_run_end(&run);
	assert_true(proc_await_gone(guard, 0));
	assert_true(proc_await_gone(pid, 5000));
}

/* ---- a host whose clock goes on without it: the machine stood still, or it is very slow */

static uint64_t ahead; /* nanoseconds */

int __real_clock_gettime(clockid_t clock, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	int code = __real_clock_gettime(clock, ret_now);
	ret_now->tv_sec += (time_t)(ahead / TFC__SECOND);
	return code;
}

static void start_with_grace(struct proc_run *run, struct proc_task *task, uint32_t grace_ms)
{
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	const char *argv[] = {proc_task_program(), "deaf", "print", "up", "wait", NULL};
	options.argv = argv;
	options.grace_ms = grace_ms;
	options.log_dir = run->dir;
	options.log_name = "up";
	proc_start_with(run, task, &options);
	proc_await_start(run, task);
	proc_await_output(run, "up");
}

/* Nothing that runs is reported as lost: not after a leap of the clock, nor before the grace ends.
 */
static void a_task_is_not_lost_while_it_has_its_grace(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	start_with_grace(&run, &task, 600000);
	pid_t guard = proc_parent(tfc__process_shim(task.process));
	assert_int_equal(kill(guard, SIGKILL), 0);
	while (proc_is_alive(guard) || tfc__guard_pid(run.ctx) == guard)
		assert_true(tfc_ctx_run(run.ctx, 1) >= 0);
	ahead = 3600 * TFC__SECOND; /* in one leap */
	assert_true(tfc_ctx_dispatch(run.ctx, 0) >= 0);
	assert_int_equal(task.ends, 0);
	for (int i = 0; i < 100; i++) { /* half of the grace */
		ahead += 3 * TFC__SECOND;
		assert_true(tfc_ctx_dispatch(run.ctx, 0) >= 0);
		assert_int_equal(task.ends, 0);
	}
	assert_true(proc_is_alive(task.pid));
	assert_int_equal(kill(task.pid, SIGKILL), 0);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_LOST);
	proc_close(&task);
	proc_run_end(&run);
}

/* The context's shim ends at once; its guard is the real one. */
static void begin_with_short_shims(struct proc_run *run)
{
	char *guard = tfc__path_join(getenv("TFC_HELPER_DIR"), "tfc-guard");
	proc_run_begin_with(run, "helpers", guard, "/bin/true");
	free(guard);
}

/* On one processor without time slices a guard goes on only when its shim has ended: so the shim is
 * dead before it is sent its launch. */
static void a_shim_that_dies_before_its_launch_loses_the_task(void **state)
{
	struct proc_run run;
	struct proc_task task;
	cpu_set_t all, one;
	const struct sched_param first = {.sched_priority = 1}, none = {0};
	CPU_ZERO(&one);
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, &one);
	if (sched_setscheduler(0, SCHED_FIFO, &first) < 0)
		skip(); /* only root may, and not everywhere */
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	begin_with_short_shims(&run);
	for (int i = 0; i < 5; i++) {
		proc_start(&run, &task, NULL, "wait", NULL);
		proc_await_end(&run, &task);
		assert_int_equal(task.end.reason, TFC_EXIT_LOST);
		assert_int_equal(task.ends, 1);
		proc_close(&task);
	}
	proc_run_end(&run);
	assert_int_equal(sched_setscheduler(0, SCHED_OTHER, &none), 0);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_a_task_is_gone_before_it_is_reported_lost),
		cmocka_unit_test(a_lost_task_costs_the_same_among_many),
		cmocka_unit_test(a_dead_guard_loses_all_and_the_next_spawn_has_another),
		cmocka_unit_test(a_spawn_into_a_dead_guard_gets_a_fresh_one),
		cmocka_unit_test(a_stopped_guard_does_not_outlive_its_context),
		cmocka_unit_test(a_task_is_not_lost_while_it_has_its_grace),
		cmocka_unit_test(a_shim_that_dies_before_its_launch_loses_the_task),
	};
	return cmocka_run_group_tests_name("proc_lost", tests, NULL, NULL);
}
