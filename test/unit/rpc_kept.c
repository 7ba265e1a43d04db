#include "rpc_kept.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

tfc_ctx *ctx;
struct rpc_pair pair;
struct rpc_end *const near = &pair.ends[0], *const far = &pair.ends[1];

struct tfc__rpc_request *requests[TFC__RPC_OPEN_MAX];
uint32_t request_count, cancels, credits, notes;

void on_cancel(void *user)
{
	cancels++;
}

static void on_credit(void *user)
{
	credits++;
}

void keep(struct rpc_end *end, struct tfc__rpc_request *request, const char *method,
	  const msgpack_object *params)
{
	if (!request) {
		notes++;
		return;
	}
	assert_true(request_count < TFC__RPC_OPEN_MAX);
	requests[request_count++] = request;
	tfc__rpc_watch(request, on_credit, on_cancel, NULL);
}

void answer(uint32_t i, uint64_t number)
{
	struct tfc__buf result = rpc_number(number);
	tfc__rpc_reply(requests[i], &result);
	tfc__buf_fini(&result);
}

int open_pair(void **state)
{
	request_count = cancels = credits = notes = 0;
	if (tfc_ctx_new(NULL, NULL, &ctx) < 0 || rpc_pair_open(&pair, ctx) < 0)
		return -1;
	rpc_run(ctx);
	return 0;
}

int close_pair(void **state)
{
	rpc_pair_close(&pair);
	rpc_run(ctx);
	tfc_ctx_free(ctx);
	return 0;
}

void ended(struct rpc_outcome *outcome, int code)
{
	rpc_run(ctx);
	assert_int_equal(outcome->ends, 1);
	assert_int_equal(outcome->code, code);
	assert_int_equal(near->broken.code, 0);
	assert_int_equal(far->broken.code, 0);
}

void wait_for_end(struct rpc_outcome *outcome)
{
	while (!outcome->ends)
		assert_true(tfc_ctx_run(ctx, 10000) >= 0);
}
