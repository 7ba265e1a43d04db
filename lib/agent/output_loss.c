/* The output of a task that cannot be written to its log, as on a full disk. */
#include <stdio.h>

#include "agent/internal.h"

void tfc__output_loss_begin(struct agent_task *task, const tfc_process_event *process)
{
	struct tfc__agent_job *job = task->job;
	char text[512];
	if (task->is_output_lost)
		return;
	task->is_output_lost = true;
	if (job->losing_tasks++ == 0)
		tfc__log(job->agent->ctx, TFC_LOG_WARNING, "agent", job->info.id,
			 "output of %s/%u is being lost: cannot write to \"%s\": %s",
			 task->role->name, task->index, job->log_dir, process->text);
	snprintf(text, sizeof(text),
		 "is losing its output: cannot write to \"%.300s\" on node %s: %s", job->log_dir,
		 job->agent->name, process->text);
	tfc__agent_notify(task, &(struct tfc__task_event){.kind = TFC__AGENT_NOTICE,
							  .number = TFC__NOTICE_OUTPUT_LOST,
							  .text = text});
}

static void output_loss_notify_end(struct agent_task *task, const tfc_process_event *process)
{
	char text[128];
	snprintf(text, sizeof(text),
		 "no longer loses its output; bytes lost: %llu, lines lost: %llu",
		 (unsigned long long)process->log_dropped,
		 (unsigned long long)process->dropped_lines);
	tfc__agent_notify(task, &(struct tfc__task_event){.kind = TFC__AGENT_NOTICE,
							  .number = TFC__NOTICE_OUTPUT_RESUMED,
							  .text = text});
}

void tfc__output_loss_end(struct agent_task *task, const tfc_process_event *process)
{
	struct tfc__agent_job *job = task->job;
	bool has_ended = process->kind == TFC_PROCESS_EXITED;
	uint64_t bytes = process->log_dropped - (has_ended ? task->output_lost : 0);
	task->output_lost = has_ended ? 0 : task->output_lost + bytes;
	if (!task->is_output_lost)
		return;
	task->is_output_lost = false;
	job->output_lost += bytes;
	if (!has_ended)
		output_loss_notify_end(task, process);
	if (--job->losing_tasks)
		return;
	tfc__log(job->agent->ctx, TFC_LOG_INFO, "agent", job->info.id,
		 "output is no longer being lost; bytes lost by tasks of the job: %llu",
		 (unsigned long long)job->output_lost);
	job->output_lost = 0;
}
