/*
 * Quotas limit what the clients of a node can make it hold: all clients together, by key, and by
 * connection.
 *
 * A client is a connection with a submit key or a read key, or one without a key from another user
 * than the node's or root. Connections of nodes are not counted, so clients can never keep nodes
 * out. Each account is a sum that every event updates; nothing is scanned.
 */
#ifndef TFC_TRANSPORT_QUOTA_H
#define TFC_TRANSPORT_QUOTA_H

#include "ctx/ctx.h"

/* Bytes counted for a request from its arrival to its response, besides its own length. They cover
 * every short response. */
#define TFC__QUOTA_REQUEST_BYTES 4096

struct tfc__quota_limits {
	uint32_t connections;
	uint32_t key_connections;
	uint32_t requests; /* open requests, including subscriptions */
	uint32_t key_requests;
	uint32_t connection_requests;
	uint64_t bytes; /* queued for clients, partly received, and of open requests */
	uint64_t key_bytes;
	uint64_t connection_bytes; /* queued; above the limit the connection is not read */
};

struct tfc__quota {
	struct tfc__quota_limits limits;
	uint32_t connections;
	uint32_t requests;
	uint64_t bytes;
	struct tfc__link keys;
	uint32_t waiting;      /* number of shares that wait for room */
	struct tfc__work wake; /* notifies one waiting share */
};

/* One key, or one user without a key, as long as it has connections. */
struct tfc__quota_key {
	struct tfc__link link; /* in quota->keys */
	uint32_t connections;
	uint32_t requests;
	uint64_t bytes;
	struct tfc__link waiting; /* of struct tfc__quota_share */
	char name[24];
};

/* The share of one connection. A zeroed share is not limited: every function below succeeds and
 * does nothing. */
struct tfc__quota_share {
	struct tfc__quota *quota;
	struct tfc__quota_key *key;
	uint32_t requests;
	uint64_t bytes;                               /* of the connection's messages */
	struct tfc__link waiting;                     /* in key->waiting */
	void (*room)(struct tfc__quota_share *share); /* in dispatch: there may be room again */
};

/* A limit of 0 is replaced by its default. */
void tfc__quota_init(struct tfc__quota *quota, tfc_ctx *ctx,
		     const struct tfc__quota_limits *limits);
void tfc__quota_fini(struct tfc__quota *quota); /* all shares must have left */

/* Adds a connection of `key` ("key 0123456789abcdef", "uid 1000"). Returns TFC_OK, TFC_EAGAIN
 * (limit reached) or TFC_ENOMEM. */
int tfc__quota_join(struct tfc__quota *quota, const char *key,
		    void (*room)(struct tfc__quota_share *share), struct tfc__quota_share *share,
		    tfc_error *error);
void tfc__quota_leave(struct tfc__quota_share *share); /* a second call is a no-op */

/* Counts a request of `len` bytes that was received, until tfc__quota_end_request. Returns TFC_OK
 * or TFC_EAGAIN. */
int tfc__quota_begin_request(struct tfc__quota_share *share, size_t len, tfc_error *error);
void tfc__quota_end_request(struct tfc__quota_share *share, size_t len);
/* Counts the request as `to` bytes instead of `from`. Returns TFC_OK, or TFC_EAGAIN and changes
 * nothing. */
int tfc__quota_resize_request(struct tfc__quota_share *share, size_t from, size_t to,
			      tfc_error *error);

/* Sets the number of bytes that the connection's messages occupy, in both directions. */
void tfc__quota_set_bytes(struct tfc__quota_share *share, uint64_t bytes);

/* Whether the connection's messages may occupy `len` more bytes: TFC_OK or TFC_EAGAIN. */
int tfc__quota_check(const struct tfc__quota_share *share, uint64_t len, tfc_error *error);

/* Whether a stream may send another item. If not, share->room is called later. */
bool tfc__quota_has_room(struct tfc__quota_share *share);

#endif
