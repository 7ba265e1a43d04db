/*
 * Questions about jobs of other nodes: the job is looked for, then its node is asked. And LIST
 * and JOBS, which all nodes answer together.
 */
#ifndef TFC_GATEWAY_FORWARD_H
#define TFC_GATEWAY_FORWARD_H

#include "gateway/gateway.h"
#include "gateway/members.h"
#include "gateway/remote_sub.h"

/* What it needs to know of its gateway; outlives what is forwarded. */
struct tfc__forwarder {
	tfc_ctx *ctx;
	struct tfc__directory *directory;
	struct tfc__gateway_members members;
	struct tfc__route route; /* of subscriptions to jobs of other nodes */
	/* Answers a question about a job that turned out to be here. */
	int (*answer)(struct tfc__directory *directory, const struct tfc__question *question,
		      struct tfc__request *request);
};

void tfc__forwarder_init(struct tfc__forwarder *forwarder);

/* About the job that question->job means, wherever it is. */
void tfc__forward(struct tfc__forwarder *forwarder, const struct tfc__question *question,
		  struct tfc__request *request);

/* A submit whose home is another node. */
void tfc__forward_submit(struct tfc__forwarder *forwarder, const struct tfc__question *question,
			 struct tfc__request *request);

/* listing.c: request->text is this node's list: those of the others, if there are any, are added,
 * and what goes around it; then the request ends. */
void tfc__forward_jobs(struct tfc__forwarder *forwarder, struct tfc__request *request);

#endif
