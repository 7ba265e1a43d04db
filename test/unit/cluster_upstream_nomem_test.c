/* cluster: questions about data without memory: said, and nothing is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cluster/upstream.h"
#include "failing_malloc.h"

static tfc_ctx *ctx;

static int fill(tfc_upstream_request *question)
{
	SWEPT(tfc_upstream_add_partition);
	SWEPT(tfc_upstream_add_env);
	int code = failing_said(tfc_upstream_add_partition(question, "0", "a"), tfc_ctx_error(ctx));
	if (code == TFC_OK)
		code = failing_said(tfc_upstream_add_partition(question, "1", NULL),
				    tfc_ctx_error(ctx));
	if (code == TFC_OK)
		code = failing_said(tfc_upstream_add_env(question, "a", "B", "c"),
				    tfc_ctx_error(ctx));
	return code;
}

static void resolve(void *user, const char *name, tfc_upstream_request *question)
{
	SWEPT(tfc_upstream_complete);
	SWEPT(tfc_upstream_fail);
	if (fill(question) < 0)
		assert_int_equal(tfc_upstream_fail(question, "out of memory"), TFC_OK);
	else
		failing_said(tfc_upstream_complete(question, 1), tfc_ctx_error(ctx));
}

static void cancel(void *user, tfc_upstream_request *question)
{
	fail();
}

static int share(const struct tfc__upstream *answer)
{
	struct tfc__upstream_share *shares;
	struct tfc__strv env = {0};
	int code = tfc__upstream_share(answer, 3, &shares);
	if (code < 0)
		return code;
	tfc__upstream_environ(answer, &shares[0], "a", &env);
	code = env.is_failed ? TFC_ENOMEM : TFC_OK;
	tfc__strv_fini(&env);
	tfc__upstream_shares_free(shares, 3);
	return code;
}

static int ask(void)
{
	static const tfc_upstream_ops ops = {.size = sizeof(ops),
					     .resolve = resolve,
					     .cancel = cancel};
	struct tfc__upstreams *upstreams;
	const struct tfc__upstream *answer;
	tfc_error error = TFC_ERROR_INIT;
	int code = failing_said(tfc__upstreams_open(ctx, &ops, NULL, &error, &upstreams), &error);
	if (code < 0)
		return code;
	code = tfc__upstreams_get(upstreams, "grid", &error, &answer);
	if (code == TFC_EAGAIN) { /* the host has refused, for want of memory */
		assert_string_equal(error.text, "upstream \"grid\": out of memory");
		code = TFC_ENOMEM;
	}
	if (code == TFC_OK)
		code = share(answer);
	tfc__upstreams_close(upstreams);
	return code;
}

static void a_response_is_whole_or_not_there(void **state)
{
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), TFC_OK);
	failing_sweep(ask, 15);
	tfc_ctx_free(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_response_is_whole_or_not_there)};
	return cmocka_run_group_tests_name("cluster_upstream_nomem", tests, NULL, NULL);
}
