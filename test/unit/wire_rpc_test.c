/* wire: each call ends once, for one reason, at both ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rpc_kept.h"

/* ---- calls */

static void both_ends_may_call(void **state)
{
	struct rpc_outcome there = {0}, back = {0};
	assert_int_equal(rpc_ask(near, "echo", 7, 0, 0, &there), TFC_OK);
	assert_int_equal(rpc_ask(far, "echo", 8, 0, 0, &back), TFC_OK);
	assert_int_equal(there.ends, 0); /* never inside */
	ended(&there, TFC_OK);
	ended(&back, TFC_OK);
	assert_int_equal(there.number, 7);
	assert_int_equal(back.number, 8);
}

static void fail_busy(struct rpc_end *end, struct tfc__rpc_request *request, const char *method,
		      const msgpack_object *params)
{
	tfc_error error = TFC_ERROR_INIT;
	assert_string_equal(method, "port.hold");
	tfc__fail(&error, TFC_EBUSY, "port", 98, "port %d is taken", (int)params->via.u64);
	tfc__rpc_fail(request, &error);
}

static void a_failure_arrives_as_it_was(void **state)
{
	struct rpc_outcome outcome = {0};
	far->serve = fail_busy;
	assert_int_equal(rpc_ask(near, "port.hold", 2222, 0, 0, &outcome), TFC_OK);
	ended(&outcome, TFC_EBUSY);
	assert_string_equal(outcome.error.text, "port 2222 is taken");
	assert_string_equal(outcome.error.component, "port");
	assert_int_equal(outcome.error.sys_errno, 98);
}

static void responses_may_come_in_any_order(void **state)
{
	struct rpc_outcome outcomes[40] = {0};
	far->serve = keep;
	for (uint32_t i = 0; i < 40; i++)
		assert_int_equal(rpc_ask(near, "x", i, 0, 0, &outcomes[i]), TFC_OK);
	rpc_run(ctx);
	assert_int_equal(request_count, 40);
	for (uint32_t i = 40; i-- > 0;)
		answer(i, i);
	for (uint32_t i = 0; i < 40; i++) {
		ended(&outcomes[i], TFC_OK);
		assert_int_equal(outcomes[i].number, i);
	}
}

static void a_notification_is_served_without_a_response(void **state)
{
	far->serve = keep;
	assert_int_equal(tfc__rpc_notify(near->rpc, "note", NULL), TFC_OK);
	rpc_run(ctx);
	assert_int_equal(notes, 1);
	assert_int_equal(far->sent, 1); /* its hello */
}

/* ---- cancel */

static void canceled_is_canceled_whatever_the_response(void **state)
{
	struct rpc_outcome outcome = {0};
	far->serve = keep;
	assert_int_equal(rpc_ask(near, "x", 1, 0, 5, &outcome), TFC_OK);
	rpc_run(ctx);
	tfc__rpc_cancel(outcome.call);
	tfc__rpc_cancel(outcome.call);
	assert_int_equal(outcome.ends, 0);
	ended(&outcome, TFC_ECANCELED);
	assert_int_equal(cancels, 1);
	assert_int_equal(tfc__rpc_credit(requests[0]), 0);
	answer(0, 1);
	ended(&outcome, TFC_ECANCELED);
}

/* The answer is on its way, and so is an item. */
static void a_cancel_may_cross_the_response(void **state)
{
	struct rpc_outcome outcome = {0};
	struct tfc__buf item = rpc_number(5);
	far->serve = keep;
	assert_int_equal(rpc_ask(near, "x", 1, 1000, 5, &outcome), TFC_OK);
	rpc_run(ctx);
	rpc_end_hold(far);
	assert_int_equal(tfc__rpc_item(requests[0], &item), TFC_OK);
	answer(0, 1);
	tfc__rpc_more(outcome.call, 3);
	tfc__rpc_cancel(outcome.call);
	rpc_end_release(far);
	ended(&outcome, TFC_ECANCELED);
	assert_int_equal(outcome.items, 0);
	assert_int_equal(cancels, 0); /* it was answered before */
	tfc__buf_fini(&item);
}

static void a_dropped_call_says_nothing_more(void **state)
{
	struct rpc_outcome outcomes[4] = {0};
	far->serve = keep;
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(rpc_ask(near, "x", i, 0, 5, &outcomes[i]), TFC_OK);
	struct tfc__rpc_call *last = outcomes[3].call;
	tfc__rpc_drop(outcomes[0].call); /* not even sent */
	rpc_run(ctx);
	assert_int_equal(cancels, 1);
	tfc__rpc_drop(outcomes[1].call);
	tfc__rpc_cancel(outcomes[2].call);
	tfc__rpc_drop(outcomes[2].call);
	rpc_run(ctx);
	assert_int_equal(cancels, 3);
	rpc_end_close(near, NULL);
	tfc__rpc_drop(last);
	rpc_run(ctx);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(outcomes[i].ends, 0);
		answer(i, 0);
	}
	tfc__rpc_drop(NULL);
}

/* It was canceled while nobody watched. */
static void a_late_watch_is_reported(void **state)
{
	struct rpc_outcome outcome = {0};
	far->serve = keep;
	assert_int_equal(rpc_ask(near, "x", 1, 0, 0, &outcome), TFC_OK);
	rpc_run(ctx);
	tfc__rpc_watch(requests[0], NULL, NULL, NULL);
	tfc__rpc_cancel(outcome.call);
	ended(&outcome, TFC_ECANCELED);
	tfc__rpc_watch(requests[0], NULL, on_cancel, NULL);
	assert_int_equal(cancels, 0);
	rpc_run(ctx);
	assert_int_equal(cancels, 1);
	answer(0, 0);
}

/* ---- deadlines */

static void a_response_that_is_late_is_none(void **state)
{
	struct rpc_outcome outcome = {0}, next = {0};
	far->serve = keep;
	assert_int_equal(rpc_ask(near, "slow", 1, 1, 0, &outcome), TFC_OK);
	wait_for_end(&outcome);
	ended(&outcome, TFC_ETIMEDOUT);
	assert_string_equal(outcome.error.text, "no response within 1 ms");
	assert_int_equal(cancels, 1); /* by the time or by the caller: once */
	answer(0, 1);
	assert_int_equal(rpc_ask(near, "fast", 2, 0, 0, &next), TFC_OK);
	rpc_run(ctx);
	answer(1, 2);
	ended(&next, TFC_OK);
	ended(&outcome, TFC_ETIMEDOUT);
}

/* No cancel ever comes: the far end knows the time itself. */
static void the_deadline_counts_at_the_other_end_too(void **state)
{
	static const char request[] = "\x96\x00\x01\xa1x\xc0\x01\x09";
	far->serve = keep;
	rpc_end_feed(far, request, sizeof(request) - 1);
	assert_int_equal(request_count, 1);
	assert_int_equal(tfc__rpc_credit(requests[0]), 9);
	while (!cancels)
		assert_true(tfc_ctx_run(ctx, 10000) >= 0);
	assert_int_equal(tfc__rpc_credit(requests[0]), 0);
	rpc_end_hold(far); /* the near end has asked nothing */
	answer(0, 1);
	rpc_run(ctx);
	assert_int_equal(cancels, 1);
}

/* ---- streams */

static void items_cost_credit(void **state)
{
	struct rpc_outcome outcome = {0};
	struct tfc__buf item = rpc_number(5);
	far->serve = keep;
	assert_int_equal(rpc_ask(near, "x", 1, 0, 2, &outcome), TFC_OK);
	rpc_run(ctx);
	assert_int_equal(tfc__rpc_credit(requests[0]), 2);
	assert_int_equal(tfc__rpc_item(requests[0], &item), TFC_OK);
	assert_int_equal(tfc__rpc_item(requests[0], &item), TFC_OK);
	assert_int_equal(tfc__rpc_item(requests[0], &item), TFC_ESTATE);
	rpc_run(ctx);
	assert_int_equal(outcome.items, 2);
	tfc__rpc_more(outcome.call, 0);
	tfc__rpc_more(outcome.call, 1);
	rpc_run(ctx);
	assert_int_equal(credits, 1);
	assert_int_equal(tfc__rpc_item(requests[0], &item), TFC_OK);
	answer(0, 9);
	ended(&outcome, TFC_OK);
	assert_int_equal(outcome.items, 3);
	assert_int_equal(outcome.item, 5);
	tfc__buf_fini(&item);
}

static void keep_bytes(void *user, const void *item, size_t len)
{
	struct tfc__buf *items = user;
	tfc__buf_add(items, item, len);
}

static void ignore_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
}

/* Whoever takes items as bytes parses them: they need not even be a value. */
static void items_may_be_taken_as_bytes(void **state)
{
	struct tfc__buf item = {0}, items = {0};
	const struct tfc__rpc_options options = {.method = "x",
						 .credit = 4,
						 .item_bytes = keep_bytes,
						 .end = ignore_end,
						 .user = &items};
	struct tfc__rpc_call *call;
	far->serve = keep;
	assert_int_equal(tfc__rpc_call(near->rpc, &options, NULL, &call), TFC_OK);
	rpc_run(ctx);
	tfc__msg_str(&item, "one");
	assert_int_equal(tfc__rpc_item(requests[0], &item), TFC_OK);
	rpc_run(ctx);
	assert_int_equal(items.len, 4);
	assert_memory_equal(items.data, "\xa3one", 4);
	rpc_end_feed(near, "\xdd\0\0\0\x03\x04\xcd\0\x01\xa3x", 11);
	assert_int_equal(items.len, 6);
	assert_memory_equal(items.data + 4, "\xa3x", 2);
	/* A newer version may append to the message. */
	rpc_end_feed(near, "\x94\x04\x01\x92\xcd\0\x05\xc0\xa1y", 10);
	assert_int_equal(items.len, 9);
	assert_memory_equal(items.data + 6, "\x92\x05\xc0", 3);
	tfc__rpc_drop(call);
	rpc_end_feed(near, "\x93\x04\x01\xc0", 4);
	assert_int_equal(items.len, 9);
	assert_int_equal(near->broken.code, 0);
	rpc_end_feed(near, "\x93\x04\x01\xc0", 4);
	assert_string_equal(near->broken.text, "protocol error of the peer: item without credit");
	tfc__buf_fini(&item);
	tfc__buf_fini(&items);
}

static void an_item_that_is_missing_is_not_taken_as_no_bytes(void **state)
{
	struct tfc__buf items = {0};
	const struct tfc__rpc_options options = {.method = "x",
						 .credit = 1,
						 .item_bytes = keep_bytes,
						 .end = ignore_end,
						 .user = &items};
	struct tfc__rpc_call *call;
	far->serve = keep;
	assert_int_equal(tfc__rpc_call(near->rpc, &options, NULL, &call), TFC_OK);
	rpc_run(ctx);
	rpc_end_feed(near, "\x92\x04\x01", 3);
	assert_string_equal(near->broken.text, "protocol error of the peer: message lacks items");
	assert_null(items.data);
	tfc__rpc_drop(call);
}

static void credit_has_a_top(void **state)
{
	struct rpc_outcome outcome = {0};
	far->serve = keep;
	assert_int_equal(rpc_ask(near, "x", 1, 0, UINT32_MAX - 1, &outcome), TFC_OK);
	tfc__rpc_more(outcome.call, 10);
	tfc__rpc_more(outcome.call, 10);
	rpc_run(ctx);
	assert_int_equal(tfc__rpc_credit(requests[0]), UINT32_MAX);
	answer(0, 9);
	ended(&outcome, TFC_OK);
}

/* ---- limits */

static void open_calls_have_a_limit_that_a_cancel_does_not_lift(void **state)
{
	struct rpc_outcome *outcomes = calloc(TFC__RPC_OPEN_MAX, sizeof(*outcomes)), late = {0};
	assert_non_null(outcomes);
	far->serve = keep;
	for (uint32_t i = 0; i < TFC__RPC_OPEN_MAX; i++)
		assert_int_equal(rpc_ask(near, "x", i, 0, 0, &outcomes[i]), TFC_OK);
	assert_int_equal(rpc_ask(near, "x", 1, 0, 0, &late), TFC_EBUSY);
	tfc__rpc_cancel(outcomes[0].call);
	ended(&outcomes[0], TFC_ECANCELED);
	assert_int_equal(rpc_ask(near, "x", 1, 0, 0, &late), TFC_EBUSY);
	answer(0, 0);
	rpc_run(ctx);
	requests[0] = requests[--request_count];
	assert_int_equal(rpc_ask(near, "x", 1, 0, 0, &late), TFC_OK);
	rpc_run(ctx);
	for (uint32_t i = 0; i < request_count; i++)
		answer(i, 0);
	ended(&late, TFC_OK);
	for (uint32_t i = 1; i < TFC__RPC_OPEN_MAX; i++)
		assert_int_equal(outcomes[i].ends, 1);
	free(outcomes);
}

static void on_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct rpc_outcome *outcome = user;
	outcome->ends++;
	outcome->code = code;
}

static int call_with(const struct tfc__buf *params, struct rpc_outcome *outcome)
{
	const struct tfc__rpc_options options = {.method = "big",
						 .params = params,
						 .end = on_end,
						 .user = outcome};
	return tfc__rpc_call(near->rpc, &options, &outcome->error, NULL);
}

static void what_the_other_end_would_refuse_is_not_sent(void **state)
{
	struct rpc_outcome outcome = {0};
	struct tfc__buf big = {0}, many = {0}, fits = {0};
	char *bytes = calloc(1, TFC__RPC_MESSAGE_MAX), method[TFC__RPC_METHOD_MAX + 2] = {0};
	assert_non_null(bytes);
	tfc__msg_bin(&big, bytes, TFC__RPC_MESSAGE_MAX - 5);
	tfc__msg_bin(&fits, bytes, TFC__RPC_MESSAGE_MAX - 100);
	tfc__msg_array(&many, 300000);
	for (int i = 0; i < 300000; i++)
		tfc__msg_nil(&many);
	assert_int_equal(call_with(&big, &outcome), TFC_ETOOBIG);
	assert_int_equal(call_with(&many, &outcome), TFC_ETOOBIG);
	assert_int_equal(tfc__rpc_notify(near->rpc, "x", &big), TFC_ETOOBIG);
	memset(method, 'm', sizeof(method) - 1);
	assert_int_equal(rpc_ask(near, method, 1, 0, 0, &outcome), TFC_EINVAL);
	assert_int_equal(tfc__rpc_notify(near->rpc, method, NULL), TFC_EINVAL);
	far->serve = keep;
	assert_int_equal(call_with(&fits, &outcome), TFC_OK);
	rpc_run(ctx);
	tfc__rpc_reply(requests[0], &many); /* becomes a failure */
	ended(&outcome, TFC_ETOOBIG);
	tfc__buf_fini(&big);
	tfc__buf_fini(&many);
	tfc__buf_fini(&fits);
	free(bytes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(both_ends_may_call),
		TEST(a_failure_arrives_as_it_was),
		TEST(responses_may_come_in_any_order),
		TEST(a_notification_is_served_without_a_response),
		TEST(canceled_is_canceled_whatever_the_response),
		TEST(a_cancel_may_cross_the_response),
		TEST(a_dropped_call_says_nothing_more),
		TEST(a_response_that_is_late_is_none),
		TEST(the_deadline_counts_at_the_other_end_too),
		TEST(items_cost_credit),
		TEST(items_may_be_taken_as_bytes),
		TEST(an_item_that_is_missing_is_not_taken_as_no_bytes),
		TEST(credit_has_a_top),
		TEST(a_late_watch_is_reported),
		TEST(open_calls_have_a_limit_that_a_cancel_does_not_lift),
		TEST(what_the_other_end_would_refuse_is_not_sent),
	};
	return cmocka_run_group_tests_name("wire rpc", tests, NULL, NULL);
}
