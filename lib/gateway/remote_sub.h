/*
 * A subscription to a job whose maintainer is behind calls. It outlives connections: what was not
 * told when one is lost is asked for again on the next, from the place that was reached, so that
 * each event is told once. Its memory is bounded by the stream's credit.
 */
#ifndef TFC_GATEWAY_REMOTE_SUB_H
#define TFC_GATEWAY_REMOTE_SUB_H

#include "base/clock.h"
#include "gateway/gateway.h"
#include "gateway/internal.h"
#include "wire/rpc.h"

struct tfc__remote_sub;

#define TFC__QUIET_NS (3 * TFC__SECOND) /* a node that is back so soon is not worth a line */

/* How it gets its connection; embedded in whoever owns that. */
struct tfc__route {
	/* Answers with tfc__remote_sub_go or tfc__remote_sub_failed, now or later. */
	void (*find)(struct tfc__route *route, struct tfc__remote_sub *sub, const char *job);
	/* The subscription does not wait for that any more. */
	void (*forget)(struct tfc__route *route, struct tfc__remote_sub *sub);
	uint32_t patience_ms; /* for how long in vain until it is told LOST */
	uint32_t window;      /* items on their way or held here */
	bool is_forwarded;    /* it leads to a member, which is not to pass the question on */
};

/* `route` must live until the subscription is detached. TFC_ENOMEM. */
int tfc__remote_subscribe(tfc_ctx *ctx, struct tfc__link *list, struct tfc__route *route,
			  const char *job, const tfc_subscribe_options *options, bool is_bare,
			  tfc_event_fn fn, void *user, tfc_error *error, tfc_sub **ret_sub);

void tfc__remote_sub_go(struct tfc__remote_sub *sub, struct tfc__rpc *rpc, const char *id);
void tfc__remote_sub_failed(struct tfc__remote_sub *sub, const tfc_error *error);

/* A word of the route's, for its own use. */
void tfc__remote_sub_set_slot(struct tfc__remote_sub *sub, void *slot);
void *tfc__remote_sub_slot(const struct tfc__remote_sub *sub);

/* The connection is there: goes now rather than after its pause. Or it cannot be made: one that
 * waits for it is told so. */
void tfc__remote_sub_kick(tfc_sub *sub, struct tfc__rpc *rpc);
void tfc__remote_sub_down(tfc_sub *sub, const tfc_error *error);

#endif
