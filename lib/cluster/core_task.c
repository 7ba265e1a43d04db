/* One task: its phase, the actions about it, its end and its timer. */
#include "cluster/core_state.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define MS_NS 1000000ull

bool tfc__task_is_ps(const struct tfc__core *core, const struct task *t)
{
	return strcmp(tfc__task_role(core, t)->name, "ps") == 0;
}

bool tfc__task_is_coordinator(const struct tfc__core *core, const struct task *t)
{
	return tfc__task_role(core, t)->scope == TFC__SCOPE_COORDINATOR &&
	       !tfc__task_is_ps(core, t);
}

/* Whether it was ready in some attempt since its coordinator or group has started. */
static bool task_was_ready(const struct tfc__core *core, const struct task *t)
{
	return t->ready_start && (t->phase == PHASE_READY || t->ready_start == core->start);
}

bool tfc__task_is_vital(const struct tfc__core *core, const struct task *t)
{
	const struct tfc__core_role *role = tfc__task_role(core, t);
	bool is_another_ready = core->ready[t->role] > (t->phase == PHASE_READY);
	bool is_replaced = task_was_ready(core, t) && is_another_ready;
	if (role->is_failure_ignored && (!role->is_replaceable || is_replaced))
		return false;
	return role->is_failure_fatal || t->is_decider || t->is_member ||
	       strcmp(role->name, "evaluator") == 0 || strcmp(role->name, "driver") == 0;
}

/* ---- actions */

struct tfc__core_action *tfc__action_add(struct tfc__core *core, enum tfc__core_action_kind kind,
					 const struct task *t)
{
	/* At most 4 actions a task and a few for the job come from one event: tfc__core_new. */
	assert(core->action_count < core->action_capacity);
	struct tfc__core_action *action = &core->actions[core->action_count++];
	*action = (struct tfc__core_action){
		.kind = kind,
		.task = t ? tfc__task_id(core, t) : NO_TASK,
		.attempt = t ? t->attempt : 0,
		.generation = core->generation,
		.text = "",
	};
	return action;
}

struct tfc__task_order *tfc__order_add(struct tfc__core *core, uint32_t node,
				       enum tfc__order_kind kind, const struct task *t)
{
	struct tfc__core_action *action = tfc__action_add(core, TFC__DO_ORDER, NULL);
	action->node = node;
	action->order.kind = kind;
	action->order.task = t ? tfc__task_id(core, t) : 0;
	return &action->order;
}

void tfc__action_set_text(struct tfc__core *core, struct tfc__core_action *action, const char *text)
{
	char *own = core->texts[action - core->actions];
	snprintf(own, ACTION_TEXT, "%s", text);
	action->text = own;
}

void tfc__report_job(struct tfc__core *core, uint32_t state, const char *text)
{
	core->job_state = state;
	core->is_wait_reported = false;
	struct tfc__core_action *action = tfc__action_add(core, TFC__DO_REPORT_JOB, NULL);
	action->state = state;
	tfc__action_set_text(core, action, text);
	if (state != TFC_JOB_STOPPING)
		return;
	action->task = core->outcome.task;
	action->reason = core->outcome.reason;
	action->end.status = core->outcome.status;
}

void tfc__report_task(struct tfc__core *core, struct task *t, uint32_t state)
{
	t->state = state;
	if (state == TFC_TASK_READY)
		t->ready_start = core->start;
	tfc__action_add(core, TFC__DO_REPORT_TASK, t)->state = state;
}

void tfc__report_end(struct tfc__core *core, struct task *t, uint32_t state, uint32_t reason,
		     const char *text)
{
	t->state = state;
	struct tfc__core_action *action = tfc__action_add(core, TFC__DO_REPORT_TASK, t);
	action->state = state;
	action->reason = reason;
	action->end = t->death;
	tfc__action_set_text(core, action, text);
}

/* ---- phases */

#define P(phase) (1u << PHASE_##phase)

/* The phases that may follow each phase: a table of doc/internals/maintainer.md. */
static const uint32_t next_phases[PHASE_OVER + 1] = {
	[PHASE_IDLE] = P(INHERITED) | P(GANG_PLACING) | P(OVER),
	[PHASE_INHERITED] = P(IDLE) | P(DEAD) | P(OVER),
	[PHASE_GANG_PLACING] = P(GANG_HOLDING) | P(OVER),
	[PHASE_GANG_HOLDING] = P(GANG_PLACING) | P(HELD) | P(DEAD) | P(OVER),
	[PHASE_HELD] = P(GANG_PLACING) | P(LAUNCHED) | P(OVER),
	[PHASE_PLACING] = P(WAITING) | P(HOLDING) | P(DEAD) | P(OVER),
	[PHASE_WAITING] = P(PLACING) | P(OVER),
	[PHASE_HOLDING] = P(PLACING) | P(LAUNCHED) | P(DEAD) | P(OVER),
	[PHASE_LAUNCHED] = P(RUNNING) | P(READY) | P(DEAD),
	[PHASE_RUNNING] = P(READY) | P(DEAD),
	[PHASE_READY] = P(RUNNING) | P(DEAD),
	[PHASE_JUDGED] = P(DEAD),
	[PHASE_DEAD] = P(GANG_PLACING) | P(GANG_HOLDING) | P(HELD) | P(JUDGED) | P(BACKOFF) |
		       P(IGNORED) | P(OVER),
	[PHASE_BACKOFF] = P(PLACING) | P(HOLDING) | P(LAUNCHED) | P(DEAD) | P(OVER),
	[PHASE_IGNORED] = P(DEAD),
	[PHASE_OVER] = P(DEAD),
};

/* The start or restart is complete: all tasks are ready. */
static void report_if_running(struct tfc__core *core)
{
	if (core->phase != CORE_UP || core->unready || !core->alive || !core->undone)
		return;
	tfc__start_over(core);
	if (core->job_state == TFC_JOB_STARTING || core->job_state == TFC_JOB_RESTARTING)
		tfc__report_job(core, TFC_JOB_RUNNING, "");
}

/* Adds a task to the core's counts or subtracts it. */
static void count_task(struct tfc__core *core, const struct task *t, uint32_t sign)
{
	uint32_t alive = tfc__task_is_alive(t) ? sign : 0;
	core->alive += alive;
	core->members_alive += t->is_member ? alive : 0;
	core->unready += tfc__task_is_unready(t) ? sign : 0;
	core->ready[t->role] += t->phase == PHASE_READY ? sign : 0;
	core->ignored += t->phase == PHASE_IGNORED && t->is_member ? sign : 0;
	if (t->phase == PHASE_GANG_PLACING || t->phase == PHASE_GANG_HOLDING)
		core->gang_unheld += sign;
}

void tfc__task_phase(struct tfc__core *core, struct task *t, enum phase phase)
{
	assert(phase == t->phase || next_phases[t->phase] & (1u << phase));
	count_task(core, t, UINT32_MAX);
	if (t->phase == PHASE_READY && t->ready_start)
		t->ready_start = core->start;
	t->phase = phase;
	count_task(core, t, 1);
	tfc__list_remove(&t->waiting);
	if (phase == PHASE_WAITING)
		tfc__list_append(&core->waiting, &t->waiting);
	if (phase == PHASE_READY)
		t->ready_at = core->now;
	if (phase == PHASE_READY || phase == PHASE_IGNORED || phase == PHASE_OVER)
		report_if_running(core);
}

/* A task that leaves its node is no reason to wait for that node's response to the QUERY. */
void tfc__task_set_node(struct tfc__core *core, struct task *t, uint32_t node)
{
	core->queried -= t->is_queried;
	t->is_queried = false;
	t->node = node;
	tfc__list_remove(&t->at_node);
	if (node == TFC__NO_NODE)
		return;
	struct tfc__link *head = tfc__tasks_at(core, node), *next = head;
	while (next->prev != head && tfc__task_at(next->prev) > t)
		next = next->prev;
	tfc__list_append(next, &t->at_node);
}

void tfc__task_hold(struct tfc__core *core, struct task *t, enum phase phase)
{
	tfc__order_add(core, t->node, TFC__ORDER_HOLD, t)->number = ++t->hold;
	tfc__task_phase(core, t, phase);
}

void tfc__task_release(struct tfc__core *core, struct task *t)
{
	assert(!tfc__task_is_alive(t));
	bool is_requested = t->phase == PHASE_HOLDING || t->phase == PHASE_GANG_HOLDING;
	if (t->port == PORT_NONE && !is_requested)
		return;
	t->port = PORT_NONE;
	if (t->node != TFC__NO_NODE) /* or the node is lost, with the port */
		tfc__order_add(core, t->node, TFC__ORDER_RELEASE, t);
}

void tfc__task_launch(struct tfc__core *core, struct task *t)
{
	tfc__task_timer(core, t, 0);
	t->attempt++;
	t->outcome = OUTCOME_OPEN;
	t->ending = ENDING_NONE;
	t->cause = CAUSE_NONE;
	t->launched_at = core->now;
	t->ready_at = 0;
	if (t->why[0])
		t->why[0] = '\0';
	t->process = TFC__PROC_RUNNING;
	struct tfc__task_order *order = tfc__order_add(core, t->node, TFC__ORDER_LAUNCH, t);
	order->attempt = t->attempt;
	order->generation = core->generation;
	tfc__task_phase(core, t, PHASE_LAUNCHED);
	tfc__report_task(core, t, TFC_TASK_STARTING);
}

/* ---- the end of a living attempt */

static uint64_t task_grace_ns(const struct tfc__core *core, const struct task *t, enum grace grace)
{
	uint64_t whole = tfc__task_role(core, t)->grace_ns;
	uint64_t least = t->is_member ? core->policy.preempt_grace_ns : 0;
	switch (grace) {
	case GRACE_NONE:
		return 0;
	case GRACE_WHOLE:
		return whole;
	case GRACE_MOVE:
		return whole > least ? whole : least;
	default:
		return core->policy.abort_grace_ns;
	}
}

void tfc__task_end(struct tfc__core *core, struct task *t, enum grace grace, enum outcome outcome)
{
	assert(tfc__task_is_alive(t) && outcome != OUTCOME_OPEN);
	t->outcome = outcome;
	if (t->phase == PHASE_READY)
		tfc__task_phase(core, t, PHASE_RUNNING); /* the next attempt is awaited */
	if (t->ending == ENDING_SAVE && grace != GRACE_NONE)
		return;
	if (grace == GRACE_SAVE && t->is_member && t->ending != ENDING_STOP) {
		t->ending = ENDING_SAVE;
		tfc__task_timer(core, t, core->now + core->policy.preempt_grace_ns);
		return;
	}
	uint64_t ns = task_grace_ns(core, t, grace);
	tfc__task_timer(core, t, 0);
	if (t->ending == ENDING_STOP && t->stop_grace <= ns)
		return;
	if (t->ending != ENDING_STOP)
		t->stop_at = core->now;
	t->ending = ENDING_STOP;
	t->stop_grace = ns;
	if (t->node != TFC__NO_NODE) /* or it has died with its node */
		tfc__order_add(core, t->node, TFC__ORDER_STOP, t)->number = (uint32_t)(ns / MS_NS);
}

/* ---- timers: a binary heap of the tasks that have one */

static void timer_heap_set(struct tfc__core *core, struct task *t, uint32_t slot)
{
	core->heap[slot] = t;
	t->timer_slot = slot;
}

static bool is_timer_sooner(const struct task *a, const struct task *b)
{
	return a->timer != b->timer ? a->timer < b->timer : a < b;
}

static void timer_heap_sift(struct tfc__core *core, struct task *t, uint32_t slot)
{
	while (slot > 0 && is_timer_sooner(t, core->heap[(slot - 1) / 2])) {
		timer_heap_set(core, core->heap[(slot - 1) / 2], slot);
		slot = (slot - 1) / 2;
	}
	for (;;) {
		uint32_t child = 2 * slot + 1;
		if (child + 1 < core->heap_len &&
		    is_timer_sooner(core->heap[child + 1], core->heap[child]))
			child++;
		if (child >= core->heap_len || !is_timer_sooner(core->heap[child], t))
			break;
		timer_heap_set(core, core->heap[child], slot);
		slot = child;
	}
	timer_heap_set(core, t, slot);
}

void tfc__task_timer(struct tfc__core *core, struct task *t, uint64_t at)
{
	if (t->timer == 0 && at == 0)
		return;
	if (at == 0) {
		struct task *last = core->heap[--core->heap_len];
		uint32_t slot = t->timer_slot;
		t->timer = 0;
		if (last != t)
			timer_heap_sift(core, last, slot);
		return;
	}
	bool is_new = t->timer == 0;
	t->timer = at;
	timer_heap_sift(core, t, is_new ? core->heap_len++ : t->timer_slot);
}
