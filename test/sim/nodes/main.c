/*
 * Runs worlds, each in a process of its own, and says which promises were broken.
 *
 * nodes [OPTION...] [SEED [COUNT]]
 *   --jobs N       so many worlds at a time
 *   --seconds S    fresh seeds for so long, in place of SEED and COUNT
 *   --shrink       of a world that fails, leave out faults until what is left is a story
 *   --mask BITS    only these of its faults (hexadecimal)
 *   --without KIND no fault of this kind, such as "full disk"
 *   --loud         print all that happens
 *   --hashes       print a line for each world: equal worlds have equal hashes
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

/* What all worlds have seen; shared with their processes. */
struct totals {
	uint64_t begun; /* seeds that somebody has taken */
	uint64_t worlds, failed, steps, virtual_ns;
	uint64_t faults[SIM_FAULT_KINDS];
	uint64_t requests, answers;
};

struct options {
	uint64_t seed, count, mask;
	uint64_t seconds; /* 0: count worlds */
	uint64_t jobs;
	bool is_loud, is_silent, is_shrinking, has_hashes;
};

static struct totals *totals;
static char dir[64];

static void add(uint64_t *total, uint64_t count)
{
	__atomic_fetch_add(total, count, __ATOMIC_RELAXED);
}

static void count_world(void)
{
	uint64_t faults[SIM_FAULT_KINDS] = {0}, requests = 0, answers = 0;
	sim_faults_count(faults);
	sim_requests_count(&requests, &answers);
	for (int i = 0; i < SIM_FAULT_KINDS; i++)
		add(&totals->faults[i], faults[i]);
	add(&totals->requests, requests);
	add(&totals->answers, answers);
	add(&totals->steps, sim.steps);
	add(&totals->virtual_ns, sim.now);
}

static _Noreturn void live(const struct options *options, uint64_t seed)
{
	if (options->is_silent &&
	    (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout)))
		_exit(2);
	sim.seed = seed;
	sim.is_loud = options->is_loud;
	sim_world_begin(dir, options->mask);
	sim_world_run();
	count_world();
	if (options->is_loud || options->has_hashes)
		printf("seed %llu: hash %016llx, %llu steps, %.1f virtual seconds\n",
		       (unsigned long long)seed, (unsigned long long)sim.hash,
		       (unsigned long long)sim.steps, (double)sim.now / 1e9);
	fflush(stdout);
	sim_exit(0);
}

/* The status of its process: 0, all promises were kept. */
static int run_world(const struct options *options, uint64_t seed)
{
	char path[SIM_PATH];
	int status = 0;
	fflush(stdout);
	pid_t pid = fork();
	if (pid < 0)
		abort();
	if (pid == 0)
		live(options, seed);
	waitpid(pid, &status, 0);
	snprintf(path, sizeof(path), "%.100s/%llu", dir, (unsigned long long)seed);
	tfc__remove_tree(path);
	return status;
}

/* Leaves out one fault after the other for as long as a promise is broken. */
static void shrink(const struct options *options, uint64_t seed)
{
	struct options fewer = *options;
	fewer.is_silent = true;
	for (bool is_less = true; is_less;) {
		is_less = false;
		for (int i = 0; i < 64; i++) {
			uint64_t bit = UINT64_C(1) << i;
			if (!(fewer.mask & bit))
				continue;
			fewer.mask &= ~bit;
			if (run_world(&fewer, seed))
				is_less = true;
			else
				fewer.mask |= bit;
		}
	}
	fewer.is_silent = false;
	run_world(&fewer, seed);
	fprintf(stderr, "this world again: test/sim/nodes/nodes %llu --mask %llx --loud\n",
		(unsigned long long)seed, (unsigned long long)fewer.mask);
}

static void run_and_judge(const struct options *options, uint64_t seed)
{
	add(&totals->worlds, 1);
	if (!run_world(options, seed))
		return;
	add(&totals->failed, 1);
	fprintf(stderr, "seed %llu failed; its story: test/sim/nodes/nodes %llu --shrink\n",
		(unsigned long long)seed, (unsigned long long)seed);
	if (options->is_shrinking)
		shrink(options, seed);
}

static void report(double real_s)
{
	double virtual_s = (double)totals->virtual_ns / 1e9;
	printf("%llu worlds, %llu failed; %.1f virtual hours in %.1f minutes, %llu steps\n",
	       (unsigned long long)totals->worlds, (unsigned long long)totals->failed,
	       virtual_s / 3600, real_s / 60, (unsigned long long)totals->steps);
	printf("%.1f worlds a second, %.2f virtual hours a minute\n",
	       (double)totals->worlds / real_s, virtual_s / 60 / real_s);
	printf("%llu requests, %llu answered\n", (unsigned long long)totals->requests,
	       (unsigned long long)totals->answers);
	printf("faults that hit something:");
	for (int i = 0; i < SIM_FAULT_KINDS; i++)
		printf("%s %s %llu", i ? "," : "", sim_fault_name(i),
		       (unsigned long long)totals->faults[i]);
	printf("\n");
}

int __real_clock_gettime(clockid_t clock, struct timespec *ret_time);

static double real_time(clockid_t clock)
{
	struct timespec now;
	__real_clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool read_option(int argc, char **argv, int *at, struct options *options)
{
	const char *word = argv[*at], *value = *at + 1 < argc ? argv[*at + 1] : NULL;
	if (strcmp(word, "--loud") == 0)
		return options->is_loud = true;
	if (strcmp(word, "--hashes") == 0)
		return options->has_hashes = true;
	if (strcmp(word, "--shrink") == 0)
		return options->is_shrinking = true;
	if (!value || strncmp(word, "--", 2) != 0)
		return false;
	++*at;
	if (strcmp(word, "--jobs") == 0)
		return (options->jobs = strtoull(value, NULL, 10));
	if (strcmp(word, "--seconds") == 0)
		return (options->seconds = strtoull(value, NULL, 10));
	if (strcmp(word, "--mask") == 0)
		return options->mask = strtoull(value, NULL, 16), true;
	return strcmp(word, "--without") == 0 && sim_faults_leave_out(value);
}

static bool read_options(int argc, char **argv, struct options *options)
{
	int numbers = 0;
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];
		uint64_t number = strtoull(word, NULL, 10);
		if (read_option(argc, argv, &i, options))
			continue;
		if (word[0] < '0' || word[0] > '9' || numbers == 2)
			return false;
		if (numbers++ == 0)
			options->seed = number;
		else
			options->count = number;
	}
	return true;
}

/* Seeds that nobody has taken yet, one after the other. */
static void run_worlds(const struct options *options, double begin)
{
	for (;;) {
		uint64_t number = __atomic_fetch_add(&totals->begun, 1, __ATOMIC_RELAXED);
		bool is_over = options->seconds ? real_time(CLOCK_MONOTONIC) >=
							  begin + (double)options->seconds
						: number >= options->count;
		if (is_over)
			return;
		run_and_judge(options, options->seed + number);
	}
}

static void run_in_processes(const struct options *options, double begin)
{
	fflush(stdout);
	for (uint64_t i = 0; i < options->jobs; i++) {
		pid_t pid = fork();
		if (pid < 0)
			abort();
		if (pid > 0)
			continue;
		run_worlds(options, begin);
		fflush(stdout);
		_exit(0);
	}
	for (uint64_t i = 0; i < options->jobs; i++) {
		int status;
		if (wait(&status) < 0 || status)
			add(&totals->failed, 1);
	}
}

int main(int argc, char **argv)
{
	struct options options = {.seed = 1, .count = 1, .mask = UINT64_MAX};
	if (!read_options(argc, argv, &options)) {
		fprintf(stderr,
			"usage: nodes [--jobs N] [--seconds S] [--shrink] [--mask BITS] [--without "
			"KIND] [--loud] [--hashes] [SEED [COUNT]]\n");
		return 2;
	}
	totals = mmap(NULL, sizeof(*totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	const char *memory = getenv("TFC_TEST_SHM"); /* removed by test/run.sh */
	snprintf(dir, sizeof(dir), "%s/tfc-sim-XXXXXX", memory ? memory : "/dev/shm");
	if (totals == MAP_FAILED || !mkdtemp(dir))
		return 2;
	if (options.has_hashes) /* equal all the same wherever it was loaded */
		printf("stack at %p, shared memory at %p\n", (void *)&options, (void *)totals);
	double begin = real_time(CLOCK_MONOTONIC);
	if (options.seconds)
		options.seed = (uint64_t)real_time(CLOCK_REALTIME) * 1000;
	if (options.jobs > 1)
		run_in_processes(&options, begin);
	else
		run_worlds(&options, begin);
	tfc__remove_tree(dir);
	report(real_time(CLOCK_MONOTONIC) - begin);
	return totals->failed != 0;
}
