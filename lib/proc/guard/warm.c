/*
 * Zygotes, and the tasks that they fork (doc/internals/warm.md). The guard requests a fork and
 * passes the descriptors that a shim starts with. The zygote forks twice and lets the intermediate
 * process end, so that the guard adopts the process in between. That process forks the task and
 * becomes its shim by exec. It reports its pid, and receives the launch as any other shim does.
 */
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pass.h"

#define IMPORT_PATIENCE (120 * TFC__SECOND) /* from the zygote's start until it is ready */
#define FORK_PATIENCE (10 * TFC__SECOND)    /* from the request until the shim has reported */
#define CHECK_MS 500 /* how often both are checked while a birth is awaited */

/* ---- zygotes */

static struct zygote *zygote_find(const struct guard *guard, uint32_t slot)
{
	struct zygote *zygote = guard->zygotes;
	while (zygote && zygote->slot != slot)
		zygote = zygote->next;
	return zygote;
}

int warm_open_zygote(struct guard *guard, uint32_t slot)
{
	int ends[2];
	struct zygote *zygote = malloc(sizeof(*zygote));
	if (!zygote || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
		free(zygote);
		return -1;
	}
	*zygote = (struct zygote){.next = guard->zygotes,
				  .slot = slot,
				  .socket = ends[0],
				  .since = tfc__boot_time()};
	guard->zygotes = zygote;
	watch(guard, ends[0], EPOLLIN, FIRST_ZYGOTE + slot);
	return ends[1];
}

/* It has ended, or does not respond: tasks that it has not forked yet are started by shims. */
static void zygote_fail(struct guard *guard, struct zygote *zygote)
{
	if (zygote->socket >= 0)
		close(zygote->socket);
	zygote->socket = -1;
	for (struct birth *birth = guard->births; birth; birth = birth->next)
		if (birth->zygote == zygote) {
			birth->zygote = NULL;
			birth->is_over = true;
		}
}

void warm_close_zygote(struct guard *guard, uint32_t slot)
{
	for (struct zygote **at = &guard->zygotes; *at; at = &(*at)->next)
		if ((*at)->slot == slot) {
			struct zygote *zygote = *at;
			zygote_fail(guard, zygote);
			*at = zygote->next;
			free(zygote);
			return;
		}
}

void warm_receive_zygote(struct guard *guard, uint32_t slot)
{
	char text[64];
	struct zygote *zygote = zygote_find(guard, slot);
	if (!zygote || zygote->socket < 0)
		return;
	ssize_t len = recv(zygote->socket, text, sizeof(text), MSG_DONTWAIT);
	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (len != 5 || memcmp(text, "ready", 5) != 0) {
		zygote_fail(guard, zygote);
		return;
	}
	zygote->is_ready = true;
	for (struct birth *birth = guard->births; birth; birth = birth->next)
		if (birth->zygote == zygote)
			birth->since = tfc__boot_time();
	host_report(guard, &(struct tfc__report){.kind = TFC__MSG_READY,
						 .id = guard->core.tasks[slot].id});
}

/* The session id, which is the shim's pid, proves that the pid still belongs to the zygote. */
static void zygote_kill(struct guard *guard, struct zygote *zygote)
{
	pid_t pid = guard->core.tasks[zygote->slot].pid;
	if (pid > 0 && getsid(pid) == guard->pids[zygote->slot])
		kill(pid, SIGKILL);
	zygote_fail(guard, zygote);
}

/* ---- requests */

/*
 * The first descriptor is the shim's program; the others get these numbers in it. The first of them
 * occupies the number of the launch (enum tfc__shim_fd).
 */
static bool zygote_send_fork(const struct guard *guard, const struct zygote *zygote, int shim_end)
{
	const int numbers[] = {TFC__SHIM_LAUNCH,   TFC__SHIM_GUARD,  TFC__SHIM_HOST,
			       TFC__SHIM_LIFELINE, TFC__SHIM_LEASES, TFC__SHIM_CGROUP};
	const int fds[] = {guard->shim,     0,
			   shim_end,        TFC__GUARD_PIDFD,
			   guard->lifeline, guard->lease_memory,
			   guard->group};
	size_t count = guard->group < 0 ? 5 : 6;
	char text[64] = "fork";
	size_t len = 4;
	for (size_t i = 0; i < count; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, " %d", numbers[i]);
	struct iovec part = {text, len};
	return tfc__pass_send(zygote->socket, &part, 1, fds, count + 1,
			      MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

bool warm_request(struct guard *guard, uint32_t slot, const struct tfc__command *command,
		  int launch)
{
	int ends[2];
	uint32_t zygote_slot = guard_core_find(&guard->core, command->zygote);
	struct zygote *zygote = zygote_slot == NO_SLOT ? NULL : zygote_find(guard, zygote_slot);
	struct birth *birth = zygote && zygote->socket >= 0 ? malloc(sizeof(*birth)) : NULL;
	if (!birth)
		return false;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
		free(birth);
		return false;
	}
	*birth = (struct birth){.next = guard->births,
				.zygote = zygote,
				.slot = slot,
				.launch = fcntl(launch, F_DUPFD_CLOEXEC, TFC__GUARD_RESERVED),
				.command = *command,
				.since = tfc__boot_time()};
	bool is_sent = birth->launch >= 0 && zygote_send_fork(guard, zygote, ends[1]) &&
		       watch(guard, ends[0], EPOLLIN, FIRST_TASK + slot) == 0;
	close(ends[1]);
	if (!is_sent) {
		if (birth->launch >= 0)
			close(birth->launch);
		close(ends[0]); /* if the request was sent, its shim ends at once */
		free(birth);
		return false;
	}
	guard->births = birth;
	guard->pids[slot] = UNBORN;
	guard->sockets[slot] = ends[0];
	return true;
}

/* ---- births */

static struct birth *birth_find(const struct guard *guard, uint32_t slot)
{
	struct birth *birth = guard->births;
	while (birth && birth->slot != slot)
		birth = birth->next;
	return birth;
}

static void birth_free(struct guard *guard, struct birth *birth)
{
	struct birth **at = &guard->births;
	while (*at != birth)
		at = &(*at)->next;
	*at = birth->next;
	close(birth->launch);
	free(birth);
}

static void birth_not_started(struct guard *guard, struct birth *birth, int error)
{
	uint32_t slot = birth->slot;
	birth_free(guard, birth);
	guard->pids[slot] = 0;
	decide(guard,
	       (struct guard_event){.kind = GUARD_SPAWN_FAILED, .slot = slot, .error = error});
}

static void birth_close_socket(struct guard *guard, const struct birth *birth)
{
	close(guard->sockets[birth->slot]);
	guard->sockets[birth->slot] = -1;
}

/* Its shim waits for the launch. */
static void birth_complete(struct guard *guard, struct birth *birth, pid_t pid)
{
	int locks[TFC__LOCKS];
	int error = dir_prepare(guard, &birth->command, locks);
	if (!error) {
		task_set_shim(guard, birth->slot, pid, guard->sockets[birth->slot]);
		/* A shim that was killed just now is reported as lost when it is reaped. */
		error = shim_send_launch(guard->sockets[birth->slot], &birth->command,
					 birth->launch, locks, -1);
		if (error && error != EPIPE && error != ECONNRESET)
			kill(pid, SIGKILL);
		dir_release(locks);
		birth_free(guard, birth);
		return;
	}
	dir_release(locks);
	birth_close_socket(guard, birth);
	birth_not_started(guard, birth, error);
}

void warm_receive(struct guard *guard, uint32_t slot)
{
	struct tfc__report report;
	struct birth *birth = birth_find(guard, slot);
	if (!birth || guard->sockets[slot] < 0)
		return;
	ssize_t len = recv(guard->sockets[slot], &report, sizeof(report), MSG_DONTWAIT);
	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (len == (ssize_t)sizeof(report) && report.kind == TFC__MSG_BORN && report.pid > 0 &&
	    !birth->is_stopped) {
		birth_complete(guard, birth, report.pid);
		return;
	}
	birth_close_socket(guard, birth);
	birth->is_over = true;
}

void warm_receive_all(struct guard *guard)
{
	struct birth *next;
	for (struct birth *birth = guard->births; birth; birth = next) {
		next = birth->next;
		warm_receive(guard, birth->slot);
	}
}

void warm_stop(struct guard *guard, uint32_t slot, uint64_t kill_at)
{
	struct birth *birth = birth_find(guard, slot);
	if (!birth)
		return;
	if (!birth->is_stopped || kill_at < birth->kill_at)
		birth->kill_at = kill_at;
	birth->is_stopped = true;
}

/* Starts it by a shim. If it was stopped, that shim stops it. */
static void birth_start_cold(struct guard *guard, struct birth *birth)
{
	const struct birth copy = *birth;
	if (guard->sockets[birth->slot] >= 0)
		birth_close_socket(guard, birth);
	guard->pids[birth->slot] = 0;
	int error = guard->is_host_gone
			    ? ESRCH
			    : task_start_shim(guard, birth->slot, &birth->command, birth->launch);
	if (error) {
		birth_not_started(guard, birth, error);
		return;
	}
	birth_free(guard, birth);
	if (copy.is_stopped)
		task_send_stop(guard, copy.slot, copy.kill_at);
}

void warm_continue(struct guard *guard)
{
	uint64_t now = tfc__boot_time();
	for (struct zygote *zygote = guard->zygotes; zygote; zygote = zygote->next)
		for (struct birth *birth = guard->births; birth; birth = birth->next)
			if (birth->zygote == zygote &&
			    now > (zygote->is_ready ? birth->since + FORK_PATIENCE
						    : zygote->since + IMPORT_PATIENCE)) {
				zygote_kill(guard, zygote);
				break;
			}
	struct birth *next;
	for (struct birth *birth = guard->births; birth; birth = next) {
		next = birth->next;
		uint32_t slot = birth->slot;
		if (birth->is_over && guard->sockets[slot] >= 0) {
			warm_receive(guard, slot); /* the shim may have reported already */
			if (guard->pids[slot] != UNBORN)
				continue;
		}
		if (birth->is_over || birth->is_stopped)
			birth_start_cold(guard, birth);
	}
}

int warm_wait_ms(const struct guard *guard, int wait_ms)
{
	return guard->births && (wait_ms < 0 || wait_ms > CHECK_MS) ? CHECK_MS : wait_ms;
}
