/* ctx: whichever allocation fails, the call says so, changes nothing and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "failing_malloc.h"
#include <tfcluster/ctx.h>

static int new_and_free(void)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	tfc_ctx *ctx = NULL;
	SWEPT(tfc_ctx_new);
	options.helper_dir = "/usr/libexec";
	int code = failing_said(tfc_ctx_new(&options, &error, &ctx), &error);
	assert_true(code == TFC_OK || !ctx);
	tfc_ctx_free(ctx);
	return code;
}

static void a_context_is_whole_or_not_there(void **state)
{
	failing_sweep(new_and_free, 2);
}

static tfc_ctx *ctx;
static int calls;

static void count(void *user)
{
	calls++;
}

/* What was accepted is called, what was refused is not. */
static int post_and_dispatch(void)
{
	int accepted = 0, code = TFC_OK;
	SWEPT(tfc_ctx_post);
	SWEPT(tfc_ctx_dispatch);
	SWEPT(tfc_ctx_run);
	calls = 0;
	for (int i = 0; i < 3; i++) {
		int posted = tfc_ctx_post(ctx, count, NULL);
		accepted += posted == TFC_OK;
		if (posted < 0)
			code = posted;
	}
	assert_true(tfc_ctx_dispatch(ctx, 1) >= 0);
	assert_true(tfc_ctx_run(ctx, 0) >= 0);
	assert_int_equal(calls, accepted);
	return code;
}

static void a_post_is_called_once_or_refused(void **state)
{
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), TFC_OK);
	failing_sweep(post_and_dispatch, 3);
	tfc_ctx_free(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_context_is_whole_or_not_there),
		cmocka_unit_test(a_post_is_called_once_or_refused),
	};
	return cmocka_run_group_tests_name("ctx_nomem", tests, NULL, NULL);
}
