/* ctx: timers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <poll.h>

#include "base/clock.h"
#include "ctx/ctx.h"

enum {
	MANY = 500,
};

static struct tfc__timer timers[MANY];
static uint64_t planned[MANY];
static size_t fired[MANY];
static size_t fired_count;

static int open_ctx(void **state)
{
	tfc_ctx *ctx;
	if (tfc_ctx_new(NULL, NULL, &ctx) < 0)
		return -1;
	fired_count = 0;
	*state = ctx;
	return 0;
}

static int free_ctx(void **state)
{
	tfc_ctx_free(*state);
	return 0;
}

static void note(struct tfc__timer *timer)
{
	fired[fired_count++] = (size_t)(timer - timers);
}

static int is_readable(tfc_ctx *ctx, int timeout_ms)
{
	struct pollfd poller = {.fd = tfc_ctx_fd(ctx), .events = POLLIN};
	return poll(&poller, 1, timeout_ms);
}

static void run_until_fired(tfc_ctx *ctx, size_t count)
{
	while (fired_count < count)
		assert_true(tfc_ctx_run(ctx, 5000) >= 0);
}

static void a_timer_fires_once_and_not_early(void **state)
{
	uint64_t at = tfc__now() + 5 * TFC__MS;
	tfc__timer_init(&timers[0], *state, note);
	tfc__timer_set(&timers[0], at);
	run_until_fired(*state, 1);
	assert_true(tfc__now() >= at);
	assert_int_equal(timers[0].at, 0);
	assert_int_equal(tfc_ctx_dispatch(*state, 0), 0);
	assert_int_equal(fired_count, 1);
	assert_int_equal(is_readable(*state, 0), 0);
}

/* Numbers without a pattern; the same ones in every run. */
static uint32_t next_number(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static void timers_fire_in_order_whatever_was_moved_or_canceled(void **state)
{
	uint32_t seed = 7;
	uint64_t now = tfc__now();
	size_t expected = 0;
	for (size_t i = 0; i < MANY; i++) {
		tfc__timer_init(&timers[i], *state, note);
		planned[i] = now - 1000000 + next_number(&seed) % 1000000;
		tfc__timer_set(&timers[i], planned[i]);
	}
	for (size_t round = 0; round < 4 * MANY; round++) {
		size_t i = next_number(&seed) % MANY;
		planned[i] = next_number(&seed) % 3 ? now - 1000000 + next_number(&seed) % 1000000
						    : 0;
		if (planned[i])
			tfc__timer_set(&timers[i], planned[i]);
		else
			tfc__timer_cancel(&timers[i]);
	}
	for (size_t i = 0; i < MANY; i++)
		expected += planned[i] != 0;
	run_until_fired(*state, expected);
	assert_int_equal(tfc_ctx_dispatch(*state, 0), 0);
	assert_int_equal(fired_count, expected);
	for (size_t i = 0; i < expected; i++) {
		assert_int_not_equal(planned[fired[i]], 0);
		if (i)
			assert_true(planned[fired[i - 1]] <= planned[fired[i]]);
	}
}

static void a_timer_moved_to_earlier_wakes_the_loop_earlier(void **state)
{
	tfc__timer_init(&timers[0], *state, note);
	tfc__timer_set(&timers[0], tfc__now() + 3600 * TFC__SECOND);
	assert_int_equal(is_readable(*state, 0), 0);
	tfc__timer_set(&timers[0], tfc__now() + TFC__MS);
	assert_int_equal(is_readable(*state, 5000), 1);
	run_until_fired(*state, 1);
}

static void a_timer_moved_to_later_or_canceled_wakes_nobody(void **state)
{
	tfc__timer_init(&timers[0], *state, note);
	tfc__timer_init(&timers[1], *state, note);
	tfc__timer_set(&timers[0], tfc__now() + TFC__MS);
	tfc__timer_set(&timers[1], tfc__now() + TFC__MS);
	tfc__timer_set(&timers[0], tfc__now() + 3600 * TFC__SECOND);
	tfc__timer_cancel(&timers[1]);
	assert_int_equal(is_readable(*state, 20), 0);
	tfc__timer_cancel(&timers[1]); /* harmless */
	tfc__timer_cancel(&timers[0]);
	assert_int_equal(fired_count, 0);
}

static void cancel_next(struct tfc__timer *timer)
{
	note(timer);
	tfc__timer_cancel(&timers[1]);
}

static void a_timer_canceled_by_another_due_timer_does_not_fire(void **state)
{
	tfc__timer_init(&timers[0], *state, cancel_next);
	tfc__timer_init(&timers[1], *state, note);
	tfc__timer_init(&timers[2], *state, note);
	for (uint64_t i = 0; i < 3; i++)
		tfc__timer_set(&timers[i], tfc__now() - 100 + i);
	assert_int_equal(tfc_ctx_dispatch(*state, 0), 0);
	assert_int_equal(fired_count, 2);
	assert_int_equal(fired[1], 2);
}

static void free_itself(struct tfc__timer *timer)
{
	fired_count++;
	free(timer);
}

static void a_timer_may_be_freed_inside_its_callback(void **state)
{
	struct tfc__timer *timer = malloc(sizeof(*timer));
	assert_non_null(timer);
	tfc__timer_init(timer, *state, free_itself);
	tfc__timer_set(timer, 1);
	assert_int_equal(tfc_ctx_dispatch(*state, 0), 0);
	assert_int_equal(fired_count, 1);
}

static void set_again(struct tfc__timer *timer)
{
	if (++fired_count < 3)
		tfc__timer_set(timer, tfc__now() + TFC__MS);
}

static void a_timer_set_inside_its_callback_fires_again(void **state)
{
	tfc__timer_init(&timers[0], *state, set_again);
	tfc__timer_set(&timers[0], 1);
	run_until_fired(*state, 3);
	assert_int_equal(is_readable(*state, 5), 0);
	assert_int_equal(fired_count, 3);
}

static void due_timers_beyond_the_budget_keep_the_descriptor_readable(void **state)
{
	for (size_t i = 0; i < 10; i++) {
		tfc__timer_init(&timers[i], *state, note);
		tfc__timer_set(&timers[i], 1);
	}
	assert_int_equal(tfc_ctx_dispatch(*state, 4), 1);
	assert_int_equal(fired_count, 4);
	assert_int_equal(is_readable(*state, 0), 1);
	assert_int_equal(tfc_ctx_dispatch(*state, 4), 1);
	assert_int_equal(tfc_ctx_dispatch(*state, 4), 0);
	assert_int_equal(fired_count, 10);
	assert_int_equal(is_readable(*state, 0), 0);
}

static uint64_t stall;
static uint32_t stalls;

static void note_stall(struct tfc__observer *observer, const void *event)
{
	stall = *(const uint64_t *)event;
	stalls++;
}

static void watch_stalls(tfc_ctx *ctx, struct tfc__observer *observer)
{
	stalls = 0;
	tfc__observer_init(observer, note_stall);
	tfc__ctx_watch_stalls(ctx, observer);
}

static void a_context_that_was_not_dispatched_has_stalled(void **state)
{
	struct tfc__observer observer;
	watch_stalls(*state, &observer);
	tfc__timer_init(&timers[0], *state, note);
	uint64_t at = tfc__now() + TFC__MS;
	tfc__timer_set(&timers[0], at);
	while (tfc__now() < at + 2 * TFC__SECOND)
		poll(NULL, 0, 10);
	run_until_fired(*state, 1);
	assert_int_equal(stalls, 1);
	assert_in_range(stall, 2 * TFC__SECOND, tfc__now() - at);
	tfc__timer_set(&timers[0], tfc__now() + TFC__MS);
	run_until_fired(*state, 2);
	assert_int_equal(stalls, 1);
	tfc__observer_remove(&observer);
}

static void sleep_for_a_stall(struct tfc__timer *timer)
{
	uint64_t end = tfc__now() + 2 * TFC__SECOND + 10 * TFC__MS;
	tfc__timer_set(&timers[1], tfc__now() + TFC__MS);
	while (tfc__now() < end)
		poll(NULL, 0, 10);
}

static void a_callback_that_blocks_is_a_stall(void **state)
{
	struct tfc__observer observer;
	watch_stalls(*state, &observer);
	tfc__timer_init(&timers[0], *state, sleep_for_a_stall);
	tfc__timer_init(&timers[1], *state, note);
	tfc__timer_set(&timers[0], tfc__now());
	run_until_fired(*state, 1);
	assert_int_equal(stalls, 1);
	assert_true(stall >= 2 * TFC__SECOND);
	tfc__observer_remove(&observer);
}

static void a_timer_of_the_past_is_no_stall(void **state)
{
	struct tfc__observer observer;
	watch_stalls(*state, &observer);
	tfc__timer_init(&timers[0], *state, note);
	tfc__timer_set(&timers[0], 1);
	run_until_fired(*state, 1);
	assert_int_equal(stalls, 0);
	tfc__observer_remove(&observer);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_ctx, free_ctx)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_timer_fires_once_and_not_early),
		CASE(timers_fire_in_order_whatever_was_moved_or_canceled),
		CASE(a_timer_moved_to_earlier_wakes_the_loop_earlier),
		CASE(a_timer_moved_to_later_or_canceled_wakes_nobody),
		CASE(a_timer_canceled_by_another_due_timer_does_not_fire),
		CASE(a_timer_may_be_freed_inside_its_callback),
		CASE(a_timer_set_inside_its_callback_fires_again),
		CASE(due_timers_beyond_the_budget_keep_the_descriptor_readable),
		CASE(a_context_that_was_not_dispatched_has_stalled),
		CASE(a_callback_that_blocks_is_a_stall),
		CASE(a_timer_of_the_past_is_no_stall),
	};
	return cmocka_run_group_tests_name("ctx timers", tests, NULL, NULL);
}
