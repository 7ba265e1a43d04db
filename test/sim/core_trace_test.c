/* cluster: the maintainer's core, one expected trace for each promise of "Restart and end". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core_sim.h"

/* ---- jobs */

static void mirrored(struct sim *s)
{
	sim_init(s, TFC_STRATEGY_MULTI_WORKER_MIRRORED, TFC__SUCCESS_ALL_WORKERS);
	sim_role(s, "worker", 2, TFC__SCOPE_GROUP);
}

static void parameter_server(struct sim *s)
{
	sim_init(s, TFC_STRATEGY_PARAMETER_SERVER, TFC__SUCCESS_CHIEF);
	sim_role(s, "chief", 1, TFC__SCOPE_COORDINATOR);
	sim_role(s, "worker", 1, TFC__SCOPE_TASK);
	sim_role(s, "ps", 1, TFC__SCOPE_COORDINATOR);
}

/* ---- the walk */

static void gang_holds_every_port_before_it_launches_anyone(void **state)
{
	struct sim s;
	mirrored(&s);
	sim_start(&s);
	sim_expect(&s, "hold worker/0\n"
		       "hold worker/1\n");
	sim_event(&s, TFC__CORE_HELD, "worker/1");
	sim_expect(&s, "task worker/1 #0 holding\n");
	sim_event(&s, TFC__CORE_HELD, "worker/0");
	sim_expect(&s, "task worker/0 #0 holding\n"
		       "job starting g1\n"
		       "launch worker/0 #1 g1\n"
		       "task worker/0 #1 starting\n"
		       "launch worker/1 #1 g1\n"
		       "task worker/1 #1 starting\n");
	sim_event(&s, TFC__CORE_STARTED, "worker/0");
	sim_event(&s, TFC__CORE_STARTED, "worker/1");
	sim_event(&s, TFC__CORE_READY, "worker/0");
	sim_expect(&s, "task worker/0 #1 running\n"
		       "task worker/1 #1 running\n"
		       "task worker/0 #1 ready\n");
	sim_event(&s, TFC__CORE_READY, "worker/1");
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
	parameter_server(&s);
	sim_up(&s);
	sim_signal(&s, "worker/0", 9);
	sim_expect(&s, "task worker/0 #1 failed signal 9: worker/0 died of SIGKILL; restarting it "
		       "(1 of 3 restarts in 600 s)\n"
		       "launch worker/0 #2 g1\n"
		       "task worker/0 #2 starting\n");
	sim_ready_all(&s);
	sim_expect(&s, "");
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	sim_fini(&s);
}

static void killed_mirrored_worker_restarts_the_group_as_a_new_generation(void **state)
{
	struct sim s;
	mirrored(&s);
	sim_up(&s);
	sim_signal(&s, "worker/1", 9);
	sim_expect(&s, "task worker/1 #1 failed signal 9: worker/1 died of SIGKILL; restarting the "
		       "group (1 of 3 restarts in 600 s)\n"
		       "job restarting g1: worker/1 died of SIGKILL; restarting the group (1 of 3 "
		       "restarts in 600 s)\n"
		       "stop worker/0 #1 1s\n");
	sim_exit(&s, "worker/0", 1);
	sim_expect(&s, "task worker/0 #1 stopped consequence 1: worker/0 exited with 1\n"
		       "launch worker/0 #2 g2\n"
		       "task worker/0 #2 starting\n"
		       "launch worker/1 #2 g2\n"
		       "task worker/1 #2 starting\n");
	sim_ready_all(&s);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	sim_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gang_holds_every_port_before_it_launches_anyone),
		cmocka_unit_test(killed_ps_worker_restarts_alone_and_at_once),
		cmocka_unit_test(killed_mirrored_worker_restarts_the_group_as_a_new_generation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
