/*
 * The lease of the task. The guard keeps its deadline in memory that it shares with all shims, so
 * that a renewal wakes none of them: each looks when the deadline that it has seen last has passed.
 * So a lease ends its tasks also while the guard is stopped.
 */
#include "shim.h"

#include <unistd.h>

#include "base/clock.h"

/* Reads as the guard writes (struct tfc__lease_entry). False: somebody else's, or nobody's. */
static bool read_entry(const struct shim *shim, struct tfc__lease_entry *ret_entry)
{
	const uint64_t id = shim->command.lease;
	off_t at = (off_t)((uint32_t)id * sizeof(*ret_entry));
	struct tfc__lease_entry again;
	ssize_t len = pread(TFC__SHIM_LEASES, ret_entry, sizeof(*ret_entry), at);
	return len == (ssize_t)sizeof(*ret_entry) && ret_entry->id == id &&
	       pread(TFC__SHIM_LEASES, &again, sizeof(again), at) == len && again.id == id;
}

bool lease_is_over(struct shim *shim)
{
	struct tfc__lease_entry lease;
	shim->lease_at = 0;
	if (!shim->command.lease || shim->lost_ms || !read_entry(shim, &lease))
		return false; /* one that was given up has no end */
	if (!lease.is_over && lease.deadline_ns > tfc__boot_time()) {
		shim->lease_at = lease.deadline_ns;
		return false;
	}
	shim->lease_end = lease.deadline_ns;
	shim->lost_ms = lease.length_ms ? lease.length_ms : 1;
	return true;
}
