/* The local agent as a struct tfc__agent_ops. */
#include "agent/agent_ops.h"
#include "agent/internal.h"
#include "log/tail.h"

static int job_open(void *agent, const struct tfc__agent_job_info *info, tfc__agent_fn fn,
		    void *user, void **ret_job, tfc_error *error)
{
	struct tfc__agent_job *job;
	int code = tfc__agent_job_open(agent, info, fn, user, &job, error);
	if (code == TFC_OK)
		*ret_job = job;
	return code;
}

static void job_end(void *job)
{
	tfc__agent_job_end(job);
}

static void job_close(void *job)
{
	tfc__agent_job_close(job);
}

static void hold(void *job, uint32_t task, uint32_t number)
{
	tfc__agent_hold(job, task, number);
}

static void release(void *job, uint32_t task)
{
	tfc__agent_release(job, task);
}

static void set_env(void *job, uint32_t task, const char *const *env)
{
	tfc__agent_set_env(job, task, env);
}

static void launch(void *job, uint32_t task, uint32_t attempt, uint32_t generation,
		   const tfc_spec *spec)
{
	tfc__agent_launch(job, task, attempt, generation, spec);
}

static void signal_task(void *job, uint32_t task, int signal_number)
{
	tfc__agent_signal(job, task, signal_number);
}

static void stop(void *job, uint32_t task, uint32_t grace_ms)
{
	tfc__agent_stop(job, task, grace_ms);
}

static void query(void *job, uint32_t number)
{
	tfc__agent_query(job, number);
}

static void stacks(void *job, uint32_t task, bool is_ending)
{
	tfc__agent_stacks(job, task, is_ending);
}

static void look(void *job, uint32_t number)
{
	tfc__agent_inspect(job, number);
}

static struct tfc__log_source *log_open(void *of, uint32_t task, uint64_t position,
					tfc_error *error)
{
	struct tfc__agent_job *job = of;
	char name[TFC__LOG_NAME_SIZE];
	tfc__agent_log_name(job, task, name);
	return tfc__log_dir_open(&job->logs, name, position, error);
}

static int log_tail(void *job, uint32_t task, char ***ret_lines)
{
	char name[TFC__LOG_NAME_SIZE];
	tfc__agent_log_name(job, task, name);
	return tfc__log_tail(tfc__agent_log_dir(job), name, 0, TFC__LOG_TAIL_LINES, ret_lines);
}

static struct tfc__log_source *kept_log(void *agent, const char *id, const tfc_job *job,
					uint32_t task, uint64_t position, tfc_error *error)
{
	return tfc__agent_kept_log(agent, id, job, task, position, error);
}

static void forget(void *agent, const char *id)
{
	tfc__agent_forget_logs(agent, id);
}

static void after_previous(void *agent, struct tfc__work *work)
{
	tfc__agent_after_previous(agent, work);
}

const struct tfc__agent_ops tfc__local_agent_ops = {
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
	.kept_log = kept_log,
	.forget = forget,
	.after_previous = after_previous,
};
