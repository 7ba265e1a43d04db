/* store: files that are damaged, foreign or cannot be written are refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "leaks.h"
#include "store/disk.h"

#define PATH_SIZE 200
#define ANY UINT64_MAX

static char dir[LEAKS_PATH];
static char path[PATH_SIZE]; /* of the state directory */
static struct tfc__disk_calls calls;

static int no_fsync(int fd)
{
	return 0;
}

static int setup(void **state)
{
	leaks_make_dir(dir);
	snprintf(path, sizeof(path), "%s/state", dir);
	calls = tfc__disk_calls;
	calls.fsync = no_fsync;
	return 0;
}

static int teardown(void **state)
{
	return tfc__remove_tree(dir);
}

static void open_disk(struct tfc__disk *disk)
{
	tfc_error error = TFC_ERROR_INIT;
	if (tfc__disk_open(disk, path, getpid(), &calls, &error) < 0)
		fail_msg("%s", error.text);
}

static void put(struct tfc__disk *disk, const char *key, const char *value)
{
	uint64_t version;
	assert_int_equal(tfc__disk_put(disk, key, value, strlen(value), ANY, NULL, &version),
			 TFC_OK);
}

static void write_file(const char *name, const void *data, size_t len)
{
	char full[PATH_SIZE + 64];
	snprintf(full, sizeof(full), "%s/%s", path, name);
	int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, data, len), len);
	close(fd);
}

static size_t read_file(const char *name, char *data, size_t size)
{
	char full[PATH_SIZE + 64];
	snprintf(full, sizeof(full), "%s/%s", path, name);
	int fd = open(full, O_RDONLY | O_CLOEXEC);
	ssize_t len = read(fd, data, size);
	close(fd);
	assert_true(len >= 0);
	return (size_t)len;
}

static void assert_value(struct tfc__disk *disk, const char *key, const char *value)
{
	struct tfc__buf data = {0};
	uint64_t version;
	assert_int_equal(tfc__disk_get(disk, key, &data, NULL, &version), TFC_OK);
	assert_string_equal(data.data, value);
	tfc__buf_fini(&data);
}

/* ---- damage */

static void assert_damaged(struct tfc__disk *disk)
{
	struct tfc__buf data = {0};
	uint64_t version;
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc__disk_get(disk, "jobs/a", &data, &error, &version), TFC_EPARSE);
	assert_non_null(strstr(error.text, path));
	assert_non_null(strstr(error.text, "records/jobs/a"));
	tfc__buf_fini(&data);
}

static void a_damaged_file_is_refused_by_name_and_left_in_place(void **state)
{
	struct tfc__disk disk;
	char good[256], bad[256], still[256];
	open_disk(&disk);
	put(&disk, "jobs/a", "a value of some bytes");
	size_t len = read_file("records/jobs/a", good, sizeof(good));
	for (size_t cut = 0; cut < len; cut++) {
		write_file("records/jobs/a", good, cut);
		assert_damaged(&disk);
	}
	for (size_t bit = 0; bit < 8 * len; bit++) {
		memcpy(bad, good, len);
		bad[bit / 8] = (char)(bad[bit / 8] ^ 1 << bit % 8);
		write_file("records/jobs/a", bad, len);
		assert_damaged(&disk);
		assert_int_equal(read_file("records/jobs/a", still, sizeof(still)), len);
		assert_memory_equal(still, bad, len);
	}
	memcpy(bad, good, len);
	bad[len] = 0;
	write_file("records/jobs/a", bad, len + 1);
	assert_damaged(&disk);
	write_file("records/jobs/a", good, len);
	assert_value(&disk, "jobs/a", "a value of some bytes");
	tfc__disk_close(&disk);
}

static int count_values(void *user, const tfc_store_value *value)
{
	uint32_t *counts = user;
	counts[value->data != NULL]++;
	return TFC_OK;
}

static void a_file_in_place_of_a_folder_is_reported(void **state)
{
	struct tfc__disk disk;
	uint32_t counts[2] = {0};
	tfc_error error = TFC_ERROR_INIT;
	open_disk(&disk);
	assert_int_equal(tfc__disk_list(&disk, "jobs/", count_values, counts, &error), TFC_OK);
	put(&disk, "other", "x");
	write_file("records/jobs", "torn", 4);
	assert_int_equal(tfc__disk_list(&disk, "jobs/", count_values, counts, &error), TFC_ENOENT);
	assert_non_null(strstr(error.text, path));
	assert_non_null(strstr(error.text, "records/jobs/\""));
	assert_int_equal(counts[0] + counts[1], 0);
	tfc__disk_close(&disk);
}

static void a_record_under_another_name_is_damaged(void **state)
{
	struct tfc__disk disk;
	char data[256];
	uint32_t counts[2] = {0};
	tfc_error error = TFC_ERROR_INIT;
	open_disk(&disk);
	put(&disk, "jobs/b", "b");
	put(&disk, "jobs/c", "c");
	write_file("records/jobs/a", data, read_file("records/jobs/b", data, sizeof(data)));
	assert_damaged(&disk);
	assert_int_equal(tfc__disk_list(&disk, "", count_values, counts, &error), TFC_EPARSE);
	assert_int_equal(counts[0], 1);
	assert_int_equal(counts[1], 2);
	assert_non_null(strstr(error.text, "records/jobs/a"));
	tfc__disk_close(&disk);
}

static void a_damaged_record_can_be_written_anew_or_removed(void **state)
{
	struct tfc__disk disk;
	uint64_t version;
	open_disk(&disk);
	put(&disk, "k", "old");
	write_file("records/k", "torn", 4);
	assert_int_equal(tfc__disk_put(&disk, "k", "x", 1, 0, NULL, &version), TFC_EPARSE);
	put(&disk, "k", "new");
	assert_value(&disk, "k", "new");
	write_file("records/k", "torn", 4);
	assert_int_equal(tfc__disk_remove(&disk, "k", NULL), TFC_OK);
	tfc__disk_close(&disk);
}

static void a_link_is_no_record(void **state)
{
	struct tfc__disk disk;
	struct tfc__buf data = {0};
	uint64_t version;
	char full[PATH_SIZE + 64];
	open_disk(&disk);
	put(&disk, "k", "v");
	snprintf(full, sizeof(full), "%s/records/link", path);
	assert_int_equal(symlink("k", full), 0);
	assert_int_equal(tfc__disk_get(&disk, "link", &data, NULL, &version), TFC_EPARSE);
	tfc__buf_fini(&data);
	tfc__disk_close(&disk);
}

/* ---- directories that are not ours */

static void assert_refused(int code, const char *words)
{
	struct tfc__disk disk;
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc__disk_open(&disk, path, getpid(), &calls, &error), code);
	assert_non_null(strstr(error.text, path));
	if (!strstr(error.text, words))
		fail_msg("%s: nothing about \"%s\"", error.text, words);
	tfc__disk_close(&disk);
}

static void a_directory_that_is_not_ours_is_refused(void **state)
{
	struct tfc__disk disk;
	assert_int_equal(mkdir(path, 0700), 0);
	write_file("thesis.tex", "x", 1);
	assert_refused(TFC_EPARSE, "thesis.tex");
	write_file("FORMAT", "something else\n", 15);
	assert_refused(TFC_EPARSE, "is not a state directory");
	write_file("FORMAT", "tfcluster state 2\n", 18);
	assert_refused(TFC_EPARSE, "later version");
	write_file("FORMAT", "tfcluster state 1\n", 18);
	open_disk(&disk);
	tfc__disk_close(&disk);
	write_file("opens", "x", 1);
	assert_refused(TFC_EPARSE, "/opens\" is damaged");
	write_file("opens", "9\n", 2);
	write_file("key", "short", 5);
	assert_refused(TFC_EPARSE, "/key\" is damaged");
}

static void a_path_that_is_no_directory_is_refused(void **state)
{
	snprintf(path, sizeof(path), "%s/file", dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	close(fd);
	assert_refused(TFC_ENOENT, "Not a directory");
	snprintf(path, sizeof(path), "%s/not/there", dir);
	assert_refused(TFC_ENOENT, "No such file");
}

static void one_process_has_it_at_a_time(void **state)
{
	struct tfc__disk disk;
	char words[64];
	open_disk(&disk);
	snprintf(words, sizeof(words), "in use by process %d", (int)getpid());
	assert_refused(TFC_EBUSY, words);
	tfc__disk_close(&disk);
	open_disk(&disk);
	tfc__disk_close(&disk);
}

/* ---- calls that fail */

static int calls_left;
static int failure;

static bool is_failing(void)
{
	errno = failure;
	return calls_left-- == 0;
}

static int fail_create(int at, const char *name)
{
	return is_failing() ? -1 : tfc__disk_calls.create(at, name);
}

static ssize_t fail_write(int fd, const void *data, size_t len)
{
	return is_failing() ? -1 : write(fd, data, len);
}

static int fail_fsync(int fd)
{
	return is_failing() ? -1 : 0;
}

static int fail_rename(int at, const char *from, const char *to)
{
	return is_failing() ? -1 : tfc__disk_calls.rename(at, from, to);
}

static int fail_unlink(int at, const char *name)
{
	return is_failing() ? -1 : tfc__disk_calls.unlink(at, name);
}

static int fail_mkdir(int at, const char *name)
{
	return is_failing() ? -1 : tfc__disk_calls.mkdir(at, name);
}

static const struct tfc__disk_calls failing = {
	fail_create, fail_write, fail_fsync, fail_rename, fail_unlink, fail_mkdir,
};

/* Whether the value is the old one or, after the very last call, the new one. */
static void assert_old_or_new(struct tfc__disk *disk, bool is_last)
{
	struct tfc__buf data = {0};
	uint64_t version;
	assert_int_equal(tfc__disk_get(disk, "jobs/a", &data, NULL, &version), TFC_OK);
	if (strcmp(data.data, "old") != 0)
		assert_true(is_last && strcmp(data.data, "new") == 0);
	tfc__buf_fini(&data);
}

static void try_failures(int sys_errno, int code)
{
	struct tfc__disk disk;
	open_disk(&disk);
	put(&disk, "jobs/a", "old");
	disk.calls = &failing;
	failure = sys_errno;
	bool has_failed = true;
	for (int call = 1; has_failed; call++) { /* the first makes folders, which are there */
		tfc_error error = TFC_ERROR_INIT;
		uint64_t version;
		calls_left = call + 1;
		int result = tfc__disk_put(&disk, "jobs/a", "new", 3, ANY, &error, &version);
		has_failed = calls_left < 0;
		assert_int_equal(result, has_failed ? code : TFC_OK);
		calls_left = 1000;
		if (!has_failed)
			break;
		assert_non_null(strstr(error.text, path));
		assert_true(call < 10);
		assert_old_or_new(&disk, call == 6);
		disk.calls = &calls;
		put(&disk, "jobs/a", "old");
		disk.calls = &failing;
	}
	assert_value(&disk, "jobs/a", "new");
	tfc__disk_close(&disk);
}

static void what_cannot_be_written_is_named_and_leaves_the_old_value(void **state)
{
	try_failures(ENOSPC, TFC_ENOSPC);
	try_failures(EACCES, TFC_EACCES);
	try_failures(EROFS, TFC_EACCES);
	try_failures(EIO, TFC_ESYS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_damaged_file_is_refused_by_name_and_left_in_place),
		TEST(a_file_in_place_of_a_folder_is_reported),
		TEST(a_record_under_another_name_is_damaged),
		TEST(a_damaged_record_can_be_written_anew_or_removed),
		TEST(a_link_is_no_record),
		TEST(a_directory_that_is_not_ours_is_refused),
		TEST(a_path_that_is_no_directory_is_refused),
		TEST(one_process_has_it_at_a_time),
		TEST(what_cannot_be_written_is_named_and_leaves_the_old_value),
	};
#undef TEST
	return cmocka_run_group_tests_name("store_disk", tests, NULL, NULL);
}
