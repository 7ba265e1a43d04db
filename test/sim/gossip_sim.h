/*
 * A world of gossip: the shipped core of each member, on one virtual clock and a network that
 * loses, delays, duplicates, reorders and cuts. One seed, one world. Nodes are numbered from 0; a
 * node has one running process at most, or is dead.
 */
#ifndef TEST_SIM_GOSSIP_SIM_H
#define TEST_SIM_GOSSIP_SIM_H

#include "member/gossip_core.h"

#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/member.h>

#define GS_MS UINT64_C(1000000)
#define GS_SECOND UINT64_C(1000000000)

struct gossip_sim;

struct gossip_sim_options {
	uint32_t nodes;
	uint64_t seed;
	uint32_t loss_ppm;      /* of datagrams, and of the segments of a stream */
	uint32_t duplicate_ppm; /* of datagrams */
	uint64_t delay_ns;      /* shortest; 0.2 ms */
	uint64_t jitter_ns;     /* added at random; 0.5 ms: neighbors overtake each other */
	uint32_t drift_ppm;     /* clocks differ by up to this */
	uint32_t meta_len;
	bool is_warm;                    /* gossip_sim_start_all: all know all from the beginning */
	struct tfc__gossip_options core; /* times, counts; zeros: the defaults */
};

/* What happened, from the reports of the cores. A member is healthy while its process runs, is not
 * stalled, and is not cut off. */
struct gossip_sim_counts {
	uint64_t false_downs;    /* reports of a healthy member as down, by healthy members */
	uint64_t false_suspects; /* ... as suspect */
	uint64_t stalled_downs; /* reports of one that is or was just stalled, by healthy members */
	uint64_t downs;         /* all reports of down */
	uint64_t datagrams, datagram_bytes; /* sent by all, plain text */
	uint64_t requests, stream_bytes;
	uint64_t conflicts, self_lost, cut_offs, cut_off_ends, full, generations, left, joined,
		join_failed;
	uint64_t largest_datagram;
};

struct gossip_sim *gossip_sim_new(const struct gossip_sim_options *options);
void gossip_sim_free(struct gossip_sim *s);
uint64_t gossip_sim_now(const struct gossip_sim *s);
uint32_t gossip_sim_random(struct gossip_sim *s, uint32_t below);
/* All reports with their times and nodes. */
uint64_t gossip_sim_hash(const struct gossip_sim *s);
struct gossip_sim_counts *gossip_sim_counts(struct gossip_sim *s);
struct tfc__gossip *gossip_sim_core(struct gossip_sim *s, uint32_t node);
struct tfc__gossip_id gossip_sim_id(uint32_t node);
struct tfc__gossip_address gossip_sim_address(const struct gossip_sim *s, uint32_t node);

/* Starts a process that joins through `seed` (UINT32_MAX: not at all). Its generation is one more
 * than at its last start. */
void gossip_sim_start(struct gossip_sim *s, uint32_t node, uint32_t seed);
/* The next start of the node has this id, generation, name and a new address. NULL: as it was */
void gossip_sim_disguise(struct gossip_sim *s, uint32_t node, const struct tfc__gossip_id *id,
			 const uint32_t *generation, const char *name, bool is_moved);
/* Starts all, joins through node 0, and runs until all know all, and some time to settle. Fails the
 * test after limit_ns. Returns when all knew all. */
uint64_t gossip_sim_start_all(struct gossip_sim *s, uint64_t limit_ns);
/* The process ends; connections to it are refused. is_silent: the host is gone, nothing answers. */
void gossip_sim_kill(struct gossip_sim *s, uint32_t node, bool is_silent);
void gossip_sim_leave(struct gossip_sim *s, uint32_t node);
/* The process sleeps, and what arrives waits for it. is_draining: on waking it reads its sockets
 * before it looks at its timers. */
void gossip_sim_stall(struct gossip_sim *s, uint32_t node, uint64_t length, bool is_draining);
/* The machine sleeps, and what arrives is lost. does_clock_stop: its clock stands meanwhile, as
 * CLOCK_MONOTONIC does; that of a virtual machine that was paused may have gone on. */
void gossip_sim_suspend(struct gossip_sim *s, uint32_t node, uint64_t length, bool does_clock_stop);
/* The node's clock is ahead by so much more from now on. */
void gossip_sim_jump(struct gossip_sim *s, uint32_t node, uint64_t length);
/* What `from` sends to `to` does not arrive. */
void gossip_sim_cut(struct gossip_sim *s, uint32_t from, uint32_t to, bool is_cut);
/* Members of different groups do not reach each other; all are of group 0 at first. */
void gossip_sim_group(struct gossip_sim *s, uint32_t node, uint32_t group);
/* Not judged as healthy until the time. */
void gossip_sim_excuse(struct gossip_sim *s, uint32_t node, uint64_t until);
void gossip_sim_set_loss(struct gossip_sim *s, uint32_t loss_ppm);
void gossip_sim_event(struct gossip_sim *s, uint32_t node, const struct tfc__gossip_event *event);
/* A datagram of this sender and text arrives at a node. */
void gossip_sim_inject(struct gossip_sim *s, uint32_t node, const struct tfc__gossip_id *sender,
		       uint32_t generation, const uint8_t *bytes, size_t len);

void gossip_sim_run(struct gossip_sim *s, uint64_t length);
/* Runs until it is true; false after limit_ns. Asked each 10 ms. */
bool gossip_sim_run_until(struct gossip_sim *s, uint64_t limit_ns,
			  bool (*is_true)(struct gossip_sim *s, void *user), void *user);

bool gossip_sim_is_running(const struct gossip_sim *s, uint32_t node);
/* The state of `member` at `observer`; 0: not known. */
uint32_t gossip_sim_state(struct gossip_sim *s, uint32_t observer, uint32_t member);
/* Whether all that run see all that run as alive, and each other known member as gone. */
bool gossip_sim_is_converged(struct gossip_sim *s, void *unused);

/* How many push-pulls the nodes that run have begun since the counts were cleared: that with the
 * fewest, and that with the most. */
struct gossip_sim_push_pulls {
	uint32_t fewest, most;
};
struct gossip_sim_push_pulls gossip_sim_push_pulls(const struct gossip_sim *s);
void gossip_sim_push_pulls_clear(struct gossip_sim *s);

/* When each observer first reported the member down since it was killed, from its kill; sorted.
 * Returns the count. */
uint32_t gossip_sim_detections(struct gossip_sim *s, uint32_t member, const uint64_t **ret_times);

#endif
