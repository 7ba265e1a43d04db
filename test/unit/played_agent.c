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

static void job_close(void *job)
{
	((struct played_agent *)job)->is_open = false;
}

static int note_address(void *user, const char *task_type, uint32_t task_index, const char *address)
{
	tfc__buf_addf(user, " %s", address);
	return 0;
}

static void order(void *job, const struct tfc__task_order *order)
{
	struct played_agent *agent = job;
	switch (order->kind) {
	case TFC__ORDER_END:
		tfc__buf_addf(agent->orders, "%s: end\n", agent->name);
		break;
	case TFC__ORDER_HOLD:
		agent->holds[order->task] = order->number;
		note(agent, "hold", order->task);
		break;
	case TFC__ORDER_RELEASE:
		note(agent, "release", order->task);
		break;
	case TFC__ORDER_SPEC:
		tfc__buf_addf(agent->orders, "%s: spec g%u", agent->name, order->generation);
		tfc_spec_each(order->spec, note_address, agent->orders);
		tfc__buf_add_char(agent->orders, '\n');
		break;
	case TFC__ORDER_LAUNCH:
		tfc__buf_addf(agent->orders, "%s: launch %u #%u g%u\n", agent->name, order->task,
			      order->attempt, order->generation);
		break;
	case TFC__ORDER_SIGNAL:
		note(agent, "signal", order->task);
		break;
	case TFC__ORDER_STOP:
		note(agent, "stop", order->task);
		break;
	case TFC__ORDER_QUERY:
		note(agent, "query", order->number);
		break;
	case TFC__ORDER_STACKS:
		note(agent, "stacks", order->task);
		break;
	case TFC__ORDER_INSPECT:
		note(agent, "inspect", order->number);
		break;
	case TFC__ORDER_ENV:
		tfc__buf_addf(agent->orders, "%s: env %u", agent->name, order->task);
		for (const char *const *item = order->env; item && *item; item++)
			tfc__buf_addf(agent->orders, " %s", *item);
		tfc__buf_add_char(agent->orders, '\n');
		break;
	}
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
	.job_close = job_close,
	.order = order,
	.log_open = log_open,
	.log_tail = log_tail,
	.after_previous = after_previous,
};
