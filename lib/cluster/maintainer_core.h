/*
 * The maintainer: the state machine that owns one job, as a pure function of its events.
 *
 *     step(core, event, now) -> actions
 *
 * It knows tasks, deaths, budgets, deadlines and verdicts. It knows no process, port, socket, file,
 * clock or random source: time comes with the event, jitter from a seeded generator in the state,
 * and all memory is taken when it is made. The shipped object and the simulated one are the same.
 * The table of states and events is in doc/internals/maintainer.md.
 *
 * The life of a generation:
 *   a place for each task -> hold every port (gang) -> launch all -> all ready -> running -> a
 *   death -> verdict.
 * Nodes are numbers that mean nothing here; whoever places chooses them, and a node that was lost
 * comes back under another number.
 * A verdict is reached when the first death of the generation is known to be a cause: see
 * "Cause, not consequence" in core_verdict.c.
 */
#ifndef TFC_CLUSTER_MAINTAINER_CORE_H
#define TFC_CLUSTER_MAINTAINER_CORE_H

#include "agent/activity.h"
#include "job/job.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/gateway.h>

struct tfc__core;

/* ---- policy: what the job file says, resolved per role (policy.c makes it from a tfc_job) */

struct tfc__core_role {
	char name[64];
	uint32_t count;
	uint32_t scope;       /* enum tfc__scope, never AUTO */
	uint32_t restart_on;  /* enum tfc__restart_on */
	uint32_t restart_max; /* restarts per window */
	uint64_t window_ns;
	uint32_t loss_max; /* restarts per window after losses and preemptions */
	uint64_t loss_window_ns;
	uint64_t backoff_min_ns; /* before the first restart */
	uint64_t backoff_max_ns;
	uint64_t grace_ns;
	uint64_t finish_ns;
	bool has_port;
	bool is_in_cluster;      /* in the cluster spec: chief, worker, ps, evaluator */
	bool is_failure_ignored; /* once it may not be restarted any more */
	/* ... only after it was ready, and while another of its role is, which gets its work */
	bool is_replaceable;
	bool is_ready_on_listen;
	bool is_listening_assumed; /* ... though nobody has said so: by role and framework */
	uint16_t port;             /* fixed port of task 0, or 0 */
};

struct tfc__core_policy {
	const struct tfc__core_role *roles; /* copied */
	uint32_t role_count;
	uint32_t strategy;  /* enum tfc_strategy, resolved */
	bool is_tensorflow; /* exits 42 and 143 may be its preemption handler's */
	uint32_t success;   /* enum tfc__success, resolved: never AUTO */
	uint64_t abort_grace_ns;
	bool is_abort_auto; /* ... and none where no grace is of use: core_death.c */
	uint64_t preempt_grace_ns;
	uint64_t start_deadline_ns; /* 0: none */
	/* A job of which no task has ever listened counts as running so long after the last task
	 * started, and has no start deadline; 0: it does not. */
	uint64_t no_listener_ns;
	uint64_t deadline_ns;         /* 0: none */
	uint64_t pending_deadline_ns; /* until a gang has all its places and ports; 0: none */
	uint32_t on_stall;            /* enum tfc__on_stall */
	uint64_t explain_ns; /* a start that lasts so long is explained, and again; 0: not */
	uint64_t seed;       /* of the jitter */
};

/* Tasks are numbered through the roles in order: role 0's tasks, then role 1's, ... */

/* ---- events */

/* How an attempt died, as its agent reports it. */
struct tfc__death {
	uint32_t reason; /* enum tfc_exit_reason */
	int32_t status;  /* as in tfc_process_event */
	bool is_oom;
	bool is_port_occupied; /* by a foreign listener: another port is needed */
	bool is_bind_failed;   /* it could not bind its port, and now nobody else has it */
	bool is_node_bad;      /* attempts fail there: the next one is to be placed anew */
	bool had_notice;       /* its output says that it or a peer had got SIGTERM before */
	bool is_with_node;     /* LOST with its node; set by the core itself */
	uint64_t time_ns;      /* when, on the clock of `now` as well as the agent knows */
};

/* What a process is doing when its agent is asked. */
enum tfc__proc_state {
	TFC__PROC_NONE = 0, /* no process */
	TFC__PROC_RUNNING = 1,
	TFC__PROC_STOPPED = 2, /* SIGSTOP */
};

enum tfc__core_event_kind {
	TFC__CORE_START = 1,   /* the job was accepted */
	TFC__CORE_HELD,        /* task's port is held (also sent for tasks that need none) */
	TFC__CORE_HOLD_FAILED, /* text: why; is_full: the node has no room, another place is sought;
				  else count: how many ports the gang still misses; the first one
				  ends the job, so count all that fail before reporting it */
	TFC__CORE_STARTED,     /* the attempt's program runs */
	TFC__CORE_READY,       /* the attempt's own listener was seen */
	TFC__CORE_EXITED,      /* the attempt ended; death */
	TFC__CORE_REFUSED,   /* the attempt could not be made (bundle, hook, spec): text; permanent;
				attempt; comes in place of EXITED */
	TFC__CORE_ANSWER,    /* a node's fresh answer to a QUERY: states[task], after every EXITED
				of attempts there that were dead when it was asked */
	TFC__CORE_STALLED,   /* the attempt is silent, for silent_ms; text: what it does instead */
	TFC__CORE_STACKED,   /* answer to STACKS; text: what came of it; activity, silent_ms */
	TFC__CORE_INSPECTED, /* a node's answer to INSPECT: inspected, count of them */
	TFC__CORE_STOP,      /* a user's stop: interrupt_ns, is_kill */
	TFC__CORE_TICK,      /* the time asked for by tfc__core_wake_at has come */
	/* Places and nodes: core_gang.c, core_node.c. */
	TFC__CORE_PLACED,    /* answer to PLACE: nodes[task] of those that were asked for */
	TFC__CORE_UNPLACED,  /* answer to PLACE: text: what it waits for; hopeless: in vain */
	TFC__CORE_ROOM,      /* there may be room now: whatever waits is placed again */
	TFC__CORE_NODE_LOST, /* all that was on `node` has ended and cannot come back; text: why */
	TFC__CORE_NODE_UNREACHABLE, /* `node` does not answer */
	TFC__CORE_NODE_REACHABLE,   /* ... and does again: nothing on it has changed */
	TFC__CORE_NODE_DRAIN,       /* what is on `node` is to leave it */
	TFC__CORE_LEAVE,   /* `count` tasks from `task` on are to be placed anew; text: why */
	TFC__CORE_SUSPEND, /* stop all and end here; another epoch continues the job */
	TFC__CORE_FENCED,  /* another epoch has begun: nothing may be done any more */
};

/* What a task that is not ready yet is doing. */
#define TFC__INSPECTED_MAX 4
struct tfc__inspected {
	uint32_t task;
	char text[128]; /* "not listening: idle" */
};

struct tfc__core_event {
	enum tfc__core_event_kind kind;
	uint32_t task;
	uint32_t attempt; /* of events about an attempt: an older attempt's event is ignored */
	int32_t pid;      /* STARTED */
	uint32_t query;   /* of answers: the number of what is answered */
	uint32_t node;    /* ANSWER, INSPECTED, NODE_*: which */
	uint32_t count;
	struct tfc__death death;
	const uint8_t *states; /* ANSWER: enum tfc__proc_state per task */
	const struct tfc__inspected *inspected;
	const uint32_t *nodes; /* PLACED: per task of the job */
	uint32_t silent_ms;
	enum tfc__activity activity;
	uint64_t interrupt_ns; /* STOP */
	bool is_kill;
	bool is_full;      /* HOLD_FAILED */
	uint32_t hopeless; /* UNPLACED: what is missing will not come: the job ends with this enum
			      tfc_end_reason; 0: it may come */
	const char *text;  /* or NULL */
};

/* ---- actions, to be carried out in order */

enum tfc__core_action_kind {
	TFC__DO_HOLD = 1, /* acquire the task's port at `node` (or none, if it has none); answer
			     HELD or HOLD_FAILED with `number` */
	TFC__DO_LAUNCH,   /* start `attempt` of the task in `generation` */
	TFC__DO_SIGNAL,   /* send signal `number` to the task's group */
	TFC__DO_STOP,     /* stop the task's attempt with grace_ns; again with less: shortens it */
	TFC__DO_RELEASE,  /* release the task's port: it is reaped and done, or must move (HOLD
			     follows: another port); cancels a HOLD that is unanswered or has
			     failed, too */
	TFC__DO_QUERY,    /* ask `node` for a fresh answer; `number` comes back in ANSWER */
	TFC__DO_STACKS,   /* write the Python stacks of the attempt into its log; `number` 1: it is
			     stopped afterwards, so it may be continued; answer STACKED */
	TFC__DO_INSPECT,  /* see what the tasks at `node` do that are not ready; `number` */
	TFC__DO_PLACE,    /* find nodes for all that tfc__core_wants_place(core, i, `task`), all or
			     none; answer PLACED or UNPLACED with `number` and `task` */
	TFC__DO_REPORT_TASK, /* notify subscribers: task, attempt, state, reason, death, text */
	TFC__DO_REPORT_JOB,  /* notify subscribers: job state, generation, text */
	TFC__DO_END,       /* the last one: verdict; all tasks are reaped and all ports released */
	TFC__DO_SUSPENDED, /* the last one after SUSPEND: the same, without a verdict */
};

struct tfc__core_action {
	enum tfc__core_action_kind kind;
	uint32_t task; /* END, and REPORT_JOB of stopping: the deciding task, or UINT32_MAX */
	uint32_t attempt;
	uint32_t generation;
	uint32_t node;
	uint32_t number; /* signal, hold, query, inspect, place */
	uint64_t grace_ns;
	uint32_t state;          /* enum tfc_task_state or tfc_job_state */
	uint32_t reason;         /* enum tfc_end_reason */
	struct tfc__death death; /* REPORT_TASK in a terminal state */
	int32_t status;          /* END, REPORT_JOB of stopping: exit code or signal, by reason */
	const char *text;        /* a sentence, or "" */
};

/* ---- the machine */

/* Makes one in state pending; NULL when out of memory. */
struct tfc__core *tfc__core_new(const struct tfc__core_policy *policy);
void tfc__core_free(struct tfc__core *core);

/*
 * Takes one event. What it does not wait for - a task's second EXITED, HELD after RELEASE, anything
 * after END - is ignored. Every attempt that was launched must end in EXITED or REFUSED, also after
 * DO_STOP. `now` is in nanoseconds and never falls. The actions it causes are then read
 * with tfc__core_next until it returns NULL; they stay valid until the next step.
 */
void tfc__core_step(struct tfc__core *core, const struct tfc__core_event *event, uint64_t now);
const struct tfc__core_action *tfc__core_next(struct tfc__core *core);

/* When it wants a TICK; 0: not before another event. */
uint64_t tfc__core_wake_at(const struct tfc__core *core);

/* ---- continuing where an earlier epoch ended */

struct tfc__resume_task {
	uint32_t attempt;    /* its last, 0: none */
	bool is_done;        /* that ended with exit 0 */
	bool was_running;    /* its end was not reported: it is lost */
	const char *node;    /* name of where that was; NULL: not to be asked */
	const char *address; /* of one that is done: the others' spec has it still; or NULL */
};

struct tfc__resume {
	uint32_t generation;
	uint32_t job_state; /* STOPPING: there was a verdict, and only the end is missing */
	uint32_t reason;    /* of that, as REPORT_JOB of stopping had it */
	int32_t status;
	uint32_t task; /* or UINT32_MAX */
	const char *text;
	const struct tfc__resume_task *tasks; /* all of them */
};

/*
 * Before START. What is done stays so, all others form the next generation, as soon as every node
 * where tasks were running has answered a QUERY or is lost: an agent answers a later epoch when
 * nothing of an earlier one is alive there. nodes: the number of each task's node, or TFC__NO_NODE;
 * NULL: none. Both are read before the call returns.
 */
#define TFC__NO_NODE UINT32_MAX
void tfc__core_resume(struct tfc__core *core, const struct tfc__resume *resume,
		      const uint32_t *nodes);

/* ---- its state */

/* For PLACE: whether a task is one of those; `asked` is the action's task. */
bool tfc__core_wants_place(const struct tfc__core *core, uint32_t task, uint32_t asked);
uint32_t tfc__core_node(const struct tfc__core *core, uint32_t task); /* or TFC__NO_NODE */

uint32_t tfc__core_task_count(const struct tfc__core *core);
uint32_t tfc__core_job_state(const struct tfc__core *core);
uint32_t tfc__core_generation(const struct tfc__core *core);
uint32_t tfc__core_task_state(const struct tfc__core *core, uint32_t task);
uint32_t tfc__core_attempt(const struct tfc__core *core, uint32_t task);

/* What failed for good of a task whose failure is ignored: "worker/1 exited with 1; ..."; or NULL.
 * Borrowed: until the next step. */
const char *tfc__core_ignored_failure(const struct tfc__core *core, uint32_t task);

/* Restarts left in the current window of a task's budget, for describe. */
uint32_t tfc__core_budget_left(const struct tfc__core *core, uint32_t task, uint64_t now);

/* ---- from a job */

/* Fills *policy from a validated job; roles point into `roles` (job->role_count of them). */
void tfc__core_policy_from_job(const tfc_job *job, struct tfc__core_role *roles,
			       struct tfc__core_policy *policy);

#endif
