/*
 * What this machine offers, and what its tasks have taken of it. Maintainers place by what they
 * know; two of them may choose the same seat, and here one of them is refused.
 */
#include "agent/inside.h"
#include "base/fail.h"

int seat_take(struct agent_task *task)
{
	struct tfc__agent *agent = task->job->agent;
	uint64_t memory = task->role->memory;
	if (task->is_seated || task->job->is_plan)
		return TFC_OK;
	if (agent->slots && agent->slots_taken >= agent->slots)
		return tfc__fail(&task->error, TFC_EAGAIN, "agent", 0,
				 "node %s is full: all %u slots are taken", agent->name,
				 agent->slots);
	if (agent->memory && memory > agent->memory - agent->memory_taken)
		return tfc__fail(&task->error, TFC_EAGAIN, "agent", 0,
				 "node %s is full: %llu of its %llu bytes of memory are left",
				 agent->name,
				 (unsigned long long)(agent->memory - agent->memory_taken),
				 (unsigned long long)agent->memory);
	if (task->role->gpus > agent->gpus.free_count)
		return tfc__fail(&task->error, TFC_EAGAIN, "agent", 0,
				 "node %s is full: %u of its %zu GPUs are free, %u are needed",
				 agent->name, agent->gpus.free_count, agent->gpus.ids.count,
				 task->role->gpus);
	agent->slots_taken++;
	agent->memory_taken += memory;
	gpus_claim(task);
	task->is_seated = true;
	return TFC_OK;
}

void seat_leave(struct agent_task *task)
{
	if (!task->is_seated)
		return;
	task->is_seated = false;
	gpus_give_back(task);
	task->job->agent->slots_taken--;
	task->job->agent->memory_taken -= task->role->memory;
}

uint32_t tfc__agent_taken(const struct tfc__agent *agent)
{
	return agent->slots_taken;
}
