/* port: the pool, its limits and its errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "folder.h"
#include "port/port.h"
#include "sockets.h"

static int open_ctx(void **state)
{
	tfc_ctx *ctx = NULL;
	if (tfc_ctx_new(NULL, NULL, &ctx))
		return -1;
	*state = ctx;
	return 0;
}

static int free_ctx(void **state)
{
	tfc_ctx_free(*state);
	return 0;
}

static tfc_port_pool *open_pool(tfc_ctx *ctx, uint16_t first, uint16_t last)
{
	tfc_port_pool_options options = TFC_PORT_POOL_OPTIONS_INIT;
	options.first = first;
	options.last = last;
	tfc_port_pool *pool = NULL;
	assert_int_equal(tfc_port_pool_open(ctx, &options, &pool), TFC_OK);
	return pool;
}

static tfc_port_hold *acquire(tfc_port_pool *pool, uint16_t port)
{
	tfc_port_hold *hold = NULL;
	assert_int_equal(tfc_port_acquire(pool, port, &hold), TFC_OK);
	return hold;
}

/* A port that was free a moment ago, with three more above it. */
static uint16_t find_free_port(tfc_ctx *ctx)
{
	tfc_port_pool *pool = open_pool(ctx, 20000, 29990);
	tfc_port_hold *hold = acquire(pool, 0);
	uint16_t port = tfc_port_hold_number(hold);
	tfc_port_hold_release(hold);
	tfc_port_pool_close(pool);
	return port;
}

static void default_pool_lies_outside_the_ephemeral_range(void **state)
{
	tfc_port_pool *pool = NULL;
	assert_int_equal(tfc_port_pool_open(*state, NULL, &pool), TFC_OK);
	tfc_port_hold *hold = acquire(pool, 0);
	assert_in_range(tfc_port_hold_number(hold), 20000, 29999);
	tfc_port_hold_release(hold);
	tfc_port_pool_close(pool);
}

static void bad_ranges_are_refused_by_the_name_of_the_field(void **state)
{
	static const struct {
		uint16_t first, last;
		const char *names;
	} cases[] = {
		{0, 100, "first is 0"},
		{20000, 0, "last is 0"},
		{20001, 20000, "first (20001) is above"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_port_pool_options options = TFC_PORT_POOL_OPTIONS_INIT;
		options.first = cases[i].first;
		options.last = cases[i].last;
		tfc_port_pool *pool = NULL;
		assert_int_equal(tfc_port_pool_open(*state, &options, &pool), TFC_EINVAL);
		assert_null(pool);
		assert_non_null(strstr(tfc_ctx_error(*state)->text, cases[i].names));
		assert_string_equal(tfc_ctx_error(*state)->component, "port");
	}
}

static void options_without_a_size_are_refused(void **state)
{
	tfc_port_pool_options options = {0};
	tfc_port_pool *pool = NULL;
	assert_int_equal(tfc_port_pool_open(*state, &options, &pool), TFC_EINVAL);
	assert_int_equal(tfc_port_pool_options_init(&options, sizeof(options)), TFC_OK);
	assert_int_equal(tfc_port_pool_open(*state, &options, &pool), TFC_OK);
	tfc_port_pool_close(pool);
}

static void null_arguments_are_refused_or_nothing(void **state)
{
	tfc_port_pool *pool = open_pool(*state, 20000, 29999);
	tfc_port_hold *hold = NULL;
	assert_int_equal(tfc_port_pool_open(NULL, NULL, &pool), TFC_EINVAL);
	assert_int_equal(tfc_port_pool_open(*state, NULL, NULL), TFC_EINVAL);
	assert_int_equal(tfc_port_acquire(NULL, 0, &hold), TFC_EINVAL);
	assert_int_equal(tfc_port_acquire(pool, 0, NULL), TFC_EINVAL);
	assert_int_equal(tfc_port_hold_set_open(NULL, 1), TFC_EINVAL);
	assert_int_equal(tfc_port_hold_number(NULL), 0);
	tfc_port_hold_release(NULL);
	tfc_port_pool_close(NULL);
	tfc_port_pool_close(pool);
}

static void two_pools_never_share_a_port(void **state)
{
	enum { COUNT = 300 };
	uint16_t low = find_free_port(*state);
	uint16_t high = (uint16_t)(low + 2 * COUNT + 100);
	tfc_port_pool *pools[2] = {open_pool(*state, low, high), open_pool(*state, low, high)};
	tfc_port_hold *holds[2 * COUNT];
	static unsigned char seen[65536];
	memset(seen, 0, sizeof(seen));
	for (int i = 0; i < 2 * COUNT; i++) {
		holds[i] = acquire(pools[i % 2], 0);
		assert_in_range(tfc_port_hold_number(holds[i]), low, high);
		assert_int_equal(seen[tfc_port_hold_number(holds[i])]++, 0);
	}
	for (int i = 0; i < 2 * COUNT; i++)
		tfc_port_hold_release(holds[i]);
	tfc_port_pool_close(pools[0]);
	tfc_port_pool_close(pools[1]);
}

static void pools_start_at_different_ports(void **state)
{
	uint16_t first = 0;
	int different = 0;
	for (int i = 0; i < 8; i++) {
		tfc_port_pool *pool = open_pool(*state, 20000, 29999);
		tfc_port_hold *hold = acquire(pool, 0);
		uint16_t port = tfc_port_hold_number(hold);
		different += i > 0 && port != first;
		first = i ? first : port;
		tfc_port_hold_release(hold);
		tfc_port_pool_close(pool);
	}
	assert_true(different > 0);
}

static void released_ports_come_back_last(void **state)
{
	uint16_t low = find_free_port(*state);
	tfc_port_pool *pool = open_pool(*state, low, (uint16_t)(low + 50));
	tfc_port_hold *hold = acquire(pool, 0);
	uint16_t port = tfc_port_hold_number(hold);
	tfc_port_hold_release(hold);
	hold = acquire(pool, 0);
	assert_int_not_equal(tfc_port_hold_number(hold), port);
	tfc_port_hold_release(hold);
	tfc_port_pool_close(pool);
}

static void exhausted_pool_says_how_many_are_taken_and_recovers(void **state)
{
	uint16_t low = find_free_port(*state);
	tfc_port_pool *pool = open_pool(*state, low, (uint16_t)(low + 3));
	uint16_t elsewhere;
	do
		elsewhere = find_free_port(*state);
	while (elsewhere >= low && elsewhere <= low + 3);
	tfc_port_hold *holds[5] = {0}, *outside = acquire(pool, elsewhere);
	int count = 0;
	while (count < 5 && tfc_port_acquire(pool, 0, &holds[count]) == TFC_OK)
		count++;
	assert_in_range(count, 1, 4);
	assert_int_equal(tfc_ctx_error(*state)->code, TFC_EEXHAUSTED);
	char taken[64];
	snprintf(taken, sizeof(taken), "%d by this pool, %d by other", count, 4 - count);
	assert_non_null(strstr(tfc_ctx_error(*state)->text, "all 4 ports"));
	assert_non_null(strstr(tfc_ctx_error(*state)->text, taken));

	uint16_t port = tfc_port_hold_number(holds[0]);
	tfc_port_hold_release(holds[0]);
	holds[0] = acquire(pool, 0);
	assert_int_equal(tfc_port_hold_number(holds[0]), port);
	for (int i = 0; i < count; i++)
		tfc_port_hold_release(holds[i]);
	tfc_port_hold_release(outside);
	tfc_port_pool_close(pool);
}

static void pool_skips_ports_that_others_use(void **state)
{
	uint16_t low = find_free_port(*state);
	int others[3];
	for (int i = 0; i < 3; i++)
		others[i] = test_listen("127.0.0.1", (uint16_t)(low + i), TEST_REUSEADDR);
	tfc_port_pool *pool = open_pool(*state, low, (uint16_t)(low + 50));
	for (int i = 0; i < 60; i++) {
		tfc_port_hold *hold = acquire(pool, 0);
		if (others[0] >= 0)
			assert_int_not_equal(tfc_port_hold_number(hold), low);
		tfc_port_hold_release(hold);
	}
	for (int i = 0; i < 3; i++)
		if (others[i] >= 0)
			close(others[i]);
	tfc_port_pool_close(pool);
}

static void fixed_port_may_lie_outside_the_pool(void **state)
{
	uint16_t port = find_free_port(*state);
	tfc_port_pool *pool = open_pool(*state, 30000, 30001);
	tfc_port_hold *hold = acquire(pool, port);
	assert_int_equal(tfc_port_hold_number(hold), port);
	assert_int_equal(test_count_intruders(port), 0);
	tfc_port_hold_release(hold);
	tfc_port_pool_close(pool);
}

static void holds_outlive_their_pool(void **state)
{
	tfc_port_pool *pool = open_pool(*state, 20000, 29999);
	tfc_port_hold *hold = acquire(pool, 0);
	tfc_port_pool_close(pool);
	assert_int_equal(test_count_intruders(tfc_port_hold_number(hold)), 0);
	assert_int_equal(tfc_port_hold_set_open(hold, 1), TFC_OK);
	tfc_port_hold_release(hold);
}

static void descriptors_are_close_on_exec_and_none_is_left(void **state)
{
	int before = folder_count_fds();
	tfc_port_pool *pool = open_pool(*state, 20000, 29999);
	assert_int_equal(folder_count_fds(), before);
	tfc_port_hold *hold = acquire(pool, 0);
	assert_int_equal(folder_count_fds(), before + 1);
	assert_true(fcntl(tfc__port_fd(hold), F_GETFD) & FD_CLOEXEC);

	tfc_port_pool *other = open_pool(*state, 20000, 29999);
	tfc_port_hold *none = NULL;
	assert_int_equal(tfc_port_acquire(other, tfc_port_hold_number(hold), &none), TFC_EBUSY);
	tfc_port_listener listener = TFC_PORT_LISTENER_INIT;
	assert_int_equal(tfc_port_hold_listener(hold, getpid(), &listener), TFC_OK);
	assert_null(none);
	assert_int_equal(folder_count_fds(), before + 1);

	tfc_port_hold_release(hold);
	tfc_port_pool_close(other);
	tfc_port_pool_close(pool);
	assert_int_equal(folder_count_fds(), before);
}

static void no_descriptor_left_is_reported(void **state)
{
	tfc_port_pool *pool = open_pool(*state, 20000, 29999);
	struct rlimit old;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	int lowest = dup(0);
	close(lowest);
	struct rlimit tight = {.rlim_cur = (rlim_t)lowest, .rlim_max = old.rlim_max};
	tfc_port_hold *hold = NULL;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	int any = tfc_port_acquire(pool, 0, &hold);
	int fixed = tfc_port_acquire(pool, 25000, &hold);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_int_equal(any, TFC_EMFILE);
	assert_int_equal(fixed, TFC_EMFILE);
	assert_null(hold);
	hold = acquire(pool, 0);
	tfc_port_hold_release(hold);
	tfc_port_pool_close(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(default_pool_lies_outside_the_ephemeral_range),
		cmocka_unit_test(bad_ranges_are_refused_by_the_name_of_the_field),
		cmocka_unit_test(options_without_a_size_are_refused),
		cmocka_unit_test(null_arguments_are_refused_or_nothing),
		cmocka_unit_test(two_pools_never_share_a_port),
		cmocka_unit_test(pools_start_at_different_ports),
		cmocka_unit_test(released_ports_come_back_last),
		cmocka_unit_test(exhausted_pool_says_how_many_are_taken_and_recovers),
		cmocka_unit_test(pool_skips_ports_that_others_use),
		cmocka_unit_test(fixed_port_may_lie_outside_the_pool),
		cmocka_unit_test(holds_outlive_their_pool),
		cmocka_unit_test(descriptors_are_close_on_exec_and_none_is_left),
		cmocka_unit_test(no_descriptor_left_is_reported),
	};
	return cmocka_run_group_tests_name("port_pool", tests, open_ctx, free_ctx);
}
