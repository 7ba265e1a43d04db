/* cluster: traces of the maintainer's core: which restarts a death leads to, and what they cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core_sim.h"

/* ---- the walk */

static void gang_holds_every_port_before_it_launches_anyone(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	sim_start(&s);
	sim_expect(&s, "hold worker/0\n"
		       "hold worker/1\n");
	sim_event(&s, TFC__AGENT_HELD, "worker/1");
	sim_expect(&s, "task worker/1 #0 holding\n");
	sim_event(&s, TFC__AGENT_HELD, "worker/0");
	sim_expect(&s, "task worker/0 #0 holding\n"
		       "job starting g1\n"
		       "launch worker/0 #1 g1\n"
		       "launch worker/1 #1 g1\n");
	sim_event(&s, TFC__AGENT_STARTED, "worker/0");
	sim_event(&s, TFC__AGENT_STARTED, "worker/1");
	sim_event(&s, TFC__AGENT_READY, "worker/0");
	sim_expect(&s, "task worker/0 #1 running\n"
		       "task worker/1 #1 running\n"
		       "task worker/0 #1 ready\n");
	sim_event(&s, TFC__AGENT_READY, "worker/1");
	sim_expect(&s, "task worker/1 #1 ready\n"
		       "job running g1\n");
	sim_exit(&s, "worker/0", 0);
	sim_expect(&s, "task worker/0 #1 exited exit 0: worker/0 exited with 0\n");
	sim_exit(&s, "worker/1", 0);
	sim_expect(&s, "task worker/1 #1 exited exit 0: worker/1 exited with 0\n"
		       "job stopping g1: worker/1 exited with 0\n"
		       "release worker/0\n"
		       "release worker/1\n"
		       "end succeeded exit 0 by worker/1 #1: worker/1 exited with 0\n");
	sim_fini(&s);
}

static void killed_ps_worker_restarts_alone_and_at_once(void **state)
{
	struct sim s;
	sim_parameter_server_up(&s);
	sim_signal(&s, "worker/0", 9);
	sim_expect(&s, "task worker/0 #1 failed signal 9: worker/0 died of SIGKILL; restarting it "
		       "(1 of 3 restarts in 600 s)\n"
		       "launch worker/0 #2 g1\n");
	sim_ready_all(&s);
	sim_expect(&s, "");
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	sim_fini(&s);
}

static void killed_mirrored_worker_restarts_the_group_as_a_new_generation(void **state)
{
	struct sim s;
	sim_mirrored_up(&s);
	sim_signal(&s, "worker/1", 9);
	sim_expect(&s, "task worker/1 #1 failed signal 9: worker/1 died of SIGKILL; restarting the "
		       "group (1 of 3 restarts in 600 s)\n"
		       "job restarting g1: worker/1 died of SIGKILL; restarting the group (1 of 3 "
		       "restarts in 600 s)\n"
		       "stop worker/0 #1 1s\n");
	sim_exit(&s, "worker/0", 1);
	sim_expect(&s, "task worker/0 #1 stopped consequence 1: worker/0 exited with 1\n"
		       "launch worker/0 #2 g2\n"
		       "launch worker/1 #2 g2\n");
	sim_ready_all(&s);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	sim_fini(&s);
}

/* ---- scopes */

static void dead_chief_restarts_alone(void **state)
{
	struct sim s;
	sim_parameter_server_up(&s);
	sim_signal(&s, "chief/0", 15);
	sim_expect(&s, "task chief/0 #1 failed signal 15: chief/0 died of SIGTERM; restarting it "
		       "(1 of 3 restarts in 600 s)\n"
		       "job restarting g1: chief/0 died of SIGTERM; restarting it (1 of 3 restarts "
		       "in 600 s)\n"
		       "launch chief/0 #2 g1\n");
	sim_ready_all(&s);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	assert_int_equal(tfc__core_generation(s.core), 1);
	sim_fini(&s);
}

static void dead_ps_restarts_with_the_chief_and_workers_stay(void **state)
{
	struct sim s;
	sim_parameter_server_up(&s);
	sim_signal(&s, "ps/0", 9);
	sim_expect(&s, "task ps/0 #1 failed signal 9: ps/0 died of SIGKILL; restarting it with its "
		       "coordinator (1 of 3 restarts in 600 s)\n"
		       "job restarting g1: ps/0 died of SIGKILL; restarting it with its "
		       "coordinator (1 of 3 restarts in 600 s)\n"
		       "launch ps/0 #2 g1\n"
		       "stop chief/0 #1 1s\n");
	sim_exit(&s, "chief/0", 1);
	sim_expect(&s, "task chief/0 #1 stopped consequence 1: chief/0 exited with 1\n"
		       "launch chief/0 #2 g1\n");
	assert_int_equal(tfc__core_budget_left(s.core, sim_task(&s, "ps/0"), s.now), 2);
	assert_int_equal(tfc__core_budget_left(s.core, sim_task(&s, "chief/0"), s.now), 3);
	sim_fini(&s);
}

static void dead_ps_restarts_with_the_driver_where_that_coordinates(void **state)
{
	struct sim s;
	sim_init(&s, TFC_STRATEGY_PARAMETER_SERVER, TFC__SUCCESS_DRIVER);
	sim_role(&s, "driver", 1, TFC__SCOPE_COORDINATOR);
	sim_role(&s, "ps", 1, TFC__SCOPE_COORDINATOR);
	sim_up(&s);
	sim_signal(&s, "ps/0", 9);
	sim_expect(&s, "task ps/0 #1 failed signal 9: ps/0 died of SIGKILL; restarting it with its "
		       "coordinator (1 of 3 restarts in 600 s)\n"
		       "job restarting g1: ps/0 died of SIGKILL; restarting it with its "
		       "coordinator (1 of 3 restarts in 600 s)\n"
		       "launch ps/0 #2 g1\n"
		       "stop driver/0 #1 1s\n");
	sim_signal(&s, "driver/0", 15);
	sim_expect(&s, "task driver/0 #1 stopped consequence 15: driver/0 died of SIGTERM\n"
		       "launch driver/0 #2 g1\n");
	sim_fini(&s);
}

static void evaluator_outlives_a_group_restart(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	sim_role(&s, "evaluator", 1, TFC__SCOPE_TASK);
	sim_up(&s);
	sim_signal(&s, "worker/1", 9);
	sim_exit(&s, "worker/0", 1);
	sim_ready_all(&s);
	assert_int_equal(tfc__core_generation(s.core), 2);
	assert_int_equal(tfc__core_attempt(s.core, sim_task(&s, "evaluator/0")), 1);
	sim_signal(&s, "evaluator/0", 9);
	sim_expect(&s, "task evaluator/0 #1 failed signal 9: evaluator/0 died of SIGKILL; "
		       "restarting it (1 of 3 restarts in 600 s)\n"
		       "launch evaluator/0 #2 g2\n");
	sim_fini(&s);
}

/* ---- budgets */

/* A parameter server's cluster whose worker may restart so often. */
static void worker_may_restart(struct sim *s, uint32_t times)
{
	sim_parameter_server(s);
	s->roles[1].restart_max = times;
	sim_up(s);
}

static void used_up_budget_ends_the_job_and_says_so(void **state)
{
	struct sim s;
	worker_may_restart(&s, 1);
	sim_signal(&s, "worker/0", 9);
	sim_ready_all(&s);
	sim_signal(&s, "worker/0", 9);
	sim_expect(
		&s,
		"task worker/0 #2 failed signal 9: worker/0 died of SIGKILL; no restart is left (1 "
		"of 1 in 600 s)\n"
		"job stopping g1: worker/0 died of SIGKILL; no restart is left (1 of 1 in 600 s)\n"
		"stop chief/0 #1 1s\n"
		"stop ps/0 #1 1s\n");
	sim_fini(&s);
}

static void budget_comes_back_when_the_window_has_passed(void **state)
{
	struct sim s;
	worker_may_restart(&s, 1);
	sim_signal(&s, "worker/0", 9);
	sim_ready_all(&s);
	s.now += 600 * SIM_SECOND;
	assert_int_equal(tfc__core_budget_left(s.core, 1, s.now), 1);
	sim_signal(&s, "worker/0", 9);
	assert_int_equal(tfc__core_attempt(s.core, sim_task(&s, "worker/0")), 3);
	sim_fini(&s);
}

static void budget_of_the_whole_job_names_no_window(void **state)
{
	struct sim s;
	sim_parameter_server(&s);
	s.roles[1].restart_max = 1;
	s.roles[1].window_ns = 0;
	sim_up(&s);
	sim_signal(&s, "worker/0", 9);
	sim_expect(&s, "task worker/0 #1 failed signal 9: worker/0 died of SIGKILL; restarting it "
		       "(1 of 1 restarts)\n"
		       "launch worker/0 #2 g1\n");
	sim_ready_all(&s);
	s.now += 600 * SIM_SECOND;
	sim_signal(&s, "worker/0", 9);
	sim_expect(&s, "task worker/0 #2 failed signal 9: worker/0 died of SIGKILL; no restart is "
		       "left (1 of 1)\n"
		       "job stopping g1: worker/0 died of SIGKILL; no restart is left (1 of 1)\n"
		       "stop chief/0 #1 1s\n"
		       "stop ps/0 #1 1s\n");
	sim_fini(&s);
}

static void large_budget_is_kept_exactly_enough(void **state)
{
	struct sim s;
	sim_parameter_server(&s);
	s.roles[1].restart_max = 500;
	s.roles[1].backoff_max_ns = 0;
	sim_up(&s);
	for (uint32_t i = 0; i < 500; i++) {
		assert_int_equal(tfc__core_budget_left(s.core, 1, s.now), 500 - i);
		sim_signal(&s, "worker/0", 9);
		sim_ready_all(&s);
		s.now += SIM_SECOND;
	}
	sim_signal(&s, "worker/0", 9);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STOPPING);
	assert_in_range(tfc__core_budget_left(s.core, 1, s.now + 300 * SIM_SECOND), 180, 201);
	sim_fini(&s);
}

static void first_restart_is_immediate_and_later_ones_back_off(void **state)
{
	struct sim s;
	worker_may_restart(&s, 20);
	sim_signal(&s, "worker/0", 9);
	assert_int_equal(tfc__core_attempt(s.core, 1), 2);
	uint64_t most = SIM_SECOND / 2;
	for (uint32_t i = 2; i < 10; i++) {
		sim_ready_all(&s);
		sim_signal(&s, "worker/0", 9);
		assert_int_equal(tfc__core_attempt(s.core, 1), i);
		uint64_t wait = tfc__core_wake_at(s.core) - s.now;
		assert_in_range(wait, most / 4 * 3, most);
		most = most * 2 < 30 * SIM_SECOND ? most * 2 : 30 * SIM_SECOND;
		sim_tick(&s, wait - 1);
		assert_int_equal(tfc__core_attempt(s.core, 1), i);
		sim_tick(&s, 1);
		assert_int_equal(tfc__core_attempt(s.core, 1), i + 1);
	}
	sim_fini(&s);
}

static void several_backoffs_end_in_their_order(void **state)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	static const uint64_t seconds[] = {1, 3, 2, 4};
	struct sim s;
	sim_init(&s, TFC_STRATEGY_NONE, TFC__SUCCESS_ALL_WORKERS);
	for (int i = 0; i < 4; i++)
		sim_role(&s, names[i], 1, TFC__SCOPE_TASK)->backoff_min_ns = seconds[i] *
									     SIM_SECOND;
	sim_up(&s);
	for (uint32_t i = 0; i < 4; i++)
		sim_report(&s, 0,
			   &(struct tfc__task_event){.kind = TFC__AGENT_EXITED,
						     .task = i,
						     .attempt = 1,
						     .end = {TFC_EXIT_SIGNAL, 9}});
	s.trace.len = 0;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(tfc__core_wake_at(s.core), s.now + SIM_SECOND);
		sim_tick(&s, SIM_SECOND);
	}
	sim_expect(&s, "launch a/0 #2 g1\n"
		       "launch c/0 #2 g1\n"
		       "launch b/0 #2 g1\n"
		       "launch d/0 #2 g1\n");
	sim_fini(&s);
}

static void losses_have_a_budget_of_their_own(void **state)
{
	struct sim s;
	worker_may_restart(&s, 1);
	for (int i = 0; i < 2; i++) {
		sim_death(&s, "worker/0", (struct tfc__attempt_end){.reason = TFC_EXIT_LOST}, NULL);
		if (tfc__core_wake_at(s.core))
			sim_tick(&s, SIM_SECOND);
		sim_ready_all(&s);
	}
	sim_death(&s, "worker/0", (struct tfc__attempt_end){.reason = TFC_EXIT_LOST}, NULL);
	sim_expect(&s, "task worker/0 #3 lost lost 0: worker/0 was lost; no restart after a loss "
		       "is left (2 of 2 in 3600 s)\n"
		       "job stopping g1: worker/0 was lost; no restart after a loss is left (2 of "
		       "2 in 3600 s)\n"
		       "stop chief/0 #1 1s\n"
		       "stop ps/0 #1 1s\n");
	sim_fini(&s);
}

/* ---- strangers */

static void workers_and_tensorboard_up(struct sim *s)
{
	sim_mirrored(s);
	sim_role(s, "tensorboard", 1, TFC__SCOPE_TASK);
	sim_up(s);
}

static void meet_an_outsider(struct sim *s, const char *task, const char *text)
{
	sim_death(s, task, (struct tfc__attempt_end){TFC_EXIT_CODE, 1, .is_port_occupied = true},
		  text);
}

static void outsider_moves_the_task_and_restarts_the_cluster(void **state)
{
	struct sim s;
	sim_parameter_server_up(&s);
	meet_an_outsider(&s, "worker/0", "uid 1000 listens on port 20001");
	sim_expect(&s,
		   "task worker/0 #1 failed stranger 1: worker/0 has a foreign listener on its "
		   "port: uid "
		   "1000 listens on port 20001; restarting the group (1 of 3 restarts in 600 s)\n"
		   "job restarting g1: worker/0 has a foreign listener on its port: uid 1000 "
		   "listens on "
		   "port 20001; restarting the group (1 of 3 restarts in 600 s)\n"
		   "stop chief/0 #1 1s\n"
		   "stop ps/0 #1 1s\n");
	sim_signal(&s, "chief/0", 15);
	sim_signal(&s, "ps/0", 15);
	sim_expect(&s, "task chief/0 #1 stopped consequence 15: chief/0 died of SIGTERM\n"
		       "task ps/0 #1 stopped consequence 15: ps/0 died of SIGTERM\n"
		       "release worker/0\n"
		       "hold worker/0\n");
	sim_event(&s, TFC__AGENT_HELD, "worker/0");
	sim_expect(&s, "task worker/0 #1 holding\n"
		       "launch chief/0 #2 g2\n"
		       "launch worker/0 #2 g2\n"
		       "launch ps/0 #2 g2\n");
	sim_fini(&s);
}

static void outsider_moves_a_sidecar_alone(void **state)
{
	struct sim s;
	workers_and_tensorboard_up(&s);
	meet_an_outsider(&s, "tensorboard/0", NULL);
	sim_event(&s, TFC__AGENT_HELD, "tensorboard/0");
	sim_expect(
		&s,
		"task tensorboard/0 #1 failed stranger 1: tensorboard/0 has a foreign listener on "
		"its port; restarting it (1 of 3 restarts in 600 s)\n"
		"release tensorboard/0\n"
		"hold tensorboard/0\n"
		"task tensorboard/0 #1 holding\n"
		"launch tensorboard/0 #2 g1\n");
	sim_fini(&s);
}

static void answer_to_a_hold_taken_back_is_not_taken_for_that_of_the_next(void **state)
{
	struct sim s;
	workers_and_tensorboard_up(&s);
	struct tfc__task_event late = {.kind = TFC__AGENT_HELD,
				       .task = 2,
				       .attempt = 1,
				       .number = s.holds[2]};
	meet_an_outsider(&s, "tensorboard/0", NULL);
	s.trace.len = 0;
	sim_report(&s, 0, &late);
	late.kind = TFC__AGENT_HOLD_FAILED;
	sim_report(&s, 0, &late);
	sim_expect(&s, "");
	sim_event(&s, TFC__AGENT_HELD, "tensorboard/0");
	assert_int_equal(tfc__core_task_state(s.core, 2), TFC_TASK_STARTING);
	sim_fini(&s);
}

static void passer_by_restarts_the_task_with_its_port(void **state)
{
	struct sim s;
	sim_parameter_server_up(&s);
	sim_death(&s, "worker/0",
		  (struct tfc__attempt_end){TFC_EXIT_CODE, 1, .is_bind_failed = true},
		  "it could not bind port 20001");
	sim_expect(&s, "task worker/0 #1 failed exit 1: worker/0 exited with 1: it could not bind "
		       "port 20001; restarting it (1 of 3 restarts in 600 s)\n"
		       "launch worker/0 #2 g1\n");
	sim_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gang_holds_every_port_before_it_launches_anyone),
		cmocka_unit_test(killed_ps_worker_restarts_alone_and_at_once),
		cmocka_unit_test(killed_mirrored_worker_restarts_the_group_as_a_new_generation),
		cmocka_unit_test(dead_chief_restarts_alone),
		cmocka_unit_test(dead_ps_restarts_with_the_chief_and_workers_stay),
		cmocka_unit_test(dead_ps_restarts_with_the_driver_where_that_coordinates),
		cmocka_unit_test(evaluator_outlives_a_group_restart),
		cmocka_unit_test(used_up_budget_ends_the_job_and_says_so),
		cmocka_unit_test(budget_comes_back_when_the_window_has_passed),
		cmocka_unit_test(budget_of_the_whole_job_names_no_window),
		cmocka_unit_test(large_budget_is_kept_exactly_enough),
		cmocka_unit_test(first_restart_is_immediate_and_later_ones_back_off),
		cmocka_unit_test(several_backoffs_end_in_their_order),
		cmocka_unit_test(losses_have_a_budget_of_their_own),
		cmocka_unit_test(outsider_moves_the_task_and_restarts_the_cluster),
		cmocka_unit_test(outsider_moves_a_sidecar_alone),
		cmocka_unit_test(answer_to_a_hold_taken_back_is_not_taken_for_that_of_the_next),
		cmocka_unit_test(passer_by_restarts_the_task_with_its_port),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
