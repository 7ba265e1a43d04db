/*
 * Signs of life: output, and bytes on the progress pipe. A silence of the wanted length is told,
 * and told again each time it has grown by as much. The time of the last sign is kept, and poll's
 * timeout follows it when it runs out: a task that speaks costs a look at the clock, no timer.
 */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"

int stall_open(struct shim *shim, uint32_t stall_ms, int *ret_write_end)
{
	int ends[2];
	*ret_write_end = -1;
	if (stall_ms == 0)
		return 0;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return errno;
	fcntl(ends[0], F_SETFL,
	      O_NONBLOCK); /* the reader's end alone: a task's writes never fail */
	shim->stall.progress = ends[0];
	shim->stall.period = stall_ms * TFC__MS;
	stall_sign(shim);
	*ret_write_end = ends[1];
	return 0;
}

void stall_sign(struct shim *shim)
{
	struct stall *stall = &shim->stall;
	if (!stall->period)
		return;
	stall->last = tfc__now();
	stall->due = stall->last + stall->period;
}

/* What it says does not matter. At the end of file nobody is left who could say more. */
void stall_read(struct shim *shim)
{
	char bytes[4096];
	ssize_t len = read(shim->stall.progress, bytes, sizeof(bytes));
	if (len > 0)
		stall_sign(shim);
	if (len == 0) {
		close(shim->stall.progress);
		shim->stall.progress = -1;
	}
}

uint64_t stall_due(const struct shim *shim)
{
	return shim->is_dead || shim->is_stopping ? 0 : shim->stall.due;
}

bool stall_is_due(struct shim *shim)
{
	struct stall *stall = &shim->stall;
	uint64_t due = stall_due(shim), now = due ? tfc__now() : 0;
	if (!due || now < due)
		return false;
	stall->due = now + stall->period;
	shim->report.silent_ms = (uint32_t)((now - stall->last) / TFC__MS);
	shim->report.time_ns = tfc__wall();
	return true;
}
