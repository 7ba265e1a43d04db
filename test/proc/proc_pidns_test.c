/* proc: a PID namespace per task leaves nothing, whoever dies, and shows the task itself alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/proc.h"
#include "proc_run.h"

#define NOBODY 65534
#define FAMILY 16

/* Kills guard and shim so that neither can do anything about the other's death. */
static void kill_both(pid_t guard, pid_t shim)
{
	proc_stop(guard);
	proc_stop(shim);
	assert_int_equal(kill(guard, SIGKILL), 0);
	assert_int_equal(kill(shim, SIGKILL), 0);
}

static void killing_guard_and_shim_together_leaves_nothing(void **state)
{
	struct proc_run run;
	struct proc_task task;
	pid_t family[FAMILY];
	proc_run_begin(&run);
	for (int i = 0; i < 4; i++) {
		char mark[8] = {'m', (char)('a' + i), 0};
		proc_start_isolated(&run, &task, TFC_ISOLATION_PIDNS, NULL, "deaf", "child",
				    "daemon", proc_path(&run, mark), "wait", NULL);
		proc_await_start(&run, &task);
		proc_await_number(proc_path(&run, mark));
		pid_t shim = tfc__process_shim(task.process);
		size_t count = proc_family(shim, family, FAMILY);
		assert_true(count >= 5); /* shim, init, task, child, daemon */
		kill_both(proc_parent(shim), shim);
		for (size_t j = 0; j < count; j++)
			assert_true(proc_await_gone(family[j], 5000));
		proc_await_end(&run, &task);
		assert_int_equal(task.end.reason, TFC_EXIT_LOST);
		proc_close(&task);
	}
	proc_run_end(&run);
}

static void a_breeder_dies_with_guard_and_shim(void **state)
{
	struct proc_run run;
	struct proc_task task;
	char name[16];
	snprintf(name, sizeof(name), "fork-%d", (int)getpid());
	proc_run_begin(&run);
	proc_start_isolated(&run, &task, TFC_ISOLATION_PIDNS, "bred", "breed", name, "wait", NULL);
	proc_await_start(&run, &task);
	proc_await_output(&run, "bred");
	pid_t shim = tfc__process_shim(task.process), family[2];
	pid_t init = proc_family(shim, family, 2) == 2 ? family[1] : 0;
	kill_both(proc_parent(shim), shim);
	proc_await_end(&run, &task);
	assert_true(init > 0 && proc_await_gone(init, 20000));
	assert_int_equal(proc_count_named(name), 0);
	proc_close(&task);
	proc_run_end(&run);
}

static void a_killed_init_is_a_killed_task(void **state)
{
	struct proc_run run;
	struct proc_task task;
	pid_t family[FAMILY];
	proc_run_begin(&run);
	proc_start_isolated(&run, &task, TFC_ISOLATION_PIDNS, NULL, "deaf", "child", "wait", NULL);
	proc_await_start(&run, &task);
	size_t count = proc_family(tfc__process_shim(task.process), family, FAMILY);
	assert_true(count >= 3);
	pid_t init = 0;
	for (size_t i = 1; i < count && !init; i++)
		if (family[i] != task.pid && proc_parent(family[i]) == family[0])
			init = family[i];
	assert_int_equal(kill(init, SIGKILL), 0);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_SIGNAL);
	assert_int_equal(task.end.status, SIGKILL);
	proc_close(&task);
	proc_run_end(&run);
}

static void assert_task_sees_itself_alone(struct proc_run *run)
{
	struct proc_task task;
	proc_start_isolated(run, &task, TFC_ISOLATION_PIDNS, "out", "processes", NULL);
	proc_await_end(run, &task);
	assert_string_equal(task.text, "");
	assert_int_equal(task.end.status, 0);
	char *output = proc_output(run, "out", NULL);
	assert_string_equal(output, "1 2 \n");
	free(output);
	proc_close(&task);
}

static void a_task_has_a_proc_of_its_own(void **state)
{
	struct proc_run run;
	proc_run_begin(&run);
	assert_task_sees_itself_alone(&run);
	proc_run_end(&run);
}

/* ---- other users, other kernels: in a child of the test */

typedef void (*host_fn)(void);

/* A failed assertion in the child goes on as a test runner there, which then fails. */
static void assert_host_succeeds(host_fn host)
{
	int status;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		host();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void become_nobody(void)
{
	assert_int_equal(setgroups(0, NULL), 0);
	assert_int_equal(setresgid(NOBODY, NOBODY, NOBODY), 0);
	assert_int_equal(setresuid(NOBODY, NOBODY, NOBODY), 0);
	prctl(PR_SET_DUMPABLE, 1); /* its /proc belongs to root otherwise */
}

static void be_unprivileged(void)
{
	struct proc_run run;
	struct proc_task task;
	pid_t family[FAMILY];
	become_nobody();
	proc_run_begin(&run);
	assert_task_sees_itself_alone(&run);
	proc_start_isolated(&run, &task, TFC_ISOLATION_PIDNS, NULL, "exit", "42", NULL);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.status, 42);
	proc_close(&task);
	proc_start_isolated(&run, &task, TFC_ISOLATION_PIDNS, NULL, "deaf", "child", "wait", NULL);
	proc_await_start(&run, &task);
	pid_t shim = tfc__process_shim(task.process);
	size_t count = proc_family(shim, family, FAMILY);
	assert_true(count >= 3);
	kill_both(proc_parent(shim), shim);
	for (size_t i = 0; i < count; i++)
		assert_true(proc_await_gone(family[i], 5000));
	proc_await_end(&run, &task);
	proc_close(&task);
	proc_run_end(&run);
}

static void an_unprivileged_user_has_it_too(void **state)
{
	if (geteuid() == 0)
		assert_host_succeeds(be_unprivileged);
	/* otherwise all of the others were that */
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* A kernel that lets nobody make namespaces, as far as this process and its children see it. */
static void be_forbidden(void)
{
	struct proc_run run;
	struct proc_task task;
	assert_int_equal(unshare(CLONE_NEWUSER), 0);
	put("/proc/self/setgroups", "deny");
	put("/proc/self/uid_map", "0 0 1");
	put("/proc/self/gid_map", "0 0 1");
	put("/proc/sys/user/max_user_namespaces", "0");
	assert_int_equal(prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN), 0);
	proc_run_begin(&run);
	proc_start_isolated(&run, &task, TFC_ISOLATION_PIDNS, NULL, "exit", "0", NULL);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_NOT_STARTED);
	assert_non_null(strstr(task.text, "creating a PID namespace failed: "));
	assert_non_null(strstr(task.text, "user.max_user_namespaces"));
	proc_close(&task);
	proc_run_end(&run);
}

static void where_the_kernel_forbids_it_the_start_is_refused(void **state)
{
	if (geteuid() == 0)
		assert_host_succeeds(be_forbidden);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killing_guard_and_shim_together_leaves_nothing),
		cmocka_unit_test(a_breeder_dies_with_guard_and_shim),
		cmocka_unit_test(a_killed_init_is_a_killed_task),
		cmocka_unit_test(a_task_has_a_proc_of_its_own),
		cmocka_unit_test(an_unprivileged_user_has_it_too),
		cmocka_unit_test(where_the_kernel_forbids_it_the_start_is_refused),
	};
	if (!proc_can_isolate(TFC_ISOLATION_PIDNS))
		return 77;
	return cmocka_run_group_tests_name("proc_pidns", tests, NULL, NULL);
}
