/*
 * The gateway: where jobs are submitted, listed, stopped and followed.
 *
 * Requests are asynchronous. If the call that makes a request returns 0, its tfc_reply_fn runs
 * exactly once, inside dispatch. A reply is dropped only if the context ends first, or if
 * tfc_sub_close cancels a tfc_gateway_run. A subscription replays the events and the output of a
 * job from the beginning, and follows the job to its end.
 *
 * `job` is a job's id, an unambiguous prefix of an id, or a name. A name means the job with that
 * name that has not ended; if all have ended, the latest. A name has precedence over a prefix. The
 * reply to a request about one job may be TFC_ENOENT (no such job), TFC_EINVAL (the prefix is
 * ambiguous; several jobs with that name have not ended; or all known jobs with that name have
 * ended and a node that may have another is unreachable; the message has ids) or TFC_EPARSE (the
 * job's record is damaged).
 *
 * Every reply may also be TFC_EACCES (the key, the user or the host's `authorize` does not permit
 * the request), TFC_EUNREACH (no node answers), TFC_ELOST (a node that the request needs cannot be
 * reached now), TFC_EAGAIN (the node is still reading its store, or a client's limit is reached),
 * TFC_ETOOBIG (the response is over 16 MiB), TFC_ETIMEDOUT, TFC_ECANCELED (tfc_op_cancel, or the
 * gateway was closed), TFC_ESTATE (the node in this process was closed), TFC_ENOTSUP (the node's
 * version is incompatible) or TFC_ENOMEM.
 *
 * All request calls fail with TFC_EINVAL (gateway or fn is NULL), TFC_ENOTSUP (see
 * tfc_ctx_options_init), TFC_ESTATE (the node is closed), TFC_ENOMEM and TFC_EFORK. They copy their
 * arguments. `options` and `ret_op` may be NULL; *ret_op is for tfc_op_cancel.
 */
#ifndef TFCLUSTER_GATEWAY_H
#define TFCLUSTER_GATEWAY_H

#include <stddef.h>
#include <stdint.h>
#include <tfcluster/ctx.h>
#include <tfcluster/job.h>
#include <tfcluster/node.h>
#include <tfcluster/process.h>
#include <tfcluster/results.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfc_gateway tfc_gateway;
typedef struct tfc_sub tfc_sub;

/* Options of a gateway. */
typedef struct tfc_gateway_options {
	uint32_t size;
	uint32_t connect_ms; /* deadline of connecting to one address; 0: 5000 */
	tfc_node *node;      /* a node in this process; NULL: the node at `address` */
	/* "unix:PATH" or "tcp://HOST:PORT" of a node, or several addresses separated by commas: the
	 * first node that answers is used; copied */
	const char *address;
	const char *key_file; /* the client's key, read at each connect; NULL: none; copied */
	/* With `address`: where the gateway makes the private directory in which it packs bundles
	 * before it sends them, and which it removes when it is closed. NULL: "/tmp"; copied */
	const char *temp_dir;
	/* How long submits and subscriptions retry after a connection is lost; 0: 300000. Other
	 * requests fail after a few attempts. If the first connection fails, nothing retries. */
	uint32_t reconnect_ms;
	uint32_t reserved; /* 0 */
} tfc_gateway_options;

#define TFC_GATEWAY_OPTIONS_INIT                                 \
	{                                                        \
		sizeof(tfc_gateway_options), 0, 0, 0, 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_gateway_options_init(tfc_gateway_options *options, uint32_t size);

/**
 * Opens a gateway of a node in this process, or of a node elsewhere. The connection to a node
 * elsewhere is made with the first request. If the connection is lost while a request or a
 * subscription needs it, the gateway connects again (reconnect_ms), and subscriptions continue
 * where they were. The caller owns *ret_gateway. Thread: the context's. Errors: TFC_EINVAL (neither
 * node nor address, or both; a node of another context), TFC_ENOENT, TFC_EACCES or TFC_EPARSE (the
 * key file), TFC_ENOTSUP, TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_gateway_open(tfc_ctx *ctx, const tfc_gateway_options *options,
			     tfc_gateway **ret_gateway);

/**
 * Opens a gateway from one JSON object, for bindings, which then need no struct of options. With
 * `node` it is a gateway of that node; with `node` NULL, of the node at the address in the key
 * "gateway". The other keys are "key" (the key file), "connect" and "reconnect" (seconds, such as
 * 0.5) and "temp-dir"; see tfc_gateway_options. `file` is a name for messages, or NULL. The caller
 * owns *ret_gateway. Thread: the context's. Errors: TFC_EPARSE and TFC_EINVAL, which name the key
 * and its line; those of tfc_gateway_open.
 */
TFC_API int tfc_gateway_open_json(tfc_ctx *ctx, tfc_node *node, const char *json, size_t len,
				  const char *file, tfc_gateway **ret_gateway);

/**
 * Closes a gateway. Its requests end with TFC_ECANCELED in a later dispatch. Its subscriptions
 * report nothing more; close them before or after. The jobs are not affected. Legal inside a
 * callback, and before or after its node is closed. NULL is a no-op. Thread: the context's.
 */
TFC_API void tfc_gateway_close(tfc_gateway *gateway);

/* The response to a request. Borrowed: valid during the callback. */
typedef struct tfc_reply {
	uint32_t size;
	int32_t code;           /* 0 or an enum tfc_err */
	const tfc_error *error; /* the failure, if code is below 0; never NULL */
	/* The result: a job id, JSON or lines, NUL-terminated; "" on failure, and if the request
	 * has no result */
	const char *text;
	size_t len; /* bytes of text, without the NUL */
	/* Of a submit, also of a failed one: the node id of its home. That is
	 * tfc_submit_options.home, else the node of the gateway if it is in this process, else the
	 * first node that was sent any part of the submit. When code is TFC_ELOST, TFC_ETIMEDOUT or
	 * TFC_ECANCELED, the job may exist on its home, and on no other node. "": nothing was sent,
	 * and there is no job; or the reply is to another request. */
	const char *home;
	const tfc_jobs *jobs;               /* of tfc_gateway_jobs; else NULL */
	const tfc_job_info *job;            /* of tfc_gateway_describe; else NULL */
	const tfc_members *members;         /* of tfc_gateway_members; else NULL */
	const tfc_explanation *explanation; /* of tfc_gateway_explain; else NULL */
} tfc_reply;

/** Runs once, in dispatch. `reply` is borrowed: valid during the callback. */
typedef void (*tfc_reply_fn)(void *user, const tfc_reply *reply);

/* Options that all requests have. */
typedef struct tfc_request_options {
	uint32_t size;
	uint32_t timeout_ms; /* the request's deadline; 0: none */
} tfc_request_options;

#define TFC_REQUEST_OPTIONS_INIT               \
	{                                      \
		sizeof(tfc_request_options), 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_request_options_init(tfc_request_options *options, uint32_t size);

/* Options of tfc_gateway_submit. */
typedef struct tfc_submit_options {
	uint32_t size;
	uint32_t timeout_ms;   /* the request's deadline; 0: none */
	const void *host_tag;  /* bytes of the host's own, in every event and hook; copied */
	uint64_t host_tag_len; /* in bytes, at most 4096 */
	/* Makes the submit idempotent: a name that the submitter chooses for this submit, at most
	 * 64 bytes. A second submit with the same key and the same job returns the id of the first
	 * job, also if that job was forgotten within the last 24 hours (a node keeps 10,000 keys of
	 * forgotten jobs). The key belongs to the user who submits; only the submit's home knows
	 * it. NULL: none; copied */
	const char *client_key;
	/* Reports how many bytes of the job's bundle the node has received. Runs in dispatch, with
	 * the request's user; not called if the node has the bundle already. `sent` may decrease
	 * over a new connection. NULL: none. */
	void (*progress)(void *user, uint64_t sent, uint64_t total);
	/* The node that is to accept the submit: 32 hex digits, `node_id` of tfc_gateway_members;
	 * needs client_key; copied. A host that must submit exactly once, also when it crashes in
	 * between, stores home and client_key first and gives the same ones again. NULL: the first
	 * node that is sent any part of the submit (tfc_reply.home). */
	const char *home;
} tfc_submit_options;

#define TFC_SUBMIT_OPTIONS_INIT                              \
	{                                                    \
		sizeof(tfc_submit_options), 0, 0, 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_submit_options_init(tfc_submit_options *options, uint32_t size);

/**
 * Submits a job, which is copied. The reply's text is the job id (16 hex digits). The reply comes
 * once the job is stored, if the node has a store; subscriptions report how the job proceeds.
 *
 * The job's `bundle` is a path on this machine, which this process must be able to read. It is sent
 * to a node elsewhere before the job is, unless the node has the same bytes already; when the
 * connection is lost meanwhile, sending continues over a new one. Canceling the request stops it.
 *
 * One submit makes one job at most. The first node that is sent any part of the submit is its home.
 * When no response comes, only that node is queried again, directly or through another node, for
 * tfc_gateway_options.reconnect_ms. Then the reply is TFC_ELOST and names the home: whether the job
 * exists is not known (tfc_reply.home). A gateway of a node in this process does not retry.
 *
 * Thread: the context's. Errors, of the call or in the reply: those of tfc_job_validate, TFC_ESTATE
 * (the node shuts down), TFC_EEXIST (the client_key belongs to another job or another user),
 * TFC_EPARSE (the stored record of the client_key is damaged), TFC_ELOST, TFC_ENOSPC or TFC_ESYS
 * (the job cannot be stored), TFC_EARCHIVE (the bundle cannot be packed, or arrived damaged),
 * TFC_ETOOBIG, TFC_EBUSY (too many bundles are being sent to the node), TFC_EACCES (the job has
 * secrets, and the connection is tcp without a key), TFC_ENOTSUP (the node's store keeps no
 * secrets, or the bundle would have to go to its home through another node), TFC_ENOMEM,
 * TFC_ETIMEDOUT, TFC_ECANCELED, TFC_EFORK.
 */
TFC_API int tfc_gateway_submit(tfc_gateway *gateway, const tfc_job *job,
			       const tfc_submit_options *options, tfc_reply_fn fn, void *user,
			       tfc_op **ret_op);

/* Options of tfc_gateway_stop. */
typedef struct tfc_stop_options {
	uint32_t size;
	uint32_t timeout_ms;   /* the request's deadline; 0: none */
	uint32_t interrupt_ms; /* send SIGINT first and wait this long; 0: begin with SIGTERM */
	uint32_t is_kill;      /* 1: SIGKILL at once, without a grace period */
} tfc_stop_options;

#define TFC_STOP_OPTIONS_INIT                     \
	{                                         \
		sizeof(tfc_stop_options), 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_stop_options_init(tfc_stop_options *options, uint32_t size);

/**
 * Stops a job: SIGTERM, the grace period of each task, SIGKILL. The reply, with the job's id as
 * text, comes as soon as the stop has begun; subscriptions report the end. A second stop with
 * is_kill ends the grace period. Stopping a stopped job is a success. Thread: the context's. Errors
 * in the reply: those of requests about one job, TFC_ESTATE (the job has succeeded or failed),
 * TFC_ELOST (also if the connection broke and `job` is not a whole id, see tfc_gateway_forget).
 */
TFC_API int tfc_gateway_stop(tfc_gateway *gateway, const char *job, const tfc_stop_options *options,
			     tfc_reply_fn fn, void *user, tfc_op **ret_op);

/* Options of tfc_gateway_signal. */
typedef struct tfc_signal_options {
	uint32_t size;
	uint32_t timeout_ms; /* the request's deadline; 0: none */
	uint32_t signal;     /* the signal's number, such as SIGTERM; 0: SIGKILL */
	uint32_t reserved;   /* 0 */
} tfc_signal_options;

#define TFC_SIGNAL_OPTIONS_INIT                     \
	{                                           \
		sizeof(tfc_signal_options), 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_signal_options_init(tfc_signal_options *options, uint32_t size);

/**
 * Sends a signal to a task ("worker/0") of a job, wherever it runs: to the process group of the
 * attempt that runs now. If the task ends, its restart policy decides what follows, as for any
 * other end. The reply, with the job's id as text, comes as soon as the signal is on its way.
 * Thread: the context's. Errors in the reply: those of requests about one job, TFC_EINVAL (no such
 * signal), TFC_ENOENT (no such task), TFC_ESTATE (no attempt of the task runs), TFC_ELOST (the
 * task's node is unreachable; or the connection broke: the request is not repeated, because a
 * second signal could reach the next attempt).
 */
TFC_API int tfc_gateway_signal(tfc_gateway *gateway, const char *job, const char *task,
			       const tfc_signal_options *options, tfc_reply_fn fn, void *user,
			       tfc_op **ret_op);

/**
 * Makes the Python processes of a task print the stacks of all their threads to stderr. The reply,
 * with the job's id as text, comes as soon as the request is on its way. Within some seconds a TASK
 * event reports the outcome, and where the main thread is if there is one such process: "worker/0:
 * in step (train.py:12); its stacks are in its log". Processes print stacks if the job has
 * `on_stall` "stacks" or "restart", or if the program has registered faulthandler for signal 58.
 * Thread: the context's. Errors in the reply: as tfc_gateway_signal, but the request is repeated
 * after a broken connection.
 */
TFC_API int tfc_gateway_stacks(tfc_gateway *gateway, const char *job, const char *task,
			       const tfc_request_options *options, tfc_reply_fn fn, void *user,
			       tfc_op **ret_op);

/**
 * Explains a job without running it. The reply has tfc_reply.explanation, and the same as a JSON
 * object: strategy, name, and for each task the node, address, port, cwd, argv and env that it
 * would get. The tasks are placed as they would be now. The ports of tasks on the gateway's node
 * are those that its pool would give now; they are not held afterwards. For a task on another node,
 * port, paths and variables are an example, made from the options of the gateway's node; whether
 * the port is free there is not checked. The job id in paths and variables is all zeros. `env` has
 * the variables that differ from the node's own environment, and null for each value of secret_env;
 * `inherited` is the number of the other variables. Hooks are not called. Thread: the context's.
 * Errors in the reply: those of tfc_job_validate, of tfc_port_acquire and of tfc_spec_tf_config,
 * TFC_EEXHAUSTED (the job would wait; the text says for what), TFC_ENOENT (a secret or a user does
 * not exist, or the only node can never run the job), TFC_ENOTSUP (the job follows an upstream, and
 * there are several nodes), TFC_ENOMEM.
 */
TFC_API int tfc_gateway_explain(tfc_gateway *gateway, const tfc_job *job,
				const tfc_request_options *options, tfc_reply_fn fn, void *user,
				tfc_op **ret_op);

/**
 * Lists the jobs of all nodes. Ended jobs are listed until they are forgotten. The reply has
 * tfc_reply.jobs, and the same as a JSON object with two lists.
 *
 * `jobs` has for each job: job (the id), name, state, text, maintainer (a node), generation, epoch,
 * submitted, started, ended, age_s, task_count, ready (the number of ready tasks), restarts (of all
 * its tasks), incidents (see tfc_job_info) and nodes (where its tasks are, at most 64). An ended
 * job also has reason, exit and decided_by. Times are UTC, "2026-11-23T08:44:54.000000Z". A job
 * whose record in the store is damaged has the state "damaged", and its text says what is wrong.
 *
 * `not_asked` has node and reason of each node whose jobs are missing, because it cannot be
 * reached, does not answer within 3 s, or refuses. Thread: the context's. Errors: those of all
 * requests.
 */
TFC_API int tfc_gateway_jobs(tfc_gateway *gateway, const tfc_request_options *options,
			     tfc_reply_fn fn, void *user, tfc_op **ret_op);

/**
 * Describes one job. The reply has tfc_reply.job with its tasks, and the same as a JSON object: the
 * keys of a listed job, and `tasks`. Each task has task, node, address, pid, attempt, generation,
 * started, isolation, state, restarts_left and last_end. A task among the first 128 that is not
 * ready yet, or that was stopped by SIGSTOP, also has `doing`: what its processes are doing, for
 * people. A job with "warm" that has not ended also has `zygotes`, the processes that its attempts
 * are forked from, each with node, interpreter, modules, state, pid, attempts, started, rss_bytes
 * and anonymous_bytes. Thread: the context's. Errors in the reply: those of requests about one job.
 */
TFC_API int tfc_gateway_describe(tfc_gateway *gateway, const char *job,
				 const tfc_request_options *options, tfc_reply_fn fn, void *user,
				 tfc_op **ret_op);

/**
 * Returns the TF_CONFIG that a task ("worker/0") of a job was given, as JSON. Thread: the
 * context's. Errors in the reply: those of requests about one job, TFC_ENOENT (no such task),
 * TFC_ESTATE (the task is not placed yet), TFC_ENOTSUP (the job's framework has no TF_CONFIG),
 * those of tfc_spec_tf_config.
 */
TFC_API int tfc_gateway_tf_config(tfc_gateway *gateway, const char *job, const char *task,
				  const tfc_request_options *options, tfc_reply_fn fn, void *user,
				  tfc_op **ret_op);

/**
 * Returns some of a task's variables, one "NAME=value" on each line: those that describe the
 * cluster to its framework (tfc_spec_environ), and TFC_EPOCH and TFC_GENERATION, by which a program
 * fences its storage. These two have the job's present values; a running task has those with which
 * it was started. Thread: the context's. Errors in the reply: as tfc_gateway_tf_config, those of
 * tfc_spec_environ.
 */
TFC_API int tfc_gateway_environ(tfc_gateway *gateway, const char *job, const char *task,
				const tfc_request_options *options, tfc_reply_fn fn, void *user,
				tfc_op **ret_op);

/**
 * Removes a job that has ended, and its logs; its subscriptions end with TFC_EVENT_LOST. A job
 * whose record is damaged is removed by its id or a prefix of it; its name is not known. Thread:
 * the context's. Errors in the reply: TFC_ENOENT, TFC_EINVAL (ambiguous), TFC_ESTATE (the job has
 * not ended), TFC_ELOST (the connection broke, and `job` is not a whole id: the request is not
 * repeated, because the name or prefix could mean another job by then).
 */
TFC_API int tfc_gateway_forget(tfc_gateway *gateway, const char *job,
			       const tfc_request_options *options, tfc_reply_fn fn, void *user,
			       tfc_op **ret_op);

/**
 * Lists the nodes of the cluster: tfc_reply.members, and the same as a JSON list of name, state,
 * address, node_id, self, draining, and what each offers: slots, memory, gpus, labels. Thread: the
 * context's. Errors: those of all requests.
 */
TFC_API int tfc_gateway_members(tfc_gateway *gateway, const tfc_request_options *options,
				tfc_reply_fn fn, void *user, tfc_op **ret_op);

/**
 * Drains the node with the name `node`: it accepts no new task, and its running tasks move to other
 * nodes as their restart policy allows. It still accepts and maintains jobs, whose tasks run on
 * other nodes. The reply comes once the drain has begun. A drain ends with tfc_gateway_undrain, or
 * when the node is closed. Thread: the context's. Errors in the reply: TFC_ENOENT (no such member),
 * TFC_ELOST (the node cannot be reached now), TFC_ETIMEDOUT (it does not answer within 5 s).
 */
TFC_API int tfc_gateway_drain(tfc_gateway *gateway, const char *node,
			      const tfc_request_options *options, tfc_reply_fn fn, void *user,
			      tfc_op **ret_op);

/**
 * Ends a drain: the node accepts tasks again. Thread: the context's. Errors in the reply: as
 * tfc_gateway_drain.
 */
TFC_API int tfc_gateway_undrain(tfc_gateway *gateway, const char *node,
				const tfc_request_options *options, tfc_reply_fn fn, void *user,
				tfc_op **ret_op);

enum tfc_event_kind {
	/* the job changed its state, or text says what it waits for in the same state: a task that
	 * does not start, a node that is unreachable or responds again, a store that does not take
	 * the job's events, which are reported once they are stored */
	TFC_EVENT_JOB = 1,
	/* a task changed its state, or has stalled; or text says what happens to it in the same
	 * state: a signal has stopped it, or it continues; its output is being lost, or no longer
	 */
	TFC_EVENT_TASK = 2,
	TFC_EVENT_OUTPUT = 3, /* a line of output */
	/* Output of a task is missing here. If `text` is "", `data_len` bytes are lost. Otherwise
	 * an unknown number of bytes (data_len 0) is on a node that cannot be reached; they come as
	 * OUTPUT events if the node is back before the job ends. */
	TFC_EVENT_GAP = 4,
	/* terminal: the job has ended, all its tasks are reaped, and the end is stored: the job
	 * never runs again */
	TFC_EVENT_END = 5,
	/* terminal: the subscription cannot continue, error_code and text say why; the job may
	 * still run. TFC_ELOST before any other event: the job is, or may be, on an unreachable
	 * node, which text names. TFC_EEXIST: while the other nodes were searched for the job, it
	 * was submitted to the node in this process: subscribe again. */
	TFC_EVENT_LOST = 6,
	TFC_EVENT_LIVE = 7, /* the replay is over; only with wants_live */

	/* Of tfc_gateway_watch: */
	TFC_EVENT_SUBMITTED = 8,  /* a job is reported first, also after NODE_RESET of its node */
	TFC_EVENT_CHANGED = 9,    /* job_state, generation or restarts of a job has changed */
	TFC_EVENT_ENDED = 10,     /* a job has ended; it does not change any more */
	TFC_EVENT_FORGOTTEN = 11, /* a job was removed; it may not have been reported before */
	/* All jobs of `node` are now reported again, until NODE_SEEN. A job that was reported
	 * before and is not among them was forgotten. */
	TFC_EVENT_NODE_RESET = 12,
	TFC_EVENT_NODE_SEEN = 13, /* all that is known of the jobs of `node` was reported */
	/* The jobs of `node` cannot be seen now, as text says; NODE_SEEN follows when they can. */
	TFC_EVENT_NODE_UNSEEN = 14,

	/* The current text of a line that its task has not finished, such as the progress bars of
	 * tqdm and Keras: it replaces the previous text of this task and stream, until the next
	 * OUTPUT of the same or the end of the attempt. At most about two per second and line; only
	 * with wants_progress. */
	TFC_EVENT_PROGRESS = 15,
	/* Of a subscription with wants_reconnects: */
	/* The node that maintains the job, or the way to it, does not respond. If the connection is
	 * lost, the subscription retries, and text says for how long at most; LOST follows if the
	 * time is over. If the connection is open and nothing was received for 3 s, also no
	 * response to a heartbeat, the subscription waits, and error_code is TFC_ETIMEDOUT. The
	 * same if the first connection takes more than 3 s. The event comes again when the reason
	 * changes. */
	TFC_EVENT_RECONNECTING = 16,
	/* The subscription continues where it was. */
	TFC_EVENT_RECONNECTED = 17,
	/* A line that a task has written to TFC_REPORT_FD, for programs and not for people: as
	 * OUTPUT, but data has all bytes of the line before its "\n". Only with wants_reports. */
	TFC_EVENT_REPORT = 18,
};

/*
 * An event. Borrowed: valid during the callback. Strings are never NULL. `kind` decides which
 * fields have a meaning; the others are 0 or "". When a subscription replays an event, also after a
 * restart of the host or the node, the event has the same fields as the first time. Only LIVE,
 * LOST, RECONNECTING, RECONNECTED and the JOB events about the store depend on when they are
 * reported.
 */
typedef struct tfc_event {
	uint32_t size; /* of the library's struct; in a copy, the host sets sizeof(tfc_event) */
	uint32_t kind; /* enum tfc_event_kind */
	/* CLOCK_REALTIME of the node that observed it, in nanoseconds since 1970. When it happened;
	 * SUBMITTED, ENDED: when the job was submitted, ended; LIVE, LOST, RECONNECTING,
	 * RECONNECTED and the other events of a watch: when it was reported */
	uint64_t time_ns;
	uint64_t epoch; /* grows when the job continues after a restart of its node; from 1 */

	/* The job. */
	const char *job;       /* its id */
	const char *name;      /* its name */
	const void *host_tag;  /* tfc_submit_options.host_tag */
	uint64_t host_tag_len; /* in bytes */
	uint32_t job_state;  /* enum tfc_job_state; OUTPUT, REPORT, GAP: as of the last JOB event */
	uint32_t generation; /* of the group, from 1; OUTPUT, REPORT, GAP: of the attempt */
	/* Opaque: a subscription or watch that begins with it continues after this event. "": in
	 * LOST, RECONNECTING and RECONNECTED, and in all events with skip_output and without
	 * wants_reports */
	const char *cursor;

	/* The task: TASK, OUTPUT, REPORT, PROGRESS, GAP. END: the deciding task; task_type is "" if
	 * none decided. */
	const char *task_type;
	uint32_t task_index; /* among the tasks of task_type, from 0 */
	uint32_t attempt;    /* from 1 */
	const char *node;    /* name of the task's node; of a watch: of the node that maintains the
				job, or that the event is about; RECONNECTING: of the node that
				does not respond, if it is known */

	/* TASK */
	const char *address; /* "host:port"; "": it has no port */
	uint32_t task_state; /* enum tfc_task_state */
	int32_t pid;         /* 0: it never ran */
	uint32_t isolation;  /* enum tfc_isolation; 0: it never ran */

	/* How an attempt ended: all fields, in a TASK event whose task_state is TFC_TASK_EXITED or
	 * above. How the job ended: reason, exit_code, signal and error_code, in END and ENDED. A
	 * TASK event of a stall has only reason, TFC_END_STALLED; of a task that a signal has
	 * stopped, or that continues, none of them. */
	uint32_t reason;      /* enum tfc_end_reason */
	uint32_t exit_reason; /* enum tfc_exit_reason: how the process itself ended */
	int32_t exit_code;    /* of a process that exited: 0 to 255; else 0 */
	int32_t signal;       /* the signal that killed the process; else 0 */
	/* enum tfc_err: why the process never ran; LOST, RECONNECTING, NODE_UNSEEN: the code of
	 * `text`; else 0 */
	int32_t error_code;
	uint64_t user_us;     /* CPU time in user mode, microseconds; see tfc_process_event */
	uint64_t system_us;   /* the same, in the kernel */
	uint64_t max_rss_kib; /* largest resident set */
	const char *text; /* TASK, JOB, GAP, END, LOST, RECONNECTING, RECONNECTED, and of a watch
			     SUBMITTED, CHANGED, ENDED, NODE_UNSEEN: a message for people; or "" */

	/* END */
	const char *const *log_tail; /* last lines of the deciding task; NULL-terminated */
	/* A message for each task that failed for good without failing the job; it begins with the
	 * task's name. NULL-terminated; at most 32, then one with the number of the others. */
	const char *const *ignored_failures;

	/* OUTPUT, REPORT, PROGRESS, GAP */
	const char *data;  /* the line without its end and without what a carriage return overwrote;
			      any bytes; not terminated */
	uint64_t data_len; /* bytes of data, at most 65536; GAP: see TFC_EVENT_GAP */
	uint32_t stream;   /* enum tfc_stream */
	uint32_t is_partial; /* OUTPUT, REPORT: the next event of this task and stream continues the
				line */

	/* SUBMITTED, CHANGED, ENDED */
	uint64_t version;  /* of the job's state: grows with each change, also over restarts of its
			      node; from 1 */
	uint64_t restarts; /* of its tasks, in all */

	/* END of a failed job: the line of the deciding task's output that names the reason, such
	 * as the exception of a traceback, at most 511 bytes; or "" */
	const char *error_line;
} tfc_event;

/**
 * Returns the event as one JSON object without a newline, {"time":"...Z","event":"output",
 * "task":"worker/0",...}; doc/guide/embedding.md lists the keys of each kind. Bytes of output that
 * are not UTF-8 become \xNN. The caller frees *ret_json with tfc_free. Thread: any, while the event
 * is valid. Errors: TFC_EINVAL (NULL, or a kind that this version does not know), TFC_ENOMEM.
 */
TFC_API int tfc_event_json(const tfc_event *event, char **ret_json);

/**
 * Returns the exit status for a program that ran the job, by the rules of a shell:
 * - 0: the job succeeded.
 * - The exit code of the deciding task, or 128 + the signal that killed it.
 * - 124: deadline or stall; 126: not executable; 127: not found; 125: any other failure.
 * - 128 + `signal`: the job was stopped. A `signal` of 0 counts as SIGTERM: a host that stopped the
 *   job because of another signal sets `signal` in its copy of the event.
 *
 * Thread: any. Errors: TFC_EINVAL (not a TFC_EVENT_END).
 */
TFC_API int tfc_event_exit_status(const tfc_event *event);

/** Runs in dispatch. TFC_EVENT_END or TFC_EVENT_LOST is the last event; close the subscription all
 * the same. */
typedef void (*tfc_event_fn)(void *user, const tfc_event *event);

/* Options of a subscription. */
typedef struct tfc_subscribe_options {
	uint32_t size;
	uint32_t skip_output; /* 1: no OUTPUT and GAP events */
	/* Of an event: continue after it. NULL (not ""): from the beginning; copied */
	const char *cursor;
	uint32_t wants_live;     /* 1: report LIVE once the replay is over */
	uint32_t wants_progress; /* 1: report PROGRESS of unfinished lines */
	/* 1: report RECONNECTING and RECONNECTED. 0: a connection that is lost, or whose node does
	 * not respond, for more than 3 s is only logged. */
	uint32_t wants_reconnects;
	/* 1: report the lines that tasks write to TFC_REPORT_FD, if the job has the key "reports".
	 * With skip_output they come all the same, and so do GAP events and cursors. */
	uint32_t wants_reports;
} tfc_subscribe_options;

#define TFC_SUBSCRIBE_OPTIONS_INIT                              \
	{                                                       \
		sizeof(tfc_subscribe_options), 0, 0, 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_subscribe_options_init(tfc_subscribe_options *options, uint32_t size);

/**
 * Follows a job: replays its events and output so far, then reports what happens next, until the
 * job ends. The lines of an attempt keep their order and come before the TASK event of its end.
 * Output that exists when a subscription begins comes task by task, not in the order of its time.
 * Only output on a node that cannot be reached at that time comes later: a GAP event reports it,
 * and the lines come once the node is back. Output is read from the logs when the host dispatches:
 * it is not queued for a slow subscriber, which slows no task.
 *
 * A subscription by name or prefix follows the job that it found first, also if the name means
 * another job later.
 *
 * A gateway of a node in this process searches for the job on that node first, and on the other
 * nodes only if that node has no job with this id, prefix or name.
 *
 * The caller owns *ret_sub. Thread: the context's. Errors: TFC_EINVAL (gateway, fn or ret_sub is
 * NULL), TFC_ENOTSUP, TFC_ESTATE (the node is closed), TFC_ENOMEM, TFC_EFORK. A job or cursor that
 * cannot be followed is reported by TFC_EVENT_LOST in a later dispatch, wherever the job is:
 * TFC_ENOENT (no such job), TFC_EINVAL (the cursor is not valid, or `job` is ambiguous), TFC_EPARSE
 * (the job's record is damaged), those of every reply.
 */
TFC_API int tfc_gateway_subscribe(tfc_gateway *gateway, const char *job,
				  const tfc_subscribe_options *options, tfc_event_fn fn, void *user,
				  tfc_sub **ret_sub);

/**
 * Submits a job and follows it: tfc_gateway_submit, and a tfc_gateway_subscribe to the job as soon
 * as it exists, in one call. reply_fn, event_fn and submit_options.progress get the same `user`.
 * reply_fn is called once, with the reply to the submit (tfc_reply.text is the job id) and before
 * all events. When its code is below 0 the subscription is over and reports nothing. Otherwise
 * event_fn reports the job from its beginning; a subscription that cannot begin reports
 * TFC_EVENT_LOST. subscribe_options.cursor is for a host that repeats a submit with its client_key.
 *
 * tfc_sub_close before the reply cancels the submit, and reply_fn is not called. The job may exist
 * all the same: a host that has to know sets client_key and home, and submits again. After the
 * reply tfc_sub_close does not affect the job.
 *
 * submit_options and subscribe_options may be NULL. The caller owns *ret_sub. Thread: the
 * context's. Errors, of the call or in the reply: those of tfc_gateway_submit; of the call also
 * TFC_EINVAL (reply_fn, event_fn or ret_sub is NULL).
 */
TFC_API int tfc_gateway_run(tfc_gateway *gateway, const tfc_job *job,
			    const tfc_submit_options *submit_options,
			    const tfc_subscribe_options *subscribe_options, tfc_reply_fn reply_fn,
			    tfc_event_fn event_fn, void *user, tfc_sub **ret_sub);

/* Options of a watch. */
typedef struct tfc_watch_options {
	uint32_t size;
	uint32_t wants_live; /* 1: report LIVE once everything known was reported */
	const char *cursor;  /* of an event of a watch: continue after it; NULL or "": from the
				beginning; copied */
} tfc_watch_options;

#define TFC_WATCH_OPTIONS_INIT                  \
	{                                       \
		sizeof(tfc_watch_options), 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_watch_options_init(tfc_watch_options *options, uint32_t size);

/**
 * Watches all jobs of all nodes that are members or become members. A job is reported by SUBMITTED
 * at first, CHANGED as it proceeds, ENDED and FORGOTTEN. These events have the job's id, name,
 * host_tag, job_state, generation, epoch, version, restarts and text, and the node that maintains
 * it; FORGOTTEN has only the id and the node. Jobs whose record is damaged are not reported. A
 * watch is a subscription without an end: pause, resume and close it as one.
 *
 * Changes are not queued. A reader that is slower than the changes of a job gets the latest state
 * of that job. The same version may come twice: the reader must ignore one that it has. SUBMITTED,
 * ENDED and FORGOTTEN of a job come in this order. SUBMITTED has the state of the job when it is
 * reported. For a job that was submitted and forgotten meanwhile, only FORGOTTEN comes.
 *
 * Each node is watched separately. The watch of a node begins with NODE_RESET, each job of the node
 * as SUBMITTED (and ENDED), and NODE_SEEN. It begins again when events may have been missed: the
 * node has restarted, or has forgotten more jobs than it remembers. Otherwise, after a lost
 * connection or after a cursor, it reports what has happened since, and NODE_SEEN. NODE_UNSEEN
 * reports a node that cannot be reached, refuses, does not respond for 3 s at first, or is no
 * longer a member. With wants_live, LIVE comes once each member is seen or unseen.
 *
 * A cursor holds the position for each node, at most 115 bytes a node. A cursor of more than 4,096
 * nodes is not valid. Between NODE_RESET and NODE_SEEN it does not advance for that node: a watch
 * that continues there replays the node.
 *
 * The caller owns *ret_sub. Thread: the context's. Errors: as tfc_gateway_subscribe. A watch that
 * cannot begin or continue reports TFC_EVENT_LOST: TFC_EINVAL (the cursor), TFC_EACCES, TFC_ENOTSUP
 * (a node of an older version), TFC_EUNREACH. If the host's `authorize` refuses TFC_VERB_WATCH for
 * a job, the peer gets no event of that job.
 */
TFC_API int tfc_gateway_watch(tfc_gateway *gateway, const tfc_watch_options *options,
			      tfc_event_fn fn, void *user, tfc_sub **ret_sub);

/** Pauses a subscription: no event comes until tfc_sub_resume; pauses are not counted. The reply of
 * tfc_gateway_run comes all the same. Legal inside a callback. Thread: the context's. */
TFC_API void tfc_sub_pause(tfc_sub *sub);

/** Resumes a subscription, in a later dispatch. Thread: the context's. */
TFC_API void tfc_sub_resume(tfc_sub *sub);

/**
 * Closes a subscription: no event comes after this. Legal inside a callback, and before or after
 * its gateway and its node are closed. NULL is a no-op. Thread: the context's.
 */
TFC_API void tfc_sub_close(tfc_sub *sub);

#ifdef __cplusplus
}
#endif
#endif
