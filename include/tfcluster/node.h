/*
 * The node: this machine as a place where tasks run. It owns a port pool, a guard, private
 * directories and logs, and the maintainers of the jobs it runs. A gateway (gateway.h) is how jobs
 * come in.
 */
#ifndef TFCLUSTER_NODE_H
#define TFCLUSTER_NODE_H

#include <stdint.h>
#include <tfcluster/backend.h>
#include <tfcluster/ctx.h>
#include <tfcluster/member.h>
#include <tfcluster/task.h>
#include <tfcluster/upstream.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfc_node tfc_node;

/* What the key of a peer, or its user, allows it. */
enum tfc_peer_role {
	TFC_PEER_NODE = 1,   /* all; and it may be a member */
	TFC_PEER_SUBMIT = 2, /* start, look at and stop jobs */
	TFC_PEER_READ = 3,   /* look at them */
};

/* Who asks a node for something. Borrowed: valid during the hook. */
typedef struct tfc_peer_info {
	uint32_t size;
	uint32_t role;       /* enum tfc_peer_role */
	uint32_t uid;        /* over unix, and from this machine without key; else UINT32_MAX */
	uint32_t gid;        /* the same of its group */
	uint32_t pid;        /* over unix; else 0 */
	uint32_t reserved;   /* 0 */
	const char *node_id; /* hash of its static key; "" without encryption */
	const char *key_id;  /* of the key it showed; "" without */
	const char *address; /* where it asks from, in words */
} tfc_peer_info;

/* What the environment of a task begins with whose job came over tcp. */
enum tfc_base_env {
	TFC_BASE_ENV_MINIMAL = 1, /* PATH, HOME, USER, LOGNAME and LANG, and what pass_env says */
	TFC_BASE_ENV_NODE = 2,    /* env, as for a job of the node's own user */
};

/* Options of a node. Zero is the default of every field; strings and lists are copied. */
typedef struct tfc_node_options {
	uint32_t size;
	uint16_t port_first; /* the pool, see tfc_port_pool_options */
	uint16_t port_last;  /* its highest port, inclusive */
	const char *name;    /* shown as the tasks' node; NULL: "local" */
	/* Address advertised to other tasks, no port. NULL: that of this node in members_file or
	 * in listen, else "127.0.0.1". */
	const char *host;
	const char *const *env; /* base environment of tasks, see base_env; NULL: empty */
	const char
		*python; /* interpreter for "server": true when the job names none; NULL: python3 */
	/* Logs go to LOG_DIR/JOB/; one that is missing is made with the first job, in a folder that
	 * is there. NULL: private, removed with the node. */
	const char *log_dir;
	const char *temp_dir; /* private directories are made in it; NULL: "/tmp" */
	/* Hooks run in dispatch and must return soon; NULL: none. Those here and `refused` and
	 * `authorize` below are handed hook_user. */
	void *hook_user;
	int (*before_launch)(void *user, const tfc_task_info *task, tfc_env *env); /* <0: refuse */
	void (*after_exit)(void *user, const tfc_task_info *task); /* an attempt has been reaped */

	/* Since 0.2. A directory for jobs, logs and who the node is, an absolute path. It is made
	 * with mode 0700 and must belong to this user. NULL: none, all is gone with the node. */
	const char *state_dir;
	const tfc_store_ops *store; /* jobs are kept there and not in state_dir; NULL: not */
	void *store_user;           /* handed to store */
	uint32_t retain_jobs;       /* ended jobs that are kept; 0: 1000 */
	uint32_t retain_s;          /* for so many seconds; 0: 7 days */
	uint64_t retain_bytes;      /* of logs; 0: no limit */
	/* Where others reach it, NULL-terminated: "tcp://HOST:PORT" (port 0: any), "unix:/PATH".
	 * Off the loopback a key is needed. NULL: its own address in members_file, or nowhere. */
	const char *const *listen;
	const char *key_file; /* see tfc_key_generate; NULL: none */
	/* A file that names all nodes, this one too (doc/guide/several-hosts.md). NULL: this
	 * node is alone. */
	const char *members_file;
	const tfc_membership_ops *membership; /* a host's own, in place of the file; NULL: none */
	void *membership_user;                /* handed to membership */
	uint32_t slots;                       /* tasks at one time; 0: no limit */
	uint32_t lease_ms; /* tasks stop when their maintainer is silent so long; 0: 10000 */
	uint64_t memory;   /* bytes for tasks that ask for memory; 0: no limit */
	/* GPUs that tasks may ask for: "none", "auto" (found a little later), or a list as
	 * CUDA_VISIBLE_DEVICES takes it, "0,1". NULL: as many as the members say, from 0 on. */
	const char *gpus;
	const char *const *labels; /* "K=V", NULL-terminated; NULL: none */
	uint32_t probe_ms;         /* between two looks at each member; 0: 1000 */
	uint32_t suspect_ms;       /* of silence until a member is suspect; 0: 3000 */
	uint32_t down_ms;          /* of silence until it is down; 0: 8000 */
	uint32_t reserved;         /* 0 */
	/* The other members do not let this node in: two nodes have one name or identity. What it
	 * runs goes on, but it should be closed. Runs once, in dispatch. NULL: only logged. */
	void (*refused)(void *user, const tfc_error *error);
	/* The host's say on who may do what, before anything is done: verb is "submit", "stop",
	 * "list", "describe", "spec", "explain", "forget", "members", "drain", "subscribe" or
	 * "find", job is an id, a name or "". Below 0 refuses. What another node asks, also for
	 * its clients, comes with that node as peer. NULL: the key or the user decides. */
	int (*authorize)(void *user, const tfc_peer_info *peer, const char *verb, const char *job);
	const char *submit_user; /* "name[:group]" as whom run the tasks of jobs that come over tcp
				  * with a submit key; NULL: as the node, unless that is root */
	const uint32_t *groups;  /* group_count group ids: their members may connect over unix,
				  * besides this user and root; NULL: none */
	uint32_t group_count;    /* of groups */
	uint32_t reserved2;      /* 0 */
	const tfc_upstream_ops *resolver; /* where the host's data is; copied; NULL: it has none */
	void *resolver_user;              /* handed to resolver */
	/* A file that tells where data is, in place of a resolver (doc/guide/data.md). NULL: none
	 */
	const char *upstream_map;
	/* Tasks whose job came from the node's own user (over unix, over tcp on the loopback
	 * without a key, in this process) begin with env. Those of all other jobs begin with what
	 * this says (enum tfc_base_env; 0: TFC_BASE_ENV_MINIMAL): PATH and LANG as in env, HOME and
	 * USER of the user that they run as. */
	uint32_t base_env;
	uint32_t reserved3; /* 0 */
	/* Variables of env that these have beside: "NAME", or "NAME*" for all that begin so;
	 * NULL-terminated. NULL: "LD_LIBRARY_PATH", "CUDA_*", "NVIDIA_*". */
	const char *const *pass_env;
	/* What clients may make the node hold: connections with submit and read keys, and over
	 * unix from other users than the node's and root. What nodes and those two do is not
	 * limited by any of these. At a bound the newest is refused with TFC_EAGAIN. Since 0.3. */
	uint32_t client_connections;  /* of all clients; 0: 256 */
	uint32_t key_connections;     /* with one key, or of one user; 0: 128 */
	uint32_t client_requests;     /* not answered yet, with subscriptions, of all; 0: 1024 */
	uint32_t key_requests;        /* with one key, or of one user; 0: 512 */
	uint32_t connection_requests; /* over one connection; 0: 256 */
	uint32_t reserved4;           /* 0 */
	/* Bytes of answers that are made or wait to be read, of messages that have come in part,
	 * and of open requests and subscriptions (4096 each, their own, and what they make the node
	 * hold; see doc/guide/keys.md). */
	uint64_t client_bytes; /* of all clients; 0: 64 MiB */
	uint64_t key_bytes;    /* with one key, or of one user; 0: 32 MiB */
	/* Bytes that wait until the client of one connection reads them; then nothing more is
	 * read from it or added to its subscriptions; 0: 1 MiB */
	uint64_t connection_bytes;
} tfc_node_options;

#define TFC_NODE_OPTIONS_INIT                                                                      \
	{                                                                                          \
		sizeof(tfc_node_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
			0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
			0, 0, 0, 0, 0, 0, 0, 0                                                     \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_node_options_init(tfc_node_options *options, uint32_t size);

/**
 * Opens a node. The caller owns *ret_node. Thread: the context's.
 * Errors: those of tfc_port_pool_open; TFC_EINVAL (a field, named; an address off the loopback
 * without a key); TFC_ENOENT or TFC_EACCES (log_dir, temp_dir, state_dir, key_file or
 * members_file), TFC_EPARSE (members_file, key_file or a damaged identity), TFC_EBUSY (another
 * process has state_dir or listens there), TFC_ENOENT (tfc-guard or tfc-shim missing), TFC_EMFILE,
 * TFC_ESYS, TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_node_open(tfc_ctx *ctx, const tfc_node_options *options, tfc_node **ret_node);

/** Runs once, in dispatch, when a drained node has no task left. */
typedef void (*tfc_node_ended_fn)(void *user);

/**
 * Takes no new job and stops all there are, each with its grace. Thread: the context's.
 * Errors: TFC_EFORK, TFC_ESTATE (already draining).
 */
TFC_API int tfc_node_shutdown(tfc_node *node, tfc_node_ended_fn fn, void *user);

/**
 * Leaves in order: the node takes no new task, the others are told, and move those of their tasks
 * that run here; then it says goodbye, and fn runs once, in dispatch. What is left is for
 * tfc_node_close. Thread: the context's. Errors: TFC_EINVAL, TFC_EFORK, TFC_ESTATE (leaving
 * already).
 */
TFC_API int tfc_node_leave(tfc_node *node, tfc_node_ended_fn fn, void *user);

/**
 * Where the node listens: the first (0) of its addresses and so on, with the port that it has; NULL
 * when there are no more. Borrowed: valid until the node is closed. Thread: the context's. Errors:
 * none.
 */
TFC_API const char *tfc_node_address(const tfc_node *node, uint32_t number);

/**
 * Says that the partitions of an upstream have moved: `version` is higher than that of the answers
 * before. Jobs that this node maintains are told: those that wait are placed again; those with
 * "on_upstream_change": "restart" start again where the partitions are now, once nothing more has
 * changed for two seconds. Thread: the context's. Errors: TFC_EINVAL, TFC_EFORK.
 */
TFC_API int tfc_node_upstream_changed(tfc_node *node, const char *upstream, uint64_t version);

/* ---- the members, as this node knows them */

/* What a change is. */
enum tfc_member_event_kind {
	TFC_MEMBER_EVENT_ADDED = 1,
	TFC_MEMBER_EVENT_CHANGED = 2, /* its state, or what it offers */
	TFC_MEMBER_EVENT_REMOVED = 3,
};

/* One member; change is 0 in a list. Borrowed: valid during the call. */
typedef void (*tfc_member_fn)(void *user, uint32_t change, const tfc_member_info *member);

/**
 * Calls fn for each member, this node among them, by name, before it returns; fn must not call back
 * into the library. Thread: the context's. Errors: TFC_EINVAL, TFC_EFORK.
 */
TFC_API int tfc_member_list(tfc_node *node, tfc_member_fn fn, void *user);

typedef struct tfc_member_watch tfc_member_watch;

/**
 * Calls fn in dispatch after each change; changes that follow each other at once are told as one.
 * The caller owns *ret_watch, and closes it before or after the node. Thread: the context's.
 * Errors: TFC_EINVAL, TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_member_watch_open(tfc_node *node, tfc_member_fn fn, void *user,
				  tfc_member_watch **ret_watch);

/** Legal inside a callback. NULL is a no-op. Thread: the context's. */
TFC_API void tfc_member_watch_close(tfc_member_watch *watch);

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
