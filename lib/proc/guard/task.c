#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/sweep.h"

/* What a shim may take longer than the grace before the guard kills its task itself, and then to
 * write what is left into a slow log before it is killed, too. */
#define FORCE_MARGIN (1 * TFC__SECOND)
#define FORCE_SHIM_MARGIN (5 * TFC__SECOND)

/* ---- the table */

static bool grow_tasks(struct guard *guard)
{
	uint32_t capacity = guard->task_capacity ? guard->task_capacity * 2 : 16;
	struct task *tasks = realloc(guard->tasks, capacity * sizeof(*tasks));
	if (tasks)
		guard->tasks = tasks;
	pid_t *pids = realloc(guard->pids, capacity * sizeof(*pids));
	if (pids)
		guard->pids = pids;
	if (!tasks || !pids)
		return false;
	memset(pids + guard->task_capacity, 0, (capacity - guard->task_capacity) * sizeof(*pids));
	guard->free_hint = guard->task_capacity;
	guard->task_capacity = capacity;
	return true;
}

static uint32_t find_free(struct guard *guard)
{
	if (guard->task_count == guard->task_capacity && !grow_tasks(guard))
		return NO_TASK;
	uint32_t slot = guard->free_hint;
	while (guard->pids[slot])
		slot = (slot + 1) % guard->task_capacity;
	guard->free_hint = (slot + 1) % guard->task_capacity;
	return slot;
}

/* Host indexes are small and used again; a slot is only freed once its shim is reaped. */
static bool map_slot(struct guard *guard, uint64_t id, uint32_t slot)
{
	uint32_t index = (uint32_t)id;
	if (index >= guard->slot_capacity) {
		uint32_t capacity = (index + 16) * 2;
		uint32_t *slots = realloc(guard->slots, capacity * sizeof(*slots));
		if (!slots)
			return false;
		memset(slots + guard->slot_capacity, 0xff,
		       (capacity - guard->slot_capacity) * sizeof(*slots));
		guard->slots = slots;
		guard->slot_capacity = capacity;
	}
	guard->slots[index] = slot;
	return true;
}

static uint32_t find(const struct guard *guard, uint64_t id)
{
	uint32_t index = (uint32_t)id;
	uint32_t slot = index < guard->slot_capacity ? guard->slots[index] : NO_TASK;
	return slot != NO_TASK && guard->pids[slot] && guard->tasks[slot].id == id ? slot : NO_TASK;
}

static uint32_t find_shim(const struct guard *guard, pid_t pid)
{
	for (uint32_t slot = 0; slot < guard->task_capacity; slot++)
		if (guard->pids[slot] == pid)
			return slot;
	return NO_TASK;
}

/* ---- spawning */

static int add_task(struct guard *guard, const struct tfc__command *command, int launch)
{
	pid_t pid;
	int socket, locks[TFC__LOCKS];
	uint32_t slot = find_free(guard);
	if (slot == NO_TASK || !map_slot(guard, command->id, slot))
		return ENOMEM;
	int error = dir_prepare(guard, command, locks);
	error = error ? error : shim_get(guard, command, launch, locks, &pid, &socket);
	dir_release(locks);
	if (error)
		return error;
	if (watch(guard, socket, EPOLLIN, FIRST_TASK + slot) < 0)
		kill(pid, SIGKILL); /* nobody would hear it: it counts as lost */
	guard->pids[slot] = pid;
	guard->tasks[slot] = (struct task){.id = command->id,
					   .socket = socket,
					   .grace_ms = command->grace_ms,
					   .lease_grace_ms = (uint32_t)command->lease_grace_ms,
					   .lease = command->lease};
	guard->task_count++;
	return 0;
}

/* It was asked for by somebody who is not to be obeyed any more. */
static void refuse_lease(struct guard *guard, uint64_t id, const struct tfc__lease_entry *lease)
{
	host_tell(guard, &(struct tfc__report){.kind = TFC__MSG_EXITED,
					       .reason = TFC__END_LOST,
					       .id = id,
					       .silent_ms = lease->length_ms ? lease->length_ms : 1,
					       .time_ns = tfc__wall()});
}

void task_spawn(struct guard *guard, const struct tfc__command *command, int launch)
{
	const struct tfc__lease_entry *over = lease_is_over(guard, command->lease);
	if (over) {
		refuse_lease(guard, command->id, over);
		return;
	}
	oom_forget(guard);
	bool may_have_group = command->value == TFC__ISOLATION_AUTO ||
			      command->value == TFC__ISOLATION_CGROUP;
	if (may_have_group && cgroup_want(guard))
		shim_drop_spare(guard); /* it was not given the directory */
	int error = launch < 0 ? EMFILE : add_task(guard, command, launch);
	if (!error)
		return;
	struct tfc__report report = {.kind = TFC__MSG_EXITED,
				     .reason = TFC__END_NOT_STARTED,
				     .id = command->id,
				     .step = TFC__STEP_GUARD,
				     .status = error,
				     .time_ns = tfc__wall()};
	host_tell(guard, &report);
}

/* ---- stopping */

static void set_force(struct guard *guard, struct task *task, uint64_t at)
{
	task->force_at = at;
	deadline_add(guard, at);
}

static void stop(struct guard *guard, struct task *task, uint64_t kill_at)
{
	struct tfc__command command = {.kind = TFC__MSG_STOP,
				       .id = task->id,
				       .deadline_ns = kill_at};
	uint64_t at = kill_at + FORCE_MARGIN;
	if (task->is_reported || task->is_lost)
		return;
	send(task->socket, &command, sizeof(command), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (task->force == FORCE_NONE || (task->force == FORCE_TASK && at < task->force_at)) {
		task->force = FORCE_TASK;
		set_force(guard, task, at);
	}
}

void task_stop(struct guard *guard, uint64_t id, uint64_t kill_at)
{
	uint32_t slot = find(guard, id);
	if (slot != NO_TASK)
		stop(guard, &guard->tasks[slot], kill_at);
}

void task_stop_all(struct guard *guard, bool is_at_once)
{
	uint64_t now = tfc__boot_time();
	for (uint32_t slot = 0; slot < guard->task_capacity; slot++)
		if (guard->pids[slot])
			stop(guard, &guard->tasks[slot],
			     is_at_once ? now : now + guard->tasks[slot].grace_ms * TFC__MS);
}

void task_stop_lease(struct guard *guard, const struct tfc__lease_entry *lease)
{
	for (uint32_t slot = 0; slot < guard->task_capacity; slot++) {
		struct task *task = &guard->tasks[slot];
		if (guard->pids[slot] && task->lease == lease->id) {
			task->silent_ms = lease->length_ms;
			stop(guard, task, lease->deadline_ns + task->lease_grace_ms * TFC__MS);
		}
	}
}

void task_signal(struct guard *guard, const struct tfc__command *command)
{
	uint32_t slot = find(guard, command->id);
	if (slot != NO_TASK)
		send(guard->tasks[slot].socket, command, sizeof(*command),
		     MSG_DONTWAIT | MSG_NOSIGNAL);
}

/*
 * The shim has not done it: it is stopped, or stuck in the kernel. The session number, which is the
 * shim's own, shows that the task's number still means the task.
 */
static void force(struct guard *guard, uint32_t slot)
{
	struct task *task = &guard->tasks[slot];
	if (task->force == FORCE_TASK) {
		if (task->pid && getsid(task->pid) == guard->pids[slot])
			kill(-task->pid, SIGKILL);
		cgroup_kill(guard, guard->pids[slot]);
		tfc__sweep(guard->pids[slot], NULL, NULL);
		task->force = FORCE_SHIM;
	} else {
		tfc__sweep(guard->pids[slot], NULL, NULL);
		kill(guard->pids[slot], SIGKILL);
	}
	set_force(guard, task, tfc__boot_time() + FORCE_SHIM_MARGIN);
}

void task_force_due(struct guard *guard, uint64_t now)
{
	uint64_t next = 0;
	for (uint32_t slot = 0; slot < guard->task_capacity; slot++) {
		struct task *task = &guard->tasks[slot];
		if (!guard->pids[slot] || !task->force_at || task->is_reported || task->is_lost)
			continue;
		if (task->force_at <= now)
			force(guard, slot);
		else if (!next || task->force_at < next)
			next = task->force_at;
	}
	if (next)
		deadline_add(guard, next);
}

/* ---- reports and deaths */

static void pass_on(struct guard *guard, uint32_t slot, struct tfc__report *report)
{
	struct task *task = &guard->tasks[slot];
	report->id = task->id;
	report->shim = guard->pids[slot];
	if (report->kind == TFC__MSG_STARTED)
		task->pid = report->pid;
	else if (report->kind == TFC__MSG_EXITED)
		task->is_reported = true;
	else if (report->kind != TFC__MSG_STALLED)
		return;
	guard->is_spare_wanted |= report->kind == TFC__MSG_STARTED; /* it may have to start again */
	if (report->reason == TFC__END_SIGNAL && report->status == SIGKILL && !task->force_at)
		report->is_oom = oom_take(guard);
	if (report->kind == TFC__MSG_EXITED && task->silent_ms &&
	    report->reason != TFC__END_NOT_STARTED)
		report->silent_ms = task->silent_ms; /* else the shim may have noticed before us */
	if (report->kind == TFC__MSG_EXITED && report->silent_ms)
		report->reason = TFC__END_LOST; /* how we ended it is nobody's verdict */
	host_tell(guard, report);
}

/* One message, true; or none: the end, or nothing there. */
static bool hear_one(struct guard *guard, uint32_t slot)
{
	struct tfc__report report;
	struct task *task = &guard->tasks[slot];
	if (task->socket < 0)
		return false;
	ssize_t len = recv(task->socket, &report, sizeof(report), MSG_DONTWAIT);
	bool is_heard = len == (ssize_t)sizeof(report);
	if (is_heard)
		pass_on(guard, slot, &report);
	if (task->is_reported || len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR)) {
		close(task->socket);
		task->socket = -1;
	}
	return is_heard;
}

void task_hear(struct guard *guard, uint32_t slot)
{
	if (slot < guard->task_capacity && guard->pids[slot]) /* or freed by an event before */
		hear_one(guard, slot);
}

static void free_task(struct guard *guard, uint32_t slot)
{
	if (guard->tasks[slot].socket >= 0)
		close(guard->tasks[slot].socket);
	guard->pids[slot] = 0;
	guard->task_count--;
}

/* Its last words may still lie in the socket. */
static void shim_died(struct guard *guard, uint32_t slot)
{
	struct task *task = &guard->tasks[slot];
	while (hear_one(guard, slot))
		;
	if (task->is_reported) {
		free_task(guard, slot);
		return;
	}
	cgroup_kill(guard, guard->pids[slot]);
	task->is_lost = true;
	guard->pids[slot] = -1; /* nobody's; the slot stays taken until the end is told */
	guard->lost_count++;
}

static bool is_shim(void *user, pid_t pid)
{
	const struct guard *guard = user;
	return pid == guard->spare.pid || find_shim(guard, pid) != NO_TASK;
}

static void tell_lost(struct guard *guard)
{
	for (uint32_t slot = 0; slot < guard->task_capacity; slot++) {
		struct task *task = &guard->tasks[slot];
		if (guard->pids[slot] != -1)
			continue;
		struct tfc__report report = {.kind = TFC__MSG_EXITED,
					     .reason = TFC__END_LOST,
					     .id = task->id,
					     .pid = task->pid,
					     .silent_ms = task->silent_ms,
					     .time_ns = tfc__wall()};
		host_tell(guard, &report);
		free_task(guard, slot);
	}
	cgroup_clear(guard);
	guard->lost_count = 0;
}

void task_reap(struct guard *guard)
{
	pid_t pid;
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		uint32_t slot = find_shim(guard, pid);
		if (slot != NO_TASK)
			shim_died(guard, slot);
		else if (pid == guard->spare.pid)
			shim_drop_spare(guard);
	}
	/* A list of children that change while it is read may lack some: two clean looks. */
	if (guard->lost_count && tfc__sweep(getpid(), is_shim, guard) == 0 &&
	    tfc__sweep(getpid(), is_shim, guard) == 0)
		tell_lost(guard);
}
