/* port: what a hold keeps out and whom it lets in, and what moves it into a keeper. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "folder.h"
#include "port/port.h"
#include "sockets.h"

static void open_window(struct test_hold *f, int is_open)
{
	assert_int_equal(tfc_port_hold_set_open(f->hold, is_open), TFC_OK);
}

/* ---- strangers */

static void held_port_refuses_every_outsider(void **state)
{
	struct test_hold *f = *state;
	assert_int_equal(test_count_intruders(f->port), 0);
}

static void admitted_task_listens_on_each_address_that_tensorflow_uses(void **state)
{
	struct test_hold *f = *state;
	for (int i = 0; i < TEST_ADDRESSES; i++) {
		open_window(f, 1);
		int task = test_listen(test_addresses[i], f->port, TEST_REUSEADDR);
		assert_true(task >= 0);
		open_window(f, 0);
		close(task);
	}
}

static void running_task_is_alone_once_the_window_is_closed(void **state)
{
	struct test_hold *f = *state;
	for (int i = 0; i < TEST_ADDRESSES; i++) {
		open_window(f, 1);
		int task = test_listen(test_addresses[i], f->port, TEST_REUSEADDR);
		open_window(f, 0);
		assert_int_equal(test_count_intruders(f->port), 0);
		close(task);
		assert_int_equal(test_count_intruders(f->port), 0);
	}
}

static void closed_window_refuses_the_task_too(void **state)
{
	struct test_hold *f = *state;
	assert_int_equal(test_listen("::", f->port, TEST_REUSEADDR), -EADDRINUSE);
	open_window(f, 1);
	open_window(f, 0);
	assert_int_equal(test_listen("::", f->port, TEST_REUSEADDR), -EADDRINUSE);
}

static void open_window_refuses_programs_that_do_not_ask_for_reuse(void **state)
{
	struct test_hold *f = *state;
	open_window(f, 1);
	assert_int_equal(test_bind("::", f->port, TEST_PLAIN), -EADDRINUSE);
	assert_int_equal(test_bind("127.0.0.1", f->port, TEST_REUSEPORT), -EADDRINUSE);
}

static void outsider_that_slipped_in_cannot_listen_beside_the_task(void **state)
{
	struct test_hold *f = *state;
	open_window(f, 1);
	int stranger = test_bind("127.0.0.1", f->port, TEST_REUSEADDR);
	assert_true(stranger >= 0);
	int task = test_listen("::", f->port, TEST_REUSEADDR);
	assert_true(task >= 0);
	open_window(f, 0);
	assert_int_equal(listen(stranger, 1), -1);
	assert_int_equal(errno, EADDRINUSE);
	close(task);
	assert_int_equal(listen(stranger, 1), -1); /* the hold alone keeps it out, too */
	close(stranger);
}

/* Its flags, user and address would otherwise let it in again, unchecked. */
static void outsider_that_slipped_in_with_both_flags_is_out_once_the_window_is_closed(void **state)
{
	struct test_hold *f = *state;
	for (int i = 0; i < TEST_ADDRESSES; i++) {
		open_window(f, 1);
		int stranger = test_bind(test_addresses[i], f->port,
					 TEST_REUSEADDR | TEST_REUSEPORT);
		assert_true(stranger >= 0);
		close(stranger);
		open_window(f, 0);
		assert_int_equal(test_count_intruders(f->port), 0);
	}
}

static void released_port_is_free_for_all(void **state)
{
	struct test_hold *f = *state;
	tfc_port_hold_release(f->hold);
	f->hold = NULL;
	int fd = test_listen("::", f->port, TEST_PLAIN);
	assert_true(fd >= 0);
	close(fd);
}

/* ---- a fixed port that is taken */

static int acquire_fixed_elsewhere(struct test_hold *f)
{
	tfc_port_pool *other = NULL;
	tfc_port_hold *hold = NULL;
	assert_int_equal(tfc_port_pool_open(f->ctx, NULL, &other), TFC_OK);
	int code = tfc_port_acquire(other, f->port, &hold);
	tfc_port_hold_release(hold);
	tfc_port_pool_close(other);
	return code;
}

static void held_port_cannot_be_acquired_twice_window_open_or_not(void **state)
{
	struct test_hold *f = *state;
	tfc_port_hold *second = NULL;
	for (int is_open = 0; is_open < 2; is_open++) {
		open_window(f, is_open);
		assert_int_equal(acquire_fixed_elsewhere(f), TFC_EBUSY);
		assert_int_equal(tfc_port_acquire(f->pool, f->port, &second), TFC_EBUSY);
		assert_non_null(strstr(tfc_ctx_error(f->ctx)->text, "this pool"));
		assert_null(second);
	}
	open_window(f, 0);
	assert_int_equal(test_count_intruders(f->port), 0);
}

static void busy_port_names_the_holder_or_says_that_it_cannot(void **state)
{
	struct test_hold *f = *state;
	char pid[32];
	snprintf(pid, sizeof(pid), "process %d", (int)getpid());
	assert_int_equal(acquire_fixed_elsewhere(f), TFC_EBUSY);
	const char *text = tfc_ctx_error(f->ctx)->text;
	assert_true(strstr(text, pid) || strstr(text, "unknown process that does not listen"));
	assert_int_equal(tfc_ctx_error(f->ctx)->sys_errno, EADDRINUSE);
}

static void busy_port_names_the_listener(void **state)
{
	struct test_hold *f = *state;
	char pid[32];
	open_window(f, 1);
	int task = test_listen("127.0.0.1", f->port, TEST_REUSEADDR);
	tfc_port_hold_release(f->hold);
	f->hold = NULL;
	snprintf(pid, sizeof(pid), "process %d", (int)getpid());
	assert_int_equal(acquire_fixed_elsewhere(f), TFC_EBUSY);
	assert_non_null(strstr(tfc_ctx_error(f->ctx)->text, pid));
	assert_non_null(strstr(tfc_ctx_error(f->ctx)->text, "listens on it"));
	close(task);
}

/* ---- keepers */

struct keeper {
	int fd;
	int is_open;
	int released;
};

static int keep_set_bind_window(void *user, bool is_open)
{
	struct keeper *keeper = user;
	keeper->is_open = is_open;
	return TFC_OK;
}

static void keep_release(void *user)
{
	struct keeper *keeper = user;
	keeper->released++;
	close(keeper->fd);
}

static const struct tfc__port_keeper keeper_ops = {keep_set_bind_window, keep_release};

static void move_to(struct test_hold *f, struct keeper *keeper)
{
	keeper->fd = fcntl(tfc__port_fd(f->hold), F_DUPFD_CLOEXEC, 0);
	tfc__port_move(f->hold, &keeper_ops, keeper);
	assert_ptr_equal(tfc__port_kept(f->hold), keeper);
	assert_int_equal(tfc__port_fd(f->hold), -1);
}

static void kept_hold_asks_its_keeper(void **state)
{
	struct test_hold *f = *state;
	struct keeper keeper = {0};
	int before = folder_count_fds();
	move_to(f, &keeper);
	assert_int_equal(folder_count_fds(), before);
	assert_int_equal(test_count_intruders(f->port), 0);
	open_window(f, 1);
	assert_int_equal(keeper.is_open, 1);
	open_window(f, 0);
	assert_int_equal(keeper.is_open, 0);
	assert_int_equal(tfc_port_hold_number(f->hold), f->port);
	tfc_port_hold_release(f->hold);
	f->hold = NULL;
	assert_int_equal(keeper.released, 1);
}

static void lost_hold_says_so_until_it_is_taken_again(void **state)
{
	struct test_hold *f = *state;
	struct keeper keeper = {0};
	move_to(f, &keeper);
	close(keeper.fd); /* the keeper dies */
	tfc__port_lose(f->hold);
	assert_true(tfc__port_is_lost(f->hold));
	assert_null(tfc__port_kept(f->hold));
	assert_int_equal(tfc_port_hold_set_open(f->hold, 1), TFC_ELOST);

	int stranger = test_listen("0.0.0.0", f->port, TEST_PLAIN);
	assert_true(stranger >= 0);
	tfc_port_listener listener = TFC_PORT_LISTENER_INIT;
	assert_int_equal(tfc_port_hold_listener(f->hold, 0, &listener), TFC_OK);
	assert_int_equal(listener.count, 1); /* that much is still reported */
	assert_int_equal(tfc__port_reacquire(f->hold), TFC_EBUSY);
	assert_true(tfc__port_is_lost(f->hold));
	close(stranger);

	assert_int_equal(tfc__port_reacquire(f->hold), TFC_OK);
	assert_false(tfc__port_is_lost(f->hold));
	assert_int_equal(tfc_port_hold_number(f->hold), f->port);
	assert_int_equal(test_count_intruders(f->port), 0);
	assert_int_equal(keeper.released, 0);
}

static void vacated_port_is_the_programs_alone_and_comes_back(void **state)
{
	struct test_hold *f = *state;
	struct keeper keeper = {0};
	tfc_port_listener listener = TFC_PORT_LISTENER_INIT;
	for (int is_kept = 0; is_kept < 2; is_kept++) {
		if (is_kept)
			move_to(f, &keeper);
		tfc__port_hand_over(f->hold);
		int program = test_listen("::", f->port, TEST_REUSEPORT);
		assert_true(program >= 0);
		assert_int_equal(tfc_port_hold_listener(f->hold, getpid(), &listener), TFC_OK);
		assert_int_equal(listener.is_ours, 1);
		assert_int_equal(tfc_port_hold_set_open(f->hold, 0), TFC_ELOST);
		close(program);
		assert_int_equal(tfc__port_reacquire(f->hold), TFC_OK);
		assert_int_equal(test_count_intruders(f->port), 0);
	}
	assert_int_equal(keeper.released, 1);
}

#define WITH_HOLD(test) cmocka_unit_test_setup_teardown(test, test_hold_setup, test_hold_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_HOLD(held_port_refuses_every_outsider),
		WITH_HOLD(admitted_task_listens_on_each_address_that_tensorflow_uses),
		WITH_HOLD(running_task_is_alone_once_the_window_is_closed),
		WITH_HOLD(closed_window_refuses_the_task_too),
		WITH_HOLD(open_window_refuses_programs_that_do_not_ask_for_reuse),
		WITH_HOLD(outsider_that_slipped_in_cannot_listen_beside_the_task),
		WITH_HOLD(
			outsider_that_slipped_in_with_both_flags_is_out_once_the_window_is_closed),
		WITH_HOLD(released_port_is_free_for_all),
		WITH_HOLD(held_port_cannot_be_acquired_twice_window_open_or_not),
		WITH_HOLD(busy_port_names_the_holder_or_says_that_it_cannot),
		WITH_HOLD(busy_port_names_the_listener),
		WITH_HOLD(kept_hold_asks_its_keeper),
		WITH_HOLD(lost_hold_says_so_until_it_is_taken_again),
		WITH_HOLD(vacated_port_is_the_programs_alone_and_comes_back),
	};
	return cmocka_run_group_tests_name("port_hold", tests, NULL, NULL);
}
