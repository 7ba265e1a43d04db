/* base: buffers and string lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buf_grows_and_stays_terminated),
		cmocka_unit_test(buf_steal_of_nothing_is_an_empty_string),
		cmocka_unit_test(environment_keeps_one_value_per_name),
	};
	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
