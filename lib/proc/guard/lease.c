#include "guard.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"

#define SIZE (TFC__LEASES_MAX * sizeof(struct tfc__lease_entry))

/* Mapped as large as it can become; what is not used takes no memory. */
int lease_open(struct guard *guard)
{
	guard->lease_memory = memfd_create("tfc-leases", MFD_CLOEXEC);
	void *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, guard->lease_memory, 0);
	guard->leases = memory == MAP_FAILED ? NULL : memory;
	return guard->leases ? 0 : -1;
}

/* NULL: no such index. */
static struct tfc__lease_entry *entry_of(struct guard *guard, uint64_t id)
{
	uint32_t index = (uint32_t)id;
	if (index >= TFC__LEASES_MAX)
		return NULL;
	if (index >= guard->lease_count) {
		off_t size = (off_t)((index + 1) * sizeof(*guard->leases));
		if (ftruncate(guard->lease_memory, size) < 0)
			abort(); /* shims stop their tasks: better than tasks without an end */
		guard->lease_count = index + 1;
	}
	return &guard->leases[index];
}

static void set_id(struct tfc__lease_entry *lease, uint64_t id)
{
	__atomic_store_n(&lease->id, id, __ATOMIC_SEQ_CST);
}

static void set_deadline(struct tfc__lease_entry *lease, uint64_t at)
{
	__atomic_store_n(&lease->deadline_ns, at, __ATOMIC_SEQ_CST);
}

static void end(struct guard *guard, struct tfc__lease_entry *lease)
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
	struct tfc__lease_entry *lease = entry_of(guard, command->lease);
	if (!lease || !command->lease)
		return;
	bool is_same = lease->id == command->lease;
	if (!command->deadline_ns) {
		if (is_same)
			set_id(lease, 0);
		return;
	}
	if (is_same && !lease->is_over && lease->deadline_ns <= tfc__boot_time())
		end(guard, lease); /* it came when the time was over, and we had not noticed */
	if (is_same && lease->is_over)
		return;
	if (!is_same) {
		set_id(lease, 0);
		lease->is_over = false;
	}
	lease->length_ms = command->value;
	set_deadline(lease, command->deadline_ns);
	set_id(lease, command->lease);
	if (lease->deadline_ns <= tfc__boot_time())
		end(guard, lease);
	else
		deadline_add(guard, lease->deadline_ns);
}

void lease_due(struct guard *guard, uint64_t now)
{
	uint64_t next = 0;
	for (uint32_t i = 0; i < guard->lease_count; i++) {
		struct tfc__lease_entry *lease = &guard->leases[i];
		if (!lease->id || lease->is_over)
			continue;
		if (lease->deadline_ns <= now)
			end(guard, lease);
		else if (!next || lease->deadline_ns < next)
			next = lease->deadline_ns;
	}
	if (next)
		deadline_add(guard, next);
}

const struct tfc__lease_entry *lease_is_over(const struct guard *guard, uint64_t id)
{
	static const struct tfc__lease_entry unknown = {.is_over = true};
	uint32_t index = (uint32_t)id;
	if (!id)
		return NULL;
	if (index >= guard->lease_count || guard->leases[index].id != id)
		return &unknown;
	const struct tfc__lease_entry *lease = &guard->leases[index];
	return lease->is_over || lease->deadline_ns <= tfc__boot_time() ? lease : NULL;
}
