/* node: a task's port is its own before, while and after it listens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "node_run.h"
#include "proc_run.h"
#include "sockets.h"

static uint16_t port_of(const struct seen_event *seen)
{
	return (uint16_t)atoi(strrchr(seen->address, ':') + 1);
}

static void start(struct node_run *run, struct follower *follower, const char *keys,
		  const char *verbs)
{
	char *json = node_json("{'framework':'none','argv':['%s',%s],'grace_s':0.5,"
			       "'restart':{'scope':'task','backoff_s':[0,0]},%s}",
			       node_task_program(), verbs, keys);
	node_start(run, json, follower);
	free(json);
}

static void finish(struct node_run *run, struct follower *follower)
{
	node_stop(run, follower->job, false);
	node_await_end(run, follower);
	node_follow_end(follower);
	node_run_end(run);
}

static void a_port_is_held_while_its_task_listens_and_kept_over_a_kill(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	start(&run, &follower, "'roles':{'worker':{'ready':'listen'}}", "'listen','wait'");
	uint16_t port = port_of(node_await_task(&run, &follower, "worker/0", TFC_TASK_HOLDING, 0));
	for (uint32_t attempt = 1; attempt <= 3; attempt++) {
		const struct seen_event *ready = node_await_task(&run, &follower, "worker/0",
								 TFC_TASK_READY, attempt);
		assert_int_equal(port_of(ready), port);
		assert_int_equal(test_count_intruders(port), 0);
		int client = test_connect(port);
		assert_true(client >= 0);
		kill(ready->event.pid, SIGKILL);
		node_await_task(&run, &follower, "worker/0", TFC_TASK_FAILED, attempt);
		close(client);
	}
	finish(&run, &follower);
	int fd = test_bind("::", port, TEST_REUSEADDR);
	assert_true(fd >= 0);
	close(fd);
}

/* A port that nobody has, found by taking one. */
static uint16_t free_port(void)
{
	for (uint16_t port = 31000; port < 31999; port++) {
		int fd = test_bind("::", port, TEST_PLAIN);
		if (fd < 0)
			continue;
		close(fd);
		return port;
	}
	fail();
	return 0;
}

static void a_fixed_port_is_used_or_named(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	char keys[128];
	uint16_t port = free_port();
	snprintf(keys, sizeof(keys), "'roles':{'worker':{'port':%u,'ready':'listen'}}", port);
	node_run_begin(&run, NULL);
	start(&run, &follower, keys, "'listen','wait'");
	assert_int_equal(port_of(node_await_task(&run, &follower, "worker/0", TFC_TASK_READY, 0)),
			 port);
	struct follower second = {0};
	start(&run, &second, keys, "'listen','wait'");
	const struct seen_event *end = node_await_end(&run, &second);
	assert_int_equal(end->event.job_state, TFC_JOB_FAILED);
	assert_int_equal(end->event.reason, TFC_END_REFUSED);
	char number[8];
	snprintf(number, sizeof(number), "%u", port);
	assert_non_null(strstr(end->text, number));
	assert_non_null(strstr(end->text, "1 port is missing"));
	node_follow_end(&second);
	finish(&run, &follower);
}

static void a_pool_too_small_says_how_many_are_missing_and_keeps_none(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	uint16_t first = free_port();
	options.port_first = first;
	options.port_last = (uint16_t)(first + 2);
	node_run_begin(&run, &options);
	start(&run, &follower, "'roles':{'worker':{'count':8,'ready':'listen'}}",
	      "'listen','wait'");
	const struct seen_event *end = node_await_end(&run, &follower);
	assert_int_equal(end->event.job_state, TFC_JOB_FAILED);
	assert_int_equal(end->event.reason, TFC_END_REFUSED);
	if (!strstr(end->text, "5 ports are missing"))
		fail_msg("%s", end->text);
	assert_null(node_find(&follower, TFC_EVENT_TASK, NULL, TFC_TASK_STARTING, 0));
	for (uint16_t port = first; port <= first + 2; port++) {
		int fd = test_bind("::", port, TEST_PLAIN);
		for (int i = 0; fd == -EADDRINUSE && i < 100;
		     i++) { /* the guard has yet to close */
			tfc_ctx_run(run.ctx, 10);
			fd = test_bind("::", port, TEST_PLAIN);
		}
		assert_true(fd >= 0);
		close(fd);
	}
	node_follow_end(&follower);
	node_run_end(&run);
}

static void on_left(void *user)
{
	*(bool *)user = true;
}

static bool is_set(void *user)
{
	return *(bool *)user;
}

/* The one that got no port had a seat: it is another job's, and nobody waits for it. */
static void who_got_no_port_gives_back_its_slot(void **state)
{
	struct node_run run;
	struct follower small = {0}, follower = {0};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	bool has_left = false;
	options.port_first = free_port();
	options.port_last = (uint16_t)(options.port_first + 1);
	options.slots = 3;
	node_run_begin(&run, &options);
	start(&run, &small, "'roles':{'worker':{'count':3,'ready':'listen'}}", "'listen','wait'");
	const struct seen_event *end = node_await_end(&run, &small);
	assert_non_null(strstr(end->text, "1 port is missing"));
	start(&run, &follower, "'roles':{'worker':{'count':3,'ready':'started'}}", "'wait'");
	node_await_task(&run, &follower, "worker/2", TFC_TASK_READY, 1);
	node_stop(&run, follower.job, true);
	node_await_end(&run, &follower);
	uint64_t from = tfc__now();
	assert_int_equal(tfc_node_leave(run.node, on_left, &has_left), TFC_OK);
	node_await(&run, is_set, &has_left, "the node to leave");
	assert_true(tfc__now() - from < 10 * TFC__SECOND); /* it would give up after 30 */
	node_follow_end(&small);
	node_follow_end(&follower);
	node_run_end(&run);
}

/* ---- strangers */

/* The task waits for a sign before it listens, so that somebody else can be quicker. */
static void start_slow(struct node_run *run, struct follower *follower, const char *more,
		       const char *role)
{
	char *json =
		node_json("{%s'argv':['/bin/sh','-c','read x < %s/go-$TFC_ATTEMPT-$TFC_TASK_INDEX; "
			  "exec %s listen wait'],'grace_s':0.5,"
			  "'restart':{'backoff_s':[0,0]},'roles':{'worker':{%s}}}",
			  more, run->dir, node_task_program(), role);
	node_start(run, json, follower);
	free(json);
}

static void make_fifo(const struct node_run *run, const char *name)
{
	char command[128];
	snprintf(command, sizeof(command), "mkfifo %s/%s", run->dir, name);
	assert_int_equal(system(command), 0);
}

static void let_go(const struct node_run *run, const char *name)
{
	char command[128];
	snprintf(command, sizeof(command), "echo > %s/%s", run->dir, name);
	assert_int_equal(system(command), 0);
}

static void an_outsider_is_named_and_the_job_moves_to_another_port(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	char pid[32];
	node_run_begin(&run, NULL);
	make_fifo(&run, "go-1-0");
	make_fifo(&run, "go-2-0");
	start_slow(&run, &follower, "", "'count':1");
	const struct seen_event *running = node_await_task(&run, &follower, "worker/0",
							   TFC_TASK_RUNNING, 1);
	uint16_t port = port_of(running);
	struct test_listening how = {"::", .port = port, .flags = TEST_REUSEADDR,
				     .program = "intruder"};
	struct test_child stranger = test_child_start(test_listening_child, &how);
	assert_int_equal(test_child_read(&stranger), 'L');
	const struct seen_event *failed = node_await_task(&run, &follower, "worker/0",
							  TFC_TASK_FAILED, 1);
	assert_int_equal(failed->event.reason, TFC_END_FOREIGN_LISTENER);
	snprintf(pid, sizeof(pid), "pid %d (intruder)", (int)stranger.pid);
	if (!strstr(failed->text, pid) || !strstr(failed->text, "uid "))
		fail_msg("%s does not name %s", failed->text, pid);
	running = node_await_task(&run, &follower, "worker/0", TFC_TASK_RUNNING, 2);
	assert_int_not_equal(port_of(running), port);
	let_go(&run, "go-2-0");
	node_await_task(&run, &follower, "worker/0", TFC_TASK_READY, 2);
	test_child_kill(&stranger);
	finish(&run, &follower);
}

static void a_window_stays_open_where_it_was_requested(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	start(&run, &follower, "'roles':{'worker':{'ready':'listen','port_handover':'open'}}",
	      "'listen','wait'");
	uint16_t port = port_of(node_await_task(&run, &follower, "worker/0", TFC_TASK_READY, 0));
	int fd = test_bind("::", port, TEST_REUSEADDR);
	assert_int_equal(fd, -EADDRINUSE); /* somebody listens on the same address */
	finish(&run, &follower);
}

/* The next attempt, which gets the port alone again, is kept waiting long enough to look. */
static void a_released_port_is_taken_again_after_the_attempt(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	start(&run, &follower,
	      "'roles':{'worker':{'ready':'listen','port_handover':'release',"
	      "'restart':{'backoff_s':[2,2]}}}",
	      "'listen','wait'");
	const struct seen_event *ready = node_await_task(&run, &follower, "worker/0",
							 TFC_TASK_READY, 1);
	uint16_t port = port_of(ready);
	kill(ready->event.pid, SIGKILL);
	node_await_task(&run, &follower, "worker/0", TFC_TASK_FAILED, 1);
	assert_int_equal(test_count_intruders(port), 0);
	ready = node_await_task(&run, &follower, "worker/0", TFC_TASK_READY, 2);
	assert_int_equal(port_of(ready), port);
	finish(&run, &follower);
}

/* Nobody holds the port when its attempt has ended and the node does not know that yet. */
static void a_port_that_was_taken_between_two_attempts_is_replaced(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	start(&run, &follower, "'roles':{'worker':{'ready':'listen','port_handover':'release'}}",
	      "'listen','wait'");
	const struct seen_event *ready = node_await_task(&run, &follower, "worker/0",
							 TFC_TASK_READY, 1);
	uint16_t port = port_of(ready);
	struct pollfd task = {(int)syscall(SYS_pidfd_open, ready->event.pid, 0), POLLIN, 0};
	kill(ready->event.pid, SIGKILL);
	assert_int_equal(poll(&task, 1, 10000), 1);
	int fd = test_listen("::", port, TEST_REUSEADDR);
	assert_true(fd >= 0);
	close(task.fd);
	ready = node_await_task(&run, &follower, "worker/0", TFC_TASK_READY, 3);
	assert_int_not_equal(port_of(ready), port);
	const struct seen_event *failed = node_find(&follower, TFC_EVENT_TASK, "worker/0",
						    TFC_TASK_FAILED, 2);
	assert_int_equal(failed->event.reason, TFC_END_FOREIGN_LISTENER);
	if (!strstr(failed->text, "which listens on it"))
		fail_msg("%s", failed->text);
	close(fd);
	finish(&run, &follower);
}

/* TensorFlow's own words for a port that it could not bind. */
static void a_failed_bind_is_explained(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	char *json = node_json("{'argv':['/bin/sh','-c','echo UNKNOWN: Could not start gRPC server "
			       ">&2; exit 1'],'restart':{'on':'never'},'roles':{'worker':{}}}");
	const struct seen_event *end = node_run_job(&run, json, &follower);
	assert_int_equal(end->event.job_state, TFC_JOB_FAILED);
	assert_int_equal(end->event.reason, TFC_END_EXIT);
	assert_non_null(strstr(end->tail, "Could not start gRPC server"));
	if (!strstr(end->text, "could not bind port"))
		fail_msg("%s", end->text);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

/* Says that it cannot bind, as if somebody had listened who is gone; its third attempt listens. */
static void who_met_a_passer_by_is_restarted_with_the_same_port(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	char *json = node_json("{'argv':['/bin/sh','-c','test $TFC_ATTEMPT = 3 && exec %s listen "
			       "wait; echo bind: Address already in use; exit 96'],'grace_s':0.5,"
			       "'restart':{'backoff_s':[0,0]},'roles':{'worker':{}}}",
			       node_task_program());
	node_start(&run, json, &follower);
	const struct seen_event *ready = node_await_task(&run, &follower, "worker/0",
							 TFC_TASK_READY, 3);
	for (uint32_t attempt = 1; attempt < 3; attempt++) {
		const struct seen_event *failed = node_find(&follower, TFC_EVENT_TASK, "worker/0",
							    TFC_TASK_FAILED, attempt);
		assert_int_equal(failed->event.reason, TFC_END_EXIT);
		assert_int_equal(failed->event.exit_code, 96);
		assert_string_equal(failed->address, ready->address);
		if (!strstr(failed->text, "could not bind port"))
			fail_msg("%s", failed->text);
	}
	free(json);
	finish(&run, &follower);
}

static void assert_failed(const struct seen_event *end, int exit_code)
{
	assert_int_equal(end->event.job_state, TFC_JOB_FAILED);
	assert_int_equal(end->event.reason, TFC_END_EXIT);
	assert_int_equal(end->event.exit_code, exit_code);
}

static void what_an_earlier_attempt_said_excuses_nothing(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	char *json = node_json("{'argv':['/bin/sh','-c','test $TFC_ATTEMPT = 1 && echo Address "
			       "already in use && exit 96; exit 7'],'restart':{'backoff_s':[0,0]},"
			       "'roles':{'worker':{}}}");
	assert_failed(node_run_job(&run, json, &follower), 7);
	assert_non_null(node_find(&follower, TFC_EVENT_TASK, "worker/0", TFC_TASK_FAILED, 2));
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

static void what_is_said_after_it_listened_excuses_nothing(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	start(&run, &follower, "'roles':{'worker':{'ready':'listen'}}",
	      "'listen','stop','print','Address already in use','exit','7'");
	kill(node_await_task(&run, &follower, "worker/0", TFC_TASK_READY, 1)->event.pid, SIGCONT);
	assert_failed(node_await_end(&run, &follower), 7);
	assert_null(node_find(&follower, TFC_EVENT_TASK, "worker/0", TFC_TASK_STARTING, 2));
	node_follow_end(&follower);
	node_run_end(&run);
}

static bool is_window_closed(uint16_t port)
{
	int fd = test_bind("127.0.0.2", port, TEST_REUSEADDR);
	if (fd >= 0)
		close(fd);
	return fd == -EADDRINUSE;
}

/* Until the next attempt there is time to look. */
static void an_outsider_with_both_flags_is_out_once_the_attempt_has_ended(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	start(&run, &follower,
	      "'roles':{'worker':{'ready':'listen','restart':{'backoff_s':[2,2]}}}", "'wait'");
	const struct seen_event *running = node_await_task(&run, &follower, "worker/0",
							   TFC_TASK_RUNNING, 1);
	uint16_t port = port_of(running);
	int stranger = test_bind("127.0.0.1", port, TEST_REUSEADDR | TEST_REUSEPORT);
	assert_true(stranger >= 0);
	close(stranger);
	kill(running->event.pid, SIGKILL);
	node_await_task(&run, &follower, "worker/0", TFC_TASK_FAILED, 1);
	for (int i = 0; i < 100 && !is_window_closed(port); i++) /* the guard has yet to do so */
		tfc_ctx_run(run.ctx, 10);
	assert_int_equal(test_count_intruders(port), 0);
	finish(&run, &follower);
}

/* A few looks in the first second, rather than twenty: the pauses grow while nobody waits. */
static void who_need_not_listen_costs_no_wake_ups(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	char keys[128];
	snprintf(keys, sizeof(keys), "'roles':{'worker':{'port':%u,'ready':'started'}}",
		 free_port());
	node_run_begin(&run, NULL);
	start(&run, &follower, keys, "'wait'");
	node_await_task(&run, &follower, "worker/0", TFC_TASK_READY, 1);
	int wakes = 0;
	struct pollfd fd = {.fd = tfc_ctx_fd(run.ctx), .events = POLLIN};
	for (uint64_t end = tfc__now() + TFC__SECOND, now; (now = tfc__now()) < end; wakes++) {
		poll(&fd, 1, (int)((end - now) / TFC__MS) + 1);
		tfc_ctx_dispatch(run.ctx, 0);
	}
	assert_in_range(wakes, 1, 8);
	finish(&run, &follower);
}

/* The node's guard: a child of ours whose only children are shims. */
static pid_t find_guard(void)
{
	pid_t pids[16];
	size_t count = proc_family(getpid(), pids, 16);
	for (size_t i = 0; i < count; i++)
		if (pids[i] != getpid() && proc_parent(pids[i]) == getpid())
			return pids[i];
	fail_msg("there is no guard");
	return 0;
}

static int kill_guard_once(void *user, const tfc_task_info *task, tfc_env *env)
{
	pid_t *killed = user;
	if (*killed)
		return TFC_OK;
	*killed = find_guard();
	kill(*killed, SIGKILL);
	assert_true(proc_await_gone(*killed, 2000));
	return TFC_OK;
}

static void a_guard_that_dies_just_before_a_launch_does_not_cost_the_attempt(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	pid_t killed = 0;
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	tfc_node_hooks hooks = TFC_NODE_HOOKS_INIT;
	hooks.user = &killed;
	hooks.before_launch = kill_guard_once;
	options.hooks = &hooks;
	node_run_begin(&run, &options);
	start(&run, &follower, "'roles':{'worker':{'ready':'listen'}}", "'listen','wait'");
	uint16_t port = port_of(node_await_task(&run, &follower, "worker/0", TFC_TASK_HOLDING, 0));
	const struct seen_event *ready = node_await_task(&run, &follower, "worker/0",
							 TFC_TASK_READY, 1);
	assert_int_not_equal(killed, 0);
	assert_int_equal(port_of(ready), port);
	assert_int_equal(test_count_intruders(port), 0);
	finish(&run, &follower);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_is_held_while_its_task_listens_and_kept_over_a_kill),
		cmocka_unit_test(a_fixed_port_is_used_or_named),
		cmocka_unit_test(a_pool_too_small_says_how_many_are_missing_and_keeps_none),
		cmocka_unit_test(who_got_no_port_gives_back_its_slot),
		cmocka_unit_test(an_outsider_is_named_and_the_job_moves_to_another_port),
		cmocka_unit_test(a_window_stays_open_where_it_was_requested),
		cmocka_unit_test(a_released_port_is_taken_again_after_the_attempt),
		cmocka_unit_test(a_port_that_was_taken_between_two_attempts_is_replaced),
		cmocka_unit_test(a_failed_bind_is_explained),
		cmocka_unit_test(who_met_a_passer_by_is_restarted_with_the_same_port),
		cmocka_unit_test(what_an_earlier_attempt_said_excuses_nothing),
		cmocka_unit_test(what_is_said_after_it_listened_excuses_nothing),
		cmocka_unit_test(an_outsider_with_both_flags_is_out_once_the_attempt_has_ended),
		cmocka_unit_test(who_need_not_listen_costs_no_wake_ups),
		cmocka_unit_test(a_guard_that_dies_just_before_a_launch_does_not_cost_the_attempt),
	};
	return cmocka_run_group_tests_name("node_port", tests, NULL, NULL);
}
