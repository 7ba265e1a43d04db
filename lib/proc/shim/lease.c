/*
 * The lease of the task. The guard keeps the deadline in memory that it shares with all shims, so
 * that a shim ends its task in time even while the guard is stopped.
 */
#include "shim.h"

#include <unistd.h>

/*
 * Reads in the order that struct tfc__lease_entry prescribes. False: no lease, or the entry is free
 * or of another lease.
 */
bool lease_read(const struct shim *shim, struct tfc__lease_entry *ret_lease)
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
