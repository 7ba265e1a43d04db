/* cluster: traces of the maintainer's core: nodes that are lost, drained or silent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core_sim.h"

static const uint32_t first_nodes[] = {1, 2};

/* Mirrored workers: worker/0 at node 1, worker/1 at node 2. */
static void two_workers_up(struct sim *s)
{
	sim_mirrored(s);
	sim_up_at(s, first_nodes);
}

/* ... placed there, and only worker/1 has its port. */
static void two_workers_half_held(struct sim *s)
{
	sim_mirrored_placed(s, first_nodes);
	sim_event(s, TFC__AGENT_HELD, "worker/1");
	s->trace.len = 0;
}

/* Both workers at node 1, tensorboard/0 at node 2. */
static void workers_and_tensorboard_up(struct sim *s)
{
	static const uint32_t nodes[] = {1, 1, 2};
	sim_mirrored(s);
	sim_role(s, "tensorboard", 1, TFC__SCOPE_TASK);
	sim_up_at(s, nodes);
}

/* It is placed there, and started again without the workers. */
static void expect_tensorboard_at_node_3(struct sim *s)
{
	static const uint32_t nodes[] = {9, 9, 3};
	sim_placed(s, "tensorboard/0", nodes, NULL);
	sim_held_all(s);
	sim_expect(s, "hold tensorboard/0 at node 3\n"
		      "task tensorboard/0 #1 holding\n"
		      "launch tensorboard/0 #2 g1\n");
	assert_int_equal(tfc__core_generation(s->core), 1);
}

/* ---- lost */

static void group_restarts_elsewhere_when_a_node_is_lost(void **state)
{
	static const uint32_t others[] = {9, 3};
	struct sim s;
	two_workers_up(&s);
	sim_lost(&s, 2, "node b: it is down");
	sim_expect(&s, "task worker/1 #1 lost lost 0: worker/1 was lost: node b: it is down; "
		       "restarting the group (1 of 2 losses in 3600 s)\n"
		       "job restarting g1: worker/1 was lost: node b: it is down; restarting the "
		       "group (1 of 2 losses in 3600 s)\n"
		       "stop worker/0 #1 1s\n");
	sim_exit(&s, "worker/0", 1);
	sim_expect(&s, "task worker/0 #1 stopped consequence 1: worker/0 exited with 1\n"
		       "place gang worker/1\n");
	sim_placed(&s, NULL, others, NULL);
	sim_expect(&s, "hold worker/1 at node 3\n");
	sim_held_all(&s);
	sim_expect(&s, "task worker/1 #1 holding\n"
		       "launch worker/0 #2 g2\n"
		       "launch worker/1 #2 g2\n");
	sim_fini(&s);
}

static void all_tasks_of_a_lost_node_cost_one_restart(void **state)
{
	static const uint32_t nodes[] = {1, 2, 2};
	struct sim s;
	sim_mirrored(&s);
	s.roles[0].count = 3;
	sim_up_at(&s, nodes);
	sim_lost(&s, 2, "it is down");
	sim_expect(&s, "task worker/1 #1 lost lost 0: worker/1 was lost: it is down; restarting "
		       "the group (1 of 2 losses in 3600 s)\n"
		       "job restarting g1: worker/1 was lost: it is down; restarting the group (1 "
		       "of 2 losses in 3600 s)\n"
		       "stop worker/0 #1 1s\n"
		       "task worker/2 #1 lost consequence 0: worker/2 was lost: it is down\n");
	sim_signal(&s, "worker/0", 15);
	sim_expect(&s, "task worker/0 #1 stopped consequence 15: worker/0 died of SIGTERM\n"
		       "place gang worker/1 worker/2\n");
	sim_fini(&s);
}

static void lost_node_explains_its_peers_exits(void **state)
{
	static const uint8_t running[] = {TFC__PROC_RUNNING, TFC__PROC_RUNNING};
	struct sim s;
	two_workers_up(&s);
	sim_exit(&s, "worker/0", 1);
	sim_expect(&s, "query 1 at node 1\n"
		       "query 1 at node 2\n");
	sim_answer_of(&s, 1, running);
	sim_expect(&s, ""); /* node 2 is silent: it is waited for */
	sim_tick(&s, 20 * SIM_SECOND);
	sim_expect(&s, "");
	sim_lost(&s, 2, "it is down");
	sim_expect(&s, "task worker/1 #1 lost lost 0: worker/1 was lost: it is down; restarting "
		       "the group (1 of 2 losses in 3600 s)\n"
		       "task worker/0 #1 failed consequence 1: worker/0 exited with 1\n"
		       "job restarting g1: worker/1 was lost: it is down; restarting the group (1 "
		       "of 2 losses in 3600 s)\n"
		       "place gang worker/1\n");
	sim_fini(&s);
}

/* Nothing is left at node 2 that its answer could be about. */
static void verdict_does_not_wait_for_a_node_that_its_last_task_has_left(void **state)
{
	static const uint8_t running[] = {TFC__PROC_RUNNING, TFC__PROC_RUNNING, TFC__PROC_RUNNING};
	struct sim s;
	workers_and_tensorboard_up(&s);
	sim_exit(&s, "worker/0", 1);
	sim_expect(&s, "query 1 at node 1\n"
		       "query 1 at node 2\n");
	sim_death(&s, "tensorboard/0",
		  (struct tfc__attempt_end){.reason = TFC_EXIT_SIGNAL,
					    .status = 9,
					    .is_node_bad = true},
		  NULL);
	s.trace.len = 0;
	expect_tensorboard_at_node_3(&s);
	sim_lost(&s, 2, "it is down");
	sim_expect(&s, "");
	sim_answer_of(&s, 1, running);
	sim_expect(&s, "task worker/0 #1 failed exit 1: worker/0 exited with 1\n"
		       "job stopping g1: worker/0 exited with 1\n"
		       "stop worker/1 #1 1s\n"
		       "stop tensorboard/0 #2 1s\n");
	sim_fini(&s);
}

static void verdict_comes_with_the_last_response(void **state)
{
	static const uint8_t running[] = {TFC__PROC_RUNNING, TFC__PROC_RUNNING};
	static const uint8_t stopped[] = {TFC__PROC_NONE, TFC__PROC_STOPPED};
	struct sim s;
	two_workers_up(&s);
	sim_exit(&s, "worker/0", 1);
	s.trace.len = 0;
	/* What node 1 says of worker/1, which is not there, counts for nothing. */
	sim_answer_of(&s, 1, stopped);
	sim_expect(&s, "");
	sim_answer_of(&s, 2, running);
	assert_int_equal(tfc__core_task_state(s.core, 0), TFC_TASK_FAILED);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STOPPING);
	sim_fini(&s);
}

static void sidecar_moves_alone(void **state)
{
	struct sim s;
	workers_and_tensorboard_up(&s);
	sim_lost(&s, 2, "it is down");
	sim_expect(&s, "task tensorboard/0 #1 lost lost 0: tensorboard/0 was lost: it is down; "
		       "restarting it (1 of 2 losses in 3600 s)\n"
		       "place tensorboard/0\n");
	expect_tensorboard_at_node_3(&s);
	sim_fini(&s);
}

/* A death that says that the node is bad. */
static void die_of_the_node(struct sim *s, const char *task)
{
	sim_death(s, task,
		  (struct tfc__attempt_end){.reason = TFC_EXIT_SIGNAL,
					    .status = 9,
					    .is_node_bad = true},
		  NULL);
}

static void sidecar_leaves_a_node_where_attempts_fail(void **state)
{
	struct sim s;
	workers_and_tensorboard_up(&s);
	die_of_the_node(&s, "tensorboard/0");
	sim_expect(&s, "task tensorboard/0 #1 failed signal 9: tensorboard/0 died of SIGKILL; "
		       "restarting it (1 of 3 restarts in 600 s)\n"
		       "release tensorboard/0\n"
		       "place tensorboard/0\n");
	expect_tensorboard_at_node_3(&s);
	sim_fini(&s);
}

static void repeated_exit_moves_nothing(void **state)
{
	static const uint32_t nodes[] = {1, 1, 2};
	struct sim s;
	sim_mirrored(&s);
	sim_role(&s, "tensorboard", 1, TFC__SCOPE_TASK)->backoff_min_ns = SIM_SECOND;
	sim_up_at(&s, nodes);
	sim_signal(&s, "tensorboard/0", 9);
	s.trace.len = 0;
	die_of_the_node(&s, "tensorboard/0");
	sim_tick(&s, SIM_SECOND);
	sim_expect(&s, "launch tensorboard/0 #2 g1\n");
	sim_fini(&s);
}

static void of_a_group_only_who_failed_there_leaves(void **state)
{
	static const uint32_t others[] = {9, 3};
	struct sim s;
	two_workers_up(&s);
	die_of_the_node(&s, "worker/1");
	s.trace.len = 0;
	sim_exit(&s, "worker/0", 1);
	sim_expect(&s, "task worker/0 #1 stopped consequence 1: worker/0 exited with 1\n"
		       "release worker/1\n"
		       "place gang worker/1\n");
	sim_placed(&s, NULL, others, NULL);
	sim_expect(&s, "hold worker/1 at node 3\n");
	sim_fini(&s);
}

/* Its data has moved: it is stopped and placed again, and its group with it. */
static void tasks_that_are_ordered_to_leave_are_placed_anew(void **state)
{
	static const uint32_t nodes[] = {1, 2, 3};
	struct sim s;
	sim_mirrored(&s);
	sim_role(&s, "tensorboard", 1, TFC__SCOPE_TASK);
	sim_up_at(&s, nodes);
	sim_step(&s, &(struct tfc__core_event){.kind = TFC__CORE_LEAVE,
					       .task = 0,
					       .count = 2,
					       .text = "its data has moved"});
	sim_expect(&s, "job restarting g1: worker/0 must move: its data has moved; restarting the "
		       "group\n"
		       "stop worker/0 #1 30s\n"
		       "stop worker/1 #1 30s\n");
	sim_signal(&s, "worker/0", 15);
	s.trace.len = 0;
	sim_signal(&s, "worker/1", 15);
	sim_expect(&s, "task worker/1 #1 stopped stopped 15: worker/1 died of SIGTERM\n"
		       "release worker/0\n"
		       "release worker/1\n"
		       "place gang worker/0 worker/1\n");
	sim_fini(&s);
}

static void ps_worker_that_moves_takes_the_cluster_along(void **state)
{
	static const uint32_t nodes[] = {1, 2, 1};
	struct sim s;
	sim_parameter_server(&s);
	sim_up_at(&s, nodes);
	sim_lost(&s, 2, "it is down");
	sim_expect(&s, "task worker/0 #1 lost lost 0: worker/0 was lost: it is down; restarting "
		       "the group (1 of 2 losses in 3600 s)\n"
		       "job restarting g1: worker/0 was lost: it is down; restarting the group (1 "
		       "of 2 losses in 3600 s)\n"
		       "stop chief/0 #1 1s\n"
		       "stop ps/0 #1 1s\n");
	sim_fini(&s);
}

static void task_in_backoff_must_move_too(void **state)
{
	static const uint32_t nodes[] = {1, 2, 1};
	struct sim s;
	sim_parameter_server(&s);
	s.roles[1].backoff_min_ns = 5 * SIM_SECOND;
	sim_up_at(&s, nodes);
	sim_signal(&s, "worker/0", 9);
	s.trace.len = 0;
	sim_lost(&s, 2, "it is down");
	sim_expect(&s, "job restarting g1: worker/0 must move: it is down; restarting the group\n"
		       "stop chief/0 #1 1s\n"
		       "stop ps/0 #1 1s\n");
	sim_signal(&s, "chief/0", 15);
	sim_signal(&s, "ps/0", 15);
	s.trace.len = 0;
	sim_tick(&s, 5 * SIM_SECOND); /* its backoff counts */
	sim_expect(&s, "place gang worker/0\n");
	sim_fini(&s);
}

static void node_lost_during_the_start_is_replaced(void **state)
{
	static const uint32_t others[] = {9, 3};
	struct sim s;
	two_workers_half_held(&s);
	sim_lost(&s, 2, "it is down");
	sim_expect(&s, "place gang worker/1\n"); /* and no release: there is nobody to tell */
	sim_placed(&s, NULL, others, NULL);
	sim_held_all(&s);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STARTING);
	sim_fini(&s);
}

static void used_up_losses_fail_the_job(void **state)
{
	static const uint32_t nodes[] = {1, 2};
	struct sim s;
	sim_mirrored(&s);
	s.roles[0].loss_max = 0;
	sim_up_at(&s, nodes);
	sim_lost(&s, 2, "it is down");
	sim_expect(&s, "task worker/1 #1 lost lost 0: worker/1 was lost: it is down; not "
		       "restarted: restart.losses is 0\n"
		       "job stopping g1: worker/1 was lost: it is down; not restarted: "
		       "restart.losses is 0\n"
		       "stop worker/0 #1 1s\n");
	sim_signal(&s, "worker/0", 15);
	sim_expect(&s, "task worker/0 #1 stopped consequence 15: worker/0 died of SIGTERM\n"
		       "release worker/0\n"
		       "end failed lost 0 by worker/1 #1: worker/1 was lost: it is down; not "
		       "restarted: restart.losses is 0\n");
	sim_fini(&s);
}

static void node_lost_while_the_job_ends_is_not_waited_for(void **state)
{
	struct sim s;
	two_workers_up(&s);
	sim_stop(&s, 0, false);
	sim_signal(&s, "worker/0", 15);
	s.trace.len = 0;
	sim_lost(&s, 2, "it is down");
	sim_expect(&s, "task worker/1 #1 stopped stopped 0: worker/1 was lost: it is down\n"
		       "release worker/0\n"
		       "end stopped stopped 0: stopped\n");
	sim_fini(&s);
}

static void network_explains_exits_like_a_dead_peer(void **state)
{
	static const uint8_t running[] = {TFC__PROC_RUNNING, TFC__PROC_RUNNING};
	struct sim s;
	two_workers_up(&s);
	sim_report(&s, 2, &(struct tfc__task_event){.kind = TFC__AGENT_UNREACHABLE});
	sim_exit(&s, "worker/0", 1);
	sim_answer_of(&s, 1, running);
	s.trace.len = 0;
	sim_report(&s, 2, &(struct tfc__task_event){.kind = TFC__AGENT_REACHABLE});
	s.now += 30 * SIM_SECOND;
	sim_answer_of(&s, 2, running);
	sim_expect(&s, "job running g1: the node responds again\n"
		       "task worker/0 #1 failed exit 1: worker/0 exited with 1 while a node was "
		       "unreachable; restarting the group (1 of 2 losses in 3600 s)\n"
		       "job restarting g1: worker/0 exited with 1 while a node was unreachable; "
		       "restarting the group (1 of 2 losses in 3600 s)\n"
		       "stop worker/1 #1 1s\n");
	sim_exit(&s, "worker/1", 1);
	sim_ready_all(&s);
	/* A minute later it explains nothing any more. */
	s.now += 60 * SIM_SECOND;
	sim_exit(&s, "worker/0", 1);
	sim_answer_of(&s, 1, running);
	sim_answer_of(&s, 2, running);
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STOPPING);
	sim_fini(&s);
}

static void an_unreachable_node_is_reported_with_its_tasks(void **state)
{
	static const uint32_t nodes[] = {1, 2, 2};
	const struct tfc__task_event unreachable = {.kind = TFC__AGENT_UNREACHABLE,
						    .text = "node b does not respond"};
	const struct tfc__task_event reachable = {.kind = TFC__AGENT_REACHABLE,
						  .text = "node b responds again"};
	struct sim s;
	sim_mirrored(&s);
	s.roles[0].count = 3;
	sim_up_at(&s, nodes);
	sim_report(&s, 2, &unreachable);
	sim_expect(&s, "job running g1: node b does not respond: worker/1, worker/2\n");
	sim_report(&s, 2, &reachable);
	sim_expect(&s, "job running g1: node b responds again\n");
	sim_report(&s, 3, &unreachable); /* it has no task */
	sim_report(&s, 3, &reachable);
	sim_expect(&s, "");
	sim_fini(&s);
}

/* The text names as many tasks as fit. */
static void an_unreachable_node_with_many_tasks_names_some_and_counts_the_others(void **state)
{
	uint32_t nodes[SIM_TASKS];
	struct sim s;
	sim_mirrored(&s);
	s.roles[0].count = SIM_TASKS;
	for (uint32_t i = 0; i < SIM_TASKS; i++)
		nodes[i] = 1;
	sim_up_at(&s, nodes);
	sim_report(&s, 1,
		   &(struct tfc__task_event){.kind = TFC__AGENT_UNREACHABLE,
					     .text = "node b does not respond"});
	const char *report = s.trace.data;
	assert_non_null(strstr(report, "node b does not respond: worker/0, worker/1, "));
	uint32_t named = 0, more = 0;
	for (const char *at = report; (at = strstr(at, "worker/")); at++)
		named++;
	assert_int_equal(sscanf(strstr(report, " and "), " and %u more\n", &more), 1);
	assert_int_equal(named + more, SIM_TASKS);
	sim_fini(&s);
}

/* What a stopping job waits for does not change how it ends. */
static void an_unreachable_node_is_reported_while_the_job_stops(void **state)
{
	struct sim s;
	two_workers_up(&s);
	sim_stop(&s, 0, false);
	sim_signal(&s, "worker/0", 15);
	s.trace.len = 0;
	sim_report(&s, 2, &(struct tfc__task_event){.kind = TFC__AGENT_UNREACHABLE});
	sim_expect(&s, "job stopping g1: a node does not respond: worker/1\n");
	sim_lost(&s, 2, "it is down");
	sim_expect(&s, "job stopping g1: it is down\n"
		       "task worker/1 #1 stopped stopped 0: worker/1 was lost: it is down\n"
		       "release worker/0\n"
		       "end stopped stopped 0: stopped\n");
	sim_fini(&s);
}

/* ---- drained */

static void drained_node_is_left_with_the_whole_grace(void **state)
{
	static const uint32_t others[] = {9, 3};
	struct sim s;
	two_workers_up(&s);
	sim_drain(&s, 2, "node b is drained");
	sim_expect(&s, "job restarting g1: worker/1 must move: node b is drained; restarting the "
		       "group\n"
		       "stop worker/0 #1 30s\n"
		       "stop worker/1 #1 30s\n");
	sim_signal(&s, "worker/0", 15);
	sim_signal(&s, "worker/1", 15);
	sim_expect(&s, "task worker/0 #1 stopped consequence 15: worker/0 died of SIGTERM\n"
		       "task worker/1 #1 stopped stopped 15: worker/1 died of SIGTERM\n"
		       "release worker/1\n"
		       "place gang worker/1\n");
	sim_placed(&s, NULL, others, NULL);
	sim_held_all(&s);
	assert_int_equal(tfc__core_generation(s.core), 2);
	assert_int_equal(tfc__core_node(s.core, 1), 3);
	sim_fini(&s);
}

/* Nothing has failed: neither budget pays, however often. */
static void moves_cost_no_budget(void **state)
{
	static const uint32_t nodes[2][2] = {{9, 2}, {9, 3}};
	struct sim s;
	sim_mirrored(&s);
	s.roles[0].loss_max = 0;
	s.roles[0].restart_max = 0;
	sim_up_at(&s, first_nodes);
	for (uint32_t i = 0; i < 20; i++) {
		sim_drain(&s, i % 2 ? 3 : 2, "it is drained");
		sim_signal(&s, "worker/0", 15);
		sim_signal(&s, "worker/1", 15);
		sim_placed(&s, NULL, nodes[1 - i % 2], NULL);
		sim_held_all(&s);
		sim_ready_all(&s);
		assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_RUNNING);
		assert_int_equal(tfc__core_generation(s.core), i + 2);
	}
	sim_lost(&s, 2, "it is down"); /* and a loss is one still */
	assert_int_equal(tfc__core_job_state(s.core), TFC_JOB_STOPPING);
	sim_fini(&s);
}

static void sidecar_leaves_a_drained_node_at_once(void **state)
{
	static const uint32_t nodes[] = {1, 1, 2};
	struct sim s;
	sim_mirrored(&s);
	sim_role(&s, "tensorboard", 1, TFC__SCOPE_TASK);
	s.roles[1].restart_max = 0;
	s.roles[1].backoff_min_ns = 5 * SIM_SECOND;
	s.roles[1].loss_max = 0;
	sim_up_at(&s, nodes);
	sim_drain(&s, 2, "node b is drained");
	sim_expect(&s, "stop tensorboard/0 #1 10s\n");
	sim_signal(&s, "tensorboard/0", 15);
	sim_expect(&s, "task tensorboard/0 #1 stopped stopped 15: tensorboard/0 died of SIGTERM\n"
		       "release tensorboard/0\n"
		       "place tensorboard/0\n");
	expect_tensorboard_at_node_3(&s);
	sim_fini(&s);
}

static void task_that_may_not_restart_stays_on_a_drained_node(void **state)
{
	static const uint32_t nodes[] = {1, 2};
	struct sim s;
	sim_mirrored(&s);
	s.roles[0].restart_on = TFC__RESTART_NEVER;
	sim_up_at(&s, nodes);
	sim_drain(&s, 2, "node b is drained");
	sim_expect(&s, "job running g1: worker/1 must move: node b is drained; it stays there "
		       "until it ends, because restart.on is never\n");
	sim_drain(&s, 3, "node c is drained");
	sim_expect(&s, ""); /* nothing is there, and worker/1 is not */
	sim_exit(&s, "worker/0", 0);
	sim_exit(&s, "worker/1", 0);
	assert_int_equal(s.end.state, TFC_JOB_SUCCEEDED);
	sim_fini(&s);
}

static void port_held_at_a_drained_node_is_given_back(void **state)
{
	struct sim s;
	two_workers_half_held(&s);
	sim_drain(&s, 2, "node b is drained");
	sim_expect(&s, "release worker/1\n"
		       "place gang worker/1\n");
	sim_fini(&s);
}

/* ---- let go */

static void fenced_core_does_nothing_any_more(void **state)
{
	static const uint32_t nodes[] = {1, 2};
	struct sim s;
	sim_mirrored(&s);
	s.policy.deadline_ns = 100 * SIM_SECOND;
	sim_up_at(&s, nodes);
	sim_report(&s, 0, &(struct tfc__task_event){.kind = TFC__AGENT_FENCED});
	assert_int_equal(tfc__core_wake_at(s.core), 0);
	sim_signal(&s, "worker/0", 9);
	sim_lost(&s, 2, "it is down");
	sim_drain(&s, 1, "drained");
	sim_stop(&s, 0, true);
	sim_tick(&s, 1000 * SIM_SECOND);
	sim_expect(&s, "");
	sim_fini(&s);
}

static void suspended_job_stops_its_tasks_and_has_no_end(void **state)
{
	struct sim s;
	two_workers_up(&s);
	sim_step(&s, &(struct tfc__core_event){.kind = TFC__CORE_SUSPEND});
	sim_expect(&s, "stop worker/0 #1 10s\n"
		       "stop worker/1 #1 10s\n");
	sim_signal(&s, "worker/0", 15);
	sim_signal(&s, "worker/1", 15);
	sim_expect(&s, "task worker/0 #1 stopped stopped 15: worker/0 died of SIGTERM\n"
		       "task worker/1 #1 stopped stopped 15: worker/1 died of SIGTERM\n"
		       "release worker/0\n"
		       "release worker/1\n"
		       "suspended\n");
	sim_fini(&s);
}

static void stop_by_the_user_counts_more_than_a_suspension(void **state)
{
	struct sim s;
	two_workers_up(&s);
	sim_step(&s, &(struct tfc__core_event){.kind = TFC__CORE_SUSPEND});
	s.trace.len = 0;
	sim_stop(&s, 0, false);
	sim_expect(&s, "job stopping g1\n");
	sim_signal(&s, "worker/0", 15);
	sim_signal(&s, "worker/1", 15);
	assert_int_equal(s.end.state, TFC_JOB_STOPPED);
	sim_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(group_restarts_elsewhere_when_a_node_is_lost),
		cmocka_unit_test(all_tasks_of_a_lost_node_cost_one_restart),
		cmocka_unit_test(lost_node_explains_its_peers_exits),
		cmocka_unit_test(verdict_does_not_wait_for_a_node_that_its_last_task_has_left),
		cmocka_unit_test(verdict_comes_with_the_last_response),
		cmocka_unit_test(sidecar_moves_alone),
		cmocka_unit_test(sidecar_leaves_a_node_where_attempts_fail),
		cmocka_unit_test(repeated_exit_moves_nothing),
		cmocka_unit_test(of_a_group_only_who_failed_there_leaves),
		cmocka_unit_test(tasks_that_are_ordered_to_leave_are_placed_anew),
		cmocka_unit_test(ps_worker_that_moves_takes_the_cluster_along),
		cmocka_unit_test(task_in_backoff_must_move_too),
		cmocka_unit_test(node_lost_during_the_start_is_replaced),
		cmocka_unit_test(used_up_losses_fail_the_job),
		cmocka_unit_test(node_lost_while_the_job_ends_is_not_waited_for),
		cmocka_unit_test(network_explains_exits_like_a_dead_peer),
		cmocka_unit_test(an_unreachable_node_is_reported_with_its_tasks),
		cmocka_unit_test(
			an_unreachable_node_with_many_tasks_names_some_and_counts_the_others),
		cmocka_unit_test(an_unreachable_node_is_reported_while_the_job_stops),
		cmocka_unit_test(drained_node_is_left_with_the_whole_grace),
		cmocka_unit_test(moves_cost_no_budget),
		cmocka_unit_test(sidecar_leaves_a_drained_node_at_once),
		cmocka_unit_test(task_that_may_not_restart_stays_on_a_drained_node),
		cmocka_unit_test(port_held_at_a_drained_node_is_given_back),
		cmocka_unit_test(fenced_core_does_nothing_any_more),
		cmocka_unit_test(suspended_job_stops_its_tasks_and_has_no_end),
		cmocka_unit_test(stop_by_the_user_counts_more_than_a_suspension),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
