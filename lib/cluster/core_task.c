#include "cluster/core_state.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

bool tfc__task_is_ps(const struct tfc__core *core, const struct task *t)
{
	return strcmp(tfc__task_role(core, t)->name, "ps") == 0;
}

bool tfc__task_is_coordinator(const struct tfc__core *core, const struct task *t)
{
	return tfc__task_role(core, t)->scope == TFC__SCOPE_COORDINATOR &&
	       !tfc__task_is_ps(core, t);
}

/* Whether another one has its work. */
static bool is_replaced(const struct tfc__core *core, const struct task *t)
{
	for (uint32_t i = 0; i < core->task_count && t->was_ready; i++) {
		const struct task *u = &core->tasks[i];
		if (u != t && u->role == t->role && u->phase == PHASE_READY)
			return true;
	}
	return false;
}

bool tfc__task_is_vital(const struct tfc__core *core, const struct task *t)
{
	const struct tfc__core_role *role = tfc__task_role(core, t);
	if (role->is_failure_ignored && (!role->is_replaceable || is_replaced(core, t)))
		return false;
	return t->is_decider || t->is_member || strcmp(role->name, "evaluator") == 0 ||
	       strcmp(role->name, "driver") == 0;
}

/* ---- actions */

struct tfc__core_action *tfc__act(struct tfc__core *core, enum tfc__core_action_kind kind,
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
		.node = t ? t->node : TFC__NO_NODE,
		.text = "",
	};
	return action;
}

void tfc__act_say(struct tfc__core *core, struct tfc__core_action *action, const char *text)
{
	char *own = core->texts[action - core->actions];
	snprintf(own, ACTION_TEXT, "%s", text);
	action->text = own;
}

void tfc__tell_job(struct tfc__core *core, uint32_t state, const char *text)
{
	core->job_state = state;
	struct tfc__core_action *action = tfc__act(core, TFC__DO_TELL_JOB, NULL);
	action->state = state;
	tfc__act_say(core, action, text);
	if (state != TFC_JOB_STOPPING)
		return;
	action->task = core->outcome.task;
	action->reason = core->outcome.reason;
	action->status = core->outcome.status;
}

void tfc__tell_task(struct tfc__core *core, struct task *t, uint32_t state)
{
	t->state = state;
	t->was_ready |= state == TFC_TASK_READY;
	tfc__act(core, TFC__DO_TELL_TASK, t)->state = state;
}

void tfc__tell_end(struct tfc__core *core, struct task *t, uint32_t state, uint32_t reason,
		   const char *text)
{
	t->state = state;
	struct tfc__core_action *action = tfc__act(core, TFC__DO_TELL_TASK, t);
	action->state = state;
	action->reason = reason;
	action->death = t->death;
	action->status = t->death.status;
	tfc__act_say(core, action, text);
}

/* ---- phases */

static void announce_running(struct tfc__core *core)
{
	bool is_waiting = core->job_state == TFC_JOB_STARTING ||
			  core->job_state == TFC_JOB_RESTARTING;
	if (core->phase != CORE_UP || core->unready || !core->alive)
		return;
	tfc__start_over(core);
	if (is_waiting)
		tfc__tell_job(core, TFC_JOB_RUNNING, "");
}

void tfc__task_phase(struct tfc__core *core, struct task *t, enum phase phase)
{
	bool was_alive = tfc__task_is_alive(t);
	bool was_unready = tfc__task_is_unready(t);
	t->phase = phase;
	int alive = (int)tfc__task_is_alive(t) - (int)was_alive;
	core->alive += (uint32_t)alive;
	if (t->is_member)
		core->members_alive += (uint32_t)alive;
	core->unready += (uint32_t)((int)tfc__task_is_unready(t) - (int)was_unready);
	if (phase == PHASE_READY)
		t->ready_at = core->now;
	if (phase == PHASE_READY || phase == PHASE_OVER)
		announce_running(core);
}

void tfc__task_hold(struct tfc__core *core, struct task *t)
{
	tfc__act(core, TFC__DO_HOLD, t)->number = ++t->hold;
	tfc__task_phase(core, t, PHASE_HOLDING);
}

void tfc__task_release(struct tfc__core *core, struct task *t)
{
	assert(!tfc__task_is_alive(t));
	if (!t->is_held && t->phase != PHASE_HOLDING)
		return;
	t->is_held = false;
	t->is_port_stale = false;
	if (t->node != TFC__NO_NODE) /* or it is lost, with the port */
		tfc__act(core, TFC__DO_RELEASE, t);
}

void tfc__task_launch(struct tfc__core *core, struct task *t)
{
	tfc__task_timer(core, t, 0);
	t->attempt++;
	t->fate = FATE_NONE;
	t->is_stop_sent = t->is_saving = false;
	t->is_silent = t->is_stalled = t->is_ignored = false;
	t->launched_at = core->now;
	t->ready_at = 0;
	if (t->why[0])
		t->why[0] = '\0';
	t->proc = TFC__PROC_RUNNING;
	tfc__act(core, TFC__DO_LAUNCH, t);
	tfc__task_phase(core, t, PHASE_LAUNCHED);
	tfc__tell_task(core, t, TFC_TASK_STARTING);
}

static uint64_t ns_of(const struct tfc__core *core, const struct task *t, enum grace grace)
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

static void stop(struct tfc__core *core, struct task *t, uint64_t grace)
{
	if (t->is_stop_sent && t->stop_grace <= grace)
		return;
	if (!t->is_stop_sent)
		t->stop_at = core->now;
	t->is_stop_sent = true;
	t->stop_grace = grace;
	tfc__act(core, TFC__DO_STOP, t)->grace_ns = grace;
}

void tfc__task_end(struct tfc__core *core, struct task *t, enum grace grace, enum fate fate)
{
	assert(tfc__task_is_alive(t));
	t->fate = fate;
	if (t->phase == PHASE_READY)
		tfc__task_phase(core, t, PHASE_RUNNING); /* the next attempt is waited for */
	if (t->is_gone || (t->is_saving && grace != GRACE_NONE))
		return;
	t->is_saving = grace == GRACE_SAVE && t->is_member && !t->is_stop_sent;
	tfc__task_timer(core, t, t->is_saving ? core->now + core->policy.preempt_grace_ns : 0);
	if (!t->is_saving)
		stop(core, t, ns_of(core, t, grace));
}

/* ---- timers: a binary heap of the tasks that have one */

static void place(struct tfc__core *core, struct task *t, uint32_t slot)
{
	core->heap[slot] = t;
	t->timer_slot = slot;
}

static bool is_sooner(const struct task *a, const struct task *b)
{
	return a->timer != b->timer ? a->timer < b->timer : a < b;
}

static void sift(struct tfc__core *core, struct task *t, uint32_t slot)
{
	while (slot > 0 && is_sooner(t, core->heap[(slot - 1) / 2])) {
		place(core, core->heap[(slot - 1) / 2], slot);
		slot = (slot - 1) / 2;
	}
	for (;;) {
		uint32_t child = 2 * slot + 1;
		if (child + 1 < core->heap_len &&
		    is_sooner(core->heap[child + 1], core->heap[child]))
			child++;
		if (child >= core->heap_len || !is_sooner(core->heap[child], t))
			break;
		place(core, core->heap[child], slot);
		slot = child;
	}
	place(core, t, slot);
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
			sift(core, last, slot);
		return;
	}
	bool is_new = t->timer == 0;
	t->timer = at;
	sift(core, t, is_new ? core->heap_len++ : t->timer_slot);
}
