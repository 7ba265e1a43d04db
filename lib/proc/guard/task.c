#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/sweep.h"

#define SWEEP_PATIENCE (5 * TFC__SECOND)
#define SWEEP_AGAIN_MS 100 /* the kernel signals each death; a safety net */

/* ---- the table */

static bool task_grow_slots(struct guard *guard)
{
	struct guard_core *core = &guard->core;
	uint32_t from = core->task_capacity, to = from ? from * 2 : 16;
	struct guard_task *tasks = realloc(core->tasks, to * sizeof(*tasks));
	if (tasks)
		core->tasks = tasks;
	pid_t *pids = realloc(guard->pids, to * sizeof(*pids));
	if (pids)
		guard->pids = pids;
	int *sockets = realloc(guard->sockets, to * sizeof(*sockets));
	if (sockets)
		guard->sockets = sockets;
	uint32_t *ending = realloc(guard->ending, to * sizeof(*ending));
	if (ending)
		guard->ending = ending;
	if (!tasks || !pids || !sockets || !ending || !tfc__map_reserve(&guard->slots_by_pid, to))
		return false;
	memset(tasks + from, 0, (to - from) * sizeof(*tasks));
	memset(pids + from, 0, (to - from) * sizeof(*pids));
	core->task_capacity = to;
	return true;
}

static bool task_reserve_slot(struct guard *guard, uint64_t id)
{
	struct guard_core *core = &guard->core;
	uint32_t from = core->index_capacity, to = ((uint32_t)id + 16) * 2;
	if (core->task_count == core->task_capacity && !task_grow_slots(guard))
		return false;
	if ((uint32_t)id < from)
		return true;
	uint32_t *slots = realloc(core->slots, to * sizeof(*slots));
	if (!slots)
		return false;
	memset(slots + from, 0, (to - from) * sizeof(*slots));
	core->slots = slots;
	core->index_capacity = to;
	return true;
}

static uint32_t task_find_shim(const struct guard *guard, pid_t pid)
{
	return tfc__map_get(&guard->slots_by_pid, (uint64_t)pid, NO_SLOT);
}

/* ---- spawning */

void task_set_shim(struct guard *guard, uint32_t slot, pid_t pid, int socket)
{
	if (watch(guard, socket, EPOLLIN, FIRST_TASK + slot) < 0)
		kill(pid, SIGKILL); /* its messages would not be received: it counts as lost */
	guard->pids[slot] = pid;
	guard->sockets[slot] = socket;
	tfc__map_set(&guard->slots_by_pid, (uint64_t)pid, slot); /* its entry is reserved */
	keep_join(guard, guard->core.tasks[slot].keep_id);
}

int task_start_shim(struct guard *guard, uint32_t slot, const struct tfc__command *command,
		    int launch)
{
	pid_t pid;
	int socket, locks[TFC__LOCKS], zygote = -1;
	int error = dir_prepare(guard, command, locks);
	if (!error && command->is_zygote &&
	    (zygote = warm_open_zygote(guard, slot, command->import_ms)) < 0)
		error = errno;
	error = error ? error : shim_get(guard, command, launch, locks, zygote, &pid, &socket);
	dir_release(locks);
	if (zygote >= 0)
		close(zygote);
	if (error)
		warm_close_zygote(guard, slot);
	else
		task_set_shim(guard, slot, pid, socket);
	return error;
}

void task_spawn(struct guard *guard, const struct tfc__command *command, int launch)
{
	int error = launch < 0 ? EMFILE : task_reserve_slot(guard, command->id) ? 0 : ENOMEM;
	uint32_t slot = decide(guard, (struct guard_event){.kind = GUARD_SPAWN,
							   .command = command,
							   .error = error});
	if (slot == NO_SLOT)
		return;
	oom_reset(guard);
	bool may_have_group = command->value == TFC__ISOLATION_AUTO ||
			      command->value == TFC__ISOLATION_CGROUP;
	if (may_have_group && cgroup_create(guard)) { /* spares did not receive the directory */
		shim_drop_spare(guard);
		warm_drop_spares(guard);
	}
	if (command->zygote && warm_request(guard, slot, command, launch))
		return;
	error = task_start_shim(guard, slot, command, launch);
	if (error)
		decide(guard, (struct guard_event){.kind = GUARD_SPAWN_FAILED,
						   .slot = slot,
						   .error = error});
}

/* ---- stopping */

void task_send_stop(struct guard *guard, uint32_t slot, uint64_t kill_at)
{
	const struct tfc__command command = {.kind = TFC__MSG_STOP,
					     .id = guard->core.tasks[slot].id,
					     .deadline_ns = kill_at};
	if (guard->pids[slot] == UNBORN)
		warm_stop(guard, slot, kill_at);
	else
		send(guard->sockets[slot], &command, sizeof(command), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void task_signal(struct guard *guard, const struct tfc__command *command)
{
	uint32_t slot = guard_core_find(&guard->core, command->id);
	if (slot != NO_SLOT && guard->pids[slot] != UNBORN)
		send(guard->sockets[slot], command, sizeof(*command), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The task's session id, which is the shim's pid, proves that the pid still belongs to the task. */
void task_kill(struct guard *guard, uint32_t slot, pid_t pid)
{
	if (guard->pids[slot] == UNBORN)
		return; /* warm_stop starts it in a shim, which then stops it */
	if (pid && getsid(pid) == guard->pids[slot])
		kill(-pid, SIGKILL);
	cgroup_kill(guard, guard->pids[slot]);
	tfc__sweep(guard->pids[slot], NULL, NULL);
}

void task_kill_shim(struct guard *guard, uint32_t slot)
{
	if (guard->pids[slot] == UNBORN)
		return;
	tfc__sweep(guard->pids[slot], NULL, NULL);
	kill(guard->pids[slot], SIGKILL);
}

/* ---- reports and deaths */

static void task_close_socket(struct guard *guard, uint32_t slot)
{
	if (guard->sockets[slot] < 0)
		return;
	close(guard->sockets[slot]);
	guard->sockets[slot] = -1;
	if (guard->pids[slot] > 0)
		guard->ending[guard->ending_count++] = slot;
}

/* Receives one message: true. False: end of the socket, or no message. */
static bool task_receive_report(struct guard *guard, uint32_t slot)
{
	struct tfc__report report;
	if (guard->sockets[slot] < 0)
		return false;
	ssize_t len = recv(guard->sockets[slot], &report, sizeof(report), MSG_DONTWAIT);
	/* The shim ended with a command unread. This error comes once, before its last reports. */
	if (len < 0 && errno == ECONNRESET)
		len = recv(guard->sockets[slot], &report, sizeof(report), MSG_DONTWAIT);
	bool is_received = len == (ssize_t)sizeof(report);
	if (is_received) {
		report.shim = guard->pids[slot];
		if (report.kind == TFC__MSG_STARTED)
			guard->is_spare_wanted = true; /* the task may be restarted */
		decide(guard, (struct guard_event){.kind = GUARD_SHIM_REPORT,
						   .slot = slot,
						   .report = &report});
	}
	if (guard->core.tasks[slot].is_reported || len == 0 ||
	    (len < 0 && errno != EAGAIN && errno != EINTR))
		task_close_socket(guard, slot);
	return is_received;
}

void task_kill_rest(struct guard *guard, uint32_t slot)
{
	cgroup_kill(guard, guard->pids[slot]);
	guard->pids[slot] = -guard->pids[slot];
}

void task_free(struct guard *guard, uint32_t slot)
{
	guard->pids[slot] = 0;
	task_close_socket(guard, slot);
	if (warm_close_zygote(guard, slot))
		guard->is_sweep_wanted = true;
	keep_leave(guard, guard->core.tasks[slot].keep_id);
}

static bool task_is_shim(void *user, pid_t pid)
{
	const struct guard *guard = user;
	return pid == guard->spare.pid || warm_is_spare(guard, pid) ||
	       task_find_shim(guard, pid) != NO_SLOT;
}

bool task_is_sweep_due(const struct guard *guard)
{
	return guard->is_sweep_wanted && !warm_is_pending(guard);
}

void task_sweep(struct guard *guard)
{
	guard->is_sweep_wanted = tfc__sweep(getpid(), task_is_shim, guard) > 0;
}

/* One that cannot be killed, because it has another user, is not waited for forever. */
void task_sweep_all(struct guard *guard)
{
	struct pollfd death = {.fd = guard->signals, .events = POLLIN};
	struct signalfd_siginfo info;
	for (uint64_t until = tfc__now() + SWEEP_PATIENCE;
	     tfc__sweep(getpid(), NULL, NULL) > 0 && tfc__now() < until;) {
		if (waitpid(-1, NULL, WNOHANG) > 0)
			continue;
		poll(&death, 1, SWEEP_AGAIN_MS);
		(void)!read(guard->signals, &info, sizeof(info));
	}
}

/* A child was reaped. The last reports of a shim may still be in its socket. */
static void task_child_died(struct guard *guard, pid_t pid)
{
	uint32_t slot = task_find_shim(guard, pid);
	tfc__map_remove(&guard->slots_by_pid, (uint64_t)pid);
	if (slot == NO_SLOT) {
		if (pid == guard->spare.pid)
			shim_drop_spare(guard);
		else
			warm_forget(guard, pid);
		return;
	}
	while (task_receive_report(guard, slot))
		;
	decide(guard, (struct guard_event){.kind = GUARD_SHIM_DIED, .slot = slot});
}

/*
 * Reaps any child that is dead. A shim that a zygote made has reported its pid before its death,
 * and the report must be handled before the pid can be used again.
 */
static pid_t task_reap_any(struct guard *guard)
{
	siginfo_t info = {.si_pid = 0};
	if (!warm_is_pending(guard))
		return waitpid(-1, NULL, WNOHANG);
	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || !info.si_pid)
		return 0;
	warm_receive_all(guard);
	return waitpid(info.si_pid, NULL, WNOHANG);
}

static bool task_reap_child(struct guard *guard, pid_t pid)
{
	bool is_dead = pid > 0 && waitpid(pid, NULL, WNOHANG) == pid;
	if (is_dead)
		task_child_died(guard, pid);
	return is_dead;
}

/*
 * waitpid for any child makes the kernel walk over all children, so a shim is waited for by its
 * pid. Its socket reports that it is ending, and SIGCHLD that it has ended, although SIGCHLD names
 * only the first of several simultaneous deaths. Processes that dead shims have left to the guard
 * are reaped by the walk: while there are such shims, and once per as many reaped children as there
 * are tasks.
 */
void task_reap(struct guard *guard, pid_t pid)
{
	if (pid && !guard->core.lost.first && !warm_is_pending(guard) &&
	    guard->reaped < guard->core.task_count) {
		guard->reaped += task_reap_child(guard, pid);
	} else {
		guard->reaped = 0;
		while ((pid = task_reap_any(guard)) > 0)
			task_child_died(guard, pid);
	}
	for (uint32_t i = guard->ending_count; i-- > 0;) {
		pid_t shim = guard->pids[guard->ending[i]];
		if (shim > 0 && guard->sockets[guard->ending[i]] < 0 &&
		    !task_reap_child(guard, shim))
			continue;
		guard->ending[i] = guard->ending[--guard->ending_count];
	}
	/*
	 * A list of children that changes while it is read may be incomplete: it must be empty
	 * twice.
	 */
	if (!guard->core.lost.first || tfc__sweep(getpid(), task_is_shim, guard) != 0 ||
	    tfc__sweep(getpid(), task_is_shim, guard) != 0)
		return;
	cgroup_remove_lost(guard);
	decide(guard, (struct guard_event){.kind = GUARD_NONE_LEFT});
}

void task_receive(struct guard *guard, uint32_t slot)
{
	if (slot >= guard->core.slot_count || !guard->pids[slot]) /* freed by an earlier event */
		return;
	pid_t pid = guard->pids[slot];
	task_receive_report(guard, slot);
	if (guard->sockets[slot] < 0 && pid > 0)
		task_reap(guard, pid);
}
