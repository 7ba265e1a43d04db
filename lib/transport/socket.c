#include "transport/socket.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"

#define ACCEPTS 32            /* per turn of dispatch, so that other descriptors are served */
#define PAUSE (100 * TFC__MS) /* before accept is retried */

/* ---- connections */

static uint32_t epoll_interest(uint32_t wanted)
{
	return (wanted & TFC_PIPE_EVENT_READABLE ? EPOLLIN : 0) |
	       (wanted & TFC_PIPE_EVENT_WRITABLE ? EPOLLOUT : 0);
}

/* epoll reports a hang-up even if no event is wanted, and would do so in every turn. With no event
 * wanted the descriptor is therefore not watched any more. */
static void socket_on_event(struct tfc__io *io, uint32_t events)
{
	struct tfc__socket *socket = tfc__container_of(io, struct tfc__socket, io);
	uint32_t reported = (events & EPOLLIN ? TFC_PIPE_EVENT_READABLE : 0) |
			    (events & EPOLLOUT ? TFC_PIPE_EVENT_WRITABLE : 0);
	if (events & (EPOLLHUP | EPOLLERR)) {
		if (!socket->wanted)
			tfc__io_close(io);
		reported |= TFC_PIPE_EVENT_READABLE;
	}
	tfc_pipe_ready(socket->pipe, reported); /* the socket may be closed now */
}

void tfc__socket_init(struct tfc__socket *socket, tfc_ctx *ctx, tfc_pipe *pipe)
{
	*socket = (struct tfc__socket){.ctx = ctx,
				       .pipe = pipe,
				       .fd.fd = -1,
				       .failure.component = ""};
	socket->wanted = TFC_PIPE_EVENT_READABLE | TFC_PIPE_EVENT_WRITABLE;
}

int tfc__socket_start(struct tfc__socket *socket, int fd, tfc_error *error)
{
	if (socket->fd.fd < 0)
		tfc__fd_note(socket->ctx, &socket->fd, fd);
	socket->is_connected = true;
	int code = tfc__io_open(&socket->io, socket->ctx, fd, epoll_interest(socket->wanted),
				socket_on_event);
	if (code < 0)
		*error = *tfc__ctx_error(socket->ctx);
	return code;
}

void tfc__socket_fini(struct tfc__socket *socket)
{
	tfc__io_close(&socket->io);
	tfc__fd_close(&socket->fd);
}

/* The result of a call that moved no byte: 0, or a failure. */
static int64_t socket_io_result(int sys_errno, tfc_error *error)
{
	if (sys_errno == EAGAIN || sys_errno == EWOULDBLOCK || sys_errno == EINTR)
		return 0;
	if (sys_errno == ETIMEDOUT)
		return tfc__fail(error, TFC_ELOST, "transport", sys_errno,
				 "the peer no longer responds");
	tfc__fail_errno(error, "transport", sys_errno, "connection failed");
	error->code = TFC_ELOST;
	return TFC_ELOST;
}

/* A socket that is not connected: 0 while it connects, else the failure. */
static int64_t socket_connect_result(const struct tfc__socket *socket, tfc_error *error)
{
	if (socket->failure.code < 0)
		*error = socket->failure;
	return socket->failure.code;
}

int64_t tfc__socket_read(void *pipe_impl, void *data, size_t len, tfc_error *error)
{
	struct tfc__socket *socket = pipe_impl;
	if (!socket->is_connected)
		return socket_connect_result(socket, error);
	ssize_t count = recv(socket->fd.fd, data, len, 0);
	if (count < 0)
		return socket_io_result(errno, error);
	if (count == 0)
		return tfc__fail(error, TFC_ELOST, "transport", 0,
				 "the peer closed the connection");
	return count;
}

int64_t tfc__socket_write(void *pipe_impl, const void *data, size_t len, tfc_error *error)
{
	struct tfc__socket *socket = pipe_impl;
	if (!socket->is_connected)
		return socket_connect_result(socket, error);
	ssize_t count = send(socket->fd.fd, data, len, MSG_NOSIGNAL);
	return count < 0 ? socket_io_result(errno, error) : count;
}

void tfc__socket_want(void *pipe_impl, uint32_t events)
{
	struct tfc__socket *socket = pipe_impl;
	if (socket->wanted == events)
		return;
	socket->wanted = events;
	if (!socket->is_connected)
		return;
	/* a failure (no memory for the watch) is noticed by the next read */
	if (socket->io.ctx)
		tfc__io_set(&socket->io, epoll_interest(events));
	else
		tfc__io_open(&socket->io, socket->ctx, socket->fd.fd, epoll_interest(events),
			     socket_on_event);
}

/* ---- listeners */

static void pause_listener(struct tfc__socket_listener *listener, int sys_errno)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail_errno(&error, "transport", sys_errno, "cannot accept a connection");
	tfc__log(listener->ctx, TFC_LOG_WARNING, "transport", "", "%s; retrying", error.text);
	tfc__io_set(&listener->io, 0);
	tfc__timer_set(&listener->pause, tfc__now() + PAUSE);
}

static void resume_listener(struct tfc__timer *timer)
{
	struct tfc__socket_listener *listener =
		tfc__container_of(timer, struct tfc__socket_listener, pause);
	tfc__io_set(&listener->io, EPOLLIN);
}

/* accept(2) also reports errors of the connection that it would have returned. They do not concern
 * the next connection. */
static bool is_connection_error(int sys_errno)
{
	switch (sys_errno) {
	case ECONNABORTED:
	case EINTR:
	case EPROTO:
	case ENETDOWN:
	case ENOPROTOOPT:
	case EHOSTDOWN:
	case ENONET:
	case EHOSTUNREACH:
	case EOPNOTSUPP:
	case ENETUNREACH:
	case EPERM:
		return true;
	default:
		return false;
	}
}

static void listener_on_connections(struct tfc__io *io, uint32_t events)
{
	struct tfc__socket_listener *listener = tfc__container_of(io, struct tfc__socket_listener,
								  io);
	for (int i = 0; i < ACCEPTS; i++) {
		struct sockaddr_storage from = {0};
		socklen_t len = sizeof(from);
		tfc_error ignored = TFC_ERROR_INIT;
		int fd = accept4(listener->fd.fd, (struct sockaddr *)&from, &len,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (fd < 0 && is_connection_error(errno))
			continue;
		if (fd < 0) {
			pause_listener(listener, errno);
			return;
		}
		struct tfc__socket *one = listener->ops->new_socket(listener, fd, &from);
		if (!one)
			close(fd);
		else if (tfc__socket_start(one, fd, &ignored) < 0 ||
			 tfc_listener_accept(listener->listener, one, &one->pipe) < 0)
			listener->ops->free_socket(one);
	}
}

int tfc__socket_listener_open(struct tfc__socket_listener *listener, tfc_ctx *ctx, tfc_listener *of,
			      int fd, const struct tfc__socket_listener_ops *ops, tfc_error *error)
{
	*listener = (struct tfc__socket_listener){.ctx = ctx, .listener = of, .ops = ops};
	tfc__fd_note(ctx, &listener->fd, fd);
	tfc__timer_init(&listener->pause, ctx, resume_listener);
	int code = tfc__io_open(&listener->io, ctx, fd, EPOLLIN, listener_on_connections);
	if (code < 0)
		*error = *tfc__ctx_error(ctx);
	return code;
}

void tfc__socket_listener_fini(struct tfc__socket_listener *listener)
{
	tfc__timer_cancel(&listener->pause);
	tfc__io_close(&listener->io);
	tfc__fd_close(&listener->fd);
}
