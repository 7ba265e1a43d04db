#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/guard.h"

/*
 * Many short intervals instead of one long one: when host and guard were both stopped for a while,
 * the first heartbeat afterwards comes too early to blame the guard.
 */
#define HEARTBEAT (2 * TFC__SECOND)
#define MISSED_HEARTBEATS_MAX 4

#define SIGNAL_MAX 64

int tfc__guard_ping(struct tfc__guard *guard)
{
	const struct tfc__command command = {.kind = TFC__MSG_PING};
	int code = tfc__guard_send(guard, &command, -1, NULL, 0);
	guard->pings += code == TFC_OK;
	return code;
}

void tfc__guard_ponged(struct tfc__guard *guard)
{
	if (++guard->pongs != guard->release_ping)
		return;
	guard->confirmed = guard->pinged_releases;
	tfc__guard_unpark(&guard->releasing);
}

void tfc__guard_expect(struct tfc__guard *guard)
{
	if (guard->heartbeat.at)
		return;
	guard->missed_heartbeats = 0;
	tfc__timer_set(&guard->heartbeat, tfc__now() + HEARTBEAT);
}

void tfc__guard_on_heartbeat(struct tfc__timer *heartbeat)
{
	struct tfc__guard *guard = tfc__container_of(heartbeat, struct tfc__guard, heartbeat);
	tfc__guard_receive(guard); /* its response may already be in the socket */
	bool is_awaited = !guard->is_known || guard->stops ||
			  !tfc__list_is_empty(&guard->releasing);
	if (guard->is_dead || !is_awaited)
		return;
	if (guard->missed_heartbeats++ == MISSED_HEARTBEATS_MAX) {
		tfc__guard_fail(guard, "does not respond");
		return;
	}
	tfc__guard_ping(guard);
	if (!guard->is_dead)
		tfc__timer_set(&guard->heartbeat, tfc__now() + HEARTBEAT);
}

static bool report_end_is_valid(const struct tfc__report *report)
{
	switch (report->reason) {
	case TFC__END_CODE:
		return report->status >= 0 && report->status <= 255;
	case TFC__END_SIGNAL:
		return report->status > 0 && report->status <= SIGNAL_MAX;
	case TFC__END_LOST:
	case TFC__END_NOT_STARTED:
		return true;
	}
	return false;
}

bool tfc__guard_report_is_valid(const struct tfc__guard *guard, const struct tfc__report *report)
{
	switch (report->kind) {
	case TFC__MSG_HELLO:
		return !guard->is_known && report->status == TFC__PROTOCOL_VERSION;
	case TFC__MSG_STARTED:
		return guard->is_known && report->pid > 0 && report->isolation > 0 &&
		       report->isolation <= TFC__ISOLATION_PIDNS;
	case TFC__MSG_STALLED:
	case TFC__MSG_CONTINUED:
	case TFC__MSG_OUTPUT_RESUMED:
		return guard->is_known && report->pid > 0;
	case TFC__MSG_SUSPENDED:
		return guard->is_known && report->pid > 0 && report->status > 0 &&
		       report->status <= SIGNAL_MAX;
	case TFC__MSG_OUTPUT_LOST:
		return guard->is_known && report->pid > 0 && report->status > 0;
	case TFC__MSG_EXITED:
		return guard->is_known && report_end_is_valid(report);
	case TFC__MSG_OVER:
	case TFC__MSG_NOT_KEPT:
	case TFC__MSG_PONG:
	case TFC__MSG_READY: /* perhaps before STARTED, so without a pid */
		return guard->is_known;
	}
	return false;
}

void tfc__guard_kill(struct tfc__guard *guard)
{
	siginfo_t info = {.si_pid = 0};
	if (guard->pidfd.fd >= 0) {
		syscall(SYS_pidfd_send_signal, guard->pidfd.fd, SIGKILL, NULL, 0);
		return;
	}
	/* The pid is the guard's as long as the guard is an unreaped child of this process. */
	if (waitid(P_PID, (id_t)guard->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid)
		return;
	int pidfd = (int)syscall(SYS_pidfd_open, guard->pid, 0);
	kill(guard->pid, SIGKILL);
	if (pidfd >= 0)
		tfc__guard_watch(guard, pidfd);
}

void tfc__guard_fail(struct tfc__guard *guard, const char *why)
{
	tfc__log(guard->ctx, TFC_LOG_ERROR, "proc", "", "the guard (process %d) %s; killing it",
		 (int)guard->pid, why);
	tfc__guard_died(guard);
}
