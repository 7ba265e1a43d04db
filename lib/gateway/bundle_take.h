/* Pieces of archives that come over a connection (bundle_send.h), on their way to the disk. */
#ifndef TFC_GATEWAY_BUNDLE_TAKE_H
#define TFC_GATEWAY_BUNDLE_TAKE_H

#include "bundle/cache.h"
#include "wire/rpc.h"

/* The hash that a request names under `key`: TFC_OK, or TFC_EINVAL and "": it is none. */
int tfc__bundle_hash_read(const msgpack_object *params, const char *key,
			  char hash[TFC_BUNDLE_HASH_SIZE], tfc_error *error);

/* A piece of the bundle that has the `hash` in params; answered in any case, once there is room for
 * more: with {done, taken, at}, or TFC_EINVAL (no hash), TFC_ENOENT (nobody wants it), what
 * tfc__bundle_write gives. */
void tfc__bundle_take(const struct tfc__bundles *bundles, struct tfc__rpc_request *request,
		      const msgpack_object *params);

#endif
