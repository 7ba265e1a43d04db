/*
 * A maintainer core under a test's hand: events in by name, actions out as lines of text.
 *
 *     hold worker/0                       launch worker/0 #1 g1 (and its starting was told)
 *     signal worker/0 #1 2                stop worker/0 #1 1s
 *     release worker/0                    query 1
 *     place gang worker/0 worker/1        hold worker/0 at node 2   (when there are nodes)
 *     task worker/0 #1 failed signal 9: worker/0 died of SIGKILL; ...
 *     job restarting g1: ...              end failed exit 1 by worker/0 #1: ...
 */
#ifndef TEST_SIM_CORE_SIM_H
#define TEST_SIM_CORE_SIM_H

#include "base/buf.h"
#include "cluster/maintainer_core.h"

#define SIM_SECOND 1000000000ull
#define SIM_ROLES 8
#define SIM_TASKS 1024 /* whose HOLDs are numbered */

struct sim {
	struct tfc__core_policy policy;
	struct tfc__core_role roles[SIM_ROLES];
	struct tfc__core *core;
	uint64_t now;
	bool has_nodes;                 /* PLACE is the test's to answer, and nodes are printed */
	uint32_t query;                 /* the last QUERY's number */
	uint32_t inspect;               /* the last INSPECT's */
	uint32_t holds[SIM_TASKS];      /* the last HOLD's of each task */
	bool is_held[SIM_TASKS];        /* ... and it was answered, or taken back */
	uint32_t gang_place;            /* the last PLACE's of the gang */
	uint32_t places[SIM_TASKS];     /* ... of each task alone */
	struct tfc__core_action end;    /* END, when it has come */
	struct tfc__core_action launch; /* LAUNCH, when it was the action before this one */
	struct tfc__buf trace;
};

/* Mirrored workers, unless the test changes policy and roles before sim_start. */
void sim_init(struct sim *s, uint32_t strategy, uint32_t success);
struct tfc__core_role *sim_role(struct sim *s, const char *name, uint32_t count, uint32_t scope);
void sim_fini(struct sim *s);

/* Two mirrored workers; a chief, a worker and a ps: to be changed before sim_start, too. */
void sim_mirrored(struct sim *s);
void sim_parameter_server(struct sim *s);

uint32_t sim_task(struct sim *s, const char *name); /* "worker/1" */

/* Makes the core and sends START. */
void sim_start(struct sim *s);
/* sim_start, then everything held, started and ready; the trace is emptied. */
void sim_up(struct sim *s);
void sim_mirrored_up(struct sim *s);         /* sim_mirrored, sim_up */
void sim_parameter_server_up(struct sim *s); /* sim_parameter_server, sim_up */
/* Starts and readies every task that was launched and does not run; the trace is emptied. */
void sim_ready_all(struct sim *s);

void sim_step(struct sim *s, const struct tfc__core_event *event);
/* An event of the agent on a node. */
void sim_report(struct sim *s, uint32_t node, const struct tfc__task_event *event);

/* With has_nodes. Answers the last PLACE of the gang (task NULL) or of one task: `nodes` per task
 * of the job; NULL: there is no room, says `text`. */
void sim_placed(struct sim *s, const char *task, const uint32_t *nodes, const char *text);
/* ... : there is no room, and there will be none. */
void sim_hopeless(struct sim *s, const char *task, const char *text);
/* Two mirrored workers, started and placed; nobody has its port yet. */
void sim_mirrored_placed(struct sim *s, const uint32_t *nodes);
/* sim_start, placed so, held, started and ready; the trace is emptied. */
void sim_up_at(struct sim *s, const uint32_t *nodes);
void sim_held_all(struct sim *s); /* answers every HOLD that is not answered */
void sim_full(struct sim *s, const char *task);
void sim_room(struct sim *s);
void sim_lost(struct sim *s, uint32_t node, const char *text);
void sim_drain(struct sim *s, uint32_t node, const char *text);
void sim_answer_of(struct sim *s, uint32_t node, const uint8_t *states);
void sim_event(struct sim *s, enum tfc__task_event_kind kind, const char *task);
void sim_exit(struct sim *s, const char *task, int code);
void sim_signal(struct sim *s, const char *task, int signal);
void sim_death(struct sim *s, const char *task, struct tfc__attempt_end death, const char *text);
/* Answers the last query: all that are alive run, but `task` (or NULL) is in `state`. */
void sim_answer(struct sim *s, const char *task, enum tfc__proc_state state);
/* Answers the last INSPECT: `task` (NULL: none) is doing `what`. */
void sim_snapshot(struct sim *s, const char *task, const char *what);
void sim_stalled(struct sim *s, const char *task, uint32_t silent_ms, const char *what);
void sim_notice(struct sim *s, const char *task, const char *what);
void sim_stacked(struct sim *s, const char *task, const char *what);
void sim_inspected(struct sim *s, const char *task, enum tfc__activity activity, uint32_t silent_ms,
		   const char *what);
void sim_stop(struct sim *s, uint64_t interrupt_ns, bool is_kill);
void sim_tick(struct sim *s, uint64_t after_ns); /* moves the clock, then TICK */

void sim_print(const struct sim *s, const struct tfc__core_action *action, struct tfc__buf *out);

/* The trace since the last call is exactly these lines. */
#define sim_expect(s, lines) sim_expect_at(s, lines, __FILE__, __LINE__)
void sim_expect_at(struct sim *s, const char *lines, const char *file, int line);

#endif
