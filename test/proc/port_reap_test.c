/* port: one that is given back while its task lives is free once the task is gone, and not before.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <unistd.h>

#include "ctx/ctx.h"
#include "proc/proc.h"
#include "proc_run.h"
#include "sockets.h"

static bool is_free(uint16_t port)
{
	int fd = test_bind("::", port, TEST_PLAIN);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

struct release {
	struct tfc__work work;
	bool is_done;
};

static void on_released(struct tfc__work *work)
{
	tfc__container_of(work, struct release, work)->is_done = true;
}

/* The guard has read the release. */
static void release(struct proc_run *run, tfc_port_hold *hold)
{
	struct release release = {.is_done = false};
	tfc__work_init(&release.work, run->ctx, on_released);
	tfc_port_hold_release(hold);
	assert_true(tfc__guard_await_releases(run->ctx, &release.work));
	while (!release.is_done)
		assert_true(tfc_ctx_run(run->ctx, 5000) >= 0);
}

static void port_stays_held_until_its_task_is_reaped(void **state)
{
	struct proc_run run;
	struct proc_task task = {.pid = 0};
	tfc_port_pool *pool;
	tfc_port_hold *hold;
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	proc_run_begin(&run);
	assert_int_equal(tfc_port_pool_open(run.ctx, NULL, &pool), 0);
	assert_int_equal(tfc_port_acquire(pool, 0, &hold), 0);
	uint16_t port = tfc_port_hold_number(hold);
	const char *const argv[] = {proc_task_program(), "deaf", "wait", NULL};
	options.argv = argv;
	options.hold = hold;
	proc_start_with(&run, &task, &options);
	proc_await_start(&run, &task);
	assert_int_equal(tfc_port_hold_set_open(hold, 0), 0);
	release(&run, hold);
	assert_false(is_free(port));
	assert_int_equal(tfc_process_stop(task.process, 0), 0);
	proc_await_end(&run, &task);
	for (int i = 0; i < 5000 && !is_free(port); i++)
		poll(NULL, 0, 1); /* no event reports that the guard has reaped the shim */
	assert_true(is_free(port));
	proc_close(&task);
	tfc_port_pool_close(pool);
	proc_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(port_stays_held_until_its_task_is_reaped),
	};
	return cmocka_run_group_tests_name("port_reap", tests, NULL, NULL);
}
