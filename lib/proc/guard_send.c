#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pass.h"
#include "proc/guard.h"

/*
 * Puts a launch into a sealed memfd, which no process can change, not even a forked child of the
 * host. The kernel applies RLIMIT_FSIZE to it: a write beyond that limit would kill the host with
 * SIGXFSZ.
 */
static int launch_make_memfd(const void *data, size_t len)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && len > limit.rlim_cur) {
		errno = EFBIG;
		return -1;
	}
	int fd = memfd_create("tfc-launch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	if (tfc__write_all(fd, data, len) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0) {
		int error = errno;
		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

/* 0 or an errno. */
static int guard_send_outgoing(const struct tfc__guard *guard, const struct tfc__outgoing *outgoing)
{
	bool is_launch = outgoing->command.kind == TFC__MSG_SPAWN;
	int fd = is_launch ? launch_make_memfd(outgoing->data, outgoing->len) : outgoing->fd;
	if (is_launch && fd < 0)
		return errno;
	struct iovec parts[] = {
		{(void *)&outgoing->command, sizeof(outgoing->command)},
		{outgoing->data, outgoing->len},
	};
	size_t part_count = outgoing->data && !is_launch ? 2 : 1;
	int error = tfc__pass_send(guard->socket.fd, parts, part_count, &fd, fd >= 0,
				   MSG_DONTWAIT | MSG_NOSIGNAL) < 0
			    ? errno
			    : 0;
	if (is_launch)
		close(fd);
	return error;
}

/* Launches contain the values of secret variables, and a will its secret. */
static void outgoing_fini(struct tfc__outgoing *outgoing)
{
	if (outgoing->fd >= 0)
		close(outgoing->fd);
	if (outgoing->data)
		sodium_memzero(outgoing->data, outgoing->len);
	free(outgoing->data);
	free(outgoing->memory);
}

/*
 * ETOOMANYREFS (unix(7)): too many descriptors are in flight. In either case sending works again
 * once the guard has read the socket.
 */
static bool is_full_error(int error)
{
	return error == EAGAIN || error == ETOOMANYREFS || error == EINTR;
}

static bool is_closed_error(int error)
{
	return error == EPIPE || error == ECONNRESET;
}

static void guard_queue_outgoing(struct tfc__guard *guard, struct tfc__outgoing *outgoing)
{
	tfc__list_append(&guard->queue, &outgoing->link);
	tfc__io_set(&guard->socket, EPOLLIN | EPOLLOUT);
}

static int guard_fail_dead(const struct tfc__guard *guard)
{
	return tfc__ctx_fail(guard->ctx, TFC_ELOST, "proc", 0, "the guard (process %d) has died",
			     (int)guard->pid);
}

int tfc__guard_send(struct tfc__guard *guard, const struct tfc__command *command, int fd,
		    void *data, size_t len)
{
	struct tfc__outgoing outgoing = {.command = *command, .fd = fd, .data = data, .len = len};
	int code = TFC_OK;
	int error = guard->is_dead                      ? EPIPE
		    : tfc__list_is_empty(&guard->queue) ? guard_send_outgoing(guard, &outgoing)
							: EAGAIN;
	if (is_full_error(error)) {
		struct tfc__outgoing *queued = malloc(sizeof(*queued));
		if (queued) {
			*queued = outgoing;
			queued->memory = queued;
			guard_queue_outgoing(guard, queued);
			return TFC_OK;
		}
		code = tfc__fail_nomem(tfc__ctx_error(guard->ctx), "proc");
	} else if (is_closed_error(error)) {
		tfc__guard_died(guard);
		code = guard_fail_dead(guard);
	} else if (error) {
		code = tfc__fail_errno(tfc__ctx_error(guard->ctx), "proc", error,
				       error == EFBIG ? "cannot pass a launch to the guard: it "
							"exceeds the host's RLIMIT_FSIZE"
						      : "cannot pass a command to the guard");
	}
	outgoing_fini(&outgoing);
	return code;
}

void tfc__outgoing_init(struct tfc__outgoing *outgoing, const struct tfc__command *command)
{
	*outgoing = (struct tfc__outgoing){.command = *command, .fd = -1};
	tfc__list_init(&outgoing->link);
}

int tfc__guard_post(struct tfc__guard *guard, struct tfc__outgoing *outgoing)
{
	tfc__list_remove(&outgoing->link);
	int error = guard->is_dead ? EPIPE : 0;
	if (!error)
		error = tfc__list_is_empty(&guard->queue) ? guard_send_outgoing(guard, outgoing)
							  : EAGAIN;
	if (error && !is_closed_error(error)) {
		/* Whatever the error, the message is kept and sent later. */
		guard_queue_outgoing(guard, outgoing);
		return TFC_OK;
	}
	outgoing_fini(outgoing);
	if (!error)
		return TFC_OK;
	tfc__guard_died(guard);
	return guard_fail_dead(guard);
}

/* A launch that cannot be sent ends like one that the guard could not start. */
static void guard_refuse_launch(struct tfc__guard *guard, const struct tfc__outgoing *outgoing,
				int error)
{
	tfc_process *process = tfc__guard_find(guard, outgoing->command.id);
	struct tfc__report report = {.kind = TFC__MSG_EXITED,
				     .reason = TFC__END_NOT_STARTED,
				     .step = TFC__STEP_GUARD,
				     .status = error};
	if (outgoing->command.kind == TFC__MSG_SPAWN && process)
		tfc__process_receive(process, &report);
}

void tfc__guard_flush(struct tfc__guard *guard)
{
	while (!guard->is_dead && !tfc__list_is_empty(&guard->queue)) {
		struct tfc__outgoing *first = tfc__container_of(guard->queue.next,
								struct tfc__outgoing, link);
		int error = guard_send_outgoing(guard, first);
		bool is_part = first->memory != first;
		if (is_full_error(error) || (error && is_part && !is_closed_error(error)))
			return;
		tfc__list_remove(&first->link);
		if (error && !is_closed_error(error))
			guard_refuse_launch(guard, first, error);
		outgoing_fini(first);
	}
	if (guard->is_dead)
		return;
	tfc__io_set(&guard->socket, EPOLLIN);
	tfc__guard_unpark(&guard->parked);
}

void tfc__guard_unpark(struct tfc__link *parked)
{
	TFC__LIST_EACH (link, parked) {
		tfc__list_remove(link);
		tfc__work_schedule(tfc__container_of(link, struct tfc__work, link));
	}
}

void tfc__guard_drop_queue(struct tfc__guard *guard)
{
	TFC__LIST_EACH (link, &guard->queue) {
		struct tfc__outgoing *outgoing = tfc__container_of(link, struct tfc__outgoing,
								   link);
		tfc__list_remove(link);
		outgoing_fini(outgoing);
	}
}
