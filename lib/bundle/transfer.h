/*
 * An archive that goes over a connection: from a client to a node, or from a maintainer's node to
 * the nodes of its tasks. The sender makes two calls:
 *
 *   bundle.offer {hash, size}       stays open for as long as the sender wants the bundle kept. Its
 *                                   items are {at}: bytes that are there, the rest is wanted; or
 *                                   {ready}: it is there, and is what the hash says. It fails when
 *                                   the bundle cannot be had
 *   bundle.chunk {hash, at, data}   of what this connection offers. Its result is {done, taken, at}
 *
 * A connection that ends takes its offers along, and what has come of a bundle goes with the last
 * one that uses it. An offer of which no byte comes for a minute ends as well.
 */
#ifndef TFC_BUNDLE_TRANSFER_H
#define TFC_BUNDLE_TRANSFER_H

#include "bundle/cache.h"
#include "wire/rpc.h"

#define TFC__BUNDLE_PREFIX "bundle."
#define TFC__BUNDLE_OFFER "bundle.offer"
#define TFC__BUNDLE_CHUNK "bundle.chunk"

/* ---- sending */

struct tfc__bundle_sender;

/* In dispatch, each the last that happens in it: any may close the sender. */
struct tfc__bundle_sender_ops {
	/* It is there, as long as the connection and the sender last. NULL: nobody asks. */
	void (*ready)(void *user);
	/* It goes no further; the handle is gone. TFC_ELOST: over this connection. */
	void (*failed)(void *user, const tfc_error *error);
	void (*moved)(void *user, uint64_t sent, uint64_t total); /* the same */
};

/* Offers a bundle that is READY, and sends what is wanted of it; uses it. `ops` must live as long.
 * TFC_ENOMEM, those of tfc__rpc_call. */
int tfc__bundle_send(struct tfc__bundle *bundle, struct tfc__rpc *rpc,
		     const struct tfc__bundle_sender_ops *ops, void *user, tfc_error *error,
		     struct tfc__bundle_sender **ret_sender);
void tfc__bundle_sender_close(struct tfc__bundle_sender *sender); /* NULL is a no-op */

/* ---- receiving */

#define TFC__OFFERS_MAX 4                        /* of one connection */
#define TFC__OFFER_BYTES_MAX (UINT64_C(8) << 30) /* of one: more cannot be unpacked */

/* Of what is not here yet, as far as clients offer it. What the node's own user offers is not
 * counted, so that clients cannot keep it out. */
#define TFC__OFFERS_KEY_MAX 32                     /* with one key, or of one user */
#define TFC__OFFERS_KEY_BYTES (UINT64_C(16) << 30) /* the same */
#define TFC__OFFERS_BYTES (UINT64_C(32) << 30)     /* of all */

/* Who offers, and was found to be allowed to. A member may offer what it likes. */
struct tfc__bundle_offerer {
	bool is_member;
	bool is_client; /* counted with those of the same key or user: */
	char key_id[17];
	uint32_t uid;
};

/* Each answers its request in any case. */
void tfc__bundle_serve_offer(struct tfc__bundles *bundles,
			     const struct tfc__bundle_offerer *offerer,
			     struct tfc__rpc_request *request, const msgpack_object *params);
void tfc__bundle_serve_chunk(struct tfc__bundles *bundles, struct tfc__rpc_request *request,
			     const msgpack_object *params);

/* The hash that a request names under `key`: TFC_OK, or TFC_EINVAL and "": it is none. */
int tfc__bundle_hash_read(const msgpack_object *params, const char *key,
			  char hash[TFC_BUNDLE_HASH_SIZE], tfc_error *error);

#endif
