/*
 * Nodes that are lost or drained, and the tasks that must leave them.
 *
 * A task of the cluster spec that moves makes every member's spec wrong, so its group restarts; any
 * other task moves alone. What was on a lost node has died there together: the first death decides,
 * as with deaths anywhere, and the others cannot be stopped any more (is_gone).
 */
#include "core_state.h"

#include <stdio.h>

/* What fails so long after a cut may still have failed of it: TensorFlow notices late. */
#define CUT_NS (60ull * 1000000000ull)

/* One that is in no phase to move now gets another node before its next attempt. */
static void move_idle(struct old__core *core, struct task *t, const char *why)
{
	if (t->phase == PHASE_HELD || (t->phase == PHASE_HOLDING && t->is_in_gang)) {
		old__gang_lack(core, t);
	} else if (t->phase == PHASE_HOLDING) {
		old__place_alone(core, t);
	} else if ((t->phase == PHASE_BACKOFF || t->phase == PHASE_DEAD) && t->is_member &&
		   core->group == GROUP_UP) {
		char text[256];
		old__text_name(core, t, text, sizeof(text));
		old__text_add(text, sizeof(text), " must move: %s; restarting the group", why);
		old__restart_group(core, t->restart_at, text);
	}
}

/* Marks what is there; whether there was anything. */
static bool leave(struct old__core *core, uint32_t node)
{
	bool is_any = false;
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (t->node != node)
			continue;
		is_any = true;
		t->node = OLD__NO_NODE;
		t->is_gone = old__task_is_alive(t);
		t->is_moved = !t->is_gone;
		t->is_held = t->is_leaving = t->is_port_stale = t->is_cut_off = false;
		t->back_at = 0;
		if (t->is_stacking && t->is_gone)
			t->is_stacking = false;
	}
	return is_any;
}

void old__node_lost(struct old__core *core, uint32_t node, const char *text)
{
	const struct old__death lost = {.reason = TFC_EXIT_LOST,
					.is_with_node = true,
					.time_ns = core->now};
	if (!leave(core, node))
		return;
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (!t->is_gone)
			continue;
		old__task_died(core, t, &lost, text);
		t->is_gone = false;
	}
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		bool is_moved = t->is_moved;
		t->is_moved = false;
		if (is_moved && core->phase == CORE_UP)
			move_idle(core, t, text);
	}
	old__ask_lost(core, node);
}

/* ---- silent for a while */

void old__node_silent(struct old__core *core, uint32_t node)
{
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].node == node)
			core->tasks[i].is_cut_off = true;
	old__judge_cut(core);
}

void old__node_back(struct old__core *core, uint32_t node)
{
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (t->node != node || !t->is_cut_off)
			continue;
		t->is_cut_off = false;
		t->back_at = core->now;
	}
	old__judge_cut(core);
}

bool old__node_was_cut(const struct task *t, uint64_t at)
{
	return t->is_cut_off || (t->back_at && at < t->back_at + CUT_NS);
}

/* ---- drained */

static void drain_living(struct old__core *core, struct task *t, const char *why)
{
	char text[256];
	old__text_name(core, t, text, sizeof(text));
	old__text_add(text, sizeof(text), " must move: %s", why);
	if (old__restart_moving(core, t, text, sizeof(text)) == RESTARTED)
		return;
	old__text_add(text, sizeof(text), "; it stays until it ends, for it may not be restarted");
	old__tell_job(core, core->job_state, text);
}

/* All that are marked, once the marks of all are set. */
static void move_leaving(struct old__core *core, const char *why)
{
	core->grace = GRACE_MOVE;
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (core->phase != CORE_UP || !t->is_leaving)
			continue;
		if (!old__task_is_alive(t))
			move_idle(core, t, why);
		else if (t->fate == FATE_NONE && !t->is_stop_sent)
			drain_living(core, t, why);
	}
	core->grace = GRACE_ABORT;
}

void old__node_drain(struct old__core *core, uint32_t node, const char *why)
{
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].node == node)
			core->tasks[i].is_leaving = true;
	move_leaving(core, why);
}

void old__tasks_leave(struct old__core *core, uint32_t first, uint32_t count, const char *why)
{
	for (uint32_t i = first; i < core->task_count && i - first < count; i++)
		if (core->tasks[i].node != OLD__NO_NODE)
			core->tasks[i].is_leaving = true;
	move_leaving(core, why);
}
