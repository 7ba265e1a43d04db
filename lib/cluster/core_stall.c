/*
 * Stalls.
 *
 * A stall is reported. Before that, if configured, the Python stacks of the task are written to its
 * log.
 *
 * If a stall leads to a restart, the task that is silent first is often not the cause: in a group
 * it waits for the member that hangs. So every task that can hold it up is inspected, once for all
 * that wait for it (enum stall_scope). Then
 *
 * - a task that is stopped (SIGSTOP) is the cause;
 * - in a group, the cause is the only member that is busy with its own work while all others wait
 * for the group, if it has been silent, too: a member that prints is slow, and does not hang;
 * - else the cause is not known. The group restarts all the same.
 */
#include "cluster/core_state.h"

#include <stdio.h>

void tfc__report_stall(struct tfc__core *core, struct task *t, const char *text)
{
	struct tfc__core_action *action = tfc__action_add(core, TFC__DO_REPORT_TASK, t);
	action->state = t->state;
	action->reason = TFC_END_STALLED;
	tfc__action_set_text(core, action, text);
}

static void report_message(struct tfc__core *core, struct task *t, const char *separator,
			   const char *what)
{
	char text[ACTION_TEXT];
	tfc__text_name(core, t, text, sizeof(text));
	tfc__text_add(text, sizeof(text), "%s%s", separator, what);
	struct tfc__core_action *action = tfc__action_add(core, TFC__DO_REPORT_TASK, t);
	action->state = t->state;
	tfc__action_set_text(core, action, text);
}

/* Of a task that is being stopped, only its end is reported. */
void tfc__report_notice(struct tfc__core *core, struct task *t, const char *what)
{
	if (tfc__task_is_alive(t) && t->ending != ENDING_STOP)
		report_message(core, t, " ", what);
}

static void stall_text(const struct tfc__core *core, const struct task *t, char *text, size_t size)
{
	tfc__text_name(core, t, text, size);
	tfc__text_add(text, size, " %s", t->why);
}

static bool is_in_group(const struct tfc__core *core, const struct task *t)
{
	return tfc__task_role(core, t)->scope == TFC__SCOPE_GROUP;
}

static enum stall_scope find_stall_scope(const struct tfc__core *core, const struct task *t)
{
	if (is_in_group(core, t) || tfc__task_is_coordinator(core, t))
		return STALL_MEMBERS;
	return tfc__task_role(core, t)->scope == TFC__SCOPE_COORDINATOR ? STALL_COORDINATORS
									: STALL_ALONE;
}

static bool is_in_stall_scope(const struct tfc__core *core, enum stall_scope scope,
			      const struct task *t)
{
	if (scope == STALL_MEMBERS)
		return t->is_member;
	return scope == STALL_COORDINATORS && tfc__task_is_coordinator(core, t);
}

/* Adds a task to the counts of its stall and inspection or subtracts it. */
static void stall_count(struct tfc__core *core, const struct task *t, uint32_t sign)
{
	if (t->is_stalled)
		core->stalled[find_stall_scope(core, t)] += sign;
	for (enum stall_scope s = STALL_ALONE; s < STALL_SCOPES; s++)
		if (t->inspection == INSPECTION_REQUESTED && is_in_stall_scope(core, s, t))
			core->awaited[s] += sign;
}

/* Sets the two states that a task has because of stalls. */
static void stall_set(struct tfc__core *core, struct task *t, bool is_stalled,
		      enum inspection inspection)
{
	stall_count(core, t, UINT32_MAX);
	t->is_stalled = is_stalled;
	t->inspection = inspection;
	stall_count(core, t, 1);
	tfc__list_remove(&t->stacked);
	if (inspection == INSPECTION_DONE)
		tfc__list_append(&core->stacked, &t->stacked);
}

void tfc__stall_over(struct tfc__core *core, struct task *t)
{
	stall_set(core, t, false, INSPECTION_NONE);
}

/* A task that was inspected for another task's stall is not inspected again. */
static void request_stacks(struct tfc__core *core, struct task *t, bool is_ending)
{
	if (t->inspection != INSPECTION_NONE)
		return;
	stall_set(core, t, t->is_stalled, INSPECTION_REQUESTED);
	tfc__order_add(core, t->node, TFC__ORDER_STACKS, t)->number = is_ending;
}

/* Inspects t and the tasks in the scope of its stall that are at work. */
static void request_stacks_for(struct tfc__core *core, struct task *t, enum stall_scope scope)
{
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *u = &core->tasks[i];
		bool is_ending = u == t || !tfc__task_is_coordinator(core, t);
		if (tfc__task_is_at_work(u) && (u == t || is_in_stall_scope(core, scope, u)))
			request_stacks(core, u, is_ending);
	}
}

static void stall_set_silent(struct task *t, uint32_t silent_ms, const char *what)
{
	t->silent_ms = silent_ms;
	int digits = silent_ms < 5000 ? 3 : 7;
	double seconds = silent_ms < 5000 ? silent_ms / 1e3 : silent_ms / 1000;
	snprintf(t->why, TASK_WHY, "has had no output for %.*g s%s%s", digits, seconds,
		 what && *what ? ": " : "", what ? what : "");
}

void tfc__stall_begin(struct tfc__core *core, struct task *t, uint32_t silent_ms, const char *what)
{
	if (core->phase != CORE_UP || !tfc__task_is_at_work(t) || t->is_stalled)
		return;
	if (t->inspection != INSPECTION_DONE) /* else it was set for another task's stall */
		stall_set_silent(t, silent_ms, what);
	if (core->policy.on_stall == TFC__STALL_REPORT) {
		char text[ACTION_TEXT];
		stall_text(core, t, text, sizeof(text));
		tfc__report_stall(core, t, text);
		return;
	}
	bool is_restart = core->policy.on_stall == TFC__STALL_RESTART;
	enum stall_scope scope = is_restart ? find_stall_scope(core, t) : STALL_ALONE;
	bool is_scope_inspected = core->stalled[scope] > 0; /* for an earlier stall */
	stall_set(core, t, true, t->inspection);
	if (scope == STALL_ALONE || is_scope_inspected)
		request_stacks(core, t, is_restart);
	else
		request_stacks_for(core, t, scope);
	tfc__stall_conclude(core, t); /* all of them may have responded already */
}

/* The activity of an inspected task; NONE: it was not inspected, or has not responded. */
static uint32_t stall_activity(const struct task *t)
{
	return t->inspection == INSPECTION_DONE ? t->activity : TFC__ACTIVITY_NONE;
}

/* The only member of t's group that does not wait for the group; NULL: none, or not known. */
static struct task *find_busy_member(struct tfc__core *core, const struct task *t)
{
	struct task *busy = NULL;
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *u = &core->tasks[i];
		if (!u->is_member || stall_activity(u) == TFC__ACTIVITY_WAITING)
			continue;
		if (busy || !tfc__task_is_at_work(u) || stall_activity(u) != TFC__ACTIVITY_OWN_WORK)
			return NULL;
		busy = u;
	}
	bool is_silent = busy && (busy == t || busy->silent_ms >= t->silent_ms / 2);
	return is_silent ? busy : NULL;
}

static struct task *find_stopped_task(struct tfc__core *core, struct task *t)
{
	if (stall_activity(t) == TFC__ACTIVITY_STOPPED)
		return t;
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *u = &core->tasks[i];
		if (u->is_member && tfc__task_is_at_work(u) &&
		    stall_activity(u) == TFC__ACTIVITY_STOPPED)
			return u;
	}
	return NULL;
}

/* NULL: not known. A task without a group is its own cause, unless it coordinates and another one
 * is stopped. */
static struct task *find_stall_cause(struct tfc__core *core, struct task *t)
{
	if (find_stall_scope(core, t) != STALL_MEMBERS)
		return t;
	struct task *stopped = find_stopped_task(core, t);
	if (stopped)
		return stopped;
	return is_in_group(core, t) && core->member_count > 1 ? find_busy_member(core, t) : t;
}

/* A coordinator that waits for the start of a worker or ps has not stalled. */
static bool coordinator_waits_for_start(const struct tfc__core *core, const struct task *t)
{
	if (!tfc__task_is_coordinator(core, t))
		return false;
	for (uint32_t i = 0; i < core->task_count; i++) {
		const struct task *u = &core->tasks[i];
		if (u->is_member && u != t && tfc__task_is_unready(u) && u->phase != PHASE_JUDGED)
			return true;
	}
	return false;
}

/* Ends and restarts t, or a task that it waits for. The task is alive: its end is reported when it
 * is reaped. */
static void restart_stalled(struct tfc__core *core, struct task *t)
{
	struct task *cause = find_stall_cause(core, t);
	char text[ACTION_TEXT];
	if (cause == t && stall_activity(t) != TFC__ACTIVITY_STOPPED &&
	    coordinator_waits_for_start(core, t))
		return;
	stall_text(core, cause ? cause : t, text, sizeof(text));
	if (cause)
		cause->cause = CAUSE_STALLED;
	else
		tfc__text_add(text, sizeof(text), "; cannot tell which member of its group hangs");
	struct task *restarted = cause ? cause : t;
	restarted->death = (struct tfc__attempt_end){.reason = TFC_EXIT_LOST, .time_ns = core->now};
	if (tfc__restart_failed(core, restarted, CLASS_RETRYABLE, false, text, sizeof(text)) ==
	    RESTART_REFUSED)
		tfc__end_stalled(core, cause, text);
}

static void stall_conclude(struct tfc__core *core, struct task *t)
{
	bool is_awaiting = t->inspection == INSPECTION_REQUESTED ||
			   core->awaited[find_stall_scope(core, t)];
	if (!t->is_stalled || is_awaiting)
		return;
	if (tfc__task_is_at_work(t))
		restart_stalled(core, t);
	stall_set(core, t, false, t->inspection);
}

/* Whether t, which has responded or died, was the last that the stalls of a scope have awaited. */
static bool is_last_response(const struct tfc__core *core, const struct task *t)
{
	bool is_last = false;
	for (enum stall_scope s = STALL_ALONE; s < STALL_SCOPES; s++)
		is_last |= core->stalled[s] && !core->awaited[s] && is_in_stall_scope(core, s, t);
	return is_last;
}

void tfc__stall_conclude(struct tfc__core *core, struct task *t)
{
	uint32_t open = 0;
	if (core->policy.on_stall != TFC__STALL_RESTART || core->phase != CORE_UP)
		return;
	if (is_last_response(core, t))
		for (uint32_t i = 0; i < core->task_count && core->phase == CORE_UP; i++)
			stall_conclude(core, &core->tasks[i]);
	else
		stall_conclude(core, t);
	for (enum stall_scope s = STALL_ALONE; s < STALL_SCOPES; s++)
		open += core->stalled[s];
	while (!open && !tfc__list_is_empty(&core->stacked)) /* they are outdated */
		tfc__stall_over(core, tfc__container_of(core->stacked.next, struct task, stacked));
}

void tfc__stall_inspected(struct tfc__core *core, struct task *t,
			  const struct tfc__task_event *event)
{
	const char *what = event->text ? event->text : "";
	if (t->inspection != INSPECTION_REQUESTED) { /* a client has asked for the stacks */
		if (tfc__task_is_alive(t) && *what)
			report_message(core, t, ": ", what);
		return;
	}
	stall_set(core, t, t->is_stalled, INSPECTION_DONE);
	t->activity = event->activity ? event->activity : TFC__ACTIVITY_UNKNOWN;
	bool is_stopped = t->activity == TFC__ACTIVITY_STOPPED; /* or was stopped, and runs again */
	if (tfc__task_is_at_work(t) && (is_stopped || !t->is_stalled))
		stall_set_silent(t, t->is_stalled ? t->silent_ms : event->silent_ms, what);
	else if (t->is_stalled && *what)
		tfc__text_add(t->why, TASK_WHY, "; %s", what);
	if (core->policy.on_stall == TFC__STALL_RESTART) {
		tfc__stall_conclude(core, t);
		return;
	}
	tfc__stall_over(core, t);
	if (core->phase == CORE_UP && tfc__task_is_at_work(t)) {
		char text[ACTION_TEXT];
		stall_text(core, t, text, sizeof(text));
		tfc__report_stall(core, t, text);
	}
}
