/*
 * The kernel's side of ports: one table a machine. What is handed around as a port's socket is the
 * write end of a pipe: the port is free once nobody has it open.
 */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "port/bind.h"
#include "port/door.h"
#include "port/owner.h"
#include "port/sock_diag.h"

#define PORTS_MAX 512

struct held {
	const struct sim_machine *machine; /* NULL: free */
	uint16_t port;                     /* 0: not bound yet */
	int read_end;
	int write_end; /* the number that the taker has it under, until it is bound */
};

static struct held held[PORTS_MAX];

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

static bool is_free(struct held *one)
{
	struct pollfd end = {.fd = one->read_end};
	if (!one->machine)
		return true;
	if (__real_poll(&end, 1, 0) <= 0 || !(end.revents & POLLHUP))
		return false;
	close(one->read_end);
	one->machine = NULL;
	return true;
}

int tfc__hold_socket(void)
{
	int ends[2];
	for (int i = 0; i < PORTS_MAX; i++) {
		if (!is_free(&held[i]))
			continue;
		uint32_t before = sim_set_owner(0);
		int code = pipe2(ends, O_CLOEXEC);
		int copy = -1;
		sim_set_owner(before);
		if (code == 0)
			copy = fcntl(ends[1], F_DUPFD_CLOEXEC, 0);
		if (copy < 0)
			return -1;
		close(ends[1]);
		held[i] = (struct held){.machine = sim.kernel,
					.read_end = ends[0],
					.write_end = copy};
		return copy;
	}
	errno = EMFILE;
	return -1;
}

int tfc__hold_bind(int *fd, uint16_t port)
{
	struct held *own = NULL;
	for (int i = 0; i < PORTS_MAX; i++) {
		if (is_free(&held[i]) || held[i].machine != sim.kernel)
			continue;
		if (held[i].port == port) {
			errno = EADDRINUSE;
			return -1;
		}
		if (!held[i].port && held[i].write_end == *fd)
			own = &held[i];
	}
	if (!own)
		abort();
	own->port = port;
	return 0;
}

int tfc__hold_fail(tfc_error *error, uint16_t port, int sys_errno)
{
	return tfc__fail_errno(error, "port", sys_errno, "port %u cannot be bound", port);
}

int tfc__hold_bind_fixed(uint16_t port, tfc_error *error)
{
	int fd = tfc__hold_socket();
	if (fd < 0)
		return tfc__fail_errno(error, "port", errno, "no socket for port %u", port);
	if (tfc__hold_bind(&fd, port) == 0)
		return fd;
	close(fd);
	return tfc__fail(error, TFC_EBUSY, "port", EADDRINUSE, "port %u is in use", port);
}

int tfc__door_set(int fd, bool is_open)
{
	return 0;
}

/* ---- listeners: programs here do not listen yet */

int tfc__tcp_each(uint16_t first, uint16_t last, uint32_t states, tfc__tcp_fn fn, void *user,
		  tfc_error *error)
{
	return TFC_OK;
}

int tfc__owner_find_in_tree(pid_t root, struct tfc__sought *sought, size_t count)
{
	return 0;
}

int tfc__owner_each_in_tree(pid_t root, tfc__owner_fn fn, void *user)
{
	return 0;
}

int tfc__owner_find_by_parents(pid_t root, struct tfc__sought *sought, size_t count)
{
	return 0;
}

bool tfc__owner_kernel_lists_children(void)
{
	return true;
}

void tfc__owner_find(uint32_t inode, struct tfc__owner *ret_owner)
{
	*ret_owner = (struct tfc__owner){0};
}

void tfc__owner_program(pid_t pid, char ret_program[64])
{
	ret_program[0] = '\0';
}
