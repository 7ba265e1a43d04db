/* base: buffers and string lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/buf.h"
#include "base/strv.h"
#include <tfcluster/memory.h>

static void buf_grows_and_stays_terminated(void **state)
{
	struct tfc__buf buf = {0};
	for (int i = 0; i < 1000; i++)
		tfc__buf_addf(&buf, "%d,", i);
	assert_int_equal(buf.len, 3890);
	assert_int_equal(strlen(buf.data), buf.len);
	assert_string_equal(buf.data + 3885, ",999,");
	tfc__buf_fini(&buf);
}

static void buf_steal_of_nothing_is_an_empty_string(void **state)
{
	struct tfc__buf buf = {0};
	char *text = tfc__buf_steal(&buf);
	assert_string_equal(text, "");
	free(text);
}

static void environment_keeps_one_value_per_name(void **state)
{
	struct tfc__strv env = {0};
	tfc__strv_set_env(&env, "A", "1");
	tfc__strv_set_env(&env, "AB", "2");
	tfc__strv_set_env(&env, "A", "3");
	assert_int_equal(env.count, 2);
	assert_string_equal(tfc__env_get((const char *const *)env.items, "A"), "3");
	assert_string_equal(tfc__env_get((const char *const *)env.items, "AB"), "2");
	assert_null(tfc__env_get((const char *const *)env.items, "B"));
	tfc__strv_unset_env(&env, "A");
	assert_null(tfc__env_get((const char *const *)env.items, "A"));
	assert_null(env.items[1]);
	tfc__strv_fini(&env);
}

/* Where setting one after the other would take minutes. */
static void many_variables_are_merged_to_one_value_per_name(void **state)
{
	enum { NAMES = 100000 };
	struct tfc__strv env = {0};
	char text[64];
	tfc__strv_add(&env, "AB=1");
	for (int round = 1; round <= 2; round++)
		for (int i = 0; i < NAMES; i++) {
			snprintf(text, sizeof(text), "V%d=%d", i, round);
			tfc__strv_add(&env, text);
		}
	tfc__strv_add(&env, "A=2");
	tfc__strv_merge_env(&env);
	assert_false(env.is_failed);
	assert_int_equal(env.count, NAMES + 2);
	assert_string_equal(env.items[0], "AB=1");
	assert_string_equal(env.items[1], "V0=2");
	assert_string_equal(env.items[NAMES], "V99999=2");
	assert_string_equal(env.items[NAMES + 1], "A=2");
	assert_null(env.items[NAMES + 2]);
	tfc__strv_fini(&env);
	tfc__strv_merge_env(&env);
	assert_int_equal(env.count, 0);
	assert_false(env.is_failed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buf_grows_and_stays_terminated),
		cmocka_unit_test(buf_steal_of_nothing_is_an_empty_string),
		cmocka_unit_test(environment_keeps_one_value_per_name),
		cmocka_unit_test(many_variables_are_merged_to_one_value_per_name),
	};
	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
