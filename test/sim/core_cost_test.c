/* sim: an event about one task visits no other task, however many there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cluster/core_state.h"
#include "core_sim.h"
#include "fence.h"

#define SHARDS 1000

/* A job that is up; of its shards only the first and the last may be visited. */
static struct fence begin(struct sim *s)
{
	uint32_t nodes[SHARDS] = {0};
	sim_init(s, TFC_STRATEGY_NONE, TFC__SUCCESS_ALL_WORKERS);
	sim_role(s, "shard", SHARDS, TFC__SCOPE_TASK)->is_ready_on_listen = true;
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
	uint32_t nodes[SHARDS] = {[0] = 1, [SHARDS - 1] = 1};
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
	sim_expect(&s, "hold shard/999 at node 1\n");
	sim_room(&s);
	sim_expect(&s, "place shard/0\n");
	sim_placed(&s, "shard/0", nodes, NULL);
	sim_room(&s);
	sim_expect(&s, "hold shard/0 at node 1\n");
	sim_event(&s, TFC__AGENT_HELD, "shard/999");
	sim_expect(&s, "task shard/999 #1 holding\n"
		       "launch shard/999 #2 g1\n");
	end(&s, &fence);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_restart_visits_one_task),
		cmocka_unit_test(waiting_for_room_visits_the_tasks_that_wait),
	};
	return cmocka_run_group_tests_name("core_cost", tests, NULL, NULL);
}
