#include "core.h"

#include <stddef.h>

#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

/*
 * How long after the grace the guard kills a task itself, and how long after that it kills the
 * shim, which may still be writing output into a slow log.
 */
#define FORCE_MARGIN (1 * SECOND)
#define FORCE_SHIM_MARGIN (5 * SECOND)

/* One event, and the receiver of its actions. */
struct step {
	struct guard_core *core;
	uint64_t now;
	guard_act_fn act;
	void *user;
};

static void guard_core_act(const struct step *step, const struct guard_action *action)
{
	step->act(step->user, action);
}

static void guard_core_send_report(const struct step *step, const struct tfc__report *report)
{
	guard_core_act(step, &(struct guard_action){.kind = GUARD_SEND_REPORT, .report = report});
}

/*
 * One timer serves the deadlines of leases and stops. Only an earlier deadline rearms it. A
 * deadline that has moved is noticed when the timer fires: once per lease length, however often the
 * lease is renewed.
 */
static void guard_core_add_deadline(struct guard_core *core, uint64_t at)
{
	if (!core->timer_at || at < core->timer_at)
		core->timer_at = at;
}

/* ---- the table */

static void guard_core_free_slot(struct guard_core *core, uint32_t slot)
{
	core->tasks[slot] = (struct guard_task){.next = core->free_slot};
	core->free_slot = slot + 1;
	core->task_count--;
}

/* The host reuses its indexes, which are small; a slot is only freed once its shim is reaped. */
uint32_t guard_core_find(const struct guard_core *core, uint64_t id)
{
	uint32_t index = (uint32_t)id;
	uint32_t slot = index < core->index_capacity ? core->slots[index] : 0;
	return slot && core->tasks[slot - 1].is_used && core->tasks[slot - 1].id == id ? slot - 1
										       : NO_SLOT;
}

static void guard_slots_add(struct guard_core *core, struct guard_slots *list, uint32_t slot)
{
	struct guard_task *task = &core->tasks[slot];
	task->next = 0;
	task->prev = list->last;
	*(list->last ? &core->tasks[list->last - 1].next : &list->first) = slot + 1;
	list->last = slot + 1;
}

static void guard_slots_remove(struct guard_core *core, struct guard_slots *list, uint32_t slot)
{
	const struct guard_task *task = &core->tasks[slot];
	*(task->prev ? &core->tasks[task->prev - 1].next : &list->first) = task->next;
	*(task->next ? &core->tasks[task->next - 1].prev : &list->last) = task->prev;
}

/* ---- stopping */

static void guard_core_stop(const struct step *step, uint32_t slot, uint64_t kill_at)
{
	struct guard_task *task = &step->core->tasks[slot];
	uint64_t at = kill_at + FORCE_MARGIN;
	if (task->is_reported || task->is_lost)
		return;
	guard_core_act(step, &(struct guard_action){.kind = GUARD_SEND_STOP,
						    .slot = slot,
						    .kill_at = kill_at});
	if (task->force == FORCE_NONE)
		guard_slots_add(step->core, &step->core->stopping, slot);
	if (task->force == FORCE_NONE || (task->force == FORCE_TASK && at < task->force_at)) {
		task->force = FORCE_TASK;
		task->force_at = at;
		guard_core_add_deadline(step->core, at);
	}
}

static void guard_core_stop_all(const struct step *step, bool is_at_once)
{
	const struct guard_core *core = step->core;
	for (uint32_t slot = 0; slot < core->slot_count; slot++)
		if (core->tasks[slot].is_used)
			guard_core_stop(step, slot,
					is_at_once ? step->now
						   : step->now + core->tasks[slot].grace_ms * MS);
}

/* The task's end is known: a stop needs no force. */
static void guard_core_end_force(struct guard_core *core, uint32_t slot)
{
	const struct guard_task *task = &core->tasks[slot];
	if (task->force != FORCE_NONE && !task->is_reported && !task->is_lost)
		guard_slots_remove(core, &core->stopping, slot);
}

/* The shim has not carried out the stop: it is stopped itself, or stuck in the kernel. */
static void guard_core_force(const struct step *step, uint32_t slot)
{
	struct guard_task *task = &step->core->tasks[slot];
	bool is_first = task->force == FORCE_TASK;
	guard_core_act(step,
		       &(struct guard_action){.kind = is_first ? GUARD_KILL_TASK : GUARD_KILL_SHIM,
					      .slot = slot,
					      .pid = is_first ? task->pid : 0});
	task->force = FORCE_SHIM;
	task->force_at = step->now + FORCE_SHIM_MARGIN;
}

static void guard_core_force_due(const struct step *step)
{
	struct guard_core *core = step->core;
	for (uint32_t at = core->stopping.first; at; at = core->tasks[at - 1].next) {
		if (core->tasks[at - 1].force_at <= step->now)
			guard_core_force(step, at - 1);
		guard_core_add_deadline(core, core->tasks[at - 1].force_at);
	}
}

/* ---- leases */

static void lease_entry_set_id(struct tfc__lease_entry *lease, uint64_t id)
{
	__atomic_store_n(&lease->id, id, __ATOMIC_SEQ_CST);
}

/*
 * The grace begins at the deadline, even if that is noticed late. A stop in progress with a longer
 * grace is shortened.
 */
static void guard_core_end_lease(const struct step *step, struct tfc__lease_entry *lease)
{
	struct guard_core *core = step->core;
	lease->is_over = true;
	guard_core_send_report(step, &(struct tfc__report){.kind = TFC__MSG_OVER,
							   .id = lease->id,
							   .silent_ms = lease->length_ms});
	for (uint32_t slot = 0; slot < core->slot_count; slot++) {
		struct guard_task *task = &core->tasks[slot];
		if (!task->is_used || task->lease != lease->id)
			continue;
		task->silent_ms = lease->length_ms;
		guard_core_stop(step, slot, lease->deadline_ns + task->lease_grace_ms * MS);
	}
}

static void guard_core_leases_due(const struct step *step)
{
	struct guard_core *core = step->core;
	for (uint32_t i = 0; i < core->lease_count; i++) {
		struct tfc__lease_entry *lease = &core->leases[i];
		if (!lease->id || lease->is_over)
			continue;
		if (lease->deadline_ns <= step->now)
			guard_core_end_lease(step, lease);
		else
			guard_core_add_deadline(core, lease->deadline_ns);
	}
}

static void guard_core_set_lease(const struct step *step, const struct tfc__command *command)
{
	struct guard_core *core = step->core;
	uint32_t index = (uint32_t)command->lease;
	if (!command->lease || index >= TFC__LEASES_MAX)
		return;
	if (index >= core->lease_count)
		core->lease_count = index + 1;
	struct tfc__lease_entry *lease = &core->leases[index];
	bool is_same = lease->id == command->lease;
	if (!command->deadline_ns) {
		if (is_same)
			lease_entry_set_id(lease, 0);
		return;
	}
	/* The renewal may have come after a deadline that has not been noticed. */
	if (is_same && !lease->is_over && lease->deadline_ns <= step->now)
		guard_core_end_lease(step, lease);
	if (is_same && lease->is_over)
		return;
	if (!is_same) {
		lease_entry_set_id(lease, 0);
		lease->is_over = false;
	}
	lease->length_ms = command->value;
	__atomic_store_n(&lease->deadline_ns, command->deadline_ns, __ATOMIC_SEQ_CST);
	lease_entry_set_id(lease, command->lease);
	if (lease->deadline_ns <= step->now)
		guard_core_end_lease(step, lease);
	else
		guard_core_add_deadline(core, lease->deadline_ns);
}

/* NULL: the lease is in force, or id is 0. Otherwise a lease that is over. */
static const struct tfc__lease_entry *guard_core_find_over(const struct step *step, uint64_t id)
{
	static const struct tfc__lease_entry unknown = {.is_over = true};
	uint32_t index = (uint32_t)id;
	if (!id)
		return NULL;
	if (index >= step->core->lease_count || step->core->leases[index].id != id)
		return &unknown;
	const struct tfc__lease_entry *lease = &step->core->leases[index];
	return lease->is_over || lease->deadline_ns <= step->now ? lease : NULL;
}

/* ---- starting */

static void guard_core_report_not_started(const struct step *step, uint64_t id, int error)
{
	guard_core_send_report(step, &(struct tfc__report){.kind = TFC__MSG_EXITED,
							   .reason = TFC__END_NOT_STARTED,
							   .id = id,
							   .step = TFC__STEP_GUARD,
							   .status = error});
}

static uint32_t guard_core_spawn(const struct step *step, const struct tfc__command *command,
				 int error)
{
	struct guard_core *core = step->core;
	const struct tfc__lease_entry *over = guard_core_find_over(step, command->lease);
	if (over) /* whoever requested the start has no authority any more */
		guard_core_send_report(step,
				       &(struct tfc__report){.kind = TFC__MSG_EXITED,
							     .reason = TFC__END_LOST,
							     .id = command->id,
							     .silent_ms = over->length_ms
										  ? over->length_ms
										  : 1});
	else if (error)
		guard_core_report_not_started(step, command->id, error);
	if (over || error)
		return NO_SLOT;
	uint32_t slot = core->free_slot ? core->free_slot - 1 : core->slot_count++;
	if (core->free_slot)
		core->free_slot = core->tasks[slot].next;
	core->slots[(uint32_t)command->id] = slot + 1;
	core->task_count++;
	core->tasks[slot] = (struct guard_task){.is_used = true,
						.id = command->id,
						.keep_id = command->keep_id,
						.grace_ms = command->grace_ms,
						.lease_grace_ms = (uint32_t)command->lease_grace_ms,
						.lease = command->lease};
	return slot;
}

/* ---- reports and deaths */

static void guard_core_forward_report(const struct step *step, uint32_t slot,
				      const struct tfc__report *from_shim)
{
	struct guard_task *task = &step->core->tasks[slot];
	struct tfc__report report = *from_shim;
	bool may_be_oom = report.reason == TFC__END_SIGNAL && !task->force_at;
	report.id = task->id;
	if (report.kind == TFC__MSG_STARTED) {
		task->pid = report.pid;
	} else if (report.kind == TFC__MSG_EXITED) {
		guard_core_end_force(step->core, slot);
		task->is_reported = true;
	} else if (report.kind != TFC__MSG_STALLED && report.kind != TFC__MSG_SUSPENDED &&
		   report.kind != TFC__MSG_CONTINUED && report.kind != TFC__MSG_OUTPUT_LOST &&
		   report.kind != TFC__MSG_OUTPUT_RESUMED) {
		return;
	}
	if (report.kind == TFC__MSG_EXITED && task->silent_ms &&
	    report.reason != TFC__END_NOT_STARTED)
		report.silent_ms = task->silent_ms; /* otherwise the shim may have set it first */
	if (report.kind == TFC__MSG_EXITED && report.silent_ms)
		report.reason = TFC__END_LOST; /* the exit status of a task that was ended for its
						  lease means nothing */
	guard_core_act(step, &(struct guard_action){.kind = GUARD_SEND_REPORT,
						    .slot = slot,
						    .may_be_oom = may_be_oom,
						    .report = &report});
}

static void guard_core_release(const struct step *step, uint32_t slot)
{
	guard_core_act(step, &(struct guard_action){.kind = GUARD_FREE_SLOT, .slot = slot});
	guard_core_free_slot(step->core, slot);
}

/* The slot stays in use until the end is reported. */
static void guard_core_shim_died(const struct step *step, uint32_t slot)
{
	struct guard_task *task = &step->core->tasks[slot];
	if (task->is_reported) {
		guard_core_release(step, slot);
		return;
	}
	guard_core_end_force(step->core, slot);
	task->is_lost = true;
	guard_slots_add(step->core, &step->core->lost, slot);
	guard_core_act(step, &(struct guard_action){.kind = GUARD_KILL_REST, .slot = slot});
}

static void guard_core_report_lost(const struct step *step)
{
	struct guard_core *core = step->core;
	while (core->lost.first) {
		uint32_t slot = core->lost.first - 1;
		const struct guard_task *task = &core->tasks[slot];
		guard_core_send_report(step, &(struct tfc__report){.kind = TFC__MSG_EXITED,
								   .reason = TFC__END_LOST,
								   .id = task->id,
								   .pid = task->pid,
								   .silent_ms = task->silent_ms});
		guard_slots_remove(core, &core->lost, slot);
		guard_core_release(step, slot);
	}
}

/* ---- events */

uint32_t guard_core_step(struct guard_core *core, const struct guard_event *event,
			 guard_act_fn act_fn, void *user)
{
	const struct step step = {core, event->now, act_fn, user};
	uint32_t slot;
	switch (event->kind) {
	case GUARD_SPAWN:
		return guard_core_spawn(&step, event->command, event->error);
	case GUARD_SPAWN_FAILED:
		guard_core_report_not_started(&step, core->tasks[event->slot].id, event->error);
		guard_core_end_force(core, event->slot); /* it was stopped before it was started */
		guard_core_free_slot(core, event->slot);
		break;
	case GUARD_STOP:
		slot = guard_core_find(core, event->command->id);
		if (slot != NO_SLOT)
			guard_core_stop(&step, slot, event->command->deadline_ns);
		break;
	case GUARD_LEASE:
		guard_core_set_lease(&step, event->command);
		break;
	case GUARD_KILL_ALL:
		guard_core_stop_all(&step, true);
		break;
	case GUARD_HOST_GONE:
		guard_core_stop_all(&step, false);
		break;
	case GUARD_SHIM_REPORT:
		guard_core_forward_report(&step, event->slot, event->report);
		break;
	case GUARD_SHIM_DIED:
		guard_core_shim_died(&step, event->slot);
		break;
	case GUARD_NONE_LEFT:
		guard_core_report_lost(&step);
		break;
	case GUARD_TIMER:
		core->timer_at = 0;
		guard_core_leases_due(&step);
		guard_core_force_due(&step);
		break;
	}
	return NO_SLOT;
}
