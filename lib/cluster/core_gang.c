/*
 * Places and ports. The gang acquires them for all of its tasks at once and is launched only then.
 * While it waits for room it holds nothing, so that two gangs never block each other. A task that
 * moves alone is placed by itself.
 *
 * The caller, which knows the nodes, chooses them (PLACE). If there is no room, the gang or the
 * task waits, reports each minute what it waits for, and requests a place again whenever there may
 * be room.
 */
#include "cluster/core_state.h"

#include <stdio.h>
#include <string.h>

#define REPEAT_NS (60ull * 1000000000ull)

bool tfc__place_is_needed(const struct task *t)
{
	return t->port == PORT_NONE || t->is_leaving;
}

static void place_drop(struct tfc__core *core, struct task *t)
{
	tfc__task_release(core, t);
	t->is_leaving = false;
	t->reachable_at = 0;
	tfc__task_set_node(core, t, TFC__NO_NODE);
}

static void place_repeat_later(struct tfc__core *core)
{
	core->repeat_at = core->now + REPEAT_NS;
}

static void wait_report(struct tfc__core *core, const char *text)
{
	tfc__report_job(core, core->job_state, text);
	core->is_wait_reported = true;
	place_repeat_later(core);
}

/* Without this report, the job's text would still say what was waited for. */
static void wait_report_over(struct tfc__core *core)
{
	if (core->is_wait_reported && core->group == GROUP_UP && tfc__list_is_empty(&core->waiting))
		tfc__report_job(core, core->job_state, "");
}

/* ---- the gang */

static void gang_launch(struct tfc__core *core)
{
	core->group = GROUP_UP;
	core->pending_deadline_at = 0;
	if (core->job_state == TFC_JOB_PENDING)
		tfc__report_job(core, TFC_JOB_STARTING, "");
	else
		wait_report_over(core);
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].phase == PHASE_HELD)
			tfc__task_launch(core, &core->tasks[i]);
}

void tfc__gang_replace(struct tfc__core *core, struct task *t)
{
	place_drop(core, t);
	tfc__task_phase(core, t, PHASE_GANG_PLACING);
	core->group = GROUP_SEEKING;
}

void tfc__gang_request_places(struct tfc__core *core)
{
	if (core->group != GROUP_SEEKING || core->phase != CORE_UP)
		return;
	core->group = GROUP_PLACING;
	core->gang_place = ++core->place;
	tfc__action_add(core, TFC__DO_PLACE, NULL)->number = core->gang_place;
}

static void generation_begin(struct tfc__core *core)
{
	core->group = GROUP_HOLDING;
	core->generation++;
	core->gang_text[0] = '\0';
	if (core->policy.pending_deadline_ns)
		core->pending_deadline_at = core->now + core->policy.pending_deadline_ns;
	tfc__start_deadline_from(core, core->now);
}

void tfc__gang_begin(struct tfc__core *core)
{
	generation_begin(core);
	for (uint32_t i = 0; i < core->task_count; i++)
		if (!tfc__task_is_over(&core->tasks[i]))
			tfc__gang_replace(core, &core->tasks[i]);
}

void tfc__gang_form(struct tfc__core *core)
{
	if (core->group != GROUP_ABORTING || core->members_alive || core->group_at > core->now)
		return;
	generation_begin(core);
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (!t->is_member || t->phase != PHASE_DEAD)
			continue;
		if (tfc__place_is_needed(t)) {
			tfc__gang_replace(core, t);
		} else if (t->port == PORT_OCCUPIED) {
			tfc__task_release(core, t);
			tfc__task_hold(core, t, PHASE_GANG_HOLDING);
		} else {
			tfc__task_phase(core, t, PHASE_HELD);
		}
	}
	if (core->gang_unheld == 0)
		gang_launch(core);
}

static void gang_placed(struct tfc__core *core, const uint32_t *nodes)
{
	core->group = GROUP_HOLDING;
	core->repeat_at = 0;
	if (core->gang_text[0]) /* it has waited for room: its start begins only now */
		tfc__start_deadline_from(core, core->now);
	if (!tfc__list_is_empty(&core->waiting))
		place_repeat_later(core);
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (t->phase != PHASE_GANG_PLACING)
			continue;
		tfc__task_set_node(core, t, nodes[i]);
		tfc__task_hold(core, t, PHASE_GANG_HOLDING);
	}
}

/* Tasks that do not fit beside the placed ones may fit if all are placed anew. A gang that waits
 * holds nothing. */
static void gang_unplaced(struct tfc__core *core, const char *text, uint32_t hopeless)
{
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (t->phase == PHASE_HELD || t->phase == PHASE_GANG_HOLDING)
			tfc__gang_replace(core, t);
	}
	if (core->group == GROUP_SEEKING)
		return;
	if (hopeless) {
		tfc__end_refused(core, NULL, hopeless, text);
		return;
	}
	core->group = GROUP_WAITING;
	/* The gang waits for room now, not for its start. */
	tfc__start_over(core);
	if (strncmp(core->gang_text, text, sizeof(core->gang_text) - 1) == 0)
		return;
	snprintf(core->gang_text, sizeof(core->gang_text), "%s", text);
	wait_report(core, core->gang_text);
}

/* ---- one task that moves alone */

void tfc__place_alone(struct tfc__core *core, struct task *t)
{
	place_drop(core, t);
	tfc__task_phase(core, t, PHASE_PLACING);
	t->place = ++core->place;
	tfc__action_add(core, TFC__DO_PLACE, t)->number = t->place;
}

static void task_placed(struct tfc__core *core, struct task *t, const struct tfc__core_event *event)
{
	const char *text = event->text ? event->text : "";
	if (event->kind == TFC__CORE_PLACED) {
		tfc__task_set_node(core, t, event->nodes[event->task]);
		tfc__task_hold(core, t, PHASE_HOLDING);
	} else if (event->hopeless) {
		tfc__end_placeless(core, t, event->hopeless, text);
	} else {
		tfc__task_phase(core, t, PHASE_WAITING);
		if (strcmp(t->why, text) == 0) /* reported already */
			return;
		snprintf(t->why, TASK_WHY, "%s", text);
		wait_report(core, t->why);
	}
}

/* ---- events */

void tfc__place_receive(struct tfc__core *core, const struct tfc__core_event *event)
{
	if (core->phase != CORE_UP)
		return;
	if (event->task < core->task_count) {
		struct task *t = &core->tasks[event->task];
		if (t->phase == PHASE_PLACING && event->number == t->place)
			task_placed(core, t, event);
	} else if (core->group == GROUP_PLACING && event->number == core->gang_place) {
		if (event->kind == TFC__CORE_PLACED)
			gang_placed(core, event->nodes);
		else
			gang_unplaced(core, event->text ? event->text : "", event->hopeless);
	}
}

void tfc__place_retry(struct tfc__core *core)
{
	if (core->phase != CORE_UP)
		return;
	if (core->group == GROUP_WAITING)
		core->group = GROUP_SEEKING;
	TFC__LIST_EACH (link, &core->waiting)
		tfc__place_alone(core, tfc__container_of(link, struct task, waiting));
}

void tfc__place_repeat(struct tfc__core *core)
{
	core->repeat_at = 0;
	if (core->phase != CORE_UP)
		return;
	if (core->group == GROUP_WAITING)
		wait_report(core, core->gang_text);
	TFC__LIST_EACH (link, &core->waiting)
		wait_report(core, tfc__container_of(link, struct task, waiting)->why);
}

void tfc__port_held(struct tfc__core *core, struct task *t)
{
	bool is_of_gang = t->phase == PHASE_GANG_HOLDING;
	t->port = PORT_HELD;
	tfc__report_task(core, t, TFC_TASK_HOLDING);
	if (!is_of_gang) {
		wait_report_over(core);
		tfc__task_launch(core, t);
		return;
	}
	tfc__task_phase(core, t, PHASE_HELD);
	if (core->gang_unheld == 0)
		gang_launch(core);
}

void tfc__port_refused(struct tfc__core *core, struct task *t, const struct tfc__task_event *event)
{
	if (!event->is_full)
		tfc__end_portless(core, t, event->missing, event->text);
	else if (t->phase == PHASE_GANG_HOLDING)
		tfc__gang_replace(core, t);
	else
		tfc__place_alone(core, t);
}

bool tfc__core_wants_place(const struct tfc__core *core, uint32_t task, uint32_t requested)
{
	return requested == NO_TASK ? core->tasks[task].phase == PHASE_GANG_PLACING
				    : task == requested;
}

uint32_t tfc__core_node(const struct tfc__core *core, uint32_t task)
{
	return core->tasks[task].node;
}
