/*
 * A job that an earlier term has begun. What was done stays done, what ran is lost, and the rest
 * forms the next generation; a verdict of that term stands. Budgets begin anew. Nothing is launched
 * or ended before the nodes where something ran have said that nothing does any more.
 */
#include "core_state.h"

#include <stdio.h>
#include <string.h>

/* A gang needs all of its members again, unless all of them are done. */
static bool is_gang_done(const struct old__core *core, const struct old__resume_task *tasks)
{
	for (uint32_t i = 0; i < core->task_count; i++)
		if (old__task_role(core, &core->tasks[i])->scope == TFC__SCOPE_GROUP &&
		    !tasks[i].is_done)
			return false;
	return true;
}

static void resume_task(struct old__core *core, struct task *t, const struct old__resume_task *was,
			uint32_t node, bool is_gang_done)
{
	bool is_of_gang = old__task_role(core, t)->scope == TFC__SCOPE_GROUP;
	t->attempt = was->attempt;
	t->was_running = was->was_running;
	t->node = was->was_running ? node : OLD__NO_NODE;
	if (!was->is_done || (is_of_gang && !is_gang_done))
		return;
	t->state = TFC_TASK_EXITED;
	old__task_phase(core, t, PHASE_OVER);
	core->undone -= t->is_decider;
}

static void resume_verdict(struct old__core *core, const struct old__resume *resume)
{
	bool is_success = resume->reason == TFC_END_EXIT && resume->status == 0;
	core->is_end_resumed = true;
	core->outcome.state = resume->reason == TFC_END_STOPPED ? TFC_JOB_STOPPED
			      : is_success                      ? TFC_JOB_SUCCEEDED
								: TFC_JOB_FAILED;
	core->outcome.task = resume->task;
	core->outcome.reason = resume->reason;
	core->outcome.status = resume->status;
	snprintf(core->outcome.text, sizeof(core->outcome.text), "%s",
		 resume->text ? resume->text : "");
}

void old__core_resume(struct old__core *core, const struct old__resume *resume,
		      const uint32_t *nodes)
{
	bool is_done = is_gang_done(core, resume->tasks);
	core->generation = resume->generation;
	for (uint32_t i = 0; i < core->task_count; i++)
		resume_task(core, &core->tasks[i], &resume->tasks[i],
			    nodes ? nodes[i] : OLD__NO_NODE, is_done);
	if (resume->job_state == TFC_JOB_STOPPING)
		resume_verdict(core, resume);
}

/* Its attempt's end was never told. */
static void lose(struct old__core *core, struct task *t)
{
	char text[256];
	t->was_running = false;
	t->death = (struct old__death){.reason = TFC_EXIT_LOST, .time_ns = core->now};
	snprintf(t->why, TASK_WHY, "the maintainer of its job had ended");
	old__death_text(core, t, text, sizeof(text));
	bool may_restart = old__task_role(core, t)->restart_on != TFC__RESTART_NEVER;
	if (may_restart || core->phase != CORE_UP)
		old__tell_end(core, t, TFC_TASK_LOST, TFC_END_LOST, text);
	else
		old__end_failed(core, t, text);
}

static bool has_node(const struct old__core *core)
{
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].node != OLD__NO_NODE)
			return true;
	return false;
}

void old__resume_start(struct old__core *core)
{
	core->is_resuming = true;
	if (core->is_end_resumed)
		core->phase = CORE_ENDING;
	if (!has_node(core)) {
		old__resume_go_on(core);
		return;
	}
	if (core->phase == CORE_UP)
		old__start_watch(core);
	old__ask_query(core);
}

void old__resume_go_on(struct old__core *core)
{
	/* Told only now: a term that comes after this one believes it. */
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].was_running)
			lose(core, &core->tasks[i]);
	core->is_resuming = core->is_query_open = false;
	if (core->phase != CORE_UP)
		old__end_if_reaped(core);
	else if (core->undone == 0)
		old__end_succeeded(core);
	else
		old__gang_begin(core);
}
