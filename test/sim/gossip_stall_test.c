/* gossip: members that sleep, and clocks that jump. No healthy member is declared down because
 * another one slept, and whoever slept is alive again by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "gossip_sim.h"

static struct gossip_sim *new_world(uint32_t nodes, uint64_t seed, uint32_t loss_percent)
{
	struct gossip_sim *s = gossip_sim_new(&(struct gossip_sim_options){
		.nodes = nodes, .seed = seed, .loss_ppm = loss_percent * 10000, .is_warm = true});
	gossip_sim_start_all(s, 10 * GS_SECOND);
	return s;
}

/* 16 of 128 sleep together, in both orders of waking. */
static void sleepers_accuse_nobody(void **state)
{
	(void)state;
	static const uint64_t lengths[] = {500, 2000, 3000, 5000, 8000, 12000, 30000};
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		for (uint32_t is_draining = 0; is_draining < 2; is_draining++) {
			struct gossip_sim *s = new_world(128, i + 1, 5);
			for (uint32_t node = 0; node < 16; node++)
				gossip_sim_stall(s, node * 8, lengths[i] * GS_MS, is_draining);
			gossip_sim_run(s, lengths[i] * GS_MS + 10 * GS_SECOND);
			print_message(
				"stall of %llu ms: %llu healthy, %llu asleep were declared down\n",
				(unsigned long long)lengths[i],
				(unsigned long long)gossip_sim_counts(s)->false_downs,
				(unsigned long long)gossip_sim_counts(s)->stalled_downs);
			assert_int_equal(gossip_sim_counts(s)->false_downs, 0);
			if (lengths[i] <= 5000) /* shorter than the shortest suspicion, 5.3 s */
				assert_int_equal(gossip_sim_counts(s)->stalled_downs, 0);
			assert_true(gossip_sim_run_until(s, 20 * GS_SECOND, gossip_sim_is_converged,
							 NULL));
			gossip_sim_free(s);
		}
	}
}

/* 4 of 128 sleep for 2 s of every 2.25 s. */
static void the_blocked_are_no_danger(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(128, 3, 0);
	for (int round = 0; round < 60; round++) {
		for (uint32_t node = 0; node < 4; node++)
			gossip_sim_stall(s, node * 32, 2 * GS_SECOND, round % 2);
		gossip_sim_run(s, 2250 * GS_MS);
	}
	print_message("%llu healthy, %llu blocked were declared down\n",
		      (unsigned long long)gossip_sim_counts(s)->false_downs,
		      (unsigned long long)gossip_sim_counts(s)->stalled_downs);
	assert_int_equal(gossip_sim_counts(s)->false_downs, 0);
	gossip_sim_free(s);
}

/* All sleep: a suspended laptop with all its containers. */
static void all_sleep(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(32, 4, 0);
	for (uint32_t node = 0; node < 32; node++)
		gossip_sim_stall(s, node, 60 * GS_SECOND + node * GS_MS, true);
	gossip_sim_run(s, 70 * GS_SECOND);
	assert_int_equal(gossip_sim_counts(s)->downs, 0);
	gossip_sim_free(s);
}

/* A virtual machine that is paused, or a laptop that is closed. 4 of 32 machines are suspended
 * together; what is sent to them meanwhile is lost. */
static void suspended_machines_accuse_nobody(void **state)
{
	(void)state;
	static const uint64_t lengths[] = {1000, 3000, 12000, 600000};
	for (uint32_t i = 0; i < 2 * sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint64_t length = lengths[i / 2] * GS_MS;
		bool does_clock_stop = i % 2;
		struct gossip_sim *s = new_world(32, i + 1, 5);
		for (uint32_t node = 0; node < 4; node++)
			gossip_sim_suspend(s, node * 8, length, does_clock_stop);
		gossip_sim_run(s, length);
		uint64_t woken = gossip_sim_now(s);
		assert_true(gossip_sim_run_until(s, 20 * GS_SECOND, gossip_sim_is_converged, NULL));
		print_message("suspended for %llu s, its clock %s: all alive again after %.2f s\n",
			      (unsigned long long)(length / GS_SECOND),
			      does_clock_stop ? "stood" : "went on",
			      (double)(gossip_sim_now(s) - woken) / 1e9);
		gossip_sim_run(s, 30 * GS_SECOND);
		assert_int_equal(gossip_sim_counts(s)->false_downs, 0);
		if (lengths[i / 2] <= 3000) /* shorter than the shortest suspicion, 3.8 s */
			assert_int_equal(gossip_sim_counts(s)->stalled_downs, 0);
		gossip_sim_free(s);
	}
}

/* It suspects a member, which refutes that while nothing reaches it. Its suspicion does not end
 * behind the back of the refutation. */
static void a_refutation_during_a_suspension_is_found(void **state)
{
	(void)state;
	for (uint32_t does_clock_stop = 0; does_clock_stop < 2; does_clock_stop++) {
		struct gossip_sim *s = new_world(32, 9, 0);
		struct tfc__gossip_event suspicion = {.kind = TFC__GOSSIP_BROKEN,
						      .id = gossip_sim_id(9)};
		gossip_sim_stall(s, 9, 3 * GS_SECOND, false);
		gossip_sim_event(s, 3, &suspicion);
		gossip_sim_run(s, 1500 * GS_MS);
		assert_int_equal(gossip_sim_state(s, 3, 9), TFC_MEMBER_SUSPECT);
		gossip_sim_suspend(s, 3, 120 * GS_SECOND, does_clock_stop);
		gossip_sim_run(s, 150 * GS_SECOND);
		assert_int_equal(gossip_sim_counts(s)->false_downs, 0);
		assert_int_equal(gossip_sim_state(s, 3, 9), TFC_MEMBER_ALIVE);
		assert_true(gossip_sim_is_converged(s, NULL));
		gossip_sim_free(s);
	}
}

/* One member's clock is an hour ahead from now on, while it suspects a dead one and pings others.
 * The jump declares nobody: the dead member is down no earlier than without it. */
static void a_clock_that_jumps_in_a_world_declares_nobody(void **state)
{
	(void)state;
	uint64_t first[2];
	for (uint32_t has_jump = 0; has_jump < 2; has_jump++) {
		struct gossip_sim *s = new_world(32, 11, 5);
		gossip_sim_kill(s, 9, true);
		gossip_sim_run(s, 2500 * GS_MS); /* the shortest suspicion takes 3.8 s */
		assert_int_equal(gossip_sim_state(s, 3, 9), TFC_MEMBER_SUSPECT);
		if (has_jump)
			gossip_sim_jump(s, 3, 3600 * GS_SECOND);
		gossip_sim_run(s, 60 * GS_SECOND);
		const uint64_t *times;
		assert_int_equal(gossip_sim_detections(s, 9, &times), 31);
		first[has_jump] = times[0];
		assert_int_equal(gossip_sim_counts(s)->false_downs, 0);
		assert_true(gossip_sim_is_converged(s, NULL));
		gossip_sim_free(s);
	}
	assert_true(first[1] + 100 * GS_MS >= first[0]);
}

static bool is_suspected(struct gossip_sim *s, void *unused)
{
	(void)unused;
	return gossip_sim_state(s, 3, 9) == TFC_MEMBER_SUSPECT;
}

/* The clock of one member jumps ahead: it takes that for sleep. */
static void a_clock_that_jumps_declares_nobody(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(16, 5, 0);
	struct tfc__gossip_event tick = {.kind = TFC__GOSSIP_TICK};
	gossip_sim_kill(s, 9, true);
	assert_true(gossip_sim_run_until(s, 5 * GS_SECOND, is_suspected, NULL));
	uint64_t ahead = gossip_sim_now(s) + 3600 * GS_SECOND;
	for (int i = 0; i < 10; i++) { /* half a second, of a suspicion of two */
		assert_int_equal(tfc__gossip_step(gossip_sim_core(s, 3), &tick,
						  ahead + i * 50 * GS_MS),
				 0);
		const struct tfc__gossip_action *a;
		while ((a = tfc__gossip_next(gossip_sim_core(s, 3))))
			assert_true(a->kind != TFC__GOSSIP_DO_MEMBER ||
				    a->member.state != TFC_MEMBER_DOWN);
	}
	/* And back: time stands still for it. */
	assert_int_equal(tfc__gossip_step(gossip_sim_core(s, 3), &tick, gossip_sim_now(s)), 0);
	gossip_sim_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sleepers_accuse_nobody),
		cmocka_unit_test(the_blocked_are_no_danger),
		cmocka_unit_test(all_sleep),
		cmocka_unit_test(suspended_machines_accuse_nobody),
		cmocka_unit_test(a_refutation_during_a_suspension_is_found),
		cmocka_unit_test(a_clock_that_jumps_in_a_world_declares_nobody),
		cmocka_unit_test(a_clock_that_jumps_declares_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
