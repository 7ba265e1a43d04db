/*
 * What peer.c (one connection) and listener.c (those that come in) share.
 */
#ifndef TFC_TRANSPORT_PEER_INSIDE_H
#define TFC_TRANSPORT_PEER_INSIDE_H

#include "transport/channel.h"
#include "transport/peer.h"

struct tfc__peer {
	tfc_ctx *ctx;
	struct tfc__channel *channel;    /* NULL: down */
	struct tfc__rpc *rpc;            /* NULL: not up yet, or down */
	const struct tfc__peer_ops *ops; /* NULL: accepted, and nobody has taken it */
	void *user;
	struct tfc__peer_id id;
	struct tfc__quota_share share;
	bool is_noise;
	bool is_exposed;
	bool is_down;
	uint32_t timeout_ms;
	struct tfc__timer patience; /* until up */
	struct tfc__work checking;
	tfc_error failure;
	char pinned[TFC__NODE_ID_SIZE];
	struct tfc__peer **watch;    /* set to NULL when the peer is closed; or NULL */
	struct tfc__identity *fresh; /* one of its own; NULL: somebody else's */
	char dialed[128];

	struct tfc__peer_listener *listener; /* not NULL: it has not shown who it is */
	struct tfc__link link;               /* of the listener's */
};

struct tfc__peer_listener {
	tfc_ctx *ctx;
	tfc_listener *listener;
	const struct tfc__keyring *keyring;
	const struct tfc__identity *identity;
	struct tfc__identity *fresh;
	struct tfc__quota *quota; /* NULL: none */
	bool is_noise;
	bool is_exposed;
	bool is_busy; /* in the owner's callback */
	bool is_closed;
	tfc__accept_fn fn;
	void *user;
	uint32_t *groups;
	uint32_t group_count;
	uint32_t handshake_ms;
	uint32_t half_open_max;
	uint32_t half_open_count;
	struct tfc__link half_open; /* the oldest first */

	uint64_t told_at; /* when a refusal was logged last */
	uint64_t untold;  /* refusals since */
};

extern const struct tfc__channel_ops tfc__peer_channel_ops;

struct tfc__peer *tfc__peer_new(tfc_ctx *ctx, uint32_t timeout_ms);
/* Whether keys are used at that address. */
int tfc__peer_is_noise(tfc_ctx *ctx, const char *address, const struct tfc__keyring *keyring,
		       bool *ret_is_noise, tfc_error *error);
/* Whether others on the way can read what goes over such a connection. */
bool tfc__peer_is_exposed(const char *address, bool is_noise);
/* Fills in its id; without a key it may be nobody who is let in: TFC_EACCES. */
int tfc__peer_identify(struct tfc__peer *peer, tfc_error *error);
void tfc__peer_go_down(struct tfc__peer *peer, const tfc_error *why);

/* ---- listener.c */

void tfc__listener_forget(struct tfc__peer *peer); /* it is not half-open any more */
/* A half-open one is down: noted, and freed. */
void tfc__listener_lost(struct tfc__peer *peer, const tfc_error *why);
/* It has shown who it is: given to the listener's owner, or closed. */
void tfc__listener_hand_over(struct tfc__peer *peer);

#endif
