/*
 * The node: this machine as a place where tasks run. It owns a port pool, a guard, private
 * directories and logs, and the maintainers of the jobs it runs. A gateway (gateway.h) is how jobs
 * come in.
 */
#ifndef TFCLUSTER_NODE_H
#define TFCLUSTER_NODE_H

#include <stdint.h>
#include <tfcluster/ctx.h>
#include <tfcluster/task.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfc_node tfc_node;

/* Options of a node. Zero is the default of every field; strings and lists are copied. */
typedef struct tfc_node_options {
	uint32_t size;
	uint16_t port_first;    /* the pool, see tfc_port_pool_options */
	uint16_t port_last;     /* its highest port, inclusive */
	const char *name;       /* shown as the tasks' node; NULL: "local" */
	const char *host;       /* address advertised to other tasks, no port; NULL: "127.0.0.1" */
	const char *const *env; /* base environment of every task; NULL: empty */
	const char
		*python; /* interpreter for "server": true when the job names none; NULL: python3 */
	/* Logs go to LOG_DIR/JOB/; one that is missing is made with the first job, in a folder that
	 * is there. NULL: private, removed with the node. */
	const char *log_dir;
	const char *temp_dir; /* private directories are made in it; NULL: "/tmp" */
	/* Hooks run in dispatch and must return soon; NULL: none. */
	void *hook_user;
	int (*before_launch)(void *user, const tfc_task_info *task, tfc_env *env); /* <0: refuse */
	void (*after_exit)(void *user, const tfc_task_info *task); /* an attempt has been reaped */
} tfc_node_options;

#define TFC_NODE_OPTIONS_INIT                                             \
	{                                                                 \
		sizeof(tfc_node_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_node_options_init(tfc_node_options *options, uint32_t size);

/**
 * Opens a node. The caller owns *ret_node. Thread: the context's.
 * Errors: those of tfc_port_pool_open; TFC_EINVAL (host); TFC_ENOENT or TFC_EACCES (log_dir or
 * temp_dir cannot be written), TFC_ENOENT (tfc-guard or tfc-shim missing), TFC_EMFILE, TFC_ESYS,
 * TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_node_open(tfc_ctx *ctx, const tfc_node_options *options, tfc_node **ret_node);

/** Runs once, in dispatch, when a drained node has no task left. */
typedef void (*tfc_drain_fn)(void *user);

/**
 * Takes no new job and stops all there are, each with its grace. Thread: the context's.
 * Errors: TFC_EFORK, TFC_ESTATE (already draining).
 */
TFC_API int tfc_node_drain(tfc_node *node, tfc_drain_fn fn, void *user);

/**
 * Closes the node: what still runs is killed at once and its private directories removed. Gateways
 * on it answer what they were asked before, refuse the rest with TFC_ESTATE, and their
 * subscriptions tell nothing more; each is still its owner's to close, before or after. Legal
 * inside a callback, except for the hooks. NULL is a no-op. Thread: the context's.
 */
TFC_API void tfc_node_close(tfc_node *node);

#ifdef __cplusplus
}
#endif
#endif
