#include <string.h>

#include "nodes_world.h"

bool machine_is_reached(const struct world *w, const struct agent *agent)
{
	const struct machine *m = &w->machines[agent->machine];
	return m->is_up && !m->is_cut;
}

/* Whether the machine has nothing of what this agent was told to run: it rose anew, or let go. */
static bool has_let_go(const struct world *w, const struct agent *agent)
{
	return w->machines[agent->machine].emptied_step > agent->born_step;
}

static void renew(struct world *w, struct agent *agent)
{
	agent->received_at = w->machines[agent->machine].renewed_at = w->sim.now;
}

static void say(struct world *w, struct agent *agent, const struct tfc__task_event *event,
		const uint8_t *states)
{
	promise(w, agent->event_count < QUEUE_MAX, NULL);
	struct message *message = &agent->events[agent->event_count++];
	message->event = *event;
	if (states)
		memcpy(message->states, states, sizeof(message->states));
}

/* The agent that speaks for a machine now, or NULL: what happens there nobody hears. */
static struct agent *voice_of(struct world *w, uint32_t machine, uint64_t epoch)
{
	uint32_t number = w->machines[machine].agent;
	struct agent *agent = number == TFC__NO_NODE ? NULL : w->agents[number];
	return agent && agent->epoch == epoch && !agent->is_lost ? agent : NULL;
}

/* ---- deaths */

static bool is_named(const struct world *w, uint32_t task, const char *name)
{
	return strcmp(w->sim.roles[w->slots[task].role].name, name) == 0;
}

static bool is_member(const struct world *w, uint32_t task)
{
	const struct tfc__core_role *role = &w->sim.roles[w->slots[task].role];
	return role->is_in_cluster && strcmp(role->name, "evaluator") != 0;
}

/* Those that speak to it fail some time. */
static void doom_peers(struct world *w, uint32_t task)
{
	for (uint32_t k = 0; k < MACHINES; k++) {
		for (uint32_t i = 0; i < w->count; i++) {
			struct place *peer = &w->machines[k].places[i];
			uint32_t scope = w->sim.roles[w->slots[i].role].scope;
			bool is_mirrored = scope == TFC__SCOPE_GROUP && is_member(w, task);
			bool is_coordinating = is_named(w, i, "chief") && is_named(w, task, "ps");
			if (i != task && peer->proc >= PROC_RUNNING &&
			    (is_mirrored || is_coordinating))
				peer->doomed_until = w->sim.now + DOOM;
		}
	}
}

static void die(struct world *w, uint32_t machine, uint32_t task, struct tfc__attempt_end death)
{
	struct place *place = &w->machines[machine].places[task];
	struct agent *agent = voice_of(w, machine, place->epoch);
	death.time_ns = w->sim.now;
	place->proc = PROC_NONE;
	place->is_stopping = false;
	place->doomed_until = 0;
	if (death.reason != TFC_EXIT_CODE || death.status)
		doom_peers(w, task);
	if (agent && w->machines[machine].is_up)
		say(w, agent,
		    &(struct tfc__task_event){.kind = TFC__AGENT_EXITED,
					      .task = task,
					      .attempt = place->attempt,
					      .end = death},
		    NULL);
}

static void die_of(struct world *w, uint32_t machine, uint32_t task, uint32_t reason,
		   int32_t status)
{
	die(w, machine, task, (struct tfc__attempt_end){.reason = reason, .status = status});
}

/* Whatever is older than an epoch is stopped and gone; of a previous incarnation nothing is known.
 */
static void kill_older(struct world *w, uint32_t machine, uint64_t epoch)
{
	struct machine *m = &w->machines[machine];
	for (uint32_t i = 0; i < w->count; i++) {
		if (m->places[i].proc && !m->places[i].dies_at && m->places[i].epoch < epoch) {
			die_of(w, machine, i, TFC_EXIT_SIGNAL, 9);
			m->places[i].is_held = false;
		}
	}
}

/* ---- orders */

static uint32_t seats_taken(const struct machine *m)
{
	uint32_t taken = m->outsiders;
	for (uint32_t i = 0; i < TASKS_MAX; i++)
		taken += m->places[i].is_held;
	return taken;
}

static void obey_hold(struct world *w, struct agent *agent, const struct tfc__task_order *order)
{
	struct machine *m = &w->machines[agent->machine];
	bool is_full = seats_taken(m) >= m->slots;
	m->places[order->task].is_held = !is_full;
	say(w, agent,
	    &(struct tfc__task_event){.kind = is_full ? TFC__AGENT_HOLD_FAILED : TFC__AGENT_HELD,
				      .task = order->task,
				      .number = order->number,
				      .is_full = is_full,
				      .text = "it is full"},
	    NULL);
}

static void obey_launch(struct world *w, struct agent *agent, const struct tfc__task_order *order)
{
	struct place *place = &w->machines[agent->machine].places[order->task];
	for (uint32_t i = 0; i < MACHINES; i++) {
		bool is_one_alive = w->machines[i].places[order->task].proc != PROC_NONE;
		promise(w, !is_one_alive, NULL);
	}
	promise(w, place->is_held, NULL);
	*place = (struct place){.is_held = true,
				.proc = PROC_STARTING,
				.attempt = order->attempt,
				.epoch = agent->epoch};
	w->launches++;
}

static void obey_query(struct world *w, struct agent *agent, const struct tfc__task_order *order)
{
	const struct machine *m = &w->machines[agent->machine];
	uint8_t states[TASKS_MAX];
	for (uint32_t i = 0; i < TASKS_MAX; i++)
		states[i] = m->places[i].proc >= PROC_RUNNING ? TFC__PROC_RUNNING : TFC__PROC_NONE;
	say(w, agent, &(struct tfc__task_event){.kind = TFC__AGENT_STATES, .number = order->number},
	    states);
}

static void obey(struct world *w, struct agent *agent, const struct tfc__task_order *order)
{
	struct machine *m = &w->machines[agent->machine];
	struct place *place = order->task < TASKS_MAX ? &m->places[order->task] : NULL;
	switch (order->kind) {
	case TFC__ORDER_HOLD:
		obey_hold(w, agent, order);
		break;
	case TFC__ORDER_LAUNCH:
		obey_launch(w, agent, order);
		break;
	case TFC__ORDER_STOP:
		place->is_stopping = place->proc != PROC_NONE;
		break;
	case TFC__ORDER_RELEASE:
		promise(w, place->proc == PROC_NONE, NULL);
		place->is_held = false;
		break;
	case TFC__ORDER_QUERY:
		obey_query(w, agent, order);
		break;
	case TFC__ORDER_INSPECT:
		say(w, agent,
		    &(struct tfc__task_event){.kind = TFC__AGENT_INSPECTED,
					      .number = order->number},
		    NULL);
		break;
	default:
		break;
	}
}

/* Something that the node before the one that is up now has launched is still alive. */
static bool has_previous(const struct machine *m)
{
	for (uint32_t i = 0; i < TASKS_MAX; i++)
		if (m->places[i].dies_at)
			return true;
	return false;
}

/* What waits until the tasks of a previous incarnation have ended, and all that is ordered later.
 */
static bool must_wait(const struct machine *m, const struct tfc__task_order *order)
{
	return (order->kind == TFC__ORDER_HOLD || order->kind == TFC__ORDER_QUERY) &&
	       has_previous(m);
}

bool machine_obey(struct world *w, struct agent *agent)
{
	struct machine *m = &w->machines[agent->machine];
	if (!agent->order_count || !machine_is_reached(w, agent) || has_let_go(w, agent))
		return false;
	struct tfc__task_order order = agent->orders[0];
	if (must_wait(m, &order))
		return false;
	memmove(agent->orders, agent->orders + 1, --agent->order_count * sizeof(order));
	if (agent->epoch < m->epoch)
		return true; /* refused: a later term is known here */
	if (agent->epoch > m->epoch) {
		m->epoch = agent->epoch;
		kill_older(w, agent->machine, agent->epoch);
		for (uint32_t i = 0; i < TASKS_MAX; i++)
			m->places[i].is_held = false;
	}
	if (agent->epoch == w->epoch)
		renew(w, agent);
	obey(w, agent, &order);
	return true;
}

bool machine_speak(struct world *w, struct agent *agent)
{
	if (!agent->event_count || !machine_is_reached(w, agent) || agent->is_lost ||
	    has_let_go(w, agent))
		return false;
	struct message message = agent->events[0];
	memmove(agent->events, agent->events + 1, --agent->event_count * sizeof(message));
	message.event.states = message.states;
	uint32_t node = 0;
	while (w->agents[node] != agent)
		node++;
	if (agent->epoch == w->epoch)
		world_report(w, node, &message.event);
	return true;
}

/* ---- lives */

static void announce(struct world *w, uint32_t machine, uint32_t task,
		     enum tfc__task_event_kind kind)
{
	const struct place *place = &w->machines[machine].places[task];
	struct agent *agent = voice_of(w, machine, place->epoch);
	if (agent)
		say(w, agent,
		    &(struct tfc__task_event){
			    .kind = kind, .task = task, .attempt = place->attempt, .pid = 1},
		    NULL);
}

static bool ends_by_itself(struct world *w, uint32_t task)
{
	bool is_server = is_named(w, task, "ps") || is_named(w, task, "tensorboard") ||
			 is_named(w, task, "evaluator");
	return !is_server && once_in(w, w->is_calm ? 10 : 200);
}

void machine_live(struct world *w, uint32_t machine, uint32_t task)
{
	struct machine *m = &w->machines[machine];
	struct place *place = &m->places[task];
	bool is_doomed = w->sim.now < place->doomed_until;
	if (!m->is_up || place->proc == PROC_NONE || place->dies_at)
		return;
	if (place->is_stopping) {
		if (once_in(w, 3))
			die_of(w, machine, task, TFC_EXIT_SIGNAL, 15);
	} else if (place->proc == PROC_STARTING) {
		place->proc = PROC_RUNNING;
		announce(w, machine, task, TFC__AGENT_STARTED);
	} else if (is_doomed && once_in(w, 4)) {
		die_of(w, machine, task, TFC_EXIT_CODE, 1);
	} else if (place->proc == PROC_RUNNING) {
		place->proc = PROC_LISTENING;
		announce(w, machine, task, TFC__AGENT_READY);
	} else if (!w->is_calm && once_in(w, 60)) {
		die_of(w, machine, task, TFC_EXIT_SIGNAL, 9);
	} else if (!is_doomed && ends_by_itself(w, task)) {
		die_of(w, machine, task, TFC_EXIT_CODE, 0);
	}
}

/* ---- what befalls a machine */

static void kill_all(struct world *w, uint32_t machine)
{
	for (uint32_t i = 0; i < w->count; i++) {
		if (w->machines[machine].places[i].proc)
			die_of(w, machine, i, TFC_EXIT_SIGNAL, 9);
		w->machines[machine].places[i] = (struct place){0};
	}
}

void machine_crash(struct world *w, uint32_t machine)
{
	struct machine *m = &w->machines[machine];
	if (!m->is_up)
		return;
	m->is_up = false;
	m->emptied_step = w->steps;
	kill_all(w, machine);
	m->back_at = w->sim.now + chance(w, 40) * SIM_SECOND;
}

/* The lease of what other nodes have launched goes on, too. */
void machine_restart(struct world *w, uint32_t machine)
{
	struct machine *m = &w->machines[machine];
	uint64_t over = m->renewed_at + LEASE;
	if (!m->is_up)
		return;
	m->emptied_step = w->steps;
	for (uint32_t i = 0; i < w->count; i++) {
		struct place *place = &m->places[i];
		uint64_t at = w->sim.now + 1 + chance(w, GRACE / SIM_SECOND) * SIM_SECOND;
		place->is_held = false;
		if (!place->proc || place->dies_at)
			continue;
		place->dies_at = at < over ? at : over;
		w->outlived++;
	}
}

void machine_kill_node(struct world *w, uint32_t machine)
{
	struct machine *m = &w->machines[machine];
	if (!m->is_up)
		return;
	machine_restart(w, machine);
	m->is_up = false;
	m->has_guard = true;
	m->back_at = w->sim.now + chance(w, 40) * SIM_SECOND;
}

/* The guard of a killed node has seen the end of all that this agent was told to run. */
static bool has_will(const struct world *w, const struct agent *agent)
{
	const struct machine *m = &w->machines[agent->machine];
	return m->has_guard && !m->is_cut && has_let_go(w, agent) && !has_previous(m);
}

/* Nobody hears of it. */
static void end_previous(struct world *w, uint32_t machine)
{
	struct machine *m = &w->machines[machine];
	for (uint32_t i = 0; i < w->count; i++) {
		if (!m->places[i].dies_at || w->sim.now < m->places[i].dies_at)
			continue;
		doom_peers(w, i);
		m->places[i] = (struct place){0};
	}
}

void machine_cut(struct world *w, uint32_t machine)
{
	struct machine *m = &w->machines[machine];
	if (m->is_cut || !m->is_up)
		return;
	m->is_cut = true;
	m->back_at = w->sim.now + chance(w, 40) * SIM_SECOND;
	for (uint32_t i = 0; i < w->count; i++)
		if (m->places[i].proc)
			doom_peers(w, i);
	for (uint32_t i = 0; i < w->count; i++) { /* they speak to the others, too */
		const struct tfc__core_role *role = &w->sim.roles[w->slots[i].role];
		bool is_group = role->scope == TFC__SCOPE_GROUP && role->count > 1;
		if (m->places[i].proc && (is_group || is_named(w, i, "chief")))
			m->places[i].doomed_until = w->sim.now + DOOM;
	}
}

static void tell_lost(struct world *w, uint32_t number)
{
	struct agent *agent = w->agents[number];
	agent->is_lost = true;
	agent->order_count = agent->event_count = 0;
	w->machines[agent->machine].agent = TFC__NO_NODE;
	w->losses++;
	world_report(w, number,
		     &(struct tfc__task_event){.kind = TFC__AGENT_LOST, .text = "it is gone"});
}

static void report_silence(struct world *w, uint32_t number, bool is_silent)
{
	w->agents[number]->is_silent_reported = is_silent;
	world_report(w, number,
		     &(struct tfc__task_event){.kind = is_silent ? TFC__AGENT_UNREACHABLE
								 : TFC__AGENT_REACHABLE});
}

static void tick_agent(struct world *w, uint32_t number)
{
	struct agent *agent = w->agents[number];
	if (agent->is_lost || agent->epoch != w->epoch)
		return;
	if (!machine_is_reached(w, agent)) {
		bool comes_will = has_will(w, agent) && once_in(w, 3);
		w->wills += comes_will;
		if (comes_will || w->sim.now >= agent->received_at + LOST_AFTER)
			tell_lost(w, number);
		else if (!agent->is_silent_reported && once_in(w, 3))
			report_silence(w, number, true);
		return;
	}
	if (has_let_go(w, agent)) { /* it says that it is alone */
		if (!has_previous(&w->machines[agent->machine]))
			tell_lost(w, number);
		return;
	}
	renew(w, agent);
	if (agent->is_silent_reported)
		report_silence(w, number, false);
}

/* Tasks whose maintainer could not be heard for their lease are stopped there. */
static void end_lease(struct world *w, uint32_t machine)
{
	struct machine *m = &w->machines[machine];
	if (m->is_up && m->is_cut && w->sim.now >= m->renewed_at + LEASE) {
		m->emptied_step = w->steps;
		kill_all(w, machine);
	}
	/* An earlier term renews nothing. */
	for (uint32_t i = 0; i < w->count; i++) {
		bool is_old = m->places[i].proc && m->places[i].epoch < w->epoch;
		if (is_old && w->sim.now >= w->term_at + LEASE)
			kill_older(w, machine, w->epoch);
	}
}

static void come_back(struct world *w, uint32_t machine)
{
	struct machine *m = &w->machines[machine];
	/* However short it was, its maintainer has noticed. */
	if (m->agent != TFC__NO_NODE && !w->agents[m->agent]->is_silent_reported)
		report_silence(w, m->agent, true);
	m->is_up = true;
	m->is_cut = m->has_guard = false;
}

void machine_tick(struct world *w, uint32_t machine)
{
	struct machine *m = &w->machines[machine];
	end_lease(w, machine);
	end_previous(w, machine);
	if ((!m->is_up || m->is_cut) && w->sim.now >= m->back_at)
		come_back(w, machine);
	if (m->agent != TFC__NO_NODE)
		tick_agent(w, m->agent);
}
