/* cluster: traces of the maintainer's core: silent tasks, and starts that last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core_sim.h"

/* ---- stalls */

/* What stalls is restarted. */
static void parameter_server_up(struct sim *s)
{
	sim_parameter_server(s);
	s->policy.on_stall = TFC__STALL_RESTART;
	sim_up(s);
}

static void stall_is_reported_and_nothing_else(void **state)
{
	struct sim s;
	sim_mirrored_up(&s);
	sim_stalled(&s, "worker/1", 5000, "stopped (SIGSTOP)");
	sim_expect(&s,
		   "task worker/1 #1 ready stalled: worker/1 has had no output for 5 s: stopped "
		   "(SIGSTOP)\n");
	sim_stalled(&s, "worker/1", 10000, "stopped (SIGSTOP)");
	sim_expect(&s,
		   "task worker/1 #1 ready stalled: worker/1 has had no output for 10 s: stopped "
		   "(SIGSTOP)\n");
	sim_stalled(&s, "worker/1", 16240, "idle");
	sim_expect(&s, "task worker/1 #1 ready stalled: worker/1 has had no output for 16 s: "
		       "idle\n");
	sim_stalled(&s, "worker/1", 1200499, "idle");
	sim_expect(&s, "task worker/1 #1 ready stalled: worker/1 has had no output for 1200 s: "
		       "idle\n");
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	sim_fini(&s);
}

static void notice_about_a_task_is_reported_and_nothing_else(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	s.policy.on_stall = TFC__STALL_RESTART;
	sim_up(&s);
	sim_notice(&s, "worker/1", "continued after 7 s");
	sim_expect(&s, "task worker/1 #1 ready: worker/1 continued after 7 s\n");
	sim_report(&s, 0,
		   &(struct tfc__task_event){.kind = TFC__AGENT_NOTICE,
					     .task = sim_task(&s, "worker/1"),
					     .attempt = 7,
					     .text = "of another attempt"});
	sim_expect(&s, "");
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	sim_stop(&s, 0, false);
	s.trace.len = 0;
	sim_notice(&s, "worker/1", "continued after 7 s");
	sim_expect(&s, "");
	sim_fini(&s);
}

static void stacks_are_written_before_the_stall_is_reported(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	s.policy.on_stall = TFC__STALL_STACKS;
	sim_up(&s);
	sim_stalled(&s, "worker/1", 5000, "idle");
	sim_expect(&s, "stacks worker/1 #1\n");
	sim_stalled(&s, "worker/1", 10000, "idle"); /* it is being inspected */
	sim_expect(&s, "");
	sim_stacked(&s, "worker/1", "its stacks are in its log");
	sim_expect(&s, "task worker/1 #1 ready stalled: worker/1 has had no output for 5 s: idle; "
		       "its stacks are in its log\n");
	sim_stalled(&s, "worker/1", 20000, "idle");
	sim_expect(&s, "stacks worker/1 #1\n");
	sim_fini(&s);
}

static void stalled_task_that_dies_meanwhile_is_judged_by_its_death(void **state)
{
	struct sim s;
	parameter_server_up(&s);
	sim_stalled(&s, "worker/0", 5000, "idle");
	sim_signal(&s, "worker/0", 9);
	sim_stacked(&s, "worker/0", "");
	sim_expect(&s, "stacks worker/0 #1 before its end\n"
		       "task worker/0 #1 failed signal 9: worker/0 died of SIGKILL; restarting it "
		       "(1 of 3 restarts in 600 s)\n"
		       "launch worker/0 #2 g1\n");
	sim_fini(&s);
}

/* Another task at the node dies of its loss first. */
static void stalled_task_that_is_lost_with_its_node_is_judged_by_its_death(void **state)
{
	static const uint32_t nodes[3] = {1, 1, 2};
	struct sim s;
	sim_init(&s, TFC_STRATEGY_NONE, TFC__SUCCESS_ALL_WORKERS);
	sim_role(&s, "shard", 3, TFC__SCOPE_TASK);
	s.policy.on_stall = TFC__STALL_RESTART;
	sim_up_at(&s, nodes);
	sim_stalled(&s, "shard/1", 5000, "idle");
	s.trace.len = 0;
	sim_lost(&s, 1, "it is down");
	sim_expect(&s, "task shard/0 #1 lost lost 0: shard/0 was lost: it is down; restarting it "
		       "(1 of 2 losses in 3600 s)\n"
		       "place shard/0\n"
		       "task shard/1 #1 lost lost 0: shard/1 was lost: it is down; restarting it "
		       "(1 of 2 losses in 3600 s)\n"
		       "place shard/1\n");
	sim_fini(&s);
}

static void stalled_task_restarts_alone(void **state)
{
	struct sim s;
	parameter_server_up(&s);
	sim_stalled(&s, "worker/0", 5000, "stopped (SIGSTOP)");
	sim_stacked(&s, "worker/0", "its stacks are in its log");
	sim_expect(&s,
		   "stacks worker/0 #1 before its end\n"
		   "task worker/0 #1 ready stalled: worker/0 has had no output for 5 s: stopped "
		   "(SIGSTOP); its stacks are in its log; restarting it (1 of 3 restarts in "
		   "600 s)\n"
		   "stop worker/0 #1 1s\n");
	sim_signal(&s, "worker/0", 9);
	sim_expect(&s, "task worker/0 #1 failed stalled 9: worker/0 died of SIGKILL\n"
		       "launch worker/0 #2 g1\n");
	sim_ready_all(&s);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	sim_fini(&s);
}

static void mirrored_up_with_evaluator(struct sim *s)
{
	sim_mirrored(s);
	sim_role(s, "evaluator", 1, TFC__SCOPE_TASK);
	s->policy.on_stall = TFC__STALL_RESTART;
	sim_up(s);
}

static void stalled_group_restarts_after_the_stacks_of_all(void **state)
{
	struct sim s;
	mirrored_up_with_evaluator(&s);
	sim_stalled(&s, "worker/0", 5000, "idle");
	sim_expect(&s, "stacks worker/0 #1 before its end\n"
		       "stacks worker/1 #1 before its end\n");
	sim_stalled(&s, "worker/1", 5000, "works"); /* it is inspected already */
	sim_inspected(&s, "worker/0", TFC__ACTIVITY_WAITING, 5000, "its stacks are in its log");
	sim_expect(&s, "");
	sim_inspected(&s, "worker/1", TFC__ACTIVITY_OWN_WORK, 4500,
		      "in spin (train.py:3); its stacks are in its log");
	sim_expect(&s,
		   "task worker/1 #1 ready stalled: worker/1 has had no output for 5 s: works; "
		   "in spin (train.py:3); its stacks are in its log; restarting the group (1 of 3 "
		   "restarts in 600 s)\n"
		   "job restarting g1: worker/1 has had no output for 5 s: works; "
		   "in spin (train.py:3); its stacks are in its log; restarting the group (1 of 3 "
		   "restarts in 600 s)\n"
		   "stop worker/0 #1 1s\n"
		   "stop worker/1 #1 1s\n");
	sim_signal(&s, "worker/0", 9);
	sim_signal(&s, "worker/1", 9);
	sim_expect(&s, "task worker/0 #1 stopped consequence 9: worker/0 died of SIGKILL\n"
		       "task worker/1 #1 failed stalled 9: worker/1 died of SIGKILL\n"
		       "launch worker/0 #2 g2\n"
		       "launch worker/1 #2 g2\n");
	assert_int_equal(tfc__core_attempt(s.core, sim_task(&s, "evaluator/0")), 1);
	sim_fini(&s);
}

/* What the members of a group do when worker/0 is silent first, and who is named. */
static void group_names_whom_the_evidence_names(void **state)
{
	static const struct {
		enum tfc__activity worker_0, worker_1;
		uint32_t silent_ms; /* worker/1 */
		const char *cause;
	} cases[] = {
		{TFC__ACTIVITY_WAITING, TFC__ACTIVITY_OWN_WORK, 10000, "worker/1"},
		{TFC__ACTIVITY_WAITING, TFC__ACTIVITY_OWN_WORK, 5000, "worker/1"},
		{TFC__ACTIVITY_WAITING, TFC__ACTIVITY_OWN_WORK, 4999, NULL}, /* it is slow */
		{TFC__ACTIVITY_OWN_WORK, TFC__ACTIVITY_WAITING, 0, "worker/0"},
		{TFC__ACTIVITY_OWN_WORK, TFC__ACTIVITY_OWN_WORK, 10000, NULL},
		{TFC__ACTIVITY_WAITING, TFC__ACTIVITY_WAITING, 10000, NULL},
		{TFC__ACTIVITY_WAITING, TFC__ACTIVITY_UNKNOWN, 10000, NULL},
		{TFC__ACTIVITY_UNKNOWN, TFC__ACTIVITY_OWN_WORK, 10000, NULL},
		{TFC__ACTIVITY_OWN_WORK, TFC__ACTIVITY_UNKNOWN, 10000, NULL},
		{TFC__ACTIVITY_UNKNOWN, TFC__ACTIVITY_UNKNOWN, 10000, NULL},
		{TFC__ACTIVITY_WAITING, TFC__ACTIVITY_STOPPED, 0, "worker/1"},
		{TFC__ACTIVITY_OWN_WORK, TFC__ACTIVITY_STOPPED, 0, "worker/1"},
		{TFC__ACTIVITY_STOPPED, TFC__ACTIVITY_OWN_WORK, 10000, "worker/0"},
		{TFC__ACTIVITY_UNKNOWN, TFC__ACTIVITY_STOPPED, 0, "worker/1"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sim s;
		char reported[64];
		mirrored_up_with_evaluator(&s);
		sim_stalled(&s, "worker/0", 10000, "idle");
		sim_inspected(&s, "worker/1", cases[i].worker_1, cases[i].silent_ms, "");
		s.trace.len = 0;
		sim_inspected(&s, "worker/0", cases[i].worker_0, 10000, "");
		tfc__buf_add(&s.trace, "", 1);
		snprintf(reported, sizeof(reported), "task %s #1 ready stalled", cases[i].cause);
		if (cases[i].cause)
			assert_true(strncmp(s.trace.data, reported, strlen(reported)) == 0);
		else
			assert_null(strstr(s.trace.data, "ready stalled"));
		assert_non_null(strstr(s.trace.data, "job restarting g1"));
		assert_true(!cases[i].cause == !!strstr(s.trace.data, "cannot tell which"));
		sim_fini(&s);
	}
}

static void group_of_which_nobody_can_be_named_ends_without_a_decider(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	s.roles[0].restart_on = TFC__RESTART_NEVER;
	s.policy.on_stall = TFC__STALL_RESTART;
	sim_up(&s);
	sim_stalled(&s, "worker/0", 5000, "idle");
	sim_stacked(&s, "worker/0", "");
	s.trace.len = 0;
	sim_stacked(&s, "worker/1", "");
	sim_expect(&s,
		   "job stopping g1: worker/0 has had no output for 5 s: idle; cannot tell which "
		   "member of its group hangs\n"
		   "stop worker/0 #1 1s\n"
		   "stop worker/1 #1 1s\n");
	sim_signal(&s, "worker/0", 9);
	sim_signal(&s, "worker/1", 9);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_FAILED);
	tfc__buf_add(&s.trace, "", 1);
	assert_non_null(strstr(s.trace.data, "end failed stalled 0: worker/0 has had no output"));
	sim_fini(&s);
}

static void coordinator_that_waits_for_a_stopped_worker_is_not_restarted(void **state)
{
	struct sim s;
	sim_parameter_server(&s);
	s.roles[1].count = 2;
	s.policy.on_stall = TFC__STALL_RESTART;
	sim_up(&s);
	sim_stalled(&s, "chief/0", 5000, "idle");
	sim_inspected(&s, "worker/0", TFC__ACTIVITY_UNKNOWN, 9000, "");
	sim_inspected(&s, "worker/1", TFC__ACTIVITY_STOPPED, 5000,
		      "stopped (SIGSTOP); it prints no Python stacks");
	sim_inspected(&s, "chief/0", TFC__ACTIVITY_UNKNOWN, 5000, "");
	s.trace.len = 0;
	sim_inspected(&s, "ps/0", TFC__ACTIVITY_UNKNOWN, 9000, "");
	sim_expect(&s,
		   "task worker/1 #1 ready stalled: worker/1 has had no output for 5 s: stopped "
		   "(SIGSTOP); it prints no Python stacks; restarting it (1 of 3 restarts in "
		   "600 s)\n"
		   "stop worker/1 #1 1s\n");
	/* Until it is back, the chief's silence has a reason. */
	sim_stalled(&s, "chief/0", 10000, "idle");
	sim_inspected(&s, "worker/0", TFC__ACTIVITY_UNKNOWN, 9000, "");
	sim_inspected(&s, "chief/0", TFC__ACTIVITY_UNKNOWN, 5000, "");
	sim_inspected(&s, "ps/0", TFC__ACTIVITY_UNKNOWN, 9000, "");
	assert_int_equal(tfc__core_attempt(s.core, sim_task(&s, "chief/0")), 1);
	sim_signal(&s, "worker/1", 9);
	assert_int_equal(tfc__core_attempt(s.core, sim_task(&s, "worker/1")), 2);
	sim_fini(&s);
}

static void coordinator_does_not_wait_for_a_task_that_is_done(void **state)
{
	struct sim s;
	sim_parameter_server(&s);
	s.policy.on_stall = TFC__STALL_RESTART;
	sim_up(&s);
	sim_stalled(&s, "worker/0", 5000, "idle");
	sim_inspected(&s, "worker/0", TFC__ACTIVITY_UNKNOWN, 5000, "");
	s.now += SIM_SECOND;
	/* It had ended before it was to be stopped. */
	sim_death(&s, "worker/0",
		  (struct tfc__attempt_end){.reason = TFC_EXIT_CODE,
					    .time_ns = s.now - 2 * SIM_SECOND},
		  NULL);
	assert_int_equal(tfc__core_task_state(s.core, sim_task(&s, "worker/0")), TFC_TASK_EXITED);
	sim_stalled(&s, "chief/0", 5000, "idle");
	sim_inspected(&s, "chief/0", TFC__ACTIVITY_UNKNOWN, 5000, "");
	s.trace.len = 0;
	sim_inspected(&s, "ps/0", TFC__ACTIVITY_UNKNOWN, 9000, "");
	assert_non_null(strstr(s.trace.data ? s.trace.data : "", "stop chief/0 #1 1s\n"));
	sim_fini(&s);
}

/* The chief dies while its stall is open: what a worker did then says nothing about a later one. */
static void responses_are_outdated_when_no_stall_is_open(void **state)
{
	struct sim s;
	parameter_server_up(&s);
	sim_stalled(&s, "chief/0", 5000, "idle");
	sim_inspected(&s, "worker/0", TFC__ACTIVITY_STOPPED, 5000, "stopped (SIGSTOP)");
	sim_signal(&s, "chief/0", 9);
	sim_inspected(&s, "ps/0", TFC__ACTIVITY_STOPPED, 5000, "stopped (SIGSTOP)");
	sim_ready_all(&s);
	sim_stalled(&s, "chief/0", 5000, "idle");
	sim_expect(&s, "stacks chief/0 #2 before its end\n"
		       "stacks worker/0 #1\n"
		       "stacks ps/0 #1\n");
	sim_fini(&s);
}

static void stalled_ps_takes_its_coordinator_along(void **state)
{
	struct sim s;
	parameter_server_up(&s);
	sim_stalled(&s, "ps/0", 5000, "stopped (SIGSTOP)");
	sim_stacked(&s, "chief/0", "");
	sim_stacked(&s, "ps/0", "");
	sim_expect(
		&s,
		"stacks chief/0 #1 before its end\n"
		"stacks ps/0 #1 before its end\n"
		"task ps/0 #1 ready stalled: ps/0 has had no output for 5 s: stopped (SIGSTOP); "
		"restarting it with its coordinator (1 of 3 restarts in 600 s)\n"
		"job restarting g1: ps/0 has had no output for 5 s: stopped (SIGSTOP); restarting "
		"it with its coordinator (1 of 3 restarts in 600 s)\n"
		"stop ps/0 #1 1s\n"
		"stop chief/0 #1 1s\n");
	sim_exit(&s, "chief/0", 1);
	sim_expect(&s, "task chief/0 #1 stopped consequence 1: chief/0 exited with 1\n");
	sim_signal(&s, "ps/0", 9);
	sim_expect(&s, "task ps/0 #1 failed stalled 9: ps/0 died of SIGKILL\n"
		       "launch ps/0 #2 g1\n"
		       "launch chief/0 #2 g1\n");
	sim_fini(&s);
}

static void coordinator_in_backoff_waits_for_a_ps_that_is_being_stopped(void **state)
{
	struct sim s;
	sim_parameter_server(&s);
	s.roles[0].backoff_min_ns = SIM_SECOND;
	s.policy.on_stall = TFC__STALL_RESTART;
	sim_up(&s);
	sim_signal(&s, "chief/0", 9);
	sim_stalled(&s, "ps/0", 5000, "idle");
	sim_stacked(&s, "ps/0", "");
	s.trace.len = 0;
	sim_tick(&s, SIM_SECOND);
	sim_expect(&s, "");
	sim_signal(&s, "ps/0", 9);
	sim_expect(&s, "task ps/0 #1 failed stalled 9: ps/0 died of SIGKILL\n"
		       "launch ps/0 #2 g1\n"
		       "launch chief/0 #2 g1\n");
	sim_fini(&s);
}

static void stall_with_nothing_left_to_try_ends_the_job(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	s.roles[0].count = 1;
	s.roles[0].restart_on = TFC__RESTART_NEVER;
	s.policy.on_stall = TFC__STALL_RESTART;
	sim_up(&s);
	sim_stalled(&s, "worker/0", 5000, "idle");
	sim_stacked(&s, "worker/0", "");
	sim_signal(&s, "worker/0", 15);
	sim_expect(&s, "stacks worker/0 #1 before its end\n"
		       "task worker/0 #1 ready stalled: worker/0 has had no output for 5 s: idle\n"
		       "job stopping g1: worker/0 has had no output for 5 s: idle\n"
		       "stop worker/0 #1 1s\n"
		       "task worker/0 #1 failed stalled 15: worker/0 died of SIGTERM\n"
		       "release worker/0\n"
		       "end failed stalled 0 by worker/0 #1: worker/0 has had no output for 5 s: "
		       "idle\n");
	sim_fini(&s);
}

/* A notice in its output is of its own end. */
static void stalled_task_that_the_job_needs_leaves_no_time_to_save(void **state)
{
	struct sim s;
	sim_init(&s, TFC_STRATEGY_MULTI_WORKER_MIRRORED, TFC__SUCCESS_CHIEF);
	struct tfc__core_role *chief = sim_role(&s, "chief", 1, TFC__SCOPE_GROUP);
	sim_role(&s, "worker", 1, TFC__SCOPE_GROUP);
	chief->is_failure_ignored = true;
	chief->restart_on = TFC__RESTART_NEVER;
	s.policy.on_stall = TFC__STALL_RESTART;
	sim_up(&s);
	sim_stalled(&s, "chief/0", 5000, "idle");
	sim_inspected(&s, "worker/0", TFC__ACTIVITY_WAITING, 5000, "");
	sim_inspected(&s, "chief/0", TFC__ACTIVITY_OWN_WORK, 5000, "");
	s.trace.len = 0;
	sim_death(&s, "chief/0",
		  (struct tfc__attempt_end){.reason = TFC_EXIT_SIGNAL,
					    .status = 15,
					    .had_notice = true},
		  NULL);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STOPPING);
	assert_non_null(strstr(s.trace.data, "\nstop worker/0 #1 1s\n"));
	sim_fini(&s);
}

static void stalled_sidecar_ends_alone_when_its_restarts_are_used_up(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	sim_role(&s, "cache", 1, TFC__SCOPE_TASK)->restart_max = 0;
	s.policy.on_stall = TFC__STALL_RESTART;
	sim_up(&s);
	sim_stalled(&s, "cache/0", 5000, "idle");
	sim_stacked(&s, "cache/0", "");
	sim_signal(&s, "cache/0", 15);
	sim_expect(&s,
		   "stacks cache/0 #1 before its end\n"
		   "task cache/0 #1 ready stalled: cache/0 has had no output for 5 s: idle; not "
		   "restarted: restart.max is 0\n"
		   "stop cache/0 #1 1s\n"
		   "task cache/0 #1 failed stalled 15: cache/0 died of SIGTERM\n");
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	sim_fini(&s);
}

static void stall_of_one_that_is_being_stopped_is_none(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	s.policy.on_stall = TFC__STALL_RESTART;
	sim_up(&s);
	sim_signal(&s, "worker/1", 9);
	s.trace.len = 0;
	sim_stalled(&s, "worker/0", 5000, "idle");
	sim_expect(&s, "");
	sim_stop(&s, 0, false);
	s.trace.len = 0;
	sim_stalled(&s, "worker/0", 10000, "idle");
	sim_expect(&s, "");
	sim_fini(&s);
}

/* ---- a start that lasts */

static void start_that_lasts_is_explained_with_growing_pauses(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	s.policy.explain_ns = 10 * SIM_SECOND;
	sim_start(&s);
	sim_event(&s, TFC__AGENT_HELD, "worker/0");
	s.trace.len = 0;
	assert_int_equal(tfc__core_wake_at(s.core), s.now + 10 * SIM_SECOND);
	sim_tick(&s, 10 * SIM_SECOND);
	sim_snapshot(&s, NULL, NULL);
	sim_expect(&s, "inspect 1\n"
		       "job pending g1: waiting for worker/0 (not started), worker/1 (no port)\n");
	sim_event(&s, TFC__AGENT_HELD, "worker/1");
	sim_event(&s, TFC__AGENT_STARTED, "worker/0");
	sim_event(&s, TFC__AGENT_STARTED, "worker/1");
	sim_event(&s, TFC__AGENT_READY, "worker/0");
	s.trace.len = 0;
	assert_int_equal(tfc__core_wake_at(s.core), s.now + 20 * SIM_SECOND);
	sim_tick(&s, 20 * SIM_SECOND);
	sim_snapshot(&s, "worker/1", "listens on 4000, not on 20001");
	sim_expect(&s, "inspect 2\n"
		       "job starting g1: waiting for worker/1 (listens on 4000, not on 20001)\n");
	assert_int_equal(tfc__core_wake_at(s.core), s.now + 40 * SIM_SECOND);
	sim_event(&s, TFC__AGENT_READY, "worker/1");
	assert_int_equal(tfc__core_wake_at(s.core), 0);
	sim_fini(&s);
}

static void start_that_has_ended_is_not_explained(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	s.policy.explain_ns = s.policy.start_deadline_ns = 10 * SIM_SECOND;
	sim_start(&s);
	sim_held_all(&s);
	sim_tick(&s, 10 * SIM_SECOND);
	sim_ready_all(&s);
	sim_snapshot(&s, NULL, NULL);
	sim_expect(&s, "");
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
	sim_fini(&s);
}

static void long_explanations_name_as_many_as_fit(void **state)
{
	struct sim s;
	struct tfc__inspected inspected[2] = {{.task = 0}, {.task = 1}};
	sim_mirrored(&s);
	s.roles[0].count = 3;
	s.policy.explain_ns = 10 * SIM_SECOND;
	sim_start(&s);
	s.trace.len = 0;
	for (int i = 0; i < 2; i++)
		memset(inspected[i].text, 'x', sizeof(inspected[i].text) - 1);
	sim_tick(&s, 10 * SIM_SECOND);
	s.trace.len = 0;
	sim_report(&s, 0,
		   &(struct tfc__task_event){.kind = TFC__AGENT_INSPECTED,
					     .number = s.inspect,
					     .inspected = inspected,
					     .inspected_count = 2});
	assert_non_null(strstr(s.trace.data, "xxx), worker/2 (no port) and 1 more\n"));
	sim_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stall_is_reported_and_nothing_else),
		cmocka_unit_test(notice_about_a_task_is_reported_and_nothing_else),
		cmocka_unit_test(stacks_are_written_before_the_stall_is_reported),
		cmocka_unit_test(stalled_task_that_dies_meanwhile_is_judged_by_its_death),
		cmocka_unit_test(stalled_task_that_is_lost_with_its_node_is_judged_by_its_death),
		cmocka_unit_test(stalled_task_restarts_alone),
		cmocka_unit_test(stalled_group_restarts_after_the_stacks_of_all),
		cmocka_unit_test(group_names_whom_the_evidence_names),
		cmocka_unit_test(group_of_which_nobody_can_be_named_ends_without_a_decider),
		cmocka_unit_test(coordinator_that_waits_for_a_stopped_worker_is_not_restarted),
		cmocka_unit_test(coordinator_does_not_wait_for_a_task_that_is_done),
		cmocka_unit_test(responses_are_outdated_when_no_stall_is_open),
		cmocka_unit_test(stalled_ps_takes_its_coordinator_along),
		cmocka_unit_test(coordinator_in_backoff_waits_for_a_ps_that_is_being_stopped),
		cmocka_unit_test(stall_with_nothing_left_to_try_ends_the_job),
		cmocka_unit_test(stalled_task_that_the_job_needs_leaves_no_time_to_save),
		cmocka_unit_test(stalled_sidecar_ends_alone_when_its_restarts_are_used_up),
		cmocka_unit_test(stall_of_one_that_is_being_stopped_is_none),
		cmocka_unit_test(start_that_lasts_is_explained_with_growing_pauses),
		cmocka_unit_test(start_that_has_ended_is_not_explained),
		cmocka_unit_test(long_explanations_name_as_many_as_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
