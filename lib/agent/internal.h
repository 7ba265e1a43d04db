/*
 * What the files of this module share: the agent, its jobs and their tasks.
 *
 *   agent.c      the machine: directories, port pool, the list of jobs
 *   agent_job.c  a job on it: open, close, holds, queries
 *   launch.c     one attempt: argv, environment, spawn; launches that wait for the guard
 *   environ.c    the environment of a task
 *   watch.c      the wait for listeners, and the strangers found by it
 *   bundle.c     a job's, unpacked in a process of its own
 *   limits.c     what its tasks may use, and as whom they run
 *   user.c       users and groups by name
 *   activity.c   what the processes of a task are doing
 *   explain.c    what a job would be given
 *   stall.c      silent tasks, and starts that wait
 *   incarnation.c  tasks of the node's previous incarnation, which are still being stopped
 *   removal.c    directories that are removed, stale private directories among them
 *   stacks.c     the stacks of Python processes
 *   python_stack.c  what such a stack says of its process
 *   kept_logs.c  the logs of jobs without tasks here, and which of them other nodes keep
 *   agent_slot.c whether there is room for a task
 *   gpus.c       which GPUs there are, and whose they are
 *   ops.c        all this as a table, beside agents of other machines
 */
#ifndef TFC_AGENT_INTERNAL_H
#define TFC_AGENT_INTERNAL_H

#include "agent/agent.h"
#include "agent/user.h"
#include "base/list.h"
#include "base/strv.h"
#include "bundle/cache.h"
#include "ctx/ctx.h"
#include "log/local.h"
#include "port/port.h"
#include "proc/proc.h"

#define PORT_BUCKETS 256

struct agent_task;

/* All zero: none are known. */
struct gpus {
	struct tfc__strv ids;
	struct agent_task **owners; /* one per id; NULL: free */
	uint32_t free_count;
	tfc_process *finding; /* or NULL */
	struct tfc__timer patience;
	void (*fn)(void *user, uint32_t count);
	void *user;
};

/* incarnation.c: the node's previous incarnations, and their tasks that are still being stopped. */
struct previous {
	char *state_dir;       /* NULL: there is none, and nothing is known of them */
	int state;             /* the same, open; or -1 */
	struct tfc__strv dirs; /* their private directories, as far as they are named */
	char *old_dir;         /* of one of version 0.2 */
	bool is_awaited;
	bool is_overdue; /* and that has been said */
	bool is_over;    /* all of it: this node is alone; false: nobody knows */
	uint64_t due;    /* when they should be over */
	struct tfc__timer timer;
	struct tfc__link parked; /* works that wait for that, by their own links */
};

struct tfc__agent {
	tfc_ctx *ctx;
	char *name;
	char *host;
	char *python;
	char *log_dir; /* NULL: logs are private */
	struct tfc__private_dir *private_dir;
	const char *run_dir;          /* its path */
	struct tfc__strv env;         /* the host's */
	struct tfc__strv network_env; /* what of it tasks of jobs begin with that came over tcp */
	uint32_t slots;               /* 0: no limit */
	uint32_t slots_taken;
	struct tfc__work *emptied; /* told when no slot is taken any more; or NULL */
	uint64_t memory;           /* 0: no limit */
	uint64_t memory_taken;
	struct gpus gpus;
	tfc_port_pool *pool;
	struct tfc__link jobs;
	struct tfc__bundles *bundles;
	struct previous previous;
	struct tfc__strv stale_dirs; /* to be looked at, and removed if nobody uses them */
	bool is_removing_stale;
	struct tfc__link removals; /* of logs and directories, under way */
	uint32_t removed;          /* such directories so far: each has a name of its own */
	bool is_closing;           /* what jobs leave is removed with run_dir */
	struct tfc__link guests;   /* struct tfc__guest */
	/* Tasks whose listener is awaited, by port: one look at the kernel serves them all. */
	struct tfc__timer watch_timer;
	uint64_t watch_pause;
	uint32_t watched;
	uint32_t checks; /* of listeners, in this tick */
	uint32_t urgent; /* of those: tasks that are not ready before they listen */
	struct tfc__link by_port[PORT_BUCKETS];
	/* Tasks to be launched, in order, once the guard has room and their turn comes. */
	struct tfc__link waiting;
	uint32_t launched; /* in this turn */
	struct tfc__work guard_is_free;
	/* Hooks of the host. */
	tfc_node_hooks hooks;
	uint32_t open_logs; /* readers of logs that are being written, with an open file */
};

/* Where an attempt is. From UNPACKING on it has a process. */
enum attempt_state {
	ATTEMPT_NONE = 0,  /* nothing is launched */
	ATTEMPT_WAITING,   /* in agent->waiting: until the guard has room */
	ATTEMPT_QUEUED,    /* until the job's bundle is packed */
	ATTEMPT_UNPACKING, /* the process unpacks the bundle */
	ATTEMPT_CANCELED,  /* the same, and nothing is spawned after it: it was stopped */
	ATTEMPT_SPAWNED,   /* the process is made for its program */
	ATTEMPT_STARTED,   /* its program runs */
};

/* Who listens on the port of an attempt that has started. */
enum listener_state {
	LISTENER_NONE = 0, /* nobody is awaited: it has no port, or has not started */
	LISTENER_AWAITED,  /* the bind window is open */
	LISTENER_DOUBTED,  /* the same; one that seemed foreign was seen once */
	LISTENER_OWN,      /* its own was seen, and the bind window is closed */
	LISTENER_FOREIGN,  /* another program has the port: task->error says which */
};

/* What a task still has to say in the next dispatch. */
enum reply {
	REPLY_NONE = 0,
	REPLY_TO_HOLD, /* nothing is taken yet: a gang takes its ports in slices */
	REPLY_HOLD_FAILED,
	REPLY_REFUSED,
};

/* CPU time of a task's processes at a moment. */
struct doing_mark {
	uint64_t at; /* 0: never */
	uint64_t cpu_ms;
};

/*
 * A silence under way. Stacks that were written are output and end it for the shim, not for us: it
 * goes on when the last sign of life was no later than they.
 */
struct silence {
	uint64_t from;     /* 0: none */
	uint64_t told_ms;  /* its length when it was told last */
	uint64_t stack_at; /* when stacks were last written in it */
};

struct agent_task {
	struct tfc__agent_job *job;
	const struct tfc__role *role;
	uint32_t number; /* of the task in the job */
	uint32_t index;  /* within its role */
	tfc_port_hold *hold;
	uint16_t port; /* its port for life; 0: none yet */
	char *address;
	enum attempt_state attempt_state;
	enum listener_state listener;
	tfc_process *process; /* the attempt, or the unpacking before it */
	pid_t pid;            /* ATTEMPT_STARTED; else 0 */
	uint32_t attempt;
	uint32_t generation;
	uint32_t hold_number; /* of the last hold asked for */
	bool has_slot;        /* from hold to release: it counts against what the agent may hold */
	bool is_unpacked;     /* its bundle, for this attempt and all later ones */
	struct tfc__strv extra_env; /* see tfc__agent_set_env */
	struct tfc__strv argv;      /* of the attempt that waits for its bundle, else empty */
	struct tfc__strv env;
	struct tfc__link watch_link;   /* in agent->by_port */
	struct tfc__link waiting_link; /* in agent->waiting */
	struct doing_mark mark;        /* what it had used of the CPU when it was looked at last */
	struct tfc__timer stall_timer;
	uint32_t stall_attempt; /* what it was set for */
	struct silence silence;
	struct tfc__timer stacks_timer;
	struct stacks *stacks; /* being written */
	struct tfc__work reply;
	enum reply reply_kind;
	tfc_error *error; /* the sentence of a failed hold or a refusal, or about a stranger */
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
	tfc_error *errors;      /* one per task; apart, since most are never touched */
	tfc_spec *waiting_spec; /* of those that wait to be launched, or NULL */
	uint32_t waiting_generation;
	uint8_t *states;  /* of the answer to a query, one per task */
	uint32_t query;   /* the unanswered one, or 0 */
	uint32_t settled; /* tasks whose state for it is known */
	/* One that found no port in the whole pool and has not said so: the others need not look.
	 */
	const struct agent_task *portless;
	struct tfc__work answer;
	struct tfc__user *users; /* by role; NULL: all are the host's */
	uint32_t look;           /* the unanswered one, or 0 */
	struct tfc__work looked;
	bool is_plan;
	struct tfc__bundle *bundle; /* NULL: it has none */
	struct tfc__observer bundle_waiter;
	tfc_process *removing; /* what was unpacked, once the job has ended */
	struct tfc__log_dir logs;
};

void tfc__agent_notify(struct agent_task *task, struct tfc__agent_event *event);
void tfc__agent_reply(struct agent_task *task, enum reply kind);
void tfc__agent_refuse_stopped(struct agent_task *task); /* it was stopped before it was started */
void tfc__agent_task_info(const struct agent_task *task, tfc_task_info *ret_info);

/* agent_slot.c; take: 0 or TFC_EAGAIN with the sentence in task->error. */
int tfc__slot_acquire(struct agent_task *task);
void tfc__slot_release(struct agent_task *task);

/* gpus.c; claim: so many are free. */
int tfc__gpus_open(struct tfc__agent *agent, const struct tfc__agent_options *options,
		   tfc_error *error);
void tfc__gpus_close(struct tfc__agent *agent);
void tfc__gpus_claim(struct agent_task *task);
void tfc__gpus_release(struct agent_task *task);
void tfc__gpus_add_environ(const struct agent_task *task, struct tfc__strv *env);

/* environ.c: what an environment begins with */
int tfc__base_environ_open(struct tfc__agent *agent, const struct tfc__agent_options *options,
			   tfc_error *error);
const struct tfc__strv *tfc__base_environ(const struct agent_task *task);

int tfc__agent_hold_port(struct agent_task *task);
void tfc__agent_answer_when_settled(struct tfc__agent_job *job);

int tfc__render_environ(struct agent_task *task, const tfc_spec *spec, struct tfc__strv *env,
			tfc_error *error);
int tfc__render_argv(struct agent_task *task, const tfc_spec *spec, struct tfc__strv *argv,
		     tfc_error *error);
void tfc__agent_spawn_attempt(struct agent_task *task);
/* The lease of its processes, and what is left to them when that is over. */
struct tfc__tenure tfc__agent_tenure_of(const struct tfc__agent_job *job);

void tfc__waiting_resume(struct tfc__work *work);
char *tfc__agent_working_dir(const struct agent_task *task);

/* A job that is only explained: it holds ports, but nothing of it is made or run. */
int tfc__agent_plan_job(struct tfc__agent *agent, const struct tfc__agent_job_info *info,
			struct tfc__agent_job **ret_job, tfc_error *error);

void tfc__agent_watch_listener(struct agent_task *task);
void tfc__agent_unwatch_listener(struct agent_task *task);
void tfc__agent_watch_tick(struct tfc__timer *timer);

/* Whether its own listener was seen, or none is waited for. */
bool tfc__agent_is_ready(const struct agent_task *task);
/* Whether another program listens on the task's port; then the message is in task->error. */
bool tfc__agent_find_foreign_listener(struct agent_task *task);

/* incarnation.c; open: the state directory, or NULL. begin: the agent has its own directory. */
void tfc__incarnation_init(struct tfc__agent *agent);
int tfc__incarnation_open(struct tfc__agent *agent, const char *state_dir, tfc_error *error);
int tfc__incarnation_begin(struct tfc__agent *agent, tfc_error *error);
void tfc__incarnation_close(struct tfc__agent *agent);

/* removal.c; is_name: whether a private directory has such a name. note, find: candidates;
 * TFC_OK or TFC_ENOMEM. remove: those that nobody uses. */
bool tfc__stale_dirs_is_name(const char *path);
int tfc__stale_dirs_note(struct tfc__agent *agent, const char *dir);
int tfc__stale_dirs_find(struct tfc__agent *agent, const char *parent);
void tfc__stale_dirs_remove(struct tfc__agent *agent);

int tfc__bundle_begin(struct tfc__agent_job *job, tfc_error *error);
void tfc__bundle_launch(struct agent_task *task); /* unpacks if needed, then spawn_attempt */
void tfc__bundle_end(struct tfc__agent_job *job);
void tfc__bundle_close(struct tfc__agent_job *job);
char *tfc__bundle_dir(const struct agent_task *task);

/* The users of all roles are found when the job is opened: a missing one is no matter of luck. */
int tfc__limits_begin(struct tfc__agent_job *job, tfc_error *error);
void tfc__limits_end(struct tfc__agent_job *job);
void tfc__limits_add_environ(const struct agent_task *task, struct tfc__strv *env);
void tfc__limits_fill(const struct agent_task *task, tfc_process_limits *limits,
		      tfc_rlimit rlimits[TFC__RLIMITS]);

/* "1000:1000", who is to own what the task is given, or "": the host. */
#define LIMITS_OWNER_SIZE 24
void tfc__limits_owner(const struct agent_task *task, char ret_ids[LIMITS_OWNER_SIZE]);

/* activity.c */
void tfc__activity_begin(struct agent_task *task); /* it has just been started */
void tfc__activity_mark(struct agent_task *task);  /* from now on CPU time is counted anew */
bool tfc__activity_is_stopped(const struct agent_task *task);
void tfc__activity_describe(struct agent_task *task, char *text, size_t size);
void tfc__activity_describe_stop(const struct agent_task *task, char *text,
				 size_t size); /* "": none */
char tfc__activity_process_state(
	pid_t pid); /* state letter (proc(5), stat), or 0 when there is none */

/* stall.c */
void tfc__stall_init(struct agent_task *task);
void tfc__stall_fini(struct agent_task *task);
uint32_t tfc__stall_ms(const struct agent_task *task); /* 0: not watched */
void tfc__stall_report(struct agent_task *task, uint32_t silent_ms);
void tfc__agent_deliver_looked(struct tfc__work *work);

/* stacks.c */
void tfc__stacks_tick(struct tfc__timer *timer);
void tfc__stacks_end(struct agent_task *task); /* no answer is wanted any more */
bool tfc__stacks_are_wanted(const struct agent_task *task);
int tfc__stacks_prepare(struct tfc__agent_job *job, tfc_error *error);
char *tfc__stacks_dir(const struct agent_task *task); /* to stand first in PYTHONPATH; NULL: none */

/* ---- removal.c */

/* Removes a directory in a process of its own; `lock`, of a stale private directory, is taken over,
 * and held until that has ended; -1: none. TFC_OK, TFC_ENOMEM, ...: it was not begun. */
int tfc__removal_begin(struct tfc__agent *agent, const char *dir, int lock);
void tfc__removals_close(struct tfc__agent *agent);

/* ---- kept_logs.c */

void tfc__remote_job_logs_load(struct tfc__agent *agent);
void tfc__remote_job_logs_remove(struct tfc__agent *agent, const char *id); /* its logs go */
void tfc__remote_job_logs_close(struct tfc__agent *agent);

#endif
