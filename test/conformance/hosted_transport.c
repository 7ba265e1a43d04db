#include "hosted_transport.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SCHEME "hosted:"

struct hosted {
	tfc_ctx *ctx;
	int epoll_fd;
};

/* A pipe or a listener. */
struct watched {
	struct hosted *hosted;
	int fd;
	tfc_pipe *pipe;
	tfc_listener *listener;
	char address[128];
};

static int fail(tfc_error *error, int code, const char *what, const char *address)
{
	error->code = code;
	error->sys_errno = errno;
	error->component = "test";
	snprintf(error->text, sizeof(error->text), "%s %s: %s", what, address, strerror(errno));
	return code;
}

static struct watched *watch(struct hosted *hosted, int fd, uint32_t events)
{
	struct watched *one = calloc(1, sizeof(*one));
	struct epoll_event event = {.events = events, .data.ptr = one};
	if (!one)
		return NULL;
	one->hosted = hosted;
	one->fd = fd;
	if (epoll_ctl(hosted->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
		return one;
	free(one);
	return NULL;
}

static int open_socket(const char *address, struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(ret_address->sun_path, sizeof(ret_address->sun_path), "%s",
		 address + strlen(SCHEME));
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int host_dial(void *impl, const char *address, uint32_t flags, tfc_pipe *pipe,
		     void **ret_pipe_impl, tfc_error *error)
{
	struct sockaddr_un there;
	int fd = open_socket(address, &there);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&there, sizeof(there)) < 0) {
		int code = fail(error, TFC_EUNREACH, "cannot connect to", address);
		if (fd >= 0)
			close(fd);
		return code;
	}
	/* edge-triggered: it reports once that bytes have come, and leaves the rest to the library
	 */
	struct watched *one = watch(impl, fd, EPOLLIN | EPOLLOUT | EPOLLET);
	if (!one) {
		close(fd);
		return fail(error, TFC_ENOMEM, "cannot watch", address);
	}
	one->pipe = pipe;
	snprintf(one->address, sizeof(one->address), "%s", address);
	tfc_pipe_ready(pipe, TFC_PIPE_EVENT_WRITABLE);
	*ret_pipe_impl = one;
	return TFC_OK;
}

static int open_listener(const char *address, tfc_error *error)
{
	struct sockaddr_un here;
	int fd = open_socket(address, &here);
	if (fd >= 0 && bind(fd, (const struct sockaddr *)&here, sizeof(here)) == 0 &&
	    listen(fd, 4096) == 0)
		return fd;
	int code = fail(error, errno == EADDRINUSE ? TFC_EBUSY : TFC_ESYS, "cannot listen on",
			address);
	if (fd >= 0)
		close(fd);
	return code;
}

static int host_listen(void *impl, const char *address, uint32_t flags, tfc_listener *listener,
		       void **ret_listener_impl, tfc_error *error)
{
	int fd = open_listener(address, error);
	struct watched *one = fd < 0 ? NULL : watch(impl, fd, EPOLLIN);
	if (fd < 0)
		return fd;
	if (!one) {
		close(fd);
		unlink(address + strlen(SCHEME));
		return fail(error, TFC_ENOMEM, "cannot watch", address);
	}
	one->listener = listener;
	snprintf(one->address, sizeof(one->address), "%s", address);
	*ret_listener_impl = one;
	return TFC_OK;
}

static const char *host_listener_address(void *listener_impl)
{
	return ((struct watched *)listener_impl)->address;
}

static void host_close(void *pipe_impl)
{
	struct watched *one = pipe_impl;
	close(one->fd);
	free(one);
}

static void host_listener_close(void *listener_impl)
{
	struct watched *one = listener_impl;
	unlink(one->address + strlen(SCHEME));
	host_close(one);
}

static int host_describe(void *pipe_impl, tfc_pipe_info *info, tfc_error *error)
{
	struct watched *one = pipe_impl;
	info->flags = TFC_PIPE_FLAG_IS_NODE; /* the socket's directory is closed to others */
	memcpy(info->address, one->address, sizeof(info->address));
	return TFC_OK;
}

static int64_t moved(ssize_t count, const char *address, tfc_error *error)
{
	if (count >= 0)
		return count;
	if (errno == EAGAIN || errno == EINTR)
		return 0;
	return fail(error, TFC_ELOST, "lost", address);
}

static int64_t host_read(void *pipe_impl, void *data, size_t len, tfc_error *error)
{
	struct watched *one = pipe_impl;
	ssize_t count = recv(one->fd, data, len, 0);
	if (count == 0)
		return fail(error, TFC_ELOST, "closed by", one->address);
	return moved(count, one->address, error);
}

static int64_t host_write(void *pipe_impl, const void *data, size_t len, tfc_error *error)
{
	struct watched *one = pipe_impl;
	return moved(send(one->fd, data, len, MSG_NOSIGNAL), one->address, error);
}

/* Everything is reported as it happens. */
static void host_want(void *pipe_impl, uint32_t events)
{
}

static void host_fini(void *impl)
{
	struct hosted *hosted = impl;
	close(hosted->epoll_fd);
	free(hosted);
}

static int register_ops(struct hosted *hosted)
{
	tfc_transport_ops ops = TFC_TRANSPORT_OPS_INIT;
	ops.scheme = "hosted";
	ops.dial = host_dial;
	ops.listen = host_listen;
	ops.listener_address = host_listener_address;
	ops.listener_close = host_listener_close;
	ops.describe = host_describe;
	ops.read = host_read;
	ops.write = host_write;
	ops.want = host_want;
	ops.close = host_close;
	ops.fini = host_fini;
	return tfc_transport_register(hosted->ctx, &ops, hosted);
}

struct hosted *hosted_register(tfc_ctx *ctx)
{
	struct hosted *hosted = calloc(1, sizeof(*hosted));
	struct epoll_event event = {.events = EPOLLIN};
	if (!hosted)
		return NULL;
	hosted->ctx = ctx;
	hosted->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (hosted->epoll_fd < 0 ||
	    epoll_ctl(hosted->epoll_fd, EPOLL_CTL_ADD, tfc_ctx_fd(ctx), &event) < 0 ||
	    register_ops(hosted) < 0) {
		if (hosted->epoll_fd >= 0)
			close(hosted->epoll_fd);
		free(hosted);
		return NULL;
	}
	return hosted;
}

static void accept_all(struct watched *listener)
{
	for (;;) {
		int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		struct watched *one = watch(listener->hosted, fd, EPOLLIN | EPOLLOUT | EPOLLET);
		if (!one) {
			close(fd);
			continue;
		}
		snprintf(one->address, sizeof(one->address), "%s", listener->address);
		if (tfc_listener_accept(listener->listener, one, &one->pipe) < 0)
			host_close(one);
	}
}

/* The library calls nothing of the table inside tfc_pipe_ready, so no state goes away on the way.
 */
int hosted_turn(struct hosted *hosted, int timeout_ms)
{
	struct epoll_event events[64];
	int count = epoll_wait(hosted->epoll_fd, events, 64, timeout_ms);
	for (int i = 0; i < count; i++) {
		struct watched *one = events[i].data.ptr;
		if (one && one->listener)
			accept_all(one);
		else if (one)
			tfc_pipe_ready(one->pipe, (events[i].events & ~(uint32_t)EPOLLOUT
							   ? TFC_PIPE_EVENT_READABLE
							   : 0) |
							  (events[i].events & EPOLLOUT
								   ? TFC_PIPE_EVENT_WRITABLE
								   : 0));
	}
	return tfc_ctx_dispatch(hosted->ctx, 0);
}
