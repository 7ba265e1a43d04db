#include "shim.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/sweep.h"

int end_open(struct shim *shim)
{
	shim->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	return shim->timer < 0 ? errno : 0;
}

/* The task is not reaped yet, so its pid and process group id cannot be reused. */
static void end_signal_group(struct shim *shim, int number)
{
	if (kill(-shim->task, number) < 0)
		kill(shim->task, number);
}

struct shim_result end_step(struct shim *shim, const struct shim_event *event)
{
	struct shim_result result = shim_core_step(&shim->core, event);
	if (result.actions & SHIM_TERM) {
		end_signal_group(shim, SIGTERM);
		end_signal_group(shim, SIGCONT);
	}
	if (result.actions & SHIM_KILL) {
		kill(-shim->task, SIGKILL);
		kill(shim->task, SIGKILL); /* it may have joined another group of its session */
		isolation_kill(shim);
	}
	uint64_t at = shim->core.timer_at;
	const struct itimerspec spec = {
		.it_value = {(time_t)(at / TFC__SECOND), (long)(at % TFC__SECOND)}};
	if (shim->timer_at != at)
		timerfd_settime(shim->timer, TFD_TIMER_ABSTIME, &spec, NULL);
	shim->timer_at = at;
	return result;
}

/*
 * Reads the lease of the task. The guard keeps the deadline in memory that it shares with all
 * shims, so that a shim ends its task in time even while the guard is stopped. Reads in the order
 * that struct tfc__lease_entry prescribes. False: no lease, or the entry is free or of another
 * lease.
 */
static bool end_read_lease(const struct shim *shim, struct tfc__lease_entry *ret_lease)
{
	const uint64_t id = shim->command.lease;
	off_t at = (off_t)((uint32_t)id * sizeof(*ret_lease));
	struct tfc__lease_entry again;
	if (!id)
		return false;
	ssize_t len = pread(TFC__SHIM_LEASES, ret_lease, sizeof(*ret_lease), at);
	return len == (ssize_t)sizeof(*ret_lease) && ret_lease->id == id &&
	       pread(TFC__SHIM_LEASES, &again, sizeof(again), at) == len && again.id == id;
}

struct shim_result end_decide(struct shim *shim, enum shim_event_kind kind)
{
	struct tfc__lease_entry lease;
	const struct shim_event event = {.kind = kind,
					 .now = tfc__boot_time(),
					 .command = &shim->command,
					 .lease = end_read_lease(shim, &lease) ? &lease : NULL};
	return end_step(shim, &event);
}

void end_due(struct shim *shim)
{
	uint64_t times;
	if (read(shim->timer, &times, sizeof(times)) < 0)
		return; /* it was rearmed in the meantime */
	shim->timer_at = 0;
	end_decide(shim, SHIM_TIMER);
}

static uint64_t timeval_us(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_usec;
}

/*
 * The process group is killed before the leader is reaped, because its id may be reused afterwards.
 */
static void end_task_died(struct shim *shim)
{
	struct rusage usage;
	int status = 0;
	shim->report.time_ns = tfc__wall();
	kill(-shim->task, SIGKILL);
	isolation_kill(shim);
	if (wait4(shim->task, &status, 0, &usage) < 0)
		return;
	end_decide(shim, SHIM_DIED);
	bool is_signal = WIFSIGNALED(status);
	shim->report.reason = is_signal ? TFC__END_SIGNAL : TFC__END_CODE;
	shim->report.status = is_signal ? WTERMSIG(status) : WEXITSTATUS(status);
	shim->report.user_us = timeval_us(usage.ru_utime);
	shim->report.system_us = timeval_us(usage.ru_stime);
	shim->report.max_rss_kib = (uint64_t)usage.ru_maxrss;
}

bool end_reap(struct shim *shim)
{
	for (;;) {
		siginfo_t info = {.si_pid = 0};
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
			return errno == ECHILD;
		if (!info.si_pid)
			break;
		if (info.si_pid == shim->task && !shim->core.is_dead)
			end_task_died(shim);
		else
			wait4(info.si_pid, NULL, 0, NULL);
	}
	if (shim->core.is_dead)
		tfc__sweep(getpid(), NULL, NULL);
	return false;
}
