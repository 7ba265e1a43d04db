/* gateway: long answers take turns, connection by connection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "gateway/bulk.h"
#include "leaks.h"

#define MANY 1000

static tfc_ctx *ctx;
static struct tfc__bulk bulk;
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

static void note(struct tfc__bulk_turn *turn)
{
	gone++;
}

static void note_and_leave(struct tfc__bulk_turn *turn)
{
	gone++;
	tfc__bulk_leave(turn);
}

static struct tfc__rpc *set_up(void)
{
	struct tfc__rpc *rpc;
	gone = 0;
	is_full = false;
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), 0);
	tfc__bulk_init(&bulk);
	assert_int_equal(tfc__rpc_open(ctx, &ops, NULL, &rpc), 0);
	return rpc;
}

static void tear_down(struct tfc__rpc *rpc)
{
	assert_true(tfc__list_is_empty(&bulk.lines));
	tfc__rpc_close(rpc, NULL);
	tfc_ctx_free(ctx);
}

static void enter(struct tfc__rpc *rpc, struct tfc__bulk_turn *turns, unsigned count,
		  void (*go)(struct tfc__bulk_turn *turn))
{
	for (unsigned i = 0; i < count; i++) {
		turns[i] = (struct tfc__bulk_turn){.go = go};
		assert_int_equal(tfc__bulk_enter(&bulk, rpc, TFC__BULK_MAX, &turns[i]), 0);
	}
}

static void a_few_of_each_connection_go_at_a_time(void **state)
{
	struct tfc__rpc *rpc = set_up(), *other;
	struct tfc__bulk_turn turns[10], others[10];
	assert_int_equal(tfc__rpc_open(ctx, &ops, NULL, &other), 0);
	enter(rpc, turns, 10, note);
	assert_int_equal(gone, TFC__BULK_MAX);
	enter(other, others, 10, note);
	assert_int_equal(gone, 2 * TFC__BULK_MAX);
	for (unsigned i = 0; i < 10; i++) {
		tfc__bulk_leave(&turns[i]);
		tfc__bulk_leave(&turns[i]);
		unsigned expected = i + 1 + TFC__BULK_MAX < 10 ? i + 1 + TFC__BULK_MAX : 10;
		assert_int_equal(gone, expected + TFC__BULK_MAX);
	}
	for (unsigned i = 10; i-- > 0;) /* those that wait leave first, and never go */
		tfc__bulk_leave(&others[i]);
	assert_int_equal(gone, 10 + TFC__BULK_MAX);
	tfc__rpc_close(other, NULL);
	tear_down(rpc);
}

static void none_goes_while_much_waits_to_be_sent(void **state)
{
	struct tfc__rpc *rpc = set_up();
	struct tfc__bulk_turn turns[3];
	is_full = true;
	enter(rpc, turns, 3, note_and_leave);
	tfc__rpc_room(rpc); /* there was some, but it is used already */
	while (tfc_ctx_run(ctx, 0) > 0)
		;
	assert_int_equal(gone, 0);
	is_full = false;
	tfc__rpc_room(rpc);
	while (gone < 3)
		assert_true(tfc_ctx_run(ctx, 10000) >= 0);
	tear_down(rpc);
}

static void a_line_of_many_that_are_answered_at_once_is_no_deep_call(void **state)
{
	static struct tfc__bulk_turn turns[MANY];
	struct tfc__rpc *rpc = set_up();
	is_full = true;
	enter(rpc, turns, MANY, note_and_leave);
	is_full = false;
	tfc__rpc_room(rpc);
	while (gone < MANY)
		assert_true(tfc_ctx_run(ctx, 10000) >= 0);
	tear_down(rpc);
}

static void nobody_goes_once_it_is_closed(void **state)
{
	struct tfc__rpc *rpc = set_up();
	struct tfc__bulk_turn turns[10];
	enter(rpc, turns, 10, note);
	bulk.is_closed = true;
	for (unsigned i = 0; i < 10; i++)
		tfc__bulk_leave(&turns[i]);
	assert_int_equal(gone, TFC__BULK_MAX);
	tear_down(rpc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_few_of_each_connection_go_at_a_time),
		cmocka_unit_test(none_goes_while_much_waits_to_be_sent),
		cmocka_unit_test(a_line_of_many_that_are_answered_at_once_is_no_deep_call),
		cmocka_unit_test(nobody_goes_once_it_is_closed),
	};
	return cmocka_run_group_tests_name("gateway_bulk", tests, NULL, NULL);
}
