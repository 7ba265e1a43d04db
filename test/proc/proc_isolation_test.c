/* proc: what holds under each isolation; the first argument names it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/proc.h"
#include "proc_run.h"

#define BREED_LIMIT (20 * TFC__SECOND) /* a loaded machine needs a second or two */

static uint32_t isolation;

static void the_isolation_that_applies_is_reported(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	proc_start_isolated(&run, &task, isolation, NULL, "wait", NULL);
	proc_await_start(&run, &task);
	tfc_process_stop(task.process, 0);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.isolation, isolation);
	proc_close(&task);
	proc_run_end(&run);
}

static void every_exit_code_is_reported(void **state)
{
	static struct proc_task tasks[256];
	struct proc_run run;
	char code[8];
	proc_run_begin(&run);
	for (int i = 0; i < 256; i++) {
		snprintf(code, sizeof(code), "%d", i);
		proc_start_isolated(&run, &tasks[i], isolation, NULL, "exit", code, NULL);
	}
	for (int i = 0; i < 256; i++) {
		proc_await_end(&run, &tasks[i]);
		assert_string_equal(tasks[i].text, "");
		assert_int_equal(tasks[i].end.reason, TFC_EXIT_CODE);
		assert_int_equal(tasks[i].end.status, i);
		proc_close(&tasks[i]);
	}
	proc_run_end(&run);
}

static void every_deadly_signal_is_reported(void **state)
{
	static const int numbers[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGILL,  SIGTRAP, SIGABRT,
				      SIGBUS,  SIGFPE,  SIGKILL, SIGUSR1, SIGSEGV, SIGUSR2,
				      SIGPIPE, SIGALRM, SIGTERM, SIGXCPU, SIGXFSZ, SIGSYS};
	struct proc_run run;
	proc_run_begin(&run);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		proc_expect_signal(&run, isolation, numbers[i]);
	proc_run_end(&run);
}

static void a_missing_program_is_reported_and_output_is_whole(void **state)
{
	struct proc_run run;
	struct proc_task task;
	const char *const argv[] = {"/nowhere/program", NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	size_t len;
	options.argv = argv;
	options.isolation = isolation;
	proc_run_begin(&run);
	proc_start_with(&run, &task, &options);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_NOT_STARTED);
	assert_int_equal(task.end.status, TFC_ENOENT);
	proc_close(&task);
	proc_start_isolated(&run, &task, isolation, "out", "flood", "300000", "error", "end", NULL);
	proc_await_end(&run, &task);
	free(proc_output(&run, "out", &len));
	assert_int_equal(len, 300003);
	proc_close(&task);
	proc_run_end(&run);
}

static void a_stop_gives_the_grace_and_no_more(void **state)
{
	struct proc_run run;
	struct proc_task polite, deaf;
	proc_run_begin(&run);
	proc_start_isolated(&run, &polite, isolation, NULL, "wait", NULL);
	proc_start_isolated(&run, &deaf, isolation, "deaf", "deaf", "print", "deaf", "wait", NULL);
	proc_await_start(&run, &polite);
	proc_await_output(&run, "deaf");
	uint64_t begin = tfc__now();
	tfc_process_stop(polite.process, 20000);
	tfc_process_stop(deaf.process, 300);
	proc_await_end(&run, &polite);
	assert_int_equal(polite.end.status, SIGTERM);
	proc_await_end(&run, &deaf);
	assert_int_equal(deaf.end.status, SIGKILL);
	uint64_t took = tfc__now() - begin;
	assert_true(took >= 300 * TFC__MS && took < 5 * TFC__SECOND);
	proc_close(&polite);
	proc_close(&deaf);
	proc_run_end(&run);
}

static void signals_reach_the_program(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	proc_start_isolated(&run, &task, isolation, NULL, "wait", NULL);
	proc_await_start(&run, &task);
	assert_int_equal(tfc_process_signal(task.process, SIGUSR1), 0);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.status, SIGUSR1);
	proc_close(&task);
	proc_run_end(&run);
}

/* As a service manager, a terminal or a batch system sends them, to all of a node's processes. */
static void signals_that_end_a_node_end_no_helper(void **state)
{
	struct proc_run run;
	struct proc_task task;
	pid_t pids[16];
	proc_run_begin(&run);
	proc_start_isolated(&run, &task, isolation, NULL, "wait", NULL);
	proc_await_start(&run, &task);
	assert_int_equal(proc_blocked(task.pid), 0);
	assert_int_equal(proc_ignored(task.pid), 0);
	pid_t guard = proc_parent(proc_parent(task.pid));
	proc_await_spare(guard);
	size_t count = proc_family(guard, pids, 16);
	assert_in_range(count, 4, 5); /* guard, shim, task, spare; the init of a PID namespace */
	for (size_t i = 0; i < count; i++) {
		if (pids[i] == task.pid)
			continue;
		assert_int_equal(proc_blocked(pids[i]) & proc_node_signals(), proc_node_signals());
		assert_int_equal(proc_ignored(pids[i]) & proc_node_signals(), 0);
		proc_send_node_signals(pids[i]);
	}
	assert_int_equal(tfc_process_signal(task.process, SIGUSR1), 0);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.status, SIGUSR1);
	assert_true(proc_is_alive(guard));
	proc_close(&task);
	proc_run_end(&run);
}

/* The pid that hosts receive is one that they can see, and the listener is found below the shim.
 */
static void the_listener_of_a_task_is_recognized(void **state)
{
	struct proc_run run;
	struct proc_task task;
	tfc_port_pool *pool;
	tfc_port_hold *hold;
	tfc_port_listener listener = TFC_PORT_LISTENER_INIT;
	char port[32];
	proc_run_begin(&run);
	assert_int_equal(tfc_port_pool_open(run.ctx, NULL, &pool), 0);
	assert_int_equal(tfc_port_acquire(pool, 0, &hold), 0);
	snprintf(port, sizeof(port), "TFC_PORT=%u", tfc_port_hold_number(hold));
	const char *const argv[] = {
		proc_task_program(), "listen", "child", "print", "ready", "wait", NULL};
	const char *const env[] = {port, NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	options.argv = argv;
	options.env = env;
	options.hold = hold;
	options.isolation = isolation;
	options.log_dir = run.dir;
	options.log_name = "out";
	proc_start_with(&run, &task, &options);
	proc_await_start(&run, &task);
	proc_await_output(&run, "out");
	assert_int_equal(tfc_port_hold_listener(hold, tfc__process_shim(task.process), &listener),
			 0);
	assert_int_equal(listener.count, 1);
	assert_true(listener.is_ours);
	assert_true(proc_is_alive(task.pid));
	tfc_process_stop(task.process, 0);
	proc_await_end(&run, &task);
	proc_close(&task);
	tfc_port_hold_release(hold);
	tfc_port_pool_close(pool);
	proc_run_end(&run);
}

/* A search for orphans alone may chase such a chain for as long as it likes. */
static void endless_double_forkers_are_ended(void **state)
{
	struct proc_run run;
	struct proc_task task;
	char name[16];
	if (isolation == TFC_ISOLATION_PLAIN)
		return;
	snprintf(name, sizeof(name), "breed-%d", (int)getpid());
	proc_run_begin(&run);
	proc_start_isolated(&run, &task, isolation, "bred", "breed", name, "wait", NULL);
	proc_await_start(&run, &task);
	proc_await_output(&run, "bred");
	uint64_t begin = tfc__now();
	tfc_process_stop(task.process, 0);
	proc_await_end(&run, &task);
	assert_true(tfc__now() - begin < BREED_LIMIT);
	assert_int_equal(task.end.status, SIGKILL);
	assert_int_equal(proc_count_named(name), 0);
	proc_close(&task);
	proc_run_end(&run);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_isolation_that_applies_is_reported),
		cmocka_unit_test(every_exit_code_is_reported),
		cmocka_unit_test(every_deadly_signal_is_reported),
		cmocka_unit_test(a_missing_program_is_reported_and_output_is_whole),
		cmocka_unit_test(a_stop_gives_the_grace_and_no_more),
		cmocka_unit_test(signals_reach_the_program),
		cmocka_unit_test(signals_that_end_a_node_end_no_helper),
		cmocka_unit_test(the_listener_of_a_task_is_recognized),
		cmocka_unit_test(endless_double_forkers_are_ended),
	};
	int status = proc_isolation_of(argc, argv, &isolation);
	return status ? status : cmocka_run_group_tests_name(argv[1], tests, NULL, NULL);
}
