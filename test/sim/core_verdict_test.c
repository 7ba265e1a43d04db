/* cluster: traces of the maintainer's core: cause, not consequence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core_sim.h"

static void permanent_exit_of_a_healthy_group_ends_the_job(void **state)
{
	struct sim s;
	sim_mirrored_up(&s);
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

static void peer_killed_takes_the_blame_for_an_exit_reported_first(void **state)
{
	struct sim s;
	sim_mirrored_up(&s);
	sim_exit(&s, "worker/0", 1);
	sim_expect(&s, "query 1\n");
	sim_signal(&s, "worker/1", 9);
	sim_expect(&s, "task worker/1 #1 failed signal 9: worker/1 died of SIGKILL; restarting the "
		       "group (1 of 3 restarts in 600 s)\n"
		       "task worker/0 #1 failed consequence 1: worker/0 exited with 1\n"
		       "job restarting g1: worker/1 died of SIGKILL; restarting the group (1 of 3 "
		       "restarts in 600 s)\n"
		       "launch worker/0 #2 g2\n"
		       "launch worker/1 #2 g2\n");
	sim_answer(&s, NULL, TFC__PROC_NONE); /* too late to matter */
	sim_expect(&s, "");
	sim_fini(&s);
}

static void response_to_an_older_query_is_no_response(void **state)
{
	struct sim s;
	sim_mirrored_up(&s);
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
	sim_mirrored_up(&s);
	sim_exit(&s, "worker/0", 1);
	s.now += 20 * SIM_SECOND; /* membership takes its time */
	sim_death(&s, "worker/1", (struct tfc__attempt_end){.reason = TFC_EXIT_LOST}, NULL);
	sim_expect(&s, "query 1\n"
		       "task worker/1 #1 lost lost 0: worker/1 was lost; restarting the group (1 "
		       "of 2 losses in 3600 s)\n"
		       "task worker/0 #1 failed consequence 1: worker/0 exited with 1\n"
		       "job restarting g1: worker/1 was lost; restarting the group (1 of 2 losses "
		       "in 3600 s)\n"
		       "launch worker/0 #2 g2\n"
		       "launch worker/1 #2 g2\n");
	sim_fini(&s);
}

static void stopped_peer_takes_the_blame(void **state)
{
	struct sim s;
	sim_mirrored_up(&s);
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
		       "launch worker/1 #2 g2\n");
	sim_fini(&s);
}

static void peer_without_a_process_takes_the_blame_and_counts_as_lost(void **state)
{
	struct sim s;
	sim_mirrored_up(&s);
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
	sim_mirrored_up(&s);
	sim_exit(&s, "worker/0", 1);
	sim_death(&s, "worker/1",
		  (struct tfc__attempt_end){TFC_EXIT_CODE, 3, .time_ns = s.now - SIM_SECOND}, NULL);
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

static void ps_takes_the_blame_for_a_chief_whose_exit_is_reported_first(void **state)
{
	struct sim s;
	sim_parameter_server_up(&s);
	sim_exit(&s, "chief/0", 1);
	sim_expect(&s, "query 1\n");
	sim_signal(&s, "ps/0", 9);
	sim_expect(&s, "task ps/0 #1 failed signal 9: ps/0 died of SIGKILL; restarting it with its "
		       "coordinator (1 of 3 restarts in 600 s)\n"
		       "job restarting g1: ps/0 died of SIGKILL; restarting it with its "
		       "coordinator (1 of 3 restarts in 600 s)\n"
		       "launch ps/0 #2 g1\n"
		       "task chief/0 #1 failed consequence 1: chief/0 exited with 1\n"
		       "launch chief/0 #2 g1\n");
	sim_fini(&s);
}

static void frozen_ps_is_reaped_before_the_chief_starts_again(void **state)
{
	struct sim s;
	sim_parameter_server_up(&s);
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
		       "launch chief/0 #2 g1\n");
	sim_fini(&s);
}

static void chief_that_fails_beside_a_healthy_ps_ends_the_job(void **state)
{
	struct sim s;
	sim_parameter_server_up(&s);
	sim_exit(&s, "chief/0", 1);
	sim_answer(&s, "worker/0", TFC__PROC_STOPPED); /* never explains a chief's exit */
	sim_expect(&s, "query 1\n"
		       "task chief/0 #1 failed exit 1: chief/0 exited with 1\n"
		       "job stopping g1: chief/0 exited with 1\n"
		       "stop worker/0 #1 1s\n"
		       "stop ps/0 #1 1s\n");
	sim_fini(&s);
}

/* The chief fails, too, as it does in TensorFlow. */
static void kill_ps(struct sim *s, const char *ps)
{
	s->now += SIM_SECOND;
	sim_signal(s, ps, 9);
	sim_signal(s, "chief/0", 15);
}

static void fail_chief(struct sim *s, uint64_t after_ns)
{
	s->trace.len = 0;
	s->now += after_ns;
	sim_exit(s, "chief/0", 1);
	sim_answer(s, NULL, TFC__PROC_RUNNING);
}

static void expect_chief_restarts(struct sim *s, uint32_t attempt, const char *ps)
{
	char lines[512];
	snprintf(lines, sizeof(lines),
		 "query 1\n"
		 "task chief/0 #%u failed exit 1: chief/0 exited with 1, 0.5 s after %s had "
		 "restarted; restarting it (1 of 3 restarts in 600 s)\n"
		 "job restarting g1: chief/0 exited with 1, 0.5 s after %s had restarted; "
		 "restarting it (1 of 3 restarts in 600 s)\n"
		 "launch chief/0 #%u g1\n",
		 attempt, ps, ps, attempt + 1);
	sim_expect(s, lines);
}

static void chief_that_fails_shortly_after_its_ps_has_restarted_restarts(void **state)
{
	struct sim s;
	sim_parameter_server_up(&s);
	kill_ps(&s, "ps/0");
	sim_ready_all(&s);
	fail_chief(&s, SIM_SECOND / 2);
	expect_chief_restarts(&s, 2, "ps/0");
	sim_fini(&s);
}

/* Another node's clock may be behind, and a listener is seen a little late. */
static void chief_that_fails_before_its_restarted_ps_is_ready_restarts(void **state)
{
	struct sim s;
	sim_parameter_server_up(&s);
	kill_ps(&s, "ps/0");
	sim_event(&s, TFC__AGENT_STARTED, "ps/0");
	sim_event(&s, TFC__AGENT_STARTED, "chief/0");
	fail_chief(&s, SIM_SECOND / 2);
	expect_chief_restarts(&s, 2, "ps/0");
	sim_fini(&s);
}

static void chief_that_fails_long_after_its_ps_has_restarted_ends_the_job(void **state)
{
	struct sim s;
	sim_parameter_server_up(&s);
	kill_ps(&s, "ps/0");
	sim_ready_all(&s);
	fail_chief(&s, 11 * SIM_SECOND);
	sim_expect(&s, "query 1\n"
		       "task chief/0 #2 failed exit 1: chief/0 exited with 1\n"
		       "job stopping g1: chief/0 exited with 1\n"
		       "stop worker/0 #1 1s\n"
		       "stop ps/0 #2 1s\n");
	sim_fini(&s);
}

static void ps_that_was_the_last_to_restart_is_named(void **state)
{
	struct sim s;
	sim_parameter_server(&s);
	s.roles[2].count = 2;
	sim_up(&s);
	kill_ps(&s, "ps/0");
	sim_ready_all(&s);
	s.now += 7 * SIM_SECOND;
	kill_ps(&s, "ps/1");
	sim_ready_all(&s);
	fail_chief(&s, SIM_SECOND / 2);
	expect_chief_restarts(&s, 3, "ps/1");
	sim_fini(&s);
}

/* The ps moves, which restarts the whole group: the workers have no connection to an older ps. */
static void chief_that_fails_shortly_after_all_have_restarted_ends_the_job(void **state)
{
	struct sim s;
	sim_parameter_server_up(&s);
	s.now += SIM_SECOND;
	sim_death(&s, "ps/0",
		  (struct tfc__attempt_end){TFC_EXIT_SIGNAL, 15, .is_port_occupied = true}, NULL);
	sim_signal(&s, "chief/0", 15);
	sim_signal(&s, "worker/0", 15);
	sim_held_all(&s);
	sim_ready_all(&s);
	assert_int_equal(tfc__core_attempt(s.core, sim_task(&s, "worker/0")), 2);
	assert_int_equal(tfc__core_attempt(s.core, sim_task(&s, "ps/0")), 2);
	fail_chief(&s, SIM_SECOND / 2);
	sim_expect(&s, "query 1\n"
		       "task chief/0 #2 failed exit 1: chief/0 exited with 1\n"
		       "job stopping g2: chief/0 exited with 1\n"
		       "stop worker/0 #2 1s\n"
		       "stop ps/0 #2 1s\n");
	sim_fini(&s);
}

static void peer_that_left_with_0_shortly_before_is_named(void **state)
{
	struct sim s;
	sim_mirrored_up(&s);
	sim_exit(&s, "worker/1", 0);
	s.now += 20 * SIM_SECOND;
	s.trace.len = 0;
	sim_exit(&s, "worker/0", 1);
	sim_answer(&s, NULL, TFC__PROC_NONE);
	sim_expect(&s, "query 1\n"
		       "task worker/0 #1 failed exit 1: worker/0 exited with 1, 20.0 s after "
		       "worker/1 had exited with 0\n"
		       "job stopping g1: worker/0 exited with 1, 20.0 s after worker/1 had exited "
		       "with 0\n"
		       "release worker/0\n"
		       "release worker/1\n"
		       "end failed exit 1 by worker/0 #1: worker/0 exited with 1, 20.0 s after "
		       "worker/1 had exited with 0\n");
	sim_fini(&s);
}

static void peer_that_left_long_before_or_in_an_earlier_generation_is_not_named(void **state)
{
	for (int is_earlier = 0; is_earlier < 2; is_earlier++) {
		struct sim s;
		sim_mirrored_up(&s);
		sim_exit(&s, "worker/1", 0);
		s.now += is_earlier ? SIM_SECOND : 61 * SIM_SECOND;
		if (is_earlier) {
			sim_signal(&s, "worker/0", 9);
			sim_ready_all(&s);
		}
		sim_exit(&s, "worker/0", 1);
		sim_answer(&s, NULL, TFC__PROC_RUNNING);
		tfc__buf_add(&s.trace, "", 1);
		assert_non_null(strstr(s.trace.data, "worker/0 exited with 1\n"));
		assert_null(strstr(s.trace.data, "after worker/1"));
		sim_fini(&s);
	}
}

static void ps_that_left_with_0_is_named_with_its_chief_and_a_worker_with_nobody(void **state)
{
	struct sim s;
	sim_parameter_server_up(&s);
	sim_exit(&s, "worker/0", 0);
	sim_exit(&s, "ps/0", 0);
	s.now += SIM_SECOND;
	s.trace.len = 0;
	sim_exit(&s, "chief/0", 1);
	sim_answer(&s, NULL, TFC__PROC_NONE);
	tfc__buf_add(&s.trace, "", 1);
	assert_non_null(strstr(s.trace.data,
			       "chief/0 exited with 1, 1.0 s after ps/0 had exited with 0\n"));
	sim_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(permanent_exit_of_a_healthy_group_ends_the_job),
		cmocka_unit_test(peer_killed_takes_the_blame_for_an_exit_reported_first),
		cmocka_unit_test(response_to_an_older_query_is_no_response),
		cmocka_unit_test(lost_host_never_fails_the_job_by_its_peers_exit_codes),
		cmocka_unit_test(stopped_peer_takes_the_blame),
		cmocka_unit_test(peer_without_a_process_takes_the_blame_and_counts_as_lost),
		cmocka_unit_test(earliest_of_several_failures_decides),
		cmocka_unit_test(ps_takes_the_blame_for_a_chief_whose_exit_is_reported_first),
		cmocka_unit_test(frozen_ps_is_reaped_before_the_chief_starts_again),
		cmocka_unit_test(peer_that_left_with_0_shortly_before_is_named),
		cmocka_unit_test(
			peer_that_left_long_before_or_in_an_earlier_generation_is_not_named),
		cmocka_unit_test(
			ps_that_left_with_0_is_named_with_its_chief_and_a_worker_with_nobody),
		cmocka_unit_test(chief_that_fails_beside_a_healthy_ps_ends_the_job),
		cmocka_unit_test(chief_that_fails_shortly_after_its_ps_has_restarted_restarts),
		cmocka_unit_test(chief_that_fails_before_its_restarted_ps_is_ready_restarts),
		cmocka_unit_test(chief_that_fails_long_after_its_ps_has_restarted_ends_the_job),
		cmocka_unit_test(ps_that_was_the_last_to_restart_is_named),
		cmocka_unit_test(chief_that_fails_shortly_after_all_have_restarted_ends_the_job),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
