/*
 * cluster: the maintainer's core against an agent that does whatever an agent may do, in random
 * order, while every action is checked against what the core promises.
 *
 * A seed makes a job (strategy, roles, policy) and its fate. Two kinds of world:
 *   chaos    every death, loss, refusal, stranger and stop there is
 *   honest   programs fail only because they were killed, lost or frozen, or because a peer was;
 *            with enough restarts such a job must never fail
 *
 * usage: core_random_test [SEED]   one seed alone, with its trace
 * Read from the environment: TFC_TEST_SEEDS, how many jobs there are.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cluster/maintainer_core.h"
#include "sanitized.h"
#include "sim_random.h"

#define SEEDS (TEST_IS_SANITIZED ? "8000" : "20000")
#define STEPS_OF_JOB 1000
#define STEPS_TO_END 20000
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
	bool is_signalled;
	bool is_doomed;   /* a peer has died on it */
	bool is_moving;   /* a stranger has its port */
	bool is_stacking; /* its stacks were asked for */
	bool is_end_told;
	uint32_t end_reason;
	uint32_t attempt;
	uint32_t generation;
	struct tfc__death death;
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
	uint32_t look; /* open one, or 0 */
	uint32_t last_look;
	uint32_t job_state;
	uint32_t generation;
	bool is_started;
	bool is_ended;
	bool is_stopped_by_user;
	struct place places[TASKS_MAX]; /* to be answered */
	uint32_t place_count;
	uint64_t steps;
	uint64_t hash;
	struct charge charges[CHARGES_MAX];
	uint32_t charge_count;
	struct tfc__core_action end;
};

/* ---- checking actions */

static const struct tfc__core_role *role_of(const struct world *w, const struct slot *slot)
{
	return &w->sim.roles[slot->role];
}

static bool is_named(const struct world *w, const struct slot *slot, const char *name)
{
	return strcmp(role_of(w, slot)->name, name) == 0;
}

static bool is_member(const struct world *w, const struct slot *slot)
{
	const struct tfc__core_role *role = role_of(w, slot);
	return role->scope != TFC__SCOPE_TASK ||
	       (role->is_in_cluster && strcmp(role->name, "evaluator") != 0);
}

static void check_charge(struct world *w, const struct tfc__core_action *a, uint32_t unit)
{
	const struct tfc__core_role *role = role_of(w, &w->slots[a->task]);
	bool is_loss = strstr(a->text, " losses in ") != NULL;
	uint64_t window = is_loss ? w->sim.policy.loss_window_ns : role->window_ns;
	uint32_t max = is_loss ? w->sim.policy.loss_max : role->restart_max;
	uint32_t spent = 1;
	for (uint32_t i = 0; i < w->charge_count; i++) {
		const struct charge *c = &w->charges[i];
		spent += c->unit == unit && c->is_loss == is_loss && w->sim.now - c->at < window;
	}
	bool is_within_budget = spent <= max;
	promise(w, is_within_budget, a);
	if (w->charge_count < CHARGES_MAX)
		w->charges[w->charge_count++] = (struct charge){w->sim.now, unit, is_loss};
}

static void check_launch(struct world *w, struct slot *slot, const struct tfc__core_action *a)
{
	promise(w, slot->hold == HOLD_HELD, a);
	promise(w, slot->proc == PROC_NONE, a);
	promise(w, !slot->is_moving, a);
	promise(w, a->attempt == slot->attempt + 1, a);
	promise(w, slot->attempt == 0 || slot->is_end_told, a);
	promise(w, a->generation >= w->generation, a);
	w->generation = a->generation;
	for (uint32_t i = 0; i < w->count && is_member(w, slot); i++) {
		const struct slot *other = &w->slots[i];
		bool is_old_generation_dead = !is_member(w, other) || other->proc == PROC_NONE ||
					      other->generation == a->generation;
		promise(w, is_old_generation_dead, a);
	}
	slot->proc = PROC_STARTING;
	slot->attempt = a->attempt;
	slot->generation = a->generation;
	slot->is_frozen = slot->is_stopping = slot->is_signalled = false;
	slot->is_doomed = slot->is_end_told = slot->is_stacking = false;
}

static void check_tell(struct world *w, struct slot *slot, const struct tfc__core_action *a)
{
	promise(w, a->attempt == slot->attempt, a);
	if (a->state < TFC_TASK_EXITED) {
		promise(w, a->state == TFC_TASK_HOLDING || !slot->is_end_told, a);
		promise(w, a->reason != TFC_END_STALLED || slot->proc >= PROC_RUNNING, a);
		if (strstr(a->text, "; restarting "))
			check_charge(w, a,
				     strstr(a->text, "; restarting the group") ? TASKS_MAX
									       : a->task);
		return;
	}
	promise(w, slot->attempt > 0, a);
	promise(w, !slot->is_end_told, a);
	promise(w, slot->proc == PROC_NONE, a);
	promise(w, a->reason != TFC_END_NONE, a);
	slot->is_end_told = true;
	slot->end_reason = a->reason;
	if (strstr(a->text, "; restarting "))
		check_charge(w, a, strstr(a->text, "; restarting the group") ? TASKS_MAX : a->task);
}

static void check_end(struct world *w, const struct tfc__core_action *a)
{
	promise(w, !w->is_ended, a);
	for (uint32_t i = 0; i < w->count; i++) {
		const struct slot *slot = &w->slots[i];
		promise(w, slot->proc == PROC_NONE, a);
		promise(w, slot->hold == HOLD_NONE, a);
		promise(w, slot->attempt == 0 || slot->is_end_told, a);
	}
	promise(w,
		a->task == UINT32_MAX || a->reason == TFC_END_DEADLINE ||
			a->reason == TFC_END_REFUSED ||
			w->slots[a->task].end_reason != TFC_END_CONSEQUENCE,
		a);
	promise(w, a->state >= TFC_JOB_SUCCEEDED, a);
	promise(w, a->state != TFC_JOB_STOPPED || w->is_stopped_by_user, a);
	promise(w, !w->is_honest || a->state != TFC_JOB_FAILED, a);
	w->is_ended = true;
	w->end = *a;
}

static void check_job(struct world *w, const struct tfc__core_action *a)
{
	bool is_past_stopping = w->job_state == TFC_JOB_STOPPING && a->state != TFC_JOB_STOPPING;
	promise(w, !is_past_stopping, a);
	promise(w, a->state <= TFC_JOB_STOPPING, a);
	w->job_state = a->state;
	if (a->state != TFC_JOB_RUNNING)
		return;
	for (uint32_t i = 0; i < w->count; i++) {
		const struct slot *slot = &w->slots[i];
		bool is_ready_or_over = slot->proc != PROC_STARTING && !slot->is_stopping;
		promise(w, is_ready_or_over, a);
	}
}

static void add_hash(struct world *w, const void *data, size_t len)
{
	const unsigned char *bytes = data;
	for (size_t i = 0; i < len; i++)
		w->hash = (w->hash ^ bytes[i]) * 1099511628211ull;
}

static void hash_action(struct world *w, const struct tfc__core_action *a)
{
	/* one by one: the bytes between fields are anything */
	const uint64_t numbers[] = {
		a->kind,
		a->task,
		a->attempt,
		a->generation,
		a->number,
		a->grace_ns,
		a->state,
		a->reason,
		(uint64_t)a->status,
		a->death.reason,
		a->death.time_ns,
		a->death.is_oom,
		a->death.is_stranger,
		(uint64_t)a->death.status,
	};
	add_hash(w, numbers, sizeof(numbers));
	add_hash(w, a->text, strlen(a->text));
}

static void take(struct world *w, const struct tfc__core_action *a)
{
	struct slot *slot = a->task < w->count ? &w->slots[a->task] : NULL;
	bool is_about_attempt = slot && a->attempt == slot->attempt && slot->proc != PROC_NONE;
	promise(w, !w->is_ended, a);
	hash_action(w, a);
	if (w->is_loud) {
		struct tfc__buf line = {0};
		sim_print(&w->sim, a, &line);
		printf("%5llu  %s", (unsigned long long)w->steps, line.data);
		tfc__buf_fini(&line);
	}
	switch (a->kind) {
	case TFC__DO_HOLD:
		promise(w, slot->hold == HOLD_NONE && slot->proc == PROC_NONE, a);
		slot->hold = HOLD_ASKED;
		slot->hold_number = a->number;
		break;
	case TFC__DO_LAUNCH:
		check_launch(w, slot, a);
		break;
	case TFC__DO_SIGNAL:
		promise(w, is_about_attempt, a);
		slot->is_signalled = true;
		break;
	case TFC__DO_STOP:
		promise(w, is_about_attempt, a);
		slot->is_stopping = true;
		break;
	case TFC__DO_RELEASE:
		promise(w, slot->hold != HOLD_NONE, a);
		promise(w, slot->proc == PROC_NONE, a);
		slot->hold = HOLD_NONE;
		slot->is_moving = false;
		break;
	case TFC__DO_QUERY:
		promise(w, a->number > w->last_query, a);
		w->query = w->last_query = a->number;
		break;
	case TFC__DO_STACKS:
		promise(w, is_about_attempt && !slot->is_stopping && !slot->is_stacking, a);
		slot->is_stacking = true;
		break;
	case TFC__DO_LOOK:
		promise(w, a->number > w->last_look, a);
		w->look = w->last_look = a->number;
		break;
	case TFC__DO_TELL_TASK:
		check_tell(w, slot, a);
		break;
	case TFC__DO_TELL_JOB:
		check_job(w, a);
		break;
	case TFC__DO_PLACE:
		promise(w, w->place_count < TASKS_MAX, a);
		w->places[w->place_count++] = (struct place){a->task, a->number};
		break;
	case TFC__DO_END:
		check_end(w, a);
		break;
	case TFC__DO_SUSPENDED:
		promise(w, !"suspended", a);
		break;
	}
}

static void feed(struct world *w, const struct tfc__core_event *event)
{
	static const uint32_t nodes[TASKS_MAX];
	w->steps++;
	tfc__core_step(w->sim.core, event, w->sim.now);
	const struct tfc__core_action *a;
	while ((a = tfc__core_next(w->sim.core)))
		take(w, a);
	while (w->place_count) {
		struct place place = w->places[--w->place_count];
		feed(w, &(struct tfc__core_event){.kind = TFC__CORE_PLACED,
						  .task = place.task,
						  .query = place.number,
						  .nodes = nodes});
	}
}

/* ---- the agent */

static void feed_task(struct world *w, enum tfc__core_event_kind kind, uint32_t i)
{
	feed(w, &(struct tfc__core_event){.kind = kind,
					  .task = i,
					  .attempt = w->slots[i].attempt,
					  .query = w->slots[i].hold_number,
					  .text = "why"});
}

/* What a death does to its peers, in an honest world. */
static void doom_peers(struct world *w, const struct slot *dead)
{
	for (uint32_t i = 0; i < w->count; i++) {
		struct slot *slot = &w->slots[i];
		if (slot == dead || slot->proc < PROC_RUNNING)
			continue;
		bool is_mirrored = role_of(w, slot)->scope == TFC__SCOPE_GROUP &&
				   is_member(w, dead);
		bool is_coordinating = role_of(w, slot)->scope == TFC__SCOPE_COORDINATOR &&
				       !is_named(w, slot, "ps") && is_named(w, dead, "ps");
		slot->is_doomed |= is_mirrored || is_coordinating;
	}
}

static void die(struct world *w, struct slot *slot, uint32_t reason, int32_t status)
{
	slot->death =
		(struct tfc__death){.reason = reason, .status = status, .time_ns = w->sim.now};
	slot->proc = PROC_DEAD;
	doom_peers(w, slot);
}

static void die_honestly(struct world *w, struct slot *slot)
{
	static const int kills[] = {9, 15, 2, 1};
	static const int exits[] = {42, 137, 143};
	if (slot->is_doomed) {
		if (once_in(w, 2))
			die(w, slot, TFC_EXIT_CODE, 1);
		return;
	}
	if (!once_in(w, 12))
		return;
	switch (chance(w, 6)) {
	case 0:
		die(w, slot, TFC_EXIT_LOST, 0);
		break;
	case 3: /* done: a server never is, and nobody hurts its peers by that */
		if (once_in(w, 3) && !is_named(w, slot, "ps")) {
			slot->death = (struct tfc__death){.reason = TFC_EXIT_CODE,
							  .time_ns = w->sim.now};
			slot->proc = PROC_DEAD;
		}
		break;
	case 1:
		die(w, slot, TFC_EXIT_CODE, exits[chance(w, 3)]);
		break;
	case 2: /* frozen for good: going on again would leave no trace for the verdict */
		if (role_of(w, slot)->scope != TFC__SCOPE_TASK) {
			slot->is_frozen = true;
			doom_peers(w, slot);
		}
		break;
	default:
		die(w, slot, TFC_EXIT_SIGNAL, kills[chance(w, 4)]);
	}
}

static void die_somehow(struct world *w, struct slot *slot)
{
	static const struct {
		uint32_t reason;
		int32_t status;
	} ends[] = {{TFC_EXIT_CODE, 0},    {TFC_EXIT_CODE, 0},    {TFC_EXIT_CODE, 1},
		    {TFC_EXIT_CODE, 1},    {TFC_EXIT_CODE, 42},   {TFC_EXIT_CODE, 137},
		    {TFC_EXIT_CODE, 139},  {TFC_EXIT_CODE, 255},  {TFC_EXIT_SIGNAL, 9},
		    {TFC_EXIT_SIGNAL, 9},  {TFC_EXIT_SIGNAL, 15}, {TFC_EXIT_SIGNAL, 6},
		    {TFC_EXIT_SIGNAL, 11}, {TFC_EXIT_LOST, 0},    {TFC_EXIT_LOST, 0}};
	if (!once_in(w, slot->is_doomed ? 3 : 30))
		return;
	uint32_t end = chance(w, sizeof(ends) / sizeof(ends[0]));
	die(w, slot, ends[end].reason, ends[end].status);
	slot->death.is_oom = slot->death.reason == TFC_EXIT_SIGNAL && once_in(w, 10);
	slot->death.is_stranger = slot->death.reason == TFC_EXIT_CODE && once_in(w, 10);
	slot->is_moving |= slot->death.is_stranger;
}

/* It was told to stop: it dies of that, or ends by itself with whatever. */
static void die_stopped(struct world *w, struct slot *slot)
{
	switch (chance(w, 5)) {
	case 0:
		die(w, slot, TFC_EXIT_CODE, once_in(w, 2) ? 0 : 1);
		break;
	case 1:
		die(w, slot, TFC_EXIT_SIGNAL, 9);
		break;
	case 2:
		die(w, slot, TFC_EXIT_SIGNAL, 15);
		break;
	default:
		break;
	}
}

static void start(struct world *w, uint32_t i)
{
	static const int transient[] = {TFC_EAGAIN, TFC_EMFILE, TFC_ENOMEM};
	static const int lasting[] = {TFC_ENOENT, TFC_ENOEXEC, TFC_EACCES, TFC_ECWD};
	struct slot *slot = &w->slots[i];
	if (once_in(w, 40)) {
		die(w, slot, TFC_EXIT_NOT_STARTED, transient[chance(w, 3)]);
	} else if (!w->is_honest && once_in(w, 80)) {
		die(w, slot, TFC_EXIT_NOT_STARTED, lasting[chance(w, 4)]);
	} else if (!w->is_honest && once_in(w, 200)) {
		slot->proc = PROC_NONE;
		feed_task(w, TFC__CORE_REFUSED, i);
	} else {
		slot->proc = PROC_RUNNING;
		feed_task(w, TFC__CORE_STARTED, i);
	}
}

static void deliver(struct world *w, uint32_t i)
{
	struct slot *slot = &w->slots[i];
	slot->proc = PROC_NONE;
	slot->is_stopping = slot->is_frozen = false;
	feed(w, &(struct tfc__core_event){.kind = TFC__CORE_EXITED,
					  .task = i,
					  .attempt = slot->attempt,
					  .death = slot->death});
}

static void live(struct world *w, uint32_t i)
{
	struct slot *slot = &w->slots[i];
	if (slot->proc == PROC_RUNNING && !slot->is_frozen && once_in(w, 3)) {
		slot->proc = PROC_LISTENING;
		if (role_of(w, slot)->is_ready_on_listen)
			feed_task(w, TFC__CORE_READY, i);
	} else if (slot->is_stopping) {
		die_stopped(w, slot);
	} else if (slot->is_stacking && once_in(w, 4)) {
		slot->is_stacking = false;
		feed_task(w, TFC__CORE_STACKED, i);
	} else if (once_in(w, 50)) {
		feed_task(w, TFC__CORE_STALLED, i);
	} else if (slot->is_frozen) {
		slot->is_frozen = w->is_honest || !once_in(w, 4);
	} else if (slot->is_signalled && once_in(w, 3)) {
		die(w, slot, TFC_EXIT_SIGNAL, 2);
	} else if (w->is_honest) {
		die_honestly(w, slot);
	} else if (once_in(w, 60)) {
		slot->is_frozen = true;
	} else {
		die_somehow(w, slot);
	}
}

static void move_task(struct world *w, uint32_t i)
{
	struct slot *slot = &w->slots[i];
	if (slot->hold == HOLD_ASKED) {
		if (!w->is_honest && once_in(w, 150)) {
			feed_task(w, TFC__CORE_HOLD_FAILED, i);
			promise(w, slot->hold == HOLD_NONE, NULL); /* its seat was given back */
			return;
		}
		slot->hold = HOLD_HELD;
		feed_task(w, TFC__CORE_HELD, i);
		return;
	}
	switch (slot->proc) {
	case PROC_NONE:
		if (once_in(w, 50)) /* an echo of the last attempt */
			feed_task(w, TFC__CORE_EXITED, i);
		break;
	case PROC_STARTING:
		if (slot->is_stopping && once_in(w, 2))
			die(w, slot, TFC_EXIT_NOT_STARTED, TFC_ECANCELED);
		else
			start(w, i);
		break;
	case PROC_RUNNING:
	case PROC_LISTENING:
		live(w, i);
		break;
	case PROC_DEAD:
		deliver(w, i);
		break;
	}
}

static void answer(struct world *w)
{
	uint32_t query = w->query;
	uint8_t states[TASKS_MAX];
	for (uint32_t i = 0; i < w->count; i++)
		if (w->slots[i].proc == PROC_DEAD)
			deliver(w, i);
	for (uint32_t i = 0; i < w->count; i++) {
		const struct slot *slot = &w->slots[i];
		states[i] = slot->proc < PROC_RUNNING ? TFC__PROC_NONE
			    : slot->is_frozen         ? TFC__PROC_STOPPED
						      : TFC__PROC_RUNNING;
	}
	if (w->query == query)
		w->query = 0;
	feed(w,
	     &(struct tfc__core_event){.kind = TFC__CORE_ANSWER, .query = query, .states = states});
}

static void pass_time(struct world *w)
{
	uint64_t wake = tfc__core_wake_at(w->sim.core);
	if (wake > w->sim.now && once_in(w, 3))
		w->sim.now = wake;
	else
		w->sim.now += chance(w, 2000) * 1000000ull;
	feed(w, &(struct tfc__core_event){.kind = TFC__CORE_TICK});
}

static void stop_by_user(struct world *w)
{
	w->is_stopped_by_user = true;
	feed(w, &(struct tfc__core_event){.kind = TFC__CORE_STOP,
					  .interrupt_ns = once_in(w, 2) ? 2 * SIM_SECOND : 0,
					  .is_kill = once_in(w, 3)});
}

static void show(struct world *w)
{
	struct tfc__looked looked[TFC__LOOKED_MAX];
	struct tfc__core_event event = {.kind = TFC__CORE_LOOKED,
					.query = w->look,
					.looked = looked};
	for (uint32_t i = 0; i < w->count && event.count < TFC__LOOKED_MAX; i++)
		if (w->slots[i].proc == PROC_RUNNING)
			looked[event.count++] = (struct tfc__looked){i, "not listening, idle"};
	w->look = 0;
	feed(w, &event);
}

/* Something must be under way, or the job would wait for ever. */
static void check_liveness(struct world *w)
{
	bool is_under_way = w->query || w->look || tfc__core_wake_at(w->sim.core) || !w->is_started;
	for (uint32_t i = 0; i < w->count && !is_under_way; i++)
		is_under_way = w->slots[i].hold == HOLD_ASKED || w->slots[i].proc != PROC_NONE;
	promise(w, is_under_way || w->is_ended, NULL);
}

static void move(struct world *w)
{
	if (!w->is_started && once_in(w, 2)) {
		w->is_started = true;
		feed(w, &(struct tfc__core_event){.kind = TFC__CORE_START});
	} else if (w->query && once_in(w, 6)) {
		answer(w);
	} else if (w->look && once_in(w, 6)) {
		show(w);
	} else if (once_in(w, 12)) {
		pass_time(w);
	} else if (once_in(w, w->is_honest ? 5000 : 1500)) {
		stop_by_user(w);
	} else {
		move_task(w, chance(w, w->count));
	}
	if (!w->is_ended)
		check_liveness(w);
}

/* ---- jobs */

static void make_role(struct world *w, const char *name, uint32_t count, uint32_t scope)
{
	struct tfc__core_role *role = sim_role(&w->sim, name, count, scope);
	role->restart_max = w->is_honest ? 100000 : chance(w, 8);
	role->window_ns = w->is_honest ? SIM_SECOND : (1 + chance(w, 60)) * SIM_SECOND;
	role->backoff_min_ns = once_in(w, 3) ? SIM_SECOND : 0;
	role->backoff_max_ns = 5 * SIM_SECOND;
	role->finish_ns = once_in(w, 4) ? 0 : 5 * SIM_SECOND;
	if (w->is_honest)
		return;
	role->restart_on = chance(w, 3);
	role->is_failure_ignored = once_in(w, 8);
}

/* Where scopes are mixed, a task's peers may fail and nobody restarts the group: that is chaos. */
static uint32_t group_or(struct world *w, bool is_all_group, uint32_t scope)
{
	return is_all_group || (!w->is_honest && once_in(w, 8)) ? TFC__SCOPE_GROUP : scope;
}

static void make_mirrored(struct world *w)
{
	bool has_chief = once_in(w, 2);
	sim_init(&w->sim, TFC_STRATEGY_MULTI_WORKER_MIRRORED,
		 has_chief ? TFC__SUCCESS_CHIEF : TFC__SUCCESS_ALL_WORKERS);
	if (has_chief)
		make_role(w, "chief", 1, TFC__SCOPE_GROUP);
	make_role(w, "worker", 1 + chance(w, 5), TFC__SCOPE_GROUP);
}

static void make_parameter_server(struct world *w)
{
	bool has_driver = once_in(w, 4);
	bool is_group = once_in(w, 5);
	sim_init(&w->sim, TFC_STRATEGY_PARAMETER_SERVER,
		 has_driver ? TFC__SUCCESS_DRIVER : TFC__SUCCESS_CHIEF);
	make_role(w, has_driver ? "driver" : "chief", 1,
		  group_or(w, is_group, TFC__SCOPE_COORDINATOR));
	make_role(w, "worker", 1 + chance(w, 4), group_or(w, is_group, TFC__SCOPE_TASK));
	make_role(w, "ps", 1 + chance(w, 3), group_or(w, is_group, TFC__SCOPE_COORDINATOR));
}

static void make_plain(struct world *w)
{
	sim_init(&w->sim, TFC_STRATEGY_NONE,
		 once_in(w, 2) ? TFC__SUCCESS_ALL_WORKERS : TFC__SUCCESS_WORKER0);
	make_role(w, once_in(w, 2) ? "worker" : "server", 1 + chance(w, 4), TFC__SCOPE_TASK);
}

static void make_job(struct world *w)
{
	switch (chance(w, 5)) {
	case 0:
	case 1:
		make_mirrored(w);
		break;
	case 2:
		make_plain(w);
		break;
	default:
		make_parameter_server(w);
	}
	if (once_in(w, 3))
		make_role(w, "evaluator", 1, TFC__SCOPE_TASK);
	if (once_in(w, 3))
		make_role(w, "tensorboard", 1, TFC__SCOPE_TASK);
	if (once_in(w, 4))
		make_role(w, "cache", 1 + chance(w, 2), TFC__SCOPE_TASK);
	struct tfc__core_policy *policy = &w->sim.policy;
	policy->seed = w->seed;
	policy->on_stall = chance(w, 3);
	policy->explain_ns = once_in(w, 2) ? 10 * SIM_SECOND : 0;
	policy->loss_max = w->is_honest ? 100000 : chance(w, 4);
	policy->loss_window_ns = w->is_honest ? SIM_SECOND : 100 * SIM_SECOND;
	if (!w->is_honest && once_in(w, 4))
		policy->start_deadline_ns = 60 * SIM_SECOND;
	if (!w->is_honest && once_in(w, 6))
		policy->deadline_ns = 300 * SIM_SECOND;
}

static void number_slots(struct world *w)
{
	for (uint32_t r = 0; r < w->sim.policy.role_count; r++)
		for (uint32_t i = 0; i < w->sim.roles[r].count; i++)
			w->slots[w->count++].role = r;
	promise(w, w->count == tfc__core_task_count(w->sim.core), NULL);
}

static struct world run(uint64_t seed, bool is_loud)
{
	static struct world w;
	memset(&w, 0, sizeof(w));
	w.seed = seed;
	w.random = (seed + 1) * 0x9e3779b97f4a7c15ull;
	w.is_loud = is_loud;
	w.is_honest = once_in(&w, 3);
	make_job(&w);
	w.sim.policy.roles = w.sim.roles;
	w.sim.core = tfc__core_new(&w.sim.policy);
	number_slots(&w);
	while (!w.is_ended && w.steps < STEPS_OF_JOB)
		move(&w);
	if (!w.is_ended)
		stop_by_user(&w);
	while (!w.is_ended && w.steps < STEPS_OF_JOB + STEPS_TO_END)
		move(&w);
	bool is_end_reached = w.is_ended;
	promise(&w, is_end_reached, NULL);
	for (uint32_t i = 0; i < 10; i++) /* nothing comes after the end */
		move(&w);
	tfc__core_free(w.sim.core);
	return w;
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		run(strtoull(argv[1], NULL, 0), true);
		return 0;
	}
	const char *wanted = getenv("TFC_TEST_SEEDS");
	uint64_t steps = 0, seeds = strtoull(wanted ? wanted : SEEDS, NULL, 10);
	uint32_t ends[16] = {0}, honest = 0;
	for (uint64_t seed = 0; seed < seeds; seed++) {
		struct world w = run(seed, false);
		steps += w.steps;
		ends[w.end.state]++;
		honest += w.is_honest;
		if (seed % 16 == 0 && run(seed, false).hash != w.hash)
			broken(&w, "the same seed gives the same trace", NULL);
	}
	printf("%llu steps, %llu jobs: %u succeeded, %u failed, %u stopped; %u in an honest "
	       "world\n",
	       (unsigned long long)steps, (unsigned long long)seeds, ends[TFC_JOB_SUCCEEDED],
	       ends[TFC_JOB_FAILED], ends[TFC_JOB_STOPPED], honest);
	/* The worlds must not be so harsh that little is ever tried. */
	bool is_mixed = ends[TFC_JOB_SUCCEEDED] && ends[TFC_JOB_FAILED] && ends[TFC_JOB_STOPPED];
	return is_mixed && honest && steps >= 125 * seeds ? 0 : 1;
}
