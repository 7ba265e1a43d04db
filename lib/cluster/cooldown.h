/*
 * A node where attempts fail one after the other is avoided for a while: a broken disk, driver or
 * Python there would eat the restarts of every job. Pure.
 */
#ifndef TFC_CLUSTER_COOLDOWN_H
#define TFC_CLUSTER_COOLDOWN_H

#include <stdbool.h>
#include <stdint.h>

#define TFC__COOLDOWN_FAILURES_MAX 16

/* Zero is the default of each. */
struct tfc__cooldown_rule {
	uint32_t failures;  /* in a row, 1 to TFC__COOLDOWN_FAILURES_MAX; 3 */
	uint64_t within_ns; /* and within so long; 10 minutes */
	uint64_t avoid_ns; /* for so long it is avoided; 5 minutes, twice as long each time again */
};

/* Of one node. */
struct tfc__cooldown {
	struct tfc__cooldown_rule rule;
	uint64_t failed_at[TFC__COOLDOWN_FAILURES_MAX]; /* a ring: the last ones */
	uint32_t failed;                                /* in a row, or since the last cool-down */
	uint32_t times; /* cool-downs since something worked there; up to 4 count */
	uint64_t until; /* 0: none yet */
};

void tfc__cooldown_init(struct tfc__cooldown *cooldown, const struct tfc__cooldown_rule *rule);

/* An attempt there ended badly by itself: not one that was stopped, or fell with others. Returns
 * whether the node is avoided from now on. */
bool tfc__cooldown_failed(struct tfc__cooldown *cooldown, uint64_t now);

/* An attempt there ended well, or ran for a good while: being ready is not enough. */
void tfc__cooldown_worked(struct tfc__cooldown *cooldown);

/* Whether it is avoided now, and until when; *ret_until may be NULL. */
bool tfc__cooldown_is_on(const struct tfc__cooldown *cooldown, uint64_t now, uint64_t *ret_until);

#endif
