/* gossip: members come, change, leave and return; two of one name or key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "gossip_sim.h"
#include "member/gossip_message.h"

static struct gossip_sim *new_world(uint32_t nodes, uint32_t started)
{
	struct gossip_sim *s = gossip_sim_new(
		&(struct gossip_sim_options){.nodes = nodes, .seed = nodes});
	for (uint32_t i = 0; i < started; i++)
		gossip_sim_start(s, i, i ? 0 : UINT32_MAX);
	assert_true(gossip_sim_run_until(s, 5 * GS_SECOND, gossip_sim_is_converged, NULL));
	gossip_sim_run(s, 5 * GS_SECOND);
	*gossip_sim_counts(s) = (struct gossip_sim_counts){0};
	return s;
}

struct member_state {
	uint32_t node, state;
};

/* Whether all that run agree. */
static bool all_see(struct gossip_sim *s, void *user)
{
	const struct member_state *m = user;
	for (uint32_t i = 0; i < 5; i++)
		if (gossip_sim_is_running(s, i) && i != m->node &&
		    gossip_sim_state(s, i, m->node) != m->state)
			return false;
	return true;
}

static void assert_all_see(struct gossip_sim *s, uint32_t node, uint32_t state, uint64_t limit)
{
	struct member_state m = {node, state};
	assert_true(gossip_sim_run_until(s, limit, all_see, &m));
}

static void a_dead_member_is_down_for_all(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(5, 5);
	gossip_sim_kill(s, 1, true);
	assert_all_see(s, 1, TFC_MEMBER_DOWN, 10 * GS_SECOND);
	assert_int_equal(gossip_sim_counts(s)->false_downs, 0);
	gossip_sim_free(s);
}

static void a_lone_node_sleeps(void **state)
{
	(void)state;
	struct gossip_sim *s = gossip_sim_new(&(struct gossip_sim_options){.nodes = 1, .seed = 1});
	gossip_sim_start(s, 0, UINT32_MAX);
	for (int i = 0; i < 3; i++) { /* until its next push-pull, which finds nobody */
		struct tfc__gossip *g = gossip_sim_core(s, 0);
		assert_true(tfc__gossip_wake_at(g) > gossip_sim_now(s) + 10 * GS_SECOND);
		gossip_sim_run(s, tfc__gossip_wake_at(g) - gossip_sim_now(s) + 10 * GS_MS);
	}
	gossip_sim_free(s);
}

static void the_last_of_two_is_down_for_the_other(void **state)
{
	(void)state;
	struct gossip_sim *s = gossip_sim_new(&(struct gossip_sim_options){.nodes = 2, .seed = 1});
	gossip_sim_start_all(s, 5 * GS_SECOND);
	gossip_sim_kill(s, 1, true);
	gossip_sim_run(s, 10 * GS_SECOND);
	assert_int_equal(gossip_sim_state(s, 0, 1), TFC_MEMBER_DOWN);
	gossip_sim_free(s);
}

static void who_leaves_has_left_for_all(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(5, 5);
	gossip_sim_leave(s, 2);
	assert_all_see(s, 2, TFC_MEMBER_LEFT, GS_SECOND);
	gossip_sim_run(s, 3 * GS_SECOND);
	assert_int_equal(gossip_sim_counts(s)->left, 1);
	gossip_sim_kill(s, 2, true);
	gossip_sim_run(s, 30 * GS_SECOND);
	assert_int_equal(gossip_sim_counts(s)->downs, 0);
	gossip_sim_free(s);
}

static void a_restarted_node_is_the_same_member_at_a_new_address(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(5, 5);
	struct tfc__gossip_member m;
	struct tfc__gossip_id id = gossip_sim_id(2);
	gossip_sim_kill(s, 2, false);
	gossip_sim_disguise(s, 2, NULL, NULL, NULL, true);
	gossip_sim_start(s, 2, 0);
	assert_true(gossip_sim_run_until(s, GS_SECOND, gossip_sim_is_converged, NULL));
	assert_true(tfc__gossip_find(gossip_sim_core(s, 4), &id, &m));
	struct tfc__gossip_address address = gossip_sim_address(s, 2);
	assert_int_equal(m.address.port, address.port);
	assert_int_equal(tfc__gossip_generation(m.incarnation), 2);
	gossip_sim_run(s, 30 * GS_SECOND);
	assert_int_equal(gossip_sim_counts(s)->downs + gossip_sim_counts(s)->conflicts, 0);
	gossip_sim_free(s);
}

static void metadata_reaches_all(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(5, 5);
	uint8_t meta[TFC__GOSSIP_META_MAX + 1];
	memset(meta, 'm', sizeof(meta));
	struct tfc__gossip_event e = {.kind = TFC__GOSSIP_SET_META, .bytes = meta};
	static const size_t lengths[] = {TFC__GOSSIP_META_MAX - 1, TFC__GOSSIP_META_MAX, 0};
	for (size_t i = 0; i < 3; i++) {
		e.len = lengths[i];
		gossip_sim_event(s, 1, &e);
		gossip_sim_run(s, GS_SECOND);
		for (uint32_t node = 0; node < 5; node++) {
			struct tfc__gossip_member m;
			struct tfc__gossip_id id = gossip_sim_id(1);
			assert_true(tfc__gossip_find(gossip_sim_core(s, node), &id, &m));
			assert_int_equal(m.meta_len, lengths[i]);
			assert_memory_equal(m.meta, meta, lengths[i]);
		}
	}
	e.len = TFC__GOSSIP_META_MAX + 1;
	assert_true(tfc__gossip_step(gossip_sim_core(s, 1), &e, gossip_sim_now(s)) < 0);
	gossip_sim_free(s);
}

static void a_refused_connection_starts_a_probe_but_declares_nobody(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(5, 5);
	struct tfc__gossip_event broken = {.kind = TFC__GOSSIP_BROKEN, .id = gossip_sim_id(3)};
	uint64_t before = gossip_sim_counts(s)->datagrams;
	gossip_sim_event(s, 1, &broken);
	assert_int_equal(gossip_sim_counts(s)->datagrams - before, 4); /* a ping, three requests */
	gossip_sim_run(s, 20 * GS_SECOND);
	assert_int_equal(gossip_sim_counts(s)->false_suspects, 0);
	gossip_sim_kill(s, 3, false);
	gossip_sim_event(s, 1, &broken);
	gossip_sim_run(s, 600 * GS_MS);
	assert_int_equal(gossip_sim_state(s, 1, 3), TFC_MEMBER_SUSPECT);
	gossip_sim_free(s);
}

static void what_was_received_over_a_connection_ends_a_probe(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(3, 3);
	gossip_sim_cut(s, 1, 2, true);
	gossip_sim_cut(s, 0, 2, true); /* 2 hears nobody, so nobody gets an ack */
	struct tfc__gossip_event contact = {.kind = TFC__GOSSIP_CONTACT, .id = gossip_sim_id(2)};
	for (int i = 0; i < 200; i++) {
		gossip_sim_event(s, 0, &contact);
		gossip_sim_event(s, 1, &contact);
		gossip_sim_run(s, 100 * GS_MS);
	}
	assert_int_equal(gossip_sim_state(s, 0, 2), TFC_MEMBER_ALIVE);
	struct tfc__gossip_member m;
	assert_true(tfc__gossip_find(gossip_sim_core(s, 0), &contact.id, &m));
	assert_true(m.received_at + GS_SECOND > gossip_sim_now(s));
	gossip_sim_free(s);
}

static void nobody_at_the_seed_is_reported(void **state)
{
	(void)state;
	for (uint32_t seed = 0; seed < 2; seed++) { /* itself; nobody */
		struct gossip_sim *s = gossip_sim_new(
			&(struct gossip_sim_options){.nodes = 2, .seed = 1});
		gossip_sim_start(s, 0, seed);
		gossip_sim_run(s, 500 * GS_MS);
		assert_int_equal(gossip_sim_counts(s)->join_failed, 1);
		assert_int_equal(gossip_sim_counts(s)->joined, 0);
		gossip_sim_start(s, 1, 0);
		gossip_sim_run(s, 500 * GS_MS);
		assert_int_equal(gossip_sim_counts(s)->joined, 1);
		gossip_sim_free(s);
	}
}

/* A helper that gets no response from the target says so, in time. */
static void who_is_asked_in_vain_sends_a_nack(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(3, 3);
	struct tfc__gossip_message m = {.type = TFC__GOSSIP_PING_REQ,
					.seq = 77,
					.id = gossip_sim_id(2),
					.address = gossip_sim_address(s, 2)};
	struct tfc__gossip_event e = {.kind = TFC__GOSSIP_DATAGRAM,
				      .from = gossip_sim_address(s, 1),
				      .id = gossip_sim_id(1),
				      .generation = 1};
	uint8_t bytes[200];
	uint8_t *end = tfc__gossip_write_header(bytes, UINT64_C(1) << 32);
	e.bytes = bytes;
	e.len = (size_t)(tfc__gossip_write(end, &m) - bytes);
	struct tfc__gossip *g = gossip_sim_core(s, 0);
	uint64_t begin = gossip_sim_now(s), now = begin;
	assert_int_equal(tfc__gossip_step(g, &e, now), 0);
	struct tfc__gossip_event tick = {.kind = TFC__GOSSIP_TICK};
	bool is_told = false;
	for (; now < begin + 250 * GS_MS && !is_told; now += 10 * GS_MS) {
		const struct tfc__gossip_action *a;
		assert_int_equal(tfc__gossip_step(g, &tick, now), 0);
		while ((a = tfc__gossip_next(g))) {
			struct tfc__gossip_reader reader = {a->bytes, a->bytes + a->len};
			uint64_t incarnation;
			if (a->kind != TFC__GOSSIP_DO_SEND)
				continue;
			assert_true(tfc__gossip_read_header(&reader, 1, &incarnation));
			while (tfc__gossip_read(&reader, &m))
				is_told |= m.type == TFC__GOSSIP_NACK && m.seq == 77 &&
					   a->to.port == e.from.port &&
					   a->to.ip[15] == e.from.ip[15];
		}
	}
	assert_true(is_told);
	gossip_sim_free(s);
}

/* A ping does not name whom it is for; the ack is its sender's. */
static void another_node_at_the_address_of_a_dead_one_does_not_ack_for_it(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(5, 5);
	struct tfc__gossip_id old = gossip_sim_id(2), other = gossip_sim_id(77);
	gossip_sim_kill(s, 2, false);
	gossip_sim_disguise(s, 2, &other, NULL, "other", false);
	gossip_sim_start(s, 2, 0);
	gossip_sim_run(s, 30 * GS_SECOND);
	for (uint32_t i = 0; i < 5; i++) {
		struct tfc__gossip_member m;
		if (i == 2)
			continue;
		assert_true(tfc__gossip_find(gossip_sim_core(s, i), &old, &m));
		assert_int_equal(m.state, TFC_MEMBER_DOWN);
		assert_true(tfc__gossip_find(gossip_sim_core(s, i), &other, &m));
		assert_int_equal(m.state, TFC_MEMBER_ALIVE);
	}
	gossip_sim_free(s);
}

/* ---- two of one */

static void a_restored_state_gets_a_higher_generation(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(5, 5);
	const uint32_t many = 9, one = 1;
	gossip_sim_kill(s, 2, false);
	gossip_sim_disguise(s, 2, NULL, &many, NULL, false);
	gossip_sim_start(s, 2, 0);
	gossip_sim_run(s, 2 * GS_SECOND);
	gossip_sim_kill(s, 2, false);
	gossip_sim_disguise(s, 2, NULL, &one, NULL, false); /* its state was lost */
	gossip_sim_start(s, 2, 0);
	gossip_sim_run(s, 2 * GS_SECOND);
	assert_int_equal(gossip_sim_counts(s)->generations, 1);
	assert_true(gossip_sim_is_converged(s, NULL));
	struct tfc__gossip_member m;
	struct tfc__gossip_id id = gossip_sim_id(2);
	assert_true(tfc__gossip_find(gossip_sim_core(s, 4), &id, &m));
	assert_true(tfc__gossip_generation(m.incarnation) > 9);
	gossip_sim_free(s);
}

/* Node 4 is a copy of node 3: one key, two addresses, of which that of node 4 is the higher one. */
static void clones(uint32_t generation, uint32_t copy_generation, uint32_t loser)
{
	struct gossip_sim *s = new_world(5, 3);
	struct tfc__gossip_id id = gossip_sim_id(3);
	gossip_sim_disguise(s, 3, NULL, &generation, NULL, false);
	gossip_sim_start(s, 3, 0);
	gossip_sim_run(s, 5 * GS_SECOND);
	gossip_sim_disguise(s, 4, &id, &copy_generation, "node-3", false);
	gossip_sim_start(s, 4, 0);
	gossip_sim_run(s, 5 * GS_SECOND);
	assert_int_equal(gossip_sim_counts(s)->self_lost, 1);
	assert_int_equal(gossip_sim_counts(s)->generations, 0);
	struct tfc__gossip_address kept = gossip_sim_address(s, loser == 3 ? 4 : 3);
	uint64_t conflicts = gossip_sim_counts(s)->conflicts;
	for (int i = 0; i < 100; i++) { /* one of them, and always the same */
		gossip_sim_run(s, 300 * GS_MS);
		for (uint32_t node = 0; node < 3; node++) {
			struct tfc__gossip_member m;
			assert_true(tfc__gossip_find(gossip_sim_core(s, node), &id, &m));
			assert_memory_equal(m.address.ip, kept.ip, sizeof(kept.ip));
			assert_int_not_equal(m.state, TFC_MEMBER_DOWN);
		}
	}
	assert_int_equal(gossip_sim_counts(s)->conflicts, conflicts);
	/* When the one that was kept ends, the other takes part with a higher generation. */
	gossip_sim_kill(s, loser == 3 ? 4 : 3, true);
	gossip_sim_run(s, 60 * GS_SECOND);
	assert_int_equal(gossip_sim_counts(s)->generations, 1);
	struct tfc__gossip_member m;
	assert_true(tfc__gossip_find(gossip_sim_core(s, 0), &id, &m));
	assert_int_equal(m.state, TFC_MEMBER_ALIVE);
	assert_int_not_equal(memcmp(m.address.ip, kept.ip, sizeof(kept.ip)), 0);
	gossip_sim_free(s);
}

static void of_two_with_one_key_the_higher_generation_stays(void **state)
{
	(void)state;
	clones(1, 5, 3);
	clones(5, 1, 4);
}

static void of_two_with_one_key_and_generation_one_stays(void **state)
{
	(void)state;
	clones(1, 1, 3); /* the higher address stays */
}

static void of_two_with_one_name_the_higher_generation_stays(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(5, 4);
	const uint32_t many = 9;
	gossip_sim_disguise(s, 4, NULL, &many, "node-3", false);
	gossip_sim_start(s, 4, 0);
	gossip_sim_run(s, 5 * GS_SECOND);
	assert_int_equal(gossip_sim_counts(s)->self_lost, 1);
	for (uint32_t node = 0; node < 3; node++) {
		assert_int_equal(gossip_sim_state(s, node, 3), TFC_MEMBER_LEFT);
		assert_int_equal(gossip_sim_state(s, node, 4), TFC_MEMBER_ALIVE);
	}
	gossip_sim_kill(s, 4, true);
	gossip_sim_run(s, 60 * GS_SECOND);
	for (uint32_t node = 0; node < 3; node++)
		assert_int_equal(gossip_sim_state(s, node, 3), TFC_MEMBER_ALIVE);
	gossip_sim_free(s);
}

/* The holder of the name returns under another one: nobody is down, and the name is free. */
static void a_name_is_free_when_its_holder_is_renamed(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(5, 4);
	const uint32_t many = 9;
	gossip_sim_disguise(s, 4, NULL, &many, "node-3", false);
	gossip_sim_start(s, 4, 0);
	gossip_sim_run(s, 5 * GS_SECOND);
	assert_int_equal(gossip_sim_state(s, 0, 3), TFC_MEMBER_LEFT);
	gossip_sim_kill(s, 4, false);
	gossip_sim_disguise(s, 4, NULL, NULL, "other", false);
	gossip_sim_start(s, 4, 0);
	gossip_sim_run(s, 60 * GS_SECOND);
	for (uint32_t node = 0; node < 3; node++) {
		assert_int_equal(gossip_sim_state(s, node, 3), TFC_MEMBER_ALIVE);
		assert_int_equal(gossip_sim_state(s, node, 4), TFC_MEMBER_ALIVE);
	}
	gossip_sim_free(s);
}

/* ---- what the caller could not do */

/* The actions of this kind that ticks of the core bring within `length`. */
static uint32_t count_actions(struct tfc__gossip *g, enum tfc__gossip_action_kind kind,
			      uint64_t *now, uint64_t length)
{
	const struct tfc__gossip_event tick = {.kind = TFC__GOSSIP_TICK};
	const struct tfc__gossip_action *a;
	uint32_t count = 0;
	for (uint64_t end = *now + length; *now < end; *now += 100 * GS_MS) {
		assert_int_equal(tfc__gossip_step(g, &tick, *now), 0);
		while ((a = tfc__gossip_next(g)))
			count += a->kind == kind;
	}
	return count;
}

static void a_generation_that_was_not_stored_is_requested_again(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(3, 3);
	struct tfc__gossip_message m = {.type = TFC__GOSSIP_DOWN,
					.id = gossip_sim_id(0),
					.incarnation = UINT64_C(5) << 32,
					.from = gossip_sim_id(1)};
	uint8_t bytes[200];
	uint8_t *end = tfc__gossip_write_header(bytes, UINT64_C(1) << 32);
	struct tfc__gossip_event e = {.kind = TFC__GOSSIP_DATAGRAM,
				      .from = gossip_sim_address(s, 1),
				      .id = gossip_sim_id(1),
				      .generation = 1,
				      .bytes = bytes,
				      .len = (size_t)(tfc__gossip_write(end, &m) - bytes)};
	struct tfc__gossip *g = gossip_sim_core(s, 0);
	uint64_t now = gossip_sim_now(s);
	assert_int_equal(tfc__gossip_step(g, &e, now), 0); /* its request is not carried out */
	uint32_t count = count_actions(g, TFC__GOSSIP_DO_GENERATION, &now, 60 * GS_SECOND);
	assert_in_range(count, 5, 60);
	e = (struct tfc__gossip_event){.kind = TFC__GOSSIP_GENERATION, .generation = 6};
	assert_int_equal(tfc__gossip_step(g, &e, now), 0);
	assert_int_equal(count_actions(g, TFC__GOSSIP_DO_GENERATION, &now, 60 * GS_SECOND), 0);
	gossip_sim_free(s);
}

static void requests_without_an_outcome_do_not_prevent_later_ones(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(2, 2);
	struct tfc__gossip *g = gossip_sim_core(s, 0);
	struct tfc__gossip_address to = gossip_sim_address(s, 1);
	const struct tfc__gossip_event join = {.kind = TFC__GOSSIP_JOIN,
					       .addresses = &to,
					       .count = 1};
	uint64_t now = gossip_sim_now(s);
	for (int i = 0; i < 100; i++) {
		const struct tfc__gossip_action *a;
		uint32_t requests = 0, failures = 0;
		assert_int_equal(tfc__gossip_step(g, &join, now), 0);
		while ((a = tfc__gossip_next(g))) {
			requests += a->kind == TFC__GOSSIP_DO_REQUEST;
			failures += a->kind == TFC__GOSSIP_DO_JOIN_FAILED;
		}
		assert_int_equal(requests, 1);
		assert_int_equal(failures, 0);
		failures = count_actions(g, TFC__GOSSIP_DO_JOIN_FAILED, &now, 90 * GS_SECOND);
		assert_int_equal(failures, 1); /* it was given up */
	}
	gossip_sim_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dead_member_is_down_for_all),
		cmocka_unit_test(a_lone_node_sleeps),
		cmocka_unit_test(a_name_is_free_when_its_holder_is_renamed),
		cmocka_unit_test(a_generation_that_was_not_stored_is_requested_again),
		cmocka_unit_test(requests_without_an_outcome_do_not_prevent_later_ones),
		cmocka_unit_test(the_last_of_two_is_down_for_the_other),
		cmocka_unit_test(who_leaves_has_left_for_all),
		cmocka_unit_test(a_restarted_node_is_the_same_member_at_a_new_address),
		cmocka_unit_test(metadata_reaches_all),
		cmocka_unit_test(a_refused_connection_starts_a_probe_but_declares_nobody),
		cmocka_unit_test(what_was_received_over_a_connection_ends_a_probe),
		cmocka_unit_test(nobody_at_the_seed_is_reported),
		cmocka_unit_test(who_is_asked_in_vain_sends_a_nack),
		cmocka_unit_test(another_node_at_the_address_of_a_dead_one_does_not_ack_for_it),
		cmocka_unit_test(a_restored_state_gets_a_higher_generation),
		cmocka_unit_test(of_two_with_one_key_the_higher_generation_stays),
		cmocka_unit_test(of_two_with_one_key_and_generation_one_stays),
		cmocka_unit_test(of_two_with_one_name_the_higher_generation_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
