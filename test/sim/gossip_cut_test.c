/* gossip: networks that are cut, wholly, in one direction or for some, and heal; members that
 * restart, one after another or all together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gossip_sim.h"

static const uint64_t push_pull = 30 * GS_SECOND; /* longest time between two of a node */

static struct gossip_sim *new_world(uint32_t nodes, uint64_t seed)
{
	struct gossip_sim *s = gossip_sim_new(
		&(struct gossip_sim_options){.nodes = nodes, .seed = seed, .is_warm = true});
	gossip_sim_start_all(s, 10 * GS_SECOND);
	return s;
}

/* No node needs more than 3 push-pulls for it. */
static void assert_converges(struct gossip_sim *s)
{
	uint64_t begin = gossip_sim_now(s);
	gossip_sim_push_pulls_clear(s);
	assert_true(gossip_sim_run_until(s, 3 * push_pull, gossip_sim_is_converged, NULL));
	print_message("converged after %.1f s, %u push-pulls of a node at most\n",
		      (double)(gossip_sim_now(s) - begin) / 1e9, gossip_sim_push_pulls(s).most);
	assert_true(gossip_sim_push_pulls(s).most <= 3);
}

/* Nothing reaches it, and all that it sends arrives: it suspects everybody. */
static void a_node_that_only_sends_makes_nobody_down_for_others(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(32, 1);
	gossip_sim_excuse(s, 5, UINT64_MAX);
	for (uint32_t i = 0; i < 32; i++)
		gossip_sim_cut(s, i, 5, true);
	gossip_sim_run(s, 300 * GS_SECOND);
	assert_int_equal(gossip_sim_counts(s)->false_downs, 0);
	print_message("%llu reports of it as down in 5 minutes, %llu suspicions of others\n",
		      (unsigned long long)gossip_sim_counts(s)->stalled_downs,
		      (unsigned long long)gossip_sim_counts(s)->false_suspects);
	assert_true(gossip_sim_counts(s)->stalled_downs <= 31); /* once for each: no flaps */
	for (uint32_t i = 0; i < 32; i++)
		gossip_sim_cut(s, i, 5, false);
	assert_converges(s);
	gossip_sim_free(s);
}

static void a_node_that_only_receives_is_down_once(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(32, 2);
	gossip_sim_excuse(s, 5, UINT64_MAX);
	for (uint32_t i = 0; i < 32; i++)
		gossip_sim_cut(s, 5, i, true);
	gossip_sim_run(s, 300 * GS_SECOND);
	assert_int_equal(gossip_sim_counts(s)->false_downs, 0);
	assert_int_equal(gossip_sim_counts(s)->stalled_downs, 31);
	for (uint32_t i = 0; i < 32; i++)
		gossip_sim_cut(s, 5, i, false);
	assert_converges(s);
	gossip_sim_free(s);
}

/* Its probes fail, and nobody even says so: it looks for the fault here, and probes less often. */
static void a_node_that_is_alone_slows_down(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(32, 8);
	gossip_sim_group(s, 0, 1);
	gossip_sim_run(s, 8 * GS_SECOND);
	uint32_t suspected = 0;
	for (uint32_t i = 1; i < 32; i++)
		suspected += gossip_sim_state(s, 0, i) != TFC_MEMBER_ALIVE;
	assert_in_range(suspected, 2, 6); /* of 16 intervals */
	gossip_sim_free(s);
}

static void a_broken_path_between_two_matters_to_nobody(void **state)
{
	(void)state;
	for (uint32_t is_both = 0; is_both < 2; is_both++) {
		struct gossip_sim *s = new_world(16, 3);
		for (uint32_t i = 0; i < 8; i += 2) {
			gossip_sim_cut(s, i, i + 1, true);
			gossip_sim_cut(s, i + 1, i, is_both);
		}
		gossip_sim_run(s, 300 * GS_SECOND);
		assert_int_equal(gossip_sim_counts(s)->false_downs, 0);
		gossip_sim_free(s);
	}
}

static void cut_and_heal(uint32_t nodes, uint32_t minority, uint64_t length)
{
	struct gossip_sim *s = new_world(nodes, minority);
	for (uint32_t i = 0; i < nodes; i++)
		gossip_sim_excuse(s, i, UINT64_MAX);
	for (uint32_t i = 0; i < minority; i++)
		gossip_sim_group(s, i, 1);
	gossip_sim_run(s, length);
	uint32_t known_down = 0;
	for (uint32_t i = 0; i < minority; i++)
		known_down += gossip_sim_state(s, nodes - 1, i) == TFC_MEMBER_DOWN;
	assert_int_equal(known_down, minority);
	assert_int_equal(gossip_sim_state(s, nodes - 1, nodes - 2), TFC_MEMBER_ALIVE);
	/* The smaller side, at least, is told that it may be the one that is cut off. */
	assert_true(gossip_sim_counts(s)->cut_offs >= minority);
	for (uint32_t i = 0; i < minority; i++)
		gossip_sim_group(s, i, 0);
	uint64_t downs = gossip_sim_counts(s)->downs;
	assert_converges(s);
	gossip_sim_run(s, push_pull);
	/* What a side believed does not bring the other one down again. */
	assert_true(gossip_sim_counts(s)->downs <= downs + nodes / 8);
	assert_int_equal(gossip_sim_counts(s)->cut_offs, gossip_sim_counts(s)->cut_off_ends);
	gossip_sim_free(s);
}

static void halves_find_each_other(void **state)
{
	(void)state;
	cut_and_heal(64, 32, 120 * GS_SECOND);
	cut_and_heal(256, 128, 120 * GS_SECOND);
}

static void one_and_all_others_find_each_other(void **state)
{
	(void)state;
	cut_and_heal(64, 1, 120 * GS_SECOND);
}

/* Two sides that only node 0 reaches: it relays. */
static void a_bridge_keeps_both_sides_alive(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(8, 4);
	for (uint32_t i = 1; i < 4; i++)
		for (uint32_t j = 4; j < 8; j++) {
			gossip_sim_cut(s, i, j, true);
			gossip_sim_cut(s, j, i, true);
			gossip_sim_excuse(s, i, UINT64_MAX);
			gossip_sim_excuse(s, j, UINT64_MAX);
		}
	gossip_sim_run(s, 300 * GS_SECOND);
	/* Each side refutes over the bridge, which itself stays alive for all. */
	for (uint32_t i = 1; i < 8; i++)
		assert_int_not_equal(gossip_sim_state(s, i, 0), TFC_MEMBER_DOWN);
	print_message("%llu reports of down in 5 minutes\n",
		      (unsigned long long)gossip_sim_counts(s)->downs);
	/* of the 24 directions that are cut, once a minute each */
	assert_true(gossip_sim_counts(s)->downs <= UINT64_C(5) * 24);
	for (uint32_t i = 1; i < 4; i++)
		for (uint32_t j = 4; j < 8; j++) {
			gossip_sim_cut(s, i, j, false);
			gossip_sim_cut(s, j, i, false);
		}
	assert_converges(s);
	gossip_sim_free(s);
}

/* Members are cut off one by one, and come back one by one in another order. */
static void swizzled_members_converge(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct gossip_sim *s = new_world(32, seed);
		for (int i = 0; i < 40; i++) {
			uint32_t node = gossip_sim_random(s, 32);
			gossip_sim_group(s, node, gossip_sim_random(s, 2) ? node + 1 : 0);
			gossip_sim_excuse(s, node, UINT64_MAX);
			gossip_sim_run(s, 700 * GS_MS);
		}
		for (uint32_t i = 0; i < 32; i++)
			gossip_sim_group(s, i, 0);
		assert_converges(s);
		gossip_sim_free(s);
	}
}

static void a_rolling_restart_is_seen_as_such(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(32, 6);
	for (uint32_t i = 0; i < 32; i++) {
		gossip_sim_kill(s, i, false);
		gossip_sim_run(s, 500 * GS_MS);
		gossip_sim_start(s, i, (i + 1) % 32);
		gossip_sim_run(s, 2 * GS_SECOND);
	}
	assert_converges(s);
	gossip_sim_run(s, 2 * push_pull);
	assert_int_equal(gossip_sim_counts(s)->downs, 0);
	gossip_sim_free(s);
}

static bool has_begun_two_push_pulls(struct gossip_sim *s, void *unused)
{
	(void)unused;
	return gossip_sim_push_pulls(s).fewest >= 2;
}

/* memberlist issue 311: after a mass restart, live nodes stayed dead. The environment
 * variable GOSSIP_MEMBERS sets how many nodes there are. */
static void a_mass_restart_leaves_nobody_dead(void **state)
{
	(void)state;
	const char *members = getenv("GOSSIP_MEMBERS");
	const uint32_t nodes = members ? (uint32_t)atoi(members) : 300;
	struct gossip_sim *s = new_world(nodes, 7);
	for (uint32_t i = 0; i < nodes; i++)
		gossip_sim_excuse(s, i, UINT64_MAX);
	for (uint32_t i = 0; i < nodes; i += 2) { /* half of them; then the others */
		gossip_sim_kill(s, i, true);
		gossip_sim_run(s, 10 * GS_MS);
	}
	gossip_sim_run(s, 8 * GS_SECOND);
	for (uint32_t i = 0; i < nodes; i += 2)
		gossip_sim_start(s, i, 1);
	for (uint32_t i = 1; i < nodes; i += 2)
		gossip_sim_kill(s, i, true);
	gossip_sim_run(s, 3 * GS_SECOND);
	for (uint32_t i = 1; i < nodes; i += 2)
		gossip_sim_start(s, i, 0);
	gossip_sim_push_pulls_clear(s);
	assert_true(gossip_sim_run_until(s, 2 * push_pull, has_begun_two_push_pulls, NULL));
	for (uint32_t i = 0; i < nodes; i++)
		for (uint32_t j = 0; j < nodes; j++)
			assert_int_not_equal(gossip_sim_state(s, i, j), TFC_MEMBER_DOWN);
	assert_converges(s);
	gossip_sim_run(s, push_pull);
	assert_true(gossip_sim_is_converged(s, NULL));
	gossip_sim_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_that_only_sends_makes_nobody_down_for_others),
		cmocka_unit_test(a_node_that_only_receives_is_down_once),
		cmocka_unit_test(a_node_that_is_alone_slows_down),
		cmocka_unit_test(a_broken_path_between_two_matters_to_nobody),
		cmocka_unit_test(halves_find_each_other),
		cmocka_unit_test(one_and_all_others_find_each_other),
		cmocka_unit_test(a_bridge_keeps_both_sides_alive),
		cmocka_unit_test(swizzled_members_converge),
		cmocka_unit_test(a_rolling_restart_is_seen_as_such),
		cmocka_unit_test(a_mass_restart_leaves_nobody_dead),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
