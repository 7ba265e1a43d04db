/*
 * The state of the maintainer's core, and the functions that its files share.
 *
 * core_task     one task: phases, actions about it, its end, its timer
 * core_death    the class of a death and its text
 * core_budget   how many restarts are left, and how long to wait
 * core_verdict  which death is the cause
 * core_query    what the verdict and a resumed job query the nodes for
 * core_restart  task, coordinator and group restarts
 * core_gang     all members at once: places, ports, launch; a task that moves alone
 * core_node     nodes that are lost, unreachable or drained
 * core_resume   tasks of an earlier epoch
 * core_start    what a start waits for, and how long
 * core_stall    silent tasks
 * core_end      success, failure, a user's stop, the last action
 *
 * Costs: an event about one task is O(1), or O(log n) where it sets a timer. Only events about the
 * whole group or job (gang launch, group restart, verdict, the first stall and the last response to
 * it, end) visit all tasks.
 */
#ifndef TFC_CLUSTER_CORE_STATE_H
#define TFC_CLUSTER_CORE_STATE_H

#include "base/list.h"
#include "cluster/maintainer_core.h"

#include <stdarg.h>

#define NO_TASK UINT32_MAX
#define TASK_WHY 1024                /* as a tfc_error's text */
#define ACTION_TEXT (TASK_WHY + 128) /* with a task's name */
#define NEVER UINT64_MAX             /* reachable_at: its node does not respond */

/*
 * Where a task is. Each phase defines what the task waits for. In an ALIVE phase the task has a
 * process or soon will; the phase ends in an EXITED or REFUSED event, or with the task's node.
 */
enum phase {
	PHASE_IDLE = 0,     /* nothing was requested yet */
	PHASE_INHERITED,    /* an attempt of an earlier epoch may still run */
	PHASE_GANG_PLACING, /* the gang's PLACE will find a node for it */
	PHASE_GANG_HOLDING, /* HOLD was requested; the gang's launch waits for it */
	PHASE_HELD,         /* its port is held; it waits for the gang */
	PHASE_PLACING,      /* it moves alone: its own PLACE is awaited */
	PHASE_WAITING,      /* ... and there is no room */
	PHASE_HOLDING,      /* ... HOLD was requested */
	PHASE_LAUNCHED,     /* ALIVE: LAUNCH was requested */
	PHASE_RUNNING,      /* ALIVE: its program runs, and is not ready or is being ended */
	PHASE_READY,        /* ALIVE */
	PHASE_JUDGED,       /* dead; its end is not reported before the verdict */
	PHASE_DEAD,         /* dead; it waits for its group's or a ps's next attempt */
	PHASE_BACKOFF,      /* dead; it waits for its own next attempt */
	PHASE_IGNORED,      /* it has failed for good, as `why` explains, and the job continues */
	PHASE_OVER,         /* dead or never started, for good */
};

/* What follows the end of a living attempt. */
enum outcome {
	OUTCOME_OPEN = 0, /* not decided: its death will be judged */
	OUTCOME_RESTART,  /* it starts again alone */
	OUTCOME_GROUP,    /* it starts again with its group */
	OUTCOME_OVER,     /* it stays ended */
};

/* How a living attempt is being ended. NONE if and only if its outcome is open. */
enum ending {
	ENDING_NONE = 0,
	ENDING_FINISH,    /* the job has succeeded: it may end by itself until its timer */
	ENDING_INTERRUPT, /* a user's stop has sent SIGINT */
	ENDING_SAVE,      /* it saves and ends by itself; its timer kills it */
	ENDING_STOP,      /* STOP was sent, with stop_grace */
};

/* A task's port at `node`. HOLDING phases have requested one and have none. */
enum port_state {
	PORT_NONE = 0,
	PORT_HELD,
	/* held, but a foreign listener uses it: another port is needed for the next attempt */
	PORT_OCCUPIED,
};

/* Why a living attempt is ended, if it is itself the cause of what follows. */
enum cause {
	CAUSE_NONE = 0,
	CAUSE_SILENT,  /* stopped (SIGSTOP), or it has no process */
	CAUSE_STALLED, /* no sign of progress for stall_s */
};

/* The current activity of a task, which is needed for a stall: of this task, or of one that it may
 * hold up. */
enum inspection {
	INSPECTION_NONE = 0,
	INSPECTION_REQUESTED, /* STACKED is awaited */
	INSPECTION_DONE,      /* `activity` has it, until no stall is open */
};

/* Who is inspected for a task's stall beside the task. Their responses are awaited. */
enum stall_scope {
	STALL_ALONE = 0,    /* nobody */
	STALL_COORDINATORS, /* of a ps: the coordinators, which restart with it */
	STALL_MEMBERS,      /* of a coordinator or a task of scope group: the members; it may wait
			     * for each of them */
	STALL_SCOPES,
};

enum core_phase {
	CORE_PENDING = 0, /* START is awaited */
	CORE_UP,          /* tasks are held, run, die and start again */
	CORE_FINISHING,   /* the job has succeeded; the others may end by themselves */
	CORE_ENDING,      /* it has failed or is stopped by a user; all are being stopped */
	CORE_SUSPENDING,  /* all are being stopped, and another epoch continues the job */
	CORE_ENDED,       /* END or SUSPENDED was the last action */
	CORE_FENCED,      /* another epoch has begun: no action is allowed any more */
};

/* The members of the group, all at once. From SEEKING to HOLDING none of them is launched. */
enum group_state {
	GROUP_UP = 0,   /* launched; members die and restart alone */
	GROUP_ABORTING, /* until all members are reaped and the backoff is over */
	GROUP_SEEKING,  /* PLACE is requested at the end of this step */
	GROUP_PLACING,  /* PLACE number gang_place is awaited */
	GROUP_WAITING,  /* there is no room */
	GROUP_HOLDING,  /* all have places; the launch waits for their ports */
};

/* The purpose of a QUERY. Nothing is decided before each node has responded to it or is lost. */
enum query_state {
	QUERY_NONE = 0,
	QUERY_INHERITED,   /* whether tasks of an earlier epoch still run */
	QUERY_VERDICT,     /* what the peers of `suspect` do */
	QUERY_VERDICT_CUT, /* ... and one of their nodes was unreachable meanwhile or before */
};

/* The purpose of an INSPECT. */
enum snapshot_state {
	SNAPSHOT_NONE = 0,
	SNAPSHOT_EXPLAIN,  /* to report what the start waits for */
	SNAPSHOT_DEADLINE, /* the start deadline has passed: the text says what was waited for */
};

/* Whether tasks of the cluster spec listen at all. */
enum listeners {
	LISTENERS_UNSEEN = 0,
	LISTENERS_MISSED, /* none was seen for so long that the job counts as running */
	LISTENERS_SEEN,   /* one was, once */
};

enum death_class { CLASS_DONE, CLASS_RETRYABLE, CLASS_PERMANENT };

/* Restarts in a sliding window. One entry stands for one restart. If more restarts are allowed than
 * there are entries, an entry stands for all restarts in one slice of the window. */
struct budget_entry {
	uint64_t from;
	uint32_t count;
};

struct budget {
	struct budget_entry *entries; /* ring */
	uint32_t capacity;
	uint32_t used;
	uint32_t head;        /* index of the next entry */
	uint32_t short_lives; /* of losses: preemptions in a row, soon after the start */
};

struct task {
	uint32_t role;
	uint32_t index;
	bool is_member; /* restarts with the group */
	bool is_decider;

	enum phase phase;
	enum outcome outcome;
	enum ending ending;
	enum port_state port;
	enum cause cause;
	enum inspection inspection;
	uint32_t state; /* enum tfc_task_state, as reported last */
	/* it needs another node before its next attempt: this one is drained or bad */
	bool is_leaving;
	bool is_stalled; /* its stall is open: it is silent, and the consequence is not decided */
	bool is_queried; /* the response of its node to the QUERY is awaited */

	/* core->start in which an attempt was ready last; 0: none since the group has started. It
	 * stays what it was while the task is in PHASE_READY. */
	uint32_t ready_start;

	uint32_t attempt;
	uint32_t hold;  /* number of the last HOLD */
	uint32_t place; /* number of its own PLACE */
	/* where the task or its port is; or TFC__NO_NODE. Set by tfc__task_set_node. */
	uint32_t node;
	struct tfc__link at_node; /* in the list of the tasks at `node` */
	/* time since which its node responds again; 0: always did; or NEVER */
	uint64_t reachable_at;
	uint32_t inspect_node; /* whose response to the INSPECT is awaited; or TFC__NO_NODE */
	uint8_t process;       /* enum tfc__proc_state, from its node's response */
	uint8_t activity;      /* enum tfc__activity; set in INSPECTION_DONE */
	uint32_t silent_ms;    /* as was reported last */
	uint64_t launched_at;
	uint64_t ready_at;        /* this attempt is ready since then; 0: it is not */
	uint64_t stop_at;         /* ENDING_STOP: the first STOP was sent */
	uint64_t stop_grace;      /* ... the least grace that was sent */
	uint64_t restart_at;      /* OUTCOME_RESTART, PHASE_BACKOFF */
	uint64_t timer;           /* 0: none */
	uint32_t timer_slot;      /* in the heap */
	struct task *judged;      /* PHASE_JUDGED: the next task that waits for the verdict */
	struct tfc__link waiting; /* PHASE_WAITING: in the core's list */
	struct tfc__link stacked; /* INSPECTION_DONE: ... */
	struct tfc__attempt_end death;
	char *why; /* the agent's text about the death; with the task's name an ACTION_TEXT */
	struct budget restarts;
	struct budget losses;
};

/* How much time a living task gets. */
enum grace {
	GRACE_ABORT = 0, /* it waits for a broken peer: abort_grace_s */
	GRACE_NONE,      /* it is killed */
	GRACE_WHOLE,     /* its role's: it may be saving */
	GRACE_MOVE,      /* ... and, for a member of the group, at least GRACE_SAVE */
	/* a member of the group: preempt_grace_s, without a signal before, since it has been
	 * notified, saves and ends by itself; any other task: GRACE_ABORT */
	GRACE_SAVE,
};

/* How the job ends. */
struct job_outcome {
	uint32_t state;  /* enum tfc_job_state */
	uint32_t task;   /* or NO_TASK */
	uint32_t reason; /* enum tfc_end_reason */
	int32_t status;
	char text[ACTION_TEXT];
};

struct tfc__core {
	struct tfc__core_policy policy;
	struct tfc__core_role *roles;
	struct task *tasks;
	uint32_t task_count;
	uint32_t member_count;
	uint32_t ps_count;
	struct budget_entry *entries; /* of all budgets */
	struct budget group_restarts;
	struct budget group_losses;

	uint64_t now;
	enum core_phase phase;
	enum group_state group;
	enum query_state query;
	enum snapshot_state snapshot;
	enum listeners listeners;
	uint32_t job_state;
	uint32_t generation;
	uint32_t start; /* of the group or of a coordinator: the number of the last one, from 1 */
	/* before START: the outcome in an earlier epoch, if its state is not 0 */
	struct job_outcome outcome;

	uint32_t alive;           /* tasks in an ALIVE phase */
	uint32_t members_alive;   /* ... of the group */
	uint32_t unready;         /* tasks that a start waits for */
	uint32_t undone;          /* deciders that have not ended well */
	uint32_t ignored;         /* members of the group in PHASE_IGNORED */
	uint32_t *ready;          /* per role: tasks in PHASE_READY */
	uint32_t gang_unheld;     /* tasks in PHASE_GANG_PLACING or _HOLDING */
	struct tfc__link waiting; /* tasks in PHASE_WAITING, the one that waits longest first */

	uint32_t stalled[STALL_SCOPES]; /* tasks whose stall is open, by its scope */
	uint32_t awaited[STALL_SCOPES]; /* tasks in INSPECTION_REQUESTED, by scopes they are in */
	struct tfc__link stacked;       /* tasks in INSPECTION_DONE */

	uint32_t place;              /* number of the last PLACE */
	uint32_t gang_place;         /* ... of the gang's */
	char gang_text[ACTION_TEXT]; /* what the gang waits for, as reported last */
	bool is_wait_reported;       /* the job's last text says what waits for room */

	struct tfc__link *at_nodes; /* lists of tasks, by node: tfc__tasks_at */

	uint32_t query_number; /* of the last one */
	uint32_t queried;      /* tasks whose node has not responded to it */
	struct task *suspect;  /* whose death QUERY_VERDICT is for */
	struct task *judged;   /* dead tasks that wait for the verdict */

	uint32_t snapshot_number; /* of the last INSPECT */
	uint64_t snapshot_at;     /* time limit of its responses; 0: none awaited */
	uint32_t inspected_count; /* number of tasks in `inspected` */
	struct tfc__inspected inspected[TFC__INSPECTED_MAX];
	uint64_t explain_wait;

	uint64_t start_deadline_at; /* 0: none; likewise the following ones */
	uint64_t explain_at;
	uint64_t no_listener_at;
	uint64_t pending_deadline_at;
	uint64_t repeat_at; /* when a waiting PLACE is reported again */
	uint64_t deadline_at;
	uint64_t interrupt_at;
	uint64_t end_explain_at; /* when an end that takes long is explained */
	uint64_t group_at;
	struct task **heap; /* of task timers */
	uint32_t heap_len;

	uint64_t random;
	struct tfc__core_action *actions;
	char (*whys)[TASK_WHY];     /* `why` of each task; most are never touched */
	char (*texts)[ACTION_TEXT]; /* text of each action that has one; most are never touched */
	uint32_t action_capacity;
	uint32_t action_count;
	uint32_t action_read;
};

static inline bool tfc__task_is_alive(const struct task *t)
{
	return t->phase == PHASE_LAUNCHED || t->phase == PHASE_RUNNING || t->phase == PHASE_READY;
}

/* The task runs, and its end was not decided. */
static inline bool tfc__task_is_at_work(const struct task *t)
{
	return tfc__task_is_alive(t) && t->outcome == OUTCOME_OPEN;
}

static inline bool tfc__task_is_over(const struct task *t)
{
	return t->phase == PHASE_OVER || t->phase == PHASE_IGNORED;
}

/* Whether a start waits for the task. */
static inline bool tfc__task_is_unready(const struct task *t)
{
	return t->phase != PHASE_READY && !tfc__task_is_over(t);
}

static inline uint32_t tfc__task_id(const struct tfc__core *core, const struct task *t)
{
	return (uint32_t)(t - core->tasks);
}

/* The list that has the tasks at a node, in the order of their numbers. It may have tasks at other
 * nodes, too: any number may be a node's. */
static inline struct tfc__link *tfc__tasks_at(const struct tfc__core *core, uint32_t node)
{
	return &core->at_nodes[node % (core->task_count + 1)];
}

static inline struct task *tfc__task_at(struct tfc__link *link)
{
	return tfc__container_of(link, struct task, at_node);
}

static inline const struct tfc__core_role *tfc__task_role(const struct tfc__core *core,
							  const struct task *t)
{
	return &core->roles[t->role];
}

bool tfc__task_is_ps(const struct tfc__core *core, const struct task *t);
/* Has scope coordinator and is not a ps: it restarts whenever a ps does. */
bool tfc__task_is_coordinator(const struct tfc__core *core, const struct task *t);
/* Whether its failure is the job's failure. */
bool tfc__task_is_vital(const struct tfc__core *core, const struct task *t);

/* ---- core_task.c */
struct tfc__core_action *tfc__action_add(struct tfc__core *core, enum tfc__core_action_kind kind,
					 const struct task *t);
/* t: NULL if the order is about no single task. */
struct tfc__task_order *tfc__order_add(struct tfc__core *core, uint32_t node,
				       enum tfc__order_kind kind, const struct task *t);
void tfc__action_set_text(struct tfc__core *core, struct tfc__core_action *action,
			  const char *text);
void tfc__report_job(struct tfc__core *core, uint32_t state, const char *text);
void tfc__report_task(struct tfc__core *core, struct task *t, uint32_t state);
/* The report of a terminal state: `state` and `reason` with the attempt's death. */
void tfc__report_end(struct tfc__core *core, struct task *t, uint32_t state, uint32_t reason,
		     const char *text);
void tfc__task_phase(struct tfc__core *core, struct task *t, enum phase phase);
void tfc__task_set_node(struct tfc__core *core, struct task *t, uint32_t node);
/* phase: HOLDING or GANG_HOLDING */
void tfc__task_hold(struct tfc__core *core, struct task *t, enum phase phase);
void tfc__task_release(struct tfc__core *core, struct task *t);
void tfc__task_launch(struct tfc__core *core, struct task *t);
/* Ends a living task, unless it is being stopped with no more grace than this. */
void tfc__task_end(struct tfc__core *core, struct task *t, enum grace grace, enum outcome outcome);
void tfc__task_timer(struct tfc__core *core, struct task *t, uint64_t at); /* 0: off */

/* ---- core_death.c */
enum death_class tfc__death_class(const struct tfc__core *core,
				  const struct tfc__attempt_end *death);
/* TensorFlow's preemption handler has ended an attempt that was ready. */
bool tfc__death_is_preemption(const struct tfc__core *core, const struct task *t);
/* Lost or preempted: not caused by the program, and charged to the budget of losses. */
bool tfc__death_is_loss(const struct tfc__core *core, const struct task *t);
/* The grace of the tasks that end because of t, considering t's death and the others that wait for
 * the verdict. */
enum grace tfc__death_grace(const struct tfc__core *core, const struct task *t);
/* Whether a peer's death could have caused this one. */
bool tfc__death_is_explainable(const struct tfc__attempt_end *death);
uint32_t tfc__death_reason(const struct tfc__attempt_end *death);
/* Writes a text such as "worker/1 died of SIGKILL". */
/* Without the agent's text, which tfc__death_text_add_why adds. */
void tfc__death_status_text(const struct tfc__core *core, const struct task *t, char *text,
			    size_t size);
void tfc__death_text_add_why(const struct task *t, char *text, size_t size);
void tfc__death_text(const struct tfc__core *core, const struct task *t, char *text, size_t size);
void tfc__text_name(const struct tfc__core *core, const struct task *t, char *text, size_t size);
void tfc__text_add(char *text, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- core_budget.c */
uint32_t tfc__budget_capacity(uint32_t max);
uint32_t tfc__budget_spent(const struct budget *b, uint32_t max, uint64_t window, uint64_t now);
void tfc__budget_charge(struct budget *b, uint32_t max, uint64_t window, uint64_t now);
/* The pause before the next restart after `spent` restarts within the window. */
uint64_t tfc__budget_backoff(struct tfc__core *core, const struct tfc__core_role *role,
			     uint32_t spent);

/* ---- maintainer_core.c */
void tfc__task_died(struct tfc__core *core, struct task *t, const struct tfc__attempt_end *death,
		    const char *text);

/* ---- core_verdict.c */
/* A death that was not requested, while the job is up. */
void tfc__judge_death(struct tfc__core *core, struct task *t);
void tfc__judge_response(struct tfc__core *core); /* all nodes have responded */
/* The task's node is unreachable, or was. */
void tfc__judge_unreachable(struct tfc__core *core, const struct task *t);
/* No verdict is needed any more: reports the ends of the tasks that wait for it. */
void tfc__judge_drop(struct tfc__core *core, bool is_consequence);

/* ---- core_restart.c */
/* The result of a restart after a failure that `t` caused. */
enum restart_end { RESTARTED, RESTART_REFUSED };
/*
 * Restarts the tasks of t's scope if policy and budget allow. `text` is the text so far; the
 * consequence is appended. The end of t's attempt is reported, unless t is alive; then it is
 * stopped.
 */
enum restart_end tfc__restart_failed(struct tfc__core *core, struct task *t, enum death_class class,
				     bool is_loss, char *text, size_t size);
void tfc__restart_alone(struct tfc__core *core, struct task *t); /* BACKOFF until restart_at */
void tfc__restart_timer(struct tfc__core *core, struct task *t);
/* The death of a task that was stopped in order to be restarted. */
void tfc__restart_reaped(struct tfc__core *core, struct task *t);
/* Restarts a living task that must leave its node, unless it may never be restarted. Nothing has
 * failed: no budget is charged, and there is no backoff. */
enum restart_end tfc__restart_moving(struct tfc__core *core, struct task *t, char *text,
				     size_t size);
/* Restarts the group without a charge: a dead member has to move. */
void tfc__restart_group(struct tfc__core *core, uint64_t at, enum grace grace, const char *text);

/* ---- core_gang.c */
void tfc__gang_begin(struct tfc__core *core); /* START: all tasks that are not over */
/* Begins the next generation, if all members are reaped and the backoff is over. */
void tfc__gang_form(struct tfc__core *core);
/* One of the gang's tasks releases its place and needs another. */
void tfc__gang_replace(struct tfc__core *core, struct task *t);
void tfc__gang_request_places(struct tfc__core *core); /* at the end of a step */
/* Whether the task needs another node before its next attempt. */
bool tfc__place_is_needed(const struct task *t);
void tfc__place_alone(struct tfc__core *core, struct task *t); /* then HOLD and LAUNCH */
void tfc__place_receive(struct tfc__core *core, const struct tfc__core_event *event);
void tfc__place_retry(struct tfc__core *core);  /* there may be room */
void tfc__place_repeat(struct tfc__core *core); /* reports again what it waits for */
void tfc__port_held(struct tfc__core *core, struct task *t);
void tfc__port_refused(struct tfc__core *core, struct task *t, const struct tfc__task_event *event);

/* ---- core_node.c */
void tfc__node_lost(struct tfc__core *core, uint32_t node, const char *text);
/* text: reported with the tasks that need the node; "": not reported. */
void tfc__node_unreachable(struct tfc__core *core, uint32_t node, const char *text);
void tfc__node_reachable(struct tfc__core *core, uint32_t node, const char *text);
/* Whether the task's node is unreachable, or was shortly before `at`: other tasks may have failed
 * because of that. */
bool tfc__node_was_unreachable(const struct task *t, uint64_t at);
void tfc__node_drain(struct tfc__core *core, uint32_t node, const char *why);
void tfc__tasks_leave(struct tfc__core *core, uint32_t first, uint32_t count, const char *why);

/* ---- core_query.c */
void tfc__query_nodes(struct tfc__core *core); /* core->query is the purpose */
void tfc__query_receive(struct tfc__core *core, uint32_t node, const struct tfc__task_event *event);
/* Continues what the QUERY was for, if no response is awaited any more. */
void tfc__query_conclude(struct tfc__core *core);

/* ---- core_resume.c */
void tfc__resume_start(struct tfc__core *core);
void tfc__resume_continue(struct tfc__core *core); /* no task of the earlier epoch is alive */

/* ---- core_stall.c */
void tfc__stall_begin(struct tfc__core *core, struct task *t, uint32_t silent_ms, const char *what);
void tfc__stall_inspected(struct tfc__core *core, struct task *t,
			  const struct tfc__task_event *event);
/* its inspection does not matter any more */
void tfc__stall_over(struct tfc__core *core, struct task *t);
/* ... and the stalls of other tasks need not wait for it */
void tfc__stall_conclude(struct tfc__core *core, struct task *t);
void tfc__report_stall(struct tfc__core *core, struct task *t, const char *text);
void tfc__report_notice(struct tfc__core *core, struct task *t, const char *text);

/* ---- core_start.c */
void tfc__start_begin(struct tfc__core *core); /* it is explained if it takes long */
void tfc__start_deadline_from(struct tfc__core *core, uint64_t from); /* ... and has a deadline */
/* all are ready, or the start has ended without */
void tfc__start_over(struct tfc__core *core);
void tfc__start_program_runs(struct tfc__core *core); /* one more program runs, which may listen */
void tfc__start_explain(struct tfc__core *core);
void tfc__start_no_listener(struct tfc__core *core);
void tfc__start_deadline(struct tfc__core *core);
void tfc__start_inspected(struct tfc__core *core, uint32_t node,
			  const struct tfc__task_event *event);
void tfc__start_inspect_timeout(struct tfc__core *core);
void tfc__start_node_lost(struct tfc__core *core, uint32_t node); /* the node will not respond */
/* Appends "worker/0 (not listening: idle), worker/1 (no port) and 2 more" to the text, with the
 * contents of core->inspected. Returns the first of these tasks. */
const struct task *tfc__start_waited_for(const struct tfc__core *core, char *text, size_t size);

/* ---- core_end.c */
void tfc__end_done(struct tfc__core *core, struct task *t); /* a death with code 0 */
/* A task's failure that will not be restarted. Reports its end. */
void tfc__end_failed(struct tfc__core *core, struct task *t, const char *text);
/* A task that could not get a port again. It has no attempt whose end could be reported. */
void tfc__end_portless(struct tfc__core *core, struct task *t, uint32_t count, const char *why);
void tfc__end_placeless(struct tfc__core *core, struct task *t, uint32_t reason,
			const char *text); /* ... or a node */
void tfc__end_refused(struct tfc__core *core, const struct task *t, uint32_t reason,
		      const char *text);
void tfc__end_pending_deadline(struct tfc__core *core);
void tfc__end_start_deadline(struct tfc__core *core); /* core->inspected is complete */
/* t: NULL if no single task is the cause. */
void tfc__end_stalled(struct tfc__core *core, struct task *t, const char *text);
void tfc__end_stalled_reaped(struct tfc__core *core, struct task *t);
void tfc__end_deadline(struct tfc__core *core);
void tfc__end_by_user(struct tfc__core *core, uint64_t interrupt_ns, bool is_kill);
void tfc__end_interrupted(struct tfc__core *core); /* the interrupt's time is over */
void tfc__end_explain(struct tfc__core *core);     /* reports what the end waits for */
void tfc__end_suspend(struct tfc__core *core);
void tfc__end_succeeded(struct tfc__core *core); /* all deciders were done in an earlier epoch */
/* The time is over in which the task could have ended by itself. */
void tfc__end_overdue(struct tfc__core *core, struct task *t);
void tfc__end_reaped(struct tfc__core *core, struct task *t); /* a death while the job ends */
void tfc__end_if_reaped(struct tfc__core *core);

#endif
