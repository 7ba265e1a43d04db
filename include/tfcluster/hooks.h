/*
 * Hooks: functions of the host that a node calls before it starts an attempt, after an attempt has
 * ended, and before it serves a request.
 */
#ifndef TFCLUSTER_HOOKS_H
#define TFCLUSTER_HOOKS_H

#include <stdint.h>
#include <tfcluster/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tasks */

/* The task that a hook is about. Borrowed: valid during the hook. */
typedef struct tfc_task_info {
	uint32_t size;
	uint32_t task_index;   /* among the tasks of task_type, from 0 */
	const char *job;       /* job id */
	const char *task_type; /* "worker" */
	const char *address;   /* "127.0.0.1:20000", or "" */
	uint32_t attempt;      /* which attempt of the task, from 1 */
	uint32_t generation;   /* of its group, the tasks that restart together; from 1 */
	const void *host_tag;  /* tfc_submit_options.host_tag of its job */
	uint64_t host_tag_len; /* in bytes */
} tfc_task_info;

/* The environment with which an attempt is about to start. */
typedef struct tfc_env tfc_env;

/** Sets a variable, or removes it if `value` is NULL; legal in before_launch only. `name` and
 * `value` are copied. Thread: the context's. Errors: TFC_EINVAL (the name is empty or has a '='),
 * TFC_ENOMEM. */
TFC_API int tfc_env_set(tfc_env *env, const char *name, const char *value);

/* ---- requests */

/* What the key or the user of a peer permits. */
enum tfc_peer_role {
	TFC_PEER_NODE = 1,   /* everything, and it may be a member */
	TFC_PEER_SUBMIT = 2, /* to submit, stop, forget and query jobs, and to drain nodes */
	TFC_PEER_READ = 3,   /* to query jobs and members */
};

/* Who sends a request to a node. Borrowed: valid during the hook. */
typedef struct tfc_peer_info {
	uint32_t size;
	enum tfc_peer_role role; /* of its key or user */
	uint32_t uid; /* its user, over unix or from this machine without a key; else UINT32_MAX */
	uint32_t gid; /* the group of that user; else UINT32_MAX */
	const char *node_id; /* hash of its static key; "" without encryption */
	const char *key_id;  /* of the key that it used; "" without a key */
	const char *address; /* where the connection comes from, for people to read */
	uint32_t pid;        /* its process, over unix; else 0 */
	uint32_t reserved;   /* 0 */
} tfc_peer_info;

/* What a request is about to do. */
enum tfc_verb {
	TFC_VERB_SUBMIT = 1,
	TFC_VERB_STOP = 2,
	TFC_VERB_JOBS = 3,
	TFC_VERB_DESCRIBE = 4,
	TFC_VERB_SPEC = 5, /* tfc_gateway_tf_config and tfc_gateway_environ */
	TFC_VERB_EXPLAIN = 6,
	TFC_VERB_FORGET = 7,
	TFC_VERB_MEMBERS = 8,
	TFC_VERB_DRAIN = 9, /* and undrain */
	TFC_VERB_SUBSCRIBE = 10,
	TFC_VERB_FIND = 11, /* among nodes: which job a name or a prefix means */
	/* Checked with `job` "" when a watch of all jobs begins, and with the job's id for each
	 * event of a job: a refusal then hides that job. */
	TFC_VERB_WATCH = 12,
	TFC_VERB_SIGNAL = 13,
	TFC_VERB_STACKS = 14,
	TFC_VERB_FEED = 15, /* a producer on another machine feeds the job */
};

/** "node", "submit", "read"; "?" for an unknown one. Static string. Thread: any. Errors: none. */
TFC_API const char *tfc_peer_role_name(uint32_t role);

/** "submit", "stop", ...; "?" for an unknown one. Static string. Thread: any. Errors: none. */
TFC_API const char *tfc_verb_name(uint32_t verb);

/* ---- the table */

/*
 * Functions of the host that the node calls. They run inside dispatch, must return soon and must
 * not close the node. Each may be NULL.
 */
typedef struct tfc_node_hooks {
	uint32_t size;
	uint32_t reserved; /* 0 */
	void *user;        /* the first argument of each */

	/* An attempt is about to start: the hook may change its environment with tfc_env_set. 0 or
	 * above permits the launch. A result below 0 refuses it: the attempt ends with
	 * TFC_END_REFUSED. `env` is borrowed: valid during the hook. */
	int (*before_launch)(void *user, const tfc_task_info *task, tfc_env *env);

	/* An attempt has ended, and all its processes are reaped. Does not run for attempts that
	 * tfc_node_close kills. */
	void (*after_exit)(void *user, const tfc_task_info *task);

	/* The other members refuse this node: two nodes have the same name or identity. Its tasks
	 * keep running, but the host should close it, after the hook. Runs once. `error` is
	 * borrowed: valid during the hook. NULL: the refusal is logged. */
	void (*refused)(void *user, const tfc_error *error);

	/* Decides whether a request is permitted, before anything is done for it; a result below 0
	 * refuses it. Runs only if the key or the user permits the request. `job` is an id, a
	 * prefix or a name as the client gave it, or "". If another node forwards the request of
	 * its client, `peer` is that node, not the client. */
	int (*authorize)(void *user, const tfc_peer_info *peer, enum tfc_verb verb,
			 const char *job);
} tfc_node_hooks;

#define TFC_NODE_HOOKS_INIT                              \
	{                                                \
		sizeof(tfc_node_hooks), 0, 0, 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_node_hooks_init(tfc_node_hooks *hooks, uint32_t size);

#ifdef __cplusplus
}
#endif
#endif
