/*
 * The gang: places and ports for all of its tasks, and only then are they launched. While it waits
 * for room it holds nothing, so that two gangs never keep each other waiting.
 */
#include "core_state.h"

#include <stdio.h>
#include <string.h>

static void launch_gang(struct old__core *core)
{
	core->group = GROUP_UP;
	core->pending_deadline_at = 0;
	if (core->job_state == TFC_JOB_PENDING)
		old__tell_job(core, TFC_JOB_STARTING, "");
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].phase == PHASE_HELD)
			old__task_launch(core, &core->tasks[i]);
}

/* It is one of those that the launch waits for. */
static void await(struct old__core *core, struct task *t)
{
	core->gang_unheld += !t->is_in_gang;
	t->is_in_gang = true;
}

static void need(struct old__core *core, struct task *t)
{
	old__place_give_up(core, t);
	await(core, t);
	old__task_phase(core, t, PHASE_PLACING);
	core->is_seeking = true;
}

void old__gang_seek(struct old__core *core)
{
	if (!core->is_seeking)
		return;
	core->is_seeking = false;
	if (core->phase != CORE_UP || core->group != GROUP_HOLDING)
		return;
	core->is_gang_waiting = false;
	core->gang_place = ++core->place;
	old__act(core, OLD__DO_PLACE, NULL)->number = core->gang_place;
}

static void begin(struct old__core *core)
{
	core->group = GROUP_HOLDING;
	core->group_at = 0;
	core->generation++;
	core->gang_unheld = 0;
	core->is_seeking = false;
	core->is_whole_asked = false;
	core->gang_text[0] = '\0';
	if (core->policy.pending_deadline_ns)
		core->pending_deadline_at = core->now + core->policy.pending_deadline_ns;
	old__restart_deadline(core, core->now);
}

void old__gang_begin(struct old__core *core)
{
	begin(core);
	core->is_whole_asked = true;
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (t->phase == PHASE_OVER)
			continue;
		need(core, t);
	}
}

/* All members are reaped and the backoff is over: the next generation. */
static void form_gang(struct old__core *core)
{
	begin(core);
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (!t->is_member || t->phase != PHASE_DEAD)
			continue;
		if (old__place_is_needed(t)) {
			need(core, t);
		} else if (t->is_port_stale) {
			old__task_release(core, t);
			await(core, t);
			old__task_hold(core, t);
		} else {
			old__task_phase(core, t, PHASE_HELD);
		}
	}
	if (core->gang_unheld == 0)
		launch_gang(core);
}

void old__gang_gather(struct old__core *core)
{
	if (core->group == GROUP_ABORTING && core->members_alive == 0 &&
	    core->group_at <= core->now)
		form_gang(core);
}

void old__gang_placed(struct old__core *core, const uint32_t *nodes)
{
	core->gang_place = 0;
	core->is_whole_asked = false;
	core->repeat_at = 0;
	if (core->gang_text[0])
		old__restart_deadline(core, core->now);
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (t->is_waiting)
			old__place_told(core);
		if (!t->is_in_gang || t->phase != PHASE_PLACING)
			continue;
		t->node = nodes[i];
		old__task_hold(core, t);
	}
}

/* What does not fit to the rest may fit as a whole; and whoever waits holds nothing. */
static bool holds_any(const struct old__core *core)
{
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].phase == PHASE_HELD ||
		    (core->tasks[i].phase == PHASE_HOLDING && core->tasks[i].is_in_gang))
			return true;
	return false;
}

static void give_up_all(struct old__core *core)
{
	core->is_whole_asked = true;
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		bool is_holding = t->phase == PHASE_HOLDING && t->is_in_gang;
		if (t->phase == PHASE_HELD || is_holding)
			need(core, t);
	}
	core->is_seeking = true;
}

void old__gang_unplaced(struct old__core *core, const char *text, uint32_t hopeless)
{
	core->gang_place = 0;
	if (!core->is_whole_asked && holds_any(core)) {
		give_up_all(core);
		return;
	}
	if (hopeless) {
		old__end_refused(core, NULL, hopeless, text);
		return;
	}
	core->is_gang_waiting = true;
	/* It waits for room, not for its start. */
	old__start_over(core);
	if (strncmp(core->gang_text, text, sizeof(core->gang_text) - 1) == 0)
		return;
	snprintf(core->gang_text, sizeof(core->gang_text), "%s", text);
	old__tell_job(core, core->job_state, core->gang_text);
	old__place_told(core);
}

void old__gang_lack(struct old__core *core, struct task *t)
{
	need(core, t);
}

void old__gang_held(struct old__core *core, struct task *t)
{
	t->is_held = true;
	old__tell_task(core, t, TFC_TASK_HOLDING);
	if (!t->is_in_gang) {
		old__task_launch(core, t);
		return;
	}
	t->is_in_gang = false;
	old__task_phase(core, t, PHASE_HELD);
	if (--core->gang_unheld == 0)
		launch_gang(core);
}
