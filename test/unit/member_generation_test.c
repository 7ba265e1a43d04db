/* member: a node's generation is higher at each start, and on disk before it is used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "leaks.h"
#include "member/generation.h"
#include "member/gossip_core.h"

static char dir[LEAKS_PATH], path[LEAKS_PATH + 16], temp[LEAKS_PATH + 20];

static int make_dir(void **state)
{
	leaks_make_dir(dir);
	snprintf(path, sizeof(path), "%s/generation", dir);
	snprintf(temp, sizeof(temp), "%s/generation.new", dir);
	return 0;
}

/* Nothing but the file is there. */
static int remove_dir(void **state)
{
	unlink(path);
	return rmdir(dir);
}

static void write_text(const char *name, const char *text)
{
	unlink(name);
	FILE *file = fopen(name, "we");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(name, 0600), 0);
}

static void assert_text(const char *expected)
{
	char text[100] = "";
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	assert_string_equal(text, expected);
}

static uint32_t next(uint32_t least)
{
	tfc_error error = TFC_ERROR_INIT;
	uint32_t generation = 0;
	if (tfc__generation_next(dir, least, &error, &generation) < 0)
		fail_msg("%s", error.text);
	return generation;
}

static void each_start_has_a_higher_one(void **state)
{
	assert_int_equal(next(1), 1);
	assert_int_equal(next(1), 2);
	assert_text("tfcluster-generation 1 2\n");
	write_text(temp, "left by a crash");
	assert_int_equal(next(1), 3);
	assert_text("tfcluster-generation 1 3\n");
	assert_int_equal(access(temp, F_OK), -1);
}

static void one_that_others_have_seen_is_passed_over(void **state)
{
	assert_int_equal(next(1), 1);
	assert_int_equal(next(41), 41);
	assert_int_equal(next(41), 42);
	assert_int_equal(next(7), 43);
}

static void damaged_file_is_refused(void **state)
{
	static const char *const texts[] = {"",
					    "tfcluster-generation 1 ",
					    "tfcluster-generation 1 0\n",
					    "tfcluster-generation 1 -1\n",
					    "tfcluster-generation 1  1\n",
					    "tfcluster-generation 1 12",
					    "tfcluster-generation 1 1x\n",
					    "tfcluster-generation 2 1\n",
					    "tfcluster-generation 1 2147483646\n",
					    "tfcluster-generation 1 4294967295\n",
					    "tfcluster-generation 1 99999999999999999999\n"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		tfc_error error = TFC_ERROR_INIT;
		uint32_t generation = 7;
		write_text(path, texts[i]);
		assert_int_equal(tfc__generation_next(dir, 1, &error, &generation), TFC_EPARSE);
		assert_non_null(strstr(error.text, "is damaged; remove it"));
		assert_int_equal(generation, 7);
	}
}

static void file_of_other_users_is_refused(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	uint32_t generation = 7;
	write_text(path, "tfcluster-generation 1 1\n");
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(tfc__generation_next(dir, 1, &error, &generation), TFC_EACCES);
	assert_int_equal(generation, 7);
}

static void node_without_a_directory_uses_the_clock(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	uint32_t generation = 0;
	uint32_t before = (uint32_t)(tfc__wall() / TFC__SECOND - UINT64_C(1767225600));
	assert_int_equal(tfc__generation_next(NULL, 1, &error, &generation), TFC_OK);
	assert_true(generation >= before && generation <= before + 60);
	uint32_t last = TFC__GOSSIP_LIMIT - 1;
	assert_int_equal(tfc__generation_next(NULL, last, &error, &generation), TFC_OK);
	assert_int_equal(generation, last);
	assert_int_equal(tfc__generation_next(NULL, last + 1, &error, &generation), TFC_EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_start_has_a_higher_one),
		TEST(one_that_others_have_seen_is_passed_over),
		TEST(damaged_file_is_refused),
		TEST(file_of_other_users_is_refused),
		cmocka_unit_test(node_without_a_directory_uses_the_clock),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
