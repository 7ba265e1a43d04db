/* The count of what tests leave behind finds each kind of thing: each is left on purpose, once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "leaks.h"

static int left_fd = -1;
static pid_t left_child;
static pthread_t left_thread;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static char left_dir[LEAKS_PATH];

static void leaves_nothing(void **state)
{
	char dir[LEAKS_PATH];
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	close(fd);
	leaks_make_dir(dir);
	assert_int_equal(rmdir(dir), 0);
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void leaves_a_descriptor(void **state)
{
	left_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void leaves_a_zombie(void **state)
{
	left_child = fork();
	if (left_child == 0)
		_exit(0);
}

static void leaves_a_directory(void **state)
{
	leaks_make_dir(left_dir);
}

static void *wait_at_gate(void *user)
{
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return NULL;
}

static void leaves_a_thread(void **state)
{
	pthread_mutex_lock(&gate);
	assert_int_equal(pthread_create(&left_thread, NULL, wait_at_gate, NULL), 0);
}

static void clean_up(void)
{
	close(left_fd);
	waitpid(left_child, NULL, 0);
	rmdir(left_dir);
	pthread_mutex_unlock(&gate);
	pthread_join(left_thread, NULL);
}

/* Runs a group out of sight: how many of its tests failed. */
static int failures_of(const struct CMUnitTest *tests, size_t count)
{
	int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);
	fflush(NULL);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	int failed = _cmocka_run_group_tests("leaks", tests, count, NULL, NULL);
	fflush(NULL);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	close(out);
	close(err);
	close(null);
	return failed;
}

static const struct {
	struct CMUnitTest test;
	int expected; /* failed tests; and one for the group, which sees what is left, too */
} cases[] = {
	{cmocka_unit_test(leaves_nothing), 0},     {cmocka_unit_test(leaves_a_descriptor), 2},
	{cmocka_unit_test(leaves_a_zombie), 2},    {cmocka_unit_test(leaves_a_thread), 2},
	{cmocka_unit_test(leaves_a_directory), 2},
};

int main(void)
{
	int wrong = 0;
	leaks_temp_dir();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int failed = failures_of(&cases[i].test, 1);
		printf("%s: %d, expected %d\n", cases[i].test.name, failed, cases[i].expected);
		wrong += failed != cases[i].expected;
	}
	clean_up();
	return wrong != 0;
}
