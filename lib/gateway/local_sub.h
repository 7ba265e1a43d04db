/* A subscription to a job of this node. */
#ifndef TFC_GATEWAY_LOCAL_SUB_H
#define TFC_GATEWAY_LOCAL_SUB_H

#include "gateway/gateway.h"
#include "gateway/place.h"

/* Without is_bare its events carry cursors; with it their writer asks for the mark. */
int tfc__local_subscribe(tfc_ctx *ctx, struct tfc__link *list, struct tfc__record *record,
			 const tfc_subscribe_options *options, bool is_bare, tfc_event_fn fn,
			 void *user, tfc_error *error, tfc_sub **ret_sub);

/* How far it is once the event being told is told; inside fn. */
struct tfc__mark {
	uint32_t next;
	bool is_gap_told;
	uint32_t task;           /* OUTPUT and GAP have a new piece; else UINT32_MAX */
	uint32_t ended_task;     /* its attempt has ended: no piece any more; else UINT32_MAX */
	struct tfc__piece piece; /* of task */
};
const struct tfc__mark *tfc__local_sub_mark(const tfc_sub *sub);

#endif
