/*
 * The nodes on which this node's maintainers place tasks: the members, the capacity that the
 * maintainers use on each, and its agent.
 *
 * Maintainers of other nodes use capacity, too, which is not known here. A node may therefore
 * refuse a task that was placed on it. A node that has refused a task because it is full counts as
 * full for a while.
 */
#ifndef TFC_CLUSTER_NODES_H
#define TFC_CLUSTER_NODES_H

#include "agent/agent_ops.h"
#include "base/name_table.h"
#include "cluster/cooldown.h"
#include "cluster/upstream.h"
#include "member/member.h"

struct tfc__nodes;

/* One node. The entry exists while the node is a member or the entry has users. */
struct tfc__node_entry {
	struct tfc__link link;
	struct tfc__named named; /* in the names of `nodes` */
	struct tfc__nodes *nodes;
	char *name;
	const struct tfc__member *member; /* NULL: it is not a member now */
	uint32_t users;
	uint32_t tasks; /* tasks of the maintainers on this node */
	uint64_t memory;
	uint32_t gpus;
	/* end of the time for which it counts as full, after it refused a task; 0: it does not */
	uint64_t full_until;
	struct tfc__cooldown cooldown;
	uint32_t position; /* in the tables of tfc__nodes_place, while it is called */
};

/* Returns the agent of the node with that name. A node that is not a member now counts as
 * unreachable, until it is a member. `ops` is NULL when out of memory. */
typedef struct tfc__agent_handle (*tfc__agent_of_fn)(void *user, const char *node);

/* Errors: TFC_ENOMEM. */
int tfc__nodes_open(tfc_ctx *ctx, struct tfc__members *members, tfc__agent_of_fn agent_of,
		    void *user, tfc_error *error, struct tfc__nodes **ret_nodes);
/* All observers have been removed before. NULL is a no-op. */
void tfc__nodes_close(struct tfc__nodes *nodes);

/* The upstreams of the host; borrowed until the nodes are closed. NULL until they are set. */
void tfc__nodes_set_upstreams(struct tfc__nodes *nodes, struct tfc__upstreams *upstreams);
struct tfc__upstreams *tfc__nodes_upstreams(const struct tfc__nodes *nodes);

/* Adds an observer. It is called in dispatch, event NULL, when there may be room, or when tasks
 * must leave a node. */
void tfc__nodes_join(struct tfc__nodes *nodes, struct tfc__observer *user);

/* List of struct tfc__node_entry, in the order in which they were added. */
const struct tfc__link *tfc__nodes_all(const struct tfc__nodes *nodes);
uint32_t tfc__nodes_count(const struct tfc__nodes *nodes);
/* This node, if it is the only member; else NULL. */
struct tfc__node_entry *tfc__nodes_alone(struct tfc__nodes *nodes);
struct tfc__node_entry *tfc__nodes_find(struct tfc__nodes *nodes, const char *name); /* or NULL */
/* Also of a node that is not a member now; the caller uses it. NULL: out of memory. */
struct tfc__node_entry *tfc__nodes_find_or_add(struct tfc__nodes *nodes, const char *name);
struct tfc__agent_handle tfc__nodes_agent(const struct tfc__node_entry *node);
bool tfc__nodes_is_draining(const struct tfc__node_entry *node);
void tfc__nodes_use(struct tfc__node_entry *node);
void tfc__nodes_unuse(struct tfc__node_entry *node);

/* Whether no other node can ever join, and the capacity of this one is known. */
bool tfc__nodes_are_fixed(const struct tfc__nodes *nodes);
/* Whether this node is the only one for ever, and its GPUs are still being searched for. */
bool tfc__nodes_are_finding_gpus(const struct tfc__nodes *nodes);

/* Whether something was received from every member since `nodes` was opened, or a few seconds
 * have passed. Until then nothing is placed: a job that is resumed would regard this node as the
 * only one. The error text names a missing member, and all observers are notified when the wait
 * is over. */
bool tfc__nodes_are_known(struct tfc__nodes *nodes, tfc_error *error);

/* Tasks of the job on one node. */
struct tfc__nodes_own {
	const struct tfc__node_entry *node;
	uint32_t tasks;
	uint32_t pooled; /* ... of these, the ones with a port of the pool */
};

struct tfc__nodes_request {
	const tfc_job *job;
	const char *id;        /* of the job: determines the node at which a round begins */
	const uint32_t *tasks; /* numbers of the tasks to place, ascending */
	uint32_t count;
	const struct tfc__nodes_own *own; /* the tasks that stay where they are */
	uint32_t own_count;
	/* Per task of the whole job: the name of the only node that it may run on, or NULL. NULL:
	 * all may run anywhere. */
	const char *const *wanted;
	const struct tfc__link *refusals; /* refusals.h: refusals of ports by nodes */
};
/* Finds a node for each of these tasks, all or none. No capacity is acquired. Error texts say what
 * is missing. Returns TFC_EAGAIN (wait); TFC_EEXHAUSTED (there are not enough ports, and none of
 * those in use will be released); TFC_ENOENT (this node is the only one for ever, and could not run
 * the tasks even if it were empty); TFC_ENOMEM. */
int tfc__nodes_place(struct tfc__nodes *nodes, const struct tfc__nodes_request *request,
		     tfc_error *error, struct tfc__node_entry **ret_nodes);
/* Notifies all observers again in a while: there was not enough memory. */
void tfc__nodes_try_later(struct tfc__nodes *nodes);
void tfc__nodes_try_at(struct tfc__nodes *nodes, uint64_t at); /* ... at that time */

/* Acquires and releases the capacity for one task. */
void tfc__nodes_acquire(struct tfc__node_entry *node, const struct tfc__role *role);
void tfc__nodes_release(struct tfc__node_entry *node, const struct tfc__role *role);

/* The node has refused a task because it is full. */
void tfc__nodes_refused(struct tfc__node_entry *node);
/* An attempt on the node has failed or succeeded by itself. */
bool tfc__nodes_failed(struct tfc__node_entry *node); /* returns whether a cooldown begins */
void tfc__nodes_worked(struct tfc__node_entry *node);

#endif
