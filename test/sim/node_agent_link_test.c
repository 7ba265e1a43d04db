/* node: a link between maintainer and agent delivers everything once and in order, wherever its
 * connections break. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/agent_link.h"
#include <tfcluster/error.h>

#define SEEDS 3000
#define MESSAGES 40
#define QUEUE 512

enum kind { DATA, ACK, OPEN, OPENED };

struct packet {
	enum kind kind;
	uint64_t number, ack;
	uint32_t value;
};

struct end {
	struct tfc__agent_link link;
	uint32_t posted, delivered;
	bool is_up;                 /* has heard the other end over this connection */
	struct packet queue[QUEUE]; /* on their way to it */
	uint32_t first, count;
};

struct world {
	uint64_t random;
	struct end ends[2]; /* 0 opens connections */
	bool is_connected;
	uint32_t breaks;
};

static uint32_t pick(struct world *world, uint32_t below)
{
	world->random = world->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(world->random >> 33) % below;
}

static void put(struct world *world, int to, struct packet packet)
{
	struct end *end = &world->ends[to];
	assert_true(end->count < QUEUE);
	end->queue[(end->first + end->count++) % QUEUE] = packet;
}

/* All that it may send now. */
static void flush(struct world *world, int from)
{
	struct end *end = &world->ends[from];
	const struct tfc__agent_link_message *message;
	if (!end->is_up)
		return;
	while ((message = tfc__agent_link_next(&end->link))) {
		struct packet packet = {DATA, message->number, tfc__agent_link_ack(&end->link), 0};
		assert_int_equal(message->len, sizeof(packet.value));
		memcpy(&packet.value, message->data, sizeof(packet.value));
		put(world, !from, packet);
	}
	if (tfc__agent_link_needs_ack(&end->link))
		put(world, !from, (struct packet){ACK, 0, tfc__agent_link_ack(&end->link), 0});
}

static void break_connection(struct world *world)
{
	world->breaks += world->is_connected;
	world->is_connected = false;
	for (int i = 0; i < 2; i++) {
		world->ends[i].count = 0;
		world->ends[i].is_up = false;
	}
}

static void connect_ends(struct world *world)
{
	world->is_connected = true;
	put(world, 1, (struct packet){OPEN, 0, world->ends[0].link.received, 0});
}

static void receive(struct world *world, int at)
{
	struct end *end = &world->ends[at];
	if (!end->count)
		return;
	struct packet packet = end->queue[end->first];
	end->first = (end->first + 1) % QUEUE;
	end->count--;
	if (packet.kind == OPEN || packet.kind == OPENED) {
		assert_int_equal(tfc__agent_link_resume(&end->link, packet.ack), TFC_OK);
		end->is_up = true;
		if (packet.kind == OPEN)
			put(world, 0, (struct packet){OPENED, 0, end->link.received, 0});
		return;
	}
	assert_int_equal(tfc__agent_link_clear(&end->link, packet.ack), TFC_OK);
	if (packet.kind == ACK)
		return;
	int code = tfc__agent_link_receive(&end->link, packet.number);
	assert_in_range(code, 0, 1);
	if (code == 1)
		assert_int_equal(packet.value, ++end->delivered);
}

static void post(struct world *world, int at)
{
	struct end *end = &world->ends[at];
	struct tfc__buf data = {0};
	uint32_t value = end->posted + 1;
	if (end->posted == MESSAGES)
		return;
	tfc__buf_add(&data, &value, sizeof(value));
	assert_int_equal(tfc__agent_link_post(&end->link, &data), TFC_OK);
	tfc__buf_fini(&data);
	end->posted++;
}

static void step(struct world *world, uint32_t breaks_of_100)
{
	int at = (int)pick(world, 2);
	if (!world->is_connected)
		connect_ends(world);
	if (pick(world, 100) < breaks_of_100) {
		break_connection(world);
		return;
	}
	switch (pick(world, 3)) {
	case 0:
		post(world, at);
		break;
	case 1:
		flush(world, at);
		break;
	case 2:
		receive(world, at);
		break;
	}
}

static bool is_done(const struct world *world)
{
	for (int i = 0; i < 2; i++)
		if (world->ends[i].posted < MESSAGES || world->ends[!i].delivered < MESSAGES ||
		    world->ends[i].link.cleared < world->ends[i].link.last)
			return false;
	return true;
}

static void begin(struct world *world, uint64_t seed)
{
	*world = (struct world){.random = seed};
	for (int i = 0; i < 2; i++)
		tfc__agent_link_init(&world->ends[i].link, 0);
}

static void end(struct world *world)
{
	for (int i = 0; i < 2; i++) {
		assert_int_equal(world->ends[i].link.kept_bytes, 0);
		assert_true(tfc__list_is_empty(&world->ends[i].link.kept));
		tfc__agent_link_fini(&world->ends[i].link);
	}
}

static void run(uint64_t seed, uint32_t breaks_of_100, uint32_t *breaks)
{
	static struct world world;
	begin(&world, seed);
	for (uint32_t steps = 0; !is_done(&world); steps++) {
		if (steps == 100000)
			fail_msg("seed %llu is stuck", (unsigned long long)seed);
		step(&world, breaks_of_100);
	}
	*breaks += world.breaks;
	end(&world);
}

static void all_is_delivered_once_over_connections_that_break(void **state)
{
	uint32_t breaks = 0;
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		run(seed, (uint32_t)(seed % 10), &breaks);
	assert_true(breaks > SEEDS);
}

/* The same walk, once with a break at each of its points. */
static void a_break_at_any_one_point_loses_nothing(void **state)
{
	static struct world world;
	for (uint32_t point = 0; point < 600; point++) {
		begin(&world, 7);
		for (uint32_t steps = 0; !is_done(&world); steps++) {
			assert_true(steps < 100000);
			if (steps == point)
				break_connection(&world);
			step(&world, 0);
		}
		end(&world);
	}
}

static void too_much_that_is_not_acknowledged_is_refused(void **state)
{
	struct tfc__agent_link link;
	struct tfc__buf data = {0};
	tfc__agent_link_init(&link, 10);
	tfc__buf_add(&data, "12345", 5);
	assert_int_equal(tfc__agent_link_post(&link, &data), TFC_OK);
	assert_int_equal(tfc__agent_link_post(&link, &data), TFC_OK);
	assert_int_equal(tfc__agent_link_post(&link, &data), TFC_ETOOBIG);
	assert_int_equal(tfc__agent_link_clear(&link, 1), TFC_OK);
	assert_int_equal(tfc__agent_link_post(&link, &data), TFC_OK);
	tfc__buf_fini(&data);
	tfc__agent_link_fini(&link);
}

static void what_cannot_be_is_noticed(void **state)
{
	struct tfc__agent_link link;
	struct tfc__buf data = {0};
	tfc__agent_link_init(&link, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(tfc__agent_link_post(&link, &data), TFC_OK);
	assert_int_equal(tfc__agent_link_clear(&link, 4), TFC_EPARSE);
	assert_int_equal(tfc__agent_link_clear(&link, 2), TFC_OK);
	assert_int_equal(tfc__agent_link_clear(&link, 1), TFC_OK); /* an old one is nothing new */
	assert_int_equal(tfc__agent_link_resume(&link, 1), TFC_EPARSE);
	assert_int_equal(tfc__agent_link_resume(&link, 4), TFC_EPARSE);
	assert_int_equal(tfc__agent_link_resume(&link, 2), TFC_OK);
	assert_int_equal(tfc__agent_link_next(&link)->number, 3);
	assert_null(tfc__agent_link_next(&link));
	assert_int_equal(tfc__agent_link_receive(&link, 2), TFC_EPARSE);
	assert_int_equal(tfc__agent_link_receive(&link, 1), 1);
	assert_int_equal(tfc__agent_link_receive(&link, 1), 0);
	data.is_failed = true;
	assert_int_equal(tfc__agent_link_post(&link, &data), TFC_ENOMEM);
	tfc__agent_link_fini(&link);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_delivered_once_over_connections_that_break),
		cmocka_unit_test(a_break_at_any_one_point_loses_nothing),
		cmocka_unit_test(too_much_that_is_not_acknowledged_is_refused),
		cmocka_unit_test(what_cannot_be_is_noticed),
	};
	return cmocka_run_group_tests_name("node_agent_link", tests, NULL, NULL);
}
