/*
 * Stalls.
 *
 * A stall is reported. Before that, if configured, the Python stacks of the task are written to its
 * log.
 *
 * If a stall leads to a restart, the task that is silent first is often not the cause: in a group
 * it waits for the member that hangs. So every task that can hold it up is inspected. Then
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

static void text_of(const struct tfc__core *core, const struct task *t, char *text, size_t size)
{
	tfc__text_name(core, t, text, size);
	tfc__text_add(text, size, " %s", t->why);
}

static bool is_in_group(const struct tfc__core *core, const struct task *t)
{
	return tfc__task_role(core, t)->scope == TFC__SCOPE_GROUP;
}

/* Whether a restart of t restarts u as well. */
static bool is_taken_along(const struct tfc__core *core, const struct task *t, const struct task *u)
{
	if (t == u)
		return true;
	if (is_in_group(core, t))
		return u->is_member;
	return tfc__task_role(core, t)->scope == TFC__SCOPE_COORDINATOR &&
	       tfc__task_is_ps(core, t) && tfc__task_is_coordinator(core, u);
}

/* Whether t may be silent because it waits for u. */
static bool can_hold_up(const struct tfc__core *core, const struct task *u, const struct task *t)
{
	return u->is_member && u != t &&
	       (is_in_group(core, t) || tfc__task_is_coordinator(core, t));
}

static bool is_inspected_for(const struct tfc__core *core, const struct task *t,
			     const struct task *u)
{
	return is_taken_along(core, t, u) || can_hold_up(core, u, t);
}

static void set_stalled(struct tfc__core *core, struct task *t, bool is_stalled)
{
	core->stalled += (uint32_t)((int)is_stalled - (int)t->is_stalled);
	t->is_stalled = is_stalled;
}

void tfc__stall_over(struct tfc__core *core, struct task *t)
{
	set_stalled(core, t, false);
	t->inspection = INSPECTION_NONE;
}

/* A task that was inspected for another task's stall is not inspected again. */
static void inspect(struct tfc__core *core, struct task *t, bool is_ending)
{
	if (t->inspection != INSPECTION_NONE)
		return;
	t->inspection = INSPECTION_REQUESTED;
	tfc__order_add(core, t->node, TFC__ORDER_STACKS, t)->number = is_ending;
}

static void set_silent(struct task *t, uint32_t silent_ms, const char *what)
{
	t->silent_ms = silent_ms;
	snprintf(t->why, TASK_WHY, "has been silent for %.3g s%s%s", silent_ms / 1e3,
		 what && *what ? ": " : "", what ? what : "");
}

void tfc__stall_begin(struct tfc__core *core, struct task *t, uint32_t silent_ms, const char *what)
{
	if (core->phase != CORE_UP || !tfc__task_is_at_work(t) || t->is_stalled)
		return;
	if (t->inspection != INSPECTION_DONE) /* else it was set for another task's stall */
		set_silent(t, silent_ms, what);
	if (core->policy.on_stall == TFC__STALL_REPORT) {
		char text[256];
		text_of(core, t, text, sizeof(text));
		tfc__report_stall(core, t, text);
		return;
	}
	set_stalled(core, t, true);
	if (core->policy.on_stall == TFC__STALL_STACKS) {
		inspect(core, t, false);
		return;
	}
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *u = &core->tasks[i];
		if (tfc__task_is_at_work(u) && is_inspected_for(core, t, u))
			inspect(core, u, is_taken_along(core, t, u));
	}
	tfc__stall_conclude(core); /* all of them may have answered already */
}

/* The activity of an inspected task; NONE: it was not inspected, or has not answered. */
static uint32_t activity_of(const struct task *t)
{
	return t->inspection == INSPECTION_DONE ? t->activity : TFC__ACTIVITY_NONE;
}

/* The only member of t's group that does not wait for the group; NULL: none, or not known. */
static struct task *find_busy_member(struct tfc__core *core, const struct task *t)
{
	struct task *busy = NULL;
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *u = &core->tasks[i];
		if (!u->is_member || activity_of(u) == TFC__ACTIVITY_WAITING)
			continue;
		if (busy || !tfc__task_is_at_work(u) || activity_of(u) != TFC__ACTIVITY_OWN_WORK)
			return NULL;
		busy = u;
	}
	bool is_silent = busy && (busy == t || busy->silent_ms >= t->silent_ms / 2);
	return is_silent ? busy : NULL;
}

static struct task *find_stopped(struct tfc__core *core, struct task *t)
{
	if (activity_of(t) == TFC__ACTIVITY_STOPPED)
		return t;
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *u = &core->tasks[i];
		if (tfc__task_is_at_work(u) && activity_of(u) == TFC__ACTIVITY_STOPPED &&
		    can_hold_up(core, u, t))
			return u;
	}
	return NULL;
}

/* NULL: not known. A task without a group is its own cause, unless another one is stopped. */
static struct task *find_cause(struct tfc__core *core, struct task *t)
{
	struct task *stopped = find_stopped(core, t);
	if (stopped)
		return stopped;
	return is_in_group(core, t) && core->member_count > 1 ? find_busy_member(core, t) : t;
}

static bool is_coming(const struct task *t)
{
	return t->phase != PHASE_READY && t->phase != PHASE_JUDGED && !tfc__task_is_over(t);
}

/* A coordinator that waits for the start of a worker or ps has not stalled. */
static bool waits_for_start(const struct tfc__core *core, const struct task *t)
{
	for (uint32_t i = 0; i < core->task_count && !is_in_group(core, t); i++)
		if (can_hold_up(core, &core->tasks[i], t) && is_coming(&core->tasks[i]))
			return true;
	return false;
}

/* Ends and restarts t, or a task that it waits for. The task is alive: its end is reported when it
 * is reaped. */
static void restart_stalled(struct tfc__core *core, struct task *t)
{
	struct task *cause = find_cause(core, t);
	char text[256];
	if (cause == t && activity_of(t) != TFC__ACTIVITY_STOPPED && waits_for_start(core, t))
		return;
	text_of(core, cause ? cause : t, text, sizeof(text));
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

static bool is_awaited_by(const struct tfc__core *core, const struct task *t, const struct task *u)
{
	return u->inspection == INSPECTION_REQUESTED && is_inspected_for(core, t, u);
}

/* A task whose answer is needed before t is restarted; NULL: none. `guess`: the one that another
 * task waits for. The members of a group wait for the same one, so it is not searched for each of
 * them. */
static const struct task *find_awaited(const struct tfc__core *core, const struct task *t,
				       const struct task *guess)
{
	if (t->inspection == INSPECTION_REQUESTED)
		return t;
	if (guess && is_awaited_by(core, t, guess))
		return guess;
	for (uint32_t i = 0; i < core->task_count; i++)
		if (is_awaited_by(core, t, &core->tasks[i]))
			return &core->tasks[i];
	return NULL;
}

void tfc__stall_conclude(struct tfc__core *core)
{
	const struct task *awaited = NULL;
	if (core->policy.on_stall != TFC__STALL_RESTART || !core->stalled)
		return;
	for (uint32_t i = 0; i < core->task_count && core->stalled && core->phase == CORE_UP; i++) {
		struct task *t = &core->tasks[i];
		if (!t->is_stalled)
			continue;
		awaited = find_awaited(core, t, awaited);
		if (awaited)
			continue;
		set_stalled(core, t, false);
		if (tfc__task_is_at_work(t))
			restart_stalled(core, t);
	}
	/* Answers are outdated when no stall is open. */
	for (uint32_t i = 0; i < core->task_count && !core->stalled; i++)
		if (core->tasks[i].inspection == INSPECTION_DONE)
			core->tasks[i].inspection = INSPECTION_NONE;
}

void tfc__stall_inspected(struct tfc__core *core, struct task *t,
			  const struct tfc__task_event *event)
{
	const char *what = event->text ? event->text : "";
	if (t->inspection != INSPECTION_REQUESTED)
		return;
	t->inspection = INSPECTION_DONE;
	t->activity = event->activity ? event->activity : TFC__ACTIVITY_UNKNOWN;
	bool is_stopped = t->activity == TFC__ACTIVITY_STOPPED; /* or was stopped, and runs again */
	if (tfc__task_is_at_work(t) && (is_stopped || !t->is_stalled))
		set_silent(t, t->is_stalled ? t->silent_ms : event->silent_ms, what);
	else if (t->is_stalled && *what)
		tfc__text_add(t->why, TASK_WHY, "; %s", what);
	if (core->policy.on_stall == TFC__STALL_RESTART) {
		tfc__stall_conclude(core);
		return;
	}
	tfc__stall_over(core, t);
	if (core->phase == CORE_UP && tfc__task_is_at_work(t)) {
		char text[256];
		text_of(core, t, text, sizeof(text));
		tfc__report_stall(core, t, text);
	}
}
