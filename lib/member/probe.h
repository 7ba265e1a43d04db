/*
 * Judges the state of each member by what was received from it and when. Pure: no descriptor, clock
 * or allocation; the table of members (members.c) calls it with the time.
 *
 *   received     anything was received from the member            -> alive
 *   broken       its connection ended                             -> suspect
 *   refused      nothing listens at its address and it has no
 *                connection left: its process has ended           -> down, at once
 *   silence      for suspect_ns -> suspect, for down_ns           -> down
 *
 * Two guards. The first: this process may have slept. A tick that comes late by a period or more
 * shortens every silence by the delay. The second: this process may be the one that is cut off. If
 * at least two members, and more than a third of those not down or left, are silent at once, no
 * member becomes down by silence until fewer are silent.
 */
#ifndef TFC_MEMBER_PROBE_H
#define TFC_MEMBER_PROBE_H

#include "base/list.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/member.h>

/* In each field 0 is the default. */
struct tfc__probe_times {
	uint64_t period_ns;  /* between two ticks; 1 s */
	uint64_t suspect_ns; /* of silence; 3 s */
	uint64_t down_ns;    /* of silence; 8 s */
};

struct tfc__probe {
	struct tfc__link link;
	uint32_t state;       /* enum tfc_member_state; a new one is suspect */
	uint64_t received_at; /* when something was last received, or when it was added */
	bool is_connected;    /* something was received over a connection that has not ended */
	bool is_due;          /* output: a heartbeat is to be requested from it now */
};

struct tfc__probes {
	struct tfc__probe_times times;
	struct tfc__link all;
	uint64_t next_at; /* time of the next tick; 0: no probes */
	bool is_cut_off;  /* too many members became silent at once */
};

void tfc__probes_init(struct tfc__probes *probes, const struct tfc__probe_times *times);
/* Adds a member. One that left is judged again as soon as something is received from it. */
void tfc__probe_add(struct tfc__probes *probes, struct tfc__probe *probe, uint64_t now);
void tfc__probe_remove(struct tfc__probes *probes, struct tfc__probe *probe);

void tfc__probe_received(struct tfc__probe *probe, uint64_t now);
void tfc__probe_broken(struct tfc__probe *probe);
void tfc__probe_refused(struct tfc__probe *probe);
void tfc__probe_left(struct tfc__probe *probe); /* it has announced that it leaves */

/* Checks all probes, at next_at or later. May change states, and sets is_due of each. */
void tfc__probes_tick(struct tfc__probes *probes, uint64_t now);

#endif
