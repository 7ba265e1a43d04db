#include "nodes_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- actions */

static struct agent *agent_of(struct world *w, const struct tfc__core_action *a)
{
	promise(w, a->node < w->agent_count, a);
	struct agent *agent = w->agents[a->node];
	promise(w, !agent->is_lost, a);
	promise(w, agent->epoch == w->epoch, a);
	return agent;
}

static void send(struct world *w, const struct tfc__core_action *a)
{
	struct agent *agent = agent_of(w, a);
	promise(w, agent->order_count < QUEUE_MAX, a);
	agent->orders[agent->order_count++] = a->order;
}

static bool is_member(const struct world *w, const struct slot *slot)
{
	const struct tfc__core_role *role = &w->sim.roles[slot->role];
	return role->is_in_cluster && strcmp(role->name, "evaluator") != 0;
}

static void take_hold(struct world *w, struct slot *slot, const struct tfc__core_action *a)
{
	promise(w, slot->holder == TFC__NO_NODE && !slot->is_alive, a);
	slot->holder = a->node;
	slot->hold = a->order.number;
	slot->is_held = false;
	send(w, a);
}

static void take_launch(struct world *w, struct slot *slot, const struct tfc__core_action *a)
{
	uint32_t machine = agent_of(w, a)->machine;
	bool is_of_generation = slot->generation == a->order.generation && slot->attempt;
	bool is_address_same = slot->address == slot->hold;
	promise(w, slot->holder == a->node && slot->is_held && !slot->is_alive, a);
	promise(w, a->order.attempt == slot->attempt + 1, a);
	if (is_member(w, slot) && is_of_generation)
		promise(w, is_address_same, a);
	w->moves += slot->attempt && slot->machine != machine;
	slot->attempt = a->order.attempt;
	slot->generation = a->order.generation;
	slot->address = slot->hold;
	slot->machine = machine;
	slot->is_alive = true;
	send(w, a);
}

static void take_report(struct slot *slot, const struct tfc__core_action *a)
{
	slot->state = a->state;
	if (a->state < TFC_TASK_EXITED)
		return;
	slot->is_alive = false;
	slot->is_done = a->state == TFC_TASK_EXITED && a->end.reason == TFC_EXIT_CODE &&
			a->end.status == 0;
}

static void take_job(struct world *w, const struct tfc__core_action *a)
{
	w->job_state = a->state;
	w->generation = a->generation;
	if (a->state != TFC_JOB_STOPPING)
		return;
	w->verdict_reason = a->reason;
	w->verdict_status = a->end.status;
	w->verdict_task = a->task;
}

/* Nothing is held, as far as orders go; and nothing is alive at all. */
static void check_end(struct world *w, const struct tfc__core_action *a)
{
	for (uint32_t i = 0; i < w->count; i++) {
		promise(w, w->slots[i].holder == TFC__NO_NODE, a);
		promise(w, !w->slots[i].is_alive, a);
		for (uint32_t k = 0; k < MACHINES; k++) {
			bool is_nothing_alive = w->machines[k].places[i].proc == PROC_NONE;
			promise(w, is_nothing_alive, a);
		}
	}
}

static void hash_action(struct world *w, const struct tfc__core_action *a)
{
	uint64_t words[] = {a->kind,         a->order.kind, a->order.task, a->order.attempt,
			    a->order.number, a->task,       a->attempt,    a->node,
			    a->number,       a->state};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		w->hash = (w->hash ^ words[i]) * 1099511628211ull;
}

static void print(const struct world *w, const struct tfc__core_action *a)
{
	struct tfc__buf line = {0};
	sim_print(&w->sim, a, &line);
	printf("%6llu %8.1f  %s", (unsigned long long)w->steps,
	       (double)w->sim.now / (double)SIM_SECOND, line.data);
	tfc__buf_fini(&line);
}

static void take_order(struct world *w, struct slot *slot, const struct tfc__core_action *a)
{
	switch (a->order.kind) {
	case TFC__ORDER_HOLD:
		take_hold(w, slot, a);
		break;
	case TFC__ORDER_LAUNCH:
		take_launch(w, slot, a);
		break;
	case TFC__ORDER_SIGNAL:
	case TFC__ORDER_STOP:
	case TFC__ORDER_STACKS:
		promise(w, slot->is_alive && slot->holder == a->node, a);
		send(w, a);
		break;
	case TFC__ORDER_RELEASE:
		promise(w, slot->holder == a->node && !slot->is_alive, a);
		slot->holder = TFC__NO_NODE;
		send(w, a);
		break;
	default:
		send(w, a);
	}
}

static void take(struct world *w, const struct tfc__core_action *a)
{
	struct slot *slot = a->task < w->count ? &w->slots[a->task] : NULL;
	promise(w, !w->is_ended && !w->is_fenced && !w->is_suspended, a);
	hash_action(w, a);
	if (w->is_loud)
		print(w, a);
	switch (a->kind) {
	case TFC__DO_ORDER:
		take_order(w, &w->slots[a->order.task], a);
		break;
	case TFC__DO_PLACE:
		promise(w, w->wish_count < QUEUE_MAX, a);
		w->wishes[w->wish_count++] = (struct wish){a->task, a->number};
		break;
	case TFC__DO_REPORT_TASK:
		take_report(slot, a);
		w->generation = a->generation;
		break;
	case TFC__DO_REPORT_JOB:
		take_job(w, a);
		break;
	case TFC__DO_END:
		check_end(w, a);
		w->is_ended = true;
		w->end = *a;
		break;
	case TFC__DO_SUSPENDED:
		check_end(w, a);
		w->is_suspended = true;
		break;
	}
}

static void note(struct world *w, uint32_t node, const struct tfc__task_event *event)
{
	for (uint32_t i = 0; i < w->count; i++) {
		struct slot *slot = &w->slots[i];
		bool is_there = slot->holder != TFC__NO_NODE && slot->holder == node;
		if (event->kind == TFC__AGENT_LOST && is_there)
			slot->holder = TFC__NO_NODE;
		if (event->kind == TFC__AGENT_HELD && is_there && event->task == i &&
		    event->number == slot->hold)
			slot->is_held = true;
	}
}

void world_feed(struct world *w, const struct tfc__core_event *event)
{
	const struct tfc__core_action *a;
	w->steps++;
	if (event->kind == TFC__CORE_REPORT)
		note(w, event->node, event->report);
	if (w->is_loud && event->kind >= TFC__CORE_PLACED)
		printf("%6llu %8.1f    event %u of node %u\n", (unsigned long long)w->steps,
		       (double)w->sim.now / (double)SIM_SECOND, event->kind, event->node);
	tfc__core_step(w->sim.core, event, w->sim.now);
	while ((a = tfc__core_next(w->sim.core)))
		take(w, a);
}

void world_report(struct world *w, uint32_t node, const struct tfc__task_event *event)
{
	world_feed(w, &(struct tfc__core_event){.kind = TFC__CORE_REPORT,
						.node = node,
						.report = event});
}

/* ---- places */

static uint32_t agent_at(struct world *w, uint32_t machine)
{
	struct machine *m = &w->machines[machine];
	if (m->agent != TFC__NO_NODE)
		return m->agent;
	promise(w, w->agent_count < AGENTS_MAX, NULL);
	struct agent *agent = calloc(1, sizeof(*agent));
	promise(w, agent != NULL, NULL);
	agent->machine = machine;
	agent->epoch = w->epoch;
	agent->received_at = w->sim.now;
	agent->born_step = w->steps;
	w->agents[w->agent_count] = agent;
	return m->agent = w->agent_count++;
}

static uint32_t used(struct world *w, uint32_t machine)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < w->count; i++) {
		uint32_t holder = w->slots[i].holder;
		count += holder != TFC__NO_NODE && w->agents[holder]->machine == machine;
	}
	return count;
}

/* One that takes a task, as far as is known: membership is late, and others take slots, too. */
static uint32_t choose(struct world *w, const uint32_t *chosen)
{
	uint32_t first = chance(w, MACHINES);
	for (uint32_t i = 0; i < MACHINES; i++) {
		uint32_t k = (first + i) % MACHINES;
		const struct machine *m = &w->machines[k];
		bool is_thought_alive = (m->is_up && !m->is_cut) || once_in(w, 10);
		bool is_thought_full = m->outsiders && once_in(w, 2);
		if (is_thought_alive && !is_thought_full && !m->is_draining &&
		    used(w, k) + chosen[k] < m->slots)
			return k;
	}
	return MACHINES;
}

static void answer_wish(struct world *w)
{
	struct wish wish = w->wishes[0];
	memmove(w->wishes, w->wishes + 1, --w->wish_count * sizeof(wish));
	uint32_t nodes[TASKS_MAX], chosen[MACHINES] = {0};
	bool has_room = true;
	for (uint32_t i = 0; i < w->count && has_room; i++) {
		nodes[i] = TFC__NO_NODE;
		if (!tfc__core_wants_place(w->sim.core, i, wish.task))
			continue;
		uint32_t machine = choose(w, chosen);
		has_room = machine < MACHINES;
		if (!has_room)
			continue;
		chosen[machine]++;
		nodes[i] = agent_at(w, machine);
	}
	world_feed(w, &(struct tfc__core_event){
			      .kind = has_room ? TFC__CORE_PLACED : TFC__CORE_UNPLACED,
			      .task = wish.task,
			      .number = wish.number,
			      .node = TFC__NO_NODE,
			      .nodes = nodes,
			      .text = "there is no room",
		      });
}

static void drain(struct world *w, uint32_t machine)
{
	struct machine *m = &w->machines[machine];
	m->is_draining = !m->is_draining;
	if (m->is_draining && m->agent != TFC__NO_NODE)
		world_feed(w, &(struct tfc__core_event){.kind = TFC__CORE_NODE_DRAIN,
							.node = m->agent,
							.text = "it is drained"});
}

/* ---- terms */

static bool was_running(const struct slot *slot)
{
	return slot->state == TFC_TASK_STARTING || slot->state == TFC_TASK_RUNNING ||
	       slot->state == TFC_TASK_READY;
}

static void forget_agents(struct world *w)
{
	w->wish_count = 0;
	w->epoch++;
	w->term_at = w->sim.now;
	for (uint32_t k = 0; k < MACHINES; k++)
		w->machines[k].agent = TFC__NO_NODE;
}

/* Another maintainer takes over, by what the first one has told. */
static void begin_term(struct world *w)
{
	struct tfc__resume_task tasks[TASKS_MAX] = {0};
	uint32_t nodes[TASKS_MAX];
	forget_agents(w);
	for (uint32_t i = 0; i < w->count; i++) {
		struct slot *slot = &w->slots[i];
		bool is_running = was_running(slot);
		tasks[i] = (struct tfc__resume_task){.attempt = slot->attempt,
						     .is_done = slot->is_done,
						     .was_running = is_running};
		nodes[i] = is_running ? agent_at(w, slot->machine) : TFC__NO_NODE;
		slot->holder = TFC__NO_NODE;
	}
	const struct tfc__resume was = {.generation = w->generation,
					.job_state = w->job_state,
					.reason = w->verdict_reason,
					.status = w->verdict_status,
					.task = w->verdict_task,
					.text = "why",
					.tasks = tasks};
	tfc__core_free(w->sim.core);
	w->sim.core = tfc__core_new(&w->sim.policy);
	promise(w, w->sim.core != NULL, NULL);
	w->is_suspended = w->is_fenced = false;
	tfc__core_resume(w->sim.core, &was, nodes);
	if (w->is_loud)
		printf("--- term %llu\n", (unsigned long long)w->epoch);
	world_feed(w, &(struct tfc__core_event){.kind = TFC__CORE_START});
}

static void fence(struct world *w)
{
	world_report(w, 0, &(struct tfc__task_event){.kind = TFC__AGENT_FENCED});
	w->is_fenced = true;
	for (uint32_t i = 0; i < w->agent_count; i++)
		while (machine_speak(w, w->agents[i]))
			;
	world_feed(w, &(struct tfc__core_event){.kind = TFC__CORE_TICK});
	world_feed(w, &(struct tfc__core_event){.kind = TFC__CORE_ROOM});
	begin_term(w);
}

/* ---- moves */

static void pass_time(struct world *w)
{
	uint64_t wake = tfc__core_wake_at(w->sim.core);
	if (wake > w->sim.now && wake < w->sim.now + 5 * SIM_SECOND && once_in(w, 3))
		w->sim.now = wake;
	else
		w->sim.now += chance(w, 1500) * 1000000ull;
	for (uint32_t k = 0; k < MACHINES; k++)
		machine_tick(w, k);
	if (!w->is_ended && !w->is_suspended)
		world_feed(w, &(struct tfc__core_event){.kind = TFC__CORE_TICK});
}

/* Old orders are still under way for a moment after their maintainer has ended. */
static void move_agent(struct world *w)
{
	struct agent *agent = w->agents[chance(w, w->agent_count)];
	bool is_ended = agent->epoch < w->epoch && w->sim.now > w->term_at + 2 * SIM_SECOND;
	if (is_ended)
		agent->order_count = agent->event_count = 0;
	else if (once_in(w, 2))
		machine_obey(w, agent);
	else
		machine_speak(w, agent);
}

static void misfortune(struct world *w)
{
	uint32_t machine = chance(w, MACHINES);
	switch (chance(w, 15)) {
	case 0:
	case 1:
		machine_crash(w, machine);
		break;
	case 2:
	case 3:
	case 4:
		machine_cut(w, machine);
		break;
	case 5:
	case 6:
		drain(w, machine);
		break;
	case 7:
	case 8:
		w->machines[machine].outsiders = chance(w, 3);
		break;
	case 9:
		begin_term(w);
		break;
	case 10:
		world_feed(w, &(struct tfc__core_event){.kind = TFC__CORE_SUSPEND});
		break;
	case 11:
		if (once_in(w, 4))
			fence(w);
		break;
	case 12:
		machine_restart(w, machine);
		break;
	case 13:
		machine_kill_node(w, machine);
		break;
	case 14: /* the maintainer's own */
		machine_restart(w, machine);
		begin_term(w);
		break;
	}
}

static void calm_down(struct world *w)
{
	for (uint32_t k = 0; k < MACHINES; k++) {
		w->machines[k].outsiders = 0;
		if (w->machines[k].is_draining)
			drain(w, k);
	}
}

static void stop_by_user(struct world *w)
{
	w->is_stopped = true;
	world_feed(w, &(struct tfc__core_event){.kind = TFC__CORE_STOP, .is_kill = once_in(w, 3)});
}

void world_move(struct world *w)
{
	w->steps++;
	if (w->is_suspended)
		begin_term(w);
	else if (w->is_calm && once_in(w, 100))
		calm_down(w);
	else if (!w->is_calm && once_in(w, 80))
		misfortune(w);
	else if (!w->is_calm && once_in(w, 8000))
		stop_by_user(w);
	else if (w->wish_count && once_in(w, 3))
		answer_wish(w);
	else if (once_in(w, 20))
		world_feed(w, &(struct tfc__core_event){.kind = TFC__CORE_ROOM});
	else if (once_in(w, 8))
		pass_time(w);
	else if (w->agent_count && once_in(w, 2))
		move_agent(w);
	else
		machine_live(w, chance(w, MACHINES), chance(w, w->count));
}

/* ---- beginning and end */

void world_init(struct world *w, uint64_t seed, bool is_loud)
{
	memset(w, 0, sizeof(*w));
	w->seed = seed;
	w->random = (seed + 1) * 0x9e3779b97f4a7c15ull;
	w->is_loud = is_loud;
	w->epoch = 1;
	w->verdict_task = UINT32_MAX;
}

void world_begin(struct world *w)
{
	w->sim.has_nodes = true;
	w->sim.core = tfc__core_new(&w->sim.policy);
	promise(w, w->sim.core != NULL, NULL);
	for (uint32_t r = 0; r < w->sim.policy.role_count; r++)
		for (uint32_t i = 0; i < w->sim.roles[r].count; i++)
			w->slots[w->count++] = (struct slot){.role = r, .holder = TFC__NO_NODE};
	promise(w, w->count == tfc__core_task_count(w->sim.core), NULL);
	for (uint32_t k = 0; k < MACHINES; k++)
		w->machines[k] = (struct machine){
			.is_up = true,
			.agent = TFC__NO_NODE,
			.slots = k ? 1 + chance(w, w->count) : w->count,
		};
	world_feed(w, &(struct tfc__core_event){.kind = TFC__CORE_START});
}

void world_end(struct world *w)
{
	bool is_end_reached = w->is_ended;
	bool is_as_it_must_be = w->end.state == TFC_JOB_SUCCEEDED ||
				(w->is_stopped && w->end.state == TFC_JOB_STOPPED);
	promise(w, is_end_reached, NULL);
	promise(w, is_as_it_must_be, &w->end);
	for (uint32_t i = 0; i < w->agent_count; i++)
		free(w->agents[i]);
	tfc__core_free(w->sim.core);
}
