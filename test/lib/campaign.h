/*
 * What campaigns share: random choices that can be made again, and how long to go on. A campaign is
 * a test whose short form takes seconds; TFC_CAMPAIGN, a factor, makes it longer, and
 * TFC_CAMPAIGN_SEED repeats the choices of an earlier one.
 */
#ifndef TFC_TEST_CAMPAIGN_H
#define TFC_TEST_CAMPAIGN_H

#include <stdint.h>

struct campaign_random {
	uint64_t state;
};

/* The seed of this campaign, which it prints; the same for all calls in a process. */
uint64_t campaign_seed(const char *name);

/* From 0 to below `limit`. */
uint32_t campaign_pick(struct campaign_random *random, uint32_t limit);

/* `amount` times TFC_CAMPAIGN. */
uint32_t campaign_length(uint32_t amount);

#endif
