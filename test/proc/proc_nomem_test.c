/* proc: whichever allocation fails, a spawn is refused or its process has exactly one end, and the
 * next one succeeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "failing_malloc.h"
#include "leaks.h"
#include "port/port.h"
#include "proc/guard.h"
#include "proc/will.h"
#include "proc_run.h"

#define PATIENCE (30 * TFC__SECOND)

static char dir[LEAKS_PATH];

/* What a process has reported; nothing here allocates. */
struct received {
	tfc_process *process;
	int starts;
	int ends;
	uint32_t reason;
	int32_t status;
	bool is_stopped; /* by tfc_process_stop, else by a signal */
};

static void receive(void *user, const tfc_process_event *event)
{
	struct received *received = user;
	assert_int_equal(received->ends, 0);
	if (event->kind == TFC_PROCESS_STARTED) {
		received->starts++;
		SWEPT(tfc_process_stop);
		SWEPT(tfc_process_signal);
		if (received->is_stopped)
			assert_int_equal(tfc_process_stop(received->process, 1000), TFC_OK);
		else
			assert_int_equal(tfc_process_signal(received->process, SIGTERM), TFC_OK);
		return;
	}
	received->ends++;
	received->reason = event->reason;
	received->status = event->status;
	if (event->reason == TFC_EXIT_NOT_STARTED && event->status == TFC_ENOMEM)
		assert_non_null(strstr(event->text, "memory"));
}

static void await_end(tfc_ctx *ctx, struct received *received)
{
	for (uint64_t end = tfc__now() + PATIENCE; !received->ends;) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(ctx, 1000) >= 0);
	}
	assert_int_equal(received->ends, 1);
	assert_true(received->reason == TFC_EXIT_NOT_STARTED ? received->status == TFC_ENOMEM
							     : received->starts == 1);
	if (received->starts) {
		assert_int_equal(received->reason, TFC_EXIT_SIGNAL);
		assert_int_equal(received->status, SIGTERM);
	}
}

static int spawn(tfc_ctx *ctx, bool is_stopped)
{
	const char *const argv[] = {proc_task_program(), "wait", NULL};
	const char *const env[] = {"A=1", NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	struct received received = {.is_stopped = is_stopped};
	options.argv = argv;
	options.env = env;
	options.log_dir = dir;
	options.log_name = "log";
	SWEPT(tfc_process_spawn);
	int code = tfc_process_spawn(ctx, &options, receive, &received, &received.process);
	failing_said(code, tfc_ctx_error(ctx));
	assert_true(code == TFC_OK || !received.process);
	if (code == TFC_OK)
		await_end(ctx, &received);
	tfc_process_close(received.process);
	return code == TFC_OK && received.reason == TFC_EXIT_NOT_STARTED ? TFC_ENOMEM : code;
}

static int spawn_and_end(void)
{
	tfc_ctx *ctx = NULL;
	int code = proc_ctx_new(&ctx);
	if (code < 0)
		return code;
	code = spawn(ctx, false);
	failing_relent();
	assert_int_equal(spawn(ctx, true), TFC_OK);
	tfc_ctx_free(ctx);
	return code;
}

static void a_spawn_is_refused_or_ends_once(void **state)
{
	leaks_make_dir(dir);
	failing_sweep(spawn_and_end, 8);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

static void note_over(void *user)
{
	*(bool *)user = true;
}

static int hold_a_lease(void)
{
	tfc_ctx *ctx = NULL;
	struct tfc__lease *lease = NULL;
	bool is_over = false;
	int code = proc_ctx_new(&ctx);
	if (code < 0)
		return code;
	code = tfc__lease_begin(ctx, 60000, 0, note_over, &is_over, &lease);
	failing_said(code, tfc_ctx_error(ctx));
	assert_true(!lease == (code < 0));
	if (lease)
		assert_int_equal(tfc__lease_renew(lease, tfc__boot_time() + PATIENCE * 3), TFC_OK);
	tfc__lease_end(lease);
	assert_false(is_over);
	tfc_ctx_free(ctx);
	return code;
}

static void a_lease_begins_or_is_refused(void **state)
{
	failing_sweep(hold_a_lease, 3);
}

/* ---- a guard that reads nothing, and no memory to keep what it should receive */

static void fill_socket(struct proc_run *run, const struct proc_task *task)
{
	const struct tfc__command ping = {.kind = TFC__MSG_PING};
	for (int i = 0; i < 100000 && !tfc__guard_is_busy(run->ctx); i++)
		assert_int_equal(tfc__guard_send(task->process->guard, &ping, -1, NULL, 0), TFC_OK);
	assert_true(tfc__guard_is_busy(run->ctx));
}

/* Whether a process has this socket open. */
static bool has_socket(pid_t pid, ino_t inode)
{
	char path[64], name[64], link[64];
	bool is_found = false;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	snprintf(name, sizeof(name), "socket:[%lu]", (unsigned long)inode);
	DIR *listing = opendir(path);
	assert_non_null(listing);
	for (struct dirent *entry; (entry = readdir(listing));) {
		ssize_t len = readlinkat(dirfd(listing), entry->d_name, link, sizeof(link) - 1);
		link[len > 0 ? len : 0] = 0;
		is_found = is_found || strcmp(link, name) == 0;
	}
	closedir(listing);
	return is_found;
}

/* No look at the port itself: once it is free, anybody may have it. */
static void await_release(struct proc_run *run, pid_t guard, ino_t inode)
{
	for (uint64_t end = tfc__now() + PATIENCE; has_socket(guard, inode);) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(run->ctx, 5) >= 0);
	}
}

static void await_death(struct proc_run *run, pid_t pid)
{
	for (uint64_t end = tfc__now() + PATIENCE; proc_is_alive(pid);) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(run->ctx, 5) >= 0);
	}
}

static void no_stop_is_lost_on_a_guard_that_does_not_read(void **state)
{
	struct proc_run run;
	struct proc_task stopped, killed, closed;
	tfc_port_pool *pool;
	tfc_port_hold *hold;
	struct stat socket;
	proc_run_begin(&run);
	assert_int_equal(tfc_port_pool_open(run.ctx, NULL, &pool), TFC_OK);
	assert_int_equal(tfc_port_acquire(pool, 0, &hold), TFC_OK);
	assert_int_equal(fstat(tfc__port_fd(hold), &socket), 0);
	assert_int_equal(tfc__guard_keep(run.ctx, hold), TFC_OK);
	proc_start(&run, &stopped, NULL, "wait", NULL);
	proc_start(&run, &killed, NULL, "deaf", "wait", NULL);
	proc_start(&run, &closed, NULL, "deaf", "wait", NULL);
	proc_await_start(&run, &stopped);
	proc_await_start(&run, &killed);
	proc_await_start(&run, &closed);
	pid_t guard = proc_parent(tfc__process_shim(stopped.process));
	assert_true(has_socket(guard, socket.st_ino));
	proc_stop(guard);
	fill_socket(&run, &stopped);

	failing_begin(0, true);
	SWEPT(tfc_port_hold_set_open);
	for (int i = 0; i < 3; i++)
		assert_int_equal(tfc_port_hold_set_open(hold, i % 2), TFC_OK);
	assert_int_equal(tfc_process_stop(stopped.process, 60000), TFC_OK);
	assert_int_equal(tfc_process_stop(killed.process, 60000), TFC_OK);
	assert_int_equal(tfc_process_stop(killed.process, 0), TFC_OK);
	assert_int_equal(tfc_process_stop(killed.process, 60000), TFC_OK);
	tfc_process_close(closed.process);
	tfc_port_hold_release(hold);
	assert_false(failing_has_struck());
	failing_end();

	assert_int_equal(kill(guard, SIGCONT), 0);
	proc_await_end(&run, &stopped);
	assert_int_equal(stopped.end.status, SIGTERM);
	proc_await_end(&run, &killed);
	assert_int_equal(killed.end.status, SIGKILL);
	await_death(&run, closed.pid);
	await_release(&run, guard, socket.st_ino);
	assert_int_equal(closed.ends, 0);
	proc_close(&stopped);
	proc_close(&killed);
	tfc_port_pool_close(pool);
	proc_run_end(&run);
}

/* What waits in the queue goes with the guard, and with the context. */
static void what_waits_for_a_guard_ends_with_it(void **state)
{
	for (int is_guard_killed = 0; is_guard_killed < 2; is_guard_killed++) {
		struct proc_run run;
		struct proc_task task;
		tfc_port_pool *pool;
		tfc_port_hold *held, *released;
		proc_run_begin(&run);
		assert_int_equal(tfc_port_pool_open(run.ctx, NULL, &pool), TFC_OK);
		assert_int_equal(tfc_port_acquire(pool, 0, &held), TFC_OK);
		assert_int_equal(tfc_port_acquire(pool, 0, &released), TFC_OK);
		assert_int_equal(tfc__guard_keep(run.ctx, held), TFC_OK);
		assert_int_equal(tfc__guard_keep(run.ctx, released), TFC_OK);
		proc_start(&run, &task, NULL, "wait", NULL);
		proc_await_start(&run, &task);
		pid_t guard = proc_parent(tfc__process_shim(task.process));
		proc_stop(guard);
		fill_socket(&run, &task);
		assert_int_equal(tfc_process_stop(task.process, 60000), TFC_OK);
		assert_int_equal(tfc_port_hold_set_open(held, 1), TFC_OK);
		assert_int_equal(tfc_port_hold_set_open(released, 1), TFC_OK);
		tfc_port_hold_release(released);
		if (is_guard_killed) {
			assert_int_equal(kill(guard, SIGKILL), 0);
			proc_await_end(&run, &task);
			assert_int_equal(task.end.reason, TFC_EXIT_LOST);
			assert_int_equal(tfc_port_hold_set_open(held, 1), TFC_ELOST);
			proc_close(&task);
		} else {
			tfc_process_close(task.process);
			assert_int_equal(kill(guard, SIGCONT), 0);
		}
		tfc_port_hold_release(held);
		tfc_port_pool_close(pool);
		proc_run_end(&run);
		assert_false(proc_is_alive(task.pid));
	}
}

static void a_will_that_no_guard_has_is_not_promised(void **state)
{
	const struct tfc__will_options options = {.incarnation = 7};
	struct proc_run run;
	struct proc_task task;
	struct tfc__will *will;
	struct tfc__will_key key;
	proc_run_begin(&run);
	proc_start(&run, &task, NULL, "wait", NULL);
	proc_await_start(&run, &task);
	assert_int_equal(tfc__will_open(run.ctx, &options, &will), TFC_OK);
	pid_t guard = tfc__guard_pid(run.ctx);
	proc_stop(guard);
	fill_socket(&run, &task);
	failing_begin(1, true); /* the message; not the struct with which it waits in the queue */
	assert_false(tfc__will_commit(will, &key));
	failing_arm(1, true);
	assert_false(tfc__will_commit(will, &key));
	failing_end();
	assert_true(tfc__will_commit(will, &key));
	assert_int_equal(kill(guard, SIGCONT), 0);
	assert_int_equal(tfc_process_stop(task.process, 1000), TFC_OK);
	proc_await_end(&run, &task);
	proc_close(&task);
	tfc__will_close(will);
	proc_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_spawn_is_refused_or_ends_once),
		cmocka_unit_test(a_lease_begins_or_is_refused),
		cmocka_unit_test(no_stop_is_lost_on_a_guard_that_does_not_read),
		cmocka_unit_test(what_waits_for_a_guard_ends_with_it),
		cmocka_unit_test(a_will_that_no_guard_has_is_not_promised),
	};
	return cmocka_run_group_tests_name("proc_nomem", tests, NULL, NULL);
}
