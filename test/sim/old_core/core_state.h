/*
 * The inside of the maintainer's core: its state, and what its files offer each other.
 *
 * core_task     one task: phases, actions about it, timers
 * core_death    what a death means, in a class and in words
 * core_budget   how many restarts are left, and how long to wait
 * core_verdict  which death is the cause
 * core_restart  task, coordinator and group restarts
 * core_gang     all members at once: places, ports, launch
 * core_place    where tasks go, and the wait for room
 * core_node     nodes that are lost or drained
 * core_ask      what the nodes are asked, and their answers put together
 * core_resume   what an earlier term has left
 * core_stall    silent tasks, and what a start waits for
 * core_end      success, failure, a user's stop, the last action
 *
 * Costs: an event about one task is O(1), O(log n) where it sets a timer; only what concerns the
 * whole group or job (gang launch, group restart, verdict, end) walks over the tasks.
 */
#ifndef TEST_SIM_OLD_CORE_STATE_H
#define TEST_SIM_OLD_CORE_STATE_H

#include "maintainer_core.h"

#include <stdarg.h>

#define NO_TASK UINT32_MAX
#define ACTION_TEXT 256
#define TASK_WHY 224

/* Where a task is. ALIVE phases have a process, or soon will; each ends in an EXITED event. */
enum phase {
	PHASE_IDLE = 0, /* nothing was asked for yet */
	PHASE_PLACING,  /* a node for it was asked for, or is waited for */
	PHASE_HOLDING,  /* HOLD was asked for */
	PHASE_HELD,     /* its port is held; waits for the gang */
	PHASE_LAUNCHED, /* ALIVE: LAUNCH was asked for */
	PHASE_RUNNING,  /* ALIVE: its program runs, and does not listen yet */
	PHASE_READY,    /* ALIVE */
	PHASE_JUDGED,   /* dead, its end is not told yet: the verdict is awaited */
	PHASE_DEAD,     /* dead: waits for the group's next generation */
	PHASE_BACKOFF,  /* dead: waits for its own next attempt */
	PHASE_OVER,     /* dead, or never started, and stays so */
};

/* What was decided about a living attempt before its end. */
enum fate {
	FATE_NONE = 0,    /* it runs; its death will be judged */
	FATE_RESTART,     /* it was stopped, and is started again alone */
	FATE_GROUP,       /* it was stopped, and is started again with its group */
	FATE_FINISH,      /* the job has succeeded: it may end by itself until its timer */
	FATE_INTERRUPTED, /* SIGINT was sent by a user's stop */
	FATE_OVER,        /* it was stopped for good */
};

enum core_phase {
	CORE_PENDING = 0,
	CORE_UP,        /* from START until an outcome is known */
	CORE_FINISHING, /* the job has succeeded; the rest may finish or is being stopped */
	CORE_ENDING,    /* the job has failed or is stopped by a user; all are being stopped */
	CORE_ENDED,     /* or let go */
};

enum group_phase {
	GROUP_UP = 0,
	GROUP_ABORTING, /* waits until all members are reaped and the backoff is over */
	GROUP_HOLDING,  /* the gang gets places and ports; nothing of it is launched yet */
};

enum death_class { CLASS_DONE, CLASS_RETRYABLE, CLASS_PERMANENT };

/* Restarts in a sliding window. One entry stands for one restart, or, where more are allowed than
 * there are entries, for all restarts of one slice of the window. */
struct budget_entry {
	uint64_t from;
	uint32_t count;
};

struct budget {
	struct budget_entry *entries; /* ring */
	uint32_t capacity;
	uint32_t used;
	uint32_t head;        /* where the next one goes */
	uint32_t short_lives; /* of losses: preemptions in a row, soon after the start */
};

struct task {
	uint32_t role;
	uint32_t index;
	uint32_t attempt;
	uint32_t hold;       /* number of the last HOLD */
	uint32_t node;       /* where it is or its port is held; or OLD__NO_NODE */
	uint32_t place;      /* number of its PLACE, when it is placed alone */
	uint32_t asked;      /* node whose answer to the QUERY is awaited for it; or OLD__NO_NODE */
	uint32_t look_asked; /* ... to the LOOK */
	enum phase phase;
	enum fate fate;
	uint32_t state; /* enum tfc_task_state, as last told */
	bool is_member; /* restarts with the group */
	bool is_decider;
	bool is_held;
	bool is_in_gang;    /* its place or its HOLD is awaited by the gang */
	bool is_gone;       /* died with its node, and that is not worked off yet */
	bool is_moved;      /* ... it was not alive */
	bool was_running;   /* in an earlier term, which did not tell its end */
	bool is_cut_off;    /* its node does not answer */
	bool is_leaving;    /* its node is drained: another one before the next attempt */
	bool is_waiting;    /* PLACING alone: there was no room */
	uint8_t proc;       /* enum old__proc_state, as its node has answered */
	bool is_port_stale; /* a stranger has it: another one before the next attempt */
	bool is_stop_sent;  /* to this attempt */
	bool is_saving;     /* it ends by itself, or is killed when its timer comes */
	bool is_silent;     /* it was blamed alive: stopped by SIGSTOP, gone, or stalled */
	bool is_stalled;    /* ... stalled */
	bool was_ready;     /* in some attempt, since its coordinator or group has started */
	bool is_ignored;    /* OVER: it has failed, as `why` says, and its job has not */
	bool is_hung;       /* a stall of it is being looked into */
	bool is_stacking;   /* STACKED is awaited */
	uint64_t launched_at;
	uint64_t ready_at;   /* this attempt was, since then; 0: it was not */
	uint8_t activity;    /* enum tfc__activity, as STACKED said; NONE: no stall is open */
	uint32_t silent_ms;  /* as was said last */
	uint64_t back_at;    /* its node answers since then; 0: it always did */
	uint64_t stop_at;    /* when */
	uint64_t stop_grace; /* the least grace sent */
	uint64_t restart_at; /* FATE_RESTART, BACKOFF */
	uint64_t timer;      /* 0: none */
	uint32_t timer_slot; /* in the heap */
	struct task *judged; /* next of those that wait for the verdict */
	struct old__death death;
	char *why; /* what the agent said about the death; with the task's name a text[256] */
	struct budget restarts;
	struct budget losses;
};

/* How long a living task still has. */
enum grace {
	GRACE_ABORT = 0, /* it waits for what is broken: abort_grace_s */
	GRACE_NONE,      /* it is killed */
	GRACE_WHOLE,     /* its role's: it may be saving */
	GRACE_MOVE,      /* ... and a member of the group no less than GRACE_SAVE */
	GRACE_SAVE, /* a member of the group: preempt_grace_s, and no signal before: it knows, saves
		       and ends by itself; any other task: GRACE_ABORT */
};

/* How the job ends. */
struct outcome {
	uint32_t state;  /* enum tfc_job_state */
	uint32_t task;   /* or NO_TASK */
	uint32_t reason; /* enum tfc_end_reason */
	int32_t status;
	char text[256];
};

struct old__core {
	struct old__core_policy policy;
	struct old__core_role *roles;
	struct task *tasks;
	uint32_t task_count;
	uint32_t member_count;
	uint32_t ps_count;
	struct budget_entry *entries; /* of all budgets */
	struct budget group_restarts;
	struct budget group_losses;

	uint64_t now;
	enum core_phase phase;
	enum group_phase group;
	uint32_t job_state;
	uint32_t generation;
	struct outcome outcome;
	bool is_suspending;  /* ENDING without an outcome */
	bool is_fenced;      /* nothing may be done any more */
	bool is_resuming;    /* the nodes of an earlier term are asked first */
	bool is_end_resumed; /* the outcome is that of an earlier term */
	enum grace grace;    /* of all that the end which is worked off takes along */

	uint32_t alive;         /* tasks in an ALIVE phase */
	uint32_t members_alive; /* ... of the group */
	uint32_t unready;       /* tasks neither ready nor over */
	uint32_t undone;        /* deciders that have not ended well */
	uint32_t hung;          /* tasks whose stall is being looked into */
	uint32_t gang_unheld;   /* tasks of the gang without a place or a port */
	uint32_t place;         /* number of the last PLACE */
	uint32_t gang_place;    /* of the gang's, which is awaited; 0: none is */
	bool is_seeking;        /* its PLACE is to be asked for at the end of this step */
	bool is_gang_waiting;   /* there was no room for it */
	bool is_whole_asked;    /* its PLACE is for all of it: nothing is held */
	char gang_text[256];    /* what it waits for, as told last */

	uint32_t query;       /* number of the last one */
	bool is_query_open;   /* its answer is awaited */
	bool is_query_cut;    /* a node that it is about could not be reached meanwhile or before */
	struct task *suspect; /* whose death it was asked for */
	struct task *judged;  /* the dead that wait for the verdict */

	uint32_t look;         /* number of the last one */
	bool is_look_open;     /* its answers are awaited */
	uint64_t look_at;      /* ... so long; 0: not */
	uint32_t looked_count; /* tasks that it is about */
	struct old__looked looked[OLD__LOOKED_MAX];
	bool is_deadline_looked; /* the start deadline has passed, its answer is awaited */
	bool has_listened;       /* some task of the cluster spec, ever */
	bool is_no_listener_told;
	uint64_t explain_wait;

	uint64_t start_deadline_at; /* 0: none; so are the others */
	uint64_t explain_at;
	uint64_t no_listener_at;
	uint64_t pending_deadline_at;
	uint64_t repeat_at; /* what is waited for is told again */
	uint64_t deadline_at;
	uint64_t interrupt_at;
	uint64_t group_at;
	struct task **heap; /* of task timers */
	uint32_t heap_len;

	uint64_t random;
	struct old__core_action *actions;
	char (*whys)[TASK_WHY];     /* of the tasks; the same holds */
	char (*texts)[ACTION_TEXT]; /* of actions that have one: of most no byte is touched */
	uint32_t action_capacity;
	uint32_t action_count;
	uint32_t action_read;
};

static inline bool old__task_is_alive(const struct task *t)
{
	return t->phase == PHASE_LAUNCHED || t->phase == PHASE_RUNNING || t->phase == PHASE_READY;
}

/* A start is not over before it. */
static inline bool old__task_is_unready(const struct task *t)
{
	return t->phase != PHASE_READY && t->phase != PHASE_OVER;
}

static inline uint32_t old__task_id(const struct old__core *core, const struct task *t)
{
	return (uint32_t)(t - core->tasks);
}

static inline const struct old__core_role *old__task_role(const struct old__core *core,
							  const struct task *t)
{
	return &core->roles[t->role];
}

bool old__task_is_ps(const struct old__core *core, const struct task *t);
/* Scope coordinator, and not a ps: it restarts whenever a ps does. */
bool old__task_is_coordinator(const struct old__core *core, const struct task *t);
/* Whether its failure is the job's failure. */
bool old__task_is_vital(const struct old__core *core, const struct task *t);

/* ---- core_task.c */
struct old__core_action *old__act(struct old__core *core, enum old__core_action_kind kind,
				  const struct task *t);
void old__act_say(struct old__core *core, struct old__core_action *action, const char *text);
void old__tell_job(struct old__core *core, uint32_t state, const char *text);
void old__tell_task(struct old__core *core, struct task *t, uint32_t state);
/* The terminal one: `state` and `reason` with the attempt's death. */
void old__tell_end(struct old__core *core, struct task *t, uint32_t state, uint32_t reason,
		   const char *text);
void old__task_phase(struct old__core *core, struct task *t, enum phase phase);
void old__task_hold(struct old__core *core, struct task *t);
void old__task_release(struct old__core *core, struct task *t);
void old__task_launch(struct old__core *core, struct task *t);
/* Ends it, unless it was told to stop with no more grace than this. */
void old__task_end(struct old__core *core, struct task *t, enum grace grace, enum fate fate);
void old__task_timer(struct old__core *core, struct task *t, uint64_t at); /* 0: off */

/* ---- core_death.c */
enum death_class old__death_class(const struct old__core *core, const struct old__death *death);
/* TensorFlow's preemption handler has ended an attempt that was ready. */
bool old__death_is_preemption(const struct old__core *core, const struct task *t);
/* Lost, or preempted: it is nobody's bug, and the budget of losses pays. */
bool old__death_is_loss(const struct old__core *core, const struct task *t);
/* What its end, and the others that wait for the verdict, leave to those that it takes along. */
enum grace old__death_grace(const struct old__core *core, const struct task *t);
/* Whether a peer's death could have caused this one. */
bool old__death_is_explainable(const struct old__death *death);
uint32_t old__death_reason(const struct old__death *death);
/* "worker/1 died of SIGKILL" */
void old__death_text(const struct old__core *core, const struct task *t, char *text, size_t size);
void old__text_name(const struct old__core *core, const struct task *t, char *text, size_t size);
void old__text_add(char *text, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- core_budget.c */
uint32_t old__budget_capacity(uint32_t max);
uint32_t old__budget_spent(const struct budget *b, uint32_t max, uint64_t window, uint64_t now);
void old__budget_charge(struct budget *b, uint32_t max, uint64_t window, uint64_t now);
/* The wait before the next restart when `spent` were made within the window. */
uint64_t old__budget_backoff(struct old__core *core, const struct old__core_role *role,
			     uint32_t spent);

/* ---- maintainer_core.c */
void old__task_died(struct old__core *core, struct task *t, const struct old__death *death,
		    const char *text);

/* ---- core_verdict.c */
/* A death that nobody asked for, while the job is up. */
void old__judge_death(struct old__core *core, struct task *t);
void old__judge_answer(struct old__core *core); /* all nodes have answered */
void old__judge_cut(struct old__core *core);    /* a node does not answer, or does again */
/* No verdict is needed any more: tells the ends of those that wait for it. */
void old__judge_drop(struct old__core *core, bool is_consequence);

/* ---- core_restart.c */
/* What may be done about a failure that `t` caused. */
enum restart_end { RESTARTED, RESTART_REFUSED };
/*
 * Restarts what t's scope says if policy and budget allow; `text` is the sentence so far and gets
 * what follows from it. The end of t's attempt is told, unless it is alive (then it is stopped).
 */
enum restart_end old__restart(struct old__core *core, struct task *t, enum death_class class,
			      bool is_loss, char *text, size_t size);
void old__restart_alone(struct old__core *core, struct task *t); /* BACKOFF until restart_at */
void old__restart_timer(struct old__core *core, struct task *t);
/* The death of one that was stopped in order to be restarted. */
void old__restart_reaped(struct old__core *core, struct task *t);
/* A living one that is to leave its node, unless it may never be restarted. Nothing has failed: it
 * is charged to no budget, and nothing is waited for. */
enum restart_end old__restart_moving(struct old__core *core, struct task *t, char *text,
				     size_t size);
void old__restart_deadline(struct old__core *core, uint64_t from); /* a start begins */
/* The group, without a charge: a dead member has to move. */
void old__restart_group(struct old__core *core, uint64_t at, const char *text);

/* ---- core_gang.c */
void old__gang_begin(struct old__core *core); /* START: all tasks that are not over */
void old__gang_gather(struct old__core *core);
void old__gang_held(struct old__core *core, struct task *t);
void old__gang_lack(struct old__core *core, struct task *t); /* one of its tasks lost its place */
void old__gang_seek(struct old__core *core); /* the step's end: asks for places, if they lack */
void old__gang_placed(struct old__core *core, const uint32_t *nodes);
void old__gang_unplaced(struct old__core *core, const char *text, uint32_t hopeless);

/* ---- core_place.c */
void old__place_alone(struct old__core *core, struct task *t); /* then HOLD and LAUNCH */
void old__place_full(struct old__core *core, struct task *t);  /* its HOLD was refused */
void old__place_heard(struct old__core *core, const struct old__core_event *event);
void old__place_again(struct old__core *core); /* there may be room */
void old__place_told(struct old__core *core);  /* that somebody waits: it is repeated */
void old__place_repeat(struct old__core *core);
/* Whether it needs another node before its next attempt. Gives up what it has at the old one. */
bool old__place_is_needed(const struct task *t);
void old__place_give_up(struct old__core *core, struct task *t);

/* ---- core_node.c */
void old__node_lost(struct old__core *core, uint32_t node, const char *text);
void old__node_silent(struct old__core *core, uint32_t node);
void old__node_back(struct old__core *core, uint32_t node);
/* Whether its node cannot be reached, or could not shortly before `at`: others may have failed of
 * that. */
bool old__node_was_cut(const struct task *t, uint64_t at);
void old__node_drain(struct old__core *core, uint32_t node, const char *why);
void old__tasks_leave(struct old__core *core, uint32_t first, uint32_t count, const char *why);

/* ---- core_ask.c */
void old__ask_query(struct old__core *core);
void old__ask_answered(struct old__core *core, uint32_t node, const uint8_t *states);
void old__ask_look(struct old__core *core);
void old__ask_looked(struct old__core *core, const struct old__core_event *event);
void old__ask_timeout(struct old__core *core);
void old__ask_lost(struct old__core *core, uint32_t node); /* it will not answer */

/* ---- core_resume.c */
void old__resume_start(struct old__core *core);
void old__resume_go_on(struct old__core *core); /* nothing of it is alive any more */

/* ---- core_stall.c */
void old__stall_heard(struct old__core *core, struct task *t, uint32_t silent_ms, const char *what);
void old__stall_stacked(struct old__core *core, struct task *t,
			const struct old__core_event *event);
void old__stall_over(struct old__core *core, struct task *t); /* nothing of it is looked into */
void old__stall_gather(struct old__core *core); /* ... and the others need not wait for it */
void old__stall_tell(struct old__core *core, struct task *t, const char *text);
void old__start_watch(struct old__core *core); /* a start begins: it is explained if it lasts */
void old__start_explain(struct old__core *core);
void old__start_deadline(struct old__core *core);
void old__start_started(struct old__core *core); /* one more program runs, and may listen */
void old__start_no_listener(struct old__core *core);
void old__start_over(struct old__core *core);   /* all are ready, or the start is given up */
void old__start_looked(struct old__core *core); /* core->looked is complete */

/* ---- core_end.c */
void old__end_done(struct old__core *core, struct task *t); /* a death with code 0 */
/* A task's failure that will not be restarted; its end is told here. */
void old__end_failed(struct old__core *core, struct task *t, const char *text);
/* A task that could not get a port again: it has no attempt whose end could be told. */
void old__end_portless(struct old__core *core, struct task *t, uint32_t count, const char *why);
void old__end_placeless(struct old__core *core, struct task *t, uint32_t reason,
			const char *text); /* nor a node */
void old__end_refused(struct old__core *core, const struct task *t, uint32_t reason,
		      const char *text);
void old__end_pending_deadline(struct old__core *core);
void old__end_start_deadline(struct old__core *core); /* core->looked is complete */
/* "worker/0 (not listening: idle), worker/1 (no port) and 2 more", added, with what core->looked
 * says of them; returns the first. */
const struct task *old__end_waited_for(const struct old__core *core, char *text, size_t size);
/* t: NULL when nobody can be named. */
void old__end_stalled(struct old__core *core, struct task *t, const char *text);
void old__end_stalled_reaped(struct old__core *core, struct task *t);
void old__end_deadline(struct old__core *core);
void old__end_by_user(struct old__core *core, uint64_t interrupt_ns, bool is_kill);
void old__end_interrupted(struct old__core *core); /* the interrupt's time is over */
void old__end_suspend(struct old__core *core);
void old__end_succeeded(struct old__core *core); /* all that was to be done was done before */
/* The time is over in which it might have ended by itself. */
void old__end_overdue(struct old__core *core, struct task *t);
void old__end_reaped(struct old__core *core, struct task *t); /* a death while it ends */
void old__end_if_reaped(struct old__core *core);

#endif
