/*
 * Quotas: what the clients of a node may make it hold, together, by key, and by connection.
 *
 * A client is a connection that came in with a submit or read key, or over unix from another user
 * than the node's or root. Connections of nodes are not counted, so that what clients take can
 * never keep them out. All accounts are sums that change with each event; nothing is scanned.
 */
#ifndef TFC_TRANSPORT_QUOTA_H
#define TFC_TRANSPORT_QUOTA_H

#include "ctx/ctx.h"

/* What a request is counted as from its arrival to its response, besides its own bytes: so there
 * is room for each short response. */
#define TFC__QUOTA_REQUEST_BYTES 4096

struct tfc__quota_limits {
	uint32_t connections;
	uint32_t key_connections;
	uint32_t requests; /* that are not answered yet, subscriptions among them */
	uint32_t key_requests;
	uint32_t connection_requests;
	uint64_t bytes; /* queued for clients, messages that have come in part, open requests */
	uint64_t key_bytes;
	uint64_t connection_bytes; /* queued; then the connection is not read from */
};

struct tfc__quota {
	struct tfc__quota_limits limits;
	uint32_t connections;
	uint32_t requests;
	uint64_t bytes;
	struct tfc__link keys;
	uint32_t waiting;      /* shares that wait for room */
	struct tfc__work wake; /* one of them */
};

/* One key, or one user of a unix socket, while it has connections. */
struct tfc__quota_key {
	struct tfc__link link; /* in quota->keys */
	uint32_t connections;
	uint32_t requests;
	uint64_t bytes;
	struct tfc__link waiting; /* struct tfc__quota_share */
	char name[24];
};

/* One connection's. Zeroed: it is not limited, and every call below is a no-op or says yes. */
struct tfc__quota_share {
	struct tfc__quota *quota;
	struct tfc__quota_key *key;
	uint32_t requests;
	uint64_t bytes;                               /* of its messages */
	struct tfc__link waiting;                     /* in key->waiting */
	void (*room)(struct tfc__quota_share *share); /* there may be room again; in dispatch */
};

/* Limits that are 0 get their defaults. */
void tfc__quota_init(struct tfc__quota *quota, tfc_ctx *ctx,
		     const struct tfc__quota_limits *limits);
void tfc__quota_fini(struct tfc__quota *quota); /* no share is left */

/* A connection of `key` ("key 0123456789abcdef", "uid 1000"): TFC_OK, TFC_EAGAIN, TFC_ENOMEM. */
int tfc__quota_join(struct tfc__quota *quota, const char *key,
		    void (*room)(struct tfc__quota_share *share), struct tfc__quota_share *share,
		    tfc_error *error);
void tfc__quota_leave(struct tfc__quota_share *share); /* twice is harmless */

/* A request of so many bytes has come: TFC_OK, or TFC_EAGAIN; and is answered. */
int tfc__quota_begin_request(struct tfc__quota_share *share, size_t len, tfc_error *error);
void tfc__quota_end_request(struct tfc__quota_share *share, size_t len);
/* It counts as `to` bytes from now on, instead of `from`: TFC_OK, or TFC_EAGAIN and it does not. */
int tfc__quota_resize_request(struct tfc__quota_share *share, size_t from, size_t to,
			      tfc_error *error);

/* The bytes that its messages take now, in both directions. */
void tfc__quota_set_bytes(struct tfc__quota_share *share, uint64_t bytes);

/* Whether its messages may take `len` bytes more: TFC_OK, or TFC_EAGAIN. */
int tfc__quota_check(const struct tfc__quota_share *share, uint64_t len, tfc_error *error);

/* Whether there is room for another item of a stream; if not, share->room is called later. */
bool tfc__quota_has_room(struct tfc__quota_share *share);

#endif
