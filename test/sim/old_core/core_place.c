/*
 * Where tasks go. Whoever knows the nodes chooses (PLACE); what does not fit waits, says what it
 * waits for, again each minute, and asks again whenever there may be room. The gang is placed as a
 * whole (core_gang.c), a task that moves alone by itself.
 */
#include "core_state.h"

#include <stdio.h>
#include <string.h>

#define REPEAT_NS (60ull * 1000000000ull)

bool old__place_is_needed(const struct task *t)
{
	return t->node == OLD__NO_NODE || t->is_leaving || !t->is_held;
}

void old__place_give_up(struct old__core *core, struct task *t)
{
	old__task_release(core, t);
	t->is_port_stale = t->is_leaving = t->is_cut_off = false;
	t->back_at = 0;
	t->node = OLD__NO_NODE;
}

void old__place_alone(struct old__core *core, struct task *t)
{
	old__place_give_up(core, t);
	old__task_phase(core, t, PHASE_PLACING);
	t->is_waiting = false;
	t->place = ++core->place;
	old__act(core, OLD__DO_PLACE, t)->number = t->place;
}

static void wait_alone(struct old__core *core, struct task *t, const char *text)
{
	bool is_told = strcmp(t->why, text) == 0;
	t->is_waiting = true;
	if (is_told)
		return;
	snprintf(t->why, TASK_WHY, "%s", text);
	old__tell_job(core, core->job_state, t->why);
	old__place_told(core);
}

void old__place_told(struct old__core *core)
{
	core->repeat_at = core->now + REPEAT_NS;
}

void old__place_repeat(struct old__core *core)
{
	core->repeat_at = 0;
	if (core->phase != CORE_UP)
		return;
	if (core->is_gang_waiting) {
		old__tell_job(core, core->job_state, core->gang_text);
		old__place_told(core);
	}
	for (uint32_t i = 0; i < core->task_count; i++) {
		const struct task *t = &core->tasks[i];
		if (!t->is_waiting || t->phase != PHASE_PLACING)
			continue;
		old__tell_job(core, core->job_state, t->why);
		old__place_told(core);
	}
}

static void heard_of_task(struct old__core *core, struct task *t,
			  const struct old__core_event *event)
{
	if (t->phase != PHASE_PLACING || t->is_in_gang || event->query != t->place)
		return;
	const char *text = event->text ? event->text : "";
	if (event->kind == OLD__CORE_PLACED) {
		t->node = event->nodes[event->task];
		old__task_hold(core, t);
	} else if (event->hopeless) {
		old__end_placeless(core, t, event->hopeless, text);
	} else {
		wait_alone(core, t, text);
	}
}

void old__place_heard(struct old__core *core, const struct old__core_event *event)
{
	if (core->phase != CORE_UP)
		return;
	if (event->task < core->task_count)
		heard_of_task(core, &core->tasks[event->task], event);
	else if (event->query != core->gang_place)
		return;
	else if (event->kind == OLD__CORE_PLACED)
		old__gang_placed(core, event->nodes);
	else
		old__gang_unplaced(core, event->text ? event->text : "", event->hopeless);
}

void old__place_full(struct old__core *core, struct task *t)
{
	if (t->is_in_gang)
		old__gang_lack(core, t);
	else
		old__place_alone(core, t);
}

void old__place_again(struct old__core *core)
{
	if (core->phase != CORE_UP)
		return;
	if (core->is_gang_waiting)
		core->is_seeking = true;
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].is_waiting)
			old__place_alone(core, &core->tasks[i]);
}

bool old__core_wants_place(const struct old__core *core, uint32_t task, uint32_t asked)
{
	const struct task *t = &core->tasks[task];
	return asked == NO_TASK ? t->phase == PHASE_PLACING && t->is_in_gang : task == asked;
}

uint32_t old__core_node(const struct old__core *core, uint32_t task)
{
	return core->tasks[task].node;
}
