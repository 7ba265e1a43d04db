#include "port/bind.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "port/takeover.h"

static int hold_open_socket(int family)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	if (fd < 0 || family != AF_INET6)
		return fd;
	int no = 0; /* the default depends on net.ipv6.bindv6only */
	if (!setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no)))
		return fd;
	int saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

int tfc__hold_socket(void)
{
	int fd = hold_open_socket(AF_INET6);
	return fd < 0 && errno == EAFNOSUPPORT ? hold_open_socket(AF_INET) : fd;
}

static int hold_bind_wildcard(int fd, uint16_t port)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6,
				   .sin6_port = htons(port),
				   .sin6_addr = IN6ADDR_ANY_INIT};
	if (!bind(fd, (struct sockaddr *)&six, sizeof(six)))
		return 0;
	if (errno != EAFNOSUPPORT)
		return -1;
	/* An IPv4 socket: IPv6 was off when it was opened. */
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
	return bind(fd, (struct sockaddr *)&four, sizeof(four));
}

int tfc__hold_bind(int *fd, uint16_t port)
{
	if (!hold_bind_wildcard(*fd, port))
		return 0;
	if (errno != EADDRNOTAVAIL)
		return -1;
	int four = hold_open_socket(AF_INET);
	if (four < 0)
		return -1;
	close(*fd);
	*fd = four;
	return hold_bind_wildcard(four, port);
}

int tfc__hold_fail(tfc_error *error, uint16_t port, int sys_errno)
{
	if (sys_errno == EACCES || sys_errno == EPERM)
		return tfc__fail(error, TFC_EACCES, "port", sys_errno,
				 "port %u is privileged; choose one above 1023 or give the process "
				 "CAP_NET_BIND_SERVICE",
				 port);
	return tfc__fail_errno(error, "port", sys_errno, "cannot bind port %u", port);
}

int tfc__hold_bind_fixed(uint16_t port, tfc_error *error)
{
	int fd = tfc__hold_socket();
	if (fd < 0)
		return tfc__fail_errno(error, "port", errno, "cannot create a socket for port %u",
				       port);
	if (!tfc__hold_bind(&fd, port))
		return fd;
	int code = errno == EADDRINUSE ? tfc__hold_take_over(&fd, port, error)
				       : tfc__hold_fail(error, port, errno);
	if (!code)
		return fd;
	close(fd);
	return code;
}
