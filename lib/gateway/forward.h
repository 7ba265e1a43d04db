/*
 * Requests about jobs of other nodes: finds the node that has the job, then calls it. Also JOBS,
 * which all nodes handle together.
 */
#ifndef TFC_GATEWAY_FORWARD_H
#define TFC_GATEWAY_FORWARD_H

#include "gateway/gateway.h"
#include "gateway/members.h"
#include "gateway/remote_sub.h"

/* What forwarding needs of its gateway. Outlives all forwarded requests. */
struct tfc__forwarder {
	tfc_ctx *ctx;
	struct tfc__directory *directory;
	struct tfc__gateway_members members;
	struct tfc__route route;     /* of subscriptions to jobs of other nodes */
	struct tfc__link *subs;      /* of the gateway, which has these subscriptions */
	struct tfc__link heartbeats; /* of the nodes that have the jobs */
	/* Handles a request about a job that the search found on this node. */
	int (*serve)(struct tfc__directory *directory, const struct tfc__request_params *params,
		     struct tfc__request *request);
};

void tfc__forwarder_init(struct tfc__forwarder *forwarder);
void tfc__forwarder_fini(struct tfc__forwarder *forwarder);

/* Forwards a request about params->job to the node that has the job. */
void tfc__forward(struct tfc__forwarder *forwarder, const struct tfc__request_params *params,
		  struct tfc__request *request);

/* Forwards a submit whose home is another node. */
void tfc__forward_submit(struct tfc__forwarder *forwarder, const struct tfc__request_params *params,
			 struct tfc__request *request);

/* In listing.c. request->text has `count` jobs of this node: adds those of the other members,
 * unless a member asks, and ends the request. */
void tfc__list_jobs(struct tfc__forwarder *forwarder, uint32_t count, bool is_forwarded,
		    struct tfc__request *request);

#endif
