/* The local agent as a struct tfc__agent_ops. */
#include "agent/agent_ops.h"
#include "agent/internal.h"
#include "log/tail.h"

static int local_agent_job_open(void *agent, const struct tfc__agent_job_info *info,
				tfc__agent_fn fn, void *user, void **ret_job, tfc_error *error)
{
	struct tfc__agent_job *job;
	int code = tfc__agent_job_open(agent, info, fn, user, error, &job);
	if (code == TFC_OK)
		*ret_job = job;
	return code;
}

static void local_agent_job_close(void *job)
{
	tfc__agent_job_close(job);
}

static void local_agent_order(void *of, const struct tfc__task_order *order)
{
	struct tfc__agent_job *job = of;
	switch (order->kind) {
	case TFC__ORDER_END:
		tfc__agent_job_end(job);
		break;
	case TFC__ORDER_HOLD:
		tfc__agent_hold(job, order->task, order->number);
		break;
	case TFC__ORDER_RELEASE:
		tfc__agent_release(job, order->task);
		break;
	case TFC__ORDER_SPEC:
		tfc__agent_set_spec(job, order);
		break;
	case TFC__ORDER_LAUNCH:
		tfc__agent_launch(job, order->task, order->attempt, order->generation);
		break;
	case TFC__ORDER_SIGNAL:
		if (!order->attempt || job->tasks[order->task].attempt == order->attempt)
			tfc_process_signal(job->tasks[order->task].process, (int)order->number);
		break;
	case TFC__ORDER_STOP:
		tfc__agent_stop(job, order->task, order->number);
		break;
	case TFC__ORDER_QUERY:
		tfc__agent_query(job, order->number);
		break;
	case TFC__ORDER_STACKS:
		tfc__agent_stacks(job, order->task, order->number != 0);
		break;
	case TFC__ORDER_INSPECT:
		tfc__agent_inspect(job, order->number);
		break;
	case TFC__ORDER_ENV:
		tfc__agent_set_env(job, order->task, order->env);
		break;
	}
}

static struct tfc__log_source *local_agent_log_open(void *of, uint32_t task, uint64_t position,
						    tfc_error *error)
{
	struct tfc__agent_job *job = of;
	char name[TFC__LOG_NAME_SIZE];
	tfc__agent_log_name(job, task, name);
	return tfc__log_dir_open(&job->logs, name, position, error);
}

static int local_agent_log_tail(void *job, uint32_t task, char ***ret_lines)
{
	char name[TFC__LOG_NAME_SIZE];
	tfc__agent_log_name(job, task, name);
	return tfc__log_tail(tfc__agent_log_dir(job), name, 0, 0, TFC__LOG_TAIL_LINES, ret_lines);
}

static struct tfc__log_source *local_agent_kept_log(void *agent, const char *id, const tfc_job *job,
						    uint32_t task, uint64_t position,
						    tfc_error *error)
{
	return tfc__agent_kept_log(agent, id, job, task, position, error);
}

static void local_agent_forget(void *agent, const char *id)
{
	tfc__agent_forget_logs(agent, id);
}

static void local_agent_after_previous(void *agent, struct tfc__work *work)
{
	tfc__agent_after_previous(agent, work);
}

const struct tfc__agent_ops tfc__local_agent_ops = {
	.job_open = local_agent_job_open,
	.job_close = local_agent_job_close,
	.order = local_agent_order,
	.log_open = local_agent_log_open,
	.log_tail = local_agent_log_tail,
	.kept_log = local_agent_kept_log,
	.forget = local_agent_forget,
	.after_previous = local_agent_after_previous,
};
