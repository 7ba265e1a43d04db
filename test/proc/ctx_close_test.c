/* ctx: a context that is closed names what is open; one that is freed closes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "node_run.h"
#include "proc_run.h"
#include "sockets.h"

struct handles {
	struct node_run run;
	tfc_port_pool *pool;
	tfc_port_hold *hold;
	struct proc_task task;
	tfc_member_watch *watch;
	struct follower follower;
};

static void on_member(void *user, uint32_t change, const tfc_member_info *member)
{
}

static void on_process(void *user, const tfc_process_event *event)
{
	struct proc_task *task = user;
	if (event->kind == TFC_PROCESS_STARTED)
		task->pid = event->pid;
}

/* One of each, and a job whose task runs. */
static void open_handles(struct handles *handles)
{
	const char *const argv[] = {node_task_program(), "wait", NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	struct node_run *run = &handles->run;
	node_run_begin(run, NULL);
	assert_int_equal(tfc_port_pool_open(run->ctx, NULL, &handles->pool), 0);
	assert_int_equal(tfc_port_acquire(handles->pool, 0, &handles->hold), 0);
	options.argv = argv;
	assert_int_equal(tfc_process_spawn(run->ctx, &options, on_process, &handles->task,
					   &handles->task.process),
			 0);
	assert_int_equal(tfc_member_watch_open(run->node, on_member, NULL, &handles->watch), 0);
	char *json = node_script(1, "sleep 600");
	node_start(run, json, &handles->follower);
	node_await_task(run, &handles->follower, "worker/0", TFC_TASK_READY, 1);
	while (!handles->task.pid)
		assert_true(tfc_ctx_run(run->ctx, 5000) >= 0);
	free(json);
}

static void close_names_what_is_open_and_changes_nothing(void **state)
{
	struct handles handles = {.task.pid = 0};
	open_handles(&handles);
	tfc_ctx *ctx = handles.run.ctx;
	assert_int_equal(tfc_ctx_close(ctx), TFC_EBUSY);
	assert_string_equal(tfc_ctx_error(ctx)->text,
			    "cannot close the context, handles are open: subscription 1, gateway "
			    "1, member watch 1, node 1, process 1, port hold 1, port pool 1; close "
			    "them, or call tfc_ctx_free, which closes them itself");
	assert_int_equal(kill(handles.task.pid, 0), 0);
	node_follow_end(&handles.follower);
	tfc_member_watch_close(handles.watch);
	tfc_process_close(handles.task.process);
	tfc_port_hold_release(handles.hold);
	tfc_port_pool_close(handles.pool);
	node_run_close(&handles.run);
	tfc_ctx_free(NULL);
	assert_int_equal(tfc_ctx_close(ctx), TFC_OK);
	handles.run.ctx = NULL;
	node_run_end(&handles.run);
}

static void free_closes_all_that_is_open(void **state)
{
	struct handles handles = {.task.pid = 0};
	open_handles(&handles);
	uint16_t port = tfc_port_hold_number(handles.hold);
	tfc_ctx_free(handles.run.ctx);
	int fd = test_bind("::", port, TEST_PLAIN);
	assert_true(fd >= 0);
	close(fd);
	handles.follower.sub = NULL;
	node_follow_end(&handles.follower);
	handles.run.ctx = NULL;
	handles.run.node = NULL;
	handles.run.gateway = NULL;
	node_run_end(&handles.run); /* no descriptor, process or directory is left */
}

static void on_post(void *user)
{
	tfc_ctx *ctx = user;
	assert_int_equal(tfc_ctx_close(ctx), TFC_ESTATE);
}

static void close_inside_a_callback_is_refused(void **state)
{
	tfc_ctx *ctx;
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), 0);
	assert_int_equal(tfc_ctx_post(ctx, on_post, ctx), 0);
	assert_true(tfc_ctx_run(ctx, 5000) >= 0);
	assert_int_equal(tfc_ctx_close(ctx), 0);
	assert_int_equal(tfc_ctx_close(NULL), TFC_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(close_names_what_is_open_and_changes_nothing),
		cmocka_unit_test(free_closes_all_that_is_open),
		cmocka_unit_test(close_inside_a_callback_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
