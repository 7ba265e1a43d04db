#include "sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a hold */

int test_hold_open(struct test_hold *held)
{
	if (tfc_ctx_new(NULL, NULL, &held->ctx) ||
	    tfc_port_pool_open(held->ctx, NULL, &held->pool) ||
	    tfc_port_acquire(held->pool, 0, &held->hold))
		return -1;
	held->port = tfc_port_hold_number(held->hold);
	return 0;
}

void test_hold_close(struct test_hold *held)
{
	tfc_port_hold_release(held->hold);
	tfc_port_pool_close(held->pool);
	tfc_ctx_free(held->ctx);
}

int test_hold_setup(void **state)
{
	struct test_hold *held = calloc(1, sizeof(*held));
	*state = held;
	return held ? test_hold_open(held) : -1;
}

int test_hold_teardown(void **state)
{
	test_hold_close(*state);
	free(*state);
	return 0;
}

/* ---- sockets */

const char *const test_addresses[TEST_ADDRESSES] = {"::", "0.0.0.0", "127.0.0.1", "::1"};

static int open_with_flags(int family, int flags)
{
	int yes = 1;
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (flags & TEST_REUSEADDR)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (flags & TEST_REUSEPORT)
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof(yes));
	return fd;
}

static socklen_t fill_address(const char *text, uint16_t port, struct sockaddr_storage *address)
{
	memset(address, 0, sizeof(*address));
	if (strchr(text, ':')) {
		struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
		six->sin6_family = AF_INET6;
		six->sin6_port = htons(port);
		inet_pton(AF_INET6, text, &six->sin6_addr);
		return sizeof(*six);
	}
	struct sockaddr_in *four = (struct sockaddr_in *)address;
	four->sin_family = AF_INET;
	four->sin_port = htons(port);
	inet_pton(AF_INET, text, &four->sin_addr);
	return sizeof(*four);
}

static int close_failed(int fd)
{
	int saved = errno;
	if (fd >= 0)
		close(fd);
	return -saved;
}

int test_bind(const char *text, uint16_t port, int flags)
{
	struct sockaddr_storage address;
	socklen_t len = fill_address(text, port, &address);
	int fd = open_with_flags(address.ss_family, flags);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, len))
		return close_failed(fd);
	return fd;
}

int test_listen(const char *address, uint16_t port, int flags)
{
	int fd = test_bind(address, port, flags);
	return fd >= 0 && listen(fd, 16) ? close_failed(fd) : fd;
}

int test_connect(uint16_t port)
{
	struct sockaddr_storage address;
	socklen_t len = fill_address("127.0.0.1", port, &address);
	int fd = open_with_flags(AF_INET, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, len))
		return close_failed(fd);
	return fd;
}

int test_count_intruders(uint16_t port)
{
	int count = 0;
	for (int i = 0; i < 4 * TEST_ADDRESSES; i++) {
		int fd = test_bind(test_addresses[i / 4], port, i % 4);
		if (fd == -EADDRINUSE || fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL)
			continue;
		printf("port %u: %s with flags %d was let in (%d)\n", port, test_addresses[i / 4],
		       i % 4, fd);
		count++;
		if (fd >= 0)
			close(fd);
	}
	return count;
}

/* ---- children */

struct test_child test_child_start(test_child_fn fn, const void *arg)
{
	int pair[2];
	fflush(NULL);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		abort();
	pid_t pid = fork();
	if (pid < 0)
		abort();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		int fd = dup2(pair[1], 3);
		close_range(4, ~0U, 0);
		fn(fd, arg);
		_exit(0);
	}
	close(pair[1]);
	return (struct test_child){.pid = pid, .fd = pair[0]};
}

int test_child_read(const struct test_child *child)
{
	unsigned char byte;
	return read(child->fd, &byte, 1) == 1 ? byte : -1;
}

static int reap(struct test_child *child)
{
	int status = -1;
	waitpid(child->pid, &status, 0);
	if (child->fd >= 0)
		close(child->fd);
	child->pid = 0;
	child->fd = -1;
	return status;
}

int test_child_kill(struct test_child *child)
{
	kill(child->pid, SIGKILL);
	return reap(child);
}

int test_child_wait(struct test_child *child)
{
	return reap(child);
}

int test_child_end(struct test_child *child)
{
	close(child->fd);
	child->fd = -1;
	return reap(child);
}

/* ---- a child that listens */

static void report(int fd, char what)
{
	if (write(fd, &what, 1) != 1)
		_exit(1);
}

static void accept_one(int listener, int fd, int closes_first)
{
	int connection = accept(listener, NULL, NULL);
	if (connection < 0)
		_exit(1);
	if (closes_first)
		close(connection);
	report(fd, 'C');
}

static void serve(int listener, int fd, int closes_first)
{
	struct pollfd polled[2] = {{.fd = listener, .events = POLLIN},
				   {.fd = fd, .events = POLLIN}};
	while (poll(polled, 2, -1) > 0 && !polled[1].revents)
		if (polled[0].revents)
			accept_one(listener, fd, closes_first);
}

/* Goes on in a descendant, which dies with its parent; the ones between wait for it. */
static void descend(int depth)
{
	for (; depth > 0; depth--) {
		pid_t pid = fork();
		if (pid < 0)
			_exit(1);
		if (pid > 0) {
			waitpid(pid, NULL, 0);
			_exit(0);
		}
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	}
}

void test_listening_child(int fd, const void *arg)
{
	const struct test_listening *listening = arg;
	descend(listening->depth);
	if (listening->uid && (setgid(listening->uid) || setuid(listening->uid)))
		_exit(1);
	if (listening->program)
		prctl(PR_SET_NAME, listening->program);
	int listener = test_listen(listening->address, listening->port, listening->flags);
	report(fd, listener >= 0 ? 'L' : 'E');
	if (listener >= 0)
		serve(listener, fd, listening->closes_first);
}
