/*
 * Zygotes, and the tasks that they fork (doc/internals/warm.md). The guard requests a birth and
 * passes the descriptors that a shim starts with. The zygote forks a process that the guard adopts.
 * That process forks the task and becomes its shim by exec. It reports its pid, and receives the
 * launch as any other shim does.
 *
 * Forking a large process takes time. Births are therefore requested in advance: such a spare waits
 * until a task needs it.
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
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pass.h"
#include "proc/sweep.h"

#define FORK_PATIENCE (10 * TFC__SECOND) /* from the request, or from the fork before it */
#define CHECK_MS 500                     /* how often both are checked while a task waits */
#define SPARES_MAX 4                     /* per zygote */
/*
 * Per zygote. Each has seven descriptors, and those that are on their way count for all processes
 * of the user: too many, and no task can be started any more (ETOOMANYREFS in unix(7)).
 */
#define REQUESTS_MAX 4

static bool birth_is_spare(const struct birth *birth)
{
	return birth->slot == NO_SLOT;
}

static struct birth **birth_at(struct guard *guard, const struct birth *birth)
{
	struct birth **at = &guard->births;
	while (*at != birth)
		at = &(*at)->next;
	return at;
}

static void birth_free(struct guard *guard, struct birth *birth)
{
	*birth_at(guard, birth) = birth->next;
	if (birth->socket >= 0)
		close(birth->socket);
	if (birth->launch >= 0)
		close(birth->launch);
	free(birth);
}

/*
 * Its shim ends when its socket does. If it was stopped, it must be continued for that. The zygote
 * may still have to fork it: that is progress, for which the guard awaits the report.
 */
static void spare_drop(struct guard *guard, struct birth *spare)
{
	pid_t pid = spare->pid;
	spare->is_unwanted = !pid && spare->zygote;
	if (spare->is_unwanted)
		return;
	birth_free(guard, spare);
	if (!pid)
		return;
	kill(pid, SIGCONT);
	waitpid(pid, NULL, 0);
}

void warm_drop_spares(struct guard *guard)
{
	struct birth *next;
	for (struct birth *birth = guard->births; birth; birth = next) {
		next = birth->next;
		if (birth_is_spare(birth))
			spare_drop(guard, birth);
	}
}

/* ---- zygotes */

static struct zygote *zygote_find(const struct guard *guard, uint32_t slot)
{
	struct zygote *zygote = guard->zygotes;
	while (zygote && zygote->slot != slot)
		zygote = zygote->next;
	return zygote;
}

int warm_open_zygote(struct guard *guard, uint32_t slot, uint32_t import_ms)
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
				  .spares_wanted = 1,
				  .ready_until = tfc__now() + import_ms * TFC__MS};
	guard->zygotes = zygote;
	watch(guard, ends[0], EPOLLIN, FIRST_ZYGOTE + slot);
	return ends[1];
}

/* It has ended, or does not respond: tasks that it has not forked yet are started by shims. */
static void zygote_fail(struct guard *guard, struct zygote *zygote)
{
	struct birth *next;
	if (zygote->socket >= 0)
		close(zygote->socket);
	zygote->socket = -1;
	for (struct birth *birth = guard->births; birth; birth = next) {
		next = birth->next;
		if (birth->zygote != zygote)
			continue;
		birth->zygote = NULL;
		birth->is_over = true;
		if (birth_is_spare(birth))
			spare_drop(guard, birth);
	}
}

bool warm_close_zygote(struct guard *guard, uint32_t slot)
{
	for (struct zygote **at = &guard->zygotes; *at; at = &(*at)->next)
		if ((*at)->slot == slot) {
			struct zygote *zygote = *at;
			zygote_fail(guard, zygote);
			*at = zygote->next;
			free(zygote);
			return true;
		}
	return false;
}

/*
 * It does not respond, or breaks the protocol. It is its shim's only child; its pid may not have
 * been reported yet.
 */
static void zygote_kill(struct guard *guard, struct zygote *zygote)
{
	pid_t shim = guard->pids[zygote->slot];
	if (shim > 0)
		tfc__sweep(shim, NULL, NULL);
	zygote_fail(guard, zygote);
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
	if (len != 5 || memcmp(text, "ready", 5) != 0 || zygote->is_ready) {
		zygote_kill(guard, zygote);
		return;
	}
	zygote->is_ready = true;
	zygote->progress = tfc__now();
	guard->is_spare_wanted = true;
	host_report(guard, &(struct tfc__report){.kind = TFC__MSG_READY,
						 .id = guard->core.tasks[slot].id});
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

/* Of the zygote, those to which no shim has responded. */
static uint32_t births_count_requested(const struct guard *guard, const struct zygote *zygote)
{
	uint32_t count = 0;
	for (const struct birth *birth = guard->births; birth; birth = birth->next)
		count += birth->zygote == zygote && birth->is_requested && !birth->pid &&
			 birth->socket >= 0;
	return count;
}

static bool birth_request(struct guard *guard, struct birth *birth)
{
	int ends[2];
	birth->is_requested = true;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return false;
	birth->socket = ends[0];
	bool is_sent = watch(guard, ends[0], EPOLLIN, FIRST_BIRTH + birth->number) == 0 &&
		       zygote_send_fork(guard, birth->zygote, ends[1]);
	close(ends[1]);
	return is_sent;
}

/* A spare, requested now or later. NULL: the zygote has failed, or a resource is missing. */
static struct birth *birth_new(struct guard *guard, struct zygote *zygote)
{
	struct birth *birth = zygote->socket >= 0 ? malloc(sizeof(*birth)) : NULL;
	if (!birth)
		return NULL;
	*birth = (struct birth){.next = guard->births,
				.number = ++guard->last_birth,
				.zygote = zygote,
				.slot = NO_SLOT,
				.socket = -1,
				.launch = -1,
				.since = tfc__now()};
	guard->births = birth;
	if (births_count_requested(guard, zygote) >= REQUESTS_MAX || birth_request(guard, birth))
		return birth;
	birth_free(guard, birth);
	return NULL;
}

/* In the order in which the tasks were started: the last birth of the list is the oldest. */
static void births_request_waiting(struct guard *guard, struct zygote *zygote)
{
	struct birth *oldest;
	do {
		oldest = NULL;
		for (struct birth *birth = guard->births; birth; birth = birth->next)
			if (birth->zygote == zygote && !birth->is_requested && !birth->is_stopped &&
			    !birth->is_over)
				oldest = birth;
		if (!oldest || births_count_requested(guard, zygote) >= REQUESTS_MAX)
			return;
		if (!birth_request(guard, oldest))
			oldest->is_over = true;
	} while (oldest);
}

void warm_prepare(struct guard *guard)
{
	for (struct zygote *zygote = guard->zygotes; zygote; zygote = zygote->next) {
		uint32_t spares = 0;
		for (struct birth *birth = guard->births; birth; birth = birth->next)
			spares += birth->zygote == zygote && birth_is_spare(birth) &&
				  !birth->is_unwanted;
		while (zygote->is_ready && spares++ < zygote->spares_wanted &&
		       births_count_requested(guard, zygote) < REQUESTS_MAX)
			if (!birth_new(guard, zygote))
				break;
	}
}

/* Of the zygote's spares, one that has reported its pid is the best. */
static struct birth *spare_find(const struct guard *guard, const struct zygote *zygote)
{
	struct birth *found = NULL;
	for (struct birth *birth = guard->births; birth; birth = birth->next)
		if (birth->zygote == zygote && birth_is_spare(birth) && !birth->is_unwanted &&
		    (!found || birth->pid))
			found = birth;
	return found;
}

/* ---- births */

static void birth_not_started(struct guard *guard, struct birth *birth, int error)
{
	uint32_t slot = birth->slot;
	birth_free(guard, birth);
	guard->pids[slot] = 0;
	decide(guard,
	       (struct guard_event){.kind = GUARD_SPAWN_FAILED, .slot = slot, .error = error});
}

/* Its shim waits for the launch. */
static void birth_complete(struct guard *guard, struct birth *birth)
{
	int locks[TFC__LOCKS];
	int error = dir_prepare(guard, &birth->command, locks);
	if (error) {
		birth_not_started(guard, birth, error);
	} else {
		task_set_shim(guard, birth->slot, birth->pid, birth->socket);
		/* A shim that was killed just now is reported as lost when it is reaped. */
		error = shim_send_launch(birth->socket, &birth->command, birth->launch, locks, -1);
		if (error && error != EPIPE && error != ECONNRESET)
			kill(birth->pid, SIGKILL);
		kill(birth->pid, SIGCONT); /* it may have been stopped while it was a spare */
		birth->socket = -1;        /* the slot's now */
		birth_free(guard, birth);
	}
	dir_release(locks);
}

/*
 * Those of the guard, as every shim has them: a module may have set others, which are for the task.
 * Without the privilege to raise a hard limit, the soft one is raised to it.
 */
static void birth_set_limits(const struct guard *guard, pid_t shim)
{
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		struct rlimit limit = guard->nofile, old;
		if (i != RLIMIT_NOFILE && getrlimit(i, &limit) < 0)
			continue;
		if (prlimit(shim, i, &limit, NULL) == 0 || prlimit(shim, i, NULL, &old) < 0)
			continue;
		limit.rlim_max = old.rlim_max;
		if (limit.rlim_cur > limit.rlim_max)
			limit.rlim_cur = limit.rlim_max;
		prlimit(shim, i, &limit, NULL);
	}
}

static void birth_receive(struct guard *guard, struct birth *birth)
{
	struct tfc__report report;
	if (birth->socket < 0)
		return;
	ssize_t len = recv(birth->socket, &report, sizeof(report), MSG_DONTWAIT);
	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (len == (ssize_t)sizeof(report) && report.kind == TFC__MSG_BORN && report.pid > 0 &&
	    !birth->pid) {
		birth->pid = report.pid;
		birth_set_limits(guard, birth->pid);
		if (birth->zygote)
			birth->zygote->progress = tfc__now();
		if (birth->is_unwanted)
			spare_drop(guard, birth);
		else if (!birth_is_spare(birth) && !birth->is_stopped)
			birth_complete(guard, birth);
		return;
	}
	if (birth_is_spare(birth)) {
		birth_free(guard, birth); /* it was killed, and is reaped like every child */
		return;
	}
	close(birth->socket);
	birth->socket = -1;
	birth->is_over = true;
}

void warm_receive(struct guard *guard, uint64_t number)
{
	for (struct birth *birth = guard->births; birth; birth = birth->next)
		if (birth->number == number) {
			birth_receive(guard, birth);
			return;
		}
}

bool warm_is_pending(const struct guard *guard)
{
	for (const struct birth *birth = guard->births; birth; birth = birth->next)
		if (birth->is_requested && !birth->pid)
			return true;
	return false;
}

void warm_receive_all(struct guard *guard)
{
	struct birth *next;
	for (struct birth *birth = guard->births; birth; birth = next) {
		next = birth->next;
		if (!birth->pid)
			birth_receive(guard, birth);
	}
}

bool warm_is_spare(const struct guard *guard, pid_t pid)
{
	for (const struct birth *birth = guard->births; birth; birth = birth->next)
		if (birth->pid == pid)
			return true;
	return false;
}

void warm_forget(struct guard *guard, pid_t pid)
{
	for (struct birth *birth = guard->births; birth; birth = birth->next)
		if (birth->pid == pid) {
			birth->pid = 0;
			birth_receive(guard, birth); /* the end of its socket */
			return;
		}
}

bool warm_request(struct guard *guard, uint32_t slot, const struct tfc__command *command,
		  int launch)
{
	uint32_t zygote_slot = guard_core_find(&guard->core, command->zygote);
	struct zygote *zygote = zygote_slot == NO_SLOT ? NULL : zygote_find(guard, zygote_slot);
	int copy = zygote ? fcntl(launch, F_DUPFD_CLOEXEC, TFC__GUARD_RESERVED) : -1;
	struct birth *birth = copy >= 0 ? spare_find(guard, zygote) : NULL;
	if (copy >= 0 && (!birth || !birth->pid) && zygote->spares_wanted < SPARES_MAX)
		zygote->spares_wanted += zygote->is_ready;
	if (copy >= 0 && !birth)
		birth = birth_new(guard, zygote);
	if (!birth) {
		if (copy >= 0)
			close(copy);
		return false;
	}
	birth->slot = slot;
	birth->launch = copy;
	birth->command = *command;
	birth->since = tfc__now();
	guard->pids[slot] = UNBORN;
	guard->sockets[slot] = -1;
	if (birth->pid)
		birth_complete(guard, birth);
	return true;
}

static struct birth *birth_find(const struct guard *guard, uint32_t slot)
{
	struct birth *birth = guard->births;
	while (birth && birth->slot != slot)
		birth = birth->next;
	return birth;
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
	guard->pids[birth->slot] = 0;
	int error = guard->is_host_gone
			    ? ESRCH
			    : task_start_shim(guard, birth->slot, &birth->command, birth->launch);
	if (error) {
		birth_not_started(guard, birth, error);
		return;
	}
	if (birth->launch >= 0)
		close(birth->launch);
	birth->launch = -1;
	birth->slot = NO_SLOT;
	if (birth->socket >= 0)
		spare_drop(guard, birth);
	else
		birth_free(guard, birth);
	if (copy.is_stopped)
		task_send_stop(guard, copy.slot, copy.kill_at);
}

static bool zygote_is_importing(const struct zygote *zygote)
{
	return zygote->socket >= 0 && !zygote->is_ready;
}

/* Also if no task waits: an import without end would occupy a CPU. */
static void zygotes_end_late(struct guard *guard, uint64_t now)
{
	for (struct zygote *zygote = guard->zygotes; zygote; zygote = zygote->next)
		if (zygote_is_importing(zygote) && now > zygote->ready_until)
			zygote_kill(guard, zygote);
}

static bool birth_is_overdue(const struct birth *birth, uint64_t now)
{
	const struct zygote *zygote = birth->zygote;
	if (!zygote || !zygote->is_ready || birth_is_spare(birth))
		return false;
	uint64_t since = birth->since > zygote->progress ? birth->since : zygote->progress;
	return now > since + FORK_PATIENCE;
}

/* The first task that waits and needs something; NULL: none. */
static struct birth *birth_find_due(const struct guard *guard, uint64_t now)
{
	struct birth *birth = guard->births;
	while (birth && (birth_is_spare(birth) ||
			 (!birth->is_over && !birth->is_stopped && !birth_is_overdue(birth, now))))
		birth = birth->next;
	return birth;
}

void warm_continue(struct guard *guard)
{
	uint64_t now = tfc__now();
	zygotes_end_late(guard, now);
	for (struct zygote *zygote = guard->zygotes; zygote; zygote = zygote->next)
		births_request_waiting(guard, zygote);
	for (struct birth *birth; (birth = birth_find_due(guard, now));) {
		uint32_t slot = birth->slot;
		if (birth_is_overdue(birth, now)) {
			zygote_kill(guard, birth->zygote);
			continue;
		}
		if (birth->is_over && !birth->is_stopped)
			birth_receive(guard, birth); /* the shim may have reported already */
		if (guard->pids[slot] == UNBORN && birth_find(guard, slot) == birth)
			birth_start_cold(guard, birth);
	}
}

static int earlier_ms(int one, int other)
{
	return one < 0 || one > other ? other : one;
}

int warm_wait_ms(const struct guard *guard, int wait_ms)
{
	uint64_t now = tfc__now();
	for (const struct zygote *zygote = guard->zygotes; zygote; zygote = zygote->next) {
		if (!zygote_is_importing(zygote))
			continue;
		uint64_t ms = now > zygote->ready_until ? 0
							: (zygote->ready_until - now) / TFC__MS + 1;
		wait_ms = earlier_ms(wait_ms, ms < INT_MAX ? (int)ms : INT_MAX);
	}
	const struct birth *birth = guard->births;
	while (birth && birth_is_spare(birth))
		birth = birth->next;
	return birth ? earlier_ms(wait_ms, CHECK_MS) : wait_ms;
}
