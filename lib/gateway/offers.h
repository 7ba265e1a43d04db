/*
 * Bundles that clients bring to a node, before they submit the jobs that name them. Two calls:
 *
 *   gateway.offer   {hash, size}: stays open for as long as the client wants the bundle kept. Its
 *                   items say {at}: bytes that are here, the rest is wanted; {ready}: it is here,
 * and is what the hash says. It fails when the bundle cannot be had gateway.bundle  {hash, at,
 * data}: a piece (bundle_take.h), only of what this connection offers
 *
 * A connection that ends takes its offers along, and what has come of a bundle goes with the last.
 * An offer of which no byte comes for a minute ends as well.
 */
#ifndef TFC_GATEWAY_OFFERS_H
#define TFC_GATEWAY_OFFERS_H

#include "bundle/cache.h"
#include "transport/peer.h"

#define TFC__OFFERS_MAX 4                        /* of one connection */
#define TFC__OFFER_BYTES_MAX (UINT64_C(8) << 30) /* of one: more cannot be unpacked */
#define TFC__OFFER_IDLE_NS (60 * TFC__SECOND)    /* then one of which nothing comes ends */

/* Of what is not here yet, as far as clients offer it. What nodes and the node's own user offer is
 * not counted, so that clients cannot keep it out. */
#define TFC__OFFERS_KEY_MAX 32                     /* with one key, or of one user */
#define TFC__OFFERS_KEY_BYTES (UINT64_C(16) << 30) /* the same */
#define TFC__OFFERS_BYTES (UINT64_C(32) << 30)     /* of all */
#define TFC__METHOD_OFFER "gateway.offer"
#define TFC__METHOD_BUNDLE "gateway.bundle"

struct tfc__offers {
	tfc_ctx *ctx;
	struct tfc__bundles *bundles;
	uint64_t idle_ns; /* TFC__OFFER_IDLE_NS */
	struct tfc__link all;
};

void tfc__offers_init(struct tfc__offers *offers, tfc_ctx *ctx, struct tfc__bundles *bundles);
/* All that are open fail with `error`. */
void tfc__offers_close(struct tfc__offers *offers, const tfc_error *error);

/* Each answers its request in any case. `who` asks, and was found to be allowed to. */
void tfc__offers_serve(struct tfc__offers *offers, const struct tfc__peer_id *who,
		       struct tfc__rpc_request *request, const msgpack_object *params);
void tfc__offers_take(struct tfc__offers *offers, struct tfc__rpc_request *request,
		      const msgpack_object *params);

#endif
