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

#ifdef IS_SANITIZED

int main(void)
{
	return 77; /* skipped: the sanitizer brings an allocator of its own */
}

#else

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

/* Makes allocation n fail, for every n, until the call gets by without it. */
static void sweep_at_least(int (*call)(void), long least)
{
	int result = TFC_ENOMEM;
	long n;
	for (n = 0; result != TFC_OK; n++) {
		int fds = test_count_fds();
		live = 0;
		until_failure = n;
		is_counting = true;
		result = call();
		is_counting = false;
		if (live)
			fail_msg("allocation %ld failed, and %ld were leaked", n, live);
		if (result != TFC_OK && result != TFC_ENOMEM)
			fail_msg("allocation %ld failed, and %s was said", n, tfc_err_name(result));
		assert_int_equal(test_count_fds(), fds);
		assert_in_range(n, 0, 10000);
	}
	assert_in_range(n, least, 10000);
}

static int hold_and_release(void)
{
	tfc_port_pool *pool = NULL;
	tfc_port_hold *hold = NULL;
	int code = tfc_port_pool_open(ctx, NULL, &pool);
	if (!code)
		code = tfc_port_acquire(pool, 0, &hold);
	tfc_port_release(hold);
	tfc_port_pool_close(pool);
	return code;
}

static void acquiring(void **state)
{
	sweep_at_least(hold_and_release, 3);
}

static tfc_port_hold *held;

static int ask_who_listens(void)
{
	tfc_port_listener listener = TFC_PORT_LISTENER_INIT;
	int code = tfc_port_listener_get(held, getpid(), &listener);
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
	assert_int_equal(tfc_port_admit(held, 1), TFC_OK);
	task = test_listen("::", tfc_port_number(held), TEST_REUSEADDR);
	assert_true(task >= 0);
	sweep_at_least(ask_who_listens, 3);
	sweep_at_least(find_by_parents, 3);
	close(task);
	tfc_port_release(held);
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

#endif
