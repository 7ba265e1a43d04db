/* The gateway of a node in this process: serves the node's own program, and the service for clients
 * and members. */
#ifndef TFC_GATEWAY_LOCAL_H
#define TFC_GATEWAY_LOCAL_H

#include "gateway/gateway.h"
#include "gateway/members.h"

/* members NULL: the node is alone. TFC_ENOMEM. */
int tfc__gateway_new(tfc_ctx *ctx, struct tfc__directory *directory,
		     const struct tfc__gateway_members *members, tfc_gateway **ret_gateway);

/* Subscribes to a job of this node, or else to the job of a member; is_bare as in
 * tfc__local_subscribe. */
int tfc__gateway_follow(tfc_gateway *gateway, const struct tfc__request_params *params,
			bool is_bare, tfc_event_fn fn, void *user, tfc_error *error,
			tfc_sub **ret_sub);

/* The directory, or NULL once its node is closed. */
struct tfc__directory *tfc__gateway_directory(tfc_gateway *gateway);

#endif
