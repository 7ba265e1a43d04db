/*
 * The resources of this machine that its tasks use: slots, memory, GPUs. Maintainers place tasks by
 * what they know. Two of them may choose the same slot; one of them is then refused here.
 */
#include <stdio.h>

#include "agent/internal.h"
#include "base/fail.h"
#include "base/text.h"

int tfc__slot_acquire(struct agent_task *task)
{
	struct tfc__agent *agent = task->job->agent;
	uint64_t memory = task->role->memory;
	if (task->has_slot || task->job->is_plan)
		return TFC_OK;
	if (agent->slots && agent->slots_used >= agent->slots)
		return tfc__fail(task->error, TFC_EAGAIN, "agent", 0,
				 "node %s is full: all %u slots are in use", agent->name,
				 agent->slots);
	if (agent->memory && memory > agent->memory - agent->memory_used) {
		char free[TFC__MEMORY_TEXT_SIZE], all[TFC__MEMORY_TEXT_SIZE];
		tfc__memory_text(agent->memory - agent->memory_used, free);
		tfc__memory_text(agent->memory, all);
		return tfc__fail(task->error, TFC_EAGAIN, "agent", 0,
				 "node %s is full: %s of its %s of memory are free", agent->name,
				 free, all);
	}
	if (task->role->gpus > agent->gpus.free_count)
		return tfc__fail(task->error, TFC_EAGAIN, "agent", 0,
				 "node %s is full: %u of its %zu GPUs are free, %u are needed",
				 agent->name, agent->gpus.free_count, agent->gpus.ids.count,
				 task->role->gpus);
	agent->slots_used++;
	agent->memory_used += memory;
	tfc__gpus_claim(task);
	task->has_slot = true;
	return TFC_OK;
}

void tfc__slot_release(struct agent_task *task)
{
	if (!task->has_slot)
		return;
	task->has_slot = false;
	tfc__gpus_release(task);
	struct tfc__agent *agent = task->job->agent;
	agent->memory_used -= task->role->memory;
	if (--agent->slots_used == 0 && agent->emptied)
		tfc__work_schedule(agent->emptied);
}

void tfc__agent_on_empty(struct tfc__agent *agent, struct tfc__work *emptied)
{
	agent->emptied = emptied;
}

void tfc__agent_slots_text(const struct tfc__agent *agent, char *text, size_t size)
{
	size_t len = 0;
	text[0] = '\0';
	for (const struct tfc__link *link = agent->jobs.next; link != &agent->jobs;
	     link = link->next) {
		const struct tfc__agent_job *job = tfc__container_of(link, struct tfc__agent_job,
								     link);
		uint32_t slots = 0;
		for (uint32_t i = 0; i < job->task_count; i++)
			slots += job->tasks[i].has_slot;
		if (slots && len < size)
			len += (size_t)snprintf(text + len, size - len, "%s%u task%s of %s",
						len ? ", " : "", slots, slots == 1 ? "" : "s",
						job->info.id);
	}
}

double tfc__agent_longest_grace_s(const struct tfc__agent *agent)
{
	double longest = 0;
	for (const struct tfc__link *link = agent->jobs.next; link != &agent->jobs;
	     link = link->next) {
		const struct tfc__agent_job *job = tfc__container_of(link, struct tfc__agent_job,
								     link);
		double grace = tfc__job_longest_grace_s(job->info.job);
		longest = grace > longest ? grace : longest;
	}
	return longest;
}

uint32_t tfc__agent_slots_used(const struct tfc__agent *agent)
{
	return agent->slots_used;
}
