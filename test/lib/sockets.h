/*
 * TCP sockets for tests: strangers that try to bind a port, and children that listen on one.
 */
#ifndef TFC_TEST_SOCKETS_H
#define TFC_TEST_SOCKETS_H

#include <stdint.h>
#include <sys/types.h>
#include <tfcluster/port.h>

/* What a test of holds begins with: a context, a pool and one port of it. */
struct test_hold {
	tfc_ctx *ctx;
	tfc_port_pool *pool;
	tfc_port_hold *hold; /* NULL: the test has released it */
	uint16_t port;
};

/* 0, or -1 as a setup of cmocka. */
int test_hold_open(struct test_hold *held);
void test_hold_close(struct test_hold *held);

/* Setup and teardown for tests that need no more: *state is a struct test_hold. */
int test_hold_setup(void **state);
int test_hold_teardown(void **state);

/* The addresses on which servers listen and strangers try. */
#define TEST_ADDRESSES 4
extern const char *const test_addresses[TEST_ADDRESSES]; /* ::, 0.0.0.0, 127.0.0.1, ::1 */

enum {
	TEST_PLAIN = 0,
	TEST_REUSEADDR = 1,
	TEST_REUSEPORT = 2,
};

/* Binds a TCP socket. Returns the descriptor, or the negative errno. */
int test_bind(const char *address, uint16_t port, int flags);

/* As test_bind, and listens. */
int test_listen(const char *address, uint16_t port, int flags);

/* A socket connected to 127.0.0.1 and `port`. Returns the descriptor, or the negative errno. */
int test_connect(uint16_t port);

/*
 * Tries all test_addresses, each with and without SO_REUSEADDR and SO_REUSEPORT.
 * Returns how many of these binds (and listens after them) the kernel allowed, and prints each.
 */
int test_count_intruders(uint16_t port);

/* A child process that runs one function and owns no descriptor of the test but its end of a pair.
 */
struct test_child {
	pid_t pid;
	int fd; /* a stream socket to the child */
};

typedef void (*test_child_fn)(int fd, const void *arg);

/* Forks; the child ends with 0 when fn returns. It dies with the test. */
struct test_child test_child_start(test_child_fn fn, const void *arg);

/* One byte from the child, or -1 when it is gone. */
int test_child_read(const struct test_child *child);

/* Kills the child, reaps it and closes the descriptor. Returns the wait status. */
int test_child_kill(struct test_child *child);

/* Closes the descriptor, at whose end the child is to leave by itself, and reaps it. */
int test_child_end(struct test_child *child);

/* Reaps a child that leaves by itself; the descriptor is open to it until then. */
int test_child_wait(struct test_child *child);

/* What a listening child does. */
struct test_listening {
	const char *address;
	uint16_t port;
	int flags;
	uid_t uid;           /* 0: stays as it is */
	const char *program; /* the name it gives itself; NULL: none */
	int depth;           /* this many forks below the child; at most 3 */
	int closes_first;    /* 1: closes each accepted connection, 0: keeps them open */
};

/*
 * A test_child_fn with a struct test_listening: listens, reports it by one byte ('L', or 'E' when
 * it cannot), accepts until its descriptor reads the end, and reports each connection with one 'C'.
 */
void test_listening_child(int fd, const void *listening);

#endif
