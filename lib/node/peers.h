/*
 * The connections of this node to the other members: at most one dialed to each, and accepted ones.
 * Calls to a member use the dialed connection, including the probes of the member module, agents
 * and gateways. A connection that is needed is re-established with back-off. With gossip it is
 * needed while something uses it, and closed when idle; otherwise always, because it shows whether
 * the member is alive.
 *
 *   node.hello   identity and offer; the first call of a member; the response is the other's hello
 *   node.ping    a heartbeat
 *   node.state   a notification, as the hello: the offer has changed
 *   node.idle    the caller is about to close the connection
 *   node.bye     the node leaves
 */
#ifndef TFC_NODE_PEERS_H
#define TFC_NODE_PEERS_H

#include "base/observers.h"
#include "gateway/members.h"
#include "member/member.h"
#include "node/hello.h"
#include "proc/will.h"
#include "transport/peer.h"

struct tfc__peers;
struct tfc__node_peer; /* a node other than this one; lives as long as the peers */
struct tfc__caller;    /* an accepted connection */

struct tfc__peers_options {
	struct tfc__members *members; /* all but the contexts are borrowed for the peers' life */
	struct tfc__keyring *keyring; /* NULL: none */
	const struct tfc__identity *identity;
	const struct tfc__hello *hello; /* of this node; its offer is in the members */
	/* A call of any caller, except those that the peers serve; of "node." only those of nodes.
	 * request NULL: a notification. Every request needs a response. */
	void (*serve)(void *user, struct tfc__caller *caller, struct tfc__rpc_request *request,
		      const char *method, const msgpack_object *params);
	/* A member has accepted our hello and can be called; or NULL. */
	void (*connected)(void *user, struct tfc__node_peer *peer);
	/* With gossip: a member is alive that was not known, or down; or NULL. */
	void (*alive)(void *user, struct tfc__node_peer *peer);
	/* Called once, from dispatch: this node may not take part (tfc_node_options.refused). */
	void (*refused)(void *user, const tfc_error *error);
	/* The connections are made on demand. The nodes learn of each other at different times: one
	 * that is not known yet tries again. */
	bool is_gossip;
	void *user;
};

/* Dials all members, now and as they are added, unless is_gossip. TFC_ENOMEM. */
int tfc__peers_open(tfc_ctx *ctx, const struct tfc__peers_options *options, tfc_error *error,
		    struct tfc__peers **ret_peers);
/* Notifies nobody. NULL is a no-op. Legal in any callback. */
void tfc__peers_close(struct tfc__peers *peers);

/* A tfc__accept_fn, for every connection that the transport has accepted. */
void tfc__peers_accept(void *peers, struct tfc__peer *peer);

/* Sends node.bye to all members; fn is called once, in dispatch, when all have responded or after
 * half a second. */
void tfc__peers_leave(struct tfc__peers *peers, void (*fn)(void *user), void *user);

/* Whether connections are made when needed, and closed when idle. */
bool tfc__peers_are_on_demand(const struct tfc__peers *peers);

/* ---- a member */

/* NULL: no such member was ever known. */
struct tfc__node_peer *tfc__peers_find(struct tfc__peers *peers, const char *node_name);
/* Also of a node that is not known: it is unreachable until it is a member. NULL: out of memory. */
struct tfc__node_peer *tfc__peers_find_or_add(struct tfc__peers *peers, const char *node_name);
/* The connection for calls; NULL while there is none. */
struct tfc__rpc *tfc__node_peer_rpc(const struct tfc__node_peer *peer);
const char *tfc__node_peer_name(const struct tfc__node_peer *peer);
/* Keeps the connection from now on, or no longer; the calls are counted. With gossip the observers
 * are notified, too, when the first dial has failed; inside this call, if there is none. */
void tfc__node_peer_keep(struct tfc__node_peer *peer, bool is_kept);
/* As tfc__gateway_members_ops.connect. */
void tfc__node_peer_connect(struct tfc__node_peer *peer, struct tfc__member_wait *wait);
/* Connected, or, with gossip, alive: it can be connected. */
bool tfc__node_peer_is_reachable(const struct tfc__node_peer *peer);
/* The numeric tcp address that this node has dialed; without a connection, that of membership.
 * False: it is not known, or not numeric. */
bool tfc__node_peer_address(const struct tfc__node_peer *peer,
			    struct tfc__will_address *ret_address);
/* The member did not respond in time. */
void tfc__node_peer_unreached(struct tfc__node_peer *peer);
/* Observes the connection: the event is a const bool *, whether it is up. */
void tfc__node_peer_watch(struct tfc__node_peer *peer, struct tfc__observer *observer);

/* ---- a caller */

/* The member, by its hello; NULL: none. */
struct tfc__node_peer *tfc__caller_member(const struct tfc__caller *caller);
struct tfc__peer *tfc__caller_peer(const struct tfc__caller *caller);

#endif
