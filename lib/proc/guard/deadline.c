#include "guard.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"

/* CLOCK_BOOTTIME: a deadline that passed during a suspend is due when the machine resumes. */

int deadline_open(struct guard *guard)
{
	guard->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	return guard->timer < 0 ? -1 : watch(guard, guard->timer, EPOLLIN, WATCH_DEADLINES);
}

void deadline_set(struct guard *guard, uint64_t at)
{
	const struct itimerspec spec = {
		.it_value = {(time_t)(at / TFC__SECOND), (long)(at % TFC__SECOND)}};
	if (guard->timer_at == at)
		return;
	guard->timer_at = at;
	timerfd_settime(guard->timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

void deadline_due(struct guard *guard)
{
	uint64_t times;
	if (read(guard->timer, &times, sizeof(times)) < 0)
		return; /* it was rearmed in the meantime */
	guard->timer_at = 0;
	decide(guard, (struct guard_event){.kind = GUARD_TIMER});
}
