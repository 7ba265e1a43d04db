#include "transport/datagram.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "transport/address.h"

#define BATCH 32 /* datagrams of one socket in one turn of dispatch */

struct datagram_socket {
	struct tfc__link link;
	struct tfc__datagrams *datagrams;
	struct sockaddr_storage address;
	struct tfc__io io;
	struct tfc__noted_fd fd;
};

struct tfc__datagrams {
	tfc_ctx *ctx;
	struct tfc__link sockets;
	struct tfc__link receivers;
	uint32_t busy; /* callbacks in progress: memory is not freed */
	bool is_closed;
	struct sockaddr_storage from[BATCH];
	/* one byte more than the longest, so that a longer one is recognized */
	uint8_t bytes[BATCH][TFC__DATAGRAM_MAX + 1];
};

/* ---- addresses */

static const struct in6_addr *address_v6(const struct sockaddr_storage *address)
{
	return &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
}

static bool address_is_any(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *v4 = (const void *)address;
	return address->ss_family == AF_INET ? v4->sin_addr.s_addr == htonl(INADDR_ANY)
					     : IN6_IS_ADDR_UNSPECIFIED(address_v6(address));
}

/* ::ffff:192.0.2.1 becomes 192.0.2.1. */
static void address_unmap(struct sockaddr_storage *address)
{
	const struct sockaddr_in6 *v6 = (const void *)address;
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	if (address->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		return;
	v4.sin_port = v6->sin6_port;
	memcpy(&v4.sin_addr, &v6->sin6_addr.s6_addr[12], sizeof(v4.sin_addr));
	memset(address, 0, sizeof(*address));
	memcpy(address, &v4, sizeof(v4));
}

static void address_map(struct sockaddr_storage *address)
{
	const struct sockaddr_in *v4 = (const void *)address;
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = v4->sin_port};
	v6.sin6_addr.s6_addr[10] = v6.sin6_addr.s6_addr[11] = 0xff;
	memcpy(&v6.sin6_addr.s6_addr[12], &v4->sin_addr, sizeof(v4->sin_addr));
	memset(address, 0, sizeof(*address));
	memcpy(address, &v6, sizeof(v6));
}

static int count_equal_bytes(const void *a, const void *b, int size)
{
	const uint8_t *left = a, *right = b;
	int count = 0;
	while (count < size && left[count] == right[count])
		count++;
	return count;
}

/* How well the socket reaches the address: -1 not at all; else higher for a nearer network. */
static int socket_rank(const struct datagram_socket *socket, const struct sockaddr_storage *to)
{
	const struct sockaddr_storage *here = &socket->address;
	const struct sockaddr_in *here4 = (const void *)here, *to4 = (const void *)to;
	if (here->ss_family == AF_INET && to->ss_family == AF_INET6)
		return -1;
	if (address_is_any(here))
		return 0;
	if (here->ss_family != to->ss_family ||
	    (tfc__tcp_is_loopback(here) && !tfc__tcp_is_loopback(to)))
		return -1;
	return here->ss_family == AF_INET ? count_equal_bytes(&here4->sin_addr, &to4->sin_addr, 4)
					  : count_equal_bytes(address_v6(here), address_v6(to), 16);
}

/* ---- receiving */

static void deliver_datagram(struct tfc__datagrams *datagrams, const struct sockaddr_storage *from,
			     const uint8_t *bytes, size_t len)
{
	TFC__LIST_EACH (link, &datagrams->receivers) {
		struct tfc__datagram_receiver *receiver =
			tfc__container_of(link, struct tfc__datagram_receiver, link);
		if (memcmp(receiver->magic, bytes, TFC__DATAGRAM_MAGIC) != 0)
			continue;
		receiver->fn(receiver, from, bytes, len);
		return;
	}
}

static void release_datagrams(struct tfc__datagrams *datagrams)
{
	if (!--datagrams->busy && datagrams->is_closed)
		free(datagrams);
}

static void socket_on_datagrams(struct tfc__io *io, uint32_t events)
{
	struct datagram_socket *socket = tfc__container_of(io, struct datagram_socket, io);
	struct tfc__datagrams *datagrams = socket->datagrams;
	struct mmsghdr messages[BATCH];
	struct iovec parts[BATCH];
	memset(messages, 0, sizeof(messages));
	for (int i = 0; i < BATCH; i++) {
		parts[i] = (struct iovec){datagrams->bytes[i], sizeof(datagrams->bytes[i])};
		messages[i].msg_hdr.msg_name = &datagrams->from[i];
		messages[i].msg_hdr.msg_namelen = sizeof(datagrams->from[i]);
		messages[i].msg_hdr.msg_iov = &parts[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	/* An error concerns a datagram that was sent earlier, which counts as lost. */
	int count = recvmmsg(socket->fd.fd, messages, BATCH, MSG_DONTWAIT, NULL);
	datagrams->busy++;
	for (int i = 0; i < count && !datagrams->is_closed; i++) {
		size_t len = messages[i].msg_len;
		if (len < TFC__DATAGRAM_MAGIC || len > TFC__DATAGRAM_MAX)
			continue;
		address_unmap(&datagrams->from[i]);
		deliver_datagram(datagrams, &datagrams->from[i], datagrams->bytes[i], len);
	}
	release_datagrams(datagrams);
}

void tfc__datagrams_add(struct tfc__datagrams *datagrams, struct tfc__datagram_receiver *receiver)
{
	tfc__list_append(&datagrams->receivers, &receiver->link);
}

void tfc__datagrams_remove(struct tfc__datagram_receiver *receiver)
{
	if (receiver->link.next)
		tfc__list_remove(&receiver->link);
}

/* ---- sending */

static struct datagram_socket *nearest_socket(struct tfc__datagrams *datagrams,
					      const struct sockaddr_storage *to)
{
	struct datagram_socket *best = NULL;
	int best_rank = -1;
	TFC__LIST_EACH (link, &datagrams->sockets) {
		struct datagram_socket *socket = tfc__container_of(link, struct datagram_socket,
								   link);
		int rank = socket_rank(socket, to);
		if (rank > best_rank) {
			best = socket;
			best_rank = rank;
		}
	}
	return best;
}

int tfc__datagrams_send(struct tfc__datagrams *datagrams, const struct sockaddr_storage *to,
			const void *bytes, size_t len)
{
	struct sockaddr_storage there = *to;
	if (len > TFC__DATAGRAM_MAX)
		return TFC_ETOOBIG;
	address_unmap(&there);
	const struct datagram_socket *socket = nearest_socket(datagrams, &there);
	if (!socket)
		return TFC_EUNREACH;
	if (socket->address.ss_family == AF_INET6 && there.ss_family == AF_INET)
		address_map(&there);
	if (sendto(socket->fd.fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL,
		   (const struct sockaddr *)&there, tfc__tcp_len(&there)) >= 0)
		return TFC_OK;
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? TFC_EAGAIN
									   : TFC_EUNREACH;
}

/* ---- opening and closing */

int tfc__datagrams_open(tfc_ctx *ctx, tfc_error *error, struct tfc__datagrams **ret_datagrams)
{
	struct tfc__datagrams *datagrams = calloc(1, sizeof(*datagrams));
	if (!datagrams)
		return tfc__fail_nomem(error, "transport");
	datagrams->ctx = ctx;
	tfc__list_init(&datagrams->sockets);
	tfc__list_init(&datagrams->receivers);
	*ret_datagrams = datagrams;
	return TFC_OK;
}

static void socket_free(struct datagram_socket *socket)
{
	tfc__io_close(&socket->io);
	tfc__fd_close(&socket->fd);
	tfc__list_remove(&socket->link);
	free(socket);
}

void tfc__datagrams_close(struct tfc__datagrams *datagrams)
{
	if (!datagrams || datagrams->is_closed)
		return;
	datagrams->is_closed = true;
	TFC__LIST_EACH (link, &datagrams->sockets)
		socket_free(tfc__container_of(link, struct datagram_socket, link));
	TFC__LIST_EACH (link, &datagrams->receivers)
		tfc__list_remove(link);
	datagrams->busy++;
	release_datagrams(datagrams);
}

uint32_t tfc__datagrams_count(const struct tfc__datagrams *datagrams)
{
	uint32_t count = 0;
	TFC__LIST_EACH (link, &datagrams->sockets)
		count++;
	return count;
}

static int fail_bind(const char *address, int sys_errno, tfc_error *error)
{
	if (sys_errno == EADDRINUSE)
		return tfc__fail(error, TFC_EBUSY, "transport", sys_errno,
				 "cannot receive datagrams at \"%.100s\": another process has this "
				 "UDP port; stop it or use another port",
				 address);
	return tfc__fail_errno(error, "transport", sys_errno,
			       "cannot receive datagrams at \"%.100s\"", address);
}

int tfc__datagrams_bind(struct tfc__datagrams *datagrams, const char *address, tfc_error *error)
{
	struct tfc__tcp_host host;
	int off = 0, code = tfc__tcp_parse(address, error, &host);
	if (code < 0)
		return code;
	if (!host.count)
		return tfc__fail(error, TFC_EINVAL, "transport", 0,
				 "cannot receive datagrams at \"%.100s\": a numeric address is "
				 "required",
				 address);
	struct datagram_socket *one = calloc(1, sizeof(*one));
	if (!one)
		return tfc__fail_nomem(error, "transport");
	one->datagrams = datagrams;
	one->address = host.addresses[0];
	one->fd.fd = -1;
	tfc__list_append(&datagrams->sockets, &one->link);
	int fd = socket(one->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		tfc__fd_note(datagrams->ctx, &one->fd, fd);
	if (fd >= 0 && one->address.ss_family == AF_INET6) /* as the tcp listener: both families */
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (fd < 0 ||
	    bind(fd, (const struct sockaddr *)&one->address, tfc__tcp_len(&one->address)) < 0)
		code = fail_bind(address, errno, error);
	else if ((code = tfc__io_open(&one->io, datagrams->ctx, fd, EPOLLIN, socket_on_datagrams)) <
		 0)
		*error = *tfc__ctx_error(datagrams->ctx);
	if (code < 0)
		socket_free(one);
	return code;
}
