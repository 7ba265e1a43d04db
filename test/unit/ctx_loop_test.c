/* ctx: descriptors, deferred work, posted calls, budget and run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "ctx/ctx.h"

enum {
	IO_COUNT = 10,
	THREADS = 4,
	POSTS = 2000,
};

static tfc_ctx *ctx;
static struct tfc__io ios[IO_COUNT];
static int calls[IO_COUNT];
static struct tfc__work works[2];
static int work_calls;
static int post_calls;

static int open_ctx(void **state)
{
	memset(ios, 0, sizeof(ios));
	memset(calls, 0, sizeof(calls));
	work_calls = post_calls = 0;
	return tfc_ctx_new(NULL, NULL, &ctx);
}

static int free_ctx(void **state)
{
	tfc_ctx_free(ctx);
	return 0;
}

static int is_readable(int timeout_ms)
{
	struct pollfd poller = {.fd = tfc_ctx_fd(ctx), .events = POLLIN};
	return poll(&poller, 1, timeout_ms);
}

static void count_io(struct tfc__io *io, uint32_t events)
{
	calls[io - ios]++;
}

/* Once, unless the machine was so busy that the time slice was over. */
static void run_until_done(void)
{
	int code = tfc_ctx_run(ctx, -1);
	while (code == 1)
		code = tfc_ctx_run(ctx, 0);
	assert_int_equal(code, 0);
}

/* An eventfd that is readable from the start and stays so. */
static void open_ready(size_t i, tfc__io_fn fn)
{
	int fd = eventfd(1, EFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(tfc__io_open(&ios[i], ctx, fd, EPOLLIN, fn), 0);
}

static void close_ready(size_t i)
{
	int fd = ios[i].fd;
	tfc__io_close(&ios[i]);
	close(fd);
}

static void a_new_context_is_idle(void **state)
{
	assert_true(tfc_ctx_fd(ctx) >= 0);
	assert_int_equal(fcntl(tfc_ctx_fd(ctx), F_GETFD), FD_CLOEXEC);
	assert_int_equal(is_readable(0), 0);
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 0);
	assert_int_equal(tfc_ctx_run(ctx, 0), 0);
	assert_int_equal(tfc_ctx_error(ctx)->code, 0);
}

static void a_ready_descriptor_is_reported_until_it_is_closed(void **state)
{
	open_ready(0, count_io);
	assert_int_equal(is_readable(0), 1);
	assert_int_equal(tfc_ctx_dispatch(ctx, 1), 1);
	assert_int_equal(tfc_ctx_dispatch(ctx, 3), 1);
	assert_int_equal(calls[0], 4);
	close_ready(0);
	tfc__io_close(&ios[0]); /* a no-op */
	assert_int_equal(is_readable(0), 0);
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 0);
	assert_int_equal(calls[0], 4);
}

static void a_descriptor_is_watched_only_for_the_events_it_is_set_to(void **state)
{
	open_ready(0, count_io);
	assert_int_equal(tfc__io_set(&ios[0], 0), 0);
	assert_int_equal(is_readable(0), 0);
	assert_int_equal(tfc__io_set(&ios[0], EPOLLIN), 0);
	assert_int_equal(is_readable(0), 1);
	close_ready(0);
}

static void a_bad_descriptor_is_refused_by_number(void **state)
{
	assert_int_equal(tfc__io_open(&ios[0], ctx, -1, EPOLLIN, count_io), TFC_ESYS);
	assert_non_null(strstr(tfc_ctx_error(ctx)->text, "descriptor -1"));
	assert_null(ios[0].ctx);
}

/* Whichever is called first closes and overwrites all others, as an owner that frees them does. */
static void close_all_others(struct tfc__io *io, uint32_t events)
{
	calls[0]++;
	for (size_t i = 0; i < IO_COUNT; i++)
		if (&ios[i] != io && ios[i].ctx == ctx) {
			close_ready(i);
			memset(&ios[i], 0xff, sizeof(ios[i]));
		}
}

static void descriptors_closed_by_an_earlier_callback_of_the_batch_are_not_called(void **state)
{
	for (size_t i = 0; i < IO_COUNT; i++)
		open_ready(i, close_all_others);
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 1); /* the one that is left is ready for ever */
	assert_true(calls[0] >= 1);
	size_t open_count = 0;
	for (size_t i = 0; i < IO_COUNT; i++)
		if (ios[i].ctx == ctx) {
			open_count++;
			close_ready(i);
		}
	assert_int_equal(open_count, 1);
}

static void close_self(struct tfc__io *io, uint32_t events)
{
	calls[io - ios]++;
	close_ready((size_t)(io - ios));
}

static void a_descriptor_may_be_closed_inside_its_callback(void **state)
{
	for (size_t i = 0; i < IO_COUNT; i++)
		open_ready(i, close_self);
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 0);
	for (size_t i = 0; i < IO_COUNT; i++)
		assert_int_equal(calls[i], 1);
}

static void stop_second(struct tfc__io *io, uint32_t events)
{
	calls[io - ios]++;
	for (size_t i = 0; i < 2; i++)
		if (&ios[i] != io)
			assert_int_equal(tfc__io_set(&ios[i], 0), 0);
	close_ready((size_t)(io - ios));
}

static void a_descriptor_set_to_nothing_by_an_earlier_callback_is_not_called(void **state)
{
	open_ready(0, stop_second);
	open_ready(1, stop_second);
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 0);
	assert_int_equal(calls[0] + calls[1], 1);
	close_ready(calls[0] ? 1 : 0);
}

static void runs_close_as_dispatches_do(void **state)
{
	for (size_t i = 0; i < IO_COUNT; i++)
		open_ready(i, close_self);
	run_until_done();
	for (size_t i = 0; i < IO_COUNT; i++)
		assert_int_equal(calls[i], 1);
	open_ready(0, stop_second);
	open_ready(1, stop_second);
	run_until_done();
	assert_int_equal(calls[0] + calls[1], 3);
	close_ready(calls[0] == 2 ? 1 : 0);
	for (size_t i = 0; i < IO_COUNT; i++)
		open_ready(i, close_all_others);
	assert_int_equal(tfc_ctx_run(ctx, -1), 1); /* one is left, and ready for ever */
	for (size_t i = 0; i < IO_COUNT; i++)
		if (ios[i].ctx == ctx)
			close_ready(i);
	assert_int_equal(tfc_ctx_run(ctx, 0), 0);
}

static void a_small_budget_serves_all_ready_descriptors_alike(void **state)
{
	for (size_t i = 0; i < IO_COUNT; i++)
		open_ready(i, count_io);
	for (int round = 0; round < 5 * IO_COUNT; round++) {
		tfc_ctx_wake(ctx); /* the eventfd takes a place among them */
		assert_int_equal(tfc_ctx_dispatch(ctx, 1), 1);
	}
	for (size_t i = 0; i < IO_COUNT; i++) {
		assert_int_equal(calls[i], 5);
		close_ready(i);
	}
}

/* ---- deferred work */

static void count_work(struct tfc__work *work)
{
	work_calls++;
}

static void work_runs_in_dispatch_once_however_often_scheduled(void **state)
{
	tfc__work_init(&works[0], ctx, count_work);
	for (int i = 0; i < 3; i++)
		tfc__work_schedule(&works[0]);
	assert_int_equal(work_calls, 0);
	assert_int_equal(is_readable(0), 1);
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 0);
	assert_int_equal(work_calls, 1);
	assert_int_equal(is_readable(0), 0);
}

static void canceled_work_does_not_run(void **state)
{
	tfc__work_init(&works[0], ctx, count_work);
	tfc__work_schedule(&works[0]);
	tfc__work_cancel(&works[0]);
	tfc__work_cancel(&works[0]);
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 0);
	assert_int_equal(work_calls, 0);
	assert_int_equal(is_readable(0), 0);
}

static void cancel_other(struct tfc__work *work)
{
	work_calls++;
	tfc__work_cancel(&works[1]);
	memset(work, 0xff, sizeof(*work)); /* its owner may free it */
}

static void work_may_cancel_other_work_and_free_itself(void **state)
{
	tfc__work_init(&works[0], ctx, cancel_other);
	tfc__work_init(&works[1], ctx, count_work);
	tfc__work_schedule(&works[0]);
	tfc__work_schedule(&works[1]);
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 0);
	assert_int_equal(work_calls, 1);
}

static void schedule_again(struct tfc__work *work)
{
	work_calls++;
	tfc__work_schedule(work);
}

static void work_without_end_starves_nothing_and_keeps_the_descriptor_readable(void **state)
{
	tfc__work_init(&works[0], ctx, schedule_again);
	tfc__work_schedule(&works[0]);
	open_ready(0, count_io);
	for (int i = 1; i <= 20; i++) {
		assert_int_equal(tfc_ctx_dispatch(ctx, 1), 1);
		assert_int_equal(work_calls + calls[0], i);
		assert_int_equal(is_readable(0), 1);
	}
	assert_true(work_calls >= 5);
	assert_true(calls[0] >= 5);
	close_ready(0);
	tfc__work_cancel(&works[0]);
}

/* A chain: a descriptor asks for work, which makes the next descriptor readable. */
static void make_next_ready(struct tfc__work *work)
{
	uint64_t one = 1;
	if (++work_calls < IO_COUNT)
		assert_int_equal(write(ios[work_calls].fd, &one, sizeof(one)), sizeof(one));
}

static void take_and_ask(struct tfc__io *io, uint32_t events)
{
	uint64_t value;
	assert_int_equal(read(io->fd, &value, sizeof(value)), sizeof(value));
	calls[io - ios]++;
	tfc__work_schedule(&works[0]);
}

static void run_chain(uint32_t first_budget)
{
	uint64_t value;
	work_calls = 0;
	tfc__work_init(&works[0], ctx, make_next_ready);
	for (size_t i = 0; i < IO_COUNT; i++) {
		open_ready(i, take_and_ask);
		if (i > 0)
			assert_int_equal(read(ios[i].fd, &value, sizeof(value)), sizeof(value));
	}
	if (first_budget)
		assert_int_equal(tfc_ctx_dispatch(ctx, first_budget), 1);
	run_until_done();
	assert_int_equal(is_readable(0), 0);
	for (size_t i = 0; i < IO_COUNT; i++)
		close_ready(i);
}

static void what_a_callback_makes_due_is_done_before_the_run_returns(void **state)
{
	for (int round = 1; round <= 6; round++) {
		run_chain((uint32_t)round - 1); /* whichever source a budget ended at */
		for (size_t i = 0; i < IO_COUNT; i++)
			assert_int_equal(calls[i], round);
	}
}

static void take_a_while(struct tfc__work *work)
{
	uint64_t start = tfc__now();
	while (tfc__now() - start < 3 * TFC__MS)
		;
	schedule_again(work);
}

static void dispatch_returns_after_a_few_milliseconds_whatever_the_budget(void **state)
{
	tfc__work_init(&works[0], ctx, take_a_while);
	tfc__work_schedule(&works[0]);
	assert_int_equal(tfc_ctx_dispatch(ctx, 1000), 1);
	assert_int_equal(work_calls, 1);
	tfc__work_cancel(&works[0]);
}

/* ---- posted calls */

static void count_post(void *user)
{
	post_calls++;
}

static void the_budget_bounds_what_one_dispatch_calls(void **state)
{
	for (int i = 0; i < 100; i++)
		assert_int_equal(tfc_ctx_post(ctx, count_post, NULL), 0);
	assert_int_equal(post_calls, 0);
	assert_int_equal(tfc_ctx_dispatch(ctx, 7), 1);
	assert_int_equal(post_calls, 7);
	assert_int_equal(is_readable(0), 1);
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 1);
	assert_int_equal(post_calls, 7 + 64);
	assert_int_equal(is_readable(0), 1);
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 0);
	assert_int_equal(post_calls, 100);
	assert_int_equal(is_readable(0), 0);
}

static void posts_not_yet_called_are_dropped_with_the_context(void **state)
{
	tfc_ctx *other;
	assert_int_equal(tfc_ctx_new(NULL, NULL, &other), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(tfc_ctx_post(other, count_post, NULL), 0);
	assert_int_equal(tfc_ctx_dispatch(other, 1), 1);
	tfc_ctx_free(other);
	assert_int_equal(post_calls, 1);
}

static void bad_posts_are_refused(void **state)
{
	assert_int_equal(tfc_ctx_post(NULL, count_post, NULL), TFC_EINVAL);
	assert_int_equal(tfc_ctx_post(ctx, NULL, NULL), TFC_EINVAL);
	assert_int_equal(tfc_ctx_wake(NULL), TFC_EINVAL);
}

struct poster {
	pthread_t thread;
	uint32_t posted;
	uint32_t seen;
	uint32_t numbers[POSTS];
	bool is_ordered;
};

static struct poster posters[THREADS];

static void see_number(void *user)
{
	const uint32_t *number = user;
	for (size_t i = 0; i < THREADS; i++) {
		struct poster *poster = &posters[i];
		if (number < poster->numbers || number >= poster->numbers + POSTS)
			continue;
		poster->is_ordered = poster->is_ordered && *number == poster->seen;
		poster->seen++;
	}
}

static void *post_numbers(void *user)
{
	struct poster *poster = user;
	for (uint32_t i = 0; i < POSTS; i++) {
		poster->numbers[i] = i;
		poster->posted += tfc_ctx_post(ctx, see_number, &poster->numbers[i]) == TFC_OK;
	}
	return NULL;
}

static uint32_t count_seen(void)
{
	uint32_t seen = 0;
	for (size_t i = 0; i < THREADS; i++)
		seen += posters[i].seen;
	return seen;
}

static void calls_posted_by_four_threads_all_arrive_in_each_threads_order(void **state)
{
	memset(posters, 0, sizeof(posters));
	for (size_t i = 0; i < THREADS; i++) {
		posters[i].is_ordered = true;
		assert_int_equal(pthread_create(&posters[i].thread, NULL, post_numbers,
						&posters[i]),
				 0);
	}
	while (count_seen() < THREADS * POSTS) /* a lost call would leave the wait at 0 */
		assert_true(is_readable(10000) == 1 && tfc_ctx_dispatch(ctx, 3) >= 0);
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(posters[i].thread, NULL);
		assert_int_equal(posters[i].posted, POSTS);
		assert_true(posters[i].is_ordered);
	}
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 0);
	assert_int_equal(is_readable(0), 0);
}

/* ---- run, wake, re-entrance */

static void *wake_ctx(void *user)
{
	tfc_ctx_wake(user);
	return NULL;
}

static void wake_ends_a_run_from_another_thread(void **state)
{
	pthread_t thread;
	uint64_t start = tfc__now();
	assert_int_equal(pthread_create(&thread, NULL, wake_ctx, ctx), 0);
	assert_int_equal(tfc_ctx_run(ctx, 30000), 0);
	assert_true(tfc__now() - start < 20 * TFC__SECOND);
	pthread_join(thread, NULL);
	assert_int_equal(is_readable(0), 0);
}

static void wake_inside(void *user)
{
	assert_int_equal(tfc_ctx_wake(ctx), 0);
}

static void a_wake_during_dispatch_is_not_lost(void **state)
{
	assert_int_equal(tfc_ctx_post(ctx, wake_inside, NULL), 0);
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 1);
	assert_int_equal(is_readable(0), 1);
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 0);
	assert_int_equal(is_readable(0), 0);
}

static void reenter(void *user)
{
	int *code = user;
	code[0] = tfc_ctx_dispatch(ctx, 0);
	code[1] = tfc_ctx_run(ctx, -1);
}

static void dispatch_inside_a_callback_is_refused(void **state)
{
	int code[2] = {0, 0};
	assert_int_equal(tfc_ctx_post(ctx, reenter, code), 0);
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 0);
	assert_int_equal(code[0], TFC_ESTATE);
	assert_int_equal(code[1], TFC_ESTATE);
	assert_int_equal(tfc_ctx_error(ctx)->code, TFC_ESTATE);
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 0);
}

/* ---- several contexts, each driven by a thread of its own */

struct driven {
	tfc_ctx *ctx;
	pthread_t thread;
	struct driven *other;
	uint32_t received;
	uint32_t ticks;
	struct tfc__timer timer;
	int code;
};

static void receive(void *user)
{
	((struct driven *)user)->received++;
}

static void tick(struct tfc__timer *timer)
{
	struct driven *driven = tfc__container_of(timer, struct driven, timer);
	driven->ticks++;
	driven->code |= tfc_ctx_post(driven->other->ctx, receive, driven->other);
	if (driven->ticks < 200)
		tfc__timer_set(timer, tfc__now() + 10000);
}

static void *drive(void *user)
{
	struct driven *driven = user;
	tfc__timer_set(&driven->timer, tfc__now());
	while (driven->code >= 0 && (driven->ticks < 200 || driven->received < 200)) {
		int code = tfc_ctx_run(driven->ctx, 10000);
		if (code < 0)
			driven->code = code;
	}
	return NULL;
}

static void two_contexts_on_two_threads_do_not_touch_each_other(void **state)
{
	struct driven pair[2] = {{0}};
	for (size_t i = 0; i < 2; i++) {
		pair[i].other = &pair[1 - i];
		assert_int_equal(tfc_ctx_new(NULL, NULL, &pair[i].ctx), 0);
		tfc__timer_init(&pair[i].timer, pair[i].ctx, tick);
	}
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&pair[i].thread, NULL, drive, &pair[i]), 0);
	for (size_t i = 0; i < 2; i++)
		pthread_join(pair[i].thread, NULL);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(pair[i].code, 0);
		assert_int_equal(pair[i].received, 200);
		tfc_ctx_free(pair[i].ctx);
	}
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_ctx, free_ctx)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_new_context_is_idle),
		CASE(a_ready_descriptor_is_reported_until_it_is_closed),
		CASE(a_descriptor_is_watched_only_for_the_events_it_is_set_to),
		CASE(a_bad_descriptor_is_refused_by_number),
		CASE(descriptors_closed_by_an_earlier_callback_of_the_batch_are_not_called),
		CASE(a_descriptor_may_be_closed_inside_its_callback),
		CASE(a_descriptor_set_to_nothing_by_an_earlier_callback_is_not_called),
		CASE(runs_close_as_dispatches_do),
		CASE(a_small_budget_serves_all_ready_descriptors_alike),
		CASE(work_runs_in_dispatch_once_however_often_scheduled),
		CASE(canceled_work_does_not_run),
		CASE(work_may_cancel_other_work_and_free_itself),
		CASE(work_without_end_starves_nothing_and_keeps_the_descriptor_readable),
		CASE(what_a_callback_makes_due_is_done_before_the_run_returns),
		CASE(dispatch_returns_after_a_few_milliseconds_whatever_the_budget),
		CASE(the_budget_bounds_what_one_dispatch_calls),
		CASE(posts_not_yet_called_are_dropped_with_the_context),
		CASE(bad_posts_are_refused),
		CASE(calls_posted_by_four_threads_all_arrive_in_each_threads_order),
		CASE(wake_ends_a_run_from_another_thread),
		CASE(a_wake_during_dispatch_is_not_lost),
		CASE(dispatch_inside_a_callback_is_refused),
		CASE(two_contexts_on_two_threads_do_not_touch_each_other),
	};
	return cmocka_run_group_tests_name("ctx loop", tests, NULL, NULL);
}
