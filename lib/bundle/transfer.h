/*
 * The transfer of an archive over a connection: from a client to a node, or from a maintainer's
 * node to the nodes of its tasks. The sender makes two calls:
 *
 *   bundle.offer {hash, size}       stays open as long as the sender wants the bundle kept. Its
 *                                   items are {at}: the receiver has so many bytes and wants the
 *                                   rest; or {ready}: the receiver has the bundle and has verified
 *                                   its hash. It fails when the bundle cannot be received
 *   bundle.chunk {hash, at, data}   part of a bundle that this connection offers. Its result is
 *                                   {done, taken, at}
 *
 * The offers of a connection end with it. A bundle that is only partly received is dropped with its
 * last user. An offer that receives no byte for a minute fails.
 */
#ifndef TFC_BUNDLE_TRANSFER_H
#define TFC_BUNDLE_TRANSFER_H

#include "bundle/cache.h"
#include "wire/fields.h"
#include "wire/rpc.h"

#define TFC__BUNDLE_PREFIX "bundle."
#define TFC__BUNDLE_OFFER "bundle.offer"
#define TFC__BUNDLE_CHUNK "bundle.chunk"

/* ---- messages */

struct tfc__bundle_offer {
	char hash[TFC_BUNDLE_HASH_SIZE];
	uint64_t size;
};
extern const struct tfc__fields tfc__bundle_offer_fields;

/* An item of an offer. */
struct tfc__bundle_offer_item {
	bool is_ready;
	uint64_t received; /* in bytes */
};
extern const struct tfc__fields tfc__bundle_offer_item_fields;

struct tfc__bundle_chunk {
	char hash[TFC_BUNDLE_HASH_SIZE];
	uint64_t at;
	const void *data;
	uint64_t len;
};
extern const struct tfc__fields tfc__bundle_chunk_fields;

struct tfc__bundle_chunk_result {
	bool is_done;      /* no more chunks are needed */
	bool is_accepted;  /* false: continue at `received` */
	uint64_t received; /* in bytes */
};
extern const struct tfc__fields tfc__bundle_chunk_result_fields;

/* ---- sending */

struct tfc__bundle_sender;

/* Called in dispatch, each as its last action there: each may close the sender. */
struct tfc__bundle_sender_ops {
	/*
	 * The receiver has the bundle, and keeps it while connection and sender last. May be NULL.
	 */
	void (*ready)(void *user);
	/* The transfer has failed; the handle is freed. TFC_ELOST: the connection was lost. */
	void (*failed)(void *user, const tfc_error *error);
	void (*moved)(void *user, uint64_t sent, uint64_t total); /* in bytes; may be NULL */
};

/*
 * Offers a READY bundle and sends the bytes that the receiver wants; the sender uses the bundle.
 * `ops` must live as long as the sender. TFC_ENOMEM, and the errors of tfc__rpc_call.
 */
int tfc__bundle_send(struct tfc__bundle *bundle, struct tfc__rpc *rpc,
		     const struct tfc__bundle_sender_ops *ops, void *user, tfc_error *error,
		     struct tfc__bundle_sender **ret_sender);
void tfc__bundle_sender_close(struct tfc__bundle_sender *sender); /* NULL is a no-op */

/* ---- receiving */

#define TFC__OFFERS_MAX 4                        /* per connection */
#define TFC__OFFER_BYTES_MAX (UINT64_C(8) << 30) /* per offer: the limit of unpacking */

/*
 * Limits on the unfinished transfers of clients. Offers of the node's own user are not counted, so
 * that clients cannot block that user.
 */
#define TFC__OFFERS_KEY_MAX 32                     /* with one key, or of one user */
#define TFC__OFFERS_KEY_BYTES (UINT64_C(16) << 30) /* as above, in bytes */
#define TFC__OFFERS_BYTES (UINT64_C(32) << 30)     /* of all clients, in bytes */

/*
 * The peer that makes an offer, after its permission was checked. For a member there are no limits.
 */
struct tfc__bundle_offerer {
	bool is_member;
	bool is_client; /* counted together with offers of the same key or user: */
	char key_id[17];
	uint32_t uid;
};

/* Each of the two always completes its request. */
void tfc__bundle_serve_offer(struct tfc__bundles *bundles,
			     const struct tfc__bundle_offerer *offerer,
			     struct tfc__rpc_request *request, const msgpack_object *params);
void tfc__bundle_serve_chunk(struct tfc__bundles *bundles, struct tfc__rpc_request *request,
			     const msgpack_object *params);

#endif
