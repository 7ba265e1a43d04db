/* sim: what a guard decides, event by event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fence.h"
#include "proc/guard/core.h"

#define S UINT64_C(1000000000)
#define ROOM 8
#define LEASE UINT64_C(0x700000003)

struct world {
	struct guard_core core;
	struct guard_task tasks[ROOM];
	uint32_t slots[ROOM];
	struct tfc__lease_entry leases[ROOM];
	uint64_t now;
	char done[512]; /* the actions since they were asserted last, times in seconds */
};

static const char *kind_name(uint32_t kind)
{
	static const char *const names[TFC__MSG_CONTINUED + 1] = {
		[TFC__MSG_STARTED] = "started",     [TFC__MSG_EXITED] = "exited",
		[TFC__MSG_STALLED] = "stalled",     [TFC__MSG_SUSPENDED] = "suspended",
		[TFC__MSG_CONTINUED] = "continued", [TFC__MSG_OVER] = "over"};
	return kind <= TFC__MSG_CONTINUED && names[kind] ? names[kind] : "?";
}

static void note(void *user, const struct guard_action *action)
{
	struct world *world = user;
	const struct tfc__report *report = action->report;
	size_t len = strlen(world->done);
	char *at = world->done + len;
	size_t room = sizeof(world->done) - len;
	double kill_at = (double)action->kill_at / S;
	switch (action->kind) {
	case GUARD_SEND_REPORT:
		snprintf(at, room, "%s %llu: %u, %d, pid %d, silent %u%s; ",
			 kind_name(report->kind), (unsigned long long)report->id, report->reason,
			 report->status, report->pid, report->silent_ms,
			 action->may_be_oom ? ", oom?" : "");
		break;
	case GUARD_SEND_STOP:
		snprintf(at, room, "stop %u at %g; ", action->slot, kill_at);
		break;
	case GUARD_KILL_TASK:
		snprintf(at, room, "kill task %d of %u; ", action->pid, action->slot);
		break;
	case GUARD_KILL_SHIM:
		snprintf(at, room, "kill shim %u; ", action->slot);
		break;
	case GUARD_KILL_REST:
		snprintf(at, room, "kill rest %u; ", action->slot);
		break;
	case GUARD_FREE_SLOT:
		snprintf(at, room, "free %u; ", action->slot);
		break;
	}
}

static int begin(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	*state = world;
	if (!world)
		return -1;
	world->core = (struct guard_core){.tasks = world->tasks,
					  .task_capacity = ROOM,
					  .slots = world->slots,
					  .index_capacity = ROOM,
					  .leases = world->leases};
	world->now = 10 * S;
	return 0;
}

static int end(void **state)
{
	free(*state);
	return 0;
}

static uint32_t step(struct world *world, struct guard_event event)
{
	event.now = world->now;
	return guard_core_step(&world->core, &event, note, world);
}

static void assert_done(struct world *world, const char *expected)
{
	assert_string_equal(world->done, expected);
	world->done[0] = 0;
}

/* As assert_done, and the timer's time. */
static void assert_done_until(struct world *world, const char *expected, uint64_t timer_at)
{
	assert_done(world, expected);
	assert_int_equal(world->core.timer_at, timer_at);
}

static uint32_t spawn(struct world *world, uint64_t id, uint64_t lease)
{
	const struct tfc__command command = {.kind = TFC__MSG_SPAWN,
					     .id = id,
					     .grace_ms = 8000,
					     .lease = lease,
					     .lease_grace_ms = 2000};
	return step(world, (struct guard_event){.kind = GUARD_SPAWN, .command = &command});
}

static void report(struct world *world, uint32_t slot, struct tfc__report report)
{
	step(world,
	     (struct guard_event){.kind = GUARD_SHIM_REPORT, .slot = slot, .report = &report});
}

static uint32_t run_task(struct world *world, uint64_t id, uint64_t lease)
{
	uint32_t slot = spawn(world, id, lease);
	assert_int_not_equal(slot, NO_SLOT);
	report(world, slot, (struct tfc__report){.kind = TFC__MSG_STARTED, .pid = 500 + (int)slot});
	world->done[0] = 0;
	return slot;
}

static void stop(struct world *world, uint64_t id, uint64_t deadline)
{
	const struct tfc__command command = {.kind = TFC__MSG_STOP,
					     .id = id,
					     .deadline_ns = deadline};
	step(world, (struct guard_event){.kind = GUARD_STOP, .command = &command});
}

static void lease(struct world *world, uint64_t id, uint64_t deadline)
{
	const struct tfc__command command = {.kind = TFC__MSG_LEASE,
					     .lease = id,
					     .deadline_ns = deadline,
					     .value = 700};
	step(world, (struct guard_event){.kind = GUARD_LEASE, .command = &command});
}

static void timer(struct world *world, uint64_t now)
{
	world->now = now;
	step(world, (struct guard_event){.kind = GUARD_TIMER});
}

static void ended(struct world *world, uint32_t slot, uint32_t reason, int status)
{
	report(world, slot,
	       (struct tfc__report){.kind = TFC__MSG_EXITED, .reason = reason, .status = status});
}

static void died(struct world *world, uint32_t slot)
{
	step(world, (struct guard_event){.kind = GUARD_SHIM_DIED, .slot = slot});
}

/* ---- a task's life */

static void what_a_shim_reports_is_passed_on_with_the_hosts_id(void **state)
{
	struct world *world = *state;
	uint32_t slot = spawn(world, 5, 0);
	assert_done_until(world, "", 0);
	report(world, slot, (struct tfc__report){.kind = TFC__MSG_STARTED, .pid = 77});
	report(world, slot, (struct tfc__report){.kind = TFC__MSG_STALLED, .silent_ms = 60});
	report(world, slot,
	       (struct tfc__report){.kind = TFC__MSG_SUSPENDED, .status = 19, .silent_ms = 5000});
	report(world, slot, (struct tfc__report){.kind = TFC__MSG_CONTINUED, .silent_ms = 7000});
	report(world, slot, (struct tfc__report){.kind = TFC__MSG_PONG});
	ended(world, slot, TFC__END_CODE, 3);
	assert_done(world, "started 5: 0, 0, pid 77, silent 0; "
			   "stalled 5: 0, 0, pid 0, silent 60; "
			   "suspended 5: 0, 19, pid 0, silent 5000; "
			   "continued 5: 0, 0, pid 0, silent 7000; "
			   "exited 5: 1, 3, pid 0, silent 0; ");
	died(world, slot);
	assert_done(world, "free 0; ");
	assert_int_equal(world->core.task_count, 0);
	assert_int_equal(guard_core_find(&world->core, 5), NO_SLOT);
}

static void what_cannot_be_started_is_reported(void **state)
{
	struct world *world = *state;
	const struct tfc__command command = {.kind = TFC__MSG_SPAWN, .id = 5};
	assert_int_equal(step(world, (struct guard_event){.kind = GUARD_SPAWN,
							  .command = &command,
							  .error = EMFILE}),
			 NO_SLOT);
	uint32_t slot = spawn(world, 6, 0);
	step(world,
	     (struct guard_event){.kind = GUARD_SPAWN_FAILED, .slot = slot, .error = ENOLCK});
	assert_done(world, "exited 5: 4, 24, pid 0, silent 0; "
			   "exited 6: 4, 37, pid 0, silent 0; ");
	assert_int_equal(world->core.task_count, 0);
}

static void a_slot_is_free_once_its_shim_is_reaped(void **state)
{
	struct world *world = *state;
	assert_int_equal(run_task(world, 0, 0), 0);
	assert_int_equal(run_task(world, 1, 0), 1);
	ended(world, 0, TFC__END_CODE, 0);
	/* the host uses the index again */
	assert_int_equal(run_task(world, UINT64_C(1) << 32, 0), 2);
	assert_int_equal(guard_core_find(&world->core, 0), NO_SLOT);
	assert_int_equal(guard_core_find(&world->core, UINT64_C(1) << 32), 2);
	died(world, 0);
	assert_int_equal(run_task(world, 3, 0), 0);
	assert_int_equal(world->core.task_count, 3);
}

/* A task that is to be forked may be stopped while it waits for that. */
static void a_stop_before_a_failed_start_is_forgotten(void **state)
{
	struct world *world = *state;
	uint32_t slot = spawn(world, 6, 0);
	stop(world, 6, world->now + S);
	step(world, (struct guard_event){.kind = GUARD_SPAWN_FAILED, .slot = slot, .error = ESRCH});
	assert_done(world, "stop 0 at 11; exited 6: 4, 3, pid 0, silent 0; ");
	assert_int_equal(world->core.task_count, 0);
	assert_int_equal(run_task(world, 7, 0), slot);
	world->now += 100 * S;
	step(world, (struct guard_event){.kind = GUARD_TIMER});
	assert_done(world, "");
}

/* ---- stopping */

static void a_stop_is_the_shims_and_is_forced_when_it_does_not_obey(void **state)
{
	struct world *world = *state;
	run_task(world, 5, 0);
	stop(world, 5, 15 * S);
	assert_done_until(world, "stop 0 at 15; ", 16 * S);
	timer(world, 16 * S);
	assert_done_until(world, "kill task 500 of 0; ", 21 * S);
	timer(world, 21 * S);
	assert_done_until(world, "kill shim 0; ", 26 * S);
	timer(world, 26 * S);
	assert_done_until(world, "kill shim 0; ", 31 * S);
}

static void what_has_ended_is_not_forced(void **state)
{
	struct world *world = *state;
	run_task(world, 5, 0);
	stop(world, 5, 15 * S);
	ended(world, 0, TFC__END_CODE, 0);
	world->done[0] = 0;
	timer(world, 16 * S);
	assert_done_until(world, "", 0);
	stop(world, 5, 17 * S);
	died(world, 0);
	stop(world, 5, 17 * S);
	assert_done(world, "free 0; ");
}

static void a_second_stop_only_shortens(void **state)
{
	struct world *world = *state;
	run_task(world, 5, 0);
	stop(world, 5, 15 * S);
	stop(world, 5, 20 * S); /* the shim knows that, too */
	assert_done_until(world, "stop 0 at 15; stop 0 at 20; ", 16 * S);
	stop(world, 5, 12 * S);
	assert_done_until(world, "stop 0 at 12; ", 13 * S);
	timer(world, 13 * S);
	assert_done(world, "kill task 500 of 0; ");
}

static void when_the_host_is_gone_each_task_has_its_grace(void **state)
{
	struct world *world = *state;
	run_task(world, 5, 0);
	run_task(world, 6, 0);
	step(world, (struct guard_event){.kind = GUARD_HOST_GONE});
	assert_done_until(world, "stop 0 at 18; stop 1 at 18; ", 19 * S);
	step(world, (struct guard_event){.kind = GUARD_KILL_ALL});
	assert_done_until(world, "stop 0 at 10; stop 1 at 10; ", 11 * S);
}

static void a_kill_that_was_not_requested_may_be_the_kernels(void **state)
{
	struct world *world = *state;
	run_task(world, 5, 0);
	run_task(world, 6, 0);
	ended(world, 0, TFC__END_SIGNAL, 9);
	assert_done(world, "exited 5: 2, 9, pid 0, silent 0, oom?; ");
	stop(world, 6, 11 * S);
	ended(world, 1, TFC__END_SIGNAL, 9);
	assert_done(world, "stop 1 at 11; exited 6: 2, 9, pid 0, silent 0; ");
}

/* ---- leases */

static void a_renewal_moves_the_deadline_and_not_the_timer(void **state)
{
	struct world *world = *state;
	lease(world, LEASE, 20 * S);
	run_task(world, 5, LEASE);
	lease(world, LEASE, 30 * S);
	assert_done_until(world, "", 20 * S);
	timer(world, 20 * S);
	assert_done_until(world, "", 30 * S);
	lease(world, LEASE, 0);
	timer(world, 30 * S);
	assert_done_until(world, "", 0);
}

static void the_grace_of_a_lease_begins_at_its_deadline(void **state)
{
	struct world *world = *state;
	lease(world, LEASE, 20 * S);
	run_task(world, 5, LEASE);
	run_task(world, 6, 0);
	timer(world, 60 * S); /* it stood still */
	assert_done_until(world,
			  "over 30064771075: 0, 0, pid 0, silent 700; stop 0 at 22; "
			  "kill task 500 of 0; ",
			  23 * S); /* which has passed: it is looked at once more */
	timer(world, 60 * S);
	assert_done_until(world, "", 65 * S);
	ended(world, 0, TFC__END_SIGNAL, 9);
	assert_done(world, "exited 5: 3, 9, pid 0, silent 700; ");
	/* for good */
	lease(world, LEASE, 90 * S);
	assert_int_equal(spawn(world, 7, LEASE), NO_SLOT);
	assert_done(world, "exited 7: 3, 0, pid 0, silent 700; ");
}

static void a_renewal_that_comes_too_late_ends_the_lease(void **state)
{
	struct world *world = *state;
	lease(world, LEASE, 20 * S);
	run_task(world, 5, LEASE);
	world->now = 20 * S;
	lease(world, LEASE, 40 * S);
	assert_done(world, "over 30064771075: 0, 0, pid 0, silent 700; stop 0 at 22; ");
	assert_true(world->leases[3].is_over);
	/* its index is used again */
	lease(world, LEASE + (UINT64_C(1) << 32), 40 * S);
	assert_false(world->leases[3].is_over);
	assert_int_not_equal(spawn(world, 6, LEASE + (UINT64_C(1) << 32)), NO_SLOT);
}

static void nothing_is_started_under_a_lease_that_is_over_or_unknown(void **state)
{
	struct world *world = *state;
	assert_int_equal(spawn(world, 5, LEASE), NO_SLOT);
	lease(world, LEASE, 20 * S);
	world->now = 20 * S; /* its timer has not come yet */
	assert_int_equal(spawn(world, 6, LEASE), NO_SLOT);
	assert_done(world, "exited 5: 3, 0, pid 0, silent 1; "
			   "exited 6: 3, 0, pid 0, silent 700; ");
	lease(world, TFC__LEASES_MAX, 30 * S); /* nonsense */
	lease(world, 0, 30 * S);
	assert_int_equal(world->core.lease_count, 4);
}

static void a_lease_that_a_shim_found_over_is_its_tasks_end(void **state)
{
	struct world *world = *state;
	lease(world, LEASE, 20 * S);
	uint32_t slot = run_task(world, 5, LEASE);
	report(world, slot,
	       (struct tfc__report){.kind = TFC__MSG_EXITED,
				    .reason = TFC__END_CODE,
				    .status = 143,
				    .silent_ms = 600});
	assert_done(world, "exited 5: 3, 143, pid 0, silent 600; ");
}

/* ---- shims that die */

static void what_a_dead_shim_left_is_killed_before_its_task_is_lost(void **state)
{
	struct world *world = *state;
	run_task(world, 5, 0);
	run_task(world, 6, 0);
	died(world, 0);
	assert_done(world, "kill rest 0; ");
	assert_int_equal(world->core.lost.first, 1);
	stop(world, 5, 15 * S);
	assert_done_until(world, "", 0);
	step(world, (struct guard_event){.kind = GUARD_NONE_LEFT});
	assert_done(world, "exited 5: 3, 0, pid 500, silent 0; free 0; ");
	assert_int_equal(world->core.lost.first, 0);
	assert_int_equal(world->core.task_count, 1);
}

static void a_shim_that_was_forced_is_lost_by_its_lease(void **state)
{
	struct world *world = *state;
	lease(world, LEASE, 20 * S);
	run_task(world, 5, LEASE);
	timer(world, 20 * S);
	timer(world, 23 * S);
	timer(world, 28 * S);
	assert_done(world, "over 30064771075: 0, 0, pid 0, silent 700; stop 0 at 22; "
			   "kill task 500 of 0; kill shim 0; ");
	died(world, 0);
	step(world, (struct guard_event){.kind = GUARD_NONE_LEFT});
	assert_done(world, "kill rest 0; exited 5: 3, 0, pid 500, silent 700; free 0; ");
}

static void several_tasks_are_forced_and_lost_in_the_order_of_their_stops(void **state)
{
	struct world *world = *state;
	for (uint64_t id = 0; id < 5; id++)
		run_task(world, id, 0);
	for (uint64_t id = 5; id > 0; id--)
		stop(world, id - 1, 15 * S);
	world->done[0] = 0;
	ended(world, 2, TFC__END_CODE, 0); /* in the middle, */
	ended(world, 4, TFC__END_CODE, 0); /* at the beginning */
	ended(world, 0, TFC__END_CODE, 0); /* and at the end of those that are stopped */
	world->done[0] = 0;
	timer(world, 16 * S);
	assert_done_until(world, "kill task 503 of 3; kill task 501 of 1; ", 21 * S);
	died(world, 1);
	died(world, 3);
	step(world, (struct guard_event){.kind = GUARD_NONE_LEFT});
	assert_done(world, "kill rest 1; kill rest 3; "
			   "exited 1: 3, 0, pid 501, silent 0; free 1; "
			   "exited 3: 3, 0, pid 503, silent 0; free 3; ");
	timer(world, 21 * S);
	assert_done_until(world, "", 0);
}

/* ---- cost */

#define MANY 10000

/* Only the first and the last of many tasks concern the timer, a report and a lost shim: the
 * entries of the others are not visited. */
static void an_event_costs_the_same_among_many_tasks(void **state)
{
	struct world *world = *state;
	struct guard_task *tasks = calloc(MANY, sizeof(*tasks));
	uint32_t *slots = calloc(MANY, sizeof(*slots));
	assert_true(tasks && slots);
	world->core.tasks = tasks;
	world->core.slots = slots;
	world->core.task_capacity = world->core.index_capacity = MANY;
	for (uint32_t i = 0; i < MANY; i++)
		run_task(world, i, 0);
	struct fence fence = fence_raise(&tasks[1], &tasks[MANY - 1]);
	stop(world, 0, 15 * S);
	stop(world, MANY - 1, 20 * S);
	world->done[0] = 0;
	timer(world, 16 * S);
	assert_done_until(world, "kill task 500 of 0; ", 21 * S);
	ended(world, 0, TFC__END_SIGNAL, 9);
	died(world, 0);
	assert_done(world, "exited 0: 2, 9, pid 0, silent 0; free 0; ");
	died(world, MANY - 1);
	assert_done(world, "kill rest 9999; ");
	timer(world, 21 * S);
	assert_done_until(world, "", 0);
	step(world, (struct guard_event){.kind = GUARD_NONE_LEFT});
	assert_done(world, "exited 9999: 3, 0, pid 10499, silent 0; free 9999; ");
	fence_lower(&fence);
	free(tasks);
	free(slots);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_a_shim_reports_is_passed_on_with_the_hosts_id),
		TEST(what_cannot_be_started_is_reported),
		TEST(a_slot_is_free_once_its_shim_is_reaped),
		TEST(a_stop_before_a_failed_start_is_forgotten),
		TEST(a_stop_is_the_shims_and_is_forced_when_it_does_not_obey),
		TEST(what_has_ended_is_not_forced),
		TEST(a_second_stop_only_shortens),
		TEST(when_the_host_is_gone_each_task_has_its_grace),
		TEST(a_kill_that_was_not_requested_may_be_the_kernels),
		TEST(a_renewal_moves_the_deadline_and_not_the_timer),
		TEST(the_grace_of_a_lease_begins_at_its_deadline),
		TEST(a_renewal_that_comes_too_late_ends_the_lease),
		TEST(nothing_is_started_under_a_lease_that_is_over_or_unknown),
		TEST(a_lease_that_a_shim_found_over_is_its_tasks_end),
		TEST(what_a_dead_shim_left_is_killed_before_its_task_is_lost),
		TEST(a_shim_that_was_forced_is_lost_by_its_lease),
		TEST(several_tasks_are_forced_and_lost_in_the_order_of_their_stops),
		TEST(an_event_costs_the_same_among_many_tasks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
