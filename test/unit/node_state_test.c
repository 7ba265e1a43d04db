/* node: the state directory is made closed to others, or refused with what to do about it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "leaks.h"
#include "node/state.h"

struct place {
	char top[LEAKS_PATH];
	char dir[LEAKS_PATH + 32];
};

static void make_place(struct place *place)
{
	leaks_make_dir(place->top);
	snprintf(place->dir, sizeof(place->dir), "%s/above/state", place->top);
}

static void assert_refused(const char *path, int code, const char *words)
{
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc__state_dir_open(path, &error), code);
	assert_non_null(strstr(error.text, path));
	if (!strstr(error.text, words))
		fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

static void a_missing_one_is_made_for_this_user_alone(void **state)
{
	struct place place;
	struct stat made;
	tfc_error error = TFC_ERROR_INIT;
	make_place(&place);
	mode_t mask = umask(0);
	assert_int_equal(tfc__state_dir_open(place.dir, &error), TFC_OK);
	umask(mask);
	assert_int_equal(stat(place.dir, &made), 0);
	assert_int_equal(made.st_mode & 07777, 0700);
	strcat(place.dir, "/"); /* and it is there now */
	assert_int_equal(tfc__state_dir_open(place.dir, &error), TFC_OK);
	tfc__remove_tree(place.top);
}

static void one_that_is_open_to_others_is_refused(void **state)
{
	struct place place;
	make_place(&place);
	assert_int_equal(tfc__state_dir_open(place.dir, NULL), TFC_OK);
	assert_int_equal(chmod(place.dir, 0750), 0);
	assert_refused(place.dir, TFC_EACCES,
		       "is accessible by other users (mode 0750); run \"chmod 700\" on it");
	tfc__remove_tree(place.top);
}

static void one_of_another_user_is_refused(void **state)
{
	struct place place;
	if (geteuid() != 0)
		skip();
	make_place(&place);
	assert_int_equal(tfc__state_dir_open(place.dir, NULL), TFC_OK);
	assert_int_equal(chown(place.dir, 12345, 12345), 0);
	assert_refused(place.dir, TFC_EACCES,
		       "belongs to user 12345, not to the node's user 0; use a directory of "
		       "its own");
	tfc__remove_tree(place.top);
}

static void what_is_no_directory_is_refused(void **state)
{
	struct place place;
	char path[LEAKS_PATH + 64];
	make_place(&place);
	snprintf(path, sizeof(path), "%s/file", place.top);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fclose(file);
	assert_refused(path, TFC_EINVAL, "is not a directory");
	strcat(path, "/below");
	assert_refused(path, TFC_ENOENT, "Not a directory");
	assert_refused("relative", TFC_EINVAL, "is not an absolute path");
	tfc__remove_tree(place.top);
}

static void one_that_cannot_be_written_is_refused(void **state)
{
	assert_refused("/proc/tfcluster", TFC_ENOENT, "state directory \"/proc/tfcluster\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_missing_one_is_made_for_this_user_alone),
		cmocka_unit_test(one_that_is_open_to_others_is_refused),
		cmocka_unit_test(one_of_another_user_is_refused),
		cmocka_unit_test(what_is_no_directory_is_refused),
		cmocka_unit_test(one_that_cannot_be_written_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
