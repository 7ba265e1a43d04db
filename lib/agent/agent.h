/*
 * The agent: the tasks of this machine. For each task it holds the port, unpacks the bundle,
 * renders the environment, runs the process, watches for its listener and reports the result.
 *
 * The agent decides nothing: it carries out the maintainer's orders, and reports as events what
 * they led to. Events come only inside dispatch, never inside the call that gave the order.
 */
#ifndef TFC_AGENT_AGENT_H
#define TFC_AGENT_AGENT_H

#include "agent/task.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/names.h"
#include "ctx/ctx.h"
#include "job/job.h"
#include "proc/will.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/hooks.h>
#include <tfcluster/process.h>
#include <tfcluster/results.h>
#include <tfcluster/spec.h>

struct tfc__agent;     /* this machine */
struct tfc__agent_job; /* one job's tasks on it */

/*
 * Where producers and the consumers in a job's tasks meet (feed/broker.h). It is opened with the
 * job's first launch.
 */
struct tfc__agent_feeds {
	/* `uids`: the users of the job's tasks. The agent owns *ret_feed. */
	int (*open)(void *user, const char *id, const uint32_t *uids, uint32_t uid_count,
		    tfc_error *error, void **ret_feed);
	const char *(*address)(const void *feed);
	void (*close)(void *feed);
	void *user;
};

/* The node's options that concern tasks (node.h); copied. NULL and 0: the default. */
struct tfc__agent_options {
	uint16_t port_first;
	uint16_t port_last;
	const char *name;
	const char *host;
	const char *const *env;
	bool is_env_for_all;         /* env also for jobs from the network, which otherwise get */
	const char *const *pass_env; /* only these variables, see tfc_node_options */
	const char *python;
	const char *log_dir;
	const char *temp_dir;
	const char *state_dir;  /* the node's, private to its user; NULL: none */
	const char *bundle_dir; /* cache of archives; NULL: a private one */
	uint32_t slots;         /* tasks that it holds at once; 0: no limit */
	uint32_t zygotes;       /* processes that tasks are forked from; 0: TFC__ZYGOTES */
	uint32_t import_ms;     /* how long their import may take; 0: TFC__IMPORT_MS */
	uint64_t memory; /* limit for the sum of their memory limits, in bytes; 0: no limit */
	/*
	 * GPUs: "none", "auto", or their names, "0,1"; NULL: 0 to gpu_count - 1. With "auto" they
	 * are listed asynchronously: gpus_fn reports their number, in dispatch.
	 */
	const char *gpus;
	uint32_t gpu_count;
	void (*gpus_fn)(void *user, uint32_t count);
	void *gpus_user;
	tfc_node_hooks hooks; /* before_launch, after_exit */
	struct tfc__agent_feeds feeds;
};

/* Opens the agent. Errors as tfc_node_open. */
int tfc__agent_open(tfc_ctx *ctx, const struct tfc__agent_options *options,
		    struct tfc__agent **ret_agent);
void tfc__agent_close(struct tfc__agent *agent); /* close its jobs first */
const char *tfc__agent_name(const struct tfc__agent *agent);
uint32_t tfc__agent_slots_used(const struct tfc__agent *agent); /* slots in use */
/* Describes the slots in use: "2 tasks of JOB, 1 task of JOB". */
void tfc__agent_slots_text(const struct tfc__agent *agent, char *text, size_t size);
/* The longest grace, in seconds, of any open job's tasks. */
double tfc__agent_longest_grace_s(const struct tfc__agent *agent);
/* `emptied` is scheduled whenever the last slot is released; NULL: never. Borrowed. */
void tfc__agent_on_empty(struct tfc__agent *agent, struct tfc__work *emptied);
uint32_t tfc__agent_gpus(const struct tfc__agent *agent); /* number of GPUs that are known now */
bool tfc__agent_is_finding_gpus(const struct tfc__agent *agent); /* gpus_fn will be called */
/* Whether it is certain that nothing of the node's previous incarnation is alive. */
bool tfc__agent_is_alone(struct tfc__agent *agent);
/*
 * Schedules `work` once nothing of the previous incarnation is awaited any more, unless it is
 * already scheduled. tfc__work_cancel ends the wait.
 */
void tfc__agent_after_previous(struct tfc__agent *agent, struct tfc__work *work);
struct tfc__bundles *tfc__agent_bundles(const struct tfc__agent *agent);

/* ---- events */

typedef void (*tfc__agent_fn)(void *user, const struct tfc__task_event *event);

/* ---- jobs; orders come through agent_ops.h */

/* The job that the tasks belong to. Borrowed for as long as the agent's job is open. */
struct tfc__agent_job_info {
	const char *id;
	const tfc_job *job; /* validated; tasks are numbered through its roles in order */
	const void *host_tag;
	uint64_t host_tag_len;
	uint64_t epoch;                 /* of the maintainer; a higher one wins */
	bool has_minimal_env;           /* came over the network: see tfc_node_options.base_env */
	struct tfc__bundle *bundle;     /* used instead of packing job's path; or NULL */
	const struct tfc__lease *lease; /* of its processes, whose grace is then the job's abort
					   grace (proc.h); NULL: none */
	/* for an agent of another node: tasks of an earlier epoch may be alive there, all of the
	 * incarnation of `will` */
	bool has_inherited;
	struct tfc__will_key will; /* incarnation 0: not known */
};

/* Creates the job's directories and begins to pack its bundle. Errors: TFC_ENOMEM, TFC_ESYS, ... */
int tfc__agent_job_open(struct tfc__agent *agent, const struct tfc__agent_job_info *info,
			tfc__agent_fn fn, void *user, tfc_error *error,
			struct tfc__agent_job **ret_job);

/* The place of a task of a job that is explained. */
struct tfc__agent_place {
	const char *node; /* NULL: this node */
	char host[256];   /* in addresses on that node; "": not known, then as on this node */
};

/*
 * Reports what each of the job's tasks would run with (tfc_gateway_explain); nothing is run or left
 * behind. The plans grow with the square of the number of tasks: `fn` stops the call by returning
 * an error below 0; it then has filled in *error. A plan is borrowed during `fn`. places: per task;
 * NULL: all are on this node. The port of a task on another node is an example: that node has a
 * pool of its own, and is not asked.
 */
typedef int (*tfc__agent_plan_fn)(void *user, const tfc_task_plan *plan);
int tfc__agent_explain(struct tfc__agent *agent, const struct tfc__agent_job_info *info,
		       const struct tfc__agent_place *places, tfc__agent_plan_fn fn, void *user,
		       tfc_error *error);

/*
 * Kills all running processes, releases the job's ports, removes its private directories. NULL is a
 * no-op.
 */
void tfc__agent_job_close(struct tfc__agent_job *job);

/* ---- queries */

/*
 * The activity of a task now: "stopped (SIGSTOP)", "loading, ..."; "" when there is nothing to
 * report.
 */
void tfc__agent_activity(struct tfc__agent_job *job, uint32_t task, char *text, size_t size);

/* The addresses of all tasks of the cluster, in the order of the roles. */
int tfc__agent_spec(const struct tfc__agent_job *job, tfc_error *error, tfc_spec **ret_spec);

/* ---- logs */

const char *tfc__agent_log_dir(const struct tfc__agent_job *job);
/* Whether the logs of a job stay when it is closed. */
bool tfc__agent_keeps_logs(const struct tfc__agent *agent);

/* Writes the name of a task's log, such as "worker-0", to `name`. */
#define TFC__LOG_NAME_SIZE 80
void tfc__agent_log_name(const struct tfc__agent_job *job, uint32_t task,
			 char name[TFC__LOG_NAME_SIZE]);

/* Opens the log of a task of a job that is not open here any more. NULL and *error: TFC_ENOENT. */
struct tfc__log_source;
struct tfc__log_source *tfc__agent_kept_log(const struct tfc__agent *agent, const char *id,
					    const tfc_job *job, uint32_t task, uint64_t position,
					    tfc_error *error);

/* As tfc__agent_kept_log, by the log's name. id and name may come from an untrusted peer. */
struct tfc__log_source *tfc__agent_kept_log_named(const struct tfc__agent *agent, const char *id,
						  const char *name, uint64_t position,
						  tfc_error *error);

/* Removes the logs of a job that is not open here any more, in a separate process. */
void tfc__agent_forget_logs(struct tfc__agent *agent, const char *id);

/*
 * A job of another node whose logs are in this node's log directory, also from previous
 * incarnations.
 */
struct tfc__remote_job_logs {
	struct tfc__link link;
	char id[TFC__JOB_ID_SIZE];
	char maintainer[256]; /* the node that maintains the job */
	uint64_t received_ns; /* CLOCK_REALTIME: when that node last reported the job */
};
const struct tfc__link *tfc__agent_remote_job_logs(const struct tfc__agent *agent);
/* Records that `maintainer` maintains the job now. Without memory nothing is recorded. */
void tfc__agent_remote_job_logs_received(struct tfc__agent *agent, const char *id,
					 const char *maintainer);

#endif
