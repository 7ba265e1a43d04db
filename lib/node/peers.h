/*
 * The connections of this node to the other members: one that it dialed to each, kept up with
 * backoff, and those that came in. Probes (member room) ride on them; so do agents and gateways.
 */
#ifndef TFC_NODE_PEERS_H
#define TFC_NODE_PEERS_H

#include "member/member.h"
#include "transport/peer.h"

struct tfc__peers;
struct tfc__node_peer; /* one member other than this one */

/* Told when a connection to it comes up or is lost; embedded. */
struct tfc__peer_watch {
	struct tfc__link link;
	void (*fn)(struct tfc__peer_watch *watch, bool is_up);
};

struct tfc__node_peer *tfc__peers_find(struct tfc__peers *peers, const char *node_name);
/* NULL while there is none. */
struct tfc__rpc *tfc__node_peer_rpc(const struct tfc__node_peer *peer);
void tfc__node_peer_watch(struct tfc__node_peer *peer, struct tfc__peer_watch *watch);

#endif
