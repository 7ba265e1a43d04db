/* cluster: traces of the maintainer's core: a user's stop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core_sim.h"

static void stop_gives_the_whole_grace_and_ends_as_stopped(void **state)
{
	struct sim s;
	sim_parameter_server_up(&s);
	sim_stop(&s, 0, false);
	sim_expect(&s, "job stopping g1\n"
		       "stop chief/0 #1 10s\n"
		       "stop worker/0 #1 10s\n"
		       "stop ps/0 #1 10s\n");
	sim_stop(&s, 0, false);
	sim_expect(&s, "");
	sim_stop(&s, 0, true);
	sim_expect(&s, "stop chief/0 #1 0s\n"
		       "stop worker/0 #1 0s\n"
		       "stop ps/0 #1 0s\n");
	sim_signal(&s, "chief/0", 9);
	sim_signal(&s, "ps/0", 9);
	sim_exit(&s, "worker/0", 0);
	sim_expect(&s, "task chief/0 #1 stopped stopped 9: chief/0 died of SIGKILL\n"
		       "task ps/0 #1 stopped stopped 9: ps/0 died of SIGKILL\n"
		       "task worker/0 #1 stopped stopped 0: worker/0 exited with 0\n"
		       "release chief/0\n"
		       "release worker/0\n"
		       "release ps/0\n"
		       "end stopped stopped 0: stopped\n");
	sim_stop(&s, 0, true);
	sim_expect(&s, "");
	sim_fini(&s);
}

static void interrupt_comes_first_and_then_the_stop(void **state)
{
	struct sim s;
	sim_mirrored_up(&s);
	sim_stop(&s, 2 * SIM_SECOND, false);
	sim_expect(&s, "job stopping g1\n"
		       "signal worker/0 #1 2\n"
		       "signal worker/1 #1 2\n");
	sim_signal(&s, "worker/0", 2);
	sim_expect(&s, "task worker/0 #1 stopped stopped 2: worker/0 died of SIGINT\n");
	sim_tick(&s, 2 * SIM_SECOND);
	sim_expect(&s, "stop worker/1 #1 10s\n");
	sim_signal(&s, "worker/1", 15);
	sim_expect(&s, "task worker/1 #1 stopped stopped 15: worker/1 died of SIGTERM\n"
		       "release worker/0\n"
		       "release worker/1\n"
		       "end stopped stopped 0: stopped\n");
	sim_fini(&s);
}

static void stop_before_the_start_ends_at_once(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	s.policy.roles = s.roles;
	s.core = tfc__core_new(&s.policy);
	sim_stop(&s, 0, false);
	sim_expect(&s, "job stopping g0\n"
		       "end stopped stopped 0: stopped\n");
	sim_step(&s, &(struct tfc__core_event){.kind = TFC__CORE_START});
	sim_expect(&s, "");
	sim_fini(&s);
}

static void stop_while_holding_takes_the_holds_back(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	sim_start(&s);
	sim_event(&s, TFC__AGENT_HELD, "worker/0");
	s.trace.len = 0;
	sim_stop(&s, SIM_SECOND, false);
	sim_expect(&s, "job stopping g1\n"
		       "release worker/1\n"
		       "release worker/0\n"
		       "end stopped stopped 0: stopped\n");
	sim_event(&s, TFC__AGENT_HELD, "worker/1");
	sim_expect(&s, "");
	sim_fini(&s);
}

static void stop_while_starting_stops_what_cannot_be_interrupted(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	sim_start(&s);
	sim_held_all(&s);
	sim_event(&s, TFC__AGENT_STARTED, "worker/0");
	s.trace.len = 0;
	sim_stop(&s, SIM_SECOND, false);
	sim_expect(&s, "job stopping g1\n"
		       "signal worker/0 #1 2\n"
		       "stop worker/1 #1 10s\n");
	sim_fini(&s);
}

static void stop_while_a_verdict_is_awaited_reports_the_dead(void **state)
{
	struct sim s;
	sim_mirrored_up(&s);
	sim_exit(&s, "worker/0", 1);
	s.trace.len = 0;
	sim_stop(&s, 0, false);
	sim_expect(&s, "task worker/0 #1 failed exit 1: worker/0 exited with 1\n"
		       "job stopping g1\n"
		       "stop worker/1 #1 10s\n");
	sim_answer(&s, NULL, TFC__PROC_NONE);
	sim_expect(&s, "");
	sim_fini(&s);
}

static void stop_while_aborting_starts_no_new_generation(void **state)
{
	struct sim s;
	sim_mirrored_up(&s);
	sim_signal(&s, "worker/1", 9);
	s.trace.len = 0;
	sim_stop(&s, 0, false);
	sim_signal(&s, "worker/0", 9);
	sim_expect(&s, "job stopping g1\n"
		       "task worker/0 #1 stopped stopped 9: worker/0 died of SIGKILL\n"
		       "release worker/0\n"
		       "release worker/1\n"
		       "end stopped stopped 0: stopped\n");
	sim_fini(&s);
}

static void stop_in_backoff_ends_at_once(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	s.roles[0].backoff_min_ns = 5 * SIM_SECOND;
	sim_up(&s);
	sim_signal(&s, "worker/1", 9);
	sim_exit(&s, "worker/0", 1);
	s.trace.len = 0;
	assert_int_equal(tfc__core_wake_at(s.core), s.now + 5 * SIM_SECOND);
	sim_stop(&s, 0, false);
	sim_expect(&s, "job stopping g1\n"
		       "release worker/0\n"
		       "release worker/1\n"
		       "end stopped stopped 0: stopped\n");
	assert_int_equal(tfc__core_wake_at(s.core), 0);
	sim_fini(&s);
}

static void stop_after_success_shortens_the_wait_and_stays_a_success(void **state)
{
	struct sim s;
	sim_parameter_server(&s);
	sim_role(&s, "evaluator", 1, TFC__SCOPE_TASK);
	sim_up(&s);
	sim_exit(&s, "chief/0", 0);
	sim_signal(&s, "worker/0", 15);
	sim_signal(&s, "ps/0", 15);
	s.trace.len = 0;
	sim_stop(&s, 0, false);
	sim_signal(&s, "evaluator/0", 15);
	sim_expect(&s, "stop evaluator/0 #1 10s\n"
		       "task evaluator/0 #1 stopped stopped 15: evaluator/0 died of SIGTERM\n"
		       "release chief/0\n"
		       "release worker/0\n"
		       "release ps/0\n"
		       "release evaluator/0\n"
		       "end succeeded exit 0 by chief/0 #1: chief/0 exited with 0\n");
	sim_fini(&s);
}

static void events_of_an_older_attempt_are_ignored(void **state)
{
	struct sim s;
	sim_parameter_server_up(&s);
	sim_signal(&s, "worker/0", 9);
	s.trace.len = 0;
	for (int kind = TFC__AGENT_STARTED; kind <= TFC__AGENT_REFUSED; kind++)
		sim_report(&s, 0,
			   &(struct tfc__task_event){.kind = (enum tfc__task_event_kind)kind,
						     .task = sim_task(&s, "worker/0"),
						     .attempt = 1});
	sim_expect(&s, "");
	sim_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stop_gives_the_whole_grace_and_ends_as_stopped),
		cmocka_unit_test(interrupt_comes_first_and_then_the_stop),
		cmocka_unit_test(stop_before_the_start_ends_at_once),
		cmocka_unit_test(stop_while_holding_takes_the_holds_back),
		cmocka_unit_test(stop_while_starting_stops_what_cannot_be_interrupted),
		cmocka_unit_test(stop_while_a_verdict_is_awaited_reports_the_dead),
		cmocka_unit_test(stop_while_aborting_starts_no_new_generation),
		cmocka_unit_test(stop_in_backoff_ends_at_once),
		cmocka_unit_test(stop_after_success_shortens_the_wait_and_stays_a_success),
		cmocka_unit_test(events_of_an_older_attempt_are_ignored),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
