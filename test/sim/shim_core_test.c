/* sim: what a shim decides, event by event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "proc/shim/core.h"

#define S UINT64_C(1000000000)
#define LEASE UINT64_C(0x700000003)

/* One step of a trace. */
struct step {
	struct shim_event event;
	/* what is expected: */
	uint32_t actions;
	uint64_t timer_at;
	uint32_t reason, silent_ms;
	uint64_t silence_at;
	uint64_t suspension_at;
};

static const struct tfc__command free_task = {.kind = TFC__MSG_SPAWN, .grace_ms = 8000};
static const struct tfc__command leased = {.kind = TFC__MSG_SPAWN,
					   .grace_ms = 8000,
					   .lease = LEASE,
					   .lease_grace_ms = 2000};
static const struct tfc__command patient = {.kind = TFC__MSG_SPAWN,
					    .grace_ms = 1000,
					    .lease = LEASE,
					    .lease_grace_ms = 5000};
static const struct tfc__lease_entry to_20 = {LEASE, 20 * S, 700, false};
static const struct tfc__lease_entry to_30 = {LEASE, 30 * S, 700, false};
static const struct tfc__lease_entry over_at_20 = {LEASE, 20 * S, 700, true};
static const struct tfc__lease_entry over_without_length = {LEASE, 20 * S, 0, true};
static const struct tfc__command stop_at_15 = {.kind = TFC__MSG_STOP, .deadline_ns = 15 * S};
static const struct tfc__command stop_at_21 = {.kind = TFC__MSG_STOP, .deadline_ns = 21 * S};
static const struct tfc__command stop_at_25 = {.kind = TFC__MSG_STOP, .deadline_ns = 25 * S};

static void check(const struct step *steps, size_t count)
{
	struct shim_core core = {.kill_at = 0};
	for (size_t i = 0; i < count; i++) {
		const struct step *step = &steps[i];
		struct shim_result result = shim_core_step(&core, &step->event);
		if (result.actions != step->actions || core.timer_at != step->timer_at ||
		    result.reason != step->reason || result.silent_ms != step->silent_ms ||
		    core.silence_at != step->silence_at ||
		    core.suspension_at != step->suspension_at)
			fail_msg("step %zu: actions %u, timer at %.3f s, reason %u, silent for %u "
				 "ms, silence at %.3f s, suspension at %.3f s",
				 i, result.actions, (double)core.timer_at / S, result.reason,
				 result.silent_ms, (double)core.silence_at / S,
				 (double)core.suspension_at / S);
	}
}

#define CHECK(...)                                                \
	do {                                                      \
		static const struct step steps[] = {__VA_ARGS__}; \
		check(steps, sizeof(steps) / sizeof(*steps));     \
	} while (0)

#define BEGIN(spawn)                                                       \
	{{SHIM_SPAWN, 10 * S, .command = (spawn)}, .actions = SHIM_START}, \
	{                                                                  \
		{                                                          \
			SHIM_STARTED, 10 * S                               \
		}                                                          \
	}

static void a_stop_is_term_and_then_kill(void **state)
{
	CHECK(BEGIN(&free_task),
	      {{SHIM_STOP, 11 * S, .command = &stop_at_15},
	       .actions = SHIM_TERM,
	       .timer_at = 15 * S},
	      {{SHIM_TIMER, 14 * S}, .timer_at = 15 * S},
	      {{SHIM_TIMER, 15 * S}, .actions = SHIM_KILL}, {{SHIM_TIMER, 16 * S}},
	      {{SHIM_DIED, 16 * S}}, {{SHIM_ENDED, 16 * S}});
}

static void a_stop_whose_deadline_has_passed_is_kill_alone(void **state)
{
	CHECK(BEGIN(&free_task),
	      {{SHIM_STOP, 15 * S, .command = &stop_at_15}, .actions = SHIM_KILL},
	      {{SHIM_STOP, 16 * S, .command = &stop_at_21}});
}

static void a_second_stop_shortens_and_never_lengthens(void **state)
{
	CHECK(BEGIN(&free_task),
	      {{SHIM_STOP, 11 * S, .command = &stop_at_21},
	       .actions = SHIM_TERM,
	       .timer_at = 21 * S},
	      {{SHIM_STOP, 12 * S, .command = &stop_at_25}, .timer_at = 21 * S},
	      {{SHIM_STOP, 12 * S, .command = &stop_at_15}, .timer_at = 15 * S},
	      {{SHIM_TIMER, 15 * S}, .actions = SHIM_KILL},
	      {{SHIM_STOP, 16 * S, .command = &stop_at_25}});
}

static void a_dead_task_is_not_killed(void **state)
{
	CHECK(BEGIN(&leased), {{SHIM_TIMER, 10 * S, .lease = &to_20}, .timer_at = 20 * S},
	      {{SHIM_STOP, 11 * S, .command = &stop_at_15},
	       .actions = SHIM_TERM,
	       .timer_at = 15 * S},
	      {{SHIM_DIED, 12 * S}}, {{SHIM_TIMER, 15 * S, .lease = &to_20}},
	      {{SHIM_GUARD_GONE, 16 * S}}, {{SHIM_HOST_GONE, 17 * S}},
	      {{SHIM_TIMER, 30 * S, .lease = &over_at_20}}, {{SHIM_ENDED, 30 * S}});
}

static void when_the_guard_is_gone_the_shorter_grace_holds(void **state)
{
	CHECK(BEGIN(&free_task),
	      {{SHIM_GUARD_GONE, 11 * S}, .actions = SHIM_TERM, .timer_at = 19 * S});
	CHECK(BEGIN(&leased),
	      {{SHIM_GUARD_GONE, 11 * S}, .actions = SHIM_TERM, .timer_at = 13 * S});
	CHECK(BEGIN(&patient),
	      {{SHIM_GUARD_GONE, 11 * S}, .actions = SHIM_TERM, .timer_at = 12 * S});
}

static void when_the_host_is_gone_the_tasks_own_grace_holds(void **state)
{
	CHECK(BEGIN(&leased), {{SHIM_HOST_GONE, 11 * S}, .actions = SHIM_TERM, .timer_at = 19 * S},
	      {{SHIM_GUARD_GONE, 12 * S}, .timer_at = 14 * S});
}

static void a_renewed_lease_is_looked_at_again(void **state)
{
	CHECK({{SHIM_SPAWN, 10 * S, .command = &leased, .lease = &to_20},
	       .actions = SHIM_START,
	       .timer_at = 20 * S},
	      {{SHIM_STARTED, 11 * S, .lease = &to_20}, .timer_at = 20 * S},
	      {{SHIM_TIMER, 20 * S, .lease = &to_30}, .timer_at = 30 * S}, {{SHIM_TIMER, 30 * S}});
}

static void the_grace_of_a_lease_begins_at_its_deadline(void **state)
{
	CHECK(BEGIN(&leased),
	      {{SHIM_TIMER, 21 * S, .lease = &to_20}, .actions = SHIM_TERM, .timer_at = 22 * S},
	      {{SHIM_TIMER, 22 * S, .lease = &over_at_20}, .actions = SHIM_KILL},
	      {{SHIM_DIED, 22 * S}}, {{SHIM_ENDED, 22 * S}, .silent_ms = 700});
}

static void a_lease_that_is_found_over_late_is_kill_alone(void **state)
{
	CHECK(BEGIN(&leased), {{SHIM_TIMER, 60 * S, .lease = &to_20}, .actions = SHIM_KILL},
	      {{SHIM_DIED, 60 * S}}, {{SHIM_ENDED, 60 * S}, .silent_ms = 700});
}

static void a_stop_keeps_its_deadline_when_the_lease_is_over(void **state)
{
	CHECK(BEGIN(&patient), {{SHIM_TIMER, 11 * S, .lease = &to_20}, .timer_at = 20 * S},
	      {{SHIM_STOP, 12 * S, .command = &stop_at_21},
	       .actions = SHIM_TERM,
	       .timer_at = 20 * S},
	      {{SHIM_TIMER, 20 * S, .lease = &to_20}, .timer_at = 21 * S},
	      {{SHIM_TIMER, 21 * S, .lease = &over_at_20}, .actions = SHIM_KILL});
}

static void a_lease_shortens_a_stop(void **state)
{
	CHECK(BEGIN(&leased),
	      {{SHIM_STOP, 12 * S, .command = &stop_at_25},
	       .actions = SHIM_TERM,
	       .timer_at = 25 * S},
	      {{SHIM_TIMER, 20 * S, .lease = &to_20}, .timer_at = 22 * S});
}

static void nothing_is_started_under_a_lease_that_is_over(void **state)
{
	CHECK({{SHIM_SPAWN, 20 * S, .command = &leased, .lease = &to_20}},
	      {{SHIM_NOT_STARTED, 20 * S}, .reason = TFC__END_LOST, .silent_ms = 700});
	CHECK({{SHIM_SPAWN, 1 * S, .command = &leased, .lease = &over_without_length}},
	      {{SHIM_NOT_STARTED, 1 * S}, .reason = TFC__END_LOST, .silent_ms = 1});
}

static void what_could_not_be_started_is_not_lost(void **state)
{
	CHECK({{SHIM_SPAWN, 10 * S, .command = &free_task}, .actions = SHIM_START},
	      {{SHIM_NOT_STARTED, 10 * S, .error = ENOENT}, .reason = TFC__END_NOT_STARTED});
}

static void a_silence_is_reported_and_again_when_it_has_doubled(void **state)
{
	CHECK({{SHIM_SPAWN, 10 * S, .command = &free_task}, .actions = SHIM_START},
	      {{SHIM_WATCH_SILENCE, 1 * S, .silence_ms = 3000}, .silence_at = 4 * S},
	      {{SHIM_STARTED, 10 * S}, .silence_at = 4 * S},
	      {{SHIM_SIGN, 2 * S}, .silence_at = 5 * S},
	      {{SHIM_SILENCE, 4 * S}, .silence_at = 5 * S},
	      {{SHIM_SILENCE, 6 * S},
	       .actions = SHIM_STALLED,
	       .silent_ms = 4000,
	       .silence_at = 10 * S},
	      {{SHIM_SILENCE, 9 * S}, .silence_at = 10 * S},
	      {{SHIM_SILENCE, 10 * S},
	       .actions = SHIM_STALLED,
	       .silent_ms = 8000,
	       .silence_at = 18 * S},
	      {{SHIM_STOP, 11 * S, .command = &stop_at_15},
	       .actions = SHIM_TERM,
	       .timer_at = 15 * S},
	      {{SHIM_SILENCE, 12 * S}, .timer_at = 15 * S});
}

#define WATCH_SUSPENSION                                                 \
	BEGIN(&free_task),                                               \
	{                                                                \
		{                                                        \
			SHIM_WATCH_SUSPENSION, 1 * S, .silence_ms = 5000 \
		}                                                        \
	}

static void a_suspension_is_reported_once_and_so_is_its_end(void **state)
{
	CHECK(WATCH_SUSPENSION, {{SHIM_SUSPENDED, 2 * S}, .suspension_at = 7 * S},
	      {{SHIM_SUSPENSION, 6 * S}, .suspension_at = 7 * S},
	      {{SHIM_SUSPENSION, 8 * S}, .actions = SHIM_REPORT_SUSPENDED, .silent_ms = 6000},
	      {{SHIM_SUSPENSION, 20 * S}},
	      {{SHIM_CONTINUED, 21 * S}, .actions = SHIM_REPORT_CONTINUED, .silent_ms = 19000},
	      {{SHIM_CONTINUED, 22 * S}}, {{SHIM_SUSPENSION, 23 * S}},
	      {{SHIM_SUSPENDED, 30 * S}, .suspension_at = 35 * S});
}

static void a_short_suspension_is_not_reported(void **state)
{
	CHECK(WATCH_SUSPENSION, {{SHIM_SUSPENDED, 2 * S}, .suspension_at = 7 * S},
	      {{SHIM_CONTINUED, 7 * S}}, {{SHIM_SUSPENSION, 7 * S}});
}

static void a_task_that_continued_for_a_moment_is_suspended_anew(void **state)
{
	CHECK(WATCH_SUSPENSION, {{SHIM_SUSPENDED, 2 * S}, .suspension_at = 7 * S},
	      {{SHIM_SUSPENDED, 6 * S}, .suspension_at = 11 * S},
	      {{SHIM_SUSPENSION, 11 * S}, .actions = SHIM_REPORT_SUSPENDED, .silent_ms = 5000},
	      {{SHIM_SUSPENDED, 12 * S}},
	      {{SHIM_CONTINUED, 13 * S}, .actions = SHIM_REPORT_CONTINUED, .silent_ms = 7000});
}

static void no_suspension_is_reported_of_a_task_that_is_being_stopped(void **state)
{
	CHECK(WATCH_SUSPENSION, {{SHIM_SUSPENDED, 2 * S}, .suspension_at = 7 * S},
	      {{SHIM_STOP, 11 * S, .command = &stop_at_15},
	       .actions = SHIM_TERM,
	       .timer_at = 15 * S},
	      {{SHIM_SUSPENSION, 12 * S}, .timer_at = 15 * S},
	      {{SHIM_CONTINUED, 12 * S}, .timer_at = 15 * S},
	      {{SHIM_SUSPENDED, 13 * S}, .timer_at = 15 * S}, {{SHIM_DIED, 14 * S}});
	CHECK(WATCH_SUSPENSION, {{SHIM_SUSPENDED, 2 * S}, .suspension_at = 7 * S},
	      {{SHIM_SUSPENSION, 7 * S}, .actions = SHIM_REPORT_SUSPENDED, .silent_ms = 5000},
	      {{SHIM_STOP, 11 * S, .command = &stop_at_15},
	       .actions = SHIM_TERM,
	       .timer_at = 15 * S},
	      {{SHIM_CONTINUED, 12 * S}, .timer_at = 15 * S});
}

static void nothing_is_reported_where_no_suspension_is_watched(void **state)
{
	CHECK(BEGIN(&free_task), {{SHIM_SUSPENDED, 2 * S}}, {{SHIM_SUSPENSION, 60 * S}},
	      {{SHIM_CONTINUED, 61 * S}});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stop_is_term_and_then_kill),
		cmocka_unit_test(a_stop_whose_deadline_has_passed_is_kill_alone),
		cmocka_unit_test(a_second_stop_shortens_and_never_lengthens),
		cmocka_unit_test(a_dead_task_is_not_killed),
		cmocka_unit_test(when_the_guard_is_gone_the_shorter_grace_holds),
		cmocka_unit_test(when_the_host_is_gone_the_tasks_own_grace_holds),
		cmocka_unit_test(a_renewed_lease_is_looked_at_again),
		cmocka_unit_test(the_grace_of_a_lease_begins_at_its_deadline),
		cmocka_unit_test(a_lease_that_is_found_over_late_is_kill_alone),
		cmocka_unit_test(a_stop_keeps_its_deadline_when_the_lease_is_over),
		cmocka_unit_test(a_lease_shortens_a_stop),
		cmocka_unit_test(nothing_is_started_under_a_lease_that_is_over),
		cmocka_unit_test(what_could_not_be_started_is_not_lost),
		cmocka_unit_test(a_silence_is_reported_and_again_when_it_has_doubled),
		cmocka_unit_test(a_suspension_is_reported_once_and_so_is_its_end),
		cmocka_unit_test(a_short_suspension_is_not_reported),
		cmocka_unit_test(a_task_that_continued_for_a_moment_is_suspended_anew),
		cmocka_unit_test(no_suspension_is_reported_of_a_task_that_is_being_stopped),
		cmocka_unit_test(nothing_is_reported_where_no_suspension_is_watched),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
