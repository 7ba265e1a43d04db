/*
 * The world of core_random_test: an agent's tasks as the core has ordered them, and the job.
 */
#ifndef TEST_SIM_CORE_WORLD_H
#define TEST_SIM_CORE_WORLD_H

#include <string.h>

#include "sim_random.h"

#define TASKS_MAX 24
#define CHARGES_MAX 4096

enum hold { HOLD_NONE, HOLD_ASKED, HOLD_HELD };
enum proc { PROC_NONE, PROC_STARTING, PROC_RUNNING, PROC_LISTENING, PROC_DEAD };

struct charge {
	uint64_t at;
	uint32_t unit; /* task, or TASKS_MAX: the group */
	bool is_loss;
};

struct slot {
	uint32_t role;
	enum hold hold;
	uint32_t hold_number;
	enum proc proc; /* DEAD: its EXITED is not told to the core yet */
	bool is_frozen;
	bool is_stopping;
	bool is_signaled;
	bool is_doomed;    /* a peer has died on it */
	bool is_moving;    /* a stranger has its port */
	bool is_stacking;  /* its stacks were asked for */
	uint32_t activity; /* enum tfc__activity, as was answered last */
	bool is_end_reported;
	bool was_ready;       /* so it was told */
	uint64_t saves_until; /* one of its group was preempted; 0: none was */
	uint32_t end_reason;
	uint64_t launched_at;
	uint64_t done_at; /* with 0; 0: not */
	uint32_t attempt;
	uint32_t generation;
	struct tfc__attempt_end death;
};

struct place {
	uint32_t task;
	uint32_t number;
};

struct world {
	uint64_t seed;
	uint64_t random;
	bool is_honest;
	bool is_loud;
	struct sim sim; /* policy, roles, core, now */
	struct slot slots[TASKS_MAX];
	uint32_t count;
	uint32_t query; /* open one, or 0 */
	uint32_t last_query;
	uint32_t inspect; /* open one, or 0 */
	uint32_t last_inspect;
	uint32_t job_state;
	uint32_t generation;
	bool is_started;
	bool has_listened; /* a task of the cluster, once */
	uint32_t failed;   /* in this step, a task whose work another may do: + 1 */
	bool is_ended;
	bool is_stopped_by_user;
	bool is_killed_by_user;
	bool is_notice_reported;        /* of a consequence, in this step */
	const struct slot *noticed;     /* the last cause, if it had a notice */
	struct tfc__attempt_end cause;  /* the last one that was told, and no consequence */
	struct place places[TASKS_MAX]; /* to be answered */
	uint32_t place_count;
	uint64_t steps;
	uint64_t hash;
	struct charge charges[CHARGES_MAX];
	uint32_t charge_count;
	struct tfc__core_action end;
};

static inline const struct tfc__core_role *role_of(const struct world *w, const struct slot *slot)
{
	return &w->sim.roles[slot->role];
}

static inline bool is_named(const struct world *w, const struct slot *slot, const char *name)
{
	return strcmp(role_of(w, slot)->name, name) == 0;
}

static inline bool is_member(const struct world *w, const struct slot *slot)
{
	const struct tfc__core_role *role = role_of(w, slot);
	return role->scope != TFC__SCOPE_TASK ||
	       (role->is_in_cluster && strcmp(role->name, "evaluator") != 0);
}

/* Checks an action against what the core promises, and notes what it orders. */
void world_take(struct world *w, const struct tfc__core_action *a);

/* After all actions of a step. */
void world_check_step(struct world *w);

/* Makes the policy and roles of a job: w->sim. */
void world_make_job(struct world *w);

#endif
