/*
 * A node where attempts fail one after the other has a cooldown, in which it is not chosen.
 * Otherwise a broken disk, driver or Python installation would use up the restarts of every job.
 * Pure.
 */
#ifndef TFC_CLUSTER_COOLDOWN_H
#define TFC_CLUSTER_COOLDOWN_H

#include <stdbool.h>
#include <stdint.h>

#define TFC__COOLDOWN_FAILURES_MAX 16

/* In each field 0 is the default. */
struct tfc__cooldown_rule {
	uint32_t failures;  /* consecutive failures, 1 to TFC__COOLDOWN_FAILURES_MAX; 3 */
	uint64_t within_ns; /* the time in which they must happen; 10 minutes */
	/* length of the first cooldown; each further one is twice as long; 5 minutes */
	uint64_t cooldown_ns;
};

/* The state of one node. */
struct tfc__cooldown {
	struct tfc__cooldown_rule rule;
	uint64_t failed_at[TFC__COOLDOWN_FAILURES_MAX]; /* ring of the latest failures */
	/* consecutive failures, since the last success or cooldown */
	uint32_t failed;
	uint32_t times; /* cooldowns since the last success; at most 4 are counted */
	uint64_t until; /* end of the cooldown; 0: there was none */
};

void tfc__cooldown_init(struct tfc__cooldown *cooldown, const struct tfc__cooldown_rule *rule);

/* Counts an attempt on the node that failed by itself, was not stopped and is not a consequence of
 * another failure. Returns whether a cooldown begins. */
bool tfc__cooldown_failed(struct tfc__cooldown *cooldown, uint64_t now);

/* Counts an attempt on the node that ended well or ran for a long time. Being ready is not
 * enough. */
void tfc__cooldown_worked(struct tfc__cooldown *cooldown);

/* Whether the node has a cooldown now. *ret_until is its end; ret_until may be NULL. */
bool tfc__cooldown_is_on(const struct tfc__cooldown *cooldown, uint64_t now, uint64_t *ret_until);

#endif
