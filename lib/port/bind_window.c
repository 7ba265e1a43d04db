#include "port/bind_window.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port/takeover.h"

/*
 * A socket with SO_REUSEADDR and SO_REUSEPORT that is bound while the bind window is open leaves
 * its user and address in the kernel's entry for the port (fastreuseport in
 * inet_csk_update_fastreuse, net/ipv4/inet_connection_sock.c). A later socket with the same user,
 * address and flags then passes without a check, even when the window is closed. The next bind
 * without SO_REUSEPORT clears the entry. Usually the task's own bind does that; this function
 * covers windows that close before the task has bound, and tasks that bind one of several
 * addresses.
 */
static void bind_window_wipe_marks(int fd)
{
	struct sockaddr_in6 held = {0}; /* an IPv4 address has the port at the same offset */
	socklen_t len = sizeof(held);
	if (getsockname(fd, (struct sockaddr *)&held, &len) || !held.sin6_port)
		return;
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = held.sin6_port,
				      .sin_addr = {htonl(TFC__BLOCKER_ADDRESS)}};
	int yes = 1; /* needed where no interface has the address */
	int wiper = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	if (wiper < 0)
		return;
	if (!tfc__set_reuseaddr(wiper, 1) &&
	    !setsockopt(wiper, IPPROTO_IP, IP_FREEBIND, &yes, sizeof(yes)))
		(void)bind(wiper, (struct sockaddr *)&address, sizeof(address));
	close(wiper);
}

int tfc__bind_window_set(int fd, bool is_open)
{
	if (!is_open)
		bind_window_wipe_marks(fd);
	return tfc__set_reuseaddr(fd, is_open);
}
