/*
 * A QUERY goes to every node that has a living task of the job, that had the suspect, or that may
 * have tasks of an earlier epoch. Its purpose waits until the last of them has answered or is lost.
 */
#include "cluster/core_state.h"

static void conclude_if_complete(struct tfc__core *core)
{
	if (core->query == QUERY_NONE)
		return;
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].query_node != TFC__NO_NODE)
			return;
	if (core->query == QUERY_INHERITED)
		tfc__resume_continue(core);
	else
		tfc__judge_response(core);
}

void tfc__query_nodes(struct tfc__core *core)
{
	core->query_number++;
	for (uint32_t i = 0; i < core->task_count; i++)
		core->tasks[i].query_node = TFC__NO_NODE;
	for (uint32_t i = 0; i < core->task_count; i++) {
		const struct task *t = &core->tasks[i];
		bool is_of_interest = core->query == QUERY_INHERITED || tfc__task_is_alive(t) ||
				      t == core->suspect;
		uint32_t node = t->node;
		if (t->query_node != TFC__NO_NODE || node == TFC__NO_NODE || !is_of_interest)
			continue;
		tfc__order_add(core, node, TFC__ORDER_QUERY, NULL)->number = core->query_number;
		for (uint32_t k = 0; k < core->task_count; k++)
			if (core->tasks[k].node == node)
				core->tasks[k].query_node = node;
	}
	conclude_if_complete(core); /* the suspect's node may be lost by now */
}

void tfc__query_receive(struct tfc__core *core, uint32_t node, const struct tfc__task_event *event)
{
	if (core->query == QUERY_NONE || event->number != core->query_number)
		return;
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (t->query_node != node)
			continue;
		t->query_node = TFC__NO_NODE;
		if (t->node == node)
			t->process = event->states[i];
		/* A task that was launched and has not started yet does not explain the death. */
		if (t->phase == PHASE_LAUNCHED && t->process == TFC__PROC_NONE)
			t->process = TFC__PROC_RUNNING;
	}
	conclude_if_complete(core);
}

void tfc__query_node_lost(struct tfc__core *core, uint32_t node)
{
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].query_node == node)
			core->tasks[i].query_node = TFC__NO_NODE;
	conclude_if_complete(core);
}
