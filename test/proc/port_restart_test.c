/* port: what dead servers leave behind keeps neither a restart nor a fixed port away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port/port.h"
#include "sockets.h"

enum { CONNECTIONS = 5 };

struct fixture {
	struct test_hold held;
	int clients[CONNECTIONS];
};

static int open_hold(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	*state = f;
	return f ? test_hold_open(&f->held) : -1;
}

static int release_hold(void **state)
{
	struct fixture *f = *state;
	test_hold_close(&f->held);
	free(f);
	return 0;
}

static void release(struct fixture *f)
{
	tfc_port_hold_release(f->held.hold);
	f->held.hold = NULL;
}

/* Launches a task as an agent does: door open, task listens, door closed. */
static struct test_child launch(struct fixture *f, int closes_first)
{
	struct test_listening how = {"::", .port = f->held.port, .flags = TEST_REUSEADDR,
				     .closes_first = closes_first};
	assert_int_equal(tfc_port_hold_set_open(f->held.hold, 1), TFC_OK);
	struct test_child task = test_child_start(test_listening_child, &how);
	assert_int_equal(test_child_read(&task), 'L');
	assert_int_equal(tfc_port_hold_set_open(f->held.hold, 0), TFC_OK);
	return task;
}

static void connect_all(struct fixture *f, const struct test_child *task)
{
	for (int i = 0; i < CONNECTIONS; i++) {
		f->clients[i] = test_connect(f->held.port);
		assert_true(f->clients[i] >= 0);
		assert_int_equal(test_child_read(task), 'C');
	}
}

static void close_all(struct fixture *f)
{
	for (int i = 0; i < CONNECTIONS; i++)
		close(f->clients[i]);
}

/* Makes TIME_WAIT sockets on the port: the server closes, then the client. */
static void leave_time_wait(struct fixture *f)
{
	struct test_child task = launch(f, 1);
	char byte;
	connect_all(f, &task);
	for (int i = 0; i < CONNECTIONS; i++)
		assert_int_equal(read(f->clients[i], &byte, 1), 0);
	close_all(f);
	test_child_kill(&task);
}

/* Leaves connections that are half closed: the server was killed, the clients stay. */
static void leave_orphans(struct fixture *f)
{
	struct test_child task = launch(f, 0);
	connect_all(f, &task);
	test_child_kill(&task);
}

/* ---- restarts */

static void restart_gets_the_same_port_at_once(void **state)
{
	struct fixture *f = *state;
	for (int attempt = 0; attempt < 4; attempt++) {
		if (attempt % 2)
			leave_time_wait(f);
		else
			leave_orphans(f);
		assert_int_equal(test_count_intruders(f->held.port), 0);
		struct test_child task = launch(f, 0);
		assert_int_equal(test_count_intruders(f->held.port), 0);
		test_child_kill(&task);
		if (attempt % 2 == 0)
			close_all(f);
	}
}

static void orphan_that_still_listens_is_found_before_the_restart(void **state)
{
	struct fixture *f = *state;
	struct test_child orphan = launch(f, 0);
	struct test_listening how = {"::", .port = f->held.port, .flags = TEST_REUSEADDR};
	assert_int_equal(tfc_port_hold_set_open(f->held.hold, 1), TFC_OK);
	struct test_child task = test_child_start(test_listening_child, &how);
	assert_int_equal(test_child_read(&task), 'E');
	tfc_port_listener listener = TFC_PORT_LISTENER_INIT;
	assert_int_equal(tfc_port_hold_listener(f->held.hold, task.pid, &listener), TFC_OK);
	assert_int_equal(listener.is_ours, 0);
	assert_int_equal(listener.pid, orphan.pid);
	test_child_end(&task);
	test_child_kill(&orphan);
}

/* ---- fixed ports after an earlier run */

static void take_again(struct fixture *f)
{
	assert_int_equal(test_bind("::", f->held.port, TEST_PLAIN), -EADDRINUSE);
	assert_int_equal(tfc_port_acquire(f->held.pool, f->held.port, &f->held.hold), TFC_OK);
	assert_int_equal(tfc_port_hold_number(f->held.hold), f->held.port);
	assert_int_equal(test_count_intruders(f->held.port), 0);
	struct test_child task = launch(f, 0);
	assert_int_equal(test_count_intruders(f->held.port), 0);
	test_child_kill(&task);
}

static void fixed_port_in_time_wait_is_taken(void **state)
{
	struct fixture *f = *state;
	leave_time_wait(f);
	release(f);
	take_again(f);
}

static void fixed_port_with_orphaned_connections_is_taken(void **state)
{
	struct fixture *f = *state;
	leave_orphans(f);
	release(f);
	take_again(f);
	close_all(f);
}

static void pool_passes_over_ports_in_time_wait(void **state)
{
	struct fixture *f = *state;
	leave_time_wait(f);
	release(f);
	tfc_port_pool_options options = TFC_PORT_POOL_OPTIONS_INIT;
	options.first = options.last = f->held.port;
	tfc_port_pool *narrow = NULL;
	assert_int_equal(tfc_port_pool_open(f->held.ctx, &options, &narrow), TFC_OK);
	assert_int_equal(tfc_port_acquire(narrow, 0, &f->held.hold), TFC_EEXHAUSTED);
	assert_null(f->held.hold);
	tfc_port_pool_close(narrow);
}

static void fixed_port_whose_connections_live_is_busy(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(tfc_port_hold_set_open(f->held.hold, 1), TFC_OK);
	int listener = test_listen("::", f->held.port, TEST_REUSEADDR);
	int client = test_connect(f->held.port);
	int server = accept(listener, NULL, NULL);
	close(listener);
	release(f);
	assert_int_equal(tfc_port_acquire(f->held.pool, f->held.port, &f->held.hold), TFC_EBUSY);
	assert_non_null(strstr(tfc_ctx_error(f->held.ctx)->text, "has connections on it"));
	close(server);
	close(client);
}

static void fixed_port_that_the_kernel_keeps_back_is_busy(void **state)
{
	struct fixture *f = *state;
	release(f); /* a server without SO_REUSEADDR: its TIME_WAIT admits nobody */
	int listener = test_listen("127.0.0.1", f->held.port, TEST_PLAIN);
	int client = test_connect(f->held.port);
	close(accept(listener, NULL, NULL));
	close(client);
	close(listener);
	assert_int_equal(tfc_port_acquire(f->held.pool, f->held.port, &f->held.hold), TFC_EBUSY);
	assert_non_null(strstr(tfc_ctx_error(f->held.ctx)->text, "closing connections"));
}

/* ---- several who want the same dead port */

/* Waits for the start, takes the port, opens the door wide, and stays. */
static void contend(int fd, const void *port)
{
	tfc_ctx *ctx = NULL;
	tfc_port_pool *pool = NULL;
	tfc_port_hold *hold = NULL;
	char byte = 'R';
	if (tfc_ctx_new(NULL, NULL, &ctx) || tfc_port_pool_open(ctx, NULL, &pool) ||
	    write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1)
		_exit(1);
	int code = tfc_port_acquire(pool, *(const uint16_t *)port, &hold);
	if (!code)
		code = tfc_port_hold_set_open(hold, 1);
	byte = code == TFC_OK ? 'W' : code == TFC_EBUSY ? 'B' : '?';
	if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 0)
		_exit(1);
}

static void dead_port_has_one_winner(void **state)
{
	enum { CONTENDERS = 4, ROUNDS = 25 };
	struct fixture *f = *state;
	leave_time_wait(f);
	release(f);
	for (int round = 0; round < ROUNDS; round++) {
		struct test_child children[CONTENDERS];
		int winners = 0;
		for (int i = 0; i < CONTENDERS; i++)
			children[i] = test_child_start(contend, &f->held.port);
		for (int i = 0; i < CONTENDERS; i++)
			assert_int_equal(test_child_read(&children[i]), 'R');
		for (int i = 0; i < CONTENDERS; i++)
			assert_int_equal(write(children[i].fd, "G", 1), 1);
		for (int i = 0; i < CONTENDERS; i++) {
			int answer = test_child_read(&children[i]);
			assert_true(answer == 'W' || answer == 'B');
			winners += answer == 'W';
		}
		for (int i = 0; i < CONTENDERS; i++)
			assert_int_equal(test_child_end(&children[i]), 0);
		assert_int_equal(winners, 1);
	}
}

#define WITH_HOLD(test) cmocka_unit_test_setup_teardown(test, open_hold, release_hold)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_HOLD(restart_gets_the_same_port_at_once),
		WITH_HOLD(orphan_that_still_listens_is_found_before_the_restart),
		WITH_HOLD(fixed_port_in_time_wait_is_taken),
		WITH_HOLD(fixed_port_with_orphaned_connections_is_taken),
		WITH_HOLD(pool_passes_over_ports_in_time_wait),
		WITH_HOLD(fixed_port_whose_connections_live_is_busy),
		WITH_HOLD(fixed_port_that_the_kernel_keeps_back_is_busy),
		WITH_HOLD(dead_port_has_one_winner),
	};
	return cmocka_run_group_tests_name("port_restart", tests, NULL, NULL);
}
