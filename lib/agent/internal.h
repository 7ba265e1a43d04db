/*
 * What the files of this module share: the agent, its jobs and their tasks.
 *
 *   agent.c      the machine: directories, port pool, the list of jobs
 *   agent_job.c  a job on it: open, close, holds, queries
 *   launch.c     one attempt: argv, environment, spawn; launches that wait for the guard
 *   error_file.c the file in which a PyTorch task reports its exception
 *   error_line.c the line of a failed attempt's output that names the reason
 *   environ.c    the environment of a task
 *   feed.c       what tasks need to find their feeds
 *   watch.c      watches for listeners and finds foreign ones
 *   bundle.c     unpacks a job's bundle, in a separate process
 *   limits.c     resource limits of the tasks, and the users they run as
 *   user.c       users and groups by name
 *   activity.c   the activity of a task's processes
 *   explain.c    what a job's tasks would run with
 *   stall.c      silent and suspended tasks, and tasks that are not ready
 *   incarnation.c  waits for tasks of the node's previous incarnation to end
 *   removal.c    removes directories, among them stale private directories
 *   stacks.c     the stacks of Python processes
 *   warm.c       attempts that are forked from a zygote
 *   python_stack.c  the activity of a process, from such a stack
 *   kept_logs.c  the logs of jobs without tasks here, and remote job logs
 *   agent_slot.c the slots, memory and GPUs that tasks use
 *   gpus.c       the list of GPUs, and which task has which
 *   ops.c        the local agent as a struct tfc__agent_ops
 */
#ifndef TFC_AGENT_INTERNAL_H
#define TFC_AGENT_INTERNAL_H

#include "agent/agent.h"
#include "agent/error_line.h"
#include "agent/user.h"
#include "base/list.h"
#include "base/strv.h"
#include "bundle/cache.h"
#include "ctx/ctx.h"
#include "log/local.h"
#include "port/port.h"
#include "proc/proc.h"
#include "warm/zygotes.h"

#define PORT_BUCKETS 256

struct agent_task;

/* All zero: no GPU is known. */
struct gpus {
	struct tfc__strv ids;
	struct agent_task **owners; /* one per id; NULL: free */
	uint32_t free_count;
	tfc_process *finding; /* tfc-gpus, while it runs */
	struct tfc__timer patience;
	void (*fn)(void *user, uint32_t count);
	void *user;
};

/* incarnation.c: the node's previous incarnations, and their tasks that are still being stopped. */
struct previous {
	char *state_dir;       /* NULL: none; then nothing is known of them */
	int state;             /* the state directory, open; or -1 */
	struct tfc__strv dirs; /* their private directories, from the file `run` */
	char *old_dir;         /* the directory of an incarnation of version 0.2 */
	bool is_awaited;
	bool is_overdue; /* the wait is too long, and that was logged */
	bool is_over;    /* nothing of them is alive; false: unknown */
	uint64_t due;    /* when they should have ended */
	struct tfc__timer timer;
	struct tfc__link parked; /* works that wait for their end, by their own links */
};

struct tfc__agent {
	tfc_ctx *ctx;
	char *name;
	char *host;
	char *python;
	char *log_dir; /* NULL: logs are in the job's private directory */
	struct tfc__private_dir *private_dir;
	const char *run_dir;          /* path of private_dir */
	struct tfc__strv env;         /* the host's environment */
	struct tfc__strv network_env; /* the part of env that jobs from the network get */
	uint32_t slots;               /* 0: no limit */
	uint32_t slots_used;
	struct tfc__work *emptied; /* scheduled when the last slot is released; or NULL */
	uint64_t memory;           /* 0: no limit */
	uint64_t memory_used;
	struct gpus gpus;
	tfc_port_pool *pool;
	struct tfc__link jobs;
	struct tfc__bundles *bundles;
	struct previous previous;
	struct tfc__strv stale_dirs; /* candidates for removal, if no process uses them */
	bool is_removing_stale;
	struct tfc__link removals;        /* removals of logs and directories in progress */
	uint32_t removed;                 /* number of such directories so far, for unique names */
	bool is_closing;                  /* job directories are removed together with run_dir */
	struct tfc__link remote_job_logs; /* struct tfc__remote_job_logs */
	/* Tasks whose listener is awaited, by port: one query of the kernel serves all. */
	struct tfc__timer watch_timer;
	uint64_t watch_pause;
	uint32_t watched;
	uint32_t checks; /* listeners checked in this tick */
	uint32_t urgent; /* watched tasks that are ready only when they listen */
	struct tfc__link by_port[PORT_BUCKETS];
	/* Tasks to launch, in order, when the guard has room and the batch limit allows. */
	struct tfc__link waiting;
	uint32_t launched; /* in this batch */
	struct tfc__work guard_is_free;
	/* The host's hooks. */
	tfc_node_hooks hooks;
	uint32_t open_logs; /* open files of logs that are being written */
	struct tfc__agent_feeds feeds;
	char *library; /* the file of this library; NULL: it is part of the host's program */
	struct tfc__zygotes *zygotes;
};

/* The state of an attempt. From UNPACKING on it has a process. */
enum attempt_state {
	ATTEMPT_NONE = 0,  /* nothing is launched */
	ATTEMPT_WAITING,   /* in agent->waiting, until the guard has room */
	ATTEMPT_QUEUED,    /* waits until the job's bundle is packed */
	ATTEMPT_UNPACKING, /* the process unpacks the bundle */
	ATTEMPT_CANCELED,  /* the same, but it was stopped: nothing is spawned after it */
	ATTEMPT_SPAWNED,   /* the process of its program is requested */
	ATTEMPT_STARTED,   /* its program is running */
};

/* The listener on the port of a started attempt. */
enum listener_state {
	LISTENER_NONE = 0, /* none is awaited: no port, or not started */
	LISTENER_AWAITED,  /* the bind window is open */
	LISTENER_DOUBTED,  /* the window is open; a seemingly foreign listener was seen once */
	LISTENER_OWN,      /* the task's own was found, and the window is closed */
	LISTENER_FOREIGN,  /* another program's: task->error describes it */
};

/* The event that the task sends in its next dispatch. */
enum reply {
	REPLY_NONE = 0,
	REPLY_TO_HOLD, /* nothing is acquired yet: a gang acquires its ports in slices */
	REPLY_HOLD_FAILED,
	REPLY_REFUSED,
};

/* CPU time of a task's processes at a point in time. */
struct activity_mark {
	uint64_t at; /* 0: never */
	uint64_t cpu_ms;
};

/*
 * A silence in progress. Stacks that were written count as output for the shim, but not here: the
 * silence continues if the last sign of life is no later than the stacks.
 */
struct silence {
	uint64_t from;        /* 0: none */
	uint64_t reported_ms; /* its length when last reported */
	uint64_t stack_at;    /* when stacks were last written during it */
};

struct agent_task {
	struct tfc__agent_job *job;
	const struct tfc__role *role;
	uint32_t number; /* of the task in the job */
	uint32_t index;  /* within its role */
	tfc_port_hold *hold;
	uint16_t port; /* kept over all attempts; 0: none yet */
	char *address;
	enum attempt_state attempt_state;
	enum listener_state listener;
	tfc_process *process; /* of the attempt, or of the unpacking before it */
	pid_t pid;            /* ATTEMPT_STARTED; else 0 */
	uint32_t attempt;
	uint32_t generation;
	uint32_t hold_number;       /* number of the last hold request */
	bool has_slot;              /* from hold to release */
	bool is_unpacked;           /* its bundle, for this and all later attempts */
	struct tfc__strv extra_env; /* see TFC__ORDER_ENV */
	struct tfc__strv argv;      /* of an attempt that waits for its bundle, else empty */
	struct tfc__strv env;
	struct tfc__link watch_link;   /* in agent->by_port */
	struct tfc__link waiting_link; /* in agent->waiting */
	struct activity_mark mark;     /* CPU time at the last inspection */
	struct tfc__timer stall_timer;
	uint32_t stall_attempt; /* the attempt that stall_timer was set for */
	struct silence silence;
	struct tfc__timer stacks_timer;
	struct stacks *stacks; /* a request for stacks in progress, or NULL */
	struct tfc__work reply;
	enum reply reply_kind;
	tfc_error *error;     /* of a failed hold or a refusal, or about a foreign listener */
	bool is_output_lost;  /* it is being lost now */
	uint64_t output_lost; /* bytes of the attempt that job->output_lost contains */
	uint32_t zygote;      /* number of the one that the last attempt was given to; 0: none */
};

struct tfc__agent_job {
	struct tfc__link link;
	struct tfc__agent *agent;
	struct tfc__agent_job_info info;
	tfc__agent_fn fn;
	void *user;
	char *run_dir; /* agent->run_dir/ID: bundle, unpacked directories, private logs */
	char *log_dir;
	struct agent_task *tasks;
	uint32_t task_count;
	tfc_error *errors;        /* one per task; separate, because most are never used */
	tfc_spec *spec;           /* for the launches of spec_generation; NULL: no memory for it */
	struct tfc__strv hosts;   /* beside the spec: of the roles outside it */
	uint32_t spec_generation; /* 0: there was no spec yet */
	uint8_t *states;          /* the response to a query, one per task */
	uint32_t query;           /* the number of the query in progress, or 0 */
	uint32_t known_states;    /* tasks whose state for the query is known */
	uint32_t holds;           /* tasks with a port hold */
	uint32_t pool_holds;      /* ... of these, the ones with a port of the pool */
	uint32_t refused_holds;   /* tasks whose reply is REPLY_HOLD_FAILED */
	/*
	 * A task that found no free port in the whole pool and has not reported it yet: the others
	 * need not try.
	 */
	const struct agent_task *portless;
	struct tfc__work delivery;
	struct tfc__user *users; /* by role; NULL: all tasks run as the host's user */
	uint32_t inspection;     /* the number of the last INSPECT */
	struct tfc__work inspected;
	bool is_plan;
	bool is_memory_reported;    /* that the memory of a task is not limited */
	uint32_t losing_tasks;      /* whose output is being lost */
	uint64_t output_lost;       /* bytes, since losing_tasks was 0 */
	struct tfc__bundle *bundle; /* NULL: the job has none */
	struct tfc__observer bundle_waiter;
	tfc_process *removing; /* removes the unpacked directories after the job's end */
	struct tfc__log_dir logs;
	void *feed;            /* NULL: not opened yet */
	bool is_cold_reported; /* that attempts start cold although the job has "warm" */
};

/* ---- feeds */

/* The caller frees it. */
char *tfc__agent_find_library(void);
/* TFC_FEED and TFC_LIBRARY. Opens the job's feed. */
void tfc__feed_add_environ(const struct agent_task *task, struct tfc__strv *env);

/* ---- warm starts */

/* The process that the attempt is to be forked from; NULL: none. */
const tfc_process *tfc__warm_zygote(struct agent_task *task, const tfc_process_options *options);
bool tfc__warm_is_importing(const struct agent_task *task);
int tfc__warm_open(struct tfc__agent *agent, const struct tfc__agent_options *options,
		   tfc_error *error);

/* ---- orders (task.h describes them) */

void tfc__agent_job_end(struct tfc__agent_job *job);
void tfc__agent_hold(struct tfc__agent_job *job, uint32_t task, uint32_t number);
void tfc__agent_release(struct tfc__agent_job *job, uint32_t task);
/* Both copy. Without memory the launches that need it are refused. */
void tfc__agent_set_spec(struct tfc__agent_job *job, const struct tfc__task_order *order);
void tfc__agent_set_env(struct tfc__agent_job *job, uint32_t task, const char *const *env);
void tfc__agent_launch(struct tfc__agent_job *job, uint32_t task, uint32_t attempt,
		       uint32_t generation);
void tfc__agent_stop(struct tfc__agent_job *job, uint32_t task, uint32_t grace_ms);
void tfc__agent_query(struct tfc__agent_job *job, uint32_t query);
void tfc__agent_stacks(struct tfc__agent_job *job, uint32_t task, bool is_ending);
void tfc__agent_inspect(struct tfc__agent_job *job, uint32_t number);

/* ---- events */

void tfc__agent_notify(struct agent_task *task, struct tfc__task_event *event);
/* The event about the start or end of an attempt's process; log_end and the facts about its port
 * are not known here. */
struct tfc__task_event tfc__agent_process_event(const tfc_process_event *process);
void tfc__agent_reply(struct agent_task *task, enum reply kind);
void tfc__agent_refuse_stopped(struct agent_task *task); /* it was stopped before it was started */
void tfc__agent_task_info(const struct agent_task *task, tfc_task_info *ret_info);

/* error_file.c */
char *tfc__error_file_path(const struct agent_task *task); /* freed by the caller; NULL: none */
void tfc__error_file_remove(const struct agent_task *task);
bool tfc__error_file_find(const struct agent_task *task, struct tfc__error_line *ret_line);

/* agent_slot.c; acquire: TFC_OK, or TFC_EAGAIN with the text in task->error. */
int tfc__slot_acquire(struct agent_task *task);
void tfc__slot_release(struct agent_task *task);

/* gpus.c; claim: the caller has checked that enough are free. */
int tfc__gpus_open(struct tfc__agent *agent, const struct tfc__agent_options *options,
		   tfc_error *error);
void tfc__gpus_close(struct tfc__agent *agent);
void tfc__gpus_claim(struct agent_task *task);
void tfc__gpus_release(struct agent_task *task);
void tfc__gpus_add_environ(const struct agent_task *task, struct tfc__strv *env);

/* environ.c: the base of an environment */
int tfc__base_environ_open(struct tfc__agent *agent, const struct tfc__agent_options *options,
			   tfc_error *error);
const struct tfc__strv *tfc__base_environ(const struct agent_task *task);

int tfc__agent_hold_port(struct agent_task *task);
/* The task's address: its port on this host. */
int tfc__agent_set_address(struct agent_task *task, const char *host);
void tfc__agent_continue_query(struct tfc__agent_job *job);

int tfc__render_environ(struct agent_task *task, const tfc_spec *spec, struct tfc__strv *env,
			tfc_error *error);
int tfc__render_argv(struct agent_task *task, const tfc_spec *spec, struct tfc__strv *argv,
		     tfc_error *error);
void tfc__agent_spawn_attempt(struct agent_task *task);
/* The lease of the job's processes, and their grace when it is over. */
struct tfc__run_terms tfc__agent_run_terms(const struct tfc__agent_job *job);

void tfc__waiting_resume(struct tfc__work *work);
char *tfc__agent_working_dir(const struct agent_task *task);

/* A job that is only explained: it holds ports, but nothing of it is created or run. */
int tfc__agent_plan_job(struct tfc__agent *agent, const struct tfc__agent_job_info *info,
			tfc_error *error, struct tfc__agent_job **ret_job);

void tfc__agent_watch_listener(struct agent_task *task);
void tfc__agent_unwatch_listener(struct agent_task *task);
void tfc__agent_watch_tick(struct tfc__timer *timer);

/* Whether its own listener was found, or none is awaited. */
bool tfc__agent_is_ready(const struct agent_task *task);
/* Whether another program listens on the task's port; the text is then in task->error. */
bool tfc__agent_find_foreign_listener(struct agent_task *task);

/*
 * incarnation.c; open: with the state directory, or NULL. begin: call it once the agent has its
 * own private directory.
 */
void tfc__incarnation_init(struct tfc__agent *agent);
int tfc__incarnation_open(struct tfc__agent *agent, const char *state_dir, tfc_error *error);
int tfc__incarnation_begin(struct tfc__agent *agent, tfc_error *error);
void tfc__incarnation_close(struct tfc__agent *agent);

/*
 * removal.c; is_name: whether a path has the name of a private directory. note, find: add
 * candidates; TFC_OK or TFC_ENOMEM. remove: removes those that no process uses.
 */
bool tfc__stale_dirs_is_name(const char *path);
int tfc__stale_dirs_note(struct tfc__agent *agent, const char *dir);
int tfc__stale_dirs_find(struct tfc__agent *agent, const char *parent);
void tfc__stale_dirs_remove(struct tfc__agent *agent);

int tfc__bundle_begin(struct tfc__agent_job *job, tfc_error *error);
void tfc__bundle_launch(struct agent_task *task); /* unpacks the bundle if needed, then spawns */
void tfc__agent_bundle_end(struct tfc__agent_job *job);
void tfc__bundle_close(struct tfc__agent_job *job);
char *tfc__bundle_dir(const struct agent_task *task);

/*
 * Finds the users of all roles when the job is opened, so that a missing one is reported at once.
 */
int tfc__limits_begin(struct tfc__agent_job *job, tfc_error *error);
void tfc__limits_end(struct tfc__agent_job *job);
void tfc__limits_add_environ(const struct agent_task *task, struct tfc__strv *env);
void tfc__limits_fill(const struct agent_task *task, tfc_process_limits *limits,
		      tfc_rlimit rlimits[TFC__RLIMITS]);

/* "1000:1000", the owner of the task's directories, or "": the host's user. */
#define LIMITS_OWNER_SIZE 24
void tfc__limits_owner(const struct agent_task *task, char ret_ids[LIMITS_OWNER_SIZE]);

/* activity.c */
void tfc__activity_begin(struct agent_task *task); /* the task was just started */
void tfc__activity_mark(struct agent_task *task);  /* CPU time is measured from now on */
bool tfc__activity_is_stopped(const struct agent_task *task);
void tfc__activity_describe(struct agent_task *task, char *text, size_t size);
void tfc__activity_describe_stop(const struct agent_task *task, char *text,
				 size_t size); /* "": not stopped */
char tfc__activity_process_state(
	pid_t pid); /* state letter (proc(5), stat), or 0 if there is no such process */

/* stall.c */
void tfc__stall_init(struct agent_task *task);
void tfc__stall_fini(struct agent_task *task);
uint32_t tfc__stall_ms(const struct agent_task *task); /* 0: not watched */
void tfc__stall_report(struct agent_task *task, uint32_t silent_ms);
#define TFC__SUSPEND_MS 5000 /* a task that a signal has stopped for this long is reported */
void tfc__suspension_report(struct agent_task *task, const tfc_process_event *process);
void tfc__suspension_report_end(struct agent_task *task, const tfc_process_event *process);

/* output_loss.c: reports to the job's followers, and to the log once for all tasks of the job. */
void tfc__output_loss_begin(struct agent_task *task, const tfc_process_event *process);
void tfc__output_loss_end(struct agent_task *task, const tfc_process_event *process); /* RESUMED or
											EXITED */
void tfc__agent_deliver_inspection(struct tfc__work *work);

/* stacks.c */
void tfc__stacks_tick(struct tfc__timer *timer);
void tfc__stacks_end(struct agent_task *task); /* drops a request, without a response */
bool tfc__stacks_are_wanted(const struct agent_task *task);
int tfc__stacks_prepare(struct tfc__agent_job *job, tfc_error *error);
char *tfc__stacks_dir(const struct agent_task *task); /* first in PYTHONPATH; NULL: none */

/* ---- removal.c */

/*
 * Removes a directory in a separate process. `lock`, of a stale private directory, or -1: ownership
 * passes, and it is held until the process has ended. TFC_OK; on an error nothing was begun.
 */
int tfc__removal_begin(struct tfc__agent *agent, const char *dir, int lock);
void tfc__removals_close(struct tfc__agent *agent);

/* ---- kept_logs.c */

void tfc__remote_job_logs_load(struct tfc__agent *agent);
void tfc__remote_job_logs_remove(struct tfc__agent *agent, const char *id); /* not its logs */
void tfc__remote_job_logs_close(struct tfc__agent *agent);

#endif
