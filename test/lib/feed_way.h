/*
 * The way of a producer on another machine to the broker of feed_queue.h, in one context: a gateway
 * that is one node, which passes calls on to the node of the task. Connections are pairs
 * (rpc_pair.h).
 */
#ifndef TEST_LIB_FEED_WAY_H
#define TEST_LIB_FEED_WAY_H

#include "feed/broker.h"
#include "feed/remote.h"
#include "feed/service.h"
#include "rpc_pair.h"

#define WAY_JOB "0123456789abcdef"

struct feed_way {
	tfc_gateway gateway;
	struct rpc_pair pairs[2];              /* producer to node "g", node "g" to node "t" */
	struct tfc__feed_service *services[2]; /* of "g" and "t" */
	char node[64];                         /* "t", and what makes its address one of a kind */
	int refusal;                           /* for the producer: a code below 0 */
};

/* TFC_OK or TFC_ENOMEM: then nothing is left. */
int feed_way_open(struct feed_way *way, tfc_ctx *ctx, const char *node);
void feed_way_close(struct feed_way *way);
/* What a producer asks for: a stream to queue "train" of "worker/0". */
struct tfc__feed_connect feed_way_connect(const struct feed_way *way);

#endif
