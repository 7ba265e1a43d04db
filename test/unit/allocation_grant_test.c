/* allocation: a rank offers what it was granted, and never more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "allocation/grant.h"
#include "base/file.h"
#include "leaks.h"

#define ENV(...)                                                 \
	(const char *const[])                                    \
	{                                                        \
		"PATH=/usr/bin", __VA_ARGS__ __VA_OPT__(, ) NULL \
	}

#define MIB (UINT64_C(1) << 20)

static const struct row {
	const char *what;
	enum tfc_engine engine;
	uint32_t ranks_here;
	const char *const *env;
	struct tfc__grant_limits limits; /* online, affinity, quota, memory */
	struct tfc__grant grant;         /* slots, memory, GPUs */
} rows[] = {
	{"a machine alone", TFC_ENGINE_NONE, 1, ENV(), {8, 8, 0, 0}, {8, 0, "auto"}},
	{"affinity", TFC_ENGINE_NONE, 1, ENV(), {8, 3, 0, 0}, {3, 0, "auto"}},
	{"a cgroup", TFC_ENGINE_KUBERNETES, 1, ENV(), {8, 8, 2, 512 * MIB}, {2, 512 * MIB, "auto"}},
	{"GPUs of a device plugin",
	 TFC_ENGINE_KUBERNETES,
	 1,
	 ENV("CUDA_VISIBLE_DEVICES=GPU-12"),
	 {8, 8, 2, 0},
	 {2, 0, "GPU-12"}},
	{"Slurm without CPUs per task",
	 TFC_ENGINE_SLURM,
	 1,
	 ENV("SLURM_CPUS_ON_NODE=4"),
	 {64, 64, 0, 0},
	 {4, 0, "none"}},
	{"Slurm with them",
	 TFC_ENGINE_SLURM,
	 1,
	 ENV("SLURM_CPUS_ON_NODE=4", "SLURM_CPUS_PER_TASK=2"),
	 {64, 64, 0, 0},
	 {2, 0, "none"}},
	{"Slurm with affinity",
	 TFC_ENGINE_SLURM,
	 1,
	 ENV("SLURM_CPUS_ON_NODE=4"),
	 {64, 1, 0, 0},
	 {1, 0, "none"}},
	{"two ranks of Slurm on a node",
	 TFC_ENGINE_SLURM,
	 2,
	 ENV("SLURM_CPUS_ON_NODE=8", "SLURM_MEM_PER_NODE=4000"),
	 {64, 64, 0, 0},
	 {4, 2000 * MIB, "none"}},
	{"memory per CPU",
	 TFC_ENGINE_SLURM,
	 1,
	 ENV("SLURM_CPUS_ON_NODE=2", "SLURM_MEM_PER_CPU=100"),
	 {64, 64, 0, 0},
	 {2, 200 * MIB, "none"}},
	{"a cgroup below Slurm's memory",
	 TFC_ENGINE_SLURM,
	 1,
	 ENV("SLURM_CPUS_ON_NODE=2", "SLURM_MEM_PER_NODE=1000"),
	 {64, 64, 0, 800 * MIB},
	 {2, 800 * MIB, "none"}},
	{"GPUs of Slurm",
	 TFC_ENGINE_SLURM,
	 1,
	 ENV("SLURM_CPUS_ON_NODE=2", "CUDA_VISIBLE_DEVICES=2,3"),
	 {64, 64, 0, 0},
	 {2, 0, "2,3"}},
	{"no GPU of those that there are",
	 TFC_ENGINE_SLURM,
	 1,
	 ENV("SLURM_CPUS_ON_NODE=2", "CUDA_VISIBLE_DEVICES=NoDevFiles"),
	 {64, 64, 0, 0},
	 {2, 0, "none"}},
	{"an empty list of GPUs",
	 TFC_ENGINE_NONE,
	 1,
	 ENV("CUDA_VISIBLE_DEVICES="),
	 {2, 2, 0, 0},
	 {2, 0, "none"}},
	{"ranks of MPI that share a machine",
	 TFC_ENGINE_OPEN_MPI,
	 3,
	 ENV(),
	 {8, 8, 0, 0},
	 {2, 0, "none"}},
	{"ranks of MPI that share the quota of a container",
	 TFC_ENGINE_OPEN_MPI,
	 4,
	 ENV(),
	 {64, 64, 4, 0},
	 {1, 0, "none"}},
	{"ranks of MPI that are bound to a core",
	 TFC_ENGINE_OPEN_MPI,
	 3,
	 ENV(),
	 {8, 1, 0, 0},
	 {1, 0, "none"}},
	{"more ranks than CPUs", TFC_ENGINE_OPEN_MPI, 3, ENV(), {2, 2, 0, 0}, {1, 0, "none"}},
	{"variables of Slurm around mpirun",
	 TFC_ENGINE_OPEN_MPI,
	 1,
	 ENV("SLURM_CPUS_ON_NODE=1"),
	 {8, 8, 0, 0},
	 {8, 0, "auto"}},
	{"more ranks of Slurm than its CPUs",
	 TFC_ENGINE_SLURM,
	 2,
	 ENV("SLURM_CPUS_ON_NODE=1"),
	 {64, 64, 0, 0},
	 {1, 0, "none"}},
	{"memory beyond all numbers",
	 TFC_ENGINE_SLURM,
	 1,
	 ENV("SLURM_CPUS_ON_NODE=2", "SLURM_MEM_PER_NODE=17592186044417"),
	 {64, 64, 0, 0},
	 {2, 0, "none"}},
	{"memory per CPU beyond all numbers",
	 TFC_ENGINE_SLURM,
	 1,
	 ENV("SLURM_CPUS_ON_NODE=2", "SLURM_MEM_PER_CPU=9223372036854775809"),
	 {64, 64, 0, 0},
	 {2, 0, "none"}},
	{"variables that are no numbers",
	 TFC_ENGINE_SLURM,
	 1,
	 ENV("SLURM_CPUS_ON_NODE=2(x3)", "SLURM_MEM_PER_NODE=all"),
	 {8, 8, 0, 0},
	 {8, 0, "none"}},
};

static void each_grant_is_the_lowest_limit(void **state)
{
	for (const struct row *row = rows; row < rows + sizeof(rows) / sizeof(rows[0]); row++) {
		const struct tfc__engine_place place = {.engine = row->engine,
							.ranks_here = row->ranks_here};
		struct tfc__grant grant = tfc__grant_compute(&place, row->env, &row->limits);
		if (grant.slots != row->grant.slots ||
		    grant.memory_bytes != row->grant.memory_bytes ||
		    strcmp(grant.gpus, row->grant.gpus) != 0)
			fail_msg("%s: %u slots, %llu bytes, GPUs %s", row->what, grant.slots,
				 (unsigned long long)grant.memory_bytes, grant.gpus);
	}
}

static void gpus_are_listed_as_cuda_reads_them(void **state)
{
	static const char *const cases[][2] = {
		{"auto", "auto"},
		{"none", "none"},
		{"0", "0"},
		{"0,1", "0,1"},
		{" 0, 1\t", "0,1"},
		{"2,-1,3", "2"},
		{"-1", "none"},
		{"-1,0", "none"},
		{"0,", "0"},
		{",0", "none"},
		{"", "none"},
		{" ", "none"},
		{"0,,1", "0"},
		{"all", "all"},
		{"GPU-8932f937, GPU-12", "GPU-8932f937,GPU-12"},
		{"MIG-GPU-89/1/0", "MIG-GPU-89/1/0"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *list = tfc__grant_gpu_list(cases[i][0]);
		assert_string_equal(list, cases[i][1]);
		free(list);
	}
}

/* ---- what the kernel says, in a directory of the test's own */

static char dir[LEAKS_PATH];

static int make_dir(void **state)
{
	leaks_make_dir(dir);
	return 0;
}

static int remove_dir(void **state)
{
	return tfc__remove_tree(dir);
}

static void write_file(const char *name, const char *text)
{
	char path[LEAKS_PATH + 100];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	for (char *slash = path + strlen(dir) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static struct tfc__grant_limits read_limits(const char *groups)
{
	char path[LEAKS_PATH + 20];
	write_file("self", groups);
	snprintf(path, sizeof(path), "%s/self", dir);
	return tfc__grant_read(path, dir);
}

static void the_lowest_limit_of_a_group_and_those_above_counts(void **state)
{
	write_file("a/cpu.max", "150000 100000\n");
	write_file("a/memory.max", "2097152\n");
	write_file("a/b/cpu.max", "max 100000\n");
	write_file("a/b/memory.max", "max\n");
	write_file("a/b/c/memory.max", "1048576\n");
	struct tfc__grant_limits limits = read_limits("0::/a/b/c\n");
	assert_int_equal(limits.cpu_quota, 2);
	assert_int_equal(limits.memory_bytes, 1048576);
	limits = read_limits("0::/a/b\n");
	assert_int_equal(limits.memory_bytes, 2097152);
	assert_true(limits.cpus_allowed >= 1 && limits.cpus_online >= limits.cpus_allowed);
}

static void groups_of_version_1_are_read(void **state)
{
	write_file("memory/x/memory.limit_in_bytes", "1048576\n");
	write_file("memory/memory.limit_in_bytes", "9223372036854771712\n");
	write_file("cpu,cpuacct/x/cpu.cfs_quota_us", "200000\n");
	write_file("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
	write_file("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
	write_file("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
	struct tfc__grant_limits limits = read_limits("5:memory:/x\n4:cpu,cpuacct:/x\n");
	assert_int_equal(limits.memory_bytes, 1048576);
	assert_int_equal(limits.cpu_quota, 2);
}

static void what_cannot_be_read_is_no_limit(void **state)
{
	static const char *const groups[] = {"", "0::/nowhere\n", "garbage\n", "::\n", "0::\n"};
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		struct tfc__grant_limits limits = read_limits(groups[i]);
		assert_int_equal(limits.cpu_quota, 0);
		assert_int_equal(limits.memory_bytes, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_grant_is_the_lowest_limit),
		cmocka_unit_test(gpus_are_listed_as_cuda_reads_them),
		cmocka_unit_test_setup_teardown(the_lowest_limit_of_a_group_and_those_above_counts,
						make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(groups_of_version_1_are_read, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(what_cannot_be_read_is_no_limit, make_dir,
						remove_dir),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
