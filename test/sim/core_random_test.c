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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_world.h"
#include "sanitized.h"

#define SEEDS (TEST_IS_SANITIZED ? "8000" : "20000")
#define STEPS_OF_JOB 1000
#define STEPS_TO_END 20000

static void feed(struct world *w, const struct tfc__core_event *event)
{
	static const uint32_t nodes[TASKS_MAX];
	w->steps++;
	w->is_notice_reported = false;
	w->noticed = NULL;
	tfc__core_step(w->sim.core, event, w->sim.now);
	const struct tfc__core_action *a;
	while ((a = tfc__core_next(w->sim.core)))
		world_take(w, a);
	world_check_step(w);
	while (w->place_count) {
		struct place place = w->places[--w->place_count];
		feed(w, &(struct tfc__core_event){.kind = TFC__CORE_PLACED,
						  .task = place.task,
						  .number = place.number,
						  .nodes = nodes});
	}
}

/* ---- the agent */

static void report(struct world *w, uint32_t node, const struct tfc__task_event *event)
{
	feed(w, &(struct tfc__core_event){.kind = TFC__CORE_REPORT, .node = node, .report = event});
}

static void feed_task(struct world *w, enum tfc__task_event_kind kind, uint32_t i)
{
	report(w, 0,
	       &(struct tfc__task_event){.kind = kind,
					 .task = i,
					 .attempt = w->slots[i].attempt,
					 .number = w->slots[i].hold_number,
					 .text = "why"});
}

static void inspect(struct world *w, uint32_t i)
{
	struct slot *slot = &w->slots[i];
	slot->activity = TFC__ACTIVITY_STOPPED;
	if (!slot->is_frozen)
		slot->activity = chance(w, 2) ? TFC__ACTIVITY_WAITING : 1 + chance(w, 4);
	report(w, 0,
	       &(struct tfc__task_event){.kind = TFC__AGENT_STACKED,
					 .task = i,
					 .attempt = slot->attempt,
					 .activity = slot->activity,
					 .silent_ms = chance(w, 2) * 60000,
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
	slot->death = (struct tfc__attempt_end){.reason = reason,
						.status = status,
						.time_ns = w->sim.now};
	slot->proc = PROC_DEAD;
	doom_peers(w, slot);
}

static void die_honestly(struct world *w, struct slot *slot)
{
	static const int kills[] = {9, 15, 2, 1};
	static const int exits[] = {137, 143, 42}; /* the last one: TensorFlow's */
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
			slot->death = (struct tfc__attempt_end){.reason = TFC_EXIT_CODE,
								.time_ns = w->sim.now};
			slot->proc = PROC_DEAD;
		}
		break;
	case 1:
		die(w, slot, TFC_EXIT_CODE, exits[chance(w, w->sim.policy.is_tensorflow ? 3 : 2)]);
		break;
	case 2: /* frozen for good: going on again would leave no trace for the verdict */
		if (role_of(w, slot)->scope != TFC__SCOPE_TASK) {
			slot->is_frozen = true;
			doom_peers(w, slot);
		}
		break;
	default:
		die(w, slot, TFC_EXIT_SIGNAL, kills[chance(w, 4)]);
		slot->death.had_notice = once_in(w, 4);
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
	slot->death.had_notice = slot->death.status && once_in(w, 6);
	slot->death.is_port_occupied = slot->death.reason == TFC_EXIT_CODE && once_in(w, 10);
	slot->is_moving |= slot->death.is_port_occupied;
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
		feed_task(w, TFC__AGENT_REFUSED, i);
	} else {
		slot->proc = PROC_RUNNING;
		feed_task(w, TFC__AGENT_STARTED, i);
	}
}

static void deliver(struct world *w, uint32_t i)
{
	struct slot *slot = &w->slots[i];
	slot->proc = PROC_NONE;
	slot->is_stopping = slot->is_frozen = false;
	report(w, 0,
	       &(struct tfc__task_event){.kind = TFC__AGENT_EXITED,
					 .task = i,
					 .attempt = slot->attempt,
					 .end = slot->death});
}

/* It was preempted with its group: it ends when it has saved, which may take too long. */
static void save(struct world *w, struct slot *slot)
{
	static const int exits[] = {42, 42, 143, 1, 0};
	if (once_in(w, 20))
		slot->is_frozen = true;
	else if (once_in(w, 6))
		die(w, slot, TFC_EXIT_CODE, exits[chance(w, w->is_honest ? 4 : 5)]);
}

static void live(struct world *w, uint32_t i)
{
	struct slot *slot = &w->slots[i];
	if (slot->proc == PROC_RUNNING && !slot->is_frozen && once_in(w, 3)) {
		slot->proc = PROC_LISTENING;
		w->has_listened |= role_of(w, slot)->is_ready_on_listen &&
				   role_of(w, slot)->is_in_cluster;
		if (role_of(w, slot)->is_ready_on_listen)
			feed_task(w, TFC__AGENT_READY, i);
	} else if (slot->is_stopping) {
		die_stopped(w, slot);
	} else if (slot->saves_until && !slot->is_frozen) {
		save(w, slot);
	} else if (slot->is_stacking && once_in(w, 4)) {
		slot->is_stacking = false;
		inspect(w, i);
	} else if (once_in(w, 50)) {
		feed_task(w, once_in(w, 3) ? TFC__AGENT_NOTICE : TFC__AGENT_STALLED, i);
	} else if (slot->is_frozen) {
		slot->is_frozen = w->is_honest || !once_in(w, 4);
	} else if (slot->is_signaled && once_in(w, 3)) {
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
			feed_task(w, TFC__AGENT_HOLD_FAILED, i);
			promise(w, slot->hold == HOLD_NONE, NULL); /* its seat was given back */
			return;
		}
		slot->hold = HOLD_HELD;
		feed_task(w, TFC__AGENT_HELD, i);
		return;
	}
	switch (slot->proc) {
	case PROC_NONE:
		if (once_in(w, 50)) /* an echo of the last attempt */
			feed_task(w, TFC__AGENT_EXITED, i);
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
	report(w, 0,
	       &(struct tfc__task_event){.kind = TFC__AGENT_STATES,
					 .number = query,
					 .states = states});
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
	bool is_kill = once_in(w, 3);
	w->is_killed_by_user |= is_kill;
	feed(w, &(struct tfc__core_event){.kind = TFC__CORE_STOP,
					  .interrupt_ns = once_in(w, 2) ? 2 * SIM_SECOND : 0,
					  .is_kill = is_kill});
}

static void show(struct world *w)
{
	struct tfc__inspected inspected[TFC__INSPECTED_MAX];
	struct tfc__task_event event = {.kind = TFC__AGENT_INSPECTED,
					.number = w->inspect,
					.inspected = inspected};
	for (uint32_t i = 0; i < w->count && event.inspected_count < TFC__INSPECTED_MAX; i++)
		if (w->slots[i].proc == PROC_RUNNING)
			inspected[event.inspected_count++] =
				(struct tfc__inspected){i, "not listening, idle"};
	w->inspect = 0;
	report(w, 0, &event);
}

/* Something must be under way, or the job would wait for ever. */
static void check_liveness(struct world *w)
{
	bool is_under_way = w->query || w->inspect || tfc__core_wake_at(w->sim.core) ||
			    !w->is_started;
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
	} else if (w->inspect && once_in(w, 6)) {
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

/* ---- a job from its beginning to its end */

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
	world_make_job(&w);
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
