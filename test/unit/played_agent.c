#include "played_agent.h"

#include "base/fail.h"

static void note(struct played_agent *agent, const char *what, uint32_t number)
{
	tfc__buf_addf(agent->orders, "%s: %s %u\n", agent->name, what, number);
}

static int job_open(void *user, const struct tfc__agent_job_info *info, tfc__agent_fn fn,
		    void *fn_user, void **ret_job, tfc_error *error)
{
	struct played_agent *agent = user;
	if (agent->is_refusing)
		return tfc__fail(error, TFC_ENOSPC, "agent", 0, "the disk of %s is full",
				 agent->name);
	agent->fn = fn;
	agent->user = fn_user;
	agent->epoch = info->epoch;
	agent->is_open = true;
	*ret_job = agent;
	return TFC_OK;
}

static void job_end(void *job)
{
	struct played_agent *agent = job;
	tfc__buf_addf(agent->orders, "%s: end\n", agent->name);
}

static void job_close(void *job)
{
	((struct played_agent *)job)->is_open = false;
}

static void hold(void *job, uint32_t task, uint32_t number)
{
	((struct played_agent *)job)->holds[task] = number;
	note(job, "hold", task);
}

static void release(void *job, uint32_t task)
{
	note(job, "release", task);
}

static void set_env(void *job, uint32_t task, const char *const *env)
{
}

static int count_task(void *user, const char *task_type, uint32_t task_index, const char *address)
{
	tfc__buf_addf(user, " %s", address);
	return 0;
}

static void launch(void *job, uint32_t task, uint32_t attempt, uint32_t generation,
		   const tfc_spec *spec)
{
	struct played_agent *agent = job;
	tfc__buf_addf(agent->orders, "%s: launch %u #%u g%u", agent->name, task, attempt,
		      generation);
	tfc_spec_each(spec, count_task, agent->orders);
	tfc__buf_add_char(agent->orders, '\n');
}

static void signal_task(void *job, uint32_t task, int signal_number)
{
	note(job, "signal", task);
}

static void stop(void *job, uint32_t task, uint32_t grace_ms)
{
	note(job, "stop", task);
}

static void query(void *job, uint32_t number)
{
	note(job, "query", number);
}

static void stacks(void *job, uint32_t task, bool is_ending)
{
	note(job, "stacks", task);
}

static void look(void *job, uint32_t number)
{
	note(job, "look", number);
}

static struct tfc__log_source *log_open(void *job, uint32_t task, uint64_t position,
					tfc_error *error)
{
	note(job, "log", task);
	return NULL;
}

static int log_tail(void *job, uint32_t task, char ***ret_lines)
{
	return TFC_ENOENT;
}

static void after_previous(void *user, struct tfc__work *work)
{
	((struct played_agent *)user)->parked = work;
}

const struct tfc__agent_ops played_agent_ops = {
	.job_open = job_open,
	.job_end = job_end,
	.job_close = job_close,
	.hold = hold,
	.release = release,
	.set_env = set_env,
	.launch = launch,
	.signal = signal_task,
	.stop = stop,
	.query = query,
	.stacks = stacks,
	.look = look,
	.log_open = log_open,
	.log_tail = log_tail,
	.after_previous = after_previous,
};
