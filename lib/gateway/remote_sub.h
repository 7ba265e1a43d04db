/*
 * A subscription to a job whose maintainer is reached by RPC. It outlives connections: after a lost
 * connection it continues on the next one from the position that it has reached, so that each event
 * is reported once. Its memory is bounded by the stream's credit.
 */
#ifndef TFC_GATEWAY_REMOTE_SUB_H
#define TFC_GATEWAY_REMOTE_SUB_H

#include "base/clock.h"
#include "gateway/gateway.h"
#include "gateway/internal.h"
#include "wire/rpc.h"

struct tfc__remote_sub;

/* How long a subscription waits by default for a node that it followed. */
#define TFC__RECONNECT_MS 300000
#define TFC__QUIET_NS (3 * TFC__SECOND) /* a shorter interruption is not logged */

/* How a subscription gets its connection; embedded in the object that owns the connection. */
struct tfc__route {
	/* Calls tfc__remote_sub_begin or tfc__remote_sub_failed, in this call or later. */
	void (*find)(struct tfc__route *route, struct tfc__remote_sub *sub, const char *job);
	/* Cancels `find`. NULL: there is nothing to cancel. */
	void (*cancel)(struct tfc__route *route, struct tfc__remote_sub *sub);
	/* The connection is lost, or cannot be made; it is retried. NULL: not reported. */
	void (*lost)(struct tfc__route *route, const tfc_error *error);
	uint32_t patience_ms; /* how long to retry before the subscription ends with LOST */
	uint32_t window;      /* items in flight or buffered here */
	bool is_forwarded;    /* it leads to a member, which must not forward the request */
	bool is_low_priority; /* the watch of a client, with a call to each member */
};

/* job NULL: a watch of all jobs. `route` must live until the subscription is detached. TFC_ENOMEM.
 */
int tfc__remote_subscribe(tfc_ctx *ctx, struct tfc__link *list, struct tfc__route *route,
			  const char *job, const tfc_subscribe_options *options, bool is_bare,
			  tfc_event_fn fn, void *user, tfc_error *error, tfc_sub **ret_sub);

/* In place of route->patience_ms: as long as the client waits whose subscription this is. */
void tfc__remote_sub_set_patience(tfc_sub *sub, uint32_t patience_ms);

/* The name of the node that has the job. */
void tfc__remote_sub_set_node(struct tfc__remote_sub *sub, const char *node);

void tfc__remote_sub_begin(struct tfc__remote_sub *sub, struct tfc__rpc *rpc, const char *id);
void tfc__remote_sub_failed(struct tfc__remote_sub *sub, const tfc_error *error);

/* The connection over which it has an open call. NULL: none, or it is not a subscription of this
 * route. */
struct tfc__rpc *tfc__remote_sub_rpc(const tfc_sub *sub, const struct tfc__route *route);

/* The node at the other end of the connection, which is open, does not respond; and responds again.
 * node: its name, or "". */
void tfc__remote_sub_set_silent(tfc_sub *sub, const char *node, const tfc_error *error);
void tfc__remote_sub_set_responding(tfc_sub *sub);

tfc_sub *tfc__remote_sub_base(struct tfc__remote_sub *sub);

/* A pointer for the route's own use. */
void tfc__remote_sub_set_slot(struct tfc__remote_sub *sub, void *slot);
void *tfc__remote_sub_slot(const struct tfc__remote_sub *sub);

/* up: the connection is established; a subscription that backs off or waits continues at once.
 * down: no connection can be established; a subscription that waits for one fails or retries. */
void tfc__remote_sub_up(tfc_sub *sub, struct tfc__rpc *rpc);
void tfc__remote_sub_down(tfc_sub *sub, const tfc_error *error);

#endif
