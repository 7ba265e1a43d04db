/* proc: whatever becomes of the host, its tasks are gone within the grace and a little more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "folder.h"
#include "port/port.h"
#include "proc/proc.h"
#include "proc_run.h"

#define GRACE_MS 1000
#define TASKS 4

/* What a host reports to the test before it dies. */
struct family {
	pid_t guard;
	pid_t tasks[TASKS];
	pid_t daemon;
	uint16_t port;
};

typedef void (*death_fn)(struct proc_run *run);

static void start_family(struct proc_run *run, struct family *family)
{
	static struct proc_task tasks[TASKS];
	tfc_port_pool *pool;
	tfc_port_hold *hold;
	const char *mark = proc_path(run, "pid");
	struct tfc__private_dir *dir;
	assert_int_equal(tfc__private_dir_open(run->ctx, run->dir, -1, "test", NULL, &dir), 0);
	assert_int_equal(tfc_port_pool_open(run->ctx, NULL, &pool), 0);
	assert_int_equal(tfc_port_acquire(pool, 0, &hold), 0);
	assert_int_equal(tfc__guard_keep(run->ctx, hold), 0);
	proc_start(run, &tasks[0], "a", "deaf", "child", "wait", NULL);
	proc_start(run, &tasks[1], "b", "stop", "wait", NULL);
	proc_start(run, &tasks[2], "c", "daemon", mark, "wait", NULL);
	proc_start(run, &tasks[3], NULL, "wait", NULL);
	for (int i = 0; i < TASKS; i++) {
		proc_await_start(run, &tasks[i]);
		family->tasks[i] = tasks[i].pid;
	}
	family->daemon = (pid_t)proc_await_number(mark);
	family->guard = proc_parent(proc_parent(tasks[0].pid));
	family->port = tfc_port_hold_number(hold);
}

/* Runs in a child: starts the family, reports its pids, then dies. */
static _Noreturn void be_host(int report, const char *dir, death_fn die)
{
	struct proc_run run = {.dir = strdup(dir)};
	struct family family;
	if (proc_ctx_new(&run.ctx) < 0)
		_exit(1);
	start_family(&run, &family);
	if (write(report, &family, sizeof(family)) != sizeof(family))
		_exit(2);
	die(&run);
	_exit(3);
}

static bool port_is_free(uint16_t port)
{
	tfc_ctx *ctx;
	tfc_port_pool *pool;
	tfc_port_hold *hold = NULL;
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), 0);
	assert_int_equal(tfc_port_pool_open(ctx, NULL, &pool), 0);
	bool is_free = tfc_port_acquire(pool, port, &hold) == 0;
	tfc_port_hold_release(hold);
	tfc_port_pool_close(pool);
	tfc_ctx_free(ctx);
	return is_free;
}

static void assert_all_gone(const struct family *family, const char *dir, uint64_t since)
{
	uint64_t limit = since + (GRACE_MS + 2000) * TFC__MS;
	pid_t pids[TASKS + 2];
	memcpy(pids, family->tasks, sizeof(family->tasks));
	pids[TASKS] = family->daemon;
	pids[TASKS + 1] = family->guard;
	for (int i = 0; i < TASKS + 2; i++) {
		uint64_t now = tfc__now();
		int left = now < limit ? (int)((limit - now) / TFC__MS) : 0;
		if (!proc_await_gone(pids[i], left))
			fail_msg("process %d of the family still runs", i);
	}
	assert_true(tfc__now() < limit);
	assert_int_equal(folder_count(dir, "tfc-"), 0);
	assert_true(port_is_free(family->port));
}

static void assert_host_leaves_nothing(death_fn die, bool is_exec)
{
	struct proc_run run;
	struct family family;
	int ends[2], status;
	proc_run_begin(&run);
	assert_int_equal(pipe(ends), 0);
	pid_t host = fork();
	assert_true(host >= 0);
	if (host == 0) {
		close(ends[0]);
		be_host(ends[1], run.dir, die);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &family, sizeof(family)), sizeof(family));
	assert_false(port_is_free(family.port));
	close(ends[0]);
	if (!is_exec)
		assert_int_equal(waitpid(host, &status, 0), host);
	assert_all_gone(&family, run.dir, tfc__now());
	if (is_exec) {
		assert_true(proc_is_alive(host));
		kill(host, SIGKILL);
		assert_int_equal(waitpid(host, &status, 0), host);
	}
	proc_run_end(&run);
}

static void die_of_kill(struct proc_run *run)
{
	raise(SIGKILL);
}

static void die_of_abort(struct proc_run *run)
{
	struct rlimit none = {0, 0};
	setrlimit(RLIMIT_CORE, &none);
	signal(SIGABRT, SIG_DFL);
	abort();
}

static void become_another_program(struct proc_run *run)
{
	execl(proc_task_program(), "test_task", "wait", NULL);
}

/* The child has copies of all descriptors and lives on for longer than the test looks. */
static void die_and_leave_a_fork(struct proc_run *run)
{
	if (fork() == 0) {
		alarm(8);
		for (;;)
			pause();
	}
	raise(SIGKILL);
}

static void exit_without_a_word(struct proc_run *run)
{
	_exit(0);
}

static void killed_host_leaves_nothing(void **state)
{
	assert_host_leaves_nothing(die_of_kill, false);
}

static void aborted_host_leaves_nothing(void **state)
{
	assert_host_leaves_nothing(die_of_abort, false);
}

static void exiting_host_leaves_nothing(void **state)
{
	assert_host_leaves_nothing(exit_without_a_word, false);
}

static void host_that_execs_leaves_nothing(void **state)
{
	assert_host_leaves_nothing(become_another_program, true);
}

static void killed_host_with_a_living_fork_leaves_nothing(void **state)
{
	assert_host_leaves_nothing(die_and_leave_a_fork, false);
}

/* ---- what is said last */

static pid_t only_child(void)
{
	char path[64];
	int child = 0;
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	FILE *file = fopen(path, "re");
	if (!file || fscanf(file, "%d", &child) != 1)
		child = 0;
	if (file)
		fclose(file);
	return child;
}

/* Runs in a child: its guard receives the directory only when the host is dead. */
static _Noreturn void own_and_die(int report, const char *dir)
{
	tfc_ctx *ctx;
	if (proc_ctx_new(&ctx) < 0 || tfc__guard_start(ctx) < 0)
		_exit(1);
	pid_t guard = only_child();
	struct tfc__private_dir *own;
	if (!guard || kill(guard, SIGSTOP) < 0 ||
	    tfc__private_dir_open(ctx, dir, -1, "test", NULL, &own) < 0 ||
	    write(report, &guard, sizeof(guard)) != sizeof(guard))
		_exit(2);
	raise(SIGKILL);
	_exit(3);
}

static void a_directory_made_in_the_last_moment_is_removed(void **state)
{
	struct proc_run run;
	pid_t guard;
	int ends[2], end;
	proc_run_begin(&run);
	assert_int_equal(pipe(ends), 0);
	pid_t host = fork();
	assert_true(host >= 0);
	if (host == 0)
		own_and_die(ends[1], run.dir);
	close(ends[1]);
	assert_int_equal(read(ends[0], &guard, sizeof(guard)), sizeof(guard));
	close(ends[0]);
	assert_int_equal(waitpid(host, &end, 0), host);
	assert_int_equal(folder_count(run.dir, "tfc-"), 1);
	assert_int_equal(kill(guard, SIGCONT), 0);
	assert_true(proc_await_gone(guard, 5000));
	assert_int_equal(folder_count(run.dir, "tfc-"), 0);
	proc_run_end(&run);
}

/* ---- what is no death */

struct threaded {
	struct proc_run *run;
	struct proc_task *task;
};

static void *start_in_thread(void *user)
{
	struct threaded *threaded = user;
	proc_start(threaded->run, threaded->task, NULL, "wait", NULL);
	proc_await_start(threaded->run, threaded->task);
	return NULL;
}

static void a_process_outlives_the_thread_that_started_it(void **state)
{
	struct proc_run run;
	struct proc_task task;
	struct threaded threaded = {&run, &task};
	pthread_t thread;
	proc_run_begin(&run);
	assert_int_equal(pthread_create(&thread, NULL, start_in_thread, &threaded), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_false(proc_await_gone(task.pid, 300));
	assert_int_equal(tfc_process_stop(task.process, 1000), 0);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.status, SIGTERM);
	proc_close(&task);
	proc_run_end(&run);
}

static void an_abandoning_child_disturbs_nothing(void **state)
{
	struct proc_run run;
	struct proc_task task;
	int status;
	proc_run_begin(&run);
	proc_start(&run, &task, NULL, "wait", NULL);
	proc_await_start(&run, &task);
	pid_t child = fork();
	if (child == 0) {
		tfc_process *other;
		tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
		int code = tfc_process_spawn(run.ctx, &options, NULL, NULL, &other);
		if (code != TFC_EFORK || tfc_process_stop(task.process, 0) != TFC_EFORK)
			_exit(1);
		tfc_ctx_abandon(run.ctx);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_false(proc_await_gone(task.pid, 200));
	assert_int_equal(tfc_process_stop(task.process, 1000), 0);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.status, SIGTERM);
	proc_close(&task);
	proc_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_host_leaves_nothing),
		cmocka_unit_test(aborted_host_leaves_nothing),
		cmocka_unit_test(exiting_host_leaves_nothing),
		cmocka_unit_test(host_that_execs_leaves_nothing),
		cmocka_unit_test(killed_host_with_a_living_fork_leaves_nothing),
		cmocka_unit_test(a_directory_made_in_the_last_moment_is_removed),
		cmocka_unit_test(a_process_outlives_the_thread_that_started_it),
		cmocka_unit_test(an_abandoning_child_disturbs_nothing),
	};
	return cmocka_run_group_tests_name("proc_orphan", tests, NULL, NULL);
}
