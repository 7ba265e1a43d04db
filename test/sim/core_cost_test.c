/* sim: an event about one task visits no other task, and one about a node the tasks there alone,
 * however many there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cluster/core_state.h"
#include "core_sim.h"
#include "fence.h"

#define SHARDS 1000

/* A job that is up. Only its first and last shard may be visited: those at node 1. */
static struct fence begin(struct sim *s)
{
	uint32_t nodes[SHARDS] = {[0] = 1, [SHARDS - 1] = 1};
	sim_init(s, TFC_STRATEGY_NONE, TFC__SUCCESS_ALL_WORKERS);
	sim_role(s, "shard", SHARDS, TFC__SCOPE_TASK)->is_ready_on_listen = true;
	s->policy.on_stall = TFC__STALL_RESTART;
	sim_up_at(s, nodes);
	return fence_raise(&s->core->tasks[1], &s->core->tasks[SHARDS - 1]);
}

static void end(struct sim *s, const struct fence *fence)
{
	fence_lower(fence);
	sim_fini(s);
}

static void a_restart_visits_one_task(void **state)
{
	struct sim s;
	struct fence fence = begin(&s);
	sim_signal(&s, "shard/999", 9);
	sim_expect(&s, "task shard/999 #1 failed signal 9: shard/999 died of SIGKILL; "
		       "restarting it (1 of 3 restarts in 600 s)\n"
		       "launch shard/999 #2 g1\n");
	sim_event(&s, TFC__AGENT_STARTED, "shard/999");
	sim_event(&s, TFC__AGENT_READY, "shard/999");
	sim_expect(&s, "task shard/999 #2 running\n"
		       "task shard/999 #2 ready\n");
	end(&s, &fence);
}

/* Two tasks that must move wait for room: there is room for one of them, then for the other. */
static void waiting_for_room_visits_the_tasks_that_wait(void **state)
{
	uint32_t nodes[SHARDS] = {[0] = 2, [SHARDS - 1] = 2};
	struct sim s;
	struct fence fence = begin(&s);
	sim_death(&s, "shard/999",
		  (struct tfc__attempt_end){.reason = TFC_EXIT_SIGNAL,
					    .status = 9,
					    .is_node_bad = true},
		  NULL);
	sim_death(&s, "shard/0",
		  (struct tfc__attempt_end){.reason = TFC_EXIT_SIGNAL,
					    .status = 9,
					    .is_node_bad = true},
		  NULL);
	sim_tick(&s, 30 * SIM_SECOND);
	sim_placed(&s, "shard/999", NULL, "no room");
	sim_placed(&s, "shard/0", NULL, "no room at all");
	s.trace.len = 0;
	sim_tick(&s, 60 * SIM_SECOND);
	sim_expect(&s, "job running g1: no room\n"
		       "job running g1: no room at all\n");
	sim_room(&s);
	sim_expect(&s, "place shard/999\n"
		       "place shard/0\n");
	sim_placed(&s, "shard/999", nodes, NULL);
	sim_placed(&s, "shard/0", NULL, "no room at all");
	sim_expect(&s, "hold shard/999 at node 2\n");
	sim_room(&s);
	sim_expect(&s, "place shard/0\n");
	sim_placed(&s, "shard/0", nodes, NULL);
	sim_room(&s);
	sim_expect(&s, "hold shard/0 at node 2\n");
	sim_event(&s, TFC__AGENT_HELD, "shard/999");
	sim_expect(&s, "task shard/999 #1 holding\n"
		       "job running g1\n"
		       "launch shard/999 #2 g1\n");
	end(&s, &fence);
}

static void a_stall_visits_one_task(void **state)
{
	struct sim s;
	struct fence fence = begin(&s);
	sim_stalled(&s, "shard/999", 5000, "idle");
	sim_stalled(&s, "shard/0", 5000, "idle");
	sim_expect(&s, "stacks shard/999 #1 before its end\n"
		       "stacks shard/0 #1 before its end\n");
	sim_stacked(&s, "shard/999", "");
	sim_expect(&s,
		   "task shard/999 #1 ready stalled: shard/999 has had no output for 5 s: idle; "
		   "restarting it (1 of 3 restarts in 600 s)\n"
		   "stop shard/999 #1 1s\n");
	sim_signal(&s, "shard/0", 9);
	sim_expect(&s, "task shard/0 #1 failed signal 9: shard/0 died of SIGKILL; restarting it "
		       "(1 of 3 restarts in 600 s)\n"
		       "launch shard/0 #2 g1\n");
	end(&s, &fence);
}

/* The first stall inspects all members, and the last response decides about them. */
static void a_later_stall_of_a_group_visits_one_task(void **state)
{
	struct sim s;
	sim_mirrored(&s);
	s.roles[0].count = SHARDS;
	s.policy.on_stall = TFC__STALL_RESTART;
	sim_up(&s);
	sim_stalled(&s, "worker/1", 5000, "idle");
	s.trace.len = 0;
	struct fence fence = fence_raise(&s.core->tasks[1], &s.core->tasks[SHARDS - 1]);
	sim_stalled(&s, "worker/0", 5000, "idle");
	sim_inspected(&s, "worker/999", TFC__ACTIVITY_WAITING, 0, "");
	sim_stalled(&s, "worker/999", 5000, "idle");
	sim_inspected(&s, "worker/0", TFC__ACTIVITY_WAITING, 0, "");
	sim_expect(&s, "");
	end(&s, &fence);
}

static void a_drained_node_visits_its_tasks(void **state)
{
	struct sim s;
	struct fence fence = begin(&s);
	sim_drain(&s, 1, "node b is drained");
	sim_expect(&s, "stop shard/0 #1 10s\n"
		       "stop shard/999 #1 10s\n");
	end(&s, &fence);
}

static void a_lost_node_visits_its_tasks(void **state)
{
	struct sim s;
	struct fence fence = begin(&s);
	sim_report(&s, 1, &(struct tfc__task_event){.kind = TFC__AGENT_UNREACHABLE});
	sim_report(&s, 1, &(struct tfc__task_event){.kind = TFC__AGENT_REACHABLE});
	sim_expect(&s, "job running g1: a node does not respond: shard/0, shard/999\n"
		       "job running g1: the node responds again\n");
	sim_lost(&s, 1, "it is down");
	sim_expect(&s, "task shard/0 #1 lost lost 0: shard/0 was lost: it is down; restarting it "
		       "(1 of 2 losses in 3600 s)\n"
		       "place shard/0\n"
		       "task shard/999 #1 lost lost 0: shard/999 was lost: it is down; restarting "
		       "it (1 of 2 losses in 3600 s)\n"
		       "place shard/999\n");
	end(&s, &fence);
}

/* The last response decides about the group, and may visit all of it. */
static void a_response_visits_the_tasks_of_its_node(void **state)
{
	static const uint8_t running[SHARDS] = {TFC__PROC_RUNNING};
	uint32_t nodes[SHARDS] = {[0] = 1, [SHARDS - 1] = 1};
	struct sim s;
	sim_mirrored(&s);
	s.roles[0].count = SHARDS;
	sim_up_at(&s, nodes);
	sim_exit(&s, "worker/999", 1);
	sim_expect(&s, "query 1 at node 1\n"
		       "query 1 at node 0\n");
	struct fence fence = fence_raise(&s.core->tasks[1], &s.core->tasks[SHARDS - 1]);
	sim_report(&s, 1,
		   &(struct tfc__task_event){.kind = TFC__AGENT_STATES,
					     .number = 1,
					     .states = running});
	sim_expect(&s, "");
	end(&s, &fence);
}

static void a_restarting_ps_visits_its_coordinator_and_no_worker(void **state)
{
	struct sim s;
	sim_parameter_server(&s);
	s.roles[1].count = SHARDS;
	sim_up(&s);
	struct fence fence = fence_raise(&s.core->tasks[2], &s.core->tasks[SHARDS]);
	s.trace.len = 0;
	sim_signal(&s, "ps/0", 9);
	sim_expect(&s, "task ps/0 #1 failed signal 9: ps/0 died of SIGKILL; restarting it with its "
		       "coordinator (1 of 3 restarts in 600 s)\n"
		       "job restarting g1: ps/0 died of SIGKILL; restarting it with its "
		       "coordinator (1 of 3 restarts in 600 s)\n"
		       "launch ps/0 #2 g1\n"
		       "stop chief/0 #1 1s\n");
	sim_event(&s, TFC__AGENT_STARTED, "ps/0");
	sim_event(&s, TFC__AGENT_READY, "ps/0");
	sim_signal(&s, "chief/0", 15);
	s.trace.len = 0;
	sim_event(&s, TFC__AGENT_STARTED, "chief/0");
	sim_event(&s, TFC__AGENT_READY, "chief/0");
	sim_expect(&s, "task chief/0 #2 running\n"
		       "task chief/0 #2 ready\n"
		       "job running g1\n");
	end(&s, &fence);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_restart_visits_one_task),
		cmocka_unit_test(waiting_for_room_visits_the_tasks_that_wait),
		cmocka_unit_test(a_stall_visits_one_task),
		cmocka_unit_test(a_later_stall_of_a_group_visits_one_task),
		cmocka_unit_test(a_drained_node_visits_its_tasks),
		cmocka_unit_test(a_lost_node_visits_its_tasks),
		cmocka_unit_test(a_response_visits_the_tasks_of_its_node),
		cmocka_unit_test(a_restarting_ps_visits_its_coordinator_and_no_worker),
	};
	return cmocka_run_group_tests_name("core_cost", tests, NULL, NULL);
}
