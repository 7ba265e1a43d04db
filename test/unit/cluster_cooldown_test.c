/* cluster: which nodes are avoided for a while. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cluster/cooldown.h"

#define SECOND TFC__SECOND

static struct tfc__cooldown cooldown;

static void begin(uint32_t failures)
{
	const struct tfc__cooldown_rule rule = {.failures = failures,
						.within_ns = 60 * SECOND,
						.cooldown_ns = 100 * SECOND};
	tfc__cooldown_init(&cooldown, &rule);
}

static void some_failures_in_a_row_are_enough(void **state)
{
	uint64_t until;
	begin(3);
	assert_false(tfc__cooldown_is_on(&cooldown, 1000 * SECOND, NULL));
	assert_false(tfc__cooldown_failed(&cooldown, 1000 * SECOND));
	assert_false(tfc__cooldown_failed(&cooldown, 1010 * SECOND));
	assert_false(tfc__cooldown_is_on(&cooldown, 1010 * SECOND, NULL));
	assert_true(tfc__cooldown_failed(&cooldown, 1020 * SECOND));
	assert_true(tfc__cooldown_is_on(&cooldown, 1020 * SECOND, &until));
	assert_int_equal(until, 1120 * SECOND);
	assert_true(tfc__cooldown_is_on(&cooldown, 1119 * SECOND, NULL));
	assert_false(tfc__cooldown_is_on(&cooldown, 1120 * SECOND, NULL));
}

static void old_failures_do_not_count(void **state)
{
	begin(3);
	for (uint64_t i = 0; i < 20; i++)
		assert_false(tfc__cooldown_failed(&cooldown, (1000 + 31 * i) * SECOND));
	assert_true(tfc__cooldown_failed(&cooldown, (1000 + 31 * 19 + 20) * SECOND));
}

static void a_success_between_them_starts_anew(void **state)
{
	begin(3);
	for (uint64_t i = 0; i < 20; i++) {
		assert_false(tfc__cooldown_failed(&cooldown, 1000 * SECOND + i));
		assert_false(tfc__cooldown_failed(&cooldown, 1000 * SECOND + i));
		tfc__cooldown_worked(&cooldown);
	}
}

static void each_time_again_it_is_twice_as_long(void **state)
{
	static const uint64_t lengths[] = {100, 200, 400, 800, 1600, 1600};
	uint64_t now = 1000 * SECOND, until;
	begin(1);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		assert_true(tfc__cooldown_failed(&cooldown, now));
		assert_true(tfc__cooldown_is_on(&cooldown, now, &until));
		assert_int_equal(until, now + lengths[i] * SECOND);
		now = until;
	}
	tfc__cooldown_worked(&cooldown);
	assert_true(tfc__cooldown_failed(&cooldown, now));
	tfc__cooldown_is_on(&cooldown, now, &until);
	assert_int_equal(until, now + 100 * SECOND);
}

static void the_defaults_are_filled_in(void **state)
{
	const struct tfc__cooldown_rule rule = {0};
	tfc__cooldown_init(&cooldown, &rule);
	assert_int_equal(cooldown.rule.failures, 3);
	assert_int_equal(cooldown.rule.within_ns, 600 * SECOND);
	assert_int_equal(cooldown.rule.cooldown_ns, 300 * SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(some_failures_in_a_row_are_enough),
		cmocka_unit_test(old_failures_do_not_count),
		cmocka_unit_test(a_success_between_them_starts_anew),
		cmocka_unit_test(each_time_again_it_is_twice_as_long),
		cmocka_unit_test(the_defaults_are_filled_in),
	};
	return cmocka_run_group_tests_name("cluster_cooldown", tests, NULL, NULL);
}
