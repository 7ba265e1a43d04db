#include "guard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"

/*
 * Leases are kept on a clock that goes on while the machine sleeps. Only an earlier deadline sets
 * the timer anew; a renewal leaves it, and it finds out when it fires: one wake-up a lease length,
 * however often it is renewed.
 */

int lease_open(struct guard *guard)
{
	guard->lease_timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	return guard->lease_timer < 0 ? -1
				      : watch(guard, guard->lease_timer, EPOLLIN, WATCH_LEASES);
}

static void set_timer(struct guard *guard, uint64_t at)
{
	struct itimerspec spec = {
		.it_value = {(time_t)(at / TFC__SECOND), (long)(at % TFC__SECOND)}};
	guard->next_lease = at;
	timerfd_settime(guard->lease_timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* NULL: no such index. */
static struct lease *slot_of(struct guard *guard, uint64_t id)
{
	uint32_t index = (uint32_t)id;
	if (index >= TFC__LEASES_MAX)
		return NULL;
	if (index >= guard->lease_capacity) {
		uint32_t capacity = index + 16;
		struct lease *leases = realloc(guard->leases, capacity * sizeof(*leases));
		if (!leases)
			abort(); /* shims stop their tasks: better than tasks without an end */
		memset(leases + guard->lease_capacity, 0,
		       (capacity - guard->lease_capacity) * sizeof(*leases));
		guard->leases = leases;
		guard->lease_capacity = capacity;
	}
	return &guard->leases[index];
}

static void end(struct guard *guard, struct lease *lease)
{
	lease->is_over = true;
	host_tell(guard, &(struct tfc__report){.kind = TFC__MSG_OVER,
					       .id = lease->id,
					       .silent_ms = lease->length_ms,
					       .time_ns = tfc__wall()});
	task_stop_lease(guard, lease);
}

void lease_hear(struct guard *guard, const struct tfc__command *command)
{
	struct lease *lease = slot_of(guard, command->lease);
	if (!lease || !command->lease)
		return;
	bool is_same = lease->id == command->lease;
	if (!command->deadline_ns) {
		lease->id = is_same ? 0 : lease->id;
		return;
	}
	if (is_same && lease->is_over)
		return;
	*lease = (struct lease){.id = command->lease,
				.deadline = command->deadline_ns,
				.length_ms = command->value};
	if (lease->deadline <= tfc__boot_time())
		end(guard, lease);
	else if (!guard->next_lease || lease->deadline < guard->next_lease)
		set_timer(guard, lease->deadline);
}

void lease_due(struct guard *guard)
{
	uint64_t times, now = tfc__boot_time(), next = 0;
	if (read(guard->lease_timer, &times, sizeof(times)) < 0)
		return; /* set anew in the meantime */
	for (uint32_t i = 0; i < guard->lease_capacity; i++) {
		struct lease *lease = &guard->leases[i];
		if (!lease->id || lease->is_over)
			continue;
		if (lease->deadline <= now)
			end(guard, lease);
		else if (!next || lease->deadline < next)
			next = lease->deadline;
	}
	guard->next_lease = 0;
	if (next)
		set_timer(guard, next);
}

const struct lease *lease_is_over(const struct guard *guard, uint64_t id)
{
	static const struct lease unknown = {.is_over = true};
	uint32_t index = (uint32_t)id;
	if (!id)
		return NULL;
	if (index >= guard->lease_capacity || guard->leases[index].id != id)
		return &unknown;
	const struct lease *lease = &guard->leases[index];
	return lease->is_over || lease->deadline <= tfc__boot_time() ? lease : NULL;
}
