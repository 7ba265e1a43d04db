#include "guard.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"

/*
 * One timer for the deadlines of leases and stops. Its clock goes on while the machine sleeps, and
 * a deadline that passed meanwhile is due when the machine goes on. Only an earlier deadline sets
 * the timer anew; one that was moved is found out when the timer fires: one wake-up a lease length,
 * however often a lease is renewed.
 */

int deadline_open(struct guard *guard)
{
	guard->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	return guard->timer < 0 ? -1 : watch(guard, guard->timer, EPOLLIN, WATCH_DEADLINES);
}

void deadline_add(struct guard *guard, uint64_t at)
{
	const struct itimerspec spec = {
		.it_value = {(time_t)(at / TFC__SECOND), (long)(at % TFC__SECOND)}};
	if (guard->timer_at && guard->timer_at <= at)
		return;
	guard->timer_at = at;
	timerfd_settime(guard->timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* Each adds those that it still waits for. */
void deadline_due(struct guard *guard)
{
	uint64_t times, now = tfc__boot_time();
	if (read(guard->timer, &times, sizeof(times)) < 0)
		return; /* set anew in the meantime */
	guard->timer_at = 0;
	lease_due(guard, now);
	task_force_due(guard, now);
}
