/* Dialing: tries the host's addresses one after the other, until one accepts the connection. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/tcp.h"

#define PATIENCE (2 * TFC__SECOND) /* for one address of several */

static void dial_next_address(struct tfc__tcp *tcp);

static void end_attempt(struct tfc__tcp *tcp)
{
	tfc__timer_cancel(&tcp->patience);
	tfc__io_close(&tcp->connecting);
	if (!tcp->socket.is_connected)
		tfc__fd_close(&tcp->socket.fd);
}

static void end_dialing(struct tfc__tcp *tcp)
{
	end_attempt(tcp);
	tfc__resolve_close(tcp->resolve);
	tcp->resolve = NULL;
	free(tcp->host);
	tcp->host = NULL;
}

/* The message names the last address tried if the dialed address is a name. */
static void fail_dialing(struct tfc__tcp *tcp)
{
	char tried[128] = "";
	bool is_name = tcp->host && tcp->host->count &&
		       !strstr(tcp->dialed, tcp->socket.address + strlen("tcp://"));
	if (is_name)
		snprintf(tried, sizeof(tried), " (%u addresses tried, the last %.80s)", tcp->next,
			 tcp->socket.address);
	tfc__fail(&tcp->socket.failure, tcp->last.code, "transport", tcp->last.sys_errno,
		  "cannot connect to \"%.100s\"%s: %.100s", tcp->dialed, tried, tcp->last.text);
	end_dialing(tcp);
	tfc_pipe_ready(tcp->socket.pipe, TFC_PIPE_EVENT_READABLE); /* the pipe may be closed now */
}

static void end_failed_attempt(struct tfc__tcp *tcp, int sys_errno)
{
	char reason[64];
	tfc__fail(&tcp->last, TFC_EUNREACH, "transport", sys_errno, "%s",
		  strerror_r(sys_errno, reason, sizeof(reason)));
	end_attempt(tcp);
}

static void dial_after_failure(struct tfc__tcp *tcp, int sys_errno)
{
	end_failed_attempt(tcp, sys_errno);
	dial_next_address(tcp);
}

/* A connection to a local port without a listener may connect to itself (RFC 9293, section 3.5:
 * simultaneous open). */
static bool is_connected_to_itself(int fd)
{
	struct sockaddr_storage here = {0}, there = {0};
	socklen_t here_len = sizeof(here), there_len = sizeof(there);
	return getsockname(fd, (struct sockaddr *)&here, &here_len) == 0 &&
	       getpeername(fd, (struct sockaddr *)&there, &there_len) == 0 &&
	       tfc__tcp_is_equal(&here, &there);
}

static void on_connect_outcome(struct tfc__io *io, uint32_t events)
{
	struct tfc__tcp *tcp = tfc__container_of(io, struct tfc__tcp, connecting);
	int fd = io->fd, sys_errno = 0;
	socklen_t len = sizeof(sys_errno);
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys_errno, &len) < 0)
		sys_errno = errno;
	if (!sys_errno && is_connected_to_itself(fd))
		sys_errno = ECONNREFUSED;
	if (sys_errno) {
		dial_after_failure(tcp, sys_errno);
		return;
	}
	tfc__timer_cancel(&tcp->patience);
	tfc__io_close(&tcp->connecting);
	if (tfc__socket_start(&tcp->socket, fd, &tcp->last) < 0) {
		fail_dialing(tcp);
		return;
	}
	end_dialing(tcp);
	tfc_pipe_ready(tcp->socket.pipe, TFC_PIPE_EVENT_READABLE | TFC_PIPE_EVENT_WRITABLE);
}

static void on_attempt_timeout(struct tfc__timer *timer)
{
	dial_after_failure(tfc__container_of(timer, struct tfc__tcp, patience), ETIMEDOUT);
}

/* Returns 0 or an errno. */
static int begin_attempt(struct tfc__tcp *tcp, const struct sockaddr_storage *address)
{
	int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return errno;
	tfc__fd_note(tcp->socket.ctx, &tcp->socket.fd, fd);
	tfc__tcp_tune(fd);
	if (connect(fd, (const struct sockaddr *)address, tfc__tcp_len(address)) < 0 &&
	    errno != EINPROGRESS)
		return errno;
	if (tfc__io_open(&tcp->connecting, tcp->socket.ctx, fd, EPOLLOUT, on_connect_outcome) < 0)
		return ENOMEM;
	if (tcp->next < tcp->host->count)
		tfc__timer_set(&tcp->patience, tfc__now() + PATIENCE);
	return 0;
}

/* A loop, not a recursion, since many addresses may fail at once. */
static void dial_next_address(struct tfc__tcp *tcp)
{
	while (tcp->next < tcp->host->count) {
		const struct sockaddr_storage *address = &tcp->host->addresses[tcp->next++];
		tfc__tcp_write(address, tcp->socket.address, sizeof(tcp->socket.address));
		if (tcp->is_plain && !tfc__tcp_is_loopback(address)) {
			tfc__fail(&tcp->last, TFC_EINVAL, "transport", 0,
				  "a connection to another machine requires a key; set key_file to "
				  "the cluster's key file");
			continue;
		}
		int sys_errno = begin_attempt(tcp, address);
		if (!sys_errno)
			return;
		end_failed_attempt(tcp, sys_errno);
	}
	fail_dialing(tcp);
}

static void on_resolved(void *user, const tfc_error *error)
{
	struct tfc__tcp *tcp = user;
	tfc__resolve_close(tcp->resolve);
	tcp->resolve = NULL;
	if (error) {
		tcp->last = *error;
		fail_dialing(tcp);
		return;
	}
	dial_next_address(tcp);
}

static void begin_dialing(struct tfc__work *work)
{
	struct tfc__tcp *tcp = tfc__container_of(work, struct tfc__tcp, beginning);
	dial_next_address(tcp);
}

struct tfc__tcp *tfc__tcp_new(tfc_ctx *ctx, tfc_pipe *pipe)
{
	struct tfc__tcp *tcp = calloc(1, sizeof(*tcp));
	if (!tcp)
		return NULL;
	tfc__socket_init(&tcp->socket, ctx, pipe);
	tfc__timer_init(&tcp->patience, ctx, on_attempt_timeout);
	tfc__work_init(&tcp->beginning, ctx, begin_dialing);
	return tcp;
}

int tfc__tcp_dial(void *impl, const char *address, uint32_t flags, tfc_pipe *pipe,
		  void **ret_pipe_impl, tfc_error *error)
{
	tfc_ctx *ctx = impl;
	struct tfc__tcp *tcp = tfc__tcp_new(ctx, pipe);
	struct tfc__tcp_host *host = malloc(sizeof(*host));
	int code = tcp && host ? tfc__tcp_parse(address, error, host)
			       : tfc__fail_nomem(error, "transport");
	if (code < 0)
		goto fail;
	if (!host->port) {
		code = tfc__fail(error, TFC_EINVAL, "transport", 0,
				 "cannot connect to \"%.100s\": port 0 is not a destination",
				 address);
		goto fail;
	}
	tcp->host = host;
	tcp->is_plain = flags & TFC_TRANSPORT_FLAG_PLAIN;
	snprintf(tcp->dialed, sizeof(tcp->dialed), "%s", address);
	snprintf(tcp->socket.address, sizeof(tcp->socket.address), "%s", address);
	if (host->count)
		tfc__work_schedule(&tcp->beginning);
	else if ((code = tfc__resolve_open(ctx, host, on_resolved, tcp, error, &tcp->resolve)) < 0)
		goto fail;
	*ret_pipe_impl = tcp;
	return TFC_OK;
fail:
	free(host);
	free(tcp);
	return code;
}

void tfc__tcp_close(void *pipe_impl)
{
	struct tfc__tcp *tcp = pipe_impl;
	tfc__work_cancel(&tcp->beginning);
	if (tcp->host)
		end_dialing(tcp);
	tfc__timer_cancel(&tcp->patience);
	tfc__socket_fini(&tcp->socket);
	free(tcp);
}
