/*
 * Resumes a job of an earlier epoch. Tasks that were done stay done, running ones are lost, and all
 * that are not done form the next generation. A verdict of that epoch stands. Budgets begin anew.
 * Nothing is launched or ended before the nodes with running tasks confirm that nothing runs.
 */
#include "cluster/core_state.h"

#include <stdio.h>
#include <string.h>

/* A gang needs all of its members again, unless all of them are done. */
static bool is_gang_done(const struct tfc__core *core, const struct tfc__resume_task *tasks)
{
	for (uint32_t i = 0; i < core->task_count; i++)
		if (tfc__task_role(core, &core->tasks[i])->scope == TFC__SCOPE_GROUP &&
		    !tasks[i].is_done)
			return false;
	return true;
}

static void resume_task(struct tfc__core *core, struct task *t, const struct tfc__resume_task *was,
			uint32_t node, bool is_gang_done)
{
	bool is_of_gang = tfc__task_role(core, t)->scope == TFC__SCOPE_GROUP;
	t->attempt = was->attempt;
	if (was->was_running) {
		tfc__task_set_node(core, t, node);
		tfc__task_phase(core, t, PHASE_INHERITED);
	}
	if (!was->is_done || (is_of_gang && !is_gang_done))
		return;
	t->state = TFC_TASK_EXITED;
	tfc__task_phase(core, t, PHASE_OVER);
	core->undone -= t->is_decider;
}

static void resume_verdict(struct tfc__core *core, const struct tfc__resume *resume)
{
	bool is_success = resume->reason == TFC_END_EXIT && resume->status == 0;
	core->job_state = TFC_JOB_STOPPING;
	core->outcome.state = resume->reason == TFC_END_STOPPED ? TFC_JOB_STOPPED
			      : is_success                      ? TFC_JOB_SUCCEEDED
								: TFC_JOB_FAILED;
	core->outcome.task = resume->task;
	core->outcome.reason = resume->reason;
	core->outcome.status = resume->status;
	snprintf(core->outcome.text, sizeof(core->outcome.text), "%s",
		 resume->text ? resume->text : "");
}

void tfc__core_resume(struct tfc__core *core, const struct tfc__resume *resume,
		      const uint32_t *nodes)
{
	bool is_done = is_gang_done(core, resume->tasks);
	core->generation = resume->generation;
	for (uint32_t i = 0; i < core->task_count; i++)
		resume_task(core, &core->tasks[i], &resume->tasks[i],
			    nodes ? nodes[i] : TFC__NO_NODE, is_done);
	if (resume->job_state == TFC_JOB_STOPPING)
		resume_verdict(core, resume);
}

/* The end of the task's attempt was never reported. */
static void task_lose_inherited(struct tfc__core *core, struct task *t)
{
	char text[ACTION_TEXT];
	t->death = (struct tfc__attempt_end){.reason = TFC_EXIT_LOST, .time_ns = core->now};
	snprintf(t->why, TASK_WHY,
		 "its end was not observed, because the job's maintainer had ended");
	tfc__death_text(core, t, text, sizeof(text));
	if (core->phase != CORE_UP) {
		tfc__report_end(core, t, TFC_TASK_LOST, TFC_END_LOST, text);
		tfc__task_phase(core, t, PHASE_OVER);
	} else if (tfc__task_role(core, t)->restart_on == TFC__RESTART_NEVER) {
		tfc__end_failed(core, t, text);
	} else {
		tfc__report_end(core, t, TFC_TASK_LOST, TFC_END_LOST, text);
		tfc__task_phase(core, t, PHASE_IDLE);
	}
}

static bool is_anything_inherited(const struct tfc__core *core)
{
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].node != TFC__NO_NODE)
			return true;
	return false;
}

void tfc__resume_start(struct tfc__core *core)
{
	core->query = QUERY_INHERITED;
	if (core->outcome.state)
		core->phase = CORE_ENDING;
	if (!is_anything_inherited(core)) {
		tfc__resume_continue(core);
		return;
	}
	if (core->phase == CORE_UP)
		tfc__start_begin(core);
	tfc__query_nodes(core);
}

void tfc__resume_continue(struct tfc__core *core)
{
	/* Reported only now, since a later epoch relies on this entry. */
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].phase == PHASE_INHERITED)
			task_lose_inherited(core, &core->tasks[i]);
	core->query = QUERY_NONE;
	if (core->phase != CORE_UP)
		tfc__end_if_reaped(core);
	else if (core->undone == 0)
		tfc__end_succeeded(core);
	else
		tfc__gang_begin(core);
}
