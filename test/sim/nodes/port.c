/*
 * The kernel's side of TCP ports: one table a machine, and the calls on sockets that reach it. A
 * socket of the library's is the write end of a pipe, so that it can be handed around; the kernel
 * knows that it is closed once nobody has it open. Sockets of programs have no descriptor.
 *
 * Two sockets on one port get along if their addresses differ, or if both have SO_REUSEADDR and
 * none listens (inet_csk_bind_conflict, net/ipv4/inet_connection_sock.c).
 */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "port/owner.h"
#include "port/sock_diag.h"

#define SOCKETS_MAX 1024
#define TIME_WAIT (60 * SIM_SECOND)
#define FIRST_INODE UINT32_C(0xf0000000) /* of programs' sockets: above those of pipes */

struct sock {
	const struct sim_machine *machine; /* NULL: this entry is free */
	uint32_t inode;
	uint32_t address; /* 0: any */
	uint16_t port;    /* 0: not bound yet */
	bool is_reusing;
	bool is_listening;
	int read_end;   /* of the library's; -1 */
	uint64_t until; /* connections that no process owns any more: when they are gone; 0: it is
			   none */
	struct sim_process process; /* pid 0: it is the library's, or nobody's */
};

static struct sock socks[SOCKETS_MAX];
static uint32_t last_inode = FIRST_INODE;

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

/* ---- the table */

static bool is_closed(const struct sock *sock)
{
	struct pollfd end = {.fd = sock->read_end};
	if (sock->until)
		return sock->until <= sim.now;
	return sock->read_end >= 0 && __real_poll(&end, 1, 0) > 0 && (end.revents & POLLHUP);
}

static void sock_remove(struct sock *sock)
{
	if (sock->read_end >= 0)
		close(sock->read_end);
	*sock = (struct sock){.read_end = -1};
}

/* Whether there is a socket; what nobody has open any more goes. */
static bool is_there(struct sock *sock)
{
	if (sock->machine && is_closed(sock))
		sock_remove(sock);
	return sock->machine;
}

static struct sock *sock_add(const struct sim_machine *machine)
{
	for (int i = 0; i < SOCKETS_MAX; i++) {
		if (is_there(&socks[i]))
			continue;
		socks[i] = (struct sock){.machine = machine, .read_end = -1};
		return &socks[i];
	}
	abort();
}

static struct sock *sock_of_fd(int fd)
{
	struct stat status;
	if (fstat(fd, &status) < 0)
		abort();
	for (int i = 0; i < SOCKETS_MAX; i++)
		if (is_there(&socks[i]) && socks[i].read_end >= 0 &&
		    socks[i].inode == (uint32_t)status.st_ino)
			return &socks[i];
	return NULL;
}

static bool is_in_conflict(const struct sock *a, const struct sock *b)
{
	if (a->machine != b->machine || a->port != b->port)
		return false;
	if (a->address && b->address && a->address != b->address)
		return false;
	return !(a->is_reusing && b->is_reusing && !b->is_listening);
}

static bool has_conflict(const struct sock *sock)
{
	for (int i = 0; i < SOCKETS_MAX; i++)
		if (&socks[i] != sock && is_there(&socks[i]) && is_in_conflict(sock, &socks[i]))
			return true;
	return false;
}

static int sock_bind(struct sock *sock, uint32_t address, uint16_t port)
{
	sock->address = address;
	sock->port = port;
	if (has_conflict(sock)) {
		sock->port = 0;
		errno = EADDRINUSE;
		return -1;
	}
	if (!address)
		sim_referee_bound(sock->machine, port);
	return 0;
}

/* ---- the library's calls */

int __real_socket(int family, int type, int protocol);
int __real_bind(int fd, const struct sockaddr *address, socklen_t len);
int __real_close(int fd);

/* A node's socket for feeds: a real one, which no producer of the simulation connects to. */
static int make_unix_socket(int type, int protocol)
{
	int real = __real_socket(AF_UNIX, type, protocol);
	int fd = real < 0 ? -1 : fcntl(real, F_DUPFD_CLOEXEC, 0); /* notes who has it */
	if (real >= 0)
		__real_close(real);
	return fd;
}

int __wrap_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol)
{
	int ends[2];
	struct stat status;
	if (family == AF_UNIX)
		return make_unix_socket(type, protocol);
	bool is_tcp = (family == AF_INET || family == AF_INET6) && (type & 0xf) == SOCK_STREAM;
	if (!is_tcp || !sim.kernel) {
		fprintf(stderr, "the library makes a socket of family %d\n", family);
		abort();
	}
	if (pipe2(ends, O_CLOEXEC) < 0 || fstat(ends[0], &status) < 0)
		abort();
	/* the kernel's end outlives the process */
	uint32_t before = sim_set_owner(0);
	struct sock *sock = sock_add(sim.kernel);
	sock->read_end = fcntl(ends[0], F_DUPFD_CLOEXEC, 0);
	sock->inode = (uint32_t)status.st_ino;
	sim_set_owner(before);
	close(ends[0]);
	return ends[1];
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	struct sock *sock = sock_of_fd(fd);
	if (!sock || len != sizeof(int))
		abort();
	if (level != SOL_SOCKET || name != SO_REUSEADDR)
		return 0;
	sock->is_reusing = *(const int *)value;
	if (sock->port && sock->is_reusing && !sock->address)
		sim_faults_window_opens(sock->machine, sock->port);
	return 0;
}

/* sockaddr_in and sockaddr_in6 have the port in the same place; all of IPv6 that is used is any. */
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len)
{
	const struct sockaddr_in *four = (const void *)address;
	struct sock *sock = sock_of_fd(fd);
	if (address->sa_family ==
	    AF_UNIX) /* the kernel chooses: worlds beside this one have the same names */
		return __real_bind(fd, address, sizeof(sa_family_t));
	if (!sock || sock->port)
		abort();
	if (sock_bind(sock, address->sa_family == AF_INET ? ntohl(four->sin_addr.s_addr) : 0,
		      ntohs(four->sin_port)) < 0)
		return -1;
	if (sock->is_reusing && !sock->address)
		sim_faults_window_opens(sock->machine, sock->port);
	return 0;
}

int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *len);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *len)
{
	const struct sock *sock = sock_of_fd(fd);
	if (!sock || *len < sizeof(struct sockaddr_in6))
		abort();
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(sock->port)};
	memcpy(address, &six, sizeof(six));
	*len = sizeof(six);
	return 0;
}

/* ---- programs */

int sim_port_listen(const struct sim_process *process, uint16_t port)
{
	struct sock *sock = sock_add(process->machine);
	sock->inode = ++last_inode;
	sock->process = *process;
	sock->is_reusing = true;
	if (sock_bind(sock, 0, port) < 0) {
		sock_remove(sock);
		return EADDRINUSE;
	}
	sock->is_listening = true;
	sim_note("%s, pid %d, listens on port %u", process->name, process->pid, port);
	return 0;
}

void sim_port_close(const struct sim_machine *machine, int32_t pid)
{
	for (int i = 0; i < SOCKETS_MAX; i++) {
		struct sock *sock = &socks[i];
		if (sock->machine != machine || sock->process.pid != pid)
			continue;
		bool has_connections = sim_draw(3) == 0;
		sock->is_listening = false;
		sock->process.pid = 0;
		if (has_connections) {
			sock->until = sim.now + TIME_WAIT;
			sock->inode = 0;
			sock->address = 0x0a000001 + machine->number;
		} else {
			sock_remove(sock);
		}
	}
}

void sim_ports_lose_power(const struct sim_machine *machine)
{
	for (int i = 0; i < SOCKETS_MAX; i++)
		if (socks[i].machine == machine)
			sock_remove(&socks[i]);
}

/* ---- for the referee */

void sim_ports_each(const struct sim_machine *machine, sim_port_fn fn, void *user)
{
	for (int i = 0; i < SOCKETS_MAX; i++) {
		const struct sock *sock = &socks[i];
		if (is_there(&socks[i]) && sock->machine == machine && sock->port && !sock->until &&
		    !sock->address)
			fn(user, &(struct sim_port){sock->port, sock->inode, sock->is_listening,
						    sock->process.pid ? &sock->process : NULL});
	}
}

void sim_port_of_fd(int fd, uint16_t *ret_port, uint32_t *ret_inode)
{
	const struct sock *sock = sock_of_fd(fd);
	*ret_port = sock ? sock->port : 0;
	*ret_inode = sock ? sock->inode : 0;
}

/* ---- what the kernel tells: in place of lib/port/sock_diag.c and owner.c */

static uint8_t state_of(const struct sock *sock)
{
	if (sock->until)
		return TCP_TIME_WAIT;
	return sock->is_listening ? TCP_LISTEN : TFC__TCP_BOUND;
}

/* Every second machine has a kernel that does not show sockets that are bound and do nothing else
 * (Linux shows them since 6.8). */
static bool is_shown(const struct sock *sock)
{
	return state_of(sock) != TFC__TCP_BOUND || sock->machine->number % 2;
}

int tfc__tcp_each(uint16_t first, uint16_t last, uint32_t states, tfc__tcp_fn fn, void *user,
		  tfc_error *error)
{
	for (int i = 0; i < SOCKETS_MAX; i++) {
		const struct sock *sock = &socks[i];
		if (!is_there(&socks[i]) || sock->machine != sim.kernel || sock->port < first ||
		    sock->port > last || !(states >> state_of(sock) & 1) || !is_shown(sock))
			continue;
		struct tfc__tcp_socket reported = {.port = sock->port,
						   .state = state_of(sock),
						   .uid = sock->process.uid,
						   .inode = sock->inode};
		fn(user, &reported);
	}
	return TFC_OK;
}

static const struct sock *sock_of_inode(uint32_t inode)
{
	for (int i = 0; i < SOCKETS_MAX; i++)
		if (is_there(&socks[i]) && socks[i].machine == sim.kernel &&
		    socks[i].inode == inode && socks[i].process.pid)
			return &socks[i];
	return NULL;
}

int tfc__owner_find_in_tree(pid_t root, struct tfc__sought *sought, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct sock *sock = sock_of_inode(sought[i].inode);
		if (sock && sock->process.parent == root)
			sought[i].pid = sock->process.pid;
	}
	return 0;
}

int tfc__owner_find_by_parents(pid_t root, struct tfc__sought *sought, size_t count)
{
	return tfc__owner_find_in_tree(root, sought, count);
}

int tfc__owner_each_in_tree(pid_t root, tfc__owner_fn fn, void *user)
{
	return 0;
}

bool tfc__owner_kernel_lists_children(void)
{
	return true;
}

void tfc__owner_find(struct tfc__owner_search *search, uint32_t inode, uint32_t most,
		     struct tfc__owner *ret_owner)
{
	const struct sock *sock = sock_of_inode(inode);
	*ret_owner = (struct tfc__owner){0};
	if (!sock)
		return;
	ret_owner->pid = sock->process.pid;
	snprintf(ret_owner->program, sizeof(ret_owner->program), "%s", sock->process.name);
}

void tfc__owner_program(pid_t pid, char ret_program[64])
{
	ret_program[0] = '\0';
	for (int i = 0; i < SOCKETS_MAX; i++)
		if (socks[i].machine == sim.kernel && pid && socks[i].process.pid == pid)
			snprintf(ret_program, 64, "%s", socks[i].process.name);
}
