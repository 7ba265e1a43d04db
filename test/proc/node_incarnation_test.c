/* node: one that is started again waits for the tasks of its previous incarnation, by the locks of
 * its state directory alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent_order.h"
#include "agent_run.h"
#include "base/clock.h"
#include "base/file.h"
#include "folder.h"
#include "leaks.h"
#include "proc/dir_lock.h"
#include "proc/proc.h"
#include "proc/task_lock.h"
#include "proc_run.h"

#define MARGIN_MS 10000 /* for guard and shim, beyond the grace */

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);

static bool is_query_broken; /* F_OFD_GETLK fails */

int __wrap_fcntl64(int fd, int command, ...)
{
	va_list args;
	va_start(args, command);
	void *argument = va_arg(args, void *);
	va_end(args);
	if (is_query_broken && command == F_OFD_GETLK) {
		errno = EIO;
		return -1;
	}
	return __real_fcntl64(fd, command, argument);
}

/* Its guard does not come to stop the task: it is stopped itself. */
static void die_beside_stopped_guard(struct dead_host *dead, const char *dir)
{
	dead_host_start(dead, dir);
	proc_stop(dead->guard);
	dead_host_kill(dead);
}

/* ---- the wait */

static void
nothing_is_held_and_no_query_served_beside_tasks_of_the_previous_incarnation(void **state)
{
	char dir[LEAKS_PATH], private[LEAKS_PATH * 2];
	struct agent_run run;
	struct dead_host dead;
	leaks_make_dir(dir);
	die_beside_stopped_guard(&dead, dir);
	find_private_dir(dir, private);
	int lock = tfc__dir_lock_open(private, false);
	int place = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct tfc__task_locks locks;
	assert_true(lock >= 0);
	assert_false(tfc__dir_lock_acquire(lock));
	assert_int_equal(tfc__task_lock_query(place, &locks), 0);
	close(place);
	assert_true(locks.has_guard && locks.has_tasks);
	assert_int_equal(locks.grace_ms, AGENT_RUN_GRACE_MS);
	assert_int_equal(agent_run_begin(&run, dir), 0);
	agent_query(&tfc__local_agent_ops, run.job, 1);
	agent_run_for(&run, 200 * TFC__MS);
	assert_true(proc_is_alive(dead.task));
	assert_false(run.is_held);
	assert_false(run.is_answered);
	assert_false(tfc__agent_is_alone(run.agent));
	assert_int_equal(kill(dead.guard, SIGCONT), 0);
	agent_run_until(&run, &run.is_answered, 30);
	assert_false(proc_is_alive(dead.task));
	assert_true(tfc__agent_is_alone(run.agent));
	agent_run_until(&run, &run.is_held, 30);
	close(lock);
	agent_run_end(&run);
	assert_int_equal(agent_run_begin(&run, dir),
			 0); /* after an orderly end nothing is waited for */
	assert_true(tfc__agent_is_alone(run.agent));
	agent_run_until(&run, &run.is_held, 30);
	agent_run_end(&run);
	assert_true(proc_await_gone(dead.guard, 5000));
	assert_int_equal(tfc__remove_tree(dir), 0);
}

static void shims_whose_guard_was_killed_are_waited_for(void **state)
{
	char dir[LEAKS_PATH];
	struct agent_run run;
	struct dead_host dead;
	leaks_make_dir(dir);
	dead_host_die_with_guard(&dead, dir, false);
	assert_int_equal(agent_run_begin(&run, dir), 0);
	agent_query(&tfc__local_agent_ops, run.job, 1);
	assert_false(tfc__agent_is_alone(run.agent));
	agent_run_until(&run, &run.is_answered, 30);
	assert_false(proc_is_alive(dead.task));
	assert_false(proc_is_alive(dead.shim));
	assert_true(tfc__agent_is_alone(run.agent));
	agent_run_await_private_dirs(&run, dir, 1);
	agent_run_end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* Numbers of processes say nothing there: only the lock does. */
static _Noreturn void be_next_in_pid_namespace(const char *dir)
{
	struct agent_run run;
	if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		_exit(77);
	pid_t first = fork();
	if (first == 0) {
		if (mount("proc", "/proc", "proc", 0, NULL) < 0)
			_exit(77);
		if (agent_run_begin(&run, dir) < 0)
			_exit(1);
		for (uint64_t until = tfc__now() + 300 * TFC__MS; tfc__now() < until;)
			if (tfc_ctx_run(run.ctx, 10) < 0)
				_exit(2);
		bool is_beside = run.is_held || tfc__agent_is_alone(run.agent);
		agent_run_end(&run);
		_exit(is_beside ? 3 : 0);
	}
	int status = 0;
	_exit(first < 0 || waitpid(first, &status, 0) < 0 || !WIFEXITED(status)
		      ? 4
		      : WEXITSTATUS(status));
}

static void tasks_are_waited_for_from_another_pid_namespace(void **state)
{
	char dir[LEAKS_PATH];
	struct dead_host dead;
	int status;
	leaks_make_dir(dir);
	die_beside_stopped_guard(&dead, dir);
	pid_t next = fork();
	assert_true(next >= 0);
	if (next == 0)
		be_next_in_pid_namespace(dir);
	assert_int_equal(waitpid(next, &status, 0), next);
	assert_true(proc_is_alive(dead.task));
	assert_int_equal(kill(dead.guard, SIGCONT), 0);
	assert_true(proc_await_gone(dead.guard, 5000));
	assert_int_equal(tfc__remove_tree(dir), 0);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Its shims end their tasks without it. */
static void a_stopped_guard_delays_by_no_more_than_grace_and_margin(void **state)
{
	char dir[LEAKS_PATH];
	struct agent_run run;
	struct dead_host dead;
	leaks_make_dir(dir);
	die_beside_stopped_guard(&dead, dir);
	uint64_t begun = tfc__now();
	assert_int_equal(agent_run_begin(&run, dir), 0);
	agent_query(&tfc__local_agent_ops, run.job, 1);
	agent_run_until(&run, &run.is_answered, 30);
	assert_true(tfc__now() < begun + (AGENT_RUN_GRACE_MS + MARGIN_MS + 5000) * TFC__MS);
	assert_false(proc_is_alive(dead.task));
	assert_false(tfc__agent_is_alone(run.agent)); /* others wait for their leases */
	assert_int_equal(kill(dead.guard, SIGCONT), 0);
	assert_true(proc_await_gone(dead.guard, 5000));
	agent_run_end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

static void tasks_that_may_be_alive_are_waited_for_however_long_it_takes(void **state)
{
	char dir[LEAKS_PATH];
	struct agent_run run;
	struct dead_host dead;
	leaks_make_dir(dir);
	dead_host_start(&dead, dir);
	proc_stop(dead.guard);
	proc_stop(dead.shim);
	dead_host_kill(&dead);
	assert_int_equal(agent_run_begin(&run, dir), 0);
	agent_query(&tfc__local_agent_ops, run.job, 1);
	agent_run_for(&run, (AGENT_RUN_GRACE_MS + MARGIN_MS + 500) * TFC__MS);
	assert_true(proc_is_alive(dead.task));
	assert_false(run.is_held);
	assert_false(run.is_answered);
	assert_int_equal(kill(dead.shim, SIGCONT), 0);
	agent_run_until(&run, &run.is_answered, 30);
	assert_false(proc_is_alive(dead.task));
	assert_int_equal(kill(dead.guard, SIGCONT), 0);
	assert_true(proc_await_gone(dead.guard, 5000));
	agent_run_end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* The tasks are found by the state directory itself. */
static void nothing_that_is_removed_or_damaged_hides_tasks(void **state)
{
	static const char *const damages[] = {
		"rm run",
		": >run",
		"head -c 100 /dev/urandom >run",
		"rm tfc-*/lock",
		"rm -r tfc-*",
		"rm -r tfc-* run",
		"chmod 0 run tfc-*",
	};
	char dir[LEAKS_PATH], command[LEAKS_PATH * 2];
	struct agent_run run;
	struct dead_host dead;
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		leaks_make_dir(dir);
		die_beside_stopped_guard(&dead, dir);
		snprintf(command, sizeof(command), "cd %s && %s", dir, damages[i]);
		assert_int_equal(system(command), 0);
		assert_int_equal(agent_run_begin(&run, dir), 0);
		agent_query(&tfc__local_agent_ops, run.job, 1);
		agent_run_for(&run, 100 * TFC__MS);
		assert_true(proc_is_alive(dead.task));
		if (run.is_held || run.is_answered)
			fail_msg("tasks are not waited for after \"%s\"", damages[i]);
		assert_int_equal(kill(dead.guard, SIGCONT), 0);
		agent_run_until(&run, &run.is_answered, 30);
		assert_false(proc_is_alive(dead.task));
		assert_true(tfc__agent_is_alone(run.agent));
		agent_run_end(&run);
		assert_true(proc_await_gone(dead.guard, 5000));
		assert_int_equal(tfc__remove_tree(dir), 0);
	}
}

static void what_cannot_be_queried_counts_as_held(void **state)
{
	char dir[LEAKS_PATH];
	struct agent_run run;
	struct dead_host dead;
	leaks_make_dir(dir);
	is_query_broken = true;
	assert_int_equal(agent_run_open(&run, dir, dir), TFC_ESYS);
	assert_non_null(strstr(tfc_ctx_error(run.ctx)->text, "cannot query the locks of"));
	is_query_broken = false;
	agent_run_end(&run);
	die_beside_stopped_guard(&dead, dir);
	assert_int_equal(agent_run_begin(&run, dir), 0);
	is_query_broken = true;
	assert_int_equal(kill(dead.guard, SIGCONT), 0);
	assert_true(proc_await_gone(dead.guard, 5000));
	agent_run_for(&run, 200 * TFC__MS);
	assert_false(run.is_held);
	is_query_broken = false;
	agent_run_until(&run, &run.is_held, 30);
	agent_run_end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

static void note_end(void *user, const tfc_process_event *event)
{
	*(bool *)user |= event->kind == TFC_PROCESS_EXITED;
}

/* The guard has begun its work, then. */
static int run_true(tfc_ctx *ctx)
{
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	const char *const argv[] = {"true", NULL};
	tfc_process *process;
	bool has_ended = false;
	options.argv = argv;
	int code = tfc_process_spawn(ctx, &options, note_end, &has_ended, &process);
	while (code == TFC_OK && !has_ended)
		tfc_ctx_run(ctx, 100);
	if (code == TFC_OK)
		tfc_process_close(process);
	return code;
}

/* The launch is in the guard's socket when the host is killed. */
static void be_host_of_stopped_guard(int report, const char *dir)
{
	struct agent_run run;
	tfc_spec *spec;
	if (agent_run_begin(&run, dir) < 0 || run_true(run.ctx) < 0)
		_exit(1);
	while (!run.is_held)
		tfc_ctx_run(run.ctx, 100);
	if (tfc_spec_new(&spec) < 0 || tfc_spec_add(spec, "worker", 0, run.address, NULL) < 0)
		_exit(2);
	pid_t guard = tfc__guard_pid(run.ctx);
	if (kill(guard, SIGSTOP) < 0)
		_exit(3);
	agent_launch(&tfc__local_agent_ops, run.job, 0, spec);
	for (int i = 0; i < 10; i++)
		tfc_ctx_run(run.ctx, 10);
	if (write(report, &guard, sizeof(guard)) != sizeof(guard))
		_exit(4);
	for (;;)
		pause();
}

static void a_guard_that_was_stopped_starts_nothing_for_a_dead_host(void **state)
{
	char dir[LEAKS_PATH], command[LEAKS_PATH * 2];
	struct agent_run run;
	struct dead_host dead;
	leaks_make_dir(dir);
	dead.guard = dead_host_fork(&dead, be_host_of_stopped_guard, dir);
	dead_host_kill(&dead);
	assert_int_equal(agent_run_begin(&run, dir), 0);
	agent_run_until(&run, &run.is_held, 30); /* there is no task */
	assert_int_equal(kill(dead.guard, SIGCONT), 0);
	assert_true(proc_await_gone(dead.guard, 5000));
	/* a shim would have made its log first */
	snprintf(command, sizeof(command), "test -z \"$(find %s/logs -name 'worker*')\"", dir);
	assert_int_equal(system(command), 0);
	agent_run_end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

static void no_task_inherits_the_lock(void **state)
{
	char dir[LEAKS_PATH], fds[64];
	struct dead_host dead;
	leaks_make_dir(dir);
	dead_host_start(&dead, dir);
	snprintf(fds, sizeof(fds), "/proc/%d/fd", (int)dead.task);
	assert_int_equal(folder_count(fds, ""), 4); /* standard streams and a file of its own */
	dead_host_kill(&dead);
	assert_true(proc_await_gone(dead.guard, 5000));
	assert_int_equal(folder_count(dir, "tfc-"), 0);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			nothing_is_held_and_no_query_served_beside_tasks_of_the_previous_incarnation),
		cmocka_unit_test(shims_whose_guard_was_killed_are_waited_for),
		cmocka_unit_test(tasks_are_waited_for_from_another_pid_namespace),
		cmocka_unit_test(a_stopped_guard_delays_by_no_more_than_grace_and_margin),
		cmocka_unit_test(tasks_that_may_be_alive_are_waited_for_however_long_it_takes),
		cmocka_unit_test(nothing_that_is_removed_or_damaged_hides_tasks),
		cmocka_unit_test(what_cannot_be_queried_counts_as_held),
		cmocka_unit_test(a_guard_that_was_stopped_starts_nothing_for_a_dead_host),
		cmocka_unit_test(no_task_inherits_the_lock),
	};
	return cmocka_run_group_tests_name("node_incarnation", tests, NULL, NULL);
}
