/*
 * cluster: the maintainer's core over several machines that crash, come back, are cut off, fill up
 * and are drained, while it ends and goes on in later terms. Orders and events travel in order, may
 * take long, and are lost only with their machine.
 *
 * What leases promise is played by nodes_world.c: a machine that cannot be reached stops its tasks
 * when their lease is over, LOST is told after that, and the first order of a later term ends what
 * an earlier one left. A node that is killed and started again holds nothing, answers no query and
 * is not told as lost before the tasks of its previous incarnation have ended. The last will of a
 * node that is killed and stays away may come as soon as they have. On that ground these must hold:
 *   - two attempts of one task are never alive at the same time
 *   - nothing is ordered from a node that is lost, nor by a term that was fenced
 *   - all members of a generation are told the same addresses
 *   - a job whose programs fail only because of machines, the network or each other succeeds
 *   - at the end nothing is alive, and nothing is held
 *
 * usage: nodes_random_test [SEED]   one seed alone, with its trace
 * Read from the environment: TFC_TEST_SEEDS, how many jobs there are.
 */
#include "nodes_world.h"

#include <stdio.h>
#include <stdlib.h>

#include "sanitized.h"

#define SEEDS (TEST_IS_SANITIZED ? "1500" : "6000")
#define WILD_STEPS 1500
#define CALM_STEPS 60000

static void make_role(struct world *w, const char *name, uint32_t count, uint32_t scope)
{
	struct tfc__core_role *role = sim_role(&w->sim, name, count, scope);
	role->restart_max = 1000000;
	role->window_ns = SIM_SECOND;
	role->loss_max = 1000000;
	role->loss_window_ns = SIM_SECOND;
	role->backoff_min_ns = once_in(w, 3) ? SIM_SECOND : 0;
	role->backoff_max_ns = 5 * SIM_SECOND;
	role->finish_ns = 5 * SIM_SECOND;
}

static void make_job(struct world *w)
{
	if (once_in(w, 2)) {
		sim_init(&w->sim, TFC_STRATEGY_MULTI_WORKER_MIRRORED, TFC__SUCCESS_ALL_WORKERS);
		make_role(w, "worker", 1 + chance(w, 5), TFC__SCOPE_GROUP);
	} else {
		sim_init(&w->sim, TFC_STRATEGY_PARAMETER_SERVER, TFC__SUCCESS_CHIEF);
		make_role(w, "chief", 1, TFC__SCOPE_COORDINATOR);
		make_role(w, "worker", 1 + chance(w, 3), TFC__SCOPE_TASK);
		make_role(w, "ps", 1 + chance(w, 2), TFC__SCOPE_COORDINATOR);
	}
	if (once_in(w, 3))
		make_role(w, "evaluator", 1, TFC__SCOPE_TASK);
	if (once_in(w, 2))
		make_role(w, "tensorboard", 1, TFC__SCOPE_TASK);
	w->sim.policy.seed = w->seed;
	w->sim.policy.explain_ns = once_in(w, 2) ? 10 * SIM_SECOND : 0;
	w->sim.policy.roles = w->sim.roles;
}

static struct world run(uint64_t seed, bool is_loud)
{
	static struct world w;
	world_init(&w, seed, is_loud);
	make_job(&w);
	world_begin(&w);
	while (!w.is_ended && w.steps < WILD_STEPS)
		world_move(&w);
	/* Now nothing new happens, and every program ends well some time. */
	w.is_calm = true;
	while (!w.is_ended && w.steps < WILD_STEPS + CALM_STEPS)
		world_move(&w);
	world_end(&w);
	return w;
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		run(strtoull(argv[1], NULL, 0), true);
		return 0;
	}
	const char *wanted = getenv("TFC_TEST_SEEDS");
	uint64_t seeds = strtoull(wanted ? wanted : SEEDS, NULL, 10);
	uint64_t steps = 0, launches = 0, losses = 0, terms = 0, moves = 0, outlived = 0;
	uint64_t wills = 0;
	uint64_t ends[16] = {0};
	for (uint64_t seed = 0; seed < seeds; seed++) {
		struct world w = run(seed, false);
		steps += w.steps;
		launches += w.launches;
		losses += w.losses;
		terms += w.epoch - 1;
		moves += w.moves;
		outlived += w.outlived;
		wills += w.wills;
		ends[w.end.state]++;
		if (seed % 16 == 0 && run(seed, false).hash != w.hash)
			broken(&w, "the same seed gives the same trace", NULL);
	}
	printf("%llu steps, %llu launches, %llu nodes lost, %llu moves, %llu later terms, %llu "
	       "tasks "
	       "outlived their node, %llu last wills: %llu succeeded, %llu stopped\n",
	       (unsigned long long)steps, (unsigned long long)launches, (unsigned long long)losses,
	       (unsigned long long)moves, (unsigned long long)terms, (unsigned long long)outlived,
	       (unsigned long long)wills, (unsigned long long)ends[TFC_JOB_SUCCEEDED],
	       (unsigned long long)ends[TFC_JOB_STOPPED]);
	/* A world in which nothing happens proves nothing. */
	bool has_happened = losses > seeds / 4 && terms > seeds / 8 && moves > seeds / 4 &&
			    outlived > seeds / 8 && wills > seeds / 16 &&
			    ends[TFC_JOB_SUCCEEDED] > seeds / 2;
	return has_happened || seeds < 100 ? 0 : 1;
}
