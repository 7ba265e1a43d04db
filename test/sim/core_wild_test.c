/*
 * cluster: the maintainer's core in streams of events that no agent would send in that order,
 * among many that it might: every node event, refusal, terminal event and answer there is, for
 * tasks in any state. The core's own assertions hold, and what it orders fits to what it was told
 * and has ordered before.
 *
 * usage: core_wild_test [SEED]   one seed alone
 * Read from the environment: TFC_TEST_SEEDS, how many streams there are; TFC_TEST_FIRST, the first.
 */
#include "sim_random.h"

#include "sanitized.h"

#include <string.h>

#define SEEDS (TEST_IS_SANITIZED ? "2000" : "20000")
#define STEPS 300
#define TASKS_MAX 16
#define NODES 4

struct task {
	uint32_t hold; /* number of the last HOLD, until it is released; or 0 */
	bool is_held;
	uint32_t place; /* ... PLACE */
	bool is_alive;
	bool is_stacking;
};

struct world {
	struct sim sim;
	uint64_t seed, random, steps;
	bool is_mild; /* little ends the job, so that much else is reached */
	struct task tasks[TASKS_MAX];
	uint32_t count, gang_place, query, inspect, ends;
	uint32_t nodes[NODES],
		last_node; /* what is at each machine; a lost one gets a new number */
};

static void make_role(struct world *w, const char *name, uint32_t count, uint32_t scope)
{
	struct tfc__core_role *role = sim_role(&w->sim, name, count, scope);
	if (once_in(w, 6))
		role->scope = TFC__SCOPE_TASK + chance(w, 3);
	role->restart_max = once_in(w, 4) ? chance(w, 3) : 1 + chance(w, 200);
	role->window_ns = once_in(w, 8) ? 0 : (1 + chance(w, 100)) * SIM_SECOND;
	role->loss_max = chance(w, w->is_mild ? 200 : 20);
	role->loss_window_ns = 100 * SIM_SECOND;
	role->backoff_min_ns = once_in(w, 3) ? SIM_SECOND : 0;
	role->backoff_max_ns = 5 * SIM_SECOND;
	role->finish_ns = once_in(w, 4) ? 0 : 5 * SIM_SECOND;
	role->restart_on = once_in(w, 2) ? 0 : chance(w, 3);
	role->is_failure_ignored = once_in(w, 5);
	role->is_failure_fatal = once_in(w, 5);
	role->is_replaceable = once_in(w, 3);
	role->is_listening_assumed = !once_in(w, 4);
	role->is_ready_on_listen ^= once_in(w, 8);
}

static void make_job(struct world *w)
{
	static const uint32_t successes[] = {TFC__SUCCESS_ALL_WORKERS, TFC__SUCCESS_WORKER0,
					     TFC__SUCCESS_CHIEF, TFC__SUCCESS_DRIVER};
	uint32_t kind = chance(w, 3);
	sim_init(&w->sim,
		 kind == 0   ? TFC_STRATEGY_MULTI_WORKER_MIRRORED
		 : kind == 1 ? TFC_STRATEGY_PARAMETER_SERVER
			     : TFC_STRATEGY_NONE,
		 successes[chance(w, 4)]);
	if (kind == 1) {
		make_role(w, "chief", 1, TFC__SCOPE_COORDINATOR);
		make_role(w, "worker", 1 + chance(w, 3), TFC__SCOPE_TASK);
		make_role(w, "ps", 1 + chance(w, 2), TFC__SCOPE_COORDINATOR);
	} else {
		if (once_in(w, 3))
			make_role(w, "chief", 1, TFC__SCOPE_GROUP);
		make_role(w, "worker", 1 + chance(w, 4), kind ? TFC__SCOPE_TASK : TFC__SCOPE_GROUP);
	}
	if (once_in(w, 3))
		make_role(w, "evaluator", 1, TFC__SCOPE_TASK);
	if (once_in(w, 3))
		make_role(w, "tensorboard", 1, TFC__SCOPE_TASK);
	if (once_in(w, 4))
		make_role(w, "driver", 1, TFC__SCOPE_TASK);
	struct tfc__core_policy *policy = &w->sim.policy;
	policy->seed = w->seed;
	policy->is_abort_auto = once_in(w, 2);
	policy->preempt_grace_ns = (1 + chance(w, 30)) * SIM_SECOND;
	policy->on_stall = chance(w, 3);
	policy->explain_ns = once_in(w, 2) ? 5 * SIM_SECOND : 0;
	policy->start_deadline_ns = once_in(w, 2) ? 40 * SIM_SECOND : 0;
	policy->no_listener_ns = once_in(w, 2) ? 5 * SIM_SECOND : 0;
	policy->pending_deadline_ns = once_in(w, 3) ? 60 * SIM_SECOND : 0;
	policy->deadline_ns = once_in(w, 6) ? 100 * SIM_SECOND : 0;
	policy->roles = w->sim.roles;
}

static void note_order(struct world *w, const struct tfc__core_action *a)
{
	const struct tfc__task_order *order = &a->order;
	struct task *t = &w->tasks[order->task];
	switch (order->kind) {
	case TFC__ORDER_HOLD:
		promise(w, !t->hold && !t->is_alive, a);
		t->hold = order->number;
		break;
	case TFC__ORDER_RELEASE:
		promise(w, t->hold && !t->is_alive, a);
		t->hold = 0;
		t->is_held = false;
		break;
	case TFC__ORDER_LAUNCH:
		promise(w, t->is_held && !t->is_alive, a);
		t->is_alive = true;
		t->is_stacking = false;
		break;
	case TFC__ORDER_SIGNAL:
	case TFC__ORDER_STOP:
		promise(w, t->is_alive, a);
		break;
	case TFC__ORDER_STACKS:
		promise(w, t->is_alive && !t->is_stacking, a);
		t->is_stacking = true;
		break;
	case TFC__ORDER_QUERY:
		w->query = order->number;
		break;
	case TFC__ORDER_INSPECT:
		w->inspect = order->number;
		break;
	default:
		promise(w, !"ordered by the core", a);
	}
}

static void note(struct world *w, const struct tfc__core_action *a)
{
	struct task *t = a->task < w->count ? &w->tasks[a->task] : NULL;
	switch (a->kind) {
	case TFC__DO_ORDER:
		note_order(w, a);
		break;
	case TFC__DO_PLACE:
		*(t ? &t->place : &w->gang_place) = a->number;
		break;
	case TFC__DO_END:
	case TFC__DO_SUSPENDED:
		for (uint32_t i = 0; i < w->count; i++)
			promise(w, !w->tasks[i].hold && !w->tasks[i].is_alive, a);
		w->ends++;
		break;
	default:
		break;
	}
}

static void feed(struct world *w, const struct tfc__core_event *event)
{
	const struct tfc__core_action *a;
	w->steps++;
	tfc__core_step(w->sim.core, event, w->sim.now);
	while ((a = tfc__core_next(w->sim.core))) {
		promise(w, w->ends == 0, a); /* nothing comes after the end */
		note(w, a);
	}
}

static void report(struct world *w, uint32_t node, const struct tfc__task_event *event)
{
	feed(w, &(struct tfc__core_event){.kind = TFC__CORE_REPORT, .node = node, .report = event});
}

static struct tfc__attempt_end any_death(struct world *w)
{
	static const int codes[] = {0, 0, 1, 1, 1, 2, 42, 137, 139, 143};
	static const int signals[] = {9, 9, 15, 6, 11, 7};
	static const int refusals[] = {TFC_EAGAIN, TFC_ENOENT, TFC_EACCES, TFC_ENOMEM};
	struct tfc__attempt_end death = {.time_ns = w->sim.now - chance(w, 3) * SIM_SECOND};
	switch (w->is_mild ? chance(w, 5) : chance(w, 8)) {
	case 0:
		death.reason = TFC_EXIT_LOST;
		break;
	case 1:
	case 2:
		death.reason = TFC_EXIT_SIGNAL;
		death.status = signals[chance(w, w->is_mild ? 3 : 6)];
		break;
	case 3:
		death.reason = TFC_EXIT_NOT_STARTED;
		death.status = refusals[w->is_mild ? 0 : chance(w, 4)];
		break;
	default:
		death.reason = TFC_EXIT_CODE;
		death.status = codes[chance(w, 10)];
	}
	death.is_oom = once_in(w, w->is_mild ? 500 : 20);
	death.is_port_occupied = once_in(w, 15);
	death.is_bind_failed = once_in(w, 20);
	death.is_node_bad = once_in(w, 10);
	death.had_notice = once_in(w, 10);
	return death;
}

/* About one attempt, or its HOLD. */
static void task_event(struct world *w, enum tfc__task_event_kind kind, uint32_t i)
{
	static const char *const texts[] = {NULL, "", "why", "not listening, idle"};
	struct task *t = &w->tasks[i];
	bool is_old = once_in(w, 40);
	/* one after the other: the order in which initializers are evaluated is not defined */
	struct tfc__task_event event = {.kind = kind, .task = i, .process = 1, .pid = 1};
	event.attempt = tfc__core_attempt(w->sim.core, i) - is_old;
	event.number = t->hold - (kind == TFC__AGENT_HELD && is_old);
	event.missing = chance(w, 3);
	event.end = any_death(w);
	event.silent_ms = chance(w, 4) * 20000;
	event.activity = chance(w, 5);
	event.is_full = !once_in(w, w->is_mild ? 50 : 4);
	event.text = texts[chance(w, 4)];
	if (kind == TFC__AGENT_EXITED || kind == TFC__AGENT_REFUSED)
		t->is_alive &= is_old;
	if (kind == TFC__AGENT_STACKED)
		t->is_stacking = false;
	if (kind == TFC__AGENT_HELD && event.number == t->hold)
		t->is_held = t->hold != 0;
	report(w, 0, &event);
}

static void answer_place(struct world *w, uint32_t task, uint32_t number)
{
	static const char *const texts[] = {"there is no room", "node a is full", NULL};
	uint32_t nodes[TASKS_MAX];
	for (uint32_t i = 0; i < TASKS_MAX; i++)
		nodes[i] = w->nodes[chance(w, NODES)];
	if (task < w->count)
		w->tasks[task].place = 0; /* each is answered once */
	feed(w, &(struct tfc__core_event){
			.kind = once_in(w, 4) ? TFC__CORE_UNPLACED : TFC__CORE_PLACED,
			.task = task,
			.number = number,
			.nodes = nodes,
			.hopeless = once_in(w, w->is_mild ? 200 : 12) ? TFC_END_UNSCHEDULABLE : 0,
			.text = texts[chance(w, 3)],
		});
}

static void answer_query(struct world *w)
{
	uint8_t states[TASKS_MAX];
	for (uint32_t i = 0; i < TASKS_MAX; i++)
		states[i] = once_in(w, 8) ? (uint8_t)chance(w, 3) : TFC__PROC_RUNNING;
	uint32_t number = w->query - once_in(w, 20);
	report(w, w->nodes[chance(w, NODES)],
	       &(struct tfc__task_event){.kind = TFC__AGENT_STATES,
					 .number = number,
					 .states = states});
}

static void answer_look(struct world *w)
{
	struct tfc__inspected inspected[TFC__INSPECTED_MAX];
	for (uint32_t i = 0; i < TFC__INSPECTED_MAX; i++) {
		inspected[i].task = chance(w, w->count);
		snprintf(inspected[i].text, sizeof(inspected[i].text), "%s",
			 once_in(w, 3) ? "" : "not listening: idle");
	}
	uint32_t number = w->inspect - once_in(w, 20);
	uint32_t node = w->nodes[chance(w, NODES)];
	report(w, node,
	       &(struct tfc__task_event){.kind = TFC__AGENT_INSPECTED,
					 .number = number,
					 .inspected = inspected,
					 .inspected_count = chance(w, TFC__INSPECTED_MAX + 1)});
}

static void lose_node(struct world *w, uint32_t machine, const char *text)
{
	uint32_t node = w->nodes[machine];
	for (uint32_t i = 0; i < w->count; i++)
		if (tfc__core_node(w->sim.core, i) == node) {
			w->tasks[i].is_alive = w->tasks[i].is_held = false;
			w->tasks[i].hold = 0;
		}
	w->nodes[machine] = ++w->last_node;
	report(w, node, &(struct tfc__task_event){.kind = TFC__AGENT_LOST, .text = text});
}

static void node_event(struct world *w)
{
	uint32_t machine = chance(w, NODES);
	uint32_t what = once_in(w, 2) ? 1 + chance(w, 4) : chance(w, 7);
	uint32_t task = chance(w, w->count), count = 1 + chance(w, 2);
	const char *text = once_in(w, 3) ? NULL : "it is down";
	if (what == 0)
		lose_node(w, machine, text);
	else if (what < 5)
		report(w, w->nodes[machine],
		       &(struct tfc__task_event){.kind = what < 3 ? TFC__AGENT_UNREACHABLE
								  : TFC__AGENT_REACHABLE});
	else
		feed(w, &(struct tfc__core_event){.kind = what == 5 ? TFC__CORE_NODE_DRAIN
								    : TFC__CORE_LEAVE,
						  .node = w->nodes[machine],
						  .task = task,
						  .count = count,
						  .text = text});
}

static void pass_time(struct world *w)
{
	uint64_t wake = tfc__core_wake_at(w->sim.core);
	if (wake > w->sim.now && once_in(w, 2))
		w->sim.now = wake;
	else
		w->sim.now += chance(w, 3000) * 1000000ull;
	feed(w, &(struct tfc__core_event){.kind = TFC__CORE_TICK});
}

/* What an agent might say of the task now. */
static void move_task(struct world *w, uint32_t i)
{
	struct task *t = &w->tasks[i];
	if (t->place && once_in(w, 2))
		answer_place(w, i, t->place - once_in(w, 20));
	else if (t->hold && once_in(w, 2))
		task_event(w, once_in(w, 12) ? TFC__AGENT_HOLD_FAILED : TFC__AGENT_HELD, i);
	else if (t->is_stacking && once_in(w, 2))
		task_event(w, TFC__AGENT_STACKED, i);
	else if (t->is_alive && once_in(w, 8))
		task_event(w,
			   once_in(w, w->is_mild ? 300 : 12) ? TFC__AGENT_REFUSED
							     : TFC__AGENT_EXITED,
			   i);
	else if (t->is_alive && once_in(w, 10))
		task_event(w, once_in(w, 3) ? TFC__AGENT_NOTICE : TFC__AGENT_STALLED, i);
	else if (t->is_alive)
		task_event(w, once_in(w, 2) ? TFC__AGENT_STARTED : TFC__AGENT_READY, i);
}

static void end_somehow(struct world *w)
{
	bool is_suspend = once_in(w, 3), is_fenced = !is_suspend && once_in(w, 8);
	uint64_t interrupt_ns = once_in(w, 2) ? 2 * SIM_SECOND : 0;
	bool is_kill = once_in(w, 3);
	if (is_fenced)
		report(w, 0, &(struct tfc__task_event){.kind = TFC__AGENT_FENCED});
	else
		feed(w, &(struct tfc__core_event){.kind = is_suspend ? TFC__CORE_SUSPEND
								     : TFC__CORE_STOP,
						  .interrupt_ns = interrupt_ns,
						  .is_kill = is_kill});
}

static void move(struct world *w)
{
	switch (chance(w, 30)) {
	case 0:
		pass_time(w);
		break;
	case 1:
		if (once_in(w, 2))
			node_event(w);
		break;
	case 2:
		feed(w, &(struct tfc__core_event){.kind = TFC__CORE_ROOM});
		break;
	case 3:
	case 4:
		answer_query(w);
		break;
	case 5:
		answer_look(w);
		break;
	case 6:
	case 7:
		if (w->gang_place) /* there is no number 0 */
			answer_place(w, UINT32_MAX, w->gang_place);
		break;
	case 8: /* anything at all that is about a task */
		if (!w->is_mild || once_in(w, 4))
			task_event(w, TFC__AGENT_HELD + chance(w, 6), chance(w, w->count));
		break;
	case 9:
		if (once_in(w, w->is_mild ? 60 : 15))
			end_somehow(w);
		break;
	default:
		move_task(w, chance(w, w->count));
	}
}

static void resume(struct world *w)
{
	struct tfc__resume_task tasks[TASKS_MAX] = {0};
	uint32_t nodes[TASKS_MAX];
	for (uint32_t i = 0; i < w->count; i++) {
		tasks[i].attempt = chance(w, 3);
		tasks[i].is_done = tasks[i].attempt && once_in(w, 3);
		tasks[i].was_running = tasks[i].attempt && !tasks[i].is_done && once_in(w, 2);
		nodes[i] = once_in(w, 4) ? TFC__NO_NODE : w->nodes[chance(w, NODES)];
	}
	const struct tfc__resume was = {.generation = 1 + chance(w, 3),
					.job_state = once_in(w, 4) ? TFC_JOB_STOPPING
								   : TFC_JOB_RUNNING,
					.reason = once_in(w, 2) ? TFC_END_EXIT : TFC_END_STOPPED,
					.status = (int32_t)chance(w, 2),
					.task = once_in(w, 2) ? UINT32_MAX : 0,
					.text = once_in(w, 2) ? NULL : "why",
					.tasks = tasks};
	tfc__core_resume(w->sim.core, &was, once_in(w, 3) ? NULL : nodes);
}

static void run(uint64_t seed, uint32_t *ends, uint64_t *steps)
{
	static struct world w;
	memset(&w, 0, sizeof(w));
	w.seed = seed;
	w.random = (seed + 1) * 0x9e3779b97f4a7c15ull;
	w.is_mild = once_in(&w, 2);
	make_job(&w);
	w.sim.core = tfc__core_new(&w.sim.policy);
	w.count = tfc__core_task_count(w.sim.core);
	for (uint32_t i = 0; i < NODES; i++)
		w.nodes[i] = ++w.last_node;
	if (once_in(&w, 4))
		resume(&w);
	if (!once_in(&w, 50))
		feed(&w, &(struct tfc__core_event){.kind = TFC__CORE_START});
	for (uint32_t i = 0; i < STEPS * (w.is_mild ? 3 : 1) && w.ends == 0; i++)
		move(&w);
	for (uint32_t i = 0; i < 10; i++)
		move(&w);
	tfc__core_free(w.sim.core);
	*ends += w.ends;
	*steps += w.steps;
}

int main(int argc, char **argv)
{
	const char *wanted = getenv("TFC_TEST_SEEDS"), *from = getenv("TFC_TEST_FIRST");
	uint64_t first = strtoull(argc > 1 ? argv[1] : from ? from : "0", NULL, 0);
	uint64_t seeds = argc > 1 ? 1 : strtoull(wanted ? wanted : SEEDS, NULL, 10);
	uint64_t steps = 0;
	uint32_t ends = 0;
	for (uint64_t seed = first; seed < first + seeds; seed++) {
		const char *loud = getenv("TFC_TEST_LOUD");
		if (loud)
			fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
		run(seed, &ends, &steps);
	}
	printf("%llu streams, %llu events, %u ends\n", (unsigned long long)seeds,
	       (unsigned long long)steps, ends);
	return 0;
}
