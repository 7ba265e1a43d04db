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
	struct tfc__directory *directory; /* NULL once its node is closed */
	struct tfc__directory_user closing;
	struct tfc__link requests; /* under way: struct request */
	struct tfc__link subs;     /* open: struct tfc_sub, by its link */
};

int tfc__gateway_new(tfc_ctx *ctx, struct tfc__directory *directory, tfc_gateway **ret_gateway);

/* One job as a JSON object, as tfc_gateway_describe gives it; with_doing: what its tasks do, too.
 */
void tfc__describe(const struct tfc__record *record, bool with_doing, struct tfc__buf *json);

/* "worker/0" of a job, as a task number, or UINT32_MAX. */
uint32_t tfc__find_task(const struct tfc__record *record, const char *name);

/* TFC_OK, or TFC_ESTATE and its sentence when the node is closed. */
int tfc__gateway_check(tfc_gateway *gateway);

/* Closes a subscription whose gateway or node goes away. */
void tfc__sub_orphan(struct tfc__link *link);

#endif
