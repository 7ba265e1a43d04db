/* Restarts: of a task alone, of a coordinator with its ps, of the whole group. */
#include "cluster/core_state.h"

#include <stdio.h>
#include <string.h>

#define SECOND_NS 1000000000ull

/* A preempted attempt that was ready for less than this has achieved nothing. Several of them in a
 * row are no accident. */
#define SHORT_LIFE_NS (60 * SECOND_NS)
#define SHORT_LIVES 3

/* The budget that is charged, and its size. */
struct account {
	struct budget *budget;
	uint32_t max;
	uint64_t window;
	bool is_loss;
};

/* Whether t's death is one preemption too many shortly after a start. */
static bool is_preempted_again(const struct tfc__core *core, const struct task *t,
			       struct budget *losses)
{
	bool is_short = tfc__death_is_preemption(core, t) &&
			core->now - t->ready_at < SHORT_LIFE_NS;
	losses->short_lives = is_short ? losses->short_lives + 1 : 0;
	return losses->short_lives >= SHORT_LIVES;
}

/* A role with restart_max 0 still restarts after the loss of its node. */
static struct account restart_account(struct tfc__core *core, struct task *t, bool is_group,
				      bool is_loss)
{
	const struct tfc__core_role *role = tfc__task_role(core, t);
	struct budget *losses = is_group ? &core->group_losses : &t->losses;
	bool is_again = is_preempted_again(core, t, losses);
	if (is_loss && !is_again && (role->restart_max || t->death.is_with_node))
		return (struct account){losses, role->loss_max, role->loss_window_ns, true};
	return (struct account){is_group ? &core->group_restarts : &t->restarts, role->restart_max,
				role->window_ns, false};
}

static bool is_restart_allowed(const struct tfc__core_role *role,
			       const struct tfc__attempt_end *death, enum death_class class)
{
	if (role->restart_on == TFC__RESTART_NEVER)
		return false;
	if (class == CLASS_RETRYABLE)
		return true;
	/* A program that cannot be started will not start the next time either. */
	return role->restart_on == TFC__RESTART_FAILURE && death->reason != TFC_EXIT_NOT_STARTED;
}

/* " (1 of 3 restarts in 600 s)"; a window of 0 is the whole life of the job. */
static void text_add_spent(const struct account *a, uint32_t spent, const char *what, char *text,
			   size_t size)
{
	tfc__text_add(text, size, " (%u of %u%s", spent, a->max, what);
	if (a->window)
		tfc__text_add(text, size, " in %.0f s", (double)a->window / (double)SECOND_NS);
	tfc__text_add(text, size, ")");
}

static void text_add_restart(const char *what, uint64_t wait, uint32_t spent,
			     const struct account *a, char *text, size_t size)
{
	tfc__text_add(text, size, "; restarting %s", what);
	if (wait)
		tfc__text_add(text, size, " in %.1f s", (double)wait / (double)SECOND_NS);
	text_add_spent(a, spent + 1, a->is_loss ? " losses" : " restarts", text, size);
}

static void text_add_refusal(const struct account *a, char *text, size_t size)
{
	if (a->max == 0) {
		tfc__text_add(text, size, "; not restarted: restart.%s is 0",
			      a->is_loss ? "losses" : "max");
	} else {
		tfc__text_add(text, size, "; no restart %sis left",
			      a->is_loss ? "after a loss " : "");
		text_add_spent(a, a->max, "", text, size);
	}
}

static void report_cause(struct tfc__core *core, struct task *t, const char *text)
{
	if (tfc__task_is_alive(t)) { /* it is silent: its end is reported when it is reaped */
		if (t->cause == CAUSE_STALLED)
			tfc__report_stall(core, t, text);
		return;
	}
	uint32_t state = t->death.reason == TFC_EXIT_LOST ? TFC_TASK_LOST : TFC_TASK_FAILED;
	tfc__report_end(core, t, state, tfc__death_reason(&t->death), text);
	tfc__task_phase(core, t, PHASE_DEAD);
}

/* ---- one task */

/* The first task from number *at on that is of a role as wanted, or NULL. *at is then the number
 * behind it. The tasks of other roles are not visited: there may be many workers. */
static struct task *next_task(const struct tfc__core *core,
			      bool (*is_wanted)(const struct tfc__core *core, const struct task *t),
			      uint32_t *at)
{
	while (*at < core->task_count) {
		struct task *t = &core->tasks[*at];
		if (is_wanted(core, t)) {
			*at += 1;
			return t;
		}
		*at += tfc__task_role(core, t)->count - t->index;
	}
	return NULL;
}

/* A frozen ps that is not reaped yet would end the coordinator's next attempt, too. */
static bool is_ps_ending(const struct tfc__core *core)
{
	const struct task *ps;
	for (uint32_t at = 0; (ps = next_task(core, tfc__task_is_ps, &at));)
		if (ps->outcome == OUTCOME_RESTART && tfc__task_is_alive(ps))
			return true;
	return false;
}

void tfc__restart_alone(struct tfc__core *core, struct task *t)
{
	tfc__task_phase(core, t, PHASE_BACKOFF);
	if (t->restart_at > core->now)
		tfc__task_timer(core, t, t->restart_at);
	else
		tfc__restart_timer(core, t);
}

void tfc__restart_timer(struct tfc__core *core, struct task *t)
{
	char text[ACTION_TEXT];
	tfc__task_timer(core, t, 0);
	if (tfc__task_is_coordinator(core, t) && is_ps_ending(core)) {
		tfc__task_phase(core, t, PHASE_DEAD); /* until restart_coordinators */
	} else if (tfc__place_is_needed(t) && t->is_member) {
		tfc__text_name(core, t, text, sizeof(text));
		tfc__text_add(text, sizeof(text), " must move; restarting the group");
		tfc__restart_group(core, core->now, GRACE_ABORT, text);
	} else if (tfc__place_is_needed(t)) {
		tfc__place_alone(core, t);
	} else if (t->port == PORT_OCCUPIED) {
		tfc__task_release(core, t);
		tfc__task_hold(core, t, PHASE_HOLDING);
	} else {
		tfc__task_launch(core, t);
	}
}

/* A living task is stopped first. A dead one waits until `at`. */
static void restart_task(struct tfc__core *core, struct task *t, uint64_t at, enum grace grace)
{
	if (t->restart_at < at)
		t->restart_at = at;
	if (tfc__task_is_alive(t))
		tfc__task_end(core, t, grace, OUTCOME_RESTART);
	else if (t->phase == PHASE_BACKOFF)
		tfc__task_timer(core, t, t->restart_at);
	else if (t->phase == PHASE_DEAD)
		tfc__restart_alone(core, t);
}

static void restart_coordinators(struct tfc__core *core)
{
	struct task *t;
	for (uint32_t at = 0; (t = next_task(core, tfc__task_is_coordinator, &at));)
		if (t->phase == PHASE_DEAD)
			tfc__restart_alone(core, t);
}

/* A new coordinator waits until it has connected to every address of its cluster, including that of
 * a task whose failure was ignored (TensorFlow's connect_to_cluster). */
static void restart_ignored(struct tfc__core *core, uint64_t at)
{
	core->start++;
	for (uint32_t i = 0; i < core->task_count && core->ignored; i++) {
		struct task *t = &core->tasks[i];
		if (t->phase != PHASE_IGNORED || !t->is_member)
			continue;
		core->undone += t->is_decider;
		tfc__task_phase(core, t, PHASE_DEAD);
		restart_task(core, t, at, GRACE_ABORT);
	}
}

static bool was_done_before_stop(const struct tfc__core *core, const struct task *t)
{
	bool is_before = t->ending != ENDING_STOP ||
			 (t->death.time_ns && t->death.time_ns < t->stop_at);
	return tfc__death_class(core, &t->death) == CLASS_DONE && is_before;
}

static void report_stopped_task(struct tfc__core *core, struct task *t)
{
	char text[ACTION_TEXT];
	tfc__death_text(core, t, text, sizeof(text));
	if (t->death.is_with_node)
		tfc__report_end(core, t, TFC_TASK_LOST, TFC_END_CONSEQUENCE, text);
	else if (t->is_leaving)
		tfc__report_end(core, t, TFC_TASK_STOPPED, TFC_END_STOPPED, text);
	else if (t->cause == CAUSE_STALLED)
		tfc__report_end(core, t, TFC_TASK_FAILED, TFC_END_STALLED, text);
	else if (t->cause == CAUSE_SILENT)
		tfc__report_end(core, t, TFC_TASK_FAILED, tfc__death_reason(&t->death), text);
	else
		tfc__report_end(core, t,
				t->ending == ENDING_STOP ? TFC_TASK_STOPPED : TFC_TASK_FAILED,
				TFC_END_CONSEQUENCE, text);
}

/* ---- the group */

static void group_abort_member(struct tfc__core *core, struct task *t, enum grace grace)
{
	t->ready_start = 0;
	if (tfc__task_is_alive(t)) {
		tfc__task_end(core, t, grace, OUTCOME_GROUP);
		return;
	}
	/* A mirrored gang needs all its members again; other tasks that are done stay done. */
	if (t->phase == PHASE_OVER && tfc__task_role(core, t)->scope != TFC__SCOPE_GROUP)
		return;
	if (tfc__task_is_over(t))
		core->undone += t->is_decider;
	tfc__task_timer(core, t, 0);
	tfc__task_phase(core, t, PHASE_DEAD);
}

void tfc__restart_group(struct tfc__core *core, uint64_t at, enum grace grace, const char *text)
{
	core->group = GROUP_ABORTING;
	core->group_at = at;
	core->pending_deadline_at = 0;
	tfc__start_over(core);
	tfc__judge_drop(core, true);
	tfc__report_job(core, TFC_JOB_RESTARTING, text);
	for (uint32_t i = 0; i < core->task_count; i++)
		if (core->tasks[i].is_member)
			group_abort_member(core, &core->tasks[i], grace);
	tfc__gang_form(core);
}

void tfc__restart_reaped(struct tfc__core *core, struct task *t)
{
	bool is_of_group = t->outcome == OUTCOME_GROUP;
	if (was_done_before_stop(core, t)) {
		tfc__end_done(core, t);
		/* The other members start again, and a gang needs all of its members. */
		if (core->phase == CORE_UP && is_of_group)
			group_abort_member(core, t, GRACE_ABORT);
	} else if (!is_of_group && t->death.is_port_occupied && t->is_member) {
		tfc__judge_death(core, t);
	} else if (t->outcome == OUTCOME_OVER) {
		tfc__end_stalled_reaped(core, t);
	} else {
		report_stopped_task(core, t);
		if (!is_of_group)
			tfc__restart_alone(core, t);
	}
	if (core->phase == CORE_UP && core->group == GROUP_UP && tfc__task_is_ps(core, t))
		restart_coordinators(core);
	tfc__gang_form(core);
}

/* ---- the extent of a restart */

/* The tasks that restart with a task. */
struct extent {
	bool is_group;
	bool is_with_coordinator; /* scope coordinator, alone or a ps with its coordinator */
	bool is_ps;
};

/* Whether an ignored task, which restarts with its coordinator, gets another address. */
static bool is_ignored_moving(const struct tfc__core *core)
{
	for (uint32_t i = 0; i < core->task_count && core->ignored; i++) {
		const struct task *t = &core->tasks[i];
		if (t->phase == PHASE_IGNORED && t->is_member &&
		    (tfc__place_is_needed(t) || t->port == PORT_OCCUPIED))
			return true;
	}
	return false;
}

/* A task of the cluster spec that moves makes every member's spec wrong. */
static struct extent find_extent(const struct tfc__core *core, const struct task *t)
{
	uint32_t scope = tfc__task_role(core, t)->scope;
	bool is_moving = t->death.is_port_occupied || tfc__place_is_needed(t);
	struct extent e = {.is_ps = tfc__task_is_ps(core, t)};
	e.is_group = scope == TFC__SCOPE_GROUP || (is_moving && t->is_member) ||
		     (scope == TFC__SCOPE_COORDINATOR && is_ignored_moving(core));
	e.is_with_coordinator = !e.is_group && scope == TFC__SCOPE_COORDINATOR;
	return e;
}

static const char *extent_name(const struct extent *e)
{
	if (e->is_group)
		return "the group";
	return e->is_with_coordinator && e->is_ps ? "it with its coordinator" : "it";
}

/* Restarts the tasks of e; `grace` is for the tasks that end because of t. */
static void restart_extent(struct tfc__core *core, struct task *t, const struct extent *e,
			   uint64_t at, enum grace grace, const char *text)
{
	if (e->is_group) {
		tfc__restart_group(core, at, grace, text);
		return;
	}
	/* Before all tasks were ready for the first time the job is still starting. */
	if (e->is_with_coordinator && core->job_state != TFC_JOB_STARTING) {
		tfc__report_job(core, TFC_JOB_RESTARTING, text);
		tfc__start_deadline_from(core, at);
	}
	restart_task(core, t, at, grace);
	if (e->is_with_coordinator && e->is_ps) {
		/* These have waited for the verdict, whatever their scope. */
		struct task *judged = core->judged, *u;
		tfc__judge_drop(core, true);
		for (uint32_t i = 0; (u = next_task(core, tfc__task_is_coordinator, &i));)
			restart_task(core, u, at, grace);
		for (u = judged; u; u = u->judged)
			if (!tfc__task_is_coordinator(core, u))
				restart_task(core, u, at, grace);
	}
	if (e->is_with_coordinator)
		restart_ignored(core, at);
}

enum restart_end tfc__restart_failed(struct tfc__core *core, struct task *t, enum death_class class,
				     bool is_loss, char *text, size_t size)
{
	const struct tfc__core_role *role = tfc__task_role(core, t);
	if (!is_restart_allowed(role, &t->death, class))
		return RESTART_REFUSED;
	struct extent e = find_extent(core, t);
	struct account a = restart_account(core, t, e.is_group, is_loss);
	uint32_t spent = tfc__budget_spent(a.budget, a.max, a.window, core->now);
	if (spent >= a.max) {
		text_add_refusal(&a, text, size);
		return RESTART_REFUSED;
	}
	tfc__budget_charge(a.budget, a.max, a.window, core->now);
	uint64_t wait = tfc__budget_backoff(core, role, spent);
	text_add_restart(extent_name(&e), wait, spent, &a, text, size);
	report_cause(core, t, text);
	restart_extent(core, t, &e, core->now + wait, tfc__death_grace(core, t), text);
	return RESTARTED;
}

enum restart_end tfc__restart_moving(struct tfc__core *core, struct task *t, char *text,
				     size_t size)
{
	if (tfc__task_role(core, t)->restart_on == TFC__RESTART_NEVER)
		return RESTART_REFUSED;
	struct extent e = find_extent(core, t);
	tfc__text_add(text, size, "; restarting %s", extent_name(&e));
	restart_extent(core, t, &e, core->now, GRACE_MOVE, text);
	return RESTARTED;
}

uint32_t tfc__core_budget_left(const struct tfc__core *core, uint32_t task, uint64_t now)
{
	const struct task *t = &core->tasks[task];
	const struct tfc__core_role *role = tfc__task_role(core, t);
	const struct budget *budget = role->scope == TFC__SCOPE_GROUP ? &core->group_restarts
								      : &t->restarts;
	uint32_t spent = tfc__budget_spent(budget, role->restart_max, role->window_ns, now);
	return spent < role->restart_max ? role->restart_max - spent : 0;
}
