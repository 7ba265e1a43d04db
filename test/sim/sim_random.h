/*
 * What the random worlds share: chance from a seed, and promises that end the test when they are
 * broken. `w` is a world of the test's own, with `seed`, `random` and `steps` (uint64_t) and the
 * `sim` whose actions are checked.
 */
#ifndef TEST_SIM_SIM_RANDOM_H
#define TEST_SIM_SIM_RANDOM_H

#include "core_sim.h"

#include <stdio.h>
#include <stdlib.h>

/* xorshift64 */
static inline uint32_t sim_chance(uint64_t *random, uint32_t n)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return (uint32_t)((*random >> 11) % n);
}

static inline void sim_broken(const struct sim *s, uint64_t seed, uint64_t steps,
			      const char *promise, const struct tfc__core_action *a)
{
	fprintf(stderr, "seed %llu, step %llu: broken: %s\n", (unsigned long long)seed,
		(unsigned long long)steps, promise);
	if (a) {
		struct tfc__buf line = {0};
		sim_print(s, a, &line);
		fprintf(stderr, "at: %s", line.data);
		tfc__buf_fini(&line);
	}
	exit(1);
}

#define chance(w, n) sim_chance(&(w)->random, n)
#define once_in(w, n) (chance(w, n) == 0)
/* a: the action that breaks it, or NULL. */
#define broken(w, promise, a) sim_broken(&(w)->sim, (w)->seed, (w)->steps, promise, a)
#define promise(w, claim, a)                  \
	do {                                  \
		if (!(claim))                 \
			broken(w, #claim, a); \
	} while (0)

#endif
