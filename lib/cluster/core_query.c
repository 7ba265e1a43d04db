/*
 * A QUERY goes to every node that has a living task of the job, that had the suspect, or that may
 * have tasks of an earlier epoch. Its purpose waits until each of them has responded or is lost.
 */
#include "cluster/core_state.h"

void tfc__query_conclude(struct tfc__core *core)
{
	if (core->query == QUERY_NONE || core->queried)
		return;
	if (core->query == QUERY_INHERITED)
		tfc__resume_continue(core);
	else
		tfc__judge_response(core);
}

void tfc__query_nodes(struct tfc__core *core)
{
	core->query_number++;
	core->queried = 0;
	for (uint32_t i = 0; i < core->task_count; i++)
		core->tasks[i].is_queried = false;
	for (uint32_t i = 0; i < core->task_count; i++) {
		const struct task *t = &core->tasks[i];
		bool is_of_interest = core->query == QUERY_INHERITED || tfc__task_is_alive(t) ||
				      t == core->suspect;
		if (t->is_queried || t->node == TFC__NO_NODE || !is_of_interest)
			continue;
		tfc__order_add(core, t->node, TFC__ORDER_QUERY, NULL)->number = core->query_number;
		TFC__LIST_EACH (link, tfc__tasks_at(core, t->node)) {
			struct task *u = tfc__task_at(link);
			u->is_queried |= u->node == t->node;
			core->queried += u->node == t->node;
		}
	}
	tfc__query_conclude(core); /* the suspect's node may be lost by now */
}

void tfc__query_receive(struct tfc__core *core, uint32_t node, const struct tfc__task_event *event)
{
	if (core->query == QUERY_NONE || event->number != core->query_number)
		return;
	TFC__LIST_EACH (link, tfc__tasks_at(core, node)) {
		struct task *t = tfc__task_at(link);
		if (t->node != node || !t->is_queried)
			continue;
		t->is_queried = false;
		core->queried--;
		t->process = event->states[tfc__task_id(core, t)];
		/* A task that was launched and has not started yet does not explain the death. */
		if (t->phase == PHASE_LAUNCHED && t->process == TFC__PROC_NONE)
			t->process = TFC__PROC_RUNNING;
	}
}
