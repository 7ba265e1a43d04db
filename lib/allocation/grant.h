/*
 * What the engine has granted to this rank: CPUs, memory and GPUs. tfc__grant_compute is pure.
 */
#ifndef TFC_ALLOCATION_GRANT_H
#define TFC_ALLOCATION_GRANT_H

#include "allocation/engine.h"

/* What the kernel permits to this process. */
struct tfc__grant_limits {
	uint32_t cpus_online;  /* of the machine */
	uint32_t cpus_allowed; /* by affinity */
	uint32_t cpu_quota;    /* of the cgroup, rounded up; 0: no limit */
	uint64_t memory_bytes; /* of the cgroup; 0: no limit */
};

struct tfc__grant {
	uint32_t slots;        /* at least 1 */
	uint64_t memory_bytes; /* 0: no limit */
	const char *gpus;      /* as tfc_node_options.gpus; static, or of the environment */
};

struct tfc__grant tfc__grant_compute(const struct tfc__engine_place *place, const char *const *env,
				     const struct tfc__grant_limits *limits);

/* Reads the limits of this process. The cgroups are below `cgroup_root` ("/sys/fs/cgroup");
 * `cgroup_file` is "/proc/self/cgroup". What cannot be read is no limit. */
struct tfc__grant_limits tfc__grant_read(const char *cgroup_file, const char *cgroup_root);

/* A value of CUDA_VISIBLE_DEVICES as a node's list of GPUs: without blanks, up to the first entry
 * that names none, as CUDA reads it. The caller frees it; NULL: out of memory. */
char *tfc__grant_gpu_list(const char *visible);

#endif
