#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/pass.h"

#define BATCH 32 /* messages read before shims get their turn */

struct request {
	struct tfc__command command;
	char path[PATH_MAX];
};

/* The length of the message, 0 at the end of the socket, or -1 and errno. */
static ssize_t host_receive_request(struct request *request, int *ret_fd)
{
	return tfc__pass_recv(TFC__GUARD_HOST, request, sizeof(*request) - 1, MSG_DONTWAIT, ret_fd,
			      1);
}

static void host_handle_request(struct guard *guard, const struct request *request, size_t len,
				int fd)
{
	const struct tfc__command *command = &request->command;
	switch (command->kind) {
	case TFC__MSG_SPAWN:
		keep_set_bind_window(guard, command->keep_id, true);
		task_spawn(guard, command, fd);
		break;
	case TFC__MSG_STOP:
		decide(guard, (struct guard_event){.kind = GUARD_STOP, .command = command});
		break;
	case TFC__MSG_SIGNAL:
		task_signal(guard, command);
		break;
	case TFC__MSG_KEEP:
		keep_port(guard, command->keep_id, fd);
		return; /* keep_port owns fd now */
	case TFC__MSG_BIND_WINDOW:
		keep_set_bind_window(guard, command->keep_id, command->value);
		break;
	case TFC__MSG_RELEASE:
		keep_release(guard, command->keep_id);
		break;
	case TFC__MSG_OWN_DIR:
		dir_own(guard, command, request->path, fd);
		return;
	case TFC__MSG_WILL:
		will_set(guard, request->path, len - sizeof(*command));
		break;
	case TFC__MSG_WILL_TO:
		will_set_addresses(guard, command->value, request->path, len - sizeof(*command));
		break;
	case TFC__MSG_KILL_ALL: /* the host is alive, and may start other guards */
		guard->will.is_set = false;
		decide(guard, (struct guard_event){.kind = GUARD_KILL_ALL});
		host_gone(guard);
		break;
	case TFC__MSG_LEASE:
		lease_receive(guard, command);
		break;
	case TFC__MSG_CLEAR:
		cgroup_clear_dead();
		break;
	case TFC__MSG_PING:
		host_report(guard, &(struct tfc__report){.kind = TFC__MSG_PONG});
		break;
	}
	if (fd >= 0)
		close(fd);
}

static void host_send_unsent(struct guard *guard)
{
	while (guard->unsent) {
		struct unsent *first = guard->unsent;
		if (send(TFC__GUARD_HOST, &first->report, sizeof(first->report),
			 MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
		    errno == EAGAIN)
			return;
		guard->unsent = first->next;
		free(first);
	}
	guard->unsent_end = &guard->unsent;
	guard->is_host_full = false;
	watch(guard, TFC__GUARD_HOST, EPOLLIN, WATCH_HOST);
}

void host_receive(struct guard *guard, uint32_t events)
{
	struct request request;
	int fd;
	if (events & EPOLLOUT)
		host_send_unsent(guard);
	if (!(events & ~(uint32_t)EPOLLOUT))
		return;
	for (int i = 0; i < BATCH && !guard->is_host_gone; i++) {
		ssize_t len = host_receive_request(&request, &fd);
		if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR))
			host_gone(guard);
		if (len < (ssize_t)sizeof(request.command)) {
			if (fd >= 0)
				close(fd);
			return;
		}
		((char *)&request)[len] = 0;
		host_handle_request(guard, &request, (size_t)len, fd);
	}
}

void host_report(struct guard *guard, const struct tfc__report *report)
{
	if (guard->is_host_gone)
		return;
	if (!guard->is_host_full && send(TFC__GUARD_HOST, report, sizeof(*report),
					 MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*report))
		return;
	struct unsent *unsent = malloc(sizeof(*unsent));
	if (!unsent)
		abort(); /* the shims then stop their tasks, and the host sees all as lost */
	unsent->report = *report;
	unsent->next = NULL;
	*guard->unsent_end = unsent;
	guard->unsent_end = &unsent->next;
	if (!guard->is_host_full)
		watch(guard, TFC__GUARD_HOST, EPOLLIN | EPOLLOUT, WATCH_HOST);
	guard->is_host_full = true;
}

int host_hello(struct guard *guard)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
	int fds[2] = {ends[0], self};
	struct tfc__report report = {.kind = TFC__MSG_HELLO,
				     .pid = getpid(),
				     .status = TFC__PROTOCOL_VERSION};
	struct iovec part = {&report, sizeof(report)};
	ssize_t sent = self < 0 ? -1
				: tfc__pass_send(TFC__GUARD_HOST, &part, 1, fds, 2, MSG_NOSIGNAL);
	close(ends[0]);
	guard->lifeline = ends[1];
	if (self < 0)
		return -1;
	close(self);
	if (sent < 0)
		host_gone(guard); /* the host is dead already */
	return 0;
}

void host_gone(struct guard *guard)
{
	struct request request;
	ssize_t len;
	int fd;
	if (guard->is_host_gone)
		return;
	guard->is_host_gone = true;
	/* The guard must remove the directories that the host made just before its end, and publish
	 * its last will. Other messages have become pointless. */
	while ((len = host_receive_request(&request, &fd)) > 0) {
		((char *)&request)[len] = 0;
		uint32_t kind = len > (ssize_t)sizeof(request.command) ? request.command.kind : 0;
		if (kind == TFC__MSG_OWN_DIR || kind == TFC__MSG_WILL || kind == TFC__MSG_WILL_TO)
			host_handle_request(guard, &request, (size_t)len, fd);
		else if (fd >= 0)
			close(fd);
	}
	close(TFC__GUARD_HOST);
	/* it stays open, because the will waits for it */
	epoll_ctl(guard->epoll, EPOLL_CTL_DEL, TFC__GUARD_PIDFD, NULL);
	decide(guard, (struct guard_event){.kind = GUARD_HOST_GONE});
}
