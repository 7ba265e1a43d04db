#include "guard.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

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
	if (is_same && !lease->is_over && lease->deadline <= tfc__boot_time())
		end(guard, lease); /* it came when the time was over, and we had not noticed */
	if (is_same && lease->is_over)
		return;
	*lease = (struct lease){.id = command->lease,
				.deadline = command->deadline_ns,
				.length_ms = command->value};
	if (lease->deadline <= tfc__boot_time())
		end(guard, lease);
	else
		deadline_add(guard, lease->deadline);
}

void lease_due(struct guard *guard, uint64_t now)
{
	uint64_t next = 0;
	for (uint32_t i = 0; i < guard->lease_capacity; i++) {
		struct lease *lease = &guard->leases[i];
		if (!lease->id || lease->is_over)
			continue;
		if (lease->deadline <= now)
			end(guard, lease);
		else if (!next || lease->deadline < next)
			next = lease->deadline;
	}
	if (next)
		deadline_add(guard, next);
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
