/* base: the map from numbers to numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/random.h"
#include "failing_malloc.h"

#define NONE UINT32_MAX
#define KEYS 512

static void map_without_keys_finds_and_removes_nothing(void **state)
{
	struct tfc__map map = {0};
	assert_int_equal(tfc__map_get(&map, 7, NONE), NONE);
	tfc__map_remove(&map, 7);
	assert_int_equal(map.count, 0);
	tfc__map_fini(&map);
}

/* Keys of all sizes, no two alike. */
static uint64_t key_of(uint32_t number)
{
	return number % 4 == 3 ? UINT64_MAX - number : (uint64_t)number << 20 * (number % 4);
}

static void map_holds_what_was_set_last(void **state)
{
	struct tfc__map map = {0};
	uint32_t values[KEYS];
	uint64_t seed = 1;
	for (uint32_t i = 0; i < KEYS; i++)
		values[i] = NONE;
	for (uint32_t step = 0; step < 100000; step++) {
		uint64_t random = tfc__random_next(&seed);
		uint32_t number = (uint32_t)(random >> 8) % KEYS;
		/* It grows to many keys, then shrinks to few, again and again. */
		bool is_set = random % 8 < (step / 5000 % 2 ? 2 : 6);
		values[number] = is_set ? step : NONE;
		if (is_set)
			assert_true(tfc__map_set(&map, key_of(number), step));
		else
			tfc__map_remove(&map, key_of(number));
		if (step % 1000)
			continue;
		uint32_t count = 0;
		for (uint32_t i = 0; i < KEYS; i++) {
			assert_int_equal(tfc__map_get(&map, key_of(i), NONE), values[i]);
			count += values[i] != NONE;
		}
		assert_int_equal(map.count, count);
	}
	tfc__map_fini(&map);
	assert_int_equal(map.count, 0);
}

static void map_with_reserved_room_never_lacks_memory(void **state)
{
	struct tfc__map map = {0};
	assert_true(tfc__map_reserve(&map, 100));
	failing_begin(0, true);
	for (uint32_t i = 0; i < 100; i++)
		assert_true(tfc__map_set(&map, i, i));
	bool is_set = true;
	for (uint32_t i = 100; is_set; i++)
		is_set = tfc__map_set(&map, i, i);
	failing_end();
	for (uint32_t i = 0; i < map.count; i++)
		assert_int_equal(tfc__map_get(&map, i, NONE), i);
	assert_int_equal(tfc__map_get(&map, map.count, NONE), NONE);
	tfc__map_fini(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(map_without_keys_finds_and_removes_nothing),
		cmocka_unit_test(map_holds_what_was_set_last),
		cmocka_unit_test(map_with_reserved_room_never_lacks_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
