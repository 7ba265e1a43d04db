/* Clocks, in nanoseconds. */
#ifndef TFC_BASE_CLOCK_H
#define TFC_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define TFC__MS UINT64_C(1000000)
#define TFC__SECOND UINT64_C(1000000000)

static inline uint64_t tfc__clock_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * TFC__SECOND + (uint64_t)now.tv_nsec;
}

static inline uint64_t tfc__now(void) /* for deadlines within this process */
{
	return tfc__clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t tfc__boot_time(void) /* for deadlines of leases and stops, see guard.h */
{
	return tfc__clock_ns(CLOCK_BOOTTIME);
}

static inline uint64_t tfc__wall(void) /* wall-clock time, for display */
{
	return tfc__clock_ns(CLOCK_REALTIME);
}

#endif
