/*
 * The other members, as the gateway needs them: whom it can ask, and what it tells of all. The node
 * module gives this table.
 */
#ifndef TFC_GATEWAY_MEMBERS_H
#define TFC_GATEWAY_MEMBERS_H

#include "base/buf.h"
#include "wire/rpc.h"

/* A member other than this node. Borrowed: until the next turn. */
struct tfc__gateway_member {
	const char *name;
	struct tfc__rpc *rpc; /* NULL while it cannot be asked */
	const void *place;    /* in the list of them */
};

struct tfc__gateway_members_ops {
	/* The member behind `member`, which is zeros before the first; false behind the last. */
	bool (*next)(void *user, struct tfc__gateway_member *member);
	/* The member other than this node that has this node id, whether or not it can be asked
	 * now; false: nobody has it, as far as is known. Name and rpc are borrowed as those of
	 * `next`. */
	bool (*find)(void *user, const char *node_id, const char **ret_name,
		     struct tfc__rpc **ret_rpc);
	/* All members, this node among them, as a JSON list. Without memory buf says so. */
	void (*json)(void *user, struct tfc__buf *json);
	/* Begins or ends that a node, also this one, takes no new task. fn is called once, perhaps
	 * inside the call. TFC_ENOENT: no such member; TFC_ELOST: it cannot be asked now. */
	void (*drain)(void *user, const char *node, bool is_off,
		      void (*fn)(void *done_user, const tfc_error *error), void *done_user);
};

struct tfc__gateway_members {
	const struct tfc__gateway_members_ops *ops; /* NULL: this node is alone */
	void *user;
	const char *node_id; /* of this node; borrowed */
};

/* As ops->next; none where this node is alone. */
static inline bool tfc__gateway_members_next(const struct tfc__gateway_members *members,
					     struct tfc__gateway_member *member)
{
	return members->ops && members->ops->next(members->user, member);
}

#endif
