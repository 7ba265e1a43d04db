#include "core_state.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

bool old__task_is_ps(const struct old__core *core, const struct task *t)
{
	return strcmp(old__task_role(core, t)->name, "ps") == 0;
}

bool old__task_is_coordinator(const struct old__core *core, const struct task *t)
{
	return old__task_role(core, t)->scope == TFC__SCOPE_COORDINATOR &&
	       !old__task_is_ps(core, t);
}

/* Whether another one has its work. */
static bool is_replaced(const struct old__core *core, const struct task *t)
{
	for (uint32_t i = 0; i < core->task_count && t->was_ready; i++) {
		const struct task *u = &core->tasks[i];
		if (u != t && u->role == t->role && u->phase == PHASE_READY)
			return true;
	}
	return false;
}

bool old__task_is_vital(const struct old__core *core, const struct task *t)
{
	const struct old__core_role *role = old__task_role(core, t);
	if (role->is_failure_ignored && (!role->is_replaceable || is_replaced(core, t)))
		return false;
	return t->is_decider || t->is_member || strcmp(role->name, "evaluator") == 0 ||
	       strcmp(role->name, "driver") == 0;
}

/* ---- actions */

struct old__core_action *old__act(struct old__core *core, enum old__core_action_kind kind,
				  const struct task *t)
{
	/* At most 4 actions a task and a few for the job come from one event: old__core_new. */
	assert(core->action_count < core->action_capacity);
	struct old__core_action *action = &core->actions[core->action_count++];
	*action = (struct old__core_action){
		.kind = kind,
		.task = t ? old__task_id(core, t) : NO_TASK,
		.attempt = t ? t->attempt : 0,
		.generation = core->generation,
		.node = t ? t->node : OLD__NO_NODE,
		.text = "",
	};
	return action;
}

void old__act_say(struct old__core *core, struct old__core_action *action, const char *text)
{
	char *own = core->texts[action - core->actions];
	snprintf(own, ACTION_TEXT, "%s", text);
	action->text = own;
}

void old__tell_job(struct old__core *core, uint32_t state, const char *text)
{
	core->job_state = state;
	struct old__core_action *action = old__act(core, OLD__DO_TELL_JOB, NULL);
	action->state = state;
	old__act_say(core, action, text);
	if (state != TFC_JOB_STOPPING)
		return;
	action->task = core->outcome.task;
	action->reason = core->outcome.reason;
	action->status = core->outcome.status;
}

void old__tell_task(struct old__core *core, struct task *t, uint32_t state)
{
	t->state = state;
	t->was_ready |= state == TFC_TASK_READY;
	old__act(core, OLD__DO_TELL_TASK, t)->state = state;
}

void old__tell_end(struct old__core *core, struct task *t, uint32_t state, uint32_t reason,
		   const char *text)
{
	t->state = state;
	struct old__core_action *action = old__act(core, OLD__DO_TELL_TASK, t);
	action->state = state;
	action->reason = reason;
	action->death = t->death;
	action->status = t->death.status;
	old__act_say(core, action, text);
}

/* ---- phases */

static void announce_running(struct old__core *core)
{
	bool is_waiting = core->job_state == TFC_JOB_STARTING ||
			  core->job_state == TFC_JOB_RESTARTING;
	if (core->phase != CORE_UP || core->unready || !core->alive)
		return;
	old__start_over(core);
	if (is_waiting)
		old__tell_job(core, TFC_JOB_RUNNING, "");
}

void old__task_phase(struct old__core *core, struct task *t, enum phase phase)
{
	bool was_alive = old__task_is_alive(t);
	bool was_unready = old__task_is_unready(t);
	t->phase = phase;
	int alive = (int)old__task_is_alive(t) - (int)was_alive;
	core->alive += (uint32_t)alive;
	if (t->is_member)
		core->members_alive += (uint32_t)alive;
	core->unready += (uint32_t)((int)old__task_is_unready(t) - (int)was_unready);
	if (phase == PHASE_READY)
		t->ready_at = core->now;
	if (phase == PHASE_READY || phase == PHASE_OVER)
		announce_running(core);
}

void old__task_hold(struct old__core *core, struct task *t)
{
	old__act(core, OLD__DO_HOLD, t)->number = ++t->hold;
	old__task_phase(core, t, PHASE_HOLDING);
}

void old__task_release(struct old__core *core, struct task *t)
{
	assert(!old__task_is_alive(t));
	if (!t->is_held && t->phase != PHASE_HOLDING)
		return;
	t->is_held = false;
	t->is_port_stale = false;
	if (t->node != OLD__NO_NODE) /* or it is lost, with the port */
		old__act(core, OLD__DO_RELEASE, t);
}

void old__task_launch(struct old__core *core, struct task *t)
{
	old__task_timer(core, t, 0);
	t->attempt++;
	t->fate = FATE_NONE;
	t->is_stop_sent = t->is_saving = false;
	t->is_silent = t->is_stalled = t->is_ignored = false;
	t->launched_at = core->now;
	t->ready_at = 0;
	if (t->why[0])
		t->why[0] = '\0';
	t->proc = OLD__PROC_RUNNING;
	old__act(core, OLD__DO_LAUNCH, t);
	old__task_phase(core, t, PHASE_LAUNCHED);
	old__tell_task(core, t, TFC_TASK_STARTING);
}

static uint64_t ns_of(const struct old__core *core, const struct task *t, enum grace grace)
{
	uint64_t whole = old__task_role(core, t)->grace_ns;
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

static void stop(struct old__core *core, struct task *t, uint64_t grace)
{
	if (t->is_stop_sent && t->stop_grace <= grace)
		return;
	if (!t->is_stop_sent)
		t->stop_at = core->now;
	t->is_stop_sent = true;
	t->stop_grace = grace;
	old__act(core, OLD__DO_STOP, t)->grace_ns = grace;
}

void old__task_end(struct old__core *core, struct task *t, enum grace grace, enum fate fate)
{
	assert(old__task_is_alive(t));
	t->fate = fate;
	if (t->phase == PHASE_READY)
		old__task_phase(core, t, PHASE_RUNNING); /* the next attempt is waited for */
	if (t->is_gone || (t->is_saving && grace != GRACE_NONE))
		return;
	t->is_saving = grace == GRACE_SAVE && t->is_member && !t->is_stop_sent;
	old__task_timer(core, t, t->is_saving ? core->now + core->policy.preempt_grace_ns : 0);
	if (!t->is_saving)
		stop(core, t, ns_of(core, t, grace));
}

/* ---- timers: a binary heap of the tasks that have one */

static void place(struct old__core *core, struct task *t, uint32_t slot)
{
	core->heap[slot] = t;
	t->timer_slot = slot;
}

static bool is_sooner(const struct task *a, const struct task *b)
{
	return a->timer != b->timer ? a->timer < b->timer : a < b;
}

static void sift(struct old__core *core, struct task *t, uint32_t slot)
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

void old__task_timer(struct old__core *core, struct task *t, uint64_t at)
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
