/*
 * Preloaded into a node: its clocks are ahead of the machine's by what the file of TFC_TEST_OFFSETS
 * has, numbers of nanoseconds that the test may change at any time. Behind them the node notes
 * those that it has used last.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { REALTIME, MONOTONIC, BOOTTIME, CLOCKS };

static volatile struct offsets {
	int64_t ahead_ns[CLOCKS], used_ns[CLOCKS];
} * offsets;

__attribute__((constructor)) static void offsets_map(void)
{
	const char *path = getenv("TFC_TEST_OFFSETS");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *map = mmap(NULL, sizeof(*offsets), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		abort();
	offsets = map;
	close(fd);
}

static void time_add(struct timespec *time, int64_t ns)
{
	int64_t sum = time->tv_sec * INT64_C(1000000000) + time->tv_nsec + ns;
	sum = sum < 1 ? 1 : sum;
	time->tv_sec = sum / 1000000000;
	time->tv_nsec = sum % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	int which = clock == CLOCK_REALTIME    ? REALTIME
		    : clock == CLOCK_MONOTONIC ? MONOTONIC
		    : clock == CLOCK_BOOTTIME  ? BOOTTIME
					       : CLOCKS;
	int done = (int)syscall(SYS_clock_gettime, clock, ret_time);
	if (done < 0 || which == CLOCKS)
		return done;
	int64_t ahead_ns = offsets->ahead_ns[which];
	time_add(ret_time, ahead_ns);
	offsets->used_ns[which] = ahead_ns;
	return done;
}

/* The library has timers of CLOCK_MONOTONIC alone. */
int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	struct itimerspec moved = *new;
	if (flags & TFD_TIMER_ABSTIME && (new->it_value.tv_sec || new->it_value.tv_nsec))
		time_add(&moved.it_value, -offsets->ahead_ns[MONOTONIC]);
	return (int)syscall(SYS_timerfd_settime, fd, flags, &moved, old);
}
