/*
 * An archive on its way over a connection: in pieces, a few at a time, each of which is answered
 * once it was taken there (bundle_take.h).
 */
#ifndef TFC_GATEWAY_BUNDLE_SEND_H
#define TFC_GATEWAY_BUNDLE_SEND_H

#include "bundle/cache.h"
#include "wire/rpc.h"

struct tfc__bundle_send;

struct tfc__bundle_send_options {
	struct tfc__rpc *rpc;
	const char *method; /* with a map: hash, at, data, instance; a literal */
	uint64_t instance;  /* of the sender, where the method wants one */
	uint64_t at;        /* bytes of it that are there */
	/* Once, in dispatch: nothing is left to send (error NULL), or it goes no further. The
	 * handle is gone then. */
	void (*end)(void *user, const tfc_error *error);
	void (*moved)(void *user, uint64_t at); /* bytes that are there; NULL: nobody asks */
	void *user;
};

/* Of a bundle that is READY, which it uses. *ret_send NULL: all is there already. TFC_ENOMEM,
 * TFC_ENOENT and the like (its file), those of tfc__rpc_call. */
int tfc__bundle_send(struct tfc__bundle *bundle, const struct tfc__bundle_send_options *options,
		     tfc_error *error, struct tfc__bundle_send **ret_send);
void tfc__bundle_send_close(struct tfc__bundle_send *send); /* NULL is a no-op */

#endif
