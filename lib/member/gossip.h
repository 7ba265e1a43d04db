/*
 * Membership by gossip: the nodes find each other, and report each other's states. gossip_core.h
 * decides; this backend has the time, the datagrams, the streams and the seeds.
 *
 *     gossip.c          the state machine's events and actions
 *     gossip_rows.c     the members in the table of members, by name
 *     gossip_address.c  addresses and ids
 *     gossip_join.c     the seeds: resolved and tried until one of them is a member
 *     gossip_stream.c   push-pull: a request of its own connection, "node.gossip"
 *     gossip_meta.c     what a node reports of itself
 *
 * The address of a member is numeric; its tcp listener and its datagrams have the same port.
 */
#ifndef TFC_MEMBER_GOSSIP_H
#define TFC_MEMBER_GOSSIP_H

#include "base/observers.h"
#include "member/member.h"
#include "transport/datagram.h"
#include "wire/keyring.h"
#include "wire/rpc.h"

struct tfc__gossip_membership; /* `user` of the table below */
extern const tfc_membership_ops tfc__gossip_membership_ops;

struct tfc__gossip_membership_options {
	struct tfc__keyring *keyring;         /* borrowed; NULL: none, on the loopback only */
	const struct tfc__identity *identity; /* borrowed */
	const char *state_dir;                /* keeps the generation; NULL: none; copied */
	const char *const *seeds; /* "HOST:PORT" of any nodes, NULL-terminated; NULL: none */
	uint64_t interval_ns;     /* between two probes; 0: the default */
	/* This node may not take part (tfc_node_options.refused). Called in dispatch; or NULL. */
	void (*refused)(void *user, const tfc_error *error);
	void *user;
};

/* Makes the membership, which takes part from tfc__gossip_membership_begin on. The caller frees it
 * after it has closed the members. Errors: TFC_EINVAL (a seed), TFC_ENOMEM. */
int tfc__gossip_membership_new(const struct tfc__gossip_membership_options *options,
			       tfc_error *error, struct tfc__gossip_membership **ret_gossip);
void tfc__gossip_membership_free(struct tfc__gossip_membership *gossip); /* NULL is a no-op */

/*
 * Begins to take part, at "tcp://ADDRESS:PORT", where other nodes reach this one; the node listens
 * there already. Stores the generation first. `datagrams` is borrowed until the membership stops.
 * Errors: TFC_EINVAL (the address; metadata over TFC__GOSSIP_META_MAX bytes), those of
 * tfc__generation_next, TFC_ENOMEM.
 */
int tfc__gossip_membership_begin(struct tfc__gossip_membership *gossip,
				 struct tfc__datagrams *datagrams, const char *address,
				 tfc_error *error);

/* Announces that this node leaves; fn is called once, in dispatch, when that is done. */
void tfc__gossip_membership_leave(struct tfc__gossip_membership *gossip, void (*fn)(void *user),
				  void *user);

/* When this node last had a response from the member, in the time of tfc__now, and the round-trip
 * time. Returns false if the member is not known; 0 in either: none yet. */
bool tfc__gossip_membership_contact(struct tfc__gossip_membership *gossip, const char *name,
				    uint64_t *ret_received_at, uint64_t *ret_rtt_ns);

/* Serves "node.gossip" of a node: another one's push-pull. node_id: of the connection; "": none is
 * known. */
void tfc__gossip_membership_serve(struct tfc__gossip_membership *gossip,
				  struct tfc__rpc_request *request, const char *node_id,
				  const msgpack_object *params);

#endif
