/* cluster: traces of the maintainer's core: how a job ends, by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core_sim.h"

/* One mirrored worker that has its port: its first launch is under way. */
static void one_worker_launched(struct sim *s)
{
	sim_mirrored(s);
	s->roles[0].count = 1;
	sim_start(s);
	sim_event(s, TFC__AGENT_HELD, "worker/0");
	s->trace.len = 0;
}

/* A mirrored chief, which decides, and so many workers. */
static void chief_and_workers_up(struct sim *s, uint32_t workers)
{
	sim_init(s, TFC_STRATEGY_MULTI_WORKER_MIRRORED, TFC__SUCCESS_CHIEF);
	sim_role(s, "chief", 1, TFC__SCOPE_GROUP);
	sim_role(s, "worker", workers, TFC__SCOPE_GROUP);
	sim_up(s);
}

/* ---- exit classes */

static void exit_classes_decide_between_restart_and_end(void **state)
{
	static const struct {
		struct tfc__attempt_end death;
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
		sim_parameter_server_up(&s);
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
	sim_mirrored_up(&s);
	sim_death(&s, "worker/1", (struct tfc__attempt_end){TFC_EXIT_SIGNAL, 9, .is_oom = true},
		  NULL);
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

static void a_memory_limit_that_was_reached_is_named(void **state)
{
	struct sim s;
	sim_parameter_server_up(&s);
	sim_death(&s, "worker/0",
		  (struct tfc__attempt_end){TFC_EXIT_SIGNAL, 9, .is_oom = true,
					    .memory_limit = 3ull << 29},
		  NULL);
	sim_signal(&s, "chief/0", 15);
	sim_signal(&s, "ps/0", 15);
	assert_string_equal(s.end.text, "worker/0 died of SIGKILL: it was out of memory: it used "
					"more than its memory_limit of 1.5 GiB");
	sim_fini(&s);
}

static void restart_on_failure_restarts_every_nonzero_end(void **state)
{
	struct sim s;
	sim_parameter_server(&s);
	s.roles[1].restart_on = TFC__RESTART_FAILURE;
	sim_up(&s);
	sim_exit(&s, "worker/0", 1);
	sim_expect(&s, "task worker/0 #1 failed exit 1: worker/0 exited with 1; restarting it (1 "
		       "of 3 restarts in 600 s)\n"
		       "launch worker/0 #2 g1\n");
	sim_fini(&s);
}

static void restart_on_never_ends_the_job_at_a_kill(void **state)
{
	struct sim s;
	sim_mirrored(&s);
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
	one_worker_launched(&s);
	sim_death(&s, "worker/0", (struct tfc__attempt_end){TFC_EXIT_NOT_STARTED, TFC_ENOENT},
		  "pyton3: not found in PATH");
	sim_expect(&s, "task worker/0 #1 failed not_found -10: worker/0 could not be started: "
		       "pyton3: not found in PATH\n"
		       "job stopping g1: worker/0 could not be started: pyton3: not found in PATH\n"
		       "release worker/0\n"
		       "end failed not_found 0 by worker/0 #1: worker/0 could not be started: "
		       "pyton3: not found in PATH\n");
	sim_fini(&s);
}

/* A remedy stands at the end of its sentence. */
static void long_reason_is_reported_in_full(void **state)
{
	static const char remedy[] =
		"cannot start \"python3\": creating a cgroup failed: Operation not supported; "
		"isolation \"cgroup\" requires cgroup v2, Linux 5.14, and a cgroup that this user "
		"can write to (systemd: Delegate=yes)";
	struct sim s;
	one_worker_launched(&s);
	sim_death(&s, "worker/0", (struct tfc__attempt_end){TFC_EXIT_NOT_STARTED, TFC_ENOTSUP},
		  remedy);
	assert_non_null(strstr(s.end.text, remedy));
	sim_fini(&s);
}

/* As long as the text of a tfc_error may be. */
static void text_as_long_as_that_of_an_error_is_whole(void **state)
{
	char text[1024];
	struct sim s;
	memset(text, 'x', sizeof(text));
	strcpy(text + sizeof(text) - 4, "END");
	one_worker_launched(&s);
	sim_death(&s, "worker/0", (struct tfc__attempt_end){TFC_EXIT_NOT_STARTED, TFC_ENOTSUP},
		  text);
	assert_non_null(strstr(s.end.text, text));
	sim_fini(&s);
	sim_mirrored(&s);
	s.has_nodes = true;
	s.policy.pending_deadline_ns = SIM_SECOND;
	sim_start(&s);
	sim_placed(&s, NULL, NULL, text);
	sim_tick(&s, 2 * SIM_SECOND);
	assert_non_null(strstr(s.end.text, text));
	sim_fini(&s);
}

static void refused_attempt_ends_the_job(void **state)
{
	struct sim s;
	one_worker_launched(&s);
	sim_report(&s, 0,
		   &(struct tfc__task_event){.kind = TFC__AGENT_REFUSED,
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

/* ---- success */

static void chief_decides_and_servers_are_stopped(void **state)
{
	struct sim s;
	sim_parameter_server(&s);
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
	chief_and_workers_up(&s, 2);
	sim_exit(&s, "chief/0", 0);
	sim_expect(&s, "task chief/0 #1 exited exit 0: chief/0 exited with 0\n"
		       "job stopping g1: chief/0 exited with 0\n");
	s.now += SIM_SECOND;
	sim_exit(&s, "worker/0", 1);
	sim_expect(&s, "task worker/0 #1 exited exit 1: worker/0 exited with 1\n");
	assert_int_equal(tfc__core_wake_at(s.core), s.now + SIM_SECOND);
	sim_tick(&s, SIM_SECOND);
	sim_expect(&s, "job stopping g1: waiting up to 28 s for worker/1 to finish\n");
	assert_int_equal(tfc__core_wake_at(s.core), s.now + 28 * SIM_SECOND);
	sim_tick(&s, 28 * SIM_SECOND);
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
	sim_parameter_server(&s);
	sim_role(&s, "evaluator", 1, TFC__SCOPE_TASK)->finish_ns = 60 * SIM_SECOND;
	sim_up(&s);
	sim_exit(&s, "chief/0", 0);
	sim_signal(&s, "worker/0", 15);
	sim_signal(&s, "ps/0", 15);
	s.trace.len = 0;
	sim_tick(&s, 2 * SIM_SECOND);
	sim_expect(&s, "job stopping g1: waiting up to 58 s for evaluator/0 to finish\n");
	sim_tick(&s, 57 * SIM_SECOND);
	sim_expect(&s, "");
	sim_tick(&s, SIM_SECOND);
	sim_expect(&s, "stop evaluator/0 #1 10s\n");
	sim_tick(&s, 2 * SIM_SECOND);
	sim_expect(&s, "job stopping g1: waiting up to 8 s for evaluator/0 to stop\n");
	sim_signal(&s, "evaluator/0", 15);
	sim_expect(&s, "task evaluator/0 #1 stopped stopped 15: evaluator/0 died of SIGTERM\n"
		       "release chief/0\n"
		       "release worker/0\n"
		       "release ps/0\n"
		       "release evaluator/0\n"
		       "end succeeded exit 0 by chief/0 #1: chief/0 exited with 0\n");
	sim_fini(&s);
}

static void worker0_decides_where_requested(void **state)
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
	sim_parameter_server_up(&s);
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
	sim_mirrored_up(&s);
	sim_exit(&s, "worker/0", 0);
	s.trace.len = 0;
	sim_signal(&s, "worker/1", 9);
	sim_expect(&s, "task worker/1 #1 failed signal 9: worker/1 died of SIGKILL; restarting the "
		       "group (1 of 3 restarts in 600 s)\n"
		       "job restarting g1: worker/1 died of SIGKILL; restarting the group (1 of 3 "
		       "restarts in 600 s)\n"
		       "launch worker/0 #2 g2\n"
		       "launch worker/1 #2 g2\n");
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
	sim_parameter_server(&s);
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
	chief_and_workers_up(&s, 1);
	sim_signal(&s, "worker/0", 9);
	s.trace.len = 0;
	sim_death(&s, "chief/0", (struct tfc__attempt_end){TFC_EXIT_CODE, 0, .time_ns = s.now - 1},
		  NULL);
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
	chief_and_workers_up(&s, 1);
	sim_signal(&s, "worker/0", 9);
	s.trace.len = 0;
	s.now += SIM_SECOND / 10;
	sim_exit(&s, "chief/0", 0);
	sim_expect(&s, "task chief/0 #1 stopped consequence 0: chief/0 exited with 0\n"
		       "launch chief/0 #2 g2\n"
		       "launch worker/0 #2 g2\n");
	sim_fini(&s);
}

/* ---- who fails the job */

static void failing_sidecar_is_reported_and_the_job_goes_on(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	sim_role(&s, "tensorboard", 1, TFC__SCOPE_TASK);
	sim_up(&s);
	sim_exit(&s, "tensorboard/0", 1);
	sim_expect(&s, "task tensorboard/0 #1 failed exit 1: tensorboard/0 exited with 1\n");
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	sim_fini(&s);
}

static void failing_sidecar_fails_the_job_that_needs_it(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	sim_role(&s, "dispatcher", 1, TFC__SCOPE_TASK)->is_failure_fatal = true;
	sim_up(&s);
	sim_exit(&s, "dispatcher/0", 1);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STOPPING);
	sim_fini(&s);
}

static void failing_evaluator_fails_the_job_unless_ignored(void **state)
{
	for (int is_ignored = 0; is_ignored < 2; is_ignored++) {
		struct sim s;
		sim_mirrored(&s);
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
	sim_mirrored(&s);
	s.roles[0].count = 3;
	s.policy.start_deadline_ns = 10 * SIM_SECOND;
	sim_start(&s);
	sim_held_all(&s);
	sim_event(&s, TFC__AGENT_STARTED, "worker/0");
	sim_event(&s, TFC__AGENT_READY, "worker/0");
	sim_event(&s, TFC__AGENT_STARTED, "worker/1");
	assert_int_equal(tfc__core_wake_at(s.core), s.now + 10 * SIM_SECOND);
	s.trace.len = 0;
	sim_tick(&s, 10 * SIM_SECOND);
	sim_snapshot(&s, "worker/1", "not listening");
	sim_expect(&s, "inspect 1\n"
		       "job stopping g1: the start deadline of 10 s has passed; waited for "
		       "worker/1 (not listening), worker/2 (not started)\n"
		       "stop worker/0 #1 1s\n"
		       "stop worker/1 #1 1s\n"
		       "stop worker/2 #1 1s\n");
	sim_fini(&s);
}

static void start_deadline_runs_again_for_each_generation(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	s.policy.start_deadline_ns = 10 * SIM_SECOND;
	sim_up(&s);
	assert_int_equal(tfc__core_wake_at(s.core), 0);
	s.now += 100 * SIM_SECOND;
	sim_signal(&s, "worker/1", 9);
	s.now += SIM_SECOND;
	sim_exit(&s, "worker/0", 1);
	assert_int_equal(tfc__core_wake_at(s.core), s.now + 10 * SIM_SECOND);
	sim_tick(&s, 10 * SIM_SECOND);
	sim_snapshot(&s, NULL, NULL);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STOPPING);
	sim_fini(&s);
}

static void deadline_stops_the_job_with_the_whole_grace(void **state)
{
	struct sim s;
	sim_mirrored(&s);
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

static void missing_ports_end_the_job_and_give_back_what_was_got(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	s.roles[0].count = 3;
	sim_start(&s);
	sim_event(&s, TFC__AGENT_HELD, "worker/0");
	s.trace.len = 0;
	sim_report(&s, 0,
		   &(struct tfc__task_event){.kind = TFC__AGENT_HOLD_FAILED,
					     .task = 1,
					     .number = s.holds[1],
					     .missing = 2,
					     .text = "no free port is left in 20000-20000"});
	sim_expect(
		&s,
		"release worker/1\n"
		"job stopping g1: 2 ports are missing: no free port is left in 20000-20000\n"
		"release worker/2\n"
		"release worker/0\n"
		"end failed refused 0: 2 ports are missing: no free port is left in 20000-20000\n");
	sim_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exit_classes_decide_between_restart_and_end),
		cmocka_unit_test(out_of_memory_is_named_and_ends_the_job),
		cmocka_unit_test(a_memory_limit_that_was_reached_is_named),
		cmocka_unit_test(restart_on_failure_restarts_every_nonzero_end),
		cmocka_unit_test(restart_on_never_ends_the_job_at_a_kill),
		cmocka_unit_test(missing_program_ends_the_job_and_says_what_is_missing),
		cmocka_unit_test(long_reason_is_reported_in_full),
		cmocka_unit_test(text_as_long_as_that_of_an_error_is_whole),
		cmocka_unit_test(refused_attempt_ends_the_job),
		cmocka_unit_test(chief_decides_and_servers_are_stopped),
		cmocka_unit_test(mirrored_peers_may_finish_and_their_failure_is_none),
		cmocka_unit_test(evaluator_may_finish_its_last_evaluation),
		cmocka_unit_test(worker0_decides_where_requested),
		cmocka_unit_test(task_that_ended_with_0_is_not_restarted),
		cmocka_unit_test(mirrored_worker_that_was_done_joins_the_next_generation),
		cmocka_unit_test(success_does_not_wait_for_a_worker_in_backoff),
		cmocka_unit_test(chief_done_before_the_abort_reached_it_is_a_success),
		cmocka_unit_test(exit_0_after_an_abort_is_no_success),
		cmocka_unit_test(failing_sidecar_is_reported_and_the_job_goes_on),
		cmocka_unit_test(failing_sidecar_fails_the_job_that_needs_it),
		cmocka_unit_test(failing_evaluator_fails_the_job_unless_ignored),
		cmocka_unit_test(start_deadline_names_what_it_waits_for),
		cmocka_unit_test(start_deadline_runs_again_for_each_generation),
		cmocka_unit_test(deadline_stops_the_job_with_the_whole_grace),
		cmocka_unit_test(missing_ports_end_the_job_and_give_back_what_was_got),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
