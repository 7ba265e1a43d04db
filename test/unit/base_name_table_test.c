/* base: a thing is found by its name, among any number of others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/name_table.h"

#define COUNT 10000

struct thing {
	struct tfc__named named;
	char name[16];
};

static void each_is_found_until_it_is_removed(void **state)
{
	struct thing *things = calloc(COUNT, sizeof(*things));
	struct tfc__name_table table;
	assert_non_null(things);
	tfc__names_init(&table);
	for (int i = 0; i < COUNT; i++) {
		snprintf(things[i].name, sizeof(things[i].name), "node-%d", i);
		tfc__name_add(&table, &things[i].named, things[i].name);
	}
	for (int i = 0; i < COUNT; i += 2)
		tfc__name_remove(&things[i].named);
	for (int i = 0; i < COUNT; i++) {
		const struct tfc__named *found = tfc__name_find(&table, things[i].name);
		assert_ptr_equal(found, i % 2 ? &things[i].named : NULL);
	}
	assert_null(tfc__name_find(&table, ""));
	free(things);
}

/* Names as nodes have them: no chain is much longer than the others. */
static void names_are_spread(void **state)
{
	struct thing *things = calloc(COUNT, sizeof(*things));
	struct tfc__name_table table;
	assert_non_null(things);
	tfc__names_init(&table);
	for (int i = 0; i < COUNT; i++) {
		snprintf(things[i].name, sizeof(things[i].name), "n%04d.example", i);
		tfc__name_add(&table, &things[i].named, things[i].name);
	}
	for (size_t i = 0; i < TFC__NAME_BUCKETS; i++) {
		size_t length = 0;
		TFC__LIST_EACH (link, &table.buckets[i])
			length++;
		assert_in_range(length, 0, 3 * COUNT / TFC__NAME_BUCKETS);
	}
	free(things);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_found_until_it_is_removed),
		cmocka_unit_test(names_are_spread),
	};
	return cmocka_run_group_tests_name("base_name_table", tests, NULL, NULL);
}
