#include "campaign.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t fresh_seed(void)
{
	const char *given = getenv("TFC_CAMPAIGN_SEED");
	struct timespec now;
	if (given && *given)
		return strtoull(given, NULL, 10);
	clock_gettime(CLOCK_REALTIME, &now);
	return ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) % 1000000000u;
}

uint64_t campaign_seed(const char *name)
{
	static uint64_t seed;
	if (!seed) {
		seed = fresh_seed();
		printf("%s: TFC_CAMPAIGN_SEED=%llu\n", name, (unsigned long long)seed);
		fflush(stdout);
	}
	return seed;
}

/* splitmix64: any state is a good one, so a campaign's parts count theirs up from the seed. */
uint32_t campaign_pick(struct campaign_random *random, uint32_t limit)
{
	uint64_t hash = random->state += UINT64_C(0x9e3779b97f4a7c15);
	hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)((hash ^ hash >> 31) >> 32) % limit;
}

uint32_t campaign_length(uint32_t amount)
{
	const char *factor = getenv("TFC_CAMPAIGN");
	double value = factor ? strtod(factor, NULL) : 1;
	return value > 0 ? (uint32_t)(amount * value) : amount;
}
