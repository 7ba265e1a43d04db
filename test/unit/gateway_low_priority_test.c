/* gateway: requests with long responses, connection by connection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "gateway/low_priority.h"
#include "leaks.h"

#define MANY 1000

static tfc_ctx *ctx;
static struct tfc__low_priority low_priority;
static bool is_full; /* much waits to be sent */
static unsigned gone;

static void drop(void *user, struct tfc__buf *message)
{
	tfc__buf_fini(message);
}

static bool has_room(void *user)
{
	return !is_full;
}

static const struct tfc__rpc_ops ops = {.send = drop, .has_room = has_room};

static void note(struct tfc__low_priority_request *request)
{
	gone++;
}

static void note_and_leave(struct tfc__low_priority_request *request)
{
	gone++;
	tfc__low_priority_leave(request);
}

static struct tfc__rpc *set_up(void)
{
	struct tfc__rpc *rpc;
	gone = 0;
	is_full = false;
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), 0);
	tfc__low_priority_init(&low_priority, ctx);
	assert_int_equal(tfc__rpc_open(ctx, &ops, NULL, &rpc), 0);
	return rpc;
}

static void tear_down(struct tfc__rpc *rpc)
{
	assert_true(tfc__list_is_empty(&low_priority.connections));
	tfc__low_priority_close(&low_priority);
	tfc__rpc_close(rpc, NULL);
	tfc_ctx_free(ctx);
}

static void run(void)
{
	while (tfc_ctx_run(ctx, 0) > 0)
		;
}

static void enter_as(struct tfc__rpc *rpc, bool is_client,
		     struct tfc__low_priority_request *requests, unsigned count,
		     void (*begin)(struct tfc__low_priority_request *request))
{
	for (unsigned i = 0; i < count; i++) {
		requests[i] = (struct tfc__low_priority_request){.begin = begin};
		assert_int_equal(tfc__low_priority_enqueue(&low_priority, rpc, is_client,
							   &requests[i]),
				 0);
	}
}

static void enter(struct tfc__rpc *rpc, struct tfc__low_priority_request *requests, unsigned count,
		  void (*begin)(struct tfc__low_priority_request *request))
{
	enter_as(rpc, false, requests, count, begin);
	run();
}

static void a_few_of_each_connection_go_at_a_time(void **state)
{
	struct tfc__rpc *rpc = set_up(), *other;
	struct tfc__low_priority_request requests[10], others[10];
	assert_int_equal(tfc__rpc_open(ctx, &ops, NULL, &other), 0);
	enter(rpc, requests, 10, note);
	assert_int_equal(gone, TFC__LOW_PRIORITY_MAX);
	enter(other, others, 10, note);
	assert_int_equal(gone, 2 * TFC__LOW_PRIORITY_MAX);
	for (unsigned i = 0; i < 10; i++) {
		tfc__low_priority_leave(&requests[i]);
		tfc__low_priority_leave(&requests[i]);
		run();
		unsigned expected = i + 1 + TFC__LOW_PRIORITY_MAX < 10
					    ? i + 1 + TFC__LOW_PRIORITY_MAX
					    : 10;
		assert_int_equal(gone, expected + TFC__LOW_PRIORITY_MAX);
	}
	for (unsigned i = 10; i-- > 0;) /* those that wait leave first, and never go */
		tfc__low_priority_leave(&others[i]);
	run();
	assert_int_equal(gone, 10 + TFC__LOW_PRIORITY_MAX);
	tfc__rpc_close(other, NULL);
	tear_down(rpc);
}

/* One request at a time: between two turns all else is served. */
static void begin_one(void)
{
	assert_true(tfc_ctx_dispatch(ctx, 1) >= 0);
}

static void connections_take_turns_and_nodes_have_them_first(void **state)
{
	struct tfc__rpc *rpcs[4];
	struct tfc__low_priority_request requests[4][2];
	const unsigned order[] = {3, 3, 0, 1, 2, 0, 1, 2};
	rpcs[0] = set_up();
	for (unsigned i = 1; i < 4; i++)
		assert_int_equal(tfc__rpc_open(ctx, &ops, NULL, &rpcs[i]), 0);
	for (unsigned i = 0; i < 4; i++)
		enter_as(rpcs[i], i < 3, requests[i], 2, note);
	for (unsigned i = 0; i < 8; i++) {
		begin_one();
		assert_int_equal(gone, i + 1);
		struct tfc__low_priority_request *request = &requests[order[i]][0];
		if (!request->connection)
			request++;
		assert_true(request->is_begun);
		tfc__low_priority_leave(request);
	}
	for (unsigned i = 1; i < 4; i++)
		tfc__rpc_close(rpcs[i], NULL);
	tear_down(rpcs[0]);
}

static void a_client_has_one_response_under_way(void **state)
{
	struct tfc__rpc *rpc = set_up();
	struct tfc__low_priority_request requests[3];
	enter_as(rpc, true, requests, 3, note);
	run();
	assert_int_equal(gone, TFC__LOW_PRIORITY_CLIENT_MAX);
	for (unsigned i = 3; i-- > 0;)
		tfc__low_priority_leave(&requests[i]);
	tear_down(rpc);
}

/* What they ask of another node would fill the queue of this node there. */
static void all_clients_together_have_few_responses_under_way(void **state)
{
	struct tfc__rpc *rpcs[5], *node;
	struct tfc__low_priority_request requests[5], own;
	rpcs[0] = set_up();
	for (unsigned i = 1; i < 5; i++)
		assert_int_equal(tfc__rpc_open(ctx, &ops, NULL, &rpcs[i]), 0);
	assert_int_equal(tfc__rpc_open(ctx, &ops, NULL, &node), 0);
	for (unsigned i = 0; i < 5; i++)
		enter_as(rpcs[i], true, &requests[i], 1, note);
	run();
	assert_int_equal(gone, TFC__LOW_PRIORITY_CLIENTS_MAX);
	enter(node, &own, 1, note);
	assert_true(own.is_begun);
	for (unsigned i = 0; i < 5; i++) {
		tfc__low_priority_leave(&requests[i]);
		run();
	}
	assert_int_equal(gone, 6);
	tfc__low_priority_leave(&own);
	tfc__rpc_close(node, NULL);
	for (unsigned i = 1; i < 5; i++)
		tfc__rpc_close(rpcs[i], NULL);
	tear_down(rpcs[0]);
}

static void none_goes_while_much_waits_to_be_sent(void **state)
{
	struct tfc__rpc *rpc = set_up();
	struct tfc__low_priority_request requests[3];
	is_full = true;
	enter(rpc, requests, 3, note_and_leave);
	tfc__rpc_room(rpc); /* there was some, but it is used already */
	run();
	assert_int_equal(gone, 0);
	is_full = false;
	tfc__rpc_room(rpc);
	while (gone < 3)
		assert_true(tfc_ctx_run(ctx, 10000) >= 0);
	tear_down(rpc);
}

static void many_requests_that_complete_at_once_are_no_deep_call(void **state)
{
	static struct tfc__low_priority_request requests[MANY];
	struct tfc__rpc *rpc = set_up();
	is_full = true;
	enter(rpc, requests, MANY, note_and_leave);
	is_full = false;
	tfc__rpc_room(rpc);
	while (gone < MANY)
		assert_true(tfc_ctx_run(ctx, 10000) >= 0);
	tear_down(rpc);
}

static void nobody_goes_once_it_is_closed(void **state)
{
	struct tfc__rpc *rpc = set_up();
	struct tfc__low_priority_request requests[10];
	enter(rpc, requests, 10, note);
	tfc__low_priority_close(&low_priority);
	for (unsigned i = 0; i < 10; i++)
		tfc__low_priority_leave(&requests[i]);
	run();
	assert_int_equal(gone, TFC__LOW_PRIORITY_MAX);
	tear_down(rpc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_few_of_each_connection_go_at_a_time),
		cmocka_unit_test(connections_take_turns_and_nodes_have_them_first),
		cmocka_unit_test(a_client_has_one_response_under_way),
		cmocka_unit_test(all_clients_together_have_few_responses_under_way),
		cmocka_unit_test(none_goes_while_much_waits_to_be_sent),
		cmocka_unit_test(many_requests_that_complete_at_once_are_no_deep_call),
		cmocka_unit_test(nobody_goes_once_it_is_closed),
	};
	return cmocka_run_group_tests_name("gateway_low_priority", tests, NULL, NULL);
}
