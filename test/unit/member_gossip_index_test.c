/* member: the index of gossip finds each member that is in it, whatever was removed before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "member/gossip_state.h"

#define PEERS 200
#define STEPS 20000

static struct gossip_peer peers[PEERS];
static char names[PEERS][16];

static void make_peers(void)
{
	for (int i = 0; i < PEERS; i++) {
		memcpy(peers[i].id.bytes, &i, sizeof(i));
		snprintf(names[i], sizeof(names[i]), "node-%d", i);
		peers[i].text = names[i];
		peers[i].name_len = (uint8_t)strlen(names[i]);
	}
}

static void change_and_compare(bool is_by_name)
{
	static struct tfc__gossip g;
	struct gossip_index index = {.is_by_name = is_by_name};
	bool is_in[PEERS] = {false};
	uint64_t random = 1;
	uint32_t count = 0;
	for (int step = 0; step < STEPS; step++) {
		uint32_t i = (uint32_t)(tfc__random_next(&random) % PEERS);
		/* Few members at first, then many, then few again. */
		bool is_growing = step / (STEPS / 4) % 2 == 0;
		if (is_in[i] && (!is_growing || step % 4 == 0)) {
			tfc__gossip_index_remove(&g, &index, &peers[i]);
			count--;
			is_in[i] = false;
		} else if (!is_in[i] && (is_growing || step % 4 == 0)) {
			assert_true(tfc__gossip_index_reserve(&g, &index));
			tfc__gossip_index_set(&g, &index, &peers[i]);
			count++;
			is_in[i] = true;
		}
		assert_int_equal(index.count, count);
		for (uint32_t n = 0; step % 50 == 0 && n < PEERS; n++)
			assert_ptr_equal(tfc__gossip_index_find(&g, &index, &peers[n]),
					 is_in[n] ? &peers[n] : NULL);
	}
	free(index.peers);
}

static void each_member_is_found_by_its_id(void **state)
{
	change_and_compare(false);
}

static void each_member_is_found_by_its_name(void **state)
{
	change_and_compare(true);
}

static void the_removal_of_another_member_of_that_name_does_nothing(void **state)
{
	static struct tfc__gossip g;
	struct gossip_index index = {.is_by_name = true};
	struct gossip_peer twin = peers[0];
	assert_true(tfc__gossip_index_reserve(&g, &index));
	tfc__gossip_index_set(&g, &index, &peers[0]);
	tfc__gossip_index_remove(&g, &index, &twin);
	assert_ptr_equal(tfc__gossip_index_find(&g, &index, &twin), &peers[0]);
	tfc__gossip_index_set(&g, &index, &twin);
	assert_ptr_equal(tfc__gossip_index_find(&g, &index, &peers[0]), &twin);
	assert_int_equal(index.count, 1);
	free(index.peers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_member_is_found_by_its_id),
		cmocka_unit_test(each_member_is_found_by_its_name),
		cmocka_unit_test(the_removal_of_another_member_of_that_name_does_nothing),
	};
	make_peers();
	return cmocka_run_group_tests_name("member gossip index", tests, NULL, NULL);
}
