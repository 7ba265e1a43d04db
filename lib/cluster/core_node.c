/*
 * Nodes that are lost, unreachable or drained, and the tasks that must leave them.
 *
 * If a task of the cluster spec moves, every member's spec is wrong, so its group restarts. Any
 * other task moves alone. All tasks on a lost node have died together: the first death decides, as
 * with other deaths. Tasks that are alive without a node cannot be stopped any more.
 */
#include "cluster/core_state.h"

#include <stdio.h>

/* A failure may be due to an unreachable node for this long after it, since TensorFlow notices
 * late. */
#define UNREACHABLE_NS (60ull * 1000000000ull)

/* A task that is not alive gets another node before its next attempt. */
static void move_idle(struct tfc__core *core, struct task *t, enum grace grace, const char *why)
{
	char text[256];
	switch (t->phase) {
	case PHASE_HELD:
	case PHASE_GANG_HOLDING:
		tfc__gang_replace(core, t);
		break;
	case PHASE_HOLDING:
		tfc__place_alone(core, t);
		break;
	case PHASE_BACKOFF:
	case PHASE_DEAD:
		if (!t->is_member || core->group != GROUP_UP)
			break; /* it is placed when its next attempt is due */
		tfc__text_name(core, t, text, sizeof(text));
		tfc__text_add(text, sizeof(text), " must move: %s; restarting the group", why);
		tfc__restart_group(core, t->restart_at, grace, text);
		break;
	default: /* it has no node, or does not need one any more */
		break;
	}
}

/* ---- lost */

void tfc__node_lost(struct tfc__core *core, uint32_t node, const char *text)
{
	const struct tfc__attempt_end lost = {.reason = TFC_EXIT_LOST,
					      .is_with_node = true,
					      .time_ns = core->now};
	uint32_t displaced = 0, died = 0;
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (t->node != node)
			continue;
		t->node = TFC__NO_NODE;
		t->port = PORT_NONE;
		t->is_leaving = false;
		t->reachable_at = 0;
		if (!tfc__task_is_alive(t)) {
			core->displaced[displaced++] = t;
			continue;
		}
		died++;
		if (t->inspection == INSPECTION_REQUESTED)
			t->inspection = INSPECTION_NONE; /* its answer is not awaited any more */
	}
	if (displaced + died == 0)
		return;
	for (uint32_t i = 0; i < core->task_count && died; i++) {
		struct task *t = &core->tasks[i];
		if (!tfc__task_is_alive(t) || t->node != TFC__NO_NODE)
			continue;
		tfc__task_died(core, t, &lost, text);
		died--;
	}
	for (uint32_t i = 0; i < displaced && core->phase == CORE_UP; i++)
		move_idle(core, core->displaced[i], GRACE_ABORT, text);
	tfc__query_node_lost(core, node);
	tfc__start_node_lost(core, node);
}

/* ---- unreachable for a while */

void tfc__node_unreachable(struct tfc__core *core, uint32_t node)
{
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].node == node)
			core->tasks[i].reachable_at = NEVER;
	tfc__judge_reachability(core);
}

void tfc__node_reachable(struct tfc__core *core, uint32_t node)
{
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (t->node == node && t->reachable_at == NEVER)
			t->reachable_at = core->now;
	}
	tfc__judge_reachability(core);
}

bool tfc__node_was_unreachable(const struct task *t, uint64_t at)
{
	return t->reachable_at == NEVER ||
	       (t->reachable_at && at < t->reachable_at + UNREACHABLE_NS);
}

/* ---- drained */

/* Moves all tasks with is_leaving, after it was set for all of them. */
static void move_leaving(struct tfc__core *core, const char *why)
{
	for (uint32_t i = 0; i < core->task_count && core->phase == CORE_UP; i++) {
		struct task *t = &core->tasks[i];
		char text[256];
		if (!t->is_leaving)
			continue;
		if (!tfc__task_is_alive(t)) {
			move_idle(core, t, GRACE_MOVE, why);
			continue;
		}
		if (t->outcome != OUTCOME_OPEN)
			continue;
		tfc__text_name(core, t, text, sizeof(text));
		tfc__text_add(text, sizeof(text), " must move: %s", why);
		if (tfc__restart_moving(core, t, text, sizeof(text)) == RESTARTED)
			continue;
		tfc__text_add(text, sizeof(text),
			      "; it stays there until it ends, because restart.on is never");
		tfc__report_job(core, core->job_state, text);
	}
}

void tfc__node_drain(struct tfc__core *core, uint32_t node, const char *why)
{
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].node == node)
			core->tasks[i].is_leaving = true;
	move_leaving(core, why);
}

void tfc__tasks_leave(struct tfc__core *core, uint32_t first, uint32_t count, const char *why)
{
	for (uint32_t i = first; i < core->task_count && i - first < count; i++)
		if (core->tasks[i].node != TFC__NO_NODE)
			core->tasks[i].is_leaving = true;
	move_leaving(core, why);
}
