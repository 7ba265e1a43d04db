/* port: who listens on a held port, and which process that is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "port/owner.h"
#include "port/port.h"
#include "sockets.h"

#define NOBODY 65534

/* A child that listens on the held port; the door stays open. */
static struct test_child start(struct test_hold *f, struct test_listening how)
{
	how.port = f->port;
	how.flags |= TEST_REUSEADDR;
	assert_int_equal(tfc_port_hold_set_open(f->hold, 1), TFC_OK);
	struct test_child child = test_child_start(test_listening_child, &how);
	assert_int_equal(test_child_read(&child), 'L');
	return child;
}

static tfc_port_listener ask(struct test_hold *f, pid_t root)
{
	tfc_port_listener listener = TFC_PORT_LISTENER_INIT;
	assert_int_equal(tfc_port_hold_listener(f->hold, root, &listener), TFC_OK);
	assert_int_equal(listener.size, sizeof(listener));
	return listener;
}

static void nobody_listens_on_a_mere_hold(void **state)
{
	tfc_port_listener listener = ask(*state, getpid());
	assert_int_equal(listener.count, 0);
	assert_int_equal(listener.is_ours, 0);
	assert_int_equal(listener.pid, 0);
	assert_string_equal(listener.program, "");
}

static void task_is_ours_from_its_root_and_an_outsider_elsewhere(void **state)
{
	struct test_hold *f = *state;
	struct test_child child = start(f, (struct test_listening){"::", .program = "task"});
	struct test_child other = test_child_start(test_listening_child,
						   &(struct test_listening){"127.0.0.1"});
	tfc_port_listener listener = ask(f, child.pid);
	assert_int_equal(listener.count, 1);
	assert_int_equal(listener.is_ours, 1);
	assert_int_equal(listener.pid, child.pid);
	assert_int_equal(listener.uid, getuid());
	assert_string_equal(listener.program, "task");
	assert_int_equal(ask(f, getpid()).is_ours, 1);

	listener = ask(f, other.pid);
	assert_int_equal(listener.is_ours, 0);
	assert_int_equal(listener.pid, child.pid);
	assert_string_equal(listener.program, "task");
	assert_int_equal(ask(f, 0).is_ours, 0);
	test_child_kill(&other);
	test_child_kill(&child);
	assert_int_equal(ask(f, getpid()).count, 0);
}

static void grandchild_that_listens_is_ours(void **state)
{
	struct test_hold *f = *state;
	struct test_child child = start(f, (struct test_listening){"0.0.0.0", .program = "deep",
								   .depth = 3});
	tfc_port_listener listener = ask(f, child.pid);
	assert_int_equal(listener.is_ours, 1);
	assert_int_not_equal(listener.pid, child.pid);
	assert_string_equal(listener.program, "deep");
	test_child_end(&child);
}

static void note_inode(void *user, uint16_t port, uint32_t uid, uint32_t inode)
{
	*(uint32_t *)user = inode;
}

static void tree_is_the_same_on_kernels_that_do_not_list_children(void **state)
{
	struct test_hold *f = *state;
	struct test_child child = start(f, (struct test_listening){"0.0.0.0", .depth = 2});
	struct tfc__sought sought[2] = {{0}, {0}};
	assert_int_equal(tfc__port_each_listener(f->ctx, f->port, f->port, note_inode,
						 &sought[0].inode),
			 TFC_OK);
	sought[1].inode = sought[0].inode;
	if (tfc__owner_kernel_lists_children()) {
		assert_int_equal(tfc__owner_find_in_tree(child.pid, &sought[0], 1), 0);
		assert_int_not_equal(sought[0].pid, 0);
	}
	assert_int_equal(tfc__owner_find_by_parents(child.pid, &sought[1], 1), 0);
	assert_int_not_equal(sought[1].pid, 0);
	assert_int_not_equal(sought[1].pid, child.pid);
	sought[1].pid = 0;
	assert_int_equal(tfc__owner_find_by_parents(1 << 22, &sought[1], 1), 0);
	assert_int_equal(sought[1].pid, 0);
	test_child_end(&child);
}

static void outsider_is_named_by_uid_pid_and_program(void **state)
{
	if (getuid())
		skip();
	struct test_hold *f = *state;
	struct test_child child = start(f, (struct test_listening){"::", .uid = NOBODY,
								   .program = "intruder"});
	tfc_port_listener listener = ask(f, 1 << 22); /* a root that does not exist */
	assert_int_equal(listener.is_ours, 0);
	assert_int_equal(listener.uid, NOBODY);
	assert_int_equal(listener.pid, child.pid);
	assert_string_equal(listener.program, "intruder");
	test_child_kill(&child);
}

static void one_outsider_beside_the_task_spoils_it(void **state)
{
	struct test_hold *f = *state;
	struct test_child task = start(f, (struct test_listening){"127.0.0.1", .program = "task"});
	struct test_child stranger = start(f,
					   (struct test_listening){"::1", .program = "stranger"});
	tfc_port_listener listener = ask(f, task.pid);
	assert_int_equal(listener.count, 2);
	assert_int_equal(listener.is_ours, 0);
	assert_int_equal(listener.pid, stranger.pid);
	assert_string_equal(listener.program, "stranger");
	assert_int_equal(ask(f, getpid()).is_ours, 1);
	test_child_kill(&stranger);
	assert_int_equal(ask(f, task.pid).is_ours, 1);
	test_child_kill(&task);
}

/* Looks at a listener of another user without the right to see its descriptors. */
static void ask_as_nobody(int fd, const void *arg)
{
	tfc_ctx *ctx = NULL;
	tfc_port_pool *pool = NULL;
	tfc_port_hold *hold = NULL;
	char answer = 'F';
	if (!setgid(NOBODY) && !setuid(NOBODY) && !tfc_ctx_new(NULL, NULL, &ctx) &&
	    !tfc_port_pool_open(ctx, NULL, &pool) &&
	    tfc_port_acquire(pool, *(const uint16_t *)arg, &hold) == TFC_EBUSY &&
	    strstr(tfc_ctx_error(ctx)->text,
		   "of uid 0 (its pid is not visible to this process), which listens"))
		answer = 'K';
	if (write(fd, &answer, 1) != 1)
		_exit(1);
	tfc_port_pool_close(pool);
	tfc_ctx_free(ctx);
}

static void invisible_outsider_is_named_by_uid(void **state)
{
	if (getuid())
		skip();
	struct test_hold *f = *state;
	struct test_child task = start(f, (struct test_listening){"::"});
	struct test_child asker = test_child_start(ask_as_nobody, &f->port);
	assert_int_equal(test_child_read(&asker), 'K');
	assert_int_equal(test_child_end(&asker), 0);
	test_child_kill(&task);
}

static void bad_questions_are_refused(void **state)
{
	struct test_hold *f = *state;
	tfc_port_listener no_size = {0};
	tfc_port_listener listener = TFC_PORT_LISTENER_INIT;
	assert_int_equal(tfc_port_hold_listener(f->hold, 0, NULL), TFC_EINVAL);
	assert_int_equal(tfc_port_hold_listener(f->hold, 0, &no_size), TFC_EINVAL);
	assert_int_equal(tfc_port_hold_listener(f->hold, -1, &listener), TFC_EINVAL);
	assert_int_equal(tfc_port_hold_listener(NULL, 0, &listener), TFC_EINVAL);
}

/* Without descriptors the task must not be taken for a stranger. */
static void lack_of_descriptors_is_an_error_and_no_outsider(void **state)
{
	struct test_hold *f = *state;
	struct test_child task = start(f, (struct test_listening){"::"});
	struct rlimit old;
	int lowest = dup(0);
	close(lowest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	for (int spare = 0; spare < 4; spare++) {
		struct rlimit tight = {(rlim_t)(lowest + spare), old.rlim_max};
		tfc_port_listener listener = TFC_PORT_LISTENER_INIT;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
		int code = tfc_port_hold_listener(f->hold, task.pid, &listener);
		setrlimit(RLIMIT_NOFILE, &old);
		if (code)
			assert_int_equal(code, TFC_EMFILE);
		assert_int_equal(listener.is_ours, code == TFC_OK);
		assert_true(spare > 0 || code);
	}
	test_child_kill(&task);
}

static void older_host_gets_the_fields_it_knows(void **state)
{
	struct test_hold *f = *state;
	struct test_child task = start(f, (struct test_listening){"::", .program = "task"});
	tfc_port_listener listener = TFC_PORT_LISTENER_INIT;
	listener.size = offsetof(tfc_port_listener, pid);
	listener.pid = -7;
	assert_int_equal(tfc_port_hold_listener(f->hold, task.pid, &listener), TFC_OK);
	assert_int_equal(listener.count, 1);
	assert_int_equal(listener.pid, -7);
	assert_int_equal(listener.size, offsetof(tfc_port_listener, pid));
	test_child_kill(&task);
}

struct seen {
	uint16_t ports[8];
	int count;
	uint32_t uid;
};

static void note_listener(void *user, uint16_t port, uint32_t uid, uint32_t inode)
{
	struct seen *seen = user;
	assert_true(inode > 0);
	seen->uid = uid;
	if (seen->count < 8)
		seen->ports[seen->count++] = port;
}

static void one_dump_reports_the_listeners_of_a_range(void **state)
{
	struct test_hold *f = *state;
	struct seen seen = {0};
	assert_int_equal(tfc__port_each_listener(f->ctx, f->port, f->port, note_listener, &seen),
			 TFC_OK);
	assert_int_equal(seen.count, 0);
	struct test_child task = start(f, (struct test_listening){"0.0.0.0"});
	assert_int_equal(tfc__port_each_listener(f->ctx, f->port, f->port, note_listener, &seen),
			 TFC_OK);
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.ports[0], f->port);
	assert_int_equal(seen.uid, getuid());
	seen.count = 0;
	assert_int_equal(tfc__port_each_listener(f->ctx, (uint16_t)(f->port + 1), f->port,
						 note_listener, &seen),
			 TFC_OK);
	assert_int_equal(seen.count, 0); /* an empty range */
	test_child_kill(&task);
}

/* The socket is the last of about as many descriptors as this process may have. */
static void owner_is_found_in_slices_of_so_many_descriptors(void **state)
{
	struct rlimit before, all;
	struct stat status;
	struct tfc__owner_search search = {0};
	struct tfc__owner owner = {0};
	int calls = 0;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	all = (struct rlimit){before.rlim_max, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
	int first = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), last = first;
	assert_int_equal(fstat(first, &status), 0);
	for (int fd = first; fd >= 0 && fd < 50000 && (rlim_t)fd + 16 < all.rlim_max; fd = dup(0))
		last = fd;
	assert_int_equal(dup2(first, last), last);
	assert_int_equal(dup2(0, first), first);
	do {
		calls++;
		tfc__owner_find(&search, (uint32_t)status.st_ino, TFC__OWNER_SLICE, &owner);
	} while (search.inode);
	close_range((unsigned)first, (unsigned)last + 1, 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(owner.pid, getpid());
	assert_true(calls > (last - first) / TFC__OWNER_SLICE);
}

#define WITH_HOLD(test) cmocka_unit_test_setup_teardown(test, test_hold_setup, test_hold_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owner_is_found_in_slices_of_so_many_descriptors),
		WITH_HOLD(nobody_listens_on_a_mere_hold),
		WITH_HOLD(task_is_ours_from_its_root_and_an_outsider_elsewhere),
		WITH_HOLD(grandchild_that_listens_is_ours),
		WITH_HOLD(tree_is_the_same_on_kernels_that_do_not_list_children),
		WITH_HOLD(outsider_is_named_by_uid_pid_and_program),
		WITH_HOLD(one_outsider_beside_the_task_spoils_it),
		WITH_HOLD(invisible_outsider_is_named_by_uid),
		WITH_HOLD(bad_questions_are_refused),
		WITH_HOLD(lack_of_descriptors_is_an_error_and_no_outsider),
		WITH_HOLD(older_host_gets_the_fields_it_knows),
		WITH_HOLD(one_dump_reports_the_listeners_of_a_range),
	};
	return cmocka_run_group_tests_name("port_listener", tests, NULL, NULL);
}
