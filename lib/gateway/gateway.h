/*
 * The inside of the gateway. tfc_gateway_open belongs to the node room, which knows where jobs are
 * kept; it makes the gateway with this.
 */
#ifndef TFC_GATEWAY_GATEWAY_H
#define TFC_GATEWAY_GATEWAY_H

#include "base/buf.h"
#include "base/list.h"
#include "cluster/directory.h"
#include "ctx/ctx.h"
#include <tfcluster/gateway.h>

struct tfc_gateway {
	tfc_ctx *ctx;
	struct tfc__directory *directory;
	struct tfc__link requests; /* under way: struct request */
	struct tfc__link subs;     /* open: struct tfc_sub, by its link */
};

int tfc__gateway_new(tfc_ctx *ctx, struct tfc__directory *directory, tfc_gateway **ret_gateway);

/* One job as a JSON object, as tfc_gateway_describe gives it. */
void tfc__describe(const struct tfc__record *record, struct tfc__buf *json);

/* "worker/0" of a job, as a task number, or UINT32_MAX. */
uint32_t tfc__find_task(const struct tfc__record *record, const char *name);

/* Closes a subscription whose gateway goes away. */
void tfc__sub_orphan(struct tfc__link *link);

#endif
