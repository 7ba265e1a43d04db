/* ctx: a child forked without exec may only give its copy up, and the parent never notices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "ctx/ctx.h"

static tfc_ctx *ctx;
static int calls;
static int slot;
static int freed_forked = -1;
static struct tfc__timer timer;
static struct tfc__work work;
static struct tfc__io io;

/* In the child: leaves with a number that says which claim did not hold. */
#define CLAIM(what)                                \
	do {                                       \
		if (!(what))                       \
			_exit(__LINE__ % 250 + 1); \
	} while (0)

static void count(void *user)
{
	calls++;
}

static void count_timer(struct tfc__timer *t)
{
	calls++;
}

static void count_work(struct tfc__work *w)
{
	calls++;
}

static void count_io(struct tfc__io *i, uint32_t events)
{
	uint64_t value;
	calls++;
	if (read(i->fd, &value, sizeof(value)) < 0)
		calls = -1000;
}

static void note_free(void *freed, bool is_forked)
{
	freed_forked = freed == &slot ? is_forked : -2;
}

static int is_readable(void)
{
	struct pollfd poller = {.fd = tfc_ctx_fd(ctx), .events = POLLIN};
	return poll(&poller, 1, 0);
}

static void assert_child_succeeds(pid_t pid)
{
	int status = 0;
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void claim_every_call_is_refused(void)
{
	CLAIM(tfc_ctx_fd(ctx) == TFC_EFORK);
	CLAIM(tfc_ctx_dispatch(ctx, 0) == TFC_EFORK);
	CLAIM(tfc_ctx_run(ctx, -1) == TFC_EFORK);
	CLAIM(tfc_ctx_post(ctx, count, NULL) == TFC_EFORK);
	CLAIM(tfc_ctx_wake(ctx) == TFC_EFORK);
	CLAIM(tfc_ctx_error(ctx)->code == TFC_EFORK);
	CLAIM(calls == 0);
}

static int open_ctx(void **state)
{
	calls = 0;
	freed_forked = -1;
	return tfc_ctx_new(NULL, NULL, &ctx);
}

static void every_call_in_a_forked_child_is_refused(void **state)
{
	assert_int_equal(tfc_ctx_post(ctx, count, NULL), 0);
	pid_t pid = fork();
	if (pid == 0) {
		claim_every_call_is_refused();
		_exit(0);
	}
	assert_child_succeeds(pid);
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 0);
	assert_int_equal(calls, 1);
	tfc_ctx_free(ctx);
}

static void a_child_may_have_a_context_and_children_of_its_own(void **state)
{
	pid_t pid = fork();
	if (pid == 0) {
		tfc_ctx *parents = ctx;
		CLAIM(tfc_ctx_new(NULL, NULL, &ctx) == TFC_OK);
		CLAIM(tfc_ctx_post(ctx, count, NULL) == TFC_OK && tfc_ctx_run(ctx, -1) == 0);
		CLAIM(calls == 1);
		pid_t grandchild = fork();
		if (grandchild == 0) {
			calls = 0;
			claim_every_call_is_refused();
			tfc_ctx_free(ctx);
			ctx = parents;
			claim_every_call_is_refused();
			_exit(0);
		}
		int status = 0;
		CLAIM(waitpid(grandchild, &status, 0) == grandchild && status == 0);
		CLAIM(tfc_ctx_run(ctx, 0) == 0 && tfc_ctx_run(parents, 0) == TFC_EFORK);
		tfc_ctx_free(ctx);
		tfc_ctx_free(parents);
		_exit(0);
	}
	assert_child_succeeds(pid);
	assert_int_equal(tfc_ctx_run(ctx, 0), 0);
	tfc_ctx_free(ctx);
}

/* What a careless owner does when it tears its handles down in the child. */
static void tear_down_in_child(int epoll_fd, bool is_by_free)
{
	tfc__timer_cancel(&timer);
	tfc__timer_set(&timer, 1);
	tfc__work_cancel(&work);
	tfc__work_schedule(&work);
	tfc__io_close(&io);
	if (is_by_free)
		tfc_ctx_free(ctx);
	else
		tfc_ctx_abandon(ctx);
	CLAIM(freed_forked == 1);
	CLAIM(fcntl(epoll_fd, F_GETFD) == -1);
}

static void parent_goes_on_after_child(bool is_by_free)
{
	uint64_t one = 1;
	int fd = eventfd(0, EFD_CLOEXEC);
	int epoll_fd = tfc_ctx_fd(ctx);
	tfc__ctx_set_slot(ctx, TFC__SLOT_GUARDS, &slot, note_free);
	assert_ptr_equal(tfc__ctx_slot(ctx, TFC__SLOT_GUARDS), &slot);
	tfc__timer_init(&timer, ctx, count_timer);
	tfc__work_init(&work, ctx, count_work);
	assert_int_equal(tfc__io_open(&io, ctx, fd, EPOLLIN, count_io), 0);
	uint64_t at = tfc__now() + 50 * TFC__MS;
	tfc__timer_set(&timer, at);

	pid_t pid = fork();
	if (pid == 0) {
		tear_down_in_child(epoll_fd, is_by_free);
		_exit(0);
	}
	assert_child_succeeds(pid);

	assert_true(tfc__now() >= at || is_readable() == 0); /* the timer was not touched */
	while (calls == 0)
		assert_true(tfc_ctx_run(ctx, 10000) >= 0);
	assert_true(tfc__now() >= at);
	assert_int_equal(calls, 1);
	assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
	assert_int_equal(tfc_ctx_run(ctx, 10000), 0);
	assert_int_equal(calls, 2); /* still watched */
	assert_int_equal(tfc_ctx_post(ctx, count, NULL), 0);
	assert_int_equal(tfc_ctx_run(ctx, 10000), 0);
	assert_int_equal(calls, 3);
	assert_int_equal(is_readable(), 0);

	tfc__io_close(&io);
	close(fd);
	assert_int_equal(freed_forked, -1);
	tfc_ctx_free(ctx);
	assert_int_equal(freed_forked, 0);
}

static void the_parent_goes_on_when_a_child_abandons(void **state)
{
	parent_goes_on_after_child(false);
}

static void free_in_a_child_is_abandon(void **state)
{
	parent_goes_on_after_child(true);
}

static void a_pending_wake_survives_a_child_that_abandons(void **state)
{
	assert_int_equal(tfc_ctx_wake(ctx), 0);
	pid_t pid = fork();
	if (pid == 0) {
		tfc_ctx_abandon(ctx);
		_exit(0);
	}
	assert_child_succeeds(pid);
	assert_int_equal(is_readable(), 1);
	assert_int_equal(tfc_ctx_dispatch(ctx, 0), 0);
	assert_int_equal(is_readable(), 0);
	tfc_ctx_free(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(every_call_in_a_forked_child_is_refused, open_ctx),
		cmocka_unit_test_setup(a_child_may_have_a_context_and_children_of_its_own,
				       open_ctx),
		cmocka_unit_test_setup(the_parent_goes_on_when_a_child_abandons, open_ctx),
		cmocka_unit_test_setup(free_in_a_child_is_abandon, open_ctx),
		cmocka_unit_test_setup(a_pending_wake_survives_a_child_that_abandons, open_ctx),
	};
	return cmocka_run_group_tests_name("ctx forks", tests, NULL, NULL);
}
