/*
 * The agent: the tasks of this machine. For each it holds the port, unpacks the bundle, renders the
 * environment, runs the process, watches for its listener and says what became of it.
 *
 * It decides nothing: the maintainer tells it what to do, and every order is answered by an event.
 * Events come only inside dispatch, never inside the call that asked.
 */
#ifndef TFC_AGENT_AGENT_H
#define TFC_AGENT_AGENT_H

#include "agent/activity.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/names.h"
#include "ctx/ctx.h"
#include "job/job.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/hooks.h>
#include <tfcluster/process.h>
#include <tfcluster/spec.h>

struct tfc__agent;     /* this machine */
struct tfc__agent_job; /* one job's tasks on it */

/* The node's options, as far as they are about tasks (node.h); copied, NULL and 0: the default. */
struct tfc__agent_options {
	uint16_t port_first;
	uint16_t port_last;
	const char *name;
	const char *host;
	const char *const *env;
	bool is_env_for_all;         /* also for jobs that came over the network; else they have */
	const char *const *pass_env; /* what this names, see tfc_node_options.pass_env */
	const char *python;
	const char *log_dir;
	const char *temp_dir;
	const char *state_dir;  /* the node's, open for nobody else (incarnation.c); NULL: none */
	const char *bundle_dir; /* where archives are cached; NULL: private */
	uint32_t slots;         /* tasks it holds at once; 0: no limit */
	uint64_t memory;        /* bytes that the limits of those may add up to; 0: no limit */
	/* GPUs: "none", "auto", or their names, "0,1"; NULL: 0 to gpu_count - 1. With "auto" they
	 * are found later: gpus_fn tells, in dispatch, how many there are. */
	const char *gpus;
	uint32_t gpu_count;
	void (*gpus_fn)(void *user, uint32_t count);
	void *gpus_user;
	tfc_node_hooks hooks; /* before_launch, after_exit */
};

/* Opens the agent. Errors as tfc_node_open. */
int tfc__agent_open(tfc_ctx *ctx, const struct tfc__agent_options *options,
		    struct tfc__agent **ret_agent);
void tfc__agent_close(struct tfc__agent *agent); /* close its jobs first */
const char *tfc__agent_name(const struct tfc__agent *agent);
uint32_t tfc__agent_taken(const struct tfc__agent *agent); /* seats: tasks from hold to release */
/* Whose they are: "2 tasks of JOB, 1 task of JOB". */
void tfc__agent_taken_text(const struct tfc__agent *agent, char *text, size_t size);
/* The longest that one of its tasks may have between TERM and KILL. */
double tfc__agent_longest_grace_s(const struct tfc__agent *agent);
/* `emptied` is scheduled whenever the last seat is given back; NULL: no more. Borrowed. */
void tfc__agent_on_empty(struct tfc__agent *agent, struct tfc__work *emptied);
uint32_t tfc__agent_gpus(const struct tfc__agent *agent); /* how many there are, as far as known */
bool tfc__agent_is_finding_gpus(const struct tfc__agent *agent); /* gpus_fn will tell */
/* Whether it is known that nothing of the node's previous incarnation is alive any more. */
bool tfc__agent_is_alone(struct tfc__agent *agent);
/* Schedules a work once that is so, or has been waited for long enough; unless it is scheduled
 * already. tfc__work_cancel ends the wait. */
void tfc__agent_after_previous(struct tfc__agent *agent, struct tfc__work *work);
struct tfc__bundles *tfc__agent_bundles(const struct tfc__agent *agent);

/* ---- what it tells */

/* The numbers are on the wire. */
enum tfc__agent_event_kind {
	TFC__AGENT_HELD = 1,        /* the port is held: address */
	TFC__AGENT_HOLD_FAILED = 2, /* text; is_full: no room here; else no port, and missing: how
				   many of the job's tasks got none, ports, is_lasting */
	TFC__AGENT_STARTED = 3,     /* process->pid */
	TFC__AGENT_READY = 4,       /* its own listener was seen, the door is closed */
	TFC__AGENT_EXITED = 5,      /* process; log_end; is_stranger, is_crowded_out, had_notice */
	TFC__AGENT_REFUSED = 6,     /* the attempt could not be made: text */
	TFC__AGENT_STALLED = 7,     /* silent_ms; text: what it does instead */
	TFC__AGENT_STACKED = 8,     /* answer to tfc__agent_stacks; text: what came of it; activity,
				   silent_ms */
	TFC__AGENT_LOOKED = 9,      /* answer to tfc__agent_look: looked */
	TFC__AGENT_ANSWER = 10,     /* to a query: states per task, after the EXITED of the dead */
	/* Only of agents elsewhere, see agent_ops.h. */
	TFC__AGENT_LOST = 11,
	TFC__AGENT_SILENT = 12,
	TFC__AGENT_BACK = 13,
	TFC__AGENT_FENCED = 14,
};

/* What a task is doing that is not ready. */
#define TFC__AGENT_LOOKED_MAX 4
struct tfc__agent_looked {
	uint32_t task;
	char text[128];
};

enum tfc__agent_proc_state { TFC__AGENT_NONE = 0, TFC__AGENT_RUNNING = 1, TFC__AGENT_STOPPED = 2 };

/* Borrowed: valid during the callback. */
struct tfc__agent_event {
	enum tfc__agent_event_kind kind;
	uint32_t task;
	uint32_t attempt;
	uint32_t missing;
	uint32_t ports; /* of the pool that the job has here, or could have */
	uint32_t query; /* the number that was asked with */
	bool is_full;
	bool is_lasting; /* no other job will give back what it lacks */
	bool is_stranger;
	bool is_crowded_out;   /* it could not bind its port, and now nobody else has it */
	bool had_notice;       /* its output says that it or a peer was preempted before */
	const uint8_t *states; /* enum tfc__agent_proc_state */
	uint32_t silent_ms;
	enum tfc__activity activity;
	uint32_t looked_count;
	const struct tfc__agent_looked *looked;
	const tfc_process_event *process;
	uint64_t log_end;    /* where its output ends; 0: it never had a log */
	const char *address; /* "host:port", or "" when the task has no port */
	const char *text;    /* or NULL */
};

typedef void (*tfc__agent_fn)(void *user, const struct tfc__agent_event *event);

/* ---- orders */

/* Who the tasks belong to. Borrowed for as long as the agent's job is open. */
struct tfc__agent_job_info {
	const char *id;
	const tfc_job *job; /* validated; tasks are numbered through its roles in order */
	const void *host_tag;
	uint64_t host_tag_len;
	uint64_t epoch;       /* orders the terms of maintainers */
	bool has_minimal_env; /* it came over the network: see tfc_node_options.base_env */
	struct tfc__bundle
		*bundle; /* in place of one packed from job's path (bundle/cache.h), or NULL */
	const struct tfc__lease *lease; /* its processes end with it, with the job's abort grace
					   (proc.h); NULL: none */
};

/* Makes the job's directories and begins to pack its bundle. Errors: TFC_ENOMEM, TFC_ESYS, ... */
int tfc__agent_job_open(struct tfc__agent *agent, const struct tfc__agent_job_info *info,
			tfc__agent_fn fn, void *user, struct tfc__agent_job **ret_job,
			tfc_error *error);

/* What the job's tasks would be given, as JSON (tfc_gateway_explain); nothing is run or left. It
 * grows with the square of their number: `grown` is called behind each task; below 0 ends it, with
 * *error filled. */
int tfc__agent_explain(struct tfc__agent *agent, const struct tfc__agent_job_info *info,
		       struct tfc__buf *json, int (*grown)(void *user), void *user,
		       tfc_error *error);

/* The job has ended: its bundle and unpacked directories go, its logs stay until it is closed. */
void tfc__agent_job_end(struct tfc__agent_job *job);

/* Kills what still runs, gives back its ports, removes its private directories. NULL is a no-op. */
void tfc__agent_job_close(struct tfc__agent_job *job);

/* Takes a seat and the task's port (HELD, HOLD_FAILED, with this number as `query`); a task that
 * needs no port is HELD, too. A release before the answer takes it back. One that failed keeps what
 * it has got, a seat without a port, until its release. */
void tfc__agent_hold(struct tfc__agent_job *job, uint32_t task, uint32_t number);
void tfc__agent_release(struct tfc__agent_job *job, uint32_t task);

/* Variables of its attempts from the next launch on, "NAME=value", over the job's own; copied. An
 * attempt for which there was no memory is refused. */
void tfc__agent_set_env(struct tfc__agent_job *job, uint32_t task, const char *const *env);

/* Runs an attempt (STARTED, READY, EXITED, or REFUSED). The spec is read before the call returns.
 */
void tfc__agent_launch(struct tfc__agent_job *job, uint32_t task, uint32_t attempt,
		       uint32_t generation, const tfc_spec *spec);

void tfc__agent_signal(struct tfc__agent_job *job, uint32_t task, int signal_number);
void tfc__agent_stop(struct tfc__agent_job *job, uint32_t task, uint32_t grace_ms);

/* Asks for a fresh answer (ANSWER), which comes once nothing of the node's previous incarnation is
 * alive. A later query replaces an unanswered one. */
void tfc__agent_query(struct tfc__agent_job *job, uint32_t query);

/*
 * Has the Python processes of an attempt write the stacks of all their threads into its log
 * (STACKED, within two seconds). With is_ending, a stopped one is continued for it: it is stopped
 * afterwards anyway.
 */
void tfc__agent_stacks(struct tfc__agent_job *job, uint32_t task, bool is_ending);

/* Looks at what the first tasks do that are not ready yet (LOOKED). */
void tfc__agent_look(struct tfc__agent_job *job, uint32_t number);

/* ---- looking at it */

/* What a task does now: "stopped (SIGSTOP)", "loading, ..."; "" when there is nothing to say. */
void tfc__agent_doing(struct tfc__agent_job *job, uint32_t task, char *text, size_t size);

/* The addresses of all tasks of the cluster, in the order of the roles. */
int tfc__agent_spec(const struct tfc__agent_job *job, tfc_error *error, tfc_spec **ret_spec);

/* ---- logs: where they are, and who wants to know when they grow */

const char *tfc__agent_log_dir(const struct tfc__agent_job *job);

/* "worker-0", freshly made into `name`. */
#define TFC__LOG_NAME_SIZE 80
void tfc__agent_log_name(const struct tfc__agent_job *job, uint32_t task,
			 char name[TFC__LOG_NAME_SIZE]);

/* The log of a task of a job that is not open here any more. NULL and *error: TFC_ENOENT. */
struct tfc__log_source;
struct tfc__log_source *tfc__agent_kept_log(const struct tfc__agent *agent, const char *id,
					    const tfc_job *job, uint32_t task, uint64_t position,
					    tfc_error *error);

/* The same by the log's name, both of which may be anybody's words. */
struct tfc__log_source *tfc__agent_kept_log_named(const struct tfc__agent *agent, const char *id,
						  const char *name, uint64_t position,
						  tfc_error *error);

/* Removes the logs of a job that is not open here any more, in a process of its own. */
void tfc__agent_forget_logs(struct tfc__agent *agent, const char *id);

/* A job that another node keeps, and whose logs are in the log directory; also of earlier runs. */
struct tfc__guest {
	struct tfc__link link;
	char id[TFC__JOB_ID_SIZE];
	char maintainer[256]; /* its node */
	uint64_t heard_ns;    /* CLOCK_REALTIME: when that was last heard to have it */
};
const struct tfc__link *tfc__agent_guests(const struct tfc__agent *agent);
/* Its node has it now. Without memory it is none. */
void tfc__agent_guest_heard(struct tfc__agent *agent, const char *id, const char *maintainer);

#endif
