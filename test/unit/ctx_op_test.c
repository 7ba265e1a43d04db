/* ctx: operations end exactly once, for the first reason there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <poll.h>

#include "ctx/ctx.h"

static tfc_ctx *ctx;
static int end_count;
static int end_code;

static int open_ctx(void **state)
{
	end_count = 0;
	end_code = 1;
	return tfc_ctx_new(NULL, NULL, &ctx);
}

static int free_ctx(void **state)
{
	tfc_ctx_free(ctx);
	return 0;
}

static void note_and_free(tfc_op *op, int code)
{
	end_count++;
	end_code = code;
	free(op);
}

static tfc_op *new_op(uint32_t timeout_ms)
{
	tfc_op *op = malloc(sizeof(*op));
	assert_non_null(op);
	tfc__op_init(op, ctx, timeout_ms, note_and_free);
	return op;
}

/* Runs on until nothing is due any more, so that a second call would be seen. */
static void run_to_end(int code)
{
	assert_int_equal(end_count, 0); /* never inside the call that ends it */
	while (end_count == 0)
		assert_true(tfc_ctx_run(ctx, 10000) >= 0);
	while (tfc_ctx_run(ctx, 20) > 0)
		;
	assert_int_equal(end_count, 1);
	assert_int_equal(end_code, code);
}

static void finish_ends_with_success(void **state)
{
	tfc__op_finish(new_op(1));
	run_to_end(TFC_OK);
}

static void cancel_ends_with_canceled(void **state)
{
	tfc_op_cancel(new_op(1));
	run_to_end(TFC_ECANCELED);
}

static void the_deadline_ends_with_timed_out(void **state)
{
	new_op(1);
	run_to_end(TFC_ETIMEDOUT);
}

static void without_a_deadline_nothing_ends_it(void **state)
{
	tfc_op *op = new_op(0);
	assert_int_equal(tfc_ctx_run(ctx, 20), 0);
	assert_int_equal(end_count, 0);
	tfc__op_finish(op);
	run_to_end(TFC_OK);
}

static void cancel_after_finish_changes_nothing(void **state)
{
	tfc_op *op = new_op(1);
	tfc__op_finish(op);
	tfc_op_cancel(op);
	tfc__op_finish(op);
	run_to_end(TFC_OK);
}

static void finish_after_cancel_changes_nothing(void **state)
{
	tfc_op *op = new_op(1);
	tfc_op_cancel(op);
	tfc__op_finish(op);
	tfc_op_cancel(op);
	run_to_end(TFC_ECANCELED);
}

static void cancel_in_vain(tfc_op *op, int code)
{
	tfc_op_cancel(op);
	tfc__op_finish(op);
	note_and_free(op, code);
}

static void cancel_inside_the_last_call_changes_nothing(void **state)
{
	tfc_op *op = new_op(0);
	tfc__op_init(op, ctx, 1, cancel_in_vain);
	run_to_end(TFC_ETIMEDOUT);
}

static void a_dropped_operation_ends_without_a_call(void **state)
{
	tfc_op *op = new_op(1);
	tfc__op_finish(op);
	tfc__op_drop(op);
	free(op);
	assert_int_equal(tfc_ctx_run(ctx, 20), 0);
	op = new_op(1);
	tfc__op_drop(op);
	free(op);
	assert_int_equal(tfc_ctx_run(ctx, 20), 0);
	assert_int_equal(end_count, 0);
}

static int freed_count;

static void count_and_free(tfc_op *op)
{
	freed_count++;
	free(op);
}

static tfc_op *new_owned_op(uint32_t timeout_ms)
{
	tfc_op *op = new_op(timeout_ms);
	tfc__op_free_with(op, count_and_free);
	return op;
}

static void operations_that_have_not_ended_are_freed_with_the_context_untold(void **state)
{
	tfc_ctx *outer = ctx;
	freed_count = 0;
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), 0);
	tfc__op_finish(new_owned_op(0));
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 0);
	assert_int_equal(end_count, 1);
	tfc_op_cancel(new_owned_op(0));
	new_owned_op(60000);
	tfc_op *dropped = new_owned_op(60000);
	tfc__op_drop(dropped);
	free(dropped);
	tfc_ctx_free(ctx);
	ctx = outer;
	assert_int_equal(end_count, 1);
	assert_int_equal(freed_count, 2);
}

static void cancel_of_nothing_is_harmless(void **state)
{
	tfc_op_cancel(NULL);
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_ctx, free_ctx)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(finish_ends_with_success),
		CASE(cancel_ends_with_canceled),
		CASE(the_deadline_ends_with_timed_out),
		CASE(without_a_deadline_nothing_ends_it),
		CASE(cancel_after_finish_changes_nothing),
		CASE(finish_after_cancel_changes_nothing),
		CASE(cancel_inside_the_last_call_changes_nothing),
		CASE(a_dropped_operation_ends_without_a_call),
		CASE(operations_that_have_not_ended_are_freed_with_the_context_untold),
		CASE(cancel_of_nothing_is_harmless),
	};
	return cmocka_run_group_tests_name("ctx operations", tests, NULL, NULL);
}
