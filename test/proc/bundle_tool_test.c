/* bundle: the program tfc-bundle, as nodes run it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "leaks.h"
#include "proc_run.h"
#include <tfcluster/bundle.h>

static char *place; /* a directory for one test */

static int make_place(void **state)
{
	return tfc__make_private_dir(leaks_temp_dir(), "tfc-bundle-", "test", NULL, &place);
}

static int remove_place(void **state)
{
	int result = tfc__remove_tree(place);
	free(place);
	return result;
}

/* Starts tfc-bundle; ret_end: the read end of what it writes to one of its streams. */
static pid_t start(const char *const argv[], int stream, int *ret_end)
{
	char program[512];
	char *no_environment[] = {NULL};
	int ends[2];
	pid_t pid;
	const char *dir = getenv("TFC_HELPER_DIR");
	assert_non_null(dir);
	snprintf(program, sizeof(program), "%s/tfc-bundle", dir);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], stream);
	assert_int_equal(posix_spawn(&pid, program, &actions, NULL, (char *const *)argv,
				     no_environment),
			 0);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	*ret_end = ends[0];
	return pid;
}

/* Its exit status and all it wrote. */
static int finish(pid_t pid, int end, char *ret_text, size_t size)
{
	size_t len = 0;
	int status;
	for (ssize_t n; len < size - 1 && (n = read(end, ret_text + len, size - 1 - len)) > 0;)
		len += (size_t)n;
	ret_text[len] = '\0';
	close(end);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int run(const char *const argv[], int stream, char *ret_text, size_t size)
{
	int end;
	pid_t pid = start(argv, stream, &end);
	return finish(pid, end, ret_text, size);
}

static void packs_hashes_and_unpacks(void **state)
{
	char file[256], zip[256], out[256], copy[512], text[512], hash[TFC_BUNDLE_HASH_SIZE + 1];
	snprintf(file, sizeof(file), "%s/train.py", place);
	snprintf(zip, sizeof(zip), "%s/a.zip", place);
	snprintf(out, sizeof(out), "%s/out", place);
	snprintf(copy, sizeof(copy), "%s/train.py", out);
	int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	assert_int_equal(tfc__write_all(fd, "x", 1), 0);
	close(fd);
	assert_int_equal(mkdir(out, 0700), 0);

	const char *pack[] = {"tfc-bundle", "pack", file, zip, NULL};
	assert_int_equal(run(pack, 2, text, sizeof(text)), 0);
	assert_string_equal(text, "");
	const char *digest[] = {"tfc-bundle", "hash", zip, NULL};
	assert_int_equal(run(digest, 1, text, sizeof(text)), 0);
	assert_int_equal(tfc_bundle_hash(zip, NULL, hash), TFC_OK);
	strcat(hash, "\n");
	assert_string_equal(text, hash);
	const char *unpack[] = {"tfc-bundle", "unpack", zip, out, NULL};
	assert_int_equal(run(unpack, 2, text, sizeof(text)), 0);
	assert_string_equal(text, "");
	assert_int_equal(access(copy, X_OK), 0);
	const char *remove_it[] = {"tfc-bundle", "remove", out, NULL};
	assert_int_equal(run(remove_it, 2, text, sizeof(text)), 0);
	assert_string_equal(text, "");
	assert_int_equal(access(out, F_OK), -1);
}

static void a_failure_is_one_line_and_status_1(void **state)
{
	char missing[256], text[512], expected[512];
	snprintf(missing, sizeof(missing), "%s/missing.zip", place);
	snprintf(expected, sizeof(expected), "cannot open \"%s\": No such file or directory\n",
		 missing);
	const char *unpack[] = {"tfc-bundle", "unpack", missing, place, NULL};
	assert_int_equal(run(unpack, 2, text, sizeof(text)), 1);
	assert_string_equal(text, expected);
	const char *nonsense[] = {"tfc-bundle", "frob", NULL};
	assert_int_equal(run(nonsense, 2, text, sizeof(text)), 1);
	assert_string_equal(
		text, "tfc-bundle: use pack PATH ZIP, unpack ZIP DIR [UID:GID], hash ZIP, "
		      "remove DIR [LAST], add PATH WORK STORE, receive WORK STORE HASH SIZE or "
		      "check ZIP HASH\n");
}

/* It opens its pipe after it has blocked them. */
static void signals_that_end_a_node_do_not_end_it(void **state)
{
	/* printf x | sha256sum */
	static const char hash[] =
		"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
	char pipe[256], text[512];
	int end;
	snprintf(pipe, sizeof(pipe), "%s/pipe", place);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	const char *receive[] = {"tfc-bundle", "receive", place, place, hash, "1", NULL};
	pid_t pid = start(receive, 1, &end);
	int to = open(pipe, O_WRONLY | O_CLOEXEC); /* once it reads */
	assert_true(to >= 0);
	assert_int_equal(proc_blocked(pid) & proc_node_signals(), proc_node_signals());
	assert_int_equal(proc_ignored(pid) & proc_node_signals(), 0);
	proc_send_node_signals(pid);
	assert_int_equal(tfc__write_all(to, "x", 1), 0);
	close(to);
	assert_int_equal(finish(pid, end, text, sizeof(text)), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_place, remove_place)
	const struct CMUnitTest tests[] = {
		TEST(packs_hashes_and_unpacks),
		TEST(a_failure_is_one_line_and_status_1),
		TEST(signals_that_end_a_node_do_not_end_it),
	};
	/* nohup(1) ignores HUP, a shell INT and QUIT of what runs in its background; exec hands
	 * that on. */
	for (int number = 1; number < 32; number++)
		if (proc_node_signals() >> (number - 1) & 1)
			signal(number, SIG_DFL);
	return cmocka_run_group_tests_name("bundle_tool", tests, NULL, NULL);
}
