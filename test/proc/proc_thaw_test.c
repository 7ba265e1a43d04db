/*
 * proc: a machine that stood still past a deadline keeps it when it goes on. What was to be killed
 * in the meantime is killed at once, and nothing gets its grace a second time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "freezer.h"
#include "leaks.h"
#include "proc/proc.h"
#include "proc_run.h"

#define LEASE_MS 3000  /* in which all begin, also on a busy machine */
#define SHORT_MS 500   /* graces: over while the machine stands still, */
#define LONG_MS 2000   /* and not yet over then */
#define AT_ONCE_MS 100 /* what the kernel, guard and shim may take to kill */
#define PATIENCE_MS 30000

/* Which tasks there are: each writes the time into a file of its own, every millisecond. */
enum { SHORT, LONG, STOPPED, TASKS };

struct news {
	pid_t pids[TASKS];
	uint64_t lease_end; /* CLOCK_BOOTTIME */
	uint64_t stop_end;  /* of the stop with SHORT_MS that was asked for just before */
};

struct frozen {
	struct freezer freezer;
	char dir[LEAKS_PATH];
};

static void file_of(const struct frozen *frozen, int task, char path[LEAKS_PATH + 16])
{
	snprintf(path, LEAKS_PATH + 16, "%s/tick-%d", frozen->dir, task);
}

/* 0: nothing yet. */
static uint64_t last_tick(const struct frozen *frozen, int task)
{
	char path[LEAKS_PATH + 16];
	uint64_t at = 0;
	file_of(frozen, task, path);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, &at, sizeof(at)) != sizeof(at))
		at = 0;
	if (fd >= 0)
		close(fd);
	return at;
}

/* ---- the host, in a child */

static void note_over(void *user)
{
	++*(int *)user;
}

static void note(void *user, const tfc_process_event *event)
{
	struct proc_task *task = user;
	if (event->kind == TFC_PROCESS_STARTED)
		task->pid = event->pid;
	else if (event->kind == TFC_PROCESS_EXITED)
		task->end = *event;
	task->ends += event->kind == TFC_PROCESS_EXITED;
}

static int start(const struct frozen *frozen, tfc_ctx *ctx, struct proc_task *task, int number,
		 const struct tfc__run_terms *run_terms)
{
	char path[LEAKS_PATH + 16];
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	const char *argv[] = {proc_task_program(), "deaf", "tick", path, NULL};
	file_of(frozen, number, path);
	options.argv = argv;
	memset(task, 0, sizeof(*task));
	return tfc__process_spawn(ctx, &options, run_terms, note, task, &task->process);
}

static bool have_all_begun(const struct frozen *frozen, const struct proc_task tasks[TASKS])
{
	for (int i = 0; i < TASKS; i++)
		if (!tasks[i].pid || !last_tick(frozen, i))
			return false;
	return true;
}

static _Noreturn void be_host(const struct frozen *frozen, int report)
{
	tfc_ctx *ctx;
	struct tfc__lease *lease;
	struct proc_task tasks[TASKS];
	struct news news = {.lease_end = tfc__boot_time() + LEASE_MS * TFC__MS};
	int overs = 0;
	freezer_join(&frozen->freezer);
	if (proc_ctx_new(&ctx) < 0 ||
	    tfc__lease_begin(ctx, LEASE_MS, news.lease_end, note_over, &overs, &lease) < 0)
		_exit(1);
	const struct tfc__run_terms brief = {lease, SHORT_MS}, patient = {lease, LONG_MS};
	if (start(frozen, ctx, &tasks[SHORT], SHORT, &brief) < 0 ||
	    start(frozen, ctx, &tasks[LONG], LONG, &patient) < 0 ||
	    start(frozen, ctx, &tasks[STOPPED], STOPPED, NULL) < 0)
		_exit(2);
	while (!have_all_begun(frozen, tasks))
		if (overs || tfc_ctx_run(ctx, 1) < 0)
			_exit(6);
	for (int i = 0; i < TASKS; i++)
		news.pids[i] = tasks[i].pid;
	tfc_process_stop(tasks[STOPPED].process, SHORT_MS);
	news.stop_end = tfc__boot_time() + SHORT_MS * TFC__MS;
	if (write(report, &news, sizeof(news)) != sizeof(news))
		_exit(3);
	for (uint64_t end = tfc__now() + PATIENCE_MS * TFC__MS;
	     (!tasks[SHORT].ends || !tasks[LONG].ends || !tasks[STOPPED].ends || !overs) &&
	     tfc__now() < end;)
		tfc_ctx_run(ctx, 100);
	if (tasks[SHORT].end.reason != TFC_EXIT_LOST || tasks[LONG].end.reason != TFC_EXIT_LOST)
		_exit(4);
	if (tasks[STOPPED].end.reason != TFC_EXIT_SIGNAL || tasks[STOPPED].end.is_oom)
		_exit(5);
	for (int i = 0; i < TASKS; i++)
		tfc_process_close(tasks[i].process);
	tfc__lease_end(lease);
	tfc_ctx_free(ctx);
	_exit(0);
}

/* ---- what is promised */

static void sleep_until(uint64_t at)
{
	struct timespec time = {(time_t)(at / TFC__SECOND), (long)(at % TFC__SECOND)};
	while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &time, NULL) != 0)
		;
}

static void assert_last_tick(const struct frozen *frozen, int task, uint64_t not_after,
			     const char *what)
{
	uint64_t last = last_tick(frozen, task);
	assert_true(last > 0);
	print_message("%s: last written %d ms after it was to be killed\n", what,
		      (int)((int64_t)(last - not_after) / (int64_t)TFC__MS));
	assert_true(last <= not_after + AT_ONCE_MS * TFC__MS);
}

static void check_thaw(enum freezer_kind kind, const char *name)
{
	struct frozen frozen;
	struct news news;
	int ends[2], status;
	if (!freezer_make(&frozen.freezer, kind)) {
		print_message("skipped: %s cannot be made here\n", name);
		skip();
	}
	leaks_make_dir(frozen.dir);
	assert_int_equal(pipe(ends), 0);
	pid_t host = fork();
	assert_true(host >= 0);
	if (host == 0)
		be_host(&frozen, ends[1]);
	close(ends[1]);
	assert_int_equal(read(ends[0], &news, sizeof(news)), sizeof(news));
	close(ends[0]);

	freezer_freeze(&frozen.freezer, host);
	uint64_t short_end = news.lease_end + SHORT_MS * TFC__MS;
	uint64_t long_end = news.lease_end + LONG_MS * TFC__MS;
	sleep_until(short_end > news.stop_end ? short_end : news.stop_end);
	uint64_t thawed = tfc__boot_time();
	freezer_thaw(&frozen.freezer);

	for (int i = 0; i < TASKS; i++)
		assert_true(proc_await_gone(news.pids[i], PATIENCE_MS));
	assert_last_tick(&frozen, SHORT, thawed, "lease and grace over");
	assert_last_tick(&frozen, STOPPED, thawed, "stop's grace over");
	assert_last_tick(&frozen, LONG, long_end > thawed ? long_end : thawed, "grace partly over");
	assert_int_equal(waitpid(host, &status, 0), host);
	assert_int_equal(status, 0);
	freezer_remove(&frozen.freezer);
	assert_int_equal(tfc__remove_tree(frozen.dir), 0);
}

static void a_cgroup_that_was_frozen_keeps_its_deadlines(void **state)
{
	check_thaw(FREEZER_V2, "a cgroup of v2");
}

static void a_v1_freezer_keeps_its_deadlines(void **state)
{
	check_thaw(FREEZER_V1, "a cgroup of the v1 freezer");
}

static void processes_that_were_stopped_keep_their_deadlines(void **state)
{
	check_thaw(FREEZER_STOP, "");
}

/* ---- a machine that sleeps: no test can make it sleep, but the kernel shows which clock is used
 */

/* Of the timers of a process, how many are set. All of them go on while the machine sleeps. */
static int count_timers(pid_t pid)
{
	char path[400], text[1024];
	int clock, count = 0;
	snprintf(path, sizeof(path), "/proc/%d/fdinfo", (int)pid);
	DIR *dir = opendir(path);
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));) {
		snprintf(path, sizeof(path), "/proc/%d/fdinfo/%s", (int)pid, entry->d_name);
		tfc__read_text(path, text, sizeof(text));
		const char *line = strstr(text, "clockid: "), *value = strstr(text, "it_value: (");
		if (!line || !value)
			continue;
		assert_int_equal(sscanf(line, "clockid: %d", &clock), 1);
		assert_int_equal(clock, CLOCK_BOOTTIME);
		count += strncmp(value, "it_value: (0, 0)", 16) != 0;
	}
	closedir(dir);
	return count;
}

static void await_timers(pid_t pid, int wanted)
{
	for (uint64_t end = tfc__now() + PATIENCE_MS * TFC__MS; count_timers(pid) != wanted;
	     poll(NULL, 0, 2))
		assert_true(tfc__now() < end);
}

static void deadlines_go_on_while_the_machine_sleeps(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	proc_start(&run, &task, "t", "deaf", "print", "up", "wait", NULL);
	proc_await_start(&run, &task);
	proc_await_output(&run, "t");
	pid_t shim = proc_parent(task.pid), guard = proc_parent(shim);
	assert_int_equal(count_timers(shim), 0);
	assert_int_equal(count_timers(guard), 0);
	assert_int_equal(tfc_process_stop(task.process, PATIENCE_MS), 0);
	await_timers(shim, 1);
	await_timers(guard, 1);
	assert_int_equal(tfc_process_stop(task.process, 0), 0);
	proc_await_end(&run, &task);
	proc_close(&task);
	proc_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cgroup_that_was_frozen_keeps_its_deadlines),
		cmocka_unit_test(a_v1_freezer_keeps_its_deadlines),
		cmocka_unit_test(processes_that_were_stopped_keep_their_deadlines),
		cmocka_unit_test(deadlines_go_on_while_the_machine_sleeps),
	};
	return cmocka_run_group_tests_name("proc_thaw", tests, NULL, NULL);
}
