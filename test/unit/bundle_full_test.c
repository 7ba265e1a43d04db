/* bundle: bundles on a file system without room, for bytes or for files. Needs the right to mount
 * one of a few pages, in a mount namespace of its own; without it the test is skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "bundle/internal.h"
#include "folder.h"
#include "leaks.h"
#include "mounts.h"
#include "raw_zip.h"

#define FILE_MODE (S_IFREG | 0644)

static char place[LEAKS_PATH], zip[LEAKS_PATH + 8], out[LEAKS_PATH + 8];
static char bytes[100000];

static int set_up(void **state)
{
	memset(bytes, 'x', sizeof(bytes) - 1);
	leaks_make_dir(place);
	snprintf(zip, sizeof(zip), "%s/a.zip", place);
	snprintf(out, sizeof(out), "%s/out", place);
	const struct raw_entry entries[] = {
		{.name = "first", .mode = FILE_MODE, .data = "1"},
		{.name = "a/b/c/second", .mode = FILE_MODE, .data = "2"},
		{.name = "a/large", .mode = FILE_MODE, .data = bytes},
		{.name = "last", .mode = FILE_MODE, .data = "4"},
	};
	raw_zip_write(zip, entries, 4);
	return mkdir(out, 0700);
}

static int tear_down(void **state)
{
	umount(out);
	return tfc__remove_tree(place);
}

static void mount_small(const char *options)
{
	assert_int_equal(mount("none", out, "tmpfs", 0, options), 0);
}

static void no_room_for_the_bytes_of_an_entry(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	mount_small("size=64k");
	assert_int_equal(tfc_bundle_unpack(zip, out, &error), TFC_ENOSPC);
	assert_string_equal(error.text, "cannot unpack entry a/large: No space left on device");
	assert_int_equal(folder_count(out, ""), 0);
}

static void no_room_for_one_file_more(void **state)
{
	char options[32];
	tfc_error error = TFC_ERROR_INIT;
	/* the root, first, a, a/b, a/b/c, second, large, last */
	for (int files = 2; files < 8; files++) {
		snprintf(options, sizeof(options), "nr_inodes=%d", files);
		mount_small(options);
		assert_int_equal(tfc_bundle_unpack(zip, out, &error), TFC_ENOSPC);
		assert_non_null(strstr(error.text, "No space left on device"));
		assert_int_equal(folder_count(out, ""), 0);
		assert_int_equal(umount(out), 0);
	}
	mount_small("nr_inodes=8");
	assert_int_equal(tfc_bundle_unpack(zip, out, &error), TFC_OK);
}

static void no_room_for_the_archive(void **state)
{
	char packed[LEAKS_PATH + 32], large[LEAKS_PATH + 32];
	tfc_error error = TFC_ERROR_INIT;
	snprintf(packed, sizeof(packed), "%s/packed.zip", out);
	snprintf(large, sizeof(large), "%s/large", place);
	FILE *file = fopen(large, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, sizeof(bytes), file), sizeof(bytes));
	assert_int_equal(fclose(file), 0);
	mount_small("size=64k");
	assert_int_equal(tfc_bundle_pack(zip, packed, &error), TFC_ENOSPC);
	assert_int_equal(folder_count(out, ""), 0);
	assert_int_equal(tfc_bundle_pack(large, packed, &error), TFC_ENOSPC);
	assert_non_null(strstr(error.text, "No space left on device"));
	assert_int_equal(folder_count(out, ""), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(no_room_for_the_bytes_of_an_entry),
		TEST(no_room_for_one_file_more),
		TEST(no_room_for_the_archive),
	};
	if (!mounts_are_own())
		return MOUNTS_SKIPPED;
	return cmocka_run_group_tests_name("bundle_full", tests, NULL, NULL);
}
