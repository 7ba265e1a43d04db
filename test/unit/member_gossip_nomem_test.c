/* member: gossip with whichever allocation failing: a step reports it, as if a message had been
 * lost, and later steps work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "failing_malloc.h"
#include "member/gossip_message.h"
#include <tfcluster/member.h>

enum { OTHERS = 20 };

static const uint64_t second = UINT64_C(1000000000);
static bool is_out_of_memory;

/* Returns the number of the last request. */
static uint64_t step(struct tfc__gossip *g, const struct tfc__gossip_event *event, uint64_t now)
{
	uint64_t stream = 0;
	int code = tfc__gossip_step(g, event, now);
	assert_true(code == TFC_OK || code == TFC_ENOMEM);
	is_out_of_memory |= code == TFC_ENOMEM;
	const struct tfc__gossip_action *a;
	while ((a = tfc__gossip_next(g)))
		if (a->kind == TFC__GOSSIP_DO_REQUEST)
			stream = a->stream;
	return stream;
}

static struct tfc__gossip_message record(uint8_t number, const char *name)
{
	return (struct tfc__gossip_message){.type = TFC__GOSSIP_RECORD,
					    .id = {.bytes = {number}},
					    .incarnation = UINT64_C(1) << 32,
					    .state = TFC_MEMBER_ALIVE,
					    .address = {.port = number},
					    .name = (const uint8_t *)name,
					    .name_len = strlen(name)};
}

static int join_and_lose(void)
{
	const struct tfc__gossip_address seed = {.port = 1};
	const struct tfc__gossip_options options = {.generation = 1,
						    .name = "self",
						    .address = {.port = 99},
						    .seed = 1};
	uint64_t now = second;
	is_out_of_memory = false;
	struct tfc__gossip *g = tfc__gossip_new(&options, now);
	if (!g)
		return TFC_ENOMEM;
	struct tfc__gossip_event join = {.kind = TFC__GOSSIP_JOIN, .addresses = &seed, .count = 1};
	uint64_t stream = step(g, &join, now);
	static uint8_t bytes[4096];
	uint8_t *end = tfc__gossip_write_header(bytes, UINT64_C(1) << 32);
	struct tfc__gossip_message m = {.type = TFC__GOSSIP_RANGE, .buckets = UINT64_MAX};
	end = tfc__gossip_write(end, &m);
	for (uint8_t i = 1; i <= OTHERS; i++) {
		char name[8];
		snprintf(name, sizeof(name), "n%u", i);
		m = record(i, name);
		end = tfc__gossip_write(end, &m);
	}
	struct tfc__gossip_event event = {.kind = TFC__GOSSIP_RESPONSE,
					  .id = {.bytes = {1}},
					  .generation = 1,
					  .bytes = bytes,
					  .len = (size_t)(end - bytes),
					  .stream = stream};
	step(g, &event, now);
	event.kind = TFC__GOSSIP_DATAGRAM;
	step(g, &event, now);
	struct tfc__gossip_event tick = {.kind = TFC__GOSSIP_TICK};
	for (int i = 0; i < 300; i++) { /* nobody answers */
		now = tfc__gossip_wake_at(g) > now ? tfc__gossip_wake_at(g) : now + 1;
		step(g, &tick, now);
	}
	event.kind = TFC__GOSSIP_SET_META;
	event.len = 100;
	step(g, &event, now);
	struct tfc__gossip_event leave = {.kind = TFC__GOSSIP_LEAVE};
	step(g, &leave, now);
	assert_true(is_out_of_memory || tfc__gossip_count(g) == OTHERS + 1);
	tfc__gossip_free(g);
	return is_out_of_memory ? TFC_ENOMEM : TFC_OK;
}

static void any_allocation_may_fail(void **state)
{
	(void)state;
	failing_sweep(join_and_lose, 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_allocation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
