/*
 * Virtual time. Each machine has a monotonic, a boot and a wall clock that drift; the library reads
 * them through clock_gettime, sets its timer by timerfd_settime, and its few blocking waits are
 * poll. The real timers never run.
 */
#include "sim.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <sodium.h>

#define MILLION INT64_C(1000000)
#define WALL_AT_0 (UINT64_C(1800000000) * SIM_SECOND)

/* Worlds last minutes: the products stay below 2^63. */
static uint64_t drifted(uint64_t ns, int64_t ppm)
{
	return (uint64_t)((int64_t)ns + (int64_t)ns / MILLION * ppm +
			  (int64_t)ns % MILLION * ppm / MILLION);
}

/* The first time at which the drifted clock shows `ns`. */
static uint64_t undrifted(uint64_t ns, int64_t ppm)
{
	uint64_t at = (uint64_t)((int64_t)ns - (int64_t)ns / (MILLION + ppm) * ppm);
	while (drifted(at, ppm) < ns)
		at += ns - drifted(at, ppm);
	return at;
}

static uint64_t asleep(const struct sim_machine *machine)
{
	bool is_asleep = machine->power == SIM_SUSPENDED;
	return machine->suspended + (is_asleep ? sim.now - machine->asleep_since : 0);
}

uint64_t sim_clock(const struct sim_machine *machine, clockid_t clock)
{
	if (clock == CLOCK_MONOTONIC)
		return machine->started + drifted(sim.now - asleep(machine), machine->drift_ppm);
	uint64_t boot = machine->started + drifted(sim.now, machine->drift_ppm);
	if (clock == CLOCK_BOOTTIME)
		return boot;
	return (uint64_t)((int64_t)(WALL_AT_0 + boot) + machine->wall_ahead);
}

uint64_t sim_true_time(const struct sim_machine *machine, clockid_t clock, uint64_t shown)
{
	uint64_t since = shown > machine->started ? shown - machine->started : 0;
	uint64_t at = undrifted(since, machine->drift_ppm);
	return clock == CLOCK_MONOTONIC ? at + asleep(machine) : at;
}

/* ---- what the library calls */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	uint64_t ns = sim.kernel ? sim_clock(sim.kernel, clock) : sim.now + SIM_SECOND;
	*ret_time = (struct timespec){(time_t)(ns / SIM_SECOND), (long)(ns % SIM_SECOND)};
	return 0;
}

/* A host has one timer: its context's. */
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value,
			   struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value,
			   struct itimerspec *old)
{
	if (!sim.current || !(flags & TFD_TIMER_ABSTIME) || old)
		abort();
	sim.current->wake = (uint64_t)value->it_value.tv_sec * SIM_SECOND +
			    (uint64_t)value->it_value.tv_nsec;
	return 0;
}

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

/* A blocking wait is for the own guard or store: they go on, or time does. */
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	uint64_t until = sim.now + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * SIM_MS;
	for (;;) {
		int ready = __real_poll(fds, count, 0);
		if (ready || timeout_ms == 0 || sim.now >= until)
			return ready;
		sim_wait(until);
	}
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	fprintf(stderr, "the library sleeps\n");
	abort();
}

/* ---- chance */

static void fill(void *data, size_t len)
{
	unsigned char *at = data;
	for (size_t i = 0; i < len; i++)
		at[i] = (unsigned char)sim_draw(256);
}

ssize_t __wrap_getrandom(void *data, size_t len, unsigned flags);
ssize_t __wrap_getrandom(void *data, size_t len, unsigned flags)
{
	fill(data, len);
	return (ssize_t)len;
}

/* The pool of ports begins where this and the time say. */
pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void)
{
	return 1;
}

static const char *chance_name(void)
{
	return "simulation";
}

static uint32_t chance_number(void)
{
	return (uint32_t)sim_draw(UINT64_C(1) << 32);
}

__attribute__((constructor)) static void use_chance(void)
{
	static struct randombytes_implementation chance = {
		.implementation_name = chance_name,
		.random = chance_number,
		.buf = fill,
	};
	randombytes_set_implementation(&chance);
}
