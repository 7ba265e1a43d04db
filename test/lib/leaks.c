#include "leaks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ITEMS_MAX 2048
#define NAME_MAX_SHOWN 80
#define PATIENCE_MS 10000 /* what was killed may still be on its way out */
#define JOINED_MS 500     /* the kernel's part of a thread that was joined */
#define LOOK_AGAIN_MS 2

enum kind { DESCRIPTOR, THREAD, PROCESS, FILE_LEFT };

static const char *const kinds[] = {"descriptor", "thread", "process", "file"};

struct item {
	enum kind kind;
	long number; /* descriptor, thread or process */
	char name[NAME_MAX_SHOWN];
};

struct inventory {
	size_t count;
	struct item items[ITEMS_MAX];
};

#define TEMP_PARENT_MAX 24 /* bytes: sockets are below it, whose paths have 107 at most */
static char temp_dir[TEMP_PARENT_MAX + 24];
static pid_t temp_dir_owner;

/* ---- taking stock */

static void add(struct inventory *inventory, enum kind kind, long number, const char *name)
{
	if (inventory->count == ITEMS_MAX)
		return;
	struct item *item = &inventory->items[inventory->count++];
	*item = (struct item){.kind = kind, .number = number};
	snprintf(item->name, sizeof(item->name), "%.79s", name);
}

static bool has(const struct inventory *inventory, const struct item *item)
{
	for (size_t i = 0; i < inventory->count; i++) {
		const struct item *other = &inventory->items[i];
		if (other->kind == item->kind && other->number == item->number &&
		    (item->kind != FILE_LEFT || strcmp(other->name, item->name) == 0))
			return true;
	}
	return false;
}

static void read_name(const char *path, char name[NAME_MAX_SHOWN])
{
	ssize_t len = readlink(path, name, NAME_MAX_SHOWN - 1);
	name[len > 0 ? len : 0] = '\0';
}

static void add_descriptors(struct inventory *inventory)
{
	char path[64], name[NAME_MAX_SHOWN];
	DIR *dir = opendir("/proc/self/fd");
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		long number = strtol(entry->d_name, NULL, 10);
		if (entry->d_name[0] == '.' || number == dirfd(dir))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%ld", number);
		read_name(path, name);
		add(inventory, DESCRIPTOR, number, name);
	}
	if (dir)
		closedir(dir);
}

static void add_process(struct inventory *inventory, long pid)
{
	char path[64], name[NAME_MAX_SHOWN] = "";
	struct item item = {.kind = PROCESS, .number = pid};
	if (has(inventory, &item))
		return;
	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return;
	if (fgets(name, sizeof(name), file))
		add(inventory, PROCESS, pid, name);
	fclose(file);
}

static void add_threads_of(struct inventory *inventory, long pid);

/* proc(5): the children of one thread, pids separated by blanks. */
static void add_children(struct inventory *inventory, long pid, long thread)
{
	char path[64];
	long child;
	snprintf(path, sizeof(path), "/proc/%ld/task/%ld/children", pid, thread);
	FILE *file = fopen(path, "re");
	while (file && fscanf(file, "%ld", &child) == 1) {
		add_process(inventory, child);
		add_threads_of(inventory, child);
	}
	if (file)
		fclose(file);
}

static void add_threads_of(struct inventory *inventory, long pid)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%ld/task", pid);
	DIR *dir = opendir(path);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		long thread = strtol(entry->d_name, NULL, 10);
		if (entry->d_name[0] == '.')
			continue;
		if (pid == getpid())
			add(inventory, THREAD, thread, "");
		add_children(inventory, pid, thread);
	}
	if (dir)
		closedir(dir);
}

/* Whether the process runs a program of this build: it is ours, whoever its parent is by now. */
static bool runs_ours(const char *pid)
{
	const char *helpers = getenv("TFC_HELPER_DIR"), *task = getenv("TFC_TEST_TASK");
	char path[300], program[512];
	snprintf(path, sizeof(path), "/proc/%s/exe", pid);
	ssize_t len = readlink(path, program, sizeof(program) - 1);
	if (len <= 0 || !helpers || !task)
		return false;
	program[len] = '\0';
	return strcmp(program, task) == 0 || (strncmp(program, helpers, strlen(helpers)) == 0 &&
					      strncmp(program + strlen(helpers), "/tfc-", 5) == 0);
}

static void add_ours(struct inventory *inventory)
{
	DIR *dir = getenv("TFC_TEST_TASK") ? opendir("/proc") : NULL;
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (entry->d_name[0] > '0' && entry->d_name[0] <= '9' && runs_ours(entry->d_name))
			add_process(inventory, strtol(entry->d_name, NULL, 10));
	if (dir)
		closedir(dir);
}

static void add_files(struct inventory *inventory)
{
	DIR *dir = temp_dir[0] ? opendir(temp_dir) : NULL;
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			add(inventory, FILE_LEFT, 0, entry->d_name);
	if (dir)
		closedir(dir);
}

static void take_stock(struct inventory *inventory)
{
	inventory->count = 0;
	add_descriptors(inventory);
	add_threads_of(inventory, getpid());
	add_ours(inventory);
	add_files(inventory);
}

/* ---- comparing */

static const struct item *find_new(const struct inventory *before, const struct inventory *after)
{
	for (size_t i = 0; i < after->count; i++)
		if (!has(before, &after->items[i]))
			return &after->items[i];
	return NULL;
}

static long now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A process says when it ends; for the kernel's and init's part of it there is no event. */
static void await_change(const struct item *item, long deadline)
{
	long left = deadline - now_ms();
	int fd = item->kind == PROCESS ? (int)syscall(SYS_pidfd_open, item->number, 0) : -1;
	struct pollfd end = {.fd = fd, .events = POLLIN};
	if (fd >= 0 && left > 0)
		poll(&end, 1, (int)left);
	if (fd >= 0)
		close(fd);
	poll(NULL, 0, LOOK_AGAIN_MS);
}

/* Our own dead child: nobody but us can reap it. */
static bool is_zombie(const struct item *item)
{
	const char *name_end = strrchr(item->name, ')');
	char state;
	int parent;
	return item->kind == PROCESS && name_end &&
	       sscanf(name_end + 1, " %c %d", &state, &parent) == 2 && state == 'Z' &&
	       parent == getpid();
}

static long patience(const struct item *item)
{
	if (item->kind == PROCESS && !is_zombie(item))
		return PATIENCE_MS;
	return item->kind == THREAD ? JOINED_MS : 0;
}

/* The first thing that is there now and was not before; processes and threads may need a moment. */
static const struct item *find_leak(const struct inventory *before, struct inventory *after)
{
	long begin = now_ms();
	for (;;) {
		take_stock(after);
		const struct item *leak = find_new(before, after);
		if (!leak || now_ms() - begin >= patience(leak))
			return leak;
		await_change(leak, begin + patience(leak));
	}
}

/* ---- around cmocka's tests */

static struct CMUnitTest *wrapped;
static const struct CMUnitTest *originals;
static size_t begun; /* tests that were set up, the running one included */
static struct inventory before_test, before_group, after;

const char *leaks_temp_dir(void)
{
	if (!temp_dir[0]) {
		const char *parent = getenv("TMPDIR");
		if (!parent || !*parent || strlen(parent) > TEMP_PARENT_MAX)
			parent = "/tmp";
		snprintf(temp_dir, sizeof(temp_dir), "%s/tfc-test-XXXXXX", parent);
		/* also for a child of the test that has become another user */
		if (!mkdtemp(temp_dir) || chmod(temp_dir, 01777) < 0)
			fail_msg("%s: %s", temp_dir, strerror(errno));
		temp_dir_owner = getpid();
	}
	return temp_dir;
}

/* At the exit, also of a program that skips all its tests; not of its forked children. */
__attribute__((destructor)) static void remove_temp_dir(void)
{
	if (temp_dir[0] && temp_dir_owner == getpid())
		rmdir(temp_dir);
}

void leaks_make_dir(char ret_path[LEAKS_PATH])
{
	snprintf(ret_path, LEAKS_PATH, "%s/XXXXXX", leaks_temp_dir());
	if (!mkdtemp(ret_path))
		fail_msg("%s: %s", ret_path, strerror(errno));
}

static int set_up(void **state)
{
	const struct CMUnitTest *test = &originals[begun++];
	take_stock(&before_test);
	return test->setup_func ? test->setup_func(state) : 0;
}

static int tear_down(void **state)
{
	const struct CMUnitTest *test = &originals[begun - 1];
	int code = test->teardown_func ? test->teardown_func(state) : 0;
	if (code)
		return code;
	const struct item *leak = find_leak(&before_test, &after);
	if (leak)
		fail_msg("%s has left a %s behind: %ld %s", test->name, kinds[leak->kind],
			 leak->number, leak->name);
	return 0;
}

/* ThreadSanitizer starts a thread of its own when a program starts its first: before the count. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_THREAD_OF_SANITIZER
#endif
#endif

#ifdef HAS_THREAD_OF_SANITIZER
static void *do_nothing(void *user)
{
	return user;
}

static void start_sanitizer_thread(void)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, do_nothing, NULL) == 0)
		pthread_join(thread, NULL);
}
#else
static void start_sanitizer_thread(void)
{
}
#endif

int __real__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
				   CMFixtureFunction setup, CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
				   CMFixtureFunction setup, CMFixtureFunction teardown);

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
				   CMFixtureFunction setup, CMFixtureFunction teardown)
{
	wrapped = calloc(count, sizeof(*wrapped));
	if (!wrapped)
		return 1;
	memcpy(wrapped, tests, count * sizeof(*wrapped));
	for (size_t i = 0; i < count; i++) {
		wrapped[i].setup_func = set_up;
		wrapped[i].teardown_func = tear_down;
	}
	originals = tests;
	begun = 0;
	start_sanitizer_thread();
	leaks_temp_dir(); /* before a test forks: one for all, which is removed */
	take_stock(&before_group);
	int failed = __real__cmocka_run_group_tests(name, wrapped, count, setup, teardown);
	free(wrapped);
	const struct item *leak = find_leak(&before_group, &after);
	if (leak)
		print_error("%s has left a %s behind: %ld %s\n", name, kinds[leak->kind],
			    leak->number, leak->name);
	return failed + (leak != NULL);
}
