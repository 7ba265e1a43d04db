/*
 * proc: tasks that are forked from a zygote. What every task is promised is tested of them by the
 * other tests (TFC_TEST_WARM); here is what concerns the zygote.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/proc.h"
#include "proc_run.h"

#define FORKS 1000
#define KILLS 30

static ssize_t read_command_line(pid_t pid, char *words, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	ssize_t len = read(fd, words, size);
	close(fd);
	return len;
}

/*
 * Whether it was forked: its command line is still that of the zygote. Of a program that a shim
 * starts, the kernel closes the descriptors first, which reports the start. Until it has set the
 * command line, that is empty.
 */
static bool is_forked(pid_t pid)
{
	char words[4096] = "";
	for (uint64_t end = tfc__now() + 5 * TFC__SECOND;
	     read_command_line(pid, words, sizeof(words) - 1) <= 0; usleep(1000))
		assert_true(tfc__now() < end);
	return strcmp(words + strlen(words) + 1, "zygote") == 0;
}

static int count_fds(pid_t pid)
{
	char path[64];
	int count = 0;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);
	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void await_zygote(struct proc_run *run)
{
	proc_start_zygote(run);
	for (uint64_t until = tfc__now() + 30 * TFC__SECOND; !run->is_zygote_ready;) {
		assert_true(tfc__now() < until);
		assert_true(tfc_ctx_run(run->ctx, 100) >= 0);
		if (!run->zygote)
			fail_msg("%s ended before it was ready to fork", proc_task_program());
	}
	while (!tfc_process_pid(run->zygote))
		assert_true(tfc_ctx_run(run->ctx, 100) >= 0);
}

static void start(struct proc_run *run, struct proc_task *task)
{
	proc_start(run, task, NULL, "wait", NULL);
	proc_await_start(run, task);
}

static void end(struct proc_run *run, struct proc_task *task)
{
	assert_int_equal(tfc_process_stop(task->process, 0), 0);
	proc_await_end(run, task);
	assert_int_equal(task->end.reason, TFC_EXIT_SIGNAL);
	proc_close(task);
}

/* A zygote that forks the next spare has a child for a moment. */
static void await_no_children(pid_t pid)
{
	for (uint64_t end = tfc__now() + 5 * TFC__SECOND; proc_has_children(pid); usleep(1000))
		assert_true(tfc__now() < end);
}

static void a_task_is_forked_and_its_shim_belongs_to_the_guard(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	await_zygote(&run);
	start(&run, &task);
	pid_t shim = proc_parent(task.pid);
	assert_true(is_forked(task.pid));
	assert_int_equal(shim, tfc__process_shim(task.process));
	assert_int_equal(proc_parent(shim), tfc__guard_pid(run.ctx));
	assert_int_equal(getsid(task.pid), shim);
	assert_int_equal(getpgid(task.pid), task.pid);
	assert_int_equal(proc_blocked(shim) & proc_node_signals(), proc_node_signals());
	assert_int_equal(proc_ignored(shim), 0);
	await_no_children(tfc_process_pid(run.zygote));
	end(&run, &task);
	proc_run_end(&run);
}

/* Its tasks have nothing to do with it any more, and the next one starts in another way. */
static void a_killed_zygote_ends_no_task(void **state)
{
	struct proc_run run;
	struct proc_task first, second;
	proc_run_begin(&run);
	await_zygote(&run);
	start(&run, &first);
	pid_t zygote = tfc_process_pid(run.zygote);
	assert_int_equal(kill(zygote, SIGKILL), 0);
	while (run.zygote)
		assert_true(tfc_ctx_run(run.ctx, 100) >= 0);
	start(&run, &second);
	assert_int_not_equal(tfc_process_pid(run.zygote), zygote);
	assert_true(proc_is_alive(first.pid));
	assert_int_equal(first.ends, 0);
	end(&run, &first);
	end(&run, &second);
	proc_run_end(&run);
}

/* Whatever the zygote had done, the task starts once and ends once, with its own exit code. */
static void a_zygote_killed_while_it_forks_loses_no_task(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	for (int i = 0; i < KILLS; i++) {
		size_t len;
		char name[16];
		snprintf(name, sizeof(name), "t%d", i);
		await_zygote(&run);
		pid_t zygote = tfc_process_pid(run.zygote);
		proc_start(&run, &task, name, "print", "once", "exit", "7", NULL);
		for (uint64_t until = tfc__now() + i * 100000u; tfc__now() < until;)
			;
		kill(zygote, SIGKILL);
		proc_await_end(&run, &task);
		assert_true(task.is_started);
		assert_int_equal(task.end.reason, TFC_EXIT_CODE);
		assert_int_equal(task.end.status, 7);
		char *output = proc_output(&run, name, &len);
		assert_string_equal(output, "once");
		free(output);
		proc_close(&task);
		while (run.zygote)
			assert_true(tfc_ctx_run(run.ctx, 100) >= 0);
	}
	proc_run_end(&run);
}

/* A stop does not wait for a zygote that does not respond. One fork may have been made before. */
static void a_task_is_stopped_before_its_zygote_has_forked_it(void **state)
{
	struct proc_run run;
	struct proc_task task, spare;
	proc_run_begin(&run);
	await_zygote(&run);
	proc_stop(tfc_process_pid(run.zygote));
	proc_start(&run, &spare, NULL, "wait", NULL);
	uint64_t begin = tfc__now();
	proc_start(&run, &task, NULL, "wait", NULL);
	assert_int_equal(tfc_process_stop(task.process, 2000), 0);
	proc_await_end(&run, &task);
	assert_true(tfc__now() - begin < 5 * TFC__SECOND);
	assert_int_equal(task.end.reason, TFC_EXIT_SIGNAL);
	assert_int_equal(task.end.status, SIGTERM);
	proc_close(&task);
	end(&run, &spare);
	proc_run_end(&run);
}

/* proc(5): descriptors that are sent over a socket and not received yet. */
static int count_sent_fds(pid_t pid, int socket)
{
	char path[64], line[128];
	int count = -1;
	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (int)pid, socket);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	while (count < 0 && fgets(line, sizeof(line), file))
		(void)!sscanf(line, "scm_fds: %d", &count);
	fclose(file);
	return count;
}

/* They count for all processes of the user: with too many, no other task could be started. */
static void requests_that_wait_have_few_descriptors(void **state)
{
	struct proc_run run;
	struct proc_task tasks[20];
	proc_run_begin(&run);
	await_zygote(&run);
	pid_t zygote = tfc_process_pid(run.zygote);
	proc_stop(zygote);
	for (int i = 0; i < 20; i++)
		proc_start(&run, &tasks[i], NULL, "wait", NULL);
	assert_int_equal(tfc_process_stop(tasks[19].process, 0), 0);
	proc_await_end(&run, &tasks[19]);
	proc_close(&tasks[19]); /* the guard has received the others, too */
	int count = count_sent_fds(zygote, 3);
	kill(zygote, SIGCONT);
	for (int i = 0; i < 19; i++) {
		proc_await_start(&run, &tasks[i]);
		assert_true(is_forked(tasks[i].pid));
		end(&run, &tasks[i]);
	}
	proc_run_end(&run);
	assert_in_range(count + 1, 0, 4 * 7 + 1); /* 0: the kernel does not count them */
}

static void a_zygote_that_does_not_respond_is_ended(void **state)
{
	struct proc_run run;
	struct proc_task task, spare;
	proc_run_begin(&run);
	await_zygote(&run);
	proc_stop(tfc_process_pid(run.zygote));
	proc_start(&run, &spare, NULL, "wait", NULL); /* one fork may have been made before */
	start(&run, &task);
	proc_await_start(&run, &spare);
	assert_false(is_forked(task.pid));
	while (run.zygote)
		assert_true(tfc_ctx_run(run.ctx, 100) >= 0);
	end(&run, &spare);
	end(&run, &task);
	proc_run_end(&run);
}

/* It would otherwise be described as one that serves. The task starts cold. */
static void a_zygote_that_breaks_the_protocol_is_ended(void **state)
{
	static const char *const lies[] = {"wrong text", "closed socket",         "ready twice",
					   "flood",      "response to a request", "shutdown"};
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct proc_run run;
		struct proc_task task;
		setenv("ZYGOTE_LIES", lies[i], 1);
		proc_run_begin(&run);
		proc_start(&run, &task, NULL, "exit", "7", NULL);
		unsetenv("ZYGOTE_LIES");
		proc_await_end(&run, &task);
		assert_int_equal(task.end.reason, TFC_EXIT_CODE);
		assert_int_equal(task.end.status, 7);
		proc_close(&task);
		for (uint64_t until = tfc__now() + 5 * TFC__SECOND; run.zygote;) {
			if (tfc__now() > until)
				fail_msg("%s", lies[i]);
			assert_true(tfc_ctx_run(run.ctx, 100) >= 0);
		}
		proc_run_end(&run);
	}
}

/* Its job has ended, for example. An import without end would occupy a CPU. */
static void a_late_import_is_ended_though_no_task_waits(void **state)
{
	struct proc_run run;
	setenv("ZYGOTE_LIES", "silence", 1);
	proc_run_begin(&run);
	run.import_ms = 100;
	proc_start_zygote(&run);
	unsetenv("ZYGOTE_LIES");
	for (uint64_t until = tfc__now() + 5 * TFC__SECOND; run.zygote;) {
		assert_true(tfc__now() < until);
		assert_true(tfc_ctx_run(run.ctx, 100) >= 0);
	}
	proc_run_end(&run);
}

/* A module has started a process in a session of its own. It would outlive the guard. */
static void processes_of_a_zygote_end_with_it(void **state)
{
	struct proc_run run;
	struct proc_task task;
	pid_t family[2];
	setenv("ZYGOTE_LEAVES", "1", 1);
	proc_run_begin(&run);
	await_zygote(&run);
	unsetenv("ZYGOTE_LEAVES");
	start(&run, &task);
	pid_t zygote = tfc_process_pid(run.zygote);
	assert_int_equal(proc_family(zygote, family, 2), 2);
	assert_int_equal(kill(zygote, SIGKILL), 0);
	for (uint64_t until = tfc__now() + 5 * TFC__SECOND; proc_is_alive(family[1]);) {
		assert_true(tfc__now() < until);
		assert_true(tfc_ctx_run(run.ctx, 10) >= 0);
	}
	assert_true(proc_is_alive(task.pid));
	end(&run, &task);
	proc_run_end(&run);
}

/* A shim that was forked in advance, with the process that is to become a task. 0: none yet. */
static pid_t find_waiting_shim(pid_t guard, pid_t zygote_shim)
{
	pid_t family[64];
	size_t count = proc_family(guard, family, 64);
	for (size_t i = 1; i < count; i++)
		if (family[i] != zygote_shim && proc_is_waiting_shim(family[i]) &&
		    proc_has_children(family[i]))
			return family[i];
	return 0;
}

static void a_spare_that_was_stopped_is_continued_for_its_task(void **state)
{
	struct proc_run run;
	struct proc_task task;
	pid_t spare = 0;
	proc_run_begin(&run);
	await_zygote(&run);
	pid_t shim = proc_parent(tfc_process_pid(run.zygote));
	for (uint64_t until = tfc__now() + 5 * TFC__SECOND; !spare;) {
		assert_true(tfc__now() < until);
		assert_true(tfc_ctx_run(run.ctx, 10) >= 0);
		spare = find_waiting_shim(tfc__guard_pid(run.ctx), shim);
	}
	proc_stop(spare);
	proc_start_isolated(&run, &task, TFC_ISOLATION_PLAIN, NULL, "wait", NULL);
	proc_await_start(&run, &task);
	assert_true(is_forked(task.pid));
	assert_int_equal(proc_parent(task.pid), spare);
	end(&run, &task);
	proc_run_end(&run);
}

static pid_t find_stopped_child(pid_t parent)
{
	pid_t family[64];
	size_t count = proc_family(parent, family, 64);
	for (size_t i = 1; i < count; i++)
		if (proc_state(family[i]) == 'T')
			return family[i];
	return 0;
}

/* What is stopped before it has become a shim does not see that its socket has ended. */
static void a_fork_that_is_stopped_halfway_outlives_no_zygote(void **state)
{
	struct proc_run run;
	struct proc_task task;
	setenv("ZYGOTE_STOPS", "1", 1);
	proc_run_begin(&run);
	await_zygote(&run);
	unsetenv("ZYGOTE_STOPS");
	pid_t guard = tfc__guard_pid(run.ctx);
	proc_start(&run, &task, NULL, "exit", "7", NULL);
	for (uint64_t until = tfc__now() + 5 * TFC__SECOND; !find_stopped_child(guard);) {
		assert_true(tfc__now() < until);
		assert_true(tfc_ctx_run(run.ctx, 10) >= 0);
	}
	assert_int_equal(kill(tfc_process_pid(run.zygote), SIGKILL), 0);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.status, 7);
	proc_close(&task);
	for (uint64_t until = tfc__now() + 5 * TFC__SECOND; find_stopped_child(guard);) {
		assert_true(tfc__now() < until);
		assert_true(tfc_ctx_run(run.ctx, 10) >= 0);
	}
	proc_run_end(&run);
}

/* The last fork is reported 12 s after its request, but 6 s after the one before. */
static void a_zygote_may_need_long_for_many_forks(void **state)
{
	struct proc_run run;
	struct proc_task tasks[2];
	setenv("ZYGOTE_FORK_S", "6", 1);
	proc_run_begin(&run);
	await_zygote(&run);
	unsetenv("ZYGOTE_FORK_S");
	pid_t zygote = tfc_process_pid(run.zygote);
	for (int i = 0; i < 2; i++)
		proc_start(&run, &tasks[i], NULL, "wait", NULL);
	for (int i = 0; i < 2; i++) {
		proc_await_start(&run, &tasks[i]);
		assert_true(is_forked(tasks[i].pid));
	}
	assert_int_equal(tfc_process_pid(run.zygote), zygote);
	for (int i = 0; i < 2; i++)
		end(&run, &tasks[i]);
	proc_run_end(&run);
}

static void a_killed_guard_takes_forked_tasks_and_zygote_along(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	await_zygote(&run);
	start(&run, &task);
	pid_t zygote = tfc_process_pid(run.zygote);
	assert_int_equal(kill(tfc__guard_pid(run.ctx), SIGKILL), 0);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_LOST);
	assert_false(proc_is_alive(task.pid));
	while (run.zygote)
		assert_true(tfc_ctx_run(run.ctx, 100) >= 0);
	assert_false(proc_is_alive(zygote));
	proc_close(&task);
	start(&run, &task); /* by another guard */
	assert_true(is_forked(task.pid));
	end(&run, &task);
	proc_run_end(&run);
}

static void a_thousand_forks_leave_nothing_behind(void **state)
{
	struct proc_run run;
	struct proc_task tasks[20];
	proc_run_begin(&run);
	await_zygote(&run);
	pid_t zygote = tfc_process_pid(run.zygote), guard = tfc__guard_pid(run.ctx);
	int zygote_fds = 0, guard_fds = 0;
	for (int i = 0; i < FORKS / 20; i++) {
		for (int k = 0; k < 20; k++)
			proc_start(&run, &tasks[k], NULL, "exit", "0", NULL);
		for (int k = 0; k < 20; k++) {
			proc_await_end(&run, &tasks[k]);
			assert_int_equal(tasks[k].end.status, 0);
			proc_close(&tasks[k]);
		}
		proc_await_spare(guard);
		if (i == 0) {
			zygote_fds = count_fds(zygote);
			guard_fds = count_fds(guard);
		}
	}
	assert_int_equal(tfc_process_pid(run.zygote), zygote);
	assert_int_equal(count_fds(zygote), zygote_fds);
	assert_int_equal(count_fds(guard), guard_fds);
	proc_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_task_is_forked_and_its_shim_belongs_to_the_guard),
		cmocka_unit_test(a_killed_zygote_ends_no_task),
		cmocka_unit_test(a_zygote_killed_while_it_forks_loses_no_task),
		cmocka_unit_test(a_task_is_stopped_before_its_zygote_has_forked_it),
		cmocka_unit_test(requests_that_wait_have_few_descriptors),
		cmocka_unit_test(a_zygote_that_does_not_respond_is_ended),
		cmocka_unit_test(a_zygote_that_breaks_the_protocol_is_ended),
		cmocka_unit_test(a_late_import_is_ended_though_no_task_waits),
		cmocka_unit_test(a_spare_that_was_stopped_is_continued_for_its_task),
		cmocka_unit_test(processes_of_a_zygote_end_with_it),
		cmocka_unit_test(a_fork_that_is_stopped_halfway_outlives_no_zygote),
		cmocka_unit_test(a_zygote_may_need_long_for_many_forks),
		cmocka_unit_test(a_killed_guard_takes_forked_tasks_and_zygote_along),
		cmocka_unit_test(a_thousand_forks_leave_nothing_behind),
	};
	setenv("TFC_TEST_WARM", "1", 1);
	return cmocka_run_group_tests_name("proc_warm", tests, NULL, NULL);
}
