#include "guard.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE (TFC__LEASES_MAX * sizeof(struct tfc__lease_entry))

/* Maps the maximum size; unused pages take no memory. */
int lease_open(struct guard *guard)
{
	guard->lease_memory = memfd_create("tfc-leases", MFD_CLOEXEC);
	void *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, guard->lease_memory, 0);
	guard->core.leases = memory == MAP_FAILED ? NULL : memory;
	return guard->core.leases ? 0 : -1;
}

static void make_room(struct guard *guard, uint32_t index)
{
	if (index < guard->lease_room || index >= TFC__LEASES_MAX)
		return;
	off_t size = (off_t)((index + 1) * sizeof(struct tfc__lease_entry));
	if (ftruncate(guard->lease_memory, size) < 0)
		abort(); /* the shims then stop their tasks: better than tasks without a deadline */
	guard->lease_room = index + 1;
}

void lease_receive(struct guard *guard, const struct tfc__command *command)
{
	make_room(guard, (uint32_t)command->lease);
	decide(guard, (struct guard_event){.kind = GUARD_LEASE, .command = command});
}
