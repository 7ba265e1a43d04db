/*
 * Who is there, judged by what was heard of whom and when. Pure: no descriptor, clock or
 * allocation; the table of members (members.c) feeds it with the time.
 *
 *   heard        anything came from it                            -> alive
 *   broken       its connection ended                             -> suspect
 *   refused      nobody listens at its address and no connection
 *                is left: its process is gone                     -> down, at once
 *   silence      for suspect_ns -> suspect, for down_ns           -> down
 *
 * Two guards. What was measured while this process itself slept is void: a tick that comes too late
 * moves all silence by the delay. And when at least two, and more than a third, of those thought to
 * be there fall silent together, this process may be the one that was cut off: they stay suspect,
 * nobody is called down by silence alone, until they are heard, refused, or fewer.
 */
#ifndef TFC_MEMBER_PROBE_H
#define TFC_MEMBER_PROBE_H

#include "base/list.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/member.h>

/* Zero is the default of each. */
struct tfc__probe_times {
	uint64_t period_ns;  /* between two looks; 1 s */
	uint64_t suspect_ns; /* of silence; 3 s */
	uint64_t down_ns;    /* of silence; 8 s */
};

struct tfc__probe {
	struct tfc__link link;
	uint32_t state;    /* enum tfc_member_state; a new one is suspect */
	uint64_t heard_at; /* or when it was added */
	bool is_connected; /* was heard, and that connection is not known to have ended */
	bool is_due;       /* out: it is to be asked for a sign of life now */
};

struct tfc__probes {
	struct tfc__probe_times times;
	struct tfc__link all;
	uint64_t next_at; /* of the tick that is due; 0: there is nobody to look at */
	bool is_cut_off;  /* too many fell silent together */
};

void tfc__probes_init(struct tfc__probes *probes, const struct tfc__probe_times *times);
/* One that left is looked at again as soon as it is heard. */
void tfc__probe_add(struct tfc__probes *probes, struct tfc__probe *probe, uint64_t now);
void tfc__probe_remove(struct tfc__probes *probes, struct tfc__probe *probe);

void tfc__probe_heard(struct tfc__probe *probe, uint64_t now);
void tfc__probe_broken(struct tfc__probe *probe);
void tfc__probe_refused(struct tfc__probe *probe);
void tfc__probe_left(struct tfc__probe *probe); /* it said goodbye */

/* One look at all, at next_at or later. States may change, is_due is set for each. */
void tfc__probes_tick(struct tfc__probes *probes, uint64_t now);

#endif
