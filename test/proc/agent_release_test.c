/* agent: a port that was released can be held again, also before the guard has closed it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent_order.h"
#include "leaks.h"
#include "proc/proc.h"
#include "proc/protocol.h"
#include "proc_run.h"
#include "sockets.h"

struct holder {
	tfc_ctx *ctx;
	struct tfc__agent *agent;
	tfc_job *job;
	struct tfc__agent_job *agent_job;
	uint32_t held, failed;
	char text[256];
};

static void on_agent(void *user, const struct tfc__task_event *event)
{
	struct holder *holder = user;
	holder->held += event->kind == TFC__AGENT_HELD;
	holder->failed += event->kind == TFC__AGENT_HOLD_FAILED;
	snprintf(holder->text, sizeof(holder->text), "%s", event->text ? event->text : "");
}

/* The first of two that nobody has. */
static uint16_t free_ports(void)
{
	for (uint16_t port = (uint16_t)(32000 + getpid() % 300 * 2); port < 32768; port += 2) {
		int one = test_bind("::", port, TEST_PLAIN);
		int other = test_bind("::", (uint16_t)(port + 1), TEST_PLAIN);
		if (one >= 0)
			close(one);
		if (other >= 0)
			close(other);
		if (one >= 0 && other >= 0)
			return port;
	}
	fail();
	return 0;
}

/* Two tasks with ports of their role, or of a pool that has no more than two. */
static void begin(struct holder *holder, bool is_fixed)
{
	struct tfc__agent_options options = {.temp_dir = leaks_temp_dir()};
	struct tfc__agent_job_info info = {.id = "0123456789abcdef"};
	tfc_error error = TFC_ERROR_INIT;
	char json[256], port[32] = "";
	uint16_t first = free_ports();
	if (is_fixed)
		snprintf(port, sizeof(port), ", \"port\": %u", first);
	options.port_first = first;
	options.port_last = (uint16_t)(first + 1);
	snprintf(json, sizeof(json),
		 "{\"argv\": [\"x\"], \"framework\": \"none\", \"roles\": {\"worker\": "
		 "{\"count\": 2, \"ready\": \"listen\"%s}}}",
		 port);
	*holder = (struct holder){0};
	assert_int_equal(proc_ctx_new(&holder->ctx), TFC_OK);
	assert_int_equal(tfc__agent_open(holder->ctx, &options, &holder->agent), TFC_OK);
	assert_int_equal(tfc_job_parse(json, strlen(json), NULL, &error, &holder->job), TFC_OK);
	info.job = holder->job;
	assert_int_equal(tfc__agent_job_open(holder->agent, &info, on_agent, holder, &error,
					     &holder->agent_job),
			 TFC_OK);
}

static void finish(struct holder *holder)
{
	tfc__agent_job_close(holder->agent_job);
	tfc__agent_close(holder->agent);
	tfc_job_free(holder->job);
	tfc_ctx_free(holder->ctx);
}

static void hold_both(struct holder *holder)
{
	holder->held = holder->failed = 0;
	agent_hold(&tfc__local_agent_ops, holder->agent_job, 0, 1);
	agent_hold(&tfc__local_agent_ops, holder->agent_job, 1, 1);
}

static void await_both(struct holder *holder)
{
	while (holder->held + holder->failed < 2)
		assert_true(tfc_ctx_run(holder->ctx, 5000) >= 0);
	if (holder->failed)
		fail_msg("%s", holder->text);
}

static void release_both(struct holder *holder)
{
	agent_release(&tfc__local_agent_ops, holder->agent_job, 0);
	agent_release(&tfc__local_agent_ops, holder->agent_job, 1);
}

/* Both ports are released and wanted again; the guard, which is stopped, has not closed them. */
static pid_t hold_again_behind_a_stopped_guard(struct holder *holder, bool is_fixed)
{
	begin(holder, is_fixed);
	hold_both(holder);
	await_both(holder);
	pid_t guard = tfc__guard_pid(holder->ctx);
	proc_stop(guard);
	release_both(holder);
	hold_both(holder);
	assert_true(tfc_ctx_run(holder->ctx, 50) >= 0);
	assert_int_equal(holder->held + holder->failed, 0);
	return guard;
}

static void hold_again(bool is_fixed)
{
	struct holder holder;
	pid_t guard = hold_again_behind_a_stopped_guard(&holder, is_fixed);
	kill(guard, SIGCONT);
	await_both(&holder);
	finish(&holder);
}

static void a_fixed_port_that_was_released_can_be_held_again_at_once(void **state)
{
	hold_again(true);
}

static void the_last_ports_of_a_pool_can_be_held_again_at_once(void **state)
{
	hold_again(false);
}

static void a_guard_that_dies_has_released_all(void **state)
{
	struct holder holder;
	pid_t guard = hold_again_behind_a_stopped_guard(&holder, true);
	kill(guard, SIGKILL);
	await_both(&holder);
	finish(&holder);
}

/* The kernel closes the guard's socket before its ports. Here a long time passes between the two.
 */
static void a_guard_that_is_exiting_still_holds_its_ports(void **state)
{
	struct holder holder;
	pid_t guard = hold_again_behind_a_stopped_guard(&holder, true);
	int pidfd = (int)syscall(SYS_pidfd_open, guard, 0);
	int guard_socket = (int)syscall(SYS_pidfd_getfd, pidfd, TFC__GUARD_HOST, 0);
	assert_int_equal(shutdown(guard_socket, SHUT_RDWR), 0);
	close(guard_socket);
	close(pidfd);
	while (tfc__guard_pid(holder.ctx) == guard)
		assert_true(tfc_ctx_run(holder.ctx, 5000) >= 0);
	assert_true(tfc_ctx_run(holder.ctx, 50) >= 0);
	if (holder.failed)
		fail_msg("%s", holder.text);
	kill(guard, SIGKILL); /* the host may have done so already */
	await_both(&holder);
	finish(&holder);
}

static void who_waits_for_a_release_may_end(void **state)
{
	struct holder holder;
	pid_t guard = hold_again_behind_a_stopped_guard(&holder, true);
	agent_release(&tfc__local_agent_ops, holder.agent_job, 1); /* it wants no port any more */
	kill(guard, SIGCONT);
	while (!holder.held)
		assert_true(tfc_ctx_run(holder.ctx, 5000) >= 0);
	proc_stop(guard);
	agent_release(&tfc__local_agent_ops, holder.agent_job, 0);
	agent_hold(&tfc__local_agent_ops, holder.agent_job, 0, 2);
	assert_true(tfc_ctx_run(holder.ctx, 50) >= 0);
	kill(guard, SIGCONT);
	finish(&holder);
	assert_int_equal(holder.held, 1);
	assert_int_equal(holder.failed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fixed_port_that_was_released_can_be_held_again_at_once),
		cmocka_unit_test(the_last_ports_of_a_pool_can_be_held_again_at_once),
		cmocka_unit_test(a_guard_that_dies_has_released_all),
		cmocka_unit_test(a_guard_that_is_exiting_still_holds_its_ports),
		cmocka_unit_test(who_waits_for_a_release_may_end),
	};
	return cmocka_run_group_tests_name("agent: released ports", tests, NULL, NULL);
}
