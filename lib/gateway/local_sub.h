/* A subscription to a job of this node. */
#ifndef TFC_GATEWAY_LOCAL_SUB_H
#define TFC_GATEWAY_LOCAL_SUB_H

#include "gateway/gateway.h"
#include "gateway/place.h"

/* Logs in the middle of being read, over all subscriptions of a gateway: each is a file that is
 * open, and a buffer, so there are only so many. Zeroed at first. */
struct tfc__local_reading {
	uint32_t count;
	struct tfc__link waiting; /* subscriptions that would read one more */
};

/* Without is_bare its events carry cursors; with it who passes them on asks for tfc__sub_mark. */
int tfc__local_subscribe(tfc_ctx *ctx, struct tfc__link *list, struct tfc__local_reading *reading,
			 struct tfc__record *record, const tfc_subscribe_options *options,
			 bool is_bare, tfc_event_fn fn, void *user, tfc_error *error,
			 tfc_sub **ret_sub);

#endif
