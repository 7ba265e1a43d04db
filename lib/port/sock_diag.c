#include "port/sock_diag.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"

/* The request: all TCP sockets of a family in some states, with a program that filters by port. */
struct request {
	struct nlmsghdr header;
	struct inet_diag_req_v2 body;
	struct nlattr attribute;
	struct inet_diag_bc_op filter[4];
};

/* Passes the sockets of one datagram to fn. Returns 1 for the last datagram, 0 when more follow, or
 * -1 and errno. */
static int sock_diag_read(const void *data, size_t len, tfc__tcp_fn fn, void *user)
{
	int left = (int)len;
	for (const struct nlmsghdr *header = data; NLMSG_OK(header, (unsigned)left);
	     header = NLMSG_NEXT(header, left)) {
		if (header->nlmsg_type == NLMSG_DONE)
			return 1;
		if (header->nlmsg_type == NLMSG_ERROR) {
			const struct nlmsgerr *error = NLMSG_DATA(header);
			errno = header->nlmsg_len >= NLMSG_LENGTH(sizeof(*error)) ? -error->error
										  : EPROTO;
			return -1;
		}
		if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
		    header->nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
			continue;
		const struct inet_diag_msg *message = NLMSG_DATA(header);
		struct tfc__tcp_socket socket = {.port = ntohs(message->id.idiag_sport),
						 .state = message->idiag_state,
						 .uid = message->idiag_uid,
						 .inode = message->idiag_inode};
		fn(user, &socket);
	}
	return 0;
}

/*
 * Requests the sockets of one family and passes them to fn. Returns 0, or -1 and errno.
 *
 * The filter is a program of jumps (linux/inet_diag.h). A comparison occupies two slots; `no` of
 * the second one is the port. Reaching the exact end accepts a socket; jumping four bytes past the
 * end refuses it.
 */
static int sock_diag_dump_family(int fd, int family, uint16_t first, uint16_t last, uint32_t states,
				 tfc__tcp_fn fn, void *user)
{
	enum { SLOT = sizeof(struct inet_diag_bc_op) };
	struct request request = {
		.header = {.nlmsg_len = sizeof(request),
			   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.body = {.sdiag_family = (unsigned char)family,
			 .sdiag_protocol = IPPROTO_TCP,
			 .idiag_states = states},
		.attribute = {.nla_len = sizeof(request.attribute) + sizeof(request.filter),
			      .nla_type = INET_DIAG_REQ_BYTECODE},
		.filter = {{INET_DIAG_BC_S_GE, 2 * SLOT, 5 * SLOT},
			   {INET_DIAG_BC_NOP, 0, first},
			   {INET_DIAG_BC_S_LE, 2 * SLOT, 3 * SLOT},
			   {INET_DIAG_BC_NOP, 0, last}},
	};
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	_Alignas(struct nlmsghdr) char data[16384]; /* the kernel's datagrams fit the buffer size */
	if (sendto(fd, &request, sizeof(request), 0, (struct sockaddr *)&kernel, sizeof(kernel)) <
	    0)
		return -1;
	for (;;) {
		ssize_t n = recv(fd, data, sizeof(data), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		int done = sock_diag_read(data, (size_t)n, fn, user);
		if (done)
			return done < 0 ? -1 : 0;
	}
}

/* Dumps both families. Returns 0, or -1 and errno. */
static int sock_diag_dump(uint16_t first, uint16_t last, uint32_t states, tfc__tcp_fn fn,
			  void *user)
{
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (fd < 0)
		return -1;
	int result = sock_diag_dump_family(fd, AF_INET, first, last, states, fn, user);
	if (!result && sock_diag_dump_family(fd, AF_INET6, first, last, states, fn, user))
		result = errno == ENOENT ? 0 : -1; /* no IPv6 in this kernel */
	int saved = errno;
	close(fd);
	errno = saved;
	return result;
}

/* The errors of a kernel or container without sock_diag. They occur before any socket is
 * reported. */
static bool sock_diag_is_missing(int sys_errno)
{
	return sys_errno == EPROTONOSUPPORT || sys_errno == EAFNOSUPPORT || sys_errno == ENOENT ||
	       sys_errno == EPERM || sys_errno == EACCES;
}

int tfc__tcp_each(uint16_t first, uint16_t last, uint32_t states, tfc__tcp_fn fn, void *user,
		  tfc_error *error)
{
	if (!sock_diag_dump(first, last, states, fn, user))
		return TFC_OK;
	if (sock_diag_is_missing(errno) && !tfc__tcp_each_in_proc(first, last, states, fn, user))
		return TFC_OK;
	return tfc__fail_errno(
		error, "port", errno,
		"cannot query the users of ports %u to %u from the kernel (sock_diag)", first,
		last);
}

/* ---- the fallback: /proc */

/* Reads /proc/net/tcp or tcp6 (proc(5)). The heading does not match the format. */
static int proc_net_read(const char *path, uint16_t first, uint16_t last, uint32_t states,
			 tfc__tcp_fn fn, void *user)
{
	static const char format[] =
		"%*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %u %*d %lu";
	char line[512], buffer[4096];
	FILE *file = fopen(path, "re");
	if (!file)
		return -1;
	setvbuf(file, buffer, _IOFBF, sizeof(buffer)); /* stdio's own could fail to allocate */
	while (fgets(line, sizeof(line), file)) {
		unsigned port = 0, state = 0, uid = 0;
		unsigned long inode = 0;
		if (sscanf(line, format, &port, &state, &uid, &inode) != 4)
			continue;
		struct tfc__tcp_socket socket = {.port = (uint16_t)port,
						 .state = (uint8_t)state,
						 .uid = uid,
						 .inode = (uint32_t)inode};
		if (socket.port >= first && socket.port <= last &&
		    states >> (socket.state & 31) & 1)
			fn(user, &socket);
	}
	fclose(file);
	return 0;
}

int tfc__tcp_each_in_proc(uint16_t first, uint16_t last, uint32_t states, tfc__tcp_fn fn,
			  void *user)
{
	if (proc_net_read("/proc/net/tcp", first, last, states, fn, user))
		return -1;
	/* A kernel without IPv6 has no tcp6 table. */
	if (proc_net_read("/proc/net/tcp6", first, last, states, fn, user) && errno != ENOENT)
		return -1;
	return 0;
}
