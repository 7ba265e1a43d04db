/*
 * node: of a large job each piece of a dispatch's work is small, and all add up to so much a task.
 * What the kernel is asked is counted: times would say how busy the machine is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "node_run.h"

#define PER_PIECE 64 /* calls */

static long binds, sends, scans, unlinks;

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
int __wrap_openat(int dir_fd, const char *path, int flags, ...);
int __wrap_unlinkat(int dir_fd, const char *path, int flags);

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len)
{
	binds++;
	return (int)syscall(SYS_bind, fd, address, len);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	sends++;
	return syscall(SYS_sendmsg, fd, message, flags);
}

/* Whoever lists a directory of logs opens "." in it (log/format.c). */
int __wrap_openat(int dir_fd, const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	unsigned mode = flags & O_CREAT ? va_arg(args, unsigned) : 0;
	va_end(args);
	scans += strcmp(path, ".") == 0;
	return (int)syscall(SYS_openat, dir_fd, path, flags, mode);
}

int __wrap_unlinkat(int dir_fd, const char *path, int flags)
{
	unlinks++;
	return (int)syscall(SYS_unlinkat, dir_fd, path, flags);
}

/* Dispatches piece by piece until the job has ended; with each the counter grows by a little only.
 */
static void watch_to_end(struct node_run *run, struct follower *follower, const long *counter)
{
	long most = 0;
	uint64_t deadline = tfc__now() + 60 * TFC__SECOND;
	struct pollfd poller = {.fd = tfc_ctx_fd(run->ctx), .events = POLLIN};
	while (!follower->is_ended && tfc__now() < deadline) {
		long before = *counter;
		poll(&poller, 1, 1000);
		assert_true(tfc_ctx_dispatch(run->ctx, 1) >= 0);
		most = *counter - before > most ? *counter - before : most;
	}
	assert_true(follower->is_ended);
	assert_in_range(most, 1, PER_PIECE);
}

static char *start(struct node_run *run, struct follower *follower, uint32_t count,
		   const char *ready)
{
	char *json = node_json("{'framework':'none','argv':['%s','exit','0'],"
			       "'roles':{'worker':{'count':%u,'ready':'%s'}}}",
			       node_task_program(), count, ready);
	binds = sends = scans = 0;
	char *id = node_submit(run, json);
	node_follow(run, id, NULL, follower);
	free(json);
	return id;
}

static void finish(struct node_run *run, struct follower *follower, char *id)
{
	free(id);
	node_follow_end(follower);
	node_run_end(run);
}

/* Twice as many tasks as ports: each port is asked for once, not once by each that gets none. */
static void a_gang_takes_its_ports_in_slices(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	options.port_first = 26000;
	options.port_last = 26999;
	node_run_begin(&run, &options);
	char *id = start(&run, &follower, 2000, "listen");
	watch_to_end(&run, &follower, &binds);
	const struct seen_event *end = node_await_end(&run, &follower);
	assert_int_equal(end->event.reason, TFC_END_REFUSED);
	assert_non_null(strstr(end->text, "ports are missing"));
	/* A few times over for ports that others have: they are tried again. */
	assert_in_range(binds, 900, 1500);
	finish(&run, &follower, id);
}

static bool knows_births(const char *dir)
{
	struct statx status;
	return statx(AT_FDCWD, dir, 0, STATX_BTIME, &status) == 0 && status.stx_mask & STATX_BTIME;
}

/* Each log lies beside those of all other tasks: to list them for each would be a square. */
static void tasks_run_in_slices_and_no_log_is_looked_for_among_the_others(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	char *id = start(&run, &follower, 300, "started");
	watch_to_end(&run, &follower, &sends);
	assert_int_equal(node_await_end(&run, &follower)->event.job_state, TFC_JOB_SUCCEEDED);
	if (knows_births(run.dir))
		assert_in_range(scans, 0, 30);
	finish(&run, &follower, id);
}

static void what_many_tasks_have_left_is_removed_elsewhere(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	struct answer answer = {0};
	node_run_begin(&run, NULL);
	char *id = start(&run, &follower, 100, "started");
	node_await_end(&run, &follower);
	unlinks = 0;
	assert_int_equal(tfc_gateway_forget(run.gateway, id, NULL, node_answer, &answer, NULL), 0);
	node_await_answer(&run, &answer);
	assert_int_equal(answer.code, 0);
	assert_in_range(unlinks, 0, 10);
	node_answer_clear(&answer);
	finish(&run, &follower, id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gang_takes_its_ports_in_slices),
		cmocka_unit_test(tasks_run_in_slices_and_no_log_is_looked_for_among_the_others),
		cmocka_unit_test(what_many_tasks_have_left_is_removed_elsewhere),
	};
	return cmocka_run_group_tests_name("node_large", tests, NULL, NULL);
}
