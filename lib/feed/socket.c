#include "feed/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/pass.h"

#define READS_MAX 64 /* messages per turn of dispatch */

/* A message that waits. */
struct feed_unsent {
	struct tfc__link link;
	struct tfc__buf data;
	int fd;
};

static void feed_socket_event(struct tfc__io *io, uint32_t events);

static void feed_socket_free_unsent(struct feed_unsent *unsent)
{
	tfc__list_remove(&unsent->link);
	tfc__buf_fini(&unsent->data);
	if (unsent->fd >= 0)
		close(unsent->fd);
	free(unsent);
}

static ssize_t feed_socket_write(int socket, const struct tfc__buf *data, int fd)
{
	struct iovec part = {data->data, data->len};
	ssize_t sent;
	do
		sent = tfc__pass_send(socket, &part, 1, &fd, fd >= 0, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent;
}

/* A broken connection shows when it is read. */
static int feed_socket_send_code(int sys_errno)
{
	switch (sys_errno) {
	case EPIPE:
	case ECONNRESET:
	case ENOTCONN:
		return TFC_OK;
	case EMSGSIZE: /* larger than the socket's buffer */
		return TFC_ETOOBIG;
	case ETOOMANYREFS: /* descriptors that nobody has received yet */
		return TFC_EMFILE;
	default:
		return tfc__err_from_errno(sys_errno);
	}
}

/* Sends what waits. Without one of the messages the rest means nothing: the connection ends. */
static void feed_socket_flush(struct tfc__feed_socket *sock)
{
	TFC__LIST_EACH (link, &sock->queue) {
		struct feed_unsent *unsent = tfc__container_of(link, struct feed_unsent, link);
		if (feed_socket_write(sock->fd.fd, &unsent->data, unsent->fd) < 0) {
			if (errno == EAGAIN || errno == ENOBUFS)
				return;
			if (feed_socket_send_code(errno) < 0)
				shutdown(sock->fd.fd, SHUT_RDWR);
		}
		feed_socket_free_unsent(unsent);
	}
}

/* Without an event to wait for, the descriptor is not watched: a hangup is always reported. */
static int feed_socket_watch(struct tfc__feed_socket *sock)
{
	bool is_full = sock->awaits_room || !tfc__list_is_empty(&sock->queue);
	uint32_t events = (sock->is_paused ? 0 : (uint32_t)EPOLLIN) |
			  (is_full ? (uint32_t)EPOLLOUT : 0);
	if (sock->is_down)
		return TFC_OK;
	if (!events)
		tfc__io_close(&sock->io);
	else if (sock->io.ctx)
		return tfc__io_set(&sock->io, events);
	else
		return tfc__io_open(&sock->io, sock->ctx, sock->fd.fd, events, feed_socket_event);
	return TFC_OK;
}

int tfc__feed_socket_pause(struct tfc__feed_socket *sock, bool is_paused)
{
	if (sock->is_paused == is_paused)
		return TFC_OK;
	sock->is_paused = is_paused;
	return feed_socket_watch(sock);
}

void tfc__feed_socket_await_room(struct tfc__feed_socket *sock)
{
	sock->awaits_room = true;
	feed_socket_watch(sock);
}

static int feed_socket_queue(struct tfc__feed_socket *sock, struct tfc__buf *data, int fd)
{
	struct feed_unsent *unsent = calloc(1, sizeof(*unsent));
	if (!unsent)
		return TFC_ENOMEM;
	unsent->fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
	if (fd >= 0 && unsent->fd < 0) {
		free(unsent);
		return TFC_EMFILE;
	}
	unsent->data = *data;
	*data = (struct tfc__buf){0};
	tfc__list_append(&sock->queue, &unsent->link);
	feed_socket_watch(sock);
	return TFC_OK;
}

/* Frees the data, or queues it. */
static int feed_socket_send(struct tfc__feed_socket *sock, struct tfc__buf *data, int fd)
{
	int code = TFC_OK;
	if (data->is_failed)
		code = TFC_ENOMEM;
	else if (data->len > TFC__FEED_MESSAGE_MAX)
		code = TFC_ETOOBIG;
	else if (!tfc__list_is_empty(&sock->queue))
		code = feed_socket_queue(sock, data, fd);
	else if (feed_socket_write(sock->fd.fd, data, fd) < 0)
		code = errno == EAGAIN || errno == ENOBUFS ? feed_socket_queue(sock, data, fd)
							   : feed_socket_send_code(errno);
	tfc__buf_fini(data);
	return code;
}

int tfc__feed_socket_send(struct tfc__feed_socket *sock, const struct tfc__feed_message *message,
			  int fd)
{
	struct tfc__buf data = {0};
	tfc__feed_message_write(&data, message);
	return feed_socket_send(sock, &data, fd);
}

int tfc__feed_socket_send_bytes(struct tfc__feed_socket *sock, const void *bytes, size_t len,
				int fd)
{
	struct tfc__buf data = {0};
	tfc__buf_add(&data, bytes, len);
	return feed_socket_send(sock, &data, fd);
}

/* Returns false once the socket is closed. */
static bool feed_socket_fail(struct tfc__feed_socket *sock, const tfc_error *why)
{
	sock->is_down = true;
	tfc__io_close(&sock->io);
	sock->ops->down(sock->user, why);
	return false;
}

/* Reads one message. Returns false when there is none, or the socket is closed. */
static bool feed_socket_read(struct tfc__feed_socket *sock)
{
	int fd = -1;
	tfc_error error = TFC_ERROR_INIT;
	ssize_t len = tfc__pass_recv(sock->fd.fd, sock->received, TFC__FEED_MESSAGE_MAX,
				     MSG_DONTWAIT, &fd, 1);
	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	/* The other end has closed without reading all. What it has sent before is still there. */
	if (len < 0 && errno == ECONNRESET)
		return true;
	if (len <= 0) {
		tfc__fail(&error, TFC_ELOST, "feed", len < 0 ? errno : 0,
			  "the other end of the feed has closed the connection");
		return feed_socket_fail(sock, &error);
	}
	struct tfc__feed_parsed parsed;
	sock->received_len = (size_t)len;
	if (tfc__feed_message_parse(&parsed, sock->received, (size_t)len, &error) < 0) {
		if (fd >= 0)
			close(fd);
		return feed_socket_fail(sock, &error);
	}
	bool is_closed = false;
	sock->is_closed = &is_closed;
	sock->ops->message(sock->user, &parsed.message, fd);
	tfc__feed_parsed_fini(&parsed);
	if (is_closed)
		return false;
	sock->is_closed = NULL;
	return !sock->is_paused;
}

static void feed_socket_event(struct tfc__io *io, uint32_t events)
{
	struct tfc__feed_socket *sock = tfc__container_of(io, struct tfc__feed_socket, io);
	if (events & EPOLLOUT) {
		feed_socket_flush(sock);
		if (sock->awaits_room && tfc__list_is_empty(&sock->queue)) {
			sock->awaits_room = false;
			sock->ops->room(sock->user);
		}
		feed_socket_watch(sock);
	}
	for (int i = 0; i < READS_MAX && !sock->is_paused && feed_socket_read(sock); i++)
		;
}

int tfc__feed_socket_open(struct tfc__feed_socket *sock, tfc_ctx *ctx, int fd,
			  const struct tfc__feed_socket_ops *ops, void *user, tfc_error *error)
{
	*sock = (struct tfc__feed_socket){.ops = ops, .user = user};
	tfc__list_init(&sock->queue);
	sock->received = malloc(TFC__FEED_MESSAGE_MAX);
	int code = sock->received ? tfc__io_open(&sock->io, ctx, fd, EPOLLIN, feed_socket_event)
				  : TFC_ENOMEM;
	if (code < 0) {
		free(sock->received);
		sock->received = NULL;
		close(fd);
		return tfc__fail(error, code, "feed", 0, "cannot open a connection of the feed: %s",
				 tfc_err_text(code));
	}
	sock->ctx = ctx;
	tfc__fd_note(ctx, &sock->fd, fd);
	return TFC_OK;
}

void tfc__feed_socket_close(struct tfc__feed_socket *sock)
{
	if (!sock->ctx)
		return;
	if (sock->is_closed)
		*sock->is_closed = true;
	sock->is_closed = NULL;
	sock->ctx = NULL;
	TFC__LIST_EACH (link, &sock->queue)
		feed_socket_free_unsent(tfc__container_of(link, struct feed_unsent, link));
	tfc__io_close(&sock->io);
	tfc__fd_close(&sock->fd);
	free(sock->received);
	sock->received = NULL;
}

/* ---- addresses */

/* An abstract address has no file, so that nothing of it is left after any end of its server. */
static int feed_address_parse(const char *text, tfc_error *error, struct sockaddr_un *ret_address,
			      socklen_t *ret_len)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = strlen(text);
	if (text[0] != '@' || len < 2 || len > sizeof(address.sun_path))
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "feed address \"%.120s\" is not valid; use the value of TFC_FEED",
				 text);
	memcpy(address.sun_path + 1, text + 1, len - 1);
	*ret_address = address;
	*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	return TFC_OK;
}

/* Anybody may listen at an abstract address: only this user and root are trusted. */
static int feed_check_server(int fd, const char *address, tfc_error *error)
{
	struct ucred user = {.uid = (uid_t)-1};
	socklen_t len = sizeof(user);
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &len);
	if (user.uid == 0 || user.uid == geteuid())
		return TFC_OK;
	return tfc__fail(error, TFC_EACCES, "feed", 0,
			 "cannot connect to feed \"%.120s\": its server runs as user %d, who is "
			 "neither this user nor root",
			 address, (int)user.uid);
}

int tfc__feed_socket_dial(const char *address, tfc_error *error, int *ret_fd)
{
	struct sockaddr_un to;
	socklen_t len;
	int code = feed_address_parse(address, error, &to, &len);
	if (code < 0)
		return code;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return tfc__fail_errno(error, "feed", errno, "cannot make a socket");
	if (connect(fd, (struct sockaddr *)&to, len) < 0) {
		int sys_errno = errno;
		close(fd);
		return tfc__fail(error, sys_errno == EAGAIN ? TFC_EAGAIN : TFC_EUNREACH, "feed",
				 sys_errno, "no node of this machine serves feed \"%.120s\"",
				 address);
	}
	if ((code = feed_check_server(fd, address, error)) < 0) {
		close(fd);
		return code;
	}
	*ret_fd = fd;
	return TFC_OK;
}

int tfc__feed_socket_listen(const char *address, tfc_error *error, int *ret_fd)
{
	struct sockaddr_un at;
	socklen_t len;
	int code = feed_address_parse(address, error, &at, &len);
	if (code < 0)
		return code;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return tfc__fail_errno(error, "feed", errno, "cannot make a socket");
	if (bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, 1024) < 0) {
		code = tfc__fail_errno(error, "feed", errno, "cannot listen at \"%.120s\"",
				       address);
		close(fd);
		return code;
	}
	*ret_fd = fd;
	return TFC_OK;
}
