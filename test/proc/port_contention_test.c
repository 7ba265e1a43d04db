/* port: many processes with pools over one range, some of them killed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "port/port.h"
#include "sockets.h"

enum { FIRST = 27000, LAST = 27199, CHILDREN = 24, HELD = 8, TURNS = 400 };

/* Who has which port by the children's own account: in memory that all of them share. */
struct ledger {
	_Atomic int owner[65536]; /* number of a child, from 1; 0: nobody */
	_Atomic int is_killed[CHILDREN + 1];
	_Atomic int duplicates;
};

static struct ledger *ledger;

static void enter(int child, uint16_t port)
{
	int before = atomic_exchange(&ledger->owner[port], child);
	if (before && !atomic_load(&ledger->is_killed[before]))
		atomic_fetch_add(&ledger->duplicates, 1);
}

static void leave(int child, uint16_t port)
{
	if (atomic_exchange(&ledger->owner[port], 0) != child)
		atomic_fetch_add(&ledger->duplicates, 1);
}

/* Swaps one of its holds for a new one, again and again; the door of each is open. */
static void swap_holds(int fd, const void *number)
{
	int child = *(const int *)number;
	tfc_port_pool_options options = TFC_PORT_POOL_OPTIONS_INIT;
	options.first = FIRST;
	options.last = LAST;
	tfc_ctx *ctx = NULL;
	tfc_port_pool *pool = NULL;
	tfc_port_hold *holds[HELD] = {NULL};
	if (tfc_ctx_new(NULL, NULL, &ctx) || tfc_port_pool_open(ctx, &options, &pool))
		_exit(1);
	for (int turn = 0; turn < TURNS; turn++) {
		tfc_port_hold **hold = &holds[turn % HELD];
		if (*hold)
			leave(child, tfc_port_number(*hold));
		tfc_port_release(*hold);
		*hold = NULL;
		int code = tfc_port_acquire(pool, 0, hold);
		if (!code)
			enter(child, tfc_port_number(*hold));
		if (code ? code != TFC_EEXHAUSTED : tfc_port_admit(*hold, 1))
			_exit(1);
		if (turn == TURNS / 4 && write(fd, "Q", 1) != 1)
			_exit(1);
	}
	for (int i = 0; i < HELD; i++)
		if (holds[i])
			leave(child, tfc_port_number(holds[i]));
}

static int open_ledger(void **state)
{
	ledger = mmap(NULL, sizeof(*ledger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return ledger == MAP_FAILED ? -1 : 0;
}

static int close_ledger(void **state)
{
	return munmap(ledger, sizeof(*ledger));
}

/* Every third child dies in the middle of its work. */
static void kill_some(struct test_child children[CHILDREN])
{
	for (int i = 0; i < CHILDREN; i += 3) {
		assert_int_equal(test_child_read(&children[i]), 'Q');
		atomic_store(&ledger->is_killed[i + 1], 1);
		test_child_kill(&children[i]);
	}
}

static void assert_free(tfc_port_pool *pool, uint16_t port)
{
	tfc_port_hold *hold = NULL;
	assert_int_equal(tfc_port_acquire(pool, port, &hold), TFC_OK);
	tfc_port_release(hold);
}

static void no_port_has_two_holders_and_the_dead_hold_none(void **state)
{
	struct test_child children[CHILDREN];
	int numbers[CHILDREN];
	for (int i = 0; i < CHILDREN; i++) {
		numbers[i] = i + 1;
		children[i] = test_child_start(swap_holds, &numbers[i]);
	}
	kill_some(children);
	for (int i = 0; i < CHILDREN; i++)
		if (i % 3)
			assert_int_equal(test_child_wait(&children[i]), 0);
	assert_int_equal(atomic_load(&ledger->duplicates), 0);

	tfc_ctx *ctx = NULL;
	tfc_port_pool *pool = NULL;
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), TFC_OK);
	assert_int_equal(tfc_port_pool_open(ctx, NULL, &pool), TFC_OK);
	for (uint16_t port = FIRST; port <= LAST; port++)
		if (atomic_load(&ledger->owner[port]))
			assert_free(pool, port);
	tfc_port_pool_close(pool);
	tfc_ctx_free(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_port_has_two_holders_and_the_dead_hold_none),
	};
	return cmocka_run_group_tests_name("port_contention", tests, open_ledger, close_ledger);
}
