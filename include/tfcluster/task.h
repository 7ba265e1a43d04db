/*
 * What a host's hooks see of a task: who it is, and the environment it is about to get.
 */
#ifndef TFCLUSTER_TASK_H
#define TFCLUSTER_TASK_H

#include <stdint.h>
#include <tfcluster/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which task a hook is about. Borrowed. */
typedef struct tfc_task_info {
	uint32_t size;
	uint32_t task_index;
	const char *job;       /* job id */
	const char *task_type; /* "worker" */
	const char *address;   /* "127.0.0.1:20000", or "" */
	uint32_t attempt;
	uint32_t generation;
	const void *host_tag; /* the submitter's bytes */
	uint64_t host_tag_len;
} tfc_task_info;

/* The environment a task is about to get. */
typedef struct tfc_env tfc_env;

/** Sets a variable (NULL value: removes it), for before_launch. Errors: TFC_EINVAL, TFC_ENOMEM. */
TFC_API int tfc_env_set(tfc_env *env, const char *name, const char *value);

#ifdef __cplusplus
}
#endif
#endif
