/* proc: a cgroup per task, removed in the end, whoever dies; refused where none can be made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <grp.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/proc.h"
#include "proc_run.h"

#define NOBODY 65534

static void await_removal(const char *path)
{
	char copy[4096];
	struct stat status;
	snprintf(copy, sizeof(copy), "%s", path);
	int watch = proc_watch(dirname(copy));
	while (stat(path, &status) == 0)
		proc_await_change(watch, path);
	assert_int_equal(errno, ENOENT);
	close(watch);
}

/* The directories of a running task and of its guard. */
struct groups {
	char task[4096];
	char guard[4096];
};

static void find_groups(const struct proc_task *task, struct groups *groups)
{
	char copy[4096];
	struct stat status;
	proc_group(task->pid, groups->task);
	memcpy(copy, groups->task, sizeof(copy));
	snprintf(groups->guard, sizeof(groups->guard), "%s", dirname(copy));
	assert_non_null(strstr(groups->guard, "/tfc-"));
	assert_int_equal(stat(groups->task, &status), 0);
}

static void auto_is_a_cgroup_where_one_can_be_made(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	proc_start(&run, &task, NULL, "exit", "0", NULL);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.isolation, TFC_ISOLATION_CGROUP);
	proc_close(&task);
	proc_run_end(&run);
}

static void the_directories_go_with_task_and_guard(void **state)
{
	struct proc_run run;
	struct proc_task tasks[3];
	struct groups groups[3];
	struct stat status;
	proc_run_begin(&run);
	for (int i = 0; i < 3; i++) {
		proc_start_isolated(&run, &tasks[i], TFC_ISOLATION_CGROUP, NULL, "child", "wait",
				    NULL);
		proc_await_start(&run, &tasks[i]);
		find_groups(&tasks[i], &groups[i]);
		assert_string_equal(groups[i].guard, groups[0].guard);
	}
	for (int i = 0; i < 3; i++) {
		tfc_process_stop(tasks[i].process, 1000);
		proc_await_end(&run, &tasks[i]);
		assert_int_equal(stat(groups[i].task, &status), -1);
		assert_int_equal(stat(groups[i].guard, &status), 0);
		proc_close(&tasks[i]);
	}
	proc_run_end(&run);
	await_removal(groups[0].guard);
}

/* Runs in a child: one task, whose cgroups it reports; then it is killed. */
static _Noreturn void be_host(int report)
{
	struct proc_run run;
	struct proc_task task;
	struct groups groups;
	proc_run_begin(&run);
	proc_start_isolated(&run, &task, TFC_ISOLATION_CGROUP, NULL, "deaf", "child", "wait", NULL);
	proc_await_start(&run, &task);
	find_groups(&task, &groups);
	rmdir(run.dir);
	if (write(report, &groups, sizeof(groups)) != (ssize_t)sizeof(groups))
		_exit(1);
	raise(SIGKILL);
	_exit(1);
}

static void they_go_when_the_host_is_killed(void **state)
{
	int ends[2], status;
	struct groups groups;
	assert_int_equal(pipe(ends), 0);
	pid_t host = fork();
	assert_true(host >= 0);
	if (host == 0)
		be_host(ends[1]);
	close(ends[1]);
	assert_int_equal(read(ends[0], &groups, sizeof(groups)), sizeof(groups));
	close(ends[0]);
	assert_int_equal(waitpid(host, &status, 0), host);
	await_removal(groups.task);
	await_removal(groups.guard);
}

static void they_go_when_the_guard_is_killed(void **state)
{
	struct proc_run run;
	struct proc_task tasks[2];
	struct groups groups[2];
	proc_run_begin(&run);
	for (int i = 0; i < 2; i++) {
		proc_start_isolated(&run, &tasks[i], TFC_ISOLATION_CGROUP, NULL, "wait", NULL);
		proc_await_start(&run, &tasks[i]);
		find_groups(&tasks[i], &groups[i]);
	}
	assert_int_equal(kill(proc_parent(tfc__process_shim(tasks[0].process)), SIGKILL), 0);
	for (int i = 0; i < 2; i++) {
		proc_await_end(&run, &tasks[i]);
		assert_int_equal(tasks[i].end.reason, TFC_EXIT_LOST);
		await_removal(groups[i].task);
		proc_close(&tasks[i]);
	}
	await_removal(groups[0].guard);
	proc_run_end(&run);
}

/* The task dies by its parent-death signal; what it left is in the group: another guard ends it. */
static void what_guard_and_shim_left_is_ended_in_their_place(void **state)
{
	struct proc_run run;
	struct proc_task task;
	struct groups groups;
	proc_run_begin(&run);
	proc_start_isolated(&run, &task, TFC_ISOLATION_CGROUP, NULL, "daemon",
			    proc_path(&run, "pid"), "wait", NULL);
	proc_await_start(&run, &task);
	pid_t daemon = (pid_t)proc_await_number(proc_path(&run, "pid"));
	pid_t shim = tfc__process_shim(task.process), guard = proc_parent(shim);
	find_groups(&task, &groups);
	proc_stop(guard);
	proc_stop(shim);
	assert_int_equal(kill(guard, SIGKILL), 0);
	assert_int_equal(kill(shim, SIGKILL), 0);
	proc_await_end(&run, &task);
	assert_true(proc_await_gone(shim, 5000) && proc_await_gone(guard, 5000));
	assert_true(proc_await_gone(daemon, 5000));
	proc_close(&task);
	proc_run_end(&run);
	await_removal(groups.task);
	await_removal(groups.guard);
}

/* As a container runner in a task does, or a task that means harm: also in the guard's directory.
 */
static void make_below(const char *above, const char *const names[])
{
	char path[4200];
	for (; *names; names++) {
		snprintf(path, sizeof(path), "%s/%s", above, *names);
		assert_int_equal(mkdir(path, 0755), 0);
	}
}

static void groups_that_a_task_has_made_go_too(void **state)
{
	static const char *const in_task[] = {"a", "a/b", "a/b/c", "a/d", "e", NULL};
	static const char *const in_guard[] = {"x", "x/y", NULL};
	struct proc_run run;
	struct proc_task task;
	struct groups groups;
	struct stat status;
	proc_run_begin(&run);
	proc_start_isolated(&run, &task, TFC_ISOLATION_CGROUP, NULL, "wait", NULL);
	proc_await_start(&run, &task);
	find_groups(&task, &groups);
	make_below(groups.task, in_task);
	make_below(groups.guard, in_guard);
	tfc_process_stop(task.process, 1000);
	proc_await_end(&run, &task);
	assert_int_equal(stat(groups.task, &status), -1);
	proc_close(&task);
	proc_run_end(&run);
	await_removal(groups.guard);
}

static void groups_that_a_task_has_made_go_with_a_lost_shim(void **state)
{
	static const char *const in_task[] = {"a", "a/b", NULL};
	struct proc_run run;
	struct proc_task task;
	struct groups groups;
	proc_run_begin(&run);
	proc_start_isolated(&run, &task, TFC_ISOLATION_CGROUP, NULL, "wait", NULL);
	proc_await_start(&run, &task);
	find_groups(&task, &groups);
	make_below(groups.task, in_task);
	assert_int_equal(kill(tfc__process_shim(task.process), SIGKILL), 0);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_LOST);
	await_removal(groups.task);
	proc_close(&task);
	proc_run_end(&run);
	await_removal(groups.guard);
}

/* ---- another user, who has no cgroup to write to, in a child of the test */

static void be_unprivileged(void)
{
	struct proc_run run;
	struct proc_task task;
	assert_int_equal(setgroups(0, NULL), 0);
	assert_int_equal(setresgid(NOBODY, NOBODY, NOBODY), 0);
	assert_int_equal(setresuid(NOBODY, NOBODY, NOBODY), 0);
	prctl(PR_SET_DUMPABLE, 1);
	proc_run_begin(&run);
	proc_start_isolated(&run, &task, TFC_ISOLATION_CGROUP, NULL, "exit", "0", NULL);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_NOT_STARTED);
	assert_non_null(strstr(task.text, "creating a cgroup failed: "));
	assert_non_null(strstr(task.text, "Delegate=yes"));
	proc_close(&task);
	proc_start(&run, &task, NULL, "exit", "7", NULL);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.isolation, TFC_ISOLATION_PLAIN);
	assert_int_equal(task.end.status, 7);
	proc_close(&task);
	proc_run_end(&run);
}

static void where_none_can_be_made_it_is_refused_and_auto_is_plain(void **state)
{
	int status;
	if (geteuid() != 0)
		return;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		be_unprivileged();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(auto_is_a_cgroup_where_one_can_be_made),
		cmocka_unit_test(the_directories_go_with_task_and_guard),
		cmocka_unit_test(they_go_when_the_host_is_killed),
		cmocka_unit_test(they_go_when_the_guard_is_killed),
		cmocka_unit_test(what_guard_and_shim_left_is_ended_in_their_place),
		cmocka_unit_test(groups_that_a_task_has_made_go_too),
		cmocka_unit_test(groups_that_a_task_has_made_go_with_a_lost_shim),
		cmocka_unit_test(where_none_can_be_made_it_is_refused_and_auto_is_plain),
	};
	if (!proc_can_isolate(TFC_ISOLATION_CGROUP))
		return 77;
	return cmocka_run_group_tests_name("proc_cgroup", tests, NULL, NULL);
}
