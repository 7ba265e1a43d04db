/* cluster: traces of the maintainer's core: failures that do not end the job. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core_sim.h"

/* Chief, ps and so many workers that are TensorFlow's own servers: the chief hands out the work. */
static void servers(struct sim *s, uint32_t workers)
{
	sim_parameter_server(s);
	s->roles[1].count = workers;
	s->roles[1].is_failure_ignored = s->roles[1].is_replaceable = true;
}

static void servers_up(struct sim *s, uint32_t workers)
{
	servers(s, workers);
	sim_up(s);
}

static void assert_ignored(struct sim *s, const char *task, const char *text)
{
	const char *got = tfc__core_ignored_failure(s->core, sim_task(s, task));
	if (!text)
		assert_null(got);
	else
		assert_string_equal(got, text);
}

static void evaluator_is_tried_again_and_then_ignored(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	struct tfc__core_role *evaluator = sim_role(&s, "evaluator", 1, TFC__SCOPE_TASK);
	evaluator->is_failure_ignored = true;
	evaluator->restart_on = TFC__RESTART_FAILURE;
	evaluator->restart_max = 1;
	sim_up(&s);
	sim_exit(&s, "evaluator/0", 1);
	sim_expect(&s, "task evaluator/0 #1 failed exit 1: evaluator/0 exited with 1; restarting "
		       "it (1 of 1 restarts in 600 s)\n"
		       "launch evaluator/0 #2 g1\n");
	assert_ignored(&s, "evaluator/0", NULL);
	sim_exit(&s, "evaluator/0", 1);
	sim_expect(&s, "task evaluator/0 #2 failed exit 1: evaluator/0 exited with 1; no restart "
		       "is left (1 of 1 in 600 s)\n");
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	sim_exit(&s, "worker/0", 0);
	sim_exit(&s, "worker/1", 0);
	assert_int_equal(s.end.state, TFC_JOB_SUCCEEDED);
	assert_ignored(&s, "evaluator/0",
		       "evaluator/0 exited with 1; no restart is left (1 of 1 in 600 s)");
	assert_ignored(&s, "worker/0", NULL);
	sim_fini(&s);
}

static void worker_whose_work_another_gets_is_done_without(void **state)
{
	struct sim s;
	servers_up(&s, 2);
	sim_exit(&s, "worker/0", 1);
	sim_expect(&s, "task worker/0 #1 failed exit 1: worker/0 exited with 1\n");
	assert_ignored(&s, "worker/0", "worker/0 exited with 1");
	/* The last one that is left is nobody's spare. */
	sim_exit(&s, "worker/1", 1);
	sim_expect(&s, "task worker/1 #1 failed exit 1: worker/1 exited with 1\n"
		       "job stopping g1: worker/1 exited with 1\n"
		       "stop chief/0 #1 1s\n"
		       "stop ps/0 #1 1s\n");
	assert_ignored(&s, "worker/1", NULL);
	sim_fini(&s);
}

static void worker_that_was_never_ready_fails_the_job(void **state)
{
	struct sim s;
	servers(&s, 2);
	sim_start(&s);
	sim_held_all(&s);
	sim_event(&s, TFC__AGENT_STARTED, "worker/0");
	sim_event(&s, TFC__AGENT_STARTED, "worker/1");
	sim_event(&s, TFC__AGENT_READY, "worker/1");
	sim_exit(&s, "worker/0", 1);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STOPPING);
	sim_fini(&s);
}

static void worker_that_was_ready_once_may_fail_before_it_is_again(void **state)
{
	struct sim s;
	servers_up(&s, 2);
	sim_signal(&s, "worker/0", 9);
	sim_exit(&s, "worker/0", 1);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	assert_ignored(&s, "worker/0", "worker/0 exited with 1");
	sim_fini(&s);
}

static void worker_beside_one_that_is_not_ready_fails_the_job(void **state)
{
	struct sim s;
	servers_up(&s, 2);
	sim_signal(&s, "worker/1", 9); /* and it starts again */
	sim_exit(&s, "worker/0", 1);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STOPPING);
	sim_fini(&s);
}

static void worker_with_work_of_its_own_fails_the_job(void **state)
{
	struct sim s;
	servers(&s, 2);
	s.roles[1].is_failure_ignored = false;
	sim_up(&s);
	sim_exit(&s, "worker/0", 1);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STOPPING);
	sim_fini(&s);
}

/* TensorFlow's coordinator waits for every address of its cluster when it starts. */
static void ignored_worker_starts_again_with_its_coordinator(void **state)
{
	struct sim s;
	servers_up(&s, 2);
	sim_exit(&s, "worker/0", 1);
	s.trace.len = 0;
	sim_signal(&s, "chief/0", 9);
	sim_expect(&s, "task chief/0 #1 failed signal 9: chief/0 died of SIGKILL; restarting it (1 "
		       "of 3 restarts in 600 s)\n"
		       "job restarting g1: chief/0 died of SIGKILL; restarting it (1 of 3 restarts "
		       "in 600 s)\n"
		       "launch chief/0 #2 g1\n"
		       "launch worker/0 #2 g1\n");
	assert_ignored(&s, "worker/0", NULL);
	/* It would wait in vain. */
	sim_event(&s, TFC__AGENT_STARTED, "worker/0");
	sim_exit(&s, "worker/0", 1);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STOPPING);
	sim_fini(&s);
}

static void ignored_worker_that_lost_its_port_takes_the_group_along(void **state)
{
	struct sim s;
	servers(&s, 2);
	s.roles[1].restart_max = 0;
	sim_up(&s);
	sim_death(&s, "worker/0",
		  (struct tfc__attempt_end){TFC_EXIT_CODE, 1, .is_port_occupied = true}, NULL);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	sim_signal(&s, "chief/0", 9);
	s.trace.len = 0;
	sim_signal(&s, "worker/1", 9);
	sim_signal(&s, "ps/0", 9);
	sim_held_all(&s);
	sim_expect(&s, "task worker/1 #1 stopped consequence 9: worker/1 died of SIGKILL\n"
		       "task ps/0 #1 stopped consequence 9: ps/0 died of SIGKILL\n"
		       "release worker/0\n"
		       "hold worker/0\n"
		       "task worker/0 #1 holding\n"
		       "launch chief/0 #2 g2\n"
		       "launch worker/0 #2 g2\n"
		       "launch worker/1 #2 g2\n"
		       "launch ps/0 #2 g2\n");
	sim_fini(&s);
}

static void ignored_worker_belongs_to_the_next_generation(void **state)
{
	static const uint32_t nodes[] = {1, 1, 1, 2}, others[] = {1, 1, 1, 1};
	struct sim s;
	servers(&s, 2);
	sim_up_at(&s, nodes);
	sim_exit(&s, "worker/0", 1);
	sim_lost(&s, 2, "node b is down");
	sim_signal(&s, "chief/0", 9);
	sim_signal(&s, "worker/1", 9);
	s.trace.len = 0;
	sim_placed(&s, NULL, others, NULL);
	sim_held_all(&s);
	sim_expect(&s, "hold ps/0 at node 1\n"
		       "task ps/0 #1 holding\n"
		       "launch chief/0 #2 g2\n"
		       "launch worker/0 #2 g2\n"
		       "launch worker/1 #2 g2\n"
		       "launch ps/0 #2 g2\n");
	sim_fini(&s);
}

static void failed_sidecar_is_among_the_ignored(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	sim_role(&s, "tensorboard", 1, TFC__SCOPE_TASK);
	sim_up(&s);
	sim_exit(&s, "tensorboard/0", 1);
	assert_ignored(&s, "tensorboard/0", "tensorboard/0 exited with 1");
	sim_fini(&s);
}

/* ---- all whose success the job needs */

/* So many of one type that decide together, and whose failures are ignored. */
static void init_dispensable(struct sim *s, const char *type, uint32_t count)
{
	sim_init(s, TFC_STRATEGY_NONE, TFC__SUCCESS_ALL_WORKERS);
	struct tfc__core_role *role = sim_role(s, type, count, TFC__SCOPE_TASK);
	role->is_failure_ignored = true;
	role->restart_max = 0;
}

static void job_whose_workers_have_all_failed_has_failed(void **state)
{
	struct sim s;
	init_dispensable(&s, "worker", 2);
	sim_up(&s);
	sim_exit(&s, "worker/0", 1);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	s.trace.len = 0;
	sim_exit(&s, "worker/1", 3);
	sim_expect(&s, "task worker/1 #1 failed exit 3: worker/1 exited with 3\n"
		       "job stopping g1: worker/1 exited with 3; no task remains that could make "
		       "the job succeed\n"
		       "release worker/0\n"
		       "release worker/1\n"
		       "end failed exit 3 by worker/1 #1: worker/1 exited with 3; no task remains "
		       "that could make the job succeed\n");
	assert_ignored(&s, "worker/0", "worker/0 exited with 1");
	assert_ignored(&s, "worker/1", NULL);
	sim_fini(&s);
}

static void one_success_among_ignored_failures_is_enough(void **state)
{
	static const int first[] = {0, 1};
	for (int i = 0; i < 2; i++) {
		struct sim s;
		init_dispensable(&s, "worker", 2);
		sim_up(&s);
		sim_exit(&s, "worker/0", first[i]);
		assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
		sim_exit(&s, "worker/1", 1 - first[i]);
		assert_int_equal(s.end.state, TFC_JOB_SUCCEEDED);
		sim_fini(&s);
	}
}

/* An evaluator of its own, without a cluster: nobody else trains. */
static void failed_evaluator_that_is_alone_fails_the_job(void **state)
{
	struct sim s;
	init_dispensable(&s, "evaluator", 1);
	sim_up(&s);
	sim_exit(&s, "evaluator/0", 1);
	assert_int_equal(s.end.state, TFC_JOB_FAILED);
	sim_fini(&s);
}

/* It is ended because it hangs, and reaped after the other has failed. */
static void stalled_worker_that_is_reaped_last_fails_the_job(void **state)
{
	struct sim s;
	init_dispensable(&s, "worker", 2);
	s.policy.on_stall = TFC__STALL_RESTART;
	sim_up(&s);
	sim_stalled(&s, "worker/0", 5000, "idle");
	sim_stacked(&s, "worker/0", "");
	sim_exit(&s, "worker/1", 1);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	sim_signal(&s, "worker/0", 15);
	assert_int_equal(s.end.state, TFC_JOB_FAILED);
	assert_int_equal(s.end.reason, TFC_END_STALLED);
	assert_ignored(&s, "worker/1", "worker/1 exited with 1");
	sim_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(evaluator_is_tried_again_and_then_ignored),
		cmocka_unit_test(worker_whose_work_another_gets_is_done_without),
		cmocka_unit_test(worker_that_was_never_ready_fails_the_job),
		cmocka_unit_test(worker_that_was_ready_once_may_fail_before_it_is_again),
		cmocka_unit_test(worker_beside_one_that_is_not_ready_fails_the_job),
		cmocka_unit_test(worker_with_work_of_its_own_fails_the_job),
		cmocka_unit_test(ignored_worker_starts_again_with_its_coordinator),
		cmocka_unit_test(ignored_worker_that_lost_its_port_takes_the_group_along),
		cmocka_unit_test(ignored_worker_belongs_to_the_next_generation),
		cmocka_unit_test(failed_sidecar_is_among_the_ignored),
		cmocka_unit_test(job_whose_workers_have_all_failed_has_failed),
		cmocka_unit_test(one_success_among_ignored_failures_is_enough),
		cmocka_unit_test(failed_evaluator_that_is_alone_fails_the_job),
		cmocka_unit_test(stalled_worker_that_is_reaped_last_fails_the_job),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
