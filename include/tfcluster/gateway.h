/*
 * The gateway: where jobs are submitted, listed, stopped and followed.
 *
 * Requests are asynchronous: each calls its tfc_reply_fn exactly once, inside dispatch, unless the
 * request itself returned an error. A subscription replays what a job has said so far and follows
 * it to its end.
 *
 * With several machines every reply may also be TFC_EACCES (the key, the user or the host's
 * `authorize` does not allow it), TFC_EUNREACH (no node answers), TFC_ELOST (the node that keeps
 * the job cannot be asked now), TFC_EAGAIN (the node still reads its store), TFC_ETOOBIG (the
 * answer is over 16 MiB) or TFC_ETIMEDOUT.
 */
#ifndef TFCLUSTER_GATEWAY_H
#define TFCLUSTER_GATEWAY_H

#include <stddef.h>
#include <stdint.h>
#include <tfcluster/ctx.h>
#include <tfcluster/job.h>
#include <tfcluster/node.h>
#include <tfcluster/process.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfc_gateway tfc_gateway;
typedef struct tfc_sub tfc_sub;

/* Options of a gateway. */
typedef struct tfc_gateway_options {
	uint32_t size;
	uint32_t reserved; /* 0 */
	tfc_node *node;    /* the node in this process; NULL: the one at `address` */
	/* "unix:PATH" or "tcp://HOST:PORT" of a node, or several, separated by commas, of which the
	 * first that answers is asked; copied */
	const char *address;
	const char *key_file;  /* the key to show; NULL: none, as over unix; read at once */
	uint32_t connect_ms;   /* how long one address is tried; 0: 5000 */
	uint32_t reconnect_ms; /* for how long a lost one is looked for; 0: 300000 */
	/* with an address: where the bundle of a job is packed before it goes to the node, in a
	 * private directory that is removed with the gateway; NULL: /tmp; copied */
	const char *temp_dir;
} tfc_gateway_options;

#define TFC_GATEWAY_OPTIONS_INIT                                 \
	{                                                        \
		sizeof(tfc_gateway_options), 0, 0, 0, 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_gateway_options_init(tfc_gateway_options *options, uint32_t size);

/**
 * Opens a gateway: on a node in this process, or on one elsewhere, to which it connects with the
 * first request; a connection that is lost is made again while something waits for it, and
 * subscriptions go on where they were. The caller owns *ret_gateway. Thread: the context's.
 * Errors: TFC_EINVAL (no node and no address, or both), those of a key file that cannot be read or
 * is open to others, TFC_ENOTSUP, TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_gateway_open(tfc_ctx *ctx, const tfc_gateway_options *options,
			     tfc_gateway **ret_gateway);

/**
 * Opens a gateway from one JSON object, for bindings, which then need no struct of options: on
 * `node`, or with `node` NULL on the node at the key "gateway". Keys: "gateway" (the address),
 * "key" (the key file), "connect" and "reconnect" (seconds), "temp-dir"; see tfc_gateway_options.
 * `file` is a name for messages, or NULL. The caller owns *ret_gateway. Thread: the context's.
 * Errors: TFC_EPARSE and TFC_EINVAL, which name the key and its line; those of tfc_gateway_open.
 */
TFC_API int tfc_gateway_open_json(tfc_ctx *ctx, tfc_node *node, const char *json, size_t len,
				  const char *file, tfc_gateway **ret_gateway);

/**
 * Closes a gateway: its requests end with TFC_ECANCELED in a later dispatch, its subscriptions tell
 * nothing more (close them as well, before or after); the jobs go on. Legal inside a callback, and
 * before or after its node is closed. NULL is a no-op. Thread: the context's.
 */
TFC_API void tfc_gateway_close(tfc_gateway *gateway);

/* The answer to a request. Borrowed: valid during the callback. */
typedef struct tfc_reply {
	uint32_t size;
	int32_t code;           /* 0 or an enum tfc_err */
	const tfc_error *error; /* the sentence when code is below 0 */
	const char *text;       /* what was asked for: a job id or JSON; "" on failure */
	size_t len;             /* bytes of text */
	/* Of a submit: the node id of its home, whatever the code is: tfc_submit_options.home, or
	 * else the node that was sent anything of it, as the one in this process always was. When
	 * code is TFC_ELOST, TFC_ETIMEDOUT or TFC_ECANCELED the job may have been made there and
	 * nowhere else. "": it is no valid submit, or was sent nowhere, and there is no job; and
	 * of all other requests. */
	const char *home;
} tfc_reply;

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
	const void *host_tag;  /* the host's own bytes; copied; come back in every event and hook */
	uint64_t host_tag_len; /* in bytes, at most 4096 */
	/* The submitter's own name for this submit, at most 64 bytes: a second one with the same
	 * key and the same job, after a lost reply, gives the id of the first, also when that was
	 * forgotten within the last 24 hours. It belongs to the user who submits, and is known to
	 * the submit's home alone. NULL: none. */
	const char *client_key;
	/* While the job's bundle goes to the node: how many of its bytes are there. In dispatch,
	 * with the request's user; not called when the node has it already. NULL: none. */
	void (*progress)(void *user, uint64_t sent, uint64_t total);
	/* The submit's home: the node (32 hex digits, `node_id` of tfc_gateway_members) that makes
	 * the job and knows the client key, which must be given, too; copied. A host that is to
	 * submit once whatever becomes of itself keeps both before it submits, and gives them
	 * again. NULL: the node that is sent the first byte (tfc_reply.home). */
	const char *home;
} tfc_submit_options;

#define TFC_SUBMIT_OPTIONS_INIT                              \
	{                                                    \
		sizeof(tfc_submit_options), 0, 0, 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_submit_options_init(tfc_submit_options *options, uint32_t size);

/**
 * Submits a job, which is copied. The reply's text is the job id (16 hex digits), and comes once
 * the job is stored, where there is a store; what becomes of the job is told to subscribers.
 *
 * The job's `bundle` is a path of this machine, and is read with this process's rights. To a node
 * elsewhere it goes before the job does, unless the node has the same bytes already; a connection
 * that is lost on the way is made again. Canceling the request stops it.
 *
 * One submit is one job. The first node that is sent anything of it is its home: when no answer
 * comes, that node alone is asked again, directly or through another node, for
 * tfc_gateway_options.reconnect_ms; then the reply is TFC_ELOST, names it, and whether there is a
 * job is not known (tfc_reply.home). A gateway on a node in this process does not wait.
 *
 * `options` and `ret_op` may be NULL. Thread: the context's. Errors, here or in the reply: those of
 * tfc_job_validate, TFC_ESTATE (draining), TFC_EEXIST (the client_key is of another job, or another
 * user's), TFC_EPARSE (what is stored of the client_key is damaged), TFC_ELOST, TFC_ENOSPC,
 * TFC_ESYS (it cannot be stored), TFC_EARCHIVE (the bundle cannot be packed, or was damaged on its
 * way), TFC_ETOOBIG, TFC_EBUSY (too many bundles are on their way to the node), TFC_EACCES (the job
 * has secrets, and the connection is tcp without a key), TFC_ENOMEM,
 * TFC_ETIMEDOUT, TFC_ECANCELED, TFC_EFORK.
 */
TFC_API int tfc_gateway_submit(tfc_gateway *gateway, const tfc_job *job,
			       const tfc_submit_options *options, tfc_reply_fn fn, void *user,
			       tfc_op **ret_op);

/* Options of tfc_gateway_stop. */
typedef struct tfc_stop_options {
	uint32_t size;
	uint32_t timeout_ms;   /* the request's deadline; 0: none */
	uint32_t interrupt_ms; /* first send SIGINT and wait this long; 0: begin with TERM */
	uint32_t is_kill;      /* 1: no grace at all */
} tfc_stop_options;

#define TFC_STOP_OPTIONS_INIT                     \
	{                                         \
		sizeof(tfc_stop_options), 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_stop_options_init(tfc_stop_options *options, uint32_t size);

/**
 * Stops a job: TERM, its grace, KILL. The reply comes as soon as the stop has begun; the end comes
 * to subscribers. Stopping again with is_kill shortens the grace to nothing. Thread: the context's.
 * Errors in the reply: TFC_ENOENT (no such job), TFC_ESTATE (it has ended, and was not stopped).
 */
TFC_API int tfc_gateway_stop(tfc_gateway *gateway, const char *job, const tfc_stop_options *options,
			     tfc_reply_fn fn, void *user, tfc_op **ret_op);

/**
 * What a job would be given here, as a JSON object, without running anything: its strategy, and of
 * each task node, address, port, cwd, argv and env. The ports are those that the pool would give
 * now; they are held only during the call, and the id in paths and variables is all zeros. In env
 * stand the variables that the task does not have from the node's environment as they are; those
 * are only counted (`inherited`). null stands for each value of secret_env. Hooks are not called.
 * Thread: the context's. Errors in the reply: those of tfc_job_validate, of a port that is missing,
 * of a spec that is refused, TFC_ENOENT (a secret or user that is not there), TFC_ENOMEM.
 */
TFC_API int tfc_gateway_explain(tfc_gateway *gateway, const tfc_job *job,
				const tfc_request_options *options, tfc_reply_fn fn, void *user,
				tfc_op **ret_op);

/**
 * All jobs in brief, as a JSON object: `jobs`, a list with job (the id), name, state, text,
 * maintainer, generation, epoch and age_s of each, how many tasks it has (`task_count`), how many
 * of these are `ready`, how often they were restarted (`restarts`), and on which `nodes` they are,
 * at most 64 of them; and `not_asked`, a list with `node` and `reason` of each node whose jobs are
 * missing, because it cannot be reached, does not answer within 3 s, or refuses. Ended jobs are
 * among them until they are forgotten. Thread: the context's. Errors as in all requests.
 */
TFC_API int tfc_gateway_jobs(tfc_gateway *gateway, const tfc_request_options *options,
			     tfc_reply_fn fn, void *user, tfc_op **ret_op);

/**
 * One job, as a JSON object: id, name, state, generation, epoch, and its tasks with node, address,
 * pid, attempt, isolation, state and last end; of a task that is not ready yet, or that somebody
 * stopped, also what it is `doing`, in words, as far as it is among the first 128. `job` is an id,
 * an unambiguous prefix of one, or a name. Thread: the context's. Errors in the reply: TFC_ENOENT,
 * TFC_EINVAL (ambiguous).
 */
TFC_API int tfc_gateway_describe(tfc_gateway *gateway, const char *job,
				 const tfc_request_options *options, tfc_reply_fn fn, void *user,
				 tfc_op **ret_op);

/**
 * TF_CONFIG of one task ("worker/0") of a job as JSON, as it was given to it. Thread: the
 * context's. Errors in the reply: TFC_ENOENT, TFC_ESTATE (not placed yet),
 * TFC_ENOTSUP (the job's framework has no TF_CONFIG), those of tfc_spec_tf_config.
 */
TFC_API int tfc_gateway_tf_config(tfc_gateway *gateway, const char *job, const char *task,
				  const tfc_request_options *options, tfc_reply_fn fn, void *user,
				  tfc_op **ret_op);

/**
 * The variables by which a task's framework knows the cluster, "NAME=value" a line: TF_CONFIG, or
 * what ranks are told by (tfc_spec_environ); and the two by which a program fences its storage,
 * TFC_EPOCH and TFC_GENERATION, as the job's next launch has them. Nothing else of its environment.
 * Thread: the context's. Errors in the reply: as tfc_gateway_tf_config, those of tfc_spec_environ.
 */
TFC_API int tfc_gateway_environ(tfc_gateway *gateway, const char *job, const char *task,
				const tfc_request_options *options, tfc_reply_fn fn, void *user,
				tfc_op **ret_op);

/**
 * Forgets a job that has ended, and its logs; subscriptions to it are told TFC_EVENT_LOST. A job
 * whose record is damaged is removed by its id or a prefix of it. Thread: the context's. Errors in
 * the reply: TFC_ENOENT, TFC_EINVAL (ambiguous), TFC_ESTATE (it has not ended), TFC_ELOST (the
 * connection broke, and `job` is no whole id: by a name or a part of an id it is not asked for
 * twice, for that may mean another job then).
 */
TFC_API int tfc_gateway_forget(tfc_gateway *gateway, const char *job,
			       const tfc_request_options *options, tfc_reply_fn fn, void *user,
			       tfc_op **ret_op);

/**
 * The nodes of the cluster as a JSON list: name, state, address, what each offers. Thread: the
 * context's. Errors as in all requests.
 */
TFC_API int tfc_gateway_members(tfc_gateway *gateway, const tfc_request_options *options,
				tfc_reply_fn fn, void *user, tfc_op **ret_op);

/**
 * Drains a node: it accepts no new task, and its running tasks move to other nodes as their restart
 * policy allows. Thread: the context's. Errors in the reply: TFC_ENOENT (no such member), TFC_ELOST
 * (the node cannot be reached now), TFC_EACCES.
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

enum tfc_job_state {
	TFC_JOB_PENDING = 1,
	TFC_JOB_STARTING = 2,
	TFC_JOB_RUNNING = 3,
	TFC_JOB_RESTARTING = 4,
	TFC_JOB_STOPPING = 5,
	TFC_JOB_SUCCEEDED = 6,
	TFC_JOB_FAILED = 7,
	TFC_JOB_STOPPED = 8,
};

enum tfc_task_state {
	TFC_TASK_PENDING = 1,
	TFC_TASK_HOLDING = 2,  /* its port is held */
	TFC_TASK_STARTING = 3, /* its process is being started */
	TFC_TASK_RUNNING = 4,  /* its program runs, and does not listen yet */
	TFC_TASK_READY = 5,    /* it listens; where TensorFlow never listens: its program runs */
	TFC_TASK_EXITED =
		6, /* ended by itself with code 0, or with any code that decides nothing */
	TFC_TASK_FAILED = 7,
	TFC_TASK_LOST = 8,
	TFC_TASK_STOPPED = 9, /* ended because it was told to */
};

/** "running", "ready", ...; "?" for an unknown one. Static strings. Thread: any. Errors: none. */
TFC_API const char *tfc_job_state_name(uint32_t state);
TFC_API const char *tfc_task_state_name(uint32_t state);

enum tfc_event_kind {
	TFC_EVENT_JOB = 1,    /* the job changed its state */
	TFC_EVENT_TASK = 2,   /* a task changed its state */
	TFC_EVENT_OUTPUT = 3, /* a line of output */
	TFC_EVENT_GAP = 4,    /* `data_len` bytes of a task's output are lost; or, with a `text`, an
				 unknown number of them is out of reach now: they come as OUTPUT
				 when their node is back before the job has ended */
	TFC_EVENT_END = 5,    /* terminal: the job has ended: all its tasks are reaped, and its end
				 is stored, so that it never runs again */
	TFC_EVENT_LOST = 6,   /* terminal: the subscription cannot go on: `text`, and in `status`
				 enum tfc_err; the job may go on. TFC_EEXIST: it was submitted to
				 this node after it had been looked for; subscribe to it again */
	TFC_EVENT_LIVE = 7,   /* all that there was is told; only with wants_live */
};

/* Why a job or an attempt ended, beyond its number. */
enum tfc_end_reason {
	TFC_END_NONE = 0,
	TFC_END_EXIT = 1,      /* `status` is the deciding task's exit code */
	TFC_END_SIGNAL = 2,    /* `status` is the signal that the deciding task died of */
	TFC_END_DEADLINE = 3,  /* deadline_s, start_deadline_s or pending_deadline_s; text names
				  what was waited for */
	TFC_END_STOPPED = 4,   /* somebody asked for it */
	TFC_END_LOST = 5,      /* a task ended without a status */
	TFC_END_NOT_FOUND = 6, /* the program does not exist */
	TFC_END_NOT_EXECUTABLE = 7,
	TFC_END_REFUSED =
		8, /* it could not be run: no port, no directory, a refused spec; see text */
	TFC_END_FOREIGN_LISTENER = 9, /* somebody else listens on the task's port */
	TFC_END_CONSEQUENCE = 10,     /* of an attempt: it failed because a peer did */
	TFC_END_STALLED = 11,         /* it gave no sign of life for stall_s; see on_stall */
	TFC_END_UNSCHEDULABLE = 12,   /* no node can ever have what it needs: text says what is
					 missing and what there is */
};

/** "exit", "signal", "deadline", ...; "?" for an unknown one. Static. Thread: any. Errors: none. */
TFC_API const char *tfc_end_reason_name(uint32_t reason);

/*
 * One thing that happened. Borrowed: valid during the callback. Strings are never NULL. Which
 * fields mean something depends on `kind`; the others are 0 or "". Told again, to a later
 * subscription or by a later process, an event is what it was; LIVE is of the time it is told in.
 */
typedef struct tfc_event {
	uint32_t size;         /* of what is here; a copy says sizeof(tfc_event) instead */
	uint32_t kind;         /* enum tfc_event_kind */
	uint64_t time_ns;      /* CLOCK_REALTIME */
	const char *cursor;    /* opaque; a subscription from here continues after it; or "" */
	const char *job;       /* job id */
	const char *name;      /* job name */
	const void *host_tag;  /* what was given at submit */
	uint64_t host_tag_len; /* in bytes */
	uint32_t job_state;    /* enum tfc_job_state; OUTPUT, GAP: as the last JOB event said */
	uint32_t generation; /* which formation of the group, from 1; OUTPUT, GAP: the attempt's */
	uint64_t epoch;      /* the maintainer's term in which it happened, from 1 */
	const char
		*task_type;  /* TASK, OUTPUT, GAP; END: the deciding task's, "" when none decided */
	uint32_t task_index; /* with task_type */
	uint32_t attempt;    /* with task_type: which run of the task, from 1 */
	uint32_t task_state; /* TASK: enum tfc_task_state */
	int32_t pid;         /* TASK: 0 when it never ran */
	const char *node;    /* TASK: name of the node it is on */
	const char *address; /* "host:port", or "" when it has no port */
	/* TASK in a terminal state, END; a TASK that has stalled has TFC_END_STALLED before */
	uint32_t reason;             /* enum tfc_end_reason */
	int32_t status;              /* what `reason` says that it is */
	const char *text;            /* TASK, JOB, END: one sentence, or "" */
	const char *const *log_tail; /* END: last lines of the deciding task, NULL-terminated */
	/* OUTPUT, GAP */
	uint32_t stream;      /* enum tfc_stream */
	uint32_t is_partial;  /* OUTPUT: the line goes on in the next event of task and stream */
	const char *data;     /* OUTPUT: the line without its newline; any bytes; not terminated */
	uint64_t data_len;    /* OUTPUT: bytes of data, at most 65536; GAP: bytes lost */
	uint64_t user_us;     /* TASK in a terminal state: CPU time, microseconds */
	uint64_t system_us;   /* the same, in the kernel */
	uint64_t max_rss_kib; /* largest resident set */
	uint32_t exit_reason; /* TASK in a terminal state: enum tfc_exit_reason, says what `status`
				 is whatever `reason` there was for it */
	uint32_t isolation;   /* TASK: enum tfc_isolation that it has; 0 when it never ran */
	/* END: one sentence, which begins with the task's name, of each task that failed for good
	 * without failing the job; NULL-terminated; at most 32, then one with how many more */
	const char *const *ignored_failures;
} tfc_event;

/**
 * The event as one JSON object without a newline:
 * {"time":"...Z","event":"output","task":"worker/0",
 * ...}; doc/guide/embedding.md lists the keys of each kind. Bytes of output that are not UTF-8
 * become \xNN. The caller frees *ret_json with tfc_free. Thread: any, in the callback. Errors:
 * TFC_EINVAL (NULL, or a kind that this version does not know), TFC_ENOMEM.
 */
TFC_API int tfc_event_json(const tfc_event *event, char **ret_json);

/**
 * The exit status that a program which ran the job ends with, as shells tell it: 0 succeeded; the
 * deciding task's own exit code; 128 + the signal it died of; 124 deadline or stall; 126 not
 * executable; 127 not found; 125 any other failure. Of a job that was stopped it is 128 + `status`,
 * where 0 counts as SIGTERM: a host that stopped it because of a signal puts that into its copy of
 * the event. Thread: any. Errors: TFC_EINVAL (not a TFC_EVENT_END).
 */
TFC_API int tfc_event_exit_status(const tfc_event *event);

/** Runs in dispatch. After TFC_EVENT_END or TFC_EVENT_LOST nothing more comes; the handle still
 * needs a close. */
typedef void (*tfc_event_fn)(void *user, const tfc_event *event);

/* Options of a subscription. */
typedef struct tfc_subscribe_options {
	uint32_t size;
	uint32_t skip_output; /* 1: no OUTPUT and GAP events */
	const char *cursor;   /* of an event: only what comes after it; NULL: from the start */
	uint32_t wants_live;  /* 1: tell LIVE once all that there is now was told */
	uint32_t reserved;    /* 0 */
} tfc_subscribe_options;

#define TFC_SUBSCRIBE_OPTIONS_INIT                        \
	{                                                 \
		sizeof(tfc_subscribe_options), 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_subscribe_options_init(tfc_subscribe_options *options, uint32_t size);

/**
 * Follows a job: replays its events and output so far, then reports what happens next, until the
 * job ends. The lines of an attempt keep their order and come before the TASK event of its end. The
 * exception is output on a node that cannot be reached at that time: a GAP event reports it, and
 * the lines come once the node is back. Output is read from the logs when the host dispatches: a
 * slow subscriber holds no memory and slows no task. A gateway of a node in this process looks for
 * a prefix or a name among the jobs of that node first.
 *
 * The caller owns *ret_sub. Thread: the context's. Errors: TFC_EINVAL (fn or ret_sub is NULL),
 * TFC_ESTATE (the node is closed), TFC_ENOMEM, TFC_EFORK. A job or cursor that cannot be followed
 * is reported by TFC_EVENT_LOST in a later dispatch, wherever the job is: TFC_ENOENT (no such job),
 * TFC_EINVAL (the cursor is not valid, or more than one job id begins with `job`), TFC_EPARSE (the
 * job's record is damaged).
 */
TFC_API int tfc_gateway_subscribe(tfc_gateway *gateway, const char *job,
				  const tfc_subscribe_options *options, tfc_event_fn fn, void *user,
				  tfc_sub **ret_sub);

/** Holds events back until tfc_sub_resume. Legal inside a callback. Thread: the context's. */
TFC_API void tfc_sub_pause(tfc_sub *sub);

/** Lets events come again, in a later dispatch. Thread: the context's. */
TFC_API void tfc_sub_resume(tfc_sub *sub);

/**
 * Ends a subscription; no event comes after. Legal inside a callback, and before or after its
 * gateway and its node are closed. NULL is a no-op. Thread: the context's.
 */
TFC_API void tfc_sub_close(tfc_sub *sub);

#ifdef __cplusplus
}
#endif
#endif
