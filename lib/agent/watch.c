/*
 * Watches for listeners. The kernel has no event for a new listener, so the sockets are queried in
 * growing intervals while a task is expected to listen. If none is expected, there is no timer. If
 * no task's readiness depends on its listener, it may never come, and the intervals grow up to an
 * hour.
 */
#include <stdio.h>

#include "agent/internal.h"
#include "base/clock.h"
#include "base/fail.h"

#define PAUSE_MIN (2 * TFC__MS)
#define PAUSE_MAX (50 * TFC__MS)
#define IDLE_FACTOR 4 /* factor between intervals: a few queries in the first minute */
#define IDLE_MAX (3600 * TFC__SECOND)
#define CHECKS_MAX 32 /* listeners looked up in /proc per tick */

static struct tfc__link *listener_bucket(struct tfc__agent *agent, uint16_t port)
{
	return &agent->by_port[port % PORT_BUCKETS];
}

static void watch_arm(struct tfc__agent *agent)
{
	if (agent->watched)
		tfc__timer_set(&agent->watch_timer, tfc__now() + agent->watch_pause);
	else
		tfc__timer_cancel(&agent->watch_timer);
}

static bool watch_is_urgent(const struct agent_task *task)
{
	return tfc__role_is_ready_on_listen(task->job->info.job, task->role);
}

void tfc__agent_watch_listener(struct agent_task *task)
{
	struct tfc__agent *agent = task->job->agent;
	tfc__agent_unwatch_listener(task);
	task->listener = LISTENER_AWAITED;
	tfc__list_append(listener_bucket(agent, task->port), &task->watch_link);
	agent->watched++;
	agent->urgent += watch_is_urgent(task);
	agent->watch_pause = PAUSE_MIN;
	watch_arm(agent);
}

void tfc__agent_unwatch_listener(struct agent_task *task)
{
	if (tfc__list_is_empty(&task->watch_link))
		return;
	tfc__list_remove(&task->watch_link);
	task->job->agent->watched--;
	task->job->agent->urgent -= watch_is_urgent(task);
}

bool tfc__agent_is_ready(const struct agent_task *task)
{
	return task->attempt_state == ATTEMPT_STARTED &&
	       (task->listener == LISTENER_OWN || !watch_is_urgent(task));
}

/* The current listener: OWN, NONE, or FOREIGN with task->error. */
static enum listener_state watch_query_listener(struct agent_task *task)
{
	tfc_port_listener listener = TFC_PORT_LISTENER_INIT;
	pid_t root = task->process ? tfc__process_shim(task->process) : 0;
	if (!task->hold || tfc_port_hold_listener(task->hold, root, &listener) < 0 ||
	    listener.count == 0)
		return LISTENER_NONE;
	if (listener.is_ours)
		return LISTENER_OWN;
	char process[128] = "";
	if (listener.pid)
		snprintf(process, sizeof(process), ", pid %d (%s)", (int)listener.pid,
			 listener.program);
	tfc__fail(task->error, TFC_EBUSY, "agent", 0, "foreign listener on port %u: uid %u%s",
		  task->port, listener.uid, process);
	return LISTENER_FOREIGN;
}

bool tfc__agent_find_foreign_listener(struct agent_task *task)
{
	if (watch_query_listener(task) == LISTENER_FOREIGN)
		task->listener = LISTENER_FOREIGN;
	return task->listener == LISTENER_FOREIGN;
}

/*
 * A listener that is found in no process of the task may have been the task's own and have ended
 * between the query of the sockets and that of /proc. It counts as foreign only when it is seen
 * twice in a row.
 */
static void watch_check_listener(struct agent_task *task)
{
	enum listener_state found = watch_query_listener(task);
	if (found == LISTENER_NONE)
		return;
	bool is_foreign = found == LISTENER_FOREIGN;
	if (is_foreign &&
	    (task->listener != LISTENER_DOUBTED || tfc__port_is_searching(task->hold))) {
		task->listener = LISTENER_DOUBTED;
		task->job->agent->watch_pause = PAUSE_MIN;
		return;
	}
	tfc__agent_unwatch_listener(task);
	if (is_foreign) {
		task->listener = LISTENER_FOREIGN;
		task->job->agent->watch_pause = PAUSE_MIN;
		tfc_process_stop(task->process, 0);
		return;
	}
	task->listener = LISTENER_OWN;
	if (task->role->port_handover == TFC__HANDOVER_HOLD)
		tfc_port_hold_set_open(task->hold, 0);
	struct tfc__task_event event = {.kind = TFC__AGENT_READY};
	tfc__agent_notify(task, &event);
}

static void watch_on_listener(void *user, uint16_t port, uint32_t uid, uint32_t inode)
{
	struct tfc__agent *agent = user;
	TFC__LIST_EACH (link, listener_bucket(agent, port)) {
		struct agent_task *task = tfc__container_of(link, struct agent_task, watch_link);
		if (task->port == port) {
			if (agent->checks++ < CHECKS_MAX)
				watch_check_listener(task);
			return; /* the callback may have changed the list */
		}
	}
}

void tfc__agent_watch_tick(struct tfc__timer *timer)
{
	struct tfc__agent *agent = tfc__container_of(timer, struct tfc__agent, watch_timer);
	uint64_t max = agent->urgent ? PAUSE_MAX : IDLE_MAX;
	agent->watch_pause *= agent->urgent ? 2 : IDLE_FACTOR;
	if (agent->watch_pause > max)
		agent->watch_pause = max;
	agent->checks = 0;
	tfc__port_each_listener(agent->ctx, 1, UINT16_MAX, watch_on_listener, agent);
	watch_arm(agent);
	if (agent->checks > CHECKS_MAX && agent->watched)
		tfc__timer_set(timer, tfc__now()); /* the other listeners, at once */
}
