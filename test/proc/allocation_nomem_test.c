/* allocation: whichever allocation of memory fails, opening and ending an allocation fails in words
 * or works, and nothing is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <tfcluster/tfcluster.h>

#include "base/clock.h"
#include "failing_malloc.h"
#include "leaks.h"

#define PATIENCE (30 * TFC__SECOND)

static char dir[LEAKS_PATH];

static struct {
	bool is_ready, has_failed, has_left;
} seen;

static int make_dir(void **state)
{
	leaks_make_dir(dir);
	return 0;
}

/* The file of rank 0 was removed. */
static int remove_dir(void **state)
{
	return rmdir(dir);
}

static void on_event(void *user, const tfc_allocation_event *event)
{
	seen.is_ready |= event->kind == TFC_ALLOCATION_READY;
	seen.has_failed |= event->kind == TFC_ALLOCATION_FAILED;
}

static void on_left(void *user)
{
	seen.has_left = true;
}

static void run_until(tfc_ctx *ctx, const bool *is_met, const bool *or_that)
{
	for (uint64_t end = tfc__now() + PATIENCE; !*is_met && !*or_that;) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(ctx, 1000) >= 0);
	}
}

static int end_allocation(tfc_ctx *ctx, tfc_allocation *allocation)
{
	SWEPT(tfc_allocation_end);
	int code = failing_said(tfc_allocation_end(allocation, 3, "the end", on_left, NULL),
				tfc_ctx_error(ctx));
	failing_relent();
	if (code < 0)
		assert_int_equal(tfc_allocation_end(allocation, 3, "the end", on_left, NULL), 0);
	run_until(ctx, &seen.has_left, &seen.has_left);
	return code;
}

static int open_and_end(void)
{
	static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
	tfc_ctx_options ctx_options = TFC_CTX_OPTIONS_INIT;
	tfc_allocation_options options = TFC_ALLOCATION_OPTIONS_INIT;
	char node[LEAKS_PATH + 40];
	tfc_ctx *ctx = NULL;
	tfc_allocation *allocation = NULL;
	SWEPT(tfc_allocation_open);
	memset(&seen, 0, sizeof(seen));
	snprintf(node, sizeof(node), "{\"temp-dir\": \"%s\", \"gpus\": \"none\"}",
		 leaks_temp_dir());
	ctx_options.helper_dir = getenv("TFC_HELPER_DIR");
	options.has_rank = 1;
	options.rank_count = 1;
	options.env = env;
	options.rendezvous = dir;
	options.host = "127.0.0.1";
	options.agreement = "{}";
	options.node = node;
	int code = tfc_ctx_new(&ctx_options, NULL, &ctx);
	if (code == TFC_OK)
		code = failing_said(tfc_allocation_open(ctx, &options, on_event, NULL, &allocation),
				    tfc_ctx_error(ctx));
	assert_true(code == TFC_OK || !allocation);
	if (code == TFC_OK) {
		run_until(ctx, &seen.is_ready, &seen.has_failed);
		code = end_allocation(ctx, allocation);
	}
	failing_relent();
	tfc_allocation_close(allocation);
	tfc_ctx_free(ctx);
	return code;
}

static void an_allocation_is_opened_and_ended_or_refused(void **state)
{
	failing_sweep(open_and_end, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_allocation_is_opened_and_ended_or_refused,
						make_dir, remove_dir),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
