/* host: the library is in one process twice, once after another, often, and in odd surroundings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "host.h"
#include "proc_run.h"
#include "sanitized.h"

#define ROUNDS 100

static void assert_says(const struct host *host, const char *output)
{
	assert_string_equal(host->output, output);
	assert_int_equal(host->state, TFC_JOB_SUCCEEDED);
}

static void *load(void)
{
	void *library = dlopen(getenv("TFC_TEST_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
	if (!library)
		fail_msg("%s", dlerror());
	return library;
}

/* Both under way at the same moment; then one goes, and the other does not notice. */
static void run_two_at_once(const struct host_calls *first_calls,
			    const struct host_calls *second_calls)
{
	struct host first, second;
	host_open(&first, first_calls);
	host_open(&second, second_calls);
	host_submit(&first, "echo $TFC_PORT; exec sleep 60");
	host_submit(&second, "echo $TFC_PORT; exec sleep 60");
	host_await_output(&first, "\n");
	host_await_output(&second, "\n");
	assert_string_not_equal(first.output, second.output);
	host_close(&first);
	host_submit(&second, "echo still here");
	host_await_end(&second);
	assert_says(&second, "still here\n");
	host_close(&second);
}

static void run_one(const struct host_calls *calls)
{
	struct host host;
	host_open(&host, calls);
	host_submit(&host, "echo one");
	host_await_end(&host);
	assert_says(&host, "one\n");
	host_submit(&host, "exit 7");
	host_await_end(&host);
	assert_int_equal(host.state, TFC_JOB_FAILED);
	assert_int_equal(host.reason, TFC_END_EXIT);
	assert_int_equal(host.status, 7);
	host_close(&host);
}

static void a_second_host_in_the_process_is_like_the_first(void **state)
{
	run_one(&host_linked);
	run_one(&host_linked);
}

static void two_hosts_at_once_do_not_notice_each_other(void **state)
{
	run_two_at_once(&host_linked, &host_linked);
}

/* As when a host and a plug-in of it each bring their own. */
static void two_copies_of_the_library_do_not_notice_each_other(void **state)
{
	struct host_calls loaded;
	void *library = load();
	host_load(library, &loaded);
	assert_ptr_not_equal(loaded.ctx_new, host_linked.ctx_new);
	run_two_at_once(&host_linked, &loaded);
	run_two_at_once(&loaded, &host_linked);
	assert_int_equal(dlclose(library), 0);
}

/* ---- what a process is made of */

struct footprint {
	int fds;
	int threads;
	int mappings;
	int ours; /* mappings of the library */
	long rss_kib;
};

static struct footprint measure(void)
{
	struct footprint print = {.fds = folder_count_fds()};
	char line[512];
	FILE *file = fopen("/proc/self/maps", "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		print.mappings++;
		print.ours += strstr(line, "libtfcluster.so") != NULL;
	}
	fclose(file);
	file = fopen("/proc/self/status", "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "Threads: %d", &print.threads);
		sscanf(line, "VmRSS: %ld", &print.rss_kib);
	}
	fclose(file);
	return print;
}

static void load_and_unload(bool is_with_job)
{
	struct host_calls loaded;
	void *library = load();
	host_load(library, &loaded);
	assert_true(measure().ours > 0);
	if (is_with_job)
		run_one(&loaded);
	assert_int_equal(dlclose(library), 0);
}

/* The first rounds load what stays (the C library's own, the libraries below ours). */
static void loading_and_unloading_a_hundred_times_leaves_nothing(void **state)
{
	for (int i = 0; i < 10; i++)
		load_and_unload(true);
	struct footprint before = measure();
	assert_int_equal(before.ours, 0);
	for (int i = 0; i < ROUNDS; i++)
		load_and_unload(i % 10 == 0);
	struct footprint after = measure();
	assert_int_equal(after.ours, 0);
	assert_int_equal(after.fds, before.fds);
	assert_int_equal(after.threads, before.threads);
	print_message("%ld KiB before, %ld KiB after\n", before.rss_kib, after.rss_kib);
	if (TEST_IS_SANITIZED) /* it maps memory of its own, and keeps what is freed */
		return;
	assert_int_equal(after.mappings, before.mappings);
	assert_true(after.rss_kib < before.rss_kib + 256);
}

/* ---- odd surroundings, each in a child of its own */

static void run_in_child(void (*surroundings)(void))
{
	int status;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		surroundings();
		run_one(&host_linked);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void ignore_children(void)
{
	signal(SIGCHLD, SIG_IGN);
}

static void reap_without_a_trace(void)
{
	struct sigaction action = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
	sigaction(SIGCHLD, &action, NULL);
}

/* The library's descriptors then get these numbers. */
static void close_standard(void)
{
	close(0);
	close(1);
	close(2);
}

static void close_standard_input(void)
{
	close(0);
}

static void a_host_that_ignores_sigchld_gets_exact_ends(void **state)
{
	run_in_child(ignore_children);
	run_in_child(reap_without_a_trace);
}

static void a_host_without_standard_descriptors_runs_jobs(void **state)
{
	run_in_child(close_standard);
	run_in_child(close_standard_input);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_second_host_in_the_process_is_like_the_first),
		cmocka_unit_test(two_hosts_at_once_do_not_notice_each_other),
		cmocka_unit_test(two_copies_of_the_library_do_not_notice_each_other),
		cmocka_unit_test(loading_and_unloading_a_hundred_times_leaves_nothing),
		cmocka_unit_test(a_host_that_ignores_sigchld_gets_exact_ends),
		cmocka_unit_test(a_host_without_standard_descriptors_runs_jobs),
	};
	return cmocka_run_group_tests_name("two hosts", tests, NULL, NULL);
}
