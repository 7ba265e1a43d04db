/*
 * The gateway's interface to the other members: which of them can be called, and the list of all
 * members. The node module implements it.
 */
#ifndef TFC_GATEWAY_MEMBERS_H
#define TFC_GATEWAY_MEMBERS_H

#include "base/observers.h"
#include "wire/rpc.h"
#include <tfcluster/gateway.h>

/* A member other than this node. Borrowed until the next turn of dispatch. */
struct tfc__gateway_member {
	const char *name;
	const void *place; /* iterator position */
};

/* Waits until a member is connected; embedded in its owner, which initializes it. */
struct tfc__member_wait {
	struct tfc__link link; /* in no list: it does not wait */
	/* Called once. rpc NULL: the member cannot be reached, and `why` is not NULL. */
	void (*fn)(struct tfc__member_wait *wait, struct tfc__rpc *rpc, const tfc_error *why);
};

struct tfc__gateway_members_ops {
	/* Advances to the next member. `member` is zeroed before the first; false after the last.
	 */
	bool (*next)(void *user, struct tfc__gateway_member *member);
	/* Whether this node searches for the other nodes and has found none yet: `next` lacks them.
	 */
	bool (*are_joining)(void *user);
	/* Connects to a member unless it is connected. wait->fn is called inside the call or later;
	 * the removal of wait->link ends the wait. */
	void (*connect)(void *user, const char *node, struct tfc__member_wait *wait);
	/* The name, borrowed as that of `next`, of the member, other than this node, with this node
	 * id, whether or not it is connected; NULL: no known member has it. */
	const char *(*find)(void *user, const char *node_id);
	/* Calls fn for each member, including this node, before it returns. */
	void (*each)(void *user, tfc_member_fn fn, void *fn_user);
	/* Drains a node (or this one), or undrains it (is_off). fn is called once, perhaps inside
	 * the call. TFC_ENOENT: no such member; TFC_ELOST: it is unreachable now. */
	void (*drain)(void *user, const char *node, bool is_off,
		      void (*fn)(void *done_user, const tfc_error *error), void *done_user);
	/* Adds an observer of struct tfc__member_event: members join, change and leave. */
	void (*watch)(void *user, struct tfc__observer *observer);
};

struct tfc__gateway_members {
	const struct tfc__gateway_members_ops *ops; /* NULL: this node has no members */
	void *user;
	const char *node_id; /* of this node; borrowed */
};

/* As ops->next; false if this node has no members. */
static inline bool tfc__gateway_members_next(const struct tfc__gateway_members *members,
					     struct tfc__gateway_member *member)
{
	return members->ops && members->ops->next(members->user, member);
}

/* As ops->are_joining; false if this node has no members. */
static inline bool tfc__gateway_members_are_joining(const struct tfc__gateway_members *members)
{
	return members->ops && members->ops->are_joining(members->user);
}

/* Whether there is a member besides this node, known or not found yet. */
static inline bool tfc__gateway_has_members(const struct tfc__gateway_members *members)
{
	return tfc__gateway_members_next(members, &(struct tfc__gateway_member){.name = NULL}) ||
	       tfc__gateway_members_are_joining(members);
}

#endif
