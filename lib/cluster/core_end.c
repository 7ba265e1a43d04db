/* How the job ends: success, failure, a deadline, a user's stop; and the last action. */
#include "cluster/core_state.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SECOND_NS 1000000000ull
#define EXPLAIN_NS (2 * SECOND_NS) /* an end that lasts so long is explained */
#define NAMED_MAX 4                /* tasks that a text names */

static void job_clear_clocks(struct tfc__core *core)
{
	core->group = GROUP_UP;
	tfc__start_over(core);
	core->deadline_at = core->pending_deadline_at = core->repeat_at = 0;
	core->interrupt_at = core->end_explain_at = 0;
	core->snapshot_at = 0;
	core->snapshot = SNAPSHOT_NONE;
}

static void job_set_outcome(struct tfc__core *core, uint32_t state, const struct task *t,
			    uint32_t reason, const char *text)
{
	struct job_outcome *o = &core->outcome;
	bool has_status = reason == TFC_END_EXIT || reason == TFC_END_SIGNAL;
	o->state = state;
	o->task = t ? tfc__task_id(core, t) : NO_TASK;
	o->reason = reason;
	o->status = t && has_status ? t->death.status : 0;
	snprintf(o->text, sizeof(o->text), "%s", text);
}

/* ---- stopping */

static void task_stop(struct tfc__core *core, struct task *t, enum grace grace)
{
	tfc__task_end(core, t, grace, OUTCOME_OVER);
}

/* A task that is dead or was never started is over. Its port is released with all the others. */
static void task_retire(struct tfc__core *core, struct task *t)
{
	/* The job's end names an ignored task; an inherited attempt may still run. */
	if (t->phase == PHASE_IGNORED || t->phase == PHASE_INHERITED)
		return;
	tfc__task_timer(core, t, 0);
	if (t->phase == PHASE_HOLDING || t->phase == PHASE_GANG_HOLDING)
		tfc__task_release(core, t); /* cancels the HOLD */
	tfc__task_phase(core, t, PHASE_OVER);
}

static void tasks_stop(struct tfc__core *core, enum grace grace)
{
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (tfc__task_is_alive(t))
			task_stop(core, t, grace);
		else
			task_retire(core, t);
	}
}

void tfc__end_if_reaped(struct tfc__core *core)
{
	bool is_suspending = core->phase == CORE_SUSPENDING;
	if (core->alive || core->query == QUERY_INHERITED ||
	    (core->phase != CORE_FINISHING && core->phase != CORE_ENDING && !is_suspending))
		return;
	core->phase = CORE_ENDED;
	core->interrupt_at = core->end_explain_at = 0;
	for (uint32_t i = 0; i < core->task_count; i++)
		tfc__task_release(core, &core->tasks[i]);
	if (is_suspending) {
		tfc__action_add(core, TFC__DO_SUSPENDED, NULL);
		return;
	}
	core->job_state = core->outcome.state;
	struct tfc__core_action *action = tfc__action_add(core, TFC__DO_END, NULL);
	action->task = core->outcome.task;
	if (action->task != NO_TASK)
		action->attempt = core->tasks[action->task].attempt;
	action->state = core->outcome.state;
	action->reason = core->outcome.reason;
	action->end.status = core->outcome.status;
	tfc__action_set_text(core, action, core->outcome.text);
}

/* ---- failure */

static void job_fail(struct tfc__core *core, const struct task *t, uint32_t reason,
		     const char *text, enum grace grace)
{
	tfc__judge_drop(core, true);
	core->phase = CORE_ENDING;
	job_clear_clocks(core);
	job_set_outcome(core, TFC_JOB_FAILED, t, reason, text);
	tfc__report_job(core, TFC_JOB_STOPPING, text);
	tasks_stop(core, grace);
	core->end_explain_at = core->now + EXPLAIN_NS;
	tfc__end_if_reaped(core);
}

static void job_succeed(struct tfc__core *core, const struct task *t, const char *text);

/* The success does not wait for t any longer. Returns whether t was the last task it waited for. */
static bool decider_drop(struct tfc__core *core, const struct task *t)
{
	return t->is_decider && --core->undone == 0;
}

/* When all deciders have ended: whether one of them other than t has ended well. */
static bool has_successful_decider(const struct tfc__core *core, const struct task *t)
{
	for (uint32_t i = 0; i < core->task_count; i++) {
		const struct task *u = &core->tasks[i];
		if (u != t && u->is_decider && u->phase != PHASE_IGNORED)
			return true;
	}
	return false;
}

/* A failed task that stays dead while the job continues: the job's end names it. The job fails with
 * the last of the tasks whose success it needs. */
static void task_ignore_failure(struct tfc__core *core, struct task *t, uint32_t reason,
				const char *text)
{
	char why[ACTION_TEXT];
	bool is_last = decider_drop(core, t);
	if (is_last && !has_successful_decider(core, t)) {
		snprintf(why, sizeof(why),
			 "%.1090s; no task remains that could make the job succeed", text);
		/* A stalled task was stopped: a notice in its output comes from that. */
		job_fail(core, t, reason, why,
			 reason == TFC_END_STALLED ? GRACE_ABORT : tfc__death_grace(core, t));
		return;
	}
	snprintf(t->why, TASK_WHY, "%s", text);
	tfc__task_phase(core, t, PHASE_IGNORED);
	if (is_last)
		job_succeed(core, t, text);
}

void tfc__end_failed(struct tfc__core *core, struct task *t, const char *text)
{
	bool is_vital = tfc__task_is_vital(core, t);
	uint32_t reason = tfc__death_reason(&t->death);
	uint32_t state = t->death.reason == TFC_EXIT_LOST ? TFC_TASK_LOST : TFC_TASK_FAILED;
	tfc__report_end(core, t, state, reason, text);
	tfc__task_phase(core, t, PHASE_DEAD);
	if (is_vital)
		job_fail(core, t, reason, text, tfc__death_grace(core, t));
	else
		task_ignore_failure(core, t, reason, text);
}

void tfc__end_refused(struct tfc__core *core, const struct task *t, uint32_t reason,
		      const char *text)
{
	job_fail(core, t, reason, text, GRACE_ABORT);
}

void tfc__end_portless(struct tfc__core *core, struct task *t, uint32_t count, const char *why)
{
	char text[ACTION_TEXT] = "";
	if (t->phase == PHASE_GANG_HOLDING && count) {
		snprintf(text, sizeof(text), "%u port%s missing", count,
			 count == 1 ? " is" : "s are");
	} else {
		tfc__text_name(core, t, text, sizeof(text));
		tfc__text_add(text, sizeof(text), " got no port");
	}
	if (why && why[0])
		tfc__text_add(text, sizeof(text), ": %s", why);
	tfc__task_release(core, t); /* it has a slot there, without a port */
	tfc__end_placeless(core, t, TFC_END_REFUSED, text);
}

void tfc__end_placeless(struct tfc__core *core, struct task *t, uint32_t reason, const char *text)
{
	bool is_of_gang = t->phase == PHASE_GANG_HOLDING;
	tfc__task_phase(core, t, PHASE_DEAD);
	if (is_of_gang || tfc__task_is_vital(core, t)) {
		tfc__end_refused(core, is_of_gang ? NULL : t, reason, text);
		return;
	}
	tfc__report_job(core, core->job_state, text);
	task_ignore_failure(core, t, reason, text);
}

/* ---- deadlines */

void tfc__end_start_deadline(struct tfc__core *core)
{
	char text[256];
	snprintf(text, sizeof(text), "the start deadline of %g s has passed; waited for",
		 (double)core->policy.start_deadline_ns / (double)SECOND_NS);
	const struct task *first = tfc__start_waited_for(core, text, sizeof(text));
	job_fail(core, first, TFC_END_DEADLINE, text, GRACE_ABORT);
}

void tfc__end_pending_deadline(struct tfc__core *core)
{
	char text[ACTION_TEXT];
	snprintf(text, sizeof(text), "the pending deadline of %g s has passed",
		 (double)core->policy.pending_deadline_ns / (double)SECOND_NS);
	if (core->gang_text[0]) {
		tfc__text_add(text, sizeof(text), ": %s", core->gang_text);
	} else {
		tfc__text_add(text, sizeof(text), "; waited for");
		tfc__start_waited_for(core, text, sizeof(text));
	}
	job_fail(core, NULL, TFC_END_DEADLINE, text, GRACE_ABORT);
}

/* Nothing is broken: a task that saves its work gets the whole grace. */
void tfc__end_deadline(struct tfc__core *core)
{
	char text[ACTION_TEXT];
	snprintf(text, sizeof(text), "the deadline of %g s has passed",
		 (double)core->policy.deadline_ns / (double)SECOND_NS);
	job_fail(core, NULL, TFC_END_DEADLINE, text, GRACE_WHOLE);
}

/* ---- a stall that cannot be solved by a restart */

void tfc__end_stalled(struct tfc__core *core, struct task *t, const char *text)
{
	if (t)
		tfc__report_stall(core, t, text);
	if (!t || tfc__task_is_vital(core, t))
		job_fail(core, t, TFC_END_STALLED, text, GRACE_ABORT);
	else
		task_stop(core, t, GRACE_ABORT);
}

void tfc__end_stalled_reaped(struct tfc__core *core, struct task *t)
{
	char text[ACTION_TEXT];
	tfc__death_text(core, t, text, sizeof(text));
	tfc__report_end(core, t, TFC_TASK_FAILED, TFC_END_STALLED, text);
	tfc__task_phase(core, t, PHASE_DEAD);
	task_ignore_failure(core, t, TFC_END_STALLED, text);
}

/* ---- success */

/* Mirrored peers are about to end by themselves, and an evaluator may have to evaluate its last
 * checkpoint. All other tasks would run for ever. */
static bool task_may_finish(const struct tfc__core *core, const struct task *t)
{
	const struct tfc__core_role *role = tfc__task_role(core, t);
	if (t->outcome != OUTCOME_OPEN || role->finish_ns == 0)
		return false;
	if (strcmp(role->name, "evaluator") == 0)
		return true;
	return t->is_member && core->policy.strategy != TFC_STRATEGY_PARAMETER_SERVER;
}

static void task_finish(struct tfc__core *core, struct task *t)
{
	if (!tfc__task_is_alive(t)) {
		task_retire(core, t);
	} else if (task_may_finish(core, t)) {
		t->outcome = OUTCOME_OVER;
		t->ending = ENDING_FINISH;
		tfc__task_timer(core, t, core->now + tfc__task_role(core, t)->finish_ns);
	} else {
		task_stop(core, t, GRACE_WHOLE);
	}
}

static void job_succeed(struct tfc__core *core, const struct task *t, const char *text)
{
	core->phase = CORE_FINISHING;
	job_clear_clocks(core);
	tfc__judge_drop(core, false);
	job_set_outcome(core, TFC_JOB_SUCCEEDED, t, TFC_END_EXIT, text);
	core->outcome.status = 0;
	tfc__report_job(core, TFC_JOB_STOPPING, text);
	for (uint32_t i = 0; i < core->task_count; i++)
		task_finish(core, &core->tasks[i]);
	core->end_explain_at = core->now + EXPLAIN_NS;
	tfc__end_if_reaped(core);
}

void tfc__end_succeeded(struct tfc__core *core)
{
	job_succeed(core, NULL, "all tasks had ended successfully before the job resumed");
}

void tfc__end_done(struct tfc__core *core, struct task *t)
{
	char text[ACTION_TEXT];
	tfc__death_text(core, t, text, sizeof(text));
	tfc__report_end(core, t, TFC_TASK_EXITED, TFC_END_EXIT, text);
	tfc__task_phase(core, t, PHASE_OVER);
	if (decider_drop(core, t))
		job_succeed(core, t, text);
}

void tfc__end_overdue(struct tfc__core *core, struct task *t)
{
	if (t->ending == ENDING_SAVE) {
		tfc__task_end(core, t, GRACE_NONE, t->outcome);
	} else {
		task_stop(core, t, GRACE_WHOLE);
		core->end_explain_at = core->now + EXPLAIN_NS;
	}
}

/* ---- what the end waits for */

/* When the time is over that a task has to end; 0: it is not being ended in this way. */
static uint64_t task_ends_by(const struct task *t, enum ending ending)
{
	if (!tfc__task_is_alive(t) || t->ending != ending)
		return 0;
	return ending == ENDING_STOP ? t->stop_at + t->stop_grace : t->timer;
}

/* Appends "waiting up to 28 s for evaluator/0, worker/1 and 2 more to finish". */
static void add_wait(const struct tfc__core *core, enum ending ending, const char *what, char *text,
		     size_t size)
{
	uint32_t named = 0, count = 0;
	uint64_t until = 0;
	for (uint32_t i = 0; i < core->task_count; i++) {
		uint64_t ends_by = task_ends_by(&core->tasks[i], ending);
		count += ends_by > 0;
		until = ends_by > until ? ends_by : until;
	}
	if (until <= core->now)
		return;
	if (text[0])
		tfc__text_add(text, size, "; ");
	tfc__text_add(text, size, "waiting up to %llu s for",
		      (unsigned long long)((until - core->now + SECOND_NS - 1) / SECOND_NS));
	for (uint32_t i = 0; i < core->task_count && named < NAMED_MAX; i++) {
		const struct task *t = &core->tasks[i];
		if (task_ends_by(t, ending))
			tfc__text_add(text, size, "%s %s/%u", named++ ? "," : "",
				      tfc__task_role(core, t)->name, t->index);
	}
	if (count > named)
		tfc__text_add(text, size, " and %u more", count - named);
	tfc__text_add(text, size, " %s", what);
}

void tfc__end_explain(struct tfc__core *core)
{
	char text[ACTION_TEXT] = "";
	core->end_explain_at = 0;
	if (core->phase != CORE_FINISHING && core->phase != CORE_ENDING)
		return;
	add_wait(core, ENDING_FINISH, "to finish", text, sizeof(text));
	add_wait(core, ENDING_STOP, "to stop", text, sizeof(text));
	if (text[0])
		tfc__report_job(core, TFC_JOB_STOPPING, text);
}

/* ---- a user's stop */

static void tasks_interrupt(struct tfc__core *core, uint64_t interrupt_ns)
{
	core->interrupt_at = core->now + interrupt_ns;
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (!tfc__task_is_alive(t)) {
			task_retire(core, t);
		} else if (t->phase == PHASE_LAUNCHED || t->ending == ENDING_STOP ||
			   t->ending == ENDING_SAVE) {
			/* it has no process to signal, or is being stopped */
			task_stop(core, t, GRACE_WHOLE);
		} else {
			t->outcome = OUTCOME_OVER;
			t->ending = ENDING_INTERRUPT;
			tfc__order_add(core, t->node, TFC__ORDER_SIGNAL, t)->number = SIGINT;
		}
	}
}

static void stop_begin(struct tfc__core *core, uint64_t interrupt_ns, bool is_kill)
{
	tfc__judge_drop(core, false);
	core->phase = CORE_ENDING;
	job_clear_clocks(core);
	job_set_outcome(core, TFC_JOB_STOPPED, NULL, TFC_END_STOPPED, "stopped");
	tfc__report_job(core, TFC_JOB_STOPPING, "");
	if (interrupt_ns && !is_kill) {
		tasks_interrupt(core, interrupt_ns);
	} else {
		tasks_stop(core, is_kill ? GRACE_NONE : GRACE_WHOLE);
		core->end_explain_at = core->now + EXPLAIN_NS;
	}
	tfc__end_if_reaped(core);
}

void tfc__end_interrupted(struct tfc__core *core)
{
	core->interrupt_at = 0;
	tasks_stop(core, GRACE_WHOLE);
	core->end_explain_at = core->now + EXPLAIN_NS;
}

void tfc__end_by_user(struct tfc__core *core, uint64_t interrupt_ns, bool is_kill)
{
	switch (core->phase) {
	case CORE_PENDING:
	case CORE_UP:
	case CORE_SUSPENDING: /* no epoch will continue it */
		stop_begin(core, interrupt_ns, is_kill);
		break;
	case CORE_FINISHING: /* the job has succeeded already; only the wait is cut short */
		tasks_stop(core, is_kill ? GRACE_NONE : GRACE_WHOLE);
		break;
	case CORE_ENDING:
		if (is_kill) {
			core->interrupt_at = 0;
			tasks_stop(core, GRACE_NONE);
		} else if (core->interrupt_at && interrupt_ns == 0) {
			tfc__end_interrupted(core);
		}
		break;
	case CORE_ENDED:
	case CORE_FENCED:
		break;
	}
}

void tfc__end_suspend(struct tfc__core *core)
{
	switch (core->phase) {
	case CORE_PENDING:
	case CORE_UP:
		tfc__judge_drop(core, false);
		core->phase = CORE_SUSPENDING;
		core->outcome.task = NO_TASK;
		job_clear_clocks(core);
		tasks_stop(core, GRACE_WHOLE);
		tfc__end_if_reaped(core);
		break;
	case CORE_FINISHING:
		tasks_stop(core, GRACE_WHOLE);
		break;
	case CORE_ENDING:
	case CORE_SUSPENDING:
	case CORE_ENDED:
	case CORE_FENCED:
		break;
	}
}

/* ---- the last deaths */

static bool is_end_consequence(const struct tfc__core *core, const struct task *t)
{
	const struct job_outcome *o = &core->outcome;
	return o->state == TFC_JOB_FAILED && o->task != NO_TASK && o->reason != TFC_END_DEADLINE &&
	       t->is_member && core->tasks[o->task].is_member;
}

void tfc__end_reaped(struct tfc__core *core, struct task *t)
{
	char text[ACTION_TEXT];
	tfc__death_text(core, t, text, sizeof(text));
	uint32_t state = TFC_TASK_STOPPED;
	uint32_t reason = is_end_consequence(core, t) ? TFC_END_CONSEQUENCE : TFC_END_STOPPED;
	if (t->ending == ENDING_FINISH) {
		/* The job has succeeded: any exit status is accepted. */
		state = t->death.reason == TFC_EXIT_LOST ? TFC_TASK_LOST : TFC_TASK_EXITED;
		reason = tfc__death_reason(&t->death);
	}
	if (core->outcome.reason == TFC_END_STALLED &&
	    core->outcome.task == tfc__task_id(core, t)) {
		state = TFC_TASK_FAILED;
		reason = TFC_END_STALLED;
	}
	tfc__report_end(core, t, state, reason, text);
	tfc__task_phase(core, t, PHASE_OVER);
	tfc__end_if_reaped(core);
}
