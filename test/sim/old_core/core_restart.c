#include "core_state.h"

#include <stdio.h>
#include <string.h>

#define SECOND_NS 1000000000ull

/* A preempted attempt that was ready for less than this has done nothing; so many of them in a row
 * are no accident. */
#define SHORT_LIFE_NS (60 * SECOND_NS)
#define SHORT_LIVES 3

/* Which budget pays, and how much of it there is. */
struct account {
	struct budget *budget;
	uint32_t max;
	uint64_t window;
	bool is_loss;
};

/* Whether t's death is one of too many preemptions that came soon after a start. */
static bool is_preempted_again(const struct old__core *core, const struct task *t,
			       struct budget *losses)
{
	bool is_short = old__death_is_preemption(core, t) &&
			core->now - t->ready_at < SHORT_LIFE_NS;
	losses->short_lives = is_short ? losses->short_lives + 1 : 0;
	return losses->short_lives >= SHORT_LIVES;
}

/* Who may not restart at all still starts again what a lost node took along. */
static struct account account_of(struct old__core *core, struct task *t, bool is_group,
				 bool is_loss)
{
	const struct old__core_role *role = old__task_role(core, t);
	struct budget *losses = is_group ? &core->group_losses : &t->losses;
	bool is_again = is_preempted_again(core, t, losses);
	if (is_loss && !is_again && (role->restart_max || t->death.is_with_node))
		return (struct account){losses, role->loss_max, role->loss_window_ns, true};
	return (struct account){is_group ? &core->group_restarts : &t->restarts, role->restart_max,
				role->window_ns, false};
}

static bool is_allowed(const struct old__core_role *role, const struct old__death *death,
		       enum death_class class)
{
	if (role->restart_on == TFC__RESTART_NEVER)
		return false;
	if (class == CLASS_RETRYABLE)
		return true;
	/* What is not there will not be there next time either. */
	return role->restart_on == TFC__RESTART_FAILURE && death->reason != TFC_EXIT_NOT_STARTED;
}

static void add_what_follows(const char *what, uint64_t wait, uint32_t spent,
			     const struct account *a, char *text, size_t size)
{
	old__text_add(text, size, "; restarting %s", what);
	if (wait)
		old__text_add(text, size, " in %.1f s", (double)wait / (double)SECOND_NS);
	old__text_add(text, size, " (%u of %u %s in %.0f s)", spent + 1, a->max,
		      a->is_loss ? "losses" : "restarts", (double)a->window / (double)SECOND_NS);
}

static void add_why_not(const struct account *a, char *text, size_t size)
{
	if (a->max == 0)
		old__text_add(text, size, "; not restarted: restart.%s is 0",
			      a->is_loss ? "losses" : "max");
	else
		old__text_add(text, size, "; no restart %sis left (%u of %u in %.0f s)",
			      a->is_loss ? "after a loss " : "", a->max, a->max,
			      (double)a->window / (double)SECOND_NS);
}

static void tell_cause(struct old__core *core, struct task *t, const char *text)
{
	if (old__task_is_alive(t)) { /* it is silent: its end is told when it is reaped */
		if (t->is_stalled)
			old__stall_tell(core, t, text);
		return;
	}
	uint32_t state = t->death.reason == TFC_EXIT_LOST ? TFC_TASK_LOST : TFC_TASK_FAILED;
	old__tell_end(core, t, state, old__death_reason(&t->death), text);
	old__task_phase(core, t, PHASE_DEAD);
}

void old__restart_deadline(struct old__core *core, uint64_t from)
{
	if (core->policy.start_deadline_ns)
		core->start_deadline_at = from + core->policy.start_deadline_ns;
	old__start_watch(core);
}

static void abort_member(struct old__core *core, struct task *t);

/* ---- one task */

/* A frozen ps that still has to be reaped would take the coordinator's next attempt with it. */
static bool is_ps_leaving(const struct old__core *core)
{
	for (uint32_t i = 0; i < core->task_count; i++) {
		const struct task *t = &core->tasks[i];
		if (t->fate == FATE_RESTART && old__task_is_alive(t) && old__task_is_ps(core, t))
			return true;
	}
	return false;
}

void old__restart_alone(struct old__core *core, struct task *t)
{
	old__task_phase(core, t, PHASE_BACKOFF);
	if (t->restart_at > core->now)
		old__task_timer(core, t, t->restart_at);
	else
		old__restart_timer(core, t);
}

static void move(struct old__core *core, struct task *t)
{
	char text[256];
	if (!t->is_member) {
		old__place_alone(core, t);
		return;
	}
	old__text_name(core, t, text, sizeof(text));
	old__text_add(text, sizeof(text), " must move; restarting the group");
	old__restart_group(core, core->now, text);
}

void old__restart_timer(struct old__core *core, struct task *t)
{
	old__task_timer(core, t, 0);
	if (old__task_is_coordinator(core, t) && is_ps_leaving(core)) {
		old__task_phase(core, t, PHASE_DEAD); /* until wake_coordinators */
		return;
	}
	if (old__place_is_needed(t)) {
		move(core, t);
	} else if (t->is_port_stale) {
		old__task_release(core, t);
		old__task_hold(core, t);
	} else {
		old__task_launch(core, t);
	}
}

/* Living: it is stopped first. Dead: it waits for its time. */
static void restart_one(struct old__core *core, struct task *t, uint64_t at)
{
	if (t->restart_at < at)
		t->restart_at = at;
	if (old__task_is_alive(t))
		old__task_end(core, t, core->grace, FATE_RESTART);
	else if (t->phase == PHASE_BACKOFF)
		old__task_timer(core, t, t->restart_at);
	else if (t->phase == PHASE_DEAD)
		old__restart_alone(core, t);
}

static void wake_coordinators(struct old__core *core)
{
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (t->phase == PHASE_DEAD && old__task_is_coordinator(core, t))
			old__restart_alone(core, t);
	}
}

/* A new coordinator waits until it has connected to every address of its cluster, also to that of a
 * task whose failure was ignored (TensorFlow's connect_to_cluster). */
static void restart_ignored(struct old__core *core, uint64_t at)
{
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (t->phase != PHASE_READY)
			t->was_ready = false;
		if (!t->is_ignored || !t->is_member)
			continue;
		t->is_ignored = false;
		core->undone += t->is_decider;
		old__task_phase(core, t, PHASE_DEAD);
		restart_one(core, t, at);
	}
}

static void restart_coordinators(struct old__core *core, uint64_t at)
{
	old__judge_drop(core, true);
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		/* One that is dead here waited for the verdict, whatever its scope. */
		if (old__task_is_coordinator(core, t) || t->phase == PHASE_DEAD)
			restart_one(core, t, at);
	}
}

static bool was_done_before_stop(const struct old__core *core, const struct task *t)
{
	bool is_before = !t->is_stop_sent || (t->death.time_ns && t->death.time_ns < t->stop_at);
	return old__death_class(core, &t->death) == CLASS_DONE && is_before;
}

static void tell_stopped(struct old__core *core, struct task *t)
{
	char text[256];
	old__death_text(core, t, text, sizeof(text));
	if (t->is_gone)
		old__tell_end(core, t, TFC_TASK_LOST, TFC_END_CONSEQUENCE, text);
	else if (t->is_leaving)
		old__tell_end(core, t, TFC_TASK_STOPPED, TFC_END_STOPPED, text);
	else if (t->is_silent) /* not a consequence but the cause itself */
		old__tell_end(core, t, TFC_TASK_FAILED,
			      t->is_stalled ? TFC_END_STALLED : old__death_reason(&t->death), text);
	else
		old__tell_end(core, t, t->is_stop_sent ? TFC_TASK_STOPPED : TFC_TASK_FAILED,
			      TFC_END_CONSEQUENCE, text);
}

void old__restart_reaped(struct old__core *core, struct task *t)
{
	bool is_of_group = t->fate == FATE_GROUP;
	if (was_done_before_stop(core, t)) {
		old__end_done(core, t);
		/* The others start again, and a gang needs all of its members. */
		if (core->phase == CORE_UP && is_of_group)
			abort_member(core, t);
	} else if (!is_of_group && t->death.is_stranger && t->is_member) {
		old__judge_death(core, t);
	} else if (t->fate == FATE_OVER) {
		old__end_stalled_reaped(core, t);
	} else {
		tell_stopped(core, t);
		if (!is_of_group)
			old__restart_alone(core, t);
	}
	if (core->phase == CORE_UP && core->group == GROUP_UP && old__task_is_ps(core, t))
		wake_coordinators(core);
	old__gang_gather(core);
}

static void tell_restarting(struct old__core *core, uint64_t at, const char *text)
{
	/* Before all were ready the first time it is still a start. */
	if (core->job_state == TFC_JOB_STARTING)
		return;
	old__tell_job(core, TFC_JOB_RESTARTING, text);
	old__restart_deadline(core, at);
}

/* ---- the group */

static void abort_member(struct old__core *core, struct task *t)
{
	t->was_ready = false;
	if (old__task_is_alive(t)) {
		old__task_end(core, t, core->grace, FATE_GROUP);
		return;
	}
	/* A mirrored gang needs all its members again; others that are done stay so. */
	if (t->phase == PHASE_OVER && old__task_role(core, t)->scope != TFC__SCOPE_GROUP &&
	    !t->is_ignored)
		return;
	if (t->phase == PHASE_OVER && t->is_decider)
		core->undone++;
	t->is_ignored = false;
	old__task_timer(core, t, 0);
	old__task_phase(core, t, PHASE_DEAD);
}

void old__restart_group(struct old__core *core, uint64_t at, const char *text)
{
	core->group = GROUP_ABORTING;
	core->group_at = at;
	core->pending_deadline_at = 0;
	old__start_over(core);
	core->gang_place = 0;
	core->is_gang_waiting = false;
	old__judge_drop(core, true);
	old__tell_job(core, TFC_JOB_RESTARTING, text);
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].is_member)
			abort_member(core, &core->tasks[i]);
	old__gang_gather(core);
}

/* ---- which of them */

/* Who starts again with one. */
struct extent {
	bool is_group;
	bool is_with_coordinator; /* scope coordinator, alone or a ps with its coordinator */
	bool is_ps;
};

/* Whether one that starts again with its coordinator gets another address. */
static bool is_ignored_moving(const struct old__core *core)
{
	for (uint32_t i = 0; i < core->task_count; i++) {
		const struct task *t = &core->tasks[i];
		if (t->is_ignored && t->is_member && (old__place_is_needed(t) || t->is_port_stale))
			return true;
	}
	return false;
}

/* A task of the cluster spec that moves makes every member's spec wrong. */
static struct extent extent_of(const struct old__core *core, const struct task *t)
{
	uint32_t scope = old__task_role(core, t)->scope;
	bool is_moving = t->death.is_stranger || old__place_is_needed(t);
	struct extent e = {.is_ps = old__task_is_ps(core, t)};
	e.is_group = scope == TFC__SCOPE_GROUP || (is_moving && t->is_member) ||
		     (scope == TFC__SCOPE_COORDINATOR && is_ignored_moving(core));
	e.is_with_coordinator = !e.is_group && scope == TFC__SCOPE_COORDINATOR;
	return e;
}

static const char *name_of(const struct extent *e)
{
	if (e->is_group)
		return "the group";
	return e->is_with_coordinator && e->is_ps ? "it with its coordinator" : "it";
}

static void begin_again(struct old__core *core, struct task *t, const struct extent *e, uint64_t at,
			const char *text)
{
	if (e->is_group) {
		old__restart_group(core, at, text);
		return;
	}
	if (e->is_with_coordinator)
		tell_restarting(core, at, text);
	restart_one(core, t, at);
	if (e->is_with_coordinator && e->is_ps)
		restart_coordinators(core, at);
	if (e->is_with_coordinator)
		restart_ignored(core, at);
}

enum restart_end old__restart(struct old__core *core, struct task *t, enum death_class class,
			      bool is_loss, char *text, size_t size)
{
	const struct old__core_role *role = old__task_role(core, t);
	if (!is_allowed(role, &t->death, class))
		return RESTART_REFUSED;
	struct extent e = extent_of(core, t);
	struct account a = account_of(core, t, e.is_group, is_loss);
	uint32_t spent = old__budget_spent(a.budget, a.max, a.window, core->now);
	if (spent >= a.max) {
		add_why_not(&a, text, size);
		return RESTART_REFUSED;
	}
	old__budget_charge(a.budget, a.max, a.window, core->now);
	uint64_t wait = old__budget_backoff(core, role, spent);
	add_what_follows(name_of(&e), wait, spent, &a, text, size);
	tell_cause(core, t, text);
	core->grace = old__death_grace(core, t);
	begin_again(core, t, &e, core->now + wait, text);
	core->grace = GRACE_ABORT;
	return RESTARTED;
}

enum restart_end old__restart_moving(struct old__core *core, struct task *t, char *text,
				     size_t size)
{
	if (old__task_role(core, t)->restart_on == TFC__RESTART_NEVER)
		return RESTART_REFUSED;
	struct extent e = extent_of(core, t);
	old__text_add(text, size, "; restarting %s", name_of(&e));
	begin_again(core, t, &e, core->now, text);
	return RESTARTED;
}

uint32_t old__core_budget_left(const struct old__core *core, uint32_t task, uint64_t now)
{
	const struct task *t = &core->tasks[task];
	const struct old__core_role *role = old__task_role(core, t);
	const struct budget *budget = role->scope == TFC__SCOPE_GROUP ? &core->group_restarts
								      : &t->restarts;
	uint32_t spent = old__budget_spent(budget, role->restart_max, role->window_ns, now);
	return spent < role->restart_max ? role->restart_max - spent : 0;
}
