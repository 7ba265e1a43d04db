/*
 * Attempts that are forked from a zygote (warm/zygotes.h), for jobs with "warm". An attempt that
 * cannot be forked starts cold: it has lost nothing but time, so that is reported once for the job.
 */
#include <stdio.h>
#include <stdlib.h>

#include "agent/internal.h"

static void warm_report_cold(struct agent_task *task, const char *reason)
{
	struct tfc__agent_job *job = task->job;
	char text[TFC__WARM_TEXT + 64];
	if (job->is_cold_reported)
		return;
	job->is_cold_reported = true;
	tfc__log(job->agent->ctx, TFC_LOG_INFO, "agent", job->info.id, "\"warm\" has no effect: %s",
		 reason);
	snprintf(text, sizeof(text), "starts cold, \"warm\" has no effect: %s", reason);
	tfc__agent_notify(task, &(struct tfc__task_event){.kind = TFC__AGENT_NOTICE, .text = text});
}

/*
 * A task whose last attempt was to be forked from it. One that has moved to another node does not
 * count: the maintainer would not report what is said of it from here. NULL: none.
 */
static struct agent_task *warm_find_task(struct tfc__agent_job *job, uint32_t number)
{
	for (uint32_t i = 0; i < job->task_count; i++)
		if (job->tasks[i].has_slot && job->tasks[i].zygote == number)
			return &job->tasks[i];
	return NULL;
}

/* Without a task here, a failure is reported when the next attempt starts cold. */
static void warm_on_change(void *user, uint32_t number, const tfc_zygote *zygote)
{
	struct tfc__agent_job *job = user;
	struct agent_task *task = warm_find_task(job, number);
	job->fn(job->user, &(struct tfc__task_event){.kind = TFC__AGENT_ZYGOTE,
						     .number = number,
						     .zygote = zygote});
	if (task && zygote && zygote->state == TFC_ZYGOTE_FAILED)
		warm_report_cold(task, zygote->text);
}

bool tfc__warm_is_importing(const struct agent_task *task)
{
	return task->job->info.job->warm.count &&
	       tfc__zygotes_are_importing(task->job->agent->zygotes, task->job);
}

int tfc__warm_open(struct tfc__agent *agent, const struct tfc__agent_options *options,
		   tfc_error *error)
{
	const struct tfc__zygotes_options own = {.ctx = agent->ctx,
						 .dir = agent->private_dir,
						 .max = options->zygotes,
						 .import_ms = options->import_ms,
						 .fn = warm_on_change};
	return tfc__zygotes_open(&own, error, &agent->zygotes);
}

const tfc_process *tfc__warm_zygote(struct agent_task *task, const tfc_process_options *options)
{
	struct tfc__agent_job *job = task->job;
	char reason[TFC__WARM_TEXT];
	if (!job->info.job->warm.count)
		return NULL;
	char *stacks_dir = tfc__stacks_dir(task);
	char *bundle_dir = job->info.job->bundle ? tfc__bundle_dir(task) : NULL;
	const struct tfc__warm_attempt attempt = {
		.modules = &job->info.job->warm,
		.argv = options->argv,
		.env = options->env,
		.own_dirs = {stacks_dir, bundle_dir},
		.isolation = options->isolation,
		.limits = options->limits,
		.cwd = options->cwd,
		.user = job,
	};
	const tfc_process *zygote = tfc__zygotes_get(job->agent->zygotes, &attempt, reason,
						     &task->zygote);
	if (!zygote && *reason)
		warm_report_cold(task, reason);
	free(stacks_dir);
	free(bundle_dir);
	return zygote;
}
