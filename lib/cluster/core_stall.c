/*
 * Stalls, and starts that wait.
 *
 * A stall is told. Before that, if wanted, the Python stacks of the task go to its log; where it is
 * to be restarted, the stacks of all that its restart takes along do: in a group the one that is
 * silent first often only waits for the one that hangs.
 *
 * A start that lasts is explained again and again, each pause twice as long as the one before.
 */
#include "cluster/core_state.h"

#include <stdio.h>

#define EXPLAIN_MAX_NS (600ull * 1000000000ull)

/* ---- stalls */

void tfc__stall_tell(struct tfc__core *core, struct task *t, const char *text)
{
	struct tfc__core_action *action = tfc__act(core, TFC__DO_TELL_TASK, t);
	action->state = t->state;
	action->reason = TFC_END_STALLED;
	tfc__act_say(core, action, text);
}

static void text_of(const struct tfc__core *core, const struct task *t, char *text, size_t size)
{
	tfc__text_name(core, t, text, size);
	tfc__text_add(text, size, " %s", t->why);
}

/* Whether a restart for t takes u along. */
static bool is_taken_along(const struct tfc__core *core, const struct task *t, const struct task *u)
{
	uint32_t scope = tfc__task_role(core, t)->scope;
	if (t == u)
		return true;
	if (scope == TFC__SCOPE_GROUP)
		return u->is_member;
	return scope == TFC__SCOPE_COORDINATOR && tfc__task_is_ps(core, t) &&
	       tfc__task_is_coordinator(core, u);
}

static bool is_at_work(const struct task *t)
{
	return tfc__task_is_alive(t) && t->fate == FATE_NONE && !t->is_stop_sent;
}

static void set_hung(struct tfc__core *core, struct task *t, bool is_hung)
{
	core->hung += (uint32_t)((int)is_hung - (int)t->is_hung);
	t->is_hung = is_hung;
}

void tfc__stall_over(struct tfc__core *core, struct task *t)
{
	set_hung(core, t, false);
	t->is_stacking = false;
}

static void ask_for_stacks(struct tfc__core *core, struct task *t, bool is_ending)
{
	if (t->is_stacking)
		return;
	t->is_stacking = true;
	tfc__act(core, TFC__DO_STACKS, t)->number = is_ending;
}

void tfc__stall_heard(struct tfc__core *core, struct task *t, uint32_t silent_ms, const char *what)
{
	if (core->phase != CORE_UP || !is_at_work(t) || t->is_hung)
		return;
	snprintf(t->why, TASK_WHY, "has been silent for %.3g s%s%s", silent_ms / 1e3,
		 what && *what ? ": " : "", what ? what : "");
	if (core->policy.on_stall == TFC__STALL_REPORT) {
		char text[256];
		text_of(core, t, text, sizeof(text));
		tfc__stall_tell(core, t, text);
		return;
	}
	set_hung(core, t, true);
	if (core->policy.on_stall == TFC__STALL_STACKS) {
		ask_for_stacks(core, t, false);
		return;
	}
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *u = &core->tasks[i];
		if (is_at_work(u) && is_taken_along(core, t, u))
			ask_for_stacks(core, u, true);
	}
}

/* It is alive, so its end is told when it is reaped. */
static void restart_hung(struct tfc__core *core, struct task *t)
{
	char text[256];
	text_of(core, t, text, sizeof(text));
	t->death = (struct tfc__death){.reason = TFC_EXIT_LOST, .time_ns = core->now};
	t->is_silent = t->is_stalled = true;
	if (tfc__restart(core, t, CLASS_RETRYABLE, false, text, sizeof(text)) == RESTART_REFUSED)
		tfc__end_stalled(core, t, text);
}

static bool is_awaited_by(const struct tfc__core *core, const struct task *t, const struct task *u)
{
	return u->is_stacking && is_taken_along(core, t, u);
}

/* One whose stacks are to be there before t is restarted; NULL: none. `guess`: the one that another
 * waits for; a group waits for the same, and is not searched for each of its members. */
static const struct task *find_awaited(const struct tfc__core *core, const struct task *t,
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

void tfc__stall_gather(struct tfc__core *core)
{
	const struct task *awaited = NULL;
	if (core->policy.on_stall != TFC__STALL_RESTART)
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
}

void tfc__stall_stacked(struct tfc__core *core, struct task *t, const char *what)
{
	if (!t->is_stacking)
		return;
	t->is_stacking = false;
	if (t->is_hung && what && *what)
		tfc__text_add(t->why, TASK_WHY, "; %s", what);
	if (core->policy.on_stall == TFC__STALL_RESTART) {
		tfc__stall_gather(core);
		return;
	}
	set_hung(core, t, false);
	if (core->phase == CORE_UP && is_at_work(t)) {
		char text[256];
		text_of(core, t, text, sizeof(text));
		tfc__stall_tell(core, t, text);
	}
}

/* ---- a start that waits */

void tfc__start_over(struct tfc__core *core)
{
	core->start_deadline_at = core->explain_at = core->no_listener_at = 0;
	core->is_deadline_looked = false;
}

void tfc__start_watch(struct tfc__core *core)
{
	core->is_deadline_looked = false;
	core->no_listener_at = 0;
	core->explain_wait = core->policy.explain_ns;
	core->explain_at = core->explain_wait ? core->now + core->explain_wait : 0;
}

void tfc__start_explain(struct tfc__core *core)
{
	uint64_t wait = core->explain_wait * 2;
	core->explain_wait = wait < EXPLAIN_MAX_NS ? wait : EXPLAIN_MAX_NS;
	core->explain_at = core->now + core->explain_wait;
	tfc__ask_look(core);
}

static bool is_starting(const struct tfc__core *core)
{
	return core->job_state == TFC_JOB_PENDING || core->job_state == TFC_JOB_STARTING ||
	       core->job_state == TFC_JOB_RESTARTING;
}

/* Whether all programs run and the start waits for listeners of which none was ever seen: it may
 * wait for something that this job does not do. */
static bool is_without_listener(const struct tfc__core *core)
{
	if (!core->policy.no_listener_ns || core->has_listened)
		return false;
	for (uint32_t i = 0; i < core->task_count; i++) {
		const struct task *t = &core->tasks[i];
		bool is_running = t->phase == PHASE_RUNNING && !t->is_stop_sent;
		if (tfc__task_is_unready(t) &&
		    !(is_running && tfc__task_role(core, t)->is_listening_assumed))
			return false;
	}
	return true;
}

void tfc__start_started(struct tfc__core *core)
{
	if (core->policy.no_listener_ns && !core->has_listened)
		core->no_listener_at = core->now + core->policy.no_listener_ns;
}

/* The start deadline stays: it counts again if one of them listens before it. */
void tfc__start_no_listener(struct tfc__core *core)
{
	char text[256] = "";
	core->no_listener_at = 0;
	if (core->phase != CORE_UP || core->has_listened || !is_starting(core))
		return;
	if (!is_without_listener(core)) {
		tfc__start_started(core);
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
	tfc__tell_job(core, TFC_JOB_RUNNING, text);
}

void tfc__start_deadline(struct tfc__core *core)
{
	bool is_given_up = !core->has_listened && core->job_state == TFC_JOB_RUNNING;
	core->start_deadline_at = 0;
	if (is_given_up || is_without_listener(core))
		return;
	core->explain_at = 0;
	core->is_deadline_looked = true;
	tfc__ask_look(core);
}

void tfc__start_looked(struct tfc__core *core)
{
	if (core->phase != CORE_UP || !core->unready)
		return;
	if (core->is_deadline_looked) {
		core->is_deadline_looked = false;
		if (!is_without_listener(core))
			tfc__end_start_deadline(core);
		return;
	}
	if (!is_starting(core))
		return;
	char text[256] = "waiting for";
	tfc__end_waited_for(core, text, sizeof(text));
	tfc__tell_job(core, core->job_state, text);
}
