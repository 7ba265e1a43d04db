/* wire: whatever closes a connection, and when, each of its calls ends once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rpc_kept.h"

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
	assert_string_equal(outcomes[0].error.text, "connection lost: connection reset");
	assert_int_equal(cancels, 2);
	answer(0, 1); /* into nowhere */
	tfc__rpc_fail(requests[1], &why);
}

static void on_room(struct tfc__rpc_waiter *waiter)
{
	fail_msg("there is room in a closed connection");
}

/* The connection is freed with its last request. */
static void who_waits_for_room_may_outlive_the_connection(void **state)
{
	struct rpc_outcome outcome = {0};
	struct tfc__rpc_waiter early = {.fn = on_room}, late = {.fn = on_room};
	tfc_error why = TFC_ERROR_INIT;
	far->serve = keep;
	assert_int_equal(rpc_ask(near, "x", 1, 0, 0, &outcome), TFC_OK);
	rpc_run(ctx);
	struct tfc__rpc *rpc = far->rpc;
	tfc__rpc_await_room(rpc, &early);
	rpc_end_close(far, NULL);
	rpc_end_close(near, NULL);
	tfc__rpc_await_room(rpc, &late);
	tfc__rpc_room(rpc);
	tfc__fail(&why, TFC_ECANCELED, "wire", 0, "canceled");
	tfc__rpc_fail(requests[0], &why);
	rpc_run(ctx);
	tfc__rpc_stop_waiting(&early);
	tfc__rpc_stop_waiting(&late);
	ended(&outcome, TFC_ELOST);
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
	tfc_ctx_free(ctx); /* no end was reported: they were still to come */
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

static void keep_and_close_on_request(struct rpc_end *end, struct tfc__rpc_request *request,
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

/* They and the answer are on the way. */
static void ask_for_two_items(struct rpc_outcome *outcome)
{
	struct tfc__buf item = rpc_number(5);
	far->serve = keep;
	assert_int_equal(rpc_ask(near, "x", 1, 0, 2, outcome), TFC_OK);
	rpc_run(ctx);
	assert_int_equal(tfc__rpc_item(requests[0], &item), TFC_OK);
	assert_int_equal(tfc__rpc_item(requests[0], &item), TFC_OK);
	answer(0, 1);
	tfc__buf_fini(&item);
}

static void closing_in_an_item_is_legal(void **state)
{
	struct rpc_outcome outcome = {.on_item = close_near};
	ask_for_two_items(&outcome);
	ended(&outcome, TFC_ELOST);
	assert_int_equal(outcome.items, 1);
}

static void drop_own(struct rpc_outcome *outcome)
{
	tfc__rpc_drop(outcome->call);
	outcome->call = NULL;
}

static void dropping_in_an_item_is_legal(void **state)
{
	struct rpc_outcome outcome = {.on_item = drop_own};
	ask_for_two_items(&outcome);
	rpc_run(ctx);
	assert_int_equal(outcome.items, 1);
	assert_int_equal(outcome.ends, 0);
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
		far->serve = keep_and_close_on_request;
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_lost_connection_ends_everything),
		TEST(who_waits_for_room_may_outlive_the_connection),
		TEST(a_call_over_a_closed_connection_is_refused),
		TEST(what_is_open_goes_with_the_context),
		TEST(closing_in_the_end_is_legal),
		TEST(closing_in_the_end_of_a_canceled_or_late_call_is_legal),
		TEST(closing_in_an_item_is_legal),
		TEST(dropping_in_an_item_is_legal),
		TEST(closing_in_serve_is_legal),
		TEST(closing_in_cancel_or_credit_is_legal),
	};
	return cmocka_run_group_tests_name("wire rpc close", tests, NULL, NULL);
}
