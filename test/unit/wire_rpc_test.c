/* wire: each call ends once, for one reason, at both ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rpc_pair.h"

static tfc_ctx *ctx;
static struct rpc_pair pair;
static struct rpc_end *const near = &pair.ends[0], *const far = &pair.ends[1];

/* What the far end has open. */
static struct tfc__rpc_request *requests[TFC__RPC_OPEN_MAX];
static uint32_t request_count, cancels, credits, notes;

static void on_cancel(void *user)
{
	cancels++;
}

static void on_credit(void *user)
{
	credits++;
}

/* Keeps requests until the test answers them. */
static void keep(struct rpc_end *end, struct tfc__rpc_request *request, const char *method,
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

static void answer(uint32_t i, uint64_t number)
{
	struct tfc__buf result = rpc_number(number);
	tfc__rpc_reply(requests[i], &result);
	tfc__buf_fini(&result);
}

static int open_pair(void **state)
{
	request_count = cancels = credits = notes = 0;
	if (tfc_ctx_new(NULL, NULL, &ctx) < 0 || rpc_pair_open(&pair, ctx) < 0)
		return -1;
	rpc_run(ctx);
	return 0;
}

static int close_pair(void **state)
{
	rpc_pair_close(&pair);
	rpc_run(ctx);
	tfc_ctx_free(ctx);
	return 0;
}

/* It ended once, and stays so. */
static void ended(struct rpc_outcome *outcome, int code)
{
	rpc_run(ctx);
	assert_int_equal(outcome->ends, 1);
	assert_int_equal(outcome->code, code);
	assert_int_equal(near->broken.code, 0);
	assert_int_equal(far->broken.code, 0);
}

static void wait_for_end(struct rpc_outcome *outcome)
{
	while (!outcome->ends)
		assert_true(tfc_ctx_run(ctx, 10000) >= 0);
}

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
	assert_string_equal(outcome.error.room, "port");
	assert_int_equal(outcome.error.sys_errno, 98);
}

static void answers_may_come_in_any_order(void **state)
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

static void a_notification_is_served_without_an_answer(void **state)
{
	far->serve = keep;
	assert_int_equal(tfc__rpc_notify(near->rpc, "note", NULL), TFC_OK);
	rpc_run(ctx);
	assert_int_equal(notes, 1);
	assert_int_equal(far->sent, 1); /* its hello */
}

/* ---- cancel */

static void canceled_is_canceled_whatever_is_answered(void **state)
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
static void a_cancel_may_cross_the_answer(void **state)
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

/* ---- deadlines */

static void an_answer_that_is_late_is_none(void **state)
{
	struct rpc_outcome outcome = {0}, next = {0};
	far->serve = keep;
	assert_int_equal(rpc_ask(near, "slow", 1, 1, 0, &outcome), TFC_OK);
	wait_for_end(&outcome);
	ended(&outcome, TFC_ETIMEDOUT);
	assert_string_equal(outcome.error.text, "slow: no answer in 1 ms");
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

/* ---- the end of the connection */

static void a_lost_connection_ends_everything(void **state)
{
	struct rpc_outcome outcomes[2] = {0};
	tfc_error why = TFC_ERROR_INIT;
	far->serve = keep;
	assert_int_equal(rpc_ask(near, "one", 1, 0, 0, &outcomes[0]), TFC_OK);
	assert_int_equal(rpc_ask(near, "two", 1, 1000, 0, &outcomes[1]), TFC_OK);
	rpc_run(ctx);
	tfc__fail(&why, TFC_ESYS, "transport", 0, "connection reset");
	struct tfc__rpc *rpc = near->rpc;
	rpc_end_close(near, &why);
	rpc_end_close(far, NULL);
	assert_int_equal(outcomes[0].ends, 0);
	assert_int_equal(cancels, 0);
	assert_int_equal(tfc__rpc_notify(rpc, "late", NULL), TFC_ELOST); /* calls hold it */
	ended(&outcomes[0], TFC_ELOST);
	ended(&outcomes[1], TFC_ELOST);
	assert_string_equal(outcomes[0].error.text,
			    "one: the connection is lost: connection reset");
	assert_int_equal(cancels, 2);
	answer(0, 1); /* into nowhere */
	tfc__rpc_fail(requests[1], &why);
}

static void a_call_over_a_closed_connection_is_refused(void **state)
{
	struct rpc_outcome open = {0}, late = {0};
	assert_int_equal(rpc_ask(near, "x", 1, 0, 0, &open), TFC_OK);
	struct tfc__rpc *rpc = near->rpc;
	rpc_end_close(near, NULL);
	near->rpc = rpc;
	assert_int_equal(rpc_ask(near, "x", 1, 0, 0, &late), TFC_ELOST);
	near->rpc = NULL;
	ended(&open, TFC_ELOST);
	assert_int_equal(late.ends, 0);
}

static void what_is_open_goes_with_the_context(void **state)
{
	struct rpc_outcome outcomes[3] = {0};
	far->serve = keep;
	for (int i = 0; i < 3; i++)
		assert_int_equal(rpc_ask(near, "x", 1, 1000, 0, &outcomes[i]), TFC_OK);
	rpc_run(ctx);
	tfc__rpc_drop(outcomes[1].call);
	rpc_pair_close(&pair);
	assert_int_equal(close_pair(state), 0);
	assert_int_equal(open_pair(state), 0);
	far->serve = keep;
	assert_int_equal(rpc_ask(near, "x", 1, 1000, 0, &outcomes[0]), TFC_OK);
	rpc_run(ctx);
	rpc_pair_close(&pair);
	tfc_ctx_free(ctx); /* nobody was told: the ends were still to come */
	assert_int_equal(open_pair(state), 0);
}

/* ---- closing inside callbacks */

static void close_near(struct rpc_outcome *outcome)
{
	rpc_end_close(near, NULL);
}

static void close_in_serve(struct rpc_end *end, struct tfc__rpc_request *request,
			   const char *method, const msgpack_object *params)
{
	rpc_end_close(end, NULL);
	if (request)
		tfc__rpc_reply(request, NULL);
}

static void close_far(void *user)
{
	cancels++;
	rpc_end_close(far, NULL);
	answer(0, 1);
}

static void keep_and_close_when_told(struct rpc_end *end, struct tfc__rpc_request *request,
				     const char *method, const msgpack_object *params)
{
	requests[request_count++] = request;
	tfc__rpc_watch(request, close_far, close_far, NULL);
}

static void closing_in_the_end_is_legal(void **state)
{
	struct rpc_outcome outcome = {.on_end = close_near}, other = {0};
	assert_int_equal(rpc_ask(near, "x", 1, 0, 0, &outcome), TFC_OK);
	assert_int_equal(rpc_ask(near, "y", 1, 0, 0, &other), TFC_OK);
	ended(&outcome, TFC_OK);
	ended(&other, TFC_ELOST);
}

static void closing_in_the_end_of_a_canceled_or_late_call_is_legal(void **state)
{
	struct rpc_outcome outcome = {.on_end = close_near}, late = {.on_end = close_near};
	far->serve = keep;
	assert_int_equal(rpc_ask(near, "x", 1, 0, 0, &outcome), TFC_OK);
	tfc__rpc_cancel(outcome.call);
	ended(&outcome, TFC_ECANCELED);
	answer(0, 0);
	close_pair(state);
	assert_int_equal(open_pair(state), 0);
	far->serve = keep;
	assert_int_equal(rpc_ask(near, "x", 1, 1, 0, &late), TFC_OK);
	wait_for_end(&late);
	ended(&late, TFC_ETIMEDOUT);
	if (request_count)
		answer(0, 0);
}

static void closing_in_an_item_is_legal(void **state)
{
	struct rpc_outcome outcome = {.on_item = close_near};
	struct tfc__buf item = rpc_number(5);
	far->serve = keep;
	assert_int_equal(rpc_ask(near, "x", 1, 0, 2, &outcome), TFC_OK);
	rpc_run(ctx);
	assert_int_equal(tfc__rpc_item(requests[0], &item), TFC_OK);
	assert_int_equal(tfc__rpc_item(requests[0], &item), TFC_OK);
	answer(0, 1);
	ended(&outcome, TFC_ELOST);
	assert_int_equal(outcome.items, 1);
	tfc__buf_fini(&item);
}

static void drop_own(struct rpc_outcome *outcome)
{
	tfc__rpc_drop(outcome->call);
	outcome->call = NULL;
}

static void dropping_in_an_item_is_legal(void **state)
{
	struct rpc_outcome outcome = {.on_item = drop_own};
	struct tfc__buf item = rpc_number(5);
	far->serve = keep;
	assert_int_equal(rpc_ask(near, "x", 1, 0, 2, &outcome), TFC_OK);
	rpc_run(ctx);
	assert_int_equal(tfc__rpc_item(requests[0], &item), TFC_OK);
	assert_int_equal(tfc__rpc_item(requests[0], &item), TFC_OK);
	answer(0, 1);
	rpc_run(ctx);
	assert_int_equal(outcome.items, 1);
	assert_int_equal(outcome.ends, 0);
	tfc__buf_fini(&item);
}

static void closing_in_serve_is_legal(void **state)
{
	struct rpc_outcome outcome = {0};
	far->serve = close_in_serve;
	assert_int_equal(rpc_ask(near, "x", 1, 0, 0, &outcome), TFC_OK);
	rpc_run(ctx);
	assert_int_equal(outcome.ends, 0);
	rpc_end_close(near, NULL);
	ended(&outcome, TFC_ELOST);
	close_pair(state);
	assert_int_equal(open_pair(state), 0);
	far->serve = close_in_serve;
	assert_int_equal(tfc__rpc_notify(near->rpc, "x", NULL), TFC_OK);
	rpc_run(ctx);
	assert_null(far->rpc);
}

static void closing_in_cancel_or_credit_is_legal(void **state)
{
	for (int by_credit = 0; by_credit < 2; by_credit++) {
		struct rpc_outcome outcome = {0};
		far->serve = keep_and_close_when_told;
		assert_int_equal(rpc_ask(near, "x", 1, 0, 0, &outcome), TFC_OK);
		rpc_run(ctx);
		if (by_credit)
			tfc__rpc_more(outcome.call, 1);
		else
			tfc__rpc_cancel(outcome.call);
		rpc_run(ctx);
		assert_int_equal(cancels, 1);
		assert_null(far->rpc);
		close_pair(state);
		assert_int_equal(open_pair(state), 0);
	}
}

/* It was canceled while nobody watched. */
static void a_late_watch_is_told(void **state)
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
	return tfc__rpc_call(near->rpc, &options, NULL, &outcome->error);
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
		TEST(answers_may_come_in_any_order),
		TEST(a_notification_is_served_without_an_answer),
		TEST(canceled_is_canceled_whatever_is_answered),
		TEST(a_cancel_may_cross_the_answer),
		TEST(a_dropped_call_says_nothing_more),
		TEST(an_answer_that_is_late_is_none),
		TEST(the_deadline_counts_at_the_other_end_too),
		TEST(items_cost_credit),
		TEST(credit_has_a_top),
		TEST(a_lost_connection_ends_everything),
		TEST(a_call_over_a_closed_connection_is_refused),
		TEST(what_is_open_goes_with_the_context),
		TEST(closing_in_the_end_is_legal),
		TEST(closing_in_the_end_of_a_canceled_or_late_call_is_legal),
		TEST(closing_in_an_item_is_legal),
		TEST(dropping_in_an_item_is_legal),
		TEST(closing_in_serve_is_legal),
		TEST(closing_in_cancel_or_credit_is_legal),
		TEST(a_late_watch_is_told),
		TEST(open_calls_have_a_limit_that_a_cancel_does_not_lift),
		TEST(what_the_other_end_would_refuse_is_not_sent),
	};
	return cmocka_run_group_tests_name("wire rpc", tests, NULL, NULL);
}
