/*
 * A start or restart that takes long. A text that says what it waits for is reported repeatedly,
 * each pause twice as long as the one before, until all tasks are ready or the start deadline ends
 * the job. An INSPECT queries the nodes of the tasks that the text would name. Its responses are
 * awaited for a short time only, since they only explain.
 */
#include "cluster/core_state.h"

#include <stdio.h>
#include <string.h>

#define EXPLAIN_MAX_NS (600ull * 1000000000ull)
#define SNAPSHOT_WAIT_NS (2ull * 1000000000ull)
#define NAMED_MAX TFC__INSPECTED_MAX /* tasks that a text names */
#define MORE_SIZE 32                 /* space for an index and " and 99999 more" */

/* ---- how long */

/* A pending snapshot for the start deadline is used for an explanation only. */
static void snapshot_forget_deadline(struct tfc__core *core)
{
	core->no_listener_at = 0;
	if (core->snapshot == SNAPSHOT_DEADLINE)
		core->snapshot = SNAPSHOT_EXPLAIN;
}

void tfc__start_over(struct tfc__core *core)
{
	core->start_deadline_at = core->explain_at = 0;
	snapshot_forget_deadline(core);
}

void tfc__start_begin(struct tfc__core *core)
{
	core->explain_wait = core->policy.explain_ns;
	core->explain_at = core->explain_wait ? core->now + core->explain_wait : 0;
	snapshot_forget_deadline(core);
}

void tfc__start_deadline_from(struct tfc__core *core, uint64_t from)
{
	if (core->policy.start_deadline_ns)
		core->start_deadline_at = from + core->policy.start_deadline_ns;
	tfc__start_begin(core);
}

static bool is_job_starting(const struct tfc__core *core)
{
	return core->job_state == TFC_JOB_PENDING || core->job_state == TFC_JOB_STARTING ||
	       core->job_state == TFC_JOB_RESTARTING;
}

/* ---- what for */

static const char *task_missing_text(const struct tfc__core *core, const struct task *t)
{
	for (uint32_t i = 0; i < core->inspected_count; i++)
		if (core->inspected[i].task == tfc__task_id(core, t) && core->inspected[i].text[0])
			return core->inspected[i].text;
	switch (t->phase) {
	case PHASE_IDLE:
	case PHASE_INHERITED:
		return "an earlier attempt may still run";
	case PHASE_GANG_PLACING:
	case PHASE_PLACING:
	case PHASE_WAITING:
		return "no node";
	case PHASE_GANG_HOLDING:
	case PHASE_HOLDING:
		return "no port";
	case PHASE_RUNNING:
		return "not listening";
	default:
		return "not started";
	}
}

const struct task *tfc__start_waited_for(const struct tfc__core *core, char *text, size_t size)
{
	const struct task *first = NULL;
	uint32_t named = 0, more = 0;
	for (uint32_t i = 0; i < core->task_count; i++) {
		const struct task *t = &core->tasks[i];
		if (!tfc__task_is_unready(t))
			continue;
		if (!first)
			first = t;
		const char *what = task_missing_text(core, t);
		size_t needed = strlen(text) + strlen(tfc__task_role(core, t)->name) +
				strlen(what) + MORE_SIZE;
		if (named == NAMED_MAX || (named && needed > size)) {
			more++;
			continue;
		}
		tfc__text_add(text, size, "%s %s/%u (%s)", named++ ? "," : "",
			      tfc__task_role(core, t)->name, t->index, what);
	}
	if (more)
		tfc__text_add(text, size, " and %u more", more);
	return first;
}

/* Whether all programs run and the start waits only for listeners, none of which was ever seen. The
 * job may never listen. */
static bool is_without_listener(const struct tfc__core *core)
{
	if (!core->policy.no_listener_ns || core->listeners == LISTENERS_SEEN)
		return false;
	for (uint32_t i = 0; i < core->task_count; i++) {
		const struct task *t = &core->tasks[i];
		bool is_running = t->phase == PHASE_RUNNING && t->ending != ENDING_STOP;
		if (tfc__task_is_unready(t) &&
		    !(is_running && tfc__task_role(core, t)->is_listening_assumed))
			return false;
	}
	return true;
}

/* ---- snapshots */

static void snapshot_conclude(struct tfc__core *core)
{
	enum snapshot_state snapshot = core->snapshot;
	char text[256] = "waiting for";
	core->snapshot = SNAPSHOT_NONE;
	core->snapshot_at = 0;
	if (core->phase != CORE_UP || !core->unready)
		return;
	if (snapshot == SNAPSHOT_DEADLINE) {
		if (!is_without_listener(core))
			tfc__end_start_deadline(core);
	} else if (is_job_starting(core)) {
		tfc__start_waited_for(core, text, sizeof(text));
		tfc__report_job(core, core->job_state, text);
	}
}

static void snapshot_conclude_if_complete(struct tfc__core *core)
{
	if (core->snapshot == SNAPSHOT_NONE)
		return;
	for (uint32_t i = 0; i < core->inspected_count; i++)
		if (core->tasks[core->inspected[i].task].inspect_node != TFC__NO_NODE)
			return;
	snapshot_conclude(core);
}

static bool is_inspect_requested(const struct tfc__core *core, uint32_t node)
{
	for (uint32_t i = 0; i < core->inspected_count; i++)
		if (core->tasks[core->inspected[i].task].inspect_node == node)
			return true;
	return false;
}

static void snapshot_begin(struct tfc__core *core, enum snapshot_state snapshot)
{
	core->snapshot = snapshot;
	core->snapshot_number++;
	core->snapshot_at = core->now + SNAPSHOT_WAIT_NS;
	core->inspected_count = 0;
	for (uint32_t i = 0; i < core->task_count && core->inspected_count < TFC__INSPECTED_MAX;
	     i++) {
		struct task *t = &core->tasks[i];
		if (!tfc__task_is_unready(t) || t->node == TFC__NO_NODE)
			continue;
		if (!is_inspect_requested(core, t->node))
			tfc__order_add(core, t->node, TFC__ORDER_INSPECT, NULL)->number =
				core->snapshot_number;
		t->inspect_node = t->node;
		core->inspected[core->inspected_count++] = (struct tfc__inspected){.task = i};
	}
	snapshot_conclude_if_complete(core);
}

void tfc__start_inspected(struct tfc__core *core, uint32_t node,
			  const struct tfc__task_event *event)
{
	if (core->snapshot == SNAPSHOT_NONE || event->number != core->snapshot_number)
		return;
	for (uint32_t i = 0; i < core->inspected_count; i++) {
		struct tfc__inspected *to = &core->inspected[i];
		struct task *t = &core->tasks[to->task];
		if (t->inspect_node != node)
			continue;
		t->inspect_node = TFC__NO_NODE;
		for (uint32_t k = 0; k < event->inspected_count; k++)
			if (event->inspected[k].task == to->task)
				snprintf(to->text, sizeof(to->text), "%s",
					 event->inspected[k].text);
	}
	snapshot_conclude_if_complete(core);
}

void tfc__start_node_lost(struct tfc__core *core, uint32_t node)
{
	for (uint32_t i = 0; i < core->inspected_count; i++) {
		struct task *t = &core->tasks[core->inspected[i].task];
		if (t->inspect_node == node)
			t->inspect_node = TFC__NO_NODE;
	}
	snapshot_conclude_if_complete(core);
}

/* ---- clocks */

void tfc__start_inspect_timeout(struct tfc__core *core)
{
	snapshot_conclude(core);
}

void tfc__start_explain(struct tfc__core *core)
{
	uint64_t wait = core->explain_wait * 2;
	core->explain_wait = wait < EXPLAIN_MAX_NS ? wait : EXPLAIN_MAX_NS;
	core->explain_at = core->now + core->explain_wait;
	snapshot_begin(core, SNAPSHOT_EXPLAIN);
}

void tfc__start_program_runs(struct tfc__core *core)
{
	if (core->policy.no_listener_ns && core->listeners != LISTENERS_SEEN)
		core->no_listener_at = core->now + core->policy.no_listener_ns;
}

/* The start deadline remains: it applies again if a task listens before it. */
void tfc__start_no_listener(struct tfc__core *core)
{
	char text[256] = "";
	core->no_listener_at = 0;
	if (core->phase != CORE_UP || core->listeners == LISTENERS_SEEN || !is_job_starting(core))
		return;
	if (!is_without_listener(core)) {
		tfc__start_program_runs(core);
		return;
	}
	if (core->listeners == LISTENERS_UNSEEN)
		snprintf(text, sizeof(text),
			 "no task listens on its port %g s after the start (a program that uses "
			 "TF_CONFIG does); the job counts as running; if its program does not use "
			 "TF_CONFIG, set framework to none",
			 (double)core->policy.no_listener_ns / 1e9);
	core->listeners = LISTENERS_MISSED;
	core->explain_at = 0;
	tfc__report_job(core, TFC_JOB_RUNNING, text);
}

void tfc__start_deadline(struct tfc__core *core)
{
	bool is_given_up = core->listeners != LISTENERS_SEEN && core->job_state == TFC_JOB_RUNNING;
	core->start_deadline_at = 0;
	if (is_given_up || is_without_listener(core))
		return;
	core->explain_at = 0;
	snapshot_begin(core, SNAPSHOT_DEADLINE);
}
