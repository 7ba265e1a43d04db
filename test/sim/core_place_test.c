/* cluster: traces of the maintainer's core: places, and the wait for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core_sim.h"

static void job_that_does_not_fit_waits_and_says_so(void **state)
{
	static const uint32_t nodes[] = {7, 8};
	struct sim s;
	sim_mirrored(&s);
	s.has_nodes = true;
	s.policy.start_deadline_ns = 10 * SIM_SECOND;
	sim_start(&s);
	sim_expect(&s, "place gang worker/0 worker/1\n");
	sim_placed(&s, NULL, NULL, "worker/1 needs a slot: none is left");
	sim_expect(&s, "job pending g1: worker/1 needs a slot: none is left\n");
	/* No deadline: room is waited for, however long. */
	assert_int_equal(tfc__core_wake_at(s.core), s.now + 60 * SIM_SECOND);
	sim_room(&s);
	sim_placed(&s, NULL, NULL, "worker/1 needs a slot: none is left");
	sim_expect(&s, "place gang worker/0 worker/1\n");
	sim_room(&s);
	sim_placed(&s, NULL, NULL, "worker/0 needs a GPU: none is left");
	sim_expect(&s, "place gang worker/0 worker/1\n"
		       "job pending g1: worker/0 needs a GPU: none is left\n");
	sim_room(&s);
	s.now += SIM_SECOND;
	sim_placed(&s, NULL, nodes, NULL);
	sim_expect(&s, "place gang worker/0 worker/1\n"
		       "hold worker/0 at node 7\n"
		       "hold worker/1 at node 8\n");
	assert_int_equal(tfc__core_wake_at(s.core), s.now + 10 * SIM_SECOND);
	sim_room(&s); /* nothing waits */
	sim_held_all(&s);
	sim_expect(&s, "task worker/0 #0 holding\n"
		       "task worker/1 #0 holding\n"
		       "job starting g1\n"
		       "launch worker/0 #1 g1\n"
		       "launch worker/1 #1 g1\n");
	sim_fini(&s);
}

static void what_is_missing_is_reported_again_each_minute(void **state)
{
	static const uint32_t nodes[] = {7, 8};
	struct sim s;
	sim_mirrored(&s);
	s.has_nodes = true;
	sim_start(&s);
	sim_placed(&s, NULL, NULL, "no room");
	s.trace.len = 0;
	for (int minute = 0; minute < 3; minute++) {
		assert_int_equal(tfc__core_wake_at(s.core), s.now + 60 * SIM_SECOND);
		sim_tick(&s, 60 * SIM_SECOND);
		sim_expect(&s, "job pending g1: no room\n");
	}
	sim_tick(&s, 30 * SIM_SECOND);
	sim_room(&s);
	sim_placed(&s, NULL, NULL, "less room");
	sim_expect(&s, "place gang worker/0 worker/1\n"
		       "job pending g1: less room\n");
	assert_int_equal(tfc__core_wake_at(s.core), s.now + 60 * SIM_SECOND);
	sim_room(&s);
	sim_placed(&s, NULL, nodes, NULL);
	assert_int_equal(tfc__core_wake_at(s.core), 0);
	sim_fini(&s);
}

static void what_a_sidecar_lacks_is_reported_again_each_minute(void **state)
{
	static const uint32_t nodes[] = {1, 2, 2};
	struct sim s;
	sim_mirrored(&s);
	sim_role(&s, "tensorboard", 1, TFC__SCOPE_TASK);
	sim_up_at(&s, nodes);
	sim_drain(&s, 2, "node b is drained");
	sim_signal(&s, "worker/0", 15);
	sim_signal(&s, "worker/1", 15);
	sim_signal(&s, "tensorboard/0", 15);
	sim_placed(&s, "tensorboard/0", NULL, "no room for it");
	sim_placed(&s, NULL, nodes, NULL);
	sim_held_all(&s);
	sim_ready_all(&s);
	sim_tick(&s, 60 * SIM_SECOND);
	sim_expect(&s, "job restarting g2: no room for it\n");
	sim_room(&s);
	sim_placed(&s, "tensorboard/0", nodes, NULL);
	sim_held_all(&s);
	sim_ready_all(&s);
	sim_tick(&s, 60 * SIM_SECOND);
	sim_expect(&s, "");
	assert_int_equal(tfc__core_wake_at(s.core), 0);
	sim_fini(&s);
}

static void pending_deadline_ends_a_job_that_waits_for_room(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	s.has_nodes = true;
	s.policy.pending_deadline_ns = 90 * SIM_SECOND;
	sim_start(&s);
	sim_placed(&s, NULL, NULL, "no room");
	sim_tick(&s, 60 * SIM_SECOND);
	s.trace.len = 0;
	assert_int_equal(tfc__core_wake_at(s.core), s.now + 30 * SIM_SECOND);
	sim_tick(&s, 30 * SIM_SECOND);
	sim_expect(&s, "job stopping g1: the pending deadline of 90 s has passed: no room\n"
		       "end failed deadline 0: the pending deadline of 90 s has passed: no room\n");
	assert_int_equal(tfc__core_wake_at(s.core), 0);
	sim_fini(&s);
}

static void pending_deadline_counts_ports_too(void **state)
{
	static const uint32_t nodes[] = {1, 2};
	struct sim s;
	sim_mirrored(&s);
	s.has_nodes = true;
	s.policy.pending_deadline_ns = 90 * SIM_SECOND;
	sim_start(&s);
	sim_placed(&s, NULL, nodes, NULL);
	sim_event(&s, TFC__AGENT_HELD, "worker/0");
	s.trace.len = 0;
	sim_tick(&s, 90 * SIM_SECOND);
	sim_expect(&s, "job stopping g1: the pending deadline of 90 s has passed; waited for "
		       "worker/0 (not started), worker/1 (no port)\n"
		       "release worker/1\n"
		       "release worker/0\n"
		       "end failed deadline 0: the pending deadline of 90 s has passed; waited for "
		       "worker/0 (not started), worker/1 (no port)\n");
	sim_fini(&s);
}

static void pending_deadline_runs_again_for_each_generation(void **state)
{
	static const uint32_t nodes[] = {1, 2};
	struct sim s;
	sim_mirrored(&s);
	s.policy.pending_deadline_ns = 90 * SIM_SECOND;
	sim_up_at(&s, nodes);
	assert_int_equal(tfc__core_wake_at(s.core), 0);
	sim_tick(&s, 1000 * SIM_SECOND);
	sim_lost(&s, 2, "node b is down");
	sim_signal(&s, "worker/0", 9);
	sim_placed(&s, NULL, NULL, "no room");
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RESTARTING);
	sim_tick(&s, 90 * SIM_SECOND);
	assert_int_equal(s.end.reason, TFC_END_DEADLINE);
	sim_fini(&s);
}

static void pending_job_can_be_stopped(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	s.has_nodes = true;
	sim_start(&s);
	sim_placed(&s, NULL, NULL, "no room");
	s.trace.len = 0;
	sim_stop(&s, 0, false);
	sim_expect(&s, "job stopping g1\n"
		       "end stopped stopped 0: stopped\n");
	sim_room(&s);
	sim_expect(&s, "");
	sim_fini(&s);
}

static void refused_hold_is_placed_again_and_the_rest_is_kept(void **state)
{
	static const uint32_t first[] = {1, 2}, second[] = {9, 3};
	struct sim s;
	sim_mirrored_placed(&s, first);
	sim_event(&s, TFC__AGENT_HELD, "worker/0");
	s.trace.len = 0;
	sim_full(&s, "worker/1");
	sim_expect(&s, "release worker/1\n"
		       "place gang worker/1\n");
	sim_placed(&s, NULL, second, NULL);
	sim_expect(&s, "hold worker/1 at node 3\n");
	sim_event(&s, TFC__AGENT_HELD, "worker/1");
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STARTING);
	assert_int_equal(tfc__core_node(s.core, 0), 1);
	sim_fini(&s);
}

static void gang_that_must_wait_holds_nothing(void **state)
{
	static const uint32_t nodes[] = {1, 2};
	struct sim s;
	sim_mirrored_placed(&s, nodes);
	sim_event(&s, TFC__AGENT_HELD, "worker/0");
	sim_full(&s, "worker/1");
	s.trace.len = 0;
	/* Not beside what is held; perhaps as a whole. */
	sim_placed(&s, NULL, NULL, "no room");
	sim_expect(&s, "release worker/0\n"
		       "place gang worker/0 worker/1\n");
	sim_placed(&s, NULL, NULL, "no room");
	sim_expect(&s, "job pending g1: no room\n");
	sim_room(&s);
	sim_placed(&s, NULL, nodes, NULL);
	sim_held_all(&s);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STARTING);
	sim_fini(&s);
}

static void hold_that_is_under_way_is_taken_back_too(void **state)
{
	static const uint32_t nodes[] = {1, 2};
	struct sim s;
	sim_mirrored_placed(&s, nodes);
	s.trace.len = 0;
	sim_full(&s, "worker/1");
	sim_placed(&s, NULL, NULL, "no room");
	sim_expect(&s, "release worker/1\n"
		       "place gang worker/1\n"
		       "release worker/0\n"
		       "place gang worker/0 worker/1\n");
	sim_event(&s, TFC__AGENT_HELD, "worker/0"); /* was in flight */
	sim_expect(&s, "");
	sim_fini(&s);
}

/* The rest is given back, and asked for as a whole: only then it is hopeless. */
static void gang_that_waits_in_vain_fails(void **state)
{
	static const uint32_t nodes[] = {1, 2};
	struct sim s;
	sim_mirrored_placed(&s, nodes);
	sim_event(&s, TFC__AGENT_HELD, "worker/0");
	sim_full(&s, "worker/1");
	s.trace.len = 0;
	sim_hopeless(&s, NULL, "worker/1 gets no port: all are taken");
	sim_expect(&s, "release worker/0\n"
		       "place gang worker/0 worker/1\n");
	sim_hopeless(&s, NULL, "worker/1 gets no port: all are taken");
	sim_expect(&s, "job stopping g1: worker/1 gets no port: all are taken\n"
		       "end failed unschedulable 0: worker/1 gets no port: all are taken\n");
	sim_fini(&s);
}

static void sidecar_that_waits_in_vain_is_done_without(void **state)
{
	static const uint32_t nodes[] = {1, 2, 2};
	struct sim s;
	sim_mirrored(&s);
	sim_role(&s, "tensorboard", 1, TFC__SCOPE_TASK);
	sim_up_at(&s, nodes);
	sim_drain(&s, 2, "node b is drained");
	sim_signal(&s, "tensorboard/0", 15);
	s.trace.len = 0;
	sim_hopeless(&s, "tensorboard/0", "no port");
	sim_expect(&s, "job restarting g1: no port\n");
	sim_room(&s);
	sim_expect(&s, "");
	sim_fini(&s);
}

static void late_response_to_an_older_place_is_ignored(void **state)
{
	static const uint32_t nodes[] = {1, 2}, others[] = {3, 4};
	struct sim s;
	sim_mirrored_placed(&s, nodes);
	uint32_t old = s.gang_place;
	sim_full(&s, "worker/1");
	s.trace.len = 0;
	sim_step(&s, &(struct tfc__core_event){.kind = TFC__CORE_PLACED,
					       .task = UINT32_MAX,
					       .number = old,
					       .nodes = nodes});
	sim_expect(&s, "");
	sim_placed(&s, NULL, others, NULL);
	sim_expect(&s, "hold worker/1 at node 4\n");
	sim_fini(&s);
}

static void sidecar_waits_for_room_alone(void **state)
{
	static const uint32_t nodes[] = {1, 2, 2};
	struct sim s;
	sim_mirrored(&s);
	sim_role(&s, "tensorboard", 1, TFC__SCOPE_TASK);
	sim_up_at(&s, nodes);
	sim_drain(&s, 2, "node b is drained");
	sim_signal(&s, "tensorboard/0", 15);
	s.trace.len = 0;
	sim_placed(&s, "tensorboard/0", NULL, "no room");
	sim_expect(&s, "job restarting g1: no room\n");
	sim_room(&s);
	sim_placed(&s, "tensorboard/0", NULL, "no room");
	sim_expect(&s, "place tensorboard/0\n");
	sim_stop(&s, 0, false);
	s.trace.len = 0;
	sim_room(&s);
	sim_expect(&s, "");
	sim_fini(&s);
}

/* The group restarts because both nodes are drained; then one accepts tasks again. */
static void the_text_of_a_wait_is_dropped_when_the_group_has_its_places(void **state)
{
	static const uint32_t nodes[] = {1, 2};
	struct sim s;
	sim_mirrored(&s);
	sim_up_at(&s, nodes);
	sim_drain(&s, 1, "node a is drained");
	sim_signal(&s, "worker/0", 15);
	sim_signal(&s, "worker/1", 15);
	sim_drain(&s, 2, "node b is drained");
	sim_placed(&s, NULL, NULL, "no node accepts tasks");
	sim_room(&s);
	sim_placed(&s, NULL, nodes, NULL);
	s.trace.len = 0;
	sim_held_all(&s);
	sim_expect(&s, "task worker/0 #1 holding\n"
		       "task worker/1 #1 holding\n"
		       "job restarting g2\n"
		       "launch worker/0 #2 g2\n"
		       "launch worker/1 #2 g2\n");
	sim_fini(&s);
}

/* Two sidecars wait; the text is dropped with the second one's wait. */
static void the_text_of_a_wait_is_dropped_when_no_sidecar_waits(void **state)
{
	static const uint32_t nodes[] = {1, 1, 2, 2};
	struct sim s;
	sim_mirrored(&s);
	sim_role(&s, "tensorboard", 2, TFC__SCOPE_TASK);
	sim_up_at(&s, nodes);
	sim_drain(&s, 2, "node b is drained");
	sim_signal(&s, "tensorboard/0", 15);
	sim_signal(&s, "tensorboard/1", 15);
	sim_placed(&s, "tensorboard/0", NULL, "no room");
	sim_placed(&s, "tensorboard/1", NULL, "no room");
	sim_room(&s);
	sim_placed(&s, "tensorboard/1", NULL, "no room");
	sim_placed(&s, "tensorboard/0", nodes, NULL);
	s.trace.len = 0;
	sim_event(&s, TFC__AGENT_HELD, "tensorboard/0");
	sim_expect(&s, "task tensorboard/0 #1 holding\n"
		       "launch tensorboard/0 #2 g1\n");
	sim_room(&s);
	sim_placed(&s, "tensorboard/1", nodes, NULL);
	s.trace.len = 0;
	sim_event(&s, TFC__AGENT_HELD, "tensorboard/1");
	sim_expect(&s, "task tensorboard/1 #1 holding\n"
		       "job running g1\n"
		       "launch tensorboard/1 #2 g1\n");
	sim_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(job_that_does_not_fit_waits_and_says_so),
		cmocka_unit_test(what_is_missing_is_reported_again_each_minute),
		cmocka_unit_test(what_a_sidecar_lacks_is_reported_again_each_minute),
		cmocka_unit_test(pending_deadline_ends_a_job_that_waits_for_room),
		cmocka_unit_test(pending_deadline_counts_ports_too),
		cmocka_unit_test(pending_deadline_runs_again_for_each_generation),
		cmocka_unit_test(pending_job_can_be_stopped),
		cmocka_unit_test(refused_hold_is_placed_again_and_the_rest_is_kept),
		cmocka_unit_test(gang_that_must_wait_holds_nothing),
		cmocka_unit_test(hold_that_is_under_way_is_taken_back_too),
		cmocka_unit_test(gang_that_waits_in_vain_fails),
		cmocka_unit_test(sidecar_that_waits_in_vain_is_done_without),
		cmocka_unit_test(late_response_to_an_older_place_is_ignored),
		cmocka_unit_test(sidecar_waits_for_room_alone),
		cmocka_unit_test(the_text_of_a_wait_is_dropped_when_the_group_has_its_places),
		cmocka_unit_test(the_text_of_a_wait_is_dropped_when_no_sidecar_waits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
