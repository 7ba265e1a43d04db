/*
 * Stalls, and starts that wait.
 *
 * A stall is reported. Before that, if wanted, the Python stacks of the task go to its log.
 *
 * Where a stall ends in a restart, the task that is silent first is often not the cause: in a group
 * it waits for the one that hangs. So everything that can hold it up is inspected, and then
 *
 * - a task that is stopped (SIGSTOP) is the cause;
 * - in a group, so is the one member that is busy with work of its own while all others wait for
 *   the group, if it has been silent, too: one that prints is slow, and does not hang;
 * - else nobody is named. The group restarts all the same.
 *
 * A start that lasts is explained again and again, each pause twice as long as the one before.
 */
#include "core_state.h"

#include <stdio.h>

#define EXPLAIN_MAX_NS (600ull * 1000000000ull)

/* ---- stalls */

void old__stall_tell(struct old__core *core, struct task *t, const char *text)
{
	struct old__core_action *action = old__act(core, OLD__DO_TELL_TASK, t);
	action->state = t->state;
	action->reason = TFC_END_STALLED;
	old__act_say(core, action, text);
}

static void text_of(const struct old__core *core, const struct task *t, char *text, size_t size)
{
	old__text_name(core, t, text, size);
	old__text_add(text, size, " %s", t->why);
}

static bool is_at_work(const struct task *t)
{
	return old__task_is_alive(t) && t->fate == FATE_NONE && !t->is_stop_sent;
}

static bool is_in_group(const struct old__core *core, const struct task *t)
{
	return old__task_role(core, t)->scope == TFC__SCOPE_GROUP;
}

/* Whether a restart for t takes u along. */
static bool is_taken_along(const struct old__core *core, const struct task *t, const struct task *u)
{
	if (t == u)
		return true;
	if (is_in_group(core, t))
		return u->is_member;
	return old__task_role(core, t)->scope == TFC__SCOPE_COORDINATOR &&
	       old__task_is_ps(core, t) && old__task_is_coordinator(core, u);
}

/* Whether t is silent while u does nothing. */
static bool can_hold_up(const struct old__core *core, const struct task *u, const struct task *t)
{
	return u->is_member && u != t &&
	       (is_in_group(core, t) || old__task_is_coordinator(core, t));
}

static bool is_inspected_for(const struct old__core *core, const struct task *t,
			     const struct task *u)
{
	return is_taken_along(core, t, u) || can_hold_up(core, u, t);
}

static void set_hung(struct old__core *core, struct task *t, bool is_hung)
{
	core->hung += (uint32_t)((int)is_hung - (int)t->is_hung);
	t->is_hung = is_hung;
}

void old__stall_over(struct old__core *core, struct task *t)
{
	set_hung(core, t, false);
	t->is_stacking = false;
	t->activity = TFC__ACTIVITY_NONE;
}

/* One that has answered for the silence of another need not do so again. */
static void ask_for_stacks(struct old__core *core, struct task *t, bool is_ending)
{
	if (t->is_stacking || t->activity != TFC__ACTIVITY_NONE)
		return;
	t->is_stacking = true;
	old__act(core, OLD__DO_STACKS, t)->number = is_ending;
}

static void say_silent(struct task *t, uint32_t silent_ms, const char *what)
{
	t->silent_ms = silent_ms;
	snprintf(t->why, TASK_WHY, "has been silent for %.3g s%s%s", silent_ms / 1e3,
		 what && *what ? ": " : "", what ? what : "");
}

void old__stall_heard(struct old__core *core, struct task *t, uint32_t silent_ms, const char *what)
{
	if (core->phase != CORE_UP || !is_at_work(t) || t->is_hung)
		return;
	if (t->activity == TFC__ACTIVITY_NONE) /* else it was said for another's silence */
		say_silent(t, silent_ms, what);
	if (core->policy.on_stall == TFC__STALL_REPORT) {
		char text[256];
		text_of(core, t, text, sizeof(text));
		old__stall_tell(core, t, text);
		return;
	}
	set_hung(core, t, true);
	if (core->policy.on_stall == TFC__STALL_STACKS) {
		ask_for_stacks(core, t, false);
		return;
	}
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *u = &core->tasks[i];
		if (is_at_work(u) && is_inspected_for(core, t, u))
			ask_for_stacks(core, u, is_taken_along(core, t, u));
	}
	old__stall_gather(core); /* all may have answered already */
}

/* The only one of t's group that does not wait for the group; NULL: none, or it cannot be said. */
static struct task *find_busy_member(struct old__core *core, const struct task *t)
{
	struct task *busy = NULL;
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *u = &core->tasks[i];
		if (!u->is_member || u->activity == TFC__ACTIVITY_WAITING)
			continue;
		if (busy || !is_at_work(u) || u->activity != TFC__ACTIVITY_OWN_WORK)
			return NULL;
		busy = u;
	}
	bool is_silent = busy && (busy == t || busy->silent_ms >= t->silent_ms / 2);
	return is_silent ? busy : NULL;
}

static struct task *find_stopped(struct old__core *core, struct task *t)
{
	if (t->activity == TFC__ACTIVITY_STOPPED)
		return t;
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *u = &core->tasks[i];
		if (is_at_work(u) && u->activity == TFC__ACTIVITY_STOPPED &&
		    can_hold_up(core, u, t))
			return u;
	}
	return NULL;
}

/* NULL: it cannot be said. Who has no group is its own cause, unless another is stopped. */
static struct task *find_cause(struct old__core *core, struct task *t)
{
	struct task *stopped = find_stopped(core, t);
	if (stopped)
		return stopped;
	return is_in_group(core, t) && core->member_count > 1 ? find_busy_member(core, t) : t;
}

static bool is_coming(const struct task *t)
{
	return t->phase != PHASE_IDLE && t->phase != PHASE_READY && t->phase != PHASE_JUDGED &&
	       t->phase != PHASE_OVER;
}

/* A coordinator that waits for a worker or ps that is being started is no stall of its own. */
static bool waits_for_start(const struct old__core *core, const struct task *t)
{
	for (uint32_t i = 0; i < core->task_count && !is_in_group(core, t); i++)
		if (can_hold_up(core, &core->tasks[i], t) && is_coming(&core->tasks[i]))
			return true;
	return false;
}

/* t, or a task that it waits for, is ended and restarted. It is alive, so its end is told when it
 * is reaped. */
static void restart_hung(struct old__core *core, struct task *t)
{
	struct task *cause = find_cause(core, t);
	char text[256];
	if (cause == t && t->activity != TFC__ACTIVITY_STOPPED && waits_for_start(core, t))
		return;
	text_of(core, cause ? cause : t, text, sizeof(text));
	if (cause)
		cause->is_silent = cause->is_stalled = true;
	else
		old__text_add(text, sizeof(text), "; which member of its group hangs is not known");
	struct task *restarted = cause ? cause : t;
	restarted->death = (struct old__death){.reason = TFC_EXIT_LOST, .time_ns = core->now};
	if (old__restart(core, restarted, CLASS_RETRYABLE, false, text, sizeof(text)) ==
	    RESTART_REFUSED)
		old__end_stalled(core, cause, text);
}

static bool is_awaited_by(const struct old__core *core, const struct task *t, const struct task *u)
{
	return u->is_stacking && is_inspected_for(core, t, u);
}

/* One whose answer is to be there before t is restarted; NULL: none. `guess`: the one that another
 * waits for; a group waits for the same, and is not searched for each of its members. */
static const struct task *find_awaited(const struct old__core *core, const struct task *t,
				       const struct task *guess)
{
	if (t->is_stacking)
		return t;
	if (guess && is_awaited_by(core, t, guess))
		return guess;
	for (uint32_t i = 0; i < core->task_count; i++)
		if (is_awaited_by(core, t, &core->tasks[i]))
			return &core->tasks[i];
	return NULL;
}

/* What was said of the tasks is old once no silence is looked into any more. */
static void forget_activities(struct old__core *core)
{
	for (uint32_t i = 0; i < core->task_count; i++)
		if (!core->tasks[i].is_stacking)
			core->tasks[i].activity = TFC__ACTIVITY_NONE;
}

void old__stall_gather(struct old__core *core)
{
	const struct task *awaited = NULL;
	if (core->policy.on_stall != TFC__STALL_RESTART || !core->hung)
		return;
	for (uint32_t i = 0; i < core->task_count && core->hung && core->phase == CORE_UP; i++) {
		struct task *t = &core->tasks[i];
		if (!t->is_hung)
			continue;
		awaited = find_awaited(core, t, awaited);
		if (awaited)
			continue;
		set_hung(core, t, false);
		if (is_at_work(t))
			restart_hung(core, t);
	}
	if (!core->hung)
		forget_activities(core);
}

void old__stall_stacked(struct old__core *core, struct task *t, const struct old__core_event *event)
{
	const char *what = event->text ? event->text : "";
	if (!t->is_stacking)
		return;
	t->is_stacking = false;
	t->activity = event->activity ? event->activity : TFC__ACTIVITY_UNKNOWN;
	bool is_stopped = t->activity ==
			  TFC__ACTIVITY_STOPPED; /* it may have been continued since */
	if (is_at_work(t) && (is_stopped || !t->is_hung))
		say_silent(t, t->is_hung ? t->silent_ms : event->silent_ms, what);
	else if (t->is_hung && *what)
		old__text_add(t->why, TASK_WHY, "; %s", what);
	if (core->policy.on_stall == TFC__STALL_RESTART) {
		old__stall_gather(core);
		return;
	}
	old__stall_over(core, t);
	if (core->phase == CORE_UP && is_at_work(t)) {
		char text[256];
		text_of(core, t, text, sizeof(text));
		old__stall_tell(core, t, text);
	}
}

/* ---- a start that waits */

void old__start_over(struct old__core *core)
{
	core->start_deadline_at = core->explain_at = core->no_listener_at = 0;
	core->is_deadline_looked = false;
}

void old__start_watch(struct old__core *core)
{
	core->is_deadline_looked = false;
	core->no_listener_at = 0;
	core->explain_wait = core->policy.explain_ns;
	core->explain_at = core->explain_wait ? core->now + core->explain_wait : 0;
}

void old__start_explain(struct old__core *core)
{
	uint64_t wait = core->explain_wait * 2;
	core->explain_wait = wait < EXPLAIN_MAX_NS ? wait : EXPLAIN_MAX_NS;
	core->explain_at = core->now + core->explain_wait;
	old__ask_look(core);
}

static bool is_starting(const struct old__core *core)
{
	return core->job_state == TFC_JOB_PENDING || core->job_state == TFC_JOB_STARTING ||
	       core->job_state == TFC_JOB_RESTARTING;
}

/* Whether all programs run and the start waits for listeners of which none was ever seen: it may
 * wait for something that this job does not do. */
static bool is_without_listener(const struct old__core *core)
{
	if (!core->policy.no_listener_ns || core->has_listened)
		return false;
	for (uint32_t i = 0; i < core->task_count; i++) {
		const struct task *t = &core->tasks[i];
		bool is_running = t->phase == PHASE_RUNNING && !t->is_stop_sent;
		if (old__task_is_unready(t) &&
		    !(is_running && old__task_role(core, t)->is_listening_assumed))
			return false;
	}
	return true;
}

void old__start_started(struct old__core *core)
{
	if (core->policy.no_listener_ns && !core->has_listened)
		core->no_listener_at = core->now + core->policy.no_listener_ns;
}

/* The start deadline stays: it counts again if one of them listens before it. */
void old__start_no_listener(struct old__core *core)
{
	char text[256] = "";
	core->no_listener_at = 0;
	if (core->phase != CORE_UP || core->has_listened || !is_starting(core))
		return;
	if (!is_without_listener(core)) {
		old__start_started(core);
		return;
	}
	if (!core->is_no_listener_told)
		snprintf(text, sizeof(text),
			 "no task listens on its port after %g s, as the tasks of a TensorFlow "
			 "cluster do that read TF_CONFIG; the job counts as running; if its "
			 "program does not use TF_CONFIG, write --framework none",
			 (double)core->policy.no_listener_ns / 1e9);
	core->is_no_listener_told = true;
	core->explain_at = 0;
	old__tell_job(core, TFC_JOB_RUNNING, text);
}

void old__start_deadline(struct old__core *core)
{
	bool is_given_up = !core->has_listened && core->job_state == TFC_JOB_RUNNING;
	core->start_deadline_at = 0;
	if (is_given_up || is_without_listener(core))
		return;
	core->explain_at = 0;
	core->is_deadline_looked = true;
	old__ask_look(core);
}

void old__start_looked(struct old__core *core)
{
	if (core->phase != CORE_UP || !core->unready)
		return;
	if (core->is_deadline_looked) {
		core->is_deadline_looked = false;
		if (!is_without_listener(core))
			old__end_start_deadline(core);
		return;
	}
	if (!is_starting(core))
		return;
	char text[256] = "waiting for";
	old__end_waited_for(core, text, sizeof(text));
	old__tell_job(core, core->job_state, text);
}
