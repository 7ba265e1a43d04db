/* agent: users and groups are found by name or number, without NSS. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

#include "agent/user.h"
#include "leaks.h"

static const char passwd_text[] = "root:x:0:0:root:/root:/bin/sh\n"
				  "# a comment: and more\n"
				  "broken\n"
				  "ann:x:1001:2001:Ann,,,:/home/ann:/bin/sh\n"
				  "bob:x:1002:2001::\n"
				  "odd:x:number:2001::/:/bin/sh\n"
				  "1001:x:1003:2003::/home/digits:/bin/sh\n"
				  "none:x:4294967295:0::/:/bin/sh";
static const char group_text[] = "root:x:0:\n"
				 "staff:x:2001:\n"
				 "video:x:44:ann,bob\n"
				 "audio:x:29:bob\n"
				 "annual:x:30:annual\n"
				 "staff2:x:2001:ann\n"
				 "last:x:99:bob,ann";

static char passwd_file[LEAKS_PATH], group_file[LEAKS_PATH];

static int write_file(char ret_path[LEAKS_PATH], const char *text)
{
	snprintf(ret_path, LEAKS_PATH, "%s/XXXXXX", leaks_temp_dir());
	int fd = mkstemp(ret_path);
	ssize_t len = fd < 0 ? -1 : write(fd, text, strlen(text));
	close(fd);
	return len == (ssize_t)strlen(text) ? 0 : -1;
}

static int make_files(void **state)
{
	return write_file(passwd_file, passwd_text) + write_file(group_file, group_text);
}

static int remove_files(void **state)
{
	return unlink(passwd_file) + unlink(group_file);
}

static void users_are_found_by_name_and_number(void **state)
{
	static const struct {
		const char *text, *name, *home;
		uint32_t uid, gid;
		const char *groups;
	} cases[] = {
		{"ann", "ann", "/home/ann", 1001, 2001, "2001 44 99"},
		{"bob", "bob", "/", 1002, 2001, "2001 44 29 99"},
		{"ann:audio", "ann", "/home/ann", 1001, 29, "29 44 2001 99"},
		{"ann:7", "ann", "/home/ann", 1001, 7, "7 44 2001 99"},
		{"1002", "bob", "/", 1002, 2001, "2001 44 29 99"},
		{"1001", "1001", "/home/digits", 1003, 2003, "2003"}, /* a name first */
		{"5000:5001", "5000", "/", 5000, 5001, "5001"},
		{"0", "root", "/root", 0, 0, "0"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__user user;
		tfc_error error = TFC_ERROR_INIT;
		char groups[128] = "";
		if (tfc__user_find(cases[i].text, passwd_file, group_file, &error, &user) < 0)
			fail_msg("%s: %s", cases[i].text, error.text);
		assert_string_equal(user.name, cases[i].name);
		assert_string_equal(user.home, cases[i].home);
		assert_int_equal(user.uid, cases[i].uid);
		assert_int_equal(user.gid, cases[i].gid);
		for (uint32_t g = 0; g < user.group_count; g++)
			snprintf(groups + strlen(groups), sizeof(groups) - strlen(groups), "%s%u",
				 g ? " " : "", user.groups[g]);
		assert_string_equal(groups, cases[i].groups);
		tfc__user_fini(&user);
	}
}

static void who_is_not_there_is_named(void **state)
{
	static const struct {
		const char *text;
		const char *sentence;
	} cases[] = {
		{"eve", "user \"eve\" not found in "},
		{"odd", "user \"odd\" not found in "},
		{"none", "user \"none\" not found in "},
		{"5000", "give its group too, as in 5000:5000"},
		{"4294967295:0", "user \"4294967295\" not found in "},
		{"ann:nobody", "group \"nobody\" not found in "},
		{"-1", "user \"-1\" not found in "},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__user user;
		tfc_error error = TFC_ERROR_INIT;
		assert_int_equal(tfc__user_find(cases[i].text, passwd_file, group_file, &error,
						&user),
				 TFC_ENOENT);
		if (!strstr(error.text, cases[i].sentence))
			fail_msg("no \"%s\" in: %s", cases[i].sentence, error.text);
		tfc__user_fini(&user);
	}
}

static void numbers_need_no_files(void **state)
{
	struct tfc__user user;
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc__user_find("7:8", "/does/not/exist", "/nor/this", &error, &user), 0);
	assert_int_equal(user.uid, 7);
	assert_int_equal(user.gid, 8);
	tfc__user_fini(&user);
	assert_int_equal(tfc__user_find("ann", "/does/not/exist", group_file, &error, &user),
			 TFC_ENOENT);
	assert_non_null(strstr(error.text, "/does/not/exist"));
	tfc__user_fini(&user);
}

static void groups_that_cannot_be_read_are_not_left_out(void **state)
{
	struct tfc__user user;
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc__user_find("ann", passwd_file, "/does/not/exist", &error, &user), 0);
	assert_int_equal(user.group_count, 1);
	tfc__user_fini(&user);
	assert_true(tfc__user_find("ann", passwd_file, "/", &error, &user) < 0);
	assert_string_equal(error.text, "cannot read \"/\": Is a directory");
	tfc__user_fini(&user);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(users_are_found_by_name_and_number),
		cmocka_unit_test(who_is_not_there_is_named),
		cmocka_unit_test(numbers_need_no_files),
		cmocka_unit_test(groups_that_cannot_be_read_are_not_left_out),
	};
	return cmocka_run_group_tests_name("agent_user", tests, make_files, remove_files);
}
