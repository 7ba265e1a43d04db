/*
 * store: a crash between any two of write, fsync and rename leaves the old value or the new one.
 *
 * The system calls that change something are counted. At a chosen one the process dies: a child,
 * in which that call is not made, or in half, and none after it. Then the power may go as well:
 * what was not synced is undone - bytes of files that were not fsynced are cut off or turned to
 * zeros, names in folders that were not fsynced go back.
 */
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "leaks.h"
#include "store/disk.h"

#define PATH_SIZE 256
#define ITEMS 128

enum damage {
	PROCESS_DIES,      /* all that was done is there */
	PROCESS_DIES_HALF, /* ... and half of a write */
	POWER_FAILS,       /* what was not synced is not */
	POWER_FAILS_NAMED, /* ... but the names are there, without their bytes */
	DAMAGES,
};

/* ---- what is not synced yet */

struct renamed {
	char path[PATH_SIZE];   /* the name that came or went; "": it is synced */
	char from[PATH_SIZE];   /* of a rename: the name before */
	char backup[PATH_SIZE]; /* another name of the file that was there before, or "" */
};

static struct renamed names[ITEMS];
static int name_count;
static char files[ITEMS][PATH_SIZE]; /* with bytes that are not synced, or "" */
static int file_count;
static char vault[LEAKS_PATH + 8]; /* where backups are */
static int backups;

static void full_path(int dir, const char *path, char full[PATH_SIZE])
{
	char link[64], base[PATH_SIZE / 2];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
	ssize_t len = dir == AT_FDCWD ? 0 : readlink(link, base, sizeof(base));
	snprintf(full, PATH_SIZE, "%.*s%s%s", (int)len, base, len && *path ? "/" : "", path);
}

static struct renamed *note_name(int dir, const char *path)
{
	if (name_count == ITEMS)
		abort();
	struct renamed *name = &names[name_count++];
	*name = (struct renamed){0};
	full_path(dir, path, name->path);
	return name;
}

/* A second name keeps what is about to lose its own. */
static void keep(const char *path, char backup[PATH_SIZE])
{
	snprintf(backup, PATH_SIZE, "%s/%d", vault, ++backups);
	if (link(path, backup) < 0)
		backup[0] = '\0';
}

static bool is_in(const char *folder, const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && (size_t)(slash - path) == strlen(folder) &&
	       strncmp(path, folder, strlen(folder)) == 0;
}

static void lose_bytes(void)
{
	struct stat status;
	for (int i = 0; i < file_count; i++)
		if (files[i][0] && stat(files[i], &status) == 0 &&
		    (truncate(files[i], i % 2 ? status.st_size / 2 : 0) < 0 ||
		     truncate(files[i], i % 3 ? status.st_size : 1) < 0))
			abort();
}

static void lose_names(void)
{
	while (name_count) {
		const struct renamed *name = &names[--name_count];
		if (!name->path[0])
			continue;
		if (name->from[0])
			rename(name->path, name->from);
		else
			tfc__remove_tree(name->path);
		if (name->backup[0] && link(name->backup, name->path) < 0)
			abort();
	}
}

/* ---- calls that count */

static int calls_left;
static enum damage damage;

static void count_call(void)
{
	if (calls_left-- > 0)
		return;
	if (damage == POWER_FAILS || damage == POWER_FAILS_NAMED)
		lose_bytes();
	if (damage == POWER_FAILS)
		lose_names();
	_exit(0);
}

static int count_create(int dir, const char *path)
{
	count_call();
	int fd = tfc__disk_calls.create(dir, path);
	if (fd >= 0) {
		note_name(dir, path);
		full_path(dir, path, files[file_count++]);
	}
	return fd;
}

static ssize_t count_write(int fd, const void *data, size_t len)
{
	if (calls_left == 0 && damage == PROCESS_DIES_HALF && write(fd, data, len / 2) < 0)
		abort();
	count_call();
	return write(fd, data, len);
}

static int count_fsync(int fd)
{
	char path[PATH_SIZE];
	count_call();
	full_path(fd, "", path);
	for (int i = 0; i < file_count; i++)
		if (strcmp(files[i], path) == 0)
			files[i][0] = '\0';
	for (int i = 0; i < name_count; i++)
		if (is_in(path, names[i].path) || is_in(path, names[i].from))
			names[i].path[0] = '\0';
	return 0;
}

static int count_rename(int dir, const char *from, const char *to)
{
	count_call();
	struct renamed *name = note_name(dir, to);
	full_path(dir, from, name->from);
	keep(name->path, name->backup);
	for (int i = 0; i < file_count; i++)
		if (strcmp(files[i], name->from) == 0)
			memcpy(files[i], name->path, PATH_SIZE);
	return tfc__disk_calls.rename(dir, from, to);
}

static int count_unlink(int dir, const char *path)
{
	count_call();
	struct renamed *name = note_name(dir, path);
	keep(name->path, name->backup);
	return tfc__disk_calls.unlink(dir, path);
}

static int count_mkdir(int dir, const char *path)
{
	count_call();
	int code = tfc__disk_calls.mkdir(dir, path);
	if (code == 0)
		note_name(dir, path);
	return code;
}

static const struct tfc__disk_calls counted = {
	count_create, count_write, count_fsync, count_rename, count_unlink, count_mkdir,
};

/* Around the crash nothing is lost, and waiting for a disk takes its time. */
static int no_fsync(int fd)
{
	return 0;
}

static struct tfc__disk_calls quick;

/* ---- what is done meanwhile */

static const struct step {
	const char *key;
	const char *value; /* NULL: removed */
} steps[] = {
	{"jobs/a/record", "one"},
	{"jobs/a/journal/0", "begin"},
	{"jobs/a/journal/0", "begin, end"},
	{"jobs/b/record", "two"},
	{"jobs/a/", NULL},
	{"jobs/b/record", NULL},
	{"jobs/a/record", "and again"},
};
#define STEPS (sizeof(steps) / sizeof(*steps))

static int take_step(struct tfc__disk *disk, const struct step *step)
{
	uint64_t version;
	if (!step->value)
		return tfc__disk_remove(disk, step->key, NULL);
	return tfc__disk_put(disk, step->key, step->value, strlen(step->value), UINT64_MAX, NULL,
			     &version);
}

static int add_value(void *user, const tfc_store_value *value)
{
	tfc__buf_addf(user, "%s=%.*s\n", value->key, (int)value->len,
		      value->data ? (const char *)value->data : "(damaged)");
	return TFC_OK;
}

/* All that is in a directory, as text; opening it must succeed. */
static char *read_all(const char *path)
{
	struct tfc__disk disk;
	struct tfc__buf text = {0};
	tfc_error error = TFC_ERROR_INIT;
	if (tfc__disk_open(&disk, path, getpid(), &quick, &error) < 0 ||
	    tfc__disk_list(&disk, "", add_value, &text, &error) < 0)
		fail_msg("%s", error.text);
	tfc__disk_close(&disk);
	tfc__buf_add_char(&text, '\n');
	return tfc__buf_steal(&text);
}

/* What is in it after the first `count` steps. */
static char *expect(const char *dir, size_t count)
{
	char path[PATH_SIZE];
	struct tfc__disk disk;
	snprintf(path, sizeof(path), "%s/expected-%zu", dir, count);
	assert_int_equal(tfc__disk_open(&disk, path, getpid(), &quick, NULL), TFC_OK);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(take_step(&disk, &steps[i]), TFC_OK);
	tfc__disk_close(&disk);
	return read_all(path);
}

/* In a child that dies at a call: false when it came to its end. */
static bool crash_at(const char *path, int call, volatile size_t *done)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		struct tfc__disk disk;
		calls_left = call;
		bool is_right = tfc__disk_open(&disk, path, getpid(), &counted, NULL) == TFC_OK;
		for (size_t i = 0; i < STEPS && is_right; i++) {
			is_right = take_step(&disk, &steps[i]) == TFC_OK;
			*done = i + 1;
		}
		_exit(is_right ? 1 : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	return WEXITSTATUS(status) == 0;
}

static void try_crash(const char *dir, int call, char *const *expected, bool *ret_has_crashed)
{
	char path[PATH_SIZE];
	volatile size_t *done = mmap(NULL, sizeof(*done), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	snprintf(path, sizeof(path), "%s/crashed", dir);
	snprintf(vault, sizeof(vault), "%.64s/vault", dir);
	assert_int_equal(mkdir(vault, 0700), 0);
	*ret_has_crashed = crash_at(path, call, done);
	char *text = read_all(path);
	bool is_old = strcmp(text, expected[*done]) == 0;
	bool is_new = *done < STEPS && strcmp(text, expected[*done + 1]) == 0;
	if (!is_old && !is_new)
		fail_msg("damage %d at call %d, after %zu steps:\n%s", damage, call, *done, text);
	free(text);
	assert_int_equal(tfc__remove_tree(path), 0);
	assert_int_equal(tfc__remove_tree(vault), 0);
	munmap((void *)done, sizeof(*done));
}

static void a_crash_at_any_call_leaves_the_old_or_the_new(void **state)
{
	char dir[LEAKS_PATH];
	char *expected[STEPS + 1];
	leaks_make_dir(dir);
	for (size_t i = 0; i <= STEPS; i++)
		expected[i] = expect(dir, i);
	for (damage = 0; damage < DAMAGES; damage++) {
		bool has_crashed = true;
		int call = 0;
		for (; has_crashed; call++)
			try_crash(dir, call, expected, &has_crashed);
		assert_in_range(call, 60, 120);
	}
	for (size_t i = 0; i <= STEPS; i++)
		free(expected[i]);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* The test itself can fail: without the fsync of the file, power loss is seen. */
static bool is_careless_seen(const char *dir, int call)
{
	char path[PATH_SIZE];
	struct tfc__disk disk;
	struct tfc__buf text = {0};
	struct tfc__disk_calls careless = counted;
	careless.fsync = no_fsync;
	snprintf(path, sizeof(path), "%s/careless", dir);
	snprintf(vault, sizeof(vault), "%.64s", dir);
	pid_t child = fork();
	if (child == 0) {
		damage = POWER_FAILS_NAMED;
		calls_left = call;
		if (tfc__disk_open(&disk, path, getpid(), &careless, NULL) == TFC_OK)
			take_step(&disk, &steps[0]);
		calls_left = 0;
		count_call();
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	bool is_seen = tfc__disk_open(&disk, path, getpid(), &quick, NULL) < 0 ||
		       tfc__disk_list(&disk, "", add_value, &text, NULL) < 0;
	tfc__disk_close(&disk);
	tfc__buf_fini(&text);
	assert_int_equal(tfc__remove_tree(path), 0);
	return is_seen;
}

static void a_missing_fsync_would_be_seen(void **state)
{
	char dir[LEAKS_PATH];
	leaks_make_dir(dir);
	assert_true(is_careless_seen(dir, 1000));
	assert_int_equal(tfc__remove_tree(dir), 0);
}

int main(void)
{
	quick = tfc__disk_calls;
	quick.fsync = no_fsync;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_crash_at_any_call_leaves_the_old_or_the_new),
		cmocka_unit_test(a_missing_fsync_would_be_seen),
	};
	return cmocka_run_group_tests_name("store_crash", tests, NULL, NULL);
}
