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
	uint32_t task_index;   /* with task_type */
	const char *job;       /* job id */
	const char *task_type; /* "worker" */
	const char *address;   /* "127.0.0.1:20000", or "" */
	uint32_t attempt;      /* which run of the task, from 1 */
	uint32_t generation;   /* which formation of the group, from 1 */
	const void *host_tag;  /* the submitter's bytes */
	uint64_t host_tag_len; /* in bytes */
} tfc_task_info;

/* The environment a task is about to get. */
typedef struct tfc_env tfc_env;

/** Sets a variable (NULL value: removes it), for before_launch. Both are copied. Thread: the
 * context's. Errors: TFC_EINVAL, TFC_ENOMEM. */
TFC_API int tfc_env_set(tfc_env *env, const char *name, const char *value);

#ifdef __cplusplus
}
#endif
#endif
