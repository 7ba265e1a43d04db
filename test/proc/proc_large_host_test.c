/*
 * proc: a host with much memory spawns as fast as a small one. TFC_TEST_HOST_MIB sets how much is
 * touched; else 2 GiB, or a quarter of what is free.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc_run.h"

#define ROUNDS 7
#define DEFAULT_MIB 2048
#define FLOOR (5 * TFC__MS) /* what the scheduler alone may add on a busy machine */

enum what { FIRST_SPAWN, NEXT_SPAWN, BARE_FORK, WHATS };

/* The best is what the work itself takes, whatever else the machine does. */
struct times {
	uint64_t best[WHATS];
	uint64_t median[WHATS];
};

static int compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
	return left < right ? -1 : left > right;
}

static uint64_t time_spawn(struct proc_run *run)
{
	struct proc_task task;
	uint64_t begin = tfc__now();
	proc_start(run, &task, NULL, "exit", "0", NULL);
	proc_await_start(run, &task);
	uint64_t took = tfc__now() - begin;
	proc_await_end(run, &task);
	proc_close(&task);
	return took;
}

static uint64_t time_fork(void)
{
	uint64_t begin = tfc__now();
	pid_t child = fork();
	uint64_t took = tfc__now() - begin;
	if (child == 0)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	return took;
}

/* Until the program runs: with the guard's own start, and without it; and what fork(2) takes. */
static void measure(struct times *ret_times)
{
	uint64_t times[WHATS][ROUNDS];
	for (int i = 0; i < ROUNDS; i++) {
		struct proc_run run;
		proc_run_begin(&run);
		times[FIRST_SPAWN][i] = time_spawn(&run);
		times[NEXT_SPAWN][i] = time_spawn(&run);
		proc_run_end(&run);
	}
	for (int i = 0; i < ROUNDS; i++)
		times[BARE_FORK][i] = time_fork();
	for (int what = 0; what < WHATS; what++) {
		qsort(times[what], ROUNDS, sizeof(uint64_t), compare);
		ret_times->best[what] = times[what][0];
		ret_times->median[what] = times[what][ROUNDS / 2];
	}
}

static size_t free_mib(void)
{
	char line[128];
	unsigned long kib = 0;
	FILE *file = fopen("/proc/meminfo", "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file) && sscanf(line, "MemAvailable: %lu", &kib) != 1)
		;
	fclose(file);
	return kib >> 10;
}

static size_t choose_mib(void)
{
	const char *wanted = getenv("TFC_TEST_HOST_MIB");
	size_t quarter = free_mib() / 4;
	if (wanted)
		return strtoul(wanted, NULL, 10);
	return quarter < DEFAULT_MIB ? quarter : DEFAULT_MIB;
}

static void print(const char *host, const struct times *times)
{
	static const char *const names[] = {"first spawn", "next spawn", "bare fork"};
	for (int what = 0; what < WHATS; what++)
		print_message("%s: %s %d us (median %d us)\n", host, names[what],
			      (int)(times->best[what] / 1000), (int)(times->median[what] / 1000));
}

static void a_large_host_spawns_as_fast_as_a_small_one(void **state)
{
	struct times small, large;
	char host[32];
	size_t mib = choose_mib();
	measure(&small);
	char *memory = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	/* small pages, so that a copy of the tables would show */
	madvise(memory, mib << 20, MADV_NOHUGEPAGE);
	memset(memory, 'x', mib << 20);
	measure(&large);
	munmap(memory, mib << 20);
	print("small host", &small);
	snprintf(host, sizeof(host), "host of %zu MiB", mib);
	print(host, &large);
	for (int what = FIRST_SPAWN; what <= NEXT_SPAWN; what++) {
		assert_true(large.best[what] <= 3 * small.best[what] + FLOOR);
		/* had the host been copied on the way, it would have taken as long as that */
		if (large.best[BARE_FORK] > 4 * FLOOR)
			assert_true(large.best[what] < large.best[BARE_FORK] / 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_large_host_spawns_as_fast_as_a_small_one),
	};
	return cmocka_run_group_tests_name("proc_large_host", tests, NULL, NULL);
}
