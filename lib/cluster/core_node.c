/*
 * Nodes that are lost, unreachable or drained, and the tasks that must leave them.
 *
 * If a task of the cluster spec moves, every member's spec is wrong, so its group restarts. Any
 * other task moves alone. All tasks on a lost node have died together: the first death decides, as
 * with other deaths. Tasks that are alive without a node cannot be stopped any more.
 */
#include "cluster/core_state.h"

#include <stdio.h>
#include <string.h>

/* A failure may be due to an unreachable node for this long after it, since TensorFlow notices
 * late. */
#define UNREACHABLE_NS (60ull * 1000000000ull)

#define MORE_SIZE 32 /* space for ", ", " and 99999 more" */

/* A task that is not alive gets another node before its next attempt. */
static void task_move_idle(struct tfc__core *core, struct task *t, enum grace grace,
			   const char *why)
{
	char text[ACTION_TEXT];
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

/* Whether the job waits for the node because of the task. */
static bool task_needs_node(const struct task *t)
{
	switch (t->phase) {
	case PHASE_INHERITED:
	case PHASE_GANG_HOLDING:
	case PHASE_HELD:
	case PHASE_HOLDING:
		return true;
	default:
		return tfc__task_is_alive(t);
	}
}

/* ---- lost */

void tfc__node_lost(struct tfc__core *core, uint32_t node, const char *text)
{
	const struct tfc__attempt_end lost = {.reason = TFC_EXIT_LOST,
					      .is_with_node = true,
					      .time_ns = core->now};
	struct tfc__link died, displaced; /* a task that gets a place meanwhile is in none */
	tfc__list_init(&died);
	tfc__list_init(&displaced);
	bool is_awaited = false;
	TFC__LIST_EACH (link, tfc__tasks_at(core, node)) {
		struct task *t = tfc__task_at(link);
		if (t->node != node)
			continue;
		is_awaited = is_awaited || (t->reachable_at == NEVER && task_needs_node(t));
		tfc__task_set_node(core, t, TFC__NO_NODE);
		tfc__list_append(tfc__task_is_alive(t) ? &died : &displaced, &t->at_node);
		t->port = PORT_NONE;
		t->is_leaving = false;
		t->reachable_at = 0;
		tfc__stall_over(core, t);
	}
	if (is_awaited) /* the job's text says that its tasks may be lost: now they are */
		tfc__report_job(core, core->job_state, text);
	while (!tfc__list_is_empty(&died)) {
		struct task *t = tfc__task_at(died.next);
		tfc__list_remove(&t->at_node);
		tfc__task_died(core, t, &lost, text);
	}
	while (!tfc__list_is_empty(&displaced)) {
		struct task *t = tfc__task_at(displaced.next);
		tfc__list_remove(&t->at_node);
		if (core->phase == CORE_UP)
			task_move_idle(core, t, GRACE_ABORT, text);
	}
	tfc__query_conclude(core);
	tfc__start_node_lost(core, node);
}

/* ---- unreachable for a while */

void tfc__node_unreachable(struct tfc__core *core, uint32_t node, const char *text)
{
	char report[ACTION_TEXT], name[96];
	uint32_t named = 0, more = 0;
	snprintf(report, sizeof(report), "%s", text);
	TFC__LIST_EACH (link, tfc__tasks_at(core, node)) {
		struct task *t = tfc__task_at(link);
		if (t->node != node)
			continue;
		t->reachable_at = NEVER;
		tfc__judge_unreachable(core, t);
		if (!task_needs_node(t))
			continue;
		tfc__text_name(core, t, name, sizeof(name));
		if (strlen(report) + strlen(name) + MORE_SIZE > sizeof(report))
			more++;
		else
			tfc__text_add(report, sizeof(report), "%s %s", named++ ? "," : ":", name);
	}
	if (more)
		tfc__text_add(report, sizeof(report), " and %u more", more);
	if (named && *text)
		tfc__report_job(core, core->job_state, report);
}

void tfc__node_reachable(struct tfc__core *core, uint32_t node, const char *text)
{
	bool is_needed = false;
	TFC__LIST_EACH (link, tfc__tasks_at(core, node)) {
		struct task *t = tfc__task_at(link);
		if (t->node != node || t->reachable_at != NEVER)
			continue;
		t->reachable_at = core->now;
		is_needed |= task_needs_node(t);
	}
	if (is_needed && *text)
		tfc__report_job(core, core->job_state, text);
}

bool tfc__node_was_unreachable(const struct task *t, uint64_t at)
{
	return t->reachable_at == NEVER ||
	       (t->reachable_at && at < t->reachable_at + UNREACHABLE_NS);
}

/* ---- drained */

/* Restarts a task with is_leaving elsewhere, which was set for all that leave with it. */
static void task_move(struct tfc__core *core, struct task *t, const char *why)
{
	char text[ACTION_TEXT];
	if (!tfc__task_is_alive(t)) {
		task_move_idle(core, t, GRACE_MOVE, why);
		return;
	}
	if (t->outcome != OUTCOME_OPEN)
		return;
	tfc__text_name(core, t, text, sizeof(text));
	tfc__text_add(text, sizeof(text), " must move: %s", why);
	if (tfc__restart_moving(core, t, text, sizeof(text)) == RESTARTED)
		return;
	tfc__text_add(text, sizeof(text),
		      "; it stays there until it ends, because restart.on is never");
	tfc__report_job(core, core->job_state, text);
}

void tfc__node_drain(struct tfc__core *core, uint32_t node, const char *why)
{
	struct tfc__link rest; /* without the tasks that a restart of the group has moved */
	tfc__list_init(&rest);
	tfc__list_move(&rest, tfc__tasks_at(core, node));
	TFC__LIST_EACH (link, &rest)
		tfc__task_at(link)->is_leaving |= tfc__task_at(link)->node == node;
	while (!tfc__list_is_empty(&rest)) {
		struct task *t = tfc__task_at(rest.next);
		tfc__list_remove(&t->at_node);
		tfc__list_append(tfc__tasks_at(core, node), &t->at_node);
		if (t->node == node && core->phase == CORE_UP)
			task_move(core, t, why);
	}
}

void tfc__tasks_leave(struct tfc__core *core, uint32_t first, uint32_t count, const char *why)
{
	for (uint32_t i = first; i < core->task_count && i - first < count; i++)
		if (core->tasks[i].node != TFC__NO_NODE)
			core->tasks[i].is_leaving = true;
	for (uint32_t i = first; i < core->task_count && i - first < count; i++)
		if (core->tasks[i].is_leaving && core->phase == CORE_UP)
			task_move(core, &core->tasks[i], why);
}
