/* cluster: traces of the maintainer's core: what a preemption is, who pays for it, who may save. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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
	sim_event(&s, TFC__CORE_STARTED, "worker/0");
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
			sim_death(&s, "worker/0", (struct tfc__death){TFC_EXIT_LOST, 0}, NULL);
		sim_expect(&s, i == 0 ? "task worker/0 #2 failed exit 42: worker/0 exited with 42; "
					"its restarts are used up (0 in 600 s)\n"
					"job stopping g2: worker/0 exited with 42; its restarts "
					"are used up (0 in 600 s)\n"
					"stop worker/1 #2 1s\n"
				      : "task worker/0 #2 lost lost 0: worker/0 was lost; its "
					"restarts are used up (0 in 600 s)\n"
					"job stopping g2: worker/0 was lost; its restarts are used "
					"up (0 in 600 s)\n"
					"stop worker/1 #2 1s\n");
		sim_fini(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(preemption_of_a_ready_attempt_is_paid_for_like_a_loss),
		cmocka_unit_test(attempt_that_was_not_ready_is_no_preemption),
		cmocka_unit_test(without_tensorflow_42_is_permanent_and_143_is_sigterm),
		cmocka_unit_test(third_preemption_in_a_row_without_work_is_charged_to_restarts),
		cmocka_unit_test(without_restarts_only_what_a_lost_node_took_starts_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
