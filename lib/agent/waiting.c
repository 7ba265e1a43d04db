/*
 * Launches that wait until the guard can take them. An environment names every task of the cluster,
 * so that those of a thousand tasks, rendered at once, are a thousand times as much memory: each is
 * rendered when it can go; and no more than a few in one turn, since a launch costs some 50 us.
 */
#include "agent/internal.h"
#include "base/fail.h"

#define LAUNCHES_PER_TURN 16

static int copy_task(void *user, const char *task_type, uint32_t task_index, const char *address)
{
	return tfc_spec_add(user, task_type, task_index, address, NULL);
}

/* One copy serves all that wait in a generation. */
static int keep_spec(struct tfc__agent_job *job, uint32_t generation, const tfc_spec *spec,
		     tfc_error *error)
{
	tfc_spec *copy = NULL;
	if (job->waiting_spec && job->waiting_generation == generation)
		return TFC_OK;
	if (tfc_spec_new(&copy) < 0 || tfc_spec_each(spec, copy_task, copy) != 0) {
		tfc_spec_free(copy);
		return tfc__fail_nomem(error, "agent");
	}
	tfc_spec_free(job->waiting_spec);
	job->waiting_spec = copy;
	job->waiting_generation = generation;
	return TFC_OK;
}

bool tfc__waiting_accepts(struct agent_task *task, const tfc_spec *spec)
{
	struct tfc__agent *agent = task->job->agent;
	if (tfc__list_is_empty(&agent->waiting) && !tfc__guard_is_busy(agent->ctx) &&
	    agent->launched < LAUNCHES_PER_TURN) {
		agent->launched++;
		tfc__work_schedule(&agent->guard_is_free);
		return false;
	}
	if (keep_spec(task->job, task->generation, spec, task->error) < 0) {
		tfc__agent_reply(task, REPLY_REFUSED);
		return true;
	}
	tfc__list_append(&agent->waiting, &task->waiting_link);
	tfc__guard_when_free(agent->ctx, &agent->guard_is_free);
	return true;
}

bool tfc__waiting_drop(struct agent_task *task)
{
	bool is_waiting = !tfc__list_is_empty(&task->waiting_link);
	tfc__list_remove(&task->waiting_link);
	return is_waiting;
}

void tfc__waiting_resume(struct tfc__work *work)
{
	struct tfc__agent *agent = tfc__container_of(work, struct tfc__agent, guard_is_free);
	agent->launched = 0;
	while (!tfc__list_is_empty(&agent->waiting) && !tfc__guard_is_busy(agent->ctx) &&
	       agent->launched++ < LAUNCHES_PER_TURN) {
		struct agent_task *task = tfc__container_of(agent->waiting.next, struct agent_task,
							    waiting_link);
		tfc__list_remove(&task->waiting_link);
		tfc__agent_launch_now(task, task->job->waiting_spec);
	}
	if (!tfc__list_is_empty(&agent->waiting))
		tfc__guard_when_free(agent->ctx, &agent->guard_is_free);
	agent->launched = 0;
}
