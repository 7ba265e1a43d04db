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

/* The task is not reaped yet, so nobody else can have its number or its group's. */
static void signal_group(struct shim *shim, int number)
{
	if (kill(-shim->task, number) < 0)
		kill(shim->task, number);
}

void end_kill(struct shim *shim)
{
	shim->kill_at = 0;
	if (shim->is_dead)
		return;
	kill(-shim->task, SIGKILL);
	kill(shim->task, SIGKILL); /* it may have joined another group of its session */
	isolation_kill(shim);
}

static void set_timer(const struct shim *shim)
{
	bool is_lease_first = shim->lease_at && (!shim->kill_at || shim->lease_at < shim->kill_at);
	uint64_t at = is_lease_first ? shim->lease_at : shim->kill_at;
	const struct itimerspec spec = {
		.it_value = {(time_t)(at / TFC__SECOND), (long)(at % TFC__SECOND)}};
	timerfd_settime(shim->timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* A stop that is under way with a longer grace is shortened. */
void end_watch_lease(struct shim *shim)
{
	if (shim->is_dead)
		return;
	if (lease_is_over(shim))
		end_stop(shim, shim->lease_end + shim->command.lease_grace_ms * TFC__MS);
	set_timer(shim); /* also for a stop whose deadline comes before that */
}

/* One that was set for a kill that came earlier fires all the same. */
void end_due(struct shim *shim)
{
	uint64_t times, now = tfc__boot_time();
	if (read(shim->timer, &times, sizeof(times)) < 0)
		return; /* set anew in the meantime */
	if (shim->kill_at && shim->kill_at <= now)
		end_kill(shim);
	end_watch_lease(shim);
}

void end_stop(struct shim *shim, uint64_t kill_at)
{
	if (shim->is_dead)
		return;
	bool is_first = !shim->is_stopping;
	shim->is_stopping = true;
	if (kill_at <= tfc__boot_time()) {
		end_kill(shim);
		return;
	}
	if (is_first || (shim->kill_at && kill_at < shim->kill_at)) {
		shim->kill_at = kill_at;
		set_timer(shim);
	}
	if (is_first) {
		signal_group(shim, SIGTERM);
		signal_group(shim, SIGCONT);
	}
}

void end_stop_after(struct shim *shim, uint64_t grace_ms)
{
	end_stop(shim, tfc__boot_time() + grace_ms * TFC__MS);
}

static uint64_t microseconds(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_usec;
}

/* The group goes before the leader is reaped: afterwards its number may belong to others. */
static void task_died(struct shim *shim)
{
	struct rusage usage;
	int status = 0;
	shim->report.time_ns = tfc__wall();
	kill(-shim->task, SIGKILL);
	isolation_kill(shim);
	if (wait4(shim->task, &status, 0, &usage) < 0)
		return;
	shim->is_dead = true;
	shim->kill_at = 0;
	bool is_signal = WIFSIGNALED(status);
	shim->report.reason = is_signal ? TFC__END_SIGNAL : TFC__END_CODE;
	shim->report.status = is_signal ? WTERMSIG(status) : WEXITSTATUS(status);
	shim->report.user_us = microseconds(usage.ru_utime);
	shim->report.system_us = microseconds(usage.ru_stime);
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
		if (info.si_pid == shim->task && !shim->is_dead)
			task_died(shim);
		else
			wait4(info.si_pid, NULL, 0, NULL);
	}
	if (shim->is_dead)
		tfc__sweep(getpid(), NULL, NULL);
	return false;
}
