#include "core.h"

#include <stddef.h>

#define MS UINT64_C(1000000)

/* ---- stopping */

static void shim_core_kill(struct shim_core *core, struct shim_result *result)
{
	core->kill_at = 0;
	result->actions |= SHIM_KILL;
}

/* A second stop can only shorten the first. */
static void shim_core_stop(struct shim_core *core, uint64_t kill_at, uint64_t now,
			   struct shim_result *result)
{
	bool is_first = !core->is_stopping;
	if (core->is_dead)
		return;
	core->is_stopping = true;
	if (kill_at <= now) {
		shim_core_kill(core, result);
		return;
	}
	if (is_first || (core->kill_at && kill_at < core->kill_at))
		core->kill_at = kill_at;
	if (is_first)
		result->actions |= SHIM_TERM;
}

/* ---- the lease: a renewal wakes no shim, so a shim checks it at the deadline it knows */

static bool shim_core_lease_is_over(struct shim_core *core, const struct tfc__lease_entry *lease,
				    uint64_t now)
{
	core->lease_at = 0;
	if (!core->lease || core->lost_ms || !lease)
		return false; /* a lease that was given up never ends */
	if (!lease->is_over && lease->deadline_ns > now) {
		core->lease_at = lease->deadline_ns;
		return false;
	}
	core->lost_ms = lease->length_ms ? lease->length_ms : 1;
	return true;
}

/* The grace begins at the deadline, even if that is noticed late. */
static void shim_core_check_lease(struct shim_core *core, const struct shim_event *event,
				  struct shim_result *result)
{
	if (!core->is_dead && shim_core_lease_is_over(core, event->lease, event->now))
		shim_core_stop(core, event->lease->deadline_ns + core->lease_grace_ms * MS,
			       event->now, result);
}

/* ---- signs of life */

static void shim_core_record_sign(struct shim_core *core, uint64_t now)
{
	core->last_sign = now;
	core->silent_at = core->silence ? now + core->silence : 0;
}

static void shim_core_check_silence(struct shim_core *core, uint64_t now,
				    struct shim_result *result)
{
	if (!core->silence_at || now < core->silence_at)
		return;
	core->silent_at = now + (now - core->last_sign); /* again once the silence has doubled */
	result->silent_ms = (uint32_t)((now - core->last_sign) / MS);
	result->actions |= SHIM_STALLED;
}

/* ---- a task that is suspended by a signal */

/* A second SUSPENDED means that the task has continued for a moment. */
static void shim_core_suspended(struct shim_core *core, uint64_t now)
{
	if (core->suspension && !core->is_suspension_reported)
		core->suspended_since = now;
}

static void shim_core_check_suspension(struct shim_core *core, uint64_t now,
				       struct shim_result *result)
{
	if (!core->suspension_at || now < core->suspension_at)
		return;
	core->is_suspension_reported = true;
	result->silent_ms = (uint32_t)((now - core->suspended_since) / MS);
	result->actions |= SHIM_REPORT_SUSPENDED;
}

static void shim_core_continued(struct shim_core *core, uint64_t now, struct shim_result *result)
{
	if (core->is_suspension_reported && !core->is_stopping) {
		result->silent_ms = (uint32_t)((now - core->suspended_since) / MS);
		result->actions |= SHIM_REPORT_CONTINUED;
	}
	core->suspended_since = 0;
	core->is_suspension_reported = false;
}

/* ---- events */

static void shim_core_begin(struct shim_core *core, const struct shim_event *event,
			    struct shim_result *result)
{
	core->grace_ms = event->command->grace_ms;
	core->lease_grace_ms = (uint32_t)event->command->lease_grace_ms;
	core->lease = event->command->lease;
	if (!shim_core_lease_is_over(core, event->lease, event->now))
		result->actions |= SHIM_START;
}

static void shim_core_set_timers(struct shim_core *core)
{
	bool is_lease_first = core->lease_at && (!core->kill_at || core->lease_at < core->kill_at);
	core->timer_at = core->is_dead ? 0 : is_lease_first ? core->lease_at : core->kill_at;
	bool is_ending = core->is_dead || core->is_stopping;
	core->silence_at = is_ending ? 0 : core->silent_at;
	bool is_suspended = core->suspended_since && !core->is_suspension_reported;
	core->suspension_at = is_ending || !is_suspended ? 0
							 : core->suspended_since + core->suspension;
}

struct shim_result shim_core_step(struct shim_core *core, const struct shim_event *event)
{
	struct shim_result result = {.actions = 0};
	uint64_t grace_ms;
	switch (event->kind) {
	case SHIM_SPAWN:
		shim_core_begin(core, event, &result);
		break;
	case SHIM_NOT_STARTED:
		result.reason = event->error ? TFC__END_NOT_STARTED : TFC__END_LOST;
		result.silent_ms = event->error ? 0 : core->lost_ms;
		break;
	case SHIM_STARTED:
		shim_core_check_lease(core, event, &result);
		break;
	case SHIM_STOP:
		shim_core_stop(core, event->command->deadline_ns, event->now, &result);
		break;
	case SHIM_GUARD_GONE:
		/* A lease cannot be renewed any more, so the task gets no more than its lease
		 * grace. */
		core->is_orphan = true;
		grace_ms = core->lease && core->lease_grace_ms < core->grace_ms
				   ? core->lease_grace_ms
				   : core->grace_ms;
		shim_core_stop(core, event->now + grace_ms * MS, event->now, &result);
		break;
	case SHIM_HOST_GONE:
		core->is_host_gone = true;
		shim_core_stop(core, event->now + core->grace_ms * MS, event->now, &result);
		break;
	case SHIM_TIMER:
		if (!core->is_dead && core->kill_at && core->kill_at <= event->now)
			shim_core_kill(core, &result);
		shim_core_check_lease(core, event, &result);
		break;
	case SHIM_WATCH_SILENCE:
		core->silence = event->silence_ms * MS;
		shim_core_record_sign(core, event->now);
		break;
	case SHIM_SIGN:
		shim_core_record_sign(core, event->now);
		break;
	case SHIM_SILENCE:
		shim_core_check_silence(core, event->now, &result);
		break;
	case SHIM_WATCH_SUSPENSION:
		core->suspension = event->silence_ms * MS;
		break;
	case SHIM_SUSPENDED:
		shim_core_suspended(core, event->now);
		break;
	case SHIM_CONTINUED:
		shim_core_continued(core, event->now, &result);
		break;
	case SHIM_SUSPENSION:
		shim_core_check_suspension(core, event->now, &result);
		break;
	case SHIM_DIED:
		core->is_dead = true;
		break;
	case SHIM_ENDED:
		result.silent_ms = core->lost_ms;
		break;
	}
	shim_core_set_timers(core);
	return result;
}
