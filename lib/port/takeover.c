#include "port/takeover.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "port/bind.h"
#include "port/owner.h"
#include "port/sock_diag.h"

static int blocker_open(uint16_t port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	if (fd < 0)
		return -1;
	int yes = 1; /* needed where no interface has the address */
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons(port),
				      .sin_addr = {htonl(TFC__BLOCKER_ADDRESS)}};
	if (!setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &yes, sizeof(yes)) &&
	    !bind(fd, (struct sockaddr *)&address, sizeof(address)))
		return fd;
	int saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* The sockets on the port, except the blocker and the hold's own. */
struct survey {
	uint32_t blocker; /* inode */
	uint32_t own;     /* inode */
	uint32_t dead;    /* connections that no process owns */
	uint32_t alive;
	struct tfc__tcp_socket first; /* first socket with an owner; a listener if there is one */
};

static void survey_add(void *user, const struct tfc__tcp_socket *socket)
{
	struct survey *survey = user;
	if (!socket->inode) {
		survey->dead++;
		return;
	}
	if (socket->inode == survey->blocker || socket->inode == survey->own)
		return;
	if (!survey->alive++ || socket->state == TCP_LISTEN)
		survey->first = *socket;
}

static uint32_t socket_inode(int fd)
{
	struct stat status;
	return fd >= 0 && !fstat(fd, &status) ? (uint32_t)status.st_ino : 0;
}

static const char *socket_use(uint8_t state)
{
	if (state == TCP_LISTEN)
		return "listens on it";
	return state == TFC__TCP_BOUND ? "holds it without listening" : "has connections on it";
}

/* Reports that the port is in use. */
static int takeover_fail_busy(uint16_t port, const struct survey *survey, tfc_error *error)
{
	const struct tfc__tcp_socket *socket = &survey->first;
	struct tfc__owner owner = {0};
	struct tfc__owner_search search = {0};
	if (survey->alive)
		tfc__owner_find(&search, socket->inode, 10 * TFC__OWNER_SLICE, &owner);
	if (owner.pid)
		return tfc__fail(error, TFC_EBUSY, "port", EADDRINUSE,
				 "port %u is in use by process %d (%s, uid %u), which %s", port,
				 (int)owner.pid, owner.program, socket->uid,
				 socket_use(socket->state));
	if (survey->alive)
		return tfc__fail(error, TFC_EBUSY, "port", EADDRINUSE,
				 "port %u is in use by a process of uid %u (its pid is not visible "
				 "to this process), which %s",
				 port, socket->uid, socket_use(socket->state));
	if (survey->dead)
		return tfc__fail(error, TFC_EBUSY, "port", EADDRINUSE,
				 "port %u is in use by %u closing connections that the kernel has "
				 "not released yet; wait a minute or choose another port",
				 port, survey->dead);
	return tfc__fail(error, TFC_EBUSY, "port", EADDRINUSE,
			 "port %u is in use by an unknown process that does not listen", port);
}

/* Reads the sockets on the port. TFC_EBUSY if a process owns one of them. */
static int survey_read(uint16_t port, struct survey *survey, tfc_error *error)
{
	survey->dead = survey->alive = 0;
	int code = tfc__tcp_each(port, port, TFC__TCP_ALL, survey_add, survey, error);
	return !code && survey->alive ? takeover_fail_busy(port, survey, error) : code;
}

static int takeover_bind(int blocker, int *fd, uint16_t port, tfc_error *error)
{
	struct survey survey = {.blocker = socket_inode(blocker), .own = socket_inode(*fd)};
	int code = survey_read(port, &survey, error);
	if (code)
		return code;
	/* Without SO_REUSEADDR the blocker would conflict with the hold's own bind. */
	if (tfc__set_reuseaddr(blocker, 1) || tfc__set_reuseaddr(*fd, 1) ||
	    tfc__hold_bind(fd, port) || tfc__set_reuseaddr(*fd, 0))
		return errno == EADDRINUSE ? takeover_fail_busy(port, &survey, error)
					   : tfc__hold_fail(error, port, errno);
	/* A foreign socket with SO_REUSEADDR may have been bound while the hold's flag was on. */
	return survey_read(port, &survey, error);
}

int tfc__hold_take_over(int *fd, uint16_t port, tfc_error *error)
{
	int blocker = blocker_open(port);
	if (blocker < 0 && errno != EADDRINUSE)
		return tfc__fail_errno(error, "port", errno,
				       "cannot create a second socket for port %u", port);
	if (blocker < 0) {
		struct survey survey = {0};
		int code = survey_read(port, &survey, error);
		return code ? code : takeover_fail_busy(port, &survey, error);
	}
	int code = takeover_bind(blocker, fd, port, error);
	close(blocker);
	return code;
}
