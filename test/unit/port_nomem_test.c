/* port: whichever allocation fails, the call says so and keeps neither memory nor descriptors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "failing_malloc.h"
#include "port/owner.h"
#include "port/port.h"
#include "sockets.h"

static tfc_ctx *ctx;
static int task = -1;

static int open_ctx(void **state)
{
	return tfc_ctx_new(NULL, NULL, &ctx);
}

static int free_ctx(void **state)
{
	tfc_ctx_free(ctx);
	return 0;
}

static int hold_and_release(void)
{
	tfc_port_pool *pool = NULL;
	tfc_port_hold *hold = NULL;
	SWEPT(tfc_port_pool_open);
	SWEPT(tfc_port_acquire);
	int code = tfc_port_pool_open(ctx, NULL, &pool);
	assert_true(code == TFC_OK || !pool);
	if (!code)
		code = tfc_port_acquire(pool, 0, &hold);
	assert_true(code == TFC_OK || !hold);
	failing_said(code, tfc_ctx_error(ctx));
	SWEPT(tfc_port_hold_set_open);
	if (!code)
		code = tfc_port_hold_set_open(hold, 1);
	tfc_port_hold_release(hold);
	tfc_port_pool_close(pool);
	return code;
}

static void acquiring(void **state)
{
	failing_sweep(hold_and_release, 2);
}

static tfc_port_hold *held;

static int ask_who_listens(void)
{
	tfc_port_listener listener = TFC_PORT_LISTENER_INIT;
	SWEPT(tfc_port_hold_listener);
	int code = failing_said(tfc_port_hold_listener(held, getpid(), &listener),
				tfc_ctx_error(ctx));
	assert_int_equal(listener.is_ours, code == TFC_OK);
	return code;
}

static int find_by_parents(void)
{
	struct tfc__sought nothing = {.inode = 1};
	return tfc__owner_find_by_parents(getpid(), &nothing, 1) ? TFC_ENOMEM : TFC_OK;
}

/* A task whose listener is not found by lack of memory must not be taken for a stranger. */
static void asking_who_listens(void **state)
{
	tfc_port_pool *pool = NULL;
	assert_int_equal(tfc_port_pool_open(ctx, NULL, &pool), TFC_OK);
	assert_int_equal(tfc_port_acquire(pool, 0, &held), TFC_OK);
	assert_int_equal(tfc_port_hold_set_open(held, 1), TFC_OK);
	task = test_listen("::", tfc_port_hold_number(held), TEST_REUSEADDR);
	assert_true(task >= 0);
	failing_sweep(ask_who_listens, 3);
	failing_sweep(find_by_parents, 3);
	close(task);
	tfc_port_hold_release(held);
	tfc_port_pool_close(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(acquiring),
		cmocka_unit_test(asking_who_listens),
	};
	return cmocka_run_group_tests_name("port_nomem", tests, open_ctx, free_ctx);
}
