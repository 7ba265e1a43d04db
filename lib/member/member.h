/*
 * Membership: which nodes there are, and how they are. A backend (static_file.h, or a host's own:
 * tfcluster/backend.h) tells what it knows; the table of members is the same for all of them.
 *
 * Only suggestions come from here: nothing is restarted elsewhere on `suspect`, and on `down` only
 * behind a fence (doc/internals/epochs-and-leases.md).
 */
#ifndef TFC_MEMBER_MEMBER_H
#define TFC_MEMBER_MEMBER_H

#include "base/observers.h"
#include "ctx/ctx.h"
#include "member/probe.h"
#include <tfcluster/backend.h>
#include <tfcluster/member.h>

struct tfc__members;

/* A member as the table knows it. Borrowed: valid until it is forgotten (an event says so). */
struct tfc__member {
	struct tfc__link link;
	char *name;
	char *address;     /* "tcp://HOST:PORT" where its node listens; NULL: this process alone */
	char *node_id;     /* pinned, or NULL */
	uint32_t state;    /* enum tfc_member_state */
	uint64_t since_ns; /* of the state, tfc__now */
	bool is_self;
	bool is_draining; /* takes no new task */
	bool is_out;      /* taken out; it is here until that is told */
	/* what it offers; 0 slots, 0 memory: no limit */
	uint32_t slots;
	uint64_t memory_bytes;
	uint32_t gpus;
	char **labels; /* "K=V", sorted; NULL-terminated; or NULL */
	void *owner;   /* whoever keeps a connection to it (node) */
};

/* What observers get, in dispatch after a change, in a turn of its own: changes that follow each
 * other at once are one event. What is in the table when an observer is added is not reported,
 * unless it came just before. `member` is still there while its removal is reported, and gone
 * after. */
enum tfc__member_change { TFC__MEMBER_ADDED = 1, TFC__MEMBER_CHANGED, TFC__MEMBER_REMOVED };
struct tfc__member_event {
	struct tfc__member *member;
	enum tfc__member_change change;
};

/* Embedded; fn in dispatch, once a period for each member that was not heard of lately. */
struct tfc__member_prober {
	void (*fn)(struct tfc__member_prober *prober, struct tfc__member *member);
};

struct tfc__members_options {
	/* This node: `name` at least. What else is given counts instead of what ops tells. */
	const tfc_member_info *self;
	const tfc_membership_ops *ops; /* NULL: this node is alone */
	void *user;                    /* of ops */
	struct tfc__probe_times times; /* zeros: the defaults */
};

/* The table, with this node in it, and what the backend told while it started. Errors: those of
 * `start`, TFC_EINVAL, TFC_ENOMEM. */
int tfc__members_open(tfc_ctx *ctx, const struct tfc__members_options *options, tfc_error *error,
		      struct tfc__members **ret_members);
/* Nobody is told of the end. NULL is a no-op. */
void tfc__members_close(struct tfc__members *members);

/* By name; those that are out are still in it until that is told. */
const struct tfc__link *tfc__members_all(const struct tfc__members *members);
uint32_t tfc__members_count(const struct tfc__members *members);
struct tfc__member *tfc__members_find(const struct tfc__members *members, const char *name);
/* Whether this node is the only one for ever: there is no source of members. */
bool tfc__members_is_alone(const struct tfc__members *members);
/* Whether this node still looks for its GPUs. */
bool tfc__members_is_finding(const struct tfc__members *members);
struct tfc__member *tfc__members_self(const struct tfc__members *members);
void tfc__members_watch(struct tfc__members *members, struct tfc__observer *observer);
void tfc__members_set_prober(struct tfc__members *members, struct tfc__member_prober *prober);

/* The public face of one; borrowed from it. */
void tfc__member_info(const struct tfc__member *member, tfc_member_info *ret_info);

/* ---- what the node learns by its connections */

/* Anything came from it, on any connection. */
void tfc__members_heard(struct tfc__members *members, struct tfc__member *member);
/* A connection ended; is_refused: nobody listens at its address. */
void tfc__members_broken(struct tfc__members *members, struct tfc__member *member, bool is_refused);
/* It said goodbye. */
void tfc__members_left(struct tfc__members *members, struct tfc__member *member);
/* What it says of itself: slots, memory, gpus, labels and is_draining count from now on instead of
 * what the backend told; name, address and node_id are not read. */
int tfc__members_learn(struct tfc__members *members, struct tfc__member *member,
		       const tfc_member_info *info, tfc_error *error);
/* How many GPUs this node has found: from now on that counts. is_final: it looks for no more. */
void tfc__members_set_gpus(struct tfc__members *members, uint32_t gpus, bool is_final);
void tfc__members_set_draining(struct tfc__members *members, struct tfc__member *member,
			       bool is_draining);

/* ---- for backends */

struct tfc__members *tfc__members_of(tfc_membership *membership);
tfc_membership *tfc__members_face(struct tfc__members *members);

/* Checks a member's fields; the sentence begins with the field's name ("address: must be ..."). */
int tfc__member_check(const tfc_member_info *info, tfc_error *error);

#endif
