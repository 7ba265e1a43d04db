/*
 * What the nodes are asked. A QUERY goes to every node that has a task of the job alive, or had the
 * suspect, or may have tasks of an earlier term; what follows from it waits until the last of them
 * has answered or is lost. A LOOK goes to the nodes of the tasks that a sentence would name, and
 * waits for nobody long: it only explains.
 */
#include "core_state.h"

#include <stdio.h>
#include <string.h>

#define LOOK_WAIT_NS (2ull * 1000000000ull)

/* ---- queries */

static bool is_of_interest(const struct old__core *core, const struct task *t)
{
	return t->node != OLD__NO_NODE &&
	       (core->is_resuming || old__task_is_alive(t) || t == core->suspect);
}

static void judge_if_answered(struct old__core *core)
{
	if (!core->is_query_open)
		return;
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].asked != OLD__NO_NODE)
			return;
	if (core->is_resuming)
		old__resume_go_on(core);
	else
		old__judge_answer(core);
}

static void ask_node(struct old__core *core, uint32_t node)
{
	struct old__core_action *action = old__act(core, OLD__DO_QUERY, NULL);
	action->number = core->query;
	action->node = node;
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].node == node)
			core->tasks[i].asked = node;
}

void old__ask_query(struct old__core *core)
{
	core->query++;
	core->is_query_open = true;
	for (uint32_t i = 0; i < core->task_count; i++)
		core->tasks[i].asked = OLD__NO_NODE;
	for (uint32_t i = 0; i < core->task_count; i++) {
		const struct task *t = &core->tasks[i];
		if (t->asked == OLD__NO_NODE && is_of_interest(core, t))
			ask_node(core, t->node);
	}
	judge_if_answered(core); /* the suspect's node may be lost by now */
}

void old__ask_answered(struct old__core *core, uint32_t node, const uint8_t *states)
{
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (t->asked != node)
			continue;
		t->asked = OLD__NO_NODE;
		if (t->node == node)
			t->proc = states[i];
		/* One that was launched and has not started yet is no explanation. */
		if (t->phase == PHASE_LAUNCHED && t->proc == OLD__PROC_NONE)
			t->proc = OLD__PROC_RUNNING;
	}
	judge_if_answered(core);
}

/* ---- looks */

static void conclude_if_looked(struct old__core *core)
{
	if (!core->is_look_open)
		return;
	for (uint32_t i = 0; i < core->looked_count; i++)
		if (core->tasks[core->looked[i].task].look_asked != OLD__NO_NODE)
			return;
	old__ask_timeout(core);
}

static bool is_look_asked(const struct old__core *core, uint32_t node)
{
	for (uint32_t i = 0; i < core->looked_count; i++)
		if (core->tasks[core->looked[i].task].look_asked == node)
			return true;
	return false;
}

static void look_at(struct old__core *core, struct task *t)
{
	if (!is_look_asked(core, t->node)) {
		struct old__core_action *action = old__act(core, OLD__DO_LOOK, NULL);
		action->number = core->look;
		action->node = t->node;
	}
	t->look_asked = t->node;
	core->looked[core->looked_count++] = (struct old__looked){.task = old__task_id(core, t)};
}

void old__ask_look(struct old__core *core)
{
	core->look++;
	core->looked_count = 0;
	core->is_look_open = true;
	core->look_at = core->now + LOOK_WAIT_NS;
	for (uint32_t i = 0; i < core->task_count && core->looked_count < OLD__LOOKED_MAX; i++)
		if (old__task_is_unready(&core->tasks[i]) && core->tasks[i].node != OLD__NO_NODE)
			look_at(core, &core->tasks[i]);
	conclude_if_looked(core);
}

static void take_text(struct old__looked *to, const struct old__core_event *event)
{
	for (uint32_t i = 0; i < event->count; i++)
		if (event->looked[i].task == to->task)
			snprintf(to->text, sizeof(to->text), "%s", event->looked[i].text);
}

void old__ask_looked(struct old__core *core, const struct old__core_event *event)
{
	if (!core->is_look_open || event->query != core->look)
		return;
	for (uint32_t i = 0; i < core->looked_count; i++) {
		struct task *t = &core->tasks[core->looked[i].task];
		if (t->look_asked != event->node)
			continue;
		t->look_asked = OLD__NO_NODE;
		take_text(&core->looked[i], event);
	}
	conclude_if_looked(core);
}

void old__ask_timeout(struct old__core *core)
{
	core->is_look_open = false;
	core->look_at = 0;
	old__start_looked(core);
}

/* ---- nodes that will never answer */

void old__ask_lost(struct old__core *core, uint32_t node)
{
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (t->asked == node)
			t->asked = OLD__NO_NODE;
		if (t->look_asked == node)
			t->look_asked = OLD__NO_NODE;
	}
	judge_if_answered(core);
	conclude_if_looked(core);
}
