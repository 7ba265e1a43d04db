/*
 * Signs of life: output, and bytes on the progress pipe. A silence of the wanted length is told,
 * and told again each time it has grown by as much. poll's timeout follows the last sign when it
 * runs out: a task that speaks costs a look at the clock, no timer. Without a wanted length no
 * clock is read.
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
	shim->progress = ends[0];
	end_step(shim, &(struct shim_event){.kind = SHIM_WATCH_SILENCE,
					    .now = tfc__now(),
					    .silence_ms = stall_ms});
	*ret_write_end = ends[1];
	return 0;
}

void stall_sign(struct shim *shim)
{
	if (shim->core.silence)
		end_step(shim, &(struct shim_event){.kind = SHIM_SIGN, .now = tfc__now()});
}

/* What it says does not matter. At the end of file nobody is left who could say more. */
void stall_read(struct shim *shim)
{
	char bytes[4096];
	ssize_t len = read(shim->progress, bytes, sizeof(bytes));
	if (len > 0)
		stall_sign(shim);
	if (len == 0) {
		close(shim->progress);
		shim->progress = -1;
	}
}

bool stall_is_due(struct shim *shim)
{
	if (!shim->core.silence_at)
		return false;
	struct shim_result result = end_step(shim, &(struct shim_event){.kind = SHIM_SILENCE,
									.now = tfc__now()});
	if (!(result.actions & SHIM_STALLED))
		return false;
	shim->report.silent_ms = result.silent_ms;
	shim->report.time_ns = tfc__wall();
	return true;
}
