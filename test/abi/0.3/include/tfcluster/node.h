/*
 * The node: this machine as a place where tasks run. It has a port pool, a guard (the process that
 * starts the tasks), private directories and logs. It maintains the jobs that were submitted to it:
 * it places, starts and restarts their tasks. Jobs are submitted through a gateway (gateway.h).
 */
#ifndef TFCLUSTER_NODE_H
#define TFCLUSTER_NODE_H

#include <stddef.h>
#include <stdint.h>
#include <tfcluster/backend.h>
#include <tfcluster/ctx.h>
#include <tfcluster/hooks.h>
#include <tfcluster/member.h>
#include <tfcluster/upstream.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfc_node tfc_node;

/* The variables with which a task begins if its job is of another user than the node's own. */
enum tfc_base_env {
	TFC_BASE_ENV_MINIMAL = 1, /* PATH, HOME, USER, LOGNAME, LANG, and what pass_env names */
	TFC_BASE_ENV_NODE = 2,    /* `env`, as for jobs of the node's own user */
};

/*
 * Options of a node. Zero is the default of every field. Strings, lists and tables are copied;
 * lists end with NULL unless a count is beside them.
 */
typedef struct tfc_node_options {
	uint32_t size;

	/* Ports of tasks: the pool, see tfc_port_pool_options. */
	uint16_t port_first;
	uint16_t port_last; /* inclusive */

	/* Identity: which node this is, and where others reach it. */
	const char *name; /* unique among the members; NULL: "local" */
	/* The host name or IP address at which other tasks reach the tasks of this node. NULL: the
	 * host in this node's own address in members_file or in listen; else "127.0.0.1". */
	const char *host;
	const char *const *labels; /* "NAME=value", which jobs may require; NULL: none */
	/* "tcp://HOST:PORT" (port 0: any free one) or "unix:/PATH". An address off the loopback
	 * needs key_file. NULL: this node's own address in members_file, or none. */
	const char *const *listen;
	/* See tfc_key_generate; read again when it changes; NULL: none. A connection ends when its
	 * key is removed from the file. */
	const char *key_file;
	/* Absolute path of a directory for jobs, logs and the node's identity. It is created with
	 * mode 0700 and must belong to this user. NULL: nothing outlives the node. */
	const char *state_dir;

	/* Members: which other nodes there are. */
	const char *members_file; /* doc/guide/several-hosts.md; NULL: this node is alone */
	const tfc_membership_ops *membership; /* the host's own, in place of the file; NULL: none */
	void *membership_impl;                /* the first argument of its functions */
	uint32_t lease_ms;   /* tasks stop if their maintainer is unreachable this long; 0: 10000 */
	uint32_t probe_ms;   /* between two heartbeats of a member; 0: 1000 */
	uint32_t suspect_ms; /* without a heartbeat until a member is suspect; 0: 3000 */
	uint32_t down_ms;    /* without a heartbeat until a member is down; 0: 8000 */

	/* Limits: what tasks may use here. */
	uint64_t memory_bytes; /* that all tasks together may reserve; 0: no limit */
	/* GPUs that tasks may reserve: "none"; a list in the form of CUDA_VISIBLE_DEVICES, "0,1";
	 * or "auto", all that the driver lists, which the node learns only after it was opened.
	 * NULL: as many as this node has in members_file, numbered from 0. */
	const char *gpus;
	uint32_t slots; /* tasks at one time; 0: no limit */

	/* Limits of clients. A client is a connection with a submit or read key, or of another user
	 * than root and the node's own. These two users and other nodes have no limits. At a limit,
	 * the newest connection or request is refused with TFC_EAGAIN. */
	uint32_t client_connections;  /* of all clients; 0: 256 */
	uint32_t key_connections;     /* with one key, or of one user; 0: 128 */
	uint32_t client_requests;     /* open requests and subscriptions of all clients; 0: 1024 */
	uint32_t key_requests;        /* with one key, or of one user; 0: 512 */
	uint32_t connection_requests; /* over one connection; 0: 256 */
	/* Memory of open requests and subscriptions, of messages received in part, and of
	 * responses that the client has not read (doc/guide/keys.md). */
	uint64_t client_bytes; /* of all clients; 0: 64 MiB */
	uint64_t key_bytes;    /* with one key, or of one user; 0: 32 MiB */
	/* Bytes that wait until the client of one connection reads them. At this limit nothing more
	 * is read from the client or added to its subscriptions; 0: 1 MiB */
	uint64_t connection_bytes;

	/* Retention: where jobs and logs are kept, and for how long. When any of the three limits
	 * is exceeded, the oldest ended jobs are forgotten with their logs. */
	const tfc_store_ops *store; /* keeps jobs in place of state_dir; NULL: none */
	void *store_impl;           /* the first argument of its functions */
	uint32_t retain_jobs;       /* number of ended jobs; 0: 1000 */
	uint32_t retain_s;          /* time since the end of a job; 0: 7 days */
	uint64_t retain_bytes;      /* size of the logs of ended jobs; 0: no limit */
	/* Logs are written to LOG_DIR/JOB/. The directory is created with the first job; its parent
	 * must exist. NULL: "logs" in state_dir, else a private one, removed with the node. */
	const char *log_dir;
	const char *temp_dir; /* private directories are created in it; NULL: "/tmp" */

	/* Environment of tasks. Tasks of the node's own user begin with `env`: their job came from
	 * this process, or from a process of that user over unix or over tcp on the loopback
	 * without a key. All others begin with what base_env selects. TFC_BASE_ENV_MINIMAL has PATH
	 * and LANG from `env`; HOME, USER and LOGNAME are those of the user that the task runs as.
	 */
	const char *const *env; /* "NAME=value"; NULL: empty */
	/* Variables of `env` that TFC_BASE_ENV_MINIMAL adds: "NAME", or "NAME*" for all that begin
	 * with NAME. NULL: "LD_LIBRARY_PATH", "CUDA_*", "NVIDIA_*". */
	const char *const *pass_env;
	/* The interpreter of tasks with "server": true, for jobs without the key "python"; NULL:
	 * "python3" */
	const char *python;
	uint32_t base_env; /* enum tfc_base_env; 0: TFC_BASE_ENV_MINIMAL */

	/* Permissions. */
	uint32_t group_count;   /* of groups */
	const uint32_t *groups; /* groups whose users may connect over unix, as this user and
				 * root may; NULL: none */
	/* "name[:group]": the user of tasks whose job came over tcp with a submit key. NULL: the
	 * node's own; a node that runs as root refuses such jobs. */
	const char *submit_user;
	const tfc_node_hooks *hooks; /* copied; NULL: none */

	/* Upstream: where the host's data is. */
	const tfc_upstream_ops *upstream; /* NULL: there is none */
	void *upstream_impl;              /* the first argument of its functions */
	const char *upstream_map; /* a file, in place of upstream (doc/guide/data.md); NULL: none */

	/* Gossip: the nodes find each other, in place of members_file (doc/guide/gossip.md). The
	 * numeric "HOST:PORT" at which other nodes reach this one, over tcp and UDP, at which it
	 * also listens if `listen` is NULL; "auto": the first tcp address of `listen`, with `host`
	 * in place of a wildcard. NULL: no gossip. With gossip, probe_ms is the time between two
	 * probes of any members (0: 500), and suspect_ms and down_ms must be 0. */
	const char *gossip;
	/* "HOST:PORT" of nodes through which this one finds all others; a host name stands for all
	 * of its addresses. They need not run yet. NULL: others find this node. */
	const char *const *join;

	/* Warm starts (doc/guide/restarts.md): at most so many processes that tasks are forked
	 * from; 0: 2. */
	uint32_t zygotes;
	uint32_t reserved;
} tfc_node_options;

#define TFC_NODE_OPTIONS_INIT                                                                      \
	{                                                                                          \
		sizeof(tfc_node_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
			0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
			0, 0, 0, 0                                                                 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_node_options_init(tfc_node_options *options, uint32_t size);

/**
 * Opens a node. `options` may be NULL. The call waits for the disk of state_dir (about 15 s at most
 * if it hangs); dispatch reads the stored jobs and connects to members. The caller owns *ret_node.
 * Thread: the context's. Errors: those of tfc_port_pool_open; TFC_EINVAL (a field, named; an
 * address off the loopback without a key); TFC_ENOENT or TFC_EACCES (log_dir, temp_dir, state_dir,
 * key_file or members_file); TFC_ENOENT (tfc-guard or tfc-shim is missing); TFC_EPARSE
 * (members_file, key_file or a damaged identity); TFC_EBUSY (another process uses state_dir or an
 * address of `listen`); TFC_ETIMEDOUT (state_dir); TFC_ELOST (a helper program ended at once);
 * TFC_EMFILE, TFC_ESYS, TFC_ENOMEM, TFC_EFORK; what tfc_membership_ops.start returns.
 */
TFC_API int tfc_node_open(tfc_ctx *ctx, const tfc_node_options *options, tfc_node **ret_node);

/**
 * Opens a node from one JSON object, such as {"name": "a", "state": "/var/lib/a", "slots": 4}, for
 * bindings, which then need no struct of options. The keys are those that `tfc_run node --config`
 * reads; doc/guide/node-options.md lists them. `file` is a name for messages ("node.json:3:
 * slots: ..."), or NULL. `env` is tfc_node_options.env; `env` and `hooks` may be NULL. The caller
 * owns *ret_node. Thread: the context's. Errors: TFC_EPARSE, TFC_EINVAL and TFC_ENOTSUP, which name
 * the key and its line, TFC_ENOENT (a group); those of tfc_node_open.
 */
TFC_API int tfc_node_open_json(tfc_ctx *ctx, const char *json, size_t len, const char *file,
			       const char *const *env, const tfc_node_hooks *hooks,
			       tfc_node **ret_node);

/**
 * Checks the text of tfc_node_open_json and opens nothing. Groups are not looked up. `file` and
 * `error` may be NULL. Thread: any. Errors: TFC_EPARSE, TFC_EINVAL, TFC_ENOTSUP, TFC_ENOMEM.
 */
TFC_API int tfc_node_check_json(const char *json, size_t len, const char *file, tfc_error *error);

/** Runs once, in dispatch, when the node has shut down or left; not if it is closed before. It may
 * close the node, which stays open otherwise. */
typedef void (*tfc_node_ended_fn)(void *user);

/**
 * Shuts down: the node accepts no new job and stops each job that it maintains, with the grace
 * periods of its tasks. When all tasks have ended and the end of each job is stored, fn runs once,
 * in dispatch. If an end cannot be stored (a full or failing disk, a store that does not respond),
 * fn runs 5 s after the last task has ended, and the log has a warning with the reason. Such a job
 * has no TFC_EVENT_END. tfc_node_close tries once more to store its end; if that fails, the job
 * resumes when a node is opened on the same state_dir. Thread: the context's. Errors: TFC_EINVAL,
 * TFC_EFORK, TFC_ESTATE (it is shutting down or leaving already).
 */
TFC_API int tfc_node_shutdown(tfc_node *node, tfc_node_ended_fn fn, void *user);

/**
 * Leaves the cluster: the node accepts no new task and notifies the other members, which move their
 * tasks away from it. The jobs that it maintains stop their tasks, and resume when the node is
 * back. When all these tasks have ended, the state of the node becomes "left" for all members, and
 * fn runs once, in dispatch. This happens at the latest after 30 s, or after the longest grace
 * period of the tasks and 5 s, whichever is longer; tfc_node_close ends what still runs. Thread:
 * the context's. Errors: TFC_EINVAL, TFC_EFORK, TFC_ESTATE (it is leaving already).
 */
TFC_API int tfc_node_leave(tfc_node *node, tfc_node_ended_fn fn, void *user);

/**
 * Returns one of the addresses at which the node listens, with its actual port; `number` counts
 * them from 0. NULL after the last one. Borrowed: valid until the node is closed. Thread: the
 * context's. Errors: none.
 */
TFC_API const char *tfc_node_address(const tfc_node *node, uint32_t number);

/**
 * Reports that the partitions of an upstream have moved. `version` is that of the new map; if it is
 * not higher than that of the map the node has, the call has no effect. Pending jobs that this node
 * maintains are placed again. Jobs with "on_upstream_change": "restart" restart where the
 * partitions are now, once nothing has changed for 2 s, after 10 s at the latest. Thread: the
 * context's. Errors: TFC_EINVAL, TFC_EFORK.
 */
TFC_API int tfc_node_upstream_changed(tfc_node *node, const char *upstream, uint64_t version);

/* ---- the members, as this node knows them */

/* What a change is. */
enum tfc_member_event_kind {
	TFC_MEMBER_EVENT_ADDED = 1,
	TFC_MEMBER_EVENT_CHANGED = 2, /* its state, or what it offers */
	TFC_MEMBER_EVENT_REMOVED = 3,
};

/* `change` is of enum tfc_member_event_kind, or 0 in tfc_member_list. `member` and its strings are
 * borrowed: valid during the callback. */
typedef void (*tfc_member_fn)(void *user, uint32_t change, const tfc_member_info *member);

/**
 * Calls fn for each member, this node included, in the order of their names, before it returns; fn
 * must not call the library. Thread: the context's. Errors: TFC_EINVAL, TFC_EFORK.
 */
TFC_API int tfc_member_list(tfc_node *node, tfc_member_fn fn, void *user);

typedef struct tfc_member_watch tfc_member_watch;

/**
 * Watches the members: calls fn in dispatch after each change. Changes of one member in quick
 * succession are reported as one. The present members are not reported; tfc_member_list lists them.
 * The caller owns *ret_watch, and closes it before or after the node. Thread: the context's.
 * Errors: TFC_EINVAL, TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_member_watch_open(tfc_node *node, tfc_member_fn fn, void *user,
				  tfc_member_watch **ret_watch);

/** Closes a watch. Legal inside a callback. NULL is a no-op. Thread: the context's. */
TFC_API void tfc_member_watch_close(tfc_member_watch *watch);

/**
 * Closes the node: tasks that still run are killed at once, and private directories are removed.
 * Jobs that have not ended continue when a node is opened with the same state_dir or store; without
 * one they are lost. The call waits for the disk of state_dir, about 5 s at most.
 *
 * Other nodes do not learn that the tasks have ended: those of their jobs that ran here start
 * elsewhere about 16 s later, when their lease is over. tfc_node_leave before it avoids that.
 *
 * Requests of gateways on the node that are pending end with TFC_ESTATE, and further ones fail with
 * it; subscriptions report nothing more. The host still closes these gateways and subscriptions,
 * before or after. Legal inside a callback, except in a hook. NULL is a no-op. Thread: the
 * context's.
 */
TFC_API void tfc_node_close(tfc_node *node);

#ifdef __cplusplus
}
#endif
#endif
