#include "allocation/grant.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strv.h"

/* ---- what the environment says */

/* A positive number; 0: the variable is not set or is not one. */
static uint64_t grant_number(const char *const *env, const char *name)
{
	const char *text = tfc__env_get(env, name);
	char *end;
	errno = 0;
	if (!text || !isdigit((unsigned char)*text))
		return 0;
	uint64_t number = strtoull(text, &end, 10);
	return *end || errno ? 0 : number;
}

/* The lower one, where 0 is no limit. */
static uint64_t grant_lower(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

/* The product; 0, no limit, if it is too large to be one. */
static uint64_t grant_multiply(uint64_t a, uint64_t b)
{
	uint64_t product;
	return __builtin_mul_overflow(a, b, &product) || product > INT64_MAX ? 0 : product;
}

/* The part of one of several ranks: at least 1, unless there is no limit. */
static uint64_t grant_share(uint64_t limit, uint32_t ranks)
{
	return limit && limit < ranks ? 1 : limit / ranks;
}

/* The CPUs of this rank by Slurm's account; 0: it says nothing. */
static uint64_t grant_slurm_cpus(const struct tfc__engine_place *place, const char *const *env)
{
	uint64_t cpus = grant_share(grant_number(env, "SLURM_CPUS_ON_NODE"), place->ranks_here);
	return grant_lower(grant_number(env, "SLURM_CPUS_PER_TASK"), cpus);
}

static uint64_t grant_slurm_memory(const struct tfc__engine_place *place, const char *const *env)
{
	uint64_t of_node = grant_number(env, "SLURM_MEM_PER_NODE");
	uint64_t of_cpus = grant_multiply(grant_number(env, "SLURM_MEM_PER_CPU"),
					  grant_number(env, "SLURM_CPUS_ON_NODE"));
	uint64_t memory = grant_multiply(grant_lower(of_node, of_cpus), UINT64_C(1) << 20);
	return grant_share(memory, place->ranks_here);
}

/* Without CUDA_VISIBLE_DEVICES, Slurm has granted no GPU. Elsewhere, the only rank of a machine has
 * all of its GPUs, and one of several has none. */
static const char *grant_gpus(const struct tfc__engine_place *place, const char *const *env)
{
	const char *visible = tfc__env_get(env, "CUDA_VISIBLE_DEVICES");
	if (visible &&
	    (!*visible || strcmp(visible, "-1") == 0 || strcmp(visible, "NoDevFiles") == 0))
		return "none";
	if (visible)
		return visible;
	return place->engine == TFC_ENGINE_SLURM || place->ranks_here > 1 ? "none" : "auto";
}

char *tfc__grant_gpu_list(const char *visible)
{
	char *list = strdup(visible), *to = list;
	for (const char *at = visible; list;) {
		at += strspn(at, " \t");
		size_t len = strcspn(at, ",");
		const char *next = at[len] ? at + len + 1 : NULL;
		while (len && strchr(" \t", at[len - 1]))
			len--;
		if (!len || *at == '-')
			break;
		if (to > list)
			*to++ = ',';
		to = mempcpy(to, at, len);
		if (!(at = next))
			break;
	}
	if (to == list) {
		free(list);
		return strdup("none");
	}
	*to = '\0';
	return list;
}

struct tfc__grant tfc__grant_compute(const struct tfc__engine_place *place, const char *const *env,
				     const struct tfc__grant_limits *limits)
{
	bool is_slurm = place->engine == TFC_ENGINE_SLURM;
	uint64_t cpus = grant_lower(limits->cpus_allowed,
				    grant_share(limits->cpu_quota, place->ranks_here));
	cpus = grant_lower(cpus, grant_share(limits->cpus_online, place->ranks_here));
	if (is_slurm)
		cpus = grant_lower(cpus, grant_slurm_cpus(place, env));
	uint64_t memory = grant_share(limits->memory_bytes, place->ranks_here);
	if (is_slurm)
		memory = grant_lower(memory, grant_slurm_memory(place, env));
	return (struct tfc__grant){
		.slots = cpus ? (uint32_t)cpus : 1,
		.memory_bytes = memory,
		.gpus = grant_gpus(place, env),
	};
}

/* ---- what the kernel says */

#define CGROUP_PATH_SIZE 4096

/* The first number in a file of a cgroup; 0: it cannot be read, or is "max". *ret_second: the next
 * number, or 0. */
static uint64_t grant_read_limit(const char *group, const char *file, uint64_t *ret_second)
{
	char path[CGROUP_PATH_SIZE + 64], text[128];
	unsigned long long first = 0, second = 0;
	snprintf(path, sizeof(path), "%s/%s", group, file);
	tfc__read_text(path, text, sizeof(text));
	sscanf(text, "%llu %llu", &first, &second);
	if (ret_second)
		*ret_second = second;
	return first;
}

static void grant_read_group(const char *group, struct tfc__grant_limits *limits)
{
	uint64_t period, second;
	uint64_t quota = grant_read_limit(group, "cpu.max", &period);
	if (!period) {
		quota = grant_read_limit(group, "cpu.cfs_quota_us", &second); /* -1: no limit */
		period = grant_read_limit(group, "cpu.cfs_period_us", NULL);
		quota = quota > INT64_MAX ? 0 : quota;
	}
	if (quota && period)
		limits->cpu_quota = (uint32_t)grant_lower(limits->cpu_quota,
							  (quota + period - 1) / period);
	uint64_t memory = grant_lower(grant_read_limit(group, "memory.max", NULL),
				      grant_read_limit(group, "memory.limit_in_bytes", NULL));
	if (memory < UINT64_C(1) << 60) /* cgroup v1 writes no limit as a huge number */
		limits->memory_bytes = grant_lower(limits->memory_bytes, memory);
}

/* Reads the group of each line "HIERARCHY:CONTROLLERS:PATH", and the groups above it. */
static void grant_read_groups(const char *cgroup_file, const char *cgroup_root,
			      struct tfc__grant_limits *limits)
{
	char text[CGROUP_PATH_SIZE], *rest = text, *line;
	tfc__read_text(cgroup_file, text, sizeof(text));
	while ((line = strsep(&rest, "\n")) && *line) {
		char group[CGROUP_PATH_SIZE];
		char *controllers = strchr(line, ':'), *path;
		if (!controllers || !(path = strchr(++controllers, ':')))
			continue;
		*path++ = '\0';
		int root = snprintf(group, sizeof(group), "%s%s%s", cgroup_root,
				    *controllers ? "/" : "", controllers);
		if (root < 0 || root + strlen(path) >= sizeof(group))
			continue;
		strcpy(group + root, strcmp(path, "/") == 0 ? "" : path);
		while (true) {
			grant_read_group(group, limits);
			char *last = strrchr(group + root, '/');
			if (!last)
				break;
			*last = '\0';
		}
	}
}

struct tfc__grant_limits tfc__grant_read(const char *cgroup_file, const char *cgroup_root)
{
	struct tfc__grant_limits limits = {0};
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t *set = CPU_ALLOC(65536);
	limits.cpus_online = online > 0 ? (uint32_t)online : 1;
	limits.cpus_allowed = limits.cpus_online;
	if (set && sched_getaffinity(0, CPU_ALLOC_SIZE(65536), set) == 0)
		limits.cpus_allowed = (uint32_t)CPU_COUNT_S(CPU_ALLOC_SIZE(65536), set);
	CPU_FREE(set);
	grant_read_groups(cgroup_file, cgroup_root, &limits);
	return limits;
}
