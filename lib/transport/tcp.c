#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "port/tcp_user.h"
#include "transport/builtin.h"
#include "transport/tcp.h"

#define BACKLOG 1024

/* An idle connection is probed; if it does not respond, it is closed (tcp(7)). */
#define KEEPALIVE_IDLE_S 10
#define KEEPALIVE_INTERVAL_S 4
#define KEEPALIVE_COUNT 3
#define UNACKNOWLEDGED_MS 20000

/* After a pause of the network, data in flight arrives within this time. */
#define RETRANSMIT_MAX_MS 1000
#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* linux/tcp.h; older kernels refuse it */
#endif

void tfc__tcp_tune(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},
		/* On a lossy link a small message may be lost several times. With exponential
		 * backoff the peer would appear unreachable for seconds. */
		{IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1},
		/* The linear timeouts end after six; then the backoff would double. Linux 6.15. */
		{IPPROTO_TCP, TCP_RTO_MAX_MS, RETRANSMIT_MAX_MS},
		{IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
		{IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
		{IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
	};
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			   sizeof(options[i].value));
}

static int tcp_describe(void *pipe_impl, tfc_pipe_info *info, tfc_error *error)
{
	const struct tfc__tcp *tcp = pipe_impl;
	memcpy(info->address, tcp->socket.address, sizeof(info->address));
	if (!tcp->socket.is_connected) {
		if (tcp->socket.failure.code < 0)
			*error = tcp->socket.failure;
		return tcp->socket.failure.code < 0 ? tcp->socket.failure.code : TFC_ESTATE;
	}
	struct sockaddr_storage here = {0}, there = {0};
	socklen_t here_len = sizeof(here), there_len = sizeof(there);
	int fd = tcp->socket.fd.fd;
	if (tcp->is_plain && getsockname(fd, (struct sockaddr *)&here, &here_len) == 0 &&
	    getpeername(fd, (struct sockaddr *)&there, &there_len) == 0 &&
	    tfc__tcp_user(&there, &here, &info->uid) == 0) {
		info->flags = TFC_PIPE_FLAG_HAS_USER;
		info->gid = UINT32_MAX;
	}
	return TFC_OK;
}

/* ---- listening */

struct listener {
	struct tfc__socket_listener base; /* first */
	bool is_plain;
	char address[128];
};

static struct tfc__socket *tcp_new_socket(struct tfc__socket_listener *base, int fd,
					  const struct sockaddr_storage *from)
{
	const struct listener *listener = (const void *)base;
	struct tfc__tcp *tcp = tfc__tcp_new(base->ctx, NULL);
	if (!tcp)
		return NULL;
	tcp->is_plain = listener->is_plain;
	tfc__tcp_tune(fd);
	tfc__tcp_write(from, tcp->socket.address, sizeof(tcp->socket.address));
	return &tcp->socket;
}

static void tcp_free_socket(struct tfc__socket *socket)
{
	tfc__tcp_close(socket);
}

static const struct tfc__socket_listener_ops listener_ops = {tcp_new_socket, tcp_free_socket};

static int tcp_fail_listen(const char *address, int sys_errno, tfc_error *error)
{
	if (sys_errno == EADDRINUSE)
		return tfc__fail(error, TFC_EBUSY, "transport", sys_errno,
				 "cannot listen on \"%.100s\": another process listens there; stop "
				 "it or use another port",
				 address);
	if (sys_errno == EADDRNOTAVAIL)
		return tfc__fail(error, TFC_EINVAL, "transport", sys_errno,
				 "cannot listen on \"%.100s\": not an address of this machine",
				 address);
	return tfc__fail_errno(error, "transport", sys_errno, "cannot listen on \"%.100s\"",
			       address);
}

/* Returns the descriptor, or -1 and sets errno. */
static int tcp_open_listener(const struct sockaddr_storage *address)
{
	int on = 1, off = 0;
	int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->ss_family == AF_INET6) /* "[::]" listens on both families */
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, (const struct sockaddr *)address, tfc__tcp_len(address)) == 0 &&
	    listen(fd, BACKLOG) == 0)
		return fd;
	int sys_errno = errno;
	close(fd);
	errno = sys_errno;
	return -1;
}

static int tcp_listen(void *impl, const char *address, uint32_t flags, tfc_listener *of,
		      void **ret_listener_impl, tfc_error *error)
{
	struct tfc__tcp_host host;
	struct sockaddr_storage here = {0};
	socklen_t len = sizeof(here);
	int code = tfc__tcp_parse(address, error, &host);
	if (code < 0)
		return code;
	if (!host.count)
		return tfc__fail(error, TFC_EINVAL, "transport", 0,
				 "cannot listen on \"%.100s\": a numeric address is required; "
				 "tcp://0.0.0.0:%u stands for all addresses of this machine",
				 address, host.port);
	if (flags & TFC_TRANSPORT_FLAG_PLAIN && !tfc__tcp_is_loopback(&host.addresses[0]))
		return tfc__fail(error, TFC_EINVAL, "transport", 0,
				 "cannot listen on \"%.100s\" without a key: other machines can "
				 "reach it; set key_file to a file made by \"tfc_run keygen\"",
				 address);
	struct listener *listener = calloc(1, sizeof(*listener));
	if (!listener)
		return tfc__fail_nomem(error, "transport");
	int fd = tcp_open_listener(&host.addresses[0]);
	if (fd < 0) {
		code = tcp_fail_listen(address, errno, error);
		free(listener);
		return code;
	}
	getsockname(fd, (struct sockaddr *)&here, &len);
	tfc__tcp_write(&here, listener->address, sizeof(listener->address));
	listener->is_plain = flags & TFC_TRANSPORT_FLAG_PLAIN;
	code = tfc__socket_listener_open(&listener->base, impl, of, fd, &listener_ops, error);
	if (code < 0) {
		tfc__socket_listener_fini(&listener->base);
		free(listener);
		return code;
	}
	*ret_listener_impl = listener;
	return TFC_OK;
}

static const char *tcp_listener_address(void *listener_impl)
{
	return ((struct listener *)listener_impl)->address;
}

static void tcp_listener_close(void *listener_impl)
{
	struct listener *listener = listener_impl;
	tfc__socket_listener_fini(&listener->base);
	free(listener);
}

const tfc_transport_ops tfc__tcp_ops = {
	.size = sizeof(tfc_transport_ops),
	.scheme = "tcp",
	.dial = tfc__tcp_dial,
	.listen = tcp_listen,
	.listener_address = tcp_listener_address,
	.listener_close = tcp_listener_close,
	.describe = tcp_describe,
	.read = tfc__socket_read,
	.write = tfc__socket_write,
	.want = tfc__socket_want,
	.close = tfc__tcp_close,
};
