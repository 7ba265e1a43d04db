/* cluster: traces of the maintainer's core: what a preemption is, who pays for it, who may save. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core_sim.h"

#define LONG_LIFE (60 * SIM_SECOND)

/* ---- which budget pays */

static void preemption_of_a_ready_attempt_is_paid_for_like_a_loss(void **state)
{
	static const int codes[] = {42, 143};
	for (int i = 0; i < 2; i++) {
		struct sim s;
		sim_parameter_server_up(&s);
		sim_exit(&s, "worker/0", codes[i]);
		sim_expect(&s, i == 0 ? "task worker/0 #1 failed exit 42: worker/0 exited with 42; "
					"restarting it (1 of 2 losses in 3600 s)\n"
					"launch worker/0 #2 g1\n"
				      : "task worker/0 #1 failed exit 143: worker/0 exited with "
					"143 (SIGTERM); restarting it (1 of 2 losses in 3600 s)\n"
					"launch worker/0 #2 g1\n");
		sim_fini(&s);
	}
}

static void attempt_that_was_not_ready_is_no_preemption(void **state)
{
	struct sim s;
	sim_parameter_server_up(&s);
	sim_signal(&s, "worker/0", 9);
	sim_event(&s, TFC__AGENT_STARTED, "worker/0");
	s.trace.len = 0;
	sim_exit(&s, "worker/0", 42);
	sim_tick(&s, SIM_SECOND);
	sim_expect(&s, "task worker/0 #2 failed exit 42: worker/0 exited with 42; restarting it in "
		       "0.5 s (2 of 3 restarts in 600 s)\n"
		       "launch worker/0 #3 g1\n");
	sim_fini(&s);
}

static void without_tensorflow_42_is_permanent_and_143_is_sigterm(void **state)
{
	struct sim s;
	sim_init(&s, TFC_STRATEGY_NONE, TFC__SUCCESS_ALL_WORKERS);
	sim_role(&s, "worker", 2, TFC__SCOPE_TASK);
	sim_up(&s);
	sim_exit(&s, "worker/0", 143);
	sim_expect(&s, "task worker/0 #1 failed exit 143: worker/0 exited with 143 (SIGTERM); "
		       "restarting it (1 of 3 restarts in 600 s)\n"
		       "launch worker/0 #2 g1\n");
	sim_exit(&s, "worker/1", 42);
	sim_expect(&s, "task worker/1 #1 failed exit 42: worker/1 exited with 42\n"
		       "job stopping g1: worker/1 exited with 42\n"
		       "stop worker/0 #2 1s\n");
	sim_fini(&s);
}

/* Two mirrored workers, worker/0 preempted after `lived`, both ready again. */
static void preempt_group(struct sim *s, uint64_t lived)
{
	s->now += lived;
	sim_exit(s, "worker/0", 42);
	sim_exit(s, "worker/1", 42);
	if (tfc__core_wake_at(s->core))
		sim_tick(s, tfc__core_wake_at(s->core) - s->now);
	sim_ready_all(s);
}

static void third_preemption_in_a_row_without_work_is_charged_to_restarts(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	s.roles[0].loss_max = 100;
	sim_up(&s);
	preempt_group(&s, SIM_SECOND);
	preempt_group(&s, LONG_LIFE - 1);
	assert_int_equal(tfc__core_budget_left(s.core, 0, s.now), 3);
	preempt_group(&s, SIM_SECOND);
	assert_int_equal(tfc__core_budget_left(s.core, 0, s.now), 2);
	preempt_group(&s, LONG_LIFE); /* it has worked */
	preempt_group(&s, SIM_SECOND);
	preempt_group(&s, SIM_SECOND);
	assert_int_equal(tfc__core_budget_left(s.core, 0, s.now), 2);
	preempt_group(&s, SIM_SECOND);
	assert_int_equal(tfc__core_budget_left(s.core, 0, s.now), 1);
	sim_fini(&s);
}

static void without_restarts_only_what_a_lost_node_took_starts_again(void **state)
{
	static const uint32_t nodes[] = {1, 2};
	struct sim s;
	for (int i = 0; i < 2; i++) {
		sim_mirrored(&s);
		s.roles[0].restart_max = 0;
		sim_up_at(&s, nodes);
		sim_lost(&s, 2, "it is down");
		assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RESTARTING);
		sim_signal(&s, "worker/0", 9);
		sim_placed(&s, NULL, nodes, NULL);
		sim_held_all(&s);
		sim_ready_all(&s);
		if (i == 0)
			sim_exit(&s, "worker/0", 42);
		else /* its shim was killed */
			sim_death(&s, "worker/0", (struct tfc__attempt_end){TFC_EXIT_LOST, 0},
				  NULL);
		sim_expect(&s, i == 0 ? "task worker/0 #2 failed exit 42: worker/0 exited with 42; "
					"not restarted: restart.max is 0\n"
					"job stopping g2: worker/0 exited with 42; not restarted: "
					"restart.max is 0\n"
				      : "task worker/0 #2 lost lost 0: worker/0 was lost; not "
					"restarted: restart.max is 0\n"
					"job stopping g2: worker/0 was lost; not restarted: "
					"restart.max is 0\n"
					"stop worker/1 #2 1s\n");
		sim_fini(&s);
	}
}

/* ---- who saves may finish */

/* Two mirrored workers, worker/1 preempted: worker/0 still saves. */
static void preempt_worker_1(struct sim *s)
{
	sim_mirrored_up(s);
	sim_exit(s, "worker/1", 42);
	sim_expect(s, "task worker/1 #1 failed exit 42: worker/1 exited with 42; restarting the "
		      "group (1 of 2 losses in 3600 s)\n"
		      "job restarting g1: worker/1 exited with 42; restarting the group (1 of 2 "
		      "losses in 3600 s)\n");
}

static void peer_of_a_preempted_one_gets_no_signal_and_ends_by_itself(void **state)
{
	struct sim s;
	preempt_worker_1(&s);
	sim_tick(&s, 30 * SIM_SECOND - 1);
	sim_expect(&s, "");
	sim_exit(&s, "worker/0", 42);
	sim_expect(&s, "task worker/0 #1 failed consequence 42: worker/0 exited with 42\n"
		       "launch worker/0 #2 g2\n"
		       "launch worker/1 #2 g2\n");
	sim_fini(&s);
}

static void peer_that_never_ends_is_killed_after_the_grace_of_a_preemption(void **state)
{
	struct sim s;
	preempt_worker_1(&s);
	assert_int_equal(tfc__core_wake_at(s.core), s.now + 30 * SIM_SECOND);
	sim_tick(&s, 30 * SIM_SECOND);
	sim_expect(&s, "stop worker/0 #1 0s\n");
	sim_signal(&s, "worker/0", 9);
	sim_expect(&s, "task worker/0 #1 stopped consequence 9: worker/0 died of SIGKILL\n"
		       "launch worker/0 #2 g2\n"
		       "launch worker/1 #2 g2\n");
	sim_fini(&s);
}

static void one_that_was_killed_after_its_notice_leaves_the_others_their_time(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	s.policy.is_abort_auto = true;
	sim_up(&s);
	sim_death(&s, "worker/1", (struct tfc__attempt_end){TFC_EXIT_SIGNAL, 9, .had_notice = true},
		  NULL);
	sim_expect(&s, "task worker/1 #1 failed signal 9: worker/1 died of SIGKILL; restarting the "
		       "group (1 of 3 restarts in 600 s)\n"
		       "job restarting g1: worker/1 died of SIGKILL; restarting the group (1 of 3 "
		       "restarts in 600 s)\n");
	sim_exit(&s, "worker/0", 42);
	sim_expect(&s, "task worker/0 #1 failed consequence 42: worker/0 exited with 42\n"
		       "launch worker/0 #2 g2\n"
		       "launch worker/1 #2 g2\n");
	sim_fini(&s);
}

static void job_that_fails_of_a_preemption_lets_its_members_save(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	sim_role(&s, "evaluator", 1, TFC__SCOPE_TASK);
	s.roles[0].restart_max = 0;
	sim_up(&s);
	sim_exit(&s, "worker/1", 42);
	sim_expect(&s, "task worker/1 #1 failed exit 42: worker/1 exited with 42; not restarted: "
		       "restart.max is 0\n"
		       "job stopping g1: worker/1 exited with 42; not restarted: restart.max is 0\n"
		       "stop evaluator/0 #1 1s\n");
	sim_signal(&s, "evaluator/0", 15);
	s.trace.len = 0;
	sim_tick(&s, 30 * SIM_SECOND);
	sim_expect(&s, "stop worker/0 #1 0s\n");
	sim_fini(&s);
}

static void stop_by_a_user_sends_nothing_to_whoever_saves_unless_it_kills(void **state)
{
	struct sim s;
	preempt_worker_1(&s);
	sim_stop(&s, 2 * SIM_SECOND, false);
	sim_expect(&s, "job stopping g1\n");
	sim_tick(&s, 2 * SIM_SECOND);
	sim_stop(&s, 0, false);
	sim_expect(&s, "");
	sim_stop(&s, 0, true);
	sim_expect(&s, "stop worker/0 #1 0s\n");
	sim_fini(&s);
}

static void drain_gives_the_group_one_term_and_the_grace_of_a_preemption(void **state)
{
	static const uint32_t nodes[] = {1, 2, 2};
	struct sim s;
	sim_mirrored(&s);
	sim_role(&s, "tensorboard", 1, TFC__SCOPE_TASK);
	sim_up_at(&s, nodes);
	sim_drain(&s, 2, "node b is drained");
	sim_expect(&s, "job restarting g1: worker/1 must move: node b is drained; restarting the "
		       "group\n"
		       "stop worker/0 #1 30s\n"
		       "stop worker/1 #1 30s\n"
		       "stop tensorboard/0 #1 10s\n");
	sim_exit(&s, "worker/1", 42); /* our own TERM: nothing pays */
	sim_expect(&s, "task worker/1 #1 stopped stopped 42: worker/1 exited with 42\n");
	sim_tick(&s, 20 * SIM_SECOND);
	sim_expect(&s, "");
	sim_fini(&s);
}

static void one_that_is_done_while_another_saves_is_done(void **state)
{
	struct sim s;
	sim_init(&s, TFC_STRATEGY_MULTI_WORKER_MIRRORED, TFC__SUCCESS_CHIEF);
	sim_role(&s, "chief", 1, TFC__SCOPE_GROUP);
	sim_role(&s, "worker", 1, TFC__SCOPE_GROUP);
	sim_up(&s);
	sim_exit(&s, "worker/0", 42);
	s.trace.len = 0;
	sim_exit(&s, "chief/0", 0);
	sim_expect(&s, "task chief/0 #1 exited exit 0: chief/0 exited with 0\n"
		       "job stopping g1: chief/0 exited with 0\n"
		       "release chief/0\n"
		       "release worker/0\n"
		       "end succeeded exit 0 by chief/0 #1: chief/0 exited with 0\n");
	sim_fini(&s);
}

/* ---- abort_grace_s: auto */

static void who_waits_for_a_crashed_peer_is_killed_at_once(void **state)
{
	static const struct {
		struct tfc__attempt_end death;
		uint64_t grace;
	} cases[] = {
		{{TFC_EXIT_SIGNAL, 9}, 0},           {{TFC_EXIT_CODE, 137}, 0},
		{{TFC_EXIT_SIGNAL, 11}, 0},          {{TFC_EXIT_SIGNAL, 6}, 0},
		{{TFC_EXIT_SIGNAL, 7}, 0},           {{TFC_EXIT_SIGNAL, 9, .is_oom = true}, 0},
		{{TFC_EXIT_SIGNAL, 15}, SIM_SECOND}, {{TFC_EXIT_CODE, 1}, SIM_SECOND},
		{{TFC_EXIT_LOST, 0}, SIM_SECOND},
	};
	for (int is_auto = 0; is_auto < 2; is_auto++) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			struct sim s;
			char stop[64];
			sim_mirrored(&s);
			s.policy.is_abort_auto = is_auto;
			sim_up(&s);
			sim_death(&s, "worker/1", cases[i].death, NULL);
			sim_answer(&s, NULL, TFC__PROC_NONE);
			tfc__buf_add(&s.trace, "", 1);
			snprintf(stop, sizeof(stop), "\nstop worker/0 #1 %us\n",
				 (unsigned)((is_auto ? cases[i].grace : SIM_SECOND) / SIM_SECOND));
			if (!strstr(s.trace.data, stop))
				fail_msg("case %zu, auto %d: %s", i, is_auto, s.trace.data);
			sim_fini(&s);
		}
	}
}

static void without_mirrored_workers_a_crash_leaves_the_abort_grace(void **state)
{
	struct sim s;
	sim_parameter_server(&s);
	s.policy.is_abort_auto = true;
	sim_up(&s);
	sim_signal(&s, "ps/0", 9);
	tfc__buf_add(&s.trace, "", 1);
	assert_non_null(strstr(s.trace.data, "stop chief/0 #1 1s\n"));
	sim_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(preemption_of_a_ready_attempt_is_paid_for_like_a_loss),
		cmocka_unit_test(attempt_that_was_not_ready_is_no_preemption),
		cmocka_unit_test(without_tensorflow_42_is_permanent_and_143_is_sigterm),
		cmocka_unit_test(third_preemption_in_a_row_without_work_is_charged_to_restarts),
		cmocka_unit_test(without_restarts_only_what_a_lost_node_took_starts_again),
		cmocka_unit_test(peer_of_a_preempted_one_gets_no_signal_and_ends_by_itself),
		cmocka_unit_test(peer_that_never_ends_is_killed_after_the_grace_of_a_preemption),
		cmocka_unit_test(one_that_was_killed_after_its_notice_leaves_the_others_their_time),
		cmocka_unit_test(job_that_fails_of_a_preemption_lets_its_members_save),
		cmocka_unit_test(stop_by_a_user_sends_nothing_to_whoever_saves_unless_it_kills),
		cmocka_unit_test(drain_gives_the_group_one_term_and_the_grace_of_a_preemption),
		cmocka_unit_test(one_that_is_done_while_another_saves_is_done),
		cmocka_unit_test(who_waits_for_a_crashed_peer_is_killed_at_once),
		cmocka_unit_test(without_mirrored_workers_a_crash_leaves_the_abort_grace),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
