/*
 * Output that cannot be written, as on a full disk. The loss is reported at once. Its end is
 * reported after a time without a further loss. That time doubles with each loss, because a disk
 * that is nearly full takes some records and refuses others.
 */
#include "shim.h"

#include "base/clock.h"

#define FIRST_PAUSE TFC__SECOND
#define LAST_PAUSE (64 * TFC__SECOND)

uint64_t loss_due(const struct shim *shim)
{
	const struct shim_loss *loss = &shim->loss;
	return loss->is_reported && !shim->log.gap ? loss->dropped_at + loss->pause : 0;
}

static void loss_begin(struct shim *shim, struct tfc__report *ret_report)
{
	struct shim_loss *loss = &shim->loss;
	loss->is_reported = true;
	if (!loss->pause)
		loss->pause = FIRST_PAUSE;
	else if (loss->pause < LAST_PAUSE)
		loss->pause *= 2;
	*ret_report = (struct tfc__report){.kind = TFC__MSG_OUTPUT_LOST,
					   .pid = shim->task,
					   .status = shim->log.error,
					   .time_ns = tfc__wall()};
}

static void loss_end(struct shim *shim, struct tfc__report *ret_report)
{
	const struct tfc__log_writer *log = &shim->log;
	struct shim_loss *loss = &shim->loss;
	*ret_report = (struct tfc__report){.kind = TFC__MSG_OUTPUT_RESUMED,
					   .pid = shim->task,
					   .time_ns = tfc__wall(),
					   .log_dropped = log->dropped - loss->before,
					   .lost_lines = log->dropped_lines - loss->lines_before};
	loss->is_reported = false;
	loss->before = log->dropped;
	loss->lines_before = log->dropped_lines;
}

bool loss_observe(struct shim *shim, bool is_last, struct tfc__report *ret_report)
{
	struct shim_loss *loss = &shim->loss;
	if (!loss->is_watched)
		return false;
	if (loss->dropped != shim->log.dropped) {
		loss->dropped = shim->log.dropped;
		loss->dropped_at = tfc__now();
		if (!loss->is_reported) {
			loss_begin(shim, ret_report);
			return true;
		}
	}
	uint64_t due = loss_due(shim);
	if (!due || (!is_last && tfc__now() < due))
		return false;
	loss_end(shim, ret_report);
	return true;
}
