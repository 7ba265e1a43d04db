#include <errno.h>
#include <stdio.h>

#include "port/sock_diag.h"

/* One line of /proc/net/tcp and tcp6 (proc(5)); the heading is none. */
static int read_line(const char *line, struct tfc__tcp_socket *ret_socket)
{
	unsigned port = 0, state = 0, uid = 0;
	unsigned long inode = 0;
	if (sscanf(line,
		   "%*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %u %*d %lu",
		   &port, &state, &uid, &inode) != 4)
		return -1;
	ret_socket->port = (uint16_t)port;
	ret_socket->state = (uint8_t)state;
	ret_socket->uid = uid;
	ret_socket->inode = (uint32_t)inode;
	return 0;
}

static int read_table(const char *path, uint16_t first, uint16_t last, uint32_t states,
		      tfc__tcp_fn fn, void *user)
{
	char line[512], buffer[4096];
	struct tfc__tcp_socket socket;
	FILE *file = fopen(path, "re");
	if (!file)
		return -1;
	setvbuf(file, buffer, _IOFBF, sizeof(buffer)); /* stdio's own might find no memory */
	while (fgets(line, sizeof(line), file))
		if (!read_line(line, &socket) && socket.port >= first && socket.port <= last &&
		    states >> (socket.state & 31) & 1)
			fn(user, &socket);
	fclose(file);
	return 0;
}

int tfc__tcp_each_in_proc(uint16_t first, uint16_t last, uint32_t states, tfc__tcp_fn fn,
			  void *user)
{
	if (read_table("/proc/net/tcp", first, last, states, fn, user))
		return -1;
	/* A kernel without IPv6 has no second table. */
	if (read_table("/proc/net/tcp6", first, last, states, fn, user) && errno != ENOENT)
		return -1;
	return 0;
}
