#include "cluster/core_state.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One event causes at most four actions per task (a reported end, then RELEASE and HOLD or LAUNCH
 * and a reported start, or STOP) and a few of the job. */
#define ACTIONS_PER_TASK 4
#define ACTIONS_OF_JOB 16

/* ---- making one */

static uint32_t max_of(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* The number of entries of each task's budgets; a task that restarts with its group has none of its
 * own. */
static uint32_t budget_capacity_of_role(const struct tfc__core_role *role, uint32_t max)
{
	return role->scope == TFC__SCOPE_GROUP ? 0 : tfc__budget_capacity(max);
}

/* The entries of all budgets, including the group's, which has the capacity of the role with the
 * most. */
static size_t count_budget_entries(struct tfc__core *core)
{
	size_t count = 0;
	for (uint32_t i = 0; i < core->policy.role_count; i++) {
		const struct tfc__core_role *role = &core->policy.roles[i];
		struct budget *restarts = &core->group_restarts, *losses = &core->group_losses;
		restarts->capacity = max_of(restarts->capacity,
					    tfc__budget_capacity(role->restart_max));
		losses->capacity = max_of(losses->capacity, tfc__budget_capacity(role->loss_max));
		count += (size_t)role->count * (budget_capacity_of_role(role, role->restart_max) +
						budget_capacity_of_role(role, role->loss_max));
	}
	return count + core->group_restarts.capacity + core->group_losses.capacity;
}

static bool core_allocate(struct tfc__core *core)
{
	size_t n = core->task_count;
	core->action_capacity = core->task_count * ACTIONS_PER_TASK + ACTIONS_OF_JOB;
	core->roles = calloc(core->policy.role_count + 1, sizeof(*core->roles));
	core->tasks = calloc(n + 1, sizeof(*core->tasks));
	core->ready = calloc(core->policy.role_count + 1, sizeof(*core->ready));
	core->whys = calloc(n + 1, sizeof(*core->whys));
	core->heap = calloc(n + 1, sizeof(*core->heap));
	core->at_nodes = calloc(n + 1, sizeof(*core->at_nodes));
	core->entries = calloc(count_budget_entries(core) + 1, sizeof(*core->entries));
	core->actions = malloc(core->action_capacity * sizeof(*core->actions));
	core->texts = malloc(core->action_capacity * sizeof(*core->texts));
	return core->roles && core->tasks && core->ready && core->whys && core->heap &&
	       core->at_nodes && core->entries && core->actions && core->texts;
}

static struct budget_entry *budget_set_entries(struct budget *b, uint32_t capacity,
					       struct budget_entry *entries)
{
	b->entries = entries;
	b->capacity = capacity;
	return entries + capacity;
}

static void tasks_init(struct tfc__core *core)
{
	struct budget_entry *free_entries = core->entries;
	free_entries = budget_set_entries(&core->group_restarts, core->group_restarts.capacity,
					  free_entries);
	free_entries = budget_set_entries(&core->group_losses, core->group_losses.capacity,
					  free_entries);
	struct task *t = core->tasks;
	for (uint32_t r = 0; r < core->policy.role_count; r++) {
		const struct tfc__core_role *role = &core->roles[r];
		uint32_t restarts = budget_capacity_of_role(role, role->restart_max);
		uint32_t losses = budget_capacity_of_role(role, role->loss_max);
		bool is_member = role->is_in_cluster && strcmp(role->name, "evaluator") != 0;
		is_member |= role->scope != TFC__SCOPE_TASK;
		for (uint32_t i = 0; i < role->count; i++, t++) {
			t->role = r;
			t->why = core->whys[t - core->tasks];
			t->index = i;
			tfc__list_init(&t->waiting);
			tfc__list_init(&t->stacked);
			t->state = TFC_TASK_PENDING;
			tfc__list_init(&t->at_node);
			t->node = t->inspect_node = TFC__NO_NODE;
			t->is_member = is_member;
			free_entries = budget_set_entries(&t->restarts, restarts, free_entries);
			free_entries = budget_set_entries(&t->losses, losses, free_entries);
			core->member_count += is_member;
			core->ps_count += tfc__task_is_ps(core, t);
		}
	}
	for (uint32_t i = 0; i <= core->task_count; i++)
		tfc__list_init(&core->at_nodes[i]);
	core->unready = core->task_count;
}

static bool is_background_role(const char *role)
{
	return strcmp(role, "ps") == 0 || strcmp(role, "evaluator") == 0 ||
	       strcmp(role, "tensorboard") == 0;
}

static bool is_decider_by_rule(const struct tfc__core_role *role, uint32_t success, uint32_t index)
{
	switch (success) {
	case TFC__SUCCESS_DRIVER:
		return strcmp(role->name, "driver") == 0;
	case TFC__SUCCESS_CHIEF:
		return strcmp(role->name, "chief") == 0;
	case TFC__SUCCESS_WORKER0:
		return strcmp(role->name, "worker") == 0 && index == 0;
	default:
		return strcmp(role->name, "worker") == 0 || strcmp(role->name, "chief") == 0;
	}
}

/* Chooses the deciders: by the rule; else the tasks that may end by themselves; else all tasks. */
static void choose_deciders(struct tfc__core *core)
{
	for (int rule = 0; rule < 3 && core->undone == 0; rule++) {
		for (uint32_t i = 0; i < core->task_count; i++) {
			struct task *t = &core->tasks[i];
			const struct tfc__core_role *role = &core->roles[t->role];
			t->is_decider = rule == 0   ? is_decider_by_rule(role, core->policy.success,
									 t->index)
					: rule == 1 ? !is_background_role(role->name)
						    : true;
			core->undone += t->is_decider;
		}
	}
}

struct tfc__core *tfc__core_new(const struct tfc__core_policy *policy)
{
	struct tfc__core *core = calloc(1, sizeof(*core));
	if (!core)
		return NULL;
	core->policy = *policy;
	for (uint32_t i = 0; i < policy->role_count; i++)
		core->task_count += policy->roles[i].count;
	if (!core_allocate(core)) {
		tfc__core_free(core);
		return NULL;
	}
	if (policy->role_count)
		memcpy(core->roles, policy->roles, policy->role_count * sizeof(*core->roles));
	core->policy.roles = core->roles;
	core->random = policy->seed;
	core->job_state = TFC_JOB_PENDING;
	core->start = 1;
	tfc__list_init(&core->waiting);
	tfc__list_init(&core->stacked);
	tasks_init(core);
	choose_deciders(core);
	return core;
}

void tfc__core_free(struct tfc__core *core)
{
	if (!core)
		return;
	free(core->roles);
	free(core->tasks);
	free(core->ready);
	free(core->whys);
	free(core->heap);
	free(core->at_nodes);
	free(core->entries);
	free(core->actions);
	free(core->texts);
	free(core);
}

/* ---- events */

static void on_job_start(struct tfc__core *core)
{
	if (core->phase != CORE_PENDING)
		return;
	core->phase = CORE_UP;
	if (core->task_count == 0) {
		tfc__end_refused(core, NULL, TFC_END_REFUSED, "the job has no task");
		return;
	}
	tfc__resume_start(core);
	if (core->phase == CORE_UP && core->policy.deadline_ns)
		core->deadline_at = core->now + core->policy.deadline_ns;
}

static void on_task_started(struct tfc__core *core, struct task *t)
{
	if (t->phase != PHASE_LAUNCHED)
		return;
	bool is_ready = !tfc__task_role(core, t)->is_ready_on_listen && t->ending != ENDING_STOP;
	tfc__report_task(core, t, is_ready ? TFC_TASK_READY : TFC_TASK_RUNNING);
	tfc__task_phase(core, t, is_ready ? PHASE_READY : PHASE_RUNNING);
	if (!is_ready)
		tfc__start_program_runs(core);
}

static void on_task_ready(struct tfc__core *core, struct task *t)
{
	if ((t->phase != PHASE_RUNNING && t->phase != PHASE_LAUNCHED) || t->ending == ENDING_STOP)
		return;
	if (tfc__task_role(core, t)->is_in_cluster)
		core->listeners = LISTENERS_SEEN;
	tfc__report_task(core, t, TFC_TASK_READY);
	tfc__task_phase(core, t, PHASE_READY);
}

void tfc__task_died(struct tfc__core *core, struct task *t, const struct tfc__attempt_end *death,
		    const char *text)
{
	if (!tfc__task_is_alive(t))
		return;
	t->death = *death;
	/* The text about the status says that it was out of memory. */
	snprintf(t->why, TASK_WHY, "%s", text && !death->is_oom ? text : "");
	if (death->is_port_occupied)
		t->port = PORT_OCCUPIED;
	tfc__stall_over(core, t);
	tfc__task_timer(core, t, 0);
	tfc__task_phase(core, t, PHASE_DEAD);
	if (core->phase != CORE_UP)
		tfc__end_reaped(core, t);
	else if (t->outcome == OUTCOME_OPEN)
		tfc__judge_death(core, t);
	else
		tfc__restart_reaped(core, t);
	tfc__stall_conclude(core, t);
}

static void on_task_timers(struct tfc__core *core)
{
	while (core->heap_len && core->heap[0]->timer <= core->now) {
		struct task *t = core->heap[0];
		if (tfc__task_is_alive(t))
			tfc__end_overdue(core, t);
		else
			tfc__restart_timer(core, t);
	}
}

static bool is_clock_due(const struct tfc__core *core, uint64_t at)
{
	return at && at <= core->now;
}

static void on_core_tick(struct tfc__core *core)
{
	on_task_timers(core);
	if (is_clock_due(core, core->interrupt_at))
		tfc__end_interrupted(core);
	if (is_clock_due(core, core->end_explain_at))
		tfc__end_explain(core);
	tfc__gang_form(core);
	if (is_clock_due(core, core->deadline_at))
		tfc__end_deadline(core);
	if (is_clock_due(core, core->pending_deadline_at))
		tfc__end_pending_deadline(core);
	if (is_clock_due(core, core->repeat_at))
		tfc__place_repeat(core);
	if (is_clock_due(core, core->snapshot_at))
		tfc__start_inspect_timeout(core);
	if (is_clock_due(core, core->explain_at))
		tfc__start_explain(core);
	if (is_clock_due(core, core->no_listener_at))
		tfc__start_no_listener(core);
	if (is_clock_due(core, core->start_deadline_at))
		tfc__start_deadline(core);
}

/* An agent's event about one attempt of a task, or about its port. */
static void on_task_event(struct tfc__core *core, const struct tfc__task_event *event)
{
	if (event->task >= core->task_count)
		return;
	struct task *t = &core->tasks[event->task];
	bool is_of_attempt = event->attempt == t->attempt;
	bool is_of_hold = event->number == t->hold &&
			  (t->phase == PHASE_HOLDING || t->phase == PHASE_GANG_HOLDING);
	switch (event->kind) {
	case TFC__AGENT_HELD:
		if (is_of_hold)
			tfc__port_held(core, t);
		break;
	case TFC__AGENT_HOLD_FAILED:
		if (is_of_hold)
			tfc__port_refused(core, t, event);
		break;
	case TFC__AGENT_STARTED:
		if (is_of_attempt)
			on_task_started(core, t);
		break;
	case TFC__AGENT_READY:
		if (is_of_attempt)
			on_task_ready(core, t);
		break;
	case TFC__AGENT_EXITED:
		if (is_of_attempt && tfc__task_is_alive(t))
			t->is_leaving |= event->end.is_node_bad;
		if (is_of_attempt)
			tfc__task_died(core, t, &event->end, event->text);
		break;
	case TFC__AGENT_REFUSED:
		if (is_of_attempt)
			tfc__task_died(core, t,
				       &(struct tfc__attempt_end){
					       .reason = TFC_EXIT_NOT_STARTED,
					       .status = TFC_EINVAL,
					       .is_port_occupied = event->end.is_port_occupied,
					       .time_ns = core->now},
				       event->text);
		break;
	case TFC__AGENT_STALLED:
		if (is_of_attempt)
			tfc__stall_begin(core, t, event->silent_ms, event->text);
		break;
	case TFC__AGENT_STACKED:
		if (is_of_attempt)
			tfc__stall_inspected(core, t, event);
		break;
	case TFC__AGENT_NOTICE:
		if (is_of_attempt && event->text && *event->text)
			tfc__report_notice(core, t, event->text);
		break;
	default:
		break;
	}
}

static void on_agent_report(struct tfc__core *core, uint32_t node,
			    const struct tfc__task_event *event)
{
	switch (event->kind) {
	case TFC__AGENT_STATES:
		tfc__query_receive(core, node, event);
		break;
	case TFC__AGENT_INSPECTED:
		tfc__start_inspected(core, node, event);
		break;
	case TFC__AGENT_LOST:
		tfc__node_lost(core, node, event->text ? event->text : "its node is lost");
		break;
	case TFC__AGENT_UNREACHABLE:
		tfc__node_unreachable(core, node,
				      event->text ? event->text : "a node does not respond");
		break;
	case TFC__AGENT_REACHABLE:
		tfc__node_reachable(core, node,
				    event->text ? event->text : "the node responds again");
		break;
	case TFC__AGENT_FENCED:
		core->phase = CORE_FENCED;
		break;
	default:
		on_task_event(core, event);
		break;
	}
}

void tfc__core_step(struct tfc__core *core, const struct tfc__core_event *event, uint64_t now)
{
	core->now = now;
	core->action_count = core->action_read = 0;
	if (core->phase == CORE_FENCED)
		return;
	switch (event->kind) {
	case TFC__CORE_START:
		on_job_start(core);
		break;
	case TFC__CORE_REPORT:
		on_agent_report(core, event->node, event->report);
		break;
	case TFC__CORE_PLACED:
	case TFC__CORE_UNPLACED:
		tfc__place_receive(core, event);
		break;
	case TFC__CORE_ROOM:
		tfc__place_retry(core);
		break;
	case TFC__CORE_NODE_DRAIN:
		tfc__node_drain(core, event->node,
				event->text ? event->text : "its node is drained");
		break;
	case TFC__CORE_LEAVE:
		tfc__tasks_leave(core, event->task, event->count,
				 event->text ? event->text : "its placement has changed");
		break;
	case TFC__CORE_SUSPEND:
		tfc__end_suspend(core);
		break;
	case TFC__CORE_STOP:
		tfc__end_by_user(core, event->interrupt_ns, event->is_kill);
		break;
	case TFC__CORE_TICK:
		on_core_tick(core);
		break;
	}
	tfc__query_conclude(core);
	tfc__gang_request_places(core);
}

const struct tfc__core_action *tfc__core_next(struct tfc__core *core)
{
	return core->action_read < core->action_count ? &core->actions[core->action_read++] : NULL;
}

uint64_t tfc__core_wake_at(const struct tfc__core *core)
{
	bool is_group_waiting = core->group == GROUP_ABORTING && core->members_alive == 0;
	uint64_t clocks[] = {core->heap_len ? core->heap[0]->timer : 0,
			     core->start_deadline_at,
			     core->deadline_at,
			     core->interrupt_at,
			     core->end_explain_at,
			     core->explain_at,
			     core->no_listener_at,
			     core->pending_deadline_at,
			     core->repeat_at,
			     core->snapshot_at,
			     is_group_waiting ? core->group_at : 0};
	uint64_t least = 0;
	if (core->phase == CORE_FENCED)
		return 0;
	for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++)
		if (clocks[i] && (least == 0 || clocks[i] < least))
			least = clocks[i];
	return least;
}

/* ---- queries */

uint32_t tfc__core_task_count(const struct tfc__core *core)
{
	return core->task_count;
}

uint32_t tfc__core_job_state(const struct tfc__core *core)
{
	return core->job_state;
}

uint32_t tfc__core_generation(const struct tfc__core *core)
{
	return core->generation;
}

uint32_t tfc__core_task_state(const struct tfc__core *core, uint32_t task)
{
	return core->tasks[task].state;
}

const char *tfc__core_ignored_failure(const struct tfc__core *core, uint32_t task)
{
	return core->tasks[task].phase == PHASE_IGNORED ? core->tasks[task].why : NULL;
}

uint32_t tfc__core_attempt(const struct tfc__core *core, uint32_t task)
{
	return core->tasks[task].attempt;
}
