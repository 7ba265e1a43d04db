/*
 * Membership: which nodes there are, and how they are. A backend tells what it knows through a
 * table of functions; the table of members is the same for all of them.
 *
 * Only suggestions come from here: nothing is restarted elsewhere on `suspect`, and on `down` only
 * behind a fence (doc/internals/epochs-and-leases.md).
 */
#ifndef TFC_MEMBER_MEMBER_H
#define TFC_MEMBER_MEMBER_H

#include "base/list.h"
#include "ctx/ctx.h"
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
	/* what it offers; 0 slots: no limit */
	uint32_t slots;
	uint64_t memory;
	uint32_t gpus;
	char **labels; /* "K=V", sorted; NULL-terminated; or NULL */
	void *owner;   /* whoever keeps a connection to it (node room) */
};

/* Embedded; fn in dispatch after a change. `member` is still there when it was removed. */
enum tfc__member_change { TFC__MEMBER_ADDED = 1, TFC__MEMBER_CHANGED, TFC__MEMBER_REMOVED };
struct tfc__member_watch {
	struct tfc__link link;
	void (*fn)(struct tfc__member_watch *watch, struct tfc__member *member,
		   enum tfc__member_change change);
};

int tfc__members_open(tfc_ctx *ctx, struct tfc__members **ret_members);
void tfc__members_close(struct tfc__members *members);
const struct tfc__link *tfc__members_all(const struct tfc__members *members);
struct tfc__member *tfc__members_find(const struct tfc__members *members, const char *name);
struct tfc__member *tfc__members_self(const struct tfc__members *members);
void tfc__members_watch(struct tfc__members *members, struct tfc__member_watch *watch);
void tfc__members_unwatch(struct tfc__member_watch *watch);

/* What the node learns by its connections: the probes of the static backend (member/probe.h). */
void tfc__members_heard(struct tfc__members *members, struct tfc__member *member);
void tfc__members_broken(struct tfc__members *members, struct tfc__member *member, bool is_refused);

#endif
