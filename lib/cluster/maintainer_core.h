/*
 * The maintainer: the state machine that owns one job, as a pure function of its events.
 *
 *     step(core, event, now) -> actions
 *
 * It knows tasks, deaths, budgets, deadlines and verdicts. It knows no process, port, socket, file,
 * clock or random source: time comes with the event, jitter from a seeded generator in the state,
 * and all memory is allocated when it is made. The shipped object and the simulated one are the
 * same. doc/internals/maintainer.md has the table of states and events.
 *
 * The life of a generation:
 *   a place for each task -> hold every port (gang) -> launch all -> all ready -> running -> a
 *   death -> verdict.
 * Nodes are opaque numbers here. The caller chooses them, and a node that was lost returns under
 * another number.
 * A verdict is reached when the first death of the generation is known to be a cause: see
 * "Cause, not consequence" in core_verdict.c.
 */
#ifndef TFC_CLUSTER_MAINTAINER_CORE_H
#define TFC_CLUSTER_MAINTAINER_CORE_H

#include "agent/task.h"
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
	bool is_failure_fatal;   /* its failure fails the job, also that of a sidecar */
	bool is_failure_ignored; /* its failure is ignored once its restarts are used up */
	/* ... only after it was ready, and while another task of its role is, which gets its
	 * work */
	bool is_replaceable;
	bool is_ready_on_listen;
	bool is_listening_assumed; /* ... by default of role and framework, not by the job file */
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
	/* If no task has ever listened, the job counts as running this long after the last task
	 * started, and has no start deadline; 0: it does not. */
	uint64_t no_listener_ns;
	uint64_t deadline_ns;         /* 0: none */
	uint64_t pending_deadline_ns; /* until a gang has all its places and ports; 0: none */
	uint32_t on_stall;            /* enum tfc__on_stall */
	/* a start that lasts this long is explained, and repeatedly from then on; 0: not */
	uint64_t explain_ns;
	uint64_t seed; /* of the jitter */
};

/* Tasks are numbered through the roles in order: role 0's tasks, then role 1's, ... */

/* ---- events */

enum tfc__core_event_kind {
	TFC__CORE_START = 1, /* the job was accepted */
	TFC__CORE_REPORT,    /* an agent's event: node, report */
	TFC__CORE_STOP,      /* a user's stop: interrupt_ns, is_kill */
	TFC__CORE_TICK,      /* the time of tfc__core_wake_at has come */
	/* Places and nodes: core_gang.c, core_node.c. */
	TFC__CORE_PLACED,     /* response to PLACE: nodes[task] of the requested tasks */
	TFC__CORE_UNPLACED,   /* response to PLACE: text: what it waits for; hopeless: in vain */
	TFC__CORE_ROOM,       /* there may be room now: waiting tasks are placed again */
	TFC__CORE_NODE_DRAIN, /* the tasks on `node` must leave it */
	TFC__CORE_LEAVE,      /* `count` tasks from `task` on must be placed again; text: why */
	TFC__CORE_SUSPEND,    /* stop all tasks and end; another epoch continues the job */
};

struct tfc__core_event {
	enum tfc__core_event_kind kind;
	uint32_t node; /* REPORT, NODE_DRAIN: which */
	const struct tfc__task_event *report;
	uint32_t task;
	uint32_t count;
	uint32_t number;       /* PLACED, UNPLACED: of the request */
	const uint32_t *nodes; /* PLACED: per task of the job */
	uint64_t interrupt_ns; /* STOP */
	bool is_kill;
	/* UNPLACED: the missing capacity will not come, and the job ends with this enum
	 * tfc_end_reason; 0: it may come */
	uint32_t hopeless;
	const char *text; /* or NULL */
};

/* ---- actions, to be carried out in order */

enum tfc__core_action_kind {
	TFC__DO_ORDER = 1, /* send `order` to the agent of `node` */
	/* find nodes for all tasks for which tfc__core_wants_place(core, i, `task`) is true, all or
	 * none; respond with PLACED or UNPLACED, `number` and `task` */
	TFC__DO_PLACE,
	TFC__DO_REPORT_TASK, /* notify subscribers: task, attempt, state, reason, end, text */
	TFC__DO_REPORT_JOB,  /* notify subscribers: job state, generation, text */
	/* the last action: verdict; all tasks are reaped and all ports released */
	TFC__DO_END,
	TFC__DO_SUSPENDED, /* the last action after SUSPEND: like END, without a verdict */
};

struct tfc__core_action {
	enum tfc__core_action_kind kind;
	uint32_t node; /* ORDER */
	struct tfc__task_order order;
	uint32_t task; /* END, and REPORT_JOB of stopping: the deciding task, or UINT32_MAX */
	uint32_t attempt;
	uint32_t generation;
	uint32_t number; /* PLACE */
	uint32_t state;  /* enum tfc_task_state or tfc_job_state */
	uint32_t reason; /* enum tfc_end_reason */
	/* REPORT_TASK in a terminal state. END, REPORT_JOB of stopping: only the status, which is
	 * an exit code or a signal, by `reason`. */
	struct tfc__attempt_end end;
	const char *text; /* or "" */
};

/* ---- the state machine */

/* Makes one in state pending; NULL when out of memory. */
struct tfc__core *tfc__core_new(const struct tfc__core_policy *policy);
void tfc__core_free(struct tfc__core *core);

/*
 * Handles one event. An event that is not expected (a task's second EXITED, HELD after RELEASE,
 * anything after END) is ignored. Every attempt that was launched must end in EXITED or REFUSED,
 * also after a STOP. `now` is in nanoseconds and never decreases. The caller then reads the
 * actions with tfc__core_next until it returns NULL; they stay valid until the next step.
 */
void tfc__core_step(struct tfc__core *core, const struct tfc__core_event *event, uint64_t now);
const struct tfc__core_action *tfc__core_next(struct tfc__core *core);

/* The time at which the core needs a TICK; 0: not before another event. */
uint64_t tfc__core_wake_at(const struct tfc__core *core);

/* ---- resuming a job of an earlier epoch */

struct tfc__resume_task {
	uint32_t attempt; /* its last attempt; 0: none */
	bool is_done;     /* that attempt ended with exit code 0 */
	bool was_running; /* its end was not reported: it is lost */
	/* name of the node of that attempt; NULL: the node cannot be queried */
	const char *node;
	/* address of a task that is done, which stays in the others' cluster spec; or NULL */
	const char *address;
};

struct tfc__resume {
	uint32_t generation;
	/* STOPPING: there was a verdict, and only the end is missing */
	uint32_t job_state;
	uint32_t reason; /* reason of the verdict, from REPORT_JOB of stopping */
	int32_t status;
	uint32_t task; /* or UINT32_MAX */
	const char *text;
	const struct tfc__resume_task *tasks; /* per task of the job */
};

/*
 * Called before START. Tasks that are done stay done. All others form the next generation, once
 * every node where tasks were running has responded to a QUERY or is lost: an agent responds to a
 * later epoch when no task of an earlier one is alive there. nodes: the number of each task's node,
 * or TFC__NO_NODE; NULL: none. Both are read before the call returns.
 */
#define TFC__NO_NODE UINT32_MAX
void tfc__core_resume(struct tfc__core *core, const struct tfc__resume *resume,
		      const uint32_t *nodes);

/* ---- queries */

/* For PLACE: whether a task needs a place; `requested` is the action's task. */
bool tfc__core_wants_place(const struct tfc__core *core, uint32_t task, uint32_t requested);
uint32_t tfc__core_node(const struct tfc__core *core, uint32_t task); /* or TFC__NO_NODE */

uint32_t tfc__core_task_count(const struct tfc__core *core);
uint32_t tfc__core_job_state(const struct tfc__core *core);
uint32_t tfc__core_generation(const struct tfc__core *core);
uint32_t tfc__core_task_state(const struct tfc__core *core, uint32_t task);
uint32_t tfc__core_attempt(const struct tfc__core *core, uint32_t task);

/* The text about a task's final failure if it is ignored: "worker/1 exited with 1; ..."; or NULL.
 * Borrowed until the next step. */
const char *tfc__core_ignored_failure(const struct tfc__core *core, uint32_t task);

/* The restarts left in the current window of a task's budget, for describe. */
uint32_t tfc__core_budget_left(const struct tfc__core *core, uint32_t task, uint64_t now);

/* ---- policy of a job */

/* Fills *policy from a validated job; roles point into `roles` (job->role_count of them). */
void tfc__core_policy_from_job(const tfc_job *job, struct tfc__core_role *roles,
			       struct tfc__core_policy *policy);

#endif
