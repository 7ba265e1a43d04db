/*
 * The nodes that this node's maintainers place tasks on: the members, what the maintainers have
 * taken of each, and how to speak to its agent.
 *
 * Other nodes have maintainers, too, of which this one knows nothing. So what is placed here may be
 * refused there: a node that has said that it is full is taken for full for a while.
 */
#ifndef TFC_CLUSTER_NODES_H
#define TFC_CLUSTER_NODES_H

#include "agent/agent_ops.h"
#include "cluster/cooldown.h"
#include "cluster/upstream.h"
#include "member/member.h"

struct tfc__nodes;

/* One node. It stays while it is a member or somebody uses it. */
struct tfc__node_entry {
	struct tfc__link link;
	struct tfc__nodes *nodes;
	char *name;
	const struct tfc__member *member; /* NULL: it is none any more */
	uint32_t users;
	uint32_t tasks; /* taken by the maintainers here */
	uint64_t memory;
	uint32_t gpus;
	uint64_t full_until; /* it has refused a task; 0: not */
	struct tfc__cooldown cooldown;
};

/* The agent of a member; `ops` NULL: there is no way to it. */
typedef struct tfc__agent_handle (*tfc__agent_of_fn)(void *user, const struct tfc__member *member);

/* Errors: TFC_ENOMEM. */
int tfc__nodes_open(tfc_ctx *ctx, struct tfc__members *members, tfc__agent_of_fn agent_of,
		    void *user, tfc_error *error, struct tfc__nodes **ret_nodes);
/* Its users have left before. NULL is a no-op. */
void tfc__nodes_close(struct tfc__nodes *nodes);

/* What the host says of its data; borrowed, until the nodes are closed. NULL until it is set. */
void tfc__nodes_set_upstreams(struct tfc__nodes *nodes, struct tfc__upstreams *upstreams);
struct tfc__upstreams *tfc__nodes_upstreams(const struct tfc__nodes *nodes);

/* Called in dispatch, event NULL, when there may be room, or a node is to be left. */
void tfc__nodes_join(struct tfc__nodes *nodes, struct tfc__observer *user);

/* struct tfc__node_entry of each, in the order in which they came. */
const struct tfc__link *tfc__nodes_all(const struct tfc__nodes *nodes);
uint32_t tfc__nodes_count(const struct tfc__nodes *nodes);
/* The one node, where there is only one: this one. Else NULL. */
struct tfc__node_entry *tfc__nodes_alone(struct tfc__nodes *nodes);
struct tfc__node_entry *tfc__nodes_find(struct tfc__nodes *nodes, const char *name); /* or NULL */
struct tfc__agent_handle tfc__nodes_agent(const struct tfc__node_entry *node);
bool tfc__nodes_is_draining(const struct tfc__node_entry *node);
void tfc__nodes_use(struct tfc__node_entry *node);
void tfc__nodes_unuse(struct tfc__node_entry *node);

/* Whether no other node can ever come, and what this one offers is known. */
bool tfc__nodes_are_fixed(const struct tfc__nodes *nodes);
/* Whether it is the only thing that is not known that this one still looks for its GPUs. */
bool tfc__nodes_are_finding_gpus(const struct tfc__nodes *nodes);

/* Whether all members were heard of since `nodes` was opened, or had a few seconds for it. Until
 * then nothing is placed: a job that is gone on with would take this node for all there is. The
 * sentence says who is waited for, and all users are told when it is over. */
bool tfc__nodes_are_known(struct tfc__nodes *nodes, tfc_error *error);

struct tfc__nodes_request {
	const tfc_job *job;
	const char *id;        /* of the job: where a round begins */
	const uint32_t *tasks; /* numbers of those to be placed, rising */
	uint32_t count;
	struct tfc__node_entry *const *at; /* per task of the whole job its node now, or NULL */
	/* Per task of the whole job the name of the only node that it may go to, or NULL. NULL: all
	 * may go anywhere. */
	const char *const *wanted;
	const struct tfc__link *refusals; /* refusals.h: what nodes have said of their ports */
};
/* Finds a node for each of these tasks, all or nothing. TFC_EAGAIN with the sentence of what it
 * waits for; TFC_EEXHAUSTED with the sentence: there are no ports for all of them, and none of what
 * has them will be given back; TFC_ENOENT with the sentence: this node is alone for ever, and would
 * not do if it were empty; TFC_ENOMEM. Nothing is taken. */
int tfc__nodes_place(struct tfc__nodes *nodes, const struct tfc__nodes_request *request,
		     struct tfc__node_entry **ret_nodes, tfc_error *error);
/* Tells all users again in a while: there was no memory to go on. */
void tfc__nodes_try_later(struct tfc__nodes *nodes);
void tfc__nodes_try_at(struct tfc__nodes *nodes, uint64_t at); /* ... then */

/* What one task takes there, and gives back. */
void tfc__nodes_take(struct tfc__node_entry *node, const struct tfc__role *role);
void tfc__nodes_give_back(struct tfc__node_entry *node, const struct tfc__role *role);

/* It has refused a task for want of room. */
void tfc__nodes_refused(struct tfc__node_entry *node);
/* How an attempt there ended, of its own. */
bool tfc__nodes_failed(struct tfc__node_entry *node); /* it is avoided from now on */
void tfc__nodes_worked(struct tfc__node_entry *node);

#endif
