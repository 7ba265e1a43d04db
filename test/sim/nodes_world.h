/*
 * Machines that run one job's tasks, for nodes_random_test: see there.
 */
#ifndef TEST_SIM_NODES_WORLD_H
#define TEST_SIM_NODES_WORLD_H

#include "sim_random.h"

#define TASKS_MAX 16
#define MACHINES 5
#define AGENTS_MAX 4096 /* numbers of nodes over one job's life, all terms */
#define QUEUE_MAX 256
#define LEASE (15 * SIM_SECOND)
#define LOST_AFTER (LEASE * 5 / 4)
#define GRACE (12 * SIM_SECOND) /* that a task has at most when its node is killed */
#define DOOM (30 * SIM_SECOND)  /* whoever has not failed of a peer by then does not */

enum proc { PROC_NONE, PROC_STARTING, PROC_RUNNING, PROC_LISTENING };

/* A task on a machine. */
struct place {
	bool is_held;
	enum proc proc;
	uint32_t attempt;
	uint64_t epoch; /* of the order that launched it */
	bool is_stopping;
	uint64_t doomed_until; /* a peer has died on it, or cannot be reached */
	uint64_t dies_at;      /* a previous incarnation's: its guard ends it by then; or 0 */
};

struct machine {
	bool is_up;
	bool is_cut;
	bool is_draining;
	bool has_guard;        /* its node was killed, and its guard lives */
	uint64_t back_at;      /* when it rises, or the cut heals */
	uint64_t renewed_at;   /* its lease counts from then */
	uint64_t emptied_step; /* it crashed, its node was killed, or its lease was over */
	uint64_t epoch;        /* the highest heard */
	uint32_t agent;        /* number of the node that it is to the core; or TFC__NO_NODE */
	uint32_t slots;
	uint32_t outsiders; /* slots taken by other jobs, of which this maintainer knows nothing */
	struct place places[TASKS_MAX];
};

struct message {
	struct tfc__task_event event;
	uint8_t states[TASKS_MAX];
};

/* A machine as one number of the core's, over a link that keeps the order. */
struct agent {
	uint32_t machine;
	uint64_t epoch;
	uint64_t born_step;
	uint64_t received_at; /* last time that a renewal could have been heard there */
	bool is_lost;
	bool is_silent_reported;
	struct tfc__task_order orders[QUEUE_MAX];
	uint32_t order_count;
	struct message events[QUEUE_MAX];
	uint32_t event_count;
};

/* What the core thinks, by its actions and what it was told. */
struct slot {
	uint32_t role;
	uint32_t holder; /* node of its HOLD; or TFC__NO_NODE */
	uint32_t hold;
	bool is_held; /* HELD was told */
	bool is_alive;
	bool is_done;
	uint32_t attempt;
	uint32_t state;
	uint32_t machine; /* where it was launched last */
	uint32_t generation;
	uint32_t address; /* its hold, in that generation */
};

struct wish {
	uint32_t task;
	uint32_t number;
};

struct world {
	struct sim sim; /* policy, roles, core, now */
	uint64_t seed;
	uint64_t random;
	uint64_t hash;
	uint64_t steps;
	bool is_loud;
	bool is_calm;
	bool is_ended;
	bool is_fenced;
	bool is_stopped;
	bool is_suspended;
	uint64_t epoch;
	uint64_t term_at; /* when this term began */
	uint32_t verdict_reason;
	int32_t verdict_status;
	uint32_t verdict_task;
	uint64_t launches, losses, moves, outlived, wills;
	uint32_t count;
	uint32_t job_state;
	uint32_t generation;
	struct slot slots[TASKS_MAX];
	struct machine machines[MACHINES];
	struct agent *agents[AGENTS_MAX];
	uint32_t agent_count;
	struct wish wishes[QUEUE_MAX]; /* PLACEs to be answered */
	uint32_t wish_count;
	struct tfc__core_action end;
};

void world_init(struct world *w, uint64_t seed, bool is_loud);
void world_begin(struct world *w); /* roles are there: makes the core */
void world_move(struct world *w);
void world_end(struct world *w); /* checks that it has ended as it must, and frees */

/* ---- nodes_machine.c: what happens there */

/* Orders for an agent, events from it, one at a time; whether there was one. */
bool machine_obey(struct world *w, struct agent *agent);
bool machine_speak(struct world *w, struct agent *agent);
void machine_live(struct world *w, uint32_t machine, uint32_t task);
void machine_crash(struct world *w, uint32_t machine);
void machine_cut(struct world *w, uint32_t machine);
/* Its node is killed and started again at once; its tasks live on for their grace. */
void machine_restart(struct world *w, uint32_t machine);
/* Its node alone is killed; its tasks live on for their grace, and then its last will may come. */
void machine_kill_node(struct world *w, uint32_t machine);
/* Leases end, machines rise, cuts heal. */
void machine_tick(struct world *w, uint32_t machine);
bool machine_is_reached(const struct world *w, const struct agent *agent);

/* An event for the core. */
void world_feed(struct world *w, const struct tfc__core_event *event);
void world_report(struct world *w, uint32_t node, const struct tfc__task_event *event);

#endif
