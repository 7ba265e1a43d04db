/*
 * A task that is suspended: a signal has stopped it (SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU), and it
 * uses no CPU time until SIGCONT. The kernel sends SIGCHLD to the shim for both. A suspension of
 * the requested length is reported, and later its end. A shorter one is not.
 */
#include "shim.h"

#include <sys/wait.h>

#include "base/clock.h"

static uint32_t suspension_step(struct shim *shim, enum shim_event_kind kind)
{
	struct shim_result result = end_step(shim,
					     &(struct shim_event){.kind = kind, .now = tfc__now()});
	if (!(result.actions & (SHIM_REPORT_SUSPENDED | SHIM_REPORT_CONTINUED)))
		return 0;
	shim->report.silent_ms = result.silent_ms;
	shim->report.time_ns = tfc__wall();
	return result.actions & SHIM_REPORT_SUSPENDED ? TFC__MSG_SUSPENDED : TFC__MSG_CONTINUED;
}

void suspension_watch(struct shim *shim, uint32_t suspend_ms)
{
	if (suspend_ms)
		end_step(shim, &(struct shim_event){.kind = SHIM_WATCH_SUSPENSION,
						    .silence_ms = suspend_ms});
}

/* Of several changes the kernel keeps the last. */
uint32_t suspension_observe(struct shim *shim)
{
	siginfo_t info = {.si_pid = 0};
	if (!shim->core.suspension || shim->core.is_dead ||
	    waitid(P_PID, (id_t)shim->task, &info, WSTOPPED | WCONTINUED | WNOHANG) < 0 ||
	    !info.si_pid)
		return 0;
	if (info.si_code == CLD_CONTINUED)
		return suspension_step(shim, SHIM_CONTINUED);
	shim->suspended_by = info.si_status;
	return suspension_step(shim, SHIM_SUSPENDED);
}

uint32_t suspension_is_due(struct shim *shim)
{
	return shim->core.suspension_at ? suspension_step(shim, SHIM_SUSPENSION) : 0;
}
