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

/* ---- scopes */

static void dead_chief_restarts_alone(void **state)
{
	struct sim s;
	parameter_server(&s);
	sim_up(&s);
	sim_signal(&s, "chief/0", 15);
	sim_expect(&s, "task chief/0 #1 failed signal 15: chief/0 died of SIGTERM; restarting it "
		       "(1 of 3 restarts in 600 s)\n"
		       "job restarting g1: chief/0 died of SIGTERM; restarting it (1 of 3 restarts "
		       "in 600 s)\n"
		       "launch chief/0 #2 g1\n"
		       "task chief/0 #2 starting\n");
	sim_ready_all(&s);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	assert_int_equal(tfc__core_generation(s.core), 1);
	sim_fini(&s);
}

static void dead_ps_restarts_with_the_chief_and_workers_stay(void **state)
{
	struct sim s;
	parameter_server(&s);
	sim_up(&s);
	sim_signal(&s, "ps/0", 9);
	sim_expect(&s, "task ps/0 #1 failed signal 9: ps/0 died of SIGKILL; restarting it with its "
		       "coordinator (1 of 3 restarts in 600 s)\n"
		       "job restarting g1: ps/0 died of SIGKILL; restarting it with its "
		       "coordinator (1 of 3 restarts in 600 s)\n"
		       "launch ps/0 #2 g1\n"
		       "task ps/0 #2 starting\n"
		       "stop chief/0 #1 1s\n");
	sim_exit(&s, "chief/0", 1);
	sim_expect(&s, "task chief/0 #1 stopped consequence 1: chief/0 exited with 1\n"
		       "launch chief/0 #2 g1\n"
		       "task chief/0 #2 starting\n");
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
		       "task ps/0 #2 starting\n"
		       "stop driver/0 #1 1s\n");
	sim_signal(&s, "driver/0", 15);
	sim_expect(&s, "task driver/0 #1 stopped consequence 15: driver/0 died of SIGTERM\n"
		       "launch driver/0 #2 g1\n"
		       "task driver/0 #2 starting\n");
	sim_fini(&s);
}

static void evaluator_outlives_a_group_restart(void **state)
{
	struct sim s;
	mirrored(&s);
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
		       "launch evaluator/0 #2 g2\n"
		       "task evaluator/0 #2 starting\n");
	sim_fini(&s);
}

/* ---- exit classes */

static void exit_classes_decide_between_restart_and_end(void **state)
{
	static const struct {
		struct tfc__death death;
		bool is_retried;
		uint32_t reason;
	} cases[] = {
		{{TFC_EXIT_SIGNAL, 9}, true, TFC_END_SIGNAL},
		{{TFC_EXIT_SIGNAL, 15}, true, TFC_END_SIGNAL},
		{{TFC_EXIT_SIGNAL, 2}, true, TFC_END_SIGNAL},
		{{TFC_EXIT_SIGNAL, 1}, true, TFC_END_SIGNAL},
		{{TFC_EXIT_SIGNAL, 6}, false, TFC_END_SIGNAL},
		{{TFC_EXIT_SIGNAL, 11}, false, TFC_END_SIGNAL},
		{{TFC_EXIT_CODE, 42}, true, TFC_END_EXIT},
		{{TFC_EXIT_CODE, 129}, true, TFC_END_EXIT},
		{{TFC_EXIT_CODE, 130}, true, TFC_END_EXIT},
		{{TFC_EXIT_CODE, 137}, true, TFC_END_EXIT},
		{{TFC_EXIT_CODE, 143}, true, TFC_END_EXIT},
		{{TFC_EXIT_CODE, 1}, false, TFC_END_EXIT},
		{{TFC_EXIT_CODE, 128}, false, TFC_END_EXIT},
		{{TFC_EXIT_CODE, 139}, false, TFC_END_EXIT},
		{{TFC_EXIT_CODE, 255}, false, TFC_END_EXIT},
		{{TFC_EXIT_SIGNAL, 9, .is_oom = true}, false, TFC_END_SIGNAL},
		{{TFC_EXIT_LOST, 0}, true, TFC_END_LOST},
		{{TFC_EXIT_NOT_STARTED, TFC_EAGAIN}, true, TFC_END_REFUSED},
		{{TFC_EXIT_NOT_STARTED, TFC_EMFILE}, true, TFC_END_REFUSED},
		{{TFC_EXIT_NOT_STARTED, TFC_ENOMEM}, true, TFC_END_REFUSED},
		{{TFC_EXIT_NOT_STARTED, TFC_ENOENT}, false, TFC_END_NOT_FOUND},
		{{TFC_EXIT_NOT_STARTED, TFC_ENOEXEC}, false, TFC_END_NOT_EXECUTABLE},
		{{TFC_EXIT_NOT_STARTED, TFC_EACCES}, false, TFC_END_NOT_EXECUTABLE},
		{{TFC_EXIT_NOT_STARTED, TFC_ECWD}, false, TFC_END_REFUSED},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sim s;
		parameter_server(&s);
		sim_up(&s);
		sim_death(&s, "worker/0", cases[i].death, "");
		uint32_t id = sim_task(&s, "worker/0");
		assert_int_equal(tfc__core_attempt(s.core, id), cases[i].is_retried ? 2 : 1);
		assert_int_equal(tfc__core_job_state(s.core),
				 cases[i].is_retried ? TFC_JOB_RUNNING : TFC_JOB_STOPPING);
		if (!cases[i].is_retried) {
			sim_signal(&s, "chief/0", 15);
			sim_signal(&s, "ps/0", 15);
			assert_int_equal(s.end.reason, cases[i].reason);
			assert_int_equal(s.end.task, id);
		}
		sim_fini(&s);
	}
}

static void out_of_memory_is_named_and_ends_the_job(void **state)
{
	struct sim s;
	mirrored(&s);
	sim_up(&s);
	sim_death(&s, "worker/1", (struct tfc__death){TFC_EXIT_SIGNAL, 9, .is_oom = true}, NULL);
	sim_expect(
		&s,
		"task worker/1 #1 failed signal 9: worker/1 died of SIGKILL: it was out of memory\n"
		"job stopping g1: worker/1 died of SIGKILL: it was out of memory\n"
		"stop worker/0 #1 1s\n");
	sim_signal(&s, "worker/0", 9);
	sim_expect(&s, "task worker/0 #1 stopped consequence 9: worker/0 died of SIGKILL\n"
		       "release worker/0\n"
		       "release worker/1\n"
		       "end failed signal 9 by worker/1 #1: worker/1 died of SIGKILL: it was out "
		       "of memory\n");
	sim_fini(&s);
}

static void restart_on_failure_restarts_every_nonzero_end(void **state)
{
	struct sim s;
	parameter_server(&s);
	s.roles[1].restart_on = TFC__RESTART_FAILURE;
	sim_up(&s);
	sim_exit(&s, "worker/0", 1);
	sim_expect(&s, "task worker/0 #1 failed exit 1: worker/0 exited with 1; restarting it (1 "
		       "of 3 restarts in 600 s)\n"
		       "launch worker/0 #2 g1\n"
		       "task worker/0 #2 starting\n");
	sim_fini(&s);
}

static void restart_on_never_ends_the_job_at_a_kill(void **state)
{
	struct sim s;
	mirrored(&s);
	s.roles[0].restart_on = TFC__RESTART_NEVER;
	sim_up(&s);
	sim_signal(&s, "worker/1", 9);
	sim_exit(&s, "worker/0", 1);
	sim_expect(&s, "task worker/1 #1 failed signal 9: worker/1 died of SIGKILL\n"
		       "job stopping g1: worker/1 died of SIGKILL\n"
		       "stop worker/0 #1 1s\n"
		       "task worker/0 #1 stopped consequence 1: worker/0 exited with 1\n"
		       "release worker/0\n"
		       "release worker/1\n"
		       "end failed signal 9 by worker/1 #1: worker/1 died of SIGKILL\n");
	sim_fini(&s);
}

static void missing_program_ends_the_job_and_says_what_is_missing(void **state)
{
	struct sim s;
	mirrored(&s);
	s.roles[0].count = 1;
	sim_start(&s);
	sim_event(&s, TFC__CORE_HELD, "worker/0");
	s.trace.len = 0;
	sim_death(&s, "worker/0", (struct tfc__death){TFC_EXIT_NOT_STARTED, TFC_ENOENT},
		  "pyton3: not found in PATH");
	sim_expect(&s, "task worker/0 #1 failed not_found -10: worker/0 could not be started: "
		       "pyton3: not found in PATH\n"
		       "job stopping g1: worker/0 could not be started: pyton3: not found in PATH\n"
		       "release worker/0\n"
		       "end failed not_found 0 by worker/0 #1: worker/0 could not be started: "
		       "pyton3: not found in PATH\n");
	sim_fini(&s);
}

static void refused_attempt_ends_the_job(void **state)
{
	struct sim s;
	mirrored(&s);
	s.roles[0].count = 1;
	sim_start(&s);
	sim_event(&s, TFC__CORE_HELD, "worker/0");
	s.trace.len = 0;
	sim_step(&s, &(struct tfc__core_event){.kind = TFC__CORE_REFUSED,
					       .attempt = 1,
					       .text = "TF_CONFIG is too long"});
	sim_expect(&s, "task worker/0 #1 failed refused -1: worker/0 could not be started: "
		       "TF_CONFIG is too long\n"
		       "job stopping g1: worker/0 could not be started: TF_CONFIG is too long\n"
		       "release worker/0\n"
		       "end failed refused 0 by worker/0 #1: worker/0 could not be started: "
		       "TF_CONFIG is too long\n");
	sim_fini(&s);
}

/* ---- cause, not consequence */

static void permanent_exit_of_a_healthy_group_ends_the_job(void **state)
{
	struct sim s;
	mirrored(&s);
	sim_up(&s);
	sim_exit(&s, "worker/0", 1);
	sim_expect(&s, "query 1\n");
	sim_answer(&s, NULL, TFC__PROC_NONE);
	sim_expect(&s, "task worker/0 #1 failed exit 1: worker/0 exited with 1\n"
		       "job stopping g1: worker/0 exited with 1\n"
		       "stop worker/1 #1 1s\n");
	sim_signal(&s, "worker/1", 9);
	sim_expect(&s, "task worker/1 #1 stopped consequence 9: worker/1 died of SIGKILL\n"
		       "release worker/0\n"
		       "release worker/1\n"
		       "end failed exit 1 by worker/0 #1: worker/0 exited with 1\n");
	sim_fini(&s);
}

static void peer_killed_takes_the_blame_for_an_exit_told_first(void **state)
{
	struct sim s;
	mirrored(&s);
	sim_up(&s);
	sim_exit(&s, "worker/0", 1);
	sim_expect(&s, "query 1\n");
	sim_signal(&s, "worker/1", 9);
	sim_expect(&s, "task worker/1 #1 failed signal 9: worker/1 died of SIGKILL; restarting the "
		       "group (1 of 3 restarts in 600 s)\n"
		       "task worker/0 #1 failed consequence 1: worker/0 exited with 1\n"
		       "job restarting g1: worker/1 died of SIGKILL; restarting the group (1 of 3 "
		       "restarts in 600 s)\n"
		       "launch worker/0 #2 g2\n"
		       "task worker/0 #2 starting\n"
		       "launch worker/1 #2 g2\n"
		       "task worker/1 #2 starting\n");
	sim_answer(&s, NULL, TFC__PROC_NONE); /* too late to matter */
	sim_expect(&s, "");
	sim_fini(&s);
}

static void answer_to_an_older_query_is_no_answer(void **state)
{
	struct sim s;
	mirrored(&s);
	sim_up(&s);
	sim_exit(&s, "worker/0", 1);
	sim_signal(&s, "worker/1", 9);
	sim_ready_all(&s);
	sim_exit(&s, "worker/0", 1);
	sim_expect(&s, "query 2\n");
	s.query = 1;
	sim_answer(&s, NULL, TFC__PROC_NONE);
	sim_expect(&s, "");
	s.query = 2;
	sim_answer(&s, NULL, TFC__PROC_NONE);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STOPPING);
	sim_fini(&s);
}

static void lost_host_never_fails_the_job_by_its_peers_exit_codes(void **state)
{
	struct sim s;
	mirrored(&s);
	sim_up(&s);
	sim_exit(&s, "worker/0", 1);
	s.now += 20 * SIM_SECOND; /* membership takes its time */
	sim_death(&s, "worker/1", (struct tfc__death){.reason = TFC_EXIT_LOST}, NULL);
	sim_expect(&s, "query 1\n"
		       "task worker/1 #1 lost lost 0: worker/1 was lost; restarting the group (1 "
		       "of 2 losses in 3600 s)\n"
		       "task worker/0 #1 failed consequence 1: worker/0 exited with 1\n"
		       "job restarting g1: worker/1 was lost; restarting the group (1 of 2 losses "
		       "in 3600 s)\n"
		       "launch worker/0 #2 g2\n"
		       "task worker/0 #2 starting\n"
		       "launch worker/1 #2 g2\n"
		       "task worker/1 #2 starting\n");
	sim_fini(&s);
}

static void stopped_peer_takes_the_blame(void **state)
{
	struct sim s;
	mirrored(&s);
	sim_up(&s);
	s.now += 8 * SIM_SECOND;
	sim_exit(&s, "worker/0", 1);
	sim_answer(&s, "worker/1", TFC__PROC_STOPPED);
	sim_expect(&s, "query 1\n"
		       "task worker/0 #1 failed consequence 1: worker/0 exited with 1\n"
		       "job restarting g1: worker/1 is stopped (SIGSTOP); restarting the group (1 "
		       "of 3 restarts in 600 s)\n"
		       "stop worker/1 #1 1s\n");
	sim_signal(&s, "worker/1", 9);
	sim_expect(&s, "task worker/1 #1 failed signal 9: worker/1 died of SIGKILL\n"
		       "launch worker/0 #2 g2\n"
		       "task worker/0 #2 starting\n"
		       "launch worker/1 #2 g2\n"
		       "task worker/1 #2 starting\n");
	sim_fini(&s);
}

static void peer_without_a_process_takes_the_blame_and_counts_as_lost(void **state)
{
	struct sim s;
	mirrored(&s);
	sim_up(&s);
	sim_exit(&s, "worker/0", 1);
	sim_answer(&s, "worker/1", TFC__PROC_NONE);
	sim_expect(&s, "query 1\n"
		       "task worker/0 #1 failed consequence 1: worker/0 exited with 1\n"
		       "job restarting g1: worker/1 is not running; restarting the group (1 of 2 "
		       "losses in 3600 s)\n"
		       "stop worker/1 #1 1s\n");
	sim_fini(&s);
}

static void earliest_of_several_failures_decides(void **state)
{
	struct sim s;
	mirrored(&s);
	sim_up(&s);
	sim_exit(&s, "worker/0", 1);
	sim_death(&s, "worker/1",
		  (struct tfc__death){TFC_EXIT_CODE, 3, .time_ns = s.now - SIM_SECOND}, NULL);
	sim_answer(&s, NULL, TFC__PROC_NONE);
	sim_expect(&s, "query 1\n"
		       "task worker/1 #1 failed exit 3: worker/1 exited with 3\n"
		       "task worker/0 #1 failed consequence 1: worker/0 exited with 1\n"
		       "job stopping g1: worker/1 exited with 3\n"
		       "release worker/0\n"
		       "release worker/1\n"
		       "end failed exit 3 by worker/1 #1: worker/1 exited with 3\n");
	sim_fini(&s);
}

static void ps_takes_the_blame_for_a_chief_whose_exit_is_told_first(void **state)
{
	struct sim s;
	parameter_server(&s);
	sim_up(&s);
	sim_exit(&s, "chief/0", 1);
	sim_expect(&s, "query 1\n");
	sim_signal(&s, "ps/0", 9);
	sim_expect(&s, "task ps/0 #1 failed signal 9: ps/0 died of SIGKILL; restarting it with its "
		       "coordinator (1 of 3 restarts in 600 s)\n"
		       "job restarting g1: ps/0 died of SIGKILL; restarting it with its "
		       "coordinator (1 of 3 restarts in 600 s)\n"
		       "launch ps/0 #2 g1\n"
		       "task ps/0 #2 starting\n"
		       "task chief/0 #1 failed consequence 1: chief/0 exited with 1\n"
		       "launch chief/0 #2 g1\n"
		       "task chief/0 #2 starting\n");
	sim_fini(&s);
}

static void frozen_ps_is_reaped_before_the_chief_starts_again(void **state)
{
	struct sim s;
	parameter_server(&s);
	sim_up(&s);
	sim_exit(&s, "chief/0", 1);
	sim_answer(&s, "ps/0", TFC__PROC_STOPPED);
	sim_expect(&s, "query 1\n"
		       "job restarting g1: ps/0 is stopped (SIGSTOP); restarting it with its "
		       "coordinator (1 of 3 restarts in 600 s)\n"
		       "stop ps/0 #1 1s\n"
		       "task chief/0 #1 failed consequence 1: chief/0 exited with 1\n");
	sim_signal(&s, "ps/0", 9);
	sim_expect(&s, "task ps/0 #1 failed signal 9: ps/0 died of SIGKILL\n"
		       "launch ps/0 #2 g1\n"
		       "task ps/0 #2 starting\n"
		       "launch chief/0 #2 g1\n"
		       "task chief/0 #2 starting\n");
	sim_fini(&s);
}

static void chief_that_fails_beside_a_healthy_ps_ends_the_job(void **state)
{
	struct sim s;
	parameter_server(&s);
	sim_up(&s);
	sim_exit(&s, "chief/0", 1);
	sim_answer(&s, "worker/0", TFC__PROC_STOPPED); /* never explains a chief's exit */
	sim_expect(&s, "query 1\n"
		       "task chief/0 #1 failed exit 1: chief/0 exited with 1\n"
		       "job stopping g1: chief/0 exited with 1\n"
		       "stop worker/0 #1 1s\n"
		       "stop ps/0 #1 1s\n");
	sim_fini(&s);
}

/* ---- budgets */

static void used_up_budget_ends_the_job_and_says_so(void **state)
{
	struct sim s;
	parameter_server(&s);
	s.roles[1].restart_max = 1;
	sim_up(&s);
	sim_signal(&s, "worker/0", 9);
	sim_ready_all(&s);
	sim_signal(&s, "worker/0", 9);
	sim_expect(
		&s,
		"task worker/0 #2 failed signal 9: worker/0 died of SIGKILL; its restarts are used "
		"up (1 in 600 s)\n"
		"job stopping g1: worker/0 died of SIGKILL; its restarts are used up (1 in 600 s)\n"
		"stop chief/0 #1 1s\n"
		"stop ps/0 #1 1s\n");
	sim_fini(&s);
}

static void budget_comes_back_when_the_window_has_passed(void **state)
{
	struct sim s;
	parameter_server(&s);
	s.roles[1].restart_max = 1;
	sim_up(&s);
	sim_signal(&s, "worker/0", 9);
	sim_ready_all(&s);
	s.now += 600 * SIM_SECOND;
	assert_int_equal(tfc__core_budget_left(s.core, 1, s.now), 1);
	sim_signal(&s, "worker/0", 9);
	assert_int_equal(tfc__core_attempt(s.core, sim_task(&s, "worker/0")), 3);
	sim_fini(&s);
}

static void large_budget_is_kept_exactly_enough(void **state)
{
	struct sim s;
	parameter_server(&s);
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
	parameter_server(&s);
	s.roles[1].restart_max = 20;
	sim_up(&s);
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
		sim_step(&s, &(struct tfc__core_event){.kind = TFC__CORE_EXITED,
						       .task = i,
						       .attempt = 1,
						       .death = {TFC_EXIT_SIGNAL, 9}});
	s.trace.len = 0;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(tfc__core_wake_at(s.core), s.now + SIM_SECOND);
		sim_tick(&s, SIM_SECOND);
	}
	sim_expect(&s, "launch a/0 #2 g1\n"
		       "task a/0 #2 starting\n"
		       "launch c/0 #2 g1\n"
		       "task c/0 #2 starting\n"
		       "launch b/0 #2 g1\n"
		       "task b/0 #2 starting\n"
		       "launch d/0 #2 g1\n"
		       "task d/0 #2 starting\n");
	sim_fini(&s);
}

static void losses_have_a_budget_of_their_own(void **state)
{
	struct sim s;
	parameter_server(&s);
	s.roles[1].restart_max = 0;
	sim_up(&s);
	for (int i = 0; i < 2; i++) {
		sim_death(&s, "worker/0", (struct tfc__death){.reason = TFC_EXIT_LOST}, NULL);
		if (tfc__core_wake_at(s.core))
			sim_tick(&s, SIM_SECOND);
		sim_ready_all(&s);
	}
	sim_death(&s, "worker/0", (struct tfc__death){.reason = TFC_EXIT_LOST}, NULL);
	sim_expect(&s, "task worker/0 #3 lost lost 0: worker/0 was lost; the losses it may have "
		       "are used up (2 in 3600 s)\n"
		       "job stopping g1: worker/0 was lost; the losses it may have are used up (2 "
		       "in 3600 s)\n"
		       "stop chief/0 #1 1s\n"
		       "stop ps/0 #1 1s\n");
	sim_fini(&s);
}

static void preemption_is_paid_for_like_a_loss(void **state)
{
	struct sim s;
	parameter_server(&s);
	s.roles[1].restart_max = 0;
	sim_up(&s);
	sim_exit(&s, "worker/0", 42);
	sim_expect(&s, "task worker/0 #1 failed exit 42: worker/0 exited with 42; restarting it (1 "
		       "of 2 losses in 3600 s)\n"
		       "launch worker/0 #2 g1\n"
		       "task worker/0 #2 starting\n");
	sim_fini(&s);
}

/* ---- success */

static void chief_decides_and_servers_are_stopped(void **state)
{
	struct sim s;
	parameter_server(&s);
	sim_role(&s, "tensorboard", 1, TFC__SCOPE_TASK);
	sim_up(&s);
	sim_exit(&s, "chief/0", 0);
	sim_expect(&s, "task chief/0 #1 exited exit 0: chief/0 exited with 0\n"
		       "job stopping g1: chief/0 exited with 0\n"
		       "stop worker/0 #1 10s\n"
		       "stop ps/0 #1 10s\n"
		       "stop tensorboard/0 #1 10s\n");
	sim_signal(&s, "worker/0", 15);
	sim_signal(&s, "ps/0", 15);
	sim_exit(&s, "tensorboard/0", 0);
	sim_expect(&s, "task worker/0 #1 stopped stopped 15: worker/0 died of SIGTERM\n"
		       "task ps/0 #1 stopped stopped 15: ps/0 died of SIGTERM\n"
		       "task tensorboard/0 #1 stopped stopped 0: tensorboard/0 exited with 0\n"
		       "release chief/0\n"
		       "release worker/0\n"
		       "release ps/0\n"
		       "release tensorboard/0\n"
		       "end succeeded exit 0 by chief/0 #1: chief/0 exited with 0\n");
	sim_fini(&s);
}

static void mirrored_peers_may_finish_and_their_failure_is_none(void **state)
{
	struct sim s;
	sim_init(&s, TFC_STRATEGY_MULTI_WORKER_MIRRORED, TFC__SUCCESS_CHIEF);
	sim_role(&s, "chief", 1, TFC__SCOPE_GROUP);
	sim_role(&s, "worker", 2, TFC__SCOPE_GROUP);
	sim_up(&s);
	sim_exit(&s, "chief/0", 0);
	sim_expect(&s, "task chief/0 #1 exited exit 0: chief/0 exited with 0\n"
		       "job stopping g1: chief/0 exited with 0\n");
	s.now += SIM_SECOND;
	sim_exit(&s, "worker/0", 1);
	sim_expect(&s, "task worker/0 #1 exited exit 1: worker/0 exited with 1\n");
	assert_int_equal(tfc__core_wake_at(s.core), s.now + 29 * SIM_SECOND);
	sim_tick(&s, 29 * SIM_SECOND);
	sim_expect(&s, "stop worker/1 #1 10s\n");
	sim_signal(&s, "worker/1", 9);
	sim_expect(&s, "task worker/1 #1 stopped stopped 9: worker/1 died of SIGKILL\n"
		       "release chief/0\n"
		       "release worker/0\n"
		       "release worker/1\n"
		       "end succeeded exit 0 by chief/0 #1: chief/0 exited with 0\n");
	sim_fini(&s);
}

static void evaluator_may_finish_its_last_evaluation(void **state)
{
	struct sim s;
	parameter_server(&s);
	sim_role(&s, "evaluator", 1, TFC__SCOPE_TASK)->finish_ns = 60 * SIM_SECOND;
	sim_up(&s);
	sim_exit(&s, "chief/0", 0);
	sim_signal(&s, "worker/0", 15);
	sim_signal(&s, "ps/0", 15);
	s.trace.len = 0;
	sim_tick(&s, 59 * SIM_SECOND);
	sim_expect(&s, "");
	sim_tick(&s, SIM_SECOND);
	sim_expect(&s, "stop evaluator/0 #1 10s\n");
	sim_signal(&s, "evaluator/0", 15);
	sim_expect(&s, "task evaluator/0 #1 stopped stopped 15: evaluator/0 died of SIGTERM\n"
		       "release chief/0\n"
		       "release worker/0\n"
		       "release ps/0\n"
		       "release evaluator/0\n"
		       "end succeeded exit 0 by chief/0 #1: chief/0 exited with 0\n");
	sim_fini(&s);
}

static void worker0_decides_where_it_is_asked_to(void **state)
{
	struct sim s;
	sim_init(&s, TFC_STRATEGY_NONE, TFC__SUCCESS_WORKER0);
	sim_role(&s, "worker", 2, TFC__SCOPE_TASK)->finish_ns = 0;
	sim_up(&s);
	sim_exit(&s, "worker/1", 0);
	sim_expect(&s, "task worker/1 #1 exited exit 0: worker/1 exited with 0\n");
	sim_exit(&s, "worker/0", 0);
	sim_expect(&s, "task worker/0 #1 exited exit 0: worker/0 exited with 0\n"
		       "job stopping g1: worker/0 exited with 0\n"
		       "release worker/0\n"
		       "release worker/1\n"
		       "end succeeded exit 0 by worker/0 #1: worker/0 exited with 0\n");
	sim_fini(&s);
}

static void task_that_ended_with_0_is_not_restarted(void **state)
{
	struct sim s;
	parameter_server(&s);
	sim_up(&s);
	sim_exit(&s, "worker/0", 0);
	sim_expect(&s, "task worker/0 #1 exited exit 0: worker/0 exited with 0\n");
	sim_signal(&s, "ps/0", 9);
	sim_exit(&s, "chief/0", 1);
	sim_ready_all(&s);
	assert_int_equal(tfc__core_attempt(s.core, sim_task(&s, "worker/0")), 1);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	sim_fini(&s);
}

static void mirrored_worker_that_was_done_joins_the_next_generation(void **state)
{
	struct sim s;
	mirrored(&s);
	sim_up(&s);
	sim_exit(&s, "worker/0", 0);
	s.trace.len = 0;
	sim_signal(&s, "worker/1", 9);
	sim_expect(&s, "task worker/1 #1 failed signal 9: worker/1 died of SIGKILL; restarting the "
		       "group (1 of 3 restarts in 600 s)\n"
		       "job restarting g1: worker/1 died of SIGKILL; restarting the group (1 of 3 "
		       "restarts in 600 s)\n"
		       "launch worker/0 #2 g2\n"
		       "task worker/0 #2 starting\n"
		       "launch worker/1 #2 g2\n"
		       "task worker/1 #2 starting\n");
	sim_ready_all(&s);
	sim_exit(&s, "worker/1", 0);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	sim_exit(&s, "worker/0", 0);
	assert_int_equal(s.end.state, TFC_JOB_SUCCEEDED);
	sim_fini(&s);
}

static void success_does_not_wait_for_a_worker_in_backoff(void **state)
{
	struct sim s;
	parameter_server(&s);
	s.roles[1].backoff_min_ns = SIM_SECOND;
	sim_up(&s);
	sim_signal(&s, "worker/0", 9);
	sim_exit(&s, "chief/0", 0);
	sim_signal(&s, "ps/0", 15);
	sim_expect(&s, "task worker/0 #1 failed signal 9: worker/0 died of SIGKILL; restarting it "
		       "in 1.0 s (1 of 3 restarts in 600 s)\n"
		       "task chief/0 #1 exited exit 0: chief/0 exited with 0\n"
		       "job stopping g1: chief/0 exited with 0\n"
		       "stop ps/0 #1 10s\n"
		       "task ps/0 #1 stopped stopped 15: ps/0 died of SIGTERM\n"
		       "release chief/0\n"
		       "release worker/0\n"
		       "release ps/0\n"
		       "end succeeded exit 0 by chief/0 #1: chief/0 exited with 0\n");
	assert_int_equal(tfc__core_wake_at(s.core), 0);
	sim_fini(&s);
}

static void chief_done_before_the_abort_reached_it_is_a_success(void **state)
{
	struct sim s;
	sim_init(&s, TFC_STRATEGY_MULTI_WORKER_MIRRORED, TFC__SUCCESS_CHIEF);
	sim_role(&s, "chief", 1, TFC__SCOPE_GROUP);
	sim_role(&s, "worker", 1, TFC__SCOPE_GROUP);
	sim_up(&s);
	sim_signal(&s, "worker/0", 9);
	s.trace.len = 0;
	sim_death(&s, "chief/0", (struct tfc__death){TFC_EXIT_CODE, 0, .time_ns = s.now - 1}, NULL);
	sim_expect(&s, "task chief/0 #1 exited exit 0: chief/0 exited with 0\n"
		       "job stopping g1: chief/0 exited with 0\n"
		       "release chief/0\n"
		       "release worker/0\n"
		       "end succeeded exit 0 by chief/0 #1: chief/0 exited with 0\n");
	sim_fini(&s);
}

static void exit_0_after_an_abort_is_no_success(void **state)
{
	struct sim s;
	sim_init(&s, TFC_STRATEGY_MULTI_WORKER_MIRRORED, TFC__SUCCESS_CHIEF);
	sim_role(&s, "chief", 1, TFC__SCOPE_GROUP);
	sim_role(&s, "worker", 1, TFC__SCOPE_GROUP);
	sim_up(&s);
	sim_signal(&s, "worker/0", 9);
	s.trace.len = 0;
	s.now += SIM_SECOND / 10;
	sim_exit(&s, "chief/0", 0);
	sim_expect(&s, "task chief/0 #1 stopped consequence 0: chief/0 exited with 0\n"
		       "launch chief/0 #2 g2\n"
		       "task chief/0 #2 starting\n"
		       "launch worker/0 #2 g2\n"
		       "task worker/0 #2 starting\n");
	sim_fini(&s);
}

/* ---- who fails the job */

static void failing_sidecar_is_told_and_the_job_goes_on(void **state)
{
	struct sim s;
	mirrored(&s);
	sim_role(&s, "tensorboard", 1, TFC__SCOPE_TASK);
	sim_up(&s);
	sim_exit(&s, "tensorboard/0", 1);
	sim_expect(&s, "task tensorboard/0 #1 failed exit 1: tensorboard/0 exited with 1\n");
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	sim_fini(&s);
}

static void failing_evaluator_fails_the_job_unless_ignored(void **state)
{
	for (int is_ignored = 0; is_ignored < 2; is_ignored++) {
		struct sim s;
		mirrored(&s);
		sim_role(&s, "evaluator", 1, TFC__SCOPE_TASK)->is_failure_ignored = is_ignored;
		sim_up(&s);
		sim_exit(&s, "evaluator/0", 1);
		assert_int_equal(tfc__core_job_state(s.core),
				 is_ignored ? TFC_JOB_RUNNING : TFC_JOB_STOPPING);
		sim_fini(&s);
	}
}

/* ---- deadlines */

static void start_deadline_names_what_it_waits_for(void **state)
{
	struct sim s;
	mirrored(&s);
	s.roles[0].count = 3;
	s.policy.start_deadline_ns = 10 * SIM_SECOND;
	sim_start(&s);
	for (int i = 0; i < 3; i++)
		sim_step(&s,
			 &(struct tfc__core_event){.kind = TFC__CORE_HELD, .task = (uint32_t)i});
	sim_event(&s, TFC__CORE_STARTED, "worker/0");
	sim_event(&s, TFC__CORE_READY, "worker/0");
	sim_event(&s, TFC__CORE_STARTED, "worker/1");
	assert_int_equal(tfc__core_wake_at(s.core), s.now + 10 * SIM_SECOND);
	s.trace.len = 0;
	sim_tick(&s, 10 * SIM_SECOND);
	sim_expect(&s, "job stopping g1: the start deadline of 10 s has passed; waited for "
		       "worker/1 (not listening), worker/2 (not started)\n"
		       "stop worker/0 #1 1s\n"
		       "stop worker/1 #1 1s\n"
		       "stop worker/2 #1 1s\n");
	sim_fini(&s);
}

static void start_deadline_runs_again_for_each_generation(void **state)
{
	struct sim s;
	mirrored(&s);
	s.policy.start_deadline_ns = 10 * SIM_SECOND;
	sim_up(&s);
	assert_int_equal(tfc__core_wake_at(s.core), 0);
	s.now += 100 * SIM_SECOND;
	sim_signal(&s, "worker/1", 9);
	s.now += SIM_SECOND;
	sim_exit(&s, "worker/0", 1);
	assert_int_equal(tfc__core_wake_at(s.core), s.now + 10 * SIM_SECOND);
	sim_tick(&s, 10 * SIM_SECOND);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STOPPING);
	sim_fini(&s);
}

static void deadline_stops_the_job_with_the_whole_grace(void **state)
{
	struct sim s;
	mirrored(&s);
	s.roles[0].count = 1;
	s.policy.deadline_ns = 60 * SIM_SECOND;
	sim_up(&s);
	assert_int_equal(tfc__core_wake_at(s.core), s.now + 60 * SIM_SECOND);
	sim_tick(&s, 60 * SIM_SECOND);
	sim_exit(&s, "worker/0", 0);
	sim_expect(&s, "job stopping g1: the deadline of 60 s has passed\n"
		       "stop worker/0 #1 10s\n"
		       "task worker/0 #1 stopped stopped 0: worker/0 exited with 0\n"
		       "release worker/0\n"
		       "end failed deadline 0: the deadline of 60 s has passed\n");
	sim_fini(&s);
}

/* ---- ports */

static void missing_ports_end_the_job_and_give_back_the_others(void **state)
{
	struct sim s;
	mirrored(&s);
	s.roles[0].count = 3;
	sim_start(&s);
	sim_event(&s, TFC__CORE_HELD, "worker/0");
	s.trace.len = 0;
	sim_step(&s, &(struct tfc__core_event){.kind = TFC__CORE_HOLD_FAILED,
					       .task = 1,
					       .count = 2,
					       .text = "no free port is left in 20000-20000"});
	sim_expect(
		&s,
		"job stopping g1: 2 ports are missing: no free port is left in 20000-20000\n"
		"release worker/2\n"
		"release worker/0\n"
		"end failed refused 0: 2 ports are missing: no free port is left in 20000-20000\n");
	sim_fini(&s);
}

static void stranger_moves_the_task_and_restarts_the_cluster(void **state)
{
	struct sim s;
	parameter_server(&s);
	sim_up(&s);
	sim_death(&s, "worker/0", (struct tfc__death){TFC_EXIT_CODE, 1, .is_stranger = true},
		  "uid 1000 listens on port 20001");
	sim_expect(&s,
		   "task worker/0 #1 failed stranger 1: worker/0 has a stranger on its port: uid "
		   "1000 listens on port 20001; restarting the group (1 of 3 restarts in 600 s)\n"
		   "job restarting g1: worker/0 has a stranger on its port: uid 1000 listens on "
		   "port 20001; restarting the group (1 of 3 restarts in 600 s)\n"
		   "stop chief/0 #1 1s\n"
		   "stop ps/0 #1 1s\n");
	sim_signal(&s, "chief/0", 15);
	sim_signal(&s, "ps/0", 15);
	sim_expect(&s, "task chief/0 #1 stopped consequence 15: chief/0 died of SIGTERM\n"
		       "task ps/0 #1 stopped consequence 15: ps/0 died of SIGTERM\n"
		       "release worker/0\n"
		       "hold worker/0\n");
	sim_event(&s, TFC__CORE_HELD, "worker/0");
	sim_expect(&s, "task worker/0 #1 holding\n"
		       "launch chief/0 #2 g2\n"
		       "task chief/0 #2 starting\n"
		       "launch worker/0 #2 g2\n"
		       "task worker/0 #2 starting\n"
		       "launch ps/0 #2 g2\n"
		       "task ps/0 #2 starting\n");
	sim_fini(&s);
}

static void stranger_moves_a_sidecar_alone(void **state)
{
	struct sim s;
	mirrored(&s);
	sim_role(&s, "tensorboard", 1, TFC__SCOPE_TASK);
	sim_up(&s);
	sim_death(&s, "tensorboard/0", (struct tfc__death){TFC_EXIT_CODE, 1, .is_stranger = true},
		  NULL);
	sim_event(&s, TFC__CORE_HELD, "tensorboard/0");
	sim_expect(&s, "task tensorboard/0 #1 failed stranger 1: tensorboard/0 has a stranger on "
		       "its port; restarting it (1 of 3 restarts in 600 s)\n"
		       "release tensorboard/0\n"
		       "hold tensorboard/0\n"
		       "task tensorboard/0 #1 holding\n"
		       "launch tensorboard/0 #2 g1\n"
		       "task tensorboard/0 #2 starting\n");
	sim_fini(&s);
}

/* ---- a user's stop */

static void stop_gives_the_whole_grace_and_ends_as_stopped(void **state)
{
	struct sim s;
	parameter_server(&s);
	sim_up(&s);
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
	mirrored(&s);
	sim_up(&s);
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
	mirrored(&s);
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
	mirrored(&s);
	sim_start(&s);
	sim_event(&s, TFC__CORE_HELD, "worker/0");
	s.trace.len = 0;
	sim_stop(&s, SIM_SECOND, false);
	sim_expect(&s, "job stopping g1\n"
		       "release worker/1\n"
		       "release worker/0\n"
		       "end stopped stopped 0: stopped\n");
	sim_event(&s, TFC__CORE_HELD, "worker/1");
	sim_expect(&s, "");
	sim_fini(&s);
}

static void stop_while_starting_stops_what_cannot_be_interrupted(void **state)
{
	struct sim s;
	mirrored(&s);
	sim_start(&s);
	sim_event(&s, TFC__CORE_HELD, "worker/0");
	sim_event(&s, TFC__CORE_HELD, "worker/1");
	sim_event(&s, TFC__CORE_STARTED, "worker/0");
	s.trace.len = 0;
	sim_stop(&s, SIM_SECOND, false);
	sim_expect(&s, "job stopping g1\n"
		       "signal worker/0 #1 2\n"
		       "stop worker/1 #1 10s\n");
	sim_fini(&s);
}

static void stop_while_a_verdict_is_awaited_tells_the_dead(void **state)
{
	struct sim s;
	mirrored(&s);
	sim_up(&s);
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
	mirrored(&s);
	sim_up(&s);
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
	mirrored(&s);
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
	parameter_server(&s);
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
	parameter_server(&s);
	sim_up(&s);
	sim_signal(&s, "worker/0", 9);
	s.trace.len = 0;
	for (int kind = TFC__CORE_STARTED; kind <= TFC__CORE_REFUSED; kind++)
		sim_step(&s, &(struct tfc__core_event){.kind = (enum tfc__core_event_kind)kind,
						       .task = sim_task(&s, "worker/0"),
						       .attempt = 1});
	sim_expect(&s, "");
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
		cmocka_unit_test(exit_classes_decide_between_restart_and_end),
		cmocka_unit_test(out_of_memory_is_named_and_ends_the_job),
		cmocka_unit_test(restart_on_failure_restarts_every_nonzero_end),
		cmocka_unit_test(restart_on_never_ends_the_job_at_a_kill),
		cmocka_unit_test(missing_program_ends_the_job_and_says_what_is_missing),
		cmocka_unit_test(refused_attempt_ends_the_job),
		cmocka_unit_test(permanent_exit_of_a_healthy_group_ends_the_job),
		cmocka_unit_test(peer_killed_takes_the_blame_for_an_exit_told_first),
		cmocka_unit_test(answer_to_an_older_query_is_no_answer),
		cmocka_unit_test(lost_host_never_fails_the_job_by_its_peers_exit_codes),
		cmocka_unit_test(stopped_peer_takes_the_blame),
		cmocka_unit_test(peer_without_a_process_takes_the_blame_and_counts_as_lost),
		cmocka_unit_test(earliest_of_several_failures_decides),
		cmocka_unit_test(ps_takes_the_blame_for_a_chief_whose_exit_is_told_first),
		cmocka_unit_test(frozen_ps_is_reaped_before_the_chief_starts_again),
		cmocka_unit_test(chief_that_fails_beside_a_healthy_ps_ends_the_job),
		cmocka_unit_test(used_up_budget_ends_the_job_and_says_so),
		cmocka_unit_test(budget_comes_back_when_the_window_has_passed),
		cmocka_unit_test(large_budget_is_kept_exactly_enough),
		cmocka_unit_test(first_restart_is_immediate_and_later_ones_back_off),
		cmocka_unit_test(several_backoffs_end_in_their_order),
		cmocka_unit_test(losses_have_a_budget_of_their_own),
		cmocka_unit_test(preemption_is_paid_for_like_a_loss),
		cmocka_unit_test(chief_decides_and_servers_are_stopped),
		cmocka_unit_test(mirrored_peers_may_finish_and_their_failure_is_none),
		cmocka_unit_test(evaluator_may_finish_its_last_evaluation),
		cmocka_unit_test(worker0_decides_where_it_is_asked_to),
		cmocka_unit_test(task_that_ended_with_0_is_not_restarted),
		cmocka_unit_test(mirrored_worker_that_was_done_joins_the_next_generation),
		cmocka_unit_test(success_does_not_wait_for_a_worker_in_backoff),
		cmocka_unit_test(chief_done_before_the_abort_reached_it_is_a_success),
		cmocka_unit_test(exit_0_after_an_abort_is_no_success),
		cmocka_unit_test(failing_sidecar_is_told_and_the_job_goes_on),
		cmocka_unit_test(failing_evaluator_fails_the_job_unless_ignored),
		cmocka_unit_test(start_deadline_names_what_it_waits_for),
		cmocka_unit_test(start_deadline_runs_again_for_each_generation),
		cmocka_unit_test(deadline_stops_the_job_with_the_whole_grace),
		cmocka_unit_test(missing_ports_end_the_job_and_give_back_the_others),
		cmocka_unit_test(stranger_moves_the_task_and_restarts_the_cluster),
		cmocka_unit_test(stranger_moves_a_sidecar_alone),
		cmocka_unit_test(stop_gives_the_whole_grace_and_ends_as_stopped),
		cmocka_unit_test(interrupt_comes_first_and_then_the_stop),
		cmocka_unit_test(stop_before_the_start_ends_at_once),
		cmocka_unit_test(stop_while_holding_takes_the_holds_back),
		cmocka_unit_test(stop_while_starting_stops_what_cannot_be_interrupted),
		cmocka_unit_test(stop_while_a_verdict_is_awaited_tells_the_dead),
		cmocka_unit_test(stop_while_aborting_starts_no_new_generation),
		cmocka_unit_test(stop_in_backoff_ends_at_once),
		cmocka_unit_test(stop_after_success_shortens_the_wait_and_stays_a_success),
		cmocka_unit_test(events_of_an_older_attempt_are_ignored),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
