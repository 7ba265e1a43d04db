/* cluster: traces of the maintainer's core: a job that an earlier term has begun. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core_sim.h"

/* As sim_start, behind tfc__core_resume. */
static void resume(struct sim *s, const struct tfc__resume *what, const uint32_t *nodes)
{
	s->policy.roles = s->roles;
	s->core = tfc__core_new(&s->policy);
	assert_non_null(s->core);
	tfc__core_resume(s->core, what, nodes);
	sim_step(s, &(struct tfc__core_event){.kind = TFC__CORE_START});
}

/* Both workers ran, at nodes that are 4 and 5 now. */
static void resume_at_4_and_5(struct sim *s)
{
	static const struct tfc__resume_task tasks[] = {{1, false, true, "a"},
							{1, false, true, "b"}};
	static const struct tfc__resume was = {.generation = 1,
					       .job_state = TFC_JOB_RUNNING,
					       .tasks = tasks};
	static const uint32_t nodes[] = {4, 5};
	sim_mirrored(s);
	s->has_nodes = true;
	resume(s, &was, nodes);
}

static void job_goes_on_with_the_next_attempts(void **state)
{
	static const struct tfc__resume_task tasks[] = {{3, false, true, NULL},
							{2, false, true, NULL}};
	static const struct tfc__resume was = {.generation = 5,
					       .job_state = TFC_JOB_RUNNING,
					       .tasks = tasks};
	struct sim s;
	sim_mirrored(&s);
	resume(&s, &was, NULL);
	sim_expect(&s, "task worker/0 #3 lost lost 0: worker/0 was lost: its end was not observed, "
		       "because the job's maintainer had ended\n"
		       "task worker/1 #2 lost lost 0: worker/1 was lost: its end was not observed, "
		       "because the job's maintainer had ended\n"
		       "hold worker/0\n"
		       "hold worker/1\n");
	sim_held_all(&s);
	sim_expect(&s, "task worker/0 #3 holding\n"
		       "task worker/1 #2 holding\n"
		       "job starting g6\n"
		       "launch worker/0 #4 g6\n"
		       "launch worker/1 #3 g6\n");
	sim_fini(&s);
}

static void nodes_of_the_earlier_epoch_are_queried_first(void **state)
{
	static const uint8_t none[] = {TFC__PROC_NONE, TFC__PROC_NONE};
	struct sim s;
	resume_at_4_and_5(&s);
	sim_expect(&s, "query 1 at node 4\n"
		       "query 1 at node 5\n");
	sim_answer_of(&s, 4, none);
	sim_expect(&s, "");
	sim_lost(&s, 5, "it is down");
	sim_expect(&s, "task worker/0 #1 lost lost 0: worker/0 was lost: its end was not observed, "
		       "because the job's maintainer had ended\n"
		       "task worker/1 #1 lost lost 0: worker/1 was lost: its end was not observed, "
		       "because the job's maintainer had ended\n"
		       "place gang worker/0 worker/1\n");
	sim_fini(&s);
}

static void what_was_done_stays_done(void **state)
{
	static const struct tfc__resume_task tasks[] = {{2, false, false, NULL},
							{1, true, false, NULL},
							{1, false, false, NULL}};
	static const struct tfc__resume was = {.generation = 2,
					       .job_state = TFC_JOB_RUNNING,
					       .tasks = tasks};
	struct sim s;
	sim_parameter_server(&s);
	resume(&s, &was, NULL);
	sim_expect(&s, "hold chief/0\n"
		       "hold ps/0\n");
	sim_fini(&s);
}

static void gang_runs_again_unless_all_of_it_is_done(void **state)
{
	static const struct tfc__resume_task half[] = {{1, true, false, NULL},
						       {1, false, true, NULL}};
	static const struct tfc__resume_task all[] = {{1, true, false, NULL},
						      {1, true, false, NULL}};
	struct tfc__resume was = {.generation = 1, .job_state = TFC_JOB_RUNNING, .tasks = half};
	struct sim s;
	sim_mirrored(&s);
	resume(&s, &was, NULL);
	sim_expect(&s, "task worker/1 #1 lost lost 0: worker/1 was lost: its end was not observed, "
		       "because the job's maintainer had ended\n"
		       "hold worker/0\n"
		       "hold worker/1\n");
	sim_fini(&s);
	sim_mirrored(&s);
	was.tasks = all;
	resume(&s, &was, NULL);
	sim_expect(
		&s,
		"job stopping g1: all tasks had ended successfully before the job resumed\n"
		"end succeeded exit 0: all tasks had ended successfully before the job resumed\n");
	sim_fini(&s);
}

static void task_that_may_not_restart_fails_the_job(void **state)
{
	static const struct tfc__resume_task tasks[] = {{1, false, true, NULL},
							{1, false, true, NULL}};
	static const struct tfc__resume was = {.generation = 1,
					       .job_state = TFC_JOB_RUNNING,
					       .tasks = tasks};
	struct sim s;
	sim_mirrored(&s);
	s.roles[0].restart_on = TFC__RESTART_NEVER;
	resume(&s, &was, NULL);
	sim_expect(&s, "task worker/0 #1 lost lost 0: worker/0 was lost: its end was not observed, "
		       "because the job's maintainer had ended\n"
		       "job stopping g1: worker/0 was lost: its end was not observed, because the "
		       "job's maintainer had ended\n"
		       "task worker/1 #1 lost lost 0: worker/1 was lost: its end was not observed, "
		       "because the job's maintainer had ended\n"
		       "end failed lost 0 by worker/0 #1: worker/0 was lost: its end was not "
		       "observed, because the job's maintainer had ended\n");
	sim_fini(&s);
}

/* Its failure is ignored; later its group takes it along. */
static void task_that_was_lost_has_no_port_to_restart_with(void **state)
{
	static const struct tfc__resume_task tasks[] = {{1, false, true, "a"},
							{1, false, true, "a"}};
	static const struct tfc__resume was = {.generation = 1,
					       .job_state = TFC_JOB_RUNNING,
					       .tasks = tasks};
	static const uint32_t nodes[] = {4, 4};
	static const uint8_t none[] = {TFC__PROC_NONE, TFC__PROC_NONE};
	struct sim s;
	sim_init(&s, TFC_STRATEGY_MULTI_WORKER_MIRRORED, TFC__SUCCESS_CHIEF);
	sim_role(&s, "chief", 1, TFC__SCOPE_GROUP);
	struct tfc__core_role *worker = sim_role(&s, "worker", 1, TFC__SCOPE_GROUP);
	worker->restart_on = TFC__RESTART_NEVER;
	worker->is_failure_ignored = true;
	s.has_nodes = true;
	resume(&s, &was, nodes);
	sim_answer_of(&s, 4, none);
	sim_placed(&s, NULL, nodes, NULL);
	sim_held_all(&s);
	sim_ready_all(&s);
	sim_signal(&s, "chief/0", 9);
	assert_non_null(strstr(s.trace.data, "\nplace gang worker/0\n"));
	sim_fini(&s);
}

static void verdict_of_the_earlier_term_stands(void **state)
{
	static const struct tfc__resume_task tasks[] = {{1, false, true, NULL},
							{1, false, false, NULL}};
	static const struct {
		uint32_t reason;
		int32_t status;
		uint32_t task;
		const char *trace;
	} rows[] = {
		{TFC_END_STOPPED, 0, UINT32_MAX, "end stopped stopped 0: why\n"},
		{TFC_END_EXIT, 0, 1, "end succeeded exit 0 by worker/1 #1: why\n"},
		{TFC_END_EXIT, 3, 1, "end failed exit 3 by worker/1 #1: why\n"},
		{TFC_END_DEADLINE, 0, UINT32_MAX, "end failed deadline 0: why\n"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct tfc__resume was = {.generation = 1,
						.job_state = TFC_JOB_STOPPING,
						.reason = rows[i].reason,
						.status = rows[i].status,
						.task = rows[i].task,
						.text = "why",
						.tasks = tasks};
		char trace[320] = "task worker/0 #1 lost lost 0: worker/0 was lost: its end was "
				  "not observed, because the job's maintainer had ended\n";
		struct sim s;
		sim_mirrored(&s);
		resume(&s, &was, NULL);
		strcat(trace, rows[i].trace);
		sim_expect(&s, trace);
		sim_fini(&s);
	}
}

static void resumed_job_that_is_stopped_ends_when_nothing_can_run(void **state)
{
	static const uint8_t none[] = {TFC__PROC_NONE, TFC__PROC_NONE};
	struct sim s;
	resume_at_4_and_5(&s);
	s.trace.len = 0;
	sim_stop(&s, 0, false);
	sim_expect(&s, "job stopping g1\n");
	sim_lost(&s, 4, "it is down");
	sim_expect(&s, "");
	sim_answer_of(&s, 5, none);
	sim_expect(&s, "task worker/0 #1 lost lost 0: worker/0 was lost: its end was not observed, "
		       "because the job's maintainer had ended\n"
		       "task worker/1 #1 lost lost 0: worker/1 was lost: its end was not observed, "
		       "because the job's maintainer had ended\n"
		       "end stopped stopped 0: stopped\n");
	sim_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(job_goes_on_with_the_next_attempts),
		cmocka_unit_test(nodes_of_the_earlier_epoch_are_queried_first),
		cmocka_unit_test(what_was_done_stays_done),
		cmocka_unit_test(gang_runs_again_unless_all_of_it_is_done),
		cmocka_unit_test(task_that_may_not_restart_fails_the_job),
		cmocka_unit_test(task_that_was_lost_has_no_port_to_restart_with),
		cmocka_unit_test(verdict_of_the_earlier_term_stands),
		cmocka_unit_test(resumed_job_that_is_stopped_ends_when_nothing_can_run),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
