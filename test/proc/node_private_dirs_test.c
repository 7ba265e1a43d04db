/* node: the private directories of its previous incarnations: those that nobody uses any more are
 * removed, those of others are left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent_run.h"
#include "base/clock.h"
#include "base/file.h"
#include "folder.h"
#include "leaks.h"
#include "proc/dir_lock.h"
#include "proc_run.h"

int __real_openat64(int dir, const char *path, int flags, ...);
int __wrap_openat64(int dir, const char *path, int flags, ...);

static void (*on_lock_made)(int dir); /* just before the lock of a directory is made */

int __wrap_openat64(int dir, const char *path, int flags, ...)
{
	void (*hook)(int dir) = on_lock_made;
	if (hook && strcmp(path, TFC__DIR_LOCK) == 0 && (flags & O_EXCL)) {
		on_lock_made = NULL;
		hook(dir);
	}
	return __real_openat64(dir, path, flags, 0600); /* the mode of all who make one */
}

/* ---- what is not ours is neither waited for nor removed */

static void write_run_file(const char *dir, const char *line)
{
	char path[LEAKS_PATH * 2];
	snprintf(path, sizeof(path), "%s/run", dir);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fprintf(file, "%s\n", line);
	assert_int_equal(fclose(file), 0);
}

static void assert_left_alone(const char *dir, const char *line, const char *kept)
{
	struct agent_run run;
	write_run_file(dir, line);
	assert_int_equal(agent_run_begin(&run, dir), 0);
	assert_true(tfc__agent_is_alone(run.agent));
	agent_run_until(&run, &run.is_held, 30);
	agent_run_for(&run, 200 * TFC__MS); /* a removal would have begun with the agent */
	assert_int_equal(access(kept, F_OK), 0);
	agent_run_end(&run);
}

static void links_and_directories_of_others_are_left_alone(void **state)
{
	char dir[LEAKS_PATH], other[LEAKS_PATH], kept[LEAKS_PATH * 2], link[LEAKS_PATH * 2];
	leaks_make_dir(dir);
	leaks_make_dir(other);
	int lock = tfc__dir_lock_make(other);
	assert_true(lock >= 0);
	snprintf(kept, sizeof(kept), "%s/kept", other);
	assert_int_equal(mkdir(kept, 0700), 0);
	snprintf(link, sizeof(link), "%s/tfc-0123456789abcdef", dir);
	assert_int_equal(symlink(other, link), 0);
	bool is_root = geteuid() == 0;
	for (int i = 0; i < 2; i++) { /* in use; then, it would be removed */
		assert_left_alone(dir, link, kept);
		assert_int_equal(is_root ? chown(other, 65534, 65534) : 0, 0);
		if (is_root)
			assert_left_alone(dir, other, kept);
		assert_int_equal(is_root ? chown(other, 0, 0) : 0, 0);
		if (i == 0)
			close(lock);
	}
	assert_int_equal(tfc__remove_tree(other), 0);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* As versions before 0.3 leave it: it may be in use. */
static void a_directory_without_a_lock_is_left_alone(void **state)
{
	char dir[LEAKS_PATH], kept[LEAKS_PATH * 2];
	leaks_make_dir(dir);
	snprintf(kept, sizeof(kept), "%s/tfc-0123456789abcdef", dir);
	assert_int_equal(mkdir(kept, 0700), 0);
	assert_left_alone(dir, "", kept);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* It had no lock; its guard removed the directory last. */
static void an_incarnation_of_version_0_2_is_waited_for_until_its_directory_is_gone(void **state)
{
	char dir[LEAKS_PATH], old[LEAKS_PATH + 32], line[LEAKS_PATH + 96];
	struct agent_run run;
	leaks_make_dir(dir);
	snprintf(old, sizeof(old), "%s/tfc-0123456789abcdef", dir);
	snprintf(line, sizeof(line), "2f6a7b1e-0000-0000-0000-000000000000 123 456 %s", old);
	assert_int_equal(mkdir(old, 0700), 0);
	write_run_file(dir, line);
	assert_int_equal(agent_run_begin(&run, dir), 0);
	agent_run_for(&run, 200 * TFC__MS);
	assert_false(run.is_held);
	assert_int_equal(rmdir(old), 0);
	agent_run_until(&run, &run.is_held, 30);
	assert_true(tfc__agent_is_alone(run.agent));
	agent_run_end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* ---- what nobody uses is removed */

/* Bundle copies and logs, and what a task has left there. */
static void fill(const char *dir)
{
	char private[LEAKS_PATH * 2], command[LEAKS_PATH * 8];
	find_private_dir(dir, private);
	snprintf(command, sizeof(command),
		 "mkdir -p %s/1/bundle/worker-0/a/b && echo x >%s/1/bundle/worker-0/a/b/c", private,
		 private);
	assert_int_equal(system(command), 0);
}

static void what_host_and_guard_left_is_removed_by_any_later_run(void **state)
{
	char dir[LEAKS_PATH], next[LEAKS_PATH];
	struct agent_run run;
	struct dead_host dead;
	leaks_make_dir(dir);
	leaks_make_dir(next);
	dead_host_die_with_guard(&dead, dir, true);
	assert_true(proc_await_gone(dead.task, 5000));
	fill(dir);
	assert_int_equal(agent_run_open(&run, NULL, dir), 0); /* another node of this user */
	agent_run_await_private_dirs(&run, dir, 1);
	agent_run_end(&run);
	assert_int_equal(folder_count(dir, "tfc-"), 0);

	dead_host_die_with_guard(&dead, dir, true);
	assert_true(proc_await_gone(dead.task, 5000));
	fill(dir);
	assert_int_equal(agent_run_open(&run, dir, next), 0); /* that node, with another TMPDIR */
	agent_run_await_private_dirs(&run, dir, 0);
	agent_run_end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
	assert_int_equal(tfc__remove_tree(next), 0);
}

/* In a child with mounts of its own: what is mounted on cannot be removed. 0, 77: no right to. */
static int remove_beside_mount(const char *dir, const char *mounted)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", mounted, "tmpfs", 0, NULL) < 0)
		return 77;
	return tfc__remove_tree_last(dir, TFC__DIR_LOCK) < 0 ? 0 : 1;
}

static void a_removal_that_was_cut_short_goes_on(void **state)
{
	char dir[LEAKS_PATH], private[LEAKS_PATH + 32], mounted[LEAKS_PATH + 64];
	struct agent_run run;
	int status;
	leaks_make_dir(dir);
	snprintf(private, sizeof(private), "%s/tfc-0123456789abcdef", dir);
	snprintf(mounted, sizeof(mounted), "%s/1", private);
	assert_int_equal(mkdir(private, 0700), 0);
	assert_int_equal(mkdir(mounted, 0700), 0);
	int lock = tfc__dir_lock_make(private);
	assert_true(lock >= 0);
	close(lock);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(remove_beside_mount(private, mounted));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
	lock = tfc__dir_lock_open(private, false); /* which goes last */
	assert_true(lock >= 0);
	close(lock);
	assert_int_equal(agent_run_open(&run, NULL, dir), 0);
	agent_run_await_private_dirs(&run, dir, 1);
	agent_run_end(&run);
	assert_int_equal(folder_count(dir, "tfc-"), 0);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

static void a_directory_in_use_is_not_removed(void **state)
{
	char dir[LEAKS_PATH];
	struct agent_run run;
	struct dead_host dead;
	leaks_make_dir(dir);
	dead_host_start(&dead, dir);
	/* Its guard dies; before the next one has the lock, the host's keeps it. */
	proc_stop(dead.host);
	assert_int_equal(kill(dead.guard, SIGKILL), 0);
	assert_true(proc_await_gone(dead.task, 5000));
	assert_true(proc_await_gone(dead.shim, 5000));
	assert_int_equal(agent_run_open(&run, NULL, dir), 0);
	agent_run_for(&run, 200 * TFC__MS);
	assert_int_equal(folder_count(dir, "tfc-"), 2);
	agent_run_end(&run);
	assert_int_equal(folder_count(dir, "tfc-"), 1);
	dead_host_kill(&dead);
	assert_int_equal(agent_run_open(&run, NULL, dir), 0);
	agent_run_await_private_dirs(&run, dir, 1);
	agent_run_end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* ---- a directory that is being made */

static void die(int dir)
{
	_exit(0);
}

static void a_directory_whose_maker_died_is_removed_by_any_later_run(void **state)
{
	char dir[LEAKS_PATH];
	struct agent_run run;
	int status;
	leaks_make_dir(dir);
	pid_t maker = fork();
	assert_true(maker >= 0);
	if (maker == 0) {
		on_lock_made = die;
		agent_run_open(&run, NULL, dir);
		_exit(1);
	}
	assert_int_equal(waitpid(maker, &status, 0), maker);
	assert_int_equal(status, 0);
	assert_int_equal(folder_count(dir, "tfc-"), 1);
	assert_int_equal(agent_run_open(&run, NULL, dir), 0);
	agent_run_await_private_dirs(&run, dir, 1);
	agent_run_end(&run);
	assert_int_equal(folder_count(dir, "tfc-"), 0);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

static int taken_lock;

static void name_of(int dir, char ret_path[LEAKS_PATH * 2])
{
	char link[64];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
	ssize_t len = readlink(link, ret_path, LEAKS_PATH * 2 - 1);
	assert_true(len > 0);
	ret_path[len] = 0;
}

/* As one that removes what nobody makes any more, up to where it has the lock. */
static void take_first(int dir)
{
	char path[LEAKS_PATH * 2];
	name_of(dir, path);
	taken_lock = tfc__dir_lock_open(path, true);
	assert_true(taken_lock >= 0);
	assert_true(tfc__dir_lock_acquire(taken_lock));
}

static void remove_first(int dir)
{
	char path[LEAKS_PATH * 2];
	name_of(dir, path);
	assert_int_equal(rmdir(path), 0);
}

static void a_maker_that_comes_too_late_begins_anew(void **state)
{
	char dir[LEAKS_PATH];
	struct agent_run run;
	leaks_make_dir(dir);
	on_lock_made = remove_first;
	assert_int_equal(agent_run_open(&run, NULL, dir), 0);
	assert_int_equal(folder_count(dir, "tfc-"), 1);
	agent_run_end(&run);
	on_lock_made = take_first;
	assert_int_equal(agent_run_open(&run, NULL, dir), 0);
	assert_int_equal(folder_count(dir, "tfc-"), 2);
	agent_run_end(&run);
	assert_int_equal(folder_count(dir, "tfc-new-"), 1);
	close(taken_lock);
	assert_int_equal(agent_run_open(&run, NULL, dir), 0);
	agent_run_await_private_dirs(&run, dir, 1);
	agent_run_end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* A second node with the same temporary directory begins and ends. */
static void open_and_end_another(int dir)
{
	char path[LEAKS_PATH * 2];
	struct agent_run other;
	name_of(dir, path);
	*strrchr(path, '/') = '\0';
	assert_int_equal(agent_run_open(&other, NULL, path), 0);
	agent_run_end(&other);
}

/* As one that removes what nobody makes any more, and is killed. */
static void make_lock_and_die(int dir)
{
	char path[LEAKS_PATH * 2];
	name_of(dir, path);
	int lock = tfc__dir_lock_open(path, true);
	assert_true(lock >= 0);
	close(lock);
}

static void a_directory_that_two_nodes_give_up_is_removed(void **state)
{
	static void (*const others[])(int dir) = {open_and_end_another, make_lock_and_die};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		char dir[LEAKS_PATH];
		struct agent_run run;
		leaks_make_dir(dir);
		on_lock_made = others[i];
		assert_int_equal(agent_run_open(&run, NULL, dir), 0);
		agent_run_end(&run);
		assert_int_equal(folder_count(dir, "tfc-"), 0);
		assert_int_equal(rmdir(dir), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_and_directories_of_others_are_left_alone),
		cmocka_unit_test(a_directory_without_a_lock_is_left_alone),
		cmocka_unit_test(
			an_incarnation_of_version_0_2_is_waited_for_until_its_directory_is_gone),
		cmocka_unit_test(what_host_and_guard_left_is_removed_by_any_later_run),
		cmocka_unit_test(a_removal_that_was_cut_short_goes_on),
		cmocka_unit_test(a_directory_in_use_is_not_removed),
		cmocka_unit_test(a_directory_whose_maker_died_is_removed_by_any_later_run),
		cmocka_unit_test(a_maker_that_comes_too_late_begins_anew),
		cmocka_unit_test(a_directory_that_two_nodes_give_up_is_removed),
	};
	return cmocka_run_group_tests_name("node_private_dirs", tests, NULL, NULL);
}
