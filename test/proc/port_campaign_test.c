/*
 * port: 64 processes of two users, each with two pools over the same 1,000 ports, some killed at
 * any moment; and a referee that knows nothing of pools.
 *
 * The referee is a table in shared memory, which each holder enters after it has acquired a port
 * and leaves before it releases it, and a stranger that binds ports of the range by itself: what it
 * gets must be nobody's at that moment.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "campaign.h"
#include "port/port.h"
#include "sockets.h"

#define NOBODY 65534

/* Below the ports that other tests use. HELD of each child: three quarters of the range. */
enum { FIRST = 12000, PORTS = 1000, CHILDREN = 64, HELD = 12, LIVES = 1 << 18 };

#define DOOR (UINT32_C(1) << 31) /* the holder has opened its door, and never closes it again */

struct ledger {
	_Atomic uint32_t owner[PORTS]; /* a life, from 1; 0: nobody */
	_Atomic bool is_killed[LIVES]; /* or about to be */
	_Atomic uint32_t acquired;
	_Atomic uint32_t bound; /* by the stranger */
	_Atomic uint32_t faults;
	_Atomic bool is_over;
};

static struct ledger *ledger;

static bool is_alive(uint32_t owner)
{
	uint32_t life = owner & ~DOOR;
	return life && !atomic_load(&ledger->is_killed[life]);
}

static void fault(const char *what, uint16_t port, uint32_t owner)
{
	if (atomic_fetch_add(&ledger->faults, 1) > 20)
		return;
	dprintf(1, "port %u: %s (life %u, door %s)\n", port, what, owner & ~DOOR,
		owner & DOOR ? "open" : "closed");
}

static void enter(uint32_t life, uint16_t port, bool is_open)
{
	uint32_t before = atomic_exchange(&ledger->owner[port - FIRST],
					  is_open ? life | DOOR : life);
	if (is_alive(before))
		fault("acquired while another holds it", port, before);
}

static void leave(uint32_t life, uint16_t port)
{
	uint32_t before = atomic_exchange(&ledger->owner[port - FIRST], 0);
	if ((before & ~DOOR) != life)
		fault("another has entered while it was held", port, before);
}

/* ---- holders */

struct holder {
	uint32_t life;
	uint64_t seed;
	uid_t uid; /* 0: stays as it is */
	pid_t parent;
};

/* Mostly any port, at times a certain one, which another may have. */
static tfc_port_hold *acquire(tfc_port_pool *pool, struct campaign_random *random)
{
	tfc_port_hold *hold = NULL;
	bool is_fixed = campaign_pick(random, 32) == 0;
	uint16_t port = is_fixed ? (uint16_t)(FIRST + campaign_pick(random, PORTS)) : 0;
	int code = tfc_port_acquire(pool, port, &hold);
	if (code && code != TFC_EEXHAUSTED && code != TFC_EBUSY)
		_exit(1);
	return hold;
}

static void swap_hold(const struct holder *me, tfc_port_pool *pool, tfc_port_hold **slot,
		      struct campaign_random *random)
{
	if (*slot)
		leave(me->life, tfc_port_hold_number(*slot));
	tfc_port_hold_release(*slot);
	*slot = acquire(pool, random);
	if (!*slot)
		return;
	bool is_open = campaign_pick(random, 2);
	enter(me->life, tfc_port_hold_number(*slot), is_open);
	atomic_fetch_add(&ledger->acquired, 1);
	if (is_open && tfc_port_hold_set_open(*slot, 1))
		_exit(1);
}

static void hold_and_swap(int fd, const void *arg)
{
	struct holder me = *(const struct holder *)arg;
	struct campaign_random random = {me.seed};
	tfc_port_pool_options options = TFC_PORT_POOL_OPTIONS_INIT;
	tfc_port_pool *pools[2] = {NULL, NULL};
	tfc_port_hold *holds[HELD] = {NULL};
	tfc_ctx *ctx = NULL;
	options.first = FIRST;
	options.last = FIRST + PORTS - 1;
	setpriority(PRIO_PROCESS, 0, 10); /* so that the killer comes to its turn */
	if (me.uid && (setgid(me.uid) || setuid(me.uid)))
		_exit(1);
	if (tfc_ctx_new(NULL, NULL, &ctx) || tfc_port_pool_open(ctx, &options, &pools[0]) ||
	    tfc_port_pool_open(ctx, &options, &pools[1]))
		_exit(1);
	while (!atomic_load(&ledger->is_over) && getppid() == me.parent)
		swap_hold(&me, pools[campaign_pick(&random, 2)],
			  &holds[campaign_pick(&random, HELD)], &random);
	for (int i = 0; i < HELD; i++)
		if (holds[i])
			leave(me.life, tfc_port_hold_number(holds[i]));
}

/* ---- the stranger */

/*
 * With SO_REUSEADDR it may get in beside a holder whose door is open; having been there, with
 * SO_REUSEPORT too.
 */
static void inspect(uint16_t port, int flags)
{
	uint32_t owner = atomic_load(&ledger->owner[port - FIRST]);
	atomic_fetch_add(&ledger->bound, 1);
	if (is_alive(owner) && !(owner & DOOR && flags != TEST_PLAIN))
		fault("bound by a stranger while it is held", port, owner);
}

static void try_ports(int fd, const void *arg)
{
	struct campaign_random random = {*(const uint64_t *)arg};
	while (!atomic_load(&ledger->is_over)) {
		uint16_t port = (uint16_t)(FIRST + campaign_pick(&random, PORTS));
		int flags = (int)campaign_pick(&random, 4);
		int bound = test_bind(test_addresses[campaign_pick(&random, TEST_ADDRESSES)], port,
				      flags);
		if (bound < 0)
			continue;
		inspect(port, flags);
		close(bound);
	}
}

/* ---- the campaign */

struct crew {
	struct holder holders[CHILDREN];
	struct test_child children[CHILDREN];
	uint32_t lives;
	struct campaign_random random;
};

static void start_holder(struct crew *crew, uint32_t number)
{
	struct holder *holder = &crew->holders[number];
	*holder = (struct holder){.life = ++crew->lives,
				  .seed = campaign_seed("port_campaign") + crew->lives,
				  .uid = !getuid() && number % 2 ? NOBODY : 0,
				  .parent = getpid()};
	crew->children[number] = test_child_start(hold_and_swap, holder);
}

static void kill_holder(struct crew *crew, uint32_t number)
{
	atomic_store(&ledger->is_killed[crew->holders[number].life], true);
	assert_int_equal(test_child_kill(&crew->children[number]), SIGKILL);
}

/* Kills, at any moment, whoever it may be; another takes its place. */
static void kill_some(struct crew *crew, uint32_t count)
{
	while (count-- && crew->lives < LIVES - 1) {
		struct timespec pause = {0, (long)campaign_pick(&crew->random, 8000000)};
		nanosleep(&pause, NULL);
		uint32_t number = campaign_pick(&crew->random, CHILDREN);
		kill_holder(crew, number);
		start_holder(crew, number);
	}
}

static int count_taken(void)
{
	int taken = 0;
	for (uint16_t port = FIRST; port < FIRST + PORTS; port++) {
		int fd = test_bind("::", port, TEST_PLAIN);
		taken += fd < 0;
		if (fd >= 0)
			close(fd);
	}
	return taken;
}

static void no_port_has_two_holders_and_the_dead_hold_none(void **state)
{
	static struct crew crew;
	uint64_t seed = campaign_seed("port_campaign");
	crew.random.state = seed;
	int taken = count_taken(); /* by somebody outside the test */
	struct test_child stranger = test_child_start(try_ports, &seed);
	for (uint32_t i = 0; i < CHILDREN; i++)
		start_holder(&crew, i);
	kill_some(&crew, campaign_length(40));
	atomic_store(&ledger->is_over, true);
	for (uint32_t i = 0; i < CHILDREN; i++)
		assert_int_equal(test_child_wait(&crew.children[i]), 0);
	assert_int_equal(test_child_wait(&stranger), 0);
	printf("%u acquired, %u killed, %u bound by the stranger\n", atomic_load(&ledger->acquired),
	       crew.lives - CHILDREN, atomic_load(&ledger->bound));
	assert_int_equal(atomic_load(&ledger->faults), 0);
	assert_true(atomic_load(&ledger->acquired) > PORTS);
	assert_true(atomic_load(&ledger->bound) > 0);
	assert_true(crew.lives > CHILDREN);
	assert_int_equal(count_taken(), taken);
}

/* ---- the referee itself */

static void the_referee_sees_every_fault(void **state)
{
	enter(1, FIRST, false);
	inspect(FIRST, TEST_REUSEADDR);
	assert_int_equal(atomic_load(&ledger->faults), 1);
	enter(2, FIRST, true);
	assert_int_equal(atomic_load(&ledger->faults), 2);
	leave(1, FIRST);
	assert_int_equal(atomic_load(&ledger->faults), 3);
	enter(2, FIRST, true);
	inspect(FIRST, TEST_PLAIN);
	assert_int_equal(atomic_load(&ledger->faults), 4);
	inspect(FIRST, TEST_REUSEADDR);
	atomic_store(&ledger->is_killed[2], true);
	enter(3, FIRST, false); /* the dead do not count */
	leave(3, FIRST);
	assert_int_equal(atomic_load(&ledger->faults), 4);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_referee_sees_every_fault, open_ledger,
						close_ledger),
		cmocka_unit_test_setup_teardown(no_port_has_two_holders_and_the_dead_hold_none,
						open_ledger, close_ledger),
	};
	return cmocka_run_group_tests_name("port_campaign", tests, NULL, NULL);
}
