/* Drives the core: passes events, its timer and its leases to it, and carries out its decisions. */
#include "guard.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"

#define LEASES_SIZE (TFC__LEASES_MAX * sizeof(struct tfc__lease_entry))

/* ---- the core's actions */

static void perform_guard_action(void *user, const struct guard_action *action)
{
	struct guard *guard = user;
	struct tfc__report report;
	switch (action->kind) {
	case GUARD_SEND_REPORT:
		report = *action->report;
		if (report.oom >= TFC__OOM_KILLED)
			oom_reset(guard); /* these kills are accounted for */
		else if (report.oom == TFC__OOM_UNKNOWN && action->may_be_oom &&
			 report.status == SIGKILL && oom_account(guard))
			report.oom = TFC__OOM_KILLED;
		if (!report.time_ns)
			report.time_ns = tfc__wall();
		host_report(guard, &report);
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
	uint32_t slot = guard_core_step(&guard->core, &event, perform_guard_action, guard);
	uint64_t at = guard->core.timer_at; /* 0: disarmed */
	const struct itimerspec spec = {
		.it_value = {(time_t)(at / TFC__SECOND), (long)(at % TFC__SECOND)}};
	if (guard->timer_at != at)
		timerfd_settime(guard->timer, TFD_TIMER_ABSTIME, &spec, NULL);
	guard->timer_at = at;
	return slot;
}

/* ---- the timer; CLOCK_BOOTTIME: a deadline that passed during a suspend is due afterwards */

int deadline_open(struct guard *guard)
{
	guard->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	return guard->timer < 0 ? -1 : watch(guard, guard->timer, EPOLLIN, WATCH_DEADLINES);
}

void deadline_due(struct guard *guard)
{
	uint64_t times;
	if (read(guard->timer, &times, sizeof(times)) < 0)
		return; /* it was rearmed in the meantime */
	guard->timer_at = 0;
	decide(guard, (struct guard_event){.kind = GUARD_TIMER});
}

/* ---- leases, in memory that is shared with the shims */

/* Maps the maximum size; unused pages take no memory. */
int lease_open(struct guard *guard)
{
	guard->lease_memory = memfd_create("tfc-leases", MFD_CLOEXEC);
	void *memory = mmap(NULL, LEASES_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			    guard->lease_memory, 0);
	guard->core.leases = memory == MAP_FAILED ? NULL : memory;
	return guard->core.leases ? 0 : -1;
}

void lease_receive(struct guard *guard, const struct tfc__command *command)
{
	uint32_t index = (uint32_t)command->lease;
	if (index >= guard->lease_room && index < TFC__LEASES_MAX) {
		off_t size = (off_t)((index + 1) * sizeof(struct tfc__lease_entry));
		if (ftruncate(guard->lease_memory, size) < 0)
			abort(); /* the shims then stop their tasks: better than tasks without a
				    deadline */
		guard->lease_room = index + 1;
	}
	decide(guard, (struct guard_event){.kind = GUARD_LEASE, .command = command});
}
