/* member: who is there, judged on a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "member/probe.h"

#define MANY 9

static struct tfc__probes probes;
static struct tfc__probe nodes[MANY];
static uint64_t now;

static void begin(size_t count)
{
	const struct tfc__probe_times times = {0};
	now = 1000 * TFC__SECOND;
	tfc__probes_init(&probes, &times);
	for (size_t i = 0; i < count; i++) {
		tfc__probe_add(&probes, &nodes[i], now);
		tfc__probe_received(&nodes[i], now);
	}
}

/* Ticks on time; those from `first_silent` on say nothing. */
static void pass(uint64_t seconds, size_t count, size_t first_silent)
{
	uint64_t end = now + seconds * TFC__SECOND;
	while (probes.next_at <= end) {
		now = probes.next_at;
		tfc__probes_tick(&probes, now);
		for (size_t i = 0; i < count && i < first_silent; i++)
			if (nodes[i].is_due)
				tfc__probe_received(&nodes[i], now + TFC__MS);
	}
	now = end;
}

static void expect(size_t first, size_t last, uint32_t state)
{
	for (size_t i = first; i < last; i++)
		assert_int_equal(nodes[i].state, state);
}

static void one_that_responds_stays_alive(void **state)
{
	begin(3);
	pass(3600, 3, 3);
	expect(0, 3, TFC_MEMBER_ALIVE);
}

static void one_that_is_silent_is_suspect_then_down(void **state)
{
	begin(4);
	pass(2, 4, 3);
	expect(0, 4, TFC_MEMBER_ALIVE);
	pass(2, 4, 3);
	expect(3, 4, TFC_MEMBER_SUSPECT);
	pass(3, 4, 3);
	expect(3, 4, TFC_MEMBER_SUSPECT);
	pass(2, 4, 3);
	expect(3, 4, TFC_MEMBER_DOWN);
	expect(0, 3, TFC_MEMBER_ALIVE);
	assert_false(nodes[3].is_due);
	tfc__probe_received(&nodes[3], now);
	expect(3, 4, TFC_MEMBER_ALIVE);
}

/* A member whose message has just arrived costs no probe. */
static void only_who_was_not_received_is_probed(void **state)
{
	begin(2);
	tfc__probe_received(&nodes[0], now + 900 * TFC__MS);
	tfc__probes_tick(&probes, now + TFC__SECOND);
	assert_false(nodes[0].is_due);
	assert_true(nodes[1].is_due);
}

static void a_refusal_after_a_break_is_the_end_at_once(void **state)
{
	begin(1);
	tfc__probe_refused(&nodes[0]); /* a connection is left: the process is there */
	expect(0, 1, TFC_MEMBER_ALIVE);
	tfc__probe_broken(&nodes[0]);
	expect(0, 1, TFC_MEMBER_SUSPECT);
	tfc__probe_refused(&nodes[0]);
	expect(0, 1, TFC_MEMBER_DOWN);
	tfc__probe_broken(&nodes[0]);
	expect(0, 1, TFC_MEMBER_DOWN);
	tfc__probe_received(&nodes[0], now);
	expect(0, 1, TFC_MEMBER_ALIVE);
}

static void one_that_never_came_is_down_by_refusal_or_silence(void **state)
{
	begin(0);
	tfc__probe_add(&probes, &nodes[0], now);
	tfc__probe_add(&probes, &nodes[1], now);
	expect(0, 2, TFC_MEMBER_SUSPECT);
	tfc__probe_refused(&nodes[0]);
	expect(0, 1, TFC_MEMBER_DOWN);
	pass(20, 0, 0);
	expect(1, 2, TFC_MEMBER_DOWN);
}

static void one_that_left_stays_so_until_it_is_received(void **state)
{
	begin(1);
	tfc__probe_left(&nodes[0]);
	tfc__probe_broken(&nodes[0]);
	tfc__probe_refused(&nodes[0]);
	pass(60, 0, 0);
	expect(0, 1, TFC_MEMBER_LEFT);
	assert_false(nodes[0].is_due);
	tfc__probe_received(&nodes[0], now);
	expect(0, 1, TFC_MEMBER_ALIVE);
}

/* SIGSTOP, a suspended laptop: the others were not silent, this process was deaf. */
static void what_was_measured_while_this_process_slept_is_void(void **state)
{
	begin(3);
	pass(10, 3, 3);
	now += 300 * TFC__SECOND;
	tfc__probes_tick(&probes, now);
	expect(0, 3, TFC_MEMBER_ALIVE);
	pass(2, 3, 0);
	expect(0, 3, TFC_MEMBER_ALIVE);
	pass(10, 3, 2); /* the third has really gone meanwhile */
	expect(0, 2, TFC_MEMBER_ALIVE);
	expect(2, 3, TFC_MEMBER_DOWN);
}

/* A silence from before the sleep counts on. */
static void a_sleep_moves_silence_and_does_not_end_it(void **state)
{
	begin(4);
	pass(5, 4, 3);
	expect(3, 4, TFC_MEMBER_SUSPECT);
	now += 60 * TFC__SECOND;
	tfc__probes_tick(&probes, now);
	expect(3, 4, TFC_MEMBER_SUSPECT);
	pass(4, 4, 3);
	expect(3, 4, TFC_MEMBER_DOWN);
}

static void many_that_fall_silent_together_are_not_called_down(void **state)
{
	begin(4);
	pass(60, 4, 2); /* 2 of 5 */
	assert_true(probes.is_cut_off);
	expect(0, 2, TFC_MEMBER_ALIVE);
	expect(2, 4, TFC_MEMBER_SUSPECT);
	tfc__probe_broken(&nodes[2]); /* but a refusal is more than silence */
	tfc__probe_refused(&nodes[2]);
	expect(2, 3, TFC_MEMBER_DOWN);
	pass(2, 2, 2); /* one of 4 is left */
	assert_false(probes.is_cut_off);
	expect(3, 4, TFC_MEMBER_DOWN);
}

static void a_third_may_go_at_once(void **state)
{
	begin(8);
	pass(20, 8, 5); /* 3 of 9 */
	expect(5, 8, TFC_MEMBER_DOWN);
	pass(20, 5, 4); /* and later one of the 6 that were left */
	expect(4, 5, TFC_MEMBER_DOWN);
	expect(0, 4, TFC_MEMBER_ALIVE);
}

static void of_two_nodes_each_may_call_the_other_down(void **state)
{
	begin(1);
	pass(20, 1, 0);
	expect(0, 1, TFC_MEMBER_DOWN);
}

static void the_cut_is_over_when_they_are_received(void **state)
{
	begin(4);
	pass(60, 4, 0);
	expect(0, 4, TFC_MEMBER_SUSPECT);
	assert_true(probes.is_cut_off);
	for (size_t i = 0; i < 4; i++)
		tfc__probe_received(&nodes[i], now);
	pass(1, 4, 4);
	assert_false(probes.is_cut_off);
	expect(0, 4, TFC_MEMBER_ALIVE);
}

static void nobody_to_look_at_is_no_wake_up(void **state)
{
	begin(1);
	assert_true(probes.next_at > now);
	tfc__probe_remove(&probes, &nodes[0]);
	assert_int_equal(probes.next_at, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_responds_stays_alive),
		cmocka_unit_test(one_that_is_silent_is_suspect_then_down),
		cmocka_unit_test(only_who_was_not_received_is_probed),
		cmocka_unit_test(a_refusal_after_a_break_is_the_end_at_once),
		cmocka_unit_test(one_that_never_came_is_down_by_refusal_or_silence),
		cmocka_unit_test(one_that_left_stays_so_until_it_is_received),
		cmocka_unit_test(what_was_measured_while_this_process_slept_is_void),
		cmocka_unit_test(a_sleep_moves_silence_and_does_not_end_it),
		cmocka_unit_test(many_that_fall_silent_together_are_not_called_down),
		cmocka_unit_test(a_third_may_go_at_once),
		cmocka_unit_test(of_two_nodes_each_may_call_the_other_down),
		cmocka_unit_test(the_cut_is_over_when_they_are_received),
		cmocka_unit_test(nobody_to_look_at_is_no_wake_up),
	};
	return cmocka_run_group_tests_name("member_probe", tests, NULL, NULL);
}
