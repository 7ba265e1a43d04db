/* Carries out the core's decisions. */
#include "guard.h"

#include <signal.h>

#include "base/clock.h"

static void send_report(struct guard *guard, const struct guard_action *action)
{
	struct tfc__report report = *action->report;
	if (action->may_be_oom && report.status == SIGKILL)
		report.is_oom = oom_take(guard);
	if (!report.time_ns)
		report.time_ns = tfc__wall();
	host_report(guard, &report);
}

static void carry_out(void *user, const struct guard_action *action)
{
	struct guard *guard = user;
	switch (action->kind) {
	case GUARD_SEND_REPORT:
		send_report(guard, action);
		break;
	case GUARD_SEND_STOP:
		task_send_stop(guard, action->slot, action->kill_at);
		break;
	case GUARD_KILL_TASK:
		task_kill(guard, action->slot, action->pid);
		break;
	case GUARD_KILL_SHIM:
		task_kill_shim(guard, action->slot);
		break;
	case GUARD_KILL_REST:
		task_kill_rest(guard, action->slot);
		break;
	case GUARD_FREE_SLOT:
		task_free(guard, action->slot);
		break;
	}
}

uint32_t decide(struct guard *guard, struct guard_event event)
{
	event.now = tfc__boot_time();
	uint32_t slot = guard_core_step(&guard->core, &event, carry_out, guard);
	deadline_set(guard, guard->core.timer_at);
	return slot;
}
