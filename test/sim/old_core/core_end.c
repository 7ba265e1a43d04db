#include "core_state.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SECOND_NS 1000000000ull
#define NAMED_MAX OLD__LOOKED_MAX /* tasks that a sentence names one by one */
#define MORE_SIZE 32              /* what is left for an index and " and 99999 more" */

static void clear_clocks(struct old__core *core)
{
	core->group = GROUP_UP;
	core->group_at = 0;
	old__start_over(core);
	core->deadline_at = core->pending_deadline_at = core->repeat_at = 0;
	core->interrupt_at = 0;
	core->look_at = 0;
	core->is_look_open = false;
}

static void set_outcome(struct old__core *core, uint32_t state, const struct task *t,
			uint32_t reason, const char *text)
{
	struct outcome *o = &core->outcome;
	bool has_status = reason == TFC_END_EXIT || reason == TFC_END_SIGNAL;
	o->state = state;
	o->task = t ? old__task_id(core, t) : NO_TASK;
	o->reason = reason;
	o->status = t && has_status ? t->death.status : 0;
	snprintf(o->text, sizeof(o->text), "%s", text);
}

/* ---- stopping */

static void stop_for_good(struct old__core *core, struct task *t, enum grace grace)
{
	old__task_end(core, t, grace, FATE_OVER);
}

/* A dead one, or one that never started, is over; its port is released with all the others. */
static void retire(struct old__core *core, struct task *t)
{
	old__task_timer(core, t, 0);
	if (t->phase == PHASE_HOLDING)
		old__task_release(core, t); /* takes the HOLD back */
	old__task_phase(core, t, PHASE_OVER);
}

static void stop_all(struct old__core *core, enum grace grace)
{
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (old__task_is_alive(t))
			stop_for_good(core, t, grace);
		else
			retire(core, t);
	}
}

void old__end_if_reaped(struct old__core *core)
{
	if (core->alive || core->is_resuming ||
	    (core->phase != CORE_FINISHING && core->phase != CORE_ENDING))
		return;
	core->phase = CORE_ENDED;
	core->interrupt_at = 0;
	for (uint32_t i = 0; i < core->task_count; i++)
		old__task_release(core, &core->tasks[i]);
	if (core->is_suspending) {
		old__act(core, OLD__DO_SUSPENDED, NULL);
		return;
	}
	core->job_state = core->outcome.state;
	struct old__core_action *action = old__act(core, OLD__DO_END, NULL);
	action->task = core->outcome.task;
	if (action->task != NO_TASK)
		action->attempt = core->tasks[action->task].attempt;
	action->state = core->outcome.state;
	action->reason = core->outcome.reason;
	action->status = core->outcome.status;
	old__act_say(core, action, core->outcome.text);
}

/* ---- failure */

static void fail_job(struct old__core *core, const struct task *t, uint32_t reason,
		     const char *text, enum grace grace)
{
	old__judge_drop(core, true);
	core->phase = CORE_ENDING;
	clear_clocks(core);
	set_outcome(core, TFC_JOB_FAILED, t, reason, text);
	old__tell_job(core, TFC_JOB_STOPPING, text);
	stop_all(core, grace);
	old__end_if_reaped(core);
}

static void succeed(struct old__core *core, const struct task *t, const char *text);

/* One that the success waits for will not be waited for any longer. */
static bool was_last_decider(struct old__core *core, const struct task *t)
{
	return t->is_decider && --core->undone == 0;
}

/* Once all that decide have ended: whether one of them has ended well. */
static bool has_success(const struct old__core *core)
{
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].is_decider && !core->tasks[i].is_ignored)
			return true;
	return false;
}

/* A dead one that stays so although it has failed: the job's end names it. The job fails with the
 * last of those whose success it needs. */
static void ignore_failure(struct old__core *core, struct task *t, uint32_t reason,
			   const char *text)
{
	char why[256];
	snprintf(t->why, TASK_WHY, "%s", text);
	t->is_ignored = true;
	if (!was_last_decider(core, t)) {
		old__task_phase(core, t, PHASE_OVER);
	} else if (has_success(core)) {
		succeed(core, t, text);
	} else {
		t->is_ignored = false;
		snprintf(why, sizeof(why),
			 "%.180s; no other task is left whose success the job needs", text);
		fail_job(core, t, reason, why,
			 reason == TFC_END_STALLED ? GRACE_ABORT : old__death_grace(core, t));
	}
}

void old__end_failed(struct old__core *core, struct task *t, const char *text)
{
	bool is_vital = old__task_is_vital(core, t);
	uint32_t reason = old__death_reason(&t->death);
	uint32_t state = t->death.reason == TFC_EXIT_LOST ? TFC_TASK_LOST : TFC_TASK_FAILED;
	old__tell_end(core, t, state, reason, text);
	old__task_phase(core, t, PHASE_DEAD);
	if (is_vital)
		fail_job(core, t, reason, text, old__death_grace(core, t));
	else
		ignore_failure(core, t, reason, text);
}

void old__end_refused(struct old__core *core, const struct task *t, uint32_t reason,
		      const char *text)
{
	fail_job(core, t, reason, text, GRACE_ABORT);
}

void old__end_portless(struct old__core *core, struct task *t, uint32_t count, const char *why)
{
	char text[256] = "";
	if (t->is_in_gang && count)
		snprintf(text, sizeof(text), "%u port%s missing", count,
			 count == 1 ? " is" : "s are");
	else {
		old__text_name(core, t, text, sizeof(text));
		old__text_add(text, sizeof(text), " got no port");
	}
	if (why && why[0])
		old__text_add(text, sizeof(text), ": %s", why);
	old__task_release(core, t); /* it has its seat there, without a port */
	old__end_placeless(core, t, TFC_END_REFUSED, text);
}

void old__end_placeless(struct old__core *core, struct task *t, uint32_t reason, const char *text)
{
	old__task_phase(core, t, PHASE_DEAD);
	if (t->is_in_gang || old__task_is_vital(core, t)) {
		old__end_refused(core, t->is_in_gang ? NULL : t, reason, text);
		return;
	}
	old__tell_job(core, core->job_state, text);
	ignore_failure(core, t, reason, text);
}

/* ---- deadlines */

static const char *lacks(const struct old__core *core, const struct task *t)
{
	for (uint32_t i = 0; i < core->looked_count; i++)
		if (core->looked[i].task == old__task_id(core, t) && core->looked[i].text[0])
			return core->looked[i].text;
	switch (t->phase) {
	case PHASE_IDLE:
		return "an earlier attempt may still run";
	case PHASE_PLACING:
		return "no node";
	case PHASE_HOLDING:
		return "no port";
	case PHASE_RUNNING:
		return "not listening";
	default:
		return "not started";
	}
}

const struct task *old__end_waited_for(const struct old__core *core, char *text, size_t size)
{
	const struct task *first = NULL;
	uint32_t named = 0, more = 0;
	for (uint32_t i = 0; i < core->task_count; i++) {
		const struct task *t = &core->tasks[i];
		if (!old__task_is_unready(t))
			continue;
		if (!first)
			first = t;
		const char *what = lacks(core, t);
		size_t needed = strlen(text) + strlen(old__task_role(core, t)->name) +
				strlen(what) + MORE_SIZE;
		if (named == NAMED_MAX || (named && needed > size)) {
			more++;
			continue;
		}
		old__text_add(text, size, "%s %s/%u (%s)", named++ ? "," : "",
			      old__task_role(core, t)->name, t->index, what);
	}
	if (more)
		old__text_add(text, size, " and %u more", more);
	return first;
}

void old__end_start_deadline(struct old__core *core)
{
	char text[256];
	snprintf(text, sizeof(text), "the start deadline of %g s has passed; waited for",
		 (double)core->policy.start_deadline_ns / (double)SECOND_NS);
	const struct task *first = old__end_waited_for(core, text, sizeof(text));
	fail_job(core, first, TFC_END_DEADLINE, text, GRACE_ABORT);
}

void old__end_pending_deadline(struct old__core *core)
{
	char text[256];
	snprintf(text, sizeof(text), "the pending deadline of %g s has passed",
		 (double)core->policy.pending_deadline_ns / (double)SECOND_NS);
	if (core->gang_text[0]) {
		old__text_add(text, sizeof(text), ": %s", core->gang_text);
	} else {
		old__text_add(text, sizeof(text), "; waited for");
		old__end_waited_for(core, text, sizeof(text));
	}
	fail_job(core, NULL, TFC_END_DEADLINE, text, GRACE_ABORT);
}

/* Nothing is broken: whoever saves its work gets the whole grace. */
void old__end_deadline(struct old__core *core)
{
	char text[256];
	snprintf(text, sizeof(text), "the deadline of %g s has passed",
		 (double)core->policy.deadline_ns / (double)SECOND_NS);
	fail_job(core, NULL, TFC_END_DEADLINE, text, GRACE_WHOLE);
}

/* ---- a stall with nothing left to try */

void old__end_stalled(struct old__core *core, struct task *t, const char *text)
{
	if (t)
		old__stall_tell(core, t, text);
	if (!t || old__task_is_vital(core, t))
		fail_job(core, t, TFC_END_STALLED, text, GRACE_ABORT);
	else
		stop_for_good(core, t, GRACE_ABORT);
}

void old__end_stalled_reaped(struct old__core *core, struct task *t)
{
	char text[256];
	old__death_text(core, t, text, sizeof(text));
	old__tell_end(core, t, TFC_TASK_FAILED, TFC_END_STALLED, text);
	old__task_phase(core, t, PHASE_DEAD);
	ignore_failure(core, t, TFC_END_STALLED, text);
}

/* ---- success */

/* Mirrored peers are about to end by themselves, an evaluator may have its last checkpoint to
 * look at; everything else would run for ever. */
static bool may_finish(const struct old__core *core, const struct task *t)
{
	const struct old__core_role *role = old__task_role(core, t);
	if (t->fate != FATE_NONE || role->finish_ns == 0)
		return false;
	if (strcmp(role->name, "evaluator") == 0)
		return true;
	return t->is_member && core->policy.strategy != TFC_STRATEGY_PARAMETER_SERVER;
}

static void finish(struct old__core *core, struct task *t)
{
	if (!old__task_is_alive(t)) {
		retire(core, t);
	} else if (may_finish(core, t)) {
		t->fate = FATE_FINISH;
		old__task_timer(core, t, core->now + old__task_role(core, t)->finish_ns);
	} else {
		stop_for_good(core, t, GRACE_WHOLE);
	}
}

static void succeed(struct old__core *core, const struct task *t, const char *text)
{
	core->phase = CORE_FINISHING;
	clear_clocks(core);
	old__judge_drop(core, false);
	set_outcome(core, TFC_JOB_SUCCEEDED, t, TFC_END_EXIT, text);
	core->outcome.status = 0;
	old__tell_job(core, TFC_JOB_STOPPING, text);
	for (uint32_t i = 0; i < core->task_count; i++)
		finish(core, &core->tasks[i]);
	old__end_if_reaped(core);
}

void old__end_succeeded(struct old__core *core)
{
	succeed(core, NULL, "all was done in an earlier term");
}

void old__end_done(struct old__core *core, struct task *t)
{
	char text[256];
	old__death_text(core, t, text, sizeof(text));
	old__tell_end(core, t, TFC_TASK_EXITED, TFC_END_EXIT, text);
	old__task_phase(core, t, PHASE_OVER);
	if (was_last_decider(core, t))
		succeed(core, t, text);
}

void old__end_overdue(struct old__core *core, struct task *t)
{
	if (t->is_saving)
		old__task_end(core, t, GRACE_NONE, t->fate);
	else
		stop_for_good(core, t, GRACE_WHOLE);
}

/* ---- a user's stop */

static void interrupt_all(struct old__core *core, uint64_t interrupt_ns)
{
	core->interrupt_at = core->now + interrupt_ns;
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (!old__task_is_alive(t)) {
			retire(core, t);
		} else if (t->phase == PHASE_LAUNCHED || t->is_stop_sent || t->is_saving) {
			stop_for_good(core, t, GRACE_WHOLE); /* nobody is there to be asked */
		} else {
			t->fate = FATE_INTERRUPTED;
			old__act(core, OLD__DO_SIGNAL, t)->number = SIGINT;
		}
	}
}

static void begin_stop(struct old__core *core, uint64_t interrupt_ns, bool is_kill)
{
	old__judge_drop(core, false);
	core->phase = CORE_ENDING;
	core->is_suspending = false;
	clear_clocks(core);
	set_outcome(core, TFC_JOB_STOPPED, NULL, TFC_END_STOPPED, "stopped");
	old__tell_job(core, TFC_JOB_STOPPING, "");
	if (interrupt_ns && !is_kill)
		interrupt_all(core, interrupt_ns);
	else
		stop_all(core, is_kill ? GRACE_NONE : GRACE_WHOLE);
	old__end_if_reaped(core);
}

void old__end_interrupted(struct old__core *core)
{
	core->interrupt_at = 0;
	stop_all(core, GRACE_WHOLE);
}

void old__end_by_user(struct old__core *core, uint64_t interrupt_ns, bool is_kill)
{
	switch (core->phase) {
	case CORE_PENDING:
	case CORE_UP:
		begin_stop(core, interrupt_ns, is_kill);
		break;
	case CORE_FINISHING: /* it has succeeded already, and only need not wait any longer */
		stop_all(core, is_kill ? GRACE_NONE : GRACE_WHOLE);
		break;
	case CORE_ENDING:
		if (core->is_suspending) { /* it is not to be gone on with */
			begin_stop(core, interrupt_ns, is_kill);
		} else if (is_kill) {
			core->interrupt_at = 0;
			stop_all(core, GRACE_NONE);
		} else if (core->interrupt_at && interrupt_ns == 0) {
			old__end_interrupted(core);
		}
		break;
	case CORE_ENDED:
		break;
	}
}

void old__end_suspend(struct old__core *core)
{
	if (core->phase == CORE_ENDING || core->phase == CORE_ENDED)
		return;
	if (core->phase == CORE_FINISHING) {
		stop_all(core, GRACE_WHOLE);
		return;
	}
	old__judge_drop(core, false);
	core->phase = CORE_ENDING;
	core->is_suspending = true;
	core->outcome.task = NO_TASK;
	clear_clocks(core);
	stop_all(core, GRACE_WHOLE);
	old__end_if_reaped(core);
}

/* ---- the last deaths */

static bool is_consequence(const struct old__core *core, const struct task *t)
{
	const struct outcome *o = &core->outcome;
	return o->state == TFC_JOB_FAILED && o->task != NO_TASK && o->reason != TFC_END_DEADLINE &&
	       t->is_member && core->tasks[o->task].is_member;
}

void old__end_reaped(struct old__core *core, struct task *t)
{
	char text[256];
	old__death_text(core, t, text, sizeof(text));
	uint32_t state = TFC_TASK_STOPPED;
	uint32_t reason = is_consequence(core, t) ? TFC_END_CONSEQUENCE : TFC_END_STOPPED;
	if (t->fate == FATE_FINISH) {
		/* It may end as it likes now. */
		state = t->death.reason == TFC_EXIT_LOST ? TFC_TASK_LOST : TFC_TASK_EXITED;
		reason = old__death_reason(&t->death);
	}
	if (core->outcome.reason == TFC_END_STALLED &&
	    core->outcome.task == old__task_id(core, t)) {
		state = TFC_TASK_FAILED;
		reason = TFC_END_STALLED;
	}
	old__tell_end(core, t, state, reason, text);
	old__task_phase(core, t, PHASE_OVER);
	old__end_if_reaped(core);
}
