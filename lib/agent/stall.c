/*
 * Silent and suspended tasks, and tasks that are not ready yet.
 *
 * The activity of a silent task is reported a moment after the silence: it takes two measurements
 * of its CPU time to see whether it works. A role that is silent by its nature (a server waits for
 * requests, an evaluator for checkpoints) has stalled only if one of its processes is stopped,
 * unless the role itself limits its silence.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "agent/internal.h"
#include "base/clock.h"

#define MEASURING_TIME (100 * TFC__MS)
#define SLACK (200 * TFC__MS) /* shim and agent do not notice an event at the same moment */

static bool task_has_type(const struct agent_task *task, const char *name)
{
	return strcmp(task->role->name, name) == 0;
}

static bool is_quiet_role(const struct agent_task *task)
{
	const tfc_job *job = task->job->info.job;
	if (task->role->stall_s >= 0)
		return false;
	if (task_has_type(task, "worker"))
		return tfc__job_strategy(job) == TFC_STRATEGY_PARAMETER_SERVER;
	return !task_has_type(task, "chief") && !task_has_type(task, "driver");
}

uint32_t tfc__stall_ms(const struct agent_task *task)
{
	return tfc__role_stall_ms(task->job->info.job, task->role);
}

/* Whether a silence is a new one, or has doubled since it was last reported. */
static bool silence_is_longer(struct agent_task *task, uint32_t silent_ms)
{
	struct silence *silence = &task->silence;
	uint64_t now = tfc__now(), last_sign = now - silent_ms * TFC__MS;
	if (!silence->from || last_sign > silence->from + SLACK) {
		bool is_by_stacks = silence->from && last_sign <= silence->stack_at + SLACK;
		if (!is_by_stacks)
			*silence = (struct silence){.from = last_sign};
	}
	uint64_t ms = (now - silence->from) / TFC__MS;
	if (ms < 2 * silence->reported_ms)
		return false;
	silence->reported_ms = ms;
	return true;
}

void tfc__stall_report(struct agent_task *task, uint32_t silent_ms)
{
	if ((is_quiet_role(task) && !tfc__activity_is_stopped(task)) ||
	    !silence_is_longer(task, silent_ms))
		return;
	task->stall_attempt = task->attempt;
	tfc__activity_mark(task);
	tfc__timer_set(&task->stall_timer, tfc__now() + MEASURING_TIME);
}

static void stall_on_timer(struct tfc__timer *timer)
{
	struct agent_task *task = tfc__container_of(timer, struct agent_task, stall_timer);
	char text[128];
	if (!task->process || task->attempt != task->stall_attempt)
		return;
	tfc__activity_describe(task, text, sizeof(text));
	uint64_t ms = task->silence.reported_ms;
	struct tfc__task_event event = {.kind = TFC__AGENT_STALLED,
					.silent_ms = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX,
					.text = text};
	tfc__agent_notify(task, &event);
}

void tfc__stall_init(struct agent_task *task)
{
	tfc__timer_init(&task->stall_timer, task->job->agent->ctx, stall_on_timer);
	tfc__timer_init(&task->stacks_timer, task->job->agent->ctx, tfc__stacks_tick);
}

void tfc__stall_fini(struct agent_task *task)
{
	tfc__timer_cancel(&task->stall_timer);
	task->silence = (struct silence){0};
	tfc__stacks_end(task);
}

/* ---- tasks that are suspended by a signal */

static const char *suspension_signal(int number)
{
	switch (number) {
	case SIGTSTP:
		return "SIGTSTP";
	case SIGTTIN:
		return "SIGTTIN";
	case SIGTTOU:
		return "SIGTTOU";
	default:
		return "SIGSTOP";
	}
}

/* Of a job that a node elsewhere maintains, the text names the node of the process. */
void tfc__suspension_report(struct agent_task *task, const tfc_process_event *process)
{
	bool is_elsewhere = task->job->info.lease != NULL;
	char text[192];
	snprintf(text, sizeof(text),
		 "has been stopped (%s) for %u s; continue it with kill -CONT %d%s%s, or stop the "
		 "job",
		 suspension_signal(process->status), process->silent_ms / 1000, (int)process->pid,
		 is_elsewhere ? " on node " : "", is_elsewhere ? task->job->agent->name : "");
	tfc__agent_notify(task, &(struct tfc__task_event){.kind = TFC__AGENT_NOTICE, .text = text});
}

void tfc__suspension_report_end(struct agent_task *task, const tfc_process_event *process)
{
	char text[64];
	snprintf(text, sizeof(text), "continued after %u s", process->silent_ms / 1000);
	tfc__agent_notify(task, &(struct tfc__task_event){.kind = TFC__AGENT_NOTICE, .text = text});
}

/* ---- tasks that are not ready */

static bool is_task_awaited(const struct agent_task *task)
{
	bool is_launched = task->process || task->attempt_state == ATTEMPT_QUEUED;
	return is_launched && !tfc__agent_is_ready(task);
}

void tfc__agent_deliver_inspection(struct tfc__work *work)
{
	struct tfc__agent_job *job = tfc__container_of(work, struct tfc__agent_job, inspected);
	struct tfc__inspected inspected[TFC__INSPECTED_MAX];
	struct tfc__task_event event = {.kind = TFC__AGENT_INSPECTED,
					.number = job->inspection,
					.inspected = inspected};
	for (uint32_t i = 0; i < job->task_count; i++) {
		struct agent_task *task = &job->tasks[i];
		if (!is_task_awaited(task))
			continue;
		struct tfc__inspected *to = &inspected[event.inspected_count++];
		to->task = i;
		tfc__activity_describe(task, to->text, sizeof(to->text));
		if (event.inspected_count == TFC__INSPECTED_MAX)
			break;
	}
	job->fn(job->user, &event);
}

void tfc__agent_inspect(struct tfc__agent_job *job, uint32_t number)
{
	job->inspection = number;
	tfc__work_schedule(&job->inspected);
}

void tfc__agent_activity(struct tfc__agent_job *job, uint32_t number, char *text, size_t size)
{
	struct agent_task *task = &job->tasks[number];
	text[0] = '\0';
	if (is_task_awaited(task))
		tfc__activity_describe(task, text, size);
	else if (task->process)
		tfc__activity_describe_stop(task, text, size);
}
