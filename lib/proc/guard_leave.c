/* Ends the guards of a context that is freed. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/guard.h"

/*
 * How long tfc_ctx_free waits for each step of the guard's end. The guard kills all tasks at once.
 */
#define LAST_WAIT_MS 2000

static bool guard_await_end(const struct tfc__io *io, uint64_t end)
{
	struct pollfd fd = {.fd = io->fd, .events = POLLIN};
	int ready = 0;
	if (io->fd >= 0)
		do {
			uint64_t now = tfc__now();
			ready = poll(&fd, 1, now < end ? (int)((end - now) / TFC__MS) : 0);
		} while (ready < 0 && errno == EINTR);
	return ready > 0;
}

/*
 * A guard that is stopped (SIGSTOP) does not receive the request to end. It is killed, and its
 * shims then end the tasks. The lifeline reports that the shims are gone, the pidfd that the guard
 * can be reaped.
 */
static void guard_end(struct tfc__guard *guard)
{
	const struct tfc__command kill_all = {.kind = TFC__MSG_KILL_ALL};
	const uint64_t wait = LAST_WAIT_MS * TFC__MS;
	tfc__guard_free_processes(guard);
	guard->capacity = 0; /* further reports find no process */
	if (!guard->is_dead)
		tfc__guard_drop_queue(guard);
	if (!guard->is_dead && !guard->is_known) { /* the hello may still be in the socket */
		struct pollfd fd = {.fd = guard->socket.fd, .events = POLLIN};
		if (poll(&fd, 1, LAST_WAIT_MS) > 0)
			tfc__guard_receive(guard);
		if (!guard->is_known && !guard->is_dead)
			tfc__guard_fail(guard, "did not send its hello");
	}
	if (!guard->is_dead) {
		(void)!send(guard->socket.fd, &kill_all, sizeof(kill_all),
			    MSG_NOSIGNAL | MSG_DONTWAIT);
		shutdown(guard->socket.fd, SHUT_WR);
	}
	if (!guard_await_end(&guard->pidfd, tfc__now() + wait) && guard->pidfd.fd >= 0) {
		tfc__guard_kill(guard);
		guard_await_end(&guard->pidfd, tfc__now() + wait);
	}
	guard_await_end(&guard->lifeline, tfc__now() + wait);
	tfc__guard_reap(guard);
	tfc__list_remove(&guard->link); /* it may have died while its hello was read */
	tfc__guard_free(guard);
}

/* In a forked child nothing shared may be changed: epoll's registrations are the parent's. */
static void guard_drop(struct tfc__guard *guard)
{
	struct tfc__io *ios[] = {&guard->socket, &guard->pidfd, &guard->lifeline};
	for (int i = 0; i < 3; i++)
		if (ios[i]->fd >= 0)
			close(ios[i]->fd);
	tfc__guard_free_processes(guard);
	tfc__guard_drop_queue(guard);
	tfc__guard_forget_ports(guard);
	free(guard->table);
	free(guard);
}

void tfc__guards_leave(void *slot, bool is_forked)
{
	struct tfc__guards *guards = slot;
	void (*end)(struct tfc__guard *) = is_forked ? guard_drop : guard_end;
	if (guards->current)
		end(guards->current);
	TFC__LIST_EACH (link, &guards->dead)
		end(tfc__container_of(link, struct tfc__guard, link));
	tfc__lease_forget_all(guards);
	tfc__private_dirs_forget(guards);
	free(guards);
}
