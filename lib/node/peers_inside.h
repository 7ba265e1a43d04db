/*
 * What the files of the peers share: peers_dial.c dials, callers.c lets in.
 */
#ifndef TFC_NODE_PEERS_INSIDE_H
#define TFC_NODE_PEERS_INSIDE_H

#include "node/peers.h"

struct tfc__peers {
	tfc_ctx *ctx;
	struct tfc__peers_options options;
	struct tfc__link all; /* struct tfc__node_peer */
	struct tfc__link callers;
	struct tfc__member_watch watch;
	struct tfc__member_prober prober;
	uint64_t random;
	bool was_let_in;           /* a member has answered our hello */
	struct tfc__work refusing; /* tells `refused` */
	tfc_error refusal;

	void (*left)(void *user); /* who waits for goodbyes; NULL: nobody */
	void *left_user;
	uint32_t goodbyes; /* under way */
	struct tfc__timer leaving;

	uint32_t busy; /* callbacks are on the way: memory stays */
	bool is_closed;
};

struct tfc__node_peer {
	struct tfc__link link;
	struct tfc__peers *peers;
	struct tfc__member *member; /* NULL: it was taken out */
	char *name;
	struct tfc__peer *dialed; /* or NULL */
	char address[300];        /* where that goes to */
	bool is_up;               /* dialed, and it has answered our hello */
	bool is_refused;          /* our last hello was */
	struct tfc__rpc_call *hello, *ping, *bye;
	struct tfc__timer redial;
	uint32_t failures;
	uint32_t callers;                /* connections of it that came in */
	uint64_t heard_at;               /* tfc__now */
	char node_id[TFC__NODE_ID_SIZE]; /* as it said last, or "" */
	char boot_id[17];
	bool has_left; /* that run of it has said goodbye: what still comes is no sign of life */
	struct tfc__link watches;
	char said[256]; /* what the log said of it last */
};

struct tfc__caller {
	struct tfc__link link;
	struct tfc__peers *peers;
	struct tfc__peer *peer;
	struct tfc__node_peer *member; /* NULL: no member, or not yet */
};

/* Around everything that may call out; after leave, `peers` may be gone. */
static inline void tfc__peers_enter(struct tfc__peers *peers)
{
	peers->busy++;
}
void tfc__peers_exit(struct tfc__peers *peers);

/* Makes the peer of a member, and dials it. member->owner is NULL when there was no memory. */
void tfc__peers_adopt(struct tfc__peers *peers, struct tfc__member *member);

/* The hello of this node as it is now, to the node that is dialed ("": to whoever reads it). */
void tfc__peers_write_hello(struct tfc__peers *peers, const char *to, struct tfc__buf *buf);

/* ---- peers_dial.c */

/* Dials, unless it is connected, being dialed, or not to be. */
void tfc__node_peer_dial(struct tfc__node_peer *peer);
void tfc__node_peer_hang_up(struct tfc__node_peer *peer);
void tfc__node_peer_tell(struct tfc__node_peer *peer, bool is_up);
void tfc__node_peer_on_redial(struct tfc__timer *timer);
void tfc__node_peer_on_probe(struct tfc__member_prober *prober, struct tfc__member *member);

void tfc__node_peer_heard(struct tfc__node_peer *peer);

/* It has said goodbye. */
void tfc__node_peer_left(struct tfc__node_peer *peer);

/* Takes over what it said of itself. */
void tfc__node_peer_learn(struct tfc__node_peer *peer, const struct tfc__hello *hello);

/* Dials now, if it is not connected: it has just been heard. */
void tfc__node_peer_redial(struct tfc__node_peer *peer);

/* ---- callers.c */

/* A connection that came in from it; NULL: none. */
struct tfc__rpc *tfc__caller_rpc_of(const struct tfc__node_peer *peer);

/* Ends the connections that came in from it, all but `except`. */
void tfc__callers_drop(struct tfc__node_peer *peer, const struct tfc__caller *except);
void tfc__callers_close(struct tfc__peers *peers);

#endif
