/* transport: thousands of connections that do nothing, and then something. */
#include "transports.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define MANY 5000
#define SOME 300     /* where a handshake is tried that was tried many times before */
#define RESERVE 200  /* descriptors for everything else */
#define AT_ONCE 100  /* that are being connected */
#define QUIET_MS 100 /* nothing happens for so long */

/* How many connections, both ends in this process, its limit allows. */
static uint32_t affordable(const struct transport_kind *kind)
{
	struct rlimit limit;
	if (kind->is_noise && strcmp(kind->scheme, "tcp") != 0)
		return SOME;
	if (!transport_is_socket(kind))
		return MANY;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur >= 2 * MANY + RESERVE)
		return MANY;
	print_message("only %u descriptors are allowed: fewer connections\n",
		      (unsigned)limit.rlim_cur);
	return (uint32_t)(limit.rlim_cur - RESERVE) / 2;
}

static void connect_all(struct world *world, const char *address, struct end *near, struct end *far,
			uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		end_dial(world, address, &near[i]);
		if (i >= AT_ONCE)
			AWAIT(world, near[i - AT_ONCE].is_up);
	}
	for (uint32_t i = 0; i < count; i++)
		AWAIT(world, near[i].is_up && far[i].is_up);
}

static void many_idle_connections_cost_nothing_and_work(void **state)
{
	const struct transport_kind *kind = *state;
	uint32_t count = affordable(kind), came = 0;
	struct world world;
	struct end_listener listener;
	struct end *near = calloc(count, sizeof(*near)), *far = calloc(count, sizeof(*far));
	assert_true(near && far);
	world_begin(&world, kind);
	end_listen(&world, world.address, far, count, &listener);
	connect_all(&world, tfc__listener_address(listener.listener), near, far, count);

	struct pollfd idle = {.fd = tfc_ctx_fd(world.ctx), .events = POLLIN};
	world_settle(&world);
	if (!world.hosted)
		assert_int_equal(poll(&idle, 1, QUIET_MS), 0);

	for (uint32_t i = 0; i < count; i += 7)
		end_send(&near[i], "hello", 5);
	for (uint32_t i = 0; i < count; i += 7)
		AWAIT(&world, near[i].is_down || tfc__channel_backlog(near[i].channel) == 0);
	while (came < (count + 6) / 7) {
		came = 0;
		for (uint32_t i = 0; i < count; i++)
			came += far[i].messages;
		if (came < (count + 6) / 7)
			world_turn(&world);
	}
	for (uint32_t i = 0; i < count; i++)
		end_close(&near[i]);
	for (uint32_t i = 0; i < count; i++) {
		AWAIT(&world, far[i].is_down);
		end_close(&far[i]);
	}
	tfc__listener_close(listener.listener);
	world_end(&world);
	free(near);
	free(far);
}

int main(void)
{
	const struct transport_test tests[] = {
		{"many idle connections cost nothing and work",
		 many_idle_connections_cost_nothing_and_work, NULL},
	};
	return transport_run("transport_many", tests, sizeof(tests) / sizeof(*tests));
}
