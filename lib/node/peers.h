/*
 * The connections of this node to the other members: one that it dialed to each, kept up with
 * backoff, and those that came in. Calls to a member go over the dialed one. Probes (member)
 * ride on them; so do agents and gateways.
 *
 *   node.hello {who, what it offers}   the first call of a member; the answer is the other's hello
 *   node.ping                          a sign of life
 *   node.state {as the hello}          a notification: what it offers has changed
 *   node.bye                           it leaves in order
 */
#ifndef TFC_NODE_PEERS_H
#define TFC_NODE_PEERS_H

#include "base/observers.h"
#include "member/member.h"
#include "node/hello.h"
#include "transport/peer.h"

struct tfc__peers;
struct tfc__node_peer; /* one member other than this one; lives as long as the peers */
struct tfc__caller;    /* a connection that came in */

struct tfc__peers_options {
	struct tfc__members *members; /* all but the contexts are borrowed for the peers' life */
	const struct tfc__keyring *keyring; /* NULL: none */
	const struct tfc__identity *identity;
	const struct tfc__hello *hello; /* of this node; what it offers is in the members */
	/* A call of anybody who connected, but what the peers serve themselves; of "node." those of
	 * nodes only. request NULL: a notification. Each request is to be answered. */
	void (*serve)(void *user, struct tfc__caller *caller, struct tfc__rpc_request *request,
		      const char *method, const msgpack_object *params);
	/* A notification of a member over the connection that was dialed. */
	void (*hear)(void *user, struct tfc__node_peer *peer, const char *method,
		     const msgpack_object *params);
	/* A member has let us in, and can be asked; or NULL. */
	void (*met)(void *user, struct tfc__node_peer *peer);
	/* Once, in a turn of its own: this node may not take part (tfc_node_options.refused). */
	void (*refused)(void *user, const tfc_error *error);
	void *user;
};

/* Dials all members, now and as they come. TFC_ENOMEM. */
int tfc__peers_open(tfc_ctx *ctx, const struct tfc__peers_options *options, tfc_error *error,
		    struct tfc__peers **ret_peers);
/* Nobody is told of the end. NULL is a no-op. Legal in any callback. */
void tfc__peers_close(struct tfc__peers *peers);

/* A tfc__accept_fn: whoever was let in by the transport. */
void tfc__peers_accept(void *peers, struct tfc__peer *peer);

/* Says goodbye to all; fn once, in dispatch, when all have heard it or half a second is over. */
void tfc__peers_leave(struct tfc__peers *peers, void (*fn)(void *user), void *user);

/* ---- a member */

/* NULL: no such member was ever there. */
struct tfc__node_peer *tfc__peers_find(struct tfc__peers *peers, const char *node_name);
/* NULL while there is none. */
struct tfc__rpc *tfc__node_peer_rpc(const struct tfc__node_peer *peer);
const char *tfc__node_peer_name(const struct tfc__node_peer *peer);
/* A connection to it comes up or is lost: the event is a const bool *, whether it is up. */
void tfc__node_peer_watch(struct tfc__node_peer *peer, struct tfc__observer *observer);

/* ---- a caller */

/* The member that it is, by its hello; NULL: none. */
struct tfc__node_peer *tfc__caller_member(const struct tfc__caller *caller);
struct tfc__peer *tfc__caller_peer(const struct tfc__caller *caller);

#endif
