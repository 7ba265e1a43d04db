/*
 * Signs of life are output and bytes on the progress pipe. A silence of the requested length is
 * reported, and reported again each time it has doubled. Only when poll's timeout expires is it
 * recomputed from the last sign: output costs one read of the clock and no timer. If no length is
 * requested, no clock is read.
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
	fcntl(ends[0], F_SETFL, O_NONBLOCK); /* only the read end: the task's writes block */
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

/* The content does not matter. End of file: no process is left that could write. */
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
