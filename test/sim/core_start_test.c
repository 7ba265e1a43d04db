/* cluster: traces of the maintainer's core: starts in which nobody listens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core_sim.h"

#define NOBODY_LISTENS                                                                      \
	"job running g1: no task listens on its port 30 s after the start (a program that " \
	"uses TF_CONFIG does); the job counts as running; if its program does not use "     \
	"TF_CONFIG, set framework to none\n"

/* As a job without a word about it has it. */
static void set_auto(struct sim *s)
{
	s->policy.start_deadline_ns = 600 * SIM_SECOND;
	s->policy.no_listener_ns = 30 * SIM_SECOND;
	for (uint32_t i = 0; i < s->policy.role_count; i++)
		s->roles[i].is_listening_assumed = true;
}

static void start_all(struct sim *s)
{
	sim_held_all(s);
	for (uint32_t i = 0; i < tfc__core_task_count(s->core); i++)
		sim_report(s, 0,
			   &(struct tfc__task_event){
				   .kind = TFC__AGENT_STARTED,
				   .task = i,
				   .attempt = tfc__core_attempt(s->core, i),
				   .pid = 1,
			   });
	s->trace.len = 0;
}

/* Two mirrored workers whose programs run, and do not listen. */
static void two_that_run(struct sim *s)
{
	sim_mirrored(s);
	set_auto(s);
	sim_start(s);
	start_all(s);
}

static void job_in_which_nobody_listens_counts_as_running(void **state)
{
	struct sim s;
	two_that_run(&s);
	sim_tick(&s, 29 * SIM_SECOND);
	sim_expect(&s, "");
	assert_int_equal(tfc__core_wake_at(s.core), s.now + SIM_SECOND);
	sim_tick(&s, SIM_SECOND);
	sim_expect(&s, NOBODY_LISTENS);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	sim_tick(&s, 570 * SIM_SECOND);
	sim_expect(&s, "");
	assert_int_equal(tfc__core_wake_at(s.core), 0);
	sim_exit(&s, "worker/0", 0);
	sim_exit(&s, "worker/1", 0);
	assert_int_equal(s.end.state, TFC_JOB_SUCCEEDED);
	sim_fini(&s);
}

static void job_in_which_nobody_listens_has_no_start_deadline_during_a_backoff(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	sim_role(&s, "evaluator", 1, TFC__SCOPE_TASK)->backoff_min_ns = 10 * SIM_SECOND;
	set_auto(&s);
	sim_start(&s);
	start_all(&s);
	sim_tick(&s, 595 * SIM_SECOND);
	sim_signal(&s, "evaluator/0", 9);
	s.trace.len = 0;
	sim_tick(&s, 5 * SIM_SECOND);
	sim_expect(&s, "");
	sim_fini(&s);
}

static void it_is_reported_once_and_after_each_start(void **state)
{
	struct sim s;
	two_that_run(&s);
	sim_tick(&s, 30 * SIM_SECOND);
	sim_signal(&s, "worker/1", 9);
	sim_signal(&s, "worker/0", 9);
	start_all(&s);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RESTARTING);
	sim_tick(&s, 30 * SIM_SECOND);
	sim_expect(&s, "job running g2\n");
	sim_fini(&s);
}

static void one_that_listens_keeps_the_start_deadline(void **state)
{
	struct sim s;
	two_that_run(&s);
	sim_event(&s, TFC__AGENT_READY, "worker/0");
	s.trace.len = 0;
	sim_tick(&s, 30 * SIM_SECOND);
	sim_expect(&s, "");
	sim_tick(&s, 570 * SIM_SECOND);
	sim_snapshot(&s, "worker/1", "not listening: idle");
	sim_expect(&s, "inspect 1\n"
		       "job stopping g1: the start deadline of 600 s has passed; waited for "
		       "worker/1 (not listening: idle)\n"
		       "stop worker/0 #1 1s\n"
		       "stop worker/1 #1 1s\n");
	sim_fini(&s);
}

/* A slow program: it has been given up when the first of its tasks listens. */
static void one_that_listens_late_brings_the_start_deadline_back(void **state)
{
	struct sim s;
	two_that_run(&s);
	sim_tick(&s, 30 * SIM_SECOND);
	sim_tick(&s, 30 * SIM_SECOND);
	sim_event(&s, TFC__AGENT_READY, "worker/0");
	assert_int_equal(tfc__core_wake_at(s.core), s.now + 540 * SIM_SECOND);
	s.trace.len = 0;
	sim_tick(&s, 540 * SIM_SECOND);
	sim_snapshot(&s, NULL, NULL);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STOPPING);
	sim_fini(&s);
}

static void all_that_listen_late_end_the_start(void **state)
{
	struct sim s;
	two_that_run(&s);
	sim_tick(&s, 60 * SIM_SECOND);
	sim_event(&s, TFC__AGENT_READY, "worker/0");
	sim_event(&s, TFC__AGENT_READY, "worker/1");
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	assert_int_equal(tfc__core_wake_at(s.core), 0);
	sim_fini(&s);
}

static void program_that_is_not_started_is_waited_for(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	set_auto(&s);
	sim_start(&s);
	sim_held_all(&s);
	sim_event(&s, TFC__AGENT_STARTED, "worker/0");
	s.trace.len = 0;
	sim_tick(&s, 30 * SIM_SECOND);
	sim_expect(&s, "");
	sim_event(&s, TFC__AGENT_STARTED, "worker/1");
	s.trace.len = 0;
	sim_tick(&s, 30 * SIM_SECOND);
	sim_expect(&s, NOBODY_LISTENS);
	sim_fini(&s);
}

/* TensorFlow's own server always does, and so does who says so: it is only slow. */
static void one_that_is_known_to_listen_is_waited_for(void **state)
{
	struct sim s;
	sim_parameter_server(&s);
	set_auto(&s);
	s.roles[2].is_listening_assumed = false;
	sim_start(&s);
	start_all(&s);
	sim_tick(&s, 30 * SIM_SECOND);
	sim_expect(&s, "");
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STARTING);
	sim_tick(&s, 570 * SIM_SECOND);
	sim_snapshot(&s, NULL, NULL);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STOPPING);
	sim_fini(&s);
}

static void tensorboard_that_listens_is_no_task_of_the_cluster(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	sim_role(&s, "tensorboard", 1, TFC__SCOPE_TASK)->is_ready_on_listen = true;
	set_auto(&s);
	sim_start(&s);
	start_all(&s);
	sim_event(&s, TFC__AGENT_READY, "tensorboard/0");
	s.trace.len = 0;
	sim_tick(&s, 30 * SIM_SECOND);
	sim_expect(&s, NOBODY_LISTENS);
	sim_fini(&s);
}

static void start_deadline_that_was_given_counts(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	set_auto(&s);
	s.policy.no_listener_ns = 0;
	sim_start(&s);
	start_all(&s);
	sim_tick(&s, 600 * SIM_SECOND);
	sim_snapshot(&s, NULL, NULL);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STOPPING);
	sim_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(job_in_which_nobody_listens_counts_as_running),
		cmocka_unit_test(
			job_in_which_nobody_listens_has_no_start_deadline_during_a_backoff),
		cmocka_unit_test(it_is_reported_once_and_after_each_start),
		cmocka_unit_test(one_that_listens_keeps_the_start_deadline),
		cmocka_unit_test(one_that_listens_late_brings_the_start_deadline_back),
		cmocka_unit_test(all_that_listen_late_end_the_start),
		cmocka_unit_test(program_that_is_not_started_is_waited_for),
		cmocka_unit_test(one_that_is_known_to_listen_is_waited_for),
		cmocka_unit_test(tensorboard_that_listens_is_no_task_of_the_cluster),
		cmocka_unit_test(start_deadline_that_was_given_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
