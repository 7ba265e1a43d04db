/*
 * The other members, as the gateway needs them: whom it can ask, and what it tells of all. The node
 * module gives this table.
 */
#ifndef TFC_GATEWAY_MEMBERS_H
#define TFC_GATEWAY_MEMBERS_H

#include "base/buf.h"
#include "wire/rpc.h"

struct tfc__gateway_members_ops {
	/* The members other than this node, by number from 0 on: false behind the last. *ret_rpc
	 * is NULL while it cannot be asked. The name is borrowed: until the next turn. */
	bool (*at)(void *user, uint32_t number, const char **ret_name, struct tfc__rpc **ret_rpc);
	/* The member other than this node that has this node id, whether or not it can be asked
	 * now; false: nobody has it, as far as is known. As `at` otherwise. */
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

#endif
